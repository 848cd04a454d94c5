//! What happens between attempts.
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::task::{Poll, Waker};
use std::time::Instant;

use enact_sync::{Arc, hint, thread};
use smallvec::SmallVec;

use super::awake::Awake;
use super::timer::Alarm;
use super::{Atomically, Body, Course, Nap, Progress, Stage, Verdict};
use crate::context;
use crate::defer::{self, AfterCommit};
use crate::domain::DOMAIN;
use crate::fate::Decision;
use crate::hooks::Retracted;
use crate::lock::Account;
use crate::serial_lock::{Purpose, Ticket, Turn, Underway};
use crate::sleepers::Sleeper;
use crate::transaction::{Abort, Cause, Descriptor, Mode, Reason, Refused, Tx};

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

/// A descriptor in an attempt. Dropping it rolls the attempt back, which is what a panic does.
pub(super) struct Attempt {
    descriptor: Option<Box<Descriptor>>,
    /// This thread is marked as inside the transaction.
    is_inside: bool,
}

impl Attempt {
    /// Begins an attempt on this thread, inside the transaction until [`leave`](Self::leave).
    #[inline]
    pub(super) fn enter() -> Self {
        Self { descriptor: Some(context::enter()), is_inside: true }
    }

    /// Goes on with an attempt that was suspended.
    pub(super) fn resume(descriptor: Box<Descriptor>) -> Self {
        Self { descriptor: Some(descriptor), is_inside: false }
    }

    /// Marks this thread as inside the transaction, whose functions may still have to run.
    pub(super) fn enter_again(&mut self) {
        self.is_inside = context::enter_again();
    }

    #[inline]
    pub(super) fn descriptor(&mut self) -> &mut Descriptor {
        self.descriptor.as_mut().expect("the descriptor is there until the attempt is finished")
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
        if let Some(mut descriptor) = self.descriptor.take() {
            if descriptor.runs_code_at_its_end() {
                self.leave();
            }
            descriptor.end();
            descriptor.clean();
            if self.is_inside {
                context::finish(descriptor);
            } else {
                context::give_back(descriptor);
            }
            self.is_inside = false;
        }
    }

    /// The descriptor with its logs, to go on with the attempt later.
    fn suspend(mut self) -> Box<Descriptor> {
        self.descriptor.take().expect("the descriptor is there until the attempt is finished")
    }

    #[cold]
    fn roll_back(&mut self) {
        if let Some(mut descriptor) = self.descriptor.take() {
            if std::thread::panicking() {
                descriptor.slot.counters.panics.add_one();
            }
            descriptor.step_down();
            let decided = catch_unwind(AssertUnwindSafe(|| descriptor.decide_abort()));
            descriptor.end();
            descriptor.kept.clear();
            context::give_back(descriptor);
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
        if self.descriptor.is_some() {
            self.roll_back();
        }
    }
}

/// Ends what a transaction was granted over others when a step unwinds: a future that has panicked may be kept.
struct OnUnwind<'a, O>(&'a mut Course<O>);

impl<O> Drop for OnUnwind<'_, O> {
    fn drop(&mut self) {
        self.0.step_down();
    }
}

/// What a committed transaction has left to do: carried through elsewhere if an effect panics before.
struct Rest(Option<AfterCommit>);

impl Drop for Rest {
    fn drop(&mut self) {
        if let Some(after) = self.0.take() {
            after.carry_through();
        }
    }
}

/// What to do after a step.
pub(super) enum Next<O> {
    Loop,
    Wait,
    Done(Result<O, Retracted>),
}

impl<'env, B: Body<'env, Output = O>, O> Atomically<'env, B, O> {
    /// Goes on until the transaction is over, or has to wait: then a waker has been left where it will be woken.
    pub(super) fn drive(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Poll<Result<O, Retracted>> {
        loop {
            match self.step(patience, waker) {
                Next::Loop => {}
                Next::Wait => return Poll::Pending,
                Next::Done(result) => return Poll::Ready(result),
            }
        }
    }

    /// Goes on to the next stage.
    #[inline]
    pub(super) fn step(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
        let next = match &mut self.progress {
            Progress::Fresh => self.try_first(patience, waker),
            progress => progress.course().step(&self.body, patience, waker),
        };
        if matches!(next, Next::Done(_)) {
            self.progress = Progress::Over;
        }
        next
    }

    /// When the transaction wants to be driven again even if nothing wakes it.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.progress {
            Progress::UnderWay(course) => course.deadline(),
            Progress::Fresh | Progress::Over => None,
        }
    }

    /// The first attempt of a transaction that has nothing special about it. Only if it does not commit, or leaves
    /// something to be done, does the transaction get a course.
    #[inline]
    fn try_first(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
        let mut attempt = Attempt::enter();
        let descriptor = attempt.descriptor();
        if descriptor.is_dependent {
            attempt.finish();
            self.progress.course();
            return Next::Loop;
        }
        // A closure that panics has ended the transaction.
        self.progress = Progress::Over;
        descriptor.attempt = 1;
        descriptor.mode = Mode::Logged;
        descriptor.extras.owner = None;
        descriptor.begin();
        let result = self.body.attempt(&mut Tx::new(descriptor));
        match result {
            Ok(Verdict::Commit(output)) if descriptor.aborted.is_none() && !descriptor.is_busy() => {
                match descriptor.commit() {
                    Ok(false) => {
                        attempt.finish();
                        Next::Done(Ok(output))
                    }
                    committed => self.go_on().settle(attempt, output, committed, None, patience, waker),
                }
            }
            Ok(Verdict::Commit(output)) if descriptor.aborted.is_none() => {
                let underway = descriptor.begin_operations(true);
                match descriptor.commit() {
                    Ok(waited) => self.follow_first(attempt, output, waited, underway),
                    refused => self.go_on().settle(attempt, output, refused, underway, patience, waker),
                }
            }
            result => self.go_on().end(attempt, result, patience, waker),
        }
    }

    /// The first attempt has committed, and leaves something to be done: here, if none of it has to be awaited.
    fn follow_first(&mut self, mut attempt: Attempt, output: O, waited: bool, underway: Option<Underway>) -> Next<O> {
        attempt.leave();
        let descriptor = attempt.descriptor();
        if waited {
            descriptor.wake();
        }
        // Kept before any effect runs: if one panics, the operations are carried through all the same.
        let mut rest = Rest(AfterCommit::take(descriptor, None, underway));
        descriptor.decide_commit();
        descriptor.kept.clear();
        descriptor.step_down();
        attempt.finish();
        match &mut rest.0 {
            None => return Next::Done(Ok(output)),
            Some(after) if after.is_blocking() => {
                let no_waker = || unreachable!("operations that block are not awaited");
                let Poll::Ready(result) = after.poll(&no_waker) else { unreachable!("nothing is awaited") };
                rest.0 = None;
                return match result {
                    Ok(()) => Next::Done(Ok(output)),
                    Err(panic) => resume_unwind(panic),
                };
            }
            Some(_) => {}
        }
        if let Some(after) = rest.0.take() {
            self.go_on().stage = Stage::Committed { after, output };
        }
        Next::Loop
    }

    /// The course of a transaction after its first attempt.
    #[cold]
    fn go_on(&mut self) -> &mut Course<O> {
        self.progress = Progress::Fresh;
        let course = self.progress.course();
        (course.attempts, course.stage) = (1, Stage::Over);
        course
    }
}

impl<O> Course<O> {
    /// Goes on to the next stage.
    fn step<'env>(
        &mut self,
        body: &impl Body<'env, Output = O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        let this = OnUnwind(self);
        let next = match std::mem::replace(&mut this.0.stage, Stage::Over) {
            Stage::Ready => this.0.try_once(body, patience, waker),
            Stage::Asleep(nap) => this.0.sleep(nap, patience, waker),
            Stage::Finished { descriptor, verdict } => this.0.resume(descriptor, verdict, patience, waker),
            Stage::Queued => this.0.queue(patience, waker),
            Stage::Committed { after, output } => this.0.follow_up(after, output, waker),
            Stage::Over => panic!("a transaction was polled after it was over"),
        };
        std::mem::forget(this);
        next
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.stage {
            Stage::Asleep(nap) => nap.deadline,
            _ => None,
        }
    }

    /// One attempt.
    fn try_once<'env>(
        &mut self,
        body: &impl Body<'env, Output = O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        // Ended after the attempt, which has taken the locks or left them.
        let _claims = (!self.claims.is_empty()).then(|| std::mem::take(&mut self.claims));
        let mut attempt = Attempt::enter();
        self.attempts = self.attempts.wrapping_add(1);
        let descriptor = attempt.descriptor();
        descriptor.attempt = self.attempts;
        descriptor.mode = self.mode;
        descriptor.extras.owner = self.owner.as_ref().map(Account::id);
        // Also in a later attempt: the transaction may have slept on another thread before.
        if descriptor.is_dependent {
            self.adopt_dependency();
        }
        if self.attempts > 1 {
            self.prepare(descriptor);
        }
        attempt.descriptor().begin();
        let result = body.attempt(&mut Tx::new(attempt.descriptor()));
        self.end(attempt, result, patience, waker)
    }

    /// The closure has returned.
    fn end(
        &mut self,
        mut attempt: Attempt,
        result: Result<Verdict<O>, Abort>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        match result {
            Ok(verdict) => match attempt.descriptor().aborted {
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
    fn prepare(&mut self, descriptor: &mut Descriptor) {
        std::mem::swap(&mut descriptor.kept, &mut self.kept);
        self.grant(descriptor);
        descriptor.has_priority = self.priority.is_some();
        if descriptor.alone {
            descriptor.slot.counters.alone.add_one();
        } else if descriptor.has_priority {
            descriptor.slot.counters.prioritised.add_one();
        }
    }

    /// Hands over what the turn at the serial lock is good for.
    #[cold]
    fn grant(&self, descriptor: &mut Descriptor) {
        let Turn::Alone { may_defer } = self.turn else { return };
        if self.ticket.is_some() {
            (descriptor.alone, descriptor.may_defer) = (true, may_defer);
            descriptor.may_become_irrevocable = self.is_irrevocable;
        }
    }

    /// The closure has ended: commits, unless that has to wait.
    fn conclude(
        &mut self,
        mut attempt: Attempt,
        verdict: Verdict<O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        if let Some(fate) = &self.dependency {
            debug_assert!(
                attempt.descriptor().has_only_fates_younger_than(fate),
                "a dependency is older than its dependent"
            );
            match fate.decision() {
                None if cfg!(planted = "commit_before_the_dependency") => {}
                None => {
                    // Nobody stands back for a transaction that cannot go on.
                    attempt.descriptor().step_down();
                    self.step_down();
                    self.stage = Stage::Finished { descriptor: attempt.suspend(), verdict };
                    return Next::Loop;
                }
                Some(Decision::Aborted) => return self.retract(attempt),
                Some(Decision::Committed) => {
                    if let Err(abort) = attempt.descriptor().catch_up() {
                        return self.give_up(attempt, abort.0, patience, waker);
                    }
                }
            }
        }
        let output = match verdict {
            Verdict::Commit(output) => output,
            Verdict::RollBack(output) => return self.roll_back(attempt, output),
        };
        let is_busy = attempt.descriptor().is_busy();
        let underway = if is_busy { attempt.descriptor().begin_operations(self.owner.is_none()) } else { None };
        let committed = attempt.descriptor().commit();
        self.settle(attempt, output, committed, underway, patience, waker)
    }

    /// The commit has succeeded, or was refused.
    fn settle(
        &mut self,
        mut attempt: Attempt,
        output: O,
        committed: Result<bool, Refused>,
        underway: Option<Underway>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        match committed {
            Ok(waited) => {
                if waited {
                    attempt.leave();
                    attempt.descriptor().wake();
                }
                if attempt.descriptor().is_busy() || self.attempts > 1 || self.ticket.is_some() {
                    return self.after_commit(attempt, output, underway);
                }
                attempt.finish();
                Next::Done(Ok(output))
            }
            Err(refused) => {
                let defers = underway.is_some();
                drop(underway);
                match refused {
                    Refused::Conflict(cause) => self.give_up(attempt, Reason::Conflict(cause), patience, waker),
                    Refused::Closed => self.wait_at_serial_lock(attempt, output, defers, patience),
                }
            }
        }
    }

    /// Takes a place in the queue for a commit that the serial lock refuses.
    #[cold]
    fn wait_at_serial_lock(&mut self, mut attempt: Attempt, output: O, defers: bool, patience: Patience) -> Next<O> {
        match &self.ticket {
            Some(ticket) => DOMAIN.serial_lock.wait_again(ticket, defers),
            None => self.ticket = Some(DOMAIN.serial_lock.ask(Purpose::Commit, defers, patience == Patience::Thread)),
        }
        attempt.descriptor().alone = false;
        attempt.descriptor().slot.counters.held_up.add_one();
        if attempt.descriptor().has_fates() {
            // Others depend on the attempt: an actor may wait for its fate before it goes on with the very task that makes
            // it, or with what an operation needs that somebody in front of this place waits for.
            self.leave(attempt);
            self.stage = Stage::Queued;
        } else {
            self.stage = Stage::Finished { descriptor: attempt.suspend(), verdict: Verdict::Commit(output) };
        }
        Next::Loop
    }

    /// Ends the attempt whose writes are visible, and sees what else there is to do.
    #[cold]
    fn after_commit(&mut self, mut attempt: Attempt, output: O, underway: Option<Underway>) -> Next<O> {
        attempt.leave();
        let descriptor = attempt.descriptor();
        // Kept before any effect runs: if one panics, the operations are carried through all the same.
        let output = match AfterCommit::take(descriptor, self.owner.as_ref(), underway) {
            None => Some(output),
            Some(after) => {
                self.stage = Stage::Committed { after, output };
                None
            }
        };
        // Others run before the effects do, which may take long.
        self.step_down();
        descriptor.decide_commit();
        descriptor.kept.clear();
        descriptor.step_down();
        attempt.finish();
        output.map_or(Next::Loop, |output| Next::Done(Ok(output)))
    }

    /// The user wants nothing of it to have happened.
    #[cold]
    fn roll_back(&mut self, mut attempt: Attempt, output: O) -> Next<O> {
        let descriptor = attempt.descriptor();
        descriptor.slot.counters.errors.add_one();
        self.leave(attempt);
        self.step_down();
        Next::Done(Ok(output))
    }

    /// What this transaction depends on never happened.
    #[cold]
    fn retract(&mut self, mut attempt: Attempt) -> Next<O> {
        attempt.descriptor().slot.counters.retracted.add_one();
        self.leave(attempt);
        self.step_down();
        Next::Done(Err(Retracted))
    }

    /// Ends an attempt that has no effect; what it keeps stays with the transaction.
    #[cold]
    fn leave(&mut self, mut attempt: Attempt) {
        attempt.leave();
        let descriptor = attempt.descriptor();
        descriptor.decide_abort();
        std::mem::swap(&mut descriptor.kept, &mut self.kept);
        descriptor.kept.clear();
        descriptor.step_down();
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
        let descriptor = attempt.descriptor();
        let counters = &descriptor.slot.counters;
        match reason {
            Reason::Conflict(cause) => {
                assert!(!descriptor.is_irrevocable, "an irrevocable transaction met a conflict: {cause:?}");
                match cause {
                    Cause::Locked => counters.aborts_locked.add_one(),
                    Cause::Changed => counters.aborts_changed.add_one(),
                    Cause::StoodBack => counters.aborts_stood_back.add_one(),
                }
                if cause != Cause::StoodBack {
                    self.losses += 1;
                }
                if descriptor.only_reads() && !descriptor.is_busy() && self.may_read_past && self.dependency.is_none() {
                    self.mode = Mode::Snapshot;
                }
                if self.losses >= LOSSES_BEFORE_PRIORITY {
                    DOMAIN.serial_lock.prefer(&mut self.priority, descriptor);
                }
                let random = descriptor.next_random();
                let is_alone = descriptor.alone;
                // An irrevocable transaction waits for deferred operations, so these cannot wait for their turn.
                let may_queue = self.losses >= LOSSES_BEFORE_ALONE && !descriptor.in_operation;
                self.leave(attempt);
                if is_alone {
                    // Repeated in the same poll. What was in the way is the commit of an operation.
                    self.stage = Stage::Ready;
                    thread::yield_now();
                    return Next::Loop;
                }
                if self.ticket.is_some() || may_queue {
                    self.stage = Stage::Queued;
                } else {
                    self.stage = Stage::Ready;
                }
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
                self.is_irrevocable = true;
                self.leave(attempt);
                self.step_down();
                self.stage = Stage::Queued;
                Next::Loop
            }
            Reason::Retry => self.fall_asleep(attempt, patience),
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
    fn fall_asleep(&mut self, mut attempt: Attempt, patience: Patience) -> Next<O> {
        let descriptor = attempt.descriptor();
        descriptor.slot.counters.retries.add_one();
        assert!(
            !descriptor.is_irrevocable,
            "an irrevocable transaction asked to wait: take what it needs before it becomes irrevocable"
        );
        let deadline = descriptor.extras.deadline;
        assert!(
            !descriptor.has_read_nothing() || deadline.is_some(),
            "`retry` without having read anything: the transaction would sleep for ever"
        );
        if patience == Patience::Thread && self.waits_awake(&mut attempt) {
            self.leave(attempt);
            self.stage = Stage::Ready;
            return Next::Loop;
        }
        let descriptor = attempt.descriptor();
        let sleeper = Arc::new(Sleeper::default());
        let mut nap = Nap { sleeper, addresses: SmallVec::new(), deadline, alarm: None, circle: None };
        let extras = &descriptor.extras;
        let sleeps = descriptor.waits().all(|(versioned_lock, seen, condition)| {
            let address = std::ptr::from_ref(versioned_lock).addr();
            let is_awaited =
                !extras.looks_at_holders && extras.awaited.iter().any(|(lock, _)| lock.address() == address);
            let waits_for = if is_awaited { extras.owner } else { None };
            let registered = DOMAIN.sleepers.register(versioned_lock, seen, &nap.sleeper, condition, waits_for);
            if registered {
                nap.addresses.push(address);
            }
            registered
        });
        if sleeps {
            descriptor.slot.counters.sleeps.add_one();
            descriptor.rest();
            if patience == Patience::Thread && !self.is_limited && self.dependency.is_none() {
                nap.circle = enter_circles(descriptor);
            }
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

    /// Waits for a lock that another has, but not for long: true if it is free.
    fn waits_awake(&mut self, attempt: &mut Attempt) -> bool {
        let descriptor = attempt.descriptor();
        if descriptor.extras.awaited.is_empty() {
            return false;
        }
        let Some(mut awake) = Awake::try_new() else { return false };
        descriptor.step_down();
        self.step_down();
        let locks = &attempt.descriptor().extras.awaited;
        let claims: Vec<_> = locks.iter().map(|(lock, _)| DOMAIN.sleepers.claim(lock.clone())).collect();
        let is_free = awake.looks(|| locks.iter().any(|(lock, _)| lock.is_free()));
        if is_free {
            self.claims = claims;
        }
        is_free
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
        descriptor: Box<Descriptor>,
        verdict: Verdict<O>,
        patience: Patience,
        waker: &dyn Fn() -> Waker,
    ) -> Next<O> {
        if self.dependency.as_ref().is_some_and(|fate| fate.poll(&waker()).is_pending()) {
            self.stage = Stage::Finished { descriptor, verdict };
            return Next::Wait;
        }
        if let Some(next) = self.take_turn(patience, waker) {
            self.stage = Stage::Finished { descriptor, verdict };
            return next;
        }
        let mut attempt = Attempt::resume(descriptor);
        self.grant(attempt.descriptor());
        attempt.enter_again();
        self.conclude(attempt, verdict, patience, waker)
    }

    /// Waits for its turn at the serial lock: never while what it depends on is undecided, for that may need the serial
    /// lock itself.
    #[cold]
    fn queue(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
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
        if self.ticket.is_none() {
            let purpose = if self.is_irrevocable { Purpose::Irrevocable } else { Purpose::Alone };
            self.ticket = Some(DOMAIN.serial_lock.ask(purpose, false, patience == Patience::Thread));
        }
        self.take_turn(patience, waker).unwrap_or_else(|| {
            if self.turn != Turn::Open {
                (self.mode, self.may_read_past) = (Mode::Logged, false);
            }
            self.stage = Stage::Ready;
            Next::Loop
        })
    }

    /// Takes the turn of the ticket, if there is one, or says what to do until it comes.
    fn take_turn(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Option<Next<O>> {
        let ticket = self.ticket.as_ref()?;
        let awaited = if patience == Patience::Thread { await_turn_awake(ticket) } else { Poll::Pending };
        let turn = if awaited.is_pending() { DOMAIN.serial_lock.poll_turn(ticket, waker) } else { awaited };
        match turn {
            Poll::Pending => Some(Next::Wait),
            Poll::Ready(Turn::StandBack) => Some(stand_back(patience, waker)),
            Poll::Ready(turn) => {
                self.turn = turn;
                None
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

/// Has it known that the operation around an attempt sleeps, if nothing but the release of locks wakes it.
///
/// # Panics
/// If these are never released, because their holders wait for the operation.
fn enter_circles(descriptor: &Descriptor) -> Option<defer::Sleep> {
    let owner = context::operation().filter(|owner| !owner.is_explicit())?;
    let awaits = descriptor.waits_for_locks_alone()?;
    Some(DOMAIN.circles.enter(owner, awaits).unwrap_or_else(|circle| panic!("{circle}")))
}

/// Takes the turn of a ticket if it comes soon.
fn await_turn_awake(ticket: &Ticket) -> Poll<Turn> {
    let serial_lock = &DOMAIN.serial_lock;
    let mut turn = serial_lock.poll_turn_awake(ticket);
    if turn.is_ready() {
        return turn;
    }
    if let Some(mut awake) = Awake::try_new().or_else(|| Awake::as_the_next().filter(|_| serial_lock.is_next(ticket))) {
        // A turn of another thread that has to be woken takes longer.
        while turn.is_pending() && serial_lock.is_held() && awake.looks(|| !serial_lock.is_held()) {
            turn = serial_lock.poll_turn_awake(ticket);
        }
    }
    turn
}

/// Lets others run, and goes on.
fn stand_back<O>(patience: Patience, waker: &dyn Fn() -> Waker) -> Next<O> {
    match patience {
        Patience::Thread => {
            thread::yield_now();
            Next::Loop
        }
        Patience::Task => {
            waker().wake();
            Next::Wait
        }
    }
}

impl<O> Course<O> {
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
            DOMAIN.serial_lock.forget(priority);
        }
        if let Some(ticket) = self.ticket.take() {
            DOMAIN.serial_lock.give_back(ticket);
        }
    }
}

impl Drop for Nap {
    fn drop(&mut self) {
        DOMAIN.sleepers.forget(&self.addresses, &self.sleeper);
    }
}
