//! Personal values of several nodes: what one seals all open, and what was erased none does.

use std::fs;
use std::process::Command;

use futures_util::future::join_all;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Place, serves};
use crate::served::{Served, program};

const CUSTOMERS: usize = 24;
const CLEAR: &str = "Lovelace-";

/// Nodes that have the specification of a shop, and a secret.
fn place() -> Option<Place> {
    let mut place = Place::over_one()?;
    place.spec = place.directory.path().join("customers.rebel");
    fs::write(&place.spec, include_str!("../../../../../examples/customers.rebel")).expect("writable");
    make_secret(&place, "secret");
    Some(place)
}

fn make_secret(place: &Place, name: &str) {
    let made = program().args(["cluster", "secret"]).arg(place.directory.path().join(name)).status();
    assert!(made.expect("it ends").success());
}

fn command(place: &Place, node: &str, secret: &str) -> Command {
    let mut command = place.command(node);
    command.arg("--subject-keys-secret").arg(place.directory.path().join(secret));
    command
}

fn refused(mut command: Command, status: i32) -> String {
    let refused = command.output().expect("it ends");
    let said = String::from_utf8(refused.stderr).expect("UTF-8");
    assert_eq!(refused.status.code(), Some(status), "{said}");
    said
}

async fn done(node: &Served, path: &str, body: Value) {
    let (status, answer) = node.post(path, body).await;
    assert_eq!(status, StatusCode::OK, "{path}: {answer}");
}

/// The customer as `node` shows it, when the node has heard of its erasure.
async fn erased(node: &Served, customer: usize) -> Value {
    loop {
        let (status, read) = node.get(&format!("/Customer/c{customer}")).await;
        if status == StatusCode::OK && read["fields"]["name"].is_null() {
            assert_eq!(read["erased"], json!(["name"]), "{read}");
            return read;
        }
        let shows = status == StatusCode::OK && read["fields"]["name"] == json!(format!("{CLEAR}{customer}"));
        assert!(shows || status == StatusCode::SERVICE_UNAVAILABLE, "{status} {read}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_has_sealed_all_open_and_what_was_erased_stays_so_when_its_owner_is_killed() {
    let Some(mut place) = place() else { return };
    let [a, b] = ["a", "b"].map(|node| Served::start(command(&place, node, "secret")));
    for node in [&a, &b] {
        serves(node, 6).await;
    }
    for customer in 0..CUSTOMERS {
        let [first, second] = if customer.is_multiple_of(2) { [&a, &b] } else { [&b, &a] };
        let called = json!({ "called": format!("{CLEAR}{customer}"), "isAdult": true });
        done(first, &format!("/Customer/c{customer}/Register"), called).await;
        // The other one knows the key at once.
        let (_, read) = second.get(&format!("/Customer/c{customer}")).await;
        assert_eq!(read["fields"]["name"], json!(format!("{CLEAR}{customer}")), "{read}");
        let label = json!({ "to": format!("c{customer}"), "written": format!("{CLEAR}{customer}") });
        done(second, &format!("/Parcel/{customer}/Send"), label).await;
    }

    let gone = |customer: &usize| customer.is_multiple_of(3);
    for customer in (0..CUSTOMERS).filter(gone) {
        let [first, second] = if customer.is_multiple_of(2) { [&a, &b] } else { [&b, &a] };
        done(first, &format!("/Customer/c{customer}/-/erase"), json!({})).await;
        // Sealed with a key of its own, whatever the other one has heard of by now.
        done(second, &format!("/Customer/c{customer}/Move"), json!({ "to": "1 Ockham Park" })).await;
        for node in [&a, &b] {
            let read = erased(node, customer).await;
            assert_eq!(read["fields"]["address"], json!("1 Ockham Park"), "{read}");
            let (_, parcel) = node.get(&format!("/Parcel/{customer}")).await;
            assert_eq!((&parcel["fields"]["label"], &parcel["erased"]), (&json!(null), &json!(["label"])), "{parcel}");
            let (_, history) = node.get(&format!("/Customer/c{customer}/-/history")).await;
            assert_eq!(history["erasures"].as_array().map(Vec::len), Some(1), "{history}");
            assert_eq!(history["transactions"][0]["events"][0]["erased"], json!(["called"]), "{history}");
        }
    }
    let (status, unknown) = a.post("/Customer/nobody/-/erase", json!({})).await;
    assert_eq!(
        (status, &unknown["type"]),
        (StatusCode::NOT_FOUND, &json!("urn:enact:problem:nothing-personal")),
        "{unknown}"
    );
    let (_, page) = b.get("/-/changes?class=Customer&limit=1000").await;
    let told = page["changes"].as_array().expect("changes").iter().filter(|change| change.get("erasure").is_some());
    assert_eq!(told.count(), (0..CUSTOMERS).filter(gone).count());

    a.kill();
    // Nobody is erased of whom nobody knows whether there is anything.
    let paths: Vec<_> = (0..8).map(|stranger| format!("/Customer/nobody{stranger}/-/erase")).collect();
    let mut moved = 0;
    for (status, problem) in join_all(paths.iter().map(|path| b.post(path, json!({})))).await {
        let is_moved = problem["type"] == json!("urn:enact:problem:moved");
        let expected = if is_moved { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::NOT_FOUND };
        assert_eq!(status, expected, "{problem}");
        moved += usize::from(is_moved);
    }
    assert!(moved > 0, "some are in shards of the one that is gone");
    serves(&b, 12).await;
    for customer in 0..CUSTOMERS {
        if gone(&customer) {
            erased(&b, customer).await;
        } else {
            let (_, read) = b.get(&format!("/Customer/c{customer}")).await;
            assert_eq!(read["fields"]["name"], json!(format!("{CLEAR}{customer}")), "{read}");
        }
    }
    b.signal(Signal::TERM);
    assert!(b.ended().0.success());
    place.nats[0].kill();
    assert!(!crate::erase::has(place.directory.path(), CLEAR), "no server has it in the clear");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_without_the_secret_or_with_another_one_is_refused_with_the_reason() {
    let Some(place) = place() else { return };
    let said = refused(place.command("a"), 2);
    assert!(said.contains("`Customer.name` is personal") && said.contains("--subject-keys-secret"), "{said}");
    let running = Served::start(command(&place, "a", "secret"));
    make_secret(&place, "another");
    assert!(refused(command(&place, "b", "another"), 4).contains("hidden with another secret"));
    let exposed = place.directory.path().join("secret");
    fs::set_permissions(&exposed, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("set");
    assert!(refused(command(&place, "b", "secret"), 2).contains("is open to other users"));
    let mut twice = program();
    twice.args(["cluster", "secret"]).arg(&exposed);
    assert!(refused(twice, 2).contains("secret"));
    running.kill();
}
