//! Answers while something is not decided: waiting, in doubt, overloaded, stopping.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::{Fault, Memory};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::bank::{Answer, Bank};
use crate::metrics::samples;
use crate::openapi::{conforms, described, document};

/// Fails unless `answer` has `status` and a problem of `kind` that speaks of all `parts`.
#[track_caller]
fn problem(answer: &Answer, status: u16, kind: &str, parts: &[&str]) {
    assert_eq!(answer.status.as_u16(), status, "{answer:#?}");
    assert_eq!(answer.body["type"], format!("urn:enact:problem:{kind}"));
    let detail = answer.body["detail"].as_str().expect("a text");
    for part in parts {
        assert!(detail.contains(part), "{part:?} is missing in {detail:?}");
    }
}

/// The deadline of a command that must not meet it.
const PATIENCE: (&str, &str) = ("enact-deadline-ms", "30000");

/// Sends a command and returns when its transaction waits for the journal.
async fn under_way(
    bank: &Bank,
    path: &'static str,
    headers: &'static [(&str, &str)],
    body: &'static str,
) -> JoinHandle<Answer> {
    let before = bank.journal.waiting_count();
    let client = bank.clone();
    let headers: Vec<_> = headers.iter().copied().chain([PATIENCE]).collect();
    let sent = tokio::spawn(async move { client.post_with(path, &headers, body).await });
    while bank.journal.waiting_count() == before {
        assert!(!sent.is_finished(), "answered without waiting");
        tokio::task::yield_now().await;
    }
    sent
}

/// What `ask` is answered with a deadline that is long enough to begin to wait.
async fn expired(ask: impl AsyncFn(&str) -> Answer) -> Answer {
    let mut deadline = 1;
    loop {
        let answer = ask(&deadline.to_string()).await;
        assert_eq!(answer.status, 504, "{answer:#?}");
        if answer.body.get("waits_for").is_some() {
            return answer;
        }
        deadline *= 2;
    }
}

#[tokio::test]
async fn an_event_behind_an_open_creation_waits_for_it() {
    let bank = Bank::empty();
    bank.journal.hold();
    let open = under_way(&bank, "/Account/A/Open", &[], r#"{"initialDeposit":"EUR 1.00"}"#).await;
    let body = r#"{"amount":"EUR 1.00"}"#;
    for path in ["/Account/A/Withdraw", "/Account/A/Deposit"] {
        let late = expired(async |deadline| bank.post_with(path, &[("enact-deadline-ms", deadline)], body).await).await;
        assert_eq!(late.body["waits_for"][0]["event"], "Open", "{path}");
    }
    bank.journal.release();
    assert_eq!(open.await.expect("answered").status, 200);
}

#[tokio::test]
async fn a_deadline_that_passes_while_waiting_is_504_and_names_what_was_waited_for() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let open = under_way(&bank, "/Account/A/Withdraw", &[], r#"{"amount":"EUR 60.00"}"#).await;

    let late = expired(async |deadline| {
        let headers = [("enact-deadline-ms", deadline), ("idempotency-key", "late")];
        bank.post_with("/Account/A/Withdraw", &headers, r#"{"amount":"EUR 60.00"}"#).await
    })
    .await;
    let says = "waited at Account/A: balance + limit is between EUR 40.00 and EUR 100.00 and must be at least EUR 60.00: it depends on \
                Withdraw of ";
    let follows = " (fails if it commits, passes if it aborts)";
    problem(&late, 504, "timeout", &[says, follows, "no effect", "Idempotency-Key"]);
    assert!(late.body["transaction"].is_string());
    let waits = late.body["waits_for"].as_array().expect("a list");
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0]["event"], "Withdraw");
    assert_eq!((&late.body["phase"], &late.body["entity"]), (&json!("entity"), &json!("Account/A")));

    let read = expired(async |deadline| {
        let request = Request::get("/Account/A").header("host", "localhost").header("enact-deadline-ms", deadline);
        bank.ask(request.body(Body::empty()).expect("valid")).await
    })
    .await;
    let says = "waited at Account/A: balance is between EUR 40.00 and EUR 100.00: it depends on Withdraw of ";
    problem(&read, 504, "timeout", &[says, "mode=applied"]);

    bank.journal.release();
    let done = open.await.expect("answered");
    assert_eq!(done.status, 200);
    assert_eq!(waits[0]["transaction"], done.body["transaction"]);
    // The same key, sent again: now there is an answer.
    let again =
        bank.post_with("/Account/A/Withdraw", &[("idempotency-key", "late")], r#"{"amount":"EUR 60.00"}"#).await;
    problem(&again, 409, "refused", &["insufficient funds"]);
}

#[tokio::test]
async fn reads_show_what_is_decided_or_all_that_may_be() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let open = under_way(&bank, "/Account/A/Withdraw", &[], r#"{"amount":"EUR 60.00"}"#).await;
    assert_eq!(bank.get("/Account/A?mode=applied").await.body["fields"]["balance"], "EUR 100.00");
    let range = bank.get("/Account/A?mode=range").await;
    assert_eq!(range.body["states"], json!(["opened"]));
    assert_eq!(range.body["fields"]["balance"], json!({ "low": "EUR 40.00", "high": "EUR 100.00" }));
    bank.journal.release();
    let done = open.await.expect("answered");
    let transaction = done.body["transaction"].as_str().expect("a text");
    let read = bank.get(&format!("/Account/A?after={transaction}")).await;
    assert_eq!(read.body["fields"]["balance"], "EUR 40.00");
}

#[tokio::test]
async fn a_key_whose_request_still_runs_is_409() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let key = &[("idempotency-key", "k")];
    let running = under_way(&bank, "/Account/A/Withdraw", key, r#"{"amount":"EUR 60.00"}"#).await;
    let second = bank.post_with("/Account/A/Withdraw", key, r#"{"amount":"EUR 60.00"}"#).await;
    problem(&second, 409, "key-in-use", &["still running"]);
    let other = bank.post_with("/Account/A/Withdraw", key, r#"{"amount":"EUR 61.00"}"#).await;
    problem(&other, 422, "key-reused", &["another request"]);
    bank.journal.release();
    assert_eq!(running.await.expect("answered").status, 200);
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_its_command() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let key = &[("idempotency-key", "k")];
    let running = under_way(&bank, "/Account/A/Withdraw", key, r#"{"amount":"EUR 60.00"}"#).await;
    running.abort();
    assert!(running.await.expect_err("aborted").is_cancelled());
    bank.journal.release();
    let again = loop {
        let again = bank.post_with("/Account/A/Withdraw", key, r#"{"amount":"EUR 60.00"}"#).await;
        if again.status != 409 {
            break again;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((again.status.as_u16(), &again.headers["idempotency-replayed"]), (200, &"true".parse().expect("valid")));
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 40.00");
}

#[tokio::test]
async fn in_doubt_is_504_with_the_transaction_and_a_restart_settles_it() {
    for is_performed in [true, false] {
        let bank = Bank::open().await;
        bank.journal.fail_next(Fault::InDoubt { is_performed });
        let key = [("idempotency-key", "k")];
        let withdraw = r#"{"amount":"EUR 60.00"}"#;
        let doubt = bank.post_with("/Account/A/Withdraw", &key, withdraw).await;
        problem(&doubt, 504, "in-doubt", &["not known", "same Idempotency-Key"]);
        let transaction = doubt.body["transaction"].clone();
        assert!(transaction.is_string());

        // Nothing is built on an unknown.
        let next = bank.post("/Account/B/Deposit", r#"{"amount":"EUR 1.00"}"#).await;
        problem(&next, 503, "failed", &["nothing was done"]);
        problem(&bank.get("/health").await, 503, "failed", &[]);

        let restarted = Bank::over(bank.journal.crash(), EngineOptions::default());
        let again = restarted.post_with("/Account/A/Withdraw", &key, withdraw).await;
        assert_eq!(again.status, 200, "{again:#?}");
        assert_eq!(again.headers.contains_key("idempotency-replayed"), is_performed);
        assert_eq!(again.body["transaction"] == transaction, is_performed);
        assert_eq!(restarted.get("/Account/A").await.body["fields"]["balance"], "EUR 40.00");
    }
}

#[tokio::test]
async fn a_record_that_is_being_written_at_the_deadline_is_504_in_doubt_and_its_key_tells_later() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let withdraw = r#"{"amount":"EUR 60.00"}"#;
    let mut deadline = 1;
    let doubt = loop {
        let headers = [("idempotency-key", "k"), ("enact-deadline-ms", &*deadline.to_string())];
        let answer = bank.post_with("/Account/A/Withdraw", &headers, withdraw).await;
        match answer.body["phase"].as_str() {
            Some("record") => break answer,
            Some(_) => deadline *= 2,
            // The one before is being given up.
            None => assert_eq!(answer.status, 409, "{answer:#?}"),
        }
    };
    let parts = ["while the record of the command was written", "may yet take effect", "same Idempotency-Key"];
    problem(&doubt, 504, "in-doubt", &parts);
    assert!(doubt.body["transaction"].is_string());
    bank.journal.release();
    let settled = loop {
        let answer = bank.post_with("/Account/A/Withdraw", &[("idempotency-key", "k")], withdraw).await;
        if answer.status != 409 {
            break answer;
        }
    };
    assert_eq!((settled.status.as_u16(), &settled.body["transaction"]), (200, &doubt.body["transaction"]));
    assert_eq!(settled.headers["idempotency-replayed"], "true");
}

#[tokio::test]
async fn in_doubt_without_a_key_advises_to_read() {
    let bank = Bank::open().await;
    bank.journal.fail_next(Fault::InDoubt { is_performed: true });
    let doubt = bank.post("/Account/A/Withdraw", r#"{"amount":"EUR 60.00"}"#).await;
    problem(&doubt, 504, "in-doubt", &["read the instance"]);
}

#[tokio::test]
async fn answers_to_keys_outlive_a_restart() {
    let bank = Bank::open().await;
    let rows = [
        ("done", "/Account/A/Withdraw", r#"{"amount":"EUR 60.00"}"#, 200),
        ("refused", "/Account/A/Withdraw", r#"{"amount":"EUR 60.00"}"#, 409),
        ("missing", "/Account/nobody/Close", "{}", 404),
    ];
    let mut first: Vec<Value> = Vec::new();
    for (key, path, body, status) in rows {
        let answer = bank.post_with(path, &[("idempotency-key", key), ("x-request-id", key)], body).await;
        assert_eq!(answer.status, status, "{key}: {answer:#?}");
        assert!(!answer.headers.contains_key("idempotency-replayed"));
        first.push(answer.body);
    }
    let restarted = Bank::over(bank.journal.crash(), EngineOptions::default());
    for ((key, path, body, status), first) in rows.into_iter().zip(first) {
        let answer = restarted.post_with(path, &[("idempotency-key", key), ("x-request-id", key)], body).await;
        assert_eq!((answer.status.as_u16(), answer.body), (status, first), "{key}");
        assert_eq!(answer.headers["idempotency-replayed"], "true", "{key}");
    }
    assert_eq!(restarted.get("/Account/A").await.body["fields"]["balance"], "EUR 40.00");
}

#[tokio::test]
async fn a_full_engine_is_503_with_retry_after() {
    let full = Bank::over(Memory::new(), EngineOptions { in_flight_max: 0, ..EngineOptions::default() });
    let turned_away = full.post("/Account/A/Open", r#"{"initialDeposit":"EUR 1.00"}"#).await;
    problem(&turned_away, 503, "overloaded", &["nothing was done"]);
    assert_eq!(turned_away.headers["retry-after"], "1");
}

#[tokio::test]
async fn a_full_disk_is_507_until_there_is_space() {
    let bank = Bank::open().await;
    bank.journal.fail_next(Fault::Refused);
    let refused = bank.post("/Account/A/Withdraw", r#"{"amount":"EUR 60.00"}"#).await;
    problem(&refused, 507, "storage-full", &["disk", "nothing was done"]);
    assert_eq!(bank.post("/Account/A/Withdraw", r#"{"amount":"EUR 60.00"}"#).await.status, 200);
    assert_eq!(bank.get("/Account/A").await.body["fields"]["balance"], "EUR 40.00");
}

#[tokio::test]
async fn readiness_names_the_state_of_the_disk_and_health_is_not_touched_by_it() {
    let withdraw = r#"{"amount":"EUR 1.00"}"#;
    let earlier = Bank::open().await;
    let check_every = Duration::from_millis(1);
    let options = EngineOptions { slow_after: Duration::ZERO, check_every, ..EngineOptions::default() };
    let bank = Bank::over(earlier.journal.crash(), options);
    let is = async |disk: &str| {
        let ready = bank.get("/health/ready").await;
        if disk == "ready" {
            assert_eq!((ready.status.as_u16(), ready.body), (200, json!({ "status": "ready" })));
        } else {
            problem(&ready, 503, "not-ready", &[disk]);
            assert_eq!(ready.body["disk"], disk);
        }
        assert_eq!(samples(&bank).await["enact_ready"], u64::from(disk == "ready"));
        assert_eq!(bank.get("/health").await.status.is_success(), disk != "failed");
    };
    is("ready").await;
    bank.journal.fail_next(Fault::Refused);
    assert_eq!(bank.post("/Account/A/Withdraw", withdraw).await.status, 507);
    is("full").await;
    bank.journal.hold();
    let slow = under_way(&bank, "/Account/A/Withdraw", &[], withdraw).await;
    is("slow").await;
    bank.journal.release();
    assert_eq!(slow.await.expect("answered").status, 200);
    is("ready").await;
    let engine = bank.engine.clone();
    let maintained = tokio::spawn(async move { engine.maintain().await });
    for (violation, status, disk) in [(Some("a message is gone"), 503, "unsafe"), (None, 200, "ready")] {
        bank.journal.violate(violation);
        while bank.get("/health/ready").await.status != status {
            tokio::task::yield_now().await;
        }
        is(disk).await;
    }
    maintained.abort();
    bank.journal.fail_next(Fault::InDoubt { is_performed: false });
    assert_eq!(bank.post("/Account/A/Withdraw", withdraw).await.status, 504);
    is("failed").await;
}

#[tokio::test]
async fn a_disk_that_cannot_be_read_is_503_until_it_can() {
    let bank = Bank::open().await;
    let restarted = Bank::over(bank.journal.crash(), EngineOptions::default());
    restarted.journal.fail_reads(true);
    let deposit = r#"{"amount":"EUR 1.00"}"#;
    for refused in [restarted.get("/Account/A").await, restarted.post("/Account/A/Deposit", deposit).await] {
        problem(&refused, 503, "unreadable", &["disk", "nothing was done"]);
        assert_eq!(refused.headers["retry-after"], "1");
    }
    restarted.journal.fail_reads(false);
    assert_eq!(restarted.post("/Account/A/Deposit", deposit).await.status, 200);
    assert_eq!(restarted.get("/Account/A").await.body["fields"]["balance"], "EUR 101.00");
}

#[tokio::test]
async fn a_stopping_engine_is_503_with_retry_after() {
    let bank = Bank::open().await;
    bank.engine.shutdown(Duration::ZERO).await.expect("nothing had failed");
    for answer in [bank.post("/Account/A/Close", "{}").await, bank.get("/Account/A").await] {
        problem(&answer, 503, "stopping", &["nothing was done"]);
        assert_eq!(answer.headers["retry-after"], "1");
    }
}

/// One field of each kind that is no number.
const SHELF: &str = r#"
class Shelf
  tags: Set[String] = {"a"}
  label: String = ""
  full: Boolean = false
  note: String? = none
  initial new
    on Put(): used
  used
    on Add(tag: String)
      post: this.tags += tag
    on Drop(tag: String)
      post: this.tags -= tag
    on Label(text: String)
      post: this.label = text
    on Note(text: String)
      post: this.note = text
"#;

#[tokio::test]
async fn a_read_of_all_outcomes_shows_elements_and_values_as_the_interface_describes() {
    let shelf = Bank::of(SHELF, Memory::new(), EngineOptions::default(), |options| options);
    assert_eq!(shelf.post("/Shelf/s/Put", "{}").await.status, 200);
    shelf.journal.hold();
    let mut open = Vec::new();
    for (path, body) in [
        ("/Shelf/s/Add", r#"{"tag":"b"}"#),
        ("/Shelf/s/Drop", r#"{"tag":"c"}"#),
        ("/Shelf/s/Label", r#"{"text":"x"}"#),
        ("/Shelf/s/Note", r#"{"text":"none"}"#),
    ] {
        open.push(under_way(&shelf, path, &[], body).await);
    }
    let range = shelf.get("/Shelf/s?mode=range").await;
    let fields = json!({
        "tags": { "in": ["a"], "maybe": ["b"] },
        "label": { "values": ["", "x"] },
        "full": { "values": [false] },
        "note": { "values": [null, "none"] },
    });
    assert_eq!(range.body["fields"], fields);
    let document = document(&shelf).await;
    conforms(&document, described(&document, "/Shelf/{id}", "get", &range), &range.body);
    shelf.journal.release();
    for open in open {
        assert_eq!(open.await.expect("answered").status, 200);
    }
}
