//! When replaced values are dropped.
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use enact_stm::{Failed, Linked, TLink, TQueue, TVar, atomically, collect, snapshot, try_atomically};

use crate::{elsewhere, my_turn, poll};

/// Counts how many of its kind there are.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(alive: &Arc<AtomicUsize>) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(alive))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn replace(variable: &TVar<Counted>, alive: &Arc<AtomicUsize>, times: usize) {
    for _ in 0..times {
        atomically(|tx| tx.write(variable, Counted::new(alive)).map(drop)).run();
    }
}

#[test]
fn everything_that_was_taken_from_a_queue_is_dropped_by_a_collection() {
    let _turn = my_turn();
    let alive = Arc::default();
    let queue = TQueue::unbounded();
    for _ in 0..100 {
        atomically(|tx| queue.push(tx, Counted::new(&alive))).run();
    }
    for _ in 0..100 {
        atomically(|tx| queue.pop(tx).map(drop)).run();
    }
    assert_eq!(collect(), 0, "no transaction runs");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn a_value_that_a_transaction_refers_to_stays_until_it_has_ended() {
    let _turn = my_turn();
    let alive = Arc::default();
    let variable = TVar::new(Counted::new(&alive));
    atomically(|tx| {
        let value = tx.read(&variable)?;
        let left = thread::scope(|scope| {
            let other = scope.spawn(|| {
                replace(&variable, &alive, 1);
                collect()
            });
            other.join().expect("no panic")
        });
        assert!(left >= 1, "at least the one that is referred to");
        assert_eq!(value.0.load(Ordering::SeqCst), 2);
        Ok(())
    })
    .run();
    assert_eq!(collect(), 0);
    assert_eq!(alive.load(Ordering::SeqCst), 1);
}

#[test]
fn what_a_thread_has_replaced_is_dropped_when_it_ends() {
    let _turn = my_turn();
    let alive: Arc<AtomicUsize> = Arc::default();
    let variable = Arc::new(TVar::new(Counted::new(&alive)));
    let (its_alive, its_variable) = (Arc::clone(&alive), Arc::clone(&variable));
    thread::spawn(move || replace(&its_variable, &its_alive, 100)).join().expect("no panic");
    assert_eq!(alive.load(Ordering::SeqCst), 1);
}

#[test]
fn what_a_thread_has_replaced_is_dropped_before_it_waits() {
    let _turn = my_turn();
    let alive = Arc::default();
    let queue = TQueue::unbounded();
    for _ in 0..78 {
        atomically(|tx| queue.push(tx, Counted::new(&alive))).run();
    }
    for _ in 0..78 {
        atomically(|tx| queue.pop(tx).map(drop)).run();
    }
    assert!(poll(&mut atomically(|tx| queue.pop(tx).map(drop))).is_pending());
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn what_a_thread_has_replaced_that_rests_is_dropped_by_those_that_go_on() {
    let _turn = my_turn();
    let alive: Arc<AtomicUsize> = Arc::default();
    let (rests, goes_on) = mpsc::channel();
    let (ends, rested) = mpsc::channel::<()>();
    let its_alive = Arc::clone(&alive);
    let resting = thread::spawn(move || {
        let variable = TVar::new(Counted::new(&its_alive));
        replace(&variable, &its_alive, 100);
        rests.send(()).expect("the test goes on");
        rested.recv().expect("the test ends");
    });
    goes_on.recv().expect("the other has replaced its values");
    // Each batch comes round to one descriptor more; there were never more than these at the same time in this program.
    let scratch = TVar::new(0);
    for n in 0..128 * 64 {
        atomically(|tx| tx.write(&scratch, n).map(drop)).run();
    }
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the one that is current");
    ends.send(()).expect("the other rests");
    resting.join().expect("no panic");
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

/// A node of a list.
struct Node {
    _counted: Counted,
    next: TLink<Self>,
}

fn node(alive: &Arc<AtomicUsize>, next: Option<Arc<Node>>) -> Arc<Node> {
    Arc::new(Node { _counted: Counted::new(alive), next: TLink::new(next) })
}

#[test]
fn a_node_is_dropped_when_no_link_leads_to_it_any_more() {
    let _turn = my_turn();
    let alive = Arc::default();
    let last = node(&alive, None);
    let (first, other) = (TLink::from(node(&alive, Some(Arc::clone(&last)))), TLink::new(Some(Arc::clone(&last))));
    assert_eq!(Arc::strong_count(&last), 3, "two links, and our own");
    atomically(|tx| {
        let node = tx.read(&first)?.expect("a node").get();
        let next = tx.read(&node.next)?.map(Linked::to_arc);
        tx.write(&first, next).map(drop)
    })
    .run();
    assert_eq!(collect(), 0, "no transaction runs");
    assert_eq!((alive.load(Ordering::SeqCst), Arc::strong_count(&last)), (1, 3), "one has gone, the other has moved");
    atomically(|tx| tx.write(&first, None).and(tx.write(&other, None)).map(drop)).run();
    assert_eq!(collect(), 0);
    assert_eq!(Arc::strong_count(&last), 1);
    drop((first, other, last));
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
fn a_node_that_was_never_published_is_dropped_with_its_attempt() {
    let _turn = my_turn();
    let alive = Arc::default();
    let link = TLink::from(node(&alive, None));
    let failed = try_atomically(|tx| {
        tx.write(&link, Some(node(&alive, None)))?;
        tx.update(&link, |before| Some(node(&alive, before.map(Linked::to_arc))))?;
        let part = tx.nested(|tx| {
            tx.write(&link, Some(node(&alive, None)))?;
            tx.fail::<(), _>(())
        })?;
        assert_eq!((part, alive.load(Ordering::SeqCst)), (Err(()), 4));
        Err::<(), _>(Failed::Error("rolled back"))
    });
    assert_eq!(failed.run(), Err("rolled back"));
    assert_eq!(alive.load(Ordering::SeqCst), 1, "the one that is current");
}

#[test]
fn a_node_that_a_snapshot_has_kept_goes_with_the_next_commit_or_the_link() {
    let _turn = my_turn();
    let alive = Arc::default();
    let links = [0; 2].map(|_| TLink::from(node(&alive, None)));
    snapshot(|tx| {
        for link in &links {
            tx.read(link)?;
            let replace = || atomically(|tx| tx.write(link, Some(node(&alive, None))).map(drop)).run();
            // When the thread is joined, its garbage is everybody's.
            elsewhere(|| (0..10).for_each(|_| replace()));
            assert!(tx.read(link)?.is_some());
        }
        Ok(())
    });
    assert_eq!(collect(), 0);
    assert_eq!(alive.load(Ordering::SeqCst), 4, "what is current, and what the snapshot has read");
    let [first, second] = links;
    atomically(|tx| tx.write(&first, None).map(drop)).run();
    collect();
    assert_eq!(alive.load(Ordering::SeqCst), 2);
    drop(second);
    assert_eq!(alive.load(Ordering::SeqCst), 0);
}

#[test]
#[should_panic(expected = "values are collected inside a transaction")]
fn a_collection_inside_a_transaction_is_refused() {
    let _turn = my_turn();
    atomically(|_| Ok(collect())).run();
}
