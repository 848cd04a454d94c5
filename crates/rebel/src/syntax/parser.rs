//! Recursive descent over the declarations.
//!
//! A part that cannot be read is reported once; the parser resumes at the next token that begins a part.

mod versions;

use std::ops::Range;

use super::breaks::{Block, Breaks, Owner};
use super::layout::Layout;
use super::modules::{Imported, Modules, Opening};
use super::token::{Token, Tokens, tokenize};
use super::tree::{
    Class, Constant, Effect, EffectOperator, Enum, Event, Field, File, Function, Ident, Let, Param, Record, Rule,
    Sections, StateGroup, StateLabel, Statement, Timer, Type, Variant, Way,
};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::{DECLARATIONS_MAX, DEPTH_MAX, SOURCE_BYTES_MAX};
use crate::source::Span;
use crate::value::Rounding;

/// How many declarations were read, over all sources.
pub(crate) type Declarations = usize;

/// The error is already reported.
#[derive(Debug)]
pub(super) struct Reported;

pub(super) type Parsed<T> = Result<T, Reported>;

/// What says where an item ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Separation {
    /// Line breaks and indentation, as documented.
    Lines,
    /// Commas and words alone: blanks and line breaks mean nothing.
    Words,
}

/// One source, read.
pub(crate) struct Parse {
    pub(crate) file: File,
    pub(crate) tokens: Vec<(Token, Span)>,
    pub(crate) breaks: Breaks,
    /// The tokens that are in no part of the tree, because a part was wrong.
    pub(crate) torn: Vec<Range<usize>>,
}

/// Reads one source. Reports what is wrong and returns what could be read.
pub(crate) fn parse(
    source: usize,
    text: &str,
    separation: Separation,
    modules: &Modules,
    declarations: &mut Declarations,
    report: &mut dyn FnMut(Diagnostic),
) -> Parse {
    if text.len() > SOURCE_BYTES_MAX {
        let span = Span { source, start: 0, end: 0 };
        let message = format!("a source has at most {} MiB, and this one is longer", SOURCE_BYTES_MAX >> 20);
        report(Diagnostic::new(Code::Limit, span, message, "too long").help("split it into several sources"));
        return Parse { file: File::default(), tokens: Vec::new(), breaks: Breaks::default(), torn: Vec::new() };
    }
    let mut tokens = tokenize(source, text, &mut |diagnostic| report(diagnostic));
    versions::find_words(text, &mut tokens.tokens);
    let layout = Layout::new(text, &tokens.tokens);
    let breaks = Breaks::default();
    let mut parser = Parser {
        text,
        tokens,
        layout,
        separation,
        modules,
        imported: Vec::new(),
        has_declared: false,
        is_before_event: false,
        breaks,
        position: 0,
        part: 0,
        torn: Vec::new(),
        depth: 0,
        declarations,
        report,
    };
    let file = parser.file();
    Parse { file, tokens: parser.tokens.tokens, breaks: parser.breaks, torn: parser.torn }
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    tokens: Tokens,
    layout: Layout,
    pub(super) separation: Separation,
    pub(super) modules: &'a Modules,
    pub(super) imported: Vec<Imported>,
    /// Whether something was read that is no import.
    pub(super) has_declared: bool,
    /// Whether the names that come next end with an event.
    pub(super) is_before_event: bool,
    breaks: Breaks,
    position: usize,
    /// Where the part begins that is being read.
    part: usize,
    torn: Vec<Range<usize>>,
    /// How deep the expression that is being read nests.
    depth: usize,
    declarations: &'a mut Declarations,
    report: &'a mut dyn FnMut(Diagnostic),
}

impl Parser<'_> {
    fn file(&mut self) -> File {
        let mut file = File::default();
        let mut rounding_at: Option<Span> = None;
        loop {
            let start = self.position;
            self.part = start;
            self.breaks.begin_line(start, 0);
            let opening = self.opening();
            let is_heading = matches!(opening, Some(Opening::Module | Opening::Import));
            let parsed = match self.peek() {
                Token::End => return file,
                _ if opening == Some(Opening::Module) => self.module(&mut file),
                _ if opening == Some(Opening::Import) => self.import(&mut file),
                _ if opening == Some(Opening::Event) => self.shared().map(|shared| file.shared.push(shared)),
                _ if opening.is_some() => self.class().map(|class| file.classes.push(class)),
                Token::Class => self.class().map(|class| file.classes.push(class)),
                Token::Enum => self.enumeration().map(|enumeration| file.enums.push(enumeration)),
                Token::Const => self.constant().map(|constant| file.constants.push(constant)),
                Token::Fn => self.function().map(|function| file.functions.push(function)),
                Token::Rounding => self.rounding(&mut rounding_at).map(|rounding| file.rounding = rounding),
                Token::Name if self.begins_roles() => self.roles().map(|roles| file.roles.extend(roles)),
                Token::Migrate => self.migrate().map(|migrate| file.migrations.push(migrate)),
                Token::Name if self.begins_record() => self.record().map(|record| file.records.push(record)),
                _ => Err(self.unexpected("`class`, `enum`, `record`, `const` or `fn`")),
            };
            self.has_declared |= !is_heading;
            if parsed.is_err() {
                self.resume(start, |token| {
                    matches!(
                        token,
                        Token::Class
                            | Token::Enum
                            | Token::Const
                            | Token::Fn
                            | Token::Rounding
                            | Token::Migrate
                            | Token::End
                    )
                });
            }
        }
    }

    fn rounding(&mut self, declared_at: &mut Option<Span>) -> Parsed<Rounding> {
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

    fn enumeration(&mut self) -> Parsed<Enum> {
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
    fn begins_record(&self) -> bool {
        self.is_next_word("record") && self.peek_after(1) == Token::Name && !self.separates_after(1)
    }

    /// `record Name` with its fields on the lines below, deeper.
    fn record(&mut self) -> Parsed<Record> {
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

    fn constant(&mut self) -> Parsed<Constant> {
        self.expect(Token::Const)?;
        let name = self.declared_name()?;
        self.expect(Token::Colon)?;
        let ty = self.ty()?;
        self.expect(Token::Equals)?;
        Ok(Constant { name, ty, value: self.expression()? })
    }

    fn function(&mut self) -> Parsed<Function> {
        self.expect(Token::Fn)?;
        let name = self.declared_name()?;
        let params = self.params()?;
        self.expect(Token::Colon)?;
        let result = self.ty()?;
        self.expect(Token::Equals)?;
        Ok(Function { name, params, result, body: self.expression()? })
    }

    fn class(&mut self) -> Parsed<Class> {
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

    fn field(&mut self) -> Parsed<Field> {
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
        let hinted = diagnostic.clone().did_you_mean(&written, ["@identity"]);
        self.report(if hinted.help.is_some() { hinted } else { diagnostic.help("the only one is `@identity`") });
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

    /// Whether a timer comes next: a line that begins with `after`, which is a word only here, and goes on with an expression.
    fn begins_timer(&self) -> bool {
        let is_word = self.is_next_word("after") && self.separates_here() && !self.separates_after(1);
        is_word && !matches!(self.peek_after(1), Token::Colon | Token::Comma | Token::End)
    }

    fn timer(&mut self) -> Parsed<Timer> {
        self.begin_event();
        self.declare()?;
        self.advance();
        self.stands_apart();
        let at = self.expression()?;
        self.expect(Token::Colon)?;
        Ok(Timer { at, event: self.name()? })
    }

    /// Begins an event or what stands for one.
    pub(super) fn begin_event(&mut self) {
        self.part = self.position;
        self.breaks.begin_line(self.position, 2);
    }

    /// Notes that the next token stands apart from the one before.
    pub(super) fn stands_apart(&mut self) {
        self.breaks.apart.push(self.position);
    }

    fn event(&mut self) -> Parsed<Event> {
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
    pub(super) fn variants(&mut self, outer: usize, depth: usize, level: usize) -> Parsed<Vec<Variant>> {
        let mut variants = Vec::new();
        while self.begins_variant() {
            self.variant_stands_here(outer, depth)?;
            variants.push(self.variant(level)?);
        }
        Ok(variants)
    }

    /// Refuses a section behind all that an event consists of.
    pub(super) fn end_of_event(&mut self) -> Parsed<()> {
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
    pub(super) fn sections(&mut self, level: usize, below: Option<usize>) -> Parsed<Sections> {
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
            sections.effects = self.items(depth, Owner::Conditions, Self::effect)?;
        }
        if let Some(depth) = self.clause(Token::Sync, level, below)? {
            sections.syncs = self.items(depth, Owner::Calls, Self::statement)?;
        }
        Ok(sections)
    }

    /// Whether `let:` comes next; `let` is a word only here.
    fn begins_lets(&self) -> bool {
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
    pub(super) fn clause(&mut self, keyword: Token, level: usize, below: Option<usize>) -> Parsed<Option<usize>> {
        let (start, depth) = (self.position, self.indentation());
        let is_beside = self.separates_here() && below.is_some_and(|below| depth <= below);
        if is_beside || !self.eat(keyword) {
            return Ok(None);
        }
        self.breaks.begin_line(start, level);
        self.expect(Token::Colon)?;
        Ok(Some(depth))
    }

    /// The items of a section that stands at `depth`: separated by commas, or each on a line that is indented deeper.
    pub(super) fn items<T>(&mut self, depth: usize, owner: Owner, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let block = self.breaks.begin_block(Block::new(owner, self.position));
        let mut items = vec![item(self)?];
        loop {
            let goes_on = match self.separation {
                Separation::Lines => self.begins_line() && self.indentation() > depth && !self.peek().begins_part(),
                Separation::Words => owner == Owner::Calls && self.begins_statement(),
            };
            let before = self.position;
            if self.peek() == Token::Comma {
                let comma = self.advance();
                if self.peek().begins_part() {
                    let diagnostic = Diagnostic::new(Code::Layout, comma, "nothing follows this comma", "dangles");
                    return Err(self.fail(diagnostic.help("remove it")));
                }
            } else if !goes_on {
                self.breaks.end_block(block, self.position);
                return Ok(items);
            }
            self.breaks.add_item(block, before, self.position);
            items.push(self.further_item(item)?);
        }
    }

    fn begins_statement(&self) -> bool {
        match self.peek() {
            Token::If | Token::For | Token::Not => true,
            Token::Name => matches!(self.peek_after(1), Token::Dot | Token::LeftBracket),
            _ => false,
        }
    }

    /// An item behind another one. It does not begin with `-`: the two would be one without the comma between them.
    fn further_item<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.peek() == Token::Minus {
            let diagnostic =
                Diagnostic::new(Code::Layout, self.span(), "a further item cannot begin with `-`", "begins an item");
            return Err(self.fail(diagnostic.help("put it into parentheses, or exchange the sides")));
        }
        item(self)
    }

    /// Whether something that is no token, and is reported, stands before the next token.
    fn follows_unknown(&self) -> bool {
        self.tokens.behind_unknown.binary_search(&self.position).is_ok()
    }

    /// Whether a line that begins with the next token may begin an item.
    pub(super) fn separates_here(&self) -> bool {
        self.separates_after(0)
    }

    /// The same of the token that stands `distance` behind the next one.
    pub(super) fn separates_after(&self, distance: usize) -> bool {
        self.separation == Separation::Lines && self.layout.begins_line(self.position + distance)
    }

    pub(super) fn begins_line(&self) -> bool {
        self.layout.begins_line(self.position)
    }

    /// Whether the line ends before the next token, as far as lines mean something.
    pub(super) fn follows_line(&self) -> bool {
        self.begins_line() || self.separation == Separation::Words
    }

    /// The place of the token before the next one.
    pub(super) fn last_span(&self) -> Span {
        self.tokens.tokens[self.position.saturating_sub(1)].1
    }

    /// How deep the line of the next token is indented.
    pub(super) fn indentation(&self) -> usize {
        self.layout.indentation(self.position)
    }

    pub(super) fn separated<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(Token::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn rule(&mut self) -> Parsed<Rule> {
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

    fn effect(&mut self) -> Parsed<Effect> {
        self.declare()?;
        if self.peek() == Token::Name {
            let diagnostic =
                Diagnostic::new(Code::Syntax, self.span(), "an effect begins with `this.`", "a bare field");
            return Err(self.fail(diagnostic.help("`this.field` is the new value, a bare `field` the old one")));
        }
        let start = self.expect(Token::This)?;
        self.expect(Token::Dot)?;
        let field = self.name()?;
        let mut path = Vec::new();
        loop {
            path.push(match self.peek() {
                Token::LeftBracket => {
                    let opener = self.advance();
                    let key = self.expression()?;
                    self.close(opener, Token::RightBracket)?;
                    Way::Entry(key)
                }
                Token::Dot => {
                    self.advance();
                    Way::Member(self.name()?)
                }
                _ => break,
            });
        }
        let operator = match self.peek() {
            Token::Equals | Token::Equal => EffectOperator::Becomes,
            Token::PlusEquals => EffectOperator::Increases,
            Token::MinusEquals => EffectOperator::Decreases,
            _ => return Err(self.unexpected("`=`, `+=` or `-=`")),
        };
        self.advance();
        let value = self.expression()?;
        let span = start.to(value.span);
        Ok(Effect { field, path, operator, value, span })
    }

    fn statement(&mut self) -> Parsed<Statement> {
        self.declare()?;
        self.enter()?;
        let statement = match self.peek() {
            Token::If => self.conditional_statement(),
            Token::For => self.repeated_statement(),
            _ => self.sync_call(),
        }?;
        self.leave();
        Ok(statement)
    }

    fn conditional_statement(&mut self) -> Parsed<Statement> {
        let depth = self.indentation();
        self.advance();
        let condition = self.expression()?;
        self.expect(Token::Colon)?;
        Ok(Statement::If(condition, self.block(depth)?))
    }

    fn repeated_statement(&mut self) -> Parsed<Statement> {
        let depth = self.indentation();
        self.advance();
        let name = self.name()?;
        self.expect(Token::In)?;
        let set = self.domain()?;
        self.expect(Token::Colon)?;
        Ok(Statement::For(name, set, self.block(depth)?))
    }

    /// What a colon at the end of a line that is indented by `depth` governs: one statement behind it, or the statements on the lines
    /// below that are indented deeper, all alike. Never both.
    fn block(&mut self, depth: usize) -> Parsed<Vec<Statement>> {
        let block = self.breaks.begin_block(Block::new(Owner::Statement, self.position));
        if self.separation == Separation::Words {
            let statement = self.statement()?;
            self.breaks.end_block(block, self.position);
            return Ok(vec![statement]);
        }
        let is_below = self.begins_line();
        let inner = self.indentation();
        if is_below && inner <= depth {
            let diagnostic =
                Diagnostic::new(Code::Layout, self.span(), "nothing is indented below the colon", "expected deeper");
            return Err(self.fail(diagnostic.help("indent what it governs")));
        }
        let mut statements = vec![self.statement()?];
        while is_below && self.begins_line() && self.indentation() == inner && !self.peek().begins_part() {
            self.breaks.add_item(block, self.position, self.position);
            statements.push(self.statement()?);
        }
        self.breaks.end_block(block, self.position);
        let is_deeper = self.begins_line() && self.indentation() > depth && !self.peek().begins_part();
        if is_deeper || self.peek() == Token::Comma {
            let message = "it is not clear whether this line governs what follows";
            let diagnostic = Diagnostic::new(Code::Layout, self.span(), message, "governed or not?");
            let help = "put what it governs on lines of their own below it, all indented alike, and what it does not \
                        govern as deep as itself";
            return Err(self.fail(diagnostic.help(help)));
        }
        Ok(statements)
    }

    fn sync_call(&mut self) -> Parsed<Statement> {
        let start = self.span();
        let negated = self.eat(Token::Not);
        let (target, event, arguments, end) = self.event_of_instance()?;
        Ok(Statement::Call { negated, target, event, arguments, span: start.to(end) })
    }

    pub(super) fn params(&mut self) -> Parsed<Vec<Param>> {
        let opener = self.expect(Token::LeftParenthesis)?;
        if self.eat(Token::RightParenthesis) {
            return Ok(Vec::new());
        }
        let params = self.separated(|parser| {
            let name = parser.declared_name()?;
            parser.expect(Token::Colon)?;
            Ok(Param { name, ty: parser.ty()? })
        })?;
        self.close(opener, Token::RightParenthesis)?;
        Ok(params)
    }

    pub(super) fn ty(&mut self) -> Parsed<Type> {
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

    /// Begins a nested part. What fails inside stays entered; [`Parser::resume`] leaves all.
    pub(super) fn enter(&mut self) -> Parsed<()> {
        if self.depth >= DEPTH_MAX {
            return Err(self.too_deep(self.span()));
        }
        self.depth += 1;
        Ok(())
    }

    pub(super) fn leave(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn too_deep(&mut self, span: Span) -> Reported {
        let message = format!("this nests deeper than {DEPTH_MAX} levels");
        self.fail(Diagnostic::new(Code::Limit, span, message, "too deep").help("move a part into a `fn`"))
    }

    fn declare(&mut self) -> Parsed<()> {
        *self.declarations += 1;
        if *self.declarations <= DECLARATIONS_MAX {
            return Ok(());
        }
        let reported = if *self.declarations == DECLARATIONS_MAX + 1 {
            let message = format!("a specification has at most {DECLARATIONS_MAX} declarations");
            self.fail(Diagnostic::new(Code::Limit, self.span(), message, "one too many"))
        } else {
            Reported
        };
        self.position = self.tokens.tokens.len() - 1;
        Err(reported)
    }

    pub(super) fn declared_name(&mut self) -> Parsed<Ident> {
        self.declare()?;
        self.name()
    }

    pub(super) fn name(&mut self) -> Parsed<Ident> {
        let span = self.expect(Token::Name)?;
        Ok(Ident { name: self.slice(span).into(), span })
    }

    /// The documentation that stands before the next token.
    pub(super) fn documentation(&self) -> String {
        let documentation = &self.tokens.documentation;
        let found = documentation.binary_search_by_key(&self.position, |(index, _)| *index);
        found.map_or_else(|_| String::new(), |index| documentation[index].1.clone())
    }

    pub(super) fn peek(&self) -> Token {
        self.peek_after(0)
    }

    pub(super) fn peek_after(&self, distance: usize) -> Token {
        self.tokens.tokens.get(self.position + distance).map_or(Token::End, |(token, _)| *token)
    }

    /// Whether the next token is this word, which is one only here.
    pub(super) fn is_next_word(&self, word: &str) -> bool {
        self.peek() == Token::Name && self.slice(self.span()) == word
    }

    /// Whether the token before the next one is this word.
    pub(super) fn is_last_word(&self, word: &str) -> bool {
        let last = self.position.checked_sub(1).map(|last| self.tokens.tokens[last]);
        last.is_some_and(|(token, span)| token == Token::Name && self.slice(span) == word)
    }

    /// The place of the next token.
    pub(super) fn span(&self) -> Span {
        self.span_after(0)
    }

    /// The place of the token that stands `distance` behind the next one, which is there.
    pub(super) fn span_after(&self, distance: usize) -> Span {
        self.tokens.tokens[self.position + distance].1
    }

    pub(super) fn slice(&self, span: Span) -> &str {
        &self.text[span.start..span.end]
    }

    /// Takes the next token; the end stays.
    pub(super) fn advance(&mut self) -> Span {
        let span = self.span();
        if self.position + 1 < self.tokens.tokens.len() {
            self.position += 1;
        }
        span
    }

    pub(super) fn eat(&mut self, token: Token) -> bool {
        let is_next = self.peek() == token;
        if is_next {
            self.advance();
        }
        is_next
    }

    pub(super) fn expect(&mut self, token: Token) -> Parsed<Span> {
        if self.peek() == token { Ok(self.advance()) } else { Err(self.unexpected(token.shown())) }
    }

    /// Takes the bracket that closes the one at `opener`. If a part begins where it is due, the fault is at the opener.
    pub(super) fn close(&mut self, opener: Span, closer: Token) -> Parsed<Span> {
        if self.peek() == closer || !self.peek().begins_part() {
            return self.expect(closer);
        }
        let message = format!("this `{}` is not closed", self.slice(opener));
        let diagnostic = Diagnostic::new(Code::Syntax, opener, message, "opened here");
        let due = Span { start: self.span().start, end: self.span().start, ..opener };
        Err(self.fail(diagnostic.and(due, format!("expected {} before this", closer.shown()))))
    }

    pub(super) fn unexpected(&mut self, expected: &str) -> Reported {
        // What stands between is reported, and may be all that is wrong.
        if self.follows_unknown() {
            return Reported;
        }
        let (token, span) = (self.peek(), self.span());
        let found = if token == Token::Name { format!("`{}`", self.slice(span)) } else { token.shown().to_owned() };
        let message = format!("expected {expected}, found {found}");
        let mut diagnostic = Diagnostic::new(Code::Syntax, span, message, format!("expected {expected}"));
        if expected == Token::Name.shown()
            && self.slice(span).bytes().all(|byte| byte.is_ascii_lowercase())
            && span.end > span.start
        {
            diagnostic =
                diagnostic.help(format!("`{}` is a word of the language; choose another name", self.slice(span)));
        }
        self.fail(diagnostic)
    }

    pub(super) fn fail(&mut self, diagnostic: Diagnostic) -> Reported {
        (self.report)(diagnostic);
        Reported
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        (self.report)(diagnostic);
    }

    /// Skips to the next token that `begins` something, and at least one token if none was read since `start`.
    fn resume(&mut self, start: usize, begins: impl Fn(Token) -> bool) {
        self.depth = 0;
        if self.position == start {
            self.advance();
        }
        while !begins(self.peek()) && self.opening().is_none() {
            self.advance();
        }
        self.torn.push(self.part..self.position);
    }
}
