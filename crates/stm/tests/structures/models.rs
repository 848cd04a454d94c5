//! Every container does what its plain counterpart does, in transactions of any size, committed or rolled back.
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt::Debug;

use enact_stm::{Failed, TArray, TChan, TMVar, TMap, TQueue, TSemaphore, TSet, snapshot, try_atomically};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Runs generated transactions, the same ones each time; proptest prints and shrinks a failing one.
fn check<S: Strategy<Value: Debug>>(strategy: &S, test: impl Fn(S::Value)) {
    let config = Config { cases: 64, failure_persistence: None, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    let result = TestRunner::new_with_rng(config, rng).run(strategy, |input| {
        test(input);
        Ok(())
    });
    if let Err(failure) = result {
        panic!("{failure}");
    }
}

/// Transactions of several steps, and whether each is to commit.
fn transactions<T: Debug + Clone>(step: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<(Vec<T>, bool)>> {
    let transaction = (proptest::collection::vec(step, 1..12), prop::bool::weighted(0.8));
    proptest::collection::vec(transaction, 1..24)
}

/// Runs the steps of each transaction on the container and on the model, and rolls both back together.
///
/// A macro, because what the steps borrow from the container lives as long as the attempt.
macro_rules! run {
    ($transactions:expr, $model:expr, |$tx:ident, $step:ident, $m:ident| $body:block) => {
        for (steps, commits) in &$transactions {
            let before = $model.clone();
            let after = std::cell::RefCell::new(None);
            let outcome = try_atomically(|$tx| {
                let mut m = before.clone();
                for $step in steps {
                    let $m = &mut m;
                    $body
                }
                *after.borrow_mut() = Some(m);
                if *commits { Ok(()) } else { Err(Failed::Error(())) }
            })
            .run();
            assert_eq!(outcome.is_ok(), *commits);
            if *commits {
                $model = after.into_inner().expect("the transaction has ended well");
            }
        }
    };
}

#[derive(Debug, Clone)]
enum OfMap {
    Insert(u16, u32),
    Remove(u16),
    Get(u16),
    Len,
}

#[test]
fn map_is_a_hash_map() {
    // Few keys, so that they meet; 300 of them, so that buckets are split.
    let key = 0..300_u16;
    let step = prop_oneof![
        6 => (key.clone(), any::<u32>()).prop_map(|(key, value)| OfMap::Insert(key, value)),
        2 => key.clone().prop_map(OfMap::Remove),
        2 => key.prop_map(OfMap::Get),
        1 => Just(OfMap::Len),
    ];
    check(&transactions(step), |transactions| {
        let (map, mut model) = (TMap::new(), HashMap::new());
        run!(transactions, model, |tx, step, m| {
            match step {
                OfMap::Insert(key, value) => {
                    assert_eq!(map.insert(tx, *key, *value)?.copied(), m.insert(*key, *value));
                }
                OfMap::Remove(key) => assert_eq!(map.remove(tx, key)?.copied(), m.remove(key)),
                OfMap::Get(key) => {
                    assert_eq!(map.get(tx, key)?, m.get(key));
                    assert_eq!(map.contains_key(tx, key)?, m.contains_key(key));
                }
                OfMap::Len => {
                    assert_eq!(map.len(tx)?, m.len());
                    assert_eq!(map.is_empty(tx)?, m.is_empty());
                }
            }
        });
        let entries: HashMap<_, _> =
            snapshot(|tx| Ok(map.entries(tx)?.into_iter().map(|(key, value)| (*key, *value)).collect()));
        assert_eq!(entries, model);
    });
}

#[test]
fn map_holds_any_number_of_keys_with_equal_hashes() {
    #[derive(Default)]
    struct Same;
    impl std::hash::BuildHasher for Same {
        type Hasher = std::hash::DefaultHasher;
        fn build_hasher(&self) -> Self::Hasher {
            std::hash::DefaultHasher::new()
        }
        fn hash_one<T: std::hash::Hash>(&self, _: T) -> u64 {
            u64::MAX
        }
    }
    let map = TMap::with_capacity_and_hasher(0, Same);
    for n in 0..40 {
        crate::once(|tx| map.insert(tx, n, n * n).map(drop));
    }
    for n in 0..40 {
        assert_eq!(crate::once(|tx| map.remove(tx, &n).map(Option::<&i32>::copied)), Some(n * n));
    }
    assert!(crate::once(|tx| map.is_empty(tx)));
}

#[test]
fn set_is_a_hash_set() {
    let step = (0..60_u8, 0..4_u8);
    check(&transactions(step), |transactions| {
        let (set, mut model) = (TSet::with_capacity(8), HashSet::new());
        run!(transactions, model, |tx, step, m| {
            match step {
                (element, 0 | 1) => assert_eq!(set.insert(tx, *element)?, m.insert(*element)),
                (element, 2) => assert_eq!(set.remove(tx, element)?, m.remove(element)),
                (element, _) => assert_eq!(set.contains(tx, element)?, m.contains(element)),
            }
            assert_eq!(set.is_empty(tx)?, m.is_empty());
        });
        let elements: HashSet<_> = snapshot(|tx| Ok(set.elements(tx)?.into_iter().copied().collect()));
        assert_eq!(elements, model);
        assert_eq!(snapshot(|tx| set.len(tx)), model.len());
    });
}

fn queue_is_a_deque(queue: impl Fn() -> TQueue<u32>) {
    check(&transactions(prop::option::weighted(0.6, any::<u32>())), |transactions| {
        let (queue, mut model) = (queue(), VecDeque::new());
        run!(transactions, model, |tx, step, m| {
            match step {
                Some(value) if queue.capacity().is_some_and(|capacity| m.len() == capacity) => {
                    assert_eq!(queue.try_push(tx, *value)?, Err(*value));
                }
                Some(value) => {
                    assert_eq!(queue.try_push(tx, *value)?, Ok(()));
                    m.push_back(*value);
                }
                None => assert_eq!(queue.try_pop(tx)?.copied(), m.pop_front()),
            }
            assert_eq!((queue.len(tx)?, queue.is_empty(tx)?), (m.len(), m.is_empty()));
        });
        for expected in model {
            assert_eq!(crate::once(|tx| queue.pop(tx).copied()), expected);
        }
    });
}

#[test]
fn unbounded_queue_is_a_deque() {
    queue_is_a_deque(TQueue::unbounded);
}

#[test]
fn bounded_queue_is_a_deque_that_refuses_one_more() {
    queue_is_a_deque(|| TQueue::bounded(1));
    queue_is_a_deque(|| TQueue::bounded(5));
}

#[test]
#[should_panic(expected = "a queue of capacity 0")]
fn queue_of_capacity_0_is_refused() {
    drop(TQueue::<u8>::bounded(0));
}

#[test]
fn chan_gives_every_reader_every_value_in_one_order() {
    // `None` sends, `Some(n)` receives with reader n.
    let step = prop::option::weighted(0.7, 0..3_usize);
    check(&transactions(step), |transactions| {
        let chan = TChan::new();
        let readers = crate::once(|tx| (0..3).map(|_| chan.reader(tx)).collect::<Result<Vec<_>, _>>());
        let mut model = (0_u32, [0_u32; 3]);
        run!(transactions, model, |tx, step, m| {
            match step {
                None => {
                    chan.send(tx, m.0)?;
                    m.0 += 1;
                }
                Some(n) => {
                    let expected = (m.1[*n] < m.0).then_some(m.1[*n]);
                    assert_eq!(readers[*n].try_recv(tx)?.copied(), expected);
                    m.1[*n] += u32::from(expected.is_some());
                }
            }
        });
        let fork = crate::once(|tx| readers[0].fork(tx));
        for expected in model.1[0]..model.0 {
            assert_eq!(crate::once(|tx| Ok((*readers[0].recv(tx)?, *fork.recv(tx)?))), (expected, expected));
        }
    });
}

#[test]
fn mvar_is_an_option() {
    let step = prop::option::weighted(0.5, any::<u8>());
    check(&transactions(step), |transactions| {
        let (place, mut model) = (TMVar::empty(), None);
        run!(transactions, model, |tx, step, m| {
            match step {
                Some(value) if m.is_some() => assert_eq!(place.try_put(tx, *value)?, Err(*value)),
                Some(value) => {
                    assert_eq!(place.try_put(tx, *value)?, Ok(()));
                    *m = Some(*value);
                }
                None => assert_eq!(place.try_take(tx)?.copied(), m.take()),
            }
            assert_eq!(place.try_read(tx)?, m.as_ref());
        });
    });
}

#[test]
fn semaphore_is_a_number() {
    let step = (any::<bool>(), 0..5_u64);
    check(&transactions(step), |transactions| {
        let (semaphore, mut model) = (TSemaphore::new(6), 6_u64);
        run!(transactions, model, |tx, step, m| {
            match step {
                (true, count) => {
                    semaphore.release(tx, *count)?;
                    *m += count;
                }
                (false, count) => {
                    assert_eq!(semaphore.try_acquire(tx, *count)?, *m >= *count);
                    *m = m.checked_sub(*count).unwrap_or(*m);
                }
            }
        });
        assert_eq!(snapshot(|tx| semaphore.available(tx)), model);
    });
}

#[test]
#[should_panic(expected = "at most u64::MAX permits")]
fn semaphore_refuses_a_permit_too_many() {
    let semaphore = TSemaphore::new(u64::MAX);
    crate::once(|tx| semaphore.release(tx, 1));
}

#[test]
fn array_is_an_array() {
    let step = (0..5_usize, any::<u32>());
    check(&transactions(step), |transactions| {
        let (array, mut model) = (TArray::from_fn(5, |n| n as u32), vec![0, 1, 2, 3, 4]);
        run!(transactions, model, |tx, step, m| {
            let (index, value) = step;
            assert_eq!(*array.get(tx, *index)?, m[*index]);
            if value % 2 == 0 {
                array.set(tx, *index, *value)?;
                m[*index] = *value;
            } else {
                array.update(tx, *index, |old| old ^ value)?;
                m[*index] ^= value;
            }
            assert_eq!(array.elements(tx)?.into_iter().copied().collect::<Vec<_>>(), *m);
        });
        assert_eq!((array.len(), array.is_empty()), (5, false));
        assert_eq!(array.into_vec(), model);
    });
}
