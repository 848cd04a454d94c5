//! What a source says of the caller: `roles`, `by`, and `caller` in expressions. All are words only here.

use super::parser::{Parsed, Parser, Separation};
use super::token::Token;
use super::tree::{Expr, ExprKind, Ident};
use crate::diagnostic::{Code, Diagnostic};

impl Parser<'_> {
    /// Whether a declaration of roles comes next: the word at the beginning of a line, with a name behind it.
    pub(super) fn begins_roles(&self) -> bool {
        self.is_next_word("roles")
            && self.begins_line()
            && self.peek_after(1) == Token::Name
            && !self.separates_after(1)
    }

    /// `roles a, b`.
    pub(super) fn roles(&mut self) -> Parsed<Vec<Ident>> {
        self.advance();
        self.separated(Self::declared_name)
    }

    /// `by a, b`, if it stands behind the parameters on their line.
    pub(super) fn demanded_roles(&mut self) -> Parsed<Vec<Ident>> {
        if self.separation == Separation::Words || self.begins_line() || !self.is_next_word("by") {
            return Ok(Vec::new());
        }
        self.advance();
        self.separated(Self::name)
    }

    /// Whether `caller` comes next, which is no name in an expression.
    pub(super) fn begins_caller(&self) -> bool {
        self.is_next_word("caller")
    }

    pub(super) fn caller(&mut self) -> Parsed<Expr> {
        let span = self.advance();
        self.node(ExprKind::Caller, span)
    }

    /// Whether `has role` comes next: behind `caller`, or where nothing else begins.
    pub(super) fn begins_role(&self) -> bool {
        let is_operator = self.is_last_word("caller") || !self.separates_here() && self.peek_after(1) == Token::Name;
        self.is_next_word("has") && is_operator
    }

    /// `has role`, behind what must be the caller.
    pub(super) fn has_role(&mut self, left: &Expr) -> Parsed<Expr> {
        let word = self.advance();
        if !matches!(left.kind, ExprKind::Caller) {
            let diagnostic = Diagnostic::new(Code::Syntax, word, "only the caller has roles", "not the caller");
            return Err(self.fail(diagnostic.help("write `caller has role`")));
        }
        let role = self.name()?;
        let span = left.span.to(role.span);
        self.refuse_chain()?;
        self.node(ExprKind::HasRole(role), span)
    }
}
