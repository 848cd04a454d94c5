//! The page on repairs, line by line, with the real program; and each kind of damage to a directory of several segments.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use enact_journal::{BackupReader, BackupWriter};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use reqwest::StatusCode;
use serde_json::json;

use crate::backup::{Place, iban, shape, steps};

const PAGE: &str = include_str!("../../../../docs/operations/repair.md");
/// How many transfers a backup has, and how many come after it.
const TRANSFERS: [usize; 2] = [8, 6];

/// Books transfers, one after the other, and stops the server.
async fn transfers(place: &Place, numbers: std::ops::Range<usize>) {
    let bank = place.serve("bank-data");
    if numbers.start == 0 {
        for number in 1..=2 {
            let open = json!({ "owner": "Ada", "initialDeposit": "EUR 100.00" });
            let (status, answer) = bank.post(&format!("/Account/{}/Open", iban(number)), open).await;
            assert_eq!(status, StatusCode::OK, "{answer}");
        }
    }
    for number in numbers {
        let transfer = json!({ "amount": "EUR 1.00", "from": iban(1), "to": iban(2) });
        let (status, answer) = bank.post(&format!("/Transfer/t{number}/Book"), transfer).await;
        assert_eq!(status, StatusCode::OK, "{answer}");
    }
    bank.signal(rustix::process::Signal::TERM);
    assert!(bank.ended().0.success());
}

/// A bank with a backup that is older than its last transfers.
async fn bank(place: &Place) {
    let [before, after] = TRANSFERS;
    transfers(place, 0..before).await;
    place.done("enact journal backup bank.backup --data bank-data");
    transfers(place, before..before + after).await;
}

fn segment(number: u32) -> String {
    format!("segment-{number:010}.log")
}

/// Changes the bytes of a file.
fn change(path: &Path, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("the file is there");
    change(&mut bytes);
    fs::write(path, bytes).expect("writable");
}

/// Flips a bit of the last key of this name in a segment.
fn flip_record_of(path: &Path, key: &str) {
    change(path, |bytes| {
        let at = bytes.windows(key.len()).rposition(|window| window == key.as_bytes()).expect("it has records");
        bytes[at] ^= 1;
    });
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("readable"));
    entries
        .map(|entry| (entry.file_name().into_string().expect("text"), fs::read(entry.path()).expect("a file")))
        .collect()
}

/// What a command prints that ends with status 4.
#[track_caller]
fn refused(place: &Place, command: &str) -> (String, String) {
    let Output { status, stdout, stderr } = place.run(command);
    let [stdout, stderr] = [stdout, stderr].map(|bytes| String::from_utf8(bytes).expect("text"));
    assert_eq!(status.code(), Some(4), "{command}: {stdout}{stderr}");
    (stdout, stderr)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_recovers_from_a_damaged_file() {
    let place = Place::new();
    bank(&place).await;
    let exported = place.done("enact journal export --data bank-data");
    flip_record_of(&place.path("bank-data").join(segment(1)), "Transfer/t3");
    let damaged = files(&place.path("bank-data"));
    let [look, mend, verify, audit, swap, serve, ask, cut] = &steps(PAGE)[..] else { panic!("eight commands") };

    let (printed, said) = refused(&place, &look.command);
    assert_eq!(shape(&printed), shape(&look.printed), "{printed}");
    assert_eq!(said, "error: the journal in bank-data is damaged\n");
    for step in [mend, verify, audit] {
        let printed = place.done(&step.command);
        assert_eq!(shape(&printed), shape(&step.printed), "{}: {printed}", step.command);
    }
    place.done(&swap.command);
    assert_eq!(place.done("enact journal export --data bank-data"), exported);
    assert_eq!(serve.command, "enact serve bank.rebel --data bank-data --listen 127.0.0.1:8080");
    transfers(&place, 90..91).await;

    let (printed, said) = refused(&place, &ask.command);
    assert_eq!(shape(&(printed + &said)), shape(&ask.printed));
    let printed = place.done(&cut.command);
    assert_eq!(shape(&printed), shape(&cut.printed), "{printed}");
    assert!(exported.starts_with(&place.done("enact journal export --data bank-cut")));
    assert_eq!(files(&place.path("bank-damaged")), damaged, "nothing is written to it");

    // What the page says of cursors.
    let cut = place.serve("bank-cut");
    let (status, problem) = cut.get("/-/changes?after=45.45.1").await;
    assert_eq!(
        (status, &problem["type"]),
        (StatusCode::UNPROCESSABLE_ENTITY, &json!("urn:enact:problem:cursor-ahead"))
    );
    let (status, page) = cut.get("/-/changes?after=12.12.1").await;
    assert_eq!((status, &page["changes"]), (StatusCode::OK, &json!([])));
    let transfer = json!({ "amount": "EUR 1.00", "from": iban(1), "to": iban(2) });
    assert_eq!(cut.post("/Transfer/t99/Book", transfer).await.0, StatusCode::OK);
    let (_, page) = cut.get("/-/changes?after=12.12.1").await;
    assert_eq!(page["changes"].as_array().map(Vec::len), Some(3), "the transfer and both accounts: {page}");
}

/// A name, what is done in the directory, and whether a record is missing then.
type Row = (&'static str, fn(&Path), bool);

fn flip(path: &Path, at: usize) {
    change(path, |bytes| bytes[at] ^= 1);
}

const ROWS: [Row; 17] = [
    ("nothing", |_| (), false),
    ("a record", |data| flip(&data.join(segment(2)), 72 + 40 + 36), true),
    ("a group header", |data| flip(&data.join(segment(2)), 72 + 10), true),
    ("a segment header", |data| flip(&data.join(segment(2)), 30), false),
    (
        "a footer",
        |data| {
            let file = data.join(segment(2));
            let len = fs::metadata(&file).expect("there").len() as usize;
            flip(&file, len - 40);
        },
        false,
    ),
    ("a segment in the middle", |data| fs::remove_file(data.join(segment(2))).expect("there"), true),
    ("the first segment", |data| fs::remove_file(data.join(segment(1))).expect("there"), true),
    ("the last segment", |data| fs::remove_file(last_segment(data)).expect("there"), true),
    ("the end", |data| change(&last_segment(data), |bytes| bytes.truncate(72)), true),
    ("a slot of the manifest", |data| flip(&data.join("manifest"), 20), false),
    (
        "both slots",
        |data| {
            flip(&data.join("manifest"), 20);
            flip(&data.join("manifest"), 532);
        },
        false,
    ),
    ("an entry of the manifest", |data| flip(&data.join("manifest"), 1030), false),
    ("the manifest", |data| fs::remove_file(data.join("manifest")).expect("there"), false),
    ("snapshots", |data| fs::write(data.join("snapshots.redb"), [7; 9000]).expect("written"), false),
    ("the checkpoint", |data| flip(&data.join("checkpoint"), 90), false),
    ("what the checkpoint says", |data| change(&data.join("checkpoint"), |bytes| say_another_hash(bytes)), false),
    ("leftovers", |data| fs::write(data.join(segment(1) + ".cut-1"), [7; 90]).expect("written"), false),
];

/// The hash of the last segment that the checkpoint covers, under a right checksum.
fn say_another_hash(checkpoint: &mut [u8]) {
    checkpoint[48] ^= 1;
    let end = checkpoint.len() - 4;
    let checksum = crc32c::crc32c(&checkpoint[..end]);
    checkpoint[end..].copy_from_slice(&checksum.to_le_bytes());
}

fn last_segment(data: &Path) -> std::path::PathBuf {
    let names = files(data).into_keys().filter(|name| name.starts_with("segment") && name.ends_with(".log"));
    data.join(names.max().expect("a segment"))
}

/// The bank in segments of 4 KiB, with a checkpoint.
async fn bank_in_segments(place: &Place) {
    bank(place).await;
    place.done("enact journal backup all.backup --data bank-data");
    place.restore_in_segments("all.backup", "data").await;
    place.done("enact journal backup same.backup --data data");
    assert!(place.path("data").join(segment(3)).exists(), "at least three segments");
}

/// A new directory passes every check, and shows what `exported` says.
#[track_caller]
fn check_new(place: &Place, name: &str, new: &str, exported: &str) {
    place.done(&format!("enact journal verify --data {new}"));
    place.done(&format!("enact audit bank.rebel --data {new}"));
    assert_eq!(place.done(&format!("enact journal export --data {new}")), exported, "{name}");
    place.done(&format!("rm -r {new}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn each_kind_of_damage_is_told_and_mended_and_the_damaged_directory_stays_as_it_is() {
    let place = Place::new();
    bank_in_segments(&place).await;
    let exported = place.done("enact journal export --data data");
    for (name, damage, is_missing) in ROWS {
        place.done("rm -rf damaged && cp -a data damaged");
        damage(&place.path("damaged"));
        let before = files(&place.path("damaged"));
        let is_sound =
            matches!(name, "nothing" | "a slot of the manifest" | "snapshots" | "the checkpoint" | "leftovers");
        let verified = place.run(
            "cp -a damaged verified && enact journal verify --data verified; status=$?; rm -r verified; exit $status",
        );
        let looked = place.run("enact journal repair --data damaged");
        let printed = String::from_utf8(looked.stdout).expect("text");
        assert_eq!(looked.status.code(), Some(if is_sound { 0 } else { 4 }), "{name}: {printed}");
        assert_eq!(verified.status.code(), looked.status.code(), "{name}: {printed}");
        assert_eq!(printed.contains("harmless: "), is_sound && name != "nothing", "{name}: {printed}");
        assert_eq!(printed.contains("missing: record"), is_missing, "{name}: {printed}");
        if let Some((_, command)) = printed.split_once("once the checkpoint is gone\n") {
            assert_eq!(name, "what the checkpoint says");
            place.done(&format!("cp -a damaged mended && {}", command.trim().replace("damaged", "mended")));
            check_new(&place, name, "mended", &exported);
        } else {
            assert_ne!(name, "what the checkpoint says", "{printed}");
        }

        if is_missing {
            let (printed, said) = refused(&place, "enact journal repair --data damaged --to new");
            let count = said.rsplit(' ').next().expect("a number").trim_end();
            assert!(printed.starts_with("would be lost: record"), "{name}: {printed}");
            let (_, said) = refused(&place, "enact journal repair --data damaged --to new --lose 9999");
            assert_eq!(said, format!("error: not repaired: {count} records would be lost, not 9999\n"), "{name}");
            let (printed, _) = refused(&place, "enact journal repair --data damaged --from same.backup");
            assert!(printed.contains("nothing is lost: a directory that opens is built by"), "{name}: {printed}");
            place.done(&format!("enact journal repair --data damaged --to new --lose {count}"));
            let kept = place.done("enact journal export --data new");
            assert!(exported.starts_with(&kept) && kept.len() < exported.len(), "{name}");
            check_new(&place, name, "new", &kept);
        } else {
            let printed = place.done("enact journal repair --data damaged --to new");
            let is_end_unknown = matches!(name, "both slots" | "the manifest");
            assert_eq!(printed.contains("does not say where the log ended"), is_end_unknown, "{name}: {printed}");
            check_new(&place, name, "new", &exported);
        }
        for backup in ["same.backup", "all.backup"] {
            let mended = place.run(&format!("enact journal repair --data damaged --from {backup} --to new"));
            if mended.status.success() {
                check_new(&place, name, "new", &exported);
            } else {
                // The end is gone, which is all that could show that the backup of another log belongs to this one.
                let said = String::from_utf8(mended.stderr).expect("text");
                assert!(backup == "all.backup" && said.contains("the backup is of another log"), "{name}: {said}");
                assert!(matches!(name, "the last segment" | "the end"), "{name}: {said}");
            }
        }
        assert_eq!(files(&place.path("damaged")), before, "{name}");
    }
}

/// The first `count` groups of the backup `from`.
fn earlier_backup(from: &Path, to: &Path, count: usize) {
    let groups = BackupReader::open(from).expect("a backup");
    let mut backup = BackupWriter::create(to, groups.log()).expect("a new file");
    groups.take(count).for_each(|group| backup.push(&group.expect("whole")).expect("written"));
    backup.finish().expect("durable");
}

/// Some file of the log is flipped, zeroed, cut, extended or gone. With a backup of everything nothing is lost, and with an
/// earlier one either nothing is, or it is refused.
#[tokio::test(flavor = "multi_thread")]
async fn random_damage_costs_nothing_with_a_backup_that_has_what_is_missing() {
    const SEED: u64 = 71;
    let place = Place::new();
    bank_in_segments(&place).await;
    let exported = place.done("enact journal export --data data");
    let whole = files(&place.path("data"));
    let names: Vec<&String> = whole.keys().filter(|name| *name != "lock").collect();
    let group_count = BackupReader::open(&place.path("same.backup")).expect("a backup").count();
    let mut rng = StdRng::seed_from_u64(SEED);
    let (mut mended, mut refused) = (0, 0);
    for number in 0..40 {
        let name = names[rng.random_range(0..names.len())];
        let mut bytes = whole[name].clone();
        let (at, len) = (rng.random_range(0..bytes.len()), rng.random_range(1..2000));
        let end = bytes.len().min(at + len);
        let kind = rng.random_range(0..5);
        match kind {
            0 => bytes[at] ^= 1 << rng.random_range(0..8),
            1 => bytes[at..end].fill(0),
            2 => bytes.truncate(at),
            3 => bytes.extend(vec![7; len]),
            _ => {}
        }
        place.done("rm -rf damaged new early.backup && cp -a data damaged");
        let path = place.path("damaged").join(name);
        if kind == 4 {
            fs::remove_file(path).expect("there");
        } else {
            fs::write(path, bytes).expect("written");
        }
        let case = format!("seed {SEED}, damage {number} of kind {kind} to {name} at {at}");
        place.done("enact journal repair --data damaged --from same.backup --to new");
        check_new(&place, &case, "new", &exported);
        let count = rng.random_range(0..group_count);
        earlier_backup(&place.path("same.backup"), &place.path("early.backup"), count);
        let ended = place.run("enact journal repair --data damaged --from early.backup --to new");
        if ended.status.success() {
            mended += 1;
            // Without the manifest nobody knows how long the log was.
            let is_shorter = String::from_utf8_lossy(&ended.stdout).contains("does not say where the log ended");
            let found = if is_shorter { place.done("enact journal export --data new") } else { exported.clone() };
            assert!(exported.starts_with(&found), "{case}");
            check_new(&place, &case, "new", &found);
        } else {
            refused += 1;
            assert_eq!(ended.status.code(), Some(4), "{case}");
            assert!(String::from_utf8_lossy(&ended.stderr).contains(" cannot be read: name a backup"), "{case}");
            assert!(!place.path("new").exists(), "{case}");
        }
    }
    assert!(mended > 10 && refused > 5, "{mended} mended, {refused} refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_does_not_fit_is_refused_with_the_record() {
    let place = Place::new();
    bank_in_segments(&place).await;
    // The first backup of the directory with small segments ends before its last transfers.
    place.done("enact journal restore bank.backup --data early && enact journal backup early.backup --data early");
    let two = place.path("data").join(segment(2));
    let whole = fs::read(&two).expect("there");
    let repair = |backup: &str| refused(&place, &format!("enact journal repair --data data --from {backup} --to new"));

    // What is missing is behind the end of the backup.
    let last = last_segment(&place.path("data"));
    let end = fs::read(&last).expect("there");
    change(&last, |bytes| bytes.truncate(72));
    let (printed, said) = repair("bank.backup");
    assert!(
        printed.starts_with("would be lost: record") && said.contains(" cannot be read: name a backup that has "),
        "{printed}{said}"
    );
    fs::write(&last, end).expect("written");

    // Another bank.
    let other = Place::new();
    bank(&other).await;
    fs::copy(other.path("bank.backup"), place.path("other.backup")).expect("copied");
    flip(&two, 200);
    let (_, said) = repair("other.backup");
    assert!(said.starts_with("error: not repaired: record 1 is another one in the backup"), "{said}");
    // The same bank, which has gone on in another way.
    fs::write(&two, &whole).expect("written");
    place.done("cp -a data apart");
    fs::rename(place.path("bank-data"), place.path("bank-kept")).expect("renamed");
    place.done("mv apart bank-data");
    transfers(&place, 70..72).await;
    place.done("enact journal backup apart.backup --data bank-data && rm -r bank-data && cp -a data bank-data");
    transfers(&place, 80..83).await;
    flip(&place.path("bank-data").join(segment(2)), 200);
    let (_, said) = refused(&place, "enact journal repair --data bank-data --from apart.backup --to new");
    assert!(said.contains(" is another one in the backup"), "{said}");
    // A backup that is damaged itself.
    flip(&place.path("same.backup"), 300);
    flip(&two, 200);
    let (_, said) = repair("same.backup");
    assert!(said.contains("same.backup is damaged at byte "), "{said}");
    assert!(!place.path("new").exists() && !place.path("new.new").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_meant_is_refused() {
    let place = Place::new();
    transfers(&place, 0..1).await;
    let said = place.refused("enact journal repair --journal nats://127.0.0.1:4222", 2);
    assert!(said.contains("over NATS or PostgreSQL") && said.contains("pg_restore"), "{said}");
    let said = place.refused("enact journal repair --data bank-data --to bank-data/new", 2);
    assert!(said.contains("within the damaged one"), "{said}");
    place.refused("enact journal repair --data bank-data --to bank-data", 2);
    place.refused("cd bank-data && enact journal repair --data . --to new", 2);
    place.refused("enact journal repair --data bank-data --to bank.rebel", 4);
    place.refused("enact journal repair --data bank-data --to new --lose 1", 4);
    place.refused("enact journal repair --data none", 4);
    place.refused("enact journal repair --data bank-data --lose 1", 2);
    let served = place.serve("bank-data");
    let said = place.refused("enact journal repair --data bank-data", 4);
    assert!(said.contains("in use"), "{said}");
    drop(served);
    fs::set_permissions(place.path("bank-data"), fs::Permissions::from_mode(0o500)).expect("ours");
    place.done("enact journal repair --data bank-data");
    fs::set_permissions(place.path("bank-data"), fs::Permissions::from_mode(0o700)).expect("ours");
}
