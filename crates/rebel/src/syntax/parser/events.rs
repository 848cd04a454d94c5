//! Events and timers: what stands behind their names, and their sections.

use super::{Parsed, Parser, Separation};
use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::breaks::Owner;
use crate::syntax::token::Token;
use crate::syntax::tree::{Effect, Event, Let, Rule, Sections, Statement, Timer, Variant};

impl Parser<'_> {
    /// Whether a timer comes next: a line that begins with `after`, which is a word only here, and goes on with an expression.
    pub(super) fn begins_timer(&self) -> bool {
        let is_word = self.is_next_word("after") && self.separates_here() && !self.separates_after(1);
        is_word && !matches!(self.peek_after(1), Token::Colon | Token::Comma | Token::End)
    }

    pub(super) fn timer(&mut self) -> Parsed<Timer> {
        self.begin_event();
        self.declare()?;
        self.advance();
        self.stands_apart();
        let at = self.expression()?;
        self.expect(Token::Colon)?;
        Ok(Timer { at, event: self.name()? })
    }

    /// Begins an event or what stands for one.
    pub(in crate::syntax) fn begin_event(&mut self) {
        self.part = self.position;
        self.breaks.begin_line(self.position, 2);
    }

    /// Notes that the next token stands apart from the one before.
    pub(in crate::syntax) fn stands_apart(&mut self) {
        self.breaks.apart.push(self.position);
    }

    pub(super) fn event(&mut self) -> Parsed<Event> {
        let documentation = self.documentation();
        self.begin_event();
        let outer = self.indentation();
        let read = self.begins_read();
        if read {
            self.advance();
        }
        let internal = !read && self.eat(Token::Internal);
        self.expect(Token::On)?;
        let name = self.declared_name()?;
        let params = self.params()?;
        let result = self.result_type()?;
        let roles = self.demanded_roles()?;
        let target = if self.eat(Token::Colon) { Some(self.name()?) } else { None };
        let mut event = Event {
            documentation,
            internal,
            read,
            name,
            params,
            result,
            roles,
            target,
            sections: self.sections(3, None)?,
            variants: Vec::new(),
            origin: 0,
            replaced: Vec::new(),
        };
        let depth = self.indentation();
        event.variants = self.variants(outer, depth, 3)?;
        event.sections.returned = self.returned(3, None)?;
        if let (Some(target), false) = (&event.target, event.variants.is_empty()) {
            let message = "an event with variants has no target of its own";
            let diagnostic = Diagnostic::new(Code::Syntax, target.span, message, "one too many");
            self.report(diagnostic.help("write it behind each variant that leads there"));
        }
        self.end_of_event()?;
        Ok(event)
    }

    /// The variants of an event that is indented by `outer`, all of them by `depth`.
    pub(in crate::syntax) fn variants(&mut self, outer: usize, depth: usize, level: usize) -> Parsed<Vec<Variant>> {
        let mut variants = Vec::new();
        while self.begins_variant() {
            self.variant_stands_here(outer, depth)?;
            variants.push(self.variant(level)?);
        }
        Ok(variants)
    }

    /// Refuses a section behind all that an event consists of.
    pub(in crate::syntax) fn end_of_event(&mut self) -> Parsed<()> {
        let is_section = matches!(self.peek(), Token::Pre | Token::Post | Token::Sync) || self.begins_lets();
        if is_section || self.begins_return() || self.begins_variant() {
            return Err(self.fail(
                Diagnostic::new(Code::Syntax, self.span(), "this part stands in the wrong place", "out of order")
                    .help("an event has one `let:`, then one `pre:`, one `post:`, one `sync:`, then its variants, and one `return:`"),
            ));
        }
        Ok(())
    }

    /// What stands below an event or a variant: sections whose keywords stand at `level`, and on lines deeper than `below` if that
    /// is given.
    pub(in crate::syntax) fn sections(&mut self, level: usize, below: Option<usize>) -> Parsed<Sections> {
        let mut sections = Sections::default();
        if self.begins_lets()
            && let Some(depth) = self.clause(Token::Name, level, below)?
        {
            sections.lets = self.items(depth, Owner::Conditions, Self::named_value)?;
        }
        if let Some(depth) = self.clause(Token::Pre, level, below)? {
            sections.guards = self.items(depth, Owner::Conditions, Self::rule)?;
        }
        if let Some(depth) = self.clause(Token::Post, level, below)? {
            sections.effects = self.effects(depth)?;
        }
        if let Some(depth) = self.clause(Token::Sync, level, below)? {
            sections.syncs = self.items(depth, Owner::Calls, Self::governed_call)?;
        }
        Ok(sections)
    }

    /// The effects of a section that stands at `depth`. Those that govern others are laid out as calls are.
    fn effects(&mut self, depth: usize) -> Parsed<Vec<Statement<Effect>>> {
        if self.separation == Separation::Words {
            let effects = self.items(depth, Owner::Conditions, Self::effect)?;
            return Ok(effects.into_iter().map(Statement::Do).collect());
        }
        let block = self.breaks.blocks.len();
        let effects = self.items(depth, Owner::Conditions, Self::governed_effect)?;
        if effects.iter().any(|effect| !matches!(effect, Statement::Do(_))) {
            self.breaks.blocks[block].owner = Owner::Calls;
        }
        Ok(effects)
    }

    /// Whether `let:` comes next; `let` is a word only here.
    pub(super) fn begins_lets(&self) -> bool {
        self.is_next_word("let") && self.peek_after(1) == Token::Colon
    }

    fn named_value(&mut self) -> Parsed<Let> {
        let name = self.declared_name()?;
        self.expect(Token::Equals)?;
        Ok(Let { name, value: self.expression()? })
    }

    /// Whether `variant`, which is a word only here, comes next with its name.
    fn begins_variant(&self) -> bool {
        self.is_next_word("variant") && self.peek_after(1) == Token::Name && !self.separates_after(1)
    }

    /// Whether a variant may stand here: deeper than its event, which is indented by `outer`, and as deep as the first one. What is
    /// indented otherwise looks as if it belonged to something else.
    fn variant_stands_here(&mut self, outer: usize, depth: usize) -> Parsed<()> {
        let indentation = self.indentation();
        if !self.separates_here() || indentation == depth && depth > outer {
            return Ok(());
        }
        let message = "it is not clear which event this variant belongs to";
        let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "indented differently");
        Err(self.fail(diagnostic.help("indent the variants of an event alike, deeper than the event")))
    }

    fn variant(&mut self, level: usize) -> Parsed<Variant> {
        let depth = self.indentation();
        self.breaks.begin_line(self.position, level);
        self.advance();
        let name = self.declared_name()?;
        let target = if self.eat(Token::Colon) { Some(self.name()?) } else { None };
        let mut sections = self.sections(level + 1, Some(depth))?;
        sections.returned = self.returned(level + 1, Some(depth))?;
        Ok(Variant { name, target, sections })
    }

    /// Begins a section; how deep its line is indented.
    pub(in crate::syntax) fn clause(
        &mut self,
        keyword: Token,
        level: usize,
        below: Option<usize>,
    ) -> Parsed<Option<usize>> {
        let (start, depth) = (self.position, self.indentation());
        let is_beside = self.separates_here() && below.is_some_and(|below| depth <= below);
        if is_beside || !self.eat(keyword) {
            return Ok(None);
        }
        self.breaks.begin_line(start, level);
        self.expect(Token::Colon)?;
        Ok(Some(depth))
    }

    pub(super) fn rule(&mut self) -> Parsed<Rule> {
        self.declare()?;
        let mut text = None;
        if self.peek() == Token::Text && self.peek_after(1) == Token::Colon {
            text = Some(self.text_literal().into());
            self.expect(Token::Colon)?;
        }
        let condition = self.expression()?;
        if self.peek() == Token::Equals {
            let span = self.span();
            let diagnostic = Diagnostic::new(Code::Syntax, span, "a condition assigns nothing", "`=`");
            return Err(self.fail(diagnostic.help("write `==` to compare").edit(span, "==")));
        }
        Ok(Rule { text, condition })
    }
}
