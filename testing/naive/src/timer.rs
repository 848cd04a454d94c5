//! Steps in time: what is due happens first.

use std::collections::{BTreeMap, BTreeSet};

use enact_rebel::{Caller, Class, Name, Reference, Spec, Timestamp, Value};

use crate::act::Cause;
use crate::expression::{Reading, Stop};
use crate::reason::{Fault, Reason, Refused};
use crate::step::{Accepted, Ends, once};
use crate::world::{Call, Thing, World, thing};

/// How many due events come before one step at most.
const DUE: usize = 100;

/// What a step has too many of, if it comes behind more.
const DUE_EVENTS: &str = "due events before it";

/// An event that a timer makes happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The time of the timer.
    pub at: Timestamp,
    /// When the event happens: then, or at the time of the latest event since something has been due.
    pub time: Timestamp,
    /// The event.
    pub event: Name,
}

/// What became of a due event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The instance.
    pub target: Reference,
    /// The event.
    pub due: Due,
    /// Why it was refused, if it was.
    pub refused: Option<Refused>,
}

/// A step, and what was due before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The due events, in the order in which they ended.
    pub due: Vec<Happened>,
    /// What became of the step.
    pub result: Result<Accepted, Refused>,
    /// The instances that the due events and the step have changed.
    pub after: BTreeMap<Reference, Thing>,
}

/// The step that begins with `call` on `target` at the time `at`, behind what is due at the instances that it meets.
///
/// # Panics
/// At a construct that is not known.
#[must_use]
pub fn step(spec: &Spec, world: &World, target: &Reference, call: &Call, at: Timestamp) -> Outcome {
    let mut course = Course::new(spec, world);
    let result = course.step(target, call, Cause::Call, at);
    course.ends(result.map(|accepted| accepted.expect("a call is not due")))
}

/// Lets the first due event of an instance happen, as a step of its own that begins with it.
///
/// # Panics
/// If no event is due, and at a construct that is not known.
#[must_use]
pub fn let_happen(spec: &Spec, world: &World, target: &Reference) -> Outcome {
    let class = spec.class(&target.class).expect("a class");
    let due = due(class, target, &world[target]).expect("an event that is due");
    let mut course = Course::new(spec, world);
    let result = course.step(target, &timed(&due), Cause::Timer(due.at), due.time);
    course.ends(result.map(|accepted| accepted.expect("nothing comes before it")))
}

/// The first event that a timer of an instance makes happen: of the earliest time, and of those the first in the text.
#[must_use]
pub fn due(class: &Class, of: &Reference, thing: &Thing) -> Option<Due> {
    let mut first: Option<Due> = None;
    for timer in class.timers().iter().filter(|timer| timer.states.contains(&thing.state)) {
        let Ok(Some(at)) = time(&mut Reading::of_fields(of, &thing.fields), timer) else { continue };
        let is_spent = thing.spent.contains(&(timer.event.clone(), at));
        if !is_spent && first.as_ref().is_none_or(|first| at < first.at) {
            let time = thing.last.map_or(at, |last| last.max(at));
            first = Some(Due { at, time, event: timer.event.clone() });
        }
    }
    first
}

/// The event that comes before a step at `at` that meets the instance. Before another timed event come only those that happen earlier.
pub(crate) fn first_due(class: &Class, of: &Reference, thing: &Thing, cause: Cause, at: Timestamp) -> Option<Due> {
    due(class, of, thing).filter(|due| match cause {
        Cause::Call => due.at <= at,
        Cause::Timer(_) => due.time < at,
    })
}

/// The time of a timer; nothing if it never comes.
fn time(reading: &mut Reading<'_>, timer: &enact_rebel::ir::Timer) -> Result<Option<Timestamp>, Fault> {
    match reading.value(&timer.at, &[]) {
        Ok(Value::Timestamp(at)) => Ok(Some(at)),
        Ok(Value::None) => Ok(None),
        Ok(other) => panic!("{other:?} is no time"),
        Err(Stop::Fault(fault)) => Err(fault),
        Err(Stop::Waits) => panic!("a timer asks nothing"),
    }
}

/// What is known of the timers of an instance that an event of the time `now` brings from `before` to `after`, in a state that is not left:
/// the timed events that happened or were refused, as long as their timers have the times for which they did; and the latest time of an
/// event since something has been due. Beside it stands the first fault of a timer, if there is one.
pub(crate) fn kept(
    class: &Class,
    of: &Reference,
    before: &Thing,
    after: Thing,
    (event, cause): (&Name, Cause),
    now: Timestamp,
) -> (Thing, Option<Reason>) {
    let (mut fired, mut last) = (Vec::new(), now);
    if before.state == after.state {
        fired.clone_from(&before.spent);
        last = before.last.map_or(now, |before| before.max(now));
        if let Cause::Timer(at) = cause {
            fired.push((event.clone(), at));
        }
    }
    let (mut spent, mut is_late, mut first_fault) = (Vec::new(), false, None);
    for timer in class.timers().iter().filter(|timer| timer.states.contains(&after.state)) {
        let at = match time(&mut Reading::of_fields(of, &after.fields), timer) {
            Ok(Some(at)) => at,
            Ok(None) => continue,
            Err(fault) => {
                first_fault.get_or_insert_with(|| Reason::Fault(fault, timer.text.clone()));
                continue;
            }
        };
        let one = (timer.event.clone(), at);
        if fired.contains(&one) { spent.push(one) } else { is_late |= at < last }
    }
    (Thing { spent, last: is_late.then_some(last), ..after }, first_fault)
}

fn timed(due: &Due) -> Call {
    Call { caller: Some(Caller::system()), ..Call::new(&due.event, []) }
}

/// A step on its way, with what has happened before it.
struct Course<'a> {
    spec: &'a Spec,
    now: World,
    changed: BTreeSet<Reference>,
    due: Vec<Happened>,
    begun: usize,
}

impl<'a> Course<'a> {
    fn new(spec: &'a Spec, world: &World) -> Self {
        Self { spec, now: world.clone(), changed: BTreeSet::new(), due: Vec::new(), begun: 0 }
    }

    /// One step, which begins anew behind each event that was due; nothing if it is a timed event that is not due.
    fn step(
        &mut self,
        target: &Reference,
        call: &Call,
        cause: Cause,
        at: Timestamp,
    ) -> Result<Option<Accepted>, Refused> {
        loop {
            if let Cause::Timer(time) = cause {
                let class = self.spec.class(&target.class).expect("a class");
                let due = due(class, target, &thing(&self.now, class, target));
                if due.is_none_or(|due| (due.at, &due.event) != (time, &call.event)) {
                    return Ok(None);
                }
            }
            match once(self.spec, &self.now, target, call, cause, at) {
                Err(Ends::Refused(refused)) => return Err(refused),
                Err(Ends::IsEarly(of)) => self.let_happen(&of)?,
                Ok(accepted) => {
                    self.changed.extend(accepted.after.keys().cloned());
                    self.now.extend(accepted.after.clone());
                    return Ok(Some(accepted));
                }
            }
        }
    }

    /// Lets the first due event of an instance happen, or notes that it was refused.
    fn let_happen(&mut self, target: &Reference) -> Result<(), Refused> {
        self.begun += 1;
        if self.begun > DUE {
            let reasons = vec![Reason::Limit(DUE_EVENTS)];
            return Err(Refused { path: Vec::new(), at: target.clone(), reasons });
        }
        let class = self.spec.class(&target.class).expect("a class");
        let due = due(class, target, &self.now[target]).expect("an event that is due");
        let refused = match self.step(target, &timed(&due), Cause::Timer(due.at), due.time) {
            Ok(None) => return Ok(()),
            Ok(Some(_)) => None,
            Err(refused) if refused.reasons == [Reason::Limit(DUE_EVENTS)] => return Err(refused),
            Err(refused) => {
                let before = &self.now[target];
                let what = (&due.event, Cause::Timer(due.at));
                let (noted, _) = kept(class, target, before, before.clone(), what, due.time);
                self.now.insert(target.clone(), noted);
                self.changed.insert(target.clone());
                Some(refused)
            }
        };
        self.due.push(Happened { target: target.clone(), due, refused });
        Ok(())
    }

    fn ends(self, result: Result<Accepted, Refused>) -> Outcome {
        let after = self.changed.iter().map(|of| (of.clone(), self.now[of].clone())).collect();
        Outcome { due: self.due, result, after }
    }
}
