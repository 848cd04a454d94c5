//! Many commands in one request.

use axum::body::Body;
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::{Journal, Memory, Position};
use enact_server::{BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, Options};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::bank::{Answer, Bank};

async fn send(bank: &Bank, commands: &[Value]) -> Answer {
    // However busy the machine is.
    let deadline = [("enact-deadline-ms", "30000")];
    bank.post_with("/-/batch", &deadline, json!({ "commands": commands }).to_string()).await
}

fn results(answer: &Answer) -> &[Value] {
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.body["results"].as_array().expect("a list")
}

fn deposit(account: &str, amount: &str) -> Value {
    json!({ "class": "Account", "id": account, "event": "Deposit", "arguments": { "amount": amount } })
}

async fn balance(bank: &Bank, account: &str) -> Value {
    bank.get(&format!("/Account/{account}")).await.body["fields"]["balance"].clone()
}

#[tokio::test]
async fn each_command_of_a_batch_happens_or_is_refused_on_its_own() {
    let bank = Bank::open().await;
    let withdrawal =
        json!({ "class": "Account", "id": "B", "event": "Withdraw", "arguments": { "amount": "EUR 1.00" } });
    let answer = send(
        &bank,
        &[
            deposit("A", "EUR 1.00"),
            withdrawal,
            deposit("A", "1"),
            deposit("A", "EUR 2.00"),
            json!({ "class": "Nothing", "id": "A", "event": "Deposit" }),
            json!({ "class": "Account", "id": "A", "event": "Deposed" }),
            json!({ "class": "Account", "id": "A", "event": "Deposit", "more": 1 }),
            json!({ "class": "Account", "event": "Deposit", "arguments": { "amount": "EUR 1.00" } }),
            json!({ "class": 5, "id": "A", "event": "Deposit" }),
            json!([]),
            json!({ "class": "Account", "id": "A", "event": "Deposit", "arguments": 7 }),
            json!({ "class": "Account", "id": "A", "event": "Deposit", "idempotency_key": "a b" }),
        ],
    )
    .await;
    let seen: Vec<_> = results(&answer)
        .iter()
        .map(|result| (result["status"].as_u64().expect("a status"), result["parameters"][0]["name"].as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            (200, None),
            (409, None),
            (422, Some("amount")),
            (200, None),
            (404, None),
            (404, None),
            (422, Some("more")),
            (404, None),
            (422, Some("class")),
            (422, Some("commands")),
            (422, Some("arguments")),
            (422, Some("idempotency_key")),
        ]
    );
    let [done, refused, ..] = results(&answer) else { unreachable!("twelve of them") };
    assert_eq!((&done["id"], &done["state"]), (&json!("A"), &json!("opened")));
    assert_eq!(done["transaction"].as_str().expect("an id").len(), 36);
    assert_eq!(refused["type"], "urn:enact:problem:refused");
    assert_eq!((balance(&bank, "A").await, balance(&bank, "B").await), (json!("EUR 103.00"), json!("EUR 0.00")));
}

#[tokio::test]
async fn a_batch_that_is_sent_again_under_its_keys_has_its_answers_and_no_second_effect() {
    let bank = Bank::open().await;
    let commands: Vec<Value> = (0..50)
        .map(|number| {
            let mut command = deposit("A", "EUR 1.00");
            command["idempotency_key"] = json!(format!("d-{number}"));
            command
        })
        .collect();
    let first = send(&bank, &commands).await;
    let second = send(&bank, &commands).await;
    for (first, second) in results(&first).iter().zip(results(&second)) {
        assert_eq!((first.get("replayed"), &second["replayed"]), (None, &json!(true)));
        assert_eq!(first["transaction"], second["transaction"]);
    }
    // A command of its own has the same key.
    let alone = bank.post_with("/Account/A/Deposit", &[("idempotency-key", "d-7")], r#"{"amount":"EUR 1.00"}"#).await;
    assert_eq!(alone.body["transaction"], results(&first)[7]["transaction"]);
    assert_eq!(balance(&bank, "A").await, "EUR 150.00");
}

#[tokio::test]
async fn a_batch_beyond_its_limits_has_no_effect() {
    let bank = Bank::open().await;
    let whole: Vec<Value> = (0..BATCH_COMMANDS_MAX).map(|_| deposit("B", "EUR 0.01")).collect();
    let done = send(&bank, &whole).await;
    assert!(results(&done).iter().all(|result| result["status"] == 200));
    assert_eq!(balance(&bank, "B").await, "EUR 10.00");
    let records = bank.journal.feed(Position::START, usize::MAX).await.expect("it can be read").len();
    let one_more = [whole.as_slice(), &[deposit("B", "EUR 0.01")]].concat();
    let padded = |bytes: usize| {
        let body = json!({ "commands": [deposit("B", "EUR 0.01")] }).to_string();
        format!("{}{body}", " ".repeat(bytes - body.len()))
    };
    for (body, status) in [
        (json!({ "commands": one_more }).to_string(), 422),
        (json!({ "commands": {} }).to_string(), 422),
        (json!({}).to_string(), 422),
        (json!({ "commands": [], "atomic": true }).to_string(), 422),
        ("[]".to_owned(), 422),
        (padded(BATCH_BYTES_MAX + 1), 413),
    ] {
        let answer = bank.post("/-/batch", body).await;
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(bank.journal.feed(Position::START, usize::MAX).await.expect("it can be read").len(), records);
    assert_eq!(results(&send(&bank, &[]).await), [] as [Value; 0]);
    let largest = bank.post("/-/batch", padded(BATCH_BYTES_MAX)).await;
    assert_eq!(results(&largest)[0]["status"], 200);
    let got = bank.get("/-/batch").await;
    assert_eq!((got.status.as_u16(), &got.headers["allow"]), (405, &"POST".parse().expect("a value")));
}

#[tokio::test]
async fn a_batch_goes_on_with_the_one_share_that_a_full_server_has_left() {
    let bank = Bank::served(Memory::new(), EngineOptions::default(), |options| Options { in_flight_max: 1, ..options });
    let open = |number: usize| json!({ "class": "Account", "id": format!("N{number}"), "event": "Open", "arguments": { "initialDeposit": "EUR 50.00" } });
    let answer = send(&bank, &(0..200).map(open).collect::<Vec<_>>()).await;
    assert!(results(&answer).iter().all(|result| result["status"] == 200));
}

#[tokio::test]
async fn a_command_of_a_batch_that_is_late_is_told_so_and_the_others_are_not() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let body = json!({ "commands": [deposit("A", "EUR 1.00"), deposit("A", "1")] }).to_string();
    let answer = bank.post_with("/-/batch", &[("enact-deadline-ms", "50")], body).await;
    bank.journal.release();
    let statuses: Vec<_> = results(&answer).iter().map(|result| result["status"].clone()).collect();
    assert_eq!(statuses, [504, 422]);
    assert_eq!(results(&answer)[0]["type"], "urn:enact:problem:in-doubt");
}

#[tokio::test]
async fn a_client_whose_batches_do_not_arrive_has_two_of_them_and_no_more() {
    let bank = Bank::open().await;
    let endless = || {
        let body = Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let request = Request::post("/-/batch").header("host", "localhost").header("content-type", "application/json");
        tokio::spawn(bank.router().oneshot(request.body(body).expect("a request")))
    };
    let arriving = [endless(), endless()];
    tokio::task::yield_now().await;
    let refused = send(&bank, &[deposit("A", "EUR 1.00")]).await;
    assert_eq!((refused.status.as_u16(), &refused.body["type"]), (503, &json!("urn:enact:problem:overloaded")));
    assert!(refused.headers.contains_key("retry-after"));
    assert_eq!(bank.post("/Account/A/Deposit", r#"{"amount":"EUR 1.00"}"#).await.status, 200, "a command is no batch");
    for batch in arriving {
        batch.abort();
        assert!(batch.await.expect_err("it was ended").is_cancelled());
    }
    assert_eq!(results(&send(&bank, &[deposit("A", "EUR 1.00")]).await)[0]["status"], 200);
}
