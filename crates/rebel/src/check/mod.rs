//! From syntax trees to a specification: names, types, life cycles, and what may not depend on itself.
//!
//! # Order
//! 1. Names of everything on the file level, and what each module imports.
//! 2. What classes copy from others and from shared events.
//! 3. Headers of classes: fields, states, events with their parameters. Classes refer to each other by header only.
//! 4. Constants, functions and defaults of records, each after what it needs; a circle is refused. Constants become literals here.
//!    Then the constants of classes, and the defaults of parameters.
//! 5. Bodies: defaults, invariants, guards, effects, calls.
//! 6. The graph of synchronised events; a circle is refused.
//!
//! Each step goes on after an error, so that one run reports all it can. After a syntax error it is not said what is missing, nor
//! of the names in what could not be read that nothing has them.

mod aggregate;
mod arguments;
mod body;
mod builtin;
mod caller;
mod coerce;
mod collection;
mod default;
mod effect;
mod expression;
mod fresh;
mod graph;
mod header;
mod library;
mod modules;
mod operators;
mod personal;
mod question;
mod read;
mod result;
mod reuse;
mod statement;
mod timer;
mod versions;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::body::EventId;
use self::header::ClassHeader;
use crate::analysis;
use crate::diagnostic::{Code, Diagnostic, Report};
use crate::limits::FUEL;
use crate::model::{Class, Function, Param, Spec};
use crate::source::{Source, Span};
use crate::syntax::token::Token;
use crate::syntax::tree::{AggregateKind, ClassKind, File, Ident};
use crate::syntax::{self, Modules, Parse, Separation};
use crate::value::{Enumeration, Name, RecordType, Type, Value};

/// Checks the sources, together one specification.
///
/// Never panics, whatever the text.
///
/// # Errors
/// A [`Report`] with at least one error, and the warnings.
///
/// ```
/// use enact_rebel::{Source, check};
/// let report = check(vec![Source::new("a.rebel", "class A initial new on Go(): old")]).unwrap_err();
/// assert_eq!(report.errors().next().unwrap().code.number(), "E104");
/// ```
pub fn check(mut sources: Vec<Source>) -> Result<Spec, Report> {
    if sources.is_empty() {
        // What is found has a place.
        sources.push(Source::new("", ""));
    }
    let mut report = Report::new(sources);
    let mut declarations = 0;
    let mut found = Vec::new();
    let modules = Modules::of(report.sources());
    let parses: Vec<Parse> = report
        .sources()
        .iter()
        .enumerate()
        .map(|(index, source)| {
            let mut report = |diagnostic| found.push(diagnostic);
            syntax::parse(index, &source.text, Separation::Lines, &modules, &mut declarations, &mut report)
        })
        .collect();
    let torn = found.iter().any(is_wrong).then(|| Torn::new(&parses, &found, report.sources()));
    found.into_iter().for_each(|diagnostic| report.push(diagnostic));
    let mut checker = Checker::new(report);
    let files: Vec<File> = parses.into_iter().map(|parse| parse.file).collect();
    let modules = checker.modules(&files);
    let classes = checker.files(&files, torn.is_some());
    if let Some(torn) = torn {
        checker.report.retain(|diagnostic, sources| torn.is_sure(diagnostic, sources));
    }
    if checker.report.has_errors() {
        checker.report.sort();
        return Err(checker.report);
    }
    let classes = analysis::analyse(classes, &mut checker.report).into_iter().map(Arc::new).collect();
    // Copies of one text are wrong in the same way.
    checker.report.amend(0, |diagnostic| diagnostic);
    checker.report.sort();
    let version = versions::version(&files);
    Ok(Spec { version, modules, classes, enums: checker.enums, warnings: checker.report })
}

/// The lines on which something could not be read.
#[derive(Default)]
struct Torn {
    lines: HashSet<Line>,
    /// The names that stand there.
    names: HashSet<String>,
}

/// A source, and where a line of it begins.
type Line = (usize, usize);

impl Torn {
    fn new(parses: &[Parse], found: &[Diagnostic], sources: &[Source]) -> Self {
        let mut torn = Self::default();
        for (source, parse) in parses.iter().enumerate() {
            let mut lines = Lines::new(source, &sources[source].text);
            let mut next = 0;
            // What could not be read may have been begun before what could not be read either.
            let torn_tokens =
                parse.torn.iter().flat_map(|range| range.start.max(std::mem::replace(&mut next, range.end))..range.end);
            torn.lines.extend(torn_tokens.map(|token| lines.of(parse.tokens[token].1.start)));
        }
        let wrong = found.iter().filter(|found| is_wrong(found)).map(|found| found.labels[0].span);
        torn.lines.extend(wrong.map(|span| (span.source, line_start(&sources[span.source].text, span.start))));
        for (source, parse) in parses.iter().enumerate() {
            let text = &sources[source].text;
            let mut lines = Lines::new(source, text);
            for (token, span) in &parse.tokens {
                if torn.lines.contains(&lines.of(span.start)) && *token == Token::Name {
                    torn.names.insert(text[span.start..span.end].to_owned());
                }
            }
        }
        torn
    }

    /// Whether a finding is about a name or a type, and does not come from what is missing in the tree.
    fn is_sure(&self, diagnostic: &Diagnostic, sources: &[Source]) -> bool {
        let Span { source, start, end } = diagnostic.labels[0].span;
        let text = &sources[source].text;
        match diagnostic.code.number().as_bytes() {
            [b'E', b'0', b'0', ..] => true,
            [b'E', b'1' | b'2', ..] => {
                !self.lines.contains(&(source, line_start(text, start))) && !self.names.contains(&text[start..end])
            }
            _ => false,
        }
    }
}

/// Where lines begin, for places in their order.
struct Lines<'a> {
    source: usize,
    text: &'a str,
    start: usize,
    seen: usize,
}

impl<'a> Lines<'a> {
    fn new(source: usize, text: &'a str) -> Self {
        Self { source, text, start: 0, seen: 0 }
    }

    fn of(&mut self, at: usize) -> Line {
        if let Some(end) = self.text[self.seen..at].rfind('\n') {
            self.start = self.seen + end + 1;
        }
        self.seen = at;
        (self.source, self.start)
    }
}

/// Whether a finding of the parser says that something could not be read.
fn is_wrong(found: &Diagnostic) -> bool {
    found.code != Code::Literal && found.code != Code::Duplicate
}

fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |end| end + 1)
}

/// What a name on the file level stands for.
#[derive(Clone)]
enum Declared {
    Class(usize),
    /// An event that classes share.
    Event(usize),
    Enum(Arc<Enumeration>),
    /// Nothing until its fields are known.
    Record(Option<Arc<RecordType>>),
    Constant,
    Function,
}

impl Declared {
    fn is_type(&self) -> bool {
        matches!(self, Declared::Class(_) | Declared::Enum(_) | Declared::Record(_))
    }

    fn noun(&self) -> &'static str {
        match self {
            Declared::Class(_) => "a class",
            Declared::Event(_) => "an event",
            Declared::Enum(_) => "an enum",
            Declared::Record(_) => "a record",
            Declared::Constant => "a constant",
            Declared::Function => "a function",
        }
    }
}

#[derive(Clone)]
struct FunctionHeader {
    params: Vec<Param>,
    result: Type,
    function: Arc<Function>,
    depth: usize,
}

/// Where a name is looked up that is no variable. One that is not found there is reported once.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Scope {
    Types,
    Functions,
    /// Classes that are extended, and events that are shared.
    Classes,
    /// Constants of a class or a shared event, by where it is declared.
    Config(Span),
    /// Fields that shared events need.
    Needs(Span),
    States(usize),
    Events(usize),
    Fields(usize),
    Roles,
}

struct Checker {
    report: Report,
    /// Names that are reported as unknown.
    unknown: HashSet<(Scope, Name)>,
    /// Fields, parameters and constants whose declaration is reported as wrong: nothing more is said where they are used.
    broken: HashSet<Name>,
    declared: HashMap<Name, (Declared, Span)>,
    modules: modules::Modules,
    reuse: reuse::Reuse,
    /// Classes of which it is not known what they copy.
    reuse_is_unknown: Vec<usize>,
    /// Shared events, as origins of classes, that are used wrongly.
    reuse_is_unmet: HashSet<(usize, usize)>,
    enums: Vec<Arc<Enumeration>>,
    headers: Vec<ClassHeader>,
    constants: HashMap<Name, (Type, Value)>,
    functions: HashMap<Name, FunctionHeader>,
    /// Constants, functions and enums that something refers to.
    used: HashSet<Name>,
    roles: HashMap<Name, Span>,
    used_roles: HashSet<Name>,
    /// Calls in `sync` blocks: the event that calls, the event that is called, where.
    calls: Vec<(EventId, EventId, Span)>,
    /// Events that timers make happen.
    timed: Vec<EventId>,
    /// Events of which something asks, or demands the opposite, whether they could happen.
    possible: Vec<(EventId, Span)>,
    /// What is left for the evaluation of constants.
    fuel: u32,
}

impl Checker {
    fn new(report: Report) -> Self {
        Self {
            report,
            unknown: HashSet::new(),
            broken: HashSet::new(),
            declared: HashMap::new(),
            modules: modules::Modules::default(),
            reuse: reuse::Reuse::default(),
            reuse_is_unknown: Vec::new(),
            reuse_is_unmet: HashSet::new(),
            enums: Vec::new(),
            headers: Vec::new(),
            constants: HashMap::new(),
            functions: HashMap::new(),
            used: HashSet::new(),
            roles: HashMap::new(),
            used_roles: HashSet::new(),
            calls: Vec::new(),
            timed: Vec::new(),
            possible: Vec::new(),
            fuel: FUEL,
        }
    }

    fn files(&mut self, files: &[File], is_torn: bool) -> Vec<Class> {
        self.names(files);
        self.link(files, is_torn);
        self.declared_roles(files);
        let trees = self.expand(files);
        self.headers(files, &trees);
        self.library(files);
        self.constants_of_classes(&trees);
        self.defaults_of_events(&trees);
        let mut classes = self.classes(&trees);
        self.note_seeds(&mut classes);
        self.versions(files);
        self.sync_circles();
        self.nested_questions(&classes);
        self.personal_values(&classes);
        self.unused();
        self.unused_constants(&trees);
        self.unused_imports(files);
        self.unused_roles();
        let has_instances = |tree: &syntax::tree::Class| matches!(tree.kind, ClassKind::Plain | ClassKind::External);
        classes.into_iter().zip(&trees).filter(|(_, tree)| has_instances(tree)).map(|(class, _)| class).collect()
    }

    fn names(&mut self, files: &[File]) {
        for (index, file) in files.iter().enumerate() {
            self.enter(self.module_of_file(index));
            for enumeration in &file.enums {
                let mut variants: Vec<Name> = Vec::new();
                for variant in &enumeration.variants {
                    if variants.contains(&variant.name) {
                        let message = format!("`{}` is a variant twice", variant.name);
                        self.report.push(Diagnostic::new(Code::Duplicate, variant.span, message, "again here"));
                    }
                    variants.push(variant.name.clone());
                }
                let name = enumeration.name.name.clone();
                let declared = Arc::new(Enumeration { name, variants });
                self.enums.push(declared.clone());
                self.name(&enumeration.name, Declared::Enum(declared));
            }
        }
        let (mut classes, mut events) = (0, 0);
        for (index, file) in files.iter().enumerate() {
            self.enter(self.module_of_file(index));
            for record in &file.records {
                self.name(&record.name, Declared::Record(None));
            }
            for class in &file.classes {
                self.name(&class.name, Declared::Class(classes));
                classes += 1;
            }
            for shared in &file.shared {
                self.name(&shared.name, Declared::Event(events));
                events += 1;
            }
        }
        for (index, file) in files.iter().enumerate() {
            self.enter(self.module_of_file(index));
            file.constants.iter().for_each(|constant| self.name(&constant.name, Declared::Constant));
            file.functions.iter().for_each(|function| self.name(&function.name, Declared::Function));
        }
    }

    fn name(&mut self, ident: &Ident, declared: Declared) {
        if !declared.is_type() && self.refuse_reserved_name(ident) {
            return;
        }
        let is_taken = AggregateKind::named(&ident.name).is_some() || &*ident.name == fresh::FRESH;
        if matches!(declared, Declared::Function) && is_taken {
            let what = if &*ident.name == fresh::FRESH { "a word" } else { "an aggregate" };
            let message = format!("`{}` is {what} of the language", ident.name);
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "taken");
            return self.report.push(diagnostic.help("choose another name"));
        }
        if matches!(declared, Declared::Function) && builtin::is_function(&ident.name) {
            let message = format!("`{}` is a function of the language", ident.name);
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "taken");
            return self.report.push(diagnostic.help("choose another name"));
        }
        let is_built_in = Type::BUILT_IN.iter().any(|(name, _)| *name == &*ident.name)
            || ["Set", "List", "Map", "Decimal"].contains(&&*ident.name);
        if is_built_in {
            let message = format!("`{}` is a type of the language", ident.name);
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "taken");
            return self.report.push(diagnostic.help("choose another name"));
        }
        if let Some((earlier, span)) = self.declared.get(&ident.name) {
            let message = format!("`{}` is already {}", ident.name, earlier.noun());
            let diagnostic = Diagnostic::new(Code::Duplicate, ident.span, message, "again here");
            return self.report.push(diagnostic.and(*span, "declared here").help("choose another name"));
        }
        self.declares(ident, declared);
    }

    fn unused(&mut self) {
        let used = self.used_declarations();
        let mut declared = self.private_declarations();
        declared.sort_by_key(|(_, _, span)| *span);
        for (name, declared, span) in declared {
            let noun = match declared {
                // What a class extends may be what it could not find.
                Declared::Class(class)
                    if self.headers[class].kind == ClassKind::Abstract && self.reuse_is_unknown.is_empty() =>
                {
                    "an abstract class"
                }
                Declared::Class(_) => continue,
                _ => declared.noun(),
            };
            if !used.contains(&span) {
                let message = format!("`{name}` is {noun} that nothing uses");
                self.report.push(Diagnostic::new(Code::Unused, span, message, "unused").help("remove it"));
            }
        }
    }

    /// The source of `span`, with every run of blanks as one.
    fn text(&self, span: Span) -> Name {
        let text = &self.report.sources()[span.source].text[span.start..span.end];
        text.split_whitespace().collect::<Vec<_>>().join(" ").into()
    }
}
