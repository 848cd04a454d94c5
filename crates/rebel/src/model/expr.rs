//! Expressions, rules, effects and statements with resolved names.

use std::sync::Arc;

use super::{Builtin, Function};
use crate::analysis::may_mismatch;
use crate::source::Span;
pub use crate::syntax::tree::{Comparison, EffectOperator};
use crate::value::{Name, RecordType, Rounding, Type, Value};

/// A field or parameter: its name, and where it is found in bindings that hold all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Slot {
    /// The rank of the name among all of them.
    pub index: usize,
    /// The name.
    pub name: Name,
}

/// What kind of number an operation yields. Its unit is the smallest one: minor units, 10^-16 percent, days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NumberKind {
    /// A whole number.
    Integer,
    /// An amount of money.
    Money,
    /// A percentage.
    Percentage,
    /// A day.
    Date,
}

impl Comparison {
    /// Whether it asks which operand is less.
    #[must_use]
    pub fn is_ordered(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::Unequal)
    }
}

/// An operation on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operator {
    /// The sum.
    Add,
    /// The difference.
    Subtract,
    /// The product with an Integer on the right.
    Multiply,
}

/// An expression: what is computed, the type of its value, and where it stands.
#[derive(Clone, Debug)]
pub struct Expr {
    pub(crate) kind: ExprKind,
    /// Apart from what the interpreter looks at.
    of: Box<About>,
}

/// What is known of an expression before it is evaluated.
#[derive(Clone, Debug)]
struct About {
    ty: Type,
    span: Span,
    reads_fields: bool,
}

/// Two are equal if they compute the same, wherever they stand.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, ty: Type, span: Span) -> Self {
        let mut expr = Self { kind, of: Box::new(About { ty, span, reads_fields: false }) };
        expr.of.reads_fields = matches!(&expr.kind, ExprKind::Field(_) | ExprKind::NewField(_))
            || expr.operands().into_iter().any(Self::reads_fields);
        expr
    }

    /// What is computed.
    #[must_use]
    pub fn kind(&self) -> &ExprKind {
        &self.kind
    }

    /// The type of its value.
    #[must_use]
    pub fn ty(&self) -> &Type {
        &self.of.ty
    }

    /// Where it stands. What the checker has added stands where the source says what it was added for.
    #[must_use]
    pub fn span(&self) -> Span {
        self.of.span
    }
}

/// What an expression computes. Operands are evaluated in the order in which they stand here.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExprKind {
    /// A value that is known: a literal, or a constant by its name.
    Literal(Value),
    /// The field of this number of the identity of the instance.
    Identity(usize),
    /// The instance.
    This,
    /// The time of the event.
    Now,
    /// The day of the event.
    Today,
    /// A new instance of the class, under the identity that follows from the seed of the event and this number.
    Fresh(Name, usize),
    /// The id of the caller.
    CallerId,
    /// Whether the caller has this role.
    HasRole(Name),
    /// The value of a field before the event.
    Field(Slot),
    /// The value of a field after the effects of the event.
    NewField(Slot),
    /// An argument of the event.
    Param(Slot),
    /// A value that the event has named.
    Let(Arc<Let>),
    /// A parameter of the function around it, or a variable of the `for` or aggregate around it; counted from the outermost.
    Local(usize),
    /// A sum, a difference, or a product with an Integer.
    Arithmetic(Operator, NumberKind, Box<Expr>, Box<Expr>),
    /// An amount of money times a percentage, rounded.
    Share(Rounding, Box<Expr>, Box<Expr>),
    /// The opposite number.
    Negate(NumberKind, Box<Expr>),
    /// A comparison, with the kind of number that is compared, if it is one that has sums.
    Compare(Comparison, Option<NumberKind>, Box<Expr>, Box<Expr>),
    /// A comparison with zero, whatever the currency.
    CompareZero(Comparison, Box<Expr>),
    /// Whether it does not hold.
    Not(Box<Expr>),
    /// Whether both hold; the second is looked at only if the first does.
    And(Box<Expr>, Box<Expr>),
    /// Whether one of them holds; the second is looked at only if the first does not.
    Or(Box<Expr>, Box<Expr>),
    /// The second if the first holds, else the third. Effects on several fields share it.
    If(Arc<Expr>, Box<Expr>, Box<Expr>),
    /// Whether the first is an element of the second.
    In(Box<Expr>, Box<Expr>),
    /// The set of these elements.
    Set(Vec<Expr>),
    /// The set with an element.
    Insert(Box<Expr>, Box<Expr>),
    /// The set without an element.
    Remove(Box<Expr>, Box<Expr>),
    /// The currency of an amount.
    CurrencyOf(Box<Expr>),
    /// How many elements there are.
    SizeOf(Box<Expr>),
    /// The value of a function.
    Call(Arc<Function>, Vec<Expr>),
    /// The field of this number of the identity of an instance.
    KeyOf(Box<Expr>, usize),
    /// The instance of the class that has this identity.
    Refer(Name, Vec<Expr>),
    /// Whether the first lies between the two others, with the last or without.
    Within(Option<NumberKind>, Box<[Expr; 3]>, bool),
    /// From the first to the second, with it or without: a set of numbers or days.
    Range(Box<Expr>, Box<Expr>, bool),
    /// What is made of the elements of a collection or a range.
    Aggregate(Box<Aggregate>),
    /// The first unless it is `none`, else the second.
    Otherwise(Box<Expr>, Box<Expr>),
    /// What is there; a fault if it is `none`.
    Present(Box<Expr>),
    /// A value of a record, with its fields in the order of declaration.
    Record(Arc<RecordType>, Vec<Expr>),
    /// The field of this number of a record.
    FieldOf(Box<Expr>, usize),
    /// The record with other values in the fields of these numbers.
    With(Box<Expr>, Vec<(usize, Expr)>),
    /// The list of these elements.
    List(Vec<Expr>),
    /// The map of these entries.
    Map(Vec<(Expr, Expr)>),
    /// The value with these updates, all of which are computed before one is made; a fault if a place is given two values.
    Updated(Box<Expr>, Vec<Update>),
    /// What the language computes of its operands, all of which are evaluated.
    Apply(Builtin, Vec<Expr>),
    /// What another instance is asked, and the answer that the call carries.
    Ask(Box<Expr>, Box<Query>),
}

/// A value that an event names and computes at most once.
#[derive(Debug)]
pub struct Let {
    /// Its name.
    pub name: Name,
    /// Its number among those of the event.
    pub index: usize,
    /// What it stands for.
    pub value: Expr,
    /// What its value depends on: fields, parameters, questions and the like, each once.
    pub(crate) leaves: Vec<Expr>,
    /// Whether it may lack a value for another reason than the range of numbers.
    pub(crate) may_mismatch: bool,
}

impl PartialEq for Let {
    fn eq(&self, other: &Self) -> bool {
        self.index == other.index && self.name == other.name
    }
}

impl Let {
    pub(crate) fn new(name: Name, index: usize, value: Expr) -> Self {
        let mut leaves: Vec<Expr> = Vec::new();
        value.walk(&mut |expr| {
            let is_leaf = expr.operands().is_empty() || matches!(expr.kind, ExprKind::Ask(..));
            let is_constant = matches!(expr.kind, ExprKind::Literal(_) | ExprKind::Local(_));
            if is_leaf && !is_constant && !leaves.contains(expr) {
                leaves.push(expr.clone());
            }
        });
        Self { name, index, may_mismatch: may_mismatch(&value), leaves, value }
    }
}

/// What is made of a place inside of a value, or of several, as a condition or the elements of a collection say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// What is made of one place.
    At {
        /// The way to it; the value as a whole has none.
        way: Vec<Way>,
        /// What is done there. On no path a place becomes something and is increased or decreased too.
        operator: EffectOperator,
        /// What it becomes, or what is added or taken away: of a set the set of the elements, of a list the list of them, of a map
        /// the set of the keys.
        value: Expr,
    },
    /// The first updates if the condition holds, else the second.
    If(Arc<Expr>, Vec<Update>, Vec<Update>),
    /// The updates for every element of the collection, which is the innermost local.
    For(Arc<Expr>, Vec<Update>),
}

/// One step on the way into a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Way {
    /// To the entry of a map that has this key.
    Entry(Expr),
    /// To the field of a record that has this number.
    Member(usize),
}

/// What is made of the elements of a collection. Each is the innermost local in filter and body.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// What is made of them.
    pub fold: Fold,
    /// The elements.
    pub domain: Expr,
    /// Which elements count; without one, all.
    pub filter: Option<Expr>,
    /// What is taken of each element.
    pub body: Expr,
    /// The values of a map, of which the body gives the keys.
    pub value: Option<Expr>,
}

/// What an aggregate makes of its elements.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fold {
    /// Whether the body holds of all, or of any.
    Quantified {
        /// Of all of them.
        is_all: bool,
    },
    /// How many there are; the body is not looked at.
    Count,
    /// The values of the body.
    Set,
    /// The sum of the values of the body, and of the value to begin with.
    Sum(NumberKind, Expr),
    /// The least value of the body, or `none`.
    Least,
    /// The greatest value of the body, or `none`.
    Greatest,
    /// The value of the body for the first element, or `none`.
    First,
    /// The value of the body for the last element, or `none`.
    Last,
    /// The values of the body, in the order of the elements.
    List,
    /// The values under the keys that the body gives.
    Map,
    /// The elements in the order of the values of the body; equal ones stay in their order.
    Sort,
}

/// A question as it is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// What is asked.
    pub asks: Asks,
    /// In the words of the source.
    pub text: Name,
}

/// What another instance is asked.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Asks {
    /// The value of a field.
    Field(Name),
    /// Whether it exists.
    Initialized,
    /// Whether it is in one of these states.
    InState(Arc<[Name]>),
    /// What a read event returns.
    Result {
        /// The event.
        event: Name,
        /// Its arguments.
        arguments: Arguments,
    },
    /// Whether an event could happen.
    Possible {
        /// The event.
        event: Name,
        /// Its arguments.
        arguments: Arguments,
    },
}

impl Expr {
    /// The operands, in the order of evaluation.
    pub(crate) fn operands(&self) -> Vec<&Expr> {
        match &self.kind {
            ExprKind::Literal(_)
            | ExprKind::Identity(_)
            | ExprKind::This
            | ExprKind::Now
            | ExprKind::Today
            | ExprKind::Fresh(..)
            | ExprKind::CallerId
            | ExprKind::HasRole(_)
            | ExprKind::Field(_)
            | ExprKind::NewField(_)
            | ExprKind::Param(_)
            | ExprKind::Local(_) => Vec::new(),
            ExprKind::Negate(_, a)
            | ExprKind::CompareZero(_, a)
            | ExprKind::Not(a)
            | ExprKind::CurrencyOf(a)
            | ExprKind::SizeOf(a)
            | ExprKind::Present(a)
            | ExprKind::FieldOf(a, _)
            | ExprKind::KeyOf(a, _) => vec![a],
            ExprKind::Ask(target, query) => std::iter::once(&**target).chain(query.arguments()).collect(),
            ExprKind::Arithmetic(_, _, a, b)
            | ExprKind::Share(_, a, b)
            | ExprKind::Compare(_, _, a, b)
            | ExprKind::And(a, b)
            | ExprKind::Or(a, b)
            | ExprKind::In(a, b)
            | ExprKind::Insert(a, b)
            | ExprKind::Remove(a, b)
            | ExprKind::Otherwise(a, b)
            | ExprKind::Range(a, b, _) => vec![a, b],
            ExprKind::Within(_, operands, _) => operands.iter().collect(),
            ExprKind::Let(named) => named.leaves.iter().collect(),
            ExprKind::With(a, fields) => std::iter::once(&**a).chain(fields.iter().map(|(_, value)| value)).collect(),
            ExprKind::Map(entries) => entries.iter().flat_map(|(key, value)| [key, value]).collect(),
            ExprKind::Updated(a, updates) => {
                let mut operands = vec![&**a];
                updates.iter().for_each(|update| update.operands(&mut operands));
                operands
            }
            ExprKind::Aggregate(aggregate) => aggregate.operands(),
            ExprKind::If(a, b, c) => vec![a, b, c],
            ExprKind::Set(items)
            | ExprKind::Call(_, items)
            | ExprKind::Refer(_, items)
            | ExprKind::Record(_, items)
            | ExprKind::List(items)
            | ExprKind::Apply(_, items) => items.iter().collect(),
        }
    }

    /// Whether it has no value if its operands, amounts of money, are in different currencies.
    pub(crate) fn needs_one_currency(&self) -> bool {
        match &self.kind {
            ExprKind::Arithmetic(Operator::Add | Operator::Subtract, NumberKind::Money, ..) => true,
            ExprKind::Compare(comparison, Some(NumberKind::Money), ..) => comparison.is_ordered(),
            ExprKind::Within(kind, ..) => *kind == Some(NumberKind::Money),
            ExprKind::Aggregate(aggregate) => match aggregate.fold {
                Fold::Sum(kind, _) => kind == NumberKind::Money,
                Fold::Least | Fold::Greatest | Fold::Sort => matches!(aggregate.body.ty(), Type::Money),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether it may lack a value where its operands have one, for another reason than the range of numbers.
    pub(crate) fn is_partial(&self) -> bool {
        match &self.kind {
            ExprKind::Present(_)
            | ExprKind::Updated(..)
            | ExprKind::Map(_)
            | ExprKind::Refer(..)
            | ExprKind::Range(..) => true,
            ExprKind::Apply(builtin, _) => builtin.is_partial(),
            ExprKind::Aggregate(aggregate) if matches!(aggregate.fold, Fold::Map) => true,
            _ => self.needs_one_currency(),
        }
    }

    /// Whether its value may depend on that of a field of the instance.
    pub(crate) fn reads_fields(&self) -> bool {
        self.of.reads_fields
    }

    /// Visits this expression and everything in it, bodies of called functions left out.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        for operand in self.operands() {
            operand.walk(visit);
        }
    }
}

impl Update {
    fn operands<'a>(&'a self, operands: &mut Vec<&'a Expr>) {
        match self {
            Update::At { way, value, .. } => {
                operands.extend(way.iter().filter_map(|way| match way {
                    Way::Entry(key) => Some(key),
                    Way::Member(_) => None,
                }));
                operands.push(value);
            }
            Update::If(condition, accepted, otherwise) => {
                operands.push(condition);
                accepted.iter().chain(otherwise).for_each(|update| update.operands(operands));
            }
            Update::For(domain, updates) => {
                operands.push(domain);
                updates.iter().for_each(|update| update.operands(operands));
            }
        }
    }
}

impl Aggregate {
    fn operands(&self) -> Vec<&Expr> {
        let start = match &self.fold {
            Fold::Sum(_, start) => Some(start),
            _ => None,
        };
        std::iter::once(&self.domain).chain(&self.filter).chain([&self.body]).chain(&self.value).chain(start).collect()
    }
}

impl Query {
    fn arguments(&self) -> impl Iterator<Item = &Expr> {
        let arguments = match &self.asks {
            Asks::Possible { arguments, .. } | Asks::Result { arguments, .. } => arguments.values.as_slice(),
            _ => &[],
        };
        arguments.iter().map(|(_, argument)| argument)
    }
}

/// A guard or an invariant.
#[derive(Clone, Debug)]
pub struct Rule {
    /// The text of a refusal: the name its author gave it, or the condition.
    pub text: Name,
    /// The condition as written.
    pub condition: Name,
    /// What has to hold.
    pub expr: Expr,
    /// The fields and parameters it reads, each once, in the order of reading.
    pub(crate) reads: Vec<(Name, Expr)>,
}

/// What an event makes of a field. `+=` and `-=` are written out: the value reads the field.
///
/// All effects on one field are one value. What stands under `if` is an [`ExprKind::If`] where nothing else changes the field; an
/// [`ExprKind::Updated`] has all others.
#[derive(Clone, Debug)]
pub struct Effect {
    /// The field.
    pub field: Slot,
    /// Its new value, computed from those before the event.
    pub value: Expr,
    /// As written.
    pub text: Name,
}

/// What an event returns.
#[derive(Clone, Debug)]
pub struct Returned {
    /// The value, computed from those before and after the effects.
    pub value: Expr,
    /// As written.
    pub text: Name,
}

impl Returned {
    /// Whether its evaluation cannot fault, whatever the instance.
    pub(crate) fn is_plain(&self) -> bool {
        let is_leaf = self.value.operands().is_empty();
        is_leaf && !matches!(self.value.kind, ExprKind::Let(_) | ExprKind::Call(..))
    }
}

/// What an event needs from other instances.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Statement {
    /// An event of an instance, or a condition on it.
    Act {
        /// The instance.
        target: Expr,
        /// The class of the target.
        class: Name,
        /// What is needed of it.
        act: Act,
        /// As written, or the name of the guard.
        text: Name,
        /// Where it stands.
        span: Span,
    },
    /// The statements, if the condition, which is also given as written, holds. What stands under `else:` is a further statement,
    /// under the opposite condition.
    If(Expr, Vec<Statement>, Name),
    /// The statements for every element of the set, which is the innermost local. The set is also given as written.
    For(Expr, Vec<Statement>, Name),
}

/// What a statement needs of an instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Act {
    /// The event happens there too.
    Do {
        /// The event.
        event: Name,
        /// Its arguments.
        arguments: Arguments,
    },
    /// The event could not happen there.
    Impossible {
        /// The event.
        event: Name,
        /// Its arguments.
        arguments: Arguments,
    },
    /// The instance exists.
    Initialized,
    /// The instance is in one of these states.
    InState(Arc<[Name]>),
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// The names of the parameters, in the order of bindings.
    pub names: Arc<[Name]>,
    /// In the order of the parameters, which is that of evaluation; each with the index of its name.
    pub values: Vec<(usize, Expr)>,
}

impl Arguments {
    pub(crate) fn new(params: Vec<Name>, values: impl Iterator<Item = Expr>) -> Self {
        let rank = |name: &Name| params.iter().filter(|other| *other < name).count();
        let values = params.iter().map(rank).zip(values).collect();
        let mut names = params;
        names.sort_unstable();
        Self { names: names.into(), values }
    }
}

impl Statement {
    /// Every expression of the statement.
    pub(crate) fn expressions(&self) -> Vec<&Expr> {
        match self {
            Statement::Act { target, act, .. } => {
                let arguments = match act {
                    Act::Do { arguments, .. } | Act::Impossible { arguments, .. } => arguments.values.as_slice(),
                    Act::Initialized | Act::InState(_) => &[],
                };
                std::iter::once(target).chain(arguments.iter().map(|(_, argument)| argument)).collect()
            }
            Statement::If(condition, statements, _) | Statement::For(condition, statements, _) => {
                let mut expressions: Vec<_> = statements.iter().flat_map(Statement::expressions).collect();
                expressions.push(condition);
                expressions
            }
        }
    }
}
