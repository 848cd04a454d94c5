//! Aggregates over the elements of a set, and ranges.

use super::builtin::unified;
use super::expression::{Context, Typed};
use super::operators::number_kind;
use super::{Checker, operators};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Param;
use crate::model::expr::{Aggregate, Comparison, Expr, ExprKind, Fold, NumberKind};
use crate::source::Span;
use crate::syntax::tree::{self, AggregateKind, Binary, Ident};
use crate::value::{Decimal, Duration, Money, Percentage, Type, Value};

impl Checker {
    pub(super) fn aggregate(&mut self, tree: &tree::Aggregate, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let domain = self.expression(&tree.domain, context, None)?;
        let element = match domain.ty() {
            Type::Set(element) => Type::clone(element),
            Type::List(element) => Type::clone(element),
            ty => {
                let message = format!("an aggregate needs a set, a list or a range, this is of type {ty}");
                let diagnostic = Diagnostic::new(Code::TypeMismatch, tree.domain.span, message, "no elements");
                self.report.push(match ty {
                    Type::Map(_) => diagnostic.help("a map has `keys` and `values`"),
                    _ => diagnostic,
                });
                return None;
            }
        };
        self.refuse_hidden(&tree.variable, context);
        context.locals.push(Param::local(tree.variable.name.clone(), element.clone()));
        let filter = tree.filter.as_ref().map(|filter| self.expect(filter, context, &Type::Boolean));
        let body = self.aggregate_body(tree, span, context);
        let value = self.aggregate_value(tree, span, context);
        context.locals.pop();
        let (filter, body) = (filter.map_or(Some(None), |filter| filter.map(Some))?, body?);
        let value = value?;
        let parts = filter.iter().chain(&value).map(|part| part.depth);
        let mut depth = parts.fold(domain.depth.max(body.depth), usize::max);
        if let (Some(start), false) = (&tree.start, tree.kind == AggregateKind::Sum) {
            let help = "only a sum has a value to begin with";
            self.refuse(Code::ArgumentCount, start.span, "this aggregate begins with nothing", "not needed", help);
            return None;
        }
        let body_ty = body.ty().clone();
        let optional = || Type::Optional(body_ty.present().clone().into());
        let (fold, ty) = match tree.kind {
            AggregateKind::All => (Fold::Quantified { is_all: true }, Type::Boolean),
            AggregateKind::Any => (Fold::Quantified { is_all: false }, Type::Boolean),
            AggregateKind::Count => (Fold::Count, Type::Integer),
            AggregateKind::Set => (Fold::Set, Type::Set(body_ty.into())),
            AggregateKind::List => (Fold::List, Type::List(body_ty.into())),
            AggregateKind::First => (Fold::First, optional()),
            AggregateKind::Last => (Fold::Last, optional()),
            AggregateKind::Least => (Fold::Least, optional()),
            AggregateKind::Greatest => (Fold::Greatest, optional()),
            AggregateKind::Sort => (Fold::Sort, Type::List(element.into())),
            AggregateKind::Map => {
                let value = value.as_ref()?.ty().clone();
                (Fold::Map, Type::Map((body_ty, value).into()))
            }
            AggregateKind::Sum => {
                let start = self.start(tree, &body_ty, span, context)?;
                depth = depth.max(start.depth);
                let kind = number_kind(&body_ty).unwrap_or(NumberKind::Integer);
                (Fold::Sum(kind, start.expr), body_ty)
            }
        };
        let is_ordered = |ty: &Type| ty.is_ordered() || *ty == Type::String;
        if let (AggregateKind::Least | AggregateKind::Greatest, false) = (tree.kind, is_ordered(body.ty())) {
            let message = format!("of {} there is no least and no greatest", body.ty());
            self.refuse(Code::Operands, span, message, "no order", "sort by a number, a text or a time");
            return None;
        }
        let body = if tree.kind == AggregateKind::Sort { body.ranked() } else { body };
        let (filter, value) = (filter.map(|filter| filter.expr), value.map(|value| value.expr));
        let aggregate = Aggregate { fold, domain: domain.expr, filter, body: body.expr, value };
        Some(Typed::node(ExprKind::Aggregate(aggregate.into()), ty, span, depth))
    }

    /// The values of a map, behind `->`.
    fn aggregate_value(
        &mut self,
        tree: &tree::Aggregate,
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Option<Typed>> {
        match (&tree.value, tree.kind == AggregateKind::Map) {
            (Some(value), true) => self.expression(value, context, None).map(Some),
            (None, false) => Some(None),
            (None, true) => {
                let help = "write key and value of each element, as in `map(x in xs: x -> x.price)`";
                self.refuse(Code::ArgumentCount, span, "a map has values beside its keys", "no values", help);
                None
            }
            (Some(value), false) => {
                let help = "only `map` has keys and values";
                self.refuse(Code::ArgumentCount, value.span, "this aggregate takes one value", "not needed", help);
                None
            }
        }
    }

    /// What is taken of each element: the element itself, if nothing is said.
    fn aggregate_body(&mut self, tree: &tree::Aggregate, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        match (tree.kind, &tree.body) {
            (AggregateKind::All | AggregateKind::Any, Some(body)) => self.expect(body, context, &Type::Boolean),
            (AggregateKind::All | AggregateKind::Any, None) => {
                let help = "write what holds of each element behind a colon, as in `all(x in xs: x > 0)`";
                self.refuse(Code::ArgumentCount, span, "nothing is asked of the elements", "no condition", help);
                None
            }
            (AggregateKind::Count, Some(body)) => {
                let help = "write which elements count behind `where`, as in `count(x in xs where x > 0)`";
                self.refuse(
                    Code::ArgumentCount,
                    body.span,
                    "a count takes nothing of its elements",
                    "not needed",
                    help,
                );
                None
            }
            (_, Some(body)) => self.expression(body, context, None),
            (_, None) => {
                context.used.push(tree.variable.name.clone());
                let index = context.locals.len().checked_sub(1)?;
                Some(Typed::leaf(ExprKind::Local(index), context.locals[index].ty.clone(), tree.variable.span))
            }
        }
    }

    /// What a sum begins with.
    fn start(&mut self, tree: &tree::Aggregate, ty: &Type, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let zero = match ty {
            Type::Integer => Some(Value::Integer(0)),
            Type::Percentage => Percentage::from_units(0).map(Value::Percentage),
            Type::Decimal(decimals) => Decimal::new(0, *decimals).map(Value::Decimal),
            Type::Duration => Some(Value::Duration(Duration::from_millis(0))),
            Type::MoneyOf(currency) => Money::new(*currency, 0).map(Value::Money),
            _ => None,
        };
        if zero.is_none() && *ty != Type::Money {
            let message = format!("there is no sum of {ty}");
            let help = "sums are of Integer, Decimal, Money, Percentage and Duration";
            self.refuse(Code::Operands, span, message, "not defined", help);
            return None;
        }
        if let Some(start) = &tree.start {
            return self.expect(start, context, ty);
        }
        let Some(zero) = zero else {
            let help = "say what it begins with behind a comma, as in `sum(x in xs: x, EUR 0.00)`";
            self.refuse(Code::ArgumentCount, span, "a sum of no amounts has no currency", "no beginning", help);
            return None;
        };
        Some(Typed::leaf(ExprKind::Literal(zero), ty.clone(), span))
    }

    /// The numbers or days from `low` to `high`.
    pub(super) fn range(
        &mut self,
        low: &tree::Expr,
        high: &tree::Expr,
        is_closed: bool,
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let low = self.expression(low, context, None)?;
        let high = self.expect(high, context, low.ty())?;
        if !matches!(low.ty(), Type::Integer | Type::Date) {
            let message = format!("the elements of a range of {} cannot be told one by one", low.ty());
            let help = "ranges are of Integer and Date; `x in a .. b` compares values of every type with an order";
            self.refuse(Code::Operands, span, message, "no set", help);
            return None;
        }
        let (ty, depth) = (Type::Set(Box::new(low.ty().clone())), low.depth.max(high.depth));
        Some(Typed::node(ExprKind::Range(low.expr.into(), high.expr.into(), is_closed), ty, span, depth))
    }

    /// `x in low .. high`, which compares.
    pub(super) fn in_range(
        &mut self,
        tree: &tree::Expr,
        [low, high]: [&tree::Expr; 2],
        is_closed: bool,
        span: Span,
        context: &mut Context<'_>,
    ) -> Option<Typed> {
        let value = self.expression(tree, context, None)?;
        let (low, high) = (self.expression(low, context, None)?, self.expression(high, context, None)?);
        let mut compared = |comparison, bound: Typed| {
            self.or_refuse(
                operators::binary(Binary::Compare(comparison), value.clone(), bound, span, context.rounding),
                span,
            )
        };
        let below = if is_closed { Comparison::LessOrEqual } else { Comparison::Less };
        let bounds = [low.clone(), high.clone()];
        let (least, most) = (compared(Comparison::GreaterOrEqual, low)?, compared(below, high)?);
        // What is no more than a name is compared twice, which the analysis sees through.
        if value.expr.operands().is_empty() {
            return self.or_refuse(operators::binary(Binary::And, least, most, span, context.rounding), span);
        }
        let kind = [&least.expr, &most.expr].into_iter().find_map(|expr| match &expr.kind {
            ExprKind::Compare(_, kind, ..) => *kind,
            _ => None,
        });
        let depth = least.depth.max(most.depth);
        let operands = unified([vec![value], bounds.into()].concat()).into_iter().map(|operand| operand.ranked().expr);
        let operands: Box<[Expr; 3]> = Box::new(operands.collect::<Vec<_>>().try_into().ok()?);
        let within = ExprKind::Within(kind, operands, is_closed);
        Some(Typed { expr: Expr::new(within, Type::Boolean, span), depth })
    }

    /// Refuses a variable that is named like something else.
    pub(super) fn refuse_hidden(&mut self, variable: &Ident, context: &Context<'_>) {
        self.refuse_library_name(variable, "variable");
        if let Some(class) = context.class() {
            self.refuse_field_name(class, variable, "variable");
        }
        if context.names().any(|name| *name == variable.name) {
            let message = format!("the variable `{}` hides another one", variable.name);
            self.refuse(Code::Duplicate, variable.span, message, "hides it", "choose another name");
        }
    }
}
