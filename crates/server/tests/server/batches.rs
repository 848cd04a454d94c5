//! Many commands in one request.

use axum::body::Body;
use axum::http::Request;
use enact_entities::EngineOptions;
use enact_journal::{Journal, Memory, Position};
use enact_server::{ATOMIC_COMMANDS_MAX, BATCH_BYTES_MAX, BATCH_COMMANDS_MAX, Options};
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
            json!({ "class": "Transfer", "event": "Book" }),
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
            (422, Some("idempotency_key")),
        ]
    );
    let [done, refused, ..] = results(&answer) else { unreachable!("thirteen of them") };
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

async fn send_as_one(bank: &Bank, commands: &[Value], key: Option<&str>) -> Answer {
    let mut body = json!({ "commands": commands, "atomic": true });
    if let Some(key) = key {
        body["idempotency_key"] = json!(key);
    }
    bank.post_with("/-/batch", &[("enact-deadline-ms", "30000")], body.to_string()).await
}

fn command(class: &str, id: &str, event: &str, arguments: &Value) -> Value {
    json!({ "class": class, "id": id, "event": event, "arguments": arguments })
}

fn withdraw(account: &str, amount: &str) -> Value {
    command("Account", account, "Withdraw", &json!({ "amount": amount }))
}

fn transfer(id: &str, from: &str, to: &str, amount: &str) -> Value {
    command("Transfer", id, "Book", &json!({ "amount": amount, "from": from, "to": to }))
}

#[tokio::test]
async fn the_commands_of_one_transaction_happen_in_their_order_or_none_does() {
    let bank = Bank::open().await;
    // A has EUR 100.00, B nothing; C does not exist before.
    let all = [
        withdraw("A", "EUR 100.00"),
        deposit("B", "EUR 30.00"),
        transfer("t1", "B", "A", "EUR 20.00"),
        withdraw("A", "EUR 20.00"),
        command("Account", "C", "Open", &json!({ "initialDeposit": "EUR 0.00" })),
        deposit("C", "EUR 5.00"),
    ];
    let done = send_as_one(&bank, &all, None).await;
    assert_eq!((done.status.as_u16(), &done.body["commands"]), (200, &json!(6)), "{done:?}");
    assert_eq!(done.body["transaction"].as_str().expect("an id").len(), 36);
    let balances = async || {
        let [a, b, c] = ["A", "B", "C"].map(|account| balance(&bank, account));
        (a.await, b.await, c.await)
    };
    let after = (json!("EUR 0.00"), json!("EUR 10.00"), json!("EUR 5.00"));
    assert_eq!(balances().await, after);

    // The same one by one in another order would do: it is the order that refuses, and the last one that is not possible.
    for (commands, index, entity) in [
        (vec![withdraw("A", "EUR 1.00"), deposit("A", "EUR 1.00")], 0, "Account/A"),
        (vec![deposit("A", "EUR 1.00"), withdraw("A", "EUR 1.00"), withdraw("A", "EUR 0.01")], 1, "Account/A"),
        (vec![deposit("B", "EUR 1.00"), transfer("t2", "A", "B", "EUR 1.00")], 1, "Account/A"),
        (vec![deposit("B", "EUR 1.00"), transfer("t1", "B", "A", "EUR 1.00")], 1, "Transfer/t1"),
    ] {
        let refused = send_as_one(&bank, &commands, None).await;
        assert_eq!((refused.status.as_u16(), &refused.body["command"]), (409, &json!(index)), "{refused:?}");
        assert_eq!(refused.body["reasons"][0]["entity"], json!(entity), "{refused:?}");
        assert_eq!(balances().await, after);
    }
    assert_eq!(bank.get("/Transfer/t2").await.status, 404);
}

#[tokio::test]
async fn one_transaction_that_is_sent_again_under_its_key_has_its_answer_and_no_second_effect() {
    let bank = Bank::open().await;
    let commands = [deposit("A", "EUR 1.00"), deposit("B", "EUR 2.00")];
    let first = send_as_one(&bank, &commands, Some("k")).await;
    let second = send_as_one(&bank, &commands, Some("k")).await;
    assert_eq!((first.status.as_u16(), second.status.as_u16()), (200, 200), "{second:?}");
    assert_eq!(first.body, second.body);
    assert_eq!(
        (first.headers.get("idempotency-replayed").is_some(), second.headers.get("idempotency-replayed").is_some()),
        (false, true)
    );
    for other in [
        vec![deposit("A", "EUR 1.00")],
        vec![deposit("A", "EUR 1.00"), deposit("B", "EUR 2.01")],
        vec![deposit("A", "EUR 1.00"), deposit("B", "EUR 2.00"), deposit("B", "EUR 2.00")],
    ] {
        let reused = send_as_one(&bank, &other, Some("k")).await;
        assert_eq!((reused.status.as_u16(), &reused.body["type"]), (422, &json!("urn:enact:problem:key-reused")));
    }
    assert_eq!((balance(&bank, "A").await, balance(&bank, "B").await), (json!("EUR 101.00"), json!("EUR 2.00")));
}

#[tokio::test]
async fn one_transaction_has_at_most_three_hundred_transfers() {
    let bank = Bank::open().await;
    let opened =
        |number: usize| command("Account", &format!("X{number}"), "Open", &json!({ "initialDeposit": "EUR 1.00" }));
    let mut accounts: Vec<Value> = (0..2 * ATOMIC_COMMANDS_MAX).map(opened).collect();
    for part in accounts.chunks(ATOMIC_COMMANDS_MAX) {
        assert_eq!(send_as_one(&bank, part, None).await.status, 200);
    }
    let transfers: Vec<Value> = (0..ATOMIC_COMMANDS_MAX)
        .map(|number| {
            let (from, to) = (format!("X{}", 2 * number), format!("X{}", 2 * number + 1));
            transfer(&format!("x{number}"), &from, &to, "EUR 1.00")
        })
        .collect();
    let done = send_as_one(&bank, &transfers, None).await;
    assert_eq!((done.status.as_u16(), &done.body["commands"]), (200, &json!(ATOMIC_COMMANDS_MAX)), "{done:?}");
    for number in [0, 1, 2 * ATOMIC_COMMANDS_MAX - 2, 2 * ATOMIC_COMMANDS_MAX - 1] {
        let expected = if number % 2 == 0 { "EUR 0.00" } else { "EUR 2.00" };
        assert_eq!(balance(&bank, &format!("X{number}")).await, expected, "X{number}");
    }
    accounts.truncate(ATOMIC_COMMANDS_MAX + 1);
    let too_many = send_as_one(&bank, &accounts, None).await;
    assert_eq!((too_many.status.as_u16(), &too_many.body["parameters"][0]["name"]), (422, &json!("commands")));
}

#[tokio::test]
async fn a_transaction_with_a_command_that_is_none_says_which() {
    let bank = Bank::open().await;
    let keyed = json!({ "class": "Account", "id": "A", "event": "Close", "idempotency_key": "k" });
    for (command, status, name) in [
        (json!(7), 422, Some("commands")),
        (json!({ "class": "Nothing", "id": "A", "event": "Deposit" }), 404, None),
        (json!({ "class": "Account", "id": "A", "event": "Nothing" }), 404, None),
        (json!({ "class": "Account", "event": "Close" }), 422, Some("id")),
        (keyed, 422, Some("idempotency_key")),
        (deposit("A", "1"), 422, Some("amount")),
    ] {
        let answer = send_as_one(&bank, &[deposit("A", "EUR 1.00"), command.clone()], None).await;
        assert_eq!((answer.status.as_u16(), &answer.body["command"]), (status, &json!(1)), "{command}: {answer:?}");
        assert_eq!(answer.body["parameters"][0]["name"].as_str(), name, "{command}");
    }
    for (body, name) in [
        (json!({ "commands": [], "atomic": true }), "commands"),
        (json!({ "commands": [deposit("A", "EUR 1.00")], "atomic": 1 }), "atomic"),
        (
            json!({ "commands": [deposit("A", "EUR 1.00")], "atomic": true, "idempotency_key": "a b" }),
            "idempotency_key",
        ),
        (json!({ "commands": [deposit("A", "EUR 1.00")], "idempotency_key": "k" }), "idempotency_key"),
    ] {
        let answer = bank.post_with("/-/batch", &[], body.to_string()).await;
        assert_eq!((answer.status.as_u16(), &answer.body["parameters"][0]["name"]), (422, &json!(name)), "{body}");
    }
    assert_eq!(balance(&bank, "A").await, "EUR 100.00");
}
