//! What each request is answered with, one table per status.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::Memory;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bank::{Answer, Bank};

const TRANSFER: &str = r#"{"amount":"EUR 30.00","from":"A","to":"B"}"#;

/// Fails unless `answer` has `status` and a body that contains every member of `expected`.
#[track_caller]
fn check(row: &str, answer: &Answer, status: u16, expected: Value) {
    assert_eq!(answer.status.as_u16(), status, "{row}: {answer:#?}");
    let Value::Object(expected) = expected else { panic!("{row}: an object is expected") };
    for (name, value) in &expected {
        assert_eq!(&answer.body[name], value, "{row}: member {name} of {:#}", answer.body);
    }
}

#[tokio::test]
async fn a_command_answers_with_its_transaction_and_the_new_state() {
    let bank = Bank::open().await;
    let booked = bank.post("/Transfer/t1/Book", TRANSFER).await;
    check("book", &booked, 200, json!({ "state": "booked" }));
    let transaction = booked.body["transaction"].as_str().expect("a text");
    assert!(booked.headers.get("idempotency-replayed").is_none());
    for (account, balance) in [("A", "EUR 70.00"), ("B", "EUR 30.00")] {
        let after = format!("?after={transaction}");
        for query in [after.as_str(), "", "?mode=certain", "?mode=applied"] {
            let read = bank.get(&format!("/Account/{account}{query}")).await;
            let fields = json!({ "balance": balance, "limit": "EUR 0.00", "colour": "red", "visits": 0, "friends": [],
                "rate": "0%", "seen": "2026-01-01", "note": "" });
            check(query, &read, 200, json!({ "class": "Account", "id": account, "state": "opened", "fields": fields }));
        }
    }
}

#[tokio::test]
async fn every_type_travels_in_both_directions() {
    let bank = Bank::open().await;
    let body = r#"{"hue":"green","count":9007199254740993,"interest":"2.5%","bright":true,"day":"2026-11-21","known":["B","A"],"text":"\u00e9 \" \\"}"#;
    check("describe", &bank.post("/Account/A/Describe", body).await, 200, json!({ "state": "opened" }));
    let fields = &bank.get("/Account/A").await.body["fields"];
    assert_eq!(
        *fields,
        json!({
            "balance": "EUR 100.00", "limit": "EUR 0.00", "colour": "green", "visits": 9_007_199_254_740_993_i64, "friends": ["A", "B"],
        "rate": "2.5%", "seen": "2026-11-21", "note": "é \" \\",
        })
    );
    let range = bank.get("/Account/A?mode=range").await;
    check("range", &range, 200, json!({ "class": "Account", "id": "A", "states": ["opened"] }));
    assert_eq!(range.body["fields"]["balance"], json!({ "low": "EUR 100.00", "high": "EUR 100.00" }));
    assert_eq!(range.body["fields"]["visits"]["low"], 9_007_199_254_740_993_i64);
}

#[tokio::test]
async fn refusals_name_each_failed_precondition_with_the_values_it_saw() {
    let reason = |entity: &str, event: &str, text: &str, values: Value| {
        let mut reason = json!({ "entity": entity, "event": event, "text": text });
        if values != json!({}) {
            reason["values"] = values;
        }
        reason
    };
    let called_by = |mut reason: Value, callers: &[&str]| {
        reason["called_by"] = json!(callers);
        reason
    };
    let rows = [
        (
            "/Account/A/Withdraw",
            r#"{"amount":"EUR 100.01"}"#,
            vec![reason(
                "Account/A",
                "Withdraw",
                "insufficient funds",
                json!({ "balance": "EUR 100.00", "amount": "EUR 100.01", "limit": "EUR 0.00" }),
            )],
        ),
        (
            "/Account/A/Deposit",
            r#"{"amount":"EUR -5.00"}"#,
            vec![reason("Account/A", "Deposit", "amount > EUR 0.00", json!({ "amount": "EUR -5.00" }))],
        ),
        (
            "/Account/A/Withdraw",
            r#"{"amount":"USD 1.00"}"#,
            vec![
                reason(
                    "Account/A",
                    "Withdraw",
                    "currency mismatch: USD and EUR, in `amount > EUR 0.00`, where amount = USD 1.00",
                    json!({}),
                ),
                reason(
                    "Account/A",
                    "Withdraw",
                    "currency mismatch: EUR and USD, in `balance - amount >= EUR 0.00 - limit`, \
                     where balance = EUR 100.00, amount = USD 1.00, limit = EUR 0.00",
                    json!({}),
                ),
            ],
        ),
        (
            "/Account/A/Allow",
            r#"{"to":"EUR -1.00"}"#,
            vec![reason("Account/A", "Allow", "the limit is not negative", json!({ "limit": "EUR -1.00" }))],
        ),
        (
            "/Account/A/Open",
            r#"{"initialDeposit":"EUR 1.00"}"#,
            vec![reason("Account/A", "Open", "Open is not possible in state opened, only in init", json!({}))],
        ),
        (
            "/Transfer/t1/Book",
            r#"{"amount":"EUR 30.00","from":"A","to":"nobody"}"#,
            vec![called_by(
                reason("Account/nobody", "Deposit", "Deposit is not possible in state init, only in opened", json!({})),
                &["Transfer/t1.Book"],
            )],
        ),
    ];
    for (path, body, reasons) in rows {
        let bank = Bank::open().await;
        let answer = bank.post(path, body).await;
        let expected = json!({ "type": "urn:enact:problem:refused", "title": "Refused", "reasons": reasons });
        check(path, &answer, 409, expected);
        assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 100.00", "{path}");
    }
}

#[tokio::test]
async fn what_does_not_exist_is_404() {
    let rows = [
        ("GET", "/", "no-such-resource"),
        ("GET", "/Acount", "no-such-class"),
        ("GET", "/Account/", "no-such-resource"),
        ("GET", "/Account//", "no-such-resource"),
        ("GET", "/Account/A/Withdraw/now", "no-such-resource"),
        ("POST", "/", "no-such-resource"),
        ("GET", "/Person/A", "no-such-class"),
        ("GET", "/account/A", "no-such-class"),
        ("POST", "/Person/A/Open", "no-such-class"),
        ("POST", "/Account/A/Explode", "no-such-event"),
        ("POST", "/Account/A/withdraw", "no-such-event"),
        // Internal: exists for other events, not for clients.
        ("POST", "/Account/A/Audit", "no-such-event"),
        ("GET", "/Account/nobody", "no-such-instance"),
        ("GET", "/Account/nobody?mode=range", "no-such-instance"),
        ("GET", "/Account/a", "no-such-instance"),
        ("POST", "/Account/nobody/Close", "no-such-instance"),
    ];
    let bank = Bank::open().await;
    for (method, path, kind) in rows {
        let answer = match method {
            "GET" => bank.get(path).await,
            _ => bank.post(path, "{}").await,
        };
        check(path, &answer, 404, json!({ "type": format!("urn:enact:problem:{kind}") }));
    }
}

#[tokio::test]
async fn other_methods_are_405_and_named() {
    let bank = Bank::open().await;
    for (method, path, allow) in [
        ("GET", "/Account/A/Withdraw", "POST"),
        ("DELETE", "/Account/A/Withdraw", "POST"),
        ("POST", "/Account/A", "GET, HEAD"),
        ("PUT", "/health", "GET, HEAD"),
        ("OPTIONS", "/openapi.json", "GET, HEAD"),
    ] {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let answer = bank.ask(request.body(Body::empty()).unwrap()).await;
        check(path, &answer, 405, json!({ "type": "urn:enact:problem:method-not-allowed" }));
        assert_eq!(answer.headers["allow"], allow, "{method} {path}");
        assert!(answer.headers.get("access-control-allow-origin").is_none());
    }
}

#[tokio::test]
async fn a_head_is_answered_as_a_get_is_but_for_the_body() {
    let bank = Bank::open().await;
    let ask = async |method: &str, path: &str| {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let response = bank.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let (head, body) = response.into_parts();
        (head, to_bytes(body, 1 << 20).await.unwrap())
    };
    for path in ["/health", "/health/ready", "/openapi.json", "/Account/A", "/Account/none", "/nowhere"] {
        let ((get, body), (head, nothing)) = (ask("GET", path).await, ask("HEAD", path).await);
        assert_eq!((head.status, &head.headers["content-type"]), (get.status, &get.headers["content-type"]), "{path}");
        assert_eq!(head.headers["content-length"].to_str().unwrap(), body.len().to_string(), "{path}");
        assert!(nothing.is_empty() && !body.is_empty(), "{path}");
    }
}

#[tokio::test]
async fn parameters_that_do_not_fit_are_422_and_each_is_named() {
    let all = |member: &str| {
        let fine = [
            (r#""hue""#, r#""red""#),
            (r#""count""#, "1"),
            (r#""interest""#, r#""1%""#),
            (r#""bright""#, "true"),
            (r#""day""#, r#""2026-11-21""#),
            (r#""known""#, "[]"),
            (r#""text""#, r#""""#),
        ];
        let name = member.split(':').next().expect("a name");
        let others = fine.iter().filter(|(fine, _)| *fine != name).map(|(name, value)| format!("{name}:{value}"));
        format!("{{{}}}", others.chain([member.to_owned()]).collect::<Vec<_>>().join(","))
    };
    let describe = "/Account/A/Describe";
    let rows = [
        ("/Account/A/Withdraw", "{}".to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amuont":"EUR 1.00"}"#.to_owned(), vec!["amount", "amuont"]),
        ("/Account/A/Withdraw", r#"{"amount":"EUR 1.00","a":1,"b":2}"#.to_owned(), vec!["a", "b"]),
        ("/Account/A/Withdraw", r#"{"amount":12.5}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amount":12}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amount":"12.50"}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amount":"EUR 12.505"}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amount":"XXY 1"}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", r#"{"amount":null}"#.to_owned(), vec!["amount"]),
        ("/Account/A/Withdraw", format!(r#"{{"amount":"EUR {}"}}"#, "9".repeat(60)), vec!["amount"]),
        (describe, all(r#""count":1.0"#), vec!["count"]),
        (describe, all(r#""count":1e2"#), vec!["count"]),
        (describe, all(r#""count":9223372036854775808"#), vec!["count"]),
        (describe, all(r#""count":"1.0""#), vec!["count"]),
        (describe, all(r#""count":"9223372036854775808""#), vec!["count"]),
        (describe, all(r#""count":true"#), vec!["count"]),
        (describe, all(r#""hue":"blue""#), vec!["hue"]),
        (describe, all(r#""interest":"2.5""#), vec!["interest"]),
        (describe, all(r#""bright":"true""#), vec!["bright"]),
        (describe, all(r#""day":"2026-02-29""#), vec!["day"]),
        (describe, all(r#""known":"{A}""#), vec!["known"]),
        (describe, all(r#""known":["A","A"]"#), vec!["known"]),
        (describe, all(r#""known":["A/B"]"#), vec!["known"]),
        (describe, all(r#""text":1"#), vec!["text"]),
        ("/Transfer/t/Book", r#"{"amount":"EUR 1.00","from":"A b","to":7}"#.to_owned(), vec!["from", "to"]),
        ("/Account/A%20b/Withdraw", "{}".to_owned(), vec!["id", "amount"]),
        ("/Account/A%2FB/Withdraw", r#"{"amount":"EUR 1.00"}"#.to_owned(), vec!["id"]),
        ("/Account/%00/Withdraw", r#"{"amount":"EUR 1.00"}"#.to_owned(), vec!["id"]),
        ("/Account/%C0%AF/Withdraw", r#"{"amount":"EUR 1.00"}"#.to_owned(), vec!["id"]),
        ("/Account/%252e/Withdraw", r#"{"amount":"EUR 1.00"}"#.to_owned(), vec!["id"]),
        ("/Deposit/NL92ABNA0417164300/Start", "{}".to_owned(), vec!["id"]),
        ("/Ticket/seven/Issue", "{}".to_owned(), vec!["id"]),
        ("/Account/A/Withdraw?amount=1", r#"{"amount":"EUR 1.00"}"#.to_owned(), vec!["query"]),
    ];
    let bank = Bank::open().await;
    assert_eq!(bank.post(describe, all(r#""count":"1""#)).await.status, 200);
    for (path, body, names) in rows {
        let answer = bank.post(path, body.clone()).await;
        check(&format!("{path} {body}"), &answer, 422, json!({ "type": "urn:enact:problem:invalid-parameters" }));
        let found = answer.body["parameters"].as_array().expect("a list");
        let found: Vec<_> = found.iter().map(|parameter| parameter["name"].as_str().expect("a text")).collect();
        assert_eq!(found, names, "{path} {body}: {:#}", answer.body);
    }
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 100.00");
}

#[tokio::test]
async fn reads_refuse_what_they_do_not_know() {
    let bank = Bank::open().await;
    let long = "x".repeat(129);
    for (path, names) in [
        ("/Account/A?mode=fresh", vec!["mode"]),
        ("/Account/A?mode=applied&mode=certain", vec!["mode"]),
        ("/Account/A?after=yesterday", vec!["after"]),
        ("/Account/A?at=now", vec!["at"]),
        ("/Account/A?mode=%FF", vec!["mode"]),
        ("/Account/A%20b?mode=x", vec!["id", "mode"]),
        (&format!("/Account/{long}"), vec!["id"]),
    ] {
        let answer = bank.get(path).await;
        check(path, &answer, 422, json!({ "type": "urn:enact:problem:invalid-parameters" }));
        let found = answer.body["parameters"].as_array().expect("a list");
        let found: Vec<_> = found.iter().map(|parameter| parameter["name"].as_str().expect("a text")).collect();
        assert_eq!(found, names, "{path}");
    }
    check("longest", &bank.get(&format!("/Account/{}", &long[1..])).await, 404, json!({}));
}

#[tokio::test]
async fn bodies_that_are_no_json_object_are_422_too_large_413_undeclared_415() {
    let bank = Bank::open().await;
    let path = "/Account/A/Withdraw";
    let deep = format!(r#"{{"amount":{}{}}}"#, "[".repeat(32), "]".repeat(32));
    for body in
        ["", "{", "[]", "1", r#"{"amount":"EUR 1.00"} x"#, r#"{"amount":"EUR 1.00","amount":"EUR 1.00"}"#, &deep]
    {
        check(
            body,
            &bank.post(path, body.to_owned()).await,
            422,
            json!({ "type": "urn:enact:problem:malformed-body" }),
        );
    }
    let large = format!(r#"{{"amount":"{}"}}"#, " ".repeat(64 * 1024));
    check("large", &bank.post(path, large).await, 413, json!({ "type": "urn:enact:problem:body-too-large" }));
    let length = [("content-length", "65537")];
    check("declared", &bank.post_with(path, &length, "{}").await, 413, json!({}));
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"] {
        let answer = bank.post_with(path, &[("content-type", content_type)], r#"{"amount":"EUR 1.00"}"#).await;
        check(content_type, &answer, 415, json!({ "type": "urn:enact:problem:unsupported-media-type" }));
    }
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 100.00");
}

/// Browsers take no answer for a page or a script, and nobody on the way keeps one.
#[tokio::test]
async fn answers_are_for_the_one_who_asks_and_what_they_say_to_be() {
    let bank = Bank::open().await;
    for path in ["/health", "/openapi.json", "/Account/A", "/Account?state=opened", "/-/changes", "/nothing", "/%"] {
        let answer = bank.get(path).await;
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["cache-control"], "no-store", "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{path}");
    }
}

#[tokio::test]
async fn a_foreign_host_is_421() {
    let bank = Bank::open().await;
    let request = Request::get("/Account/A").header("host", "attacker.example").body(Body::empty()).unwrap();
    check("host", &bank.ask(request).await, 421, json!({ "type": "urn:enact:problem:wrong-host" }));
}

#[tokio::test]
async fn identities_have_one_spelling() {
    let bank = Bank::empty();
    check("iban", &bank.post("/Deposit/NL91ABNA0417164300/Start", "{}").await, 200, json!({ "state": "running" }));
    check("iban", &bank.get("/Deposit/NL91ABNA0417164300").await, 200, json!({ "id": "NL91ABNA0417164300" }));
    check("number", &bank.post("/Ticket/007/Issue", "{}").await, 200, json!({ "state": "issued" }));
    check("number", &bank.get("/Ticket/7").await, 200, json!({ "id": "7" }));
    check("escaped", &bank.get("/Ticket/%37").await, 200, json!({ "id": "7" }));
}

#[tokio::test]
async fn the_same_key_and_request_get_the_same_answer_without_a_second_effect() {
    let bank = Bank::open().await;
    let key = [("idempotency-key", "k-1")];
    let withdraw = "/Account/A/Withdraw";
    let first = bank.post_with(withdraw, &key, r#"{"amount":"EUR 60.00"}"#).await;
    check("first", &first, 200, json!({ "state": "opened" }));
    let again = bank.post_with(withdraw, &key, r#" { "amount" : "EUR 60.0" } "#).await;
    check("again", &again, 200, first.body.clone());
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 40.00");

    let refused_key = [("idempotency-key", "k-2"), ("x-request-id", "one")];
    let refused = bank.post_with(withdraw, &refused_key, r#"{"amount":"EUR 60.00"}"#).await;
    check("refused", &refused, 409, json!({ "type": "urn:enact:problem:refused" }));
    assert_eq!(bank.post("/Account/A/Deposit", r#"{"amount":"EUR 60.00"}"#).await.status, 200);
    let again = bank.post_with(withdraw, &refused_key, r#"{"amount":"EUR 60.00"}"#).await;
    check("refused again", &again, 409, refused.body);

    for (path, body) in [(withdraw, r#"{"amount":"EUR 60.01"}"#), ("/Account/A/Deposit", r#"{"amount":"EUR 60.00"}"#)] {
        let answer = bank.post_with(path, &key, body).await;
        check(path, &answer, 422, json!({ "type": "urn:enact:problem:key-reused" }));
    }
    // A key belongs to the instance that is addressed: this is a command of its own.
    let other = bank.post_with("/Account/B/Withdraw", &key, r#"{"amount":"EUR 60.00"}"#).await;
    check("of another instance", &other, 409, json!({ "type": "urn:enact:problem:refused" }));
    for bad in ["", "a b", &"k".repeat(256)] {
        let answer = bank.post_with(withdraw, &[("idempotency-key", bad)], r#"{"amount":"EUR 1.00"}"#).await;
        check(bad, &answer, 422, json!({ "type": "urn:enact:problem:invalid-parameters" }));
    }
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 100.00");
}

#[tokio::test]
async fn without_an_id_the_key_names_the_instance_so_that_a_retry_never_makes_a_second_one() {
    let bank = Bank::open().await;
    let book = |amount: &str| format!(r#"{{"amount":"{amount}","from":"A","to":"B"}}"#);
    let key = [("idempotency-key", "rent-may")];
    let first = bank.post_with("/Transfer/Book", &key, book("EUR 10.00")).await;
    check("first", &first, 200, json!({ "state": "booked" }));
    let again = bank.post_with("/Transfer/Book", &key, book("EUR 10.00")).await;
    check("again", &again, 200, first.body.clone());
    assert_eq!(again.headers["idempotency-replayed"], "true");
    let id = first.body["id"].as_str().expect("a text");
    check("read", &bank.get(&format!("/Transfer/{id}")).await, 200, json!({ "id": id, "state": "booked" }));
    // When the answer is no longer kept, the life cycle still refuses to book it a second time.
    let by_id = bank.post(&format!("/Transfer/{id}/Book"), book("EUR 10.00")).await;
    check("by its id", &by_id, 409, json!({ "type": "urn:enact:problem:refused" }));
    let reused = bank.post_with("/Transfer/Book", &key, book("EUR 11.00")).await;
    check("another request", &reused, 422, json!({ "type": "urn:enact:problem:key-reused" }));
    let second = bank.post_with("/Transfer/Book", &[("idempotency-key", "rent-june")], book("EUR 10.00")).await;
    check("another key", &second, 200, json!({ "state": "booked" }));
    assert_ne!(second.body["id"], first.body["id"]);
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 80.00");

    for (path, headers, status, name) in [
        ("/Transfer/Book", vec![], 422, "idempotency-key"),
        ("/Transfer/Book", vec![("idempotency-key", "a b")], 422, "idempotency-key"),
        ("/Ticket/Issue", vec![("idempotency-key", "k")], 422, "id"),
    ] {
        let answer = bank.post_with(path, &headers, book("EUR 10.00")).await;
        check(path, &answer, status, json!({ "type": "urn:enact:problem:invalid-parameters" }));
        assert!(
            answer.body["parameters"].as_array().expect("a list").iter().any(|one| one["name"] == name),
            "{answer:?}"
        );
    }
    for (path, status, kind) in [
        ("/Account/Withdraw", 404, "no-such-event"),
        ("/Account/Audit", 405, "method-not-allowed"),
        ("/Nothing/Open", 404, "no-such-class"),
    ] {
        let answer = bank.post_with(path, &key, "{}").await;
        check(path, &answer, status, json!({ "type": format!("urn:enact:problem:{kind}") }));
    }
}

#[tokio::test]
async fn health_says_that_the_server_serves() {
    let bank = Bank::empty();
    check("health", &bank.get("/health").await, 200, json!({ "status": "serving", "insecure": false }));
}

/// Events and a record with defaults.
pub(crate) const DEFAULTS: &str = r#"
record Line
  product: String
  quantity: Integer = 2
  price: Money = EUR 1.50
  note: String? = "none yet"
class Basket
  lines: List[Line] = []
  total: Money = EUR 0.00
  until: Date = 2026-01-01
  initial empty
    on Start(until_: Date = 2026-11-21): open
      post: this.until = until_
  open
    on Put(line: Line, times: Integer = 3, tip: Money = EUR 0.50, tags: Set[String] = {"new"})
      pre: tags.size > 0
      post: this.lines += line, this.total += line.price * (line.quantity * times) + tip
    read on Above(limit: Money = EUR 5.00, but: Line = Line("pen")) -> Boolean
      return: total > limit and not (but in lines)
"#;

pub(crate) fn basket(contract: &str, journal: Memory) -> Bank {
    Bank::of(contract, journal, EngineOptions::default(), |options| options)
}

#[tokio::test]
async fn what_has_a_default_may_be_missing() {
    let bank = basket(DEFAULTS, Memory::new());
    check("start", &bank.post("/Basket/b/Start", "{}").await, 200, json!({ "state": "open" }));
    check("put", &bank.post("/Basket/b/Put", r#"{"line":{"product":"pen"}}"#).await, 200, json!({}));
    let whole = r#"{"line":{"product":"ink","quantity":1,"price":"EUR 2.00","note":null},"times":1,"tip":"EUR 0.00","tags":["x"]}"#;
    check("all of it", &bank.post("/Basket/b/Put", whole).await, 200, json!({}));
    let line = |product: &str, quantity: i64, price: &str, note: Value| json!({ "product": product, "quantity": quantity, "price": price, "note": note });
    let lines = [line("pen", 2, "EUR 1.50", json!("none yet")), line("ink", 1, "EUR 2.00", json!(null))];
    let fields = json!({ "lines": lines, "total": "EUR 11.50", "until": "2026-11-21" });
    check("read", &bank.get("/Basket/b").await, 200, json!({ "fields": fields }));
    for (query, expected) in [
        ("", false),
        ("?limit=EUR+11.50", false),
        ("?limit=EUR+11.49", false),
        ("?but=Line(product:+%22cap%22)", true),
        ("?but=Line(product:+%22ink%22,+quantity:+1,+price:+EUR+2.00,+note:+none)", false),
    ] {
        check(query, &bank.get(&format!("/Basket/b/Above{query}")).await, 200, json!({ "result": expected }));
    }
    for (body, name) in [
        ("{}", "line"),
        (r#"{"line":{}}"#, "line"),
        (r#"{"line":{"product":"pen"},"times":null}"#, "times"),
        (r#"{"line":{"product":"pen","quantity":null}}"#, "line"),
        (r#"{"line":{"product":"pen"},"time":3}"#, "time"),
    ] {
        let answer = bank.post("/Basket/b/Put", body).await;
        check(body, &answer, 422, json!({ "type": "urn:enact:problem:invalid-parameters" }));
        assert_eq!(answer.body["parameters"][0]["name"], name, "{body}: {:#}", answer.body);
    }
}

#[tokio::test]
async fn a_request_without_an_argument_is_the_same_one_when_its_default_has_changed() {
    let journal = Memory::new();
    let bank = basket(DEFAULTS, journal.clone());
    assert_eq!(bank.post("/Basket/b/Start", "{}").await.status, 200);
    let (key, put) = ([("idempotency-key", "k")], r#"{"line":{"product":"pen"}}"#);
    let first = bank.post_with("/Basket/b/Put", &key, put).await;
    check("first", &first, 200, json!({ "state": "open" }));
    let changed = basket(&DEFAULTS.replace("times: Integer = 3", "times: Integer = 7"), journal);
    let total = "EUR 9.50";
    assert_eq!(changed.get("/Basket/b").await.body["fields"]["total"], total, "what has happened has its arguments");
    let again = changed.post_with("/Basket/b/Put", &key, put).await;
    check("again", &again, 200, first.body.clone());
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(changed.get("/Basket/b").await.body["fields"]["total"], total);
    let other = changed.post_with("/Basket/b/Put", &key, r#"{"line":{"product":"pen"},"times":7}"#).await;
    check("another request", &other, 422, json!({ "type": "urn:enact:problem:key-reused" }));
    assert_eq!(changed.post("/Basket/b/Put", put).await.status, 200);
    assert_eq!(changed.get("/Basket/b").await.body["fields"]["total"], "EUR 31.00");
}
