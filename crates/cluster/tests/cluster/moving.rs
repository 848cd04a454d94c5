//! Shards move from one node to another: when one joins, stops, is killed, or has lost its lease.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enact_entities::{Entities, SubmitError};
use tokio::task::JoinHandle;

use crate::bank::{ACCOUNTS, Bank, Node, answered, balance, insist, settled, shards, total};

/// Clients that deposit a euro again and again; what each of them was told about the deposits it made.
struct Clients {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<(i64, bool)>>,
}

impl Clients {
    fn of(bank: &Arc<Bank>, nodes: &[Node]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let clients = (0..8).map(|client| {
            let (bank, node) = (Arc::clone(bank), nodes[client % nodes.len()].clone());
            let is_over = Arc::clone(&is_over);
            tokio::spawn(async move {
                let (mut done, mut was_in_doubt) = (0, false);
                while !is_over.load(Ordering::Relaxed) {
                    let account = (client + 7 * done) % ACCOUNTS;
                    let deposit = bank.deposit(account, &format!("{client}.{done}"));
                    was_in_doubt |= answered(&node, deposit).await.1;
                    done += 1;
                }
                (i64::try_from(done).expect("few"), was_in_doubt)
            })
        });
        Self { is_over: Arc::clone(&is_over), clients: clients.collect() }
    }

    /// Lets all of them end; how many deposits they were told to have happened.
    async fn end(self) -> i64 {
        self.end_with_doubts().await.0
    }

    /// The same; and whether one of them was in doubt on the way there.
    async fn end_with_doubts(self) -> (i64, bool) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = (0, false);
        for client in self.clients {
            let (done, was_in_doubt) = client.await.expect("it counts");
            all = (all.0 + done, all.1 | was_in_doubt);
        }
        all
    }
}

async fn opened(names: [&str; 2]) -> Option<(Arc<Bank>, [Node; 2])> {
    Some(opened_of(Bank::over_one()?, names).await)
}

async fn opened_of(bank: Bank, names: [&str; 2]) -> (Arc<Bank>, [Node; 2]) {
    let nodes = bank.nodes(names).await;
    bank.open_all(&nodes[0]).await;
    (Arc::new(bank), nodes)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_joins_gets_its_part_and_one_that_leaves_gives_it_back_while_clients_go_on() {
    let Some(bank) = Bank::over_one() else { return };
    one_joins_and_leaves(bank).await;
}

pub(crate) async fn one_joins_and_leaves(bank: Bank) {
    let (bank, nodes) = opened_of(bank, ["a", "b"]).await;
    let clients = Clients::of(&bank, &nodes);
    let joined = bank.join("c").await;
    settled(&[nodes[0].clone(), nodes[1].clone(), joined.clone()]).await;
    assert_eq!([&nodes[0], &nodes[1], &joined].map(|node| shards(node).len()), [4; 3]);
    joined.leave(crate::bank::DEADLINE).await;
    settled(&nodes).await;
    assert_eq!(nodes.each_ref().map(|node| shards(node).len()), [6; 2]);
    for node in nodes.iter().chain([&joined]) {
        let counts = node.membership().expect("one of several").counts;
        assert_eq!((counts.given_up, counts.leases_lost), (0, 0), "no owner was fenced off by another one");
    }
    let (done, was_in_doubt) = clients.end_with_doubts().await;
    assert!(!was_in_doubt, "each question was answered, also those that came late");
    assert_eq!(total(&nodes[1]).await, 100 * ACCOUNTS as i64 + done, "each deposit happened once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shards_of_a_node_that_is_gone_are_served_again_when_its_lease_is_over() {
    let Some((bank, [a, b])) = opened(["a", "b"]).await else { return };
    let clients = Clients::of(&bank, std::slice::from_ref(&a));
    // Without a goodbye, and with its lease.
    drop(b);
    a.settled().await;
    while shards(&a).len() < 12 {
        tokio::task::yield_now().await;
    }
    let done = clients.end().await;
    assert_eq!(total(&a).await, 100 * ACCOUNTS as i64 + done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_that_another_writer_has_taken_over_is_opened_again_and_nothing_is_lost() {
    let Some(bank) = Bank::over_one() else { return };
    others_take_over(bank).await;
}

pub(crate) async fn others_take_over(bank: Bank) {
    let (bank, nodes) = opened_of(bank, ["a", "b"]).await;
    let clients = Clients::of(&bank, &nodes);
    for shard in [0, 5, 11] {
        drop(bank.take_over(shard).await);
    }
    for account in 0..ACCOUNTS {
        insist(&nodes[0], bank.deposit(account, "behind")).await;
    }
    let done = clients.end().await + ACCOUNTS as i64;
    assert_eq!(total(&nodes[1]).await, 100 * ACCOUNTS as i64 + done);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_its_lease_says_nothing_until_it_has_joined_again() {
    let Some((bank, [a, b])) = opened(["a", "b"]).await else { return };
    let client = async_nats::connect(bank.servers[0].address()).await.expect("connected");
    let bucket = async_nats::jetstream::new(client).get_key_value("enact").await.expect("the bucket");
    let own = shards(&a);
    bucket.purge("node.a").await.expect("purged");
    // It learns that at its next renewal, and until then its lease holds as far as it knows; the other one has its shards.
    while !shards(&a).is_disjoint(&own) && shards(&b).len() < 12 {
        tokio::task::yield_now().await;
    }
    settled(&[a.clone(), b.clone()]).await;
    assert_eq!(shards(&a), own, "the same shards as before");
    assert_eq!(balance(&a, 3).await, 100);
    insist(&b, bank.deposit(3, "again")).await;
    assert_eq!(balance(&a, 3).await, 101);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_node_left_a_command_is_told_that_its_entity_moves() {
    let Some((bank, [a, b])) = opened(["a", "b"]).await else { return };
    let own = shards(&b);
    let mut accounts = 0..ACCOUNTS;
    let is_of_b = |account: &usize| {
        own.contains(&enact_cluster::shard_of(&format!("Account/{account}").parse().expect("a key"), 12))
    };
    let account = accounts.find(is_of_b).expect("one of them");
    drop(b);
    // What has reached it before is answered, or not.
    let mut n = 0;
    let moved = loop {
        n += 1;
        match a.submit(bank.deposit(account, &n.to_string())).await {
            Ok(_) | Err(SubmitError::InDoubt { .. }) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(moved, SubmitError::Moved { .. }), "{moved:?}");
}
