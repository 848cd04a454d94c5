//! Functions and properties that the language has.

use super::Checker;
use super::coerce::unify;
use super::expression::{Context, Typed};
use super::operators::{for_optional, number_kind};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::ExprKind;
use crate::model::{Builtin, Param};
use crate::source::Span;
use crate::syntax::tree::{self, Ident};
use crate::value::{Decimal, Rounding, Type, Value};

/// Checks the arguments of a function.
type Built = fn(&mut Checker, Given<'_>, &mut Context<'_>) -> Option<Typed>;

/// A function as it is called.
#[derive(Clone, Copy)]
struct Given<'a> {
    name: &'a Ident,
    arguments: &'a [tree::Expr],
    span: Span,
}

/// A function: its name, how it is written, how many arguments it takes at least and at most.
struct Function(&'static str, &'static str, [usize; 2], Built);

const FUNCTIONS: [Function; 9] = [
    Function("abs", "abs(x)", [1, 1], Checker::absolute),
    Function("clamp", "clamp(x, low, high)", [3, 3], |checker, given, context| {
        checker.ordered(Builtin::Clamp, given, context)
    }),
    Function("divide", "divide(a, b, decimals)", [3, 3], Checker::divided),
    Function("max", "max(a, b)", [2, 2], |checker, given, context| checker.ordered(Builtin::Greatest, given, context)),
    Function("min", "min(a, b)", [2, 2], |checker, given, context| checker.ordered(Builtin::Least, given, context)),
    Function("money", "money(currency, x)", [2, 2], Checker::money),
    Function("percentage", "percentage(part, whole)", [2, 2], Checker::percentage),
    Function("round", "round(x, decimals)", [2, 3], Checker::rounded),
    Function("zero", "zero(currency)", [1, 1], Checker::zero),
];

/// Whether the language has a function of this name.
pub(super) fn is_function(name: &str) -> bool {
    functions().any(|known| known == name)
}

/// The names of the functions.
pub(super) fn functions() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().map(|function| function.0)
}

/// The properties of a type: their names, what they are, and of which type.
fn properties(ty: &Type) -> Vec<(&'static str, Builtin, Type)> {
    match ty {
        Type::Money | Type::MoneyOf(_) => vec![("amount", Builtin::Amount, Type::Decimal(4))],
        Type::Map(types) => vec![
            ("keys", Builtin::Keys, Type::Set(types.0.clone().into())),
            ("values", Builtin::Values, Type::List(types.1.clone().into())),
        ],
        Type::String => vec![
            ("length", Builtin::Length, Type::Integer),
            ("lower", Builtin::Lower, Type::String),
            ("trim", Builtin::Trim, Type::String),
            ("upper", Builtin::Upper, Type::String),
        ],
        Type::Date => vec![
            ("day", Builtin::Day, Type::Integer),
            ("month", Builtin::Month, Type::Integer),
            ("start", Builtin::Start, Type::Timestamp),
            ("weekday", Builtin::Weekday, Type::Integer),
            ("year", Builtin::Year, Type::Integer),
        ],
        Type::Timestamp => vec![("date", Builtin::Date, Type::Date), ("time", Builtin::Time, Type::Time)],
        Type::Iban => vec![("country", Builtin::Country, Type::String)],
        _ => Vec::new(),
    }
}

/// The methods of a type: their names, what they are, the types of their arguments, and that of their value.
fn methods(ty: &Type) -> Vec<(&'static str, Builtin, Vec<Type>, Type)> {
    match ty {
        Type::Map(types) => {
            let optional = Type::Optional(types.1.present().clone().into());
            vec![("get", Builtin::Get, vec![types.0.clone()], optional)]
        }
        Type::String => vec![
            ("contains", Builtin::Contains, vec![Type::String], Type::Boolean),
            ("endsWith", Builtin::EndsWith, vec![Type::String], Type::Boolean),
            ("slice", Builtin::Slice, vec![Type::Integer, Type::Integer], Type::String),
            ("startsWith", Builtin::StartsWith, vec![Type::String], Type::Boolean),
        ],
        _ => Vec::new(),
    }
}

impl Checker {
    /// `value.member`, where the value is no instance.
    pub(super) fn property(&mut self, inner: Typed, member: &Ident, span: Span) -> Option<Typed> {
        let (depth, ty) = (inner.depth, inner.ty().clone());
        match (&ty, &*member.name) {
            (Type::Record(record), _) => {
                let (index, ty) = self.record_field(record, member)?;
                return Some(Typed::node(ExprKind::FieldOf(inner.expr.into(), index), ty, span, depth));
            }
            (Type::Money | Type::MoneyOf(_), "currency") => {
                return Some(Typed::node(ExprKind::CurrencyOf(inner.expr.into()), Type::Currency, span, depth));
            }
            (Type::Set(_) | Type::List(_) | Type::Map(_), "size") => {
                return Some(Typed::node(ExprKind::SizeOf(inner.expr.into()), Type::Integer, span, depth));
            }
            _ => {}
        }
        let known = properties(&ty);
        if let Some((_, builtin, result)) = known.iter().find(|(name, ..)| *name == &*member.name) {
            let kind = ExprKind::Apply(builtin.clone(), vec![inner.expr]);
            return Some(Typed::node(kind, result.clone(), span, depth));
        }
        let message = format!("{ty} has no property `{}`", member.name);
        let diagnostic = Diagnostic::new(Code::UnknownMember, member.span, message, "no such property");
        let mut names: Vec<&str> = known.iter().map(|(name, ..)| *name).collect();
        match ty {
            Type::Money | Type::MoneyOf(_) => names.push("currency"),
            Type::Set(_) | Type::List(_) | Type::Map(_) => names.push("size"),
            _ => {}
        }
        names.sort_unstable();
        let is_method = methods(&ty).iter().any(|(name, ..)| *name == &*member.name);
        self.report.push(match (is_method, for_optional(&ty)) {
            (true, _) => diagnostic.help(format!("write its arguments, as in `x.{}(..)`", member.name)),
            (false, Some(help)) => diagnostic.help(help),
            (false, None) if names.is_empty() => diagnostic,
            (false, None) => {
                let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
                diagnostic.help(format!("{} has {}", of_kind(&ty), names.join(", ")))
            }
        });
        None
    }

    /// `value.name(..)`, where the value is no instance.
    pub(super) fn method(
        &mut self,
        inner: Typed,
        name: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let ty = inner.ty().clone();
        let known = methods(&ty);
        let Some((_, builtin, params, result)) = known.iter().find(|(known, ..)| *known == &*name.name) else {
            let message = format!("{ty} has no method `{}`", name.name);
            let diagnostic = Diagnostic::new(Code::UnknownMember, name.span, message, "no such method");
            let is_property = properties(&ty).iter().any(|(known, ..)| *known == &*name.name);
            self.report.push(match (is_property, for_optional(&ty)) {
                (true, _) => diagnostic.help(format!("leave the parentheses out: `x.{}`", name.name)),
                (false, Some(help)) => diagnostic.help(help),
                (false, None) => diagnostic.did_you_mean(&name.name, known.iter().map(|(name, ..)| *name)),
            });
            return None;
        };
        let params: Vec<_> = params.iter().map(|ty| Param::local("".into(), ty.clone())).collect();
        let arguments = self.typed_arguments(&name.name, arguments, &params, span, context)?;
        let depth = arguments.iter().map(|argument| argument.depth).fold(inner.depth, usize::max);
        let operands = std::iter::once(inner.expr).chain(arguments.into_iter().map(|argument| argument.expr)).collect();
        Some(Typed::node(ExprKind::Apply(builtin.clone(), operands), result.clone(), span, depth))
    }

    /// A function of the language.
    pub(super) fn function(
        &mut self,
        name: &Ident,
        arguments: &[tree::Expr],
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let Function(_, written, [least, most], build) = FUNCTIONS.iter().find(|function| *function.0 == *name.name)?;
        if (*least..=*most).contains(&arguments.len()) {
            return build(self, Given { name, arguments, span }, context);
        }
        let plural = if arguments.len() == 1 { "" } else { "s" };
        let message = format!("`{}` does not take {} argument{plural}", name.name, arguments.len());
        let diagnostic = Diagnostic::new(Code::ArgumentCount, span, message, "this call");
        self.report.push(diagnostic.help(format!("it is written `{written}`")));
        None
    }

    /// The arguments, whatever their types.
    fn given(&mut self, arguments: &[tree::Expr], context: &mut Context<'_>) -> Option<Vec<Typed>> {
        let typed: Vec<_> = arguments.iter().map(|argument| self.expression(argument, context, None)).collect();
        typed.into_iter().collect()
    }

    /// What the language computes of arguments, if it is defined for their types.
    fn defined(
        &mut self,
        arguments: Vec<Typed>,
        given: Given<'_>,
        of: impl FnOnce(&[Type]) -> Option<(Builtin, Type)>,
    ) -> Option<Typed> {
        let types: Vec<Type> = arguments.iter().map(|argument| argument.ty().clone()).collect();
        let depth = arguments.iter().map(|argument| argument.depth).max().unwrap_or(0);
        let Some((builtin, ty)) = of(&types) else {
            let shown: Vec<String> = types.iter().map(ToString::to_string).collect();
            let message = format!("`{}` is not defined for {}", given.name.name, shown.join(" and "));
            let help = types.iter().find_map(for_optional);
            let diagnostic = Diagnostic::new(Code::Operands, given.span, message, "not defined");
            self.report.push(Diagnostic { help, ..diagnostic });
            return None;
        };
        let operands = arguments.into_iter().map(|argument| argument.expr).collect();
        Some(Typed::node(ExprKind::Apply(builtin, operands), ty, given.span, depth))
    }

    fn absolute(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(given.arguments, context)?;
        self.defined(arguments, given, |types| {
            let is_number = number_kind(&types[0]).is_some() || matches!(types[0], Type::Decimal(_) | Type::Duration);
            is_number.then(|| (Builtin::Absolute, types[0].clone()))
        })
    }

    fn zero(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(given.arguments, context)?;
        self.defined(arguments, given, |types| (types[0] == Type::Currency).then_some((Builtin::Zero, Type::Money)))
    }

    fn money(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(given.arguments, context)?;
        self.defined(arguments, given, |types| {
            (types[0] == Type::Currency && is_number(&types[1])).then_some((Builtin::Money, Type::Money))
        })
    }

    fn percentage(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(given.arguments, context)?;
        let rounding = context.rounding;
        self.defined(arguments, given, |types| {
            let is_defined = types.iter().all(is_number) || types.iter().all(is_money);
            is_defined.then_some((Builtin::Share(rounding), Type::Percentage))
        })
    }

    fn divided(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(&given.arguments[..2], context)?;
        let (rounding, decimals) = (context.rounding, self.decimals(&given.arguments[2])?);
        self.defined(arguments, given, |types| {
            types.iter().all(is_number).then_some((Builtin::DivideTo(decimals, rounding), Type::Decimal(decimals)))
        })
    }

    fn rounded(&mut self, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(&given.arguments[..1], context)?;
        let decimals = self.decimals(&given.arguments[1])?;
        let rounding = match given.arguments.get(2) {
            Some(mode) => self.rounding_mode(mode)?,
            None => context.rounding,
        };
        self.defined(arguments, given, |types| {
            matches!(types[0], Type::Decimal(_))
                .then_some((Builtin::Round(decimals, rounding), Type::Decimal(decimals)))
        })
    }

    /// A choice among values of one type with an order.
    fn ordered(&mut self, builtin: Builtin, given: Given<'_>, context: &mut Context<'_>) -> Option<Typed> {
        let arguments = self.given(given.arguments, context)?;
        let arguments = unified(arguments);
        self.defined(arguments, given, |types| {
            let is_ordered = types[0].is_ordered() || types[0] == Type::String;
            (is_ordered && types.iter().all(|ty| *ty == types[0])).then(|| (builtin, types[0].clone()))
        })
    }

    /// How many decimals a result has, which decides its type.
    fn decimals(&mut self, tree: &tree::Expr) -> Option<u8> {
        let decimals = match &tree.kind {
            tree::ExprKind::Literal(Value::Integer(number)) => u8::try_from(*number).ok(),
            _ => None,
        };
        let decimals = decimals.filter(|decimals| *decimals <= Decimal::DECIMALS_MAX);
        if decimals.is_none() {
            let message = format!("how many decimals there are is a number from 0 to {}", Decimal::DECIMALS_MAX);
            self.refuse(
                Code::Literal,
                tree.span,
                message,
                "no such number",
                "write it as a literal: it decides the type",
            );
        }
        decimals
    }

    fn rounding_mode(&mut self, tree: &tree::Expr) -> Option<Rounding> {
        let written: String = self.text(tree.span).split(' ').collect();
        let mode = Rounding::ALL.into_iter().find(|mode| mode.name() == written);
        if mode.is_none() {
            let diagnostic = Diagnostic::new(Code::Literal, tree.span, "unknown rounding rule", "no such rule");
            let names = Rounding::ALL.map(Rounding::name).join(", ");
            self.report.push(diagnostic.help(format!("the rules are {names}")));
        }
        mode
    }
}

/// The values, as ones of the widest of their types, if they widen to it.
pub(super) fn unified(mut values: Vec<Typed>) -> Vec<Typed> {
    // Once for each step that a type may widen: the last one has met all others by then.
    for _ in 0..2 {
        for index in 1..values.len() {
            let right = values.remove(index);
            let left = values.remove(index - 1);
            let (left, right) = unify(left, right).unwrap_or_else(|both| *both);
            values.splice(index - 1..index - 1, [left, right]);
        }
    }
    values
}

fn is_number(ty: &Type) -> bool {
    matches!(ty, Type::Integer | Type::Decimal(_))
}

fn is_money(ty: &Type) -> bool {
    matches!(ty, Type::Money | Type::MoneyOf(_))
}

fn of_kind(ty: &Type) -> &'static str {
    match ty {
        Type::Money | Type::MoneyOf(_) => "Money",
        Type::Set(_) => "a set",
        Type::List(_) => "a list",
        Type::Map(_) => "a map",
        Type::String => "a String",
        Type::Date => "a Date",
        Type::Timestamp => "a Timestamp",
        _ => "it",
    }
}
