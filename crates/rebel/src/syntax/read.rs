//! Read events: `read on Name(..)`.

use super::parser::{Parser, Separation};
use super::token::Token;

impl Parser<'_> {
    /// Whether a read event comes next; `read` is a word only here.
    pub(super) fn begins_read(&self) -> bool {
        self.separation == Separation::Lines
            && self.is_next_word("read")
            && self.peek_after(1) == Token::On
            && !self.separates_after(1)
    }

    /// Whether an event comes next.
    pub(super) fn begins_event(&self) -> bool {
        matches!(self.peek(), Token::On | Token::Internal) || self.begins_read()
    }
}
