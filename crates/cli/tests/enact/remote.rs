//! What the program does over a journal on servers, whichever they are.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use enact_journal::BackupReader;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{BANK, FREE_PORT, Served, enact, http, program, serve};

/// A journal at an address, and a place for specifications.
pub(crate) struct Remote {
    address: String,
    directory: TempDir,
}

impl Remote {
    pub(crate) fn at(address: String) -> Self {
        Self { address, directory: tempfile::tempdir().expect("a directory") }
    }

    fn spec(&self, name: &str, text: &str) -> PathBuf {
        let spec = self.directory.path().join(name);
        std::fs::write(&spec, text).expect("writable");
        spec
    }

    /// `enact serve SPEC --journal ADDRESS`
    fn serve(&self, spec: &Path) -> Command {
        let mut command = program();
        command.arg("serve").arg(spec).args(["--journal", &self.address, "--listen", FREE_PORT]);
        command
    }

    fn serve_shard(&self, shard: u16) -> Command {
        let mut command = self.serve_bank();
        command.args(["--shard", &shard.to_string()]);
        command
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) fn serve_bank(&self) -> Command {
        self.serve(&self.spec("bank.rebel", BANK))
    }

    /// What `enact journal ..` prints.
    #[track_caller]
    fn journal(arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = enact(&[&["journal"], arguments].concat());
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(status.success() && stderr.is_empty(), "{arguments:?}: {status}, {stderr}");
        String::from_utf8(stdout).expect("UTF-8")
    }

    /// What `enact contract .. --journal ADDRESS` says, with its status.
    fn contract(&self, what: &str, spec: Option<&Path>) -> (Option<i32>, String) {
        let mut command = program();
        command.args(["contract", what]).args(spec).args(["--journal", &self.address]);
        let output = command.output().expect("it ends");
        let said = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(said).expect("UTF-8"))
    }
}

async fn open(served: &Served) {
    let (status, body) = served.post("/Account/A1/Open", json!({ "initialDeposit": "EUR 50.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}

/// The status of a deposit, and whether it is that of an earlier one with the same key.
async fn deposit(served: &Served, key: &str) -> (StatusCode, bool) {
    let answer = http()
        .post(served.url("/Account/A1/Deposit"))
        .header("idempotency-key", key)
        .json(&json!({ "amount": "EUR 7.00" }))
        .send()
        .await
        .expect("an answer");
    (answer.status(), answer.headers().contains_key("idempotency-replayed"))
}

async fn balance(served: &Served) -> Value {
    let (status, account) = served.get("/Account/A1").await;
    assert_eq!(status, StatusCode::OK, "{account}");
    account["fields"]["balance"].clone()
}

/// What was acknowledged is there after kills of the program and of the server, which `restart` kills and starts, and after a stop.
pub(crate) async fn what_was_acknowledged_is_there(remote: &Remote, mut restart: impl FnMut()) {
    let served = Served::start(remote.serve_bank());
    open(&served).await;
    assert_eq!(deposit(&served, "first").await, (StatusCode::OK, false));
    served.kill();

    let served = Served::start(remote.serve_bank());
    assert_eq!(balance(&served).await, json!("EUR 57.00"));
    assert_eq!(deposit(&served, "first").await, (StatusCode::OK, true), "it happened once");
    restart();
    assert_eq!(deposit(&served, "second").await, (StatusCode::OK, false), "it waits for the server");
    served.kill();
    restart();
    let served = Served::start(remote.serve_bank());
    assert_eq!(balance(&served).await, json!("EUR 64.00"));
    served.signal(Signal::TERM);
    let (ended, log) = served.ended();
    assert_eq!(ended.code(), Some(0), "{log}");
    let served = Served::start(remote.serve_bank());
    assert_eq!(balance(&served).await, json!("EUR 64.00"));
}

/// A second program takes over, and the first one ends without an effect.
pub(crate) async fn a_second_one_takes_over(remote: &Remote) {
    let first = Served::start(remote.serve_bank());
    open(&first).await;
    let second = Served::start(remote.serve_bank());
    assert_eq!(balance(&second).await, json!("EUR 50.00"));
    let (status, _) = deposit(&first, "late").await;
    assert!(status.is_server_error(), "{status}");
    let (ended, log) = first.ended();
    assert_eq!(ended.code(), Some(6), "{log}");
    assert!(log.contains("the journal was taken over by"), "{log}");
    assert_eq!(balance(&second).await, json!("EUR 50.00"));
    assert_eq!(deposit(&second, "late").await, (StatusCode::OK, false), "it has not happened");
    assert_eq!(balance(&second).await, json!("EUR 57.00"));
}

/// One that was replaced shows and refuses nothing, if reads are behind barriers.
pub(crate) async fn one_that_was_replaced_is_silent_behind_barriers(remote: &Remote) {
    let behind_barriers = || {
        let mut command = remote.serve_bank();
        command.arg("--barrier-reads");
        Served::start(command)
    };
    open(&behind_barriers()).await;
    let payment = json!({ "amount": "EUR 1000.00", "to": "A2" });
    for (key, refused) in [("read", None), ("paid", Some(payment))] {
        let first = behind_barriers();
        let before = balance(&first).await;
        let second = behind_barriers();
        assert_eq!(deposit(&second, key).await, (StatusCode::OK, false));
        let (status, body) = match refused {
            None => first.get("/Account/A1").await,
            Some(payment) => first.post("/Account/A1/Pay", payment).await,
        };
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
        assert_ne!(balance(&second).await, before);
        let (ended, log) = first.ended();
        assert_eq!(ended.code(), Some(6), "{log}");
    }
}

/// A journal keeps the specification that its entities were written under; `unopened` is said of one that was never opened, and `place` is
/// what it is called.
pub(crate) async fn the_specification_is_kept(remote: &Remote, unopened: &str, place: &str) {
    let first = remote.spec("bank.rebel", BANK);
    let stricter = BANK.replace("initialDeposit >= EUR 0.00", "initialDeposit >= EUR 60.00");
    let stricter = remote.spec("stricter.rebel", &stricter);
    let (status, said) = remote.contract("check", Some(&first));
    assert!(status == Some(4) && said.contains(unopened), "{said}");
    let served = Served::start(remote.serve(&first));
    open(&served).await;
    let nothing = "nothing changes: this is the specification of the entities\n".to_owned();
    assert_eq!(remote.contract("check", Some(&first)), (Some(0), nothing));
    assert_eq!(remote.contract("check", Some(&stricter)).0, Some(5));
    assert_eq!(balance(&served).await, json!("EUR 50.00"), "it was not disturbed");
    served.kill();
    let rollback = remote.contract("rollback", None);
    assert!(rollback.0 == Some(5) && rollback.1.contains("there is no version before 1"), "{rollback:?}");
    let said = refused(remote.serve(&stricter), 5);
    assert!(said.contains("the specification does not allow what has happened"), "{said}");
    assert!(said.contains(place), "{said}");
}

/// The keys are beside the program, the records of erasures with all others.
pub(crate) async fn what_was_erased_stays_erased(remote: &Remote) {
    let spec = remote.spec("customers.rebel", include_str!("../../../../examples/customers.rebel"));
    let keys = remote.directory.path().join("keys");
    let start = || {
        let mut command = remote.serve(&spec);
        command.arg("--subject-keys").arg(&keys);
        Served::start(command)
    };
    let served = start();
    for id in ["c1", "c2"] {
        let register = json!({ "called": "Ada Lovelace", "isAdult": true });
        assert_eq!(served.post(&format!("/Customer/{id}/Register"), register).await.0, StatusCode::OK);
    }
    let (status, erased) = served.post("/Customer/c1/-/erase", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{erased}");
    served.kill();
    let served = start();
    let (_, one) = served.get("/Customer/c1").await;
    assert_eq!((&one["fields"]["name"], &one["erased"]), (&json!(null), &json!(["name"])), "{one}");
    let (_, other) = served.get("/Customer/c2").await;
    assert_eq!(other["fields"]["name"], json!("Ada Lovelace"));
    let (_, changes) = served.get("/-/changes").await;
    let told = changes["changes"].as_array().expect("changes").iter().filter(|change| change.get("erasure").is_some());
    assert_eq!(told.map(|change| &change["erasure"]).collect::<Vec<_>>(), [&erased], "{changes}");
    served.signal(Signal::TERM);
    assert!(served.ended().0.success());
    let exported = Remote::journal(&["export", "--journal", &remote.address]);
    assert!(exported.lines().any(|line| line.contains(r#""erasure":true"#)), "{exported}");
    assert!(!exported.contains("Lovelace"), "{exported}");
}

/// A backup is taken beside the server and restored to a directory, in which the entities go on, and the events are exported.
pub(crate) async fn a_backup_is_restored_to_a_directory(remote: &Remote) {
    let served = Served::start(remote.serve_bank());
    open(&served).await;
    let (status, body) = served.post("/Account/A2/Open", json!({ "initialDeposit": "EUR 0.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let pay = || served.post("/Account/A1/Pay", json!({ "amount": "EUR 5.00", "to": "A2" }));
    assert_eq!(pay().await.0, StatusCode::OK);
    let backup = remote.directory.path().join("bank.backup");
    let backup = backup.to_str().expect("text");
    Remote::journal(&["backup", backup, "--journal", &remote.address]);
    assert_eq!(pay().await.0, StatusCode::OK, "it was not disturbed");

    let events = |exported: &str| {
        let event = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["event"].clone();
        exported.lines().map(event).collect::<Vec<_>>()
    };
    let spec = remote.spec("bank.rebel", BANK);
    for (option, journal, transactions) in [("--journal", &*remote.address, 4), ("--backup", backup, 3)] {
        let Output { status, stdout, stderr } = enact(&["audit", spec.to_str().expect("text"), option, journal]);
        let said = String::from_utf8([stdout, stderr].concat()).expect("UTF-8");
        let clean = format!("clean: entities 2, transactions {transactions}\n");
        assert!(status.success() && said == clean, "{status}: {said}");
    }
    let exported = Remote::journal(&["export", "--backup", backup]);
    // Receive and Pay are one transaction; which stands first is not said.
    assert_eq!(events(&exported)[..2], [json!("Open"), json!("Open")], "{exported}");
    assert_eq!(events(&exported).len(), 4, "{exported}");
    let all = Remote::journal(&["export", "--journal", &remote.address]);
    assert!(all.starts_with(&exported) && events(&all).len() == 6, "{all}");

    let data = remote.directory.path().join("restored");
    Remote::journal(&["restore", backup, "--data", data.to_str().expect("text")]);
    Remote::journal(&["verify", "--data", data.to_str().expect("text")]);
    let restored = Served::start(serve(&remote.spec("bank.rebel", BANK), &data, FREE_PORT));
    assert_eq!(balance(&restored).await, json!("EUR 45.00"));
    assert_eq!(deposit(&restored, "later").await, (StatusCode::OK, false), "it goes on");
    assert_eq!(balance(&served).await, json!("EUR 40.00"), "the other goes its own way");

    // What is kept is the beginning of what was there.
    let first: Value = serde_json::from_str(exported.lines().next().expect("an event")).expect("JSON");
    let earlier = remote.directory.path().join("earlier");
    let until = first["at"].as_str().expect("a time");
    Remote::journal(&["restore", backup, "--data", earlier.to_str().expect("text"), "--until", until]);
    let kept = Remote::journal(&["export", "--data", earlier.to_str().expect("text")]);
    assert!(exported.starts_with(&kept) && !kept.is_empty(), "{kept}");
}

/// What differs between servers that a backup is restored to.
pub(crate) struct Refusals<'a> {
    /// Why a journal that is being filled is not read.
    pub(crate) unread: &'a str,
    /// Why it is not filled by another one.
    pub(crate) busy: &'a str,
    /// Why one that is there is not filled.
    pub(crate) full: &'a str,
    /// Whether what a killed one has left is removed by hand.
    pub(crate) leaves_a_rest: bool,
}

/// A backup is restored to servers: whole or not at all, and as it was; the number of a journal that was restored. `is_begun` says whether
/// one is being filled.
pub(crate) async fn a_backup_is_restored_to_servers(
    remote: &Remote,
    refusals: &Refusals<'_>,
    is_begun: impl AsyncFn() -> bool,
) -> u16 {
    let served = Served::start(remote.serve_bank());
    open(&served).await;
    let (status, body) = served.post("/Account/A2/Open", json!({ "initialDeposit": "EUR 0.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    assert_eq!(deposit(&served, "first").await, (StatusCode::OK, false));
    let early = remote.directory.path().join("early.backup");
    let early = early.to_str().expect("text");
    Remote::journal(&["backup", early, "--journal", &remote.address]);
    assert_eq!(served.post("/Account/A1/Pay", json!({ "amount": "EUR 5.00", "to": "A2" })).await.0, StatusCode::OK);
    let backup = remote.directory.path().join("bank.backup");
    let backup = backup.to_str().expect("text");
    Remote::journal(&["backup", backup, "--journal", &remote.address]);

    // One that is killed has read half of the backup.
    let pipe = remote.directory.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).expect("a pipe");
    let mut first = program();
    first.args(["journal", "restore"]).arg(&pipe).args(["--journal", &remote.address, "--shard", "1"]);
    let mut first = first.spawn().expect("it starts");
    let bytes = std::fs::read(backup).expect("the backup");
    let mut writing = std::fs::OpenOptions::new().write(true).open(&pipe).expect("it reads");
    writing.write_all(&bytes[..bytes.len() / 2]).expect("written");
    let on = |shard: &'static str| ["--journal", &*remote.address, "--shard", shard];
    let verify = |shard| refused_by(&[&["journal", "verify"][..], &on(shard)].concat(), 4);
    while !is_begun().await {}
    let said = verify("1");
    assert!(said.contains(refusals.unread), "{said}");
    let restore = |shard| refused_by(&[&["journal", "restore", backup][..], &on(shard)].concat(), 4);
    let said = restore("1");
    assert!(said.contains(refusals.busy), "{said}");
    first.kill().expect("it runs");
    first.wait().expect("its end");
    drop(writing);
    let (shard, number) = if refusals.leaves_a_rest {
        for said in [verify("1"), restore("1"), refused(remote.serve_shard(1), 4)] {
            assert!(said.contains(refusals.busy), "{said}");
        }
        ("2", 2)
    } else {
        ("1", 1)
    };

    // A file that is damaged at its end leaves nothing.
    let cut = remote.directory.path().join("cut.backup");
    std::fs::write(&cut, &bytes[..bytes.len() - 1]).expect("written");
    refused_by(&[&["journal", "restore", cut.to_str().expect("text")][..], &on(shard)].concat(), 4);

    let printed = Remote::journal(&[&["restore", backup][..], &on(shard)].concat());
    assert!(printed.starts_with("restored: groups "), "{printed}");
    let said = restore(shard);
    assert!(said.contains(refusals.full), "{said}");
    let sound = Remote::journal(&[&["verify"][..], &on(shard)].concat());
    assert!(sound.starts_with("sound: entities ") && sound.contains(", records "), "{sound}");
    let again = remote.directory.path().join("again.backup");
    let again = again.to_str().expect("text");
    Remote::journal(&[&["backup", again][..], &on(shard)].concat());
    let groups = |file: &str| {
        let backup = BackupReader::open(Path::new(file)).expect("a backup");
        backup.map(|group| group.expect("whole")).collect::<Vec<_>>()
    };
    assert_eq!(groups(again), groups(backup));

    let restored = Served::start(remote.serve_shard(number));
    for path in ["/Account/A1", "/Account/A2", "/Account/A1/-/history", "/Account?limit=10"] {
        assert_eq!(restored.get(path).await, served.get(path).await, "{path}");
    }
    assert_eq!(deposit(&restored, "first").await, (StatusCode::OK, true), "it happened before the backup");
    assert_eq!(deposit(&restored, "second").await, (StatusCode::OK, false), "it goes on");
    let spec = remote.spec("bank.rebel", BANK);
    let audited = enact(&[&["audit", spec.to_str().expect("text")][..], &on(shard)].concat());
    assert_eq!(String::from_utf8_lossy(&audited.stdout), "clean: entities 2, transactions 5\n");

    // The time of the last transaction of the earlier backup.
    let events = Remote::journal(&["export", "--backup", early]);
    let last: Value = serde_json::from_str(events.lines().last().expect("an event")).expect("JSON");
    let until = ["--until", last["at"].as_str().expect("a time")];
    Remote::journal(&[&["restore", backup][..], &on("3"), &until].concat());
    assert_eq!(Remote::journal(&[&["export"][..], &on("3")].concat()), events);
    number
}

/// What the command prints and says that ends with `status`.
#[track_caller]
pub(crate) fn refused_by(arguments: &[&str], status: i32) -> String {
    let Output { status: found, stdout, stderr } = enact(arguments);
    let said = String::from_utf8([stdout, stderr].concat()).expect("UTF-8");
    assert_eq!(found.code(), Some(status), "{arguments:?}: {said}");
    said
}

/// What the program says that ends with `status`.
pub(crate) fn refused(mut command: Command, status: i32) -> String {
    let output = command.output().expect("it ends");
    let said = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(status), "{said}");
    said
}
