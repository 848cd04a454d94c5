//! Where the new log will end, and what is behind that.

use std::collections::{BTreeSet, HashSet};
use std::fmt;

use enact_entities::{Durability, EntityKey, Record, TxId};
use enact_journal::{Diagnosis, Finding, Group, Position, Record as Stored};

use crate::contract;
use crate::journal::tally::{Tally, Times, decode};

/// How many entities are named that have lost records.
const NAMED_MAX: usize = 5;

/// Positions that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) first: Position,
    pub(crate) last: Position,
}

impl Span {
    pub(crate) fn is_one(&self) -> bool {
        self.first == self.last
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_one() {
            write!(f, "record {}", self.first)
        } else {
            write!(f, "records {} to {}", self.first, self.last)
        }
    }
}

/// What the first reading has found.
#[derive(Default)]
pub(super) struct Plan {
    /// All that can be read.
    pub(super) read: Tally,
    /// What is before the first missing record.
    pub(super) kept: Tally,
    /// The last position of that.
    pub(super) last: Position,
    /// What neither the directory nor the backup has.
    pub(super) missing: Vec<Span>,
    pub(super) has_lost_contract: bool,
    /// What can be read behind the first missing record.
    lost: Tally,
    lost_entities: BTreeSet<EntityKey>,
    /// Some missing records are of nobody knows which entity.
    has_unknown: bool,
    /// The last position that was read.
    read_to: Position,
    end: Position,
    /// Transactions with parts in other journals: those that are not over where the new log ends, and those in what is lost.
    open: HashSet<TxId>,
    elsewhere: HashSet<TxId>,
}

impl Plan {
    /// Takes the next group.
    pub(super) fn add(&mut self, group: Group) {
        let (first, last) = (group.first(), group.last());
        self.skip_to(first);
        self.read_to = last;
        // A record of another version of the program is kept like any other; only what it says is not known.
        let times = Times::of(&group).unwrap_or_default();
        self.read.add(&group, times);
        let is_kept = self.missing.is_empty();
        if is_kept {
            self.kept.add(&group, times);
            self.last = last;
        } else {
            self.lost.add(&group, times);
        }
        for record in group {
            self.look_at(&record, is_kept);
            if !is_kept && !contract::is_internal(&record.entity) {
                self.lost_entities.insert(record.entity);
            }
        }
    }

    fn look_at(&mut self, record: &Stored, is_kept: bool) {
        if contract::is_of_contract(&record.entity) {
            self.has_lost_contract |= !is_kept;
            return;
        }
        let (tx, is_over) = match decode(record) {
            Ok(Record::Prepared(prepared)) if prepared.durability == Durability::TwoPhase => {
                (prepared.branch.tx, false)
            }
            Ok(Record::Decision(decision)) if !decision.participants.is_empty() => (decision.tx, false),
            Ok(Record::Outcome { tx, .. } | Record::End { tx }) => (tx, true),
            _ => return,
        };
        if !is_kept {
            self.elsewhere.insert(tx);
        } else if is_over {
            self.open.remove(&tx);
        } else {
            self.open.insert(tx);
        }
    }

    fn skip_to(&mut self, next: Position) {
        let expected = self.read_to.next();
        if next > expected {
            self.missing.push(Span { first: expected, last: Position(next.0 - 1) });
        }
    }

    /// Everything was read.
    pub(super) fn finish(&mut self, diagnosis: &Diagnosis, has_backup: bool) {
        self.end = self.read_to.max(diagnosis.last);
        self.skip_to(self.end.next());
        let is_missing = |finding: &Finding| matches!(finding, Finding::Missing { .. });
        self.has_unknown = has_backup && !self.missing.is_empty()
            || diagnosis.missing.values().sum::<u64>() < diagnosis.missing_count();
        if !has_backup && diagnosis.findings.iter().any(is_missing) {
            let objects = diagnosis.missing.keys().filter(|entity| !contract::is_internal(entity));
            self.lost_entities.extend(objects.cloned());
        }
    }

    pub(super) fn first_missing(&self) -> Option<Span> {
        self.missing.first().copied()
    }

    /// How many positions are behind the last one that is kept.
    pub(super) fn lost_count(&self) -> u64 {
        self.end.0 - self.last.0
    }

    /// How many transactions with parts in other journals are among what is lost, as far as that can be read.
    pub(super) fn lost_elsewhere(&self) -> usize {
        self.elsewhere.len()
    }

    /// How many transactions with parts in other journals are not over where the new log ends.
    pub(super) fn undecided(&self) -> usize {
        self.open.len()
    }

    /// What is behind the last position that is kept.
    pub(super) fn lost_in_words(&self) -> String {
        let span = Span { first: self.last.next(), last: self.end };
        let at_least = if self.has_unknown { "at least " } else { "" };
        let entities = entities(self.lost_entities.iter());
        let readable =
            if self.lost.is_empty() { String::new() } else { format!("; of these can be read: {}", self.lost) };
        format!("{span}, of {at_least}{entities}{readable}")
    }
}

/// How many entities there are, with the names of the first ones; internal ones do not count.
pub(super) fn entities<'a>(all: impl Iterator<Item = &'a EntityKey>) -> String {
    let names: Vec<&str> = all.filter(|entity| !contract::is_internal(entity)).map(EntityKey::as_str).collect();
    let named = names[..names.len().min(NAMED_MAX)].join(", ");
    let more = if names.len() > NAMED_MAX { ", .." } else { "" };
    format!("{} entit{}: {named}{more}", names.len(), if names.len() == 1 { "y" } else { "ies" })
}

#[cfg(test)]
mod tests {
    use enact_entities::{Answer, Attempt, Branch, Decision, Prepared, Slot, Timestamp, Work};
    use enact_journal::{Damage, Flaw, Kind, Seq};
    use enact_rebel::EventCall;

    use super::*;

    fn group(position: u64, record: &Record<EventCall>) -> Group {
        let entity = EntityKey::new("Lamp", "l").expect("a name");
        let (kind, payload) = (Kind(record.kind()), record.encode());
        Group::of(vec![Stored { entity, seq: Seq(position), position: Position(position), kind, payload }])
    }

    fn prepared(tx: u128) -> Record<EventCall> {
        let branch = Branch { tx: TxId::from_u128(tx), attempt: Attempt::FIRST, work: Work::of([]), at: Timestamp(7) };
        Record::Prepared(Box::new(Prepared {
            branch,
            slot: Slot(1),
            coordinator: EntityKey::new("Coordinator", "c").expect("a name"),
            answer: Answer { calls: Vec::new(), answers: Vec::new(), state: None, in_line: false },
            version: 1,
            durability: Durability::TwoPhase,
            overlap: None,
        }))
    }

    fn outcome(tx: u128) -> Record<EventCall> {
        Record::Outcome { tx: TxId::from_u128(tx), slot: Slot(1), decision: Decision::Commit }
    }

    /// The log ends in the middle of what is decided with other journals.
    #[test]
    fn transactions_over_several_journals_that_a_cut_parts_are_counted() {
        let mut plan = Plan::default();
        for (position, record) in
            [(1, prepared(1)), (2, prepared(2)), (3, outcome(1)), (5, outcome(2)), (6, prepared(3))]
        {
            plan.add(group(position, &record));
        }
        let damage = Damage { file: "segment-0000000001.log".to_owned(), offset: 9, flaw: Flaw::Record };
        let missing = Finding::Missing { first: Position(4), last: Position(4) };
        let findings = vec![Finding::Damaged(damage), missing];
        plan.finish(&Diagnosis { findings, last: Position(8), ..Diagnosis::default() }, false);
        assert_eq!((plan.undecided(), plan.lost_elsewhere()), (1, 2));
        let span = |first, last| Span { first: Position(first), last: Position(last) };
        assert_eq!(plan.missing, [span(4, 4), span(7, 8)]);
        assert_eq!((plan.last, plan.lost_count()), (Position(3), 5));
    }
}
