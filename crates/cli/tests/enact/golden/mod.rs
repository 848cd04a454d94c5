//! Stores of every release, in `tests/golden`: this program opens them, shows what they hold, and goes on.
//!
//! What this program would write now must be what the store of its version has. So a change of a format, whether it
//! has a number of its own or not, fails here until there is a golden store of it:
//!
//!     ENACT_WRITE_GOLDEN=1 cargo test -p enact-cli --test enact golden
//!
//! writes that of the version in `Cargo.toml`. The store of a version that was released is never written again.

mod dump;
mod scenario;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use enact_entities::Record;
use enact_journal::{Journal, Kind, Options, look};
use enact_rebel::EventCall;
use reqwest::StatusCode;
use serde_json::{Value as Json, json};
use tokio::sync::OnceCell;

use self::dump::{unpack, unpack_file};
use self::scenario::CLOSED;
use crate::backup::{Place, iban, open};
use crate::served::{FREE_PORT, Served, serve};

const VERSION: &str = env!("CARGO_PKG_VERSION");
const SNAPSHOTS: &str = "snapshots.redb";
/// The kind of the records that hold specifications.
const CONTRACT: Kind = Kind(64);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// The golden store of this version, written anew if that is asked for.
pub(crate) async fn of_this_version() -> PathBuf {
    static WRITTEN: OnceCell<()> = OnceCell::const_new();
    let golden = folder().join(VERSION);
    let write = async || {
        if std::env::var_os("ENACT_WRITE_GOLDEN").is_some() {
            fs::remove_dir_all(&golden).unwrap_or_default();
            scenario::write(&golden).await;
        }
    };
    WRITTEN.get_or_init(write).await;
    assert!(golden.is_dir(), "there is no golden store of {VERSION}: see the README there");
    golden
}

/// A place with the directories, the backup and the specifications of a golden store.
pub(crate) fn unpacked(golden: &Path) -> Place {
    let place = Place::new();
    for data in ["north", "south", "counter", "sealed", "ended", "customers", "keys"] {
        unpack(&golden.join(data), &place.path(data));
    }
    unpack_file(&golden.join("north.backup.hex"), &place.path("north.backup"));
    for spec in ["shop.rebel", "counter.rebel", "bank.rebel", "customers.rebel"] {
        fs::copy(golden.join(spec), place.path(spec)).expect("copied");
    }
    place
}

fn read(golden: &Path, name: &str) -> String {
    fs::read_to_string(golden.join(name)).expect("text")
}

/// All that `expected` says is so in `found`, which may say more: a later release may add members.
fn includes(found: &Json, expected: &Json) -> bool {
    match (found, expected) {
        (Json::Object(found), Json::Object(expected)) => {
            expected.iter().all(|(name, value)| found.get(name).is_some_and(|found| includes(found, value)))
        }
        (Json::Array(found), Json::Array(expected)) => {
            found.len() == expected.len() && found.iter().zip(expected).all(|(found, value)| includes(found, value))
        }
        _ => found == expected,
    }
}

#[track_caller]
fn assert_exports(place: &Place, of: &str, expected: &str) {
    let found = place.done(&format!("enact journal export {of}"));
    assert_eq!(found.lines().count(), expected.lines().count(), "{of}: {found}");
    for (found, expected) in found.lines().zip(expected.lines()) {
        let [found, expected] = [found, expected].map(|line| serde_json::from_str(line).expect("JSON"));
        assert!(includes(&found, &expected), "{of}: {found}, not {expected}");
    }
}

/// Asks for everything that `answers` has.
async fn assert_answers(served: &Served, answers: &Json) {
    for (path, expected) in answers.as_object().expect("paths") {
        let (status, found) = served.get(path).await;
        assert!(status == StatusCode::OK && includes(&found, expected), "{path}: {found}, not {expected}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_golden_store_opens_and_shows_what_it_holds_and_goes_on() {
    of_this_version().await;
    for entry in fs::read_dir(folder()).expect("golden stores") {
        let golden = entry.expect("readable").path();
        if golden.is_dir() {
            opens(&golden).await;
        }
    }
}

async fn opens(golden: &Path) {
    let place = unpacked(golden);
    let answers: Json = serde_json::from_str(&read(golden, "answers.json")).expect("JSON");
    // What a later program may pass over, and this one has written itself.
    let is_earlier = !golden.ends_with(VERSION);
    for data in ["north", "south", "counter", "sealed", "ended", "customers"] {
        let looked = place.done(&format!("enact journal repair --data {data}"));
        assert!(is_earlier || looked.starts_with("sound"), "{data}: {looked}");
        place.done(&format!("enact journal verify --data {data}"));
    }
    assert_exports(&place, "--data north", &read(golden, "north.export"));
    assert_exports(&place, "--data south", &read(golden, "south.export"));
    assert_exports(&place, "--data sealed", &read(golden, "north.export"));
    assert_exports(&place, "--data ended", &read(golden, "ended.export"));
    assert_exports(&place, "--data customers", &read(golden, "customers.export"));
    assert_exports(&place, "--backup north.backup", &read(golden, "north.export"));
    place.done("enact journal restore north.backup --data restored");
    assert_exports(&place, "--data restored", &read(golden, "north.export"));
    assert_eq!(place.done("enact audit shop.rebel --data south"), read(golden, "south.audit"));
    assert_eq!(place.done("enact audit bank.rebel --data ended"), read(golden, "ended.audit"));
    assert_eq!(place.done("enact audit customers.rebel --data customers"), read(golden, "customers.audit"));
    let deposit = format!("/Account/{}/Deposit", iban(CLOSED));

    for (spec, data, event, arguments) in [
        ("shop.rebel", "north", "/Account/n1/Deposit", json!({ "amount": "EUR 1.00" })),
        ("shop.rebel", "restored", "/Account/n1/Deposit", json!({ "amount": "EUR 1.00" })),
        ("shop.rebel", "sealed", "/Account/n1/Deposit", json!({ "amount": "EUR 1.00" })),
        ("counter.rebel", "counter", "/C/c/E", json!({})),
        ("bank.rebel", "ended", &deposit, json!({ "amount": "EUR 1.00" })),
        ("customers.rebel", "customers", "/Customer/c2/Move", json!({ "to": "a square" })),
    ] {
        let answers = &answers[spec.trim_end_matches(".rebel")];
        let start = || {
            let mut command = serve(&place.path(spec), &place.path(data), FREE_PORT);
            command.arg("--subject-keys").arg(place.path("keys"));
            Served::start(command)
        };
        let served = start();
        assert_answers(&served, answers).await;
        let (_, page) = served.get("/-/changes?limit=1000").await;
        let (status, answer) = served.post(event, arguments).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
        let (path, _) = event.rsplit_once('/').expect("an object");
        let (_, after) = served.get(path).await;
        assert!(!includes(&after, &answers[path]), "{after}");
        served.kill();
        // The event is behind the cursor at which the store ended, and what was before it is where it was.
        let served = start();
        assert_eq!(served.get(path).await.1, after);
        let behind = format!("/-/changes?after={}", page["next"].as_str().expect("a cursor"));
        let (_, more) = served.get(&behind).await;
        assert_eq!(more["changes"].as_array().map(Vec::len), Some(1), "{more}");
        assert_eq!(more["changes"][0]["transaction"], answer["transaction"]);
        served.signal(rustix::process::Signal::TERM);
        let (status, log) = served.ended();
        assert!(status.success() && !log.contains("snapshot"), "{data}: {log}");
        assert!(is_earlier || !log.contains("checkpoint"), "{data}: {log}");
    }
    place.done("enact audit shop.rebel --data north");
    place.done("enact audit counter.rebel --data counter");
}

/// Everything about the formats of a store that a number, or a name, in its bytes tells.
async fn formats(place: &Place) -> BTreeSet<String> {
    let version = |name: &str| {
        let bytes = fs::read(place.path(name)).expect("there");
        u16::from_le_bytes([bytes[8], bytes[9]])
    };
    let mut formats = BTreeSet::from([
        format!("manifest {}", version("north/manifest")),
        format!("segment {}", version("north/segment-0000000001.log")),
        format!("compacted segment {}", version("ended/segment-0000000002.log")),
        format!("checkpoint {}", version("sealed/checkpoint")),
        format!("backup {}", version("north.backup")),
        format!("subject keys {}", version("keys/subject-keys")),
    ]);
    let store = fs::read(place.path("counter").join(SNAPSHOTS)).expect("there are snapshots");
    let table = store.windows(11).find(|window| window.starts_with(b"snapshots-")).expect("a table");
    formats.insert(format!("table {}", String::from_utf8_lossy(table)));
    for data in ["north", "south", "counter", "ended", "customers"] {
        for record in look(&place.path(data)).expect("a log").flat_map(|group| group.expect("sound")) {
            let Kind(kind) = record.kind;
            formats.insert(if record.kind == CONTRACT {
                format!("record {kind}, a specification")
            } else {
                let decoded = Record::<EventCall>::decode(&record.payload).expect("a record");
                let how = if decoded.encode() == record.payload { "" } else { ", rewritten" };
                format!("record {kind}, version {}{how}", record.payload[0])
            });
        }
    }
    let journal = open(&place.path("counter"), Options::default());
    let snapshot = journal.load_snapshot(&"C/c".parse().expect("a name")).await.expect("readable");
    formats.insert(format!("snapshot, version {}", snapshot.expect("there is one").payload[0]));
    journal.close().await.expect("closed");
    formats
}

/// A format that has changed and kept its number shows, too: what the golden store of this version holds would be written
/// otherwise now.
#[tokio::test(flavor = "multi_thread")]
async fn the_golden_store_of_this_version_has_the_formats_that_this_program_writes() {
    let fresh = tempfile::tempdir().expect("a directory");
    scenario::write(fresh.path()).await;
    let written = formats(&unpacked(fresh.path())).await;
    let golden = formats(&unpacked(&of_this_version().await)).await;
    assert_eq!(written, golden, "write a golden store of {VERSION}, and keep those of what was released");
    let kinds: Vec<u8> = (1..=10).chain([CONTRACT.0, Kind::TOMBSTONE.0]).collect();
    for kind in kinds {
        assert!(written.iter().any(|format| format.starts_with(&format!("record {kind},"))), "no record {kind}");
    }
}
