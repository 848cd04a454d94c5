//! What hardly any actor ever has while it lives, and how it ended.
//!
//! Most live without watchers, without timers, and with one state: for them it is one word behind a lock.
use std::task::Waker;

use enact_sync::Mutex;
use enact_sync::unmodelled::{Arc, Weak};

use crate::cell::{ActorCell, Signal, State};
use crate::error::{Exit, ExitReason};
use crate::timer::Timers;
use crate::turn::contain;
use crate::{ActorId, Identity, Promise, Resolver};

/// An actor's life: what is rare in it, until it ends; then, how it ended.
#[derive(Default)]
pub(crate) struct Life(Mutex<Phase>);

enum Phase {
    Alive(Option<Box<Rare>>),
    Ended(Box<ExitReason>),
}

/// What hardly any actor ever has.
#[derive(Default)]
pub(crate) struct Rare {
    /// The state before a tentative turn that has written.
    pub(crate) original: Option<State>,
    /// The state that the next turn begins with.
    pub(crate) next: Option<State>,
    /// Cooperative turns that wait for a change of the state.
    pub(crate) waiting: Vec<Waker>,
    pub(crate) timers: Option<Arc<Timers>>,
    watchers: Vec<Resolver<Exit>>,
    links: Vec<(ActorId, Weak<ActorCell>)>,
}

impl Default for Phase {
    fn default() -> Self {
        Self::Alive(None)
    }
}

impl Life {
    /// Calls `f` with what is rare in the actor's life, unless that has ended.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Rare) -> R) -> Option<R> {
        match &mut *self.0.lock() {
            Phase::Alive(rare) => Some(f(rare.get_or_insert_default())),
            Phase::Ended(_) => None,
        }
    }

    /// As [`with`](Self::with), if there is anything.
    pub(crate) fn with_any<R>(&self, f: impl FnOnce(&mut Rare) -> R) -> Option<R> {
        match &mut *self.0.lock() {
            Phase::Alive(rare) => rare.as_deref_mut().map(f),
            Phase::Ended(_) => None,
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(*self.0.lock(), Phase::Ended(_))
    }

    /// Ends it, and gives what was rare in it.
    fn end(&self, reason: ExitReason) -> Option<Box<Rare>> {
        match std::mem::replace(&mut *self.0.lock(), Phase::Ended(Box::new(reason))) {
            Phase::Alive(rare) => rare,
            Phase::Ended(_) => None,
        }
    }
}

impl ActorCell {
    /// The promise of the end.
    pub(crate) fn watch(&self) -> Promise<Exit> {
        match &mut *self.life().0.lock() {
            Phase::Alive(rare) => {
                let Rare { watchers, .. } = &mut **rare.get_or_insert_default();
                watchers.retain(Resolver::is_wanted);
                let (promise, resolver) = Promise::pair();
                watchers.push(resolver);
                promise
            }
            Phase::Ended(reason) => Promise::ready(exit(self.identity(), reason)),
        }
    }

    /// Has the failure of this actor end `other`, too. If it has failed already, that happens now.
    fn pass_failure_to(&self, other: &Arc<Self>) {
        let mut phase = self.life().0.lock();
        match &mut *phase {
            Phase::Alive(rare) => {
                let Rare { links, .. } = &mut **rare.get_or_insert_default();
                let id = other.id();
                links.retain(|(known, _)| *known != id);
                links.push((id, Arc::downgrade(other)));
            }
            Phase::Ended(reason) => {
                let exit = exit(self.identity(), reason);
                drop(phase);
                tell_failure(&exit, other);
            }
        }
    }

    fn forget_link(&self, other: ActorId) {
        self.life().with_any(|rare| rare.links.retain(|(known, _)| *known != other));
    }

    /// Records the end, cancels the timers and tells everybody.
    pub(crate) fn end_life(&self, reason: ExitReason) {
        let exit = exit(self.identity(), &reason);
        let Some(rare) = self.life().end(reason) else { return };
        let Rare { timers, watchers, links, original, next, waiting: _ } = *rare;
        timers.into_iter().for_each(|timers| timers.close());
        for watcher in watchers {
            watcher.resolve(exit.clone());
        }
        for other in links.iter().filter_map(|(_, other)| other.upgrade()) {
            tell_failure(&exit, &other);
            other.forget_link(exit.actor.id());
        }
        // A destructor that panics has no turn to fail.
        let _dropped = contain(|| drop((original, next)));
    }
}

fn exit(actor: &Identity, reason: &ExitReason) -> Exit {
    Exit { actor: actor.clone(), reason: reason.clone() }
}

fn tell_failure(exit: &Exit, other: &Arc<ActorCell>) {
    if exit.reason.is_failure() {
        let reason = ExitReason::Failed { because_of: exit.actor.clone() };
        other.signal(Signal::Stop(reason));
    }
}

/// Has the failure of either end the other.
pub(crate) fn link(one: &Arc<ActorCell>, other: &Arc<ActorCell>) {
    if one.id() == other.id() {
        return;
    }
    one.pass_failure_to(other);
    other.pass_failure_to(one);
}

/// Undoes [`link`].
pub(crate) fn unlink(one: &Arc<ActorCell>, other: &Arc<ActorCell>) {
    one.forget_link(other.id());
    other.forget_link(one.id());
}
