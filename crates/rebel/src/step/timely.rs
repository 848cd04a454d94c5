//! Steps in time: what is due happens first.
//!
//! A step at a time lets the due events of each instance that it meets happen first, in the order of their times, each as a
//! step of its own. It is then begun anew on the world that they leave. So what an instance is does not depend on how late
//! anybody looks.

use std::collections::BTreeMap;

use super::{Accepted, Refused, World};
use crate::instance::{EventCall, Instance};
use crate::limits::DUE_MAX;
use crate::model::{Due, Spec};
use crate::value::{Reference, Timestamp};
use crate::violation::Violation;

/// What a step has too many of.
const TOO_MANY: &str = "due events before it";

/// A step, and the due events that came before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timely {
    /// The due events, in the order in which they happened or were refused.
    pub due: Vec<Happened>,
    /// What became of the step itself.
    pub result: Result<Accepted, Refused>,
    /// The instances that the due events and the step have changed, as they are afterwards. What the due events did stays also
    /// if the step is refused.
    pub after: BTreeMap<Reference, Instance>,
}

/// A due event, with what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Happened {
    /// The instance.
    pub target: Reference,
    /// The event and its time.
    pub due: Due,
    /// Why it was refused, if it was. It is not tried again.
    pub refused: Option<Refused>,
}

/// A world with what has changed in it.
struct Changed<'a> {
    before: &'a dyn World,
    after: BTreeMap<Reference, Instance>,
}

impl World for Changed<'_> {
    fn instance(&self, target: &Reference) -> Option<Instance> {
        self.after.get(target).cloned().or_else(|| self.before.instance(target))
    }
}

impl Spec {
    /// The step that begins with `call` on `target` at the time `at`, behind the due events of all instances that it meets.
    ///
    /// At most [`DUE_MAX`] due events come first; a step behind more is refused, and those that have happened stay. A due event that
    /// names a fresh instance is refused: it has no seed.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use enact_rebel::{Instance, Reference, Source, Timestamp, Value, check};
    /// let spec = check(vec![Source::new("offer.rebel", "
    ///     class Offer
    ///       until: Timestamp
    ///       initial draft
    ///         on Make(end: Timestamp): open
    ///           post: this.until = end
    ///       open
    ///         on Accept(): accepted
    ///         internal on Expire(): expired
    ///         after until: Expire
    ///       final accepted, expired
    /// ")]).unwrap();
    /// let offer = spec.class("Offer").unwrap();
    /// let it = offer.reference(offer.key("o1").unwrap());
    /// let time = |millis| Timestamp::from_millis(millis);
    /// let make = offer.event("Make").unwrap().call([("end", Value::Timestamp(time(5_000)))]).unwrap();
    /// let accept = offer.event("Accept").unwrap().call([]).unwrap();
    ///
    /// let world: BTreeMap<Reference, Instance> = spec.step(&BTreeMap::new(), &it, &make, time(0)).unwrap().after;
    /// assert!(spec.step_in_time(&world, &it, &accept, time(4_999)).result.is_ok());
    /// let late = spec.step_in_time(&world, &it, &accept, time(5_000));
    /// assert!(late.result.is_err());
    /// assert_eq!((late.due.len(), &**late.after[&it].state()), (1, "expired"));
    /// ```
    #[must_use]
    pub fn step_in_time(&self, world: &dyn World, target: &Reference, call: &EventCall, at: Timestamp) -> Timely {
        let mut run =
            Run { spec: self, world: Changed { before: world, after: BTreeMap::new() }, due: Vec::new(), begun: 0 };
        let result = run.step(target, call, at);
        Timely { due: run.due, result, after: run.world.after }
    }
}

struct Run<'a> {
    spec: &'a Spec,
    world: Changed<'a>,
    due: Vec<Happened>,
    /// How many due events were let happen, those that have not ended included.
    begun: usize,
}

impl Run<'_> {
    /// One step, behind all that is due.
    fn step(&mut self, target: &Reference, call: &EventCall, at: Timestamp) -> Result<Accepted, Refused> {
        loop {
            match self.spec.step(&self.world, target, call, at) {
                Err(refused) if refused.is_early() => self.let_happen(&refused.at)?,
                Err(refused) => return Err(refused),
                Ok(accepted) => {
                    self.world.after.extend(accepted.after.clone());
                    return Ok(accepted);
                }
            }
        }
    }

    /// Lets the event that is due at `target` happen, or notes that it was refused. It is let go if something that comes before it
    /// ends it or moves its timer.
    fn let_happen(&mut self, target: &Reference) -> Result<(), Refused> {
        let too_many = || Refused {
            path: Vec::new(),
            at: target.clone(),
            violations: vec![Violation::Limit { what: TOO_MANY.into(), limit: DUE_MAX }],
        };
        let class = self.spec.class(&target.class);
        let instance = self.world.instance(target);
        let due = class.zip(instance).and_then(|(class, instance)| class.due(&target.key, &instance));
        let Some(due) = due.filter(|_| self.begun < DUE_MAX) else { return Err(too_many()) };
        self.begun += 1;
        let refused = match self.step(target, &due.call(), due.time) {
            Ok(_) => None,
            Err(refused) if refused.is_behind_too_many() => return Err(refused),
            // What came before it has ended it, or moved its timer.
            Err(refused) if refused.is_not_due() => return Ok(()),
            Err(refused) => {
                self.step(target, &due.refused(), due.time)?;
                Some(refused)
            }
        };
        self.due.push(Happened { target: target.clone(), due, refused });
        Ok(())
    }
}

impl Refused {
    /// Whether a due event comes first.
    fn is_early(&self) -> bool {
        matches!(self.violations[..], [Violation::Due { .. }])
    }

    /// Whether it is the event of a timer that is not the next one.
    fn is_not_due(&self) -> bool {
        matches!(self.violations[..], [Violation::NotDue { .. }])
    }

    fn is_behind_too_many(&self) -> bool {
        matches!(&self.violations[..], [Violation::Limit { what, .. }] if **what == *TOO_MANY)
    }
}
