//! Under many threads: nothing is lost, doubled, reordered or over its limit.
use std::collections::HashSet;
use std::thread;

use enact_stm::{TArray, TCell, TChan, TMap, TQueue, TSemaphore, TSet, atomically, snapshot};

use crate::{my_turn, once};

const THREADS: usize = 4;

#[test]
fn map_keeps_its_sum_under_transfers_and_snapshots_see_it() {
    let _turn = my_turn();
    const KEYS: u64 = 40;
    let map = TMap::new();
    for key in 0..KEYS {
        once(|tx| map.insert(tx, key, 100_i64).map(drop));
    }
    let sum = || snapshot(|tx| Ok(map.entries(tx)?.into_iter().map(|(_, balance)| *balance).sum::<i64>()));
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let map = &map;
            scope.spawn(move || {
                for n in 0..1_000 {
                    let (from, to) = ((n * 7 + thread) % KEYS, (n * 13 + 5 * thread + 1) % KEYS);
                    once(|tx| {
                        // Out of the map and in again: in between it has an entry less, which nobody sees.
                        let Some(balance) = map.remove(tx, &from)? else { unreachable!("every key is in the map") };
                        map.insert(tx, from, balance - 1)?;
                        let balance = *map.get(tx, &to)?.expect("every key is in the map");
                        map.insert(tx, to, balance + 1).map(drop)
                    });
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(sum(), 100 * KEYS as i64);
        }
    });
    assert_eq!(sum(), 100 * KEYS as i64);
    assert_eq!(once(|tx| map.len(tx)), KEYS as usize);
}

#[test]
fn map_loses_no_insertion_while_it_grows() {
    let _turn = my_turn();
    const EACH: usize = 2_000;
    let map = TMap::new();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let map = &map;
            scope.spawn(move || {
                for n in 0..EACH {
                    assert!(!once(|tx| Ok(map.insert(tx, n * THREADS + thread, n)?.is_some())));
                }
            });
        }
    });
    let entries: HashSet<(usize, usize)> =
        snapshot(|tx| Ok(map.entries(tx)?.into_iter().map(|(key, value)| (*key, *value)).collect()));
    assert_eq!(entries.len(), THREADS * EACH);
    assert!(entries.iter().all(|(key, value)| key / THREADS == *value));
    for (key, value) in entries {
        assert_eq!(once(|tx| map.remove(tx, &key).map(Option::<&usize>::copied)), Some(value), "key {key}");
    }
}

#[test]
fn set_admits_each_element_once() {
    let _turn = my_turn();
    let (set, admitted) = (TSet::new(), TCell::new(0_u32));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for n in 0..500 {
                    once(|tx| {
                        if set.insert(tx, n)? {
                            tx.update(&admitted, |count| count + 1)?;
                        }
                        Ok(())
                    });
                }
            });
        }
    });
    assert_eq!((once(|tx| set.len(tx)), admitted.into_inner()), (500, 500));
}

/// Producers push (producer, n) for n = 0, 1, ..; consumers note what they pop.
fn nothing_is_lost_or_reordered(queue: &TQueue<(usize, usize)>) {
    const EACH: usize = 1_000;
    let popped: Vec<Vec<(usize, usize)>> = thread::scope(|scope| {
        for producer in 0..THREADS {
            scope.spawn(move || (0..EACH).for_each(|n| once(|tx| queue.push(tx, (producer, n)))));
        }
        if let Some(capacity) = queue.capacity() {
            scope.spawn(move || {
                for _ in 0..300 {
                    let len = snapshot(|tx| queue.len(tx));
                    assert!(len <= capacity, "{len} elements in a queue for {capacity}");
                }
            });
        }
        let consume = || (0..EACH).map(|_| once(|tx| queue.pop(tx).copied())).collect();
        let consumers: Vec<_> = (0..THREADS).map(|_| scope.spawn(consume)).collect();
        consumers.into_iter().map(|consumer| consumer.join().expect("no panic")).collect()
    });
    for seen in &popped {
        for producer in 0..THREADS {
            assert!(seen.iter().filter(|(from, _)| *from == producer).is_sorted(), "one producer's elements in order");
        }
    }
    let all: HashSet<_> = popped.iter().flatten().collect();
    assert_eq!((all.len(), popped.iter().flatten().count()), (THREADS * EACH, THREADS * EACH));
    assert!(once(|tx| queue.is_empty(tx)));
}

#[test]
fn unbounded_queue_loses_doubles_and_reorders_nothing() {
    let _turn = my_turn();
    nothing_is_lost_or_reordered(&TQueue::unbounded());
}

#[test]
fn bounded_queue_loses_doubles_and_reorders_nothing_and_never_exceeds_its_capacity() {
    let _turn = my_turn();
    nothing_is_lost_or_reordered(&TQueue::bounded(1));
    nothing_is_lost_or_reordered(&TQueue::bounded(7));
}

#[test]
fn element_that_moves_between_queues_is_always_in_exactly_one() {
    let _turn = my_turn();
    let queues = [TQueue::bounded(4), TQueue::unbounded()];
    once(|tx| (0..4).try_for_each(|n| queues[0].push(tx, n)));
    thread::scope(|scope| {
        for from in 0..2 {
            let queues = &queues;
            scope.spawn(move || {
                for _ in 0..1_000 {
                    once(|tx| {
                        let element = *queues[from].pop(tx)?;
                        queues[1 - from].push(tx, element)
                    });
                }
            });
        }
        for _ in 0..200 {
            assert_eq!(snapshot(|tx| Ok(queues[0].len(tx)? + queues[1].len(tx)?)), 4);
        }
    });
}

#[test]
fn chan_readers_receive_everything_in_one_order() {
    let _turn = my_turn();
    const EACH: usize = 500;
    let chan = TChan::new();
    let readers = once(|tx| (0..3).map(|_| chan.reader(tx)).collect::<Result<Vec<_>, _>>());
    let received: Vec<Vec<(usize, usize)>> = thread::scope(|scope| {
        for writer in 0..THREADS {
            let chan = &chan;
            scope.spawn(move || (0..EACH).for_each(|n| once(|tx| chan.send(tx, (writer, n)))));
        }
        let receive = |reader| {
            move || -> Vec<(usize, usize)> {
                let reader: &enact_stm::Reader<_> = reader;
                (0..THREADS * EACH).map(|_| once(|tx| reader.recv(tx).copied())).collect()
            }
        };
        let threads: Vec<_> = readers.iter().map(|reader| scope.spawn(receive(reader))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    assert!(received.iter().all(|sequence| sequence == &received[0]));
    for writer in 0..THREADS {
        let of_writer: Vec<_> = received[0].iter().filter(|(from, _)| *from == writer).map(|(_, n)| *n).collect();
        assert_eq!(of_writer, (0..EACH).collect::<Vec<_>>());
    }
}

#[test]
fn semaphore_never_admits_more_than_its_permits() {
    let _turn = my_turn();
    const PERMITS: u64 = 3;
    let (semaphore, inside) = (TSemaphore::new(PERMITS), TArray::from_fn(1, |_| 0_u64));
    thread::scope(|scope| {
        for thread in 0..THREADS as u64 {
            let (semaphore, inside) = (&semaphore, &inside);
            scope.spawn(move || {
                for n in 0..500 {
                    let count = 1 + (n + thread) % PERMITS;
                    atomically(|tx| {
                        semaphore.acquire(tx, count)?;
                        inside.update(tx, 0, |n| n + count)
                    })
                    .run();
                    assert!(once(|tx| inside.get(tx, 0).copied()) <= PERMITS);
                    atomically(|tx| {
                        inside.update(tx, 0, |n| n - count)?;
                        semaphore.release(tx, count)
                    })
                    .run();
                }
            });
        }
    });
    assert_eq!(once(|tx| semaphore.available(tx)), PERMITS);
}
