//! `examples/sepa`: what a creditor gets, the debtor or the bank has paid, and money that comes back comes back wholly.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use enact_rebel::Instance;
use serde_json::{Value as Json, json};

use crate::chance::Chance;
use crate::served::{Command, Served, Step, number, random};

const GYM: &str = "NL91ABNA0417164300";
const DORA: &str = "GB82WEST12345698765432";
const EMIL: &str = "DE89370400440532013000";
const MANDATES: [(&str, &str); 5] = [(GYM, DORA), (GYM, EMIL), (DORA, EMIL), (EMIL, DORA), (EMIL, GYM)];

/// The gym collects from Dora and Emil, who have 100 euros each, who collect from one another, and Emil from the gym.
async fn bank() -> Served {
    let mut bank = Served::open("sepa", &[("bank", &[])]);
    assert_eq!(post(&mut bank, "/Advances/EUR/Open", json!({})).await, "open");
    for iban in [GYM, DORA, EMIL] {
        assert_eq!(post(&mut bank, &format!("/Account/{iban}/Open"), json!({})).await, "opened");
    }
    for iban in [DORA, EMIL] {
        post(&mut bank, &format!("/Account/{iban}/Deposit"), json!({ "amount": "EUR 100.00" })).await;
    }
    for (creditor, debtor) in MANDATES {
        let sign = format!("/Mandate/{creditor}:{debtor}/Sign");
        assert_eq!(post(&mut bank, &sign, json!({ "payer": debtor })).await, "signed");
    }
    bank
}

async fn post(bank: &mut Served, path: &str, body: Json) -> String {
    bank.post("bank", path, body).await.state().to_owned()
}

async fn refused(bank: &mut Served, path: &str) -> String {
    bank.post("bank", path, json!({})).await.refusal().to_owned()
}

/// A collection that settles today.
fn collection(bank: &Served, (creditor, debtor): (&str, &str), amount: &str) -> Json {
    json!({ "under": format!("{creditor}:{debtor}"), "due": amount, "day": bank.now().date().to_string() })
}

async fn created(bank: &mut Served, debtor: &str, amount: &str) -> String {
    let due = collection(bank, (GYM, debtor), amount);
    let created = bank.post("bank", "/Collection/Create", due).await;
    assert_eq!(created.state(), "created");
    format!("/Collection/{}", created.id())
}

#[track_caller]
fn balances(bank: &Served) -> [Json; 4] {
    let balance = |iban| bank.field("Account", iban, "balance");
    [balance(GYM), balance(DORA), balance(EMIL), bank.field("Advances", "EUR", "owed")]
}

#[tokio::test]
async fn who_can_pay_pays_and_gets_it_back_on_demand() {
    let mut bank = bank().await;
    let unknown = json!({ "under": format!("{GYM}:unknown"), "due": "EUR 1.00", "day": "2999-12-31" });
    assert_eq!(
        bank.post("bank", "/Collection/Create", unknown).await.refusal(),
        "there is no mandate, and it is in state drawn"
    );
    let late = json!({ "under": format!("{GYM}:{DORA}"), "due": "EUR 1.00", "day": "2020-01-01" });
    assert_eq!(bank.post("bank", "/Collection/Create", late).await.refusal(), "it cannot settle in the past");
    let early = json!({ "under": format!("{GYM}:{DORA}"), "due": "EUR 1.00", "day": "2999-12-31" });
    let early = format!("/Collection/{}", bank.post("bank", "/Collection/Create", early).await.id());
    assert_eq!(refused(&mut bank, &format!("{early}/Book")).await, "it is not due yet");

    let fee = created(&mut bank, DORA, "EUR 40.00").await;
    assert!(refused(&mut bank, &format!("{fee}/Revolve")).await.contains("Withdraw"), "Dora can pay");
    assert_eq!(post(&mut bank, &format!("{fee}/Book"), json!({})).await, "booked");
    assert_eq!(balances(&bank), ["EUR 40.00", "EUR 60.00", "EUR 100.00", "EUR 0.00"].map(|text| json!(text)));

    // Dora gets it back also when the gym has spent it, and once.
    post(&mut bank, &format!("/Account/{GYM}/Withdraw"), json!({ "amount": "EUR 30.00" })).await;
    assert_eq!(post(&mut bank, &format!("{fee}/Refund"), json!({})).await, "refunded");
    assert_eq!(balances(&bank), ["EUR -30.00", "EUR 100.00", "EUR 100.00", "EUR 0.00"].map(|text| json!(text)));
    refused(&mut bank, &format!("{fee}/Refund")).await;
}

#[tokio::test]
async fn the_bank_pays_for_who_cannot_until_it_can() {
    let mut bank = bank().await;
    let fee = created(&mut bank, EMIL, "EUR 100.01").await;
    assert_eq!(refused(&mut bank, &format!("{fee}/Book")).await, "insufficient funds");
    assert_eq!(post(&mut bank, &format!("{fee}/Revolve"), json!({})).await, "revolving");
    assert_eq!(balances(&bank), ["EUR 100.01", "EUR 100.00", "EUR 100.00", "EUR 100.01"].map(|text| json!(text)));
    assert_eq!(refused(&mut bank, &format!("{fee}/Settle")).await, "insufficient funds");

    post(&mut bank, &format!("/Account/{EMIL}/Deposit"), json!({ "amount": "EUR 0.01" })).await;
    assert_eq!(post(&mut bank, &format!("{fee}/Settle"), json!({})).await, "booked");
    assert_eq!(balances(&bank), ["EUR 100.01", "EUR 100.00", "EUR 0.00", "EUR 0.00"].map(|text| json!(text)));

    // Under a mandate that is revoked nothing more is collected.
    let next = created(&mut bank, EMIL, "EUR 1.00").await;
    post(&mut bank, &format!("/Mandate/{GYM}:{EMIL}/Revoke"), json!({})).await;
    assert_eq!(refused(&mut bank, &format!("{next}/Revolve")).await, "there is no mandate, and it is in state revoked");
}

#[tokio::test]
async fn no_cent_gets_lost_in_random_collections() {
    let command = |chance: &mut Chance, bank: &Served| -> Command {
        let parties = *chance.pick(&MANDATES);
        let amount = format!("EUR {}.{:02}", chance.below(60), chance.below(100));
        // Of those that are done some.
        let open: Vec<(String, &Instance)> = bank
            .all("Collection")
            .filter(|(_, collection)| ["created", "revolving"].contains(&&**collection.state()) || chance.percent(10))
            .collect();
        if open.is_empty() || chance.percent(25) {
            return ("bank", "/Collection/Create".to_owned(), collection(bank, parties, &amount));
        }
        let (id, collection) = chance.pick(&open);
        let event = match &**collection.state() {
            _ if chance.percent(15) => *chance.pick(&["Book", "Revolve", "Settle", "Refund", "Cancel"]),
            "created" => *chance.pick(&["Book", "Book", "Revolve", "Revolve", "Cancel"]),
            "revolving" => "Settle",
            _ => "Refund",
        };
        ("bank", format!("/Collection/{id}/{event}"), json!({}))
    };
    let owed_before = Cell::new(0);
    let reached = RefCell::new(BTreeSet::new());
    let conserved = |bank: &Served| {
        reached.borrow_mut().extend(bank.all("Collection").map(|(_, it)| it.state().to_string()));
        let balances: i128 = bank.all("Account").map(|(_, account)| number(account, "balance")).sum();
        let (_, advances) = bank.all("Advances").next().expect("it is open");
        assert_eq!(balances - number(advances, "owed"), 20_000);
        let revolving = bank.all("Collection").filter(|(_, collection)| collection.state().as_ref() == "revolving");
        let owed: i128 = revolving.map(|(_, collection)| number(collection, "amount")).sum();
        assert_eq!(number(advances, "owed"), owed);
        if owed < owed_before.replace(owed) {
            reached.borrow_mut().insert("settled".to_owned());
        }
    };
    let choose = |chance: &mut Chance, bank: &Served| match chance.below(30) {
        0 => Step::Pass(Duration::from_hours(12 * chance.below(5))),
        1 => Step::Settle,
        _ => command(chance, bank).into(),
    };
    random(bank, choose, conserved).await;
    assert_eq!(
        reached.into_inner(),
        ["booked", "cancelled", "created", "refunded", "returned", "revolving", "settled"].map(str::to_owned).into()
    );
}
