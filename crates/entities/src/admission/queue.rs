//! The delayed ones of one entity, in the order of arrival.

use std::collections::{BTreeSet, HashMap, VecDeque};

use super::entity::{Branch, Shape};
use super::judge::Cause;
use crate::model::{Change, Linear};
use crate::tx::{Attempt, Millis, TxId};

/// A transaction that waits, or is about to.
pub(super) struct Delayed<E> {
    pub(super) branch: Branch<E>,
    pub(super) deadline: Millis,
    /// Whether its transaction has no other part.
    pub(super) sole: bool,
    pub(super) shape: Option<Shape<E>>,
    /// Whether its shape says what its questions rely on, as that was when it was looked at last.
    pub(super) pins: bool,
    /// Which places it may change, and how.
    pub(super) changes: Option<Vec<Change>>,
    pub(super) cause: Cause,
    /// How many were admitted past it although they could make it wait.
    pub(super) overtaken: usize,
}

impl<E> Delayed<E> {
    /// Its footprint, if that is nothing but thresholds, contents and constants.
    pub(super) fn as_linear(&self) -> Option<&Linear> {
        self.shape.as_ref().and_then(|shape| shape.footprint.as_linear())
    }
}

/// Finds a transaction, and the next deadline, without looking at all.
pub(super) struct Queue<E> {
    line: VecDeque<Delayed<E>>,
    attempts: HashMap<TxId, Attempt>,
    deadlines: BTreeSet<(Millis, TxId)>,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { line: VecDeque::new(), attempts: HashMap::new(), deadlines: BTreeSet::new() }
    }
}

impl<E> Queue<E> {
    pub(super) fn len(&self) -> usize {
        self.line.len()
    }

    pub(super) fn attempt(&self, tx: TxId) -> Option<Attempt> {
        self.attempts.get(&tx).copied()
    }

    /// How many have a smaller id.
    pub(super) fn older_than(&self, tx: TxId) -> usize {
        self.attempts.keys().filter(|&&other| other < tx).count()
    }

    pub(super) fn next_deadline(&self) -> Option<Millis> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Those that arrived before the one at `end`, and at most the first `count`.
    pub(super) fn first(&self, count: usize, end: usize) -> impl Iterator<Item = &Delayed<E>> {
        self.line.range(..end.min(count).min(self.line.len()))
    }

    pub(super) fn at(&mut self, index: usize) -> &mut Delayed<E> {
        &mut self.line[index]
    }

    pub(super) fn find(&self, tx: TxId) -> Option<&Delayed<E>> {
        self.position(tx).map(|index| &self.line[index])
    }

    pub(super) fn position(&self, tx: TxId) -> Option<usize> {
        self.attempts.get(&tx)?;
        self.line.iter().rposition(|delayed| delayed.branch.tx == tx)
    }

    /// Takes the one at `index` out; those behind it move up.
    pub(super) fn remove(&mut self, index: usize) -> Option<Delayed<E>> {
        let delayed = self.line.remove(index)?;
        self.attempts.remove(&delayed.branch.tx);
        self.deadlines.remove(&(delayed.deadline, delayed.branch.tx));
        Some(delayed)
    }

    /// Puts one before the one at `index`, or behind all.
    pub(super) fn insert(&mut self, index: usize, delayed: Delayed<E>) {
        self.attempts.insert(delayed.branch.tx, delayed.branch.attempt);
        self.deadlines.insert((delayed.deadline, delayed.branch.tx));
        self.line.insert(index, delayed);
    }

    /// Takes out all whose deadline has come, in the order of arrival.
    pub(super) fn take_late(&mut self, now: Millis) -> Vec<Delayed<E>> {
        if self.next_deadline().is_none_or(|next| next > now) {
            return Vec::new();
        }
        let mut late = Vec::new();
        for delayed in std::mem::take(self).line {
            if delayed.deadline <= now {
                late.push(delayed);
            } else {
                self.insert(self.len(), delayed);
            }
        }
        late
    }
}
