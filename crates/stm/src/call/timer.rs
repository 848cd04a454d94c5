//! One thread that wakes tasks at their deadlines; started by the first one.
use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use crate::waking::wake_all;

#[derive(Default)]
struct Timer {
    alarms: Mutex<Alarms>,
    changed: Condvar,
}

#[derive(Default)]
struct Alarms {
    /// By deadline, and by a number that tells equal deadlines apart.
    pending: BTreeMap<(Instant, u64), Waker>,
    numbers: u64,
}

static TIMER: LazyLock<&'static Timer> = LazyLock::new(|| {
    let timer: &'static Timer = Box::leak(Box::default());
    std::thread::Builder::new()
        .name("enact-stm-timer".into())
        .spawn(|| timer.run())
        .expect("the system has a thread left for the timer of transactions");
    timer
});

/// A wake-up at a deadline. Dropping it takes it back, so that nothing is left of a wait that has ended before.
pub(super) struct Alarm {
    key: (Instant, u64),
}

impl Alarm {
    /// Wakes `waker` when `deadline` has passed.
    pub(super) fn set(deadline: Instant, waker: Waker) -> Self {
        let mut alarms = TIMER.alarms();
        alarms.numbers += 1;
        let key = (deadline, alarms.numbers);
        alarms.pending.insert(key, waker);
        let is_next = alarms.pending.first_key_value().is_some_and(|(first, _)| *first == key);
        drop(alarms);
        if is_next {
            TIMER.changed.notify_one();
        }
        Self { key }
    }

    /// Wakes `waker` instead: at once, if the deadline has passed meanwhile.
    pub(super) fn redirect(&self, waker: Waker) {
        let mut alarms = TIMER.alarms();
        let superseded = match alarms.pending.get_mut(&self.key) {
            Some(known) => std::mem::replace(known, waker),
            None => {
                drop(alarms);
                return waker.wake();
            }
        };
        // Dropped without the lock: a waker may be the last to know its task.
        drop(alarms);
        drop(superseded);
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        // Dropped without the lock, as above.
        let waker = TIMER.alarms().pending.remove(&self.key);
        drop(waker);
    }
}

impl Timer {
    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut alarms = self.alarms();
        loop {
            let now = Instant::now();
            let next = alarms.pending.first_key_value().map(|((deadline, _), _)| *deadline);
            alarms = match next {
                Some(deadline) if deadline <= now => {
                    let due = alarms.pending.pop_first();
                    drop(alarms);
                    wake_all(due.map(|(_, waker)| waker));
                    self.alarms()
                }
                Some(deadline) => {
                    self.changed.wait_timeout(alarms, deadline - now).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(alarms).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}
