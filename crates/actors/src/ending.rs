//! The end of an actor and who is told of it.
use enact_sync::unmodelled::Weak;

use enact_sync::Mutex;
use enact_sync::unmodelled::Arc;

use crate::cell::{ActorCell, Signal};
use crate::error::{Exit, ExitReason};
use crate::{ActorId, Promise, Resolver};

/// Who watches an actor and who is linked to it, until it ends; then, how it ended.
#[derive(Default)]
pub(crate) struct Ending(Mutex<State>);

enum State {
    /// Most live without anybody who watches.
    Alive(Option<Box<Interest>>),
    Ended(Exit),
}

#[derive(Default)]
struct Interest {
    watchers: Vec<Resolver<Exit>>,
    links: Vec<(ActorId, Weak<ActorCell>)>,
}

impl Default for State {
    fn default() -> Self {
        Self::Alive(None)
    }
}

impl Ending {
    /// The promise of the end.
    pub(crate) fn watch(&self) -> Promise<Exit> {
        let mut state = self.0.lock();
        match &mut *state {
            State::Alive(interest) => {
                let Interest { watchers, .. } = &mut **interest.get_or_insert_default();
                watchers.retain(Resolver::is_wanted);
                let (promise, resolver) = Promise::pair();
                watchers.push(resolver);
                promise
            }
            State::Ended(exit) => Promise::ready(exit.clone()),
        }
    }

    /// How it ended, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match &*self.0.lock() {
            State::Alive(_) => None,
            State::Ended(exit) => Some(exit.clone()),
        }
    }

    /// Has the failure of this actor end `other`, too. If it has failed already, that happens now.
    fn pass_failure_to(&self, other: &Arc<ActorCell>) {
        let mut state = self.0.lock();
        match &mut *state {
            State::Alive(interest) => {
                let Interest { links, .. } = &mut **interest.get_or_insert_default();
                let id = other.id();
                links.retain(|(known, _)| *known != id);
                links.push((id, Arc::downgrade(other)));
            }
            State::Ended(exit) => {
                let exit = exit.clone();
                drop(state);
                tell_failure(&exit, other);
            }
        }
    }

    fn forget_link(&self, other: ActorId) {
        if let State::Alive(Some(interest)) = &mut *self.0.lock() {
            interest.links.retain(|(known, _)| *known != other);
        }
    }

    /// Records the end and tells everybody.
    pub(crate) fn end(&self, exit: &Exit) {
        let before = std::mem::replace(&mut *self.0.lock(), State::Ended(exit.clone()));
        let State::Alive(Some(interest)) = before else { return };
        let Interest { watchers, links } = *interest;
        for watcher in watchers {
            watcher.resolve(exit.clone());
        }
        for other in links.iter().filter_map(|(_, other)| other.upgrade()) {
            tell_failure(exit, &other);
            other.ending().forget_link(exit.actor.id());
        }
    }
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
    one.ending().pass_failure_to(other);
    other.ending().pass_failure_to(one);
}

/// Undoes [`link`].
pub(crate) fn unlink(one: &Arc<ActorCell>, other: &Arc<ActorCell>) {
    one.ending().forget_link(other.id());
    other.ending().forget_link(one.id());
}
