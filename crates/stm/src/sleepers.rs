//! Who sleeps until a variable changes.
//!
//! # Protocol
//! A sleeper registers under the lock of the variable's stripe: if the stamp is still what the sleeper has seen, it sets
//! the *waited* bit in it by compare-exchange and enters itself; otherwise it does not sleep. A commit that has locked a
//! stamp with that bit publishes a stamp with that bit and then, under the lock of the stripe, takes out whom it wakes.
//! The bit is cleared there when nobody is left.
//!
//! # No lost wake-up
//! The bit is set by compare-exchange on the stamp that was seen: a commit has either locked the stamp before, then the
//! exchange fails and the sleeper runs again, or it locks it afterwards and finds the bit. Between the lock of a stamp and
//! its publication nobody changes it. Shown by the model `retry_and_commit_never_lose_a_wake_up`.
use crate::transaction::Condition;
use crate::variable::stamp::{LOCKED, Stamp, WAITED};
use crate::waking::wake_all;
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::OnceLock;
use enact_sync::{Arc, Mutex};
use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

const STRIPES: usize = if cfg!(any(enact_loom, enact_shuttle)) { 1 } else { 256 };

/// All sleepers of the process, by the address of the stamp they sleep on.
pub(crate) struct Sleepers {
    stripes: OnceLock<Box<[Stripe]>>,
}

type Stripe = Mutex<Vec<Entry>>;

struct Entry {
    address: usize,
    sleeper: Arc<Sleeper>,
    condition: Option<Condition>,
}

/// Wakes sleepers that were taken out. Their conditions may own anything: if dropping one panics, the panic hook has said
/// so, and the others are woken all the same.
fn wake_entries(due: Vec<Entry>) {
    for entry in due {
        entry.sleeper.wake();
        let _ = catch_unwind(AssertUnwindSafe(|| drop(entry)));
    }
}

/// One transaction that waits. The first wake-up counts, further ones do nothing.
#[derive(Debug, Default)]
pub(crate) struct Sleeper(Mutex<Sleep>);

/// What the condition says of a value of type `of`.
///
/// A sleeper that is late to take itself out may be in the list of a variable that has been moved, and another one has come
/// to its address: a condition over another type says yes. If it panics, the sleeper is woken, and meets the panic where it
/// belongs.
fn holds(condition: &Condition, value: u64, of: Option<TypeId>) -> bool {
    condition.of != of || catch_unwind(AssertUnwindSafe(|| (condition.test)(value))).unwrap_or(true)
}

#[derive(Debug, Default)]
struct Sleep {
    is_over: bool,
    waker: Option<Waker>,
}

impl Sleeper {
    /// True if something has changed; otherwise `waker` is woken as soon as it does.
    pub(crate) fn is_woken(&self, waker: impl Fn() -> Waker) -> bool {
        // Wakers are of users: neither cloned nor dropped under a lock.
        let mut known = Some(waker());
        let mut sleep = self.0.lock();
        if !sleep.is_over {
            std::mem::swap(&mut sleep.waker, &mut known);
        }
        let is_over = sleep.is_over;
        drop(sleep);
        is_over
    }

    fn wake(&self) {
        let waker = {
            let mut sleep = self.0.lock();
            sleep.is_over = true;
            sleep.waker.take()
        };
        wake_all(waker);
    }
}

impl Sleepers {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self { stripes: OnceLock::new() }
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self { stripes: OnceLock::new() }
    }

    fn stripe(&self, address: usize) -> &Stripe {
        let stripes = self.stripes.get_or_init(|| (0..STRIPES).map(|_| Stripe::default()).collect());
        &stripes[(address >> 3) % STRIPES]
    }

    /// Enters `sleeper` for the variable at `stamp`; false if the variable has changed since `seen`.
    pub(crate) fn register(
        &self,
        stamp: &Stamp,
        seen: u64,
        sleeper: &Arc<Sleeper>,
        condition: Option<&Condition>,
    ) -> bool {
        let address = std::ptr::from_ref(stamp).addr();
        let mut stripe = self.stripe(address).lock();
        loop {
            let now = stamp.load(Ordering::Acquire);
            if now & !WAITED != seen && !cfg!(plant = "sleep_without_looking") {
                return false;
            }
            if now & WAITED != 0
                || stamp.compare_exchange(now, now | WAITED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        stripe.push(Entry { address, sleeper: Arc::clone(sleeper), condition: condition.cloned() });
        true
    }

    /// Wakes, in the order in which they came, those who sleep on a variable that now has `value`, unless their condition
    /// says that it is not worth it. `of` is the type of a node's value, none for a cell.
    pub(crate) fn wake(&self, stamp: &Stamp, value: u64, of: Option<TypeId>) {
        let address = std::ptr::from_ref(stamp).addr();
        let mut stripe = self.stripe(address).lock();
        let is_due = |entry: &mut Entry| {
            entry.address == address && entry.condition.as_ref().is_none_or(|condition| holds(condition, value, of))
        };
        let due: Vec<Entry> = stripe.extract_if(.., is_due).collect();
        if !stripe.iter().any(|entry| entry.address == address) {
            let now = stamp.load(Ordering::Acquire);
            if now & (LOCKED | WAITED) == WAITED {
                // If it fails, the bit stays although nobody sleeps: the next commit looks here for nothing.
                let _ = stamp.compare_exchange(now, now & !WAITED, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        drop(stripe);
        wake_entries(due);
    }

    /// Wakes all who sleep on a variable that is about to be gone.
    pub(crate) fn wake_for_good(&self, stamp: &Stamp) {
        let address = std::ptr::from_ref(stamp).addr();
        let due: Vec<Entry> = self.stripe(address).lock().extract_if(.., |entry| entry.address == address).collect();
        wake_entries(due);
    }

    /// Takes a sleeper out again, wherever it still is.
    pub(crate) fn forget(&self, addresses: &[usize], sleeper: &Arc<Sleeper>) {
        for address in addresses {
            let is_it = |entry: &mut Entry| Arc::ptr_eq(&entry.sleeper, sleeper);
            // Dropped without the lock: conditions are of users, and may own anything.
            let gone: Vec<Entry> = self.stripe(*address).lock().extract_if(.., is_it).collect();
            drop(gone);
        }
    }
}
