//! What destructors of values may do to transactions, and what they may not.
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use enact_stm::{Deferrable, Owner, TCell, TVar, TxLock, atomically, try_atomically};

use crate::executor::Step;
use crate::forms::{panic_of, set};
use crate::my_turn;

/// Counts its kind, and panics when dropped if it is `armed`; so does the panic's payload.
struct Bomb {
    alive: Arc<AtomicUsize>,
    armed: bool,
}

struct Payload;

impl Drop for Payload {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("a payload that panics");
        }
    }
}

impl Bomb {
    fn new(alive: &Arc<AtomicUsize>, armed: bool) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { alive: Arc::clone(alive), armed }
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
        if self.armed {
            std::panic::panic_any(Payload);
        }
    }
}

#[test]
fn a_panic_in_the_drop_of_a_replaced_value_reaches_no_transaction_and_loses_no_other_value() {
    let _turn = my_turn();
    let alive = Arc::default();
    let (bombs, scratch) = (TVar::new(Bomb::new(&alive, false)), TVar::new(0));
    // The panics of a test that expects them need no reports.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let results: Vec<_> = (0..1_000)
        .map(|n| {
            let replace = || atomically(|tx| tx.write(&bombs, Bomb::new(&alive, n % 10 == 0)).map(|_| n)).run();
            catch_unwind(AssertUnwindSafe(replace)).map_err(std::mem::forget)
        })
        .collect();
    for n in 0..1_000 {
        set(&scratch, n);
    }
    std::panic::set_hook(hook);
    assert_eq!(results, (0..1_000).map(Ok).collect::<Vec<_>>());
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the value that is current");
}

#[test]
fn a_panic_in_the_drop_of_a_value_that_was_never_published_keeps_the_result() {
    let _turn = my_turn();
    let alive = Arc::default();
    let (bombs, n) = (TVar::new(Bomb::new(&alive, false)), TCell::new(0));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let overwrites = || {
        atomically(|tx| {
            for armed in [true, true, false] {
                tx.write(&bombs, Bomb::new(&alive, armed))?;
            }
            tx.write(&n, 7)
        })
        .run()
    };
    let committed = catch_unwind(AssertUnwindSafe(overwrites)).map_err(std::mem::forget);
    let fails = || {
        try_atomically(|tx| {
            tx.write(&bombs, Bomb::new(&alive, true))?;
            let bomb = Bomb::new(&alive, true);
            tx.keep(move || bomb)?;
            Err::<(), _>(enact_stm::Failed::Error("rolled back"))
        })
        .run()
    };
    let failed = catch_unwind(AssertUnwindSafe(fails)).map_err(std::mem::forget);
    std::panic::set_hook(hook);
    assert_eq!((committed, failed), (Ok(7), Ok(Err("rolled back"))));
    assert_eq!(n.into_inner(), 7);
    drop(bombs);
}

#[test]
fn a_function_that_panics_when_its_variable_is_read_leaks_no_value() {
    let _turn = my_turn();
    let alive = Arc::default();
    let variable = TVar::new(Bomb::new(&alive, false));
    let message = panic_of(|| {
        atomically(|tx| {
            let first = Arc::clone(&alive);
            tx.commute(&variable, move |_| Bomb::new(&first, false))?;
            tx.commute(&variable, |_| panic!("the second function"))?;
            tx.read(&variable).map(drop)
        })
        .run();
    });
    assert_eq!(message, "the second function");
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the value that is current");
}

/// Runs something when its thread ends.
struct AtTheEnd(Box<dyn FnOnce()>);

thread_local! {
    static AT_THE_END: RefCell<Option<AtTheEnd>> = const { RefCell::new(None) };
}

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        std::mem::replace(&mut self.0, Box::new(|| ()))();
    }
}

#[test]
fn a_thread_that_ends_may_run_transactions_and_still_not_one_in_another() {
    let _turn = my_turn();
    let (sender, receiver) = mpsc::channel();
    let ending = thread::spawn(move || {
        let n = Arc::new(TCell::new(0));
        AT_THE_END.with(|end| {
            *end.borrow_mut() = Some(AtTheEnd(Box::new(move || {
                let nested = panic_of(|| atomically(|tx| tx.write(&*n, atomically(|tx| tx.read(&*n)).run())).run());
                let alone = atomically(|tx| tx.update(&*n, |n| n + 1)).run();
                sender.send((nested, alone)).expect("the test listens");
            })));
        });
        // Locals of a thread go in the order opposite to that in which they came: those of transactions first.
        set(&TCell::new(0), 1);
    });
    let (nested, alone) = receiver.recv().expect("the thread ends");
    ending.join().expect("no panic");
    assert!(nested.contains("started inside the closure of another one"), "{nested}");
    assert_eq!(alone, 1);
}

#[test]
fn a_dropped_owner_releases_what_it_holds_and_wakes_who_waits() {
    let _turn = my_turn();
    let (clerk, other) = (Owner::new(), Owner::new());
    let locks: [TxLock; 3] = std::array::from_fn(|_| TxLock::new());
    let acquire = |owner: &Owner, n: usize| atomically(|tx| locks[n].acquire(tx)).owned_by(owner).run();
    acquire(&clerk, 0);
    acquire(&clerk, 0);
    acquire(&clerk, 1);
    acquire(&other, 2);
    atomically(|tx| locks[1].release(tx)).owned_by(&clerk).run();
    atomically(|tx| locks[1].acquire(tx).and_then(|()| locks[1].acquire(tx))).owned_by(&clerk).run();
    let mut waiter = Step::new(atomically(|tx| locks[0].subscribe(tx).and_then(|()| locks[1].subscribe(tx))));
    assert!(waiter.poll().is_pending());
    drop(clerk);
    assert!(waiter.wakes() >= 1 && waiter.poll().is_ready());
    assert_eq!(locks.each_ref().map(TxLock::is_held), [false, false, true]);
    drop(other);
    assert!(!locks[2].is_held());
}

#[test]
fn a_transaction_that_commits_after_its_owner_is_gone_releases_at_its_end() {
    let _turn = my_turn();
    let (clerk, lock, n) = (Owner::new(), TxLock::new(), TCell::new(0));
    let mut late = Step::new(
        atomically(|tx| {
            if tx.read(&n)? == 0 {
                return tx.retry();
            }
            lock.acquire(tx)
        })
        .owned_by(&clerk),
    );
    assert!(late.poll().is_pending());
    drop(clerk);
    set(&n, 1);
    assert!(late.poll().is_ready());
    assert!(!lock.is_held());
}

#[test]
fn a_transaction_whose_owner_is_gone_runs_its_operations_before_it_releases() {
    let _turn = my_turn();
    let (clerk, object) = (Owner::new(), Arc::new(Deferrable::new(TxLock::new(), false)));
    let shares = Arc::clone(&object);
    let transaction = atomically(|tx| {
        let lock = tx.open(&shares)?.clone();
        tx.open(&shares)?.acquire(tx)?;
        tx.defer((&shares,), move |(was_held,)| **was_held = lock.is_held()).map(drop)
    })
    .owned_by(&clerk);
    drop(clerk);
    transaction.run();
    drop(shares);
    let (lock, was_held) = Arc::into_inner(object).expect("the operation has ended").into_inner();
    assert!(was_held && !lock.is_held());
}

#[test]
fn an_owner_may_be_dropped_inside_a_transaction() {
    let _turn = my_turn();
    let (clerk, lock) = (Owner::new(), TxLock::new());
    atomically(|tx| lock.acquire(tx)).owned_by(&clerk).run();
    let clerk = std::sync::Mutex::new(Some(clerk));
    let dropped = atomically(|_| Ok(clerk.lock().expect("no panic").take().map(drop))).run();
    assert_eq!(dropped, Some(()));
    atomically(|tx| lock.subscribe(tx)).run();
}
