//! One atomic step: an event with all that it calls, on as many instances as that takes.
//!
//! # Order
//! Calls happen in the order of the text, depth first, each complete with its own calls before the next begins. Each sees
//! what came before, on the same instance too: life cycle, guards and effects compose, and two equal calls are two calls.
//! What an event itself reads (guards, conditions on others, effects, targets and arguments of calls) it reads when it is
//! taken up: nothing that it calls changes what it says. What it asks other instances they answer at that moment, and the
//! event carries the answers: with them it is decided on its own instance alone, and replays alone.
//!
//! # Invariants
//! They hold of every touched instance when the step ends. In between they may be broken.
//!
//! # One step in many places
//! What a step does at one instance is its [`Task`]s there, in their order. Folded over that instance alone they give what
//! the step gives, so that a participant can be asked for its part without the others.

mod act;
mod order;
mod timely;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::act::{reads, values_read};
pub use self::order::in_order;
pub use self::timely::{Happened, Timely};
use crate::instance::{Action, Answered, EventCall, Instance, Question, Sync};
use crate::limits::{ACTS_MAX, INSTANCES_MAX};
use crate::model::{Class, Due, Event, Spec};
use crate::value::{Id, Key, Name, Reference, Timestamp, Value};
use crate::violation::Violation;

/// The instances that a step finds.
pub trait World {
    /// The instance at `target`; nothing if it was never stored, so that it is in its initial state.
    fn instance(&self, target: &Reference) -> Option<Instance>;
}

impl World for BTreeMap<Reference, Instance> {
    fn instance(&self, target: &Reference) -> Option<Instance> {
        self.get(target).cloned()
    }
}

impl World for HashMap<Reference, Instance> {
    fn instance(&self, target: &Reference) -> Option<Instance> {
        self.get(target).cloned()
    }
}

/// A step that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The touched instances, as the step leaves them.
    pub after: BTreeMap<Reference, Instance>,
    /// What the step does at each instance that it touches or asks, in order.
    pub work: BTreeMap<Reference, Vec<Task>>,
    /// What the first event returns, if it has a result.
    pub result: Option<Value>,
}

/// One thing that a step does at one instance: an event, or a condition that it asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its place among all tasks of the step, counted from 0.
    pub place: usize,
    /// What is done or asked.
    pub action: Action,
    /// What a refusal says: the name of the guard, or the line as written.
    pub text: Name,
}

/// A step that does not happen. It has changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refused {
    /// The calls that lead to what refuses, from the first one on. The last one is the event that refuses or asks; at the
    /// end of the step there is none.
    pub path: Vec<(Reference, Name)>,
    /// The instance that refuses.
    pub at: Reference,
    /// Every reason of the first kind that refuses.
    pub violations: Vec<Violation>,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (target, event) in &self.path {
            write!(f, "{target}.{event}: ")?;
        }
        if self.path.last().is_none_or(|(target, _)| *target != self.at) {
            write!(f, "{}: ", self.at)?;
        }
        for (index, violation) in self.violations.iter().enumerate() {
            write!(f, "{}{violation}", if index == 0 { "" } else { "; " })?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}

impl Spec {
    /// The step that begins with `call` on `target`, at the time `at`.
    ///
    /// A pure function: the same world, call and time give the same result.
    ///
    /// # Errors
    /// [`Refused`]: by the first event that does not fit, is not allowed in the state, has a guard or a condition that does
    /// not hold, or faults; or else by an invariant that does not hold at the end. A step that would take more than
    /// [`ACTS_MAX`] events or touch more than [`INSTANCES_MAX`] instances is refused too, and one that meets an instance with
    /// a due event, which comes first: [`Spec::step_in_time`] lets it.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use enact_rebel::{Source, Timestamp, Value, check};
    /// let spec = check(vec![Source::new("shelf.rebel", "
    ///     class Shelf
    ///       pieces: Integer = 2
    ///       initial bare
    ///         on Take(by: Integer): used
    ///           pre: \"not enough\": pieces - by >= 0
    ///           post: this.pieces -= by
    ///       used
    ///         on Take(by: Integer)
    ///           pre: \"not enough\": pieces - by >= 0
    ///           post: this.pieces -= by
    ///     class Order
    ///       initial new
    ///         on Place(shelf: Shelf, by: Integer): placed
    ///           sync:
    ///             shelf.Take(by)
    ///             shelf.Take(by)
    ///       placed
    /// ")]).unwrap();
    /// let (shelf, order) = (spec.class("Shelf").unwrap(), spec.class("Order").unwrap());
    /// let [shelf, order] = [(shelf, "s"), (order, "o")].map(|(class, key)| class.reference(class.key(key).unwrap()));
    /// let place = |by| {
    ///     let event = spec.class("Order").unwrap().event("Place").unwrap();
    ///     event.call([("shelf", Value::Reference(shelf.clone())), ("by", Value::Integer(by))]).unwrap()
    /// };
    /// let (world, now) = (BTreeMap::new(), Timestamp::from_millis(0));
    ///
    /// let taken = spec.step(&world, &order, &place(1), now).unwrap();
    /// assert_eq!(taken.after[&shelf].fields().get("pieces"), Some(&Value::Integer(0)), "two equal calls are two calls");
    /// let refused = spec.step(&world, &order, &place(2), now).unwrap_err();
    /// assert_eq!(
    ///     refused.to_string(),
    ///     "Order o.Place: Shelf s.Take: not enough: `pieces - by >= 0`, where pieces = 0, by = 2"
    /// );
    /// ```
    pub fn step(
        &self,
        world: &dyn World,
        target: &Reference,
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Accepted, Refused> {
        let is_internal =
            |class: &Arc<Class>| call.due().is_none() && class.event(call.event()).is_some_and(Event::is_internal);
        if self.class(&target.class).is_some_and(is_internal) {
            let violation = Violation::Internal { event: call.event().clone() };
            return Err(Refused { path: Vec::new(), at: target.clone(), violations: vec![violation] });
        }
        let mut step = Step::new(self, world, (at, call.due().is_some()));
        let first = Sync { target: target.clone(), action: Action::Do(call.clone()), text: call.event().clone() };
        in_order(vec![first], |sync, depth| step.take(sync, depth))?;
        step.end()
    }
}

/// A step on its way.
struct Step<'a> {
    spec: &'a Spec,
    world: &'a dyn World,
    at: Timestamp,
    /// Whether a timer makes it happen.
    is_timed: bool,
    /// The instances met so far, as the step leaves them.
    met: BTreeMap<Reference, Instance>,
    touched: BTreeSet<Reference>,
    work: BTreeMap<Reference, Vec<Task>>,
    tasks: usize,
    acts: usize,
    path: Vec<(Reference, Name)>,
    result: Option<Value>,
}

impl<'a> Step<'a> {
    fn new(spec: &'a Spec, world: &'a dyn World, (at, is_timed): (Timestamp, bool)) -> Self {
        Self {
            spec,
            world,
            at,
            is_timed,
            met: BTreeMap::new(),
            touched: BTreeSet::new(),
            work: BTreeMap::new(),
            tasks: 0,
            acts: 0,
            path: Vec::new(),
            result: None,
        }
    }

    /// Does one event and says what it calls.
    fn take(&mut self, sync: Sync, depth: usize) -> Result<Vec<Sync>, Refused> {
        let Sync { target, action, text } = sync;
        let Action::Do(call) = action else { unreachable!("conditions are asked by the event that has them") };
        self.path.truncate(depth - 1);
        self.path.push((target.clone(), call.event().clone()));
        self.acts += 1;
        if self.acts > ACTS_MAX {
            let limit = Violation::Limit { what: "events".into(), limit: ACTS_MAX };
            return Err(self.refused(&target, vec![limit]));
        }
        let (class, before) = self.meet(&target)?;
        // One that only reads is refused as a step, whatever others would answer.
        let is_read = class.event(call.event()).is_some_and(Event::is_read);
        let call = if is_read { call } else { self.with_answers(class, &target, &before, call)? };
        let acted = class.act_and_return(&target.key, &before, &call, self.at);
        let (after, result) = acted.map_err(|why| self.refused(&target, why))?;
        if depth == 1 {
            self.result = result;
        }
        let syncs = class.syncs(&target.key, &before, &call, self.at).map_err(|why| self.refused(&target, why))?;
        let (calls, conditions) = syncs.into_iter().partition(|sync| matches!(sync.action, Action::Do(_)));
        self.demand(conditions)?;
        self.note(&target, Action::Do(call), text);
        self.touched.insert(target.clone());
        self.met.insert(target, after);
        Ok(calls)
    }

    /// The call with the answers of other instances as they are by now, and with no others.
    fn with_answers(
        &mut self,
        class: &Class,
        target: &Reference,
        before: &Instance,
        call: EventCall,
    ) -> Result<EventCall, Refused> {
        let completed = match class.completed(&call) {
            Cow::Owned(completed) => Some(completed),
            Cow::Borrowed(_) => None,
        };
        let mut call = completed.unwrap_or(call).with_answers(Vec::new());
        loop {
            let questions = class.questions(&target.key, before, &call, self.at);
            if questions.is_empty() {
                return Ok(call);
            }
            let mut answers = call.answers().to_vec();
            for (of, question) in questions {
                answers.push(self.ask(of, question)?);
            }
            call = call.with_answers(answers);
        }
    }

    fn ask(&mut self, of: Reference, question: Question) -> Result<Answered, Refused> {
        self.acts += 1;
        if self.acts > ACTS_MAX {
            let limit = Violation::Limit { what: "events and questions".into(), limit: ACTS_MAX };
            return Err(self.refused(&of, vec![limit]));
        }
        let (class, instance) = self.meet(&of)?;
        let answer = class.answer(&of.key, &instance, &question, self.at);
        self.note(&of, Action::Ask(question.clone()), question.to_string().into());
        Ok(Answered { of, question, answer })
    }

    /// Looks at every condition of one event, before its effects.
    fn demand(&mut self, conditions: Vec<Sync>) -> Result<(), Refused> {
        let mut broken: Option<(Reference, Vec<Violation>)> = None;
        for Sync { target, action, text } in conditions {
            let (class, instance) = self.meet(&target)?;
            if !class.holds(&target.key, &instance, &action, self.at) {
                let violation = Violation::Condition { text: text.clone(), state: instance.state().clone() };
                broken.get_or_insert_with(|| (target.clone(), Vec::new())).1.push(violation);
            }
            self.note(&target, action, text);
        }
        broken.map_or(Ok(()), |(at, violations)| Err(self.refused(&at, violations)))
    }

    fn note(&mut self, target: &Reference, action: Action, text: Name) {
        let task = Task { place: self.tasks, action, text };
        self.tasks += 1;
        self.work.entry(target.clone()).or_default().push(task);
    }

    /// The class of an instance and the instance as it is by now.
    fn meet(&mut self, target: &Reference) -> Result<(&'a Class, Instance), Refused> {
        let Some(class) = self.spec.class(&target.class) else {
            let unknown = Violation::UnknownClass { class: target.class.clone() };
            return Err(self.refused(target, vec![unknown]));
        };
        if let Some(instance) = self.met.get(target) {
            return Ok((class, instance.clone()));
        }
        if self.met.len() == INSTANCES_MAX {
            let limit = Violation::Limit { what: "instances".into(), limit: INSTANCES_MAX };
            return Err(self.refused(target, vec![limit]));
        }
        let instance = self.world.instance(target).unwrap_or_else(|| class.initial());
        if let Some(due) = class.due_before(&target.key, &instance, self.at, self.is_timed) {
            let Due { event, at, .. } = due;
            return Err(self.refused(target, vec![Violation::Due { event, at }]));
        }
        self.met.insert(target.clone(), instance.clone());
        Ok((class, instance))
    }

    fn refused(&self, at: &Reference, violations: Vec<Violation>) -> Refused {
        Refused { path: self.path.clone(), at: at.clone(), violations }
    }

    /// Looks at the invariants of every touched instance.
    fn end(mut self) -> Result<Accepted, Refused> {
        self.path.clear();
        for target in &self.touched {
            let Some(class) = self.spec.class(&target.class) else { continue };
            let before = self.world.instance(target).unwrap_or_else(|| class.initial());
            let broken = class.broken_by(&target.key, &before, &self.met[target], self.at);
            if !broken.is_empty() {
                return Err(self.refused(target, broken));
            }
        }
        let Self { met, touched, work, result, .. } = self;
        let after = met.into_iter().filter(|(target, _)| touched.contains(target)).collect();
        Ok(Accepted { after, work, result })
    }
}

impl Class {
    /// Whether `action` is possible or true of an instance, the invariants included. It looks at this instance alone, not
    /// at what an event would call.
    #[must_use]
    pub fn holds(&self, key: &Key, instance: &Instance, action: &Action, at: Timestamp) -> bool {
        match action {
            Action::Do(call) => self.is_possible(key, instance, call, at),
            Action::Impossible(call) => !self.is_possible(key, instance, call, at),
            Action::Initialized => !self.is_initial(instance.state()),
            Action::InState(states) => states.contains(instance.state()),
            Action::Ask(_) => true,
        }
    }

    pub(crate) fn is_possible(&self, key: &Key, instance: &Instance, call: &EventCall, at: Timestamp) -> bool {
        let probed = self.probed(call);
        self.next(key, instance, &probed, at).is_ok() && self.syncs(key, instance, &probed, at).is_ok()
    }

    /// The call as it is asked whether it is possible: with some seed if its event needs one, since any would do.
    #[must_use]
    pub fn probed<'c>(&self, call: &'c EventCall) -> Cow<'c, EventCall> {
        match self.event(call.event()) {
            Some(event) if event.needs_seed && call.seed().is_none() => {
                Cow::Owned(call.clone().with_seed(Id::from_u128(0)))
            }
            _ => Cow::Borrowed(call),
        }
    }
}
