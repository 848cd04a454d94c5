//! Who a request is: by its token, and by nothing else.

use axum::body::Body;
use axum::http::Request;
use enact_entities::{EngineOptions, Record};
use enact_journal::{EntityKey, Journal, Memory, Seq};
use enact_rebel::{Caller, EventCall, Timestamp};
use enact_server::{Options, Token, Tokens, caller_from_outside};
use serde_json::json;

use crate::bank::{Answer, Bank};

const OPEN: &str = r#"{"initialDeposit":"EUR 1.00"}"#;
const DEPOSIT: &str = r#"{"amount":"EUR 1.00"}"#;

/// What a token of alice is made of that is not valid any more.
const EXPIRED: [u8; 32] = [7; 32];

/// Two tokens of alice and one of bob, and a bank that knows them.
struct Known {
    bank: Bank,
    alice: [String; 2],
    bob: String,
}

impl Known {
    fn bank() -> Self {
        let [new, old, bob] = [1, 2, 3].map(|byte| Token::from_random([byte; 32]));
        let teller = caller("alice", &["teller", "auditor"]);
        let expired = Token::from_random(EXPIRED).line(&teller, Some(Timestamp::from_millis(1)));
        let lines = [new.line(&teller, None), old.line(&teller, None), bob.line(&caller("bob", &[]), None), expired];
        let lines = lines.join("\n");
        let tokens = Tokens::parse(lines.as_bytes()).expect("well formed");
        let bank = Bank::with(|options| Options { tokens: Some(tokens), ..options });
        Self { bank, alice: [new, old].map(|token| token.to_string()), bob: bob.to_string() }
    }
}

fn caller(id: &str, roles: &[&str]) -> Caller {
    caller_from_outside(id, roles.iter().copied()).expect("a caller")
}

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

async fn post(bank: &Bank, path: &str, headers: &[(&str, &[u8])], body: &str) -> Answer {
    let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    bank.ask(request.body(Body::from(body.to_owned())).expect("a request")).await
}

/// The caller that the journal has for the first event of an account, waiting until it has one.
async fn journaled(bank: &Bank, account: &str) -> Option<Caller> {
    let key = EntityKey::new("Account", account).expect("a key");
    let records = bank.journal.read(&key, Seq::NONE).await.expect("readable");
    let record = Record::<EventCall>::decode(&records.first().expect("a record").payload).expect("a record");
    let Record::Committed { events, .. } = record else { panic!("{record:?}") };
    events[0].caller().cloned()
}

#[tokio::test]
async fn a_header_proves_a_caller_or_nobody_or_is_refused() {
    let Known { bank, alice: [new, old], bob } = Known::bank();
    let (alice, unknown) = (Some(caller("alice", &["teller", "auditor"])), Token::from_random([9; 32]).to_string());
    let header = |value: &str| vec![value.as_bytes().to_vec()];
    let unterminated = &new[..new.len() - 1];
    let rows = [
        ("none", vec![], Ok(None)),
        ("right", header(&bearer(&new)), Ok(alice.clone())),
        ("the other token of the same caller", header(&bearer(&old)), Ok(alice.clone())),
        ("a caller without roles", header(&bearer(&bob)), Ok(Some(caller("bob", &[])))),
        ("case of the scheme", header(&format!("bEARER {new}")), Ok(alice.clone())),
        ("several blanks", header(&format!("Bearer   {new}")), Ok(alice)),
        ("unknown", header(&bearer(&unknown)), Err(())),
        ("not valid any more", header(&bearer(&Token::from_random(EXPIRED).to_string())), Err(())),
        ("a part of it", header(&bearer(unterminated)), Err(())),
        ("more than it", header(&bearer(&format!("{new}0"))), Err(())),
        ("case of the token", header(&bearer(&"AbCdEf".repeat(9))), Err(())),
        ("empty", header(""), Err(())),
        ("scheme alone", header("Bearer"), Err(())),
        ("blank token", header("Bearer "), Err(())),
        ("token alone", header(&new), Err(())),
        ("no blank", header(&format!("Bearer{new}")), Err(())),
        ("wrong scheme", header(&format!("Basic {new}")), Err(())),
        ("two words", header(&format!("Bearer {new} {new}")), Err(())),
        ("a list", header(&format!("Bearer {new},{new}")), Err(())),
        ("two headers", vec![bearer(&new).into_bytes(), bearer(&new).into_bytes()], Err(())),
        ("a second empty header", vec![bearer(&new).into_bytes(), Vec::new()], Err(())),
        ("non-ASCII", header("Bearer tökén"), Err(())),
        ("no UTF-8", vec![[b"Bearer ".as_slice(), &[0xff; 32]].concat()], Err(())),
        ("shorter than the scheme", header("B"), Err(())),
        ("long", header(&bearer(&"a".repeat(12_000))), Err(())),
    ];
    for (number, (row, values, expected)) in rows.into_iter().enumerate() {
        let headers: Vec<_> = values.iter().map(|value| ("authorization", value.as_slice())).collect();
        let answer = post(&bank, &format!("/Account/{number}/Open"), &headers, OPEN).await;
        match expected {
            Ok(expected) => {
                assert_eq!(answer.status, 200, "{row}: {answer:#?}");
                assert_eq!(journaled(&bank, &number.to_string()).await, expected, "{row}");
            }
            Err(()) => {
                is_unauthenticated(row, &answer);
                assert!(
                    [&*new, &*old, &*bob, &*unknown, unterminated].iter().all(|token| !shows(&answer, token)),
                    "{row}"
                );
                let read = bank.get(&format!("/Account/{number}")).await;
                assert_eq!(read.status, 404, "{row}: nothing was done");
            }
        }
    }
}

#[track_caller]
fn is_unauthenticated(row: &str, answer: &Answer) {
    assert_eq!(answer.status, 401, "{row}: {answer:#?}");
    assert_eq!(answer.body["type"], "urn:enact:problem:unauthenticated", "{row}");
    assert_eq!(answer.headers["www-authenticate"], "Bearer", "{row}");
    assert!(
        answer.body["detail"].as_str().is_some_and(|detail| detail.contains("Authorization: Bearer TOKEN")),
        "{row}"
    );
}

fn shows(answer: &Answer, token: &str) -> bool {
    format!("{answer:?}").contains(token)
}

#[tokio::test]
async fn a_wrong_token_learns_nothing_and_keeps_nobody_from_looking_after_the_server() {
    let Known { bank, alice: [alice, _], .. } = Known::bank();
    let get = async |path: &str, token: &str| {
        let request = Request::get(path).header("host", "localhost").header("authorization", bearer(token));
        bank.ask(request.body(Body::empty()).expect("a request")).await
    };
    for path in ["/", "/openapi.json", "/Account/a", "/Nothing/a", "/Account/a/Open", "/healthy"] {
        is_unauthenticated(path, &get(path, "wrong").await);
    }
    for path in ["/health", "/health/ready"] {
        assert_eq!(get(path, "wrong").await.status, 200, "{path}");
    }
    assert_eq!(get("/openapi.json", &alice).await.status, 200);
    assert_eq!(get("/Account/a", &alice).await.status, 404);
    assert_eq!(bank.get("/Account/a").await.status, 404, "nobody may look");
}

#[tokio::test]
async fn no_other_header_says_who_calls() {
    let Known { bank, alice: [alice, _], .. } = Known::bank();
    let bearer = bearer(&alice);
    let names = [
        "proxy-authorization",
        "x-authorization",
        "x-user",
        "x-forwarded-user",
        "x-remote-user",
        "remote-user",
        "from",
        "cookie",
        "x-api-key",
        "x-caller",
        "authentication",
        "www-authenticate",
    ];
    for (number, name) in names.into_iter().enumerate() {
        for (letter, value) in [("t", bearer.as_str()), ("i", "alice"), ("s", "system")] {
            let account = format!("{letter}{number}");
            let headers = [(name, value.as_bytes())];
            let answer = post(&bank, &format!("/Account/{account}/Open"), &headers, OPEN).await;
            assert_eq!(answer.status, 200, "{name}: {answer:#?}");
            assert_eq!(journaled(&bank, &account).await, None, "{name}");
        }
    }
}

#[tokio::test]
async fn without_tokens_no_header_is_believed_and_none_is_refused() {
    let bank = Bank::empty();
    let token = bearer(&Known::bank().alice[0]);
    for (number, value) in [token.as_str(), "Basic YTpi", "", "tökén"].into_iter().enumerate() {
        let headers = [("authorization", value.as_bytes())];
        let answer = post(&bank, &format!("/Account/{number}/Open"), &headers, OPEN).await;
        assert_eq!(answer.status, 200, "{value}: {answer:#?}");
        assert_eq!(journaled(&bank, &number.to_string()).await, None, "{value}");
    }
}

#[tokio::test]
async fn an_idempotency_key_belongs_to_its_caller() {
    let Known { bank, alice, bob } = Known::bank();
    assert_eq!(bank.post("/Account/a/Open", OPEN).await.status, 200);
    let [alice, alice_too, bob] = [&alice[0], &alice[1], &bob].map(|token| bearer(token));
    let other = r#"{"amount":"EUR 2.00"}"#;
    // Who, with which body, the status, and whether it is an earlier answer.
    let rows = [
        (Some(&alice), DEPOSIT, 200, false),
        (Some(&alice), DEPOSIT, 200, true),
        (Some(&alice_too), DEPOSIT, 200, true),
        (Some(&alice), other, 422, false),
        (Some(&bob), other, 200, false),
        (Some(&bob), other, 200, true),
        (Some(&bob), DEPOSIT, 422, false),
        (None, DEPOSIT, 200, false),
        (None, DEPOSIT, 200, true),
        (None, other, 422, false),
        (Some(&alice), DEPOSIT, 200, true),
    ];
    for (row, (who, body, status, is_replayed)) in rows.into_iter().enumerate() {
        let mut headers = vec![("idempotency-key", b"gift".as_slice())];
        headers.extend(who.map(|who| ("authorization", who.as_bytes())));
        let answer = post(&bank, "/Account/a/Deposit", &headers, body).await;
        assert_eq!(answer.status.as_u16(), status, "row {row}: {answer:#?}");
        assert_eq!(answer.headers.contains_key("idempotency-replayed"), is_replayed, "row {row}");
    }
    // Three deposits beside the first: of alice, bob and nobody.
    assert_eq!(bank.get("/Account/a").await.body["fields"]["balance"], "EUR 5.00");
}

#[tokio::test]
async fn an_id_that_follows_from_a_key_follows_from_the_caller_too() {
    let Known { bank, alice, bob } = Known::bank();
    let create = async |bank: &Bank, token: Option<&str>| {
        let authorization = token.map(bearer);
        let mut headers = vec![("idempotency-key", b"new".as_slice())];
        headers.extend(authorization.iter().map(|value| ("authorization", value.as_bytes())));
        let answer = post(bank, "/Account/Open", &headers, OPEN).await;
        assert_eq!(answer.status, 200, "{answer:#?}");
        let is_replayed = answer.headers.contains_key("idempotency-replayed");
        (answer.body["id"].as_str().expect("a text").to_owned(), is_replayed)
    };
    let (of_alice, is_replayed) = create(&bank, Some(&alice[0])).await;
    assert!(!is_replayed);
    assert_eq!(create(&bank, Some(&alice[1])).await, (of_alice.clone(), true), "the caller counts, not the token");
    let (of_bob, _) = create(&bank, Some(&bob)).await;
    let (of_nobody, _) = create(&bank, None).await;
    assert_eq!(create(&Bank::empty(), Some(&bob)).await.0, of_nobody, "nobody is anybody without tokens");
    assert!(of_alice != of_bob && of_bob != of_nobody && of_alice != of_nobody);
    // printf 'Account\0new' | sha256sum, with version and variant of a UUID; as before there were callers.
    assert_eq!(of_nobody, "531edd31-a506-81dc-b206-18d7784c524c");
}

#[tokio::test]
async fn the_answer_to_nobody_is_found_when_the_server_gets_tokens() {
    let journal = Memory::new();
    let before = Bank::over(journal.clone(), EngineOptions::default());
    let key: &[(&str, &[u8])] = &[("idempotency-key", b"k")];
    assert_eq!(post(&before, "/Account/a/Open", key, OPEN).await.status, 200);
    let tokens = Tokens::parse(b"").expect("well formed");
    let options = |options| Options { tokens: Some(tokens), ..options };
    let after = Bank::served(journal, EngineOptions::default(), options);
    let again = post(&after, "/Account/a/Open", key, OPEN).await;
    assert_eq!((again.status.as_u16(), again.headers.contains_key("idempotency-replayed")), (200, true));
}

#[tokio::test]
async fn the_description_has_what_a_caller_needs_to_know_if_there_are_tokens() {
    let described = async |bank: Bank| bank.get("/openapi.json").await.body;
    let (open, known) = (described(Bank::empty()).await, described(Known::bank().bank).await);
    serde_json::from_value::<utoipa::openapi::OpenApi>(known.clone()).expect("well formed");
    let text = open.to_string();
    for word in ["security", "bearer", "\"401\"", "\"403\""] {
        assert!(!text.to_lowercase().contains(word), "{word} without tokens");
    }
    let scheme = &known["components"]["securitySchemes"]["bearer"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("bearer")));
    for (path, method, has_401, has_403) in [
        ("/Account/{id}/Withdraw", "post", true, true),
        ("/Account/Open", "post", true, true),
        ("/Account/{id}", "get", true, false),
        ("/openapi.json", "get", true, false),
        ("/health", "get", false, false),
        ("/health/ready", "get", false, false),
    ] {
        let operation = &known["paths"][path][method];
        let has = |status: &str| operation["responses"].get(status).is_some();
        assert_eq!((has("401"), has("403")), (has_401, has_403), "{path}");
        let expected = if has_401 { json!([{}, { "bearer": [] }]) } else { json!(null) };
        assert_eq!(operation["security"], expected, "{path}");
    }
}
