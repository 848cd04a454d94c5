//! Timers: the events that happen by themselves, and when.

use crate::analysis::reads;
use crate::evaluate::Evaluator;
use crate::instance::{EventCall, Instance, Timing};
use crate::model::expr::Expr;
use crate::model::{Class, Event};
use crate::source::Span;
use crate::value::{Bindings, Fault, Key, Name, Timestamp, Value};

/// `after at: event`, below some states.
#[derive(Debug)]
pub struct Timer {
    /// The states that it belongs to.
    pub states: Vec<Name>,
    /// The time from which on the event is due. It reads the fields and the identity of the instance.
    pub at: Expr,
    /// The event, which has no parameters and is declared for all of the states.
    pub event: Name,
    /// The time as it is written.
    pub text: Name,
    /// From the time to the event.
    pub span: Span,
}

/// An event that a timer makes happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Due {
    /// The value of the timer: the event is due from then on.
    pub at: Timestamp,
    /// The time of the event when it happens: `at`, or the time of the last event of the instance if that is later.
    pub time: Timestamp,
    /// The event.
    pub event: Name,
}

impl Due {
    /// The call with which it happens. Its caller is [`Caller::system`](crate::Caller::system). [`Class::act`] refuses it unless
    /// it is what [`Class::due`] says, so that it happens once.
    #[must_use]
    pub fn call(&self) -> EventCall {
        EventCall::timed(self.event.clone(), self.at, false)
    }

    /// The call that notes that it was refused. It changes nothing but that the event is no longer due, until the state is
    /// entered again or the time of the timer changes.
    #[must_use]
    pub fn refused(&self) -> EventCall {
        EventCall::timed(self.event.clone(), self.at, true)
    }
}

impl Class {
    /// The first event that a timer will make happen to `instance` if nothing else happens to it: the one with the earliest time,
    /// among those of one time the first in the text. It is due at a step of the time [`Due::at`] or later.
    ///
    /// A timer fires once for each value of its time while the instance stays in the state. Two timers of one state that name
    /// one event, with the same value, are one.
    ///
    /// # Complexity
    /// One evaluation for each timer of the state; constant for a class without timers.
    ///
    /// ```
    /// use enact_rebel::{Source, Timestamp, Value, check};
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
    /// let (key, now) = (offer.key("o1").unwrap(), Timestamp::from_millis(0));
    /// let end = Timestamp::from_millis(5_000);
    /// let make = offer.event("Make").unwrap().call([("end", Value::Timestamp(end))]).unwrap();
    ///
    /// let open = offer.next(&key, &offer.initial(), &make, now).unwrap();
    /// let due = offer.due(&key, &open).unwrap();
    /// assert_eq!((due.at, &*due.event), (end, "Expire"));
    /// let expired = offer.next(&key, &open, &due.call(), due.time).unwrap();
    /// assert_eq!((&**expired.state(), offer.due(&key, &expired)), ("expired", None));
    /// ```
    #[must_use]
    pub fn due(&self, key: &Key, instance: &Instance) -> Option<Due> {
        let is_spent = |event: &Name, at| instance.timing().is_some_and(|timing| timing.has_spent(event, at));
        let times = self.times(key, instance.state(), instance.fields());
        let times = times.filter_map(|(timer, time)| Some((time.ok()??, &timer.event)));
        let (at, event) = times.filter(|(at, event)| !is_spent(event, *at)).min_by_key(|(at, _)| *at)?;
        let event = event.clone();
        let last = instance.timing().and_then(|timing| timing.last);
        Some(Due { at, time: last.map_or(at, |last| last.max(at)), event })
    }

    /// The event that comes before a step of the time `at` that meets `instance`, if there is one: one that is due by then.
    ///
    /// Before the event of another timer (`is_timed`) come only those that happen at an earlier time, so that two that meet do
    /// not wait for each other.
    #[must_use]
    pub fn due_before(&self, key: &Key, instance: &Instance, at: Timestamp, is_timed: bool) -> Option<Due> {
        let comes_first = |due: &Due| if is_timed { due.time < at } else { due.at <= at };
        self.due(key, instance).filter(comes_first)
    }

    /// Whether some instance of the class may ever have a [due](Class::due) event.
    #[must_use]
    pub fn is_timed(&self) -> bool {
        !self.timers.is_empty()
    }

    /// Whether `call` may make another event due than was before: it leads to a state with timers.
    #[must_use]
    pub fn may_set_timer(&self, call: &EventCall) -> bool {
        let mut timed = self.timers.iter().flat_map(|timer| &timer.states);
        let event = self.event(call.event());
        timed.any(|state| {
            event.is_some_and(|event| event.transitions.iter().any(|transition| transition.target == *state))
        })
    }

    /// Whether each timer of the state has a time or none. One whose time has no value for a fault refuses every event.
    ///
    /// That is so of each instance that an event has left; a migration may lead to another one.
    #[must_use]
    pub fn has_times(&self, key: &Key, instance: &Instance) -> bool {
        self.times(key, instance.state(), instance.fields()).all(|(_, time)| time.is_ok())
    }

    /// Whether the event leaves what is due as it is in every instance in which it happens, unless a timer makes it happen: it
    /// changes no time of a timer, and leads neither out of a state with timers nor into one.
    pub(crate) fn keeps_timers(&self, event: &Event) -> bool {
        event.transitions.iter().all(|way| {
            let changes = |name: &Name| way.body.effects.iter().any(|effect| effect.field.name == *name);
            self.timers.iter().all(|timer| {
                match (timer.states.contains(&way.source), timer.states.contains(&way.target)) {
                    (false, false) => true,
                    _ => way.source == way.target && !reads(&timer.at, changes),
                }
            })
        })
    }

    /// The timers of a state, each with its time if that has a value.
    fn times<'a>(
        &'a self,
        key: &'a Key,
        state: &'a Name,
        fields: &'a Bindings,
    ) -> impl Iterator<Item = (&'a Timer, Result<Option<Timestamp>, Fault>)> {
        let timers = self.timers.iter().filter(move |timer| timer.states.contains(state));
        timers.map(move |timer| {
            let scope = self.scope(key, fields, None, Timestamp::from_millis(0));
            let time = Evaluator::new(scope).value(&timer.at, &[]).map(|value| match value {
                Value::Timestamp(at) => Some(at),
                _ => None,
            });
            (timer, time)
        })
    }

    /// What is kept about the timers of an instance that `call` brings from `before` into `state` with `fields` at `at`.
    ///
    /// # Errors
    /// The time of a timer of that state has no value, for a fault. That a timed event was refused is noted all the same.
    pub(crate) fn timing<'a>(
        &'a self,
        key: &'a Key,
        before: &Instance,
        (state, fields): (&'a Name, &'a Bindings),
        call: &EventCall,
        at: Timestamp,
    ) -> Result<Option<Timing>, (&'a Timer, Fault)> {
        if !self.is_timed() {
            return Ok(None);
        }
        let stays = before.state() == state;
        let before = before.timing().filter(|_| stays);
        let has_spent = |event: &Name, time: Timestamp| {
            before.is_some_and(|timing| timing.has_spent(event, time))
                || stays && call.due() == Some(time) && call.event() == event
        };
        let mut timing = Timing::default();
        for (timer, time) in self.times(key, state, fields) {
            let time = match time {
                // It has had no value before.
                Err(_) if call.is_note() => None,
                time => time.map_err(|fault| (timer, fault))?,
            };
            let Some(time) = time else { continue };
            if !has_spent(&timer.event, time) {
                let last = before.and_then(|timing| timing.last).map_or(at, |last| last.max(at));
                timing.last = timing.last.or((time < last).then_some(last));
            } else if !timing.has_spent(&timer.event, time) {
                timing.spent.push((timer.event.clone(), time));
            }
        }
        Ok((timing != Timing::default()).then_some(timing))
    }
}
