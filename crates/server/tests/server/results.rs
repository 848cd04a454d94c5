//! What events return to the client.

use std::collections::BTreeSet;

use enact_entities::EngineOptions;
use enact_journal::Memory;
use serde_json::{Value, json};

use crate::bank::{Answer, Bank};

const TILL: &str = r#"
enum Size { small, large }
class Till
  sum: Integer = 0
  rate: Rate
  initial shut
    on Open(start: Integer, at: Rate): open
      post: this.sum = start, this.rate = at
  open
    /// Adds to what is there.
    on Add(n: Integer) -> Integer
      pre: n > 0
      post: this.sum += n
      return: this.sum
    on Plain(n: Integer)
      post: this.sum += n
    on Double(n: Integer) -> Set[Integer]
      post: this.sum += n
      return: {n, n * 2}
    on Size() -> Size
      variant big
        pre: sum > 100
        return: Size.large
      variant little
        return: Size.small
    on Price(n: Integer) -> Money
      return: rate.each * n
    on Also(other: Till)
      sync: other.Add(1)
class Rate
  each: Money = EUR 0.50
  initial none
    on Set(to: Money): set_
      post: this.each = to
  set_
"#;

fn served(journal: Memory) -> Bank {
    Bank::of(TILL, journal, EngineOptions::default(), |options| options)
}

async fn open() -> Bank {
    let bank = served(Memory::new());
    for (id, start) in [("1", 10), ("2", 0)] {
        let opened = bank.post(&format!("/Till/{id}/Open"), format!(r#"{{"start":{start},"at":"r"}}"#)).await;
        assert_eq!(opened.status, 200, "{opened:#?}");
        assert_eq!(opened.body.get("result"), None);
    }
    bank
}

#[track_caller]
fn result(answer: &Answer) -> Value {
    assert_eq!(answer.status, 200, "{answer:#?}");
    answer.body["result"].clone()
}

#[tokio::test]
async fn a_result_is_told_in_the_form_of_its_type() {
    let bank = open().await;
    let rows = [
        ("Add", r#"{"n":5}"#, json!(15)),
        ("Double", r#"{"n":90}"#, json!([90, 180])),
        ("Size", "{}", json!("large")),
        ("Price", r#"{"n":3}"#, json!("EUR 1.50")),
    ];
    for (event, body, expected) in rows {
        let answer = bank.post(&format!("/Till/1/{event}"), body).await;
        assert_eq!(result(&answer), expected, "{event}");
    }
    let called = bank.post("/Till/1/Also", r#"{"other":"2"}"#).await;
    assert_eq!((called.status.as_u16(), called.body.get("result")), (200, None), "results of calls go to nobody");
}

#[tokio::test]
async fn a_repeated_request_gets_the_result_of_the_first_also_after_a_restart() {
    let journal = Memory::new();
    let bank = served(journal.clone());
    assert_eq!(bank.post("/Till/1/Open", r#"{"start":10,"at":"r"}"#).await.status, 200);
    let key = [("idempotency-key", "k")];
    let first = bank.post_with("/Till/1/Add", &key, r#"{"n":5}"#).await;
    assert_eq!(result(&first), 15);
    assert_eq!(result(&bank.post("/Till/1/Add", r#"{"n":1}"#).await), 16);
    for bank in [bank, served(journal)] {
        let again = bank.post_with("/Till/1/Add", &key, r#"{"n":5}"#).await;
        assert_eq!((result(&again), again.headers.contains_key("idempotency-replayed")), (json!(15), true));
    }
}

#[tokio::test]
async fn results_of_events_at_the_same_time_are_those_of_some_order() {
    const EACH: u64 = 30;
    let bank = open().await;
    let mut running = Vec::new();
    for number in 0..EACH {
        let bank = bank.clone();
        running.push(tokio::spawn(async move {
            let path = if number % 3 == 0 { "/Till/1/Plain" } else { "/Till/1/Add" };
            bank.post(path, r#"{"n":1}"#).await
        }));
    }
    let mut seen = BTreeSet::new();
    for answer in running {
        let answer = answer.await.expect("it ends");
        assert_eq!(answer.status, 200, "{answer:#?}");
        if let Some(sum) = answer.body.get("result") {
            assert!(seen.insert(sum.as_u64().expect("a number")), "{sum} twice");
        }
    }
    assert_eq!(seen.len() as u64, EACH - EACH / 3);
    assert!(seen.iter().all(|sum| (11..=10 + EACH).contains(sum)), "{seen:?}");
    assert_eq!(bank.get("/Till/1").await.body["fields"]["sum"], 10 + EACH);
}

#[tokio::test]
async fn a_refusal_has_no_result() {
    let bank = open().await;
    let refused = bank.post("/Till/1/Add", r#"{"n":0}"#).await;
    assert_eq!((refused.status.as_u16(), refused.body.get("result")), (409, None));
}

#[tokio::test]
async fn the_description_has_the_result_of_each_event() {
    let bank = open().await;
    let document = bank.get("/openapi.json").await.body;
    serde_json::from_value::<utoipa::openapi::OpenApi>(document.clone()).expect("well formed");
    for (event, body) in [("Add", r#"{"n":5}"#), ("Double", r#"{"n":5}"#), ("Size", "{}"), ("Plain", r#"{"n":5}"#)] {
        let answer = bank.post(&format!("/Till/1/{event}"), body).await;
        let described = &document["paths"][format!("/Till/{{id}}/{event}")]["post"]["responses"]["200"];
        let mut schema = described["content"]["application/json"]["schema"].clone();
        schema["components"] = document["components"].clone();
        let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
        assert!(validator.is_valid(&answer.body), "{event}: {schema:#}");
        let mut without = answer.body.clone();
        without.as_object_mut().expect("an object").remove("result");
        assert_eq!(validator.is_valid(&without), event == "Plain", "{event}");
    }
}
