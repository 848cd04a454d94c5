//! How well admission knows the calls of an event.

use std::sync::Arc;

use crate::analysis::linear::Obstacle;
use crate::model::expr::Expr;
use crate::model::{Body, Class, Event};
use crate::source::Span;
use crate::value::Name;

/// How well admission knows what an event needs and does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Precision {
    /// Thresholds, contents, additions and constants, in cells that are kept up to date: any number of them may be in progress.
    Exact,
    /// What it does to each field is known, and what it needs is not: beside others it is judged by outcomes, of which there may be 16.
    Conservative(Because, Span),
    /// Nothing is known in advance: it is judged by outcomes, and so is everything beside it.
    Opaque(Because, Span),
}

/// What keeps admission from knowing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Because {
    /// It leads to another state.
    Moves,
    /// A condition is neither a comparison of sums nor asks for one content.
    Condition,
    /// An effect neither adds nor puts what does not depend on the instance.
    Effect,
    /// It has variants.
    Variants,
    /// It does different things in different states.
    Differs,
    /// What it calls, or of whom it demands something, depends on its fields.
    Calls,
    /// What it returns depends on its fields.
    Returns,
    /// It may change what is due.
    Timer,
}

impl Precision {
    pub(super) fn of(class: &Class, event: &Event) -> Self {
        if let Some(timer) = class.timers.first().filter(|_| !class.keeps_timers(event)) {
            return Precision::Opaque(Because::Timer, timer.span);
        }
        let span = event.span;
        let Some(first) = event.transitions.first() else { return Precision::Exact };
        if event.transitions.iter().any(|way| way.variant.is_some()) {
            return Precision::Opaque(Because::Variants, span);
        }
        let stays = event.transitions.iter().all(|way| way.source == way.target);
        let leads_to_one = event.transitions.iter().all(|way| way.target == first.target);
        let is_one_body = event.transitions.iter().all(|way| Arc::ptr_eq(&way.body, &first.body));
        let does_one_thing = event.transitions.iter().all(|way| say_the_same(&way.body, &first.body));
        let result = || first.body.returned.as_ref().map_or(span, |returned| returned.value.span());
        match class.obstacle(event) {
            Some(Obstacle::Call(at)) => Precision::Opaque(Because::Calls, at),
            // Its client is told what it returns, which is a question to the same instance.
            _ if event.result.is_some() && !event.has_fixed_result() => Precision::Opaque(Because::Returns, result()),
            None if stays && does_one_thing => Precision::Exact,
            _ if !is_one_body || !(stays || leads_to_one) => Precision::Opaque(Because::Differs, span),
            _ if !stays => Precision::Conservative(Because::Moves, span),
            Some(Obstacle::Condition(at)) => Precision::Conservative(Because::Condition, at),
            Some(Obstacle::Result(at)) => Precision::Conservative(Because::Returns, at),
            Some(Obstacle::Effect(at)) => Precision::Conservative(Because::Effect, at),
            None => Precision::Exact,
        }
    }
}

/// Whether two bodies need and do the same, as far as that can be seen.
fn say_the_same(one: &Arc<Body>, other: &Arc<Body>) -> bool {
    let conditions = |body: &Body| body.guards.iter().map(|guard| guard.expr.clone()).collect::<Vec<_>>();
    let effects = |body: &Body| -> Vec<(Name, Expr)> {
        body.effects.iter().map(|effect| (effect.field.name.clone(), effect.value.clone())).collect()
    };
    let is_plain = |body: &Body| body.statements.is_empty() && body.returned.is_none();
    Arc::ptr_eq(one, other)
        || is_plain(one) && is_plain(other) && conditions(one) == conditions(other) && effects(one) == effects(other)
}
