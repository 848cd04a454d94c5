//! Where lines begin, and how each token is spelled.

use std::borrow::Cow;
use std::ops::Range;

use super::WIDTH;
use super::comments::Gap;
use super::spacing::{Within, is_apart, within};
use crate::source::Span;
use crate::syntax::Parse;
use crate::syntax::breaks::{Block, Owner};
use crate::syntax::token::Token;

/// Blanks a level.
const STEP: usize = 2;

/// What is printed for each token.
pub(super) struct Plan<'a> {
    /// The token's text; empty if it is left out.
    pub(super) texts: Vec<Cow<'a, str>>,
    /// How deep the line is indented that begins with the token, if one does.
    pub(super) starts: Vec<Option<usize>>,
    pub(super) gaps: Vec<Gap<'a>>,
    pub(super) within: Vec<Within>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(text: &'a str, parse: &Parse, canonical: bool) -> Self {
        let count = parse.tokens.len();
        let mut plan = Self {
            texts: parse.tokens.iter().map(|(token, span)| spelled(*token, &text[span.start..span.end])).collect(),
            starts: vec![None; count],
            gaps: gaps(text, &parse.tokens),
            within: within(text, &parse.tokens),
        };
        for &token in &parse.breaks.apart {
            plan.within[token] = Within::Apart;
        }
        for &(token, level) in &parse.breaks.lines {
            plan.starts[token] = Some(level * STEP);
        }
        if canonical {
            plan.spell_one_way(parse);
        }
        plan.lay_out_blocks(parse);
        plan
    }

    fn spell_one_way(&mut self, parse: &Parse) {
        for (index, (token, _)) in parse.tokens.iter().enumerate() {
            let spelling = match token {
                Token::Equal => "==",
                Token::Unequal => "!=",
                Token::LessOrEqual => "<=",
                Token::GreaterOrEqual => ">=",
                Token::InState => "is",
                Token::Money => {
                    if let Some(amount) = self.texts[index].strip_prefix('€') {
                        self.texts[index] = format!("EUR {amount}").into();
                    }
                    continue;
                }
                _ => continue,
            };
            self.texts[index] = spelling.into();
        }
        // `initialized x` asks what `x is initialized` asks.
        for index in 0..parse.tokens.len() {
            let follows_is = index > 0 && self.texts[index - 1] == "is";
            if parse.tokens[index].0 == Token::Initialized && !follows_is && self.stands_alone(parse, index) {
                self.texts[index] = std::mem::take(&mut self.texts[index + 1]);
                self.texts[index + 1] = "is initialized".into();
            }
        }
        let items = parse.breaks.blocks.iter().flat_map(|block| &block.items);
        for effect in items.filter(|item| parse.tokens[item.first].0 == Token::This) {
            let operator = effect.first + 3;
            if parse.tokens[operator].0 == Token::Equal {
                self.texts[operator] = "=".into();
            }
        }
    }

    /// Whether `initialized x` at `index` is no operand of an operator that binds as strongly as `is`, and `x` no path.
    fn stands_alone(&self, parse: &Parse, index: usize) -> bool {
        let binds = |token: Token| {
            use Token::{
                Equal, Greater, GreaterOrEqual, In, InState, Less, LessOrEqual, Minus, Otherwise, Plus, Slash, Times,
                Unequal,
            };
            let compares =
                matches!(token, Equal | Unequal | Less | LessOrEqual | Greater | GreaterOrEqual | In | InState);
            compares || matches!(token, Plus | Minus | Times | Slash | Otherwise | Token::To | Token::Below)
        };
        let follows = parse.tokens[index + 2].0;
        let goes_on = matches!(follows, Token::Dot | Token::LeftBracket | Token::LeftParenthesis);
        let before = index.checked_sub(1).map(|before| parse.tokens[before].0);
        !before.is_some_and(binds) && !binds(follows) && !goes_on && self.texts[index + 2] != "is"
    }

    /// Gives the items of blocks lines of their own where they do not stay on one.
    fn lay_out_blocks(&mut self, parse: &Parse) {
        let mut indents = vec![0; parse.tokens.len()];
        for block in &parse.breaks.blocks {
            let first = block.items[0].first;
            let keyword = first.saturating_sub(2);
            let (owner, indent) = match block.owner {
                Owner::Conditions => {
                    (keyword, self.starts[keyword].unwrap_or_default() + width(&self.texts[keyword]) + 2)
                }
                Owner::Calls => (keyword, self.starts[keyword].unwrap_or_default() + STEP),
                Owner::Statement { of } => (of, indents[of] + STEP),
                Owner::Otherwise { of, word } => {
                    if !self.stays_behind(parse, block, of, word, indents[of]) {
                        self.starts[word] = Some(indents[of]);
                    }
                    (word, indents[of] + STEP)
                }
            };
            block.items.iter().for_each(|item| indents[item.first] = indent);
            if !self.stays_on_one_line(parse, block, owner, indent) {
                self.break_up(parse, block, indent);
            }
        }
    }

    /// Whether the `else` that is the token `word` stays on the line of its `if`.
    fn stays_behind(&self, parse: &Parse, block: &Block, of: usize, word: usize, indent: usize) -> bool {
        let is_broken = (of + 1..=word).any(|token| self.starts[token].is_some());
        !is_broken && self.is_written_on_one_line(of, word + 1) && self.fits(parse, of..block.end, indent)
    }

    /// Whether the tokens behind the one at `owner`, up to `end`, stand on its line, without comments.
    fn is_written_on_one_line(&self, owner: usize, end: usize) -> bool {
        (owner + 1..end).all(|token| {
            let gap = &self.gaps[token];
            !gap.breaks_line && gap.comments.is_empty()
        })
    }

    fn fits(&self, parse: &Parse, tokens: Range<usize>, indent: usize) -> bool {
        indent + self.flat_width(parse, tokens) <= WIDTH
    }

    fn stays_on_one_line(&self, parse: &Parse, block: &Block, owner: usize, indent: usize) -> bool {
        let first = block.items[0].first;
        let is_written_so = self.is_written_on_one_line(owner, block.end);
        let is_simple = !matches!(parse.tokens[first].0, Token::If | Token::For);
        let may_stay = match block.owner {
            Owner::Conditions => block.items.len() == 1 || is_written_so,
            Owner::Calls => {
                block.items.len() == 1 && (is_simple || is_written_so) && self.gaps[first].comments.is_empty()
            }
            Owner::Statement { .. } | Owner::Otherwise { .. } => block.items.len() == 1 && is_written_so,
        };
        // One condition has nowhere else to stand.
        let is_alone = block.owner == Owner::Conditions && block.items.len() == 1;
        may_stay && (is_alone || self.fits(parse, owner..block.end, indent))
    }

    fn break_up(&mut self, parse: &Parse, block: &Block, indent: usize) {
        for (index, item) in block.items.iter().enumerate() {
            if index > 0 || block.owner != Owner::Conditions {
                self.starts[item.first] = Some(indent);
            }
            let has_comma = parse.tokens[item.separator].0 == Token::Comma && item.separator != item.first;
            if has_comma {
                self.texts[item.separator] = "".into();
            }
        }
    }

    /// How wide the tokens are on one line.
    pub(super) fn flat_width(&self, parse: &Parse, tokens: Range<usize>) -> usize {
        flat_width(self, &parse.tokens, tokens)
    }
}

/// How wide tokens are on one line.
pub(super) fn flat_width(plan: &Plan<'_>, tokens: &[(Token, Span)], range: Range<usize>) -> usize {
    let mut sum = 0;
    for index in range.clone() {
        if index > range.start {
            let earlier = index.checked_sub(2).map(|earlier| tokens[earlier].0);
            sum += usize::from(is_apart(earlier, tokens[index - 1].0, tokens[index].0, plan.within[index]));
        }
        sum += width(&plan.texts[index]);
    }
    sum
}

pub(super) fn width(text: &str) -> usize {
    text.chars().count()
}

fn gaps<'a>(text: &'a str, tokens: &[(Token, Span)]) -> Vec<Gap<'a>> {
    let mut end = 0;
    let gap = |(_, span): &(Token, Span)| Gap::new(&text[std::mem::replace(&mut end, span.end)..span.start]);
    tokens.iter().map(gap).collect()
}

/// The token as it is printed: a literal of money has one blank in it, or none behind `€`.
fn spelled(token: Token, text: &str) -> Cow<'_, str> {
    if token != Token::Money {
        return text.into();
    }
    match text.strip_prefix('€') {
        Some(amount) => format!("€{}", amount.trim_start()).into(),
        None => text.split_whitespace().collect::<Vec<_>>().join(" ").into(),
    }
}
