//! What is wrong with a specification, where, and what to do about it.

use std::fmt;
use std::ops::Range;

use ariadne::{Color, Config, IndexType, Label as Drawn, Report as Drawing, ReportKind};

use crate::limits::DIAGNOSTICS_MAX;
use crate::source::{Source, Span};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// The kind of a diagnostic. Its number is stable: scripts and documentation may refer to it.
        ///
        /// `E` numbers refuse the specification, `W` numbers are warnings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// Every code, in the order of the reference.
            pub const ALL: &[Code] = &[$(Code::$name),*];

            /// The number, such as `E101`.
            #[must_use]
            pub fn number(self) -> &'static str {
                match self { $(Code::$name => $text,)* }
            }
        }
    };
}

codes! {
    /// A character that begins nothing, or a literal or comment that does not end.
    UnknownCharacter = "E001";
    /// Something else than the grammar allows here.
    Syntax = "E002";
    /// A line stands where its indentation says something else than its words.
    Layout = "E005";
    /// A limit of [`limits`](crate::limits) is exceeded.
    Limit = "E003";
    /// A literal that is no value: an unknown currency, too many decimals, a day the calendar does not have.
    Literal = "E004";
    /// An event that a timer makes happen demands roles, and `system` is none of them.
    TimedRole = "E048";

    /// A name is declared twice, or a parameter hides a field.
    Duplicate = "E101";
    /// No type of this name.
    UnknownType = "E102";
    /// No field, parameter, constant or function of this name.
    UnknownName = "E103";
    /// No state of this name in the class.
    UnknownState = "E104";
    /// No event of this name in the class.
    UnknownEvent = "E105";
    /// No variant or property of this name.
    UnknownMember = "E106";
    /// An import of a module that there is not, of itself, or of a name that the module does not declare.
    Import = "E107";
    /// A name that several modules declare, and nothing says which one is meant.
    Ambiguous = "E108";
    /// No role of this name.
    UnknownRole = "E109";

    /// An expression has another type than its place needs.
    TypeMismatch = "E201";
    /// An operator is not defined for the types of its operands.
    Operands = "E202";
    /// A call with too many or too few arguments.
    ArgumentCount = "E203";
    /// A call or a condition on something that is not an instance of a class.
    NotAReference = "E204";
    /// `none`, `{}` or `[]` where its type cannot be told.
    Untyped = "E205";

    /// A class without an initial state, or with more than one.
    InitialState = "E301";
    /// A transition into the initial state.
    EntersInitial = "E302";
    /// An event that leaves a final state.
    LeavesFinal = "E303";
    /// An event is declared twice for one state.
    RepeatedTransition = "E304";
    /// Declarations of one event differ in parameters, result, roles or in `internal` or `read`.
    EventSignature = "E305";
    /// An identity of a type that cannot be one, a second identity, or an identity with a default.
    Identity = "E306";
    /// A timer whose event cannot happen: it has parameters, only reads or is not declared for the state; or no instance is in
    /// the state.
    Timer = "E307";

    /// An event that creates instances leaves a field without a value.
    FieldWithoutValue = "E401";
    /// A field is read before it has a value.
    ReadBeforeValue = "E402";
    /// An effect on the identity.
    IdentityAssigned = "E403";
    /// Two effects of one event on one field.
    AssignedTwice = "E404";
    /// `this.` outside the left side of an effect.
    NewValueRead = "E405";
    /// A field, parameter, instance or the time where it has no meaning, as in a constant.
    OutOfPlace = "E406";
    /// An event with a result that does not return it, or the other way round.
    Result = "E407";
    /// A read event that changes something, or one that is called, or another one in an expression.
    ReadEvent = "E408";
    /// An index of a field that cannot be looked up, or one that is declared already.
    Index = "E409";
    /// A personal value on which something depends, or `@personal` where nothing is stored.
    Personal = "E410";

    /// A function or constant that depends on itself.
    Recursion = "E501";
    /// Events that synchronise in a circle.
    SyncCycle = "E502";
    /// A question about an event that asks questions itself.
    NestedQuestion = "E503";

    /// A class that extends itself, or what is no class to extend.
    Extends = "E601";
    /// A constant of a class or of a shared event that is given no value, several, or one that it does not have.
    Config = "E602";
    /// An event of a class that replaces one of the class that it extends without saying so.
    Replaces = "E603";
    /// A shared event is used by a class without a field that it needs.
    Needs = "E604";
    /// An instance of an abstract class.
    Abstract = "E605";
    /// A part of an external class that says what happens to its instances.
    External = "E606";
    /// A version that follows from none, or versions that do not agree.
    Version = "E701";
    /// A migration leaves out what becomes of a part of the earlier version, or where a part of this one comes from.
    NotMigrated = "E702";
    /// A line of a migration that says nothing: of a part that is not there, or of one that another line speaks of.
    MigrationStep = "E703";

    /// A state that no event reaches.
    UnreachableState = "W001";
    /// A parameter, constant, function, enum, import or role that nothing uses.
    Unused = "W002";
    /// An `internal` event that no `sync` calls.
    NeverSynced = "W003";
    /// A timer whose event may be refused when it is due.
    RefusableTimer = "W046";

    /// A guard that always or never holds.
    DecidedGuard = "W051";
    /// An event whose guards never hold together.
    NeverEnabled = "W052";
    /// An invariant that the event that creates an instance always breaks.
    BrokenByCreation = "W053";

    /// An event that is called, and demanded to be impossible, in one step.
    Contradiction = "W061";
    /// Two calls on one instance that are never both accepted.
    NeverTogether = "W063";

    /// An analysis of a class that was given up.
    AnalysisLimit = "W080";
}

impl Code {
    /// Whether it only warns.
    #[must_use]
    pub fn is_warning(self) -> bool {
        self.number().starts_with('W')
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.number())
    }
}

/// A place in a source and what is to be said about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Where.
    pub span: Span,
    /// What.
    pub text: String,
}

/// A change of the source that mends what is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    /// What is replaced; empty where only something is put in.
    pub span: Span,
    /// What takes its place.
    pub text: String,
}

/// A place in a source as editors count it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// The kind.
    pub code: Code,
    /// What is wrong, in one sentence.
    pub message: String,
    /// Where; the first is the main place.
    pub labels: Vec<Label>,
    /// What to do, if that can be told.
    pub help: Option<String>,
    /// The help as a change, if it is one.
    pub edit: Option<Edit>,
}

impl Diagnostic {
    pub(crate) fn new(code: Code, span: Span, message: impl Into<String>, label: impl Into<String>) -> Self {
        Self { code, message: message.into(), labels: vec![Label { span, text: label.into() }], help: None, edit: None }
    }

    pub(crate) fn and(mut self, span: Span, text: impl Into<String>) -> Self {
        self.labels.push(Label { span, text: text.into() });
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn edit(mut self, span: Span, text: impl Into<String>) -> Self {
        self.edit = Some(Edit { span, text: text.into() });
        self
    }

    /// Adds "did you mean", if one of `names` is close to `wrong`, with the edit if the main label is on nothing else.
    pub(crate) fn did_you_mean<'a>(self, wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Self {
        let Some(name) = closest(wrong, names) else { return self };
        let span = self.labels[0].span;
        let hinted = self.help(format!("did you mean `{name}`?"));
        if span.end - span.start == wrong.len() { hinted.edit(span, name) } else { hinted }
    }
}

/// The findings of one run of [`check`](crate::check), with the sources they point into.
#[derive(Clone, Debug, Default)]
pub struct Report {
    sources: Vec<Source>,
    diagnostics: Vec<Diagnostic>,
    omitted: usize,
}

impl Report {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        Self { sources, ..Self::default() }
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < DIAGNOSTICS_MAX || !diagnostic.code.is_warning() && !self.has_errors() {
            self.diagnostics.push(diagnostic);
        } else {
            self.omitted += 1;
        }
    }

    /// How many findings are kept.
    pub(crate) fn len(&self) -> usize {
        self.diagnostics.len()
    }

    /// Of the findings behind the first `count`, leaves out those that say again what an earlier one says of its place, and
    /// changes the others.
    pub(crate) fn amend(&mut self, count: usize, change: impl Fn(Diagnostic) -> Diagnostic) {
        for diagnostic in self.diagnostics.split_off(count) {
            let is_same =
                |other: &Diagnostic| other.code == diagnostic.code && other.labels[0].span == diagnostic.labels[0].span;
            if !self.diagnostics.iter().any(is_same) {
                self.diagnostics.push(change(diagnostic));
            }
        }
    }

    /// Leaves out what does not `count`.
    pub(crate) fn retain(&mut self, counts: impl Fn(&Diagnostic, &[Source]) -> bool) {
        let sources = &self.sources;
        self.diagnostics.retain(|diagnostic| counts(diagnostic, sources));
    }

    /// Errors before warnings, each in the order of the sources.
    pub(crate) fn sort(&mut self) {
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.code.is_warning(), diagnostic.labels[0].span));
    }

    pub(crate) fn sources(&self) -> &[Source] {
        &self.sources
    }

    /// All findings that are kept: errors before warnings, each in the order of the sources. At most
    /// [`limits::DIAGNOSTICS_MAX`](DIAGNOSTICS_MAX), one more if that one is the only error.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    /// The findings that refuse the specification.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics.iter().filter(|diagnostic| !diagnostic.code.is_warning())
    }

    /// Whether anything refuses the specification.
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// How many findings were left out because there were too many.
    #[must_use]
    pub fn omitted(&self) -> usize {
        self.omitted
    }

    /// The name of the source of `span`, and where the span begins and ends there.
    ///
    /// # Panics
    /// If `span` is not one of this report's.
    ///
    /// # Complexity
    /// Linear in what stands before the span.
    #[must_use]
    pub fn locate(&self, span: Span) -> (&str, Position, Position) {
        let Source { name, text } = &self.sources[span.source];
        (name, position(text, span.start), position(text, span.end))
    }

    /// The findings as text for a terminal, each with the lines it speaks of; with `colour`, with ANSI colours.
    ///
    /// Control characters of the source are shown as `?`, so that a source cannot write to the terminal.
    #[must_use]
    pub fn render(&self, colour: bool) -> String {
        let mut canvas = Canvas::new(&self.sources);
        let mut text = Vec::new();
        for diagnostic in &self.diagnostics {
            let is_drawn =
                canvas.has_readable_lines(diagnostic) && draw(diagnostic, colour).write(&mut canvas, &mut text).is_ok();
            if !is_drawn {
                text.extend_from_slice(canvas.sentence(diagnostic).as_bytes());
            }
        }
        if self.omitted > 0 {
            text.extend_from_slice(format!("{} more findings are not shown\n", self.omitted).as_bytes());
        }
        String::from_utf8_lossy(&text).into_owned()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(false))
    }
}

impl std::error::Error for Report {}

type Region = (usize, Range<usize>);

fn region(span: Span) -> Region {
    (span.source, span.start..span.end)
}

fn draw(diagnostic: &Diagnostic, colour: bool) -> Drawing<'static, Region> {
    let (kind, main) = if diagnostic.code.is_warning() {
        (ReportKind::Warning, Color::Yellow)
    } else {
        (ReportKind::Error, Color::Red)
    };
    let mut drawing = Drawing::build(kind, region(diagnostic.labels[0].span))
        .with_config(Config::default().with_color(colour).with_index_type(IndexType::Byte))
        .with_code(diagnostic.code)
        .with_message(printable(&diagnostic.message));
    for (index, label) in diagnostic.labels.iter().enumerate() {
        let drawn = Drawn::new(region(label.span)).with_message(printable(&label.text));
        drawing.add_label(drawn.with_color(if index == 0 { main } else { Color::Cyan }));
    }
    if let Some(help) = &diagnostic.help {
        drawing.set_help(printable(help));
    }
    drawing.finish()
}

fn position(text: &str, offset: usize) -> Position {
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    Position { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
}

/// A line longer than this is not drawn: the drawing would be longer than what it explains.
const DRAWN_LINE_BYTES_MAX: usize = 400;

/// The sources as the drawing library reads them.
struct Canvas {
    names: Vec<String>,
    sources: Vec<ariadne::Source<String>>,
}

impl Canvas {
    fn new(sources: &[Source]) -> Self {
        Self {
            names: sources.iter().map(|source| printable(&source.name)).collect(),
            sources: sources.iter().map(|source| ariadne::Source::from(printable(&source.text))).collect(),
        }
    }

    fn has_readable_lines(&self, diagnostic: &Diagnostic) -> bool {
        diagnostic.labels.iter().all(|label| {
            self.sources.get(label.span.source).is_some_and(|source| {
                source.get_line_range(&(label.span.start..label.span.end)).all(|index| {
                    source
                        .line(index)
                        .and_then(|line| source.get_line_text(line))
                        .is_none_or(|text| text.len() <= DRAWN_LINE_BYTES_MAX)
                })
            })
        })
    }

    /// The finding in one line, for what cannot be drawn.
    fn sentence(&self, diagnostic: &Diagnostic) -> String {
        let span = diagnostic.labels[0].span;
        let name = self.names.get(span.source).map_or("", String::as_str);
        let line = self.sources.get(span.source).and_then(|source| source.get_byte_line(span.start));
        let line = line.map_or(1, |(_, index, _)| index + 1);
        format!("[{}] {name}:{line}: {}\n", diagnostic.code, printable(&diagnostic.message))
    }
}

impl ariadne::Cache<usize> for &mut Canvas {
    type Storage = String;

    fn fetch(&mut self, index: &usize) -> Result<&ariadne::Source<String>, impl fmt::Debug> {
        self.sources.get(*index).ok_or("no such source")
    }

    fn display<'a>(&self, index: &'a usize) -> Option<impl fmt::Display + 'a> {
        self.names.get(*index).cloned()
    }
}

/// The text with everything that could steer a terminal replaced by as many `?` as it has bytes.
fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !steers(c) {
            printed.push(c);
        } else {
            printed.extend(std::iter::repeat_n('?', c.len_utf8()));
        }
    }
    printed
}

/// Whether `c` is a control character, another line break, or changes the direction of writing.
fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// The name closest to `wrong`, if it is close enough to be meant.
fn closest<'a>(wrong: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const NAME_BYTES_MAX: usize = 64;
    let allowed = match wrong.len() {
        0..=2 => 1,
        3..=5 => 2,
        _ => 3,
    };
    if wrong.len() > NAME_BYTES_MAX {
        return None;
    }
    let candidates = names.into_iter().filter(|name| name.len() <= NAME_BYTES_MAX && *name != wrong);
    let ranked = candidates.map(|name| (edits(&wrong.to_lowercase(), &name.to_lowercase()), name));
    ranked.filter(|(edits, name)| *edits <= allowed && *edits < name.len()).min().map(|(_, name)| name)
}

/// The least number of insertions, deletions, replacements and swaps of neighbours between two texts.
fn edits(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![(0..=b.len()).collect::<Vec<_>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
