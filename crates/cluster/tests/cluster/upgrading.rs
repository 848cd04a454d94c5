//! Nodes of several versions of the program beside each other.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, Request, jetstream};
use enact_cluster::{Options, Problem, shard_of, status};
use enact_entities::{Entities, EntityError, EntityKey, ReadError, ReadMode, SubmitError};
use futures_util::StreamExt;
use serde_json::json;
use tokio::time::timeout;

use crate::bank::{ACCOUNTS, Bank, DEADLINE, Node, balance, done, settled, total};

const CLIENTS: usize = 6;
/// Within which a node hears of a claim and gives a shard up.
const TOLD_MAX: Duration = Duration::from_secs(60);

async fn join(bank: &Bank, node: &str, version: &str) -> Node {
    bank.try_join(Options { version: version.to_owned(), ..bank.options(node) }).await.expect("it joins")
}

async fn versions(bank: &Bank) -> Vec<Problem> {
    let problems = status(&bank.options("").servers, &bank.journals).await.expect("known").problems();
    problems.into_iter().filter(|problem| matches!(problem, Problem::Versions { .. })).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_replaced_by_those_of_another_version_and_each_transfer_happens_once() {
    let Some(bank) = Bank::over_one() else { return };
    let bank = Arc::new(bank);
    let mut nodes = Vec::new();
    for name in ["a", "b", "c"] {
        nodes.push(join(&bank, name, "1.0.0").await);
    }
    settled(&nodes).await;
    bank.open_all(&nodes[0]).await;
    assert_eq!(versions(&bank).await, []);
    let is_over = Arc::new(AtomicBool::new(false));
    let stays = join(&bank, "clients", "1.0.0").await;
    let clients = (0..CLIENTS).map(|client| {
        let (bank, node, is_over) = (Arc::clone(&bank), stays.clone(), Arc::clone(&is_over));
        tokio::spawn(async move {
            let (mut booked, mut moved) = (Vec::new(), BTreeMap::new());
            while !is_over.load(Ordering::Relaxed) {
                let number = booked.len();
                let (from, to) = ((client + number) % ACCOUNTS, (client + 5 * number + 1) % ACCOUNTS);
                if from == to {
                    booked.push(false);
                    continue;
                }
                match node.submit(bank.transfer(&format!("{client}.{number}"), 1, from, to)).await {
                    Ok(_) => {
                        *moved.entry(from).or_insert(0) -= 1;
                        *moved.entry(to).or_insert(0) += 1;
                        booked.push(true);
                    }
                    // An account may have run dry.
                    Err(SubmitError::Refused { .. }) => booked.push(false),
                    // It has not happened, and its entity is about to be served.
                    Err(SubmitError::Moved { .. }) => {}
                    Err(other) => panic!("transfer {client}.{number}: {other}"),
                }
            }
            assert!(booked.contains(&true), "nothing was booked");
            moved
        })
    });
    let clients: Vec<_> = clients.collect();
    for number in 0..nodes.len() {
        nodes[number].leave(DEADLINE).await;
        nodes[number] = join(&bank, ["a", "b", "c"][number], "1.1.0").await;
        let all: Vec<Node> = nodes.iter().chain([&stays]).cloned().collect();
        settled(&all).await;
        let both = vec!["1.0.0".to_owned(), "1.1.0".to_owned()];
        assert_eq!(versions(&bank).await, [Problem::Versions { versions: both }]);
    }
    is_over.store(true, Ordering::Relaxed);
    let mut expected = BTreeMap::new();
    for client in clients {
        for (account, euros) in client.await.expect("nothing is refused for good") {
            *expected.entry(account).or_insert(100) += euros;
        }
    }
    stays.leave(DEADLINE).await;
    settled(&nodes).await;
    assert_eq!(versions(&bank).await, []);
    for (account, euros) in expected {
        assert_eq!(balance(&nodes[0], account).await, euros, "Account/{account}");
    }
    assert_eq!(total(&nodes[0]).await, 100 * ACCOUNTS as i64);
}

/// What comes back when `bytes` are sent to `subject`.
async fn told(client: &Client, subject: &str, bytes: &[u8]) -> String {
    let request = Request::new().payload(bytes.to_vec().into()).timeout(Some(DEADLINE));
    let answer = client.send_request(subject.to_owned(), request).await.expect("an answer");
    let (kind, why) = answer.payload.split_first().expect("an answer is not empty");
    assert_eq!(*kind, 0, "{answer:?}");
    String::from_utf8(why.to_vec()).expect("text")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_read_has_no_effect_and_its_sender_is_told_why() {
    let Some(bank) = Bank::over_one() else { return };
    let node = bank.join("a").await;
    settled(std::slice::from_ref(&node)).await;
    bank.open_all(&node).await;
    let servers = bank.options("a").servers;
    let client = async_nats::connect(servers.to_string()).await.expect("connected");
    let epoch = status(&servers, &bank.journals).await.expect("known").shards[3].epoch.expect("it is served");
    for (subject, bytes, why) in [
        (format!("enact.shard.3.{epoch}.ask"), &[9, 0x80][..], "it has encoding 9, and this program reads 1"),
        (format!("enact.shard.3.{epoch}.ask"), &[1, 0xc1], "it is none that this program knows"),
        (format!("enact.shard.3.{epoch}.ask"), &[], "it is empty"),
        (format!("enact.shard.3.{epoch}.engine"), &[250, 0], "version 250"),
        ("enact.node.a".to_owned(), &[9, 0x80], "it has encoding 9"),
    ] {
        let said = told(&client, &subject, bytes).await;
        assert!(said.contains(why), "{subject}, {bytes:?}: {said}");
    }
    assert_eq!(total(&node).await, 100 * ACCOUNTS as i64);
    done(&node, bank.deposit(0, "k")).await;
}

/// A node of a version that cannot read what others say: it has a lease and claims a shard.
struct Stranger {
    key: EntityKey,
    account: usize,
}

impl Stranger {
    async fn claim(bank: &Bank) -> Self {
        const EPOCH: u64 = 1_000_000;
        let account = |number: &usize| shard_of(&format!("Account/{number}").parse().expect("a key"), 12) == 3;
        let account = (0..ACCOUNTS).find(account).expect("one of them is in each shard");
        let client = async_nats::connect(bank.options("z").servers.to_string()).await.expect("connected");
        let mut asked = client.subscribe(format!("enact.shard.3.{EPOCH}.ask")).await.expect("subscribed");
        let bucket = jetstream::new(client.clone()).get_key_value("enact").await.expect("there is one");
        let lease = json!({ "incarnation": 1, "address": "", "version": "9.0.0", "contract": "" });
        let claim = json!({ "node": "z", "incarnation": 1, "epoch": EPOCH });
        for (key, value) in [("node.z", lease), ("shard.3", claim)] {
            bucket.put(key, value.to_string().into()).await.expect("written");
        }
        tokio::spawn(async move {
            while let Some(question) = asked.next().await {
                let to = question.reply.expect("it waits for an answer");
                client.publish(to, "\0it reads nothing".into()).await.expect("sent");
            }
        });
        Self { key: format!("Account/{account}").parse().expect("a key"), account }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_is_told_that_the_owner_cannot_read_its_command_and_that_nothing_was_done() {
    let Some(bank) = Bank::over_one() else { return };
    let node = bank.join("a").await;
    settled(std::slice::from_ref(&node)).await;
    bank.open_all(&node).await;
    let Stranger { key, account } = Stranger::claim(&bank).await;
    let is_told = |cause: &EntityError| {
        let is_it = cause.to_string()
            == "shard 3: another node cannot read a message of this one, and has done nothing: it reads nothing";
        is_it && cause.is_transient()
    };
    let told = async {
        loop {
            match node.submit(bank.deposit(account, "k")).await {
                // It has not heard of the claim yet, or gives the shard up.
                Ok(_) | Err(SubmitError::Moved { .. } | SubmitError::InDoubt { .. }) => {}
                Err(SubmitError::Entity(cause)) if is_told(&cause) => break,
                Err(other) => panic!("{other}"),
            }
        }
    };
    timeout(TOLD_MAX, told).await.expect("it is told");
    match node.read(&key, ReadMode::Certain, None, Duration::from_secs(2)).await {
        Err(ReadError::Entity(cause)) => assert!(is_told(&cause), "{cause}"),
        other => panic!("{other:?}"),
    }
}
