//! What conflicts and what does not: one transaction runs inside the first attempt of another.
use std::hash::{BuildHasherDefault, Hasher};

use enact_stm::{TArray, TChan, TMVar, TMap, TQueue, TSemaphore, TSet};

use crate::{attempts_beside, once};

/// A number is its own hash, so that a test can choose buckets.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers are hashed here");
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = n;
    }
}

/// 16 buckets, by the last 4 bits of the key.
fn map() -> TMap<u64, u64, BuildHasherDefault<Identity>> {
    TMap::default()
}

#[test]
fn map_changes_of_different_buckets_do_not_conflict() {
    let map = map();
    assert_eq!(attempts_beside(|tx| map.insert(tx, 1, 10).map(drop), |tx| map.insert(tx, 2, 20).map(drop)), 1);
    assert_eq!(attempts_beside(|tx| map.remove(tx, &1).map(drop), |tx| map.remove(tx, &2).map(drop)), 1);
    assert_eq!(once(|tx| map.len(tx)), 0);
}

#[test]
fn map_changes_of_one_bucket_conflict_also_for_an_absent_key() {
    let map = map();
    assert_eq!(attempts_beside(|tx| map.insert(tx, 1, 10).map(drop), |tx| map.insert(tx, 17, 20).map(drop)), 2);
    let reads_and_writes = attempts_beside(
        |tx| {
            let absent = map.get(tx, &33)?;
            map.insert(tx, 2, u64::from(absent.is_some())).map(drop)
        },
        |tx| map.insert(tx, 49, 0).map(drop),
    );
    assert_eq!(reads_and_writes, 2);
    assert_eq!(once(|tx| map.len(tx)), 4);
}

#[test]
fn map_growth_of_a_bucket_conflicts_with_nothing_outside_of_it() {
    let map = map();
    for n in 0..8 {
        once(|tx| map.insert(tx, 16 * n, n).map(drop));
    }
    // The ninth key of the bucket splits it.
    let beside_growth = attempts_beside(|tx| map.insert(tx, 3, 0).map(drop), |tx| map.insert(tx, 16 * 8, 8).map(drop));
    assert_eq!(beside_growth, 1);
    // And then its keys have buckets of their own.
    let in_parts =
        attempts_beside(|tx| map.insert(tx, 16 * 9, 9).map(drop), |tx| map.insert(tx, 16 * 10, 10).map(drop));
    assert_eq!(in_parts, 1);
    for n in 0..=10 {
        assert_eq!(once(|tx| map.get(tx, &(16 * n)).map(Option::<&u64>::copied)), Some(n), "key {}", 16 * n);
    }
}

#[test]
fn set_insertion_of_an_element_that_is_there_writes_nothing() {
    let set: TSet<u64, BuildHasherDefault<Identity>> = TSet::default();
    once(|tx| set.insert(tx, 5).map(drop));
    let reads = attempts_beside(|tx| set.contains(tx, &5), |tx| set.insert(tx, 5));
    assert_eq!(reads, 1);
    let updates = attempts_beside(|tx| set.insert(tx, 21), |tx| set.insert(tx, 5));
    assert_eq!(updates, 1);
}

#[test]
fn queue_push_and_pop_do_not_conflict_while_there_is_something_and_room() {
    // Over more elements than a segment has, and around a ring.
    for queue in [TQueue::unbounded(), TQueue::bounded(3)] {
        once(|tx| queue.push(tx, 0));
        for n in 1..100 {
            let push_inside_pop = attempts_beside(
                |tx| {
                    assert_eq!(*queue.pop(tx)?, 2 * n - 2);
                    Ok(())
                },
                |tx| queue.push(tx, 2 * n - 1),
            );
            let pop_inside_push = attempts_beside(|tx| queue.push(tx, 2 * n), |tx| queue.pop(tx).copied());
            assert_eq!((push_inside_pop, pop_inside_push), (1, 1), "round {n} of {:?}", queue.capacity());
        }
    }
}

#[test]
fn queue_pushes_conflict_with_pushes_and_pops_with_pops() {
    for queue in [TQueue::unbounded(), TQueue::bounded(4)] {
        assert_eq!(attempts_beside(|tx| queue.push(tx, 1), |tx| queue.push(tx, 2)), 2);
        assert_eq!(attempts_beside(|tx| queue.pop(tx).copied(), |tx| queue.pop(tx).copied()), 2);
    }
}

#[test]
fn queue_push_conflicts_with_who_has_seen_it_empty_and_pop_with_who_has_seen_it_full() {
    let queue = TQueue::bounded(1);
    let seen_empty = attempts_beside(
        |tx| {
            let popped = queue.try_pop(tx)?.copied();
            // A transaction that only reads has no conflict, it comes first.
            if popped.is_none() { other_write(tx) } else { Ok(()) }
        },
        |tx| queue.push(tx, 1),
    );
    assert_eq!(seen_empty, 2);
    once(|tx| queue.push(tx, 1));
    let seen_full = attempts_beside(
        |tx| if queue.try_push(tx, 2)?.is_err() { other_write(tx) } else { Ok(()) },
        |tx| queue.pop(tx).copied(),
    );
    assert_eq!(seen_full, 2);
}

/// A write that nobody else has to do with, so that the transaction is not one that only reads.
fn other_write<'t>(tx: &mut enact_stm::Tx<'t, '_>) -> Result<(), enact_stm::Abort> {
    static OTHER: std::sync::LazyLock<enact_stm::TCell<u8>> = std::sync::LazyLock::new(|| enact_stm::TCell::new(0));
    tx.write(&*OTHER, 0).map(drop)
}

#[test]
fn chan_send_does_not_conflict_with_a_reader_that_is_behind_nor_readers_with_each_other() {
    let chan = TChan::new();
    let (a, b) = once(|tx| Ok((chan.reader(tx)?, chan.reader(tx)?)));
    once(|tx| chan.send(tx, 1));
    assert_eq!(attempts_beside(|tx| a.recv(tx).copied(), |tx| chan.send(tx, 2)), 1);
    assert_eq!(attempts_beside(|tx| a.recv(tx).copied(), |tx| b.recv(tx).copied()), 1);
    assert_eq!(attempts_beside(|tx| chan.send(tx, 3), |tx| b.recv(tx).copied()), 1);
    assert_eq!(attempts_beside(|tx| chan.send(tx, 4), |tx| chan.send(tx, 5)), 2);
}

#[test]
fn mvar_takes_conflict() {
    let place = TMVar::new(0);
    let attempts = attempts_beside(
        |tx| Ok(place.try_take(tx)?.is_some()),
        |tx| {
            let n = *place.take(tx)?;
            place.put(tx, n + 1)
        },
    );
    assert_eq!(attempts, 2);
}

#[test]
fn semaphore_releases_do_not_conflict_and_acquisitions_do() {
    let semaphore = TSemaphore::new(10);
    assert_eq!(attempts_beside(|tx| semaphore.release(tx, 1), |tx| semaphore.release(tx, 2)), 1);
    assert_eq!(attempts_beside(|tx| semaphore.acquire(tx, 1), |tx| semaphore.acquire(tx, 2)), 2);
    assert_eq!(once(|tx| semaphore.available(tx)), 10);
}

#[test]
fn array_elements_change_independently() {
    let array = TArray::from_fn(2, |n| n);
    assert_eq!(attempts_beside(|tx| array.set(tx, 0, 7), |tx| array.set(tx, 1, 8)), 1);
    assert_eq!(attempts_beside(|tx| array.update(tx, 0, |n| n + 1), |tx| array.update(tx, 0, |n| n * 10)), 2);
    assert_eq!(array.into_vec(), [71, 8]);
}
