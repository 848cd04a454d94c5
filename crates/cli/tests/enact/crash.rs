//! A bank that is killed again and again while its clients transfer money.
//!
//! Each client sends a command until it gets a definitive answer, always with the same idempotency key, as a client
//! should. A transfer is an event of the paying account, so nothing but the key keeps a second sending from paying
//! twice. At the end each balance must be exactly what the acknowledged transfers, each counted once, make of it:
//! nothing acknowledged is missing, nothing refused has an effect, nothing is done twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::follower::{Follower, check_order};
use crate::served::{BANK, FREE_PORT, Served, of_any_request, serve};

const ACCOUNTS: usize = 100;
const OPENING_EUROS: i64 = 50;
const TRANSFERS_PER_KILL: usize = 20;
const CLIENTS: usize = 16;

#[derive(Clone, Debug)]
struct Transfer {
    number: usize,
    from: usize,
    to: usize,
    euros: i64,
}

/// What a client was told in the end.
#[derive(Clone, Debug, PartialEq)]
struct Answer {
    status: StatusCode,
    body: Value,
}

/// Sends `transfer` to whatever server runs, until it is answered.
async fn pay(
    http: &reqwest::Client,
    servers: &mut watch::Receiver<Option<String>>,
    transfer: &Transfer,
) -> (Answer, bool) {
    loop {
        let base = servers.wait_for(Option::is_some).await.expect("the test runs").clone().expect("checked");
        let sent = http
            .post(format!("{base}/Account/A{}/Pay", transfer.from))
            .header("idempotency-key", format!("pay-{}", transfer.number))
            .header("enact-deadline-ms", "30000")
            .json(&json!({ "amount": format!("EUR {}.00", transfer.euros), "to": format!("A{}", transfer.to) }))
            .send()
            .await;
        // Lost on the way, there or back: the client cannot know which, and asks again.
        let Ok(response) = sent else {
            tokio::task::yield_now().await;
            continue;
        };
        let status = response.status();
        let replayed = response.headers().get("idempotency-replayed").is_some_and(|value| value == "true");
        let Ok(body) = response.json().await.map(of_any_request) else { continue };
        match status {
            StatusCode::OK => return (Answer { status, body }, replayed),
            StatusCode::CONFLICT if body["type"] == "urn:enact:problem:refused" => {
                return (Answer { status, body }, replayed);
            }
            // The first sending still runs, or the server stops, is full, or is in doubt about it.
            StatusCode::CONFLICT | StatusCode::SERVICE_UNAVAILABLE | StatusCode::GATEWAY_TIMEOUT => {}
            _ => panic!("{transfer:?}: {status} {body}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_lose_no_acknowledged_transfer_and_repeat_none() {
    let seed = std::env::var("ENACT_CRASH_SEED").map_or(20_150_523, |seed| seed.parse().expect("a number"));
    let kills = std::env::var("ENACT_KILLS").map_or(25, |kills| kills.parse().expect("a number"));
    println!("repeat with: ENACT_CRASH_SEED={seed} ENACT_KILLS={kills} cargo test -p enact-cli --test enact crash");
    let transfer_count = kills * TRANSFERS_PER_KILL;
    let mut random = StdRng::seed_from_u64(seed);
    let directory = tempfile::tempdir().expect("a place for the test");
    let spec = directory.path().join("bank.rebel");
    std::fs::write(&spec, BANK).expect("writable");
    let data = directory.path().join("data");

    let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build().expect("plain HTTP");
    let mut server = Served::start(serve(&spec, &data, FREE_PORT));
    for account in 0..ACCOUNTS {
        let opened = http
            .post(server.url(&format!("/Account/A{account}/Open")))
            .json(&json!({ "initialDeposit": format!("EUR {OPENING_EUROS}.00") }))
            .send()
            .await
            .expect("serving");
        assert_eq!(opened.status(), StatusCode::OK);
    }

    let transfers: Vec<Transfer> = (0..transfer_count)
        .map(|number| {
            let from = random.random_range(0..ACCOUNTS);
            let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
            Transfer { number, from, to, euros: random.random_range(1..=40) }
        })
        .collect();
    let mut kill_after: Vec<usize> = (0..kills).map(|_| random.random_range(1..transfer_count - CLIENTS)).collect();
    kill_after.sort_unstable();

    let answered = Arc::new(AtomicUsize::new(0));
    let (progress, mut progressed) = watch::channel(());
    let (current, servers) = watch::channel(Some(server.url("")));
    let follower = Follower::of(&http, servers.clone(), seed);
    let clients: Vec<_> = transfers
        .chunks(transfer_count.div_ceil(CLIENTS))
        .map(|share| {
            let (share, http, mut servers) = (share.to_vec(), http.clone(), servers.clone());
            let (answered, progress) = (Arc::clone(&answered), progress.clone());
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for transfer in share {
                    let (answer, _) = pay(&http, &mut servers, &transfer).await;
                    answers.push((transfer, answer));
                    answered.fetch_add(1, Ordering::Relaxed);
                    progress.send_replace(());
                }
                answers
            })
        })
        .collect();

    for threshold in kill_after {
        while answered.load(Ordering::Relaxed) < threshold {
            progressed.changed().await.expect("clients run");
        }
        current.send_replace(None);
        server.kill();
        server = Served::start(serve(&spec, &data, FREE_PORT));
        current.send_replace(Some(server.url("")));
    }
    let mut answers = Vec::new();
    for client in clients {
        answers.extend(client.await.expect("no client fails"));
    }

    // After one more restart every key still has its one answer.
    server.kill();
    let server = Served::start(serve(&spec, &data, FREE_PORT));
    current.send_replace(Some(server.url("")));
    let mut servers = servers;
    let some: Vec<_> = answers.sample(&mut random, 300).collect();
    for (transfer, answer) in some {
        assert_eq!(pay(&http, &mut servers, transfer).await, (answer.clone(), true), "{transfer:?}");
    }

    let mut expected: BTreeMap<usize, i64> = (0..ACCOUNTS).map(|account| (account, OPENING_EUROS)).collect();
    let done = answers.iter().filter(|(_, answer)| answer.status == StatusCode::OK);
    for (transfer, _) in done.clone() {
        *expected.get_mut(&transfer.from).expect("an account") -= transfer.euros;
        *expected.get_mut(&transfer.to).expect("an account") += transfer.euros;
    }
    let mut found = BTreeMap::new();
    for account in 0..ACCOUNTS {
        let body: Value = http
            .get(server.url(&format!("/Account/A{account}")))
            .send()
            .await
            .expect("serving")
            .json()
            .await
            .expect("every answer is JSON");
        found.insert(account, euros(&body["fields"]["balance"]).unwrap_or_else(|| panic!("{body}")));
    }
    assert_eq!(found, expected);
    check_changes(&follower.caught_up(&server.url("")).await, &expected);
    check_query(&http, &server, &expected).await;
    assert_eq!(found.values().sum::<i64>(), OPENING_EUROS * i64::try_from(ACCOUNTS).expect("small"));
    let refused = answers.len() - done.count();
    assert!(refused > 0 && refused < answers.len(), "the run must see both answers, {refused} were refused");
}

/// The balances that all changes lead to, each taken once, are those of the accounts.
fn check_changes(changes: &[Value], expected: &BTreeMap<usize, i64>) {
    check_order(changes);
    let mut balances: BTreeMap<usize, i64> = BTreeMap::new();
    for change in changes {
        let account = change["id"].as_str().and_then(|id| id.strip_prefix('A')?.parse().ok()).expect("an account");
        for event in change["events"].as_array().expect("a list") {
            let amount = |name: &str| euros(&event["arguments"][name]).unwrap_or_else(|| panic!("{event}"));
            *balances.entry(account).or_default() += match event["event"].as_str() {
                Some("Open") => amount("initialDeposit"),
                Some("Pay") => -amount("amount"),
                Some("Receive") => amount("amount"),
                _ => panic!("{event}"),
            };
        }
    }
    assert_eq!(&balances, expected, "in another database");
}

/// Every query finds what a look at every account finds.
async fn check_query(http: &reqwest::Client, server: &Served, expected: &BTreeMap<usize, i64>) {
    for bound in [0, OPENING_EUROS, 2 * OPENING_EUROS] {
        let path = format!("/Account?balance.ge=EUR%20{bound}.00&state=opened&limit=1000");
        let answer = http.get(server.url(&path)).send().await.expect("serving");
        let answer: Value = answer.json().await.expect("every answer is JSON");
        let found = answer["instances"].as_array().unwrap_or_else(|| panic!("{answer}")).iter().map(|found| {
            let account = found["id"].as_str().and_then(|id| id.strip_prefix('A')?.parse().ok());
            (account.expect("an account"), euros(&found["fields"]["balance"]).expect("whole euros"))
        });
        let found: BTreeMap<usize, i64> = found.collect();
        let wanted = expected.iter().filter(|(_, euros)| **euros >= bound).map(|(account, euros)| (*account, *euros));
        assert_eq!(found, wanted.collect(), "from EUR {bound}");
    }
}

fn euros(amount: &Value) -> Option<i64> {
    amount.as_str()?.strip_prefix("EUR ")?.strip_suffix(".00")?.parse().ok()
}
