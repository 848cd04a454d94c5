//! The threads and tasks that sleep until a variable changes.
//!
//! # Protocol
//! A sleeper registers under the lock of the variable's stripe: if the versioned lock is still what the sleeper has
//! seen, it sets the *waited* bit in it by compare-exchange and enters itself; otherwise it does not sleep. A commit
//! that has locked a versioned lock with that bit publishes a versioned lock with that bit and then, under the lock of
//! the stripe, takes out whom it wakes. The bit is cleared there when nobody is left.
//!
//! # Locks
//! A thread that finds a [`TxLock`] held looks for a while before it sleeps, and has a *claim* on the lock from before its
//! first look until the attempt after its last has ended. A release that finds a claim wakes nobody: a sleeper would take
//! longer to come than the thread that is awake. That happens a bounded number of times in a row, so that sleepers get
//! their chance.
//!
//! # No lost wake-up
//! The bit is set by compare-exchange on the versioned lock that was seen: a commit has either locked the versioned
//! lock before, then the exchange fails and the sleeper runs again, or it locks it afterwards and finds the bit.
//! Between the lock of a versioned lock and its publication nobody changes it. Shown by the model
//! `retry_and_commit_never_lose_a_wake_up`.
//!
//! A release publishes the lock as free and then looks for claims; the last claim ends and then looks at the lock. Both
//! happen under the lock of the stripe: either the release finds no claim, or the end of the claim finds the lock free,
//! and sleepers are woken, or finds that another has it, which will release it. Shown by the model
//! `sleepers_on_a_lock_are_woken_although_others_wait_awake`.
use std::any::TypeId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::OnceLock;
use enact_sync::{Arc, Mutex};
use smallvec::SmallVec;

use crate::contain::contain;
use crate::domain::DOMAIN;
use crate::lock::{self, OwnerId, TxLock};
use crate::transaction::Condition;
use crate::variable::versioned_lock::{LOCKED, VersionedLock, WAITED};
use crate::waking::wake_all;

const STRIPES: usize = if cfg!(any(enact_loom, enact_shuttle)) { 1 } else { 256 };

/// All sleepers of the process, by the address of the versioned lock they sleep on.
pub(crate) struct Sleepers {
    stripes: OnceLock<Box<[Stripe]>>,
}

/// In a row, so many releases of a lock wake none of its sleepers because a thread that is awake will have it. Measured in
/// `enact-bench defer io` with four threads on two cores.
const PASSED_MAX: u32 = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 32 };

#[derive(Default)]
struct Stripe(Mutex<Known>);

/// What lies under the lock of a stripe.
#[derive(Default)]
struct Known {
    registrations: Vec<Registration>,
    contests: Vec<Contest>,
}

/// A lock that threads wait for awake, or have waited for beside its sleepers.
struct Contest {
    address: usize,
    /// Threads that are awake and will try to acquire it.
    claims: u32,
    /// Releases since its sleepers were woken last.
    passed: u32,
}

/// A thread that waits awake for a lock and then tries to acquire it, until this is dropped.
pub(crate) struct Claim(TxLock);

impl Drop for Claim {
    fn drop(&mut self) {
        DOMAIN.sleepers.end_claim(&self.0);
    }
}

struct Registration {
    address: usize,
    sleeper: Arc<Sleeper>,
    condition: Option<Condition>,
    /// The variable is a lock, and this owner waits for it and has not looked at its holder.
    waits_for: Option<OwnerId>,
}

/// Those of one variable that were taken out, mostly one.
type Due = SmallVec<[Registration; 1]>;

impl Registration {
    /// True if a change to `value` is worth a wake-up; a lock that is free is not when it `passes` sleepers.
    fn is_due(&self, value: u64, of: Option<TypeId>, passes: bool) -> bool {
        match self.waits_for {
            Some(owner) => lock::holder(value).map_or(!passes, |(holder, _)| holder == owner),
            None => self.condition.as_ref().is_none_or(|condition| holds(condition, value, of)),
        }
    }
}

/// Wakes sleepers that were taken out. Their conditions may own anything: if dropping one panics, the panic hook has said
/// so, and the others are woken all the same.
fn wake_entries(due: Due) {
    for registration in due {
        registration.sleeper.wake();
        contain(|| drop(registration));
    }
}

/// One transaction that waits. The first wake-up counts, further ones do nothing.
#[derive(Debug, Default)]
pub(crate) struct Sleeper(Mutex<Sleep>);

/// What the condition says of a value of type `of`.
///
/// A sleeper that is late to take itself out may be in the list of a variable that has been moved, and another one has
/// come to its address: a condition over another type says yes. If it panics, the sleeper is woken, and meets the panic
/// where it belongs.
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

    fn stripe(&self, address: usize) -> &Mutex<Known> {
        let stripes = self.stripes.get_or_init(|| (0..STRIPES).map(|_| Stripe::default()).collect());
        &stripes[(address >> 3) % STRIPES].0
    }

    /// Enters `sleeper` for the variable at `versioned lock`, with what it waits for there; false if the variable has
    /// changed since `seen`.
    pub(crate) fn register(
        &self,
        versioned_lock: &VersionedLock,
        seen: u64,
        sleeper: &Arc<Sleeper>,
        condition: Option<&Condition>,
        waits_for: Option<OwnerId>,
    ) -> bool {
        let address = std::ptr::from_ref(versioned_lock).addr();
        let mut stripe = self.stripe(address).lock();
        loop {
            let now = versioned_lock.load(Ordering::Acquire);
            if now & !WAITED != seen && !cfg!(planted = "sleep_without_looking") {
                return false;
            }
            if now & WAITED != 0
                || versioned_lock.compare_exchange(now, now | WAITED, Ordering::AcqRel, Ordering::Relaxed).is_ok()
            {
                break;
            }
        }
        stripe.registrations.push(Registration {
            address,
            sleeper: Arc::clone(sleeper),
            condition: condition.cloned(),
            waits_for,
        });
        true
    }

    /// Wakes, in the order in which they came, those who sleep on a variable that now has `value`, unless their condition
    /// says that it is not worth it. `of` is the type of a node's value, none for a cell.
    pub(crate) fn wake(&self, versioned_lock: &VersionedLock, value: u64, of: Option<TypeId>) {
        let address = std::ptr::from_ref(versioned_lock).addr();
        let mut stripe = self.stripe(address).lock();
        let passes = value == 0 && stripe.passes(address);
        let is_due =
            |registration: &mut Registration| registration.address == address && registration.is_due(value, of, passes);
        let due: Due = stripe.registrations.extract_if(.., is_due).collect();
        if !stripe.has_sleepers(address) {
            stripe.end_contest(address);
            let now = versioned_lock.load(Ordering::Acquire);
            if now & (LOCKED | WAITED) == WAITED {
                // If it fails, the bit stays although nobody sleeps: the next commit looks here for nothing.
                let _ = versioned_lock.compare_exchange(now, now & !WAITED, Ordering::AcqRel, Ordering::Relaxed);
            }
        }
        drop(stripe);
        wake_entries(due);
    }

    /// Wakes all that sleep on a variable that is about to be gone.
    pub(crate) fn wake_for_good(&self, versioned_lock: &VersionedLock) {
        let address = std::ptr::from_ref(versioned_lock).addr();
        let due = self.stripe(address).lock().take_sleepers(address);
        wake_entries(due);
    }

    /// Announces a thread that waits for a lock and is awake, so that a release need not wake others for it.
    pub(crate) fn claim(&self, lock: TxLock) -> Claim {
        self.stripe(lock.address()).lock().contest(lock.address()).claims += 1;
        Claim(lock)
    }

    /// The thread has acquired the lock or not: if not, and if it was the last, sleepers are woken for a lock that is
    /// free.
    fn end_claim(&self, lock: &TxLock) {
        let address = lock.address();
        let mut stripe = self.stripe(address).lock();
        let contest = stripe.contest(address);
        contest.claims -= 1;
        if contest.claims > 0 {
            return;
        }
        // A holder that we see here comes to the lock of the stripe when it releases, and finds no claim.
        let due = match lock.is_free() && !cfg!(planted = "leave_a_free_lock_in_silence") {
            true => stripe.take_sleepers(address),
            false => Due::new(),
        };
        if !stripe.has_sleepers(address) {
            stripe.end_contest(address);
        }
        drop(stripe);
        wake_entries(due);
    }

    /// Takes a sleeper out again, wherever it still is.
    pub(crate) fn forget(&self, addresses: &[usize], sleeper: &Arc<Sleeper>) {
        for address in addresses {
            let is_it = |registration: &mut Registration| Arc::ptr_eq(&registration.sleeper, sleeper);
            // Dropped without the lock: conditions are of users, and may own anything.
            let mut stripe = self.stripe(*address).lock();
            let gone: Due = stripe.registrations.extract_if(.., is_it).collect();
            if !stripe.has_sleepers(*address) {
                stripe.end_contest(*address);
            }
            drop(stripe);
            drop(gone);
        }
    }
}

impl Known {
    fn has_sleepers(&self, address: usize) -> bool {
        self.registrations.iter().any(|registration| registration.address == address)
    }

    fn take_sleepers(&mut self, address: usize) -> Due {
        self.registrations.extract_if(.., |registration| registration.address == address).collect()
    }

    /// The contest for a lock, which begins with this call if there is none.
    fn contest(&mut self, address: usize) -> &mut Contest {
        let known = self.contests.iter().position(|contest| contest.address == address);
        let n = known.unwrap_or_else(|| {
            self.contests.push(Contest { address, claims: 0, passed: 0 });
            self.contests.len() - 1
        });
        &mut self.contests[n]
    }

    /// True if a thread that is awake is to have the lock that was released, once more before its sleepers.
    fn passes(&mut self, address: usize) -> bool {
        let Some(contest) = self.contests.iter_mut().find(|contest| contest.address == address) else { return false };
        let passes = contest.claims > 0 && contest.passed < PASSED_MAX;
        contest.passed = if passes { contest.passed + 1 } else { 0 };
        passes
    }

    /// Forgets how often sleepers were passed, when there are none.
    fn end_contest(&mut self, address: usize) {
        self.contests.retain(|contest| contest.address != address || contest.claims > 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sleeper_is_passed_a_bounded_number_of_times_and_not_at_all_without_a_claim() {
        enact_sync::explore(1, || {
            let (sleepers, lock, owner) = (&DOMAIN.sleepers, TxLock::new(), OwnerId::fresh());
            let versioned_lock = lock.versioned_lock();
            let sleeps = || {
                let sleeper = Arc::new(Sleeper::default());
                let seen = versioned_lock.load(Ordering::Acquire) & !WAITED;
                assert!(sleepers.register(versioned_lock, seen, &sleeper, None, Some(owner)));
                sleeper
            };
            let is_woken = |sleeper: &Sleeper| sleeper.is_woken(|| Waker::noop().clone());
            let sleeper = sleeps();
            // A second contest goes on where the first was left.
            for claims in [PASSED_MAX / 2, PASSED_MAX - PASSED_MAX / 2] {
                // What another holder would have at the end of the claims.
                lock.set_held(true);
                let claim = sleepers.claim(lock.clone());
                for _ in 0..claims {
                    sleepers.wake(versioned_lock, 0, None);
                    assert!(!is_woken(&sleeper));
                }
                drop(claim);
                assert!(!is_woken(&sleeper));
                lock.set_held(false);
            }
            let claim = sleepers.claim(lock.clone());
            sleepers.wake(versioned_lock, 0, None);
            assert!(is_woken(&sleeper), "passed {PASSED_MAX} times");
            let sleeper = sleeps();
            sleepers.wake(versioned_lock, 0, None);
            assert!(!is_woken(&sleeper));
            drop(claim);
            assert!(is_woken(&sleeper), "nobody is awake, and the lock is free");
            let sleeper = sleeps();
            sleepers.wake(versioned_lock, 0, None);
            assert!(is_woken(&sleeper));
        });
    }
}
