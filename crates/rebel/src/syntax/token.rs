//! Tokens.

use logos::Logos;

use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;

macro_rules! tokens {
    ($($(#[$attribute:meta])* $name:ident = $shown:literal,)*) => {
        /// What the source consists of, besides blanks and comments.
        #[derive(Logos, Clone, Copy, Debug, PartialEq, Eq)]
        #[logos(skip r"[ \t\r\n\f]+")]
        #[logos(skip(r"//[^\n]*", allow_greedy = true))]
        #[logos(skip r"/\*([^*]|\*+[^*/])*\*+/")]
        pub(crate) enum Token { $($(#[$attribute])* $name,)* }

        impl Token {
            /// How a message speaks of it.
            pub(crate) fn shown(self) -> &'static str {
                match self { $(Token::$name => $shown,)* }
            }
        }
    };
}

tokens! {
    #[regex(r"///[^\n]*", priority = 100, allow_greedy = true)] Documentation = "documentation",

    // A comment that does not end, up to the end of the source.
    #[regex(r"/\*([^*]|\*+[^*/])*\**")] Unended = "a comment that does not end",

    #[token("class")] Class = "`class`",
    #[token("enum")] Enum = "`enum`",
    #[token("const")] Const = "`const`",
    #[token("fn")] Fn = "`fn`",
    #[token("rounding")] Rounding = "`rounding`",
    #[token("invariant")] Invariant = "`invariant`",
    #[token("initial")] Initial = "`initial`",
    #[token("final")] Final = "`final`",
    #[token("internal")] Internal = "`internal`",
    #[token("on")] On = "`on`",
    #[token("pre")] Pre = "`pre`",
    #[token("post")] Post = "`post`",
    #[token("sync")] Sync = "`sync`",
    #[token("if")] If = "`if`",
    #[token("then")] Then = "`then`",
    #[token("else")] Else = "`else`",
    #[token("for")] For = "`for`",
    #[token("in")] In = "`in`",
    #[token("not")] Not = "`not`",
    #[token("and")] And = "`and`",
    #[token("or")] Or = "`or`",
    #[token("initialized")] Initialized = "`initialized`",
    #[token("instate")] InState = "`instate`",
    #[token("this")] This = "`this`",
    #[token("now")] Now = "`now`",
    #[token("today")] Today = "`today`",
    #[token("true")] True = "`true`",
    #[token("false")] False = "`false`",
    #[token("@identity")] Identity = "`@identity`",
    #[token("@personal")] Personal = "`@personal`",
    #[regex("@[A-Za-z_][A-Za-z0-9_]*")] Annotation = "an annotation",

    #[regex("[A-Za-z_][A-Za-z0-9_]*")] Name = "a name",
    #[regex(r"[A-Z][A-Z][A-Z][ \t]+-?[0-9]+(\.[0-9]+)?")]
    #[regex(r"€[ \t]*-?[0-9]+(\.[0-9]+)?")] Money = "an amount of money",
    #[regex(r"[0-9]+(\.[0-9]+)?%")] Percentage = "a percentage",
    #[regex(r"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]")] Date = "a date",
    #[regex("[0-9]+")] Integer = "a number",
    #[regex(r"[0-9]+\.[0-9]+")] Decimal = "a number with decimals",
    #[regex(r#""([^"\\\n]|\\[^\n])*""#)] Text = "a text",

    #[token("(")] LeftParenthesis = "`(`",
    #[token(")")] RightParenthesis = "`)`",
    #[token("{")] LeftBrace = "`{`",
    #[token("}")] RightBrace = "`}`",
    #[token("[")] LeftBracket = "`[`",
    #[token("]")] RightBracket = "`]`",
    #[token(",")] Comma = "`,`",
    #[token(":")] Colon = "`:`",
    #[token(".")] Dot = "`.`",
    #[token("..")] To = "`..`",
    #[token("..<")] Below = "`..<`",
    #[token("=")] Equals = "`=`",
    #[token("==")]
    #[token("≡")] Equal = "`==`",
    #[token("!=")]
    #[token("≠")] Unequal = "`!=`",
    #[token("<")] Less = "`<`",
    #[token("<=")]
    #[token("≤")] LessOrEqual = "`<=`",
    #[token(">")] Greater = "`>`",
    #[token(">=")]
    #[token("≥")] GreaterOrEqual = "`>=`",
    #[token("+")] Plus = "`+`",
    #[token("-")] Minus = "`-`",
    #[token("*")] Times = "`*`",
    #[token("/")] Slash = "`/`",
    #[token("??")] Otherwise = "`??`",
    #[token("?")] Question = "`?`",
    #[token("!")] Bang = "`!`",
    #[token("+=")] PlusEquals = "`+=`",
    #[token("-=")] MinusEquals = "`-=`",
    #[token("->")] Arrow = "`->`",

    /// A name by itself; see where words that are none elsewhere are found.
    Migrate = "`migrate`",

    End = "the end of the file",
}

impl Token {
    /// Whether a part of a class or a declaration begins here: where the parser resumes after an error.
    pub(crate) fn begins_part(self) -> bool {
        matches!(
            self,
            Token::Class
                | Token::Enum
                | Token::Const
                | Token::Fn
                | Token::Rounding
                | Token::Migrate
                | Token::Invariant
                | Token::Initial
                | Token::Final
                | Token::Internal
                | Token::On
                | Token::Pre
                | Token::Post
                | Token::Sync
                | Token::End
        )
    }
}

/// The tokens of a source, documentation apart, ended by [`Token::End`].
pub(crate) struct Tokens {
    pub(crate) tokens: Vec<(Token, Span)>,
    /// Documentation by the index of the token it stands before.
    pub(crate) documentation: Vec<(usize, String)>,
    /// The indices of the tokens that something stands before which is no token, in order.
    pub(crate) behind_unknown: Vec<usize>,
}

/// Splits `text` into tokens; what is none is reported and left out.
pub(crate) fn tokenize(source: usize, text: &str, report: &mut impl FnMut(Diagnostic)) -> Tokens {
    let mut tokens = Tokens { tokens: Vec::new(), documentation: Vec::new(), behind_unknown: Vec::new() };
    let mut unknown: Option<Span> = None;
    for (token, range) in Token::lexer(text).spanned() {
        let span = Span { source, start: range.start, end: range.end };
        match token {
            Ok(Token::Documentation) => {
                let line = text[range].trim_start_matches('/').trim();
                match tokens.documentation.last_mut() {
                    Some((index, lines)) if *index == tokens.tokens.len() => {
                        lines.push('\n');
                        lines.push_str(line);
                    }
                    _ => tokens.documentation.push((tokens.tokens.len(), line.to_owned())),
                }
            }
            Ok(token) if token != Token::Unended => tokens.tokens.push((token, span)),
            _ => {
                if tokens.behind_unknown.last() != Some(&tokens.tokens.len()) {
                    tokens.behind_unknown.push(tokens.tokens.len());
                }
                match &mut unknown {
                    // A run of foreign characters is one finding.
                    Some(run) if run.end == span.start => run.end = span.end,
                    _ => {
                        if let Some(run) = unknown.replace(span) {
                            report(unknown_character(run, text));
                        }
                    }
                }
            }
        }
    }
    if let Some(run) = unknown {
        report(unknown_character(run, text));
    }
    tokens.tokens.push((Token::End, Span { source, start: text.len(), end: text.len() }));
    tokens
}

fn unknown_character(span: Span, text: &str) -> Diagnostic {
    let found = &text[span.start..span.end];
    let diagnostic = |message: &str, help: &str| {
        Diagnostic::new(Code::UnknownCharacter, span, message, "not part of the language").help(help)
    };
    let first = found.chars().next().unwrap_or(' ');
    match first {
        '"' => diagnostic("this text does not end", "end it with `\"` on the same line"),
        '/' if found.starts_with("/*") => diagnostic("this comment does not end", "end it with `*/`"),
        '&' => diagnostic("`&&` is written `and`", "write `and`").edit(span, "and"),
        '|' => diagnostic("`||` is written `or`", "write `or`").edit(span, "or"),
        ';' => diagnostic("there is no `;`", "leave it out").edit(span, ""),
        '@' => diagnostic("unknown annotation", "there are `@identity` and `@personal`"),
        '$' | '£' | '¥' => diagnostic("only `€` stands for a currency", "write the code, as in `USD 5.00`"),
        '%' => diagnostic("a percentage has no blank before `%`", "write it as in `2.5%`"),
        c if c.is_alphabetic() => diagnostic(
            "names consist of ASCII letters, digits and `_`",
            "rename it; documentation and texts may use any letter",
        ),
        c => diagnostic(&format!("unexpected character `{}`", c.escape_debug()), "remove it"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The texts of the tokens, and what stands before each.
    fn pieces(text: &str) -> Vec<(&str, &str)> {
        let mut end = 0;
        let tokens = tokenize(0, text, &mut |_| {}).tokens;
        let piece = |(_, span): (Token, Span)| {
            let gap = &text[std::mem::replace(&mut end, span.end)..span.start];
            (gap, &text[span.start..span.end])
        };
        tokens.into_iter().map(piece).collect()
    }

    #[test]
    fn what_stands_between_tokens_is_blank_or_a_comment() {
        let text = "class A // one\n  /* two\n */ n: Integer = 12.50 /// three\n  initial a\n";
        let gaps: Vec<&str> =
            pieces(text).into_iter().map(|(gap, _)| gap.trim()).filter(|gap| !gap.is_empty()).collect();
        assert_eq!(gaps, ["// one\n  /* two\n */", "/// three"]);
    }

    proptest! {
        #[test]
        fn tokens_and_what_stands_between_them_give_back_the_source(text in "\\PC*|[a-z0-9.\"/*?!\\- \\n:(){}€]*") {
            let whole: String = pieces(&text).into_iter().flat_map(|(gap, token)| [gap, token]).collect();
            prop_assert_eq!(whole, text);
        }
    }
}
