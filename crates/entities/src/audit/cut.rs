//! Where to cut journals that are written to meanwhile, so that the parts before the cuts belong together.
//!
//! # Problem
//! Each shard has a journal, and their ends cannot be taken at one moment. A transaction over shards leaves in them, each durable before
//! the next is written:
//!
//! 1. at each participant a *promise* ([`Record::Prepared`]),
//! 2. at its coordinator the *decision* ([`Record::Decision`]),
//! 3. at each participant the *commit* ([`Record::Outcome`]),
//! 4. at its coordinator the *end* ([`Record::End`]): everybody has acknowledged the commit.
//!
//! A store that has one of them without those before it is wrong: a decision without a promise has no effect there, a commit without the
//! decision is half of a transaction, and an end without a commit makes the participant, which asks, hear that all is aborted. The other
//! way round all is well: a recovery takes up what is promised, or decided, and not ended. A promise without a decision is aborted. What counts
//! on an outcome at an entity stands behind the record of it, in the same journal.
//!
//! # Steps
//! The ends of all journals are taken three times, each time after all of the time before: `settled`, `ends` and `seen`. The cut
//! begins at `ends`. As long as a record is before the cut of its journal and one that had to be durable before it is behind that of its
//! own, the cut is moved before the group of the first one. Cuts only decrease, so that ends.
//!
//! What stands before `ends` relies only on what stands before `seen`. So of records up to `seen` everything is known that matters; and it is
//! enough to know those behind `settled`, for two reasons:
//! * A record up to `settled` was durable before `ends` were taken.
//! * Whatever is behind a cut became durable after the first of `ends` was taken. At the beginning that is what an end says.
//!   Later, what relies on a record behind a cut was written when that was durable, and whatever follows it in its journal became durable
//!   with it or after it.
//!
//! So no cut comes before `settled`, and what is not seen behind `settled` stands before it.
//!
//! # What holds
//! * Each part is a prefix of whole groups, and every transaction is in all parts or in none, once what is open there is recovered.
//! * Everything that was durable, and so everything that was acknowledged, before `settled` was taken is in it.
//! * It is the largest such cut before `ends`: two cuts without a contradiction have none together.
//!
//! It is not one moment: of two transactions with no shard in common that a client sends one after the other, the later one may be in and the
//! earlier one not, if both were under way between `settled` and `ends`. If nothing was written meanwhile, it is that moment.

use std::collections::HashMap;

use enact_journal::Position;

use crate::EntityKey;
use crate::admission::Decision;
use crate::record::Record;
use crate::tx::{Slot, TxId};

/// The group of a record: its shard, and the first position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct At {
    shard: usize,
    first: Position,
}

/// What was seen of one transaction.
#[derive(Debug, Default)]
struct Steps {
    promises: Vec<(EntityKey, Slot, At)>,
    decisions: Vec<(Vec<(EntityKey, Slot)>, At)>,
    commits: Vec<At>,
    ends: Vec<At>,
}

/// Finds where to cut the journals of all shards, which are written to meanwhile, so that the parts before the cuts belong together.
///
/// Take the ends of all journals three times, each time after all of the time before. The first ones say what is settled, the second ones where the cut
/// begins ([`new`](Self::new)), and of the third ones on nothing has to be known: [add](Self::add) the records between the first and the third.
///
/// Then each part is a prefix of whole groups with all that was acknowledged before the first ends were taken, and every transaction is in all parts or in
/// none, once what is open there is recovered. No larger parts before the second ends have that.
///
/// Takes memory for the transactions over shards among these records.
#[derive(Debug)]
pub struct Cuts {
    cuts: Vec<Position>,
    transactions: HashMap<TxId, Steps>,
}

impl Cuts {
    /// Nothing is seen yet. `ends` are those of the journals, where groups end: the cut comes there or before.
    pub fn new(ends: Vec<Position>) -> Self {
        Self { cuts: ends, transactions: HashMap::new() }
    }

    /// Takes a record of `entity` in the group of `shard` that begins at `first`. Each record that stands behind the place where its journal
    /// had ended before any of the ends was taken, and before where it ended afterwards, has to be shown once, in whichever order.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn add<E>(&mut self, shard: u16, first: Position, entity: &EntityKey, record: &Record<E>) {
        let at = At { shard: usize::from(shard), first };
        assert!(at.shard < self.cuts.len(), "there are {} shards, and this is number {shard}", self.cuts.len());
        match record {
            Record::Prepared(prepared) => {
                let promise = (entity.clone(), prepared.slot, at);
                self.transactions.entry(prepared.branch.tx).or_default().promises.push(promise);
            }
            Record::Decision(decision) if !decision.participants.is_empty() => {
                let of_tx = self.transactions.entry(decision.tx).or_default();
                of_tx.decisions.push((decision.participants.clone(), at));
            }
            Record::Outcome { tx, decision: Decision::Commit, .. } => {
                self.transactions.entry(*tx).or_default().commits.push(at);
            }
            Record::End { tx } => self.transactions.entry(*tx).or_default().ends.push(at),
            _ => {}
        }
    }

    /// Where each journal is to be cut: the last position that belongs to the cut.
    ///
    /// # Complexity
    /// O(n²) in the number of records at worst; O(n) unless transactions that depend on each other in a chain are cut.
    pub fn cut(self) -> Vec<Position> {
        let Self { mut cuts, transactions } = self;
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for steps in transactions.values() {
                has_moved |= steps.shrink(&mut cuts);
            }
        }
        cuts
    }
}

impl Steps {
    /// Moves cuts before what relies on something behind one. Returns whether it has.
    fn shrink(&self, cuts: &mut [Position]) -> bool {
        let is_cut = |cuts: &[Position], at: At| at.first > cuts[at.shard];
        let mut has_moved = false;
        let mut leave_out = |cuts: &mut [Position], at: At| {
            if !is_cut(cuts, at) {
                cuts[at.shard] = Position(at.first.0 - 1);
                has_moved = true;
            }
        };
        for (participants, at) in &self.decisions {
            let is_named = |entity, slot| participants.iter().any(|(named, of)| named == entity && *of == slot);
            if self.promises.iter().any(|(entity, slot, promise)| is_cut(cuts, *promise) && is_named(entity, *slot)) {
                leave_out(cuts, *at);
            }
        }
        if self.decisions.iter().any(|(_, at)| is_cut(cuts, *at)) {
            self.commits.iter().for_each(|at| leave_out(cuts, *at));
        }
        if self.commits.iter().any(|at| is_cut(cuts, *at)) {
            self.ends.iter().for_each(|at| leave_out(cuts, *at));
        }
        has_moved
    }
}

#[cfg(test)]
mod tests;
