//! Instances that a server or a step names.

use std::collections::BTreeSet;

use enact_entities::EngineOptions;
use enact_journal::{Fault, Memory};
use serde_json::Value;

use crate::bank::{Answer, Bank};

const SHOP: &str = r#"
class Order
  number: Id @identity
  lines: Integer = 0
  bill: Bill
  initial draft
    on Place(count: Integer) -> Bill: placed
      let: owed = fresh(Bill)
      post: this.lines = count, this.bill = owed
      sync: owed.Send(count)
      return: owed
    on Take(count: Integer, of: Bill): placed
      post: this.lines = count, this.bill = of
  placed
class Bill
  id: Id @identity
  sum: Integer = 0
  initial none
    internal on Send(count: Integer): sent
      pre: count < 100
      post: this.sum = count
  sent
class Shop
  last: Set[Order] = {}
  initial closed
    on Open(): open
  open
    on Sell(count: Integer) -> Set[Order]
      let: one = fresh(Order)
           two = fresh(Order)
      post: this.last += one
      sync: one.Place(count), two.Place(count)
      return: {one, two}
"#;

fn served(journal: Memory) -> Bank {
    Bank::of(SHOP, journal, EngineOptions::default(), |options| options)
}

fn text<'a>(answer: &'a Answer, member: &str) -> &'a str {
    assert_eq!(answer.status, 200, "{answer:#?}");
    answer.body[member].as_str().expect("a text")
}

/// The orders that a sale names.
fn orders(answer: &Answer) -> BTreeSet<String> {
    assert_eq!(answer.status, 200, "{answer:#?}");
    let orders = answer.body["result"].as_array().expect("a list").iter();
    orders.map(|order| order.as_str().expect("a text").to_owned()).collect()
}

#[tokio::test]
async fn a_request_without_an_id_creates_the_instance_that_its_key_names() {
    let bank = served(Memory::new());
    let key = [("idempotency-key", "k")];
    let first = bank.post_with("/Order/Place", &key, r#"{"count":3}"#).await;
    let id = text(&first, "id").to_owned();
    let again = bank.post_with("/Order/Place", &key, r#"{"count":3}"#).await;
    assert_eq!((text(&again, "id"), text(&again, "result")), (&*id, text(&first, "result")));
    assert!(again.headers.contains_key("idempotency-replayed"));
    assert_eq!(bank.get(&format!("/Order/{id}")).await.body["fields"]["lines"], 3);
    assert_eq!(bank.post("/Order/Place", r#"{"count":3}"#).await.status, 422, "without a key nothing names it");

    let chosen = "0190163d-8694-739b-aea5-966c26f8ad91";
    let own = bank.post(&format!("/Order/{chosen}/Place"), r#"{"count":1}"#).await;
    assert_eq!(text(&own, "id"), chosen);
    let bill = text(&own, "result");
    let other = format!("/Order/{}/Take", chosen.replace("01", "02"));
    assert_eq!(bank.post(&other, format!(r#"{{"count":1,"of":"{bill}"}}"#)).await.status, 200);
    for wrong in ["x", "0190163D-8694-739B-AEA5-966C26F8AD91"] {
        assert_eq!(bank.post(&format!("/Order/{wrong}/Place"), r#"{"count":1}"#).await.status, 422, "{wrong}");
    }
    let document = bank.get("/openapi.json").await.body;
    assert!(document["paths"].get("/Order/Place").is_some());
    let name = &document["components"]["schemas"]["enact.Id"]["pattern"];
    assert!(name.as_str().expect("a pattern").contains("[0-9a-f]{12}"));
}

#[tokio::test]
async fn every_step_names_other_instances_and_each_is_there() {
    let bank = served(Memory::new());
    assert_eq!(bank.post("/Shop/s/Open", "{}").await.status, 200);
    let mut seen = BTreeSet::new();
    for _ in 0..5 {
        let sold = orders(&bank.post("/Shop/s/Sell", r#"{"count":2}"#).await);
        assert_eq!(sold.len(), 2);
        for order in sold {
            let read = bank.get(&format!("/Order/{order}")).await;
            let bill = read.body["fields"]["bill"].as_str().expect("a text").to_owned();
            assert_eq!(bank.get(&format!("/Bill/{bill}")).await.body["fields"]["sum"], 2);
            assert!(seen.insert(order) && seen.insert(bill));
        }
    }
}

#[tokio::test]
async fn a_refused_step_leaves_none_of_what_it_named() {
    let bank = served(Memory::new());
    assert_eq!(bank.post("/Shop/s/Open", "{}").await.status, 200);
    assert_eq!(bank.post("/Shop/s/Sell", r#"{"count":100}"#).await.status, 409);
    assert_eq!(bank.get("/Shop/s").await.body["fields"]["last"], Value::Array(Vec::new()));
}

#[tokio::test]
async fn what_a_step_has_named_is_there_after_a_restart_and_a_new_attempt_names_others() {
    let journal = Memory::new();
    let bank = served(journal.clone());
    assert_eq!(bank.post("/Shop/s/Open", "{}").await.status, 200);
    let key = [("idempotency-key", "k")];
    journal.fail_next(Fault::Refused);
    assert_eq!(bank.post_with("/Shop/s/Sell", &key, r#"{"count":2}"#).await.status, 507, "nothing has happened");
    let sold = orders(&bank.post_with("/Shop/s/Sell", &key, r#"{"count":2}"#).await);
    let first = bank.get("/Shop/s").await.body["fields"]["last"].clone();
    assert_eq!(first.as_array().map(Vec::len), Some(1), "one sale");

    let again = served(journal);
    assert_eq!(again.get("/Shop/s").await.body["fields"]["last"], first);
    assert_eq!(orders(&again.post_with("/Shop/s/Sell", &key, r#"{"count":2}"#).await), sold);
    for order in &sold {
        assert_eq!(again.get(&format!("/Order/{order}")).await.body["fields"]["lines"], 2);
    }
    assert!(orders(&again.post("/Shop/s/Sell", r#"{"count":2}"#).await).is_disjoint(&sold));
}
