//! The past of an instance over HTTP.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use enact_entities::{EngineOptions, ManualClock, Timestamp};
use enact_journal::Memory;
use enact_server::{Options, Token, Tokens, caller_from_outside};
use serde_json::{Value, json};

use crate::bank::Bank;
use crate::gated::{Gate, gated, late};

const TANK: &str = r#"
roles keeper
class Tank
  litres: Integer = 0
  label: String = "none"
  initial empty
    on Fill(by_: Integer) by keeper: filled
      pre: "not negative": by_ >= 0
      post: this.litres += by_
  filled
    on Fill(by_: Integer) by keeper
      pre: "not negative": by_ >= 0
      post: this.litres += by_
    on Name(as_: String)
      post: this.label = as_
"#;

/// A tank to which 1, 2, .. litres were added at the times 1 s, 2 s, .. by the keeper `ann`, and which was named at last.
async fn filled(times: i64) -> Bank {
    let token = Token::from_random([1; 32]);
    let line = token.line(&caller_from_outside("ann", ["keeper"]).expect("a caller"), None);
    let tokens = Tokens::parse(line.as_bytes()).expect("well formed");
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let options = |options| Options { tokens: Some(tokens), ..options };
    let bank = Bank::at(TANK, Memory::new(), EngineOptions::default(), clock.clone(), options);
    for second in 1..=times {
        clock.set(Timestamp(1_000 * second));
        let request =
            Request::post("/Tank/t/Fill").header("host", "localhost").header("content-type", "application/json");
        let request = request.header("authorization", format!("Bearer {token}"));
        let answer = bank.ask(request.body(Body::from(format!(r#"{{"by_":{second}}}"#))).expect("a request")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    clock.set(Timestamp(60_000));
    assert_eq!(bank.post("/Tank/t/Name", r#"{"as_":"rain"}"#).await.status, 200);
    assert_eq!(bank.post("/Tank/t/Fill", r#"{"by_":1}"#).await.status, 403);
    bank
}

/// What is said of each transaction, without its id.
fn transactions(page: &Value) -> Vec<Value> {
    let mut transactions = page["transactions"].as_array().expect("a list").clone();
    for past in &mut transactions {
        let id = past.as_object_mut().expect("an object").remove("transaction").expect("an id");
        assert_eq!(id.as_str().expect("a text").len(), 36);
    }
    transactions
}

#[tokio::test]
async fn a_history_says_what_happened_when_by_whom_and_what_it_changed() {
    let bank = filled(2).await;
    let answer = bank.get("/Tank/t/-/history").await;
    assert_eq!(answer.status, 200);
    assert_eq!((&answer.body["class"], &answer.body["id"]), (&json!("Tank"), &json!("t")));
    assert_eq!(answer.body.get("next"), None);
    let fill = |slot: i64, changed: Value| {
        json!({
            "slot": slot, "at": format!("1970-01-01T00:00:0{slot}.000Z"), "version": 1, "state": "filled",
            "events": [{ "event": "Fill", "arguments": { "by_": slot }, "caller": "ann" }],
            "changed": changed,
        })
    };
    let name = json!({
        "slot": 3, "at": "1970-01-01T00:01:00.000Z", "version": 1, "state": "filled",
        "events": [{ "event": "Name", "arguments": { "as_": "rain" } }],
        "changed": { "label": "rain" },
    });
    assert_eq!(transactions(&answer.body), [fill(1, json!({ "litres": 1 })), fill(2, json!({ "litres": 3 })), name]);
}

#[tokio::test]
async fn the_pages_of_a_history_follow_each_other() {
    let bank = filled(4).await;
    let whole = transactions(&bank.get("/Tank/t/-/history").await.body);
    let mut joined = Vec::new();
    let mut query = "limit=2".to_owned();
    loop {
        let page = bank.get(&format!("/Tank/t/-/history?{query}")).await.body;
        joined.extend(transactions(&page));
        let Some(next) = page.get("next") else { break };
        assert_eq!(transactions(&page).len(), 2);
        query = format!("limit=2&after={next}");
    }
    assert_eq!(joined, whole);
    let beyond = bank.get("/Tank/t/-/history?after=99").await;
    assert_eq!((beyond.status.as_u16(), transactions(&beyond.body)), (200, Vec::new()));
}

#[tokio::test]
async fn a_read_at_a_time_shows_what_the_instance_was_then() {
    let bank = filled(3).await;
    for (time, litres, label) in [
        ("1970-01-01T00:00:01Z", 1, "none"),
        ("1970-01-01T00:00:02.999Z", 3, "none"),
        ("1970-01-01T00:00:59Z", 6, "none"),
        ("1970-01-01T00:01:00Z", 6, "rain"),
    ] {
        let answer = bank.get(&format!("/Tank/t?at={time}")).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.body["at"], time);
        assert_eq!(answer.body["state"], "filled");
        assert_eq!(answer.body["fields"], json!({ "litres": litres, "label": label }), "at {time}");
    }
    let earlier = bank.get("/Tank/t?at=1970-01-01T00:00:00.999Z").await;
    assert_eq!(earlier.status, 404);
    assert!(
        earlier.body["detail"].as_str().expect("words").contains("there was no Tank/t at 1970-01-01T00:00:00.999Z")
    );
}

#[tokio::test]
async fn a_question_about_the_past_that_makes_no_sense_is_told_which_part_does_not() {
    let bank = filled(1).await;
    for (path, status, parameter) in [
        ("/Tank/t/-/history?limit=0", 422, Some("limit")),
        ("/Tank/t/-/history?limit=1001", 422, Some("limit")),
        ("/Tank/t/-/history?limit=a", 422, Some("limit")),
        ("/Tank/t/-/history?limit=1&limit=1", 422, Some("limit")),
        ("/Tank/t/-/history?after=-1", 422, Some("after")),
        ("/Tank/t/-/history?mode=applied", 422, Some("mode")),
        ("/Tank/t?at=yesterday", 422, Some("at")),
        ("/Tank/t?at=1970-01-01T00:01:01Z", 422, Some("at")),
        ("/Tank/t?at=1970-01-01T00:00:01Z&mode=applied", 422, Some("at")),
        ("/Tank/nobody/-/history", 404, None),
        ("/Tank/nobody?at=1970-01-01T00:00:01Z", 404, None),
        ("/Tonk/t/-/history", 404, None),
        ("/Tank/t/-/future", 404, None),
    ] {
        let answer = bank.get(path).await;
        assert_eq!(answer.status, status, "{path}: {answer:?}");
        let named = answer.body.get("parameters").map(|parameters| &parameters[0]["name"]);
        assert_eq!(named, parameter.map(Value::from).as_ref(), "{path}");
    }
    let posted = bank.post("/Tank/t/-/history", "{}").await;
    assert_eq!((posted.status.as_u16(), &posted.headers["allow"]), (405, &"GET, HEAD".parse().expect("a value")));
}

#[tokio::test]
async fn a_history_that_nobody_waits_for_any_more_keeps_its_turn_until_it_is_read() {
    let (bank, gate, _) = gated(&["A"]).await;
    assert_eq!(bank.get_with("/Account/A", &[]).await.status, 200);
    gate.send_replace(Gate::Loads("Account/A"));
    for _ in 0..6 {
        late("load", async |deadline| bank.get_with("/Account/A/-/history", &[("enact-deadline-ms", deadline)]).await)
            .await;
    }
    assert_eq!(gate.receiver_count(), 2, "two are read at once, and the others wait");
    gate.send_replace(Gate::Open);
    assert_eq!(bank.get_with("/Account/A/-/history", &[]).await.status, 200);
}
