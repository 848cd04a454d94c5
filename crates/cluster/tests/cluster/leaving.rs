//! A node that stops while others want its entities for their transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::Request;
use enact_cluster::{ShardStatus, status};
use enact_entities::{Entities, SubmitError};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::bank::{ACCOUNTS, Bank, DEADLINE, settled, total};

const CLIENTS: usize = 48;
const ROUNDS: usize = 3;

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_delays_transfers_over_shards_and_refuses_none() {
    let Some(bank) = Bank::over_one() else { return };
    let bank = Arc::new(bank);
    let [stays, mut leaves] = bank.nodes(["a", "b"]).await;
    bank.open_all(&stays).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = (0..CLIENTS).map(|client| {
        let (bank, node, is_over) = (Arc::clone(&bank), stays.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut booked = 0;
            while !is_over.load(Ordering::Relaxed) {
                let (from, to) = ((client + booked) % ACCOUNTS, (client + 5 * booked + 1) % ACCOUNTS);
                let to = if from == to { (to + 1) % ACCOUNTS } else { to };
                match node.submit(bank.transfer(&format!("{client}.{booked}"), 1, from, to)).await {
                    // An account may have run dry.
                    Ok(_) | Err(SubmitError::Refused { .. }) => booked += 1,
                    // It has not happened, and its entity is about to be served.
                    Err(SubmitError::Moved { .. }) => {}
                    Err(other) => panic!("transfer {client}.{booked}: {other}"),
                }
            }
            booked
        })
    });
    let clients: Vec<_> = clients.collect();
    for _ in 0..ROUNDS {
        leaves.leave(DEADLINE).await;
        settled(std::slice::from_ref(&stays)).await;
        leaves = bank.join("b").await;
        settled(&[stays.clone(), leaves.clone()]).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        assert!(client.await.expect("nothing is refused") > 0);
    }
    assert_eq!(total(&stays).await, 100 * ACCOUNTS as i64);
}

/// Others ask a node that leaves until they see that it has no shards any more, and none of them is left waiting.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_sent_to_a_node_that_leaves_is_answered() {
    let Some(bank) = Bank::over_one() else { return };
    let leaves = bank.join("a").await;
    settled(std::slice::from_ref(&leaves)).await;
    let servers = bank.options("a").servers;
    let client = async_nats::connect(servers.to_string()).await.expect("connected");
    let shards = status(&servers, &bank.journals).await.expect("known").shards;
    let (mut asking, has_left) = (JoinSet::new(), Arc::new(AtomicBool::new(false)));
    let (begun, mut begins) = mpsc::unbounded_channel();
    for ShardStatus { shard, epoch, .. } in shards {
        let subject = format!("enact.shard.{shard}.{}.ask", epoch.expect("it is served"));
        for _ in 0..4 {
            let (client, subject, begun) = (client.clone(), subject.clone(), begun.clone());
            let has_left = Arc::clone(&has_left);
            asking.spawn(async move {
                while !has_left.load(Ordering::Relaxed) {
                    // It is no question, which is answered like one for another node.
                    let request = Request::new().payload("?".into()).timeout(Some(DEADLINE));
                    client.send_request(subject.clone(), request).await.expect("an answer");
                    begun.send(()).expect("the test goes on");
                }
            });
        }
    }
    for _ in 0..10 * asking.len() {
        begins.recv().await.expect("each is answered");
    }
    let leaving = tokio::spawn(async move { leaves.leave(DEADLINE).await });
    while status(&servers, &bank.journals).await.expect("known").shards.iter().any(|shard| shard.epoch.is_some()) {}
    // On a slow machine others hear of it so late.
    sleep(Duration::from_millis(500)).await;
    has_left.store(true, Ordering::Relaxed);
    while let Some(asked) = asking.join_next().await {
        asked.expect("each is answered");
    }
    leaving.await.expect("it leaves");
}
