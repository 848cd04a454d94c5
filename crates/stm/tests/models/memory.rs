//! References stay good while values are replaced.
use std::convert::identity;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use enact_stm::{Parcel, TVar, Variable, atomically, collect, snapshot};
use enact_sync::Arc;
use enact_sync::atomic::AtomicBool as Flag;
use enact_sync::unmodelled::Arc as Shared;

use crate::{beside, model, wait_for};

/// Knows whether it was dropped: unlike freed memory, this is seen for certain.
pub(crate) struct Canary(Shared<AtomicBool>);

impl Canary {
    pub(crate) fn new() -> Self {
        Self(Shared::new(AtomicBool::new(true)))
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Replaces the value often enough for the descriptor to look for memory to free, which a model build does every two.
fn replace_three_times(variable: &TVar<Canary>) {
    for _ in 0..3 {
        atomically(|tx| tx.write(variable, Canary::new()).map(drop)).run();
    }
}

//   reader                  writer
//   reads value 0
//                           replaces it three times; frees what nobody pins
//   uses value 0 <- alive
#[test]
fn a_value_is_not_dropped_while_a_transaction_refers_to_it() {
    model(|| {
        let variable = Arc::new(TVar::new(Canary::new()));
        let other = Arc::clone(&variable);
        beside(
            move || replace_three_times(&other),
            || {
                atomically(|tx| {
                    let canary = tx.read(&*variable)?;
                    enact_sync::thread::yield_now();
                    assert!(canary.is_alive(), "the value was dropped under a reference");
                    Ok(())
                })
                .run();
            },
        );
    });
}

//   snapshot                            writer
//   announces its time, reads value 0
//                                       replaces it three times; frees what nobody announced
//   reads it again <- the same, alive
#[test]
fn a_value_is_not_dropped_while_a_snapshot_refers_to_it() {
    model(|| {
        let variable = Arc::new(TVar::new(Canary::new()));
        let other = Arc::clone(&variable);
        beside(
            move || replace_three_times(&other),
            || {
                snapshot(|tx| {
                    let first = tx.read(&*variable)?;
                    let second = tx.read(&*variable)?;
                    assert!(std::ptr::eq(first, second), "a snapshot sees one state");
                    assert!(first.is_alive(), "the value was dropped under a reference");
                    Ok(())
                });
            },
        );
    });
}

//   reader                                  writer
//   reads value 0
//                                           replaces it three times
//   uses value 0 <- alive after all three
#[test]
fn a_value_outlives_every_replacement_during_an_attempt() {
    model(|| {
        let variable = Arc::new(TVar::new(Canary::new()));
        let other = Arc::clone(&variable);
        let (is_read, is_replaced) = (Arc::new(Flag::new(false)), Arc::new(Flag::new(false)));
        let (read, replaced) = (Arc::clone(&is_read), Arc::clone(&is_replaced));
        let writer = move || {
            wait_for(&read);
            replace_three_times(&other);
            replaced.store(true, Ordering::Release);
        };
        beside(writer, || {
            atomically(|tx| {
                let canary = tx.read(&*variable)?;
                is_read.store(true, Ordering::Release);
                wait_for(&is_replaced);
                assert!(canary.is_alive(), "the value was dropped under a reference");
                Ok(())
            })
            .run();
        });
    });
}

//   snapshot                             writer
//   reads value a0
//                                        replaces a three times
//   reads b: its announcement moves on
//                                        replaces b three times
//   uses a0 <- alive
#[test]
fn a_value_is_not_dropped_while_a_snapshot_that_goes_on_refers_to_it() {
    // Two variables: the announcement moves on with the second, and the value of the first stays.
    model(|| {
        let pair = Arc::new((TVar::new(Canary::new()), TVar::new(Canary::new())));
        let other = Arc::clone(&pair);
        let writer = move || {
            replace_three_times(&other.0);
            replace_three_times(&other.1);
        };
        beside(writer, || {
            snapshot(|tx| {
                let first = tx.read(&pair.0)?;
                let second = tx.read(&pair.1)?;
                assert!(first.is_alive(), "the value was dropped under a reference");
                assert!(second.is_alive(), "the value was dropped under a reference");
                assert!(std::ptr::eq(first, tx.read(&pair.0)?), "a snapshot sees one state");
                Ok(())
            });
        });
    });
}

/// Counts how often it is dropped.
pub(crate) struct Once(Shared<AtomicUsize>);

impl Drop for Once {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Replaces what `make` begins with on one thread, while another one collects.
pub(crate) fn replaced_are_dropped_once<V>(make: fn(Once) -> V, wrap: fn(Once) -> V::Value)
where
    V: Variable + Send + Sync + 'static,
{
    model(move || {
        let dropped: [Shared<AtomicUsize>; 5] = std::array::from_fn(|_| Shared::default());
        let [first, others @ ..] = dropped.clone();
        let variable = Arc::new(make(Once(first)));
        let theirs = Arc::clone(&variable);
        let writer = move || {
            for flag in others {
                atomically(|tx| tx.write(&*theirs, wrap(Once(Shared::clone(&flag)))).map(drop)).run();
            }
        };
        beside(writer, || {
            collect();
            collect();
        });
        assert_eq!(collect(), 0);
        let all: Vec<_> = dropped.iter().map(|flag| flag.load(Ordering::SeqCst)).collect();
        assert_eq!(all, [1, 1, 1, 1, 0], "all but the one that is current");
    });
}

//   collects twice      writer
//                       replaces value 0, retires it
//   takes the retired   takes the retired   <- one of them drops it
#[test]
fn a_value_is_dropped_once_whichever_thread_collects() {
    replaced_are_dropped_once(TVar::new, identity);
}

//   here               other
//   finds 7            finds 7
//   commits the take   commits the take    <- one of the two finds nothing
#[test]
fn a_parcel_is_taken_once() {
    model(|| {
        let parcel = Parcel::new(7);
        let other = parcel.clone();
        let take = |parcel: &Parcel<i32>| atomically(|tx| parcel.take(tx)).run().map(enact_stm::Taken::into_inner);
        let taken = Arc::new(enact_sync::Mutex::new(None));
        let here = Arc::clone(&taken);
        let there = beside(move || take(&other), || *here.lock() = take(&parcel));
        let here = taken.lock().take();
        assert!((here, there) == (Some(7), None) || (here, there) == (None, Some(7)), "{here:?} and {there:?}");
    });
}
