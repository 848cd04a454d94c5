//! What messages between workers cost, counted.
//!
//! A mailbox *crosses* when its lock is taken by another worker than the one before: its lines and those of the messages
//! come from another core. One byte of the mailbox says which worker it was. To wait for a lock that another one holds
//! costs about as much again. A [`judge`](super::judge) says whether that is too much.
use std::cell::Cell;
use std::time::Duration;

/// How many workers in turn are told apart, beside all other threads.
pub(super) const NOBODY: u8 = u8::MAX;

/// How many half lines a mailbox that crosses takes along: its own, that of a message, and often that of its actor.
const HALF_LINES_PER_CROSSING: u64 = 5;
/// How many half lines could cross while somebody waits for a lock.
const HALF_LINES_PER_WAIT: u64 = 4;

/// What a thread has met since it began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crossings {
    pub(super) mailboxes: u32,
    /// How many of these came from another worker than the one before.
    pub(super) changes: u32,
    /// Which worker the last one came from.
    last: u8,
    pub(super) waits: u32,
}

impl Crossings {
    pub(super) const NONE: Self = Self { mailboxes: 0, changes: 0, last: NOBODY, waits: 0 };

    /// A mailbox has crossed that this worker had.
    pub(super) fn add(&mut self, from: u8) {
        self.mailboxes = self.mailboxes.wrapping_add(1);
        if std::mem::replace(&mut self.last, from) != from {
            self.changes = self.changes.wrapping_add(1);
        }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            mailboxes: self.mailboxes.wrapping_sub(before.mailboxes),
            changes: self.changes.wrapping_sub(before.changes),
            last: self.last,
            waits: self.waits.wrapping_sub(before.waits),
        }
    }

    /// How many workers they come from, if all are met equally often: then each has come before with the same chance.
    pub(super) fn partners(self) -> u32 {
        self.mailboxes / self.mailboxes.saturating_sub(self.changes).max(1)
    }

    /// What they have cost, if a line costs so much.
    pub(super) fn cost(self, line: Duration) -> Duration {
        let halves = u64::from(self.mailboxes) * HALF_LINES_PER_CROSSING + u64::from(self.waits) * HALF_LINES_PER_WAIT;
        Duration::from_nanos(u64::try_from(line.as_nanos()).unwrap_or(u64::MAX).saturating_mul(halves) / 2)
    }
}

thread_local! {
    /// The worker that this thread is.
    static WORKER: Cell<u8> = const { Cell::new(NOBODY) };
    static COUNTED: Cell<Crossings> = const { Cell::new(Crossings::NONE) };
}

/// This thread is that worker from now on.
pub(super) fn count_for(worker: usize) {
    WORKER.set(in_short(worker));
}

pub(super) const fn in_short(worker: usize) -> u8 {
    (worker % NOBODY as usize) as u8
}

/// What this thread has met since it began.
pub(super) fn counted() -> Crossings {
    COUNTED.get()
}

/// A thread had to wait for the lock of a mailbox.
#[cfg(not(any(enact_loom, enact_shuttle)))]
pub(crate) fn count_wait() {
    let counted = COUNTED.get();
    COUNTED.set(Crossings { waits: counted.waits.wrapping_add(1), ..counted });
}

/// Which worker has taken the lock of a mailbox last.
#[derive(Debug)]
pub(crate) struct LastWorker(u8);

impl LastWorker {
    pub(crate) const NOBODY: Self = Self(NOBODY);

    /// This thread has taken the lock.
    #[inline]
    pub(crate) fn touch(&mut self) {
        let worker = WORKER.get();
        if self.0 != worker {
            self.cross_to(worker);
        }
    }

    /// That worker has taken the lock, if it is one. The worker that the mailbox comes from, if it crosses.
    #[inline]
    pub(super) fn change_to(&mut self, worker: u8) -> Option<u8> {
        let before = std::mem::replace(&mut self.0, worker);
        (before != worker && before != NOBODY && worker != NOBODY).then_some(before)
    }

    #[cold]
    fn cross_to(&mut self, worker: u8) {
        if let Some(before) = self.change_to(worker) {
            let mut counted = COUNTED.get();
            counted.add(before);
            COUNTED.set(counted);
        }
    }
}
