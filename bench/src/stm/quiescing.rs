//! Enact with the wait that a transactional memory needs whose values are changed in place: after a commit that has written,
//! until every transaction that was running has ended.
//!
//! Without it, such a memory would let a transaction that is still running, or still undoing, touch what another has
//! just taken out of the shared structure for itself (the *privatization problem* of the Atomic Deferral paper, section 2).
//! Enact has no use for it: the contender shows what the wait costs, with everything else alike.
//!
//! # The protocol
//! Every thread has a counter, odd while it is in a transaction. It enters with a full fence, so that a commit that does not
//! see it as running has published before it began to read. A committer reads the other counters once, and waits for each
//! odd one to change.

use std::cell::Cell;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use enact_stm::{Abort, TCell, TVar, Tx, atomically};
use enact_workloads::stm::Stm;

use super::enact::Enact;
use super::tree::Tree;

type Plain = Enact<false>;

/// Enact, quiescing.
pub(super) struct Quiescing;

/// On a cache line pair of its own, so that a thread that enters disturbs only those that wait for it.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicU64);

const THREADS_MAX: usize = 64;
static COUNTERS: [Counter; THREADS_MAX] = [const { Counter(AtomicU64::new(0)) }; THREADS_MAX];
/// One bit for each counter that a thread has.
static TAKEN: Mutex<u64> = Mutex::new(0);
/// So many counters, from the first, have ever been taken: a commit looks at no others.
static USED: AtomicUsize = AtomicUsize::new(0);

/// A thread's counter, as long as the thread lives.
struct Place {
    number: usize,
    has_written: Cell<bool>,
}

thread_local! {
    static PLACE: Place = Place::take();
}

impl Place {
    fn take() -> Self {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = taken.trailing_ones() as usize;
        assert!(number < THREADS_MAX, "at most {THREADS_MAX} threads quiesce");
        *taken |= 1 << number;
        USED.fetch_max(number + 1, Ordering::SeqCst);
        Self { number, has_written: Cell::new(false) }
    }

    fn counter(&self) -> &'static AtomicU64 {
        &COUNTERS[self.number].0
    }

    fn enter(&self) {
        self.has_written.set(false);
        self.counter().fetch_add(1, Ordering::SeqCst);
    }

    /// Waits if the transaction has written.
    fn leave(&self) {
        self.counter().fetch_add(1, Ordering::SeqCst);
        if self.has_written.get() {
            self.quiesce();
        }
    }

    /// Waits until every transaction of another thread that runs now has ended.
    fn quiesce(&self) {
        let used = &COUNTERS[..USED.load(Ordering::SeqCst)];
        for (_, Counter(other)) in used.iter().enumerate().filter(|(number, _)| *number != self.number) {
            let seen = other.load(Ordering::SeqCst);
            let mut looks = 0_u32;
            while seen % 2 == 1 && other.load(Ordering::Acquire) == seen {
                looks += 1;
                if looks.is_multiple_of(64) { thread::yield_now() } else { spin_loop() }
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << self.number);
    }
}

fn note_write() {
    PLACE.with(|place| place.has_written.set(true));
}

impl Stm for Quiescing {
    type Cell = TCell<i64>;
    type Var<T: Clone + Send + Sync + 'static> = TVar<T>;
    type Tx<'t, 'env: 't> = Tx<'t, 'env>;
    type Abort = Abort;
    type Read<'t, T: Clone + Send + Sync + 'static> = &'t T;
    /// Runs transactions of its own, without the wait: no contender for it.
    type Tree = Tree;

    fn cell(number: i64) -> TCell<i64> {
        Plain::cell(number)
    }

    fn var<T: Clone + Send + Sync + 'static>(value: T) -> TVar<T> {
        Plain::var(value)
    }

    #[inline]
    fn atomically<'env, R, F>(block: F) -> R
    where
        F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort> + 'env,
    {
        PLACE.with(Place::enter);
        let result = atomically(block).run();
        PLACE.with(Place::leave);
        result
    }

    #[inline]
    fn load<'t, 'env: 't>(tx: &mut Tx<'t, 'env>, cell: &'t TCell<i64>) -> Result<i64, Abort> {
        Plain::load(tx, cell)
    }

    #[inline]
    fn store<'t, 'env: 't>(tx: &mut Tx<'t, 'env>, cell: &'t TCell<i64>, number: i64) -> Result<(), Abort> {
        note_write();
        Plain::store(tx, cell, number)
    }

    #[inline]
    fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Tx<'t, 'env>,
        var: &'t TVar<T>,
    ) -> Result<&'t T, Abort> {
        Plain::read(tx, var)
    }

    #[inline]
    fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Tx<'t, 'env>,
        var: &'t TVar<T>,
        value: T,
    ) -> Result<(), Abort> {
        note_write();
        Plain::write(tx, var, value)
    }

    fn retry<'t, 'env: 't, R>(tx: &mut Tx<'t, 'env>) -> Result<R, Abort> {
        Plain::retry(tx)
    }
}
