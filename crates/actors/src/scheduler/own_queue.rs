//! One worker's queue: what comes next of it, what of it is worth waking others for, and what is taken from theirs.
//!
//! All that a worker decides is decided here or [beside](super::queues), by what it has counted and by a clock that it is
//! given. So what simulates a worker has the same decisions as a thread.
use std::time::{Duration, Instant};

use crossbeam_deque::{Steal, Worker as Deque};
use enact_sync::SpinLock;

use super::cost::{Costs, LastCost};
use super::crossing::Crossings;
use super::judge::Judge;
use super::policy::is_worth_a_move;
use super::queues::Queues;
use super::sleepers::Sleepers;
use super::{TURNS_PER_LOOK, is_model};

/// How many actors in a row are taken from the slot of the one just sent to, before those that wait longer have a turn.
pub(super) const SLOT_STREAK_MAX: u32 = 16;
/// How many turns of others one run may nest, about as many as it may take itself.
const NESTED_TURNS_MAX: usize = 128;
/// How long a run goes on while something from outside waits: much longer than what it costs to begin another.
const QUANTUM: Duration = Duration::from_micros(100);
/// How many batches, of some tens of actors at most, are taken from a worker that is stuck.
const BATCHES_MAX: u32 = 8;

/// What a worker is made of.
pub(crate) trait Machine {
    /// An actor that is runnable.
    type Task: Task;

    fn now() -> Instant;

    /// What the worker has met since it began.
    fn crossings() -> Crossings;
}

/// An actor that is runnable.
pub(crate) trait Task {
    /// What keeps the actor while it runs.
    type Actor: Clone;

    fn actor(&self) -> &Self::Actor;

    fn last_cost(actor: &Self::Actor) -> &LastCost;
}

pub(crate) struct OwnQueue<M: Machine> {
    pub(super) index: usize,
    pub(super) deque: Deque<M::Task>,
    pub(super) slot_streak: u32,
    /// How many actors from outside come next.
    due_outside: usize,
    /// How many of its own actors come after them, in the order of its queue.
    due_own: usize,
    /// When it was first seen that something from outside waits for the run that runs to end.
    wanted_since: Option<Instant>,
    /// How many turns have been nested in this run.
    nested: usize,
    pub(super) costs: Costs<M>,
    judge: Judge,
}

impl<M: Machine> OwnQueue<M> {
    /// `line` is what it costs that a cache line comes from another core.
    pub(super) fn new(index: usize, line: Duration) -> Self {
        Self {
            index,
            deque: Deque::new_fifo(),
            slot_streak: 0,
            due_outside: 0,
            due_own: 0,
            wanted_since: None,
            nested: 0,
            costs: Costs::new(line),
            judge: Judge::new(line),
        }
    }

    /// Makes an actor that was just sent to, or woken, the next one, unless runs are timed. Whether that was all.
    #[inline]
    pub(super) fn add_next<S>(
        &mut self,
        queues: &Queues<M::Task>,
        sleepers: &Sleepers<S>,
        task: &mut Option<M::Task>,
    ) -> bool {
        if self.costs.are_timed() {
            return false;
        }
        let displaced = std::mem::replace(&mut *queues.slots[self.index].lock(), task.take());
        if let Some(displaced) = displaced {
            self.deque.push(displaced);
        }
        !self.could_be_helped(sleepers)
    }

    /// Puts an actor that has used its batch up at the back of the queue, unless runs are timed. Whether that was all.
    #[inline]
    pub(super) fn add_last<S>(&mut self, sleepers: &Sleepers<S>, task: &mut Option<M::Task>) -> bool {
        if self.costs.are_timed() {
            return false;
        }
        task.take().into_iter().for_each(|task| self.deque.push(task));
        !self.could_be_helped(sleepers)
    }

    /// Whether somebody sleeps that would perhaps be glad of what is in the queue.
    #[inline]
    fn could_be_helped<S>(&self, sleepers: &Sleepers<S>) -> bool {
        sleepers.can_help() && (is_model() || !self.deque.is_empty())
    }

    /// Adds what was not added because runs are timed, by `add_timed`. Whether what waits here now is worth a wake-up.
    pub(super) fn finish_adding(
        &mut self,
        queues: &Queues<M::Task>,
        task: Option<M::Task>,
        add_timed: fn(&mut Self, &Queues<M::Task>, M::Task) -> bool,
    ) -> bool {
        match task {
            Some(task) => add_timed(self, queues, task),
            None => self.is_worth_a_wake_up(queues, 0),
        }
    }

    /// Makes an actor the next one where runs are timed. Returns whether what waits here now is worth a wake-up.
    pub(super) fn add_next_timed(&mut self, queues: &Queues<M::Task>, task: M::Task) -> bool {
        let (tail_ns, next_ns) = (self.costs.tail_of_running_ns(), self.costs.of(&task));
        let is_offered = is_worth_a_move(next_ns, tail_ns);
        queues.boards[self.index].offer_next(is_offered);
        let displaced = queues.slots[self.index].lock().replace(task);
        if let Some(displaced) = displaced {
            self.push_timed(queues, displaced);
        }
        is_offered || self.is_worth_a_wake_up(queues, tail_ns.saturating_add(next_ns))
    }

    /// Puts an actor at the back of the queue where runs are timed. Returns whether what waits here now is worth a wake-up.
    pub(super) fn add_last_timed(&mut self, queues: &Queues<M::Task>, task: M::Task) -> bool {
        let tail_ns = self.costs.tail_of_running_ns();
        self.push_timed(queues, task);
        self.is_worth_a_wake_up(queues, tail_ns)
    }

    fn push_timed(&mut self, queues: &Queues<M::Task>, task: M::Task) {
        self.costs.enqueue(self.costs.of(&task));
        self.deque.push(task);
        queues.boards[self.index].show_backlog(self.costs.backlog(self.deque.len()));
    }

    /// Whether the queue, in front of which there is so much else, is worth a wake-up.
    fn is_worth_a_wake_up(&self, queues: &Queues<M::Task>, ahead_ns: u64) -> bool {
        // It ends when this worker reads the clock next.
        let is_strict = queues.boards[self.index].strict_until() > 0;
        is_model() || self.costs.backlog(self.deque.len()).is_worth_a_wake_up(ahead_ns, is_strict)
    }

    /// Whether one more turn may be nested in the run that runs, which others wait behind.
    pub(super) fn may_nest(&mut self, queues: &Queues<M::Task>) -> bool {
        self.nested += 1;
        let looks = self.nested.is_multiple_of(TURNS_PER_LOOK);
        self.nested <= NESTED_TURNS_MAX && !(looks && self.is_wanted_outside(queues))
    }

    /// Whether the run that runs here has lasted for a quantum since something from outside began to wait, as far as this is
    /// asked.
    pub(super) fn is_wanted_outside(&mut self, queues: &Queues<M::Task>) -> bool {
        queues.is_waited_for() && {
            let now = M::now();
            now - *self.wanted_since.get_or_insert(now) >= QUANTUM
        }
    }

    /// Counts a run that is about to begin. The time, if the clock was read; others see it then.
    #[inline]
    pub(super) fn count(&mut self, queues: &Queues<M::Task>) -> Option<Instant> {
        self.nested = 0;
        let now = self.costs.count();
        if let Some(now) = now {
            self.beat(queues, now);
        }
        now
    }

    #[cold]
    #[inline(never)]
    fn beat(&mut self, queues: &Queues<M::Task>, now: Instant) {
        queues.watch.beat(self.index, now);
        if queues.boards.len() > 1 {
            self.show(queues, now);
        }
    }

    /// Lets other workers see what they go by.
    fn show(&mut self, queues: &Queues<M::Task>, now: Instant) {
        self.costs.time_if_long();
        let board = &queues.boards[self.index];
        board.show_backlog(self.costs.backlog(self.deque.len()));
        let now = queues.watch.micros(now);
        board.show_strict(self.judge.look(now, M::crossings(), board.strict_until()));
        if !self.costs.are_timed() {
            board.offer_next(false);
        }
    }

    /// The next actor that waits behind another worker's long run, from outside, or here; `now` if the clock was read.
    #[inline]
    pub(super) fn next(&mut self, queues: &Queues<M::Task>, now: Option<Instant>) -> Option<M::Task> {
        let is_due = now.filter(|&now| queues.watch.is_due(now));
        let held_up = is_due.and_then(|now| self.next_held_up(queues, now));
        held_up.or_else(|| self.next_here(queues))
    }

    /// The run of this actor begins.
    #[inline]
    pub(super) fn begin(&mut self, next: &M::Task) {
        self.costs.begin(next);
    }

    /// The worker has nothing to do from now on.
    pub(super) fn pause(&mut self, queues: &Queues<M::Task>, now: Instant) {
        self.costs.pause(now);
        self.judge.pause(queues.watch.micros(now));
    }

    /// The worker has found this actor, whose run begins.
    pub(super) fn resume(&mut self, queues: &Queues<M::Task>, next: &M::Task, now: Instant) {
        queues.watch.beat(self.index, now);
        self.costs.resume(now);
        self.judge.resume(queues.watch.micros(now));
        self.begin(next);
    }

    /// The worker goes on on another thread, which has counted other things.
    pub(super) fn change_thread(&mut self) {
        self.costs.change_thread();
        self.judge.change_thread();
    }

    /// One of the actors that wait behind the long run of another worker, if there are any. Those behind it come to the
    /// back of its queue, all of which is due then: what has waited waits for no streak.
    #[cold]
    #[inline(never)]
    fn next_held_up(&mut self, queues: &Queues<M::Task>, now: Instant) -> Option<M::Task> {
        let mut held_up = self.others(queues).filter(|&other| queues.is_held_up(other, now));
        held_up.find_map(|other| {
            let stealer = &queues.stealers[other];
            let first = insist(|| stealer.steal_batch_and_pop(&self.deque));
            if first.is_none() {
                return queues.slots[other].lock().take();
            }
            // Each takes no more than half.
            let more = (1..BATCHES_MAX).map_while(|_| insist(|| stealer.steal_batch(&self.deque)));
            more.for_each(drop);
            self.due_own = self.deque.len();
            first
        })
    }

    /// The next actor from outside or of its own.
    #[inline]
    fn next_here(&mut self, queues: &Queues<M::Task>) -> Option<M::Task> {
        let slot = &queues.slots[self.index];
        if (self.due_own > 0 || self.due_outside > 0 || queues.is_waited_for())
            && let Some(task) = self.next_in_shares(queues, slot)
        {
            return Some(task);
        }
        if self.slot_streak < SLOT_STREAK_MAX
            && let Some(task) = slot.lock().take()
        {
            self.slot_streak += 1;
            return Some(task);
        }
        self.slot_streak = 0;
        self.deque.pop().or_else(|| slot.lock().take())
    }

    /// The next actor while something from outside waits, or has waited until a moment ago.
    #[cold]
    #[inline(never)]
    fn next_in_shares(&mut self, queues: &Queues<M::Task>, slot: &SpinLock<Option<M::Task>>) -> Option<M::Task> {
        let own = if self.due_outside == 0 && self.due_own > 0 { self.next_due(slot) } else { None };
        own.or_else(|| self.next_from_outside(queues))
    }

    /// Takes the longest waiting of its own actors. None is taken twice while something from outside waits, so the slot's
    /// goes to the back.
    fn next_due(&mut self, slot: &SpinLock<Option<M::Task>>) -> Option<M::Task> {
        if let Some(task) = slot.lock().take() {
            self.deque.push(task);
        }
        self.due_own = self.due_own.min(self.deque.len()).saturating_sub(1);
        self.deque.pop()
    }

    /// Takes an actor from outside. As many as wait when the first is taken come in a row, and then as many of its own.
    fn next_from_outside(&mut self, queues: &Queues<M::Task>) -> Option<M::Task> {
        self.wanted_since = None;
        if self.due_outside == 0 && queues.is_waited_for() {
            self.due_outside = queues.injector.len();
        }
        if self.due_outside == 0 {
            return None;
        }
        let task = inject(queues);
        if task.is_some() {
            self.due_outside -= 1;
            self.due_own += 1;
        } else {
            // Others have taken the rest.
            self.due_outside = 0;
        }
        task
    }

    /// Looks around once for work from outside, or in the queue of another worker, that is worth taking at this time.
    pub(super) fn look_around(&self, queues: &Queues<M::Task>, now: Instant) -> Option<M::Task> {
        inject(queues).or_else(|| {
            let mut owners = self.others(queues).filter(|&other| queues.is_queue_worth_a_theft(self.index, other, now));
            owners.find_map(|owner| insist(|| queues.stealers[owner].steal_batch_and_pop(&self.deque)))
        })
    }

    /// Takes what another worker would run next. That comes last: its owner is about to take it, unless its present turn is
    /// long.
    pub(super) fn take_next_of_another(&self, queues: &Queues<M::Task>, now: Instant) -> Option<M::Task> {
        let mut owners = self.others(queues).filter(|&other| queues.is_next_worth_a_theft(self.index, other, now));
        let found = owners.find_map(|owner| queues.slots[owner].lock().take());
        if found.is_none() {
            queues.have_others_be_as_strict(self.index, now);
        }
        found
    }

    /// The other workers, the next one first.
    fn others(&self, queues: &Queues<M::Task>) -> impl Iterator<Item = usize> + use<M> {
        let (own, workers) = (self.index, queues.stealers.len());
        (1..workers).map(move |offset| (own + offset) % workers)
    }
}

/// Takes an actor from outside, and leaves the next ones to workers that are free before this one is done.
fn inject<T>(queues: &Queues<T>) -> Option<T> {
    insist(|| queues.injector.steal())
}

fn insist<T>(mut steal: impl FnMut() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(taken) => return Some(taken),
            Steal::Empty => return None,
            Steal::Retry => enact_sync::hint::spin_loop(),
        }
    }
}
