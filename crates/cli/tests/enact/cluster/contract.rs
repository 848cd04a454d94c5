//! The specification changes while nodes run: one after the other is started with the next one.

use std::path::PathBuf;

use enact_entities::{SystemClock, WallClock};
use enact_rebel::Timestamp;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use super::{ACCOUNTS, Clients, Place, balances, open_all, serves};
use crate::served::{BANK, Served};

/// The second version: a fee for each payment, which the account keeps count of.
fn second() -> String {
    let counting = BANK
        .replace("  balance: Money\n", "  balance: Money\n  payments: Integer\n")
        .replace("post: this.balance == initialDeposit", "post: this.balance == initialDeposit, this.payments = 0")
        .replace("post: this.balance -= amount\n", "post: this.balance -= amount, this.payments += 1\n");
    format!("module bank version 2\n{counting}migrate from 1\n  Account.payments = 0\n")
}

fn written(place: &Place, name: &str, text: &str) -> PathBuf {
    let path = place.directory.path().join(name).join("bank.rebel");
    std::fs::create_dir_all(path.parent().expect("its directory")).expect("writable");
    std::fs::write(&path, text).expect("writable");
    path
}

fn stopped(node: Served) {
    node.signal(Signal::TERM);
    let (ended, log) = node.ended();
    assert!(ended.success(), "{log}");
}

/// A node that waits for those of the present specification.
fn waiting(place: &Place, node: &str) -> Served {
    let mut command = place.command(node);
    command.arg("--adopt");
    Served::start(command)
}

async fn payments(node: &Served, account: usize) -> Value {
    let (status, body) = node.get(&format!("/Account/A{account}")).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    body["fields"]["payments"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_version_is_adopted_when_the_last_node_of_the_present_one_is_stopped() {
    let Some(mut place) = Place::over_one() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let opened = SystemClock.time();
    let clients = Clients::of(&[&a]);
    place.spec = written(&place, "second", &second());
    stopped(b);
    let b = waiting(&place, "b");
    let (status, body) = b.get("/health/ready").await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(body["detail"].as_str().is_some_and(|why| why.contains("another specification")), "{body}");
    serves(&a, 12).await;

    stopped(a);
    let (deposited, failures) = clients.end().await;
    assert!(failures.keys().all(|status| [503, 504].contains(&status.as_u16())), "{failures:?}");
    let a = waiting(&place, "a");
    serves(&a, 6).await;
    serves(&b, 6).await;
    let unanswered = balances(&a).await.values().sum::<i64>() - 100 * ACCOUNTS as i64 - deposited;
    assert!((0..=6).contains(&unanswered), "each client may have made one deposit that it was not told of");
    assert_eq!(payments(&b, 3).await, json!(0));
    let (status, body) = b.post("/Account/A3/Pay", json!({ "amount": "EUR 1.00", "to": "A4" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(payments(&a, 3).await, json!(1));

    // What was there before is restored with the specification of then.
    let Some(then) = Place::over_one() else { return };
    let (backup, time) = (place.directory.path().join("backup"), Timestamp::from_millis(opened.0).to_string());
    let backup = backup.to_str().expect("UTF-8");
    let (status, said) = block_in_place(|| place.cluster(&["backup", backup]));
    assert_eq!(status, Some(0), "{said}");
    let (status, said) = block_in_place(|| then.cluster(&["restore", backup, "--replicas", "1", "--until", &time]));
    assert_eq!(status, Some(0), "{said}");
    let a = then.serve("a");
    serves(&a, 12).await;
    assert_eq!(balances(&a).await.values().sum::<i64>(), 100 * ACCOUNTS as i64);
    assert_eq!(payments(&a, 3).await, Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_comment_is_no_change_and_nodes_with_either_text_serve_together() {
    let Some(mut place) = Place::over_one() else { return };
    let a = place.serve("a");
    open_all(&a).await;
    place.spec = written(&place, "commented", &format!("// Our bank.\n{}", BANK.replace(" >= ", "  >=  ")));
    let b = place.serve("b");
    serves(&b, 6).await;
    serves(&a, 6).await;
    assert_eq!(balances(&a).await, balances(&b).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_specification_that_one_entity_does_not_allow_is_adopted_by_no_shard() {
    let Some(mut place) = Place::over_one() else { return };
    let a = place.serve("a");
    open_all(&a).await;
    let (status, body) = a.post("/Account/A7/Deposit", json!({ "amount": "EUR 900.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let first = place.spec.clone();
    // What A7 has got is more than the next one allows at once.
    let deposit = "on Deposit(amount: Money): opened\n      pre: amount > EUR 0.00";
    let strict = BANK.replace(deposit, &format!("{deposit}, amount < EUR 500.00"));
    place.spec = written(&place, "strict", &strict);
    let b = waiting(&place, "b");
    stopped(a);
    let (ended, log) = b.ended();
    assert_eq!(ended.code(), Some(6), "{log}");
    assert!(log.contains("does not allow what has happened") && log.contains("Account/A7"), "{log}");
    place.spec = first;
    let a = place.serve("a");
    serves(&a, 12).await;
    assert_eq!(balances(&a).await.values().sum::<i64>(), 100 * ACCOUNTS as i64 + 900);
}

/// What `enact contract` says, with its status.
fn contract(place: &Place, words: &[&str]) -> (Option<i32>, String) {
    let mut command = crate::served::program();
    let output = command.arg("contract").args(words).args(["--cluster", &place.nats[0].address()]).output();
    let output = output.expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(said).expect("UTF-8"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_beforehand_what_a_version_would_change_and_takes_it_back() {
    let Some(mut place) = Place::over_one() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let (first, second) = (place.spec.clone(), written(&place, "second", &second()));
    let check = |place: &Place, spec: &PathBuf| contract(place, &["check", spec.to_str().expect("UTF-8")]);
    // Whatever is undecided at the moment of the look.
    let clients = Clients::of(&[&a, &b]);
    for _ in 0..5 {
        let (status, said) = check(&place, &second);
        assert_eq!(status, Some(0), "{said}");
        let of_all = "entities: 12, of which 12 change (Account 12)";
        assert!(said.contains("from version 1 to version 2") && said.contains(of_all), "{said}");
    }
    clients.end().await;
    let nothing = "nothing changes: this is the specification of the entities\n".to_owned();
    assert_eq!(check(&place, &first), (Some(0), nothing.clone()));
    let (status, said) = contract(&place, &["rollback"]);
    assert!(status == Some(4) && said.contains("the nodes a, b are alive"), "{said}");
    let before = balances(&b).await;
    stopped(a);
    stopped(b);
    let (status, said) = contract(&place, &["rollback"]);
    assert!(status == Some(5) && said.contains("there is no version before 1"), "{said}");

    place.spec = second.clone();
    let b = waiting(&place, "b");
    serves(&b, 12).await;
    assert_eq!(check(&place, &second), (Some(0), nothing));
    stopped(b);
    let back = "version 2 is taken back; the specification is version 1 again\n".to_owned();
    assert_eq!(contract(&place, &["rollback"]), (Some(0), back));
    place.spec = first;
    let a = place.serve("a");
    serves(&a, 12).await;
    assert_eq!(balances(&a).await, before);
    stopped(a);

    place.spec = second;
    let b = waiting(&place, "b");
    serves(&b, 12).await;
    let (status, body) = b.post("/Account/A3/Deposit", json!({ "amount": "EUR 1.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    stopped(b);
    let (status, said) = contract(&place, &["rollback"]);
    assert!(status == Some(5) && said.contains("version 2 stays") && said.contains("Account/A3"), "{said}");
    let b = place.serve("b");
    serves(&b, 12).await;
    assert_eq!(payments(&b, 3).await, json!(0), "nothing was taken back");
}
