//! The serial lock that every writing commit passes: a starving transaction comes first, and finally runs alone.
//!
//! # The problem
//! A transaction that runs alone must not meet the commit of another one. It must not starve, and nor must the commits
//! that it keeps out. It may be a future that is never polled again, which must hold up nobody.
//!
//! # States
//! The word is 0 as long as nobody needs anything, which is all that an ordinary commit looks at. [`PRIORITY`]: a starving
//! transaction has published a filter of what it read and wrote; commits that meet it stand back a few times. [`CLOSED`]:
//! one transaction, the *holder*, runs alone, and other commits are refused. [`DRAINING`]: a transaction waits for the
//! end of the deferred operations under way, in order to run irrevocably; commits that would start new ones are refused.
//!
//! A transaction that wants to run alone is a *waiter* in the queue, named by its *ticket*, and so is each commit that was
//! refused. A waiter is *ready*, except that an irrevocable transaction is not while operations are under way, and
//! neither is a commit behind it that starts operations. The *turn* is that of the first ready waiter. If all that is
//! ready are refused commits, the serial lock is open to them, and they keep their tickets until one of their attempts
//! commits; otherwise they run alone as well, each at its turn.
//!
//! # Who may touch what
//! The word's flags for closing and draining, the holder and the waiters are changed under the lock of the queue. The
//! serial lock is held only within one poll, or by a thread that does not sleep meanwhile: the poll that finds its turn
//! come takes the serial lock, closes it, runs the attempt, and gives the serial lock back before it returns. An
//! attempt that runs alone and loses to a deferred operation is repeated in the same poll; one that sleeps or waits for
//! a dependency gives the serial lock back before.
//!
//! # Why the holder commits
//! Closing sets the word, fences, and waits until no descriptor is between its first lock and its last unlock. A commit
//! locks, fences, and looks at the word. So no commit of another publishes anything from then until the serial lock
//! opens, apart from those of deferred operations, of which there are finitely many because only commits start new
//! ones. An irrevocable transaction takes the serial lock when it has counted no operation since it has begun to drain.
//! A commit counts its operations first, and then looks at the word, with a fence in between: so it is counted or
//! refused, and beside an irrevocable holder nothing is published at all.
//!
//! # Progress
//! * Places are taken in the order of their tickets, and a commit takes its ticket in the step that refuses it. So with
//!   `n` threads that run alone again and again it comes after at most `n` holders besides the one that has refused it.
//! * While an irrevocable transaction waits for operations, no commit behind it starts one, so that those under way are
//!   finitely many; all else passes it meanwhile.
//! * A thread at its turn is sure to come. A task may not be polled: a waiter behind it stands back a bounded number of
//!   times, which lets its executor poll the task, and then passes it. A waiter that was passed is *dormant*: it counts
//!   as absent until its task is polled again, and has kept its rank. So a task that is forgotten costs others a
//!   bounded number of yields once.
//! * A thread that is awake may run alone before older irrevocable threads that sleep, because waking one takes several
//!   times what most of them do at the serial lock. It does so only if nobody else is in the queue, so that the bound
//!   for commits holds, and a bounded number of times in a row: the first is called before, and waited for after that.
//!
//! An operation that is not polled keeps irrevocable transactions waiting, and commits that would start operations behind
//! these, but no other commit.
//!
//! # No lost wake-up
//! A waiter leaves its waker under the lock under which it finds that its turn has not come. Each step that can bring a
//! turn forward takes the wakers of all that can be next, under the same lock: the serial lock is given back, a waiter
//! is given up, passed or not ready any more, the last operation ends. The last is seen because an operation that ends
//! is counted out first and then looks at the word, with a fence in between, and the word says that somebody drains
//! before the operations are counted.
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::task::{Poll, Waker};

use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence, ordered};

use crate::domain::DOMAIN;
use crate::transaction::{Cause, Descriptor, Refused};
use crate::waking::wake_all;

const PRIORITY: u64 = 1;
const CLOSED: u64 = 2;
const DRAINING: u64 = 4;

/// So often does a transaction stand back for one that comes first: in a row for one with priority, in all for tasks in
/// front of it in the queue. More would be waiting for it.
const STAND_BACK_MAX: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 32 };

/// So often in a row do threads that are awake run alone before one that sleeps is called, and as often again while
/// that one is on its way: with two processors and four threads that append to open files (`enact-bench defer io`), one
/// lock around everything wakes a thread for each 13 operations.
const BARGED_BEFORE_CALL: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 1 } else { 32 };
const BARGED_MAX: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 64 };

pub(crate) struct SerialLock {
    word: CachePadded<AtomicU64>,
    /// A filter of what the transaction with priority has touched, and whether there is one.
    filter: AtomicU64,
    is_preferred: AtomicBool,
    /// Transactions that have committed and whose deferred operations and releases of locks have not ended.
    operations: CachePadded<AtomicU64>,
    queue: Mutex<Queue>,
}

struct Queue {
    /// The number of the last ticket.
    last: u64,
    /// The number of the holder's ticket.
    holder: Option<NonZeroU64>,
    /// How often in a row a thread that was awake has run alone before the first that was ready.
    barged: u32,
    /// In the order of their numbers, the holder's among them.
    waiters: VecDeque<Waiter>,
}

struct Waiter {
    number: NonZeroU64,
    purpose: Purpose,
    /// Its commit is known to start deferred operations.
    defers: bool,
    /// A thread waits at it, which comes when it is called.
    is_of_thread: bool,
    /// Its thread is awake, and looks again.
    is_awake: bool,
    /// It was passed because nobody came, and nobody has come since.
    is_dormant: bool,
    /// How often it has stood back for tasks.
    stood_back: u32,
    /// Of what waits at it, unless that was called.
    waker: Option<Waker>,
}

/// What a ticket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A commit that was refused: the serial lock has to be open.
    Commit,
    /// To run while nobody but deferred operations commits.
    Alone,
    /// To run while there is not even an operation under way.
    Irrevocable,
}

/// What a ticket is good for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The serial lock is open to it.
    Open,
    /// It holds the serial lock until [`SerialLock::give_back`] or [`SerialLock::wait_again`].
    Alone {
        /// It has passed no irrevocable transaction, so that its commit may start operations.
        may_defer: bool,
    },
    /// Others come first if they come soon: it is to let them run, and to ask again.
    StandBack,
}

/// The right to be stood back for, given up by [`SerialLock::forget`].
#[derive(Debug)]
pub(crate) struct Priority(());

/// The number of a waiter in the queue, given up by [`SerialLock::give_back`].
#[derive(Debug)]
pub(crate) struct Ticket(NonZeroU64);

/// What a commit leaves to be done right after it, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Underway(());

impl Underway {
    /// Called before the commit is over, so that nobody finds the serial lock's count at 0 in between.
    pub(crate) fn begin() -> Self {
        DOMAIN.serial_lock.operations.fetch_add(1, Ordering::AcqRel);
        Self(())
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        DOMAIN.serial_lock.operation_ends();
    }
}

impl SerialLock {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            filter: AtomicU64::new(0),
            is_preferred: AtomicBool::new(false),
            operations: CachePadded::new(AtomicU64::new(0)),
            queue: Mutex::new(Queue { last: 0, holder: None, barged: 0, waiters: VecDeque::new() }),
        }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            filter: AtomicU64::new(0),
            is_preferred: AtomicBool::new(false),
            operations: CachePadded::new(AtomicU64::new(0)),
            queue: Mutex::new(Queue { last: 0, holder: None, barged: 0, waiters: VecDeque::new() }),
        }
    }

    /// True if a commit has to ask [`admit`](Self::admit).
    #[inline]
    pub(crate) fn is_attended(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Lets a commit pass that has its locks, or not.
    #[cold]
    pub(crate) fn admit(&self, descriptor: &mut Descriptor) -> Result<(), Refused> {
        if cfg!(planted = "leave_the_serial_lock_open") {
            return Ok(());
        }
        let defers = descriptor.extras.starts_operations;
        if descriptor.alone {
            return if defers && !descriptor.may_defer { Err(Refused::Closed) } else { Ok(()) };
        }
        let word = self.word.load(Ordering::Acquire);
        let is_closed = word & CLOSED != 0 || (defers && word & DRAINING != 0);
        if is_closed && !descriptor.in_operation {
            return Err(Refused::Closed);
        }
        if word & PRIORITY != 0
            && !descriptor.has_priority
            && self.filter.load(Ordering::Relaxed) & descriptor.footprint_of_writes() != 0
            && !descriptor.attempt.is_multiple_of(STAND_BACK_MAX)
        {
            return Err(Refused::Conflict(Cause::StoodBack));
        }
        Ok(())
    }

    /// Announces what a starving transaction has touched. Only one has priority at a time: others go without.
    pub(crate) fn prefer(&self, priority: &mut Option<Priority>, descriptor: &Descriptor) {
        if priority.is_none() && !self.is_preferred.swap(true, Ordering::AcqRel) {
            *priority = Some(Priority(()));
        }
        if priority.is_some() {
            self.filter.store(descriptor.footprint(), Ordering::Relaxed);
            self.word.fetch_or(PRIORITY, Ordering::AcqRel);
        }
    }

    /// Ends a priority.
    pub(crate) fn forget(&self, _priority: Priority) {
        self.word.fetch_and(!PRIORITY, Ordering::AcqRel);
        self.is_preferred.store(false, Ordering::Release);
    }

    /// Enters the queue behind all others.
    pub(crate) fn ask(&self, purpose: Purpose, defers: bool, is_of_thread: bool) -> Ticket {
        let mut queue = self.queue.lock();
        queue.last += 1;
        let number = NonZeroU64::new(queue.last).expect("numbers begin with 1");
        let (is_awake, is_dormant, stood_back, waker) = (false, false, 0, None);
        queue.waiters.push_back(Waiter {
            number,
            purpose,
            defers,
            is_of_thread,
            is_awake,
            is_dormant,
            stood_back,
            waker,
        });
        Ticket(number)
    }

    /// Takes the ticket's turn, or leaves a waker that is called when it may have come.
    pub(crate) fn poll_turn(&self, ticket: &Ticket, waker: impl Fn() -> Waker) -> Poll<Turn> {
        self.poll_turn_and_leave(ticket, Some(waker()))
    }

    /// As [`poll_turn`](Self::poll_turn), of a thread that does not sleep and is sure to poll again.
    pub(crate) fn poll_turn_awake(&self, ticket: &Ticket) -> Poll<Turn> {
        self.poll_turn_and_leave(ticket, None)
    }

    /// True if somebody runs alone at the moment.
    pub(crate) fn is_held(&self) -> bool {
        self.word.load(Ordering::Acquire) & CLOSED != 0
    }

    /// True if no ticket is older.
    pub(crate) fn is_next(&self, ticket: &Ticket) -> bool {
        let queue = self.queue.lock();
        queue
            .waiters
            .iter()
            .find(|waiter| Some(waiter.number) != queue.holder)
            .is_some_and(|waiter| waiter.number == ticket.0)
    }

    // Wakers are of users: neither cloned nor dropped under a lock.
    fn poll_turn_and_leave(&self, ticket: &Ticket, mut waker: Option<Waker>) -> Poll<Turn> {
        let mut queue = self.queue.lock();
        let n = queue.index(ticket.0);
        queue.waiters[n].is_dormant = false;
        queue.waiters[n].is_awake = false;
        let is_quiet = self.drain(&queue);
        let turn = queue.turn_of(n, is_quiet);
        match turn {
            Some(Turn::Alone { .. }) => queue.holder = Some(ticket.0),
            Some(Turn::Open) => {}
            Some(Turn::StandBack) => queue.waiters[n].stood_back += 1,
            None => {
                queue.waiters[n].is_awake = waker.is_none();
                std::mem::swap(&mut queue.waiters[n].waker, &mut waker);
            }
        }
        let called = self.call(&mut queue);
        drop(queue);
        wake_all(called);
        if let Some(Turn::Alone { .. }) = turn {
            self.close();
        }
        turn.map_or(Poll::Pending, Poll::Ready)
    }

    /// Gives a ticket back, and with it the serial lock.
    pub(crate) fn give_back(&self, Ticket(number): Ticket) {
        let mut queue = self.queue.lock();
        if queue.holder == Some(number) {
            self.open(&mut queue);
        }
        let n = queue.index(number);
        let waiter = queue.waiters.remove(n);
        let called = self.call(&mut queue);
        drop(queue);
        drop(waiter);
        wake_all(called);
    }

    /// Keeps the ticket of a commit that was refused at its turn: it is known by then whether it starts operations.
    pub(crate) fn wait_again(&self, ticket: &Ticket, defers: bool) {
        let mut queue = self.queue.lock();
        if queue.holder == Some(ticket.0) {
            self.open(&mut queue);
        }
        let n = queue.index(ticket.0);
        queue.waiters[n].defers = defers;
        let called = self.call(&mut queue);
        drop(queue);
        wake_all(called);
    }

    fn close(&self) {
        self.word.fetch_or(CLOSED, Ordering::AcqRel);
        // Pairs with the fence of a commit that has its locks.
        fence(Ordering::SeqCst);
        for slot in DOMAIN.descriptors.slots() {
            slot.wait_for_commit();
        }
    }

    fn open(&self, queue: &mut Queue) {
        self.word.fetch_and(!CLOSED, Ordering::AcqRel);
        queue.holder = None;
    }

    /// Keeps commits from starting operations as long as somebody waits for the end of those under way. True if there are
    /// none.
    fn drain(&self, queue: &Queue) -> bool {
        let is_too_early =
            cfg!(planted = "count_operations_before_draining") && self.operations.load(Ordering::Acquire) == 0;
        let is_draining = self.word.load(Ordering::Relaxed) & DRAINING != 0;
        if queue.has_irrevocable() != is_draining {
            self.word.fetch_xor(DRAINING, Ordering::AcqRel);
            // Pairs with a commit, which counts its operations before it looks at the word, and with `operation_ends`.
            fence(Ordering::SeqCst);
        }
        is_too_early || self.operations.load(Ordering::Acquire) == 0
    }

    /// The wakers of all tickets that can be next: up to the first thread, because a task may not come.
    fn call(&self, queue: &mut Queue) -> Vec<Waker> {
        let is_quiet = self.drain(queue);
        if queue.holder.is_some() || cfg!(planted = "open_the_serial_lock_in_silence") {
            return Vec::new();
        }
        if queue.leaves_it_to_the_awake(is_quiet) {
            return Vec::new();
        }
        let is_open = queue.is_open(is_quiet);
        let mut called = Vec::new();
        for n in 0..queue.waiters.len() {
            if queue.is_ready(n, is_quiet) {
                called.extend(queue.waiters[n].waker.take());
                if queue.waiters[n].is_of_thread && !is_open {
                    break;
                }
            }
        }
        called
    }

    fn operation_ends(&self) {
        let was_last = self.operations.fetch_sub(1, Ordering::AcqRel) == 1;
        // Pairs with the fence of `drain`.
        ordered();
        if was_last && self.word.load(Ordering::Acquire) & DRAINING != 0 {
            let called = self.call(&mut self.queue.lock());
            wake_all(called);
        }
    }
}

impl Queue {
    fn index(&self, number: NonZeroU64) -> usize {
        let found = self.waiters.binary_search_by_key(&number, |waiter| waiter.number);
        found.expect("a waiter is in the queue until its ticket is given back")
    }

    fn has_irrevocable(&self) -> bool {
        self.is_behind_irrevocable(self.waiters.len())
    }

    fn is_behind_irrevocable(&self, n: usize) -> bool {
        self.waiters.range(..n).any(|waiter| waiter.purpose == Purpose::Irrevocable && !waiter.is_dormant)
    }

    fn is_ready(&self, n: usize, is_quiet: bool) -> bool {
        let waiter = &self.waiters[n];
        match waiter.purpose {
            _ if waiter.is_dormant => false,
            Purpose::Irrevocable => is_quiet,
            Purpose::Alone | Purpose::Commit => !waiter.defers || is_quiet || !self.is_behind_irrevocable(n),
        }
    }

    /// True if no waiter that is ready needs a turn of its own.
    fn is_open(&self, is_quiet: bool) -> bool {
        let is_draining = self.has_irrevocable();
        let needs_turn = |waiter: &Waiter| waiter.purpose != Purpose::Commit || (waiter.defers && is_draining);
        !(0..self.waiters.len()).any(|n| needs_turn(&self.waiters[n]) && self.is_ready(n, is_quiet))
    }

    /// True if a thread may run alone before older ones: among irrevocable threads only, so that no commit waits for
    /// more of them than stand before it.
    fn may_barge(&self) -> bool {
        let is_such = |waiter: &Waiter| waiter.purpose == Purpose::Irrevocable && waiter.is_of_thread;
        self.barged < BARGED_MAX && (self.waiters.iter().all(is_such) || cfg!(planted = "barge_past_commits"))
    }

    /// True if the next turn is that of a thread that is awake, which need not be waited for.
    fn leaves_it_to_the_awake(&self, is_quiet: bool) -> bool {
        let mut ready = (0..self.waiters.len()).filter(|n| self.is_ready(*n, is_quiet));
        self.barged < BARGED_BEFORE_CALL && self.may_barge() && ready.any(|n| self.waiters[n].is_awake)
    }

    /// What the ticket of a waiter is good for, or nothing. Passes tasks that have been stood back for often enough.
    fn turn_of(&mut self, n: usize, is_quiet: bool) -> Option<Turn> {
        if self.holder.is_some() || !self.is_ready(n, is_quiet) {
            return None;
        }
        if self.is_open(is_quiet) {
            return Some(Turn::Open);
        }
        let (may_barge, mut barges) = (self.may_barge(), false);
        let stands_back = self.waiters[n].stood_back < STAND_BACK_MAX;
        for before in 0..n {
            if self.is_ready(before, is_quiet) {
                match self.waiters[before].is_of_thread {
                    true if may_barge => barges = true,
                    true => return None,
                    false if stands_back => return Some(Turn::StandBack),
                    false if cfg!(planted = "wait_for_tasks_that_do_not_come") => return None,
                    false => self.waiters[before].is_dormant = true,
                }
            }
        }
        self.barged = if barges { self.barged + 1 } else { 0 };
        Some(Turn::Alone { may_defer: !self.is_behind_irrevocable(n) })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Calls(AtomicU32);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    impl Calls {
        fn count(&self) -> u32 {
            self.0.load(Ordering::Relaxed)
        }
    }

    /// Threads that are awake run alone one after the other, each asking before the one before it ends, until the one that
    /// is asked last has to wait. Gives how many did, and how many before `calls` was called first.
    fn barge(serial_lock: &SerialLock, holder: Ticket, calls: &Calls) -> (u32, u32) {
        let (mut holder, mut barged, mut uncalled) = (holder, 0, 0);
        loop {
            let next = serial_lock.ask(Purpose::Irrevocable, false, true);
            assert!(serial_lock.poll_turn_awake(&next).is_pending(), "another one holds the serial_lock");
            serial_lock.give_back(holder);
            uncalled += u32::from(calls.count() == 0);
            if serial_lock.poll_turn_awake(&next).is_pending() {
                serial_lock.give_back(next);
                return (barged, uncalled);
            }
            barged += 1;
            holder = next;
        }
    }

    #[test]
    fn a_thread_that_sleeps_is_called_and_then_waited_for_after_so_many_that_are_awake() {
        enact_sync::explore(1, || {
            let (serial_lock, calls) = (SerialLock::new(), Arc::new(Calls::default()));
            let holder = serial_lock.ask(Purpose::Irrevocable, false, true);
            assert!(serial_lock.poll_turn_awake(&holder).is_ready());
            let sleeps = serial_lock.ask(Purpose::Irrevocable, false, true);
            assert!(serial_lock.poll_turn(&sleeps, || Waker::from(Arc::clone(&calls))).is_pending());
            assert_eq!(barge(&serial_lock, holder, &calls), (BARGED_MAX, BARGED_BEFORE_CALL));
            assert_eq!(calls.count(), 1);
            assert!(serial_lock.poll_turn_awake(&sleeps).is_ready());
            serial_lock.give_back(sleeps);
        });
    }

    #[test]
    fn nobody_who_is_awake_runs_alone_before_a_commit_that_has_come_first() {
        enact_sync::explore(1, || {
            let (serial_lock, calls) = (SerialLock::new(), Arc::new(Calls::default()));
            let holder = serial_lock.ask(Purpose::Irrevocable, false, true);
            assert!(serial_lock.poll_turn_awake(&holder).is_ready());
            let commit = serial_lock.ask(Purpose::Commit, false, true);
            assert!(serial_lock.poll_turn(&commit, || Waker::from(Arc::clone(&calls))).is_pending());
            assert_eq!(barge(&serial_lock, holder, &calls), (0, 0));
            assert!(serial_lock.poll_turn_awake(&commit).is_ready());
            serial_lock.give_back(commit);
        });
    }

    #[test]
    fn the_first_is_called_if_the_one_that_is_awake_gives_up() {
        enact_sync::explore(1, || {
            let (serial_lock, calls) = (SerialLock::new(), Arc::new(Calls::default()));
            let [holder, sleeps, awake] = [(); 3].map(|()| serial_lock.ask(Purpose::Irrevocable, false, true));
            assert!(serial_lock.poll_turn_awake(&holder).is_ready());
            assert!(serial_lock.poll_turn(&sleeps, || Waker::from(Arc::clone(&calls))).is_pending());
            assert!(serial_lock.poll_turn_awake(&awake).is_pending());
            serial_lock.give_back(holder);
            assert_eq!(calls.count(), 0, "it is left to the one that is awake");
            serial_lock.give_back(awake);
            assert_eq!(calls.count(), 1);
            serial_lock.give_back(sleeps);
        });
    }
}
