//! `enact sign-key`, `enact serve --sign-key` and `enact journal verify --public-key`: what somebody without the key changes is found.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::json;
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, enact, serve};

/// A directory with a specification and two pairs of keys.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().expect("a place for the test"));
        fs::write(place.path("bank.rebel"), BANK).expect("writable");
        for name in ["key", "other"] {
            let made = enact(&["sign-key", text(&place.path(name))]);
            assert!(made.status.success(), "{made:?}");
            fs::write(place.path(&format!("{name}.pub")), made.stdout).expect("writable");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Status and lines of `enact journal verify` with a public key, without the directory of the test.
    fn verified(&self, key: &str) -> (Option<i32>, Vec<String>) {
        let (data, key) = (self.path("data"), self.path(key));
        let ended = enact(&["journal", "verify", "--data", text(&data), "--public-key", text(&key)]);
        let said = String::from_utf8([ended.stdout, ended.stderr].concat()).expect("UTF-8");
        let said = said.replace(text(self.0.path()), "DIR");
        (ended.status.code(), said.lines().map(str::to_owned).collect())
    }

    /// The message with which `enact serve` refuses a key.
    fn refused(&self, key: &str) -> String {
        let mut command = serve(&self.path("bank.rebel"), &self.path("none"), FREE_PORT);
        let ended = command.arg("--sign-key").arg(self.path(key)).output().expect("the program starts");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(!self.path("none").exists(), "nothing was touched");
        String::from_utf8(ended.stderr).expect("UTF-8").replace(text(self.0.path()), "DIR")
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[tokio::test]
async fn a_served_directory_is_attested_and_what_does_not_fit_is_status_4_with_its_place() {
    let place = Place::new();
    let mut command = serve(&place.path("bank.rebel"), &place.path("data"), FREE_PORT);
    command.arg("--sign-key").arg(place.path("key"));
    let served = Served::start(command);
    let (status, answer) = served.post("/Account/A1/Open", json!({"initialDeposit": "EUR 60.00"})).await;
    assert_eq!(status, StatusCode::OK, "{answer}");
    served.signal(Signal::TERM);
    let (status, log) = served.ended();
    assert!(status.success(), "{log}");
    let line = log.lines().find(|line| line.contains("attested the log")).expect("a witness");
    for what in ["position=", "hash=", "attestation=1", "key="] {
        assert!(line.contains(what), "{line}");
    }

    let (status, lines) = place.verified("key.pub");
    assert_eq!((status, lines.len()), (Some(0), 2), "{lines:?}");
    assert!(lines[0].starts_with("sound: segments 1, "), "{lines:?}");
    assert!(lines[1].starts_with("attested: attestations 1, up to record "), "{lines:?}");
    assert!(lines[1].ends_with("Z, records behind it 0"), "{lines:?}");

    let id = |line: &str| line.split_once("the key ").map(|(_, rest)| rest[..16].to_owned());
    let (status, lines) = place.verified("other.pub");
    assert_eq!(status, Some(4));
    assert!(
        lines[0].starts_with("attestations is damaged at byte 0: the attestation is signed with the key "),
        "{lines:?}"
    );
    assert!(log.contains(&format!("key={}", id(&lines[0]).expect("named"))), "{lines:?}");
    assert!(lines[1].starts_with("attested: nothing, of records "), "{lines:?}");

    fs::remove_file(place.path("data/attestations")).expect("there");
    let (status, lines) = place.verified("key.pub");
    assert_eq!((status, lines[0].as_str()), (Some(4), "attestations is damaged at byte 0: the file is missing"));
}

#[test]
fn a_key_is_made_for_its_owner_alone_and_one_that_is_not_is_refused_with_the_command_that_helps() {
    let place = Place::new();
    let mode = fs::metadata(place.path("key")).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let before = fs::read(place.path("key")).expect("made");
    let again = enact(&["sign-key", text(&place.path("key"))]);
    assert_eq!((again.status.code(), again.stdout), (Some(2), vec![]));
    assert_eq!(fs::read(place.path("key")).expect("made"), before, "a key is never overwritten");

    assert_eq!(
        place.refused("key.pub"),
        "error: DIR/key.pub is open to other users (mode 0644): chmod 600 DIR/key.pub\n"
    );
    fs::set_permissions(place.path("key.pub"), Permissions::from_mode(0o600)).expect("ours");
    assert_eq!(place.refused("key.pub"), "error: DIR/key.pub has no private key, or more than one, in PEM\n");
    assert_eq!(place.verified("key").1, ["error: DIR/key has no public key in PEM"]);
    let rsa = "-----BEGIN PRIVATE KEY-----\nMIIBVgIBADANBgkqhkiG9w0BAQEFAASCAUA=\n-----END PRIVATE KEY-----\n";
    fs::write(place.path("key.pub"), rsa).expect("ours");
    let unfit = "error: DIR/key.pub has no key that can be used: it is no private key of Ed25519 in PKCS#8\n";
    assert_eq!(place.refused("key.pub"), unfit);
}
