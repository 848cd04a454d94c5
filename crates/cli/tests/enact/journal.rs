//! `enact journal`: verifies a data directory, and takes a log without a manifest.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Seq};
use enact_journal_kit::contract::block_on;

use crate::golden::{of_this_version, unpacked};
use crate::served::{FREE_PORT, serve};

fn enact(command: &str, data: &Path) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = Command::new(env!("CARGO_BIN_EXE_enact"))
        .args(["journal", command, "--data"])
        .arg(data)
        .output()
        .expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn fill(data: &Path) {
    let journal = Embedded::open(data, Options::default()).expect("a new journal");
    for n in 0..10 {
        let entity = EntityKey::new("Account", &format!("NL{:02}", n % 5)).expect("a valid id");
        let record = NewRecord { entity, expected: Seq(n / 5), kind: Kind(0), payload: vec![7; 50] };
        block_on(journal.append(vec![record])).expect("durable");
    }
    block_on(journal.close()).expect("closed");
}

#[test]
fn sound_directory_verifies_and_a_damaged_one_does_not() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    fill(&data);
    let (status, stdout, _) = enact("verify", &data);
    assert_eq!((status, stdout.as_str()), (Some(0), "sound: segments 1, entities 5, records 10\n"));

    let segment = data.join("segment-0000000001.log");
    let mut bytes = fs::read(&segment).expect("the segment");
    bytes[200] ^= 1;
    fs::write(&segment, bytes).expect("damaged");
    for command in ["verify", "adopt"] {
        let (status, stdout, stderr) = enact(command, &data);
        assert_eq!(status, Some(4));
        assert!(stdout.starts_with("segment-0000000001.log is damaged at byte "), "{stdout}");
        assert!(stderr.ends_with("is damaged\n"), "{stderr}");
    }
}

#[tokio::test]
async fn damage_that_a_start_has_not_read_ends_the_server_and_the_next_start_says_where() {
    let place = unpacked(&of_this_version().await);
    let (data, spec) = (place.path("sealed"), place.path("shop.rebel"));
    let segment = data.join("segment-0000000001.log");
    let mut bytes = fs::read(&segment).expect("the segment");
    // In the footer, behind the records, some of which are read at once.
    *bytes.last_mut().expect("a footer") ^= 1;
    fs::write(&segment, bytes).expect("damaged");
    for (status, message) in
        [(6, "segment-0000000001.log is not what was written"), (4, "segment-0000000001.log is damaged at byte")]
    {
        let ended = serve(&spec, &data, FREE_PORT).output().expect("the program runs");
        let log = String::from_utf8(ended.stderr).expect("text");
        assert_eq!(ended.status.code(), Some(status), "{log}");
        assert!(log.contains(message), "{log}");
    }
}

#[test]
fn refused_start_names_the_damage_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let (data, spec) = (dir.path().join("data"), dir.path().join("lamp.rebel"));
    fill(&data);
    fs::write(&spec, "class Lamp initial off on Light(): lit\nlit").expect("writable");
    fs::remove_file(data.join("segment-0000000001.log")).expect("removed");
    let ended = serve(&spec, &data, FREE_PORT).output().expect("the program runs");
    assert_eq!(ended.status.code(), Some(4));
    let stderr = String::from_utf8(ended.stderr).expect("text");
    assert_eq!(
        stderr.matches("segment-0000000001.log is damaged at byte 0: the file is missing").count(),
        1,
        "{stderr}"
    );
    assert!(stderr.contains(&format!("; `enact journal repair --data {}` says ", data.display())), "{stderr}");
}

#[test]
fn log_without_a_manifest_is_adopted() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    fill(&data);
    fs::remove_file(data.join("manifest")).expect("removed");
    let (status, stdout, _) = enact("verify", &data);
    assert_eq!((status, stdout.as_str()), (Some(4), "manifest is damaged at byte 0: the file is missing\n"));
    let (status, stdout, _) = enact("adopt", &data);
    assert_eq!((status, stdout.as_str()), (Some(0), "sound: segments 1, entities 5, records 10\n"));
    assert_eq!(enact("verify", &data).0, Some(0));
}

#[test]
fn directory_that_is_not_there_is_not_made() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("none");
    let (status, _, stderr) = enact("verify", &data);
    assert_eq!(status, Some(4));
    assert!(stderr.starts_with("error: cannot look after "), "{stderr}");
    assert!(!data.exists());
}
