//! What a read shows, in each mode, of what was answered and of what is not decided.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use enact_journal::Memory;
use serde_json::{Value, json};

use crate::gated::{Answer, Gate, Served, gated, late};

/// A transfer is open on the balance of A and cannot come to B. A count, on another field, succeeds behind it.
#[tokio::test]
async fn beside_what_is_open_on_another_field_certain_waits_applied_lags_and_range_shows_bounds_of_each_field() {
    let (bank, gate, _journal) = gated(&["A", "B"]).await;
    assert_eq!(bank.get_with("/Account/A", &[]).await.status, 200);
    gate.send_replace(Gate::Loads("Account/B"));
    let transfer = json!({ "amount": "EUR 10.00", "from": "A", "to": "B" });
    let transfer = bank.begins("load", "/Transfer/t1/Book", transfer, "t").await;
    assert_eq!(bank.post("/Account/A/Count", json!({ "by": 2 })).await.status, 200);

    let applied = bank.get_with("/Account/A?mode=applied", &[]).await;
    assert_eq!(applied.body["fields"], json!({ "balance": "EUR 100.00", "count": 0 }), "it lags behind the transfer");
    let range = bank.get_with("/Account/A?mode=range", &[]).await;
    let bounds = json!({
        "balance": { "low": "EUR 90.00", "high": "EUR 100.00" },
        "count": { "low": 2, "high": 2 },
    });
    assert_eq!((&range.body["fields"], &range.body["states"]), (&bounds, &json!(["opened"])));
    let waits =
        late("entity", async |deadline| bank.get_with("/Account/A", &[("enact-deadline-ms", deadline)]).await).await;
    assert_eq!(waits.body["waits_for"][0]["event"], "Withdraw");
    let said = "waited at Account/A: balance is between EUR 90.00 and EUR 100.00: it depends on Withdraw of ";
    assert!(waits.detail().contains(said), "{waits:#?}");
    assert!(waits.detail().contains(" on Transfer/t1 waits for Account/B to be read from the journal"), "{waits:#?}");

    let patience = [("enact-deadline-ms", "30000")];
    let certain = bank.get_with("/Account/A", &patience);
    let opens = async {
        gate.send_replace(Gate::Open);
        transfer.await.expect("no panic").status
    };
    let (certain, status) = tokio::join!(certain, opens);
    assert_eq!(status, 200);
    assert_eq!(certain.body["fields"], json!({ "balance": "EUR 90.00", "count": 2 }));
}

/// The answer when the server takes the request: a command with `body`, or else a read.
async fn taken(bank: &Served<Memory>, path: &str, body: Option<&Value>) -> Answer {
    let patience = [("enact-deadline-ms", "30000")];
    loop {
        let answer = match body {
            Some(body) => bank.post_with(path, body.clone(), &patience).await,
            None => bank.get_with(path, &patience).await,
        };
        if answer.status != 503 {
            return answer;
        }
        tokio::task::yield_now().await;
    }
}

/// Deposits, which commute, and interest, which stands in line, while records come and go.
#[tokio::test(flavor = "multi_thread")]
async fn a_certain_read_shows_every_success_that_was_answered_before_it_for_64_clients_of_one_object() {
    let journal = Memory::new();
    let bank = Served::over(journal.clone()).opened(&["A"]).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let disk = tokio::spawn({
        let is_over = Arc::clone(&is_over);
        async move {
            while !is_over.load(Ordering::Acquire) {
                journal.hold();
                for _ in 0..50 {
                    tokio::task::yield_now().await;
                }
                journal.release();
                tokio::task::yield_now().await;
            }
            journal.release();
        }
    });
    // The least balance that what was answered leaves, in cents: interest is a percent of EUR 100.00 or more.
    let answered = Arc::new(AtomicU64::new(10_000));
    let clients: Vec<_> = (0..64_u64)
        .map(|number| {
            let (bank, answered) = (bank.clone(), Arc::clone(&answered));
            tokio::spawn(async move {
                for round in 0..4 {
                    let is_in_line = (number + round) % 4 == 0;
                    let (path, body, least) = if is_in_line {
                        ("/Account/A/Interest", json!({ "rate": "1%" }), 100)
                    } else {
                        ("/Account/A/Deposit", json!({ "amount": "EUR 0.01" }), 1)
                    };
                    let done = taken(&bank, path, Some(&body)).await;
                    assert_eq!(done.status, 200, "{done:#?}");
                    let due = answered.fetch_add(least, Ordering::SeqCst) + least;
                    let read = taken(&bank, "/Account/A", None).await;
                    let balance = read.body["fields"]["balance"].as_str();
                    let balance = balance.unwrap_or_else(|| panic!("{read:#?}")).replace(['E', 'U', 'R', ' ', '.'], "");
                    let balance: u64 = balance.parse().expect("cents");
                    assert!(balance >= due, "client {number}, round {round}: {balance} of {due}");
                }
            })
        })
        .collect();
    for client in clients {
        client.await.expect("every success is shown");
    }
    is_over.store(true, Ordering::Release);
    disk.await.expect("no panic");
    let in_line = bank.engine.metrics().events.iter().map(|event| event.in_line).sum::<u64>();
    assert!(in_line > 0, "nothing stood in line");
}
