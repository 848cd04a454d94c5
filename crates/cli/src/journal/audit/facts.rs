//! What is learnt of transactions, one place after the other, kept until all of it is known.
//!
//! A transaction has parts at entities that are judged far from each other, and there may be more transactions than fit into the memory. So
//! facts are written to files without names in the directory for temporary files. One file has all facts of a part of the transactions, and is
//! read as a whole.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufReader, BufWriter, Seek, Write};

use enact_entities::{Decided, Decision, EntityKey, Held, Holding, Record, TxId};
use enact_rebel::EventCall;
use serde::{Deserialize, Serialize};

use super::store::At;
use crate::failure::Failure;

/// How many files there are. The facts of one have to fit into the memory.
const FILES: usize = 64;

/// One thing that is known of a transaction.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::journal) enum Fact {
    /// What has happened at one entity.
    Acted {
        /// The hashes of all events, less those of the events that they call.
        sum: u64,
        /// The hashes of those that may begin a transaction.
        beginnings: Vec<u64>,
        /// Whether other parts may be in other journals.
        is_part: bool,
    },
    /// What has happened at one entity cannot be told.
    Untold,
    /// Something of it may have been discarded.
    Discarded,
    /// It is committed at an entity, behind something that is not decided.
    Waiting,
    /// What a participant with another journal has recorded.
    Held(Held<At>),
    /// It is decided, with parts in other journals.
    Decided(Decided<At>),
    /// All participants have acknowledged the decision.
    Acknowledged(At),
}

impl Fact {
    /// What the `record` of `entity` says of a transaction over several journals, and of which one; nothing if it is of none.
    pub(in crate::journal) fn over_journals(
        at: At,
        entity: &EntityKey,
        record: Record<EventCall>,
    ) -> Option<(TxId, Self)> {
        let held = |slot, holding| Self::Held(Held { position: at, entity: entity.clone(), slot, holding });
        match record {
            Record::Prepared(prepared) => Some((prepared.branch.tx, held(prepared.slot, Holding::Promised))),
            Record::Outcome { tx, slot, decision: Decision::Commit } => Some((tx, held(slot, Holding::Committed))),
            Record::Outcome { tx, slot, decision: Decision::Abort } => Some((tx, held(slot, Holding::Aborted))),
            Record::Decision(decision) => {
                let decided = Decided { position: at, participants: decision.participants };
                Some((decision.tx, Self::Decided(decided)))
            }
            Record::End { tx } => Some((tx, Self::Acknowledged(at))),
            _ => None,
        }
    }
}

/// All that is known of one transaction.
#[derive(Debug, Default)]
pub(in crate::journal) struct Known {
    /// The sum over all entities.
    pub(super) sum: u64,
    pub(super) beginnings: Vec<u64>,
    pub(super) has_acted: bool,
    pub(super) is_part: bool,
    pub(super) is_untold: bool,
    pub(super) is_discarded: bool,
    pub(super) is_waiting: bool,
    pub(in crate::journal) held: Vec<Held<At>>,
    pub(in crate::journal) decisions: Vec<Decided<At>>,
    pub(in crate::journal) acknowledged: Option<At>,
}

impl Known {
    fn add(&mut self, fact: Fact) {
        match fact {
            Fact::Acted { sum, beginnings, is_part } => {
                self.sum = self.sum.wrapping_add(sum);
                self.beginnings.extend(beginnings);
                self.is_part |= is_part;
                self.has_acted = true;
            }
            Fact::Untold => self.is_untold = true,
            Fact::Discarded => self.is_discarded = true,
            Fact::Waiting => self.is_waiting = true,
            Fact::Held(held) => self.held.push(held),
            Fact::Decided(decided) => self.decisions.push(decided),
            Fact::Acknowledged(at) => self.acknowledged = Some(at),
        }
    }

    /// Whether the events are those that are called, and one that a client or a timer may have called.
    pub(super) fn adds_up(&self) -> bool {
        !self.has_acted || self.beginnings.contains(&self.sum)
    }
}

/// Facts of all transactions.
#[derive(Default)]
pub(in crate::journal) struct Facts {
    /// Each with the number of its facts; made when the first fact is added.
    files: Vec<(BufWriter<File>, u64)>,
}

impl Facts {
    pub(in crate::journal) fn add(&mut self, tx: TxId, fact: &Fact) -> Result<(), Failure> {
        let mut hasher = DefaultHasher::new();
        tx.hash(&mut hasher);
        if self.files.is_empty() {
            let file = |_| Ok((BufWriter::new(tempfile::tempfile()?), 0));
            self.files = (0..FILES).map(file).collect::<io::Result<_>>().map_err(Failure::Temporary)?;
        }
        let (file, count) = &mut self.files[hasher.finish() as usize % FILES];
        rmp_serde::encode::write(file, &(tx, fact)).map_err(|cause| Failure::Temporary(io::Error::other(cause)))?;
        *count += 1;
        Ok(())
    }

    /// Shows what is known of each transaction.
    pub(in crate::journal) fn each(
        self,
        mut see: impl FnMut(TxId, Known) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        for (file, count) in self.files {
            for (tx, known) in read(file, count).map_err(Failure::Temporary)? {
                see(tx, known)?;
            }
        }
        Ok(())
    }
}

fn read(mut file: BufWriter<File>, count: u64) -> io::Result<HashMap<TxId, Known>> {
    file.flush()?;
    let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.rewind()?;
    let mut known: HashMap<TxId, Known> = HashMap::new();
    let mut facts = rmp_serde::Deserializer::new(BufReader::new(file));
    for _ in 0..count {
        let (tx, fact) = <(TxId, Fact)>::deserialize(&mut facts).map_err(io::Error::other)?;
        known.entry(tx).or_default().add(fact);
    }
    Ok(known)
}
