//! Which delayed transactions are judged again, and in which order.
//!
//! A decision changes cells. Those that wait for that are judged in the order of arrival, until nobody is left whom it could settle, or
//! eight for each changed cell were judged in vain. What is left stays stirred and is looked at in the next call.
//!
//! Where the cells do not describe all that is in progress, everybody is asked, also eight at a time: the first ones each time,
//! and all others in turn.
//!
//! # Nobody waits for nothing
//! With nothing open the first of all is judged whatever it waits for. There is one state then, so that it is settled.

use super::changed::Changed;
use super::index::{Key, Watch};
use super::judge::Cause;
use super::queue::{Arrival, Delayed};
use super::watch::watches;
use super::{Admission, Verdict};
use crate::model::Model;
use crate::tx::TxId;

/// How many delayed ones are judged in vain for each cell that has changed.
const IN_VAIN_MAX: usize = 8;

/// How many of these are the first in line; the others are asked in turn.
const FIRST_MAX: usize = 4;

/// How many cells that have changed in an earlier call are looked at once more.
const LEFT_MAX: usize = 8;

/// One reason to judge delayed ones again.
struct Visit {
    source: Source,
    /// Whether it is a reason since this call.
    is_fresh: bool,
    in_vain: usize,
    /// Those before it were met as the first in line.
    met: Arrival,
    /// Whether the next of a class would wait for the turn of another.
    is_out_of_turn: bool,
}

#[derive(Clone, PartialEq, Eq)]
enum Source {
    Everyone,
    Turn,
    Bound,
    Key(Key),
}

/// How a visit has found one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    First,
    Round,
    Class,
    Other,
}

impl Visit {
    const fn new(source: Source, is_fresh: bool) -> Self {
        Self { source, is_fresh, in_vain: 0, met: Arrival::FIRST, is_out_of_turn: false }
    }

    const fn asks_first(&self) -> bool {
        self.is_fresh && self.in_vain < FIRST_MAX
    }
}

impl<M: Model> Admission<M> {
    /// Judges those that what has changed may settle. If nothing is open the first of all is settled, so that one is open afterwards or
    /// none is delayed.
    pub(super) fn wake(&mut self) -> Vec<(TxId, Verdict<M::Event>)> {
        let changed = self.progress.take_changes();
        let mut settled = Vec::new();
        if self.delayed.len() == 0 || cfg!(planted = "never_wake") {
            return settled;
        }
        self.progress.refill();
        while self.progress.open_count() == 0
            && let Some(first) = self.delayed.first()
            && self.judge_again(first, &mut settled)
        {}
        let mut visits = self.visits(&changed);
        let in_vain_max = IN_VAIN_MAX * changed.cell_count().max(1);
        let reasons = visits.iter().filter(|visit| self.candidate(visit).is_some()).count();
        let in_vain_each = (in_vain_max / reasons.max(1)).clamp(1, IN_VAIN_MAX);
        let mut in_vain = 0;
        while in_vain < in_vain_max
            && self.strategy.has_room(&self.progress, &self.limits)
            && let Some((visit, way, arrival)) = self.next(&mut visits, in_vain_each)
        {
            self.meet(visit, way, arrival);
            if !self.judge_again(arrival, &mut settled) {
                in_vain += 1;
                visit.in_vain += 1;
                let cause = self.delayed.get(arrival).map(|delayed| delayed.cause);
                if let Some(Cause::Turn(tx)) = cause {
                    visit.is_out_of_turn |= way == Way::Class;
                    if visit.source == Source::Turn {
                        self.index.follow(tx);
                    }
                }
            }
        }
        for visit in &mut visits {
            if let Source::Key(key) = &visit.source
                && self.candidate(visit).is_none()
            {
                self.index.calm(key);
            }
        }
        settled
    }

    /// The reasons that have somebody to judge.
    fn visits(&mut self, changed: &Changed) -> Vec<Visit> {
        for key in changed.keys() {
            self.index.stir(key);
        }
        if changed.is_everything() {
            self.round.start();
            return vec![Visit::new(Source::Everyone, true)];
        }
        let left = self.index.stirred(self.visited.as_ref(), LEFT_MAX);
        self.visited = left.last().cloned();
        let old = left.into_iter().filter(|key| !changed.has(key)).map(|key| (Source::Key(key), false));
        let new = changed.keys().map(|key| (Source::Key(key.clone()), true));
        let always = [(Source::Everyone, false), (Source::Turn, true), (Source::Bound, true)];
        always.into_iter().chain(new).chain(old).map(|(source, is_fresh)| Visit::new(source, is_fresh)).collect()
    }

    /// The first one in the order of arrival for which there is a reason.
    fn next<'a>(&mut self, visits: &'a mut [Visit], in_vain_each: usize) -> Option<(&'a mut Visit, Way, Arrival)> {
        let open = visits.iter_mut().filter(|visit| visit.in_vain < in_vain_each);
        let found = open.filter_map(|visit| {
            let (way, arrival) = self.candidate(visit)?;
            Some((visit, way, arrival))
        });
        found.min_by_key(|(_, _, arrival)| *arrival)
    }

    fn candidate(&mut self, visit: &Visit) -> Option<(Way, Arrival)> {
        let way = if visit.asks_first() { Way::First } else { Way::Round };
        let (index, delayed) = (&mut self.index, &self.delayed);
        match &visit.source {
            Source::Everyone => {
                let within = |from, end| delayed.within(from, end);
                let found = match way {
                    Way::First => within(visit.met, Arrival::END),
                    _ => self.round.next(visit.met, within),
                };
                found.map(|arrival| (way, arrival))
            }
            Source::Turn => {
                let waits = |arrival| {
                    let watches = delayed.get(arrival).map(|delayed| delayed.watches.as_slice());
                    matches!(watches, Some([Watch::Turn(_)]))
                };
                index.for_turn(waits).map(|arrival| (Way::Other, arrival))
            }
            Source::Bound => index.for_bound().map(|arrival| (Way::Other, arrival)),
            Source::Key(key) => {
                let change = index.for_change(key, visit.met, way == Way::First).map(|arrival| (way, arrival));
                let class = (!visit.is_out_of_turn).then(|| index.for_class(key, &self.progress)).flatten();
                let room = index.for_room(key, &self.progress);
                let level = index.for_level(key, &self.progress);
                let class = class.map(|arrival| (Way::Class, arrival));
                let [room, level] = [room, level].map(|found| found.map(|arrival| (Way::Other, arrival)));
                [change, class, room, level].into_iter().flatten().min_by_key(|(_, arrival)| *arrival)
            }
        }
    }

    /// Notes that one is judged because of this.
    fn meet(&mut self, visit: &mut Visit, way: Way, arrival: Arrival) {
        if way == Way::First {
            visit.met = arrival.next();
        }
        match &visit.source {
            Source::Everyone => self.round.pass(arrival),
            Source::Turn => self.index.take_turn(),
            Source::Key(key) if matches!(way, Way::First | Way::Round) => self.index.pass(key, arrival),
            Source::Bound | Source::Key(_) => {}
        }
    }

    /// Judges one that is delayed, and says whether that has settled it.
    fn judge_again(&mut self, arrival: Arrival, settled: &mut Vec<(TxId, Verdict<M::Event>)>) -> bool {
        let Some(mut delayed) = self.delayed.take(arrival) else { return false };
        self.index.leave(arrival, &delayed.watches);
        let Some(verdict) = self.settle(&mut delayed, arrival) else {
            self.wait(arrival, delayed);
            return false;
        };
        self.delayed.forget(&delayed);
        self.index.release(delayed.branch.tx);
        settled.push((delayed.branch.tx, verdict));
        self.progress.refill();
        true
    }

    /// Forgets what would wake one that is gone. It is the turn of those that wait for it.
    pub(super) fn leave(&mut self, arrival: Arrival, delayed: &Delayed<M::Event>) {
        self.index.leave(arrival, &delayed.watches);
        self.index.release(delayed.branch.tx);
    }

    /// Puts one that has to wait into its place, and enters what wakes it.
    pub(super) fn wait(&mut self, arrival: Arrival, mut delayed: Box<Delayed<M::Event>>) {
        delayed.watches = watches(&self.progress, self.strategy, &delayed, || self.pin(&delayed.branch));
        self.index.enter(arrival, &delayed.watches);
        self.delayed.put(arrival, delayed);
    }
}
