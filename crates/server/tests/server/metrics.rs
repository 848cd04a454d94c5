//! What `GET /metrics` counts.

use std::collections::BTreeMap;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use crate::bank::Bank;

/// All samples, each under its name with its labels.
pub(crate) async fn samples(bank: &Bank) -> BTreeMap<String, u64> {
    let request = Request::get("/metrics").header("host", "localhost").body(Body::empty()).expect("valid");
    let response = bank.router().oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    let body = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    let text = String::from_utf8(body.to_vec()).expect("UTF-8");
    let mut kinds = Vec::new();
    let mut samples = BTreeMap::new();
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(comment) => kinds.extend(comment.strip_prefix("TYPE ").map(str::to_owned)),
            None => {
                let (name, value) = line.rsplit_once(' ').expect("a name and a value");
                let family = name.split('{').next().expect("a part");
                assert!(kinds.last().is_some_and(|kind| kind.starts_with(&format!("{family} "))), "{line} has no type");
                let is_new = samples.insert(name.to_owned(), value.parse().expect("a number")).is_none();
                assert!(is_new, "{line} is there twice");
            }
        }
    }
    samples
}

fn of(family: &str, event: &str) -> String {
    format!("enact_{family}_total{{class=\"Account\",event=\"{event}\"}}")
}

#[tokio::test]
async fn admitted_refused_and_delayed_events_are_counted_by_name_and_pair() {
    let bank = Bank::open().await;
    let before = samples(&bank).await;
    assert_eq!((before[&of("admitted", "Open")], before[&of("refused", "Withdraw")]), (2, 0));
    let withdraw = |amount: &str| format!(r#"{{"amount":"EUR {amount}"}}"#);
    assert_eq!(bank.post("/Account/A/Withdraw", withdraw("100.01")).await.status, 409);
    bank.journal.hold();
    let mut sent = Vec::new();
    let pair = "enact_delayed_total{class=\"Account\",event=\"Withdraw\",waits_for=\"Withdraw\",cause=\"verdict\"}";
    for (admitted, delayed) in [(1, 0), (1, 1), (1, 2)] {
        let (client, body) = (bank.clone(), withdraw("60.00"));
        sent.push(tokio::spawn(async move { client.post("/Account/A/Withdraw", body).await }));
        loop {
            let now = samples(&bank).await;
            if (now[&of("admitted", "Withdraw")], now.get(pair).copied().unwrap_or(0)) == (admitted, delayed) {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let now = samples(&bank).await;
    assert_eq!(now["enact_commands"], 3);
    bank.journal.release();
    let mut statuses = Vec::new();
    for answer in sent {
        statuses.push(answer.await.expect("no panic").status.as_u16());
    }
    assert_eq!(statuses, [200, 409, 409]);
    let after = samples(&bank).await;
    assert_eq!((after[&of("admitted", "Withdraw")], after[&of("refused", "Withdraw")]), (1, 3));
    assert_eq!((after[pair], after[&of("in_line", "Withdraw")]), (2, 0));
    let committed = |shards: usize| after[&format!("enact_transactions_total{{shards=\"{shards}\"}}")];
    assert_eq!((committed(1), committed(2), committed(8)), (3, 0, 0));
}

#[tokio::test]
async fn timeouts_are_counted_by_what_was_waited_for() {
    let bank = Bank::open().await;
    bank.journal.hold();
    let late = bank.post_with("/Account/A/Deposit", &[("enact-deadline-ms", "1")], r#"{"amount":"EUR 1.00"}"#).await;
    assert_eq!(late.status, 504);
    let phase = late.body["phase"].as_str().expect("a text");
    let now = samples(&bank).await;
    let timeouts: Vec<_> = now.iter().filter(|(name, _)| name.starts_with("enact_timeouts_total{")).collect();
    assert_eq!(timeouts.len(), 7, "every phase is there");
    for (name, count) in timeouts {
        assert_eq!(*count, u64::from(*name == format!("enact_timeouts_total{{phase=\"{phase}\"}}")), "{name}");
    }
    bank.journal.release();
}

#[tokio::test]
async fn what_clients_send_adds_no_series() {
    let bank = Bank::open().await;
    let before: Vec<_> = samples(&bank).await.into_keys().collect();
    for number in 0..50 {
        let refused = bank.post(&format!("/Account/X{number}/Withdraw"), r#"{"amount":"EUR 1.00"}"#).await;
        assert_eq!(refused.status, 404);
        assert_eq!(bank.post(&format!("/Account/A/Event{number}"), "{}").await.status, 404);
        assert_eq!(bank.post(&format!("/Class{number}/A/Open"), "{}").await.status, 404);
    }
    let after = samples(&bank).await;
    assert_eq!(after[&of("refused", "Withdraw")], 50);
    assert_eq!(after.into_keys().collect::<Vec<_>>(), before);
}
