//! A waiting transaction sleeps, and is woken by what it waits for and by nothing else. Futures are polled by hand, so that every
//! step is seen.
use std::fmt::Debug;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use enact_stm::{TChan, TMVar, TQueue, TSemaphore, atomically};

use crate::once;

#[derive(Default)]
struct Wakes(AtomicU32);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// The future sleeps until `enable` is called, with one wake-up, and is then ready with `expected`.
fn sleeps_until<R: Debug + PartialEq>(future: impl Future<Output = R>, enable: impl FnOnce(), expected: &R) {
    let mut future = pin!(future);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut cx = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut cx).is_pending());
    assert_eq!(wakes.0.load(Ordering::SeqCst), 0);
    enable();
    assert_eq!(wakes.0.load(Ordering::SeqCst), 1);
    let Poll::Ready(result) = future.poll(&mut cx) else { panic!("woken for nothing") };
    assert_eq!(&result, expected);
}

#[test]
fn queue_pop_sleeps_while_it_is_empty_and_push_while_it_is_full() {
    for queue in [TQueue::unbounded(), TQueue::bounded(1)] {
        // Also where one segment ends and the next begins.
        for n in 0..70 {
            let pop = atomically(|tx| Ok((*queue.pop(tx)?, tx.attempt())));
            sleeps_until(pop, || once(|tx| queue.push(tx, n)), &(n, 2));
        }
    }
    let queue = TQueue::bounded(2);
    once(|tx| queue.push(tx, 1).and_then(|()| queue.push(tx, 2)));
    let push = atomically(|tx| queue.push(tx, 3).map(|()| tx.attempt()));
    sleeps_until(push, || once(|tx| queue.pop(tx).map(drop)), &2);
    assert_eq!(once(|tx| Ok((*queue.pop(tx)?, *queue.pop(tx)?))), (2, 3));
}

#[test]
fn chan_recv_sleeps_until_something_is_sent() {
    let chan = TChan::new();
    let reader = once(|tx| chan.reader(tx));
    sleeps_until(atomically(|tx| Ok((*reader.recv(tx)?, tx.attempt()))), || once(|tx| chan.send(tx, 4)), &(4, 2));
}

#[test]
fn mvar_take_and_read_sleep_while_it_is_empty_and_put_while_it_is_full() {
    let place = TMVar::empty();
    sleeps_until(atomically(|tx| place.read(tx).copied()), || once(|tx| place.put(tx, 1)), &1);
    sleeps_until(atomically(|tx| place.put(tx, 2)), || once(|tx| place.take(tx).map(drop)), &());
    once(|tx| place.take(tx).map(drop));
    sleeps_until(atomically(|tx| place.take(tx).copied()), || once(|tx| place.put(tx, 3)), &3);
}

#[test]
fn semaphore_acquire_is_not_woken_before_there_are_enough_permits() {
    let semaphore = TSemaphore::new(0);
    let acquire = atomically(|tx| semaphore.acquire(tx, 3).map(|()| tx.attempt()));
    let enable = || (0..3).for_each(|_| once(|tx| semaphore.release(tx, 1)));
    sleeps_until(acquire, enable, &2);
}

#[test]
fn semaphore_acquire_counts_what_its_own_transaction_has_released() {
    let semaphore = TSemaphore::new(0);
    let acquire = atomically(|tx| {
        semaphore.release(tx, 2)?;
        semaphore.acquire(tx, 5)
    });
    // With the two of its own these are enough, although nobody else sees five.
    sleeps_until(acquire, || once(|tx| semaphore.release(tx, 3)), &());
    assert_eq!(once(|tx| semaphore.available(tx)), 0);
}
