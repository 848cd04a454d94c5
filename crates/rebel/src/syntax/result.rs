//! What an event returns: `-> type` behind its parameters, and `return:` as its last section.

use super::breaks::Owner;
use super::parser::{Parsed, Parser};
use super::token::Token;
use super::tree::{Expr, Type};
use crate::diagnostic::{Code, Diagnostic};

impl Parser<'_> {
    /// `-> type`, if it comes next.
    pub(super) fn result_type(&mut self) -> Parsed<Option<Type>> {
        if self.eat(Token::Arrow) { self.ty().map(Some) } else { Ok(None) }
    }

    /// Whether `return:` comes next; `return` is a word only here.
    pub(super) fn begins_return(&self) -> bool {
        self.is_next_word("return") && self.peek_after(1) == Token::Colon
    }

    /// `return: value`, if it comes next, at `level` and on a line deeper than `below` if that is given.
    pub(super) fn returned(&mut self, level: usize, below: Option<usize>) -> Parsed<Option<Expr>> {
        if !self.begins_return() {
            return Ok(None);
        }
        let Some(depth) = self.clause(Token::Name, level, below)? else { return Ok(None) };
        let mut values = self.items(depth, Owner::Conditions, Self::expression)?;
        if let Some(second) = values.get(1) {
            let diagnostic = Diagnostic::new(Code::Syntax, second.span, "an event returns one value", "a second one");
            return Err(self.fail(diagnostic.help("a record has several values in it")));
        }
        Ok(values.pop())
    }
}
