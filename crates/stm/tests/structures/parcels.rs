//! Values that leave a transaction as a whole.
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use enact_stm::{Failed, Parcel, TMVar, TMap, TQueue, atomically, snapshot, try_atomically};

use crate::once;

type Job = Box<dyn FnOnce() -> usize + Send>;

fn push(queue: &TQueue<Parcel<Job>>, n: usize) {
    // A `Cell` inside: sent, and never shared.
    let count = Cell::new(n);
    let parcel = Parcel::<Job>::new(Box::new(move || count.replace(0)));
    once(|tx| queue.push(tx, parcel.clone()));
}

#[test]
fn each_job_of_a_queue_is_run_once_by_one_of_many_workers() {
    const JOBS: usize = 2_000;
    let queue = TQueue::<Parcel<Job>>::bounded(10);
    let sum: usize = thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let jobs = std::iter::from_fn(|| {
                        let number = once(|tx| queue.take(tx)).into_inner()();
                        (number != 0).then_some(number)
                    });
                    jobs.sum::<usize>()
                })
            })
            .collect();
        (1..=JOBS).for_each(|n| push(&queue, n));
        (0..4).for_each(|_| push(&queue, 0));
        workers.into_iter().map(|thread| thread.join().expect("no job is taken twice")).sum()
    });
    assert_eq!(sum, JOBS * (JOBS + 1) / 2);
}

/// Counts how many of its kind there are, and cannot be cloned.
struct Socket(Arc<AtomicUsize>);

impl Socket {
    fn open(count: &Arc<AtomicUsize>) -> Parcel<Self> {
        count.fetch_add(1, Ordering::SeqCst);
        Parcel::new(Self(Arc::clone(count)))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn what_was_taken_is_the_takers_and_goes_when_that_drops_it() {
    let open = Arc::default();
    let queue = TQueue::unbounded();
    for _ in 0..100 {
        let socket = Socket::open(&open);
        once(|tx| queue.push(tx, socket.clone()));
    }
    for left in (0..100).rev() {
        let socket = once(|tx| queue.take(tx)).into_inner();
        assert_eq!(open.load(Ordering::SeqCst), left + 1);
        drop(socket);
        assert_eq!(open.load(Ordering::SeqCst), left, "although the queue's slots were replaced and not freed");
    }
    assert!(once(|tx| queue.try_take(tx)).is_none());
}

#[test]
fn a_value_that_nobody_wants_is_dropped_with_the_commit_and_not_before() {
    let open = Arc::default();
    let current = TMVar::new(Socket::open(&open));
    once(|tx| {
        drop(current.take(tx)?.take(tx)?.expect("it is there"));
        assert_eq!(open.load(Ordering::SeqCst), 1, "the attempt may be rolled back");
        Ok(())
    });
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

#[test]
fn what_is_rolled_back_has_taken_nothing() {
    let open = Arc::default();
    let parcel = Socket::open(&open);
    let refused = try_atomically(|tx| {
        drop(parcel.take(tx)?);
        Err::<(), _>(Failed::Error("refused"))
    });
    assert_eq!(refused.run(), Err("refused"));
    let panics = || once(|tx| parcel.take(tx).map(|_| panic!("on purpose")));
    assert!(catch_unwind(AssertUnwindSafe(|| -> () { panics() })).is_err());
    let in_part = once(|tx| {
        let part = tx.nested(|tx| {
            let taken = parcel.take(tx)?.expect("it is there");
            Err::<(), _>(Failed::Error(taken))
        })?;
        Ok((part, parcel.is_taken(tx)?))
    });
    let (Err(taken), false) = in_part else { panic!("the part has failed") };
    assert!(catch_unwind(AssertUnwindSafe(|| taken.into_inner())).is_err(), "it was never taken");
    assert!(!snapshot(|tx| parcel.is_taken(tx)));
    let taken = once(|tx| parcel.take(tx)).expect("it is there").into_inner();
    assert_eq!(open.load(Ordering::SeqCst), 1);
    drop(taken);
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

#[test]
fn a_parcel_in_two_places_is_taken_from_one_of_them() {
    let open = Arc::default();
    let (map, queue) = (TMap::new(), TQueue::unbounded());
    let (socket, other) = (Socket::open(&open), Socket::open(&open));
    once(|tx| {
        map.insert(tx, 1, socket.clone())?;
        queue.push(tx, socket.clone())?;
        queue.push(tx, other.clone())
    });
    let taken = once(|tx| map.remove(tx, &1)?.expect("it is there").take(tx)).expect("nobody has taken it");
    drop(other);
    drop(socket);
    let second = once(|tx| queue.try_take(tx)).expect("the second is there");
    assert!(!Arc::ptr_eq(&taken.into_inner().0, &Arc::default()));
    drop(second);
    assert_eq!(open.load(Ordering::SeqCst), 0);
}

#[test]
fn a_value_is_there_for_an_operation_of_its_transaction() {
    let queue = TQueue::unbounded();
    push(&queue, 7);
    let outcome = atomically(|tx| {
        let job = queue.take(tx)?;
        tx.defer((), move |()| job.into_inner()())
    });
    assert_eq!(outcome.run().take(), Some(7));
}

#[test]
fn a_value_is_not_there_before_the_commit() {
    let parcel = Parcel::new(1);
    let early = || once(|tx| Ok(parcel.take(tx)?.expect("it is there").into_inner()));
    let panic = catch_unwind(AssertUnwindSafe(early)).expect_err("the transaction has not committed");
    let message = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
    assert!(message.is_some_and(|text| text.contains("has not committed")), "{message:?}");
    assert_eq!(once(|tx| parcel.take(tx)).expect("it is still there").into_inner(), 1);
}

#[test]
fn a_panic_in_the_drop_of_a_taken_value_keeps_the_result() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let parcel = Parcel::new(Bomb);
    assert_eq!(once(|tx| parcel.take(tx).map(drop).map(|()| 7)), 7);
}
