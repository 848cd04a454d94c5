//! References stay good while values are replaced.
use crate::{beside, model, wait_for};
use enact_stm::{TVar, atomically, snapshot};
use enact_sync::Arc;
use enact_sync::atomic::AtomicBool as Flag;
use enact_sync::unmodelled::Arc as Shared;
use std::sync::atomic::{AtomicBool, Ordering};

/// Knows whether it was dropped: unlike freed memory, this is seen for certain.
struct Canary(Shared<AtomicBool>);

impl Canary {
    fn new() -> Self {
        Self(Shared::new(AtomicBool::new(true)))
    }
}

impl Drop for Canary {
    fn drop(&mut self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// Replaces the value often enough for the worker to look for memory to free, which a model build does every two.
fn replace_three_times(variable: &TVar<Canary>) {
    for _ in 0..3 {
        atomically(|tx| tx.write(variable, Canary::new()).map(drop)).run();
    }
}

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
                    assert!(canary.0.load(Ordering::SeqCst), "the value was dropped under a reference");
                    Ok(())
                })
                .run();
            },
        );
    });
}

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
                    assert!(first.0.load(Ordering::SeqCst), "the value was dropped under a reference");
                    Ok(())
                });
            },
        );
    });
}

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
                assert!(canary.0.load(Ordering::SeqCst), "the value was dropped under a reference");
                Ok(())
            })
            .run();
        });
    });
}
