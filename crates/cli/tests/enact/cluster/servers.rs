//! Servers that are cut off from each other, or frozen, full or damaged.

use std::time::{Duration, Instant};

use enact_journal_kit::link::Flow;
use reqwest::StatusCode;
use serde_json::json;
use tokio::time::sleep;

use super::workload::{Reading, Workload};
use super::{ACCOUNTS, Place, balances, has_no_lease, open_all, serves};
use crate::served::{FREE_PORT, Served};

const SEED: u64 = 20_261_128;

/// Cuts servers off from the others, one after the other, and lets clients go on meanwhile.
async fn cut_off(cuts: &[(usize, Flow, Flow)]) {
    let Some((place, routes)) = Place::over_three_linked() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    serves(&b, 6).await;
    let workload = Workload::start(&[a.url(""), b.url("")], SEED, Reading::BehindEachDeposit).await;
    for (n, sent, received) in cuts {
        workload.goes_on().await;
        routes.set(*n, *sent, *received);
        // What was on its way is answered, and then what the cut concerns.
        workload.goes_on().await;
        workload.goes_on().await;
        routes.set(*n, Flow::Passes, Flow::Passes);
    }
    workload.goes_on().await;
    workload.end().await;
}

/// It leads some streams and follows others.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes up to two minutes: `cargo xtask soak` runs it"]
async fn a_server_that_is_cut_off_from_the_others_is_done_without() {
    cut_off(&[(0, Flow::Lost, Flow::Lost)]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes: `cargo xtask soak` runs it"]
async fn servers_that_are_cut_off_in_turn_and_one_way_are_done_without() {
    let ways = [(Flow::Lost, Flow::Passes), (Flow::Passes, Flow::Lost), (Flow::Lost, Flow::Lost)];
    let cuts: Vec<_> = (0..).zip(ways).map(|(n, (sent, received))| (n, sent, received)).collect();
    cut_off(&cuts).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_most_servers_nothing_is_read_that_could_be_out_of_date() {
    let Some(place) = Place::over_three() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    serves(&b, 6).await;
    let workload = Workload::start(&[a.url(""), b.url("")], SEED, Reading::BehindEachDeposit).await;
    workload.goes_on().await;
    let frozen = Instant::now();
    place.nats[1..].iter().for_each(|server| server.signal("STOP"));
    // One without a lease asks the other one, as long as that one has its own.
    for node in [&a, &b] {
        has_no_lease(node).await;
    }
    for node in [&a, &b] {
        let (status, body) = node.get("/Account/S0").await;
        assert_eq!((status, &body["type"]), (StatusCode::SERVICE_UNAVAILABLE, &json!("urn:enact:problem:moved")));
    }
    // Longer than their leases.
    sleep(Duration::from_secs(15).saturating_sub(frozen.elapsed())).await;
    place.nats[1..].iter().for_each(|server| server.signal("CONT"));
    workload.goes_on().await;
    serves(&a, 6).await;
    serves(&b, 6).await;
    workload.goes_on().await;
    workload.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_finds_the_servers_full_has_no_effect_and_all_is_served_when_there_is_space() {
    let Some(mut place) = Place::over_one_with(", max_file: 400KB") else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let http = reqwest::Client::new();
    let deposit = async |n: usize| {
        let url = [&a, &b][n % 2].url(&format!("/Account/A{}/Deposit", n % ACCOUNTS));
        let request = http.post(url).header("idempotency-key", n.to_string());
        let answer = request.json(&json!({ "amount": "EUR 1.00" })).send().await.expect("an answer");
        (answer.status(), answer.headers().contains_key("idempotency-replayed"))
    };
    let mut deposited = 0;
    let refused = loop {
        let (status, _) = deposit(deposited).await;
        if status != StatusCode::OK {
            break status;
        }
        deposited += 1;
    };
    assert_eq!(refused, StatusCode::INSUFFICIENT_STORAGE);
    // Leases have no space, either.
    for node in [&a, &b] {
        has_no_lease(node).await;
    }
    place.nats[0].configure("");
    place.nats[0].restart();
    let expected = 100 * ACCOUNTS + deposited;
    assert_eq!(balances(&a).await.values().sum::<i64>(), i64::try_from(expected).expect("euros"));
    let (mut status, mut was_there) = deposit(deposited).await;
    while status == StatusCode::SERVICE_UNAVAILABLE {
        (status, was_there) = deposit(deposited).await;
    }
    assert_eq!((status, was_there), (StatusCode::OK, false), "it has not happened");
    assert_eq!(deposit(deposited - 1).await, (StatusCode::OK, true), "it has");
}

/// What is damaged while a server is stopped it sees when it starts, and gets from the others.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_files_were_damaged_shows_nothing_wrong_and_is_healed_by_the_others() {
    let Some(mut place) = Place::over_three() else { return };
    let a = place.serve("a");
    open_all(&a).await;
    for n in 0..4 * ACCOUNTS {
        let path = format!("/Account/A{}/Deposit", n % ACCOUNTS);
        assert_eq!(a.post(&path, json!({ "amount": "EUR 1.00" })).await.0, StatusCode::OK);
    }
    let expected = balances(&a).await;
    a.kill();
    let damaged = &mut place.nats[1];
    damaged.kill();
    for shard in 0..12 {
        let records = damaged.store().join(format!("jetstream/$G/streams/J{shard}/msgs/1.blk"));
        let mut bytes = std::fs::read(&records).expect("records");
        let middle = bytes.len() / 2;
        bytes[middle..][..16].fill(0xAA);
        std::fs::write(&records, bytes).expect("writable");
    }
    damaged.restart();
    // A server answers for what it keeps itself.
    let servers = place.nats[1].address();
    let b = Served::start(place.command_over(&servers, "b", FREE_PORT, "13s"));
    assert_eq!(balances(&b).await, expected);
    serves(&b, 12).await;
    loop {
        let checked = crate::served::program().args(["cluster", "check", "--cluster", &servers]).output();
        if checked.expect("it ends").status.success() {
            break;
        }
    }
    assert_eq!(balances(&b).await, expected);
}
