//! What is journaled.
//!
//! Each record is a byte with the version of the encoding, and then values without the names of Rust: what they are follows from
//! the kind of the record, which the journal keeps beside it. Events, arguments, fields and states of a contract keep their names,
//! so that a record outlives edits of the contract; the version of the contract is in the record too, if it is not the first.
//!
//! | value | bytes |
//! |---|---|
//! | a number without a sign | seven bits in each byte, the lowest first; the eighth says that more follow |
//! | a number with a sign | the same, with 0, -1, 1, -2 .. as 0, 1, 2, 3 .. |
//! | a number of 8 bits without a sign | that byte |
//! | a truth value, an option | 0 or 1, and then what there is |
//! | a text, bytes, a sequence, a map | its length, and then its bytes, its elements, or its keys each with its value |
//! | a struct | a number with a bit for each field that is there, the first in the lowest, and then these fields |
//! | a variant | its number, and then what is in it |
//!
//! So fields and variants keep their place: new ones come last, and a new field has a default. A record with a field that the
//! program does not know is refused.
//!
//! Version 3, which is read and no longer written, is a `MessagePack` map with the names of the fields, and has values as texts.
//!
//! | record | written by | forced | says |
//! |---|---|---|---|
//! | `Prepared` | participant, two-phase | before its yes | the transaction is open here, under this slot |
//! | `Outcome` | participant, two-phase | no; the ack waits for it | how it ended |
//! | `Committed` | coordinator, shared journal | with the decision | the transaction committed here, under this slot |
//! | `Decision` | coordinator | before any commit is told | it commits: where, and what the client is told |
//! | `Answer` | coordinator | before the client is told | a refusal that a repeated request must get again |
//! | `Timer` | engine, shared journal | with the `Committed` | this entity may have set a timer: it is looked at after a crash |
//! | `End` | coordinator, two-phase | no | every participant has acknowledged |
//! | `Swept` | engine | no | what had ended long ago before this position has a tombstone |
//! | `Tombstone` | engine | no | the entity has ended in this state, which stands for all its records |
//! | `Erased` | engine | before the key is destroyed | the personal values of a subject were erased |

mod reader;
#[cfg(test)]
mod tests;
mod writer;

use enact_journal::{Kind, Position};
use enact_rebel::Value;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use self::reader::Reader;
use self::writer::Writer;
use crate::EntityKey;
use crate::admission::{Answer, Branch, Decision};
use crate::participant::Durability;
use crate::reason::Refusal;
use crate::tx::{Attempt, Slot, Timestamp, TxId};

/// The version of the encoding that this program writes.
const VERSION: u8 = 4;

/// The version before it, which this program reads.
const NAMED: u8 = 3;

/// More than the record of most events takes.
const USUAL_BYTES: usize = 256;

/// The version of a contract that says none, and that of every record without one.
const fn first_version() -> u32 {
    1
}

/// A record of the first version does not name it: it has the bytes that it had before contracts had versions.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_first_version(version: &u32) -> bool {
    *version == first_version()
}

/// One record of an entity or of a coordinator. Those of most commits are small, and what is not is kept behind a pointer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record<E> {
    /// A participant is about to vote yes.
    Prepared(Box<Prepared<E>>),
    /// A participant has learnt the decision.
    Outcome {
        /// The transaction.
        tx: TxId,
        /// Its slot.
        slot: Slot,
        /// The decision.
        decision: Decision,
    },
    /// A transaction has committed at this entity; written together with its `Decision`.
    Committed {
        /// The transaction.
        tx: TxId,
        /// Its slot.
        slot: Slot,
        /// The events that happened, in order.
        events: Vec<E>,
        /// When.
        at: Timestamp,
        /// The version of the contract under which they happened, and happen again in every replay.
        #[serde(default = "first_version", skip_serializing_if = "is_first_version")]
        version: u32,
        /// How far before its slot the first one is that was not decided when this was written, 0 if there was none: the effects of
        /// all slots before that stand before it in the journal. Nothing in records of a program that did not note it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        overlap: Option<u64>,
    },
    /// A coordinator has decided to commit.
    Decision(Box<DecisionRecord>),
    /// A coordinator has refused a request that carries an idempotency key.
    Answer(Box<AnswerRecord>),
    /// Every participant has acknowledged the commit.
    End {
        /// The transaction.
        tx: TxId,
    },
    /// A transaction of the same record group may have set a timer of this entity.
    Timer {
        /// The entity.
        entity: EntityKey,
    },
    /// Nothing has happened: that it is durable shows that nobody had taken the journal over when it was written.
    Barrier,
    /// The last record of an entity that is in a final state: what it says stands for all that those before it do.
    Tombstone(Box<Tombstone>),
    /// Every entity that had been in a final state for long enough because of a record up to this position has a tombstone.
    Swept {
        /// The position.
        position: Position,
    },
    /// The key with which the personal values of a subject were sealed is to be destroyed, and is from then on.
    Erased(Box<Erasure>),
}

/// That the personal values of a subject were erased.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// What it is known by.
    pub tx: TxId,
    /// Whose values.
    pub subject: EntityKey,
    /// Those that were sealed with the subject's keys up to this one.
    pub generation: u32,
    /// When.
    pub at: Timestamp,
    /// Who wanted it, if that was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

/// What an entity has ended as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The transaction that led to the final state.
    pub tx: TxId,
    /// Its slot: the last one that has an effect.
    pub slot: Slot,
    /// Its time.
    pub at: Timestamp,
    /// The version of the contract that the state is of.
    pub version: u32,
    /// The bytes of the [`Snapshot`] of the entity.
    pub snapshot: Vec<u8>,
}

impl Tombstone {
    /// The entity as it has ended. Nothing is in progress.
    ///
    /// # Errors
    /// If that is not of a version that this program knows.
    pub fn snapshot<S, E>(&self) -> Result<Snapshot<S, E>, DecodeError>
    where
        S: Serialize + DeserializeOwned,
        E: Serialize + DeserializeOwned,
    {
        Snapshot::decode(&self.snapshot)
    }
}

/// What a participant must know again after a crash to keep its vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared<E> {
    /// What the transaction does here.
    pub branch: Branch<E>,
    /// Its slot.
    pub slot: Slot,
    /// The coordinator to ask.
    pub coordinator: EntityKey,
    /// What was voted.
    pub answer: Answer<E>,
    /// The version of the contract under which it was voted.
    #[serde(default = "first_version", skip_serializing_if = "is_first_version")]
    pub version: u32,
    /// How the promise is kept: by this record, or for one in a snapshot perhaps by its coordinator.
    #[serde(default = "Durability::shared", skip_serializing_if = "Durability::is_shared")]
    pub durability: Durability,
    /// How far before its slot the first one is that was not decided when this was written, as in [`Record::Committed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<u64>,
}

/// The decision to commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRecord {
    /// The transaction.
    pub tx: TxId,
    /// The attempt that committed.
    pub attempt: Attempt,
    /// The participants that must be told, with their slots; without those that share the journal and find their own records there.
    pub participants: Vec<(EntityKey, Slot)>,
    /// What the client is told, and under which key.
    pub answer: AnswerRecord,
}

/// What a request was told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerRecord {
    /// The transaction that the request ran as.
    pub tx: TxId,
    /// The time of the request.
    pub at: Timestamp,
    /// The key of the request, if the client sent one.
    pub idempotency: Option<Idempotency>,
    /// What it was told.
    pub result: Result<Done, Refusal>,
}

/// A request that committed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Done {
    /// The life-cycle state that the event of the first call leads to; nothing if there is no such event.
    pub state: Option<String>,
    /// What that event returns, if it has a result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Box<Value>>,
}

/// Makes a request repeatable: the same key and fingerprint get the same answer again, without a second effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idempotency {
    /// Chosen by the client.
    pub key: String,
    /// To whom the key belongs: the same key of another principal is another key. Clients that nothing tells apart are
    /// one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<String>,
    /// A digest of all that makes the request what it is.
    pub fingerprint: [u8; 32],
}

/// The state of a participant at one point of its journal. Records before that point need not be read again; to read some
/// of them again does no harm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot<S, E> {
    /// The state with every applied effect.
    pub base: S,
    /// The next slot.
    pub next_slot: Slot,
    /// What is in progress, in slot order.
    pub pending: Vec<Pending<E>>,
    /// The version of the contract whose state `base` is.
    #[serde(default = "first_version", skip_serializing_if = "is_first_version")]
    pub version: u32,
}

/// One transaction in progress.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending<E> {
    /// What was voted.
    pub prepared: Prepared<E>,
    /// Whether it is committed; open otherwise.
    pub committed: bool,
}

impl<E> Record<E> {
    /// The [kind](Self::kind) of what has committed at an entity.
    pub(crate) const COMMITTED: u8 = 3;
    /// The [kind](Self::kind) of the erasure of a subject.
    pub(crate) const ERASED: u8 = 10;

    /// The number under which the journal files this kind of record.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Prepared(_) => 1,
            Self::Outcome { .. } => 2,
            Self::Committed { .. } => Self::COMMITTED,
            Self::Decision(_) => 4,
            Self::Answer(_) => 5,
            Self::End { .. } => 6,
            Self::Timer { .. } => 7,
            Self::Barrier => 8,
            Self::Swept { .. } => 9,
            Self::Erased(_) => Self::ERASED,
            Self::Tombstone(_) => Kind::TOMBSTONE.0,
        }
    }

    /// When what it says happened: the time of the transaction, or of the request. Records that only note what others have
    /// said, or that something was done with them, have none.
    pub const fn at(&self) -> Option<Timestamp> {
        match self {
            Self::Prepared(prepared) => Some(prepared.branch.at),
            Self::Committed { at, .. } => Some(*at),
            Self::Decision(decision) => Some(decision.answer.at),
            Self::Answer(answer) => Some(answer.at),
            Self::Erased(erasure) => Some(erasure.at),
            Self::Outcome { .. }
            | Self::End { .. }
            | Self::Timer { .. }
            | Self::Barrier
            | Self::Tombstone(_)
            | Self::Swept { .. } => None,
        }
    }

    /// Notes the first slot of the entity that is not decided, where it matters for the order of effects.
    pub(crate) fn note_first_undecided(&mut self, first: Slot) {
        let (slot, overlap) = match self {
            Self::Committed { slot, overlap, .. } => (*slot, overlap),
            Self::Prepared(prepared) => (prepared.slot, &mut prepared.overlap),
            _ => return,
        };
        *overlap = Some(slot.0.saturating_sub(first.0));
    }

    /// The place in the order of its entity of the transaction that it is of; records of coordinators, and notes, have none.
    pub const fn slot(&self) -> Option<Slot> {
        match self {
            Self::Prepared(prepared) => Some(prepared.slot),
            Self::Outcome { slot, .. } | Self::Committed { slot, .. } => Some(*slot),
            Self::Tombstone(tombstone) => Some(tombstone.slot),
            Self::Decision(_)
            | Self::Answer(_)
            | Self::End { .. }
            | Self::Timer { .. }
            | Self::Barrier
            | Self::Erased(_)
            | Self::Swept { .. } => None,
        }
    }

    /// Whether records of this kind say what was promised to a coordinator elsewhere, or what became of it.
    pub(crate) const fn is_of_promise(kind: u8) -> bool {
        matches!(kind, 1 | 2)
    }
}

impl<E: Serialize + DeserializeOwned> Record<E> {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The record with these bytes.
    ///
    /// # Errors
    /// If they are not a record of a version that this program knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

impl<S: Serialize + DeserializeOwned, E: Serialize + DeserializeOwned> Snapshot<S, E> {
    /// The bytes of the snapshot.
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// The snapshot with these bytes.
    ///
    /// # Errors
    /// If they are not a snapshot of a version that this program knows.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

/// What an engine knows of the timers of some entities, at one point of the records that note them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TimerSnapshot {
    /// Every entity that may have a timer, with the time at which to look at it; none if that is not known.
    pub(crate) due: Vec<(EntityKey, Option<Timestamp>)>,
}

impl TimerSnapshot {
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        decode(bytes)
    }
}

pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    bytes.push(VERSION);
    let written = value.serialize(Writer::new(&mut bytes));
    written.expect("what is in a record says how long it is, and no struct in it has more than 128 fields");
    bytes
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, DecodeError> {
    let malformed = |why: String| DecodeError::Malformed { why };
    match bytes.split_first() {
        Some((&VERSION, body)) => {
            let mut reader = Reader::new(body);
            let value = T::deserialize(&mut reader).map_err(|why| malformed(why.to_string()))?;
            reader.end().map_err(|why| malformed(why.to_string()))?;
            Ok(value)
        }
        Some((&NAMED, body)) => {
            let mut reader = rmp_serde::Deserializer::from_read_ref(body).with_human_readable();
            T::deserialize(&mut reader).map_err(|why| malformed(why.to_string()))
        }
        Some((&version, _)) => Err(DecodeError::Version { version }),
        None => Err(malformed("it is empty".into())),
    }
}

/// Why bytes are not a record.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Written by a version of the program that this one does not know.
    #[error(
        "the record has version {version}, this program reads versions {NAMED} and {VERSION}; use {} program",
        if *.version > VERSION { "a newer" } else { "the" }
    )]
    Version {
        /// The version found.
        version: u8,
    },
    /// Not what the version promises.
    #[error("the record cannot be read: {why}")]
    Malformed {
        /// What the decoder says.
        why: String,
    },
}
