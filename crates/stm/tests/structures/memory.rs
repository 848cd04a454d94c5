//! Long containers are dropped without a deep stack, and what is done with is freed.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use enact_stm::{TChan, TMap, TQueue, TVar};

use crate::once;

/// On a stack that a recursion over the elements would not fit into.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(work);
    thread.expect("a thread can be started").join().expect("no panic and no overflow");
}

#[test]
fn queue_of_a_million_is_dropped_without_a_deep_stack() {
    on_a_small_stack(|| {
        let queue = TQueue::unbounded();
        for block in 0..1_000 {
            once(|tx| (0..1_000).try_for_each(|n| queue.push(tx, block * 1_000 + n)));
        }
        assert_eq!(once(|tx| queue.len(tx)), 1_000_000);
        drop(queue);
    });
}

#[test]
fn chan_with_a_reader_that_is_far_behind_is_dropped_without_a_deep_stack() {
    on_a_small_stack(|| {
        let chan = TChan::new();
        let reader = once(|tx| chan.reader(tx));
        for block in 0..200 {
            once(|tx| (0..1_000).try_for_each(|n| chan.send(tx, block * 1_000 + n)));
        }
        drop(chan);
        assert_eq!(once(|tx| reader.recv(tx).copied()), 0);
        drop(reader);
    });
}

/// Counts how many of its kind there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Replaces values until the last counted one is freed, which may have to wait for transactions of other tests to end.
fn is_freed_in_the_end(count: &AtomicUsize) {
    let other = TVar::new(0);
    let begun = Instant::now();
    while count.load(Ordering::SeqCst) > 0 {
        (0..1000).for_each(|round| once(|tx| tx.write(&other, round).map(drop)));
        // Those transactions may want this core.
        thread::yield_now();
        let left = count.load(Ordering::SeqCst);
        assert!(begun.elapsed() < PATIENCE, "{left} values are left of {THROUGH} that nobody can receive any more");
    }
}

/// How long transactions of other tests may last.
const PATIENCE: Duration = Duration::from_secs(60);
/// What may be kept for a while by workers that have not come round to freeing it, of everything that went through.
const LATE: usize = 2_000;
const THROUGH: usize = 20_000;

#[test]
fn chan_frees_what_all_readers_have_received() {
    let count = Arc::default();
    let chan = TChan::new();
    let (fast, slow) = once(|tx| Ok((chan.reader(tx)?, chan.reader(tx)?)));
    for _ in 0..THROUGH {
        once(|tx| chan.send(tx, Counted::new(&count)));
        once(|tx| fast.recv(tx).map(drop));
    }
    assert!(count.load(Ordering::SeqCst) >= THROUGH, "the slow reader has not received anything yet");
    for _ in 0..THROUGH {
        once(|tx| slow.recv(tx).map(drop));
    }
    is_freed_in_the_end(&count);
    drop((chan, fast, slow));
}

#[test]
fn chan_without_readers_keeps_nothing() {
    let count = Arc::default();
    let chan = TChan::new();
    for _ in 0..THROUGH {
        once(|tx| chan.send(tx, Counted::new(&count)));
    }
    is_freed_in_the_end(&count);
    drop(chan);
}

#[test]
fn queue_frees_what_was_popped_also_while_a_transaction_still_looks_at_an_old_element() {
    let count = Arc::default();
    let queue = TQueue::unbounded();
    once(|tx| queue.push(tx, Counted::new(&count)));
    once(|tx| {
        let oldest = queue.pop(tx)?;
        if tx.attempt() == 1 {
            thread::scope(|scope| {
                let others = scope.spawn(|| {
                    for _ in 0..THROUGH {
                        once(|tx| queue.push(tx, Counted::new(&count)));
                        once(|tx| queue.pop(tx).map(drop));
                    }
                });
                others.join().expect("the others commit");
            });
            let left = count.load(Ordering::SeqCst);
            assert!(left < LATE, "{left} values are left of {THROUGH} that were popped");
        } else {
            // The first attempt has lost: its element was popped by the others.
            return Ok(());
        }
        assert!(Arc::ptr_eq(&oldest.0, &count));
        Ok(())
    });
}

#[test]
fn map_frees_what_was_removed_or_replaced() {
    let count = Arc::default();
    let map = TMap::new();
    for n in 0..THROUGH {
        once(|tx| map.insert(tx, n % 50, Counted::new(&count)).map(drop));
        once(|tx| map.remove(tx, &((n + 7) % 50)).map(drop));
    }
    let left = count.load(Ordering::SeqCst);
    assert!(left < LATE, "{left} values are left of {THROUGH}, although at most 50 are in the map");
    drop(map);
}
