//! What groups of records hold, in one line for people.

use std::fmt;

use enact_entities::{Record, Timestamp};
use enact_journal::{Group, Record as Stored};
use enact_rebel::EventCall;

use crate::contract;
use crate::failure::Failure;

/// The times of the earliest and of the latest transaction.
#[derive(Clone, Copy)]
pub(crate) struct Times {
    pub(crate) earliest: Timestamp,
    pub(crate) latest: Timestamp,
}

impl Times {
    /// Those of `group`; nothing if none of its records has a time.
    ///
    /// # Errors
    /// When a record is none that this version of the program knows.
    pub(crate) fn of(group: &Group) -> Result<Option<Self>, Failure> {
        let mut times = None;
        for record in group.records().iter().filter(|record| record.kind != contract::KIND) {
            let at = decode(record)?.at();
            times = both(times, at.map(|at| Self { earliest: at, latest: at }));
        }
        Ok(times)
    }

    fn and(self, other: Self) -> Self {
        Self { earliest: self.earliest.min(other.earliest), latest: self.latest.max(other.latest) }
    }
}

fn both(first: Option<Times>, second: Option<Times>) -> Option<Times> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.and(second)),
        (one, None) | (None, one) => one,
    }
}

/// Counts groups of records.
#[derive(Default)]
pub(crate) struct Tally {
    groups: u64,
    records: usize,
    times: Option<Times>,
}

impl Tally {
    /// Counts `group`, whose transactions have these times.
    pub(crate) fn add(&mut self, group: &Group, times: Option<Times>) {
        self.groups += 1;
        self.records += group.records().len();
        self.times = both(self.times, times);
    }

    /// The time of the latest transaction.
    pub(crate) fn latest(&self) -> Option<enact_rebel::Timestamp> {
        self.times.map(|times| shown(times.latest))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "groups {}, records {}", self.groups, self.records)?;
        match self.times {
            Some(Times { earliest, latest }) => {
                write!(f, ", transactions from {} to {}", shown(earliest), shown(latest))
            }
            None => Ok(()),
        }
    }
}

/// A time as the program shows and takes it.
pub(crate) fn shown(at: Timestamp) -> enact_rebel::Timestamp {
    enact_rebel::Timestamp::from_millis(at.0)
}

/// What `record` of an entity says.
pub(crate) fn decode(record: &Stored) -> Result<Record<EventCall>, Failure> {
    Record::decode(&record.payload).map_err(|source| Failure::Record {
        position: record.position,
        entity: record.entity.clone(),
        source,
    })
}
