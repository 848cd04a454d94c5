//! What happens between attempts.
use super::timer::Alarm;
use super::{Atomically, Body, Nap, Stage, Verdict};
use crate::context;
use crate::defer::AfterCommit;
use crate::domain::DOMAIN;
use crate::fate::Decision;
use crate::gate::Underway;
use crate::hooks::Retracted;
use crate::sleepers::Sleeper;
use crate::transaction::{Cause, Mode, Reason, Refused, Tx, Worker};
use enact_sync::{Arc, hint, thread};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Poll, Waker};
use std::time::Instant;

/// After so many attempts lost to others a transaction gets priority.
const LOSSES_BEFORE_PRIORITY: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 8 };

/// After so many it runs alone.
const LOSSES_BEFORE_ALONE: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 3 } else { 64 };

/// How a transaction that has lost gives way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Patience {
    /// It has its thread for itself.
    Thread,
    /// It shares its thread with other tasks, and lets them run.
    Task,
}

/// A worker in an attempt. Dropping it rolls the attempt back, which is what a panic does.
pub(super) struct Attempt {
    worker: Option<Box<Worker>>,
    /// This thread is marked as inside the transaction.
    is_inside: bool,
}

impl Attempt {
    /// Begins an attempt on this thread, inside the transaction until [`leave`](Self::leave).
    #[inline]
    pub(super) fn enter() -> Self {
        Self { worker: Some(context::enter()), is_inside: true }
    }

    /// Goes on with an attempt that was suspended.
    pub(super) fn resume(worker: Box<Worker>) -> Self {
        Self { worker: Some(worker), is_inside: false }
    }

    /// Marks this thread as inside the transaction, whose functions may still have to run.
    pub(super) fn enter_again(&mut self) {
        self.is_inside = context::enter_again();
    }

    #[inline]
    pub(super) fn worker(&mut self) -> &mut Worker {
        self.worker.as_mut().expect("the worker is there until the attempt is finished")
    }

    /// From here on code of the user may start transactions.
    #[inline]
    pub(super) fn leave(&mut self) {
        if std::mem::take(&mut self.is_inside) {
            context::leave();
        }
    }

    /// Ends the attempt; what was not published is gone.
    #[inline]
    pub(super) fn finish(mut self) {
        if let Some(mut worker) = self.worker.take() {
            if worker.runs_code_at_its_end() {
                self.leave();
            }
            worker.end();
            worker.clean();
            if self.is_inside {
                context::finish(worker);
            } else {
                context::give_back(worker);
            }
            self.is_inside = false;
        }
    }

    /// The worker with its logs, to go on with the attempt later.
    fn suspend(mut self) -> Box<Worker> {
        self.worker.take().expect("the worker is there until the attempt is finished")
    }

    #[cold]
    fn roll_back(&mut self) {
        if let Some(mut worker) = self.worker.take() {
            if std::thread::panicking() {
                worker.slot.counters.panics.add_one();
            }
            worker.step_down();
            let decided = catch_unwind(AssertUnwindSafe(|| worker.decide_abort()));
            worker.end();
            worker.kept.clear();
            context::give_back(worker);
            if let Err(panic) = decided
                && !std::thread::panicking()
            {
                resume_unwind(panic);
            }
        }
    }
}

impl Drop for Attempt {
    #[inline]
    fn drop(&mut self) {
        self.leave();
        if self.worker.is_some() {
            self.roll_back();
        }
    }
}

/// What to do after a step.
enum Next<O> {
    Loop,
    Wait,
    Done(Result<O, Retracted>),
}

impl<'env, B: Body<'env, Output = O>, O> Atomically<'env, B, O> {
    /// Goes on until the transaction is over, or has to wait: then a waker has been left where it will be woken.
    pub(super) fn drive(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Poll<Result<O, Retracted>> {
        loop {
            let next = match std::mem::replace(&mut self.stage, Stage::Over) {
                Stage::Ready => self.try_once(patience, waker),
                Stage::Asleep(nap) => self.sleep(nap, patience, waker),
                Stage::Finished { worker, verdict } => self.resume(worker, verdict, patience, waker),
                Stage::Outside => self.wait_outside(waker),
                Stage::Queued => self.queue(waker),
                Stage::Committed { after, output } => self.follow_up(after, output, waker),
                Stage::Over => panic!("a transaction was polled after it was over"),
            };
            match next {
                Next::Loop => {}
                Next::Wait => return Poll::Pending,
                Next::Done(result) => return Poll::Ready(result),
            }
        }
    }

    /// When the transaction wants to be driven again even if nothing wakes it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Asleep(nap) => nap.deadline,
            _ => None,
        }
    }

    /// One attempt.
    #[inline]
    pub(super) fn try_once_on_thread(&mut self) -> Option<Result<O, Retracted>> {
        match self.try_once(Patience::Thread, &|| unreachable!("an attempt that does not wait needs no waker")) {
            Next::Done(result) => Some(result),
            Next::Loop | Next::Wait => None,
        }
    }

    #[inline]
    fn try_once(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
        let mut attempt = Attempt::enter();
        self.attempts = self.attempts.wrapping_add(1);
        let worker = attempt.worker();
        worker.attempt = self.attempts;
        worker.mode = self.mode;
        worker.extras.owner = self.owner;
        // Also in a later attempt: the transaction may have slept on another thread before.
        if worker.is_dependent {
            self.adopt_dependency();
        }
        if self.attempts > 1 {
            self.prepare(worker);
        }
        let body = &self.body;
        attempt.worker().begin();
        match body.attempt(&mut Tx::new(attempt.worker())) {
            Ok(verdict) => match attempt.worker().aborted {
                None => self.conclude(attempt, verdict, patience, waker),
                Some(reason) => self.give_up(attempt, reason, patience, waker),
            },
            Err(abort) => self.give_up(attempt, abort.0, patience, waker),
        }
    }

    /// Takes over what this thread's transactions depend on, if that is still open.
    #[cold]
    fn adopt_dependency(&mut self) {
        if self.dependency.is_none() {
            self.dependency = context::dependency().filter(|fate| fate.decision() != Some(Decision::Committed));
        }
    }

    /// Hands over what this transaction has so far.
    #[cold]
    fn prepare(&mut self, worker: &mut Worker) {
        std::mem::swap(&mut worker.kept, &mut self.kept);
        worker.alone = self.ticket.is_some();
        worker.has_priority = self.priority.is_some();
        worker.is_irrevocable = self.ticket.is_some() && self.exclusive;
        if worker.alone {
            worker.slot.counters.alone.add_one();
        } else if worker.has_priority {
            worker.slot.counters.prioritised.add_one();
        }
    }

    /// The closure has ended: commits, unless that has to wait.
    #[inline]
    fn conclude(
        &mut self,
        mut attempt: Attempt,
        verdict: Verdict<O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        if let Some(fate) = &self.dependency {
            debug_assert!(
                attempt.worker().has_only_fates_younger_than(fate),
                "a dependency is older than its dependent"
            );
            match fate.decision() {
                None if cfg!(plant = "commit_before_the_dependency") => {}
                None => {
                    // Nobody stands back for who cannot go on.
                    attempt.worker().step_down();
                    self.step_down();
                    self.stage = Stage::Finished { worker: attempt.suspend(), verdict };
                    return Next::Loop;
                }
                Some(Decision::Aborted) => return self.retract(attempt),
                Some(Decision::Committed) => {
                    if let Err(abort) = attempt.worker().catch_up() {
                        return self.give_up(attempt, abort.0, patience, waker);
                    }
                }
            }
        }
        let output = match verdict {
            Verdict::Commit(output) => output,
            Verdict::RollBack(output) => return self.roll_back(attempt, output),
        };
        let is_busy = attempt.worker().is_busy();
        let is_snapshot = attempt.worker().mode != Mode::Logged;
        let only_reads = attempt.worker().only_reads();
        let has_follow_up = is_busy && attempt.worker().has_follow_up(self.owner.is_none());
        let underway = has_follow_up.then(Underway::begin);
        match attempt.worker().commit() {
            Ok(waited) => {
                if waited {
                    attempt.leave();
                    attempt.worker().wake();
                }
                let counters = &attempt.worker().slot.counters;
                if only_reads {
                    counters.read_only_commits.add_one();
                    if is_snapshot {
                        counters.snapshots.add_one();
                    }
                } else {
                    counters.commits.add_one();
                }
                if is_busy || self.attempts > 1 {
                    return self.after_commit(attempt, output, underway);
                }
                attempt.finish();
                Next::Done(Ok(output))
            }
            Err(refused) => {
                drop(underway);
                match refused {
                    Refused::Conflict(cause) => self.give_up(attempt, Reason::Conflict(cause), patience, waker),
                    Refused::Closed if attempt.worker().has_fates() => self.stay_outside(attempt),
                    Refused::Closed => {
                        self.stage = Stage::Finished { worker: attempt.suspend(), verdict: Verdict::Commit(output) };
                        Next::Loop
                    }
                }
            }
        }
    }

    /// Ends the attempt whose writes are visible, and sees what else there is to do.
    #[cold]
    fn after_commit(&mut self, mut attempt: Attempt, output: O, underway: Option<Underway>) -> Next<O> {
        attempt.leave();
        let worker = attempt.worker();
        // Kept before any effect runs: if one panics, the operations are carried through all the same.
        let output = match AfterCommit::take(worker, self.owner.is_none(), underway) {
            None => Some(output),
            Some(after) => {
                self.stage = Stage::Committed { after, output };
                None
            }
        };
        worker.decide_commit();
        worker.kept.clear();
        worker.step_down();
        attempt.finish();
        self.step_down();
        output.map_or(Next::Loop, |output| Next::Done(Ok(output)))
    }

    /// The user wants nothing of it to have happened.
    #[cold]
    fn roll_back(&mut self, mut attempt: Attempt, output: O) -> Next<O> {
        let worker = attempt.worker();
        worker.slot.counters.errors.add_one();
        self.leave(attempt);
        self.step_down();
        Next::Done(Ok(output))
    }

    /// What this transaction depends on never happened.
    #[cold]
    fn retract(&mut self, mut attempt: Attempt) -> Next<O> {
        attempt.worker().slot.counters.retracted.add_one();
        self.leave(attempt);
        self.step_down();
        Next::Done(Err(Retracted))
    }

    /// Ends an attempt that has no effect; what it keeps stays with the transaction.
    #[cold]
    fn leave(&mut self, mut attempt: Attempt) {
        attempt.leave();
        let worker = attempt.worker();
        worker.decide_abort();
        std::mem::swap(&mut worker.kept, &mut self.kept);
        worker.kept.clear();
        worker.step_down();
        attempt.finish();
    }

    /// The attempt has failed: finds out when to try again.
    #[cold]
    fn give_up(
        &mut self,
        mut attempt: Attempt,
        reason: Reason,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        let worker = attempt.worker();
        let counters = &worker.slot.counters;
        match reason {
            Reason::Conflict(cause) => {
                assert!(!worker.is_irrevocable, "an irrevocable transaction met a conflict: {cause:?}");
                match cause {
                    Cause::Locked => counters.aborts_locked.add_one(),
                    Cause::Changed => counters.aborts_changed.add_one(),
                    Cause::StoodBack => counters.aborts_stood_back.add_one(),
                }
                if cause != Cause::StoodBack {
                    self.losses += 1;
                }
                if worker.only_reads() && !worker.is_busy() && self.may_read_past && self.dependency.is_none() {
                    self.mode = Mode::Snapshot;
                }
                if self.losses >= LOSSES_BEFORE_PRIORITY {
                    DOMAIN.gate.prefer(&mut self.priority, worker);
                }
                let random = worker.next_random();
                // Who runs alone waits for deferred operations, so these cannot wait for their turn to run alone.
                let may_queue = self.ticket.is_none() && !worker.in_operation;
                self.leave(attempt);
                if self.losses >= LOSSES_BEFORE_ALONE && may_queue {
                    self.stage = Stage::Queued;
                    return Next::Loop;
                }
                self.stage = Stage::Ready;
                self.back_off(random, patience, waker)
            }
            Reason::NeedsLog => {
                (self.mode, self.may_read_past) = (Mode::Logged, false);
                self.leave(attempt);
                self.stage = Stage::Ready;
                Next::Loop
            }
            Reason::NeedsAlone => {
                assert!(
                    context::operation().is_none(),
                    "a deferred operation asked to run alone, which waits for deferred operations to end"
                );
                self.exclusive = true;
                self.leave(attempt);
                self.stage = Stage::Queued;
                Next::Loop
            }
            Reason::Retry => self.fall_asleep(attempt),
        }
    }

    /// Gives way after a lost attempt: longer and longer, and at random, so that two do not meet again and again.
    fn back_off(&mut self, random: u64, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
        if cfg!(any(enact_loom, enact_shuttle)) {
            thread::yield_now();
            return Next::Loop;
        }
        let longest = 32_u64 << self.losses.min(6);
        for _ in 0..random % longest {
            hint::spin_loop();
        }
        match patience {
            Patience::Thread if self.losses > 8 => thread::yield_now(),
            Patience::Task if self.losses.is_multiple_of(8) => {
                waker().wake();
                return Next::Wait;
            }
            Patience::Thread | Patience::Task => {}
        }
        Next::Loop
    }

    /// Registers with everything that was read.
    #[cold]
    fn fall_asleep(&mut self, mut attempt: Attempt) -> Next<O> {
        let worker = attempt.worker();
        worker.slot.counters.retries.add_one();
        assert!(
            !worker.is_irrevocable,
            "an irrevocable transaction asked to wait: take what it needs before it becomes irrevocable"
        );
        let deadline = worker.extras.deadline;
        assert!(
            !worker.has_read_nothing() || deadline.is_some(),
            "`retry` without having read anything: the transaction would sleep for ever"
        );
        let sleeper = Arc::new(Sleeper::default());
        let mut nap = Nap { sleeper, addresses: Vec::new(), deadline, alarm: None };
        let sleeps = worker.waits().all(|(stamp, seen, condition)| {
            let registered = DOMAIN.sleepers.register(stamp, seen, &nap.sleeper, condition);
            if registered {
                nap.addresses.push(std::ptr::from_ref(stamp).addr());
            }
            registered
        });
        if sleeps {
            worker.slot.counters.sleeps.add_one();
        }
        self.leave(attempt);
        self.step_down();
        if sleeps {
            self.stage = Stage::Asleep(nap);
        } else {
            drop(nap);
            self.stage = Stage::Ready;
        }
        Next::Loop
    }

    /// Looks whether the transaction has been woken.
    fn sleep(&mut self, mut nap: Nap, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
        let decided = self.dependency.as_ref().map(|fate| fate.poll(&waker()));
        if let Some(Poll::Ready(Decision::Aborted)) = decided {
            drop(nap);
            self.step_down();
            return Next::Done(Err(Retracted));
        }
        let is_late = nap.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if nap.sleeper.is_woken(waker) || is_late {
            drop(nap);
            self.stage = Stage::Ready;
            return Next::Loop;
        }
        if let (Some(deadline), Patience::Task) = (nap.deadline, patience) {
            match &nap.alarm {
                None => nap.alarm = Some(Alarm::set(deadline, waker())),
                Some(alarm) => alarm.redirect(waker()),
            }
        }
        self.stage = Stage::Asleep(nap);
        Next::Wait
    }

    /// Goes on with an attempt whose commit had to wait.
    #[cold]
    fn resume(
        &mut self,
        worker: Box<Worker>,
        verdict: Verdict<O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        let undecided = self.dependency.as_ref().is_some_and(|fate| fate.poll(&waker()).is_pending());
        let heeds_gate = self.ticket.is_none() && !worker.in_operation;
        let is_closed = !undecided && heeds_gate && DOMAIN.gate.poll_open(waker).is_pending();
        if is_closed && worker.has_fates() {
            return self.stay_outside(Attempt::resume(worker));
        }
        if undecided || is_closed {
            self.stage = Stage::Finished { worker, verdict };
            return Next::Wait;
        }
        let mut attempt = Attempt::resume(worker);
        attempt.enter_again();
        self.conclude(attempt, verdict, patience, waker)
    }

    /// Gives up an attempt that would have to wait for the gate, because others depend on it: an actor may wait for its fate
    /// before it goes on with the very task that makes it, or with what an operation needs that whoever runs alone waits for.
    #[cold]
    fn stay_outside(&mut self, attempt: Attempt) -> Next<O> {
        self.leave(attempt);
        self.losses += 1;
        self.stage = if self.losses >= LOSSES_BEFORE_ALONE { Stage::Queued } else { Stage::Outside };
        Next::Loop
    }

    /// Waits until the gate is open, with no attempt under way.
    #[cold]
    fn wait_outside(&mut self, waker: &dyn Fn() -> Waker) -> Next<O> {
        if DOMAIN.gate.poll_open(waker).is_pending() {
            self.stage = Stage::Outside;
            return Next::Wait;
        }
        self.stage = Stage::Ready;
        Next::Loop
    }

    /// Waits for its turn to run alone: never while what it depends on is undecided, for that may need to run alone itself.
    #[cold]
    fn queue(&mut self, waker: &dyn Fn() -> Waker) -> Next<O> {
        self.stage = Stage::Queued;
        if let Some(fate) = &self.dependency {
            match fate.poll(&waker()) {
                Poll::Pending => return Next::Wait,
                Poll::Ready(Decision::Aborted) => {
                    self.step_down();
                    return Next::Done(Err(Retracted));
                }
                Poll::Ready(Decision::Committed) => {}
            }
        }
        let ticket = self.ticket.get_or_insert_with(|| DOMAIN.gate.ask());
        match DOMAIN.gate.poll_closed(ticket, self.exclusive, waker) {
            Poll::Pending => Next::Wait,
            Poll::Ready(()) => {
                (self.mode, self.may_read_past) = (Mode::Logged, false);
                self.stage = Stage::Ready;
                Next::Loop
            }
        }
    }

    /// Runs what was deferred.
    #[cold]
    fn follow_up(&mut self, mut after: AfterCommit, output: O, waker: &dyn Fn() -> Waker) -> Next<O> {
        match after.poll(waker) {
            Poll::Pending => {
                self.stage = Stage::Committed { after, output };
                Next::Wait
            }
            Poll::Ready(Ok(())) => Next::Done(Ok(output)),
            Poll::Ready(Err(panic)) => resume_unwind(panic),
        }
    }
}

impl<B, O> Atomically<'_, B, O> {
    /// Gives up whatever this transaction has been granted over others.
    #[inline]
    pub(super) fn step_down(&mut self) {
        if self.priority.is_some() || self.ticket.is_some() {
            self.give_back_grants();
        }
    }

    #[cold]
    fn give_back_grants(&mut self) {
        if let Some(priority) = self.priority.take() {
            DOMAIN.gate.forget(priority);
        }
        if let Some(ticket) = self.ticket.take() {
            DOMAIN.gate.give_back(&ticket);
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        DOMAIN.sleepers.forget(&self.addresses, &self.sleeper);
    }
}
