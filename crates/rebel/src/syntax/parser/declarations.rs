//! Declarations of a file beside classes and events, and the types that they name.

use super::{Parsed, Parser, Separation};
use crate::diagnostic::{Code, Diagnostic};
use crate::source::Span;
use crate::syntax::token::Token;
use crate::syntax::tree::{Constant, Enum, Function, Ident, Param, Record, Type};
use crate::value::Rounding;

impl Parser<'_> {
    pub(super) fn rounding(&mut self, declared_at: &mut Option<Span>) -> Parsed<Rounding> {
        let keyword = self.expect(Token::Rounding)?;
        let first = self.expect(Token::Name)?;
        let mut span = first;
        if self.eat(Token::Minus) {
            span = first.to(self.expect(Token::Name)?);
        }
        let written = self.slice(span);
        let found = Rounding::ALL.into_iter().find(|rounding| rounding.name() == written);
        let Some(rounding) = found else {
            let names = Rounding::ALL.map(Rounding::name);
            let diagnostic = Diagnostic::new(Code::Syntax, span, "unknown rounding rule", "no such rule");
            return Err(self.fail(diagnostic.help(format!("the rules are {}", names.join(", ")))));
        };
        if let Some(earlier) = declared_at.replace(keyword.to(span)) {
            let diagnostic = Diagnostic::new(Code::Duplicate, keyword, "rounding is declared twice", "again here");
            (self.report)(diagnostic.and(earlier, "declared here"));
        }
        Ok(rounding)
    }

    pub(super) fn enumeration(&mut self) -> Parsed<Enum> {
        self.expect(Token::Enum)?;
        let name = self.declared_name()?;
        let opener = self.expect(Token::LeftBrace)?;
        let mut variants = vec![self.declared_name()?];
        while self.eat(Token::Comma) {
            variants.push(self.declared_name()?);
        }
        self.close(opener, Token::RightBrace)?;
        Ok(Enum { name, variants })
    }

    /// Whether `record`, which is a word only here, comes next with its name.
    pub(super) fn begins_record(&self) -> bool {
        self.is_next_word("record") && self.peek_after(1) == Token::Name && !self.separates_after(1)
    }

    /// `record Name` with its fields on the lines below, deeper.
    pub(super) fn record(&mut self) -> Parsed<Record> {
        let depth = self.indentation();
        self.advance();
        let name = self.declared_name()?;
        let mut fields = Vec::new();
        while self.peek() == Token::Name && self.peek_after(1) == Token::Colon {
            let is_below = self.begins_line() && self.indentation() > depth;
            if !is_below && self.separation == Separation::Lines {
                break;
            }
            self.breaks.begin_line(self.position, 1);
            fields.push(self.field()?);
        }
        if fields.is_empty() {
            return Err(self.unexpected("the fields of the record, each on a line that is indented deeper"));
        }
        Ok(Record { name, fields })
    }

    pub(super) fn constant(&mut self) -> Parsed<Constant> {
        self.expect(Token::Const)?;
        let name = self.declared_name()?;
        self.expect(Token::Colon)?;
        let ty = self.ty()?;
        self.expect(Token::Equals)?;
        Ok(Constant { name, ty, value: self.expression()? })
    }

    pub(super) fn function(&mut self) -> Parsed<Function> {
        self.expect(Token::Fn)?;
        let name = self.declared_name()?;
        let params = self.params()?;
        self.expect(Token::Colon)?;
        let result = self.ty()?;
        self.expect(Token::Equals)?;
        Ok(Function { name, params, result, body: self.expression()? })
    }

    pub(in crate::syntax) fn params(&mut self) -> Parsed<Vec<Param>> {
        let opener = self.expect(Token::LeftParenthesis)?;
        if self.eat(Token::RightParenthesis) {
            return Ok(Vec::new());
        }
        let params = self.separated(Self::param)?;
        self.close(opener, Token::RightParenthesis)?;
        Ok(params)
    }

    /// `name: Type`, and the default behind it if there is one.
    pub(in crate::syntax) fn param(&mut self) -> Parsed<Param> {
        let name = self.declared_name()?;
        self.expect(Token::Colon)?;
        let ty = self.ty()?;
        let default = if self.eat(Token::Equals) { Some(self.expression()?) } else { None };
        Ok(Param { name, ty, default })
    }

    pub(in crate::syntax) fn ty(&mut self) -> Parsed<Type> {
        let name = self.qualified_name()?;
        let start = name.span;
        let mut ty = match self.peek() {
            Token::LeftBracket => self.elements_of(name)?,
            Token::LeftParenthesis => {
                let opener = self.advance();
                let with = if self.peek() == Token::Integer { self.advance() } else { self.expect(Token::Name)? };
                let with = Ident { name: self.slice(with).into(), span: with };
                self.close(opener, Token::RightParenthesis)?;
                Type::With(name, with)
            }
            _ => Type::Named(name),
        };
        if self.peek() == Token::Question {
            ty = Type::Optional(ty.into(), start.to(self.advance()));
        }
        if self.peek() == Token::Personal {
            let span = self.advance();
            let subject = if self.peek() == Token::LeftParenthesis {
                let opener = self.advance();
                let name = self.name()?;
                self.close(opener, Token::RightParenthesis)?;
                Some(name)
            } else {
                None
            };
            ty = Type::Personal(ty.into(), subject, span);
        }
        Ok(ty)
    }

    /// The types in brackets behind `Set`, `List` or `Map`.
    fn elements_of(&mut self, name: Ident) -> Parsed<Type> {
        const COLLECTIONS: [(&str, usize); 3] = [("List", 1), ("Map", 2), ("Set", 1)];
        let Some((_, count)) = COLLECTIONS.into_iter().find(|(known, _)| *known == &*name.name) else {
            let message = format!("`{}` has no elements, only `Set`, `List` and `Map` have", name.name);
            let diagnostic = Diagnostic::new(Code::Syntax, name.span, message, "no collection");
            return Err(self.fail(diagnostic.did_you_mean(&name.name, COLLECTIONS.map(|(known, _)| known))));
        };
        let opener = self.advance();
        self.enter()?;
        let mut types = vec![self.ty()?];
        while types.len() < count {
            self.expect(Token::Comma)?;
            types.push(self.ty()?);
        }
        self.leave();
        self.close(opener, Token::RightBracket)?;
        Ok(Type::Of(name, types))
    }
}
