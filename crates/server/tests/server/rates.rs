//! How many requests a principal may send.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_server::{Options, Token, Tokens, caller_from_outside};
use serde_json::{Value, json};
use tokio::time::advance;
use tower::ServiceExt;

use crate::bank::{Answer, Bank};

const CONTRACT: &str = "class Lamp\n  count: Integer = 0\n  initial off\n    on Light(): lit\n  lit\n    on Blink()\n      post: this.count += 1\n";

const ALICE: Option<u8> = Some(1);
const BOB: Option<u8> = Some(2);
const STRANGER: Option<u8> = Some(3);

fn bank(rate: &str) -> Bank {
    let line =
        |byte: u8, id| Token::from_random([byte; 32]).line(&caller_from_outside(id, []).expect("a caller"), None);
    let tokens = Tokens::parse(format!("{}\n{}", line(1, "alice"), line(2, "bob")).as_bytes()).expect("well formed");
    let rate = Some(rate.parse().expect("a rate"));
    Bank::of(CONTRACT, Memory::new(), EngineOptions::default(), |options| Options {
        tokens: Some(tokens),
        rate,
        ..options
    })
}

fn request(path: &str, caller: Option<u8>, body: Option<&Value>) -> Request<Body> {
    let request = if body.is_some() { Request::post(path) } else { Request::get(path) };
    let request = request.header("host", "localhost").header("content-type", "application/json");
    let bearer = |byte: u8| format!("Bearer {}", Token::from_random([byte; 32]));
    let request = caller.into_iter().fold(request, |request, byte| request.header("authorization", bearer(byte)));
    request.body(body.map_or(Body::empty(), |body| Body::from(body.to_string()))).expect("a request")
}

async fn blink(bank: &Bank, caller: Option<u8>) -> Answer {
    bank.ask(request("/Lamp/l/Blink", caller, Some(&json!({})))).await
}

async fn count(bank: &Bank) -> Value {
    bank.ask(request("/Lamp/l", BOB, None)).await.body["fields"]["count"].take()
}

async fn metrics(bank: &Bank) -> String {
    let answer = bank.router().oneshot(request("/metrics", ALICE, None)).await.expect("an answer");
    assert_eq!(answer.status(), 200);
    String::from_utf8(to_bytes(answer.into_body(), 1 << 20).await.expect("whole").to_vec()).expect("UTF-8")
}

/// The time moves on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn who_asks_too_often_is_refused_and_nothing_is_done_while_others_go_on() {
    let bank = bank("1,3");
    assert_eq!(bank.ask(request("/Lamp/l/Light", BOB, Some(&json!({})))).await.status, 200);
    for expected in [200, 200, 200, 429, 429] {
        assert_eq!(blink(&bank, ALICE).await.status, expected);
    }
    let refused = blink(&bank, ALICE).await;
    assert_eq!(
        (&refused.body["type"], &refused.headers["retry-after"]),
        (&json!("urn:enact:problem:rate-limited"), &"1".parse().unwrap())
    );
    assert_eq!(count(&bank).await, 3, "what was refused did nothing");
    for path in ["/health", "/health/ready"] {
        assert_eq!(bank.ask(request(path, ALICE, None)).await.status, 200, "{path} does not count");
    }
    assert!(metrics(&bank).await.contains("enact_requests_total{endpoint=\"command\",status=\"429\"} 3\n"));
    // Nobody and those who prove nothing are one client.
    for (caller, expected) in [(None, 200), (STRANGER, 401), (None, 200), (STRANGER, 429), (None, 429)] {
        assert_eq!(blink(&bank, caller).await.status, expected, "{caller:?}");
    }
    advance(Duration::from_secs(1)).await;
    assert_eq!((blink(&bank, ALICE).await.status.as_u16(), blink(&bank, ALICE).await.status.as_u16()), (200, 429));
}

#[tokio::test]
async fn the_description_says_what_may_be_refused() {
    let described = async |rate| bank(rate).ask(request("/openapi.json", ALICE, None)).await.body["paths"].take();
    let paths = described("1,3").await;
    for (path, method, counts) in [
        ("/Lamp/{id}", "get", true),
        ("/Lamp/{id}/Blink", "post", true),
        ("/-/batch", "post", true),
        ("/openapi.json", "get", true),
        ("/metrics", "get", false),
        ("/health", "get", false),
        ("/health/ready", "get", false),
    ] {
        assert_eq!(paths[path][method]["responses"].get("429").is_some(), counts, "{path}");
    }
    let without = Bank::empty().get("/openapi.json").await.body;
    assert!(!without.to_string().contains("\"429\""));
}

#[tokio::test(start_paused = true)]
async fn a_batch_counts_as_its_commands() {
    let bank = bank("1,3");
    assert_eq!(bank.ask(request("/Lamp/l/Light", BOB, Some(&json!({})))).await.status, 200);
    let command = json!({ "class": "Lamp", "id": "l", "event": "Blink" });
    for is_atomic in [false, true] {
        let batch = json!({ "commands": vec![command.clone(); 10], "atomic": is_atomic });
        assert_eq!(bank.ask(request("/-/batch", ALICE, Some(&batch))).await.status, 200, "as one request would be");
        let refused = blink(&bank, ALICE).await;
        assert_eq!((refused.status.as_u16(), &refused.headers["retry-after"]), (429, &"8".parse().unwrap()));
        advance(Duration::from_secs(10)).await;
    }
}
