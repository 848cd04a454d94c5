//! Aggregates over the elements of a set, and ranges.

use super::expression::{Context, Typed};
use super::{Checker, operators};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::Param;
use crate::model::expr::{Aggregate, Comparison, Expr, ExprKind, Fold, NumberKind};
use crate::source::Span;
use crate::syntax::tree::{self, AggregateKind, Binary, Ident};
use crate::value::{Percentage, Type, Value};

impl Checker {
    pub(super) fn aggregate(&mut self, tree: &tree::Aggregate, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        let domain = self.expression(&tree.domain, context, None)?;
        let Type::Set(element) = domain.ty() else {
            let message = format!("an aggregate needs a set, this is of type {}", domain.ty());
            self.report.push(Diagnostic::new(Code::TypeMismatch, tree.domain.span, message, "no set"));
            return None;
        };
        self.refuse_hidden(&tree.variable, context);
        context.locals.push(Param { name: tree.variable.name.clone(), ty: (**element).clone(), slot: 0 });
        let filter = tree.filter.as_ref().map(|filter| self.expect(filter, context, &Type::Boolean));
        let body = self.aggregate_body(tree, span, context);
        context.locals.pop();
        let (filter, body) = (filter.map_or(Some(None), |filter| filter.map(Some))?, body?);
        let mut depth = filter.iter().map(|filter| filter.depth).fold(domain.depth.max(body.depth), usize::max);
        if let (Some(start), false) = (&tree.start, tree.kind == AggregateKind::Sum) {
            let help = "only a sum has a value to begin with";
            self.refuse(Code::ArgumentCount, start.span, "this aggregate begins with nothing", "not needed", help);
            return None;
        }
        let (fold, ty) = match tree.kind {
            AggregateKind::All => (Fold::Quantified { is_all: true }, Type::Boolean),
            AggregateKind::Any => (Fold::Quantified { is_all: false }, Type::Boolean),
            AggregateKind::Count => (Fold::Count, Type::Integer),
            AggregateKind::Set => (Fold::Set, self.set_of(body.ty(), span)?),
            AggregateKind::Sum => {
                let start = self.start(tree, body.ty(), span, context)?;
                depth = depth.max(start.depth);
                let kind = match body.ty() {
                    Type::Money => NumberKind::Money,
                    Type::Percentage => NumberKind::Percentage,
                    _ => NumberKind::Integer,
                };
                (Fold::Sum(kind, start.expr), body.ty().clone())
            }
        };
        let filter = filter.map(|filter| filter.expr);
        let aggregate = Aggregate { fold, domain: domain.expr, filter, body: body.expr };
        Some(Typed::node(ExprKind::Aggregate(aggregate.into()), ty, span, depth))
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

    fn set_of(&mut self, element: &Type, span: Span) -> Option<Type> {
        if let Type::Set(_) = element {
            let help = "the elements of a set are of a type that is no set";
            self.refuse(Code::TypeMismatch, span, "a set of sets", "not supported", help);
            return None;
        }
        Some(Type::Set(Box::new(element.clone())))
    }

    /// What a sum begins with.
    fn start(&mut self, tree: &tree::Aggregate, ty: &Type, span: Span, context: &mut Context<'_>) -> Option<Typed> {
        if !matches!(ty, Type::Integer | Type::Money | Type::Percentage) {
            let message = format!("there is no sum of {ty}");
            let help = "sums are of Integer, Money and Percentage";
            self.refuse(Code::Operands, span, message, "not defined", help);
            return None;
        }
        if let Some(start) = &tree.start {
            return self.expect(start, context, ty);
        }
        let zero = match ty {
            Type::Integer => Value::Integer(0),
            Type::Percentage => Value::Percentage(Percentage::from_units(0)?),
            _ => {
                let help = "say what it begins with behind a comma, as in `sum(x in xs: x, EUR 0.00)`";
                self.refuse(Code::ArgumentCount, span, "a sum of no amounts has no currency", "no beginning", help);
                return None;
            }
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
            let value = Typed { expr: value.expr.clone(), depth: value.depth };
            self.or_refuse(operators::binary(Binary::Compare(comparison), value, bound, span, context.rounding), span)
        };
        let below = if is_closed { Comparison::LessOrEqual } else { Comparison::Less };
        let bounds = [low.expr.clone(), high.expr.clone()];
        let (least, most) = (compared(Comparison::GreaterOrEqual, low)?, compared(below, high)?);
        // What is no more than a name is compared twice, which the analysis sees through.
        if value.expr.operands().is_empty() {
            return self.or_refuse(operators::binary(Binary::And, least, most, span, context.rounding), span);
        }
        let [low, high] = bounds;
        let kind = [&least.expr, &most.expr].into_iter().find_map(|expr| match &expr.kind {
            ExprKind::Compare(_, kind, ..) => *kind,
            _ => None,
        });
        let depth = least.depth.max(most.depth);
        let within = ExprKind::Within(kind, [value.expr, low, high].into(), is_closed);
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
