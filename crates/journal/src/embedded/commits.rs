//! The queue between callers and the writer thread, and the index that both share.
//!
//! # Who may touch what
//! Everything is behind one lock, held for short steps only; nobody holds it across a call to the disk or into a future.
//! * Callers [`submit`](Commits::submit): check the expectations against what has been *accepted* (durable or under
//!   way), move *accepted* on, queue the batch.
//! * The writer takes [groups](Commits::next) in order, and for each either [publishes](Commits::publish) it
//!   (moves *durable* on, answers), [refuses](Commits::refuse) it together with everything queued behind, which may
//!   rest on it, or [fails](Commits::fail) it, after which nothing is accepted any more.
//! * Readers look at *durable* only.
//!
//! # Nobody waits for ever
//! A batch leaves the queue only with an answer, and a reply that is dropped counts as one. When the writer thread ends
//! for whatever reason, the phase leaves `Open` under the lock, so nothing is queued behind its back.

use std::collections::VecDeque;
use std::time::Instant;

use enact_sync::{Condvar, Mutex};

use super::catalog::{Catalog, Start};
use super::format::{Address, Outgoing, Previous};
use super::heads::{HeadId, Heads};
use super::scan::Tips;
use super::tail::Written;
use crate::journal::{AppendError, CloseError, Limits, ReadError, Refusal};
use crate::record::{EntityKey, NewRecord, Position, Seq};
use crate::reply::{Awaited, Reply, reply};

/// Bytes after which a group takes no further batch: bounds the time until the first of them is answered.
const GROUP_BYTES_MAX: usize = 4 << 20;

pub(super) type AppendReply = Reply<Result<Position, AppendError>>;
pub(super) type CloseResult = Result<(), CloseError>;

pub(super) struct Commits {
    queue_bytes: usize,
    state: Mutex<State>,
    /// Signals the writer: something is queued, or the phase has changed.
    work: Condvar,
}

struct State {
    phase: Phase,
    heads: Heads,
    catalog: Catalog,
    durable: Position,
    queue: VecDeque<Batch>,
    /// Bytes of all batches without an answer.
    bytes: usize,
    closers: Vec<Reply<CloseResult>>,
    /// Those that wait for a failure.
    sentinels: Vec<Reply<String>>,
}

enum Phase {
    Open,
    /// The queue is being written; nothing is accepted any more.
    Closing,
    /// A write has failed; durable records can be read.
    Poisoned {
        why: String,
    },
    Closed(CloseResult),
}

pub(super) struct Batch {
    records: Vec<NewRecord>,
    /// Those of the records.
    heads: Vec<HeadId>,
    bytes: usize,
    reply: AppendReply,
}

/// What the writer does next.
pub(super) enum Next {
    Group(Group),
    /// The time that it wanted to wait for has come.
    Due,
    /// The queue is empty and stays so.
    End,
}

/// Batches that become durable together.
pub(super) struct Group {
    batches: Vec<Batch>,
    previous: Vec<Previous>,
}

impl Group {
    pub(super) fn outgoing(&self) -> Vec<Outgoing<'_>> {
        let records = self.batches.iter().flat_map(|batch| &batch.records);
        records.zip(&self.previous).map(|(record, previous)| Outgoing::Record(record, *previous, 0)).collect()
    }
}

impl Commits {
    pub(super) fn new(tips: Tips<'_>, catalog: Catalog, durable: Position, queue_bytes: usize) -> Self {
        let state = State {
            phase: Phase::Open,
            heads: Heads::new(tips),
            catalog,
            durable,
            queue: VecDeque::new(),
            bytes: 0,
            closers: Vec::new(),
            sentinels: Vec::new(),
        };
        Self { queue_bytes, state: Mutex::new(state), work: Condvar::new() }
    }

    /// Queues `records`, or refuses them.
    pub(super) fn submit(&self, records: Vec<NewRecord>) -> Result<Awaited<Result<Position, AppendError>>, Refusal> {
        let bytes = Limits::LOCAL.check(&records)?;
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Open => {}
            Phase::Closing | Phase::Closed(_) => return Err(Refusal::Closed),
            Phase::Poisoned { why } => return Err(Refusal::Poisoned { why: why.clone() }),
        }
        if state.bytes > 0 && state.bytes + bytes > self.queue_bytes {
            return Err(Refusal::Overloaded { queued: state.bytes, bytes, limit: self.queue_bytes });
        }
        let heads = state.accept(&records)?;
        state.bytes += bytes;
        let (reply, awaited) = reply();
        state.queue.push_back(Batch { records, heads, bytes, reply });
        self.work.notify_one();
        Ok(awaited)
    }

    /// Waits for batches, until `due` at most, and takes as many as make a group.
    pub(super) fn next(&self, due: Option<Instant>) -> Next {
        let mut state = self.state.lock();
        loop {
            if due.is_some_and(|due| due <= Instant::now()) {
                return Next::Due;
            }
            if !state.queue.is_empty() {
                break;
            }
            if !matches!(state.phase, Phase::Open) {
                return Next::End;
            }
            state = match due {
                Some(due) => self.work.wait_until(state, due).0,
                None => self.work.wait(state),
            };
        }
        let state = &mut *state;
        let mut batches = Vec::new();
        let mut bytes = 0;
        while let Some(batch) = state.queue.pop_front_if(|batch| bytes == 0 || bytes + batch.bytes <= GROUP_BYTES_MAX) {
            bytes += batch.bytes;
            batches.push(batch);
        }
        let heads = batches.iter().flat_map(|batch| &batch.heads);
        let previous = heads.zip(0..).map(|(head, index)| state.heads.enter_group(*head, index)).collect();
        Next::Group(Group { batches, previous })
    }

    /// `group` is durable: `written`, or it had no records.
    pub(super) fn publish(&self, group: Group, written: Option<&Written>) {
        let mut state = self.state.lock();
        let mut position = state.durable;
        if let Some(written) = written {
            assert_eq!(written.first, position.next(), "the log goes on where it ended");
            let records = group.batches.iter().flat_map(|batch| batch.heads.iter().zip(&batch.records));
            for ((head, record), address) in records.zip(&written.addresses) {
                state.heads.publish(*head, record, *address);
            }
            state.catalog.grow(written);
            state.durable = Position(position.0 + written.addresses.len() as u64);
        }
        state.bytes -= group.batches.iter().map(|batch| batch.bytes).sum::<usize>();
        drop(state);
        for batch in group.batches {
            position.0 += batch.records.len() as u64;
            batch.reply.answer(Ok(position));
        }
    }

    /// Nothing of `group` is on the disk: refuses it and everything that was accepted after it.
    pub(super) fn refuse(&self, group: Group, refusal: &Refusal) {
        let mut state = self.state.lock();
        let queued = std::mem::take(&mut state.queue);
        let refused: Vec<Batch> = group.batches.into_iter().chain(queued).collect();
        for batch in refused.iter().rev() {
            state.give_back(&batch.heads);
        }
        state.bytes = 0;
        drop(state);
        answer_all(refused, || AppendError::Refused(refusal.clone()));
    }

    /// `group` has met `error`, and the log cannot go on: answers it and refuses everything queued behind.
    pub(super) fn fail(&self, group: Group, why: &str, error: &AppendError) {
        self.poison(why);
        answer_all(group.batches, || error.clone());
    }

    /// Takes no further batch: refuses everything queued.
    pub(super) fn poison(&self, why: &str) {
        let mut state = self.state.lock();
        state.phase = Phase::Poisoned { why: why.to_owned() };
        let queued = std::mem::take(&mut state.queue);
        let sentinels = std::mem::take(&mut state.sentinels);
        drop(state);
        for sentinel in sentinels {
            sentinel.answer(why.to_owned());
        }
        answer_all(queued, || AppendError::Refused(Refusal::Poisoned { why: why.to_owned() }));
    }

    /// Accepts nothing from now on; the result of closing follows.
    pub(super) fn begin_close(&self) -> Awaited<CloseResult> {
        let (reply, awaited) = reply();
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Closed(result) => {
                let result = result.clone();
                drop(state);
                reply.answer(result);
                return awaited;
            }
            Phase::Open => state.phase = Phase::Closing,
            Phase::Closing | Phase::Poisoned { .. } => {}
        }
        state.closers.push(reply);
        self.work.notify_one();
        awaited
    }

    /// Waits until somebody closes, if the queue is poisoned and nobody has yet.
    pub(super) fn wait_for_close(&self) {
        let mut state = self.state.lock();
        while matches!(state.phase, Phase::Poisoned { .. }) && state.closers.is_empty() {
            state = self.work.wait(state);
        }
    }

    /// Why the queue is poisoned, once it is; nothing if it is closed first.
    pub(super) fn failed(&self) -> Awaited<String> {
        let (reply, awaited) = reply();
        let mut state = self.state.lock();
        match &state.phase {
            Phase::Poisoned { why } => {
                let why = why.clone();
                drop(state);
                reply.answer(why);
            }
            Phase::Open | Phase::Closing => state.sentinels.push(reply),
            Phase::Closed(_) => {}
        }
        awaited
    }

    /// How many entities of a class there are.
    pub(super) fn count(&self, class: &str) -> usize {
        self.state.lock().heads.count(class)
    }

    /// Why the queue is poisoned, if it is.
    pub(super) fn poisoned(&self) -> CloseResult {
        match &self.state.lock().phase {
            Phase::Poisoned { why } => Err(CloseError::Poisoned { why: why.clone() }),
            _ => Ok(()),
        }
    }

    /// Everything is written and released.
    pub(super) fn end_close(&self, result: &CloseResult) {
        let mut state = self.state.lock();
        state.phase = Phase::Closed(result.clone());
        let closers = std::mem::take(&mut state.closers);
        let sentinels = std::mem::take(&mut state.sentinels);
        drop((state, sentinels));
        for closer in closers {
            closer.answer(result.clone());
        }
    }

    /// The last durable record of `entity` and its address.
    pub(super) fn last(&self, entity: &EntityKey) -> Result<(Seq, Address), ReadError> {
        let state = self.state.lock();
        state.check_readable()?;
        Ok(state.tip(entity))
    }

    /// As [`last`](Self::last), also while the journal closes.
    pub(super) fn tip(&self, entity: &EntityKey) -> (Seq, Address) {
        self.state.lock().tip(entity)
    }

    /// Whether a tombstone stands for record `seq` of `entity`.
    pub(super) fn is_superseded(&self, entity: &EntityKey, seq: Seq) -> bool {
        let (last, address) = self.tip(entity);
        address.is_of_tombstone() && seq < last
    }

    /// Where the durable groups end.
    pub(super) fn end(&self) -> Address {
        self.state.lock().catalog.end()
    }

    /// How many entities there are, and how many of them have, or had, a tombstone.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.state.lock().heads.counts()
    }

    /// The position of the last durable record of all.
    pub(super) fn durable(&self) -> Position {
        self.state.lock().durable
    }

    /// Forgets the classes of which `is_over` holds, but for those that have records under way.
    pub(super) fn forget(&self, is_over: impl Fn(&str) -> bool) {
        let forgotten = self.state.lock().heads.forget(is_over);
        // Long lists take their time to be freed, which is not spent under the lock.
        drop(forgotten);
    }

    /// The classes that are forgotten, in order.
    pub(super) fn forgotten(&self) -> Vec<String> {
        self.state.lock().heads.forgotten()
    }

    /// Where to read the record after `after`; `None` if none is durable.
    pub(super) fn locate_after(&self, after: Position) -> Result<Option<Start>, ReadError> {
        let state = self.state.lock();
        state.check_readable()?;
        Ok((after < state.durable).then(|| state.catalog.locate(after.next())))
    }
}

impl State {
    fn accept(&mut self, records: &[NewRecord]) -> Result<Vec<HeadId>, Refusal> {
        let mut heads = Vec::with_capacity(records.len());
        for record in records {
            match self.heads.accept(record) {
                Ok(head) => heads.push(head),
                Err(refusal) => {
                    self.give_back(&heads);
                    return Err(refusal);
                }
            }
        }
        Ok(heads)
    }

    /// Undoes the acceptance of the records with these `heads`, which are the last ones accepted.
    fn give_back(&mut self, heads: &[HeadId]) {
        heads.iter().rev().for_each(|head| self.heads.give_back(*head));
    }

    fn tip(&self, entity: &EntityKey) -> (Seq, Address) {
        self.heads.tip(entity)
    }

    fn check_readable(&self) -> Result<(), ReadError> {
        match self.phase {
            Phase::Closing | Phase::Closed(_) => Err(ReadError::Closed),
            Phase::Open | Phase::Poisoned { .. } => Ok(()),
        }
    }
}

fn answer_all(batches: impl IntoIterator<Item = Batch>, error: impl Fn() -> AppendError) {
    for batch in batches {
        batch.reply.answer(Err(error()));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use enact_sync::{Arc, thread};

    use super::*;
    use crate::record::Kind;

    fn answer<T>(mut awaited: Awaited<T>) -> T {
        match Pin::new(&mut awaited).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Some(answer)) => answer,
            Poll::Ready(None) => panic!("the reply was dropped"),
            Poll::Pending => panic!("no answer"),
        }
    }

    #[test]
    fn a_class_is_forgotten_when_none_of_its_records_is_under_way() {
        let entity = EntityKey::new("Answer", "A").unwrap();
        let record = |seq| NewRecord { entity: entity.clone(), expected: Seq(seq), kind: Kind(0), payload: vec![] };
        let commits = Commits::new(Tips::default(), Catalog::default(), Position::START, 1000);
        let first = commits.submit(vec![record(0)]).unwrap();
        commits.forget(|_| true);
        let second = commits.submit(vec![record(1)]).unwrap();
        let Next::Group(group) = commits.next(None) else { panic!("two batches wait") };
        commits.publish(
            group,
            Some(&Written {
                addresses: vec![Address::new(1, 72), Address::new(1, 144)],
                first: Position(1),
                segment: 1,
                segment_first: Position(1),
                segment_end: 216,
                mark: None,
            }),
        );
        assert_eq!((answer(first), answer(second)), (Ok(Position(1)), Ok(Position(2))));

        let refused = commits.submit(vec![record(2)]).unwrap();
        let Next::Group(group) = commits.next(None) else { panic!("one batch waits") };
        commits.forget(|_| true);
        commits.refuse(group, &Refusal::Closed);
        assert!(answer(refused).is_err());
        assert_eq!(commits.last(&entity).unwrap().0, Seq(2));

        commits.forget(|_| true);
        assert_eq!(commits.last(&entity).unwrap().0, Seq::NONE);
        assert_eq!(commits.submit(vec![record(2)]).err(), Some(Refusal::Forgotten { entity: entity.clone() }));
    }

    /// Explored by the model checkers: `--cfg enact_loom`, filter `interleaving`.
    #[test]
    fn every_interleaving_of_submit_and_close_answers_everybody() {
        enact_sync::explore(1000, || {
            let commits = Commits::new(Tips::default(), Catalog::default(), Position::START, 1000);
            let commits = Arc::new(commits);
            let writer = {
                let commits = Arc::clone(&commits);
                thread::spawn(move || {
                    while let Next::Group(group) = commits.next(None) {
                        commits.publish(group, None);
                    }
                    commits.end_close(&Ok(()));
                })
            };
            let caller = {
                let commits = Arc::clone(&commits);
                thread::spawn(move || commits.submit(vec![]))
            };
            let closed = commits.begin_close();
            let submitted = caller.join().unwrap();
            writer.join().unwrap();
            assert_eq!(answer(closed), Ok(()));
            match submitted {
                Ok(awaited) => assert_eq!(answer(awaited), Ok(Position::START)),
                Err(refusal) => assert_eq!(refusal, Refusal::Closed),
            }
            assert_eq!(commits.submit(vec![]).err(), Some(Refusal::Closed));
            assert_eq!(answer(commits.begin_close()), Ok(()));
        });
    }
}
