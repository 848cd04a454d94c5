//! Proofs that this engine still writes its journal.
//!
//! # Problem
//! Where another engine may take the journal over, one that it was taken from goes on to read its entities from memory, until it
//! appends something. What it shows or refuses meanwhile may be out of date.
//!
//! # The proof
//! A record that says nothing. If one is durable that was submitted after an answer was found, nobody had taken the journal over when
//! the answer was found. All that wait for one while another is on its way share the next.
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use enact_journal::{AppendError, EntityKey, Journal, Kind, ReadError as JournalReadError, Refusal};
use enact_sync::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::committer::{Append, CommitError, Committer, Tail};
use super::error::{Awaited, ReadError, SubmitError};
use super::progress::Progress;
use super::{FAR, moment};
use crate::record::Record;
use crate::tx::TxId;

/// How long it waits until it tries again.
const PAUSE: Duration = Duration::from_millis(10);

/// The class of the entity that has the records of one engine.
const CLASS: &str = ".barrier";

/// Why nothing is proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unproven {
    /// No record was durable in time.
    Late,
    /// The journal has no space for one.
    Full { why: String },
    /// The journal is closed.
    Stopping,
    /// The journal takes nothing more from this engine.
    Failed { why: String },
}

impl Unproven {
    /// What a command is told whose refusal is not proven: it has no effect.
    pub(super) fn of_refusal(self, tx: TxId) -> SubmitError {
        match self {
            Self::Late => {
                SubmitError::Timeout { tx, awaited: Awaited::Record, waits_for: Vec::new(), graph: Vec::new() }
            }
            Self::Full { why } => SubmitError::StorageFull { why },
            Self::Stopping => SubmitError::Stopping,
            Self::Failed { why } => SubmitError::Failed { why },
        }
    }
}

impl From<Unproven> for ReadError {
    fn from(unproven: Unproven) -> Self {
        match unproven {
            Unproven::Late => Self::Timeout { awaited: Awaited::Record, waits_for: Vec::new(), graph: Vec::new() },
            Unproven::Full { why } => Self::StorageFull { why },
            Unproven::Stopping => Self::Stopping,
            Unproven::Failed { why } => Self::Failed { why },
        }
    }
}

/// Why a record was not appended.
enum NotAppended {
    /// It may be a moment later.
    Now,
    Ever(Unproven),
}

impl From<Unproven> for NotAppended {
    fn from(unproven: Unproven) -> Self {
        Self::Ever(unproven)
    }
}

/// Proves, for as many as ask at once.
pub(super) struct Barrier<J> {
    tx: TxId,
    key: EntityKey,
    tail: Arc<Tail>,
    kind: Kind,
    payload: Vec<u8>,
    committer: Arc<Committer<J>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Whether a record is on its way.
    is_under_way: bool,
    /// Those for whom the next one is.
    next: Vec<oneshot::Sender<Result<(), Unproven>>>,
}

impl<J: Journal> Barrier<J> {
    /// One whose records are among those of events `E`.
    pub(super) fn of<E: Serialize + DeserializeOwned>(committer: Arc<Committer<J>>) -> Self {
        let tx = TxId::fresh();
        let key = EntityKey::new(CLASS, &tx.to_string()).expect("the name of a transaction is an id");
        let record = Record::<E>::Barrier;
        let (kind, payload) = (Kind(record.kind()), record.encode());
        Self { tx, key, tail: Arc::default(), kind, payload, committer, waiting: Mutex::default() }
    }

    /// Returns when a record is durable that was submitted after the call.
    ///
    /// # Errors
    /// If none is within `span`.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on others.
    pub(super) async fn pass(self: &Arc<Self>, span: Duration) -> Result<(), Unproven> {
        let (passed, proof) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.lock();
            waiting.next.push(passed);
            !mem::replace(&mut waiting.is_under_way, true)
        };
        if is_first {
            tokio::spawn(Arc::clone(self).prove());
        }
        let proof = timeout(span, proof).await.map_err(|_| Unproven::Late)?;
        proof.unwrap_or_else(|_| Err(Unproven::Failed { why: "the runtime of the engine ends".to_owned() }))
    }

    /// Appends records as long as somebody waits for one.
    async fn prove(self: Arc<Self>) {
        loop {
            let answered = {
                let mut waiting = self.waiting.lock();
                waiting.is_under_way = !waiting.next.is_empty();
                mem::take(&mut waiting.next)
            };
            if answered.is_empty() {
                return;
            }
            let proof = loop {
                match self.append().await {
                    Ok(()) => break Ok(()),
                    Err(NotAppended::Ever(unproven)) => break Err(unproven),
                    Err(NotAppended::Now) => sleep(PAUSE).await,
                }
            };
            // Those that have given up listen no more.
            answered.into_iter().for_each(|answered| drop(answered.send(proof.clone())));
        }
    }

    async fn append(&self) -> Result<(), NotAppended> {
        let (key, tail, payload) = (self.key.clone(), Arc::clone(&self.tail), self.payload.clone());
        let append = Append { key, tail, kind: self.kind, payload, depends_on: None };
        let progress = Progress::new(self.tx, self.key.clone(), moment(FAR));
        match self.committer.append(vec![append], None, &progress, || ()).await {
            Ok(_) => Ok(()),
            Err(CommitError::Append(AppendError::Refused(refusal))) => Err(match refusal {
                // One that is queued behind a refused one finds the end elsewhere.
                Refusal::Overloaded { .. } | Refusal::Conflict { .. } => NotAppended::Now,
                Refusal::StorageFull { why } => Unproven::Full { why }.into(),
                Refusal::Closed => Unproven::Stopping.into(),
                refusal => Unproven::Failed { why: refusal.to_string() }.into(),
            }),
            Err(CommitError::Read(JournalReadError::Unavailable { .. })) => Err(NotAppended::Now),
            Err(CommitError::Read(JournalReadError::Closed)) => Err(Unproven::Stopping.into()),
            Err(cause) => Err(Unproven::Failed { why: cause.to_string() }.into()),
        }
    }
}
