//! A journal in memory, for tests and simulations of the layers above.
//!
//! It keeps the whole contract but one clause: nothing survives the process. Everything happens in the thread of the
//! caller, so a simulation that uses it is deterministic. On command it delays durability, refuses, answers in doubt
//! and crashes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::{Future, ready};
use std::sync::Arc;

use enact_sync::Mutex;

use crate::journal::{AppendError, CheckError, CloseError, Journal, Limits, ReadError, Refusal, SnapshotError, Volume};
use crate::record::{EntityKey, Kind, NewRecord, Position, Record, Seq, Snapshot};
use crate::reply::{Awaited, Reply, reply};

/// A journal in memory.
///
/// Clones are handles to the same journal.
///
/// ```
/// use enact_journal::{AppendError, EntityKey, Fault, Journal, Kind, Memory, NewRecord, Seq};
/// # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
/// let journal = Memory::new();
/// let record = NewRecord {
///     entity: EntityKey::new("Account", "NL01")?,
///     expected: Seq::NONE,
///     kind: Kind(0),
///     payload: Vec::new(),
/// };
/// journal.fail_next(Fault::InDoubt { is_performed: true });
/// assert!(matches!(block_on(journal.append(vec![record.clone()])), Err(AppendError::InDoubt { .. })));
///
/// // Nothing is built on an unknown; reopening settles it.
/// assert!(matches!(block_on(journal.append(vec![])), Err(AppendError::Refused(_))));
/// let journal = journal.crash();
/// assert_eq!(block_on(journal.last(&record.entity))?, Seq(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<State>>);

/// What becomes of an append, on command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is refused, as by a full disk; the journal goes on.
    Refused,
    /// It is answered as in doubt, and the journal refuses further appends until it is reopened.
    InDoubt {
        /// Whether it took effect.
        is_performed: bool,
    },
}

#[derive(Default)]
struct State {
    phase: Phase,
    /// How many writers have taken it over.
    epoch: u64,
    /// Durable records, and nothing else.
    records: Vec<Record>,
    /// What an append in doubt has performed; it shows when the journal comes up again.
    in_doubt: Vec<NewRecord>,
    /// Accepted and not durable.
    queue: VecDeque<Batch>,
    /// The last accepted record of each entity.
    accepted: BTreeMap<EntityKey, Seq>,
    /// The entities with a tombstone that is accepted.
    ended: BTreeSet<EntityKey>,
    snapshots: BTreeMap<EntityKey, Snapshot>,
    is_held: bool,
    are_reads_failing: bool,
    violation: Option<String>,
    faults: VecDeque<Fault>,
    /// Those that wait for a failure.
    sentinels: Vec<Reply<String>>,
}

#[derive(Clone, Debug, Default)]
enum Phase {
    #[default]
    Open,
    Poisoned {
        why: String,
    },
    Fenced(Refusal),
    Closed(Result<(), CloseError>),
}

struct Batch {
    records: Vec<NewRecord>,
    reply: Reply<Result<Position, AppendError>>,
}

impl Memory {
    /// An empty journal in which every append is durable at once.
    pub fn new() -> Self {
        Self::default()
    }

    /// From now on appends are accepted and wait; [`sync`](Self::sync) makes them durable, [`release`](Self::release)
    /// ends the waiting.
    pub fn hold(&self) {
        self.0.lock().is_held = true;
    }

    /// Makes the oldest `count` waiting batches durable and answers them; the number that there were.
    pub fn sync(&self, count: usize) -> usize {
        let answers = self.0.lock().perform(count);
        let performed = answers.len();
        answer_all(answers);
        performed
    }

    /// Makes everything that waits durable; appends no longer wait.
    pub fn release(&self) {
        let mut state = self.0.lock();
        state.is_held = false;
        let answers = state.perform(usize::MAX);
        drop(state);
        answer_all(answers);
    }

    /// Batches that wait.
    pub fn waiting_count(&self) -> usize {
        self.0.lock().queue.len()
    }

    /// Decides what becomes of a batch instead of being made durable; asked several times, of several in turn.
    pub fn fail_next(&self, fault: Fault) {
        self.0.lock().faults.push_back(fault);
    }

    /// Lets all reads fail, or succeed again.
    pub fn fail_reads(&self, are_failing: bool) {
        self.0.lock().are_reads_failing = are_failing;
    }

    /// Lets every [check](Journal::check) find this, or nothing again.
    pub fn violate(&self, why: Option<&str>) {
        self.0.lock().violation = why.map(str::to_owned);
    }

    /// The machine crashes: what was not durable is gone, this handle and its clones are closed. The journal that
    /// comes up again.
    #[must_use]
    pub fn crash(&self) -> Self {
        let mut state = self.0.lock();
        let in_doubt = std::mem::take(&mut state.in_doubt);
        state.store(in_doubt);
        let records = std::mem::take(&mut state.records);
        let snapshots = std::mem::take(&mut state.snapshots);
        let lost = std::mem::take(&mut state.queue);
        let epoch = state.epoch;
        state.phase = Phase::Closed(Ok(()));
        state.sentinels.clear();
        drop(state);
        // Callers that are still there learn that the fate of the append is unknown.
        drop(lost);
        Self::with(records, snapshots, epoch)
    }

    /// A writer with the name `by` takes the journal over: this handle and its clones are fenced, and go on to read what
    /// was durable until now. The journal of the new writer.
    #[must_use]
    pub fn take_over(&self, by: &str) -> Self {
        let mut state = self.0.lock();
        let epoch = state.epoch + 1;
        let refusal = Refusal::Fenced { epoch, by: by.to_owned() };
        state.fail(Phase::Fenced(refusal.clone()), &refusal.to_string());
        let mut answers = Vec::new();
        state.refuse_queue(&mut answers, &refusal);
        let (records, snapshots) = (state.records.clone(), state.snapshots.clone());
        drop(state);
        answer_all(answers);
        Self::with(records, snapshots, epoch)
    }

    fn with(records: Vec<Record>, snapshots: BTreeMap<EntityKey, Snapshot>, epoch: u64) -> Self {
        let accepted = records.iter().map(|record| (record.entity.clone(), record.seq)).collect();
        let ended = ended(&records);
        Self(Arc::new(Mutex::new(State { epoch, records, accepted, ended, snapshots, ..State::default() })))
    }
}

/// The entities with a tombstone.
fn ended(records: &[Record]) -> BTreeSet<EntityKey> {
    let tombstones = records.iter().filter(|record| record.kind == Kind::TOMBSTONE);
    tombstones.map(|record| record.entity.clone()).collect()
}

type Answer = (Reply<Result<Position, AppendError>>, Result<Position, AppendError>);

fn answer_all(answers: Vec<Answer>) {
    for (reply, answer) in answers {
        reply.answer(answer);
    }
}

impl State {
    fn accept(&mut self, records: Vec<NewRecord>) -> Result<Awaited<Result<Position, AppendError>>, Refusal> {
        match &self.phase {
            Phase::Open => {}
            Phase::Closed(_) => return Err(Refusal::Closed),
            Phase::Poisoned { why } => return Err(Refusal::Poisoned { why: why.clone() }),
            Phase::Fenced(refusal) => return Err(refusal.clone()),
        }
        Limits::LOCAL.check(&records)?;
        let mut moved: BTreeMap<EntityKey, Seq> = BTreeMap::new();
        let mut ending: BTreeSet<&EntityKey> = BTreeSet::new();
        for NewRecord { entity, expected, kind, .. } in &records {
            if self.ended.contains(entity) || ending.contains(entity) {
                return Err(Refusal::Ended { entity: entity.clone() });
            }
            if *kind == Kind::TOMBSTONE {
                ending.insert(entity);
            }
            let last = moved.get(entity).or_else(|| self.accepted.get(entity));
            let actual = last.copied().unwrap_or(Seq::NONE);
            if actual != *expected {
                return Err(Refusal::Conflict { entity: entity.clone(), expected: *expected, actual });
            }
            moved.insert(entity.clone(), actual.next());
        }
        self.accepted.append(&mut moved);
        self.ended.extend(ending.into_iter().cloned());
        let (reply, awaited) = reply();
        self.queue.push_back(Batch { records, reply });
        Ok(awaited)
    }

    /// Decides the oldest `count` waiting batches.
    fn perform(&mut self, count: usize) -> Vec<Answer> {
        let mut answers = Vec::new();
        while answers.len() < count
            && let Some(Batch { records, reply }) = self.queue.pop_front()
        {
            match self.faults.pop_front() {
                None => {
                    self.store(records);
                    answers.push((reply, Ok(self.end())));
                }
                Some(Fault::Refused) => {
                    let why = "as commanded".to_owned();
                    answers.push((reply, Err(Refusal::StorageFull { why: why.clone() }.into())));
                    self.refuse_queue(&mut answers, &Refusal::StorageFull { why });
                }
                Some(Fault::InDoubt { is_performed }) => {
                    if is_performed {
                        self.in_doubt = records;
                    }
                    let why = "in doubt as commanded".to_owned();
                    answers.push((reply, Err(AppendError::InDoubt { why: why.clone() })));
                    self.fail(Phase::Poisoned { why: why.clone() }, &why);
                    self.refuse_queue(&mut answers, &Refusal::Poisoned { why });
                }
            }
        }
        answers
    }

    fn fail(&mut self, phase: Phase, why: &str) {
        self.phase = phase;
        self.sentinels.drain(..).for_each(|sentinel| sentinel.answer(why.to_owned()));
    }

    fn refuse_queue(&mut self, answers: &mut Vec<Answer>, refusal: &Refusal) {
        answers.extend(self.queue.drain(..).map(|batch| (batch.reply, Err(refusal.clone().into()))));
        self.accepted = self.records.iter().map(|record| (record.entity.clone(), record.seq)).collect();
        self.ended = ended(&self.records);
    }

    fn store(&mut self, records: Vec<NewRecord>) {
        for NewRecord { entity, expected, kind, payload } in records {
            let position = self.end().next();
            self.records.push(Record { entity, seq: expected.next(), position, kind, payload });
        }
    }

    fn end(&self) -> Position {
        Position(self.records.len() as u64)
    }

    fn readable(&self) -> Result<&Self, ReadError> {
        match self.phase {
            Phase::Closed(_) => Err(ReadError::Closed),
            _ if self.are_reads_failing => {
                Err(ReadError::Io { file: "memory".to_owned(), why: "as commanded".to_owned() })
            }
            Phase::Open | Phase::Poisoned { .. } | Phase::Fenced(_) => Ok(self),
        }
    }

    /// Durable records of `entity`, from its tombstone on if it has one.
    fn of<'a>(&'a self, entity: &'a EntityKey) -> impl DoubleEndedIterator<Item = &'a Record> {
        self.records.iter().filter(move |record| record.entity == *entity && !self.is_superseded(record))
    }

    /// Whether a durable tombstone stands for it.
    fn is_superseded(&self, record: &Record) -> bool {
        let is_tombstone = |later: &Record| later.kind == Kind::TOMBSTONE && later.entity == record.entity;
        self.ended.contains(&record.entity) && record.kind != Kind::TOMBSTONE && self.records.iter().any(is_tombstone)
    }

    fn keep(&mut self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let last = self.readable().map_err(|_| SnapshotError::Closed)?.last(&snapshot.entity);
        Limits::LOCAL.check_snapshot(&snapshot)?;
        if snapshot.seq > last {
            return Err(SnapshotError::Ahead { entity: snapshot.entity, seq: snapshot.seq, last });
        }
        let kept = self.snapshots.entry(snapshot.entity.clone()).or_insert_with(|| snapshot.clone());
        if kept.seq <= snapshot.seq {
            *kept = snapshot;
        }
        Ok(())
    }

    fn last(&self, entity: &EntityKey) -> Seq {
        self.of(entity).next_back().map_or(Seq::NONE, |record| record.seq)
    }
}

impl Journal for Memory {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        let mut state = self.0.lock();
        let accepted = state.accept(batch);
        let answers = if state.is_held { Vec::new() } else { state.perform(usize::MAX) };
        drop(state);
        answer_all(answers);
        async {
            let crashed = || Err(AppendError::InDoubt { why: "the journal has crashed".to_owned() });
            accepted?.await.unwrap_or_else(crashed)
        }
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let state = self.0.lock();
        ready(state.readable().map(|state| state.of(entity).filter(|record| record.seq > after).cloned().collect()))
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        ready(self.0.lock().readable().map(|state| state.last(entity)))
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let state = self.0.lock();
        let from = usize::try_from(after.0).unwrap_or(usize::MAX);
        ready(state.readable().map(|state| {
            let records = state.records.iter().skip(from).filter(|record| !state.is_superseded(record));
            records.take(limit).cloned().collect()
        }))
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        ready(self.0.lock().keep(snapshot))
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        ready(self.0.lock().readable().map(|state| state.snapshots.get(entity).cloned()))
    }

    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        let (sentinel, failed) = reply();
        let mut state = self.0.lock();
        match &state.phase {
            Phase::Open => state.sentinels.push(sentinel),
            Phase::Poisoned { why } => sentinel.answer(why.clone()),
            Phase::Fenced(refusal) => sentinel.answer(refusal.to_string()),
            Phase::Closed(_) => {}
        }
        failed
    }

    fn limits(&self) -> Limits {
        Limits::LOCAL
    }

    fn volume(&self) -> Volume {
        Volume { last: Some(Position(self.0.lock().records.len() as u64)), ..Volume::default() }
    }

    fn check(&self) -> impl Future<Output = Result<(), CheckError>> + Send {
        let violation = self.0.lock().violation.clone();
        ready(violation.map_or(Ok(()), |why| Err(CheckError::Unsafe { why })))
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        let mut state = self.0.lock();
        let answers = state.perform(usize::MAX);
        let result = match &state.phase {
            Phase::Open => Ok(()),
            Phase::Poisoned { why } => Err(CloseError::Poisoned { why: why.clone() }),
            Phase::Fenced(refusal) => Err(CloseError::Poisoned { why: refusal.to_string() }),
            Phase::Closed(result) => result.clone(),
        };
        state.phase = Phase::Closed(result.clone());
        state.sentinels.clear();
        drop(state);
        answer_all(answers);
        ready(result)
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Memory")
            .field("records", &state.records.len())
            .field("waiting", &state.queue.len())
            .field("phase", &state.phase)
            .finish_non_exhaustive()
    }
}
