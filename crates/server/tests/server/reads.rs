//! Read events, asked by clients and by other events.

use axum::body::Body;
use axum::http::{Method, Request};
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_server::{Options, Token, Tokens, caller_from_outside};
use serde_json::json;

use crate::bank::Bank;

const CLAIMS: &str = r#"
roles handler
class Clerk
  most: Money = EUR 0.00
  boss: Clerk
  initial applicant
    on Hire(upTo: Money, by_: Clerk): employed
      post: this.most = upTo, this.boss = by_
  employed
    /// Whether the clerk may grant an amount.
    read on MayGrant(amount: Money, why: String) -> Boolean
      pre: "an amount": amount > 0
           "a reason": why != ""
      return: amount <= most
    read on Above() -> Money
      pre: boss is employed
      return: boss.most
    read on Mine() -> Money by handler
      return: most
    on Lower(to: Money)
      post: this.most = to
class Claim
  granted: Money = EUR 0.00
  initial draft
    on Grant(amount: Money, clerk: Clerk) -> Money: granted_
      pre: "above the limit": clerk.MayGrant(amount, "claim")
      post: this.granted = amount
      return: this.granted
  granted_
"#;

fn served(journal: Memory, options: impl FnOnce(Options) -> Options) -> Bank {
    Bank::of(CLAIMS, journal, EngineOptions::default(), options)
}

async fn hired() -> Bank {
    let bank = served(Memory::new(), |options| options);
    for (id, most) in [("a", "EUR 100.00"), ("b", "EUR 7.00")] {
        let body = format!(r#"{{"upTo":"{most}","by_":"b"}}"#);
        assert_eq!(bank.post(&format!("/Clerk/{id}/Hire"), body).await.status, 200);
    }
    bank
}

#[tokio::test]
async fn a_read_event_is_a_get_with_its_parameters_in_the_query() {
    let bank = hired().await;
    let ask = async |query: &str| bank.get(&format!("/Clerk/a/MayGrant?{query}")).await;
    for (amount, expected) in [("EUR%20100.00", true), ("EUR+100.01", false)] {
        let answer = ask(&format!("amount={amount}&why=a%26b")).await;
        assert_eq!((answer.status.as_u16(), answer.body), (200, json!({ "id": "a", "result": expected })));
    }
    let refused = ask("amount=EUR%200.00&why=").await;
    assert_eq!(refused.status, 409, "{refused:#?}");
    let texts: Vec<_> =
        refused.body["reasons"].as_array().expect("a list").iter().map(|why| why["text"].clone()).collect();
    assert_eq!(texts, ["an amount", "a reason"]);
    let wrong = [
        ("amount=EUR%201.00", "why"),
        ("amount=1&why=x", "amount"),
        ("amount=EUR%201.00&why=x&why=y", "why"),
        ("amount=EUR%201.00&why=x&mode=applied", "mode"),
    ];
    for (query, name) in wrong {
        let answer = ask(query).await;
        assert_eq!(answer.status, 422, "{query}: {answer:#?}");
        assert_eq!(answer.body["parameters"][0]["name"], name, "{query}");
    }
    assert_eq!(bank.get("/Clerk/nobody/MayGrant?amount=EUR%201.00&why=x").await.status, 404);
    assert_eq!(bank.get("/Clerk/a/MayGrand?amount=EUR%201.00&why=x").await.status, 404);
}

#[tokio::test]
async fn what_is_asked_from_outside_may_ask_others() {
    let bank = hired().await;
    assert_eq!(bank.get("/Clerk/a/Above").await.body["result"], "EUR 7.00");
    assert_eq!(bank.post("/Clerk/b/Lower", r#"{"to":"EUR 6.00"}"#).await.status, 200);
    assert_eq!(bank.get("/Clerk/a/Above").await.body["result"], "EUR 6.00");
}

#[tokio::test]
async fn a_question_is_no_command_and_a_command_no_question() {
    let bank = hired().await;
    for (method, path, status, allow) in [
        (Method::POST, "/Clerk/a/Above", 405, "GET, HEAD"),
        (Method::GET, "/Clerk/a/Lower", 405, "POST"),
        (Method::POST, "/Clerk/Above", 405, "GET, HEAD"),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Body::from("{}")).expect("a request");
        let answer = bank.ask(request).await;
        assert_eq!(
            (answer.status.as_u16(), &answer.headers["allow"]),
            (status, &allow.parse().expect("a value")),
            "{path}"
        );
    }
}

#[tokio::test]
async fn a_question_has_a_caller() {
    let token = Token::from_random([1; 32]);
    let line = token.line(&caller_from_outside("bob", ["handler"]).expect("a caller"), None);
    let tokens = Tokens::parse(line.as_bytes()).expect("well formed");
    let bank = served(Memory::new(), |options| Options { tokens: Some(tokens), ..options });
    assert_eq!(bank.post("/Clerk/a/Hire", r#"{"upTo":"EUR 1.00","by_":"b"}"#).await.status, 200);
    assert_eq!(bank.get("/Clerk/a/Mine").await.status, 403);
    let request = Request::get("/Clerk/a/Mine").header("host", "localhost");
    let request = request.header("authorization", format!("Bearer {token}")).body(Body::empty()).expect("a request");
    assert_eq!(bank.ask(request).await.body["result"], "EUR 1.00");
}

#[tokio::test]
async fn an_event_asks_another_instance_and_is_recovered_with_the_answer() {
    let journal = Memory::new();
    let bank = served(journal.clone(), |options| options);
    assert_eq!(bank.post("/Clerk/a/Hire", r#"{"upTo":"EUR 100.00","by_":"a"}"#).await.status, 200);
    let refused = bank.post("/Claim/1/Grant", r#"{"amount":"EUR 100.01","clerk":"a"}"#).await;
    assert_eq!((refused.status.as_u16(), &refused.body["reasons"][0]["text"]), (409, &json!("above the limit")));
    let granted = bank.post("/Claim/1/Grant", r#"{"amount":"EUR 100.00","clerk":"a"}"#).await;
    assert_eq!((granted.status.as_u16(), &granted.body["result"]), (200, &json!("EUR 100.00")));
    assert_eq!(bank.post("/Clerk/a/Lower", r#"{"to":"EUR 1.00"}"#).await.status, 200);
    let again = served(journal, |options| options);
    assert_eq!(again.get("/Claim/1").await.body["fields"]["granted"], "EUR 100.00");
    assert_eq!(again.get("/Clerk/a/MayGrant?amount=EUR%202.00&why=x").await.body["result"], false);
}

#[tokio::test]
async fn grants_and_lower_limits_at_the_same_time_have_an_order() {
    let bank = hired().await;
    let mut running = Vec::new();
    for number in 0..20 {
        let bank = bank.clone();
        running.push(tokio::spawn(async move {
            let body = r#"{"amount":"EUR 50.00","clerk":"a"}"#;
            let granted = bank.post(&format!("/Claim/{number}/Grant"), body).await;
            if number == 10 {
                let lowered = bank.post("/Clerk/a/Lower", r#"{"to":"EUR 49.00"}"#).await;
                assert_eq!(lowered.status, 200, "{lowered:#?}");
            }
            granted.status.as_u16()
        }));
    }
    for status in running {
        let status = status.await.expect("it ends");
        assert!(matches!(status, 200 | 409), "{status}");
    }
    let late = bank.post("/Claim/late/Grant", r#"{"amount":"EUR 50.00","clerk":"a"}"#).await;
    assert_eq!(late.status, 409, "{late:#?}");
}

#[tokio::test]
async fn the_description_has_the_questions() {
    let bank = hired().await;
    let document = bank.get("/openapi.json").await.body;
    serde_json::from_value::<utoipa::openapi::OpenApi>(document.clone()).expect("well formed");
    let operation = &document["paths"]["/Clerk/{id}/MayGrant"]["get"];
    assert_eq!(operation["description"], "Whether the clerk may grant an amount.");
    let parameters = operation["parameters"].as_array().expect("a list").iter();
    let named: Vec<_> = parameters.map(|parameter| (&parameter["name"], &parameter["in"])).collect();
    let expected = [("id", "path"), ("amount", "query"), ("why", "query"), ("enact-deadline-ms", "header")];
    assert_eq!(named, expected.map(|(name, place)| (json!(name), json!(place))).each_ref().map(|(a, b)| (a, b)));
    assert!(document["paths"]["/Clerk/{id}/MayGrant"].get("post").is_none());
    let mut schema = operation["responses"]["200"]["content"]["application/json"]["schema"].clone();
    schema["components"] = document["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
    let answer = bank.get("/Clerk/a/MayGrant?amount=EUR%201.00&why=x").await.body;
    assert!(validator.is_valid(&answer) && !validator.is_valid(&json!({ "id": "a" })), "{schema:#}");
}
