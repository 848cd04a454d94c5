//! An actor's mailbox and its run: many senders, at most one thread that runs turns.
//!
//! # States
//! *Running*: an actor is *idle* while its [`Activation`] lies here. A thread that takes the activation out has the
//! actor: it puts it into a run queue, or runs turns, and no second one can.
//! *Hold*: while an `async fn(&mut self)` turn is suspended, or a transaction that the actor works for is open, the actor
//! is held, and messages queue up behind it.
//! *Intake*: `Open`; `Draining` (new messages are refused, those that are in are taken up); `Closed`.
//!
//! # Rules
//! * **M1** Everything lies behind one lock, so a push and the decision to go idle cannot miss each other: the second one
//!   sees the first.
//! * **M2** The lock is held for the few instructions that move a message's words, and no user code runs under it.
//! * **M3** A sender that finds the actor idle takes the activation, and must schedule the actor. A sender that does not
//!   find it knows that the thread which has it looks here, under the lock, before the actor goes idle. So no wake-up is
//!   lost, and no second thread runs the actor.
//!
//! # Where messages are
//! Messages wait here, except for those that the activation has taken along: all that were there at a time, or the one
//! that found the actor idle. Where priorities or guards say which is the next one, the activation sorts them into
//! [`selective`].
mod buffers;
pub(crate) mod records;
pub(crate) mod selective;

use std::collections::VecDeque;
use std::mem;
use std::task::Waker;

use enact_stm::hooks::Fate;
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::{SpinLock, SpinLockGuard};

use self::records::{Header, Record, Records, Reserved};
use crate::cell::{Activation, Signal, TurnWaker};
use crate::deadlock::TurnId;
use crate::scheduler::cost::LastCost;
#[cfg(not(any(enact_loom, enact_shuttle)))]
use crate::scheduler::crossing;
use crate::scheduler::crossing::LastWorker;
use crate::spec::{self, WhenFull};

/// In the order of memory, and short: what is hardly ever used is in a box. An actor is not aligned to cache lines, which
/// would cost more when it is made.
#[repr(C)]
pub(crate) struct Mailbox {
    inner: SpinLock<Inner>,
    /// Whether a signal waits: read between two turns without the lock.
    signalled: AtomicBool,
    is_bounded: bool,
    /// What the actor's runs cost: here, where the one that makes it runnable has the line.
    pub(crate) cost: LastCost,
}

type Reservation<'a> = Reserved<Option<SpinLockGuard<'a, Inner>>, Schedule>;

#[repr(C)]
struct Inner {
    messages: Records,
    /// Here while the actor is idle.
    activation: Option<Box<Activation>>,
    /// The turn that holds the actor, while one does.
    holder: TurnId,
    hold: Option<Hold>,
    intake: Intake,
    last_worker: LastWorker,
    /// There is none before a signal comes, unless the mailbox is bounded.
    rare: Option<Box<Rare>>,
}

#[cfg(not(any(enact_loom, enact_shuttle)))]
const _: () = assert!(size_of::<SpinLock<Inner>>() <= 72, "what a sender needs is hardly longer than a line");

/// What hardly any mailbox has.
#[derive(Default)]
struct Rare {
    signals: VecDeque<Signal>,
    bound: Option<Bound>,
}

struct Bound {
    capacity: usize,
    when_full: WhenFull,
    /// Messages accepted and not yet taken up.
    occupied: usize,
    /// Senders that wait for room.
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intake {
    Open,
    Draining,
    Closed,
}

struct Hold {
    woken: bool,
    reason: Reason,
}

/// Why an actor is held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reason {
    /// A turn has the state.
    Turn,
    /// The turn may never have been: signals wait, too.
    TentativeTurn,
    /// The next message may never have been sent: turns under way go on.
    Message,
}

/// The actor was idle and is runnable now: the caller must put it into a run queue.
#[must_use]
pub(crate) struct Schedule(pub(crate) Option<Box<Activation>>);

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    Full { capacity: usize, when_full: WhenFull },
    Closed,
}

/// What the owner of the activation may do after its batch.
pub(crate) enum Rest {
    /// It may go on: there are messages again.
    GoOn(Box<Activation>),
    /// The actor is runnable and must go to the back of a run queue.
    Again(Box<Activation>),
    /// The actor is idle.
    Idle,
    /// The mailbox has drained: the owner ends the actor.
    Drained(Box<Activation>),
    /// Nobody needs the actor any more: the owner ends it.
    Released(Box<Activation>),
}

impl Mailbox {
    /// An empty mailbox.
    pub(crate) fn new(room: spec::Mailbox) -> Self {
        let bound = match room {
            spec::Mailbox::Unbounded => None,
            spec::Mailbox::Bounded { capacity, when_full } => {
                Some(Bound { capacity: capacity.get(), when_full, occupied: 0, waiting: Vec::new() })
            }
        };
        Self {
            signalled: AtomicBool::new(false),
            is_bounded: bound.is_some(),
            cost: LastCost::default(),
            inner: SpinLock::new(Inner {
                messages: Records::default(),
                activation: None,
                holder: TurnId::NONE,
                hold: None,
                intake: Intake::Open,
                last_worker: LastWorker::NOBODY,
                rare: bound.map(|bound| Box::new(Rare { signals: VecDeque::new(), bound: Some(bound) })),
            }),
        }
    }

    /// Has the actor idle for the first time, unless a signal has come before.
    pub(crate) fn settle(&self, activation: Box<Activation>) -> Schedule {
        let mut inner = self.inner.lock();
        inner.activation = Some(activation);
        inner.schedule_if(Inner::has_signals)
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.is_bounded
    }

    /// Adds a message from a sender, or gives it back. With `waiter`, a sender that finds no room is woken when there is
    /// some.
    pub(crate) fn push<R: Record>(
        &self,
        message: R,
        dependency: Option<Fate>,
        waiter: Option<&Waker>,
    ) -> Result<Schedule, (R, Refusal)> {
        records::put(message, dependency, |message| self.reserve(message, waiter))
    }

    /// Takes the lock to add or to take messages.
    #[inline]
    fn lock(&self) -> SpinLockGuard<'_, Inner> {
        #[cfg(any(enact_loom, enact_shuttle))]
        let mut inner = self.inner.lock();
        #[cfg(not(any(enact_loom, enact_shuttle)))]
        let mut inner = self.inner.try_lock().unwrap_or_else(|| self.wait());
        inner.last_worker.touch();
        inner
    }

    #[cfg(not(any(enact_loom, enact_shuttle)))]
    #[cold]
    fn wait(&self) -> SpinLockGuard<'_, Inner> {
        crossing::count_wait();
        self.inner.lock()
    }

    fn reserve(&self, message: Header, waiter: Option<&Waker>) -> Result<Reservation<'_>, Refusal> {
        let mut inner = self.lock();
        if inner.intake != Intake::Open {
            return Err(Refusal::Closed);
        }
        if self.is_bounded
            && let Some(bound) = inner.bound_mut()
        {
            if bound.occupied >= bound.capacity {
                bound.waiting.extend(waiter.cloned());
                return Err(Refusal::Full { capacity: bound.capacity, when_full: bound.when_full });
            }
            bound.occupied += 1;
        }
        let runnable = inner.hold.is_none();
        Ok(add(inner, message, runnable))
    }

    /// Adds what the actor owes itself: a timer, a notice. Never refused for lack of room, and taken while the mailbox
    /// drains.
    pub(crate) fn push_own<R: Record>(&self, message: R) -> Result<Schedule, (R, Refusal)> {
        records::put(message, None, |message| self.reserve_own(message, false))
    }

    /// As [`push_own`](Self::push_own), for the resumption of a turn: it reaches an actor that is held before a message.
    pub(crate) fn push_resumption<R: Record>(&self, resumption: R) -> Result<Schedule, (R, Refusal)> {
        records::put(resumption, None, |resumption| self.reserve_own(resumption, true))
    }

    fn reserve_own(&self, message: Header, resumes: bool) -> Result<Reservation<'_>, Refusal> {
        let mut inner = self.inner.lock();
        if inner.intake == Intake::Closed {
            return Err(Refusal::Closed);
        }
        if self.is_bounded
            && let Some(bound) = inner.bound_mut()
        {
            bound.occupied += 1;
        }
        let mut reaches = inner.hold.is_none();
        if resumes
            && let Some(hold) = &mut inner.hold
            && hold.reason == Reason::Message
        {
            hold.woken = true;
            reaches = true;
        }
        Ok(add(inner, message, reaches))
    }

    /// Adds a signal, which overtakes all messages and reaches a held actor too. Dropped if the actor is gone.
    pub(crate) fn signal(&self, signal: Signal) -> Schedule {
        let mut inner = self.inner.lock();
        if inner.intake == Intake::Closed {
            return Schedule(None);
        }
        inner.rare.get_or_insert_default().signals.push_back(signal);
        self.signalled.store(true, Ordering::Release);
        inner.schedule_if(|inner| !inner.delays_signals())
    }

    /// Refuses new messages from now on.
    pub(crate) fn drain(&self) -> Schedule {
        let mut inner = self.inner.lock();
        if inner.intake == Intake::Open {
            inner.intake = Intake::Draining;
        }
        inner.schedule_if(|inner| inner.hold.is_none())
    }

    /// Has the actor look whether it is still needed.
    pub(crate) fn nudge(&self) -> Schedule {
        self.inner.lock().schedule_if(|inner| inner.hold.is_none())
    }

    /// Wakes the held turn `turn`, if it is still held.
    pub(crate) fn wake_held(&self, turn: TurnId) -> Schedule {
        let mut inner = self.inner.lock();
        let Inner { holder, hold: Some(hold), .. } = &mut *inner else { return Schedule(None) };
        if *holder != turn {
            return Schedule(None);
        }
        hold.woken = true;
        inner.schedule_if(|_| true)
    }

    /// Takes an idle actor with nothing to do for an inline call, if it is one.
    pub(crate) fn claim(&self) -> Option<Box<Activation>> {
        let mut inner = self.inner.lock();
        let free =
            inner.intake == Intake::Open && inner.hold.is_none() && inner.messages.is_empty() && !inner.has_signals();
        if free { inner.activation.take() } else { None }
    }

    /// Takes an idle actor that has this turn for an outer caller, unless it is held.
    pub(crate) fn claim_for_caller(&self, turn: TurnId) -> Option<Box<Activation>> {
        let mut inner = self.inner.lock();
        let is_free = inner.intake != Intake::Closed && inner.hold.is_none() && !inner.has_signals();
        if is_free { inner.activation.take_if(|activation| activation.has_outer_caller(turn)) } else { None }
    }

    /// Adds all messages to `batch`. Only for the owner of the activation.
    pub(crate) fn take_more(&self, batch: &mut Records) {
        batch.append(&mut self.lock().messages);
    }

    /// Whether a signal waits.
    pub(crate) fn is_signalled(&self) -> bool {
        self.signalled.load(Ordering::Acquire)
    }

    /// The next signal. Only for the owner of the activation.
    pub(crate) fn next_signal(&self) -> Option<Signal> {
        // Acquire: pairs with the sender's Release; a signal missed here is seen by `rest`.
        if !self.is_signalled() {
            return None;
        }
        let mut inner = self.inner.lock();
        let signal = inner.rare.as_mut().and_then(|rare| rare.signals.pop_front());
        self.signalled.store(inner.has_signals(), Ordering::Release);
        signal
    }

    /// The owner has added a message by itself. Only for bounded mailboxes.
    pub(crate) fn take_room(&self) {
        if let Some(bound) = self.inner.lock().bound_mut() {
            bound.occupied += 1;
        }
    }

    /// A message has been taken up: there is room for another if the mailbox is bounded.
    #[inline]
    pub(crate) fn make_room(&self) {
        if self.is_bounded {
            self.make_room_in_bound();
        }
    }

    fn make_room_in_bound(&self) {
        let mut inner = self.inner.lock();
        let Some(bound) = inner.bound_mut() else { return };
        bound.occupied -= 1;
        let waiting = if bound.occupied < bound.capacity { mem::take(&mut bound.waiting) } else { Vec::new() };
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The owner's turn, which `waker` wakes, holds the actor from now on. It may have been woken already.
    pub(crate) fn hold(&self, waker: &TurnWaker) {
        let mut inner = self.inner.lock();
        inner.holder = waker.turn();
        // A waker sets the flag first and then comes here: one of the two sees the other.
        inner.hold = Some(Hold { woken: waker.is_woken(), reason: Reason::Turn });
    }

    /// As [`hold`](Self::hold), until the next message is decided, of which `turn` is told.
    pub(crate) fn hold_before_message(&self, turn: TurnId) {
        self.hold_because(turn, Reason::Message);
    }

    /// As [`hold`](Self::hold), and signals wait until [`obey_signals`](Self::obey_signals) or [`unhold`](Self::unhold).
    pub(crate) fn hold_firmly(&self, turn: TurnId) {
        self.hold_because(turn, Reason::TentativeTurn);
    }

    fn hold_because(&self, turn: TurnId, reason: Reason) {
        let mut inner = self.inner.lock();
        inner.holder = turn;
        inner.hold = Some(Hold { woken: false, reason });
    }

    /// The held turn is an ordinary one from now on.
    pub(crate) fn obey_signals(&self) {
        if let Some(hold) = &mut self.inner.lock().hold {
            hold.reason = Reason::Turn;
        }
    }

    /// The held turn has ended.
    pub(crate) fn unhold(&self) {
        self.inner.lock().hold = None;
    }

    /// Takes the wake-up of the held turn. Returns whether there was one.
    pub(crate) fn take_wake_up(&self) -> bool {
        self.inner.lock().hold.as_mut().is_some_and(|hold| mem::take(&mut hold.woken))
    }

    /// Gives the activation back after a batch, unless there are messages again and the owner `may_go_on`.
    ///
    /// `is_needed` tells whether an actor without messages has something else to live for; it is asked under the lock,
    /// so that a handle that lets go of it afterwards finds the actor idle and can [`nudge`](Self::nudge) it.
    pub(crate) fn rest(
        &self,
        mut activation: Box<Activation>,
        may_go_on: bool,
        is_needed: impl FnOnce() -> bool,
    ) -> Rest {
        if activation.batch.is_empty() {
            // M2: memory is given back before the lock is taken.
            activation.batch.clear();
        }
        let mut inner = self.lock();
        let is_signalled = inner.has_signals() && !inner.delays_signals();
        // M1: a message that comes later finds the actor idle.
        let runnable = is_signalled
            || match &inner.hold {
                Some(hold) => hold.woken,
                None => {
                    activation.has_work() || (!inner.messages.is_empty() && !cfg!(planted = "rest_without_looking"))
                }
            };
        if runnable {
            if activation.batch.is_empty() {
                // All that are here at a time: they are then taken up without the lock.
                activation.batch.append(&mut inner.messages);
            }
            return if may_go_on { Rest::GoOn(activation) } else { Rest::Again(activation) };
        }
        if inner.hold.is_none() && !activation.has_suspended() {
            if inner.intake == Intake::Draining {
                return Rest::Drained(activation);
            }
            if !is_needed() {
                return Rest::Released(activation);
            }
        }
        inner.activation = Some(activation);
        Rest::Idle
    }

    /// Refuses everything from now on; what is left is given back.
    pub(crate) fn close(&self) -> Records {
        let mut inner = self.inner.lock();
        inner.intake = Intake::Closed;
        inner.hold = None;
        let rare = inner.rare.as_deref_mut().map(mem::take);
        let messages = mem::take(&mut inner.messages);
        drop(inner);
        let waiting = rare.and_then(|rare| rare.bound).map(|bound| bound.waiting);
        waiting.into_iter().flatten().for_each(Waker::wake);
        messages
    }

    /// Whether the actor is neither running nor about to, and holds no suspended turn.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.activation.is_some() && inner.hold.is_none()
    }
}

impl Inner {
    fn bound_mut(&mut self) -> Option<&mut Bound> {
        self.rare.as_mut()?.bound.as_mut()
    }

    fn has_signals(&self) -> bool {
        self.rare.as_ref().is_some_and(|rare| !rare.signals.is_empty())
    }

    fn delays_signals(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.reason == Reason::TentativeTurn)
    }

    fn schedule_if(&mut self, runnable: impl FnOnce(&Self) -> bool) -> Schedule {
        if self.activation.is_some() && self.intake != Intake::Closed && runnable(self) {
            // M3: the caller must schedule it.
            return Schedule(self.activation.take());
        }
        Schedule(None)
    }
}

/// Adds a message, and takes the activation to schedule the actor for it if that is idle and `runnable`.
#[inline(always)]
fn add(mut inner: SpinLockGuard<'_, Inner>, message: Header, runnable: bool) -> Reservation<'_> {
    let mut schedule = inner.schedule_if(|_| runnable);
    let (room, guard) = match &mut schedule.0 {
        // Nothing is before it: the activation takes it along and need not come here for it.
        Some(activation) if activation.batch.is_empty() && inner.messages.is_empty() => {
            (activation.batch.push(message), None)
        }
        _ => (inner.messages.push(message), Some(inner)),
    };
    Reserved { room, guard, outcome: schedule }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use enact_sync::unmodelled::Arc;

    use super::*;
    use crate::actor::tests::Bare;
    use crate::cell::ActorCell;
    use crate::error::ExitReason;
    use crate::{Spec, System};

    /// What closes a system may find an actor that is listed and not yet idle. The window is too small for a model.
    #[test]
    fn a_signal_that_comes_before_the_actor_is_idle_is_obeyed() {
        let system = System::builder().workers(1).build().unwrap();
        let scheduler = Arc::clone(system.spawn(Bare).cell().scheduler());
        let (cell, activation) = ActorCell::create(Spec::new(Bare).keep_alive(), scheduler, None);
        cell.signal(Signal::Stop(ExitReason::Shutdown));
        let exit = cell.watch();
        cell.schedule(cell.mailbox.settle(activation));
        assert_eq!(exit.wait().unwrap().reason, ExitReason::Shutdown);
    }
}
