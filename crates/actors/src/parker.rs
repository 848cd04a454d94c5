//! Sleeping until woken, with a memory of one wake-up.
//!
//! A wake-up that comes before the sleep makes the sleep return at once, so a thread that first says what it waits for and
//! then parks cannot miss it.
use std::task::Wake;
use std::time::Instant;

use enact_sync::unmodelled::Arc;
use enact_sync::{Condvar, Mutex};

#[derive(Default)]
pub(crate) struct Parker {
    woken: Mutex<bool>,
    wake_up: Condvar,
}

impl Parker {
    /// Sleeps until the next wake-up, or takes the one that has come since the last.
    pub(crate) fn park(&self) {
        let mut woken = self.woken.lock();
        while !*woken {
            woken = self.wake_up.wait(woken);
        }
        *woken = false;
    }

    /// As [`park`](Self::park), but no longer than until `deadline`. Returns whether it was woken.
    pub(crate) fn park_until(&self, deadline: Instant) -> bool {
        let mut woken = self.woken.lock();
        let mut late = false;
        while !*woken && !late {
            (woken, late) = self.wake_up.wait_until(woken, deadline);
        }
        std::mem::take(&mut *woken)
    }

    pub(crate) fn unpark(&self) {
        *self.woken.lock() = true;
        self.wake_up.notify_one();
    }
}

impl Wake for Parker {
    fn wake(self: Arc<Self>) {
        self.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.unpark();
    }
}
