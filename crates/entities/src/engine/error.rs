//! What a request to the engine can end in, other than success.
use std::fmt;
use std::time::Duration;

use enact_journal::{CloseError, EntityKey, ReadError as JournalReadError, Seq};
use serde::{Deserialize, Serialize};

use crate::admission::Wait;
use crate::changes::Cursor;
use crate::participant::RecoveryError;
use crate::reason::Refusal;
use crate::record::DecodeError;
use crate::tx::TxId;

/// Why a command did not commit, or is not known to have.
///
/// *Refused*, *not now* and *in doubt* are different things: only after [`InDoubt`](Self::InDoubt) may the command have
/// had an effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum SubmitError {
    /// A precondition failed: the answer is final for this state of affairs.
    #[error("{refusal}")]
    Refused {
        /// What failed.
        refusal: Refusal,
        /// Whether this is the answer to an earlier command with the same idempotency key.
        replayed: bool,
    },
    /// The deadline passed before anything was recorded. The command has no effect and will have none.
    #[error("{tx} waited until its deadline {}", Waits(awaited, waits_for, graph))]
    Timeout {
        /// The transaction.
        tx: TxId,
        /// What it waited for.
        awaited: Awaited,
        /// The transactions that it waited for at an entity, as far as that has said so.
        waits_for: Vec<Wait>,
        /// What those wait for in turn, as far as that was known at once.
        graph: Vec<Link>,
    },
    /// Too much is under way. The command has no effect; send it again later.
    #[error("overloaded; try again in {} ms", retry_after.as_millis())]
    Overloaded {
        /// When it is worth trying again.
        retry_after: Duration,
    },
    /// The journal has no space left. The command has no effect; send it again when there is space.
    #[error("the disk of the journal is full, nothing was recorded: {why}")]
    StorageFull {
        /// What the journal said.
        why: String,
    },
    /// Whether it committed is not known. Under the same idempotency key its one answer can be had when that is known.
    #[error("{tx} is in doubt: {doubt}")]
    InDoubt {
        /// The transaction.
        tx: TxId,
        /// Why, and until when.
        doubt: Doubt,
        /// For one that is [in line](Doubt::InLine): itself with what stands before it, and what that waits for in turn.
        graph: Vec<Link>,
    },
    /// The idempotency key was used for another request.
    #[error("the idempotency key was used for another request")]
    KeyReused,
    /// The request with this idempotency key has not been answered yet.
    #[error("the request with this idempotency key is still being processed")]
    KeyInUse {
        /// The transaction of that request.
        tx: TxId,
        /// What it waits for, and what that waits for in turn; without links if it has ended meanwhile.
        graph: Vec<Link>,
    },
    /// The engine is shutting down.
    #[error("the engine is stopping")]
    Stopping,
    /// The engine has failed and must be opened again.
    #[error("the engine has failed: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
    /// The entity addressed is another engine's. The command has no effect; submit it there.
    #[error("{entity} is of the engine {engine}: submit what addresses it there")]
    Elsewhere {
        /// The entity.
        entity: EntityKey,
        /// The name of that engine.
        engine: String,
    },
    /// No node has the entity at this moment: it comes to another one. The command has no effect; send it again.
    #[error("{entity} is on its way to another node; try again")]
    Moved {
        /// The entity.
        entity: EntityKey,
    },
    /// An entity cannot be used.
    #[error(transparent)]
    Entity(#[from] EntityError),
}

/// What a request waited for when its deadline passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Awaited {
    /// The journal, to be read for an earlier command with the same idempotency key.
    Key,
    /// The records of this entity, to be read from the journal.
    Load(EntityKey),
    /// This entity: what it was asked before, or transactions that are open there.
    Entity(EntityKey),
    /// The event that is due at this entity and comes first.
    Due(EntityKey),
    /// The journal, before it could take the record.
    Journal,
    /// The journal, to have written the record.
    Record,
    /// Those that stand before it at this entity, where it is committed and in line.
    Line(EntityKey),
}

impl Awaited {
    /// The names of all of them, for programs.
    pub(crate) const PHASES: [&str; 7] = ["key", "load", "entity", "due", "journal", "record", "line"];

    /// Its name, for programs.
    pub const fn phase(&self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Load(_) => "load",
            Self::Entity(_) => "entity",
            Self::Due(_) => "due",
            Self::Journal => "journal",
            Self::Record => "record",
            Self::Line(_) => "line",
        }
    }

    /// The entity, if it is one.
    pub const fn entity(&self) -> Option<&EntityKey> {
        match self {
            Self::Load(entity) | Self::Entity(entity) | Self::Due(entity) | Self::Line(entity) => Some(entity),
            Self::Key | Self::Journal | Self::Record => None,
        }
    }
}

/// A transaction that is waited for, and what it waits for itself: a node of the graph of waits with the edges that leave it.
///
/// Displayed as `0192… on Transfer/T1 waits at Account/B: balance is between …`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// The transaction.
    pub tx: TxId,
    /// The entity that its command addresses.
    pub addressed: EntityKey,
    /// What it waits for.
    pub awaited: Awaited,
    /// The transactions that it waits for there, as far as the entity has said so.
    pub waits_for: Vec<Wait>,
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tx, addressed, awaited, waits_for } = self;
        write!(f, "{tx} on {addressed} waits {}", Waits(awaited, waits_for, &[]))
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key => f.write_str("the look-up of its idempotency key in the journal"),
            Self::Load(entity) => write!(f, "{entity} to be read from the journal"),
            Self::Entity(entity) => write!(f, "{entity}, which has not come to it"),
            Self::Due(entity) => write!(f, "what is due at {entity} and comes first"),
            Self::Journal => f.write_str("the journal to be ready for its record"),
            Self::Record => f.write_str("the disk to have written its record"),
            Self::Line(entity) => write!(f, "those before it in line at {entity}"),
        }
    }
}

/// Why nobody knows whether a command committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Doubt {
    /// The deadline passed while the journal wrote the record. It is known when the journal has answered.
    Recording,
    /// The deadline passed behind others: it is recorded and happens when what stands before it is decided. Under the same
    /// idempotency key its answer can be had then.
    InLine,
    /// The journal or the engine has failed. It is known when the engine has been opened again.
    Failed,
    /// The node that has the entity was asked, and has not answered by the deadline.
    Unanswered,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Recording => "its record was still being written at its deadline",
            Self::InLine => "it is recorded, and happens when what stands before it is decided",
            Self::Failed => "only the recovery of the journal will tell",
            Self::Unanswered => "the node that has the entity has not answered",
        })
    }
}

/// Why an engine did not shut down cleanly. What was acknowledged is kept all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShutdownError {
    /// The journal had failed before or failed now.
    #[error(transparent)]
    Close(#[from] CloseError),
    /// The journal did not close in time: the disk does not answer.
    #[error("the journal did not close within {} ms, with {under_way} commands under way: the disk does not answer", deadline.as_millis())]
    Unclosed {
        /// The time that there was.
        deadline: Duration,
        /// How many commands had not ended.
        under_way: usize,
    },
}

/// Why a read gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The deadline passed before there was an answer.
    #[error("the read waited until its deadline {}", Waits(awaited, waits_for, graph))]
    Timeout {
        /// What it waited for.
        awaited: Awaited,
        /// The transactions that it waited for to be decided, as far as the entity has said so.
        waits_for: Vec<Wait>,
        /// What those wait for in turn, as far as that was known at once.
        graph: Vec<Link>,
    },
    /// The engine is shutting down.
    #[error("the engine is stopping")]
    Stopping,
    /// The journal has no space left for the [record](crate::EngineOptions::barrier_reads) that the read has to wait for.
    #[error("the disk of the journal is full, nothing can be shown: {why}")]
    StorageFull {
        /// What the journal said.
        why: String,
    },
    /// The engine has failed and must be opened again.
    #[error("the engine has failed: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
    /// The entity is another engine's: read it there.
    #[error("{entity} is of the engine {engine}: read it there")]
    Elsewhere {
        /// The entity.
        entity: EntityKey,
        /// The name of that engine.
        engine: String,
    },
    /// No node is known to have the entity at this moment: it comes to another one.
    #[error("{entity} is on its way to another node; try again")]
    Moved {
        /// The entity.
        entity: EntityKey,
    },
    /// The journal ends before the cursor: it is that of another journal, or of this one before it was cut.
    #[error("the journal ends before the cursor {after}: go on at one from before the cut, or begin anew")]
    Ahead {
        /// The cursor.
        after: Cursor,
    },
    /// The entity cannot be used.
    #[error(transparent)]
    Entity(#[from] EntityError),
    /// What is due at the entity comes first, and cannot happen now.
    #[error("what is due at {entity} cannot happen: {cause}")]
    Due {
        /// The entity.
        entity: EntityKey,
        /// Why.
        cause: Box<SubmitError>,
    },
}

impl ReadError {
    /// The deadline passed before what is due had happened.
    pub(super) fn behind_due(entity: &EntityKey) -> Self {
        Self::Timeout { awaited: Awaited::Due(entity.clone()), waits_for: Vec::new(), graph: Vec::new() }
    }

    /// What is due cannot happen.
    pub(super) fn of_due(cause: SubmitError, entity: &EntityKey) -> Self {
        match cause {
            SubmitError::Stopping => Self::Stopping,
            SubmitError::Failed { why } => Self::Failed { why },
            SubmitError::Entity(cause) => Self::Entity(cause),
            SubmitError::Timeout { tx, awaited, waits_for, graph } => {
                let due = Link { tx, addressed: entity.clone(), awaited, waits_for };
                let graph = std::iter::once(due).chain(graph).collect();
                Self::Timeout { awaited: Awaited::Due(entity.clone()), waits_for: Vec::new(), graph }
            }
            cause => Self::Due { entity: entity.clone(), cause: Box::new(cause) },
        }
    }
}

/// Why an entity cannot be used. What was refused for it has had no effect.
///
/// It stays so as long as the entity is in memory, unless the error [is transient](Self::is_transient) or the entity has
/// [ended](Self::Ended).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(into = "Told", from = "Told")]
#[non_exhaustive]
pub enum EntityError {
    /// Its records, or those of an idempotency key, could not be read.
    #[error("{0}")]
    Journal(#[from] JournalReadError),
    /// A record is not what this program writes.
    #[error("{entity}: record {seq} of the journal: {cause}")]
    Undecodable {
        /// The entity.
        entity: EntityKey,
        /// The record.
        seq: Seq,
        /// What is wrong with it.
        cause: DecodeError,
    },
    /// A record is not one that belongs under this key.
    #[error("{entity}: record {seq} of the journal does not belong there")]
    Misplaced {
        /// Under which key it is.
        entity: EntityKey,
        /// The record.
        seq: Seq,
    },
    /// Its records contradict its contract.
    #[error(transparent)]
    Recovery(#[from] RecoveryError),
    /// Its model panicked. It is recovered from the journal when nothing that it was asked before is under way.
    #[error("{entity} has ended: {why}")]
    Ended {
        /// The entity.
        entity: EntityKey,
        /// Why.
        why: String,
    },
    /// Any of these, as another node tells it.
    #[error("{why}")]
    Told {
        /// What is wrong.
        why: String,
        /// Whether the same request may succeed later.
        is_transient: bool,
    },
}

/// What other nodes are told of an error: its words, which name records and files of the node that has met it.
#[derive(Serialize, Deserialize)]
struct Told {
    why: String,
    is_transient: bool,
}

impl From<EntityError> for Told {
    fn from(error: EntityError) -> Self {
        Self { why: error.to_string(), is_transient: error.is_transient() }
    }
}

impl From<Told> for EntityError {
    fn from(Told { why, is_transient }: Told) -> Self {
        Self::Told { why, is_transient }
    }
}

impl EntityError {
    /// Whether the same request may succeed later: the system could not read, and the next request reads again.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Journal(cause) => {
                matches!(cause, JournalReadError::Io { .. } | JournalReadError::Unavailable { .. })
            }
            Self::Told { is_transient, .. } => *is_transient,
            _ => false,
        }
    }

    pub(super) fn undecodable(entity: &EntityKey, seq: Seq, cause: DecodeError) -> Self {
        Self::Undecodable { entity: entity.clone(), seq, cause }
    }
}

/// How many links of a graph are put into words.
const LINKS_SAID: usize = 4;

/// What a request waits for, in words: for what, or at which entity for whom; and what those wait for in turn.
///
/// Displayed as `for Account/A to be read from the journal` or `at Account/A: balance is between …`.
#[derive(Clone, Copy, Debug)]
pub struct Waits<'a>(pub &'a Awaited, pub &'a [Wait], pub &'a [Link]);

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(awaited, waits_for, graph) = self;
        match awaited {
            Awaited::Line(entity) if !waits_for.is_empty() => write!(f, "in line at {entity}: ")?,
            Awaited::Entity(entity) if !waits_for.is_empty() => write!(f, "at {entity}: ")?,
            awaited => write!(f, "for {awaited}")?,
        }
        let mut fact_before = None;
        for (i, wait) in waits_for.iter().enumerate() {
            // What several depend on is said once.
            match wait.dependency() {
                Some((fact, on)) if fact_before.as_ref() == Some(&fact) => write!(f, " and on {on}")?,
                dependency => {
                    write!(f, "{}{wait}", if i == 0 { "" } else { "; " })?;
                    fact_before = dependency.map(|(fact, _)| fact);
                }
            }
        }
        graph.iter().take(LINKS_SAID).try_for_each(|link| write!(f, "; {link}"))?;
        match graph.len().saturating_sub(LINKS_SAID) {
            0 => Ok(()),
            others => write!(f, "; {others} more"),
        }
    }
}
