//! Whether an expression has the same value in an instance before and after another event.
//!
//! The two instances are related: the second is what an open event makes of the first. Fields that the event does not
//! change are equal in both, and so is every expression over them; others may still be decided equally in both.

use super::abstraction::{Abstract, Denomination, Domain};
use crate::model::expr::{EffectOperator, Expr, ExprKind, NumberKind, Operator, Statement, Update};
use crate::value::Type;

/// What an event leaves as it is in a field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Kept {
    pub(super) value: bool,
    pub(super) currency: bool,
}

/// An instance before and after an event.
pub(super) struct Pair<'a, 'd> {
    pub(super) before: &'d Domain<'a>,
    pub(super) after: &'d Domain<'a>,
    /// By slot.
    pub(super) kept: &'d [Kept],
}

impl Pair<'_, '_> {
    /// Whether `expr`, where it has a value, has the same in both.
    pub(super) fn same(&self, expr: &Expr) -> bool {
        if !self.before.burn(1) {
            return false;
        }
        match &expr.kind {
            ExprKind::Field(slot) => self.kept.get(slot.index).is_some_and(|kept| kept.value),
            _ => {
                expr.operands().into_iter().all(|operand| self.same(operand))
                    || self.decided_equally(expr)
                    || self.compared_equally(expr)
            }
        }
    }

    fn decided_equally(&self, expr: &Expr) -> bool {
        let before = self.before.value(expr).0;
        before.is_single() && before == self.after.value(expr).0
    }

    /// A comparison of amounts that is decided equally if their currencies match, and they match in both or in none.
    fn compared_equally(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Compare(comparison, _, left, right) => {
                let verdict = |domain: &Domain<'_>| match (domain.value(left).0, domain.value(right).0) {
                    (Abstract::Number(a, _), Abstract::Number(b, _)) => a.compare(*comparison, b),
                    _ => None,
                };
                let before = verdict(self.before);
                before.is_some()
                    && before == verdict(self.after)
                    && self.same_currency(left)
                    && self.same_currency(right)
            }
            ExprKind::CurrencyOf(money) => self.same_currency(money),
            _ => false,
        }
    }

    /// Whether the amount `expr` is in the same currency in both.
    pub(super) fn same_currency(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Field(slot) => self.kept.get(slot.index).is_some_and(|kept| kept.currency),
            ExprKind::Arithmetic(Operator::Add | Operator::Subtract, NumberKind::Money, left, right) => {
                self.same_currency(left) || self.same_currency(right)
            }
            ExprKind::Arithmetic(Operator::Multiply, _, amount, _)
            | ExprKind::Share(_, amount, _)
            | ExprKind::Negate(_, amount) => self.same_currency(amount),
            _ => expr.operands().into_iter().all(|operand| self.same(operand)),
        }
    }

    /// Whether the evaluation of `expr` meets a currency mismatch in both or in neither.
    pub(super) fn same_mismatch(&self, expr: &Expr) -> bool {
        if !self.before.burn(1) {
            return false;
        }
        let operands = expr.operands();
        let is_same = |expr: &&Expr| self.same_mismatch(expr);
        match &expr.kind {
            ExprKind::Arithmetic(_, _, left, right) | ExprKind::Compare(_, _, left, right)
                if expr.needs_one_currency() =>
            {
                operands.iter().all(is_same)
                    && (self.same_currency(left) && self.same_currency(right)
                        || [self.before, self.after].into_iter().all(|domain| !mismatches(domain, left, right)))
            }
            // What is evaluated depends on the first operand.
            ExprKind::And(..) | ExprKind::Or(..) | ExprKind::If(..) => {
                operands.iter().all(is_same)
                    && (self.same(operands[0]) || !operands[1..].iter().any(|expr| may_mismatch(expr)))
            }
            ExprKind::Updated(old, updates) => {
                operands.iter().all(is_same)
                    && (operands.iter().all(|operand| self.same(operand)) || self.same_sum(expr.ty(), old, updates))
            }
            // What is there, how many there are and which keys are equal decides whether there is a value.
            _ if expr.is_partial() && !expr.needs_one_currency() => {
                operands.iter().all(is_same) && operands.iter().all(|operand| self.same(operand))
            }
            ExprKind::Otherwise(first, _) => {
                operands.iter().all(is_same)
                    && (self.same(first) || !operands[1..].iter().any(|expr| may_mismatch(expr)))
            }
            // Which elements there are decides what is added, and the lower bound whether the upper one is looked at.
            ExprKind::Aggregate(_) | ExprKind::Within(..) => {
                operands.iter().all(is_same) && (self.same(expr) || !may_mismatch(expr))
            }
            ExprKind::Let(named) => {
                operands.iter().all(is_same) && (!named.may_mismatch || named.leaves.iter().all(|leaf| self.same(leaf)))
            }
            ExprKind::Call(function, arguments) => {
                operands.iter().all(is_same)
                    && (!function.may_mismatch || arguments.iter().all(|argument| self.same(argument)))
            }
            _ => operands.iter().all(is_same),
        }
    }

    /// Whether updates of a number, which have the same mismatches among their operands, have the same of their own.
    fn same_sum(&self, ty: &Type, old: &Expr, updates: &[Update]) -> bool {
        let mut sum = Sum { governing: Vec::new(), values: Vec::new() };
        if !updates.iter().all(|update| sum.takes(update)) {
            return false;
        }
        let are_same_taken = sum.governing.iter().all(|expr| self.same(expr));
        match ty {
            Type::Integer | Type::Percentage | Type::Date => {
                are_same_taken || !sum.governing.iter().chain(&sum.values).any(|expr| may_mismatch(expr))
            }
            Type::Money | Type::MoneyOf(_) => {
                are_same_taken && self.same_currency(old) && sum.values.iter().all(|value| self.same_currency(value))
            }
            _ => false,
        }
    }

    /// Whether a statement needs the same of the same instances.
    pub(super) fn same_statement(&self, statement: &Statement) -> bool {
        statement.expressions().into_iter().all(|expr| self.same(expr) && self.same_mismatch(expr))
    }
}

/// What is added up, and what decides about that.
struct Sum<'e> {
    governing: Vec<&'e Expr>,
    values: Vec<&'e Expr>,
}

impl<'e> Sum<'e> {
    /// Takes an update up; says whether it is one of the value as a whole.
    fn takes(&mut self, update: &'e Update) -> bool {
        match update {
            Update::At { way, operator, value } => {
                self.values.push(value);
                way.is_empty() && *operator != EffectOperator::Becomes
            }
            Update::If(condition, accepted, otherwise) => {
                self.governing.push(condition);
                accepted.iter().chain(otherwise).all(|update| self.takes(update))
            }
            Update::For(domain, updates) => {
                self.governing.push(domain);
                updates.iter().all(|update| self.takes(update))
            }
        }
    }
}

fn mismatches(domain: &Domain<'_>, left: &Expr, right: &Expr) -> bool {
    let denomination = |expr| -> Denomination { domain.value(expr).0.denomination() };
    denomination(left).equals(denomination(right)) != Some(true)
}

/// Whether `expr` may lack a value for another reason than the range of numbers, as in sums of amounts of money.
pub(crate) fn may_mismatch(expr: &Expr) -> bool {
    let mut found = false;
    expr.walk(&mut |expr| {
        found |= match &expr.kind {
            ExprKind::Call(function, _) => function.may_mismatch,
            ExprKind::Let(named) => named.may_mismatch,
            _ => expr.is_partial(),
        };
    });
    found
}
