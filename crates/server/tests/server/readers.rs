//! Who may read: what is kept back of changes, streams and refusals. The matrix of all endpoints is a test of the program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{Request, StatusCode};
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_rebel::Timestamp;
use enact_server::{Options, Readers, RoleDemand, Token, Tokens, caller_from_outside};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bank::{Answer, Bank};

const CONTRACT: &str = r#"
roles auditor, teller
class Account
  balance: Integer = 0
  initial init
    on Open(deposit: Integer): opened
      post: this.balance = deposit
  opened
    on Withdraw(amount: Integer)
      pre: "insufficient funds": balance >= amount
      post: this.balance -= amount
    read on CanPay(amount: Integer) -> Boolean by teller
      return: balance >= amount
class Lamp
  initial off
    on Light(): lit
  lit
"#;

/// A bank whose accounts are for auditors, and lamps for anybody.
struct Served {
    bank: Bank,
    tokens: Tokens,
    file: tempfile::NamedTempFile,
}

fn token(byte: u8) -> Token {
    Token::from_random([byte; 32])
}

const AUDITOR: u8 = 1;
const TELLER: u8 = 2;

impl Served {
    fn of(readers: Readers) -> Self {
        let file = tempfile::NamedTempFile::new().expect("a place for the test");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).expect("ours");
        write(&file, &[line(AUDITOR, "auditor"), line(TELLER, "teller")]);
        let tokens = Tokens::read(file.path()).expect("well formed");
        let options = |options| Options { tokens: Some(tokens.clone()), readers, ..options };
        let bank = Bank::of(CONTRACT, Memory::new(), EngineOptions::default(), options);
        Self { bank, tokens, file }
    }

    async fn ask(&self, method: &str, path: &str, caller: Option<u8>, body: Value) -> Answer {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json");
        let request = caller.iter().fold(request, |request, &byte| request.header("authorization", bearer(byte)));
        self.bank.ask(request.body(Body::from(body.to_string())).expect("a request")).await
    }

    async fn get(&self, path: &str, caller: Option<u8>) -> Answer {
        self.ask("GET", path, caller, json!({})).await
    }

    async fn post(&self, path: &str, body: Value) {
        assert_eq!(self.ask("POST", path, None, body).await.status, 200, "{path}");
    }

    /// A lamp, an account and another lamp.
    async fn fill(&self) {
        self.post("/Lamp/a/Light", json!({})).await;
        self.post("/Account/A/Open", json!({ "deposit": 100 })).await;
        self.post("/Lamp/b/Light", json!({})).await;
    }

    async fn stream(&self, caller: u8) -> BodyDataStream {
        let request = Request::get("/-/changes").header("host", "localhost").header("accept", "text/event-stream");
        let request = request.header("authorization", bearer(caller)).body(Body::empty()).expect("a request");
        let response = self.bank.router().oneshot(request).await.expect("an answer");
        assert_eq!(response.status(), StatusCode::OK);
        response.into_body().into_data_stream()
    }
}

fn write(file: &tempfile::NamedTempFile, lines: &[String]) {
    fs::write(file.path(), lines.join("\n")).expect("writable");
}

fn line(byte: u8, role: &str) -> String {
    token(byte).line(&caller_from_outside(role, [role]).expect("a caller"), None)
}

fn bearer(byte: u8) -> String {
    format!("Bearer {}", token(byte))
}

fn accounts_for_auditors() -> Readers {
    Readers::default().with("Account", "auditor".parse::<RoleDemand>().expect("a demand"))
}

fn names(answer: &Answer) -> Vec<String> {
    let changes = answer.body["changes"].as_array().expect("a list");
    changes
        .iter()
        .map(|change| format!("{}/{}", change["class"].as_str().unwrap(), change["id"].as_str().unwrap()))
        .collect()
}

#[tokio::test]
async fn changes_are_those_of_the_classes_that_the_caller_may_read_and_cursors_pass_the_others() {
    let served = Served::of(accounts_for_auditors());
    served.fill().await;
    let all = served.get("/-/changes", Some(AUDITOR)).await;
    assert_eq!(names(&all), ["Lamp/a", "Account/A", "Lamp/b"]);
    for caller in [None, Some(TELLER)] {
        let mut after = String::new();
        let mut seen = Vec::new();
        // One change a page: the page of the account is empty and leads on.
        for _ in 0..3 {
            let page = served.get(&format!("/-/changes?limit=1{after}"), caller).await;
            seen.push(names(&page));
            after = format!("&after={}", page.body["next"].as_str().expect("a cursor"));
        }
        assert_eq!(seen, [vec!["Lamp/a".to_owned()], vec![], vec!["Lamp/b".to_owned()]], "{caller:?}");
        assert_eq!(after, format!("&after={}", all.body["next"].as_str().expect("a cursor")));
        let expected = if caller.is_none() { 401 } else { 403 };
        for query in ["class=Account", "class=Lamp&class=Account"] {
            assert_eq!(served.get(&format!("/-/changes?{query}"), caller).await.status, expected, "{query}");
        }
        assert_eq!(names(&served.get("/-/changes?class=Lamp", caller).await), ["Lamp/a", "Lamp/b"]);
    }
    let closed = Served::of(Readers::default().with_others(RoleDemand::Caller));
    closed.fill().await;
    assert_eq!(closed.get("/-/changes", None).await.status, 401, "none is left");
    assert_eq!(names(&closed.get("/-/changes", Some(TELLER)).await).len(), 3);
}

/// The time moves on only when everybody waits for it.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_when_its_caller_may_not_read_any_more() {
    let revoked = |_: Timestamp| vec![line(TELLER, "teller")];
    let demoted = |_: Timestamp| vec![line(AUDITOR, "teller")];
    let over = |now: Timestamp| vec![token(AUDITOR).line(&caller_from_outside("a", ["auditor"]).unwrap(), Some(now))];
    for (what, lines, ends) in [
        ("revoked", &revoked as &dyn Fn(Timestamp) -> Vec<String>, true),
        ("demoted", &demoted, true),
        ("over", &over, true),
        ("as it was", &|_| vec![line(AUDITOR, "auditor")], false),
    ] {
        let served = Served::of(accounts_for_auditors());
        served.fill().await;
        let mut stream = served.stream(AUDITOR).await;
        let first = stream.next().await.expect("it goes on").expect("it does not fail");
        assert!(str::from_utf8(&first).expect("UTF-8").contains("Lamp"));
        write(&served.file, &lines(Timestamp::from_millis(1)));
        served.tokens.reload().expect("well formed");
        let (mut rest, mut quiet) = (String::new(), false);
        while !quiet && let Some(some) = stream.next().await {
            rest += str::from_utf8(&some.expect("it does not fail")).expect("UTF-8");
            // What it says when it is alive and nothing happens.
            quiet = rest.contains("nothing new");
        }
        assert_eq!(quiet, !ends, "{what}: {rest}");
    }
}

#[tokio::test]
async fn a_refusal_keeps_back_the_values_of_what_the_caller_may_not_read() {
    let served = Served::of(accounts_for_auditors());
    served.fill().await;
    let withdraw = json!({ "amount": 250 });
    let batch = |is_atomic: bool| {
        let command = json!({ "class": "Account", "id": "A", "event": "Withdraw", "arguments": withdraw });
        json!({ "commands": [command], "atomic": is_atomic })
    };
    for (caller, is_told) in [(None, false), (Some(TELLER), false), (Some(AUDITOR), true)] {
        let alone = served.ask("POST", "/Account/A/Withdraw", caller, withdraw.clone()).await.body;
        let atomic = served.ask("POST", "/-/batch", caller, batch(true)).await.body;
        let mut one_of_several = served.ask("POST", "/-/batch", caller, batch(false)).await.body;
        for problem in [alone, atomic, one_of_several["results"][0].take()] {
            assert_eq!(
                (&problem["status"], &problem["reasons"][0]["text"]),
                (&json!(409), &json!("insufficient funds"))
            );
            assert_eq!(problem["reasons"][0]["values"].get("balance").is_some(), is_told, "{problem}");
            assert_eq!(problem["detail"].as_str().expect("a text").contains("100"), is_told, "{problem}");
        }
    }
}

#[tokio::test]
async fn a_read_event_with_roles_is_for_these_and_nothing_is_loaded_for_others() {
    let served = Served::of(accounts_for_auditors());
    served.fill().await;
    let ask =
        async |caller, id: &str| served.get(&format!("/Account/{id}/CanPay?amount=7"), caller).await.status.as_u16();
    for (caller, id, expected) in [
        (None, "A", 403),
        (Some(AUDITOR), "A", 403),
        (Some(AUDITOR), "none", 403),
        (Some(TELLER), "A", 200),
        (Some(TELLER), "none", 404),
    ] {
        assert_eq!(ask(caller, id).await, expected, "{caller:?} {id}");
    }
    assert_eq!(served.get("/Account/A", Some(TELLER)).await.status, 403);
    // From here on nothing can be loaded.
    served.bank.engine.shutdown(Duration::from_secs(60)).await.expect("it stops");
    for (caller, expected) in [(None, 403), (Some(AUDITOR), 403), (Some(TELLER), 503)] {
        assert_eq!(ask(caller, "other").await, expected, "{caller:?}");
    }
}

#[tokio::test]
async fn the_description_says_what_readers_need() {
    let served = Served::of(accounts_for_auditors().with("metrics", RoleDemand::Caller));
    let paths = served.get("/openapi.json", None).await.body["paths"].take();
    for (path, is_restricted) in [
        ("/Account", true),
        ("/Account/{id}", true),
        ("/Account/{id}/-/history", true),
        ("/metrics", true),
        ("/Account/{id}/CanPay", false),
        ("/Lamp", false),
        ("/Lamp/{id}", false),
        ("/-/changes", false),
        ("/openapi.json", false),
    ] {
        let operation = &paths[path]["get"];
        let bearer = json!({ "bearer": [] });
        let expected = if is_restricted { json!([bearer]) } else { json!([{}, bearer]) };
        assert_eq!(operation["security"], expected, "{path}");
        assert_eq!(operation["responses"].get("403").is_some(), is_restricted || path.ends_with("CanPay"), "{path}");
    }
}
