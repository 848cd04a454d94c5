//! An actor's mailbox and its activation: many senders, at most one thread that runs turns.
//!
//! # States
//! *Activation*: `Idle` (in no run queue), `Scheduled` (in exactly one), `Running` (one thread owns the actor).
//! *Hold*: while an `async fn(&mut self)` turn is suspended, or a transaction that the actor works for is open, the actor
//! is held, and messages queue up behind it.
//! *Intake*: `Open`; `Draining` (new messages are refused, those that are in are taken up); `Closed`.
//!
//! # Who may touch what
//! Everything lies behind one lock, so a push and the decision to go idle cannot miss each other: whoever comes second
//! sees the first. The transitions `Idle -> Scheduled` and `Idle -> Running` (a claim, for a call run inline) are each
//! made by one thread, which then owes the schedule or the turn. Only the owner of `Running` takes messages out, all that
//! are there at a time; it has the actor's *body* meanwhile, which lies here otherwise.
//!
//! # No lost wake-up, no second runner
//! A sender that finds the actor idle schedules it; one that finds it scheduled or running knows that the owner looks
//! at the queue under the lock before it goes idle.
use std::collections::VecDeque;
use std::task::Waker;

use enact_sync::Mutex;
use enact_sync::atomic::{AtomicBool, Ordering};

use crate::deadlock::TurnId;

pub(crate) struct Mailbox<M, S, B> {
    inner: Mutex<Inner<M, S, B>>,
    /// Whether a signal waits: read between two turns without the lock.
    signalled: AtomicBool,
    capacity: usize,
}

struct Inner<M, S, B> {
    messages: VecDeque<M>,
    /// What the owner of `Running` has; not here while somebody is.
    body: Option<B>,
    signals: VecDeque<S>,
    activation: Activation,
    intake: Intake,
    hold: Option<Hold>,
    /// Messages accepted and not yet taken up; only counted if the mailbox is bounded.
    occupied: usize,
    /// Senders that wait for room.
    waiting: Vec<Waker>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Activation {
    Idle,
    Scheduled,
    Running,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intake {
    Open,
    Draining,
    Closed,
}

struct Hold {
    turn: TurnId,
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

/// The caller has made the actor runnable and must put it in a run queue.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Schedule {
    Now,
    NotNeeded,
}

/// A message that was not taken, given back.
pub(crate) enum Refused<M> {
    Full(M),
    Closed(M),
}

/// What takes messages up: it has room for those that it is about to.
pub(crate) trait Body<M> {
    /// What was taken out of the mailbox and not taken up yet.
    fn batch(&mut self) -> &mut VecDeque<M>;
    /// Whether turns are under way that hold nothing.
    fn has_suspended(&self) -> bool;
}

/// What the owner of `Running` may do after its batch.
#[derive(Debug)]
pub(crate) enum Rest<B> {
    /// It may go on: there are messages again.
    GoOn(B),
    /// The actor is runnable and must go to the back of a run queue.
    Again,
    /// The actor is idle.
    Idle,
    /// The mailbox has drained: the owner still owns the actor and ends it.
    Drained(B),
    /// Nobody needs the actor any more: the owner still owns it and ends it.
    Released(B),
}

impl<M, S, B: Body<M>> Mailbox<M, S, B> {
    /// An empty mailbox with room for `capacity` messages, `usize::MAX` for one without bound.
    pub(crate) fn new(capacity: usize, body: B) -> Self {
        Self {
            inner: Mutex::new(Inner {
                messages: VecDeque::new(),
                body: Some(body),
                signals: VecDeque::new(),
                activation: Activation::Idle,
                intake: Intake::Open,
                hold: None,
                occupied: 0,
                waiting: Vec::new(),
            }),
            signalled: AtomicBool::new(false),
            capacity,
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(crate) fn is_bounded(&self) -> bool {
        self.capacity != usize::MAX
    }

    /// Adds a message from a sender. With `waiter`, a sender that finds no room is woken when there is some.
    pub(crate) fn push(&self, message: M, waiter: Option<&Waker>) -> Result<Schedule, Refused<M>> {
        let mut inner = self.inner.lock();
        if inner.intake != Intake::Open {
            return Err(Refused::Closed(message));
        }
        if self.is_bounded() {
            if inner.occupied >= self.capacity {
                inner.waiting.extend(waiter.cloned());
                return Err(Refused::Full(message));
            }
            inner.occupied += 1;
        }
        inner.messages.push_back(message);
        Ok(inner.schedule_if(|inner| inner.hold.is_none()))
    }

    /// Adds what the actor owes itself: the resumption of a turn, a timer, a notice. Never refused for lack of room,
    /// and taken while the mailbox drains.
    pub(crate) fn push_own(&self, message: M) -> Result<Schedule, M> {
        let mut inner = self.inner.lock();
        self.add_own(&mut inner, message)?;
        Ok(inner.schedule_if(|inner| inner.hold.is_none()))
    }

    /// As [`push_own`](Self::push_own), for the resumption of a turn: it reaches an actor that is held before a message.
    pub(crate) fn push_resumption(&self, message: M) -> Result<Schedule, M> {
        let mut inner = self.inner.lock();
        self.add_own(&mut inner, message)?;
        if let Some(hold) = &mut inner.hold
            && hold.reason == Reason::Message
        {
            hold.woken = true;
        }
        Ok(inner.schedule_if(|inner| inner.hold.as_ref().is_none_or(|hold| hold.reason == Reason::Message)))
    }

    fn add_own(&self, inner: &mut Inner<M, S, B>, message: M) -> Result<(), M> {
        if inner.intake == Intake::Closed {
            return Err(message);
        }
        if self.is_bounded() {
            inner.occupied += 1;
        }
        inner.messages.push_back(message);
        Ok(())
    }

    /// Adds a signal, which overtakes all messages and reaches a held actor too. Dropped if the actor is gone.
    pub(crate) fn signal(&self, signal: S) -> Schedule {
        let mut inner = self.inner.lock();
        if inner.intake == Intake::Closed {
            return Schedule::NotNeeded;
        }
        inner.signals.push_back(signal);
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
        match &mut inner.hold {
            Some(hold) if hold.turn == turn => hold.woken = true,
            _ => return Schedule::NotNeeded,
        }
        inner.schedule_if(|_| true)
    }

    /// Takes an idle actor with nothing to do for an inline call, if it is one.
    pub(crate) fn claim(&self) -> Option<B> {
        let mut inner = self.inner.lock();
        let free = inner.activation == Activation::Idle
            && inner.intake == Intake::Open
            && inner.hold.is_none()
            && inner.messages.is_empty()
            && inner.signals.is_empty();
        free.then(|| inner.run())
    }

    /// Begins the activation that was scheduled, with all messages.
    pub(crate) fn begin(&self) -> B {
        let mut inner = self.inner.lock();
        assert_eq!(inner.activation, Activation::Scheduled, "an actor is begun by the queue that it is scheduled in");
        let mut body = inner.run();
        inner.fill(&mut body);
        body
    }

    /// Takes an actor that was never begun and never will be.
    pub(crate) fn seize(&self) -> B {
        self.inner.lock().run()
    }

    /// Adds all messages to `batch`. Only for the owner of `Running`.
    pub(crate) fn take_more(&self, batch: &mut VecDeque<M>) {
        batch.append(&mut self.inner.lock().messages);
    }

    /// The next signal. Only for the owner of `Running`.
    pub(crate) fn next_signal(&self) -> Option<S> {
        // Acquire: pairs with the sender's Release; a signal missed here is seen by `rest`.
        if !self.signalled.load(Ordering::Acquire) {
            return None;
        }
        let mut inner = self.inner.lock();
        let signal = inner.signals.pop_front();
        self.signalled.store(!inner.signals.is_empty(), Ordering::Release);
        signal
    }

    /// A message has been taken up: there is room for another. Only for bounded mailboxes.
    pub(crate) fn make_room(&self) {
        let mut inner = self.inner.lock();
        inner.occupied -= 1;
        let waiting = if inner.occupied < self.capacity { std::mem::take(&mut inner.waiting) } else { Vec::new() };
        drop(inner);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// The owner's turn `turn` is about to be polled and may hold the actor. Wake-ups count from here.
    pub(crate) fn hold(&self, turn: TurnId) {
        self.hold_because(turn, Reason::Turn);
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
        self.inner.lock().hold = Some(Hold { turn, woken: false, reason });
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

    /// Takes the wake-up of the held turn; whether there was one.
    pub(crate) fn take_wake_up(&self) -> bool {
        self.inner.lock().hold.as_mut().is_some_and(|hold| std::mem::take(&mut hold.woken))
    }

    /// Gives `Running` up after a batch, unless there are messages again and the owner `may_go_on`.
    ///
    /// `is_needed` tells whether an actor without messages has something else to live for; it is asked under the lock,
    /// so that whoever lets go of it afterwards finds the actor idle and can [`nudge`](Self::nudge) it.
    pub(crate) fn rest(&self, mut body: B, may_go_on: bool, is_needed: impl FnOnce() -> bool) -> Rest<B> {
        let mut inner = self.inner.lock();
        assert_eq!(inner.activation, Activation::Running, "only the owner of an activation gives it up");
        let is_signalled = !inner.signals.is_empty() && !inner.delays_signals();
        let runnable = is_signalled
            || match &inner.hold {
                Some(hold) => hold.woken,
                None => {
                    !body.batch().is_empty() || (!inner.messages.is_empty() && !cfg!(plant = "rest_without_looking"))
                }
            };
        if runnable {
            if may_go_on {
                inner.fill(&mut body);
                return Rest::GoOn(body);
            }
            inner.body = Some(body);
            inner.activation = Activation::Scheduled;
            return Rest::Again;
        }
        if inner.hold.is_none() && !body.has_suspended() {
            if inner.intake == Intake::Draining {
                return Rest::Drained(body);
            }
            if !is_needed() {
                return Rest::Released(body);
            }
        }
        inner.body = Some(body);
        inner.activation = Activation::Idle;
        Rest::Idle
    }

    /// Refuses everything from now on; what is left is given back.
    pub(crate) fn close(&self) -> VecDeque<M> {
        let mut inner = self.inner.lock();
        inner.intake = Intake::Closed;
        inner.hold = None;
        let signals = std::mem::take(&mut inner.signals);
        let messages = std::mem::take(&mut inner.messages);
        let waiting = std::mem::take(&mut inner.waiting);
        drop(inner);
        drop(signals);
        waiting.into_iter().for_each(Waker::wake);
        messages
    }

    /// Whether the actor is neither running nor about to, and holds no suspended turn.
    pub(crate) fn is_idle(&self) -> bool {
        let inner = self.inner.lock();
        inner.activation == Activation::Idle && inner.hold.is_none()
    }
}

impl<M, S, B: Body<M>> Inner<M, S, B> {
    fn run(&mut self) -> B {
        self.activation = Activation::Running;
        self.body.take().expect("nobody has the body of an actor that does not run")
    }

    /// Moves all messages into the body's batch, if what was taken before has been taken up.
    fn fill(&mut self, body: &mut B) {
        if body.batch().is_empty() {
            std::mem::swap(body.batch(), &mut self.messages);
        }
    }

    fn delays_signals(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.reason == Reason::TentativeTurn)
    }

    fn schedule_if(&mut self, runnable: impl FnOnce(&Self) -> bool) -> Schedule {
        if self.activation == Activation::Idle && self.intake != Intake::Closed && runnable(self) {
            self.activation = Activation::Scheduled;
            return Schedule::Now;
        }
        Schedule::NotNeeded
    }
}
