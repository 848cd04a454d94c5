//! Waking others: tasks, of whatever executor.
use std::collections::HashSet;
use std::task::Waker;

use crate::contain::contain;

/// How many wakers are compared one by one before they are looked up.
const FEW: usize = 16;

/// Wakers in the order in which they came, each once.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    all: Vec<Waker>,
    /// What [`all`](Self::all) wakes, once there are more than a few.
    known: HashSet<(usize, usize)>,
}

impl Wakers {
    /// Adds a waker; gives it back if one is there already that wakes the same.
    pub(crate) fn add(&mut self, waker: Waker) -> Option<Waker> {
        let is_known = if self.all.len() < FEW {
            self.all.iter().any(|known| known.will_wake(&waker))
        } else {
            if self.known.is_empty() {
                self.known.extend(self.all.iter().map(target));
            }
            !self.known.insert(target(&waker))
        };
        if is_known {
            return Some(waker);
        }
        self.all.push(waker);
        None
    }

    pub(crate) fn into_all(self) -> Vec<Waker> {
        self.all
    }
}

/// What a waker wakes: two with the same wake the same.
fn target(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

/// Wakes one after the other.
///
/// A waker that panics has said so through the panic hook. It is the fault of its executor, and it must neither keep others
/// from being woken nor undo what they are woken for.
pub(crate) fn wake_all(wakers: impl IntoIterator<Item = Waker>) {
    for waker in wakers {
        contain(|| waker.wake());
    }
}
