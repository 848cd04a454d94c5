//! Nodes that are cut off from the servers, each way, and what is late on its way to them.

use std::time::Duration;

use enact_cluster::shard_of;
use enact_journal_kit::link::{Flow, Link};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use super::workload::{Reading, Workload};
use super::{ACCOUNTS, Place, balances, has_no_lease, open_all, serves};
use crate::served::{Served, http};

const SEED: u64 = 20_261_127;

fn bases<'a>(nodes: impl IntoIterator<Item = &'a Served>) -> Vec<String> {
    nodes.into_iter().map(|node| node.url("")).collect()
}

fn set(links: &[Link], there: Flow, back: Flow) {
    links.iter().for_each(|link| link.set(there, back));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_cut_off_says_nothing_and_is_back_when_it_is_not() {
    let Some(place) = Place::over_three() else { return };
    let a = place.serve("a");
    let [(b, to_b), (c, to_c), (d, to_d)] = ["b", "c", "d"].map(|node| place.serve_linked(node, "13s"));
    for node in [&a, &b, &c, &d] {
        serves(node, 3).await;
    }
    let workload = Workload::start(&bases([&a, &b, &c, &d]), SEED, Reading::BehindEachDeposit).await;
    workload.goes_on().await;
    set(&to_b, Flow::Lost, Flow::Passes);
    set(&to_c, Flow::Passes, Flow::Lost);
    set(&to_d, Flow::Lost, Flow::Lost);
    for node in [&b, &c, &d] {
        has_no_lease(node).await;
    }
    serves(&a, 12).await;
    // Deposits at one node are read at the others, too.
    workload.goes_on().await;
    for links in [&to_b, &to_c, &to_d] {
        set(links, Flow::Passes, Flow::Passes);
    }
    for node in [&a, &b, &c, &d] {
        serves(node, 3).await;
    }
    workload.goes_on().await;
    workload.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_owner_has_sent_and_comes_behind_a_take_over_has_no_effect() {
    let Some(place) = Place::over_three() else { return };
    let (a, (b, to_b)) = (place.serve("a"), place.serve_linked("b", "13s"));
    open_all(&a).await;
    serves(&b, 6).await;
    let (_, ready) = b.get("/health/ready").await;
    let is_of_b = |account: &usize| {
        let entity = format!("Account/A{account}").parse().expect("a key");
        ready["shards"].as_array().expect("shards").contains(&json!(shard_of(&entity, 12)))
    };
    let of_b: Vec<usize> = (0..ACCOUNTS).filter(is_of_b).collect();
    // It has these accounts in memory, with their last records.
    for account in &of_b {
        assert_eq!(
            b.post(&format!("/Account/A{account}/Deposit"), json!({ "amount": "EUR 1.00" })).await.0,
            StatusCode::OK
        );
    }
    let workload = Workload::start(&bases([&a, &b]), SEED, Reading::BehindEachDeposit).await;
    workload.goes_on().await;
    set(&to_b, Flow::Held, Flow::Passes);
    // Nobody sends these again.
    let sent: Vec<_> = of_b.iter().map(|account| b.url(&format!("/Account/A{account}/Deposit"))).collect();
    let sent = sent.into_iter().map(|url| {
        let request = http().post(url).header("enact-deadline-ms", "2000");
        tokio::spawn(request.json(&json!({ "amount": "EUR 7.00" })).send())
    });
    for answer in sent.collect::<Vec<_>>() {
        let answer = answer.await.expect("it ends").expect("an answer");
        assert_eq!(answer.status(), StatusCode::GATEWAY_TIMEOUT, "{:?}", answer.text().await);
    }
    serves(&a, 12).await;
    workload.goes_on().await;
    set(&to_b, Flow::Passes, Flow::Passes);
    serves(&b, 6).await;
    workload.goes_on().await;
    let balances = balances(&a).await;
    assert!(of_b.iter().all(|account| balances[account] == 101), "{of_b:?} {balances:?}");
    workload.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_happens_once_when_the_servers_answers_to_its_owner_are_lost() {
    let Some(place) = Place::over_three() else { return };
    let (a, (b, to_b)) = (place.serve("a"), place.serve_linked("b", "13s"));
    serves(&b, 6).await;
    let workload = Workload::start(&bases([&a, &b]), SEED, Reading::BehindEachDeposit).await;
    for millis in [5, 20, 100, 300, 1_000, 3_000] {
        workload.goes_on().await;
        set(&to_b, Flow::Passes, Flow::Lost);
        sleep(Duration::from_millis(millis)).await;
        set(&to_b, Flow::Passes, Flow::Passes);
    }
    workload.goes_on().await;
    workload.end().await;
}

/// Takes the lease of each of `nodes` away, however long it would last.
async fn forget(place: &Place, nodes: &[&str]) {
    let client = async_nats::connect(place.nats[0].address()).await.expect("connected");
    let leases = async_nats::jetstream::new(client).get_key_value("enact").await.expect("a bucket");
    for node in nodes {
        leases.delete(format!("node.{node}")).await.expect("deleted");
    }
}

/// Leases decide nothing: those of all nodes but one last for a day, and are taken away while these cannot know. They believe in them, and write
/// nothing that another one does not see.
#[tokio::test(flavor = "multi_thread")]
async fn owners_that_believe_in_a_lease_that_is_over_write_nothing() {
    let Some(place) = Place::over_three() else { return };
    let a = place.serve("a");
    let [(b, to_b), (c, to_c), (d, to_d), (e, _to_e)] =
        ["b", "c", "d", "e"].map(|node| place.serve_linked(node, "24h"));
    let all = [&a, &b, &c, &d, &e];
    for (node, shards) in all.into_iter().zip([3, 3, 2, 2, 2]) {
        serves(node, shards).await;
    }
    let workload = Workload::start(&bases(all), SEED, Reading::AtTheEnd).await;
    workload.goes_on().await;
    set(&to_b, Flow::Lost, Flow::Passes);
    set(&to_c, Flow::Passes, Flow::Lost);
    set(&to_d, Flow::Lost, Flow::Lost);
    e.signal(Signal::STOP);
    forget(&place, &["b", "c", "d", "e"]).await;
    serves(&a, 12).await;
    workload.goes_on().await;
    for links in [&to_b, &to_c, &to_d] {
        set(links, Flow::Passes, Flow::Passes);
    }
    e.signal(Signal::CONT);
    for node in [&b, &c, &d, &e] {
        let (_, ready) = node.get("/health/ready").await;
        assert!(!ready["detail"].to_string().contains("lease"), "it believes in it: {ready}");
    }
    workload.goes_on().await;
    workload.end().await;
}
