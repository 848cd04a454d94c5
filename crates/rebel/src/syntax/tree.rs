//! The syntax tree: what the source says, before any name is looked up.

use crate::source::Span;
use crate::value::{Name, Rounding, Value};

/// A name and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Ident {
    pub(crate) name: Name,
    pub(crate) span: Span,
}

/// Everything one source declares.
#[derive(Debug, Default)]
pub(crate) struct File {
    pub(crate) module: Option<Module>,
    pub(crate) imports: Vec<Import>,
    pub(crate) migrations: Vec<Migrate>,
    pub(crate) rounding: Rounding,
    pub(crate) roles: Vec<Ident>,
    pub(crate) classes: Vec<Class>,
    pub(crate) enums: Vec<Enum>,
    pub(crate) records: Vec<Record>,
    pub(crate) constants: Vec<Constant>,
    pub(crate) functions: Vec<Function>,
    pub(crate) shared: Vec<Shared>,
}

/// `module a.b version 2`. The name has the dots in it.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) name: Ident,
    pub(crate) version: Option<(u32, Span)>,
    pub(crate) span: Span,
}

/// `import a.b`, `import a.b: Name, Name`.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) module: Ident,
    /// The names that are imported; without a list, all.
    pub(crate) names: Option<Vec<Ident>>,
    pub(crate) span: Span,
}

/// `migrate from 1`, and what stands below.
#[derive(Debug)]
pub(crate) struct Migrate {
    pub(crate) from: u32,
    /// Of the version.
    pub(crate) number: Span,
    /// Of its first line.
    pub(crate) span: Span,
    pub(crate) steps: Vec<MigrateStep>,
}

/// What becomes of one part of the earlier version.
#[derive(Debug)]
pub(crate) struct MigrateStep {
    pub(crate) class: Ident,
    pub(crate) kind: StepKind,
    pub(crate) span: Span,
}

#[derive(Debug)]
pub(crate) enum StepKind {
    /// `rename Class.field to name`
    Rename { field: Ident, to: Ident },
    /// `drop Class.field`, `drop Class`
    Drop { field: Option<Ident> },
    /// `state Class.old -> new`
    State { state: Ident, to: Ident },
    /// `Class.field = expr`
    Value { field: Ident, value: Expr },
}

#[derive(Debug)]
pub(crate) struct Enum {
    pub(crate) name: Ident,
    pub(crate) variants: Vec<Ident>,
}

/// Values that belong together.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) name: Ident,
    pub(crate) fields: Vec<Field>,
}

#[derive(Debug)]
pub(crate) struct Constant {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) value: Expr,
}

#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Type,
    pub(crate) body: Expr,
}

/// A parameter, or a constant of a class.
#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) default: Option<Expr>,
}

#[derive(Clone, Debug)]
pub(crate) enum Type {
    Named(Ident),
    /// `Set[T]`, `List[T]`, `Map[K, V]`.
    Of(Ident, Vec<Type>),
    /// `Money(EUR)`, `Decimal(2)`: what stands in the parentheses.
    With(Ident, Ident),
    /// `T?`.
    Optional(Box<Type>, Span),
    /// `T @personal` or `T @personal(subject)`.
    Personal(Box<Type>, Option<Ident>, Span),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClassKind {
    Plain,
    /// Without instances: others extend it.
    Abstract,
    /// What happens to its instances is not said.
    External,
    /// What stands for a shared event where no class uses it.
    Shared,
}

/// `value` or `name: value`.
#[derive(Clone, Debug)]
pub(crate) struct Argument {
    pub(crate) name: Option<Ident>,
    pub(crate) value: Expr,
}

/// `extends Name(arguments)`.
#[derive(Clone, Debug)]
pub(crate) struct Extends {
    pub(crate) class: Ident,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) span: Span,
}

/// `index a, b`.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) fields: Vec<Ident>,
    pub(crate) span: Span,
}

/// `event Name(params) needs (fields)`.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) documentation: String,
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Option<Type>,
    pub(crate) roles: Vec<Ident>,
    pub(crate) needs: Vec<Param>,
    pub(crate) sections: Sections,
    pub(crate) variants: Vec<Variant>,
}

/// `use Name(arguments) as Event: target`.
#[derive(Clone, Debug)]
pub(crate) struct Use {
    pub(crate) event: Ident,
    pub(crate) arguments: Vec<Argument>,
    pub(crate) name: Option<Ident>,
    pub(crate) target: Option<Ident>,
    pub(crate) span: Span,
}

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) documentation: String,
    pub(crate) kind: ClassKind,
    pub(crate) name: Ident,
    /// Constants that are given where the class is extended.
    pub(crate) config: Vec<Param>,
    pub(crate) extends: Option<Extends>,
    pub(crate) fields: Vec<Field>,
    pub(crate) invariants: Vec<Rule>,
    pub(crate) indexes: Vec<Index>,
    pub(crate) states: Vec<StateGroup>,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) documentation: String,
    pub(crate) name: Ident,
    pub(crate) ty: Type,
    pub(crate) identity: Option<Span>,
    pub(crate) default: Option<Expr>,
}

/// A condition and, if its author named it, the text of a refusal.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) text: Option<Name>,
    pub(crate) condition: Expr,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateLabel {
    Initial,
    Final,
    None,
}

/// States and the events that leave each of them.
#[derive(Clone, Debug)]
pub(crate) struct StateGroup {
    pub(crate) label: StateLabel,
    pub(crate) states: Vec<Ident>,
    pub(crate) events: Vec<Event>,
    pub(crate) uses: Vec<Use>,
    pub(crate) timers: Vec<Timer>,
}

/// `after at: event`, below a state.
#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) at: Expr,
    pub(crate) event: Ident,
}

#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) documentation: String,
    pub(crate) internal: bool,
    pub(crate) read: bool,
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    /// The type of what it returns.
    pub(crate) result: Option<Type>,
    /// Of which the caller needs one, if there are any.
    pub(crate) roles: Vec<Ident>,
    /// The state it leads to; without one, the state it leaves.
    pub(crate) target: Option<Ident>,
    pub(crate) sections: Sections,
    pub(crate) variants: Vec<Variant>,
    /// Which text it is copied from, as the checker counts those of a class; 0 is that of the class itself.
    pub(crate) origin: usize,
    /// The states of its group in which a class that copies it has another one.
    pub(crate) replaced: Vec<Name>,
}

/// What an event, or one of its variants, consists of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sections {
    pub(crate) lets: Vec<Let>,
    pub(crate) guards: Vec<Rule>,
    pub(crate) effects: Vec<Statement<Effect>>,
    pub(crate) syncs: Vec<Statement<Call>>,
    pub(crate) returned: Option<Expr>,
}

/// `name = value`, below `let:`.
#[derive(Clone, Debug)]
pub(crate) struct Let {
    pub(crate) name: Ident,
    pub(crate) value: Expr,
}

/// One of several ways in which an event happens, with what it has beside the parts that all have.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) name: Ident,
    pub(crate) target: Option<Ident>,
    pub(crate) sections: Sections,
}

/// What an effect does to a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EffectOperator {
    /// `=`.
    Becomes,
    /// `+=`.
    Increases,
    /// `-=`.
    Decreases,
}

#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) field: Ident,
    /// The way from the field to the place inside of it that changes.
    pub(crate) path: Vec<Way>,
    pub(crate) operator: EffectOperator,
    pub(crate) value: Expr,
    pub(crate) span: Span,
}

/// One step on the way into a value.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// `[key]`.
    Entry(Expr),
    /// `.field` of a record.
    Member(Ident),
}

/// One line of a section, or several that a line governs.
#[derive(Clone, Debug)]
pub(crate) enum Statement<T> {
    Do(T),
    /// What happens if the condition holds, and what happens if it does not.
    If(Expr, Vec<Statement<T>>, Vec<Statement<T>>),
    For(Ident, Expr, Vec<Statement<T>>),
}

impl<T> Statement<T> {
    /// How many lines it is, if each has one item.
    pub(crate) fn size(&self) -> usize {
        let of = |statements: &[Self]| statements.iter().map(Self::size).sum::<usize>();
        match self {
            Statement::Do(_) => 1,
            Statement::If(_, accepted, otherwise) => 1 + of(accepted) + of(otherwise),
            Statement::For(_, _, statements) => 1 + of(statements),
        }
    }

    /// The first item in it.
    pub(crate) fn first(&self) -> Option<&T> {
        match self {
            Statement::Do(item) => Some(item),
            Statement::If(_, accepted, otherwise) => accepted.iter().chain(otherwise).find_map(Self::first),
            Statement::For(_, _, statements) => statements.iter().find_map(Self::first),
        }
    }
}

/// A call of an event, or the condition that it is not possible.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) negated: bool,
    pub(crate) target: Expr,
    pub(crate) event: Ident,
    pub(crate) arguments: Vec<Expr>,
    pub(crate) span: Span,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Subtract,
    Multiply,
    Divide,
    Quotient,
    Remainder,
    Compare(Comparison),
    And,
    Or,
    In,
    /// `??`.
    Otherwise,
}

/// `kind(variable in domain where filter: body -> value, start)`.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) variable: Ident,
    pub(crate) domain: Box<Expr>,
    pub(crate) filter: Option<Box<Expr>>,
    pub(crate) body: Option<Box<Expr>>,
    pub(crate) value: Option<Box<Expr>>,
    pub(crate) start: Option<Box<Expr>>,
}

impl Aggregate {
    /// The parts that are there, in the order of the text.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &Expr> {
        let others =
            [&self.filter, &self.body, &self.value, &self.start].into_iter().filter_map(|part| part.as_deref());
        std::iter::once(&*self.domain).chain(others)
    }
}

/// What is made of the elements of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AggregateKind {
    All,
    Any,
    Count,
    First,
    Last,
    List,
    Map,
    Greatest,
    Least,
    Set,
    Sort,
    Sum,
}

impl AggregateKind {
    pub(crate) const ALL: [(&'static str, Self); 12] = [
        ("all", Self::All),
        ("any", Self::Any),
        ("count", Self::Count),
        ("first", Self::First),
        ("last", Self::Last),
        ("list", Self::List),
        ("map", Self::Map),
        ("max", Self::Greatest),
        ("min", Self::Least),
        ("set", Self::Set),
        ("sort", Self::Sort),
        ("sum", Self::Sum),
    ];

    /// The aggregate that is written so.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(known, kind)| (known == name).then_some(kind))
    }
}

/// A comparison of the language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`.
    Equal,
    /// `!=`.
    Unequal,
    /// `<`.
    Less,
    /// `<=`.
    LessOrEqual,
    /// `>`.
    Greater,
    /// `>=`.
    GreaterOrEqual,
}

impl Comparison {
    /// The comparison that says the same with its sides exchanged.
    pub(crate) fn mirrored(self) -> Self {
        match self {
            Comparison::Equal | Comparison::Unequal => self,
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
    /// The longest path to a leaf, so that no tree is built that is too deep to walk.
    pub(crate) depth: usize,
}

#[derive(Clone, Debug)]
pub(crate) enum ExprKind {
    Literal(Value),
    Name(Name),
    This,
    Now,
    Today,
    Caller,
    /// `caller has role`.
    HasRole(Ident),
    Member(Box<Expr>, Ident),
    Call(Ident, Vec<Expr>),
    Negate(Box<Expr>),
    Not(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Set(Vec<Expr>),
    None,
    List(Vec<Expr>),
    Map(Vec<(Expr, Expr)>),
    /// `value[index]`, where `value` is no name.
    Element(Box<Expr>, Box<Expr>),
    /// `value!`.
    Present(Box<Expr>),
    /// `value with (field: new)`.
    With(Box<Expr>, Vec<(Ident, Expr)>),
    /// `value.name(..)`.
    Method(Box<Expr>, Ident, Vec<Expr>),
    /// `name: value`, as an argument and nowhere else.
    Named(Ident, Box<Expr>),
    /// `a .. b`, and `a ..< b`, which leaves `b` out.
    Range {
        low: Box<Expr>,
        high: Box<Expr>,
        is_closed: bool,
    },
    Aggregate(Box<Aggregate>),
    /// `Class[key]`, `Class[a, b]`, or an element of what has the name.
    Index(Ident, Vec<Expr>),
    Initialized(Box<Expr>),
    Finalized(Box<Expr>),
    InState(Box<Expr>, Vec<Ident>),
    /// `can x.Event(..)`.
    Can(Box<Expr>, Ident, Vec<Expr>),
    /// What could not be read and is reported.
    Wrong,
}
