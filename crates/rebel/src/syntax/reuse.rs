//! Classes that others extend, events that classes share, and fields that are looked up.

use super::parser::{Parsed, Parser};
use super::token::Token;
use super::tree::{Argument, ClassKind, Extends, Index, Param, Shared, Use};
use crate::diagnostic::{Code, Diagnostic};

impl Parser<'_> {
    /// `abstract` or `external` before `class`.
    pub(super) fn class_kind(&mut self) -> ClassKind {
        let kind = match self.opening() {
            Some(super::modules::Opening::Abstract) => ClassKind::Abstract,
            Some(super::modules::Opening::External) => ClassKind::External,
            _ => return ClassKind::Plain,
        };
        self.advance();
        kind
    }

    /// `(name: Type = value, ..)` behind the name of a class.
    pub(super) fn config(&mut self) -> Parsed<Vec<Param>> {
        let opener = self.span();
        if self.separates_here() || !self.eat(Token::LeftParenthesis) {
            return Ok(Vec::new());
        }
        let config = self.separated(Self::param)?;
        self.close(opener, Token::RightParenthesis)?;
        Ok(config)
    }

    pub(super) fn extends(&mut self) -> Parsed<Option<Extends>> {
        if !self.is_next_word("extends") || self.separates_here() || self.peek_after(1) != Token::Name {
            return Ok(None);
        }
        let start = self.advance();
        let class = self.qualified_name()?;
        let mut end = class.span;
        let arguments = self.named_arguments(&mut end)?;
        Ok(Some(Extends { class, arguments, span: start.to(end) }))
    }

    /// `(value, name: value)`, if a parenthesis opens here.
    fn named_arguments(&mut self, end: &mut crate::source::Span) -> Parsed<Vec<Argument>> {
        let opener = self.span();
        if self.separates_here() || !self.eat(Token::LeftParenthesis) {
            return Ok(Vec::new());
        }
        let arguments = self.separated(|parser| {
            let is_named = parser.peek() == Token::Name && parser.peek_after(1) == Token::Colon;
            let name = if is_named { Some(parser.name()?) } else { None };
            if is_named {
                parser.expect(Token::Colon)?;
            }
            Ok(Argument { name, value: parser.expression()? })
        })?;
        *end = self.close(opener, Token::RightParenthesis)?;
        Ok(arguments)
    }

    /// Whether `index` comes next, which is a word only before names of fields.
    pub(super) fn begins_index(&self) -> bool {
        self.is_next_word("index")
            && self.separates_here()
            && self.peek_after(1) == Token::Name
            && !self.separates_after(1)
    }

    pub(super) fn index(&mut self) -> Parsed<Index> {
        let start = self.advance();
        let fields = self.separated(Self::declared_name)?;
        let end = fields.last().map_or(start, |last| last.span);
        Ok(Index { fields, span: start.to(end) })
    }

    /// Whether `use` comes next, which is a word only before the name of an event.
    pub(super) fn begins_use(&self) -> bool {
        self.is_next_word("use")
            && self.separates_here()
            && self.peek_after(1) == Token::Name
            && !self.separates_after(1)
    }

    pub(super) fn use_of_event(&mut self) -> Parsed<Use> {
        self.begin_event();
        let start = self.advance();
        let event = self.qualified_name()?;
        let mut end = event.span;
        let arguments = self.named_arguments(&mut end)?;
        let mut name = None;
        if self.is_next_word("as") && !self.separates_here() {
            self.advance();
            let ident = self.declared_name()?;
            end = ident.span;
            name = Some(ident);
        }
        let target = if self.eat(Token::Colon) { Some(self.name()?) } else { None };
        let end = target.as_ref().map_or(end, |target| target.span);
        Ok(Use { event, arguments, name, target, span: start.to(end) })
    }

    /// Refuses defaults of fields that another class has.
    fn refuse_defaults(&mut self, needs: &[Param]) -> Parsed<()> {
        let Some(default) = needs.iter().find_map(|need| need.default.as_ref()) else { return Ok(()) };
        let diagnostic =
            Diagnostic::new(Code::Syntax, default.span, "a field that is needed has no default", "not here");
        Err(self.fail(diagnostic.help("the class that uses the event declares the field, and its default")))
    }

    /// `event Name(params) needs (fields)` and what it consists of.
    pub(super) fn shared(&mut self) -> Parsed<Shared> {
        let documentation = self.documentation();
        let outer = self.indentation();
        self.advance();
        let name = self.declared_name()?;
        let params = self.params()?;
        let result = self.result_type()?;
        let roles = self.demanded_roles()?;
        let mut needs: Vec<Param> = Vec::new();
        if self.is_next_word("needs") && !self.separates_here() {
            self.advance();
            self.stands_apart();
            needs = self.params()?;
            self.refuse_defaults(&needs)?;
        }
        let mut sections = self.sections(1, None)?;
        let depth = self.indentation();
        let variants = self.variants(outer, depth, 1)?;
        sections.returned = self.returned(1, None)?;
        self.end_of_event()?;
        Ok(Shared { documentation, name, params, result, roles, needs, sections, variants })
    }
}
