//! The queue between callers and the writer thread, and the index that both share.
//!
//! # Who may touch what
//! Everything is behind one lock, held for short steps only; nobody holds it across a call to the disk or into a future.
//! * Callers [`submit`](Commits::submit): check the expectations against what has been *accepted* (durable or under
//!   way), move *accepted* on, encode the batch into the last group of the queue.
//! * The writer takes [groups](Commits::next) in order, and for each either [publishes](Commits::publish) it
//!   (moves *durable* on; the answer follows), [refuses](Commits::refuse) it together with everything queued behind, which may
//!   rest on it, or [fails](Commits::fail) it, after which nothing is accepted any more.
//! * Readers look at *durable* only.
//!
//! # Nobody waits for ever
//! A group leaves the queue only with an answer, and one that is dropped counts as one. When the writer thread ends
//! for whatever reason, the phase leaves `Open` under the lock, so nothing is queued behind its back.

use std::collections::VecDeque;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use enact_sync::{Condvar, Mutex};

use super::answer::{Answer, Share};
use super::catalog::{Catalog, Start};
use super::contents::Contents;
use super::draft::{Draft, Previous};
use super::format::Address;
use super::heads::{HeadId, Heads};
use super::scan::Tips;
use super::tail::Written;
use crate::journal::{AppendError, CloseError, Limits, ReadError, Refusal};
use crate::record::{EntityKey, NewRecord, Position, Seq};
use crate::reply::{Awaited, Reply, reply};

/// Bytes after which a group takes no further batch: bounds the time until the first of them is answered.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// A batch of so many bytes begins a group, which is encoded before the lock is taken.
const LONG_BATCH: usize = 256 << 10;

/// The position of the last record before the group, if it is durable.
type GroupResult = Result<Position, AppendError>;
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
    /// The last one takes further batches.
    queue: VecDeque<Group>,
    /// Bytes of all batches without an answer.
    bytes: usize,
    /// Those of the batch that is being accepted; kept for its space.
    accepted: Vec<HeadId>,
    /// Space for the next group.
    spare: Vec<u8>,
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

/// What the writer does next.
pub(super) enum Next {
    Group(Group),
    /// The time that it wanted to wait for has come.
    Due,
    /// The queue is empty and stays so.
    End,
}

/// Batches that become durable together, one after the other.
pub(super) struct Group {
    draft: Draft,
    records: Vec<Queued>,
    /// Where the record before each of the records stands; known when the group is about to be written.
    previous: Vec<Previous>,
    bytes: usize,
    answer: Answer<GroupResult>,
}

/// A record of a group.
struct Queued {
    head: HeadId,
    entity: EntityKey,
    seq: Seq,
}

/// Waits for the answer to one batch of a group.
pub(super) struct Submitted {
    group: Share<GroupResult>,
    /// Records of the group up to the end of the batch.
    count: u64,
}

impl Group {
    /// A group whose records, those that it will have, are in `draft`.
    fn of(draft: Draft) -> Self {
        Self { draft, records: Vec::new(), previous: Vec::new(), bytes: 0, answer: Answer::new() }
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.bytes == 0 || self.bytes + bytes <= GROUP_BYTES_MAX
    }

    /// Takes up a batch of so many bytes, whose records have these heads and are in the draft.
    fn push(&mut self, batch: &[NewRecord], heads: &[HeadId], bytes: usize) -> Submitted {
        self.records.extend(batch.iter().zip(heads).map(|(record, head)| {
            let NewRecord { entity, expected, .. } = record;
            Queued { head: *head, entity: entity.clone(), seq: expected.next() }
        }));
        self.bytes += bytes;
        Submitted { group: self.answer.share(), count: self.records.len() as u64 }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// What is to be written, and where the record before each of its records stands.
    pub(super) fn parts(&mut self) -> (&mut Draft, &[Previous]) {
        (&mut self.draft, &self.previous)
    }

    /// The bytes of a group that is written.
    pub(super) fn take_bytes(&mut self) -> Vec<u8> {
        mem::take(self.draft.bytes())
    }

    fn heads(&self) -> impl DoubleEndedIterator<Item = HeadId> {
        self.records.iter().map(|record| record.head)
    }

    /// Tells those who wait that it is durable, behind the record at `before`.
    pub(super) fn answer(&self, before: Position) {
        self.answer.give(Ok(before));
    }

    /// Adds its records, which stand at these `addresses`, to what a segment holds.
    pub(super) fn add_to(&self, contents: &mut Contents, addresses: &[Address]) {
        for (Queued { head, entity, seq }, address) in self.records.iter().zip(addresses) {
            contents.add_by_head(*head, entity, *seq, *address);
        }
    }
}

impl Future for Submitted {
    type Output = Option<Result<Position, AppendError>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let count = self.count;
        Pin::new(&mut self.group).poll(cx).map_ok(|before| Position(before.0 + count))
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
            accepted: Vec::new(),
            spare: Vec::new(),
            closers: Vec::new(),
            sentinels: Vec::new(),
        };
        Self { queue_bytes, state: Mutex::new(state), work: Condvar::new() }
    }

    /// Queues `records`, or refuses them.
    pub(super) fn submit(&self, records: &[NewRecord]) -> Result<Submitted, Refusal> {
        let bytes = Limits::LOCAL.check(records)?;
        let long = (bytes >= LONG_BATCH).then(|| Draft::of(records));
        let mut state = self.state.lock();
        let state = &mut *state;
        match &state.phase {
            Phase::Open => {}
            Phase::Closing | Phase::Closed(_) => return Err(Refusal::Closed),
            Phase::Poisoned { why } => return Err(Refusal::Poisoned { why: why.clone() }),
        }
        if state.bytes > 0 && state.bytes + bytes > self.queue_bytes {
            return Err(Refusal::Overloaded { queued: state.bytes, bytes, limit: self.queue_bytes });
        }
        state.accept(records)?;
        state.bytes += bytes;
        let submitted = match long {
            Some(draft) => {
                let group = state.queue.push_back_mut(Group::of(draft));
                group.push(records, &state.accepted, bytes)
            }
            None => {
                if !state.queue.back().is_some_and(|last| last.has_room(bytes)) {
                    let draft = Draft::in_space_of(mem::take(&mut state.spare));
                    state.queue.push_back(Group::of(draft));
                }
                let group = state.queue.back_mut().expect("it has been pushed");
                records.iter().for_each(|record| group.draft.add(record));
                group.push(records, &state.accepted, bytes)
            }
        };
        self.work.notify_one();
        Ok(submitted)
    }

    /// Waits for a group, until `due` at most.
    pub(super) fn next(&self, due: Option<Instant>) -> Next {
        let mut state = self.state.lock();
        let mut group = loop {
            if due.is_some_and(|due| due <= Instant::now()) {
                return Next::Due;
            }
            if let Some(group) = state.queue.pop_front() {
                break group;
            }
            if !matches!(state.phase, Phase::Open) {
                return Next::End;
            }
            state = match due {
                Some(due) => self.work.wait_until(state, due).0,
                None => self.work.wait(state),
            };
        };
        group.previous = group.heads().zip(0..).map(|(head, index)| state.heads.enter_group(head, index)).collect();
        Next::Group(group)
    }

    /// `group` is durable: `written`, or it had no records. It has to be [answered](Group::answer) then; the position of the last record
    /// before it.
    pub(super) fn publish(&self, group: &Group, written: Option<&Written>) -> Position {
        let mut state = self.state.lock();
        let before = state.durable;
        if let Some(written) = written {
            assert_eq!(written.first, before.next(), "the log goes on where it ended");
            for (Queued { head, seq, .. }, address) in group.records.iter().zip(&written.addresses) {
                state.heads.publish(*head, *seq, *address);
            }
            state.catalog.grow(written);
            state.durable = Position(before.0 + written.addresses.len() as u64);
        }
        state.bytes -= group.bytes;
        before
    }

    /// Keeps `space` for the next group.
    pub(super) fn reuse(&self, space: Vec<u8>) {
        self.state.lock().spare = space;
    }

    /// Nothing of `group` is on the disk: refuses it and everything that was accepted after it.
    pub(super) fn refuse(&self, group: Group, refusal: &Refusal) {
        let mut state = self.state.lock();
        let mut refused = mem::take(&mut state.queue);
        refused.push_front(group);
        for group in refused.iter().rev() {
            state.heads.give_back(group.heads());
        }
        state.bytes = 0;
        drop(state);
        answer_all(refused, &AppendError::Refused(refusal.clone()));
    }

    /// `group` has met `error`, and the log cannot go on: answers it and refuses everything queued behind.
    pub(super) fn fail(&self, group: Group, why: &str, error: &AppendError) {
        self.poison(why);
        answer_all([group], error);
    }

    /// Takes no further batch: refuses everything queued.
    pub(super) fn poison(&self, why: &str) {
        let mut state = self.state.lock();
        state.phase = Phase::Poisoned { why: why.to_owned() };
        let queued = mem::take(&mut state.queue);
        let sentinels = mem::take(&mut state.sentinels);
        drop(state);
        for sentinel in sentinels {
            sentinel.answer(why.to_owned());
        }
        answer_all(queued, &Refusal::Poisoned { why: why.to_owned() }.into());
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
        let closers = mem::take(&mut state.closers);
        let sentinels = mem::take(&mut state.sentinels);
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
    /// Accepts all of `records` or none; their heads are those in `accepted`.
    fn accept(&mut self, records: &[NewRecord]) -> Result<(), Refusal> {
        self.accepted.clear();
        for record in records {
            match self.heads.accept(record) {
                Ok(head) => self.accepted.push(head),
                Err(refusal) => {
                    self.heads.give_back(self.accepted.iter().copied());
                    return Err(refusal);
                }
            }
        }
        Ok(())
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

fn answer_all(groups: impl IntoIterator<Item = Group>, error: &AppendError) {
    for group in groups {
        group.answer.give(Err(error.clone()));
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use enact_sync::{Arc, thread};

    use super::*;
    use crate::embedded::format::LogId;
    use crate::record::Kind;

    fn answer<T>(mut awaited: impl Future<Output = Option<T>> + Unpin) -> T {
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
        let first = commits.submit(&[record(0)]).unwrap();
        commits.forget(|_| true);
        let second = commits.submit(&[record(1)]).unwrap();
        let Next::Group(group) = commits.next(None) else { panic!("two batches wait") };
        let before = commits.publish(
            &group,
            Some(&Written {
                addresses: vec![Address::new(1, 72), Address::new(1, 144)],
                first: Position(1),
                segment: 1,
                segment_first: Position(1),
                segment_end: 216,
                mark: None,
            }),
        );
        group.answer(before);
        assert_eq!((answer(first), answer(second)), (Ok(Position(1)), Ok(Position(2))));

        let refused = commits.submit(&[record(2)]).unwrap();
        let Next::Group(group) = commits.next(None) else { panic!("one batch waits") };
        commits.forget(|_| true);
        commits.refuse(group, &Refusal::Closed);
        assert!(answer(refused).is_err());
        assert_eq!(commits.last(&entity).unwrap().0, Seq(2));

        commits.forget(|_| true);
        assert_eq!(commits.last(&entity).unwrap().0, Seq::NONE);
        assert_eq!(commits.submit(&[record(2)]).err(), Some(Refusal::Forgotten { entity: entity.clone() }));
    }

    #[test]
    fn a_long_batch_begins_a_group_and_takes_those_behind_it() {
        let commits = Commits::new(Tips::default(), Catalog::default(), Position::START, usize::MAX);
        let batch = |id: &str, bytes| {
            let entity = EntityKey::new("Answer", id).unwrap();
            vec![NewRecord { entity, expected: Seq::NONE, kind: Kind(0), payload: vec![7; bytes] }]
        };
        let answers =
            [("A", 1), ("B", LONG_BATCH), ("C", 1)].map(|(id, bytes)| commits.submit(&batch(id, bytes)).unwrap());
        let (mut first, mut groups) = (Position(1), Vec::new());
        let _closed = commits.begin_close();
        while let Next::Group(mut group) = commits.next(None) {
            let (draft, previous) = group.parts();
            let addresses = draft.place(LogId(7), Address::new(1, 72), first, previous);
            let (count, segment_end) = (addresses.len(), 72 + draft.len() as u32);
            let (segment, segment_first) = (1, first);
            let written = Written { addresses, first, segment, segment_first, segment_end, mark: None };
            group.answer(commits.publish(&group, Some(&written)));
            first.0 += count as u64;
            groups.push((count, group.records.iter().map(|record| record.entity.id().to_owned()).collect::<String>()));
        }
        assert_eq!(groups, [(1, "A".to_owned()), (2, "BC".to_owned())]);
        assert_eq!(answers.map(answer), [1, 2, 3].map(|position| Ok(Position(position))));
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
                        group.answer(commits.publish(&group, None));
                    }
                    commits.end_close(&Ok(()));
                })
            };
            let caller = {
                let commits = Arc::clone(&commits);
                thread::spawn(move || commits.submit(&[]))
            };
            let closed = commits.begin_close();
            let submitted = caller.join().unwrap();
            writer.join().unwrap();
            assert_eq!(answer(closed), Ok(()));
            match submitted {
                Ok(awaited) => assert_eq!(answer(awaited), Ok(Position::START)),
                Err(refusal) => assert_eq!(refusal, Refusal::Closed),
            }
            assert_eq!(commits.submit(&[]).err(), Some(Refusal::Closed));
            assert_eq!(answer(commits.begin_close()), Ok(()));
        });
    }
}
