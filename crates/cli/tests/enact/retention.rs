//! The history of objects that have ended, when it is not kept any more: what the program says of it.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Command, Engine, EngineOptions, ManualClock, Rebel, Retention, Timestamp};
use enact_journal::{Embedded, Journal, Kind, Options, Position};
use enact_rebel::{EventCall, Source, Spec, Value, check};
use reqwest::StatusCode;
use serde_json::json;

use crate::backup::{Place, iban, open};
#[cfg(all(feature = "nats", feature = "postgres"))]
use crate::served::{FREE_PORT, Served};
use crate::served::{enact, program};

const SPEC: &str = include_str!("../../../../examples/bank.rebel");
const LONG: Duration = Duration::from_secs(60);
const DAY: i64 = 24 * 60 * 60 * 1000;
/// 2026-01-01T00:00:00Z.
const FIRST_DAY: i64 = 1_767_225_600_000;
/// So many accounts are closed on the first day, and one is not.
const CLOSED: usize = 30;
const SECOND_SEGMENT: &str = "segment-0000000002.log";

type Bank = Engine<Rebel, Embedded>;

fn spec() -> Arc<Spec> {
    Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("a specification"))
}

/// The bank in `data`, some days after the first one.
fn bank(data: &Path, day: i64, retention: Option<Retention>) -> Bank {
    let options = Options { segment_bytes: 4096, discard_after: Duration::ZERO, ..Options::default() };
    let journal = open(data, options);
    let time = Arc::new(ManualClock::new(Timestamp(FIRST_DAY + day * DAY)));
    let options = EngineOptions { retention, ..EngineOptions::default() };
    Engine::with_clock(Rebel::new(spec()), journal, options, time)
}

async fn happen(bank: &Bank, entity: &str, event: &str, arguments: &[(&str, &str)]) {
    let key: enact_entities::EntityKey = entity.parse().expect("a key");
    let spec = spec();
    let declared = spec.class(key.class()).and_then(|class| class.event(event)).expect("the bank has it");
    let typed = arguments.iter().map(|(name, text)| {
        let param = declared.params().iter().find(|param| **param.name() == **name).expect("the event has it");
        (*name, Value::parse(param.ty(), text).expect("of its type"))
    });
    let event: EventCall = declared.call(typed).expect("the arguments fit");
    let command = Command { key, event, then: Vec::new(), idempotency: None, deadline: LONG };
    bank.submit(command).await.unwrap_or_else(|error| panic!("{entity}: {error}"));
}

/// So many accounts that are opened and closed on the first day, each with a transfer to the next one, which stays open, and a hundred days
/// later tombstones for them; what they stand for is discarded.
pub(crate) async fn closed_accounts(data: &Path, closed: usize) {
    let opened = bank(data, 0, None);
    let last = iban(closed);
    happen(&opened, &format!("Account/{last}"), "Open", &[("owner", "Zoe"), ("initialDeposit", "EUR 1.00")]).await;
    for number in 0..closed {
        let account = format!("Account/{}", iban(number));
        happen(&opened, &account, "Open", &[("owner", "Ada"), ("initialDeposit", "EUR 100.00")]).await;
        let parties = [("amount", "EUR 100.00"), ("from", &*iban(number)), ("to", &*last)];
        happen(&opened, &format!("Transfer/t{number}"), "Book", &parties).await;
        happen(&opened, &account, "Close", &[]).await;
    }
    opened.shutdown(LONG).await.expect("stopped");

    let keep = Duration::from_secs(30 * 24 * 60 * 60);
    let later = bank(data, 100, Some(Retention { keep, begin_after: Duration::ZERO }));
    happen(&later, &format!("Account/{last}"), "Deposit", &[("amount", "EUR 1.00")]).await;
    let maintained = {
        let later = later.clone();
        tokio::spawn(async move { match later.maintain().await {} })
    };
    let is_compacted = || fs::read(data.join(SECOND_SEGMENT)).is_ok_and(|bytes| bytes.starts_with(b"ENACTCMP"));
    loop {
        let records = later.journal().feed(Position::START, usize::MAX).await.expect("readable");
        let buried = records.iter().filter(|record| record.kind == Kind::TOMBSTONE).count();
        if buried == closed && is_compacted() {
            break;
        }
        tokio::task::yield_now().await;
    }
    maintained.abort();
    later.shutdown(LONG).await.expect("stopped");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_whose_history_was_discarded_is_read_asked_followed_audited_and_restored() {
    let place = Place::new();
    // Records the specification.
    let served = place.serve("bank-data");
    served.signal(rustix::process::Signal::TERM);
    assert!(served.ended().0.success());
    closed_accounts(&place.path("bank-data"), CLOSED).await;

    assert!(place.done("enact journal verify --data bank-data").starts_with("sound"));
    let audited = place.done("enact audit bank.rebel --data bank-data");
    let lines: Vec<&str> = audited.lines().collect();
    assert!(lines[0].starts_with("clean: entities 61, "), "{audited}");
    assert!(lines[1].starts_with("calls not compared: transactions of which something was discarded: "), "{audited}");
    assert_eq!(lines.len(), 2, "{audited}");
    let exported = place.done("enact journal export --data bank-data");
    assert_eq!(exported.lines().filter(|line| line.contains(r#""tombstone":{"state":"closed""#)).count(), CLOSED);

    let bank = place.serve("bank-data");
    let closed = format!("/Account/{}", iban(3));
    let (status, read) = bank.get(&closed).await;
    assert_eq!((status, &read["state"], &read["fields"]["holder"]), (StatusCode::OK, &json!("closed"), &json!("Ada")));
    let (status, refused) = bank.post(&format!("{closed}/Deposit"), json!({ "amount": "EUR 1.00" })).await;
    assert_eq!((status, &refused["type"]), (StatusCode::CONFLICT, &json!("urn:enact:problem:refused")));
    let (status, found) = bank.get("/Account?state=closed&limit=100").await;
    assert_eq!((status, found["instances"].as_array().map(Vec::len)), (StatusCode::OK, Some(CLOSED)));

    let (status, history) = bank.get(&format!("{closed}/-/history")).await;
    let transactions = history["transactions"].as_array().expect("a list");
    assert_eq!((status, transactions.len(), &history["discarded"]), (StatusCode::OK, 1, &json!(true)), "{history}");
    assert_eq!((&transactions[0]["events"], &transactions[0]["state"]), (&json!([]), &json!("closed")));
    let (_, whole) = bank.get(&format!("/Account/{}/-/history", iban(CLOSED))).await;
    assert_eq!(whole["transactions"].as_array().map(Vec::len), Some(CLOSED + 2));
    assert!(whole.get("discarded").is_none());

    let (status, past) = bank.get(&format!("{closed}?at=2026-02-01T00:00:00Z")).await;
    assert_eq!((status, &past["state"]), (StatusCode::OK, &json!("closed")));
    let (status, past) = bank.get(&format!("{closed}?at=2025-12-31T00:00:00Z")).await;
    assert_eq!((status, &past["type"]), (StatusCode::GONE, &json!("urn:enact:problem:history-discarded")));

    let (status, changes) = bank.get("/-/changes?limit=1000&class=Account").await;
    let changes = changes["changes"].as_array().expect("a list");
    let ended: Vec<_> = changes.iter().filter(|change| change.get("tombstone").is_some()).collect();
    assert_eq!((status, ended.len()), (StatusCode::OK, CLOSED));
    assert!(ended.iter().all(|change| change["tombstone"]["state"] == "closed" && change["events"] == json!([])));
    drop(bank);

    place.done("enact journal backup bank.backup --data bank-data");
    #[cfg(all(feature = "nats", feature = "postgres"))]
    on_servers(&place, &lines).await;
    assert!(place.done("enact journal restore bank.backup --data whole").starts_with("restored: groups "));
    assert!(place.done("enact journal verify --data whole").starts_with("sound"));
    // They had been closed by then, and their tombstones were written much later.
    let restored = place.done("enact journal restore bank.backup --data past --until 2026-03-01T00:00:00Z");
    assert!(restored.contains(&format!("restored: {CLOSED} objects that had ended, as they were\n")), "{restored}");
    assert!(place.done("enact journal verify --data past").starts_with("sound"));
    let past = place.serve("past");
    let (status, read) = past.get(&closed).await;
    assert_eq!((status, &read["state"]), (StatusCode::OK, &json!("closed")));
    let (_, last) = past.get(&format!("/Account/{}", iban(CLOSED))).await;
    assert_eq!(last["fields"]["balance"], json!("EUR 3001.00"), "without the deposit of the hundredth day");
    // What they were just before is known to nobody.
    let refused = place.refused("enact journal restore bank.backup --data early --until 2026-01-01T00:30:00Z", 4);
    assert!(refused.contains("its history was discarded after it ended at 2026-01-01T00:00:00"), "{refused}");
    assert!(!place.path("early").exists());
}

/// Restored to servers, which keep no gaps, the entities are the same, and an audit finds as much.
#[cfg(all(feature = "nats", feature = "postgres"))]
async fn on_servers(place: &Place, audited: &[&str]) {
    use enact_journal_kit::{nats, postgres};

    let (Some(nats), Some(postgres)) = (nats::program(), postgres::programs()) else { return };
    let (one, other) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let nats = nats::Server::start(&nats, one.path());
    let postgres = postgres::Server::start(&postgres, other.path());
    for address in [nats.address(), postgres.address()] {
        let at = format!("--journal {address}");
        place.done(&format!("enact journal restore bank.backup {at}"));
        assert!(place.done(&format!("enact journal verify {at}")).starts_with("sound: entities "));
        assert_eq!(place.done(&format!("enact audit bank.rebel {at}")).lines().collect::<Vec<_>>(), audited);
        let mut command = program();
        command.arg("serve").arg(place.path("bank.rebel")).args(["--journal", &address, "--listen", FREE_PORT]);
        let restored = Served::start(command);
        for number in [3, 4, CLOSED - 1] {
            let (status, read) = restored.get(&format!("/Account/{}", iban(number))).await;
            assert_eq!((status, &read["state"]), (StatusCode::OK, &json!("closed")), "{read}");
            let (_, history) = restored.get(&format!("/Account/{}/-/history", iban(number))).await;
            assert_eq!(history["transactions"][0]["state"], json!("closed"), "{history}");
        }
        let (_, last) = restored.get(&format!("/Account/{}", iban(CLOSED))).await;
        assert_eq!(last["fields"]["balance"], json!("EUR 3002.00"));
        let (_, found) = restored.get("/Account?state=closed&limit=100").await;
        assert_eq!(found["instances"].as_array().map(Vec::len), Some(CLOSED));
        let deposit = format!("/Account/{}/Deposit", iban(CLOSED));
        assert_eq!(restored.post(&deposit, json!({ "amount": "EUR 1.00" })).await.0, StatusCode::OK);
        drop(restored);
        // The way back: the directory can discard again.
        let name = if address.starts_with("nats") { "nats" } else { "postgres" };
        place.done(&format!("enact journal backup {name}.backup {at}"));
        place.done(&format!("enact journal restore {name}.backup --data {name}"));
        let again = place.done(&format!("enact audit bank.rebel --data {name}"));
        assert!(again.starts_with("clean: entities 61, "), "{again}");
        let early = format!("enact journal restore bank.backup {at} --shard 1 --until 2026-01-01T00:30:00Z");
        assert!(place.refused(&early, 4).contains("its history was discarded"));
        place.done(&format!("enact journal restore bank.backup {at} --shard 1 --until 2026-03-01T00:00:00Z"));
        assert!(place.done(&format!("enact journal verify {at} --shard 1")).starts_with("sound"));
    }
}

#[test]
fn histories_are_kept_for_an_hour_at_least_and_for_ever_by_other_journals() {
    let spec = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/bank.rebel");
    let spec = spec.to_str().expect("text");
    let refused = |arguments: &[&str]| {
        let ended = enact(&[&["serve", spec, "--retain"][..], arguments].concat());
        (ended.status.code(), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let (status, said) = refused(&["59m"]);
    assert!(status == Some(2) && said.contains("an hour at least: what is discarded does not come back"), "{said}");
    for other in [&["--journal", "nats://127.0.0.1:1"][..], &["--journal", "postgres://a@127.0.0.1:1/b"]] {
        let (status, said) = refused(&[&["90days"][..], other].concat());
        let reason = "--retain is for a data directory: a stream of NATS or a table of PostgreSQL keeps every record";
        assert!(status == Some(2) && said.contains(reason), "{said}");
    }
    let help = program().args(["serve", "--help"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&help.stdout).contains("--retain <TIME>"));
}
