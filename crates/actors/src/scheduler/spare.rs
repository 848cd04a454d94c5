//! Threads that stand in for a worker whose thread blocks.
//!
//! A turn that blocks its thread first hands its *core* over: the worker's queue and place in the system. Another
//! thread goes on with it at once, so that a blocked turn delays nobody and the pool cannot run dry. The blocked
//! thread ends its turn without a core, and then waits here for one.
use std::collections::VecDeque;

use enact_sync::{Condvar, Mutex};

use super::worker::Core;

/// How many threads without a core are kept for the next time.
const SPARES_MAX: usize = 16;

#[derive(Default)]
pub(crate) struct Spares {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    offered: VecDeque<Box<Core>>,
    waiting: usize,
    closed: bool,
}

impl Spares {
    /// Offers a core. Returns whether a new thread is needed to take it.
    pub(crate) fn offer(&self, core: Box<Core>) -> bool {
        let mut state = self.state.lock();
        state.offered.push_back(core);
        let missing = state.offered.len() > state.waiting;
        drop(state);
        self.changed.notify_one();
        missing
    }

    /// Takes a core back that nobody has taken.
    pub(crate) fn withdraw(&self) -> Option<Box<Core>> {
        self.state.lock().offered.pop_back()
    }

    /// Waits for a core; `None` if enough threads wait already, or no core will come any more.
    pub(crate) fn take(&self) -> Option<Box<Core>> {
        let mut state = self.state.lock();
        if state.offered.is_empty() && state.waiting >= SPARES_MAX {
            return None;
        }
        state.waiting += 1;
        while state.offered.is_empty() && !state.closed {
            state = self.changed.wait(state);
        }
        state.waiting -= 1;
        state.offered.pop_front()
    }

    /// Sends all waiting threads home.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}
