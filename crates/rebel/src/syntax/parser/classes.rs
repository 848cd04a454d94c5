//! Classes: fields, invariants, and the states with what stands below them.

use super::{Parsed, Parser, Reported, Separation};
use crate::diagnostic::{Code, Diagnostic};
use crate::syntax::token::Token;
use crate::syntax::tree::{Class, Field, Rule, StateGroup, StateLabel};

impl Parser<'_> {
    pub(super) fn class(&mut self) -> Parsed<Class> {
        let documentation = self.documentation();
        let outer = self.indentation();
        let kind = self.class_kind();
        self.expect(Token::Class)?;
        let name = self.declared_name()?;
        let config = self.config()?;
        let extends = self.extends()?;
        let mut class = Class {
            documentation,
            kind,
            name,
            config,
            extends,
            fields: Vec::new(),
            invariants: Vec::new(),
            indexes: Vec::new(),
            states: Vec::new(),
        };
        let depth = self.begins_line().then(|| self.indentation());
        let torn_before = self.torn.len();
        loop {
            let start = self.position;
            self.part = start;
            self.breaks.begin_line(start, 1);
            if self.opening().is_some() && self.indentation() <= outer {
                return Ok(class);
            }
            let is_outside =
                self.indentation() < depth.unwrap_or(1) || self.begins_line() && self.indentation() <= outer;
            let parsed = match self.peek() {
                Token::Name if is_outside && self.begins_record() => return Ok(class),
                Token::Name if self.begins_index() => {
                    self.before_states(&class, torn_before, "an index");
                    self.index().map(|index| class.indexes.push(index))
                }
                Token::Name if self.begins_use() && !class.states.is_empty() => self.events(&mut class.states),
                Token::Name if self.peek_after(1) == Token::Colon => {
                    self.before_states(&class, torn_before, "a field");
                    self.field().map(|field| class.fields.push(field))
                }
                Token::Name if self.begins_roles() => return Ok(class),
                _ if self.begins_event() || self.begins_timer() => match class.states.last_mut() {
                    // Only after an error inside the group: its other events still belong to it.
                    Some(_) => self.events(&mut class.states),
                    // The state may be in what could not be read.
                    None if self.torn.len() > torn_before => Err(Reported),
                    None => Err(self.unexpected("a field or a state before the first event")),
                },
                Token::Invariant => {
                    self.before_states(&class, torn_before, "an invariant");
                    self.invariant().map(|rule| class.invariants.push(rule))
                }
                Token::Name | Token::Initial | Token::Final => {
                    self.states_begin_here(depth).and_then(|()| self.group(&mut class.states))
                }
                token if token.begins_part() && !matches!(token, Token::Pre | Token::Post | Token::Sync) => {
                    return Ok(class);
                }
                _ => Err(self.unexpected("a field, an invariant, a state or an event")),
            };
            if parsed.is_err() {
                self.resume(start, Token::begins_part);
                while matches!(self.peek(), Token::Pre | Token::Post | Token::Sync) {
                    self.advance();
                    self.resume(self.position, Token::begins_part);
                }
            }
        }
    }

    /// Whether a state may be named here: at the beginning of a line, and as deep as the other members of the class. A word
    /// that stands elsewhere would be taken for a state when a comma is missing.
    fn states_begin_here(&mut self, depth: Option<usize>) -> Parsed<()> {
        let is_labelled = matches!(self.peek(), Token::Initial | Token::Final) || self.separation == Separation::Words;
        let is_member = self.begins_line() && depth.is_none_or(|depth| depth == self.indentation());
        if is_labelled || is_member {
            return Ok(());
        }
        if self.follows_unknown() {
            return Err(Reported);
        }
        let word = self.slice(self.span()).to_owned();
        let message = format!("`{word}` is no state here: a state stands on a line of its own, as deep as the fields");
        let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "opens nothing");
        let help = "a condition that goes on here needs an operator before it, a further one a comma, or a line of its \
                    own below `pre:`";
        Err(self.fail(diagnostic.help(help)))
    }

    /// Reports a part that stands after the first state, unless that may be none because something was wrong before. It is read
    /// all the same.
    fn before_states(&mut self, class: &Class, torn_before: usize, part: &str) {
        if !class.states.is_empty() && self.torn.len() == torn_before {
            let diagnostic = Diagnostic::new(Code::Syntax, self.span(), format!("{part} after a state"), "too late");
            (self.report)(diagnostic.help("fields and invariants stand before the first state"));
        }
    }

    pub(super) fn field(&mut self) -> Parsed<Field> {
        let documentation = self.documentation();
        if let Some(place) =
            self.begins_lets().then_some("before `pre:`").or(self.begins_return().then_some("at its end"))
        {
            let message = format!("`{}` begins a section of an event", self.slice(self.span()));
            let diagnostic = Diagnostic::new(Code::Syntax, self.span(), message, "no field");
            let help = format!("indent it below its event, {place}, or choose another name");
            return Err(self.fail(diagnostic.help(help)));
        }
        let name = self.declared_name()?;
        self.expect(Token::Colon)?;
        let ty = self.ty()?;
        let mut identity = None;
        while matches!(self.peek(), Token::Identity | Token::Annotation) {
            if self.peek() == Token::Annotation {
                self.unknown_annotation();
            } else if identity.is_none() {
                identity = Some(self.advance());
            } else {
                let diagnostic =
                    Diagnostic::new(Code::Duplicate, self.span(), "`@identity` stands here twice", "again here");
                let span = self.advance();
                self.report(diagnostic.help("remove it").edit(span, ""));
            }
        }
        let default = if self.eat(Token::Equals) { Some(self.expression()?) } else { None };
        Ok(Field { documentation, name, ty, identity, default })
    }

    /// Reports an annotation that there is not. What it stands at is read as without it.
    fn unknown_annotation(&mut self) {
        let span = self.advance();
        let message = format!("there is no annotation `{}`", self.slice(span));
        let diagnostic = Diagnostic::new(Code::UnknownCharacter, span, message, "unknown annotation");
        let written = self.slice(span).to_owned();
        let hinted = diagnostic.clone().did_you_mean(&written, ["@identity", "@personal"]);
        self.report(if hinted.help.is_some() {
            hinted
        } else {
            diagnostic.help("there are `@identity` and `@personal`")
        });
    }

    fn invariant(&mut self) -> Parsed<Rule> {
        self.expect(Token::Invariant)?;
        self.rule()
    }

    fn group(&mut self, groups: &mut Vec<StateGroup>) -> Parsed<()> {
        let label = match self.peek() {
            Token::Initial => StateLabel::Initial,
            Token::Final => StateLabel::Final,
            _ => StateLabel::None,
        };
        if label != StateLabel::None {
            self.advance();
        }
        let mut states = vec![self.declared_name()?];
        while self.eat(Token::Comma) {
            states.push(self.declared_name()?);
        }
        groups.push(StateGroup { label, states, events: Vec::new(), uses: Vec::new(), timers: Vec::new() });
        self.events(groups)
    }

    /// The events and timers of the last group.
    fn events(&mut self, groups: &mut [StateGroup]) -> Parsed<()> {
        loop {
            if self.begins_timer() {
                let timer = self.timer()?;
                if let Some(group) = groups.last_mut() {
                    group.timers.push(timer);
                }
            } else if self.begins_event() {
                let event = self.event()?;
                if let Some(group) = groups.last_mut() {
                    group.events.push(event);
                }
            } else if self.begins_use() {
                let shared = self.use_of_event()?;
                if let Some(group) = groups.last_mut() {
                    group.uses.push(shared);
                }
            } else {
                return Ok(());
            }
        }
    }
}
