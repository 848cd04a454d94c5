//! Asynchronous turns: polled, suspended, woken.
use std::pin::Pin;
use std::sync::atomic::fence;
use std::task::{Context, Poll, Wake, Waker};

use enact_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use enact_sync::unmodelled::Arc;

use super::undecided::enter_tentatively;
use super::{ActorCell, Body, Next, in_turn_span};
use crate::deadlock::{self, Owner, Sleeper, Suspension, Turn, TurnId, Wait};
use crate::frame::{self, Polled};
use crate::mailbox::Schedule;
use crate::mailbox::records::Resumption;
use crate::turn::{Panic, Suspended};

/// An asynchronous turn under way.
pub(super) struct Task {
    pub(super) turn: Pin<Box<dyn Suspended>>,
    pub(super) handler: &'static str,
    pub(super) waker: Arc<TurnWaker>,
    /// `waker` as the turn sees it.
    pub(super) as_waker: Waker,
    /// `None` while the turn is polled.
    polled: Option<Box<Polled>>,
    /// Whether the graph of waits knows it as suspended.
    is_suspended: bool,
    /// Whether the mailbox knows that it holds the actor.
    pub(super) is_held: bool,
}

/// What a turn was polled with that has ended: for the next one.
pub(super) struct Spare {
    waker: Arc<TurnWaker>,
    as_waker: Waker,
    polled: Box<Polled>,
}

impl Spare {
    /// Makes it the next turn's, unless somebody still keeps a waker of the last one.
    fn reuse(self, turn: TurnId, holds: bool) -> Option<Self> {
        if Arc::strong_count(&self.waker) > OWN_COUNTS && !cfg!(plant = "reuse_a_kept_waker") {
            return None;
        }
        // What was done with a waker before it was given back is over.
        fence(Ordering::Acquire);
        self.waker.turn.store(turn.0, Ordering::Relaxed);
        self.waker.holds.store(holds, Ordering::Relaxed);
        self.waker.woken.store(false, Ordering::Relaxed);
        Some(self)
    }
}

/// How many references of its waker a task has itself.
const OWN_COUNTS: usize = 2;

/// Wakes one asynchronous turn, or an actor that waits for a fate.
pub(crate) struct TurnWaker {
    pub(super) cell: Arc<ActorCell>,
    turn: AtomicU64,
    pub(super) holds: AtomicBool,
    pub(super) woken: AtomicBool,
}

impl TurnWaker {
    pub(super) fn new(cell: &Arc<ActorCell>, turn: TurnId, holds: bool) -> Arc<Self> {
        Arc::new(Self {
            cell: Arc::clone(cell),
            turn: AtomicU64::new(turn.0),
            holds: AtomicBool::new(holds),
            woken: AtomicBool::new(false),
        })
    }

    /// The turn that is woken.
    pub(crate) fn turn(&self) -> TurnId {
        // Relaxed: it changes while nobody else has the waker.
        TurnId(self.turn.load(Ordering::Relaxed))
    }

    pub(super) fn holds(&self) -> bool {
        // Relaxed: it changes before a poll, which every wake-up that comes later has seen through `woken`.
        self.holds.load(Ordering::Relaxed)
    }

    /// Whether somebody has woken the turn since it was polled last.
    pub(crate) fn is_woken(&self) -> bool {
        // Acquire: pairs with the wake-up, which happens before the waker's owner lets go of it.
        self.woken.load(Ordering::Acquire)
    }
}

impl Wake for TurnWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: what was done before the wake-up is seen by the poll that takes the flag.
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let schedule = if self.holds() {
            self.cell.mailbox.wake_held(self.turn())
        } else {
            self.cell.mailbox.push_resumption(Resumption(self.turn())).unwrap_or(Schedule(None))
        };
        self.cell.schedule(schedule);
    }
}

impl ActorCell {
    pub(super) fn begin_task(
        self: &Arc<Self>,
        body: &mut Body,
        handler: &'static str,
        holds: bool,
        turn: Pin<Box<dyn Suspended>>,
    ) -> Next {
        let (waker, spare) = if let Some(undecided) = &body.undecided {
            (Arc::clone(&undecided.waker), None)
        } else {
            let id = TurnId::fresh();
            if !holds {
                turn.now_owed_by(Owner::Turn(self.own(id)));
            }
            match body.spare.take().and_then(|spare| spare.reuse(id, holds)) {
                Some(Spare { waker, as_waker, polled }) => (waker, Some((as_waker, polled))),
                None => (TurnWaker::new(self, id, holds), None),
            }
        };
        let (as_waker, mut polled) = spare.unwrap_or_else(|| {
            let as_waker = Waker::from(Arc::clone(&waker));
            let polled = Box::new(Polled::new(&as_waker));
            (as_waker, polled)
        });
        polled.begin(waker.turn());
        let (polled, is_held) = (Some(polled), body.undecided.is_some());
        self.poll_task(body, Task { turn, handler, waker, as_waker, polled, is_suspended: false, is_held })
    }

    /// A turn of this actor.
    pub(super) fn own(&self, id: TurnId) -> Turn {
        Turn { id, actor: self.id() }
    }

    pub(super) fn resume(self: &Arc<Self>, body: &mut Body, turn: TurnId) -> Next {
        body.lender.put_back();
        match body.cooperative.remove(&turn) {
            Some(task) => {
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                self.poll_task(body, task)
            }
            // It has ended in the poll in which it was woken, or was cut short by a restart.
            None => Next::GoOn,
        }
    }

    /// Polls a turn, and keeps it if it goes on.
    pub(super) fn poll_task(self: &Arc<Self>, body: &mut Body, mut task: Task) -> Next {
        let _tentatively = enter_tentatively(body);
        loop {
            let was_suspended = std::mem::take(&mut task.is_suspended);
            let verdict = if was_suspended { deadlock::resume(self.own(task.waker.turn())) } else { None };
            if was_suspended || body.undecided.is_some() {
                // Acquire: pairs with the wake-up whose poll this is. Release: the next one sees whether the turn holds the
                // actor.
                task.waker.woken.swap(false, Ordering::AcqRel);
            }
            if let Some(polled) = task.polled.take() {
                frame::begin_poll(polled, verdict);
            }
            let poll = || task.turn.as_mut().poll(&mut Context::from_waker(&task.as_waker), &self.identity);
            let outcome = in_turn_span(&self.identity, task.handler, poll);
            let mut polled = frame::end_poll();
            if let Poll::Ready(ended) = outcome {
                if task.is_held && body.undecided.is_none() {
                    self.mailbox.unhold();
                }
                body.spare = Some(Spare { waker: task.waker, as_waker: task.as_waker, polled });
                return self.turn_ended(body, ended);
            }
            let is_answered = self.has_answered_here(body, &task, &polled);
            if !is_answered {
                polled.leave_waker(&task.as_waker);
            }
            task.polled = Some(polled);
            if !is_answered {
                break;
            }
            if task.is_held {
                self.mailbox.take_wake_up();
            }
        }
        if !task.waker.holds() {
            self.begin_next(&mut body.lender);
        } else if body.undecided.is_none() && !std::mem::replace(&mut task.is_held, true) {
            self.mailbox.hold(&task.waker);
        }
        self.suspend(body, task);
        Next::GoOn
    }

    /// Has the actor that a held turn waits for, and for nothing else, answer on this thread, if it is the next one to run
    /// here; whether the turn can go on.
    ///
    /// Then neither is put away and fetched again. Only that answer, and a signal, could end the turn's wait; a signal is
    /// obeyed when the other actor's turn has returned, which is soon, because it is a plain one that calls nobody.
    fn has_answered_here(&self, body: &Body, task: &Task, polled: &Polled) -> bool {
        // Anything else that keeps the waker could end the wait before.
        if !task.waker.holds() || body.undecided.is_some() || Arc::strong_count(&task.waker) > OWN_COUNTS {
            return false;
        }
        // Whoever gave a waker back has used it before; from here on nobody has one.
        fence(Ordering::Acquire);
        if task.waker.is_woken() {
            return false;
        }
        let Some(source) = polled.waits().only() else { return false };
        source.asked().is_some_and(|asked| self.scheduler.run_next_here(asked))
            && source.is_settled()
            && (!self.mailbox.is_signalled() || cfg!(plant = "go_on_against_a_signal"))
    }

    /// The code of a turn has ended. A tentative turn goes on until it is decided.
    #[inline]
    pub(super) fn turn_ended(self: &Arc<Self>, body: &mut Body, ended: Result<(), Panic>) -> Next {
        self.announce_change();
        if let Some(turn) = body.undecided.as_mut().and_then(|undecided| undecided.turn.as_mut()) {
            turn.ended = Some(ended);
            return Next::GoOn;
        }
        self.begin_next(&mut body.lender);
        self.after_turn(body, ended)
    }

    fn suspend(&self, body: &mut Body, mut task: Task) {
        let Some(polled) = &task.polled else { return };
        // Whatever is left over is kept by something that the graph does not know.
        let opaque = Arc::strong_count(&task.waker) > OWN_COUNTS + polled.waits().own_wakers();
        // A waker given back before we counted was used before that; the wake-up is then seen below.
        fence(Ordering::Acquire);
        let suspension = Suspension {
            turn: task.waker.turn(),
            actor: self.identity.clone(),
            holds: task.waker.holds(),
            waits: polled.waits().sources().map(Wait::Answer).collect(),
            opaque,
            sleeper: Sleeper::Turn(Arc::clone(&task.waker)),
        };
        task.is_suspended = true;
        if task.waker.holds() {
            body.held = Some(Box::new(task));
        } else {
            self.under_way.fetch_add(1, Ordering::Relaxed);
            body.cooperative.insert(task.waker.turn(), task);
        }
        deadlock::suspend([suspension]);
    }
}
