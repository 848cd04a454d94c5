//! What runnable actors wait in, and what workers may take of each other.
use std::time::Instant;

use crossbeam_deque::{Injector, Stealer, Worker as Deque};
use crossbeam_utils::CachePadded;
use enact_sync::SpinLock;

use super::board::Board;
use super::is_model;
use super::policy::Backlog;
use super::watch::Watch;

pub(crate) struct Queues<T> {
    /// What comes from outside.
    pub(super) injector: Injector<T>,
    pub(super) stealers: Vec<Stealer<T>>,
    /// What each worker runs next.
    pub(super) slots: Vec<CachePadded<SpinLock<Option<T>>>>,
    pub(super) watch: Watch,
    /// What each worker lets others see of itself.
    pub(super) boards: Vec<CachePadded<Board>>,
}

impl<T> Queues<T> {
    /// Those of workers that have these.
    pub(super) fn of<'a>(deques: impl Iterator<Item = &'a Deque<T>>, began: Instant) -> Self
    where
        T: 'a,
    {
        let stealers: Vec<Stealer<T>> = deques.map(Deque::stealer).collect();
        Self {
            injector: Injector::new(),
            slots: stealers.iter().map(|_| CachePadded::new(SpinLock::new(None))).collect(),
            watch: Watch::new(stealers.len(), began),
            boards: stealers.iter().map(|_| CachePadded::default()).collect(),
            stealers,
        }
    }

    /// Whether something from outside waits.
    #[inline]
    pub(super) fn is_waited_for(&self) -> bool {
        !self.injector.is_empty()
    }

    /// Whether an actor waits behind the long run of this worker.
    pub(super) fn is_held_up(&self, worker: usize, now: Instant) -> bool {
        self.watch.is_stuck(worker, now) && (!self.stealers[worker].is_empty() || self.slots[worker].lock().is_some())
    }

    /// Whether something waits that is worth getting up for: `thief` finds it then.
    pub(super) fn have_work_for(&self, thief: usize, now: Instant) -> bool {
        let is_worth_it = |owner: usize| {
            let backlog = self.backlog_of(owner);
            let may_wait = !self.boards[owner].offers_next() && !self.watch.is_stuck(owner, now);
            backlog.is_worth_a_theft(self.are_strict(thief, owner, now))
                || (!may_wait && (backlog.len > 0 || self.slots[owner].lock().is_some()))
        };
        let mut others = (0..self.stealers.len()).filter(|&other| other != thief);
        self.is_waited_for() || if is_model() { self.have_work() } else { others.any(is_worth_it) }
    }

    /// Whether `thief`, which is awake, may take from the queue of `owner`.
    pub(super) fn is_queue_worth_a_theft(&self, thief: usize, owner: usize, now: Instant) -> bool {
        let is_strict = self.are_strict(thief, owner, now);
        is_model() || self.backlog_of(owner).is_worth_a_theft(is_strict) || self.watch.is_stuck(owner, now)
    }

    /// Whether it may take what `owner` would run next.
    pub(super) fn is_next_worth_a_theft(&self, thief: usize, owner: usize, now: Instant) -> bool {
        let is_strict = self.are_strict(thief, owner, now);
        is_model() || !is_strict || self.boards[owner].offers_next() || self.watch.is_stuck(owner, now)
    }

    fn backlog_of(&self, owner: usize) -> Backlog {
        self.boards[owner].backlog(self.stealers[owner].len())
    }

    fn are_strict(&self, thief: usize, owner: usize, now: Instant) -> bool {
        let now = self.watch.micros(now);
        [thief, owner].into_iter().any(|worker| self.boards[worker].strict_until() > now)
    }

    /// Has those be strict as long as `thief` whose work it does not take because it is: they would wake it for nothing.
    pub(super) fn have_others_be_as_strict(&self, thief: usize, now: Instant) {
        let until = self.boards[thief].strict_until();
        if until <= self.watch.micros(now) {
            return;
        }
        for (other, board) in self.boards.iter().enumerate() {
            let backlog = self.backlog_of(other);
            if board.strict_until() < until && backlog.is_worth_a_theft(false) && !backlog.is_worth_a_theft(true) {
                board.show_strict(until);
            }
        }
    }

    pub(super) fn have_queued_work(&self) -> bool {
        self.is_waited_for() || self.stealers.iter().any(|stealer| !stealer.is_empty())
    }

    pub(super) fn have_work(&self) -> bool {
        self.have_queued_work() || self.slots.iter().any(|slot| slot.lock().is_some())
    }
}
