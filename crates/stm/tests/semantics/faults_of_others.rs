//! Panics in what others have left with a transaction, and what a transaction must not leave to the next one.
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use enact_stm::{Deferrable, Failed, Owner, TCell, TVar, TxLock, atomically, hooks, snapshot};

/// Panics when it is dropped, once.
struct Bomb(Arc<AtomicBool>);

impl Drop for Bomb {
    fn drop(&mut self) {
        assert!(!self.0.swap(false, Ordering::SeqCst), "a destructor that panics");
    }
}

/// A waker that panics.
struct Bad;

impl Wake for Bad {
    fn wake(self: Arc<Self>) {
        panic!("a waker that panics");
    }
}

/// A waker that counts, and tells.
struct Good(AtomicU32, Mutex<mpsc::Sender<()>>);

impl Good {
    fn new() -> (Arc<Self>, mpsc::Receiver<()>) {
        let (sender, receiver) = mpsc::channel();
        (Arc::new(Self(AtomicU32::new(0), Mutex::new(sender))), receiver)
    }
}

impl Wake for Good {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        // The test may be over.
        let _ = self.1.lock().expect("no panic").send(());
    }
}

fn poll<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

#[test]
fn what_a_transaction_keeps_is_gone_with_it() {
    let login = |password: u32, x: &TCell<u32>, conflicts: bool| {
        let conflict = AtomicBool::new(conflicts);
        atomically(|tx| {
            let hash = *tx.keep(|| password)?;
            let seen = tx.read(x)?;
            if conflict.swap(false, Ordering::SeqCst) {
                std::thread::scope(|scope| {
                    scope.spawn(|| atomically(|tx| tx.update(x, |x| x + 1)).run());
                });
            }
            tx.write(x, seen + 1)?;
            Ok(hash)
        })
        .run()
    };
    let x = TCell::new(0);
    assert_eq!(login(1, &x, false), 1);
    assert_eq!(login(2, &x, true), 2, "not what the transaction before has kept");
}

#[test]
fn a_snapshot_acts_for_nobody() {
    let (clerk, lock, n) = (Owner::new(), TxLock::new(), TCell::new(1));
    atomically(|tx| lock.acquire(tx)).owned_by(&clerk).run();
    atomically(|tx| tx.read(&n)).owned_by(&clerk).run();
    let subscribes = catch_unwind(AssertUnwindSafe(|| snapshot(|tx| lock.subscribe(tx))));
    assert!(subscribes.is_err(), "the lock is another's, and a snapshot cannot wait");
}

#[test]
fn a_part_whose_rollback_panics_leaves_nothing_to_the_next_transaction() {
    let armed = Arc::new(AtomicBool::new(true));
    let (c, v) = (TCell::new(0), TVar::new([1_u64; 3]));
    let (s, t) = (TVar::new(String::from("a")), TVar::new(String::from("b")));
    atomically(|tx| {
        let armed = Arc::clone(&armed);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            tx.nested(|tx| -> Result<(), Failed<()>> {
                let bomb = Bomb(armed);
                tx.commute(&c, move |c| {
                    let _ = &bomb;
                    c + 1
                })?;
                Err(Failed::Error(()))
            })
            .is_ok()
        }));
        assert!(tx.attempt() > 1 || caught.is_err());
        tx.write(&v, [2; 3])?;
        tx.write(&v, [3; 3])?;
        Ok(())
    })
    .run();
    atomically(|tx| {
        tx.write(&s, "x".repeat(100))?;
        tx.write(&t, "y".repeat(100))?;
        tx.nested(|_| Ok::<_, Failed<()>>(())).map(drop)
    })
    .run();
    assert_eq!((c.into_inner(), v.into_inner()), (0, [3; 3]));
    assert_eq!((s.into_inner().len(), t.into_inner().len()), (100, 100));
}

#[test]
fn a_committed_transaction_stays_so_whatever_it_meets_when_it_wakes_others() {
    let (x, armed) = (TCell::new(0), Arc::new(AtomicBool::new(false)));
    let bomb = Mutex::new(Some(Bomb(Arc::clone(&armed))));
    let mut sleeper = atomically(|tx| {
        let bomb = bomb.lock().expect("no panic").take();
        tx.wait_for(&x, move |x| {
            let _ = &bomb;
            *x > 0
        })
    });
    assert!(poll(&mut sleeper, &Waker::from(Arc::new(Bad))).is_pending());
    armed.store(true, Ordering::SeqCst);
    let object = Arc::new(Deferrable::new((), 0));
    let fate: [Arc<AtomicBool>; 2] = std::array::from_fn(|_| Arc::default());
    atomically(|tx| {
        tx.write(&x, 1)?;
        let [committed, aborted] = fate.clone();
        hooks::on_commit(tx, move || committed.store(true, Ordering::SeqCst));
        hooks::on_abort(tx, move || aborted.store(true, Ordering::SeqCst));
        tx.defer((&object,), |(count,)| **count += 1).map(drop)
    })
    .run();
    assert_eq!(fate.map(|flag| flag.load(Ordering::SeqCst)), [true, false]);
    assert_eq!(Arc::into_inner(object).expect("the operation has ended").into_inner().1, 1);
}

#[test]
fn a_waker_that_panics_keeps_nobody_else_asleep() {
    let n = TCell::new(0);
    let wait = || atomically(|tx| if tx.read(&n)? == 0 { tx.retry() } else { Ok(()) });
    let (mut first, mut second) = (wait(), wait());
    let (good, _woken) = Good::new();
    assert!(poll(&mut first, &Waker::from(Arc::new(Bad))).is_pending());
    assert!(poll(&mut second, &Waker::from(Arc::clone(&good))).is_pending());
    atomically(|tx| tx.write(&n, 1)).run();
    assert_eq!(good.0.load(Ordering::SeqCst), 1);
}

#[test]
fn a_waker_that_panics_does_not_stop_the_clock() {
    let n = TCell::new(0);
    let deadline = Instant::now() + Duration::from_millis(5);
    let wait = |deadline| {
        let n = &n;
        atomically(move |tx| {
            tx.read(n)?;
            tx.retry_until(deadline).map(drop)
        })
    };
    let (mut first, mut second) = (wait(deadline), wait(deadline + Duration::from_millis(5)));
    let (good, woken) = Good::new();
    let is_late = poll(&mut first, &Waker::from(Arc::new(Bad))).is_ready();
    if poll(&mut second, &Waker::from(good)).is_pending() {
        woken.recv().expect("the deadline passes");
    }
    drop((first, is_late));
}

#[test]
fn a_hand_over_that_panics_leaves_no_object_locked() {
    let (object, other) = (Arc::new(Deferrable::new((), 0)), Arc::new(Deferrable::new((), 0)));
    let forbidden = hooks::hand_over_on_this_thread(|_| panic!("no place to block"));
    let result = catch_unwind(AssertUnwindSafe(|| {
        atomically(|tx| {
            tx.defer((&object,), |(count,)| **count += 1).map(drop)?;
            tx.defer((&other,), |(count,)| **count += 1).map(drop)
        })
        .run();
    }));
    drop(forbidden);
    assert!(result.is_err(), "the thread that has deferred hears of it");
    for object in [object, other] {
        atomically(|tx| tx.open(&object).map(drop)).run();
        assert_eq!(Arc::into_inner(object).expect("the operation has ended").into_inner().1, 1);
    }
}
