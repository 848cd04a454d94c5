//! One contract follows another while nodes run: for all shards, or for none.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use enact_cluster::{JoinError, Options, Standstill};
use enact_entities::{Entities, Standing, SubmitError};

use crate::bank::{ACCOUNTS, Allowing, Bank, DEADLINE, Node, balance, insist, settled, shards, total};

/// Nodes that may adopt a contract called `changed`.
struct Changed {
    but: Option<u16>,
    adopted: Arc<AtomicUsize>,
}

impl Changed {
    fn but(but: Option<u16>) -> Self {
        Self { but, adopted: Arc::default() }
    }

    async fn join(&self, bank: &Bank, node: &str) -> Node {
        let contract = Allowing { spec: Arc::clone(&bank.spec), but: self.but, adopted: Arc::clone(&self.adopted) };
        let options = Options { contract: "changed".to_owned(), adopt: true, ..bank.options(node) };
        bank.try_join_with(contract, options).await.expect("it joins")
    }
}

fn standing(node: &Node) -> Standing {
    node.membership().expect("it is one of several").standing
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_of_another_contract_wait_for_the_last_of_the_present_one_and_then_serve_all() {
    let Some(bank) = Bank::over_one() else { return };
    let [a, b] = bank.nodes(["a", "b"]).await;
    bank.open_all(&a).await;
    b.leave(DEADLINE).await;
    let changed = Changed::but(None);
    let b = changed.join(&bank, "b").await;
    let c = changed.join(&bank, "c").await;
    a.settled().await;
    assert_eq!(shards(&a).len(), 12, "those that wait own nothing");
    for waiting in [&b, &c] {
        assert_eq!(standing(waiting), Standing::Waiting);
        let refused = waiting.submit(bank.deposit(1, "early")).await;
        assert!(matches!(refused, Err(SubmitError::Moved { .. })), "{refused:?}");
    }
    insist(&a, bank.deposit(1, "before")).await;
    assert_eq!(changed.adopted.load(Ordering::Relaxed), 0);

    a.leave(DEADLINE).await;
    settled(&[b.clone(), c.clone()]).await;
    assert_eq!([&b, &c].map(standing), [Standing::Joined; 2]);
    assert_eq!(changed.adopted.load(Ordering::Relaxed), 12);
    assert_eq!(balance(&b, 1).await, 101);
    insist(&c, bank.deposit(1, "behind")).await;
    assert_eq!(total(&b).await, 100 * ACCOUNTS as i64 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_that_one_shard_does_not_allow_is_adopted_by_none_and_the_present_one_goes_on() {
    let Some(bank) = Bank::over_one() else { return };
    let a = bank.join("a").await;
    bank.open_all(&a).await;
    let changed = Changed::but(Some(7));
    let [b, c] = [changed.join(&bank, "b").await, changed.join(&bank, "c").await];
    a.leave(DEADLINE).await;
    for refused in [&b, &c] {
        assert_eq!(refused.failed().await, "shard 7: an account has too much");
        refused.leave(DEADLINE).await;
    }
    assert_eq!(changed.adopted.load(Ordering::Relaxed), 0);
    let a = bank.join("a").await;
    insist(&a, bank.deposit(1, "behind")).await;
    assert_eq!(total(&a).await, 100 * ACCOUNTS as i64 + 1);

    // What has been refused may be tried again.
    let mended = Changed::but(None);
    let b = mended.join(&bank, "b").await;
    a.leave(DEADLINE).await;
    settled(std::slice::from_ref(&b)).await;
    assert_eq!(total(&b).await, 100 * ACCOUNTS as i64 + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_were_killed_are_waited_for_before_another_contract_takes_their_place() {
    let Some(bank) = Bank::over_one() else { return };
    let a = bank.join("a").await;
    bank.open_all(&a).await;
    let changed = Changed::but(None);
    let b = changed.join(&bank, "b").await;
    drop(a);
    let a = bank.join("a").await;
    a.settled().await;
    assert_eq!(standing(&b), Standing::Waiting, "it was not gone for good");
    assert_eq!(total(&a).await, 100 * ACCOUNTS as i64);
    drop(a);
    settled(std::slice::from_ref(&b)).await;
    assert_eq!(total(&b).await, 100 * ACCOUNTS as i64);
    let late = bank.try_join(bank.options("a")).await.map(drop);
    assert_eq!(late, Err(JoinError::OtherContract { nodes: vec!["b".to_owned()] }));
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_join_in_a_standstill_serve_nothing_until_it_ends_or_is_not_heard_of_any_more() {
    let Some(bank) = Bank::over_one() else { return };
    let servers = bank.options("a").servers;
    let a = bank.join("a").await;
    a.settled().await;
    let alive = Standstill::begin(&servers, &bank.journals).await.map(drop);
    assert_eq!(alive, Err(JoinError::Alive { nodes: vec!["a".to_owned()] }));
    bank.open_all(&a).await;
    a.leave(DEADLINE).await;

    for is_cancelled in [true, false] {
        let standstill = Standstill::begin(&servers, &bank.journals).await.expect("nobody is alive");
        let a = bank.join("a").await;
        let refused = a.submit(bank.deposit(1, &format!("early {is_cancelled}"))).await;
        assert!(matches!(refused, Err(SubmitError::Moved { .. })), "{refused:?}");
        assert!(shards(&a).is_empty());
        if is_cancelled {
            standstill.cancel().await;
        } else {
            drop(standstill);
        }
        settled(std::slice::from_ref(&a)).await;
        assert_eq!(total(&a).await, 100 * ACCOUNTS as i64);
        a.leave(DEADLINE).await;
    }

    let standstill = Standstill::begin(&servers, &bank.journals).await.expect("nobody is alive");
    assert_eq!(standstill.shards(), 12);
    let a = bank.join("a").await;
    standstill.end("changed".to_owned()).await.expect("ended");
    assert!(a.failed().await.contains("another contract"), "its contract is another one now");
    let b = Changed::but(None).join(&bank, "b").await;
    settled(std::slice::from_ref(&b)).await;
}
