//! A contract in several versions, on a directory that was written before there were any.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::served::{FREE_PORT, Served, enact, serve};

const SHOP: &str = include_str!("written_by_1/shop.rebel");
const MANIFEST: &str = include_str!("written_by_1/manifest.hex");
const SEGMENT: &str = include_str!("written_by_1/segment-0000000001.hex");

/// What the second version changes: fields and states have other names, a field is computed, one class is gone, and the
/// new rule is one that account B breaks.
fn second() -> String {
    let classes = SHOP
        .replace("holder", "owner")
        .replace("  overdraft: Integer = 0\n", "  limit: Money\n  visits: Integer = 1\n  invariant \"at least EUR 50.00 or gold\": balance >= EUR 50.00 or grade == Grade.gold\n")
        .replace("            this.balance = deposit\n", "            this.balance = deposit\n            this.limit = EUR 0.00\n")
        .replace("frozen", "blocked");
    let (account, _note) = classes.split_once("class Note").expect("the second class");
    format!(
        "module shop version 2\n{account}migrate from 1\n  drop Note\n  rename Account.holder to owner\n  state Account.frozen -> blocked\n  \
         drop Account.overdraft\n  Account.limit = if grade == Grade.gold then EUR 100.00 else balance * 50%\n"
    )
}

/// The bytes that lines of hexadecimal digits stand for.
fn bytes(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("two digits");
    digits.chunks(2).map(byte).collect()
}

struct Store {
    directory: TempDir,
}

impl Store {
    /// A copy of the directory that an earlier program wrote.
    fn old() -> Self {
        let directory = tempfile::tempdir().expect("a place for the test");
        let data = directory.path().join("data");
        fs::create_dir(&data).expect("writable");
        fs::set_permissions(&data, fs::Permissions::from_mode(0o700)).expect("ours");
        for (name, digits) in [("manifest", MANIFEST), ("segment-0000000001.log", SEGMENT)] {
            fs::write(data.join(name), bytes(digits)).expect("writable");
            fs::set_permissions(data.join(name), fs::Permissions::from_mode(0o600)).expect("ours");
        }
        Self { directory }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    fn spec(&self, text: &str) -> PathBuf {
        let path = self.directory.path().join("shop.rebel");
        fs::write(&path, text).expect("writable");
        path
    }

    fn serve(&self, text: &str) -> Served {
        Served::start(serve(&self.spec(text), &self.data(), FREE_PORT))
    }

    fn adopt(&self, text: &str) -> Served {
        let mut command = serve(&self.spec(text), &self.data(), FREE_PORT);
        command.arg("--adopt");
        Served::start(command)
    }

    /// Ends at once; the status and all that was printed.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let data = self.data();
        let ended = enact(&[arguments, &["--data", text_of(&data)]].concat());
        let printed = [ended.stdout, ended.stderr].map(|bytes| String::from_utf8(bytes).expect("UTF-8")).concat();
        (ended.status.code(), printed)
    }

    fn refused(&self, text: &str) -> String {
        let spec = self.spec(text);
        let (status, printed) = self.run(&["serve", text_of(&spec), "--listen", FREE_PORT]);
        assert_eq!(status, Some(5), "{printed}");
        printed
    }

    fn check(&self, text: &str) -> (Option<i32>, String) {
        let spec = self.spec(text);
        self.run(&["contract", "check", text_of(&spec)])
    }

    fn segment(&self) -> Vec<u8> {
        let mut bytes = fs::read(self.data().join("segment-0000000001.log")).expect("readable");
        // A server that was killed leaves zeros behind the last group, which is padded to 8 bytes.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end.next_multiple_of(8));
        bytes
    }
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// The accounts as the program that wrote the directory served them.
fn first_accounts() -> [Value; 3] {
    let account = |holder: &str, balance: &str, grade: &str, tags: &[&str]| json!({ "holder": holder, "balance": balance, "grade": grade, "overdraft": 0, "tags": tags });
    [
        account("Ada", "EUR 40.00", "gold", &["promoted"]),
        account("Bob", "EUR 65.00", "basic", &[]),
        account("Cem", "EUR 7.00", "basic", &[]),
    ]
}

fn second_accounts() -> [Value; 3] {
    let account = |owner: &str, balance: &str, limit: &str, grade: &str, tags: &[&str]| json!({ "owner": owner, "balance": balance, "limit": limit, "visits": 1, "grade": grade, "tags": tags });
    [
        account("Ada", "EUR 40.00", "EUR 100.00", "gold", &["promoted"]),
        account("Bob", "EUR 65.00", "EUR 32.50", "basic", &[]),
        account("Cem", "EUR 7.00", "EUR 3.50", "basic", &[]),
    ]
}

async fn accounts(server: &Served) -> [(Value, Value); 3] {
    let mut found = Vec::new();
    for id in ["A", "B", "C"] {
        let (status, mut body) = server.get(&format!("/Account/{id}")).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        found.push((body["state"].take(), body["fields"].take()));
    }
    found.try_into().expect("three")
}

fn in_states(fields: [Value; 3], states: [&str; 3]) -> [(Value, Value); 3] {
    let mut states = states.into_iter();
    fields.map(|fields| (json!(states.next().expect("three")), fields))
}

fn at_first() -> [(Value, Value); 3] {
    in_states(first_accounts(), ["opened", "opened", "frozen"])
}

fn at_second() -> [(Value, Value); 3] {
    in_states(second_accounts(), ["opened", "opened", "blocked"])
}

/// The blocks below `## Change the contract` on the operator's page, without their indentation.
fn blocks_of_the_page() -> Vec<String> {
    let page = include_str!("../../../../docs/operations/serve.md");
    let (_, section) = page.split_once("## Change the contract").expect("the section");
    let (section, _) = section.split_once("\n## ").expect("a section behind it");
    let mut blocks: Vec<String> = Vec::new();
    let mut is_inside = false;
    for line in section.lines() {
        // Blocks of a list are indented by eight blanks, others by four.
        let code = line.strip_prefix("        $").map(|rest| format!("$ {}", rest.trim_start()));
        let code = code.or_else(|| line.strip_prefix("    ").map(str::to_owned));
        match code {
            Some(code) if is_inside => *blocks.last_mut().expect("it has begun") += &format!("{code}\n"),
            Some(code) => blocks.push(format!("{code}\n")),
            None if line.is_empty() => {
                if let Some(last) = blocks.last_mut().filter(|_| is_inside) {
                    last.push('\n');
                }
                continue;
            }
            None => {}
        }
        is_inside = line.starts_with("    ");
    }
    blocks
}

#[tokio::test]
async fn the_change_on_the_page_goes_as_the_page_says() {
    let blocks = blocks_of_the_page();
    let [first, second, looked, back] = &blocks[..] else { panic!("{blocks:#?}") };
    let store = Store { directory: tempfile::tempdir().expect("a place for the test") };
    let server = store.serve(first);
    for (id, deposit) in [("A", "EUR 10.00"), ("B", "EUR 20.00"), ("C", "EUR 0.00")] {
        let (status, body) =
            server.post(&format!("/Account/{id}/Open"), json!({ "name": id, "deposit": deposit })).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    assert_eq!(server.post("/Account/B/Freeze", json!({})).await.0, StatusCode::OK);
    server.kill();

    let lines = |text: &str| {
        text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect::<Vec<_>>()
    };
    let (status, said) = store.check(second);
    assert_eq!((status, lines(&said)), (Some(0), lines(looked)[1..].to_vec()));
    let (_, body) = store.adopt(second).get("/Account/B").await;
    assert_eq!(body["state"], "blocked");
    assert_eq!(body["fields"], json!({ "balance": "EUR 20.00", "limit": "EUR 2.00", "owner": "B" }));
    let (status, said) = store.run(&["contract", "rollback"]);
    assert_eq!((status, lines(&said)), (Some(0), lines(back)[1..].to_vec()));
    let (_, body) = store.serve(first).get("/Account/B").await;
    assert_eq!(body["fields"], json!({ "balance": "EUR 20.00", "holder": "B" }));
}

#[tokio::test]
async fn what_was_written_before_versions_is_served_and_a_request_is_not_repeated() {
    let store = Store::old();
    let server = store.serve(SHOP);
    assert_eq!(accounts(&server).await, at_first());
    let http = reqwest::Client::new();
    let again = http.post(server.url("/Account/A/Pay")).header("idempotency-key", "k1");
    let again = again.json(&json!({ "amount": "EUR 60.00", "to": "B" })).send().await.expect("serving");
    assert!(again.status() == StatusCode::OK || again.status().is_client_error(), "{again:?}");
    assert_eq!(accounts(&server).await, at_first());
}

#[tokio::test]
async fn a_later_version_is_served_only_if_it_is_said_and_every_entity_comes_to_it() {
    let store = Store::old();
    let before = store.segment();
    let refused = store.refused(&second());
    assert!(refused.contains("--adopt") && refused.contains("Account.holder is renamed to owner"), "{refused}");
    assert_eq!(store.segment(), before, "nothing was recorded");

    assert_eq!(accounts(&store.adopt(&second())).await, at_second());
    // From then on it is the contract, also without a word, and with a comment.
    assert_eq!(accounts(&store.serve(&second())).await, at_second());
    let server = store.adopt(&second().replace("class Account", "/// Money.\nclass  Account"));
    assert_eq!(accounts(&server).await, at_second());
    let (status, _) = server.get("/Note/n1").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    drop(server);

    let earlier = store.refused(SHOP);
    assert!(earlier.contains("of version 1") && earlier.contains("enact contract rollback"), "{earlier}");
}

#[tokio::test]
async fn a_dry_run_says_what_an_adoption_changes_and_changes_nothing() {
    let store = Store::old();
    let before = store.segment();
    let (status, said) = store.check(&second());
    assert_eq!(status, Some(0), "{said}");
    for part in [
        "from version 1 to version 2",
        "Account.holder is renamed to owner",
        "Account.overdraft is dropped",
        "Account.limit becomes `if grade == Grade.gold then EUR 100.00 else balance * 50%`",
        "Account.visits begins with 1, its default",
        "Account: instances in state frozen come into state blocked",
        "Note is dropped, with its instances",
        "entities: 4, of which 4 change (Account 3, Note 1)",
        "entities that break an invariant of version 2: 1",
        "Account/C: at least EUR 50.00 or gold",
    ] {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    let (status, said) = store.check(&second().replace("  drop Note\n", ""));
    assert!(status == Some(5) && said.contains("drop Note"), "{said}");
    let overflowing = second()
        .replace("else balance * 50%", "else balance * 99999999999% * 99999999999% * 99999999999% * 99999999999%");
    let (status, said) = store.check(&overflowing);
    assert!(status == Some(5) && said.contains("Account/B cannot be taken over from version 1"), "{status:?} {said}");
    let (status, said) = store.check(&format!("// A comment.\n{SHOP}"));
    assert!(status == Some(0) && said.contains("nothing changes"), "{said}");
    let (status, said) =
        store.check(&SHOP.replace("overdraft: Integer = 0", "overdraft: Integer = 0\n  visits: Integer = 0"));
    assert!(status == Some(0) && said.contains("the version stays"), "{said}");
    let (status, said) = store.check(&SHOP.replace("post: this.balance += amount", "post: this.balance += amount * 2"));
    assert!(status == Some(5) && said.contains("give the changed one a greater version"), "{said}");
    assert_eq!(store.segment(), before, "nothing was recorded");
    assert_eq!(accounts(&store.serve(SHOP)).await, at_first());
}

#[tokio::test]
async fn an_instance_that_breaks_a_stricter_rule_is_usable_by_what_mends_it_or_leaves_it_alone() {
    let store = Store::old();
    let server = store.adopt(&second());
    let post = |path: &'static str, body: Value| server.post(path, body);
    // C has EUR 7.00. It is broken, and thawing it reads nothing of the rule.
    let (status, body) = post("/Account/C/Thaw", json!({})).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    // What touches the balance has to make the rule hold.
    let (status, body) = post("/Account/C/Deposit", json!({ "amount": "EUR 5.00" })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    assert!(body.to_string().contains("at least EUR 50.00 or gold"), "{body}");
    let (status, body) = post("/Account/C/Deposit", json!({ "amount": "EUR 43.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    let (status, body) = post("/Account/C/Pay", json!({ "amount": "EUR 1.00", "to": "A" })).await;
    assert_eq!(status, StatusCode::CONFLICT, "{body}");
    // The same after a restart.
    server.kill();
    let server = store.serve(&second());
    let (_, body) = server.get("/Account/C").await;
    assert_eq!(body["fields"]["balance"], "EUR 50.00");
    assert_eq!(body["state"], "opened");
}

#[tokio::test]
async fn events_of_several_versions_are_replayed_each_under_its_own() {
    let store = Store::old();
    let server = store.adopt(&second());
    let (status, _) = server.post("/Account/A/Pay", json!({ "amount": "EUR 1.00", "to": "B" })).await;
    assert_eq!(status, StatusCode::OK);
    server.kill();
    // The third does something else at the same event, which rewrites nothing that has happened under the second.
    let third = second()
        .replace("version 2", "version 3")
        .replace("post: this.balance += amount", "post: this.balance += amount, this.visits += 1")
        .replace("migrate from 1\n", "migrate from 2\n  Account.visits = visits * 10\nmigrate from 1\n");
    let server = store.adopt(&third);
    let (status, _) = server.post("/Account/A/Pay", json!({ "amount": "EUR 1.00", "to": "B" })).await;
    assert_eq!(status, StatusCode::OK);
    let expected = |server: Served| async move {
        let (_, body) = server.get("/Account/B").await;
        assert_eq!(
            (&body["fields"]["balance"], &body["fields"]["visits"]),
            (&json!("EUR 67.00"), &json!(11)),
            "{body}"
        );
        server
    };
    expected(server).await.kill();
    expected(store.serve(&third)).await.kill();
    let (status, said) = store.run(&["contract", "rollback"]);
    assert!(status == Some(5) && said.contains("version 3 stays") && said.contains("Account/A"), "{said}");
}

#[tokio::test]
async fn a_version_that_is_left_out_needs_a_migration_of_its_own() {
    let store = Store::old();
    let third = second().replace("version 2", "version 3");
    let without = third.replace("migrate from 1", "migrate from 2");
    let refused = store.refused(&without);
    assert!(refused.contains("does not say how instances come to it from version 1"), "{refused}");
    assert_eq!(accounts(&store.adopt(&third)).await, at_second());
    assert_eq!(accounts(&store.serve(&third)).await, at_second());
}

#[tokio::test]
async fn a_version_is_taken_back_until_something_has_happened_under_it() {
    let store = Store::old();
    let (status, said) = store.run(&["contract", "rollback"]);
    assert!(status == Some(5) && said.contains("no version before 1"), "{said}");
    // Twice, so that one that was taken back may be adopted again.
    for _ in 0..2 {
        assert_eq!(accounts(&store.adopt(&second())).await, at_second());
        let (status, said) = store.run(&["contract", "rollback"]);
        assert!(status == Some(0) && said.contains("version 2 is taken back"), "{said}");
        assert_eq!(accounts(&store.serve(SHOP)).await, at_first());
    }
    // An event of the first version is nothing that holds up the next rollback.
    let server = store.serve(SHOP);
    assert_eq!(server.post("/Account/B/Deposit", json!({ "amount": "EUR 1.00" })).await.0, StatusCode::OK);
    server.kill();
    let server = store.adopt(&second());
    // Nor is a refused one.
    let (status, _) = server.post("/Account/A/Deposit", json!({ "amount": "EUR 0.00" })).await;
    assert_eq!(status, StatusCode::CONFLICT);
    server.kill();
    assert_eq!(store.run(&["contract", "rollback"]).0, Some(0));
    let server = store.adopt(&second());
    assert_eq!(server.post("/Account/A/Deposit", json!({ "amount": "EUR 1.00" })).await.0, StatusCode::OK);
    server.kill();
    let before = store.segment();
    let (status, said) = store.run(&["contract", "rollback"]);
    assert!(status == Some(5) && said.contains("version 2 stays") && said.contains("Account/A"), "{said}");
    assert_eq!(store.segment(), before, "nothing was recorded");
}

#[tokio::test]
async fn a_change_under_one_version_of_several_is_compared_by_replay() {
    let store = Store::old();
    let server = store.adopt(&second());
    assert_eq!(server.post("/Account/A/Deposit", json!({ "amount": "EUR 1.00" })).await.0, StatusCode::OK);
    server.kill();
    let weaker = second().replace("balance - amount >= EUR 0.00", "balance - amount >= EUR -1.00");
    let (_, body) = store.serve(&weaker).get("/Account/A").await;
    assert_eq!(body["fields"]["balance"], "EUR 41.00");
    let other = second().replace("post: this.balance += amount", "post: this.balance += amount * 2");
    let refused = store.refused(&other);
    assert!(refused.contains("would change Account/A"), "{refused}");
    // What comes from the first version is part of what is compared.
    let computed = second().replace("balance * 50%", "balance * 10%");
    let refused = store.refused(&computed);
    assert!(refused.contains("would change Account/B: its limit is EUR 32.50"), "{refused}");
}

/// The directory as a power cut leaves it that comes when `bytes` of the log are written.
fn cut(bytes: &[u8]) -> Store {
    let store = Store::old();
    fs::write(store.data().join("segment-0000000001.log"), bytes).expect("writable");
    store
}

#[tokio::test]
async fn a_crash_during_an_adoption_leaves_one_version_or_the_other() {
    let store = Store::old();
    let before = store.segment();
    store.adopt(&second()).kill();
    let after = store.segment();
    assert_eq!(after[..before.len()], before[..], "an adoption is what it adds");
    let (mut adopted, mut left) = (0, 0);
    for length in (before.len()..after.len()).step_by(61).chain([after.len() - 1, after.len()]) {
        let store = cut(&after[..length]);
        let (status, said) = store.check(&second());
        assert_eq!(status, Some(0), "{length}: {said}");
        if said.contains("nothing changes") {
            adopted += 1;
            assert_eq!(accounts(&store.serve(&second())).await, at_second());
        } else {
            left += 1;
            assert_eq!(accounts(&store.serve(SHOP)).await, at_first());
            assert_eq!(accounts(&store.adopt(&second())).await, at_second());
        }
    }
    assert!(adopted == 1 && left > 10, "{adopted} {left}");
}

#[tokio::test]
async fn a_crash_at_first_touch_loses_nothing_and_one_at_the_first_event_leaves_it_whole_or_not_at_all() {
    let store = Store::old();
    store.adopt(&second()).kill();
    let adopted = store.segment();
    let server = store.serve(&second());
    assert_eq!(accounts(&server).await, at_second());
    server.kill();
    assert_eq!(store.segment(), adopted, "an instance that comes to another version is not written");

    let server = store.serve(&second());
    assert_eq!(server.post("/Account/A/Pay", json!({ "amount": "EUR 1.00", "to": "B" })).await.0, StatusCode::OK);
    server.kill();
    let paid = store.segment();
    let (mut whole, mut lost) = (0, 0);
    for length in (adopted.len()..paid.len()).step_by(61).chain([paid.len() - 1, paid.len()]) {
        let store = cut(&paid[..length]);
        let found = accounts(&store.serve(&second())).await;
        if found == at_second() {
            lost += 1;
            assert_eq!(store.run(&["contract", "rollback"]).0, Some(0));
        } else {
            whole += 1;
            let mut expected = at_second();
            expected[0].1["balance"] = json!("EUR 39.00");
            expected[1].1["balance"] = json!("EUR 66.00");
            assert_eq!(found, expected);
            assert_eq!(store.run(&["contract", "rollback"]).0, Some(5));
        }
    }
    assert!(whole == 1 && lost > 5, "{whole} {lost}");
}

#[tokio::test]
async fn a_snapshot_comes_to_the_next_version_and_a_later_one_is_of_that() {
    let store = Store { directory: tempfile::tempdir().expect("a place for the test") };
    let first = "class Account\n  balance: Money\n  initial unopened\n    on Open(): opened\n      post: this.balance = EUR 0.00\n  opened\n    \
                 on Deposit(amount: Money)\n      post: this.balance += amount\n";
    let second =
        first.replace("balance", "saldo").replace("  saldo: Money\n", "  saldo: Money\n  deposits: Integer = 0\n");
    let second = second.replace("+= amount", "+= amount, this.deposits += 1");
    let second = format!("module bank version 2\n{second}migrate from 1\n  rename Account.balance to saldo\n");
    // More effects than lie between two snapshots, each time.
    let deposit = async |server: &Served| {
        for _ in 0..300 {
            let (status, body) = server.post("/Account/A/Deposit", json!({ "amount": "EUR 1.00" })).await;
            assert_eq!(status, StatusCode::OK, "{body}");
        }
    };
    let stop = |server: Served| {
        server.signal(rustix::process::Signal::TERM);
        assert!(server.ended().0.success());
    };
    let server = store.serve(first);
    assert_eq!(server.post("/Account/A/Open", json!({})).await.0, StatusCode::OK);
    deposit(&server).await;
    stop(server);
    let server = store.adopt(&second);
    let fields = async |server: &Served| server.get("/Account/A").await.1["fields"].take();
    assert_eq!(fields(&server).await, json!({ "saldo": "EUR 300.00", "deposits": 0 }));
    deposit(&server).await;
    stop(server);
    let server = store.serve(&second);
    assert_eq!(fields(&server).await, json!({ "saldo": "EUR 600.00", "deposits": 300 }));
    assert!(store.data().join("snapshots.redb").exists(), "there was a snapshot to come from");
}

#[tokio::test]
async fn a_change_under_a_version_that_nothing_has_happened_under_does_not_hinder_its_rollback() {
    let store = Store::old();
    store.adopt(&second()).kill();
    let with_a_field = second().replace("  visits: Integer = 1\n", "  visits: Integer = 1\n  notes: Integer = 5\n");
    let server = store.serve(&with_a_field);
    let (_, body) = server.get("/Account/A").await;
    assert_eq!(body["fields"]["notes"], 5);
    server.signal(rustix::process::Signal::TERM);
    assert!(server.ended().0.success());
    assert_eq!(store.run(&["contract", "rollback"]).0, Some(0));
    assert_eq!(accounts(&store.serve(SHOP)).await, at_first());
}

#[tokio::test]
async fn a_class_that_was_dropped_and_is_there_again_begins_anew() {
    let store = Store::old();
    store.adopt(&second()).kill();
    let (_, note) = SHOP.split_once("class Note").expect("the second class");
    let note = format!("class Note{}", note.replace("  initial", "  invariant text != \"\"\n  initial"));
    let third = second().replace("version 2", "version 3").replace("migrate from 1", &format!("{note}migrate from 1"));
    let third = third.split("migrate from 1").next().expect("what is before").to_owned();
    let (status, said) = store.check(&third);
    assert!(
        status == Some(0) && said.contains("break an invariant of version 3: 1") && !said.contains("Note/"),
        "{said}"
    );
    let server = store.adopt(&third);
    assert_eq!(server.get("/Note/n1").await.0, StatusCode::NOT_FOUND);
    assert_eq!(server.post("/Note/n1/Write", json!({ "words": "again" })).await.0, StatusCode::OK);
    server.kill();
    let (_, body) = store.serve(&third).get("/Note/n1").await;
    assert_eq!(body["fields"], json!({ "text": "again" }));
}
