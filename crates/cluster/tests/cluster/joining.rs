//! What a node must have in common with others.

use enact_cluster::{JoinError, Options};
use enact_journal::Journal;
use enact_journal::nats::{Nats, Options as JournalOptions};

use crate::bank::{Bank, DEADLINE};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_with_the_name_of_another_is_refused() {
    let Some(bank) = Bank::over_one() else { return };
    let first = bank.try_join(Options { address: "here:1".to_owned(), ..bank.options("a") }).await.expect("joined");
    let second = bank.try_join(bank.options("a")).await.map(drop);
    assert_eq!(second, Err(JoinError::NameInUse { node: "a".to_owned(), address: "here:1".to_owned() }));
    drop(first);
    bank.try_join(bank.options("a")).await.expect("the lease of the first one is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_number_of_shards_never_changes() {
    let Some(bank) = Bank::over_one() else { return };
    bank.join("a").await.leave(DEADLINE).await;
    let other = bank.try_join(Options { shards: 5, ..bank.options("a") }).await.map(drop);
    assert_eq!(other, Err(JoinError::OtherShards { found: 12, given: 5 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_of_a_node_without_others_are_in_one_shard() {
    let Some(bank) = Bank::over_one() else { return };
    let options = bank.options("a");
    let alone = Nats::open(JournalOptions::at(options.servers.clone())).await.expect("opened");
    alone.close().await.expect("closed");
    let refused = bank.try_join(options).await.map(drop);
    assert_eq!(refused, Err(JoinError::Occupied { shards: 12 }));
    bank.try_join(Options { shards: 1, ..bank.options("a") }).await.expect("as many as there are");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_contract_is_refused_if_it_may_not_be_adopted() {
    let Some(bank) = Bank::over_one() else { return };
    let first = bank.join("a").await;
    let changed = || Options { contract: "changed".to_owned(), ..bank.options("b") };
    let refused = bank.try_join(changed()).await.map(drop);
    assert_eq!(refused, Err(JoinError::OtherContract { nodes: vec!["a".to_owned()] }));
    first.leave(DEADLINE).await;
    let refused = bank.try_join(changed()).await.map(drop);
    assert_eq!(refused, Err(JoinError::OtherContract { nodes: Vec::new() }), "also if nobody is alive");
    bank.join("a").await.settled().await;
}

#[tokio::test]
async fn options_that_cannot_be_are_refused_before_anything_is_asked() {
    let Some(bank) = Bank::over_one() else { return };
    let options = || bank.options("a");
    for (options, refused) in [
        (Options { node: "a.b".to_owned(), ..options() }, JoinError::Name { node: "a.b".to_owned() }),
        (Options { node: String::new(), ..options() }, JoinError::Name { node: String::new() }),
        (Options { shards: 0, ..options() }, JoinError::Shards { shards: 0 }),
        (Options { shards: 257, ..options() }, JoinError::Shards { shards: 257 }),
        (
            Options { lease: std::time::Duration::from_secs(12), ..options() },
            JoinError::Lease { lease: std::time::Duration::from_secs(12) },
        ),
        (
            Options { servers: "http://user:secret@x".into(), ..options() },
            JoinError::Address { address: "x".to_owned() },
        ),
    ] {
        assert_eq!(bank.try_join(options).await.map(drop), Err(refused));
    }
}
