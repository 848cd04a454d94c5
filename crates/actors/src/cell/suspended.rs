//! A suspended turn, and when the graph of waits learns of it.
//!
//! Most turns that wait are answered soon, and none of them needs the graph: it is for the wait that never ends. So a turn
//! that suspends leaves what it waits for beside its waker, and its worker keeps a list of such turns. The worker enters
//! those in the graph that still wait after a while, and all of them before it sleeps. A circle is found when the last of
//! its turns is entered, as it would be if they all were at once: none of them goes on before. A worker that is in a
//! long turn enters nobody meanwhile, and the circle is found afterwards.
use enact_sync::unmodelled::Arc;

use super::TurnWaker;
use crate::deadlock::{self, Sleeper, Suspension, Turn, Verdict, Wait};
use crate::frame::Polled;
use crate::scheduler;

/// What is known of a turn while nobody polls it, behind the lock of its waker.
#[derive(Default)]
pub(super) struct Rest {
    /// `None` while the turn is polled, and when it has ended.
    suspended: Option<Suspended>,
    /// Whether a worker has it on its list.
    is_listed: bool,
}

struct Suspended {
    polled: Box<Polled>,
    /// Whether something that the graph does not know could wake the turn.
    is_opaque: bool,
    progress: Progress,
}

/// How far it has come on its way to the graph.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Listed,
    /// Its worker has come across it once.
    Seen,
    Entered,
}

impl TurnWaker {
    /// The turn is suspended, which was polled with `polled`.
    pub(super) fn suspend(self: &Arc<Self>, polled: Box<Polled>, is_opaque: bool) {
        let mut rest = self.rest.lock();
        rest.suspended = Some(Suspended { polled, is_opaque, progress: Progress::Listed });
        let was_listed = std::mem::replace(&mut rest.is_listed, true);
        drop(rest);
        if !was_listed {
            scheduler::list_suspended(self);
        }
    }

    /// The suspended turn is about to go on, or ends: what it was polled with, and what was found about its waits.
    ///
    /// # Panics
    /// If it is not suspended.
    pub(super) fn resume(&self) -> (Box<Polled>, Option<Box<Verdict>>) {
        let suspended = self.rest.lock().suspended.take().expect("a turn that goes on was suspended");
        let verdict = if suspended.progress == Progress::Entered { deadlock::resume(self.own()) } else { None };
        (suspended.polled, verdict)
    }

    /// The turn, with its actor.
    pub(super) fn own(&self) -> Turn {
        Turn { id: self.turn(), actor: self.cell.id() }
    }

    /// Enters the turn in the graph of waits, if it is suspended. It is on no list from here on.
    pub(crate) fn enter(self: &Arc<Self>) {
        let mut rest = self.rest.lock();
        rest.is_listed = cfg!(planted = "list_only_once");
        let entered = rest.suspended.as_mut().and_then(|suspended| suspended.enter(self));
        drop(rest);
        entered.into_iter().for_each(deadlock::judge);
    }

    /// As [`enter`](Self::enter), if the worker comes across this suspension for the second time; else the turn stays on
    /// the list if it is suspended. Whether it does.
    pub(crate) fn enter_later(self: &Arc<Self>) -> bool {
        let mut rest = self.rest.lock();
        if let Some(suspended) = &mut rest.suspended
            && suspended.progress == Progress::Listed
        {
            suspended.progress = Progress::Seen;
            return true;
        }
        drop(rest);
        self.enter();
        false
    }
}

impl Suspended {
    fn enter(&mut self, waker: &Arc<TurnWaker>) -> Option<deadlock::Entered> {
        if self.progress == Progress::Entered {
            return None;
        }
        self.progress = Progress::Entered;
        Some(deadlock::enter(Suspension {
            turn: waker.turn(),
            actor: waker.cell.identity().clone(),
            holds: waker.holds(),
            waits: self.polled.waits().sources().map(Wait::Answer).collect(),
            opaque: self.is_opaque,
            sleeper: Sleeper::Turn(Arc::clone(waker)),
        }))
    }
}
