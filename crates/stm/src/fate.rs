//! What becomes of an attempt, for those who depend on it.
use crate::waking::wake_all;
use enact_sync::{Arc, Mutex};
use std::fmt;
use std::task::{Poll, Waker};

/// The fate of one attempt of a transaction, or of one nested part of it: pending, then committed or aborted for good.
///
/// Cloning shares it. Every attempt has a new one.
#[derive(Clone)]
pub struct Fate {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
enum State {
    Pending(Vec<Waker>),
    Committed,
    Aborted,
}

/// What a decided [`Fate`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Everything the attempt did is visible; whoever learns this sees it.
    Committed,
    /// The attempt has had no effect and never will.
    Aborted,
}

impl Fate {
    pub(crate) fn pending() -> Self {
        Self { shared: Arc::new(Mutex::new(State::Pending(Vec::new()))) }
    }

    /// The decision, if there is one.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.shared.lock().decision()
    }

    /// The decision, or a promise to wake `waker` when there is one. Each call adds a waker, unless it would wake the same
    /// task as one that waits already.
    pub fn poll(&self, waker: &Waker) -> Poll<Decision> {
        let mut state = self.shared.lock();
        if let State::Pending(wakers) = &mut *state
            && !wakers.iter().any(|known| known.will_wake(waker))
        {
            wakers.push(waker.clone());
        }
        state.decision().map_or(Poll::Pending, Poll::Ready)
    }

    /// True if both are the fate of the same attempt.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn commit(&self) {
        self.decide(State::Committed);
    }

    pub(crate) fn abort(&self) {
        self.decide(State::Aborted);
    }

    fn decide(&self, decision: State) {
        let mut state = self.shared.lock();
        let State::Pending(_) = &*state else { panic!("the fate of an attempt is decided once") };
        let State::Pending(wakers) = std::mem::replace(&mut *state, decision) else { return };
        drop(state);
        wake_all(wakers);
    }
}

impl State {
    fn decision(&self) -> Option<Decision> {
        match self {
            Self::Pending(_) => None,
            Self::Committed => Some(Decision::Committed),
            Self::Aborted => Some(Decision::Aborted),
        }
    }
}

impl fmt::Debug for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fate").field(&self.decision()).finish()
    }
}
