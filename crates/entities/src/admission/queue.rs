//! The delayed ones of one entity, in the order of arrival.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::entity::{Branch, Shape};
use super::footprint::Footprint;
use super::index::Watch;
use super::judge::Cause;
use crate::model::{Change, Linear};
use crate::tx::{Attempt, Millis, TxId};

/// The place of a delayed transaction among all of them: earlier ones arrived before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Arrival(pub(super) u64);

impl Arrival {
    /// Before all.
    pub(super) const FIRST: Self = Self(0);
    /// Behind all.
    pub(super) const END: Self = Self(u64::MAX);

    pub(super) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// A transaction that waits, or is about to.
pub(super) struct Delayed<E> {
    pub(super) branch: Branch<E>,
    pub(super) deadline: Millis,
    /// Whether its transaction has no other part.
    pub(super) sole: bool,
    /// Whether it must not rely on what is released early.
    pub(super) certain: bool,
    /// Whether its coordinator knows what its events call.
    pub(super) calls_known: bool,
    pub(super) shape: Option<Shape<E>>,
    /// Whether its shape says what its questions rely on, as that was when it was looked at last.
    pub(super) pins: bool,
    /// Which places it may change, and how.
    pub(super) changes: Option<Vec<Change>>,
    pub(super) cause: Cause,
    /// What wakes it.
    pub(super) watches: Vec<Watch>,
    /// How many were admitted past it although they could make it wait.
    pub(super) overtaken: usize,
}

impl<E> Delayed<E> {
    /// What it needs and does, cell by cell, if that can be told.
    pub(super) fn footprint(&self) -> Option<&Footprint> {
        self.shape.as_ref().map(|shape| &shape.footprint)
    }

    /// Its footprint, if that is nothing but thresholds, contents and constants.
    pub(super) fn as_linear(&self) -> Option<&Linear> {
        self.footprint().and_then(Footprint::as_linear)
    }
}

/// Finds a transaction, its neighbours and the next deadline in logarithmic time.
pub(super) struct Queue<E> {
    line: BTreeMap<Arrival, Box<Delayed<E>>>,
    known: HashMap<TxId, (Arrival, Attempt)>,
    deadlines: BTreeSet<(Millis, TxId)>,
    next: Arrival,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { line: BTreeMap::new(), known: HashMap::new(), deadlines: BTreeSet::new(), next: Arrival::FIRST }
    }
}

impl<E> Queue<E> {
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// Whether nobody has ever arrived, so that it has no room for anybody.
    pub(super) fn is_untouched(&self) -> bool {
        self.next == Arrival::FIRST
    }

    pub(super) fn attempt(&self, tx: TxId) -> Option<Attempt> {
        self.known.get(&tx).map(|(_, attempt)| *attempt)
    }

    /// How many have a smaller id.
    pub(super) fn older_than(&self, tx: TxId) -> usize {
        self.known.keys().filter(|&&other| other < tx).count()
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    pub(super) fn first(&self) -> Option<Arrival> {
        self.line.keys().next().copied()
    }

    /// The first one from `from` on and before `end`.
    pub(super) fn within(&self, from: Arrival, end: Arrival) -> Option<Arrival> {
        self.line.range(from..end).next().map(|(arrival, _)| *arrival)
    }

    /// Those that arrived before `end`, in the order of arrival.
    pub(super) fn before(&self, end: Arrival) -> impl Iterator<Item = (Arrival, &Delayed<E>)> {
        self.line.range(..end).map(|(arrival, delayed)| (*arrival, &**delayed))
    }

    pub(super) fn get(&self, arrival: Arrival) -> Option<&Delayed<E>> {
        self.line.get(&arrival).map(|delayed| &**delayed)
    }

    pub(super) fn get_mut(&mut self, arrival: Arrival) -> Option<&mut Delayed<E>> {
        self.line.get_mut(&arrival).map(|delayed| &mut **delayed)
    }

    pub(super) fn find(&self, tx: TxId) -> Option<(Arrival, &Delayed<E>)> {
        let (arrival, _) = self.known.get(&tx)?;
        self.get(*arrival).map(|delayed| (*arrival, delayed))
    }

    /// Gives one a place behind all, into which it has to be [put](Self::put).
    pub(super) fn arrive(&mut self, delayed: &Delayed<E>) -> Arrival {
        let arrival = self.next;
        self.next = arrival.next();
        self.known.insert(delayed.branch.tx, (arrival, delayed.branch.attempt));
        self.deadlines.insert((delayed.deadline, delayed.branch.tx));
        arrival
    }

    /// Takes one out to be judged. It is [put back](Self::put) into its place, or [forgotten](Self::forget).
    pub(super) fn take(&mut self, arrival: Arrival) -> Option<Box<Delayed<E>>> {
        self.line.remove(&arrival)
    }

    pub(super) fn put(&mut self, arrival: Arrival, delayed: Box<Delayed<E>>) {
        self.line.insert(arrival, delayed);
    }

    pub(super) fn forget(&mut self, delayed: &Delayed<E>) {
        self.known.remove(&delayed.branch.tx);
        self.deadlines.remove(&(delayed.deadline, delayed.branch.tx));
    }

    pub(super) fn remove(&mut self, tx: TxId) -> Option<(Arrival, Box<Delayed<E>>)> {
        let (arrival, _) = *self.known.get(&tx)?;
        let delayed = self.take(arrival)?;
        self.forget(&delayed);
        Some((arrival, delayed))
    }

    /// Takes out all whose deadline has come, in the order of arrival.
    pub(super) fn take_late(&mut self, now: Millis) -> Vec<(Arrival, Box<Delayed<E>>)> {
        let mut late = Vec::new();
        while let Some(&(deadline, tx)) = self.deadlines.first()
            && deadline <= now
        {
            late.extend(self.remove(tx));
        }
        late.sort_unstable_by_key(|(arrival, _)| *arrival);
        late
    }
}
