//! References stay good while values are replaced.
use crate::{beside, model};
use enact_stm::{TVar, atomically, snapshot};
use enact_sync::Arc;
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
