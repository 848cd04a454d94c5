//! What becomes of an attempt, for those who depend on it.
use std::fmt;
use std::sync::atomic::Ordering;
use std::task::{Poll, Waker};

use enact_sync::unmodelled::AtomicU64;
use enact_sync::{Arc, Mutex};

use crate::waking::{Wakers, wake_all};

/// The fate of one attempt of a transaction, or of one nested part of it: pending, then committed or aborted for good.
///
/// Cloning shares it. Every attempt has a new one.
#[derive(Clone)]
pub struct Fate {
    shared: Arc<Shared>,
}

struct Shared {
    /// Counts the fates there have been, which orders them.
    serial: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Pending(Wakers),
    Committed,
    Aborted,
}

/// What a decided [`Fate`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Everything the attempt did is visible to each thread that learns this.
    Committed,
    /// The attempt has had no effect and never will.
    Aborted,
}

impl Fate {
    pub(crate) fn pending() -> Self {
        static FATES: AtomicU64 = AtomicU64::new(0);
        let serial = FATES.fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::new(Shared { serial, state: Mutex::new(State::Pending(Wakers::default())) }) }
    }

    /// The decision, if there is one.
    #[must_use]
    pub fn decision(&self) -> Option<Decision> {
        self.shared.state.lock().decision()
    }

    /// The decision, or a promise to wake `waker` when there is one. Each call adds a waker, unless it would wake the same
    /// task as one that waits already.
    pub fn poll(&self, waker: &Waker) -> Poll<Decision> {
        // Cloned and dropped outside the lock, because both run code of others.
        let waker = waker.clone();
        let mut state = self.shared.state.lock();
        let unneeded = match &mut *state {
            State::Pending(wakers) => wakers.add(waker),
            State::Committed | State::Aborted => Some(waker),
        };
        let decision = state.decision();
        drop(state);
        drop(unneeded);
        decision.map_or(Poll::Pending, Poll::Ready)
    }

    /// True if both are the fate of the same attempt.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// True if this fate was there before `other`.
    pub(crate) fn is_older_than(&self, other: &Self) -> bool {
        self.shared.serial < other.shared.serial
    }

    pub(crate) fn commit(&self) {
        self.decide(State::Committed);
    }

    pub(crate) fn abort(&self) {
        self.decide(State::Aborted);
    }

    fn decide(&self, decision: State) {
        let mut state = self.shared.state.lock();
        let State::Pending(_) = &*state else { panic!("the fate of an attempt is decided once") };
        let State::Pending(wakers) = std::mem::replace(&mut *state, decision) else { return };
        drop(state);
        wake_all(wakers.into_all());
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
