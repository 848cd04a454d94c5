//! Where tokens stand on the page.
//!
//! A line break ends an item, and indentation says what belongs to what. So the parser asks of a token whether it begins a
//! line, and how deep that line is indented.

use super::token::Token;
use crate::source::Span;

/// The indentation of every line, and which tokens begin one.
pub(super) struct Layout {
    tokens: Vec<Position>,
}

#[derive(Clone, Copy)]
struct Position {
    begins_line: bool,
    /// How many characters stand before the first token of its line.
    indentation: usize,
}

impl Layout {
    pub(super) fn new(text: &str, tokens: &[(Token, Span)]) -> Self {
        let mut positions: Vec<Position> = Vec::with_capacity(tokens.len());
        let mut end = 0;
        for (_, span) in tokens {
            let before = &text[end..span.start];
            let position = match (positions.last(), before.rfind('\n')) {
                (Some(&last), None) => Position { begins_line: false, ..last },
                (_, break_at) => {
                    let line_start = break_at.map_or(0, |at| end + at + 1);
                    // A comment before the token is as good as blanks.
                    let indentation = text[line_start..span.start].chars().count();
                    Position { begins_line: true, indentation }
                }
            };
            positions.push(position);
            end = span.end;
        }
        Self { tokens: positions }
    }

    /// Whether no other token stands before it on its line.
    pub(super) fn begins_line(&self, token: usize) -> bool {
        self.tokens[token].begins_line
    }

    /// How deep the line of the token is indented.
    pub(super) fn indentation(&self, token: usize) -> usize {
        self.tokens[token].indentation
    }
}
