//! A backup of all shards under load, and another cluster that goes on from it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use enact_cluster::{Journals, Restoration};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};

use super::{ACCOUNTS, Place, balance, balances, open_all, serves};
use crate::served::{Served, program};

pub(super) const SHARDS: u16 = 3;
/// How many payments have been acknowledged when the backup begins, at least.
pub(super) const PAID_MIN: usize = 200;

/// A node of three shards.
pub(super) fn command(place: &Place, node: &str) -> Command {
    let mut command = place.command(node);
    command.args(["--shards", &SHARDS.to_string()]);
    command
}

/// Runs `enact cluster WORDS`; its status and all that it said.
pub(super) fn cluster(words: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = program().arg("cluster").args(words).output().expect("it ends");
    let text = [stdout, stderr].map(|said| String::from_utf8(said).expect("UTF-8")).concat();
    (status.code(), text)
}

/// Clients that let accounts pay each other, and the transactions that were acknowledged to them.
pub(super) struct Payers {
    is_over: Arc<AtomicBool>,
    paid: Arc<Mutex<BTreeSet<String>>>,
    clients: Vec<JoinHandle<()>>,
}

impl Payers {
    pub(super) fn of(nodes: &[&Served]) -> Self {
        Self::told(nodes, &[StatusCode::SERVICE_UNAVAILABLE])
    }

    /// Those of nodes that may lose each other, or their servers: what is under way then is in doubt.
    pub(super) fn of_disturbed(nodes: &[&Served]) -> Self {
        Self::told(nodes, &[StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT])
    }

    /// Clients that may be told these failures.
    fn told(nodes: &[&Served], failures: &'static [StatusCode]) -> Self {
        let (is_over, paid) = (Arc::new(AtomicBool::new(false)), Arc::<Mutex<BTreeSet<String>>>::default());
        let clients = (0..6).map(|client| {
            let (is_over, paid, base) = (Arc::clone(&is_over), Arc::clone(&paid), nodes[client % nodes.len()].url(""));
            tokio::spawn(pay(client, base, failures, is_over, paid))
        });
        Self { is_over: Arc::clone(&is_over), paid: Arc::clone(&paid), clients: clients.collect() }
    }

    pub(super) async fn paid(&self, count: usize) -> BTreeSet<String> {
        loop {
            let paid = self.paid.lock().expect("unharmed").clone();
            if paid.len() >= count {
                return paid;
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.await.expect("it ends");
        }
    }
}

async fn pay(
    client: usize,
    base: String,
    failures: &[StatusCode],
    is_over: Arc<AtomicBool>,
    paid: Arc<Mutex<BTreeSet<String>>>,
) {
    let http = reqwest::Client::new();
    for n in 0.. {
        let (from, to) = ((client * 5 + n * 7) % ACCOUNTS, (client + n * 5 + 1) % ACCOUNTS);
        if from == to {
            continue;
        }
        let body = json!({ "amount": "EUR 1.00", "to": format!("A{to}") });
        let answer = http.post(format!("{base}/Account/A{from}/Pay")).json(&body).send().await.expect("an answer");
        let (status, body) = (answer.status(), answer.json::<Value>().await.expect("JSON"));
        if status == StatusCode::OK {
            paid.lock().expect("unharmed").insert(body["transaction"].as_str().expect("an id").to_owned());
        } else {
            let is_known = failures.contains(&status) || body["detail"] == "insufficient funds";
            assert!(is_known, "{status}: {body}");
        }
        if is_over.load(Ordering::Relaxed) {
            return;
        }
    }
}

/// The time of a transaction, and its events by their names.
pub(super) type Transaction = (String, Vec<String>);

/// The transactions in all shards.
pub(super) fn exported(servers: &str) -> BTreeMap<String, Transaction> {
    let mut transactions = BTreeMap::<String, Transaction>::new();
    for shard in 0..SHARDS {
        let mut export = program();
        export.args(["journal", "export", "--journal", servers, "--shard", &shard.to_string()]);
        let exported = export.output().expect("it ends");
        for line in String::from_utf8(exported.stdout).expect("UTF-8").lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let text = |member: &str| line[member].as_str().expect("text").to_owned();
            let (at, events) = transactions.entry(text("transaction")).or_default();
            *at = text("at");
            events.push(text("event"));
        }
    }
    transactions.values_mut().for_each(|(_, events)| events.sort());
    transactions
}

/// Asserts that no transaction lacks a part.
fn assert_whole(transactions: &BTreeMap<String, Transaction>) {
    let is_half = |events: &[String]| !["Open"; 1].eq(events) && events != ["Pay", "Receive"];
    let halves: Vec<_> = transactions.iter().filter(|(_, (_, events))| is_half(events)).collect();
    assert!(halves.is_empty(), "{halves:?}");
}

/// Waits until what was decided and not told, or promised and not decided, is taken up in a cluster that was restored.
pub(super) async fn settled(node: &Served, place: &Place) {
    let total = 100 * i64::try_from(ACCOUNTS).expect("few");
    while balances(node).await.values().sum::<i64>() != total {}
    let audited = || block_in_place(|| place.audit(&["--cluster", &place.servers()]));
    while audited().contains("in doubt: ") {}
    assert_eq!(balances(node).await.values().sum::<i64>(), total);
    assert!(audited().starts_with("clean: shards 3, entities 12"), "{}", audited());
}

/// A copy of the backup for damage to be done.
fn copy(backup: &Path, name: &str) -> PathBuf {
    let copy = backup.with_file_name(name);
    fs::create_dir(&copy).expect("a directory");
    for file in fs::read_dir(backup).expect("a directory") {
        let file = file.expect("a file");
        fs::copy(file.path(), copy.join(file.file_name())).expect("copied");
    }
    copy
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_goes_on_from_a_backup_under_load_with_every_payment_whole_and_all_that_were_acknowledged_before() {
    let (Some(from), Some(to)) = (Place::over_one(), Place::over_one()) else { return };
    let backup = from.directory.path().join("backup");
    let path = backup.to_str().expect("UTF-8");
    let (a, b) = (Served::start(command(&from, "a")), Served::start(command(&from, "b")));
    open_all(&a).await;
    let payers = Payers::of(&[&a, &b]);
    let acknowledged = payers.paid(PAID_MIN).await;
    let words = ["backup", path, "--cluster", &from.servers()].map(str::to_owned);
    let words = words.each_ref().map(String::as_str);
    let (code, said) = block_in_place(|| cluster(&words));
    assert!(code == Some(0) && said.starts_with("backed up: shards 3, groups "), "{said}");
    payers.end().await;
    drop((a, b));
    let (code, said) = cluster(&words);
    assert!(code == Some(2) && said.contains("is there already"), "{said}");

    let (code, sound) = cluster(&["verify", "--backup", path]);
    assert!(code == Some(0) && sound.starts_with("sound: shards 3, groups "), "{sound}");
    let damaged = [
        ("flipped", "shard-001.backup", 4),
        ("missing", "shard-002.backup", 2),
        ("exchanged", "backup of something else than", 4),
        ("unnamed", "has no `cluster.json`", 4),
    ];
    for (name, reason, status) in damaged {
        let copy = copy(&backup, name);
        let file = |shard: u16| copy.join(format!("shard-{shard:03}.backup"));
        match name {
            "flipped" => {
                let mut bytes = fs::read(file(1)).expect("a file");
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                fs::write(file(1), bytes).expect("written");
            }
            "missing" => fs::remove_file(file(2)).expect("removed"),
            "exchanged" => drop(fs::copy(file(1), file(2)).expect("copied")),
            _ => fs::remove_file(copy.join("cluster.json")).expect("removed"),
        }
        let copy = copy.to_str().expect("UTF-8");
        for words in [&["verify", "--backup", copy][..], &["restore", copy, "--cluster", &to.servers()]] {
            let (code, said) = cluster(words);
            assert!(code == Some(status) && said.contains(reason), "{name}: {code:?}, {said}");
        }
    }

    // Nothing was written by those, and as long as it is not whole no node serves it.
    let restore = ["restore", path, "--cluster", &to.servers(), "--replicas", "1"].map(str::to_owned);
    let restore = restore.each_ref().map(String::as_str);
    let restoration =
        Restoration::begin(&to.servers().into(), &Journals::Streams, SHARDS, 1).await.expect("there is nothing");
    let refused = command(&to, "a").output().expect("it ends");
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    for said in [String::from_utf8(refused.stderr).expect("UTF-8"), cluster(&restore).1] {
        assert!(said.contains("being restored from a backup, or were until that was cut off"), "{said}");
    }
    assert!(restoration.abandon().await);

    let (code, restored) = cluster(&restore);
    let totals = |said: &str, before: &str, after: &str| {
        said.trim_end().strip_prefix(before).and_then(|said| said.split(after).next()).map(str::to_owned)
    };
    let begun = ", begun at ";
    assert_eq!(code, Some(0), "{restored}");
    assert_eq!(totals(&restored, "restored: ", begun), totals(&sound, "sound: ", begun));
    let (code, said) = cluster(&restore);
    assert!(code == Some(4) && said.contains("there are nodes with 3 shards already"), "{said}");

    let (a, b) = (Served::start(command(&to, "a")), Served::start(command(&to, "b")));
    let total = 100 * i64::try_from(ACCOUNTS).expect("few");
    settled(&a, &to).await;
    assert_eq!(balance(b.url("/Account"), 0).await, balance(a.url("/Account"), 0).await);
    let there = block_in_place(|| exported(&to.servers()));
    assert_whole(&there);
    let lost: Vec<_> = acknowledged.iter().filter(|&tx| !there.contains_key(tx)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let (code, said) = block_in_place(|| cluster(&["verify", "--cluster", &to.servers()]));
    assert!(code == Some(0) && said.starts_with("sound: shards 3, entities "), "{said}");

    // Money moves on.
    let payers = Payers::of(&[&a, &b]);
    payers.paid(20).await;
    payers.end().await;
    assert_eq!(balances(&b).await.values().sum::<i64>(), total);
    drop((a, b));

    // To when half of the payments had been taken.
    let Some(then) = Place::over_one() else { return };
    let mut times: Vec<&String> = there.values().map(|(at, _)| at).collect();
    times.sort();
    let time = times[times.len() / 2];
    let words = ["restore", path, "--cluster", &then.servers(), "--replicas", "1", "--until", time].map(str::to_owned);
    let (code, said) = cluster(&words.each_ref().map(String::as_str));
    let lines: Vec<&str> = said.lines().collect();
    let [kept, left_out] = &lines[..] else { panic!("{said}") };
    assert_eq!(code, Some(0), "{said}");
    assert!(kept.starts_with("restored: shards 3, groups ") && left_out.starts_with("left out: groups "), "{said}");
    let node = Served::start(command(&then, "a"));
    settled(&node, &then).await;
    let earlier = block_in_place(|| exported(&then.servers()));
    assert_whole(&earlier);
    assert!(earlier.values().all(|(at, _)| at <= time), "{time}: {earlier:?}");
    assert!(earlier.keys().all(|tx| there.contains_key(tx)));
    assert!(earlier.len() > ACCOUNTS && earlier.len() < there.len(), "{} of {}", earlier.len(), there.len());
}

#[tokio::test]
async fn a_first_node_joins_where_a_restore_was_given_up_and_nothing_is_restored_beside_it() {
    let Some(place) = Place::over_one() else { return };
    let restoration =
        Restoration::begin(&place.servers().into(), &Journals::Streams, SHARDS, 1).await.expect("there is nothing");
    assert!(restoration.abandon().await);
    let node = Served::start(command(&place, "a"));
    serves(&node, usize::from(SHARDS)).await;
    let refused =
        Restoration::begin(&place.servers().into(), &Journals::Streams, SHARDS, 1).await.expect_err("there is a node");
    assert!(refused.to_string().contains("there are nodes with 3 shards already"), "{refused}");
}
