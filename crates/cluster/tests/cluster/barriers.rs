//! Reads behind barriers, of a node that does not know that somebody else writes.

use enact_cluster::{Options, shard_of};
use enact_entities::{Engine, EngineOptions, Rebel};
use enact_journal::nats::{Nats, Options as JournalOptions};

use crate::bank::{Bank, balance, settled};

/// As if the lease of the node were over and it did not know.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_written_is_seen_at_once_behind_barriers_though_the_lease_holds() {
    for (barrier_reads, seen) in [(false, 100), (true, 101)] {
        let Some(bank) = Bank::over_one() else { return };
        let engine = EngineOptions { barrier_reads, ..EngineOptions::default() };
        let node = bank.try_join(Options { engine, ..bank.options("a") }).await.expect("it joins");
        settled(std::slice::from_ref(&node)).await;
        bank.open_all(&node).await;
        assert_eq!(balance(&node, 3).await, 100);

        let deposit = bank.deposit(3, "elsewhere");
        let shard = shard_of(&deposit.key, 12);
        let journal = JournalOptions { shard, replicas: 1, ..JournalOptions::at(bank.servers[0].address()) };
        let journal = Nats::open(journal).await.expect("it takes over");
        let other = Engine::new(Rebel::new(bank.spec.clone()), journal, EngineOptions::default());
        other.submit(deposit).await.expect("it writes now");
        assert_eq!(balance(&node, 3).await, seen);
    }
}
