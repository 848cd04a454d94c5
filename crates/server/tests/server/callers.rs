//! What a contract says of callers, as they see it.

use axum::body::Body;
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::Memory;
use enact_server::{Options, Token, Tokens, caller_from_outside};
use serde_json::json;

use crate::bank::{Answer, Bank};

const CLAIMS: &str = r#"
roles customer, handler
class Claim
  filedBy: String = ""
  initial draft
    /// Files a claim.
    on File() by customer: filed
      post: this.filedBy = caller.id
  filed
    on Accept() by handler, system: accepted
      pre: "nobody handles an own claim": caller.id != filedBy
    on Touch()
      pre: caller.id != ""
    on Look()
  accepted
class Clerk
  initial none
    on Accept(claim: Claim): busy
      sync: claim.Accept()
  busy
"#;

/// The claims, with tokens of alice, a customer and handler, and of bob, a handler.
struct Claims {
    bank: Bank,
    alice: String,
    bob: String,
}

impl Claims {
    fn open() -> Self {
        let [alice, bob] = [1, 2].map(|byte| Token::from_random([byte; 32]));
        let line = |token: &Token, id: &str, roles: &[&str]| {
            token.line(&caller_from_outside(id, roles.iter().copied()).expect("a caller"), None)
        };
        let lines = [line(&alice, "alice", &["customer", "handler"]), line(&bob, "bob", &["handler"])].join("\n");
        let tokens = Tokens::parse(lines.as_bytes()).expect("well formed");
        let options = |options| Options { tokens: Some(tokens), ..options };
        let bank = Bank::of(CLAIMS, Memory::new(), EngineOptions::default(), options);
        Self { bank, alice: alice.to_string(), bob: bob.to_string() }
    }

    async fn post(&self, token: Option<&str>, path: &str, body: &str) -> Answer {
        let request = Request::post(path).header("host", "localhost").header("content-type", "application/json");
        let request = match token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        };
        self.bank.ask(request.body(Body::from(body.to_owned())).expect("a request")).await
    }
}

#[track_caller]
fn is_forbidden(answer: &Answer, text: &str) {
    assert_eq!(answer.status, 403, "{answer:#?}");
    assert_eq!(answer.body["type"], "urn:enact:problem:forbidden");
    assert_eq!(answer.body["reasons"][0]["text"], text);
}

#[tokio::test]
async fn an_event_is_forbidden_to_callers_without_its_role_and_to_nobody_known() {
    let claims = Claims::open();
    let (alice, bob) = (Some(&*claims.alice), Some(&*claims.bob));
    is_forbidden(
        &claims.post(bob, "/Claim/1/File", "{}").await,
        "File needs the role customer, which the caller does not have",
    );
    is_forbidden(
        &claims.post(None, "/Claim/1/File", "{}").await,
        "File needs the role customer, which the caller does not have",
    );
    assert_eq!(claims.bank.get("/Claim/1").await.status, 404, "nothing has happened");
    assert_eq!(claims.post(alice, "/Claim/1/File", "{}").await.status, 200);
    assert_eq!(claims.bank.get("/Claim/1").await.body["fields"]["filedBy"], "alice");

    is_forbidden(&claims.post(None, "/Claim/1/Touch", "{}").await, "Touch needs a caller, and none is known");
    assert_eq!(claims.post(None, "/Claim/1/Look", "{}").await.status, 200);

    let own = claims.post(alice, "/Claim/1/Accept", "{}").await;
    assert_eq!(own.status, 409, "{own:#?}");
    assert_eq!(own.body["reasons"][0]["values"], json!({ "caller.id": "alice", "filedBy": "alice" }));
    assert_eq!(claims.post(bob, "/Claim/1/Accept", "{}").await.status, 200);
}

#[tokio::test]
async fn the_caller_is_that_of_the_whole_step() {
    let claims = Claims::open();
    assert_eq!(claims.post(Some(&claims.alice), "/Claim/1/File", "{}").await.status, 200);
    let accept = r#"{"claim":"1"}"#;
    let refused = claims.post(None, "/Clerk/c/Accept", accept).await;
    is_forbidden(&refused, "Accept needs one of the roles handler, system, which the caller does not have");
    assert_eq!(refused.body["reasons"][0]["entity"], "Claim/1");
    assert_eq!(claims.post(Some(&claims.alice), "/Clerk/c/Accept", accept).await.status, 409);
    assert_eq!(claims.post(Some(&claims.bob), "/Clerk/c/Accept", accept).await.status, 200);
}

#[tokio::test]
async fn the_description_says_which_roles_an_event_needs() {
    let without_tokens = Bank::of(CLAIMS, Memory::new(), EngineOptions::default(), |options| options);
    for bank in [&Claims::open().bank, &without_tokens] {
        let document = bank.get("/openapi.json").await.body;
        for (event, described) in [
            ("File", json!("Files a claim.\n\nNeeds the role `customer`.")),
            ("Accept", json!("Needs the role `handler` or `system`.")),
            ("Touch", json!("Needs a caller.")),
        ] {
            let operation = &document["paths"][format!("/Claim/{{id}}/{event}")]["post"];
            assert_eq!(operation["description"], described);
            assert!(operation["responses"].get("403").is_some(), "{event}");
        }
    }
}
