//! Which tokens stand apart.

use crate::source::Span;
use crate::syntax::token::Token;

/// Whether the last of `before` is an operand's last token, so that a minus behind it subtracts.
fn ends_operand(token: Token) -> bool {
    matches!(
        token,
        Token::Name
            | Token::Money
            | Token::Percentage
            | Token::Date
            | Token::Integer
            | Token::Decimal
            | Token::Bang
            | Token::Text
            | Token::RightParenthesis
            | Token::RightBrace
            | Token::RightBracket
            | Token::This
            | Token::Now
            | Token::Today
            | Token::True
            | Token::False
    )
}

/// The declaration that a token belongs to, where that decides about blanks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Within {
    /// Its braces have blanks inside, those of a set have none.
    Enum,
    /// Its `-` joins two words.
    Rounding,
    /// The parenthesis behind `with`, which is no name that is called.
    With,
    /// It stands apart from what is before it.
    Apart,
    Other,
}

/// For each token, what it belongs to.
pub(super) fn within(text: &str, tokens: &[(Token, Span)]) -> Vec<Within> {
    let joins = |index: usize| index >= 2 && tokens[index].0 == Token::Minus && tokens[index - 2].0 == Token::Rounding;
    let is_with = |index: usize| {
        let word = |index: usize| &text[tokens[index].1.start..tokens[index].1.end];
        index >= 2
            && tokens[index].0 == Token::LeftParenthesis
            && word(index - 1) == "with"
            && ends_operand(tokens[index - 2].0)
    };
    let mut is_enum = false;
    let found = tokens.iter().enumerate().map(|(index, (token, _))| {
        is_enum |= *token == Token::Enum;
        let within = match is_enum {
            true => Within::Enum,
            false if is_with(index) => Within::With,
            false if joins(index) || index > 0 && joins(index - 1) => Within::Rounding,
            false => Within::Other,
        };
        is_enum &= *token != Token::RightBrace;
        within
    });
    found.collect()
}

/// Whether a blank stands between two neighbours on one line, the first of which comes after `earlier`.
pub(super) fn is_apart(earlier: Option<Token>, first: Token, second: Token, within: Within) -> bool {
    let is_sign = first == Token::Minus && !earlier.is_some_and(ends_operand);
    match (first, second) {
        _ if within == Within::Apart => true,
        _ if is_sign => false,
        (Token::Name, Token::LeftParenthesis) if within == Within::With => true,
        (Token::Minus, _) | (_, Token::Minus) => within != Within::Rounding,
        (Token::LeftBrace, _) | (_, Token::RightBrace) => within == Within::Enum,
        (Token::LeftParenthesis | Token::LeftBracket | Token::Dot, _)
        | (
            _,
            Token::RightParenthesis
            | Token::RightBracket
            | Token::Comma
            | Token::Colon
            | Token::Dot
            | Token::Bang
            | Token::Question,
        )
        | (Token::Name, Token::LeftParenthesis | Token::LeftBracket)
        | (Token::Personal, Token::LeftParenthesis) => false,
        _ => true,
    }
}
