//! Asynchronous turns: polled, suspended, woken.
use std::sync::atomic::fence;
use std::task::{Context, Poll, Wake, Waker};

use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;

use super::undecided::enter_tentatively;
use super::{ActorCell, Body, Entry, Next, turn_span};
use crate::Actor;
use crate::deadlock::{self, Owner, Suspension, TurnId, Wait};
use crate::frame::{self, Waits};
use crate::mailbox::Schedule;
use crate::turn::{Panic, Suspended};

/// An asynchronous turn under way.
pub(super) struct Task<A: Actor> {
    pub(super) turn: Box<dyn Suspended>,
    pub(super) handler: &'static str,
    pub(super) waker: Arc<TurnWaker<A>>,
    pub(super) waits: Waits,
}

/// Wakes one asynchronous turn, or an actor that waits for a fate.
pub(super) struct TurnWaker<A: Actor> {
    pub(super) cell: Arc<ActorCell<A>>,
    pub(super) turn: TurnId,
    pub(super) holds: AtomicBool,
    pub(super) woken: Arc<AtomicBool>,
}

impl<A: Actor> TurnWaker<A> {
    pub(super) fn new(cell: &Arc<ActorCell<A>>, turn: TurnId, holds: bool) -> Arc<Self> {
        Arc::new(Self { cell: Arc::clone(cell), turn, holds: AtomicBool::new(holds), woken: Arc::default() })
    }

    pub(super) fn holds(&self) -> bool {
        // Relaxed: it changes before a poll, which every wake-up that comes later has seen through `woken`.
        self.holds.load(Ordering::Relaxed)
    }
}

impl<A: Actor> Wake for TurnWaker<A> {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // AcqRel: what was done before the wake-up is seen by the poll that takes the flag.
        if self.woken.swap(true, Ordering::AcqRel) {
            return;
        }
        let schedule = if self.holds() {
            self.cell.mailbox.wake_held(self.turn)
        } else {
            self.cell.mailbox.push_resumption(Entry::Resume(self.turn)).unwrap_or(Schedule::NotNeeded)
        };
        self.cell.schedule(schedule);
    }
}

impl<A: Actor> ActorCell<A> {
    pub(super) fn begin_task(
        self: &Arc<Self>,
        body: &mut Body<A>,
        handler: &'static str,
        holds: bool,
        started: Result<Box<dyn Suspended>, Panic>,
    ) -> Next {
        let turn = match started {
            Ok(turn) => turn,
            Err(panic) => return self.turn_ended(body, Err(panic)),
        };
        let waker = if let Some(undecided) = &body.undecided {
            Arc::clone(&undecided.waker)
        } else {
            let id = TurnId::fresh();
            if holds {
                self.mailbox.hold(id);
            } else {
                turn.now_owed_by(Owner::Turn(id, self.identity.id()));
            }
            TurnWaker::new(self, id, holds)
        };
        self.poll_task(body, Task { turn, handler, waker, waits: Waits::default() })
    }

    pub(super) fn resume(self: &Arc<Self>, body: &mut Body<A>, turn: TurnId) -> Next {
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
    pub(super) fn poll_task(self: &Arc<Self>, body: &mut Body<A>, mut task: Task<A>) -> Next {
        let _tentatively = enter_tentatively(body);
        let verdict = deadlock::resume(task.waker.turn);
        // Acquire: pairs with the wake-up whose poll this is. Release: the next one sees whether the turn holds the actor.
        task.waker.woken.swap(false, Ordering::AcqRel);
        let waker = Waker::from(Arc::clone(&task.waker));
        frame::begin_poll(task.waker.turn, &waker, std::mem::take(&mut task.waits), verdict);
        let span = turn_span(&self.identity, task.handler);
        let polled = span.in_scope(|| task.turn.poll(&mut Context::from_waker(&waker), &self.identity));
        task.waits = frame::end_poll();
        drop(waker);
        match polled {
            Poll::Ready(ended) => {
                if task.waker.holds() && body.undecided.is_none() {
                    self.mailbox.unhold();
                }
                self.turn_ended(body, ended)
            }
            Poll::Pending => {
                if !task.waker.holds() {
                    self.begin_next();
                }
                self.suspend(body, task);
                Next::GoOn
            }
        }
    }

    /// The code of a turn has ended. A tentative turn goes on until it is decided.
    pub(super) fn turn_ended(self: &Arc<Self>, body: &mut Body<A>, ended: Result<(), Panic>) -> Next {
        self.announce_change();
        if let Some(turn) = body.undecided.as_mut().and_then(|undecided| undecided.turn.as_mut()) {
            turn.ended = Some(ended);
            return Next::GoOn;
        }
        self.begin_next();
        self.after_turn(body, ended)
    }

    pub(super) fn suspend(&self, body: &mut Body<A>, task: Task<A>) {
        // One is ours; whatever is left over is kept by something that the graph does not know.
        let opaque = Arc::strong_count(&task.waker) > 1 + task.waits.own_wakers();
        // A waker given back before we counted was used before that; the wake-up is then seen below.
        fence(Ordering::Acquire);
        let suspension = Suspension {
            turn: task.waker.turn,
            actor: self.identity.clone(),
            holds: task.waker.holds(),
            waits: task.waits.sources().map(Wait::Answer).collect(),
            opaque,
            woken: Arc::clone(&task.waker.woken),
            waker: Waker::from(Arc::clone(&task.waker)),
        };
        if task.waker.holds() {
            body.held = Some(task);
        } else {
            self.under_way.fetch_add(1, Ordering::Relaxed);
            body.cooperative.insert(task.waker.turn, task);
        }
        deadlock::suspend(vec![suspension]);
    }
}
