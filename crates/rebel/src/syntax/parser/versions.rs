//! How instances come from an earlier version of a contract.
//!
//! `migrate`, `rename`, `drop`, `state` and `to` are words only here: everywhere else they are names.

use super::{Parsed, Parser};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::syntax::token::Token;
use crate::syntax::tree::{Ident, Migrate, MigrateStep, StepKind};

/// Makes a token of the word that begins a declaration here: `migrate from 1` where it begins a line and stands on one. No name
/// stands so.
pub(super) fn find_words(text: &str, tokens: &mut [(Token, Span)]) {
    let word = |(token, span): (Token, Span)| if token == Token::Name { &text[span.start..span.end] } else { "" };
    let mut end = 0;
    for index in 0..tokens.len().saturating_sub(2) {
        let [migrate, from, number] = [tokens[index], tokens[index + 1], tokens[index + 2]];
        let begins_line = index == 0 || text[end..migrate.1.start].contains('\n');
        let is_one_line = || !text[migrate.1.start..number.1.start].contains('\n');
        end = migrate.1.end;
        let is_migrate = begins_line && word(migrate) == "migrate" && word(from) == "from";
        if is_migrate && number.0 == Token::Integer && is_one_line() {
            tokens[index].0 = Token::Migrate;
        }
    }
}

impl Parser<'_> {
    /// `migrate from 1`, with a step on each line below that is indented deeper.
    pub(super) fn migrate(&mut self) -> Parsed<Migrate> {
        let depth = self.indentation();
        let start = self.expect(Token::Migrate)?;
        self.advance();
        let (from, span) = self.version_number()?;
        self.ends_line()?;
        let mut steps = Vec::new();
        let inner = self.indentation();
        while self.begins_line() && self.indentation() > depth && self.peek() != Token::End {
            self.part = self.position;
            self.breaks.begin_line(self.position, 1);
            if self.indentation() != inner {
                let message = "this line is indented differently from the first one below `migrate`";
                let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "indented differently");
                return Err(self.fail(diagnostic.help("indent all lines of a migration alike")));
            }
            steps.push(self.migrate_step()?);
            self.ends_line()?;
        }
        Ok(Migrate { from, number: span, span: start.to(span), steps })
    }

    fn migrate_step(&mut self) -> Parsed<MigrateStep> {
        self.declare()?;
        let start = self.span();
        // A class may be called like a word of this block.
        let is_word = self.peek_after(1) == Token::Name && !self.separates_after(1);
        let (class, kind, end) = if is_word && self.is_next_word("rename") {
            self.advance();
            let (class, field) = self.member_of_class()?;
            if !self.is_next_word("to") {
                return Err(self.unexpected("`to`"));
            }
            self.advance();
            let to = self.name()?;
            let end = to.span;
            (class, StepKind::Rename { field, to }, end)
        } else if is_word && self.is_next_word("drop") {
            self.advance();
            let class = self.name()?;
            let member = if self.eat(Token::Dot) { Some(self.name()?) } else { None };
            let end = member.as_ref().map_or(class.span, |member| member.span);
            (class, StepKind::Drop { field: member }, end)
        } else if is_word && self.is_next_word("state") {
            self.advance();
            let (class, state) = self.member_of_class()?;
            self.expect(Token::Arrow)?;
            let to = self.name()?;
            let end = to.span;
            (class, StepKind::State { state, to }, end)
        } else if self.peek() == Token::Name && self.peek_after(1) == Token::Dot {
            let (class, field) = self.member_of_class()?;
            self.expect(Token::Equals)?;
            let value = self.expression()?;
            let end = value.span;
            (class, StepKind::Value { field, value }, end)
        } else {
            return Err(self.unexpected("`rename`, `drop`, `state` or `Class.field = ..`"));
        };
        Ok(MigrateStep { class, kind, span: start.to(end) })
    }

    fn member_of_class(&mut self) -> Parsed<(Ident, Ident)> {
        let class = self.name()?;
        self.expect(Token::Dot)?;
        Ok((class, self.name()?))
    }

    fn version_number(&mut self) -> Parsed<(u32, Span)> {
        let span = self.expect(Token::Integer)?;
        match self.slice(span).parse() {
            Ok(number) => Ok((number, span)),
            Err(_) => {
                let message = format!("a version is {} at most", u32::MAX);
                let diagnostic = Diagnostic::new(Code::Literal, span, message, "too large");
                Err(self.fail(diagnostic))
            }
        }
    }

    /// Refuses what stands behind a complete line.
    fn ends_line(&mut self) -> Parsed<()> {
        if self.begins_line() || self.peek() == Token::End {
            Ok(())
        } else {
            Err(self.unexpected("the end of the line"))
        }
    }
}
