//! Reads behind barriers, of a node that does not know that somebody else writes.

use enact_cluster::{Options, shard_of};
use enact_entities::{Engine, EngineOptions, Rebel};

use crate::bank::{Bank, balance, settled};

/// As if the lease of the node were over and it did not know.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_written_is_seen_at_once_behind_barriers_though_the_lease_holds() {
    for (barrier_reads, seen) in [(false, 100), (true, 101)] {
        let Some(bank) = Bank::over_one() else { return };
        somebody_else_writes(&bank, barrier_reads, seen).await;
    }
}

/// What a node shows behind what somebody else has written, which it does not know: `seen`. What it writes then has no effect.
pub(crate) async fn somebody_else_writes(bank: &Bank, barrier_reads: bool, seen: i64) {
    let engine = EngineOptions { barrier_reads, ..EngineOptions::default() };
    let node = bank.try_join(Options { engine, ..bank.options("a") }).await.expect("it joins");
    settled(std::slice::from_ref(&node)).await;
    bank.open_all(&node).await;
    assert_eq!(balance(&node, 3).await, 100);

    let deposit = bank.deposit(3, "elsewhere");
    let shard = shard_of(&deposit.key, 12);
    let journal = bank.take_over(shard).await;
    let other = Engine::new(Rebel::new(bank.spec.clone()), journal, EngineOptions::default());
    other.submit(deposit).await.expect("it writes now");
    assert_eq!(balance(&node, 3).await, seen);
}
