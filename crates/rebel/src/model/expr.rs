//! Expressions, rules, effects and statements with resolved names.

use std::sync::Arc;

use super::Function;
use crate::source::Span;
pub(crate) use crate::syntax::tree::Comparison;
use crate::value::{Name, Rounding, Type, Value};

/// A field or parameter: its name, and where it is found in bindings that hold all of them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slot {
    pub(crate) index: usize,
    pub(crate) name: Name,
}

/// What kind of number an operation yields. Its unit is the smallest one: minor units, 10^-16 percent, days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberKind {
    Integer,
    Money,
    Percentage,
    Date,
}

impl Comparison {
    /// Whether it asks which operand is less.
    pub(crate) fn is_ordered(self) -> bool {
        !matches!(self, Comparison::Equal | Comparison::Unequal)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operator {
    Add,
    Subtract,
    /// By an Integer on the right.
    Multiply,
}

/// An expression: what is computed, the type of its value, and where it stands.
#[derive(Clone, Debug)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    /// Apart from what the interpreter looks at.
    of: Box<(Type, Span)>,
}

/// Two are equal if they compute the same, wherever they stand.
impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, ty: Type, span: Span) -> Self {
        Self { kind, of: Box::new((ty, span)) }
    }

    /// The type of its value.
    pub(crate) fn ty(&self) -> &Type {
        &self.of.0
    }

    /// Where it stands.
    pub(crate) fn span(&self) -> Span {
        self.of.1
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Literal(Value),
    /// The field of this number of the identity.
    Identity(usize),
    This,
    Now,
    Today,
    Field(Slot),
    Param(Slot),
    /// A parameter of the function around it, or a variable of the `for` around it.
    Local(usize),
    Arithmetic(Operator, NumberKind, Box<Expr>, Box<Expr>),
    /// An amount of money times a percentage.
    Share(Rounding, Box<Expr>, Box<Expr>),
    Negate(NumberKind, Box<Expr>),
    /// With the kind of number that is compared, if it is one that has sums.
    Compare(Comparison, Option<NumberKind>, Box<Expr>, Box<Expr>),
    /// Comparison with zero, whatever the currency.
    CompareZero(Comparison, Box<Expr>),
    Not(Box<Expr>),
    And(Box<Expr>, Box<Expr>),
    Or(Box<Expr>, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    In(Box<Expr>, Box<Expr>),
    Set(Vec<Expr>),
    Insert(Box<Expr>, Box<Expr>),
    Remove(Box<Expr>, Box<Expr>),
    CurrencyOf(Box<Expr>),
    SizeOf(Box<Expr>),
    Call(Arc<Function>, Vec<Expr>),
    /// The field of this number of the identity of an instance.
    KeyOf(Box<Expr>, usize),
    /// The instance of the class that has this identity.
    Refer(Name, Vec<Expr>),
    /// Whether the first lies between the two others, with the last or without.
    Within(Option<NumberKind>, Box<[Expr; 3]>, bool),
    /// From the first to the second, with it or without: a set of numbers or days.
    Range(Box<Expr>, Box<Expr>, bool),
    Aggregate(Box<Aggregate>),
    /// What another instance is asked, and the answer that the call carries.
    Ask(Box<Expr>, Box<Query>),
}

/// What is made of the elements of a set. Each is the innermost local in filter and body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Aggregate {
    pub(crate) fold: Fold,
    pub(crate) domain: Expr,
    /// Which elements count; without one, all.
    pub(crate) filter: Option<Expr>,
    pub(crate) body: Expr,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fold {
    /// Whether the body holds of all, or of any.
    Quantified { is_all: bool },
    /// How many there are; the body is not looked at.
    Count,
    /// The values of the body.
    Set,
    /// The sum of the values of the body, and of the value to begin with.
    Sum(NumberKind, Expr),
}

/// A question as it is written: what is asked, in the words of the source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) asks: Asks,
    pub(crate) text: Name,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asks {
    Field(Name),
    Initialized,
    InState(Arc<[Name]>),
    Possible { event: Name, arguments: Arguments },
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
            | ExprKind::Field(_)
            | ExprKind::Param(_)
            | ExprKind::Local(_) => Vec::new(),
            ExprKind::Negate(_, a)
            | ExprKind::CompareZero(_, a)
            | ExprKind::Not(a)
            | ExprKind::CurrencyOf(a)
            | ExprKind::SizeOf(a)
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
            | ExprKind::Range(a, b, _) => vec![a, b],
            ExprKind::Within(_, operands, _) => operands.iter().collect(),
            ExprKind::Aggregate(aggregate) => aggregate.operands(),
            ExprKind::If(a, b, c) => vec![a, b, c],
            ExprKind::Set(items) | ExprKind::Call(_, items) | ExprKind::Refer(_, items) => items.iter().collect(),
        }
    }

    /// Whether it has no value if its operands, amounts of money, are in different currencies.
    pub(crate) fn needs_one_currency(&self) -> bool {
        match &self.kind {
            ExprKind::Arithmetic(Operator::Add | Operator::Subtract, NumberKind::Money, ..) => true,
            ExprKind::Compare(comparison, Some(NumberKind::Money), ..) => comparison.is_ordered(),
            ExprKind::Within(kind, ..) => *kind == Some(NumberKind::Money),
            ExprKind::Aggregate(aggregate) => matches!(aggregate.fold, Fold::Sum(NumberKind::Money, _)),
            _ => false,
        }
    }

    /// Visits this expression and everything in it, bodies of called functions left out.
    pub(crate) fn walk<'a>(&'a self, visit: &mut dyn FnMut(&'a Expr)) {
        visit(self);
        for operand in self.operands() {
            operand.walk(visit);
        }
    }
}

impl Aggregate {
    fn operands(&self) -> Vec<&Expr> {
        let start = match &self.fold {
            Fold::Sum(_, start) => Some(start),
            _ => None,
        };
        std::iter::once(&self.domain).chain(&self.filter).chain([&self.body]).chain(start).collect()
    }
}

impl Query {
    fn arguments(&self) -> impl Iterator<Item = &Expr> {
        let arguments = match &self.asks {
            Asks::Possible { arguments, .. } => arguments.values.as_slice(),
            _ => &[],
        };
        arguments.iter().map(|(_, argument)| argument)
    }
}

/// A guard or an invariant.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// The text of a refusal: the name its author gave it, or the condition.
    pub(crate) text: Name,
    /// The condition as written.
    pub(crate) condition: Name,
    pub(crate) expr: Expr,
    /// The fields and parameters it reads, each once, in the order of reading.
    pub(crate) reads: Vec<(Name, Expr)>,
    pub(crate) span: Span,
}

/// `this.field == value`.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    pub(crate) field: Slot,
    pub(crate) value: Expr,
    /// As written.
    pub(crate) text: Name,
}

/// What an event needs from other instances.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Act {
        target: Expr,
        /// The class of the target.
        class: Name,
        act: Act,
        text: Name,
        span: Span,
    },
    If(Expr, Vec<Statement>, Name),
    /// For every element of the set, which is the innermost local.
    For(Expr, Vec<Statement>, Name),
}

#[derive(Clone, Debug)]
pub(crate) enum Act {
    Do { event: Name, arguments: Arguments },
    Impossible { event: Name, arguments: Arguments },
    Initialized,
    InState(Arc<[Name]>),
}

/// The arguments of a call.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Arguments {
    /// The names of the parameters, in the order of bindings.
    pub(crate) names: Arc<[Name]>,
    /// In the order of the parameters, which is that of evaluation; each with the index of its name.
    pub(crate) values: Vec<(usize, Expr)>,
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
