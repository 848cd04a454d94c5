//! One thread that wakes tasks at their deadlines; started by the first one.
//!
//! A transaction that is woken before its deadline leaves its entry, which wakes for nothing when its time comes.
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::task::Waker;
use std::time::Instant;

struct Entry {
    deadline: Instant,
    waker: Waker,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.deadline == other.deadline
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest is the greatest: the heap gives it first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.deadline.cmp(&self.deadline)
    }
}

struct Timer {
    entries: Mutex<BinaryHeap<Entry>>,
    changed: Condvar,
}

static TIMER: LazyLock<&'static Timer> = LazyLock::new(|| {
    let timer: &'static Timer =
        Box::leak(Box::new(Timer { entries: Mutex::new(BinaryHeap::new()), changed: Condvar::new() }));
    std::thread::Builder::new()
        .name("enact-stm-timer".into())
        .spawn(|| timer.run())
        .expect("the system has a thread left for the timer of transactions");
    timer
});

/// Wakes `waker` when `deadline` has passed.
pub(super) fn wake_at(deadline: Instant, waker: Waker) {
    let mut entries = TIMER.entries.lock().unwrap_or_else(PoisonError::into_inner);
    entries.push(Entry { deadline, waker });
    drop(entries);
    TIMER.changed.notify_one();
}

impl Timer {
    fn run(&self) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = Instant::now();
            let next = entries.peek().map(|entry| entry.deadline);
            entries = match next {
                Some(deadline) if deadline <= now => {
                    let due = entries.pop();
                    drop(entries);
                    if let Some(entry) = due {
                        entry.waker.wake();
                    }
                    self.entries.lock().unwrap_or_else(PoisonError::into_inner)
                }
                Some(deadline) => {
                    self.changed.wait_timeout(entries, deadline - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(entries).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
