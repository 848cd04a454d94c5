//! Appends to the one journal that all entities of an engine share.
//!
//! # Problem
//! Every record names the position it follows, and many transactions of one entity may be on their way to the disk at
//! once. So positions are given out when an append is submitted, not when it has become durable; and when the journal
//! refuses an append, positions that were given out are void.
//!
//! # Who may touch what
//! Positions are given out and their append is submitted under one lock, which makes the order of positions the order
//! of appends. Nothing is awaited under the lock.
//!
//! # After a refusal
//! The journal refuses what was queued behind a refused append as well. The committer then lets everything under way
//! end, begins a new *generation*, and reads each entity's position from the journal again before its next append.
//! Nothing is retried here: the transaction that was refused is told.
//!
//! # Commit dependencies
//! Under early lock release a record has to stand directly behind that of a certain transaction. A tail knows which transaction has its
//! last position, and an append with another one before it is refused. Where that one was refused by the journal, so is what has a
//! position behind it; and what is submitted in a later generation finds another position than the one that was given out.
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use enact_journal::{AppendError, EntityKey, Journal, Kind, Loaded, NewRecord, Position, ReadError, Refusal, Seq};
use enact_sync::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::clock::Clock;
use super::disk::{AppendId, Appends, DiskState, Space};
use super::durations::{DurationCounts, Durations};
use super::loading::Stage;
use super::progress::{Late, Progress};
use super::requests::Place;
use crate::tx::TxId;

/// Where the records of one entity end, counting appends under way; only the committer looks inside.
#[derive(Debug, Default)]
pub(super) struct Tail(Mutex<End>);

impl Tail {
    /// The journal said in `generation` that `last` is the last record.
    fn learn(&self, generation: Generation, last: Seq) {
        let mut end = self.0.lock();
        // A transaction may have been here meanwhile and have appended already.
        if !end.is_known(generation) {
            end.last = Some((generation, last));
        }
    }
}

#[derive(Debug, Default)]
struct End {
    /// The last position, and the generation in which it was read.
    last: Option<(Generation, Seq)>,
    /// The last position that was given out, and to whom.
    given: Option<(TxId, Seq)>,
}

impl End {
    fn is_known(&self, generation: Generation) -> bool {
        self.last.is_some_and(|(known, _)| known == generation)
    }

    /// Whether the last record is that of `tx`.
    fn is_of(&self, tx: TxId) -> bool {
        self.last.is_some_and(|(_, last)| self.given == Some((tx, last)))
    }

    /// Gives the next position out to `tx`; the one before it and the one given.
    fn give(&mut self, tx: TxId) -> (Seq, Seq) {
        let (_, last) = self.last.as_mut().expect("all entities have been located");
        let before = *last;
        *last = before.next();
        self.given = Some((tx, *last));
        (before, *last)
    }
}

/// Counts the refusals after which positions had to be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Generation(u64);

/// One record to be appended behind the others of its entity.
pub(super) struct Append {
    pub(super) key: EntityKey,
    pub(super) tail: Arc<Tail>,
    pub(super) kind: Kind,
    pub(super) payload: Vec<u8>,
    /// The transaction whose record has to stand directly before this one.
    pub(super) depends_on: Option<TxId>,
}

/// The answer to a request, behind earlier ones with the same key.
pub(super) struct Answered {
    pub(super) place: Place,
    pub(super) kind: Kind,
    pub(super) payload: Vec<u8>,
}

/// Why an append is not known to be durable, or was not tried.
#[derive(Debug, thiserror::Error)]
pub(super) enum CommitError {
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error("the deadline passed before the append was submitted")]
    Late,
    #[error("the transaction that this one depends on was not recorded")]
    Forsaken,
}

impl From<Late> for CommitError {
    fn from(Late: Late) -> Self {
        Self::Late
    }
}

pub(super) struct Committer<J> {
    journal: Arc<J>,
    clock: Clock,
    state: Mutex<State>,
    settled: Notify,
    durations: Durations,
}

#[derive(Default)]
struct State {
    generation: Generation,
    under_way: Appends,
    /// Positions are void; nothing is submitted until all that is under way has ended.
    refused: bool,
}

impl<J: Journal> Committer<J> {
    pub(super) fn new(journal: Arc<J>, clock: Clock) -> Self {
        Self { journal, clock, state: Mutex::default(), settled: Notify::new(), durations: Durations::default() }
    }

    /// The state of the disk; it is slow if an append takes `slow_after` or longer.
    pub(super) fn disk(&self, slow_after: Duration) -> DiskState {
        self.state.lock().under_way.state(slow_after, self.clock.now())
    }

    /// How long appends took that have become durable.
    pub(super) fn durations(&self) -> DurationCounts {
        self.durations.read()
    }

    /// What the journal has of the entity `key`, which nothing is under way for; `tail` knows where it ends from then on, so
    /// that its first append asks nothing.
    pub(super) async fn load(&self, key: &EntityKey, tail: &Tail) -> Result<Loaded, ReadError> {
        let generation = self.state.lock().generation;
        let loaded = self.journal.load(key).await?;
        tail.learn(generation, loaded.last());
        Ok(loaded)
    }

    /// Appends all of it atomically; the places of the appends within their entities, in their order, and the position of the last record
    /// of all.
    ///
    /// Several appends may be of one entity. Nothing is submitted once `progress` is late. `submitted` is called when the positions are
    /// given out.
    ///
    /// # Cancel safety
    /// Once submitted, the append takes its course whether it is awaited or not.
    pub(super) async fn append(
        &self,
        mut appends: Vec<Append>,
        mut answered: Option<Answered>,
        progress: &Progress,
        submitted: impl FnOnce(),
    ) -> Result<(Vec<Seq>, Position), CommitError> {
        loop {
            if !self.is_located(&appends) {
                progress.wait(Stage::Journal, self.locate(&appends)).await??;
            }
            let settled = self.settled.notified();
            match self.submit(&mut appends, &mut answered, progress)? {
                Submission::UnderWay { append, seqs, mut passage } => {
                    let began = Instant::now();
                    submitted();
                    let result = append.await;
                    if result.is_ok() {
                        self.durations.count(began.elapsed());
                    }
                    passage.refused = matches!(result, Err(AppendError::Refused(_)));
                    passage.space = match &result {
                        Ok(_) => Space::Enough,
                        Err(AppendError::Refused(Refusal::StorageFull { why })) => Space::Wanting(why.clone()),
                        Err(_) => Space::Unknown,
                    };
                    drop(passage);
                    return result.map(|position| (seqs, position)).map_err(CommitError::from);
                }
                Submission::Refusing => progress.wait(Stage::Journal, settled).await?,
                Submission::Unlocated => {}
                Submission::Forsaken => return Err(CommitError::Forsaken),
            }
        }
    }

    /// Whether all entities have been appended to or loaded in this generation.
    fn is_located(&self, appends: &[Append]) -> bool {
        let generation = self.state.lock().generation;
        appends.iter().all(|append| append.tail.0.lock().is_known(generation))
    }

    /// Learns where the entities are that have not been appended to in this generation.
    async fn locate(&self, appends: &[Append]) -> Result<(), ReadError> {
        let generation = self.state.lock().generation;
        for Append { key, tail, .. } in appends {
            if tail.0.lock().is_known(generation) {
                continue;
            }
            tail.learn(generation, self.journal.last(key).await?);
        }
        Ok(())
    }

    /// Gives out the positions and submits; takes the payloads only then.
    fn submit(
        &self,
        appends: &mut [Append],
        answered: &mut Option<Answered>,
        progress: &Progress,
    ) -> Result<Submission<'_, J, impl Future<Output = Appended> + use<J>>, Late> {
        let mut state = self.state.lock();
        if state.refused {
            return Ok(Submission::Refusing);
        }
        if !appends.iter().all(|append| append.tail.0.lock().is_known(state.generation)) {
            return Ok(Submission::Unlocated);
        }
        let stands = |append: &Append| append.depends_on.is_none_or(|tx| append.tail.0.lock().is_of(tx));
        if !appends.iter().all(stands) {
            return Ok(Submission::Forsaken);
        }
        progress.record()?;
        let mut seqs = Vec::with_capacity(appends.len());
        let mut batch = Vec::with_capacity(appends.len() + 1);
        for Append { key, tail, kind, payload, .. } in appends {
            let (expected, seq) = tail.0.lock().give(progress.tx());
            batch.push(NewRecord { entity: key.clone(), expected, kind: *kind, payload: mem::take(payload) });
            seqs.push(seq);
        }
        batch.extend(answered.take().map(|Answered { place, kind, payload }| NewRecord {
            entity: place.key,
            expected: place.last,
            kind,
            payload,
        }));
        let id = state.under_way.begin(self.clock.now());
        let passage = Passage { of: self, id, refused: true, space: Space::Unknown };
        Ok(Submission::UnderWay { append: self.journal.append(batch), seqs, passage })
    }
}

type Appended = Result<Position, AppendError>;

enum Submission<'a, J: Journal, F> {
    UnderWay {
        append: F,
        seqs: Vec<Seq>,
        passage: Passage<'a, J>,
    },
    /// A refusal has to be settled first.
    Refusing,
    /// A new generation has begun since the entities were located.
    Unlocated,
    /// A record would not stand behind the one that it depends on.
    Forsaken,
}

/// One append under way; ends when dropped.
struct Passage<'a, J: Journal> {
    of: &'a Committer<J>,
    id: AppendId,
    /// Whether the journal refused it; assumed of one whose end nobody has seen, which costs no more than a look.
    refused: bool,
    space: Space,
}

impl<J: Journal> Drop for Passage<'_, J> {
    fn drop(&mut self) {
        let mut state = self.of.state.lock();
        let space = mem::replace(&mut self.space, Space::Unknown);
        state.under_way.end(self.id, space, self.of.clock.now());
        state.refused |= self.refused;
        if state.refused && state.under_way.is_idle() {
            state.refused = false;
            state.generation.0 += 1;
            self.of.settled.notify_waiters();
        }
    }
}
