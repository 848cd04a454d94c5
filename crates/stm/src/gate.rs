//! The gate that every writing commit passes: who has lost too often comes first, and finally runs alone.
//!
//! # States
//! The word is 0 as long as nobody needs anything, which is all that an ordinary commit looks at. [`PRIORITY`]: a starving
//! transaction has published a filter of what it read and wrote; commits that meet it stand back a few times. [`CLOSED`]:
//! one transaction runs alone; commits of others wait until it has ended. [`EXCLUSIVE`], with `CLOSED`: it must not even
//! be disturbed by deferred operations, so it waits until those under way have ended.
//!
//! # Why whoever runs alone commits
//! Closing sets the word, fences, and waits until no worker is between its first lock and its last unlock. A commit locks,
//! fences, and looks at the word. So no commit of another publishes anything from then until the gate opens, apart from
//! those of deferred operations, of which there are finitely many because only commits start new ones.
//!
//! # Progress
//! The holder waits for nothing but deferred operations, which may commit. Holders follow each other in the order in which
//! they asked.
use crate::domain::DOMAIN;
use crate::transaction::{Cause, Refused, Worker};
use crate::waking::wake_all;
use crossbeam_utils::CachePadded;
use enact_sync::atomic::{AtomicBool, AtomicU64, Ordering, fence, ordered};
use enact_sync::{Arc, Mutex};
use std::collections::VecDeque;
use std::task::{Poll, Waker};

const PRIORITY: u64 = 1;
const CLOSED: u64 = 2;
const EXCLUSIVE: u64 = 4;

/// So often in a row does a transaction stand back for one with priority: more would be waiting for it.
const STAND_BACK_MAX: u32 = 32;

pub(crate) struct Gate {
    word: CachePadded<AtomicU64>,
    /// A filter of what the transaction with priority has touched, and whether there is one.
    filter: AtomicU64,
    is_preferred: AtomicBool,
    /// Transactions that have committed and whose deferred operations and releases of locks have not ended.
    operations: CachePadded<AtomicU64>,
    queue: Mutex<Queue>,
}

struct Queue {
    is_held: bool,
    next: VecDeque<Arc<Ticket>>,
    /// Commits that wait until the gate is open, and a holder that waits for operations to end.
    blocked: Vec<Waker>,
}

/// The right to be stood back for, given up by [`Gate::forget`].
#[derive(Debug)]
pub(crate) struct Priority(());

/// A place in the queue of those who want to run alone.
#[derive(Debug)]
pub(crate) struct Ticket(Mutex<Turn>);

#[derive(Debug)]
enum Turn {
    Waiting(Option<Waker>),
    Granted,
    GivenUp,
}

/// What a commit leaves to be done right after it, counted until this is dropped.
#[derive(Debug)]
pub(crate) struct Underway(());

impl Underway {
    /// Called before the commit is over, so that nobody finds the gate's count at 0 in between.
    pub(crate) fn begin() -> Self {
        DOMAIN.gate.operations.fetch_add(1, Ordering::AcqRel);
        Self(())
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        DOMAIN.gate.operation_ends();
    }
}

impl Gate {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            filter: AtomicU64::new(0),
            is_preferred: AtomicBool::new(false),
            operations: CachePadded::new(AtomicU64::new(0)),
            queue: Mutex::new(Queue { is_held: false, next: VecDeque::new(), blocked: Vec::new() }),
        }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self {
            word: CachePadded::new(AtomicU64::new(0)),
            filter: AtomicU64::new(0),
            is_preferred: AtomicBool::new(false),
            operations: CachePadded::new(AtomicU64::new(0)),
            queue: Mutex::new(Queue { is_held: false, next: VecDeque::new(), blocked: Vec::new() }),
        }
    }

    /// True if a commit has to ask [`admit`](Self::admit).
    #[inline]
    pub(crate) fn is_attended(&self) -> bool {
        self.word.load(Ordering::Relaxed) != 0
    }

    /// Lets a commit pass that has its locks, or not.
    #[cold]
    pub(crate) fn admit(&self, worker: &mut Worker) -> Result<(), Refused> {
        if worker.alone || cfg!(plant = "leave_the_gate_open") {
            return Ok(());
        }
        let word = self.word.load(Ordering::Acquire);
        if word & CLOSED != 0 && !worker.in_operation {
            return Err(Refused::Closed);
        }
        if word & PRIORITY != 0
            && !worker.has_priority
            && self.filter.load(Ordering::Relaxed) & worker.footprint_of_writes() != 0
            && !worker.attempt.is_multiple_of(STAND_BACK_MAX)
        {
            return Err(Refused::Conflict(Cause::StoodBack));
        }
        Ok(())
    }

    /// Announces what a starving transaction has touched. Only one has priority at a time: others go without.
    pub(crate) fn prefer(&self, priority: &mut Option<Priority>, worker: &Worker) {
        if priority.is_none() && !self.is_preferred.swap(true, Ordering::AcqRel) {
            *priority = Some(Priority(()));
        }
        if priority.is_some() {
            self.filter.store(worker.footprint(), Ordering::Relaxed);
            self.word.fetch_or(PRIORITY, Ordering::AcqRel);
        }
    }

    /// Ends a priority.
    pub(crate) fn forget(&self, _priority: Priority) {
        self.word.fetch_and(!PRIORITY, Ordering::AcqRel);
        self.is_preferred.store(false, Ordering::Release);
    }

    /// Asks to run alone.
    pub(crate) fn ask(&self) -> Arc<Ticket> {
        let mut queue = self.queue.lock();
        let turn = if queue.is_held { Turn::Waiting(None) } else { Turn::Granted };
        let ticket = Arc::new(Ticket(Mutex::new(turn)));
        if queue.is_held {
            queue.next.push_back(Arc::clone(&ticket));
        } else {
            queue.is_held = true;
        }
        ticket
    }

    /// Waits for the ticket's turn and for the commits under way; with `exclusive`, also for deferred operations.
    pub(crate) fn poll_closed(&self, ticket: &Ticket, exclusive: bool, waker: impl Fn() -> Waker) -> Poll<()> {
        // Wakers are of users: neither cloned nor dropped under a lock.
        let mut known = Some(waker());
        match &mut *ticket.0.lock() {
            Turn::Granted => {}
            Turn::Waiting(place) => {
                std::mem::swap(place, &mut known);
                return Poll::Pending;
            }
            Turn::GivenUp => unreachable!("a ticket is not used after it was given up"),
        }
        let flags = if exclusive { CLOSED | EXCLUSIVE } else { CLOSED };
        if self.word.load(Ordering::Acquire) & flags != flags {
            self.word.fetch_or(flags, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            for slot in DOMAIN.workers.slots() {
                slot.wait_for_commit();
            }
        }
        if exclusive && self.operations.load(Ordering::Acquire) != 0 {
            let waker = waker();
            self.queue.lock().blocked.push(waker);
            // Looked at again: the last operation may have ended before the waker was there.
            if self.operations.load(Ordering::Acquire) != 0 {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    }

    /// Gives a ticket back: the gate passes on to the next in the queue, or opens.
    pub(crate) fn give_back(&self, ticket: &Ticket) {
        let mut queue = self.queue.lock();
        let turn = std::mem::replace(&mut *ticket.0.lock(), Turn::GivenUp);
        let Turn::Granted = turn else { return };
        loop {
            let Some(next) = queue.next.pop_front() else { break };
            let mut turn = next.0.lock();
            if let Turn::Waiting(waker) = &mut *turn {
                let waker = waker.take();
                *turn = Turn::Granted;
                drop(turn);
                self.word.fetch_and(!EXCLUSIVE, Ordering::AcqRel);
                drop(queue);
                wake_all(waker);
                return;
            }
        }
        queue.is_held = false;
        self.word.fetch_and(!(CLOSED | EXCLUSIVE), Ordering::AcqRel);
        let blocked = std::mem::take(&mut queue.blocked);
        drop(queue);
        wake_all(blocked);
    }

    /// Waits until nobody runs alone.
    pub(crate) fn poll_open(&self, waker: impl Fn() -> Waker) -> Poll<()> {
        let waker = waker();
        let mut queue = self.queue.lock();
        if !queue.is_held {
            return Poll::Ready(());
        }
        queue.blocked.push(waker);
        Poll::Pending
    }

    fn operation_ends(&self) {
        let was_last = self.operations.fetch_sub(1, Ordering::AcqRel) == 1;
        // Pairs with the fence of `poll_closed`: it sees the last operation ended, or is seen here.
        ordered();
        if was_last && self.word.load(Ordering::Acquire) & EXCLUSIVE != 0 {
            let blocked = std::mem::take(&mut self.queue.lock().blocked);
            wake_all(blocked);
        }
    }
}
