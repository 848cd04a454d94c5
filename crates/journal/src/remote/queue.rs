//! The queue between callers and the writer.
//!
//! # Who may touch what
//! Everything is behind one lock, which nobody holds across an `await`. Callers [submit](Queue::submit). The writer takes what is
//! queued, and answers each batch or [fails](Queue::fail) the queue. A batch leaves it only with an answer, and a reply that is
//! dropped counts as one: the writer may be gone with its runtime.

use std::collections::VecDeque;
use std::time::Duration;

use enact_sync::Mutex;
use tokio::sync::Notify;

use crate::journal::{AppendError, CloseError, Limits, Refusal};
use crate::record::{NewRecord, Position};
use crate::reply::{Awaited, Reply, reply};

/// How long a group whose fate is unknown holds the end of a journal up that is being closed.
const CLOSE_MAX: Duration = Duration::from_secs(10);

pub(crate) struct Batch {
    pub(crate) records: Vec<NewRecord>,
    pub(crate) bytes: usize,
    reply: Reply<Result<Position, AppendError>>,
}

impl Batch {
    /// One that nobody waits for.
    pub(crate) fn unanswered(records: Vec<NewRecord>) -> Self {
        let bytes = records.iter().map(NewRecord::bytes).sum();
        Self { records, bytes, reply: reply().0 }
    }
}

pub(crate) struct Queue {
    limits: Limits,
    bytes_max: usize,
    state: Mutex<State>,
    /// Tells the writer that something is queued, or that the journal closes.
    work: Notify,
    closing: Notify,
}

struct State {
    phase: Phase,
    batches: VecDeque<Batch>,
    /// Bytes of all batches without an answer.
    bytes: usize,
    closers: Vec<Reply<Result<(), CloseError>>>,
    /// Those that wait for a failure.
    sentinels: Vec<Reply<String>>,
}

enum Phase {
    Open,
    /// The journal was opened to be read.
    Reading,
    /// What is queued is being written; nothing is accepted any more.
    Closing,
    Failed(Refusal),
    Closed(Result<(), CloseError>),
}

impl Queue {
    pub(crate) fn new(limits: Limits, bytes_max: usize) -> Self {
        Self::in_phase(Phase::Open, limits, bytes_max)
    }

    /// One that accepts nothing.
    pub(crate) fn reading(limits: Limits) -> Self {
        Self::in_phase(Phase::Reading, limits, 0)
    }

    fn in_phase(phase: Phase, limits: Limits, bytes_max: usize) -> Self {
        let state = State { phase, batches: VecDeque::new(), bytes: 0, closers: Vec::new(), sentinels: Vec::new() };
        Self { limits, bytes_max, state: Mutex::new(state), work: Notify::new(), closing: Notify::new() }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Queues `records`, or refuses them.
    pub(crate) fn submit(&self, records: Vec<NewRecord>) -> Result<Awaited<Result<Position, AppendError>>, Refusal> {
        let bytes = self.limits.check(&records)?;
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Open => {}
            Phase::Reading | Phase::Closing | Phase::Closed(_) => return Err(Refusal::Closed),
            Phase::Failed(refusal) => return Err(refusal.clone()),
        }
        if state.bytes > 0 && state.bytes + bytes > self.bytes_max {
            return Err(Refusal::Overloaded { queued: state.bytes, bytes, limit: self.bytes_max });
        }
        state.bytes += bytes;
        let (reply, awaited) = reply();
        state.batches.push_back(Batch { records, bytes, reply });
        drop(state);
        self.work.notify_one();
        Ok(awaited)
    }

    /// Waits for batches and takes as many as fit into a group, in order; none when the journal closes and none is left, or
    /// has failed.
    pub(crate) async fn next(&self) -> Vec<Batch> {
        loop {
            let work = self.work.notified();
            {
                let mut state = self.state.lock();
                if !state.batches.is_empty() || !matches!(state.phase, Phase::Open) {
                    return state.take(self.limits);
                }
            }
            work.await;
        }
    }

    /// Answers a batch.
    pub(crate) fn answer(&self, batch: Batch, answer: Result<Position, AppendError>) {
        self.state.lock().bytes -= batch.bytes;
        batch.reply.answer(answer);
    }

    /// Refuses all that is queued.
    pub(crate) fn refuse(&self, refusal: &Refusal) {
        let mut state = self.state.lock();
        let refused = std::mem::take(&mut state.batches);
        state.bytes -= refused.iter().map(|batch| batch.bytes).sum::<usize>();
        drop(state);
        refused.into_iter().for_each(|batch| batch.reply.answer(Err(refusal.clone().into())));
    }

    /// Takes nothing any more: refuses what is queued, and all that comes, with `refusal`.
    pub(crate) fn fail(&self, refusal: &Refusal) {
        let mut state = self.state.lock();
        state.phase = Phase::Failed(refusal.clone());
        let sentinels = std::mem::take(&mut state.sentinels);
        drop(state);
        sentinels.into_iter().for_each(|sentinel| sentinel.answer(refusal.to_string()));
        self.refuse(refusal);
    }

    /// Accepts nothing from now on; the result of closing follows.
    pub(crate) fn begin_close(&self) -> Awaited<Result<(), CloseError>> {
        let (reply, awaited) = reply();
        let mut state = self.state.lock();
        let result = match &state.phase {
            Phase::Closed(result) => Some(result.clone()),
            Phase::Failed(refusal) => Some(Err(CloseError::Poisoned { why: refusal.to_string() })),
            Phase::Reading => Some(Ok(())),
            Phase::Open | Phase::Closing => None,
        };
        match result {
            Some(result) => {
                state.phase = Phase::Closed(result.clone());
                drop(state);
                reply.answer(result);
            }
            None => {
                state.phase = Phase::Closing;
                state.closers.push(reply);
                drop(state);
                self.work.notify_one();
                self.closing.notify_one();
            }
        }
        awaited
    }

    /// Waits until the journal has been closing for too long.
    pub(crate) async fn overdue(&self) {
        loop {
            let closing = self.closing.notified();
            if matches!(self.state.lock().phase, Phase::Closing) {
                return tokio::time::sleep(CLOSE_MAX).await;
            }
            closing.await;
        }
    }

    /// The writer has ended, because the journal closes or has failed.
    pub(crate) fn end(&self) {
        let mut state = self.state.lock();
        let closers = std::mem::take(&mut state.closers);
        if closers.is_empty() {
            return;
        }
        let result = match &state.phase {
            Phase::Failed(refusal) => Err(CloseError::Poisoned { why: refusal.to_string() }),
            Phase::Open | Phase::Reading | Phase::Closing | Phase::Closed(_) => Ok(()),
        };
        state.phase = Phase::Closed(result.clone());
        let sentinels = std::mem::take(&mut state.sentinels);
        drop((state, sentinels));
        closers.into_iter().for_each(|closer| closer.answer(result.clone()));
    }

    /// Why the journal has failed, once it has; nothing if it is closed first.
    pub(crate) fn failed(&self) -> Awaited<String> {
        let (reply, awaited) = reply();
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Open | Phase::Reading | Phase::Closing => state.sentinels.push(reply),
            Phase::Failed(refusal) => {
                let why = refusal.to_string();
                drop(state);
                reply.answer(why);
            }
            Phase::Closed(_) => {}
        }
        awaited
    }

    /// Whether reads are answered.
    pub(crate) fn is_readable(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Open | Phase::Reading | Phase::Failed(_))
    }

    /// Whether snapshots are kept.
    pub(crate) fn keeps_snapshots(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Open | Phase::Failed(_))
    }
}

impl State {
    fn take(&mut self, limits: Limits) -> Vec<Batch> {
        let (mut batches, mut records, mut bytes) = (Vec::new(), 0, 0);
        while let Some(batch) = self.batches.pop_front_if(|batch| {
            let fits =
                records + batch.records.len() <= limits.batch_records && bytes + batch.bytes <= limits.batch_bytes;
            batches.is_empty() || fits
        }) {
            records += batch.records.len();
            bytes += batch.bytes;
            batches.push(batch);
        }
        batches
    }
}
