//! Whether the parts of a backup belong together.

use enact_entities::{EntityKey, Record, disagreements};
use enact_journal::{Group, Kind, Record as Stored};
use enact_rebel::EventCall;

use super::manifest::DirectoryError;
use crate::failure::Failure;
use crate::journal::audit::facts::{Fact, Facts};
use crate::journal::audit::store::At;
use crate::journal::audit::{DECISION, END};
use crate::journal::tally::decode;

/// The kinds of promises and of their outcomes.
const PREPARED: Kind = Kind(1);
const OUTCOME: Kind = Kind(2);

/// The records of `group` that are of transactions over shards, with their entities.
pub(super) fn steps(group: &Group) -> impl Iterator<Item = Result<(&Stored, Record<EventCall>), Failure>> {
    let is_step = |record: &&Stored| [PREPARED, OUTCOME, DECISION, END].contains(&record.kind);
    group.records().iter().filter(is_step).map(|record| Ok((record, decode(record)?)))
}

/// What all shards say of the transactions over them.
#[derive(Default)]
pub(super) struct Agreement {
    facts: Facts,
}

impl Agreement {
    /// Takes the next group of a shard.
    pub(super) fn add(&mut self, shard: u16, group: &Group) -> Result<(), Failure> {
        for step in steps(group) {
            let (Stored { entity, position, .. }, record) = step?;
            if let Some((tx, fact)) = Fact::over_journals(At { shard, position: *position }, entity, record) {
                self.facts.add(tx, &fact)?;
            }
        }
        Ok(())
    }

    /// Prints what does not agree, and fails if there is something.
    pub(super) fn check(self) -> Result<(), Failure> {
        let mut count = 0;
        self.facts.each(|tx, known| {
            for found in disagreements(&known.decisions, &known.held, known.acknowledged, |_| true) {
                let (At { shard, position }, entity, kind): (At, &EntityKey, _) =
                    (found.position, &found.entity, found.kind);
                println!("shard {shard}, transaction {tx}, record {position}: {entity} {kind}");
                count += 1;
            }
            Ok(())
        })?;
        if count == 0 { Ok(()) } else { Err(DirectoryError::Disagreement { count }.into()) }
    }
}
