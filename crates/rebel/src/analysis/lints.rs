//! What is allowed and can hardly be meant: conditions that decide nothing, events that never happen, calls that never go
//! together.
//!
//! Each lint is shown for all values, by intervals; what cannot be shown is not said. Invariants are not assumed, because
//! they may be broken while a step is on its way.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::abstraction::Domain;
use super::relation::{apply, base};
use crate::diagnostic::{Code, Diagnostic};
use crate::model::expr::{Act, Expr, Statement};
use crate::model::{Body, Class, Event, StateKind, Transition};
use crate::source::Span;
use crate::value::Name;

/// The lints of one class among `classes`.
pub(super) fn lints(class: &Class, classes: &[Class], fuel: &Cell<u32>) -> Vec<Diagnostic> {
    let mut lints = Lints { class, classes, fuel, found: Vec::new(), dead: BTreeSet::new() };
    for event in &class.events {
        for (body, transitions) in bodies(event) {
            lints.body(event, body, &transitions);
        }
    }
    lints.unreached_states();
    lints.refusable_timers();
    lints.found
}

/// The bodies of an event, each with the transitions that share it.
fn bodies(event: &Event) -> Vec<(&Arc<Body>, Vec<&Transition>)> {
    let mut bodies: Vec<(&Arc<Body>, Vec<&Transition>)> = Vec::new();
    for transition in &event.transitions {
        match bodies.iter_mut().find(|(body, _)| Arc::ptr_eq(body, &transition.body)) {
            Some((_, transitions)) => transitions.push(transition),
            None => bodies.push((&transition.body, vec![transition])),
        }
    }
    bodies
}

struct Lints<'a> {
    class: &'a Class,
    classes: &'a [Class],
    fuel: &'a Cell<u32>,
    found: Vec<Diagnostic>,
    /// Events that never happen in a state, in one of their variants or at all.
    dead: BTreeSet<Way<'a>>,
}

/// An event, a state that it leaves, and the variant.
type Way<'a> = (&'a Name, &'a Name, Option<&'a Name>);

/// A call with what decides whether it is made: the conditions and sets around it.
struct Placed<'a> {
    around: Vec<&'a Expr>,
    target: &'a Expr,
    class: &'a Name,
    act: &'a Act,
    span: Span,
}

impl<'a> Lints<'a> {
    fn body(&mut self, event: &'a Event, body: &'a Body, transitions: &[&'a Transition]) {
        let domains: Vec<Domain<'a>> =
            transitions.iter().map(|found| base(self.class, event, found, self.fuel)).collect();
        let is_explained = self.decided_guards(body, &domains);
        let mut alive = Vec::new();
        for (transition, domain) in transitions.iter().zip(domains) {
            let mut domain = domain;
            if body.guards.iter().all(|guard| domain.assume(&guard.expr)) {
                alive.push((*transition, domain));
            } else {
                self.dead.insert((&event.name, &transition.source, transition.variant.as_ref()));
            }
        }
        if alive.is_empty() && !is_explained {
            let variant = transitions.first().and_then(|transition| transition.variant.as_ref());
            let name = variant
                .map_or_else(|| format!("`{}`", event.name), |variant| format!("`{variant}` of `{}`", event.name));
            let message = format!("{name} never happens: its guards contradict each other");
            let span = body.guards.first().map_or(event.span, |guard| guard.expr.span());
            self.found.push(Diagnostic::new(Code::NeverEnabled, span, message, "the first of them"));
        }
        self.broken_by_creation(event, body, &alive);
        let mut calls = Vec::new();
        body.statements.iter().for_each(|statement| placed(statement, &mut Vec::new(), &mut calls));
        self.contradictions(&calls);
        self.never_together(&calls);
    }

    /// Guards that are the same whatever happens. Says whether one of them never holds.
    fn decided_guards(&mut self, body: &Body, domains: &[Domain<'a>]) -> bool {
        let mut never = false;
        for guard in &body.guards {
            let decided = |domain: &Domain<'a>| {
                let (value, faults) = domain.value(&guard.expr);
                match value.as_truth() {
                    Some(true) if faults.overflow || faults.mismatch => None,
                    truth => truth,
                }
            };
            let mut verdicts = domains.iter().map(decided);
            let Some(Some(first)) = verdicts.next() else { continue };
            if self.fuel.get() == 0 || !verdicts.all(|verdict| verdict == Some(first)) {
                continue;
            }
            never |= !first;
            let (word, help) = if first {
                ("always", "remove it, or compare with something else")
            } else {
                ("never", "the event never happens")
            };
            let message = format!("this guard {word} holds");
            let diagnostic = Diagnostic::new(Code::DecidedGuard, guard.expr.span(), message, format!("{word} true"));
            let diagnostic = diagnostic.help(help);
            // Variants share guards.
            if !self.found.contains(&diagnostic) {
                self.found.push(diagnostic);
            }
        }
        never
    }

    fn broken_by_creation(&mut self, event: &Event, body: &Body, alive: &[(&Transition, Domain<'a>)]) {
        let is_creation =
            |transition: &Transition| transition.variant.is_none() && self.class.is_initial(&transition.source);
        let created = alive.iter().filter(|(transition, _)| is_creation(transition));
        for (_, domain) in created {
            let (after, _) = apply(body, domain);
            for invariant in &self.class.invariants {
                if after.truth(&invariant.expr) == Some(false) {
                    let message = format!("`{}` always breaks this invariant", event.name);
                    let diagnostic =
                        Diagnostic::new(Code::BrokenByCreation, invariant.expr.span(), message, "never holds after it");
                    self.found.push(diagnostic.and(event.span, "creates the instance"));
                }
            }
        }
    }

    /// `x.E(a)` beside `not x.E(a)`.
    fn contradictions(&mut self, calls: &[Placed<'a>]) {
        for denied in calls {
            let Act::Impossible { event: never, arguments: no } = denied.act else { continue };
            let is_opposite = |call: &&Placed<'a>| {
                matches!(call.act, Act::Do { event, arguments } if event == never && arguments == no)
                    && call.target == denied.target
                    && call.around == denied.around
            };
            if let Some(call) = calls.iter().find(is_opposite) {
                let message = format!("`{never}` is demanded to be impossible, and called");
                let diagnostic = Diagnostic::new(Code::Contradiction, denied.span, message, "impossible");
                self.found.push(diagnostic.and(call.span, "called").help("one of the two always refuses the step"));
            }
        }
    }

    /// Two calls on one instance of which the second is refused after the first.
    fn never_together(&mut self, calls: &[Placed<'a>]) {
        let events: Vec<(&Placed<'a>, &Name)> = calls
            .iter()
            .filter_map(|call| match call.act {
                Act::Do { event, .. } => Some((call, event)),
                _ => None,
            })
            .collect();
        for (index, (first, earlier)) in events.iter().enumerate() {
            for (position, (second, later)) in events.iter().enumerate().skip(index + 1) {
                let is_same_instance = first.target == second.target && first.around == second.around;
                let class = self.classes.iter().find(|class| class.name == *first.class && is_same_instance);
                let Some(class) = class else { continue };
                let (Some(a), Some(b)) = (class.event(earlier), class.event(later)) else { continue };
                let is_next =
                    position == index + 1 && a.transitions.iter().all(|found| found.body.statements.is_empty());
                if is_refused_after(class, a, b, is_next) {
                    let message = format!("`{later}` is never possible after `{earlier}` on the same instance");
                    let diagnostic = Diagnostic::new(Code::NeverTogether, second.span, message, "refused");
                    self.found.push(diagnostic.and(first.span, "after this"));
                }
            }
        }
    }

    /// Timers whose event is not shown to be possible whenever it is due. Only what it demands itself counts: what it calls
    /// may be refused in any case.
    fn refusable_timers(&mut self) {
        for timer in &self.class.timers {
            let Some(event) = self.class.event(&timer.event) else { continue };
            let demanding = timer.states.iter().find_map(|state| {
                let ways: Vec<&Transition> = event.variants(state).collect();
                let always = |way: &&&Transition| self.demands(event, way).is_none();
                if ways.iter().any(|way| always(&way)) {
                    None
                } else {
                    ways.first().map(|way| self.demands(event, way))
                }
            });
            let Some(Some(span)) = demanding else { continue };
            let message = format!("`{}` may be refused when it is due, and is then not tried again", timer.event);
            let diagnostic = Diagnostic::new(Code::RefusableTimer, timer.span, message, "tried once");
            let help = "let the timer name an event that demands nothing, so that the state always ends in time";
            self.found.push(diagnostic.and(span, "may not hold then").help(help));
        }
    }

    /// What an event demands in one way that may not hold when a timer makes it happen: the first of its guards, or a condition
    /// on others. Invariants hold before it, because it is the first of its step.
    fn demands(&self, event: &'a Event, way: &'a Transition) -> Option<Span> {
        let mut domain = base(self.class, event, way, self.fuel);
        self.class.invariants.iter().for_each(|invariant| _ = domain.assume(&invariant.expr));
        let holds = |domain: &Domain<'a>, condition: &Expr| {
            let (value, faults) = domain.value(condition);
            value.as_truth() == Some(true) && !faults.overflow && !faults.mismatch
        };
        if let Some(guard) = way.body.guards.iter().find(|guard| !holds(&domain, &guard.expr)) {
            return Some(guard.expr.span());
        }
        let mut acts = Vec::new();
        way.body.statements.iter().for_each(|statement| placed(statement, &mut Vec::new(), &mut acts));
        acts.iter().find(|placed| !matches!(placed.act, Act::Do { .. })).map(|placed| placed.span)
    }

    /// States to which only events lead that never happen. What no event leads to at all is said elsewhere.
    fn unreached_states(&mut self) {
        let all = reached(self.class, |_| true);
        let alive = reached(self.class, |way| !self.dead.contains(&way));
        for state in &self.class.states {
            if all.contains(&&state.name) && !alive.contains(&&state.name) {
                let message = format!("only events that never happen lead to the state `{}`", state.name);
                self.found.push(Diagnostic::new(Code::UnreachableState, state.span, message, "never reached"));
            }
        }
    }
}

/// The states that lead from the initial one by the transitions that count.
fn reached<'a>(class: &'a Class, counts: impl Fn(Way<'a>) -> bool) -> BTreeSet<&'a Name> {
    let initial = class.states.iter().filter(|state| state.kind == StateKind::Initial).map(|state| &state.name);
    closure(class, initial.collect(), counts)
}

fn closure<'a>(class: &'a Class, from: Vec<&'a Name>, counts: impl Fn(Way<'a>) -> bool) -> BTreeSet<&'a Name> {
    let mut reached: BTreeSet<&Name> = from.iter().copied().collect();
    let mut next = from;
    while let Some(state) = next.pop() {
        for event in &class.events {
            let leaving = event.variants(state);
            for found in leaving.filter(|found| counts((&event.name, &found.source, found.variant.as_ref()))) {
                if reached.insert(&found.target) {
                    next.push(&found.target);
                }
            }
        }
    }
    reached
}

/// Whether no state that `first` leads to has `second`. Unless it `is_next`, anything may happen in between.
fn is_refused_after(class: &Class, first: &Event, second: &Event, is_next: bool) -> bool {
    let targets: Vec<&Name> = first.transitions.iter().map(|found| &found.target).collect();
    let states = closure(class, targets, |_| !is_next);
    !states.is_empty() && states.iter().all(|state| second.transition(state).is_none())
}

fn placed<'a>(statement: &'a Statement, around: &mut Vec<&'a Expr>, calls: &mut Vec<Placed<'a>>) {
    match statement {
        Statement::Act { target, class, act, span, .. } => {
            calls.push(Placed { around: around.clone(), target, class, act, span: *span });
        }
        Statement::If(condition, statement, _) | Statement::For(condition, statement, _) => {
            around.push(condition);
            statement.iter().for_each(|statement| placed(statement, around, calls));
            around.pop();
        }
    }
}
