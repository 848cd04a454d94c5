//! Timers: `after at: event`, below a state.

use super::caller::SYSTEM;
use super::expression::Context;
use super::{Checker, Scope};
use crate::diagnostic::{Code, Diagnostic};
use crate::limits::TIMERS_MAX;
use crate::model::{StateKind, Timer};
use crate::syntax::tree::{self, Ident};
use crate::value::{Name, Type};

impl Checker {
    /// The timers of a class. Each is looked at as a whole, also if one is wrong.
    pub(super) fn timers(&mut self, index: usize, class: &tree::Class) -> Vec<Timer> {
        let mut timers: Vec<Timer> = Vec::new();
        for group in &class.states {
            for timer in &group.timers {
                let origin = self.origin_of(index, timer.at.span);
                let mut context = Context::invariant(index, self.rounding_of(index, origin));
                let checked = self.at(index, origin, |checker| {
                    let event = checker.timed_event(index, class, group, timer);
                    let at = checker.expression(&timer.at, &mut context, Some(&Type::Timestamp));
                    event.zip(at.filter(|at| checker.is_time(timer, at.ty())))
                });
                let Some((event, at)) = checked else { continue };
                let header = &self.headers[index];
                let declared = |state: &Ident| header.state(&state.name).map(|(name, _)| name.clone());
                let states: Vec<Name> = group.states.iter().filter_map(declared).collect();
                let is_full =
                    |state: &Name| timers.iter().filter(|timer| timer.states.contains(state)).count() == TIMERS_MAX;
                let span = timer.at.span.to(timer.event.span);
                if states.iter().any(is_full) {
                    let message = format!("a state has at most {TIMERS_MAX} timers");
                    let help = "one timer of the earliest time can take the place of several";
                    self.refuse(Code::Limit, span, message, "one too many", help);
                    continue;
                }
                timers.push(Timer { states, at: at.expr, event, text: self.text(timer.at.span), span });
            }
        }
        timers
    }

    /// Whether a timer may have a time of this type, or none; reported if not.
    fn is_time(&mut self, timer: &tree::Timer, ty: &Type) -> bool {
        let is_time = *ty.present() == Type::Timestamp;
        if !is_time {
            self.mismatch(timer.at.span, &Type::Timestamp, ty);
        }
        is_time
    }

    /// The name of the event that a timer makes happen, which must be able to happen.
    fn timed_event(
        &mut self,
        index: usize,
        class: &tree::Class,
        group: &tree::StateGroup,
        timer: &tree::Timer,
    ) -> Option<Name> {
        let ident = &timer.event;
        let header = &self.headers[index];
        let Some(position) = header.event(&ident.name) else {
            if self.unknown.insert((Scope::Events(index), ident.name.clone())) {
                let header = &self.headers[index];
                let message = format!("`{}` has no event `{}`", header.name, ident.name);
                let diagnostic = Diagnostic::new(Code::UnknownEvent, ident.span, message, "no such event");
                self.report.push(diagnostic.did_you_mean(&ident.name, header.event_names()));
            }
            return None;
        };
        self.timed.push((index, position));
        let event = &self.headers[index].events[position];
        let (name, declared) = (event.name.name.clone(), event.name.span);
        if event.is_broken {
            return None;
        }
        if let Some(param) = event.params.first() {
            let message = format!("`{name}` has the parameter `{}`, to which a timer gives no value", param.name);
            let diagnostic = Diagnostic::new(Code::Timer, ident.span, message, "has parameters");
            let help = "keep the value in a field, or let the timer name an event without parameters";
            self.report.push(diagnostic.and(declared, "declared here").help(help));
            return None;
        }
        if event.read {
            let message = format!("`{name}` only reads, so that nothing would happen");
            let diagnostic = Diagnostic::new(Code::Timer, ident.span, message, "only reads");
            let help = "let the timer name an event that changes the instance";
            self.report.push(diagnostic.and(declared, "declared here").help(help));
            return None;
        }
        if !event.roles.is_empty() && !event.roles.iter().any(|role| **role == *SYSTEM) {
            let message = format!("`{name}` demands roles that the caller of timed events does not have");
            let diagnostic = Diagnostic::new(Code::TimedRole, ident.span, message, "refused");
            let help = "add `system`, which is the only role of that caller, to those behind `by`";
            self.report.push(diagnostic.and(declared, "declared here").help(help));
            return None;
        }
        let is_initial =
            |state: &&Ident| self.headers[index].state(&state.name).is_some_and(|(_, kind)| kind == StateKind::Initial);
        if let Some(state) = group.states.iter().find(is_initial) {
            let message = format!("no instance is in the initial state `{}`, so that no timer runs there", state.name);
            let diagnostic = Diagnostic::new(Code::Timer, ident.span, message, "never happens");
            let help = "write it below the state that the first event leads to";
            self.report.push(diagnostic.and(state.span, "the state").help(help));
            return None;
        }
        let is_declared = |state: &Ident| {
            let mut groups = class.states.iter().filter(|group| group.states.iter().any(|own| own.name == state.name));
            groups.any(|group| group.events.iter().any(|event| event.name.name == name))
        };
        if let Some(state) = group.states.iter().find(|state| !is_declared(state)) {
            let message = format!("`{name}` is not declared for the state `{}`", state.name);
            let diagnostic = Diagnostic::new(Code::Timer, ident.span, message, "not possible there");
            let help = format!("declare `{name}` below `{}`, or move the timer to a state that has it", state.name);
            self.report.push(diagnostic.and(state.span, "the state").help(help));
            return None;
        }
        Some(name)
    }
}
