//! What `GET /metrics` counts.

use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::time::{SystemTime, UNIX_EPOCH};

use axum::body::{Body, to_bytes};
use axum::http::Request;
use tower::ServiceExt;

use crate::bank::Bank;

/// All samples in whole numbers, each under its name with its labels.
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
                let name_only = name.split('{').next().expect("a part");
                let suffix =
                    ["_bucket", "_sum", "_count"].into_iter().find_map(|suffix| name_only.strip_suffix(suffix));
                let of_histogram =
                    suffix.filter(|_| kinds.last().is_some_and(|kind: &String| kind.ends_with(" histogram")));
                let family = of_histogram.unwrap_or(name_only);
                assert!(kinds.last().is_some_and(|kind| kind.starts_with(&format!("{family} "))), "{line} has no type");
                let is_new = samples.insert(name.to_owned(), value.parse::<f64>().expect("a number") as u64).is_none();
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
async fn requests_are_counted_by_what_they_ask_for_and_by_status() {
    let bank = Bank::open().await;
    let before = samples(&bank).await;
    let amount = r#"{"amount":"EUR 1.00"}"#;
    let refused = r#"{"amount":"EUR 1000.00"}"#;
    for (path, body, status) in [
        ("/Account/A/Deposit", amount, 200),
        ("/Account/B/Deposit", amount, 200),
        ("/Account/A/Withdraw", refused, 409),
        ("/Account/A/Deposit", "{", 422),
        ("/Account/A/Nothing", amount, 404),
    ] {
        assert_eq!(bank.post(path, body).await.status, status, "{path}");
    }
    assert_eq!(bank.get("/Account/A").await.status, 200);
    let after = samples(&bank).await;
    let more = |name: &str| after[name] - before[name];
    for (endpoint, counts) in [
        ("command", &[(200, 2), (409, 1), (422, 1), (404, 1), (503, 0)][..]),
        ("read", &[(200, 1), (404, 0)]),
        ("metrics", &[(200, 1)]),
        ("query", &[(200, 0)]),
    ] {
        for (status, count) in counts {
            let name = format!("enact_requests_total{{endpoint=\"{endpoint}\",status=\"{status}\"}}");
            assert_eq!(more(&name), *count, "{name}");
        }
        let all: u64 = counts.iter().map(|(_, count)| count).sum();
        assert_eq!(more(&format!("enact_request_seconds_count{{endpoint=\"{endpoint}\"}}")), all, "{endpoint}");
        assert_eq!(
            more(&format!("enact_request_seconds_bucket{{endpoint=\"{endpoint}\",le=\"+Inf\"}}")),
            all,
            "{endpoint}"
        );
    }
}

#[tokio::test]
async fn what_became_durable_is_counted_with_how_long_that_took() {
    let bank = Bank::open().await;
    let before = samples(&bank).await;
    let amount = r#"{"amount":"EUR 1.00"}"#;
    assert_eq!(bank.post("/Account/A/Deposit", amount).await.status, 200);
    assert_eq!(bank.post("/Account/A/Withdraw", r#"{"amount":"EUR 1000.00"}"#).await.status, 409);
    let after = samples(&bank).await;
    for (name, more) in [
        ("enact_append_seconds_count", 1),
        ("enact_append_seconds_bucket{le=\"+Inf\"}", 1),
        ("enact_journal_records", 1),
    ] {
        assert_eq!(after[name] - before[name], more, "{name}");
    }
    assert!(!after.contains_key("enact_journal_bytes"), "a journal in memory has no files");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn what_the_process_takes_is_shown() {
    let bank = Bank::open().await;
    let samples = samples(&bank).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    // Both clocks are read in whole ticks or seconds.
    let started = samples["process_start_time_seconds"];
    assert!(started <= now + 2 && started + 24 * 60 * 60 > now, "{started} of {now}");
    assert!(samples["process_resident_memory_bytes"] > 1 << 20);
    assert!(samples["process_open_fds"] >= 3 && samples["process_open_fds"] <= samples["process_max_fds"]);
    assert!(samples.contains_key("process_cpu_seconds_total"));
    assert_eq!(samples[concat!("enact_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\"}")], 1);
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
