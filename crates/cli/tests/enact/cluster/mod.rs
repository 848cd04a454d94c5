//! Several programs share the entities: each answers for all, and those of one that is killed or frozen are served by the others.

mod backups;
mod contract;
#[cfg(feature = "postgres")]
mod database;
mod deploy;
mod faults;
mod insistent;
mod interrupted;
mod links;
mod members;
mod personal;
mod registers;
mod servers;
#[cfg(feature = "postgres")]
mod standbys;
mod traces;
mod workload;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use enact_journal_kit::link::Link;
use enact_journal_kit::nats::{Routes, Server, program};
use enact_journal_kit::postgres;
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::served::{BANK, FREE_PORT, Served, http};

const ACCOUNTS: usize = 12;

/// Servers of NATS, the database if there is one, and the specification of the nodes.
struct Place {
    nats: Vec<Server>,
    /// What keeps the journals of the shards, if the servers of NATS do not.
    database: Option<postgres::Server>,
    /// What can be promoted when the database is lost.
    standbys: Vec<postgres::Server>,
    spec: PathBuf,
    directory: TempDir,
}

impl Place {
    fn over_one() -> Option<Self> {
        Self::over_one_with("")
    }

    /// Over a server with more settings for `JetStream`.
    fn over_one_with(jetstream: &str) -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let nats = vec![Server::start_with(&program, directory.path(), jetstream, "")];
        Some(Self::over(nats, directory))
    }

    fn over_three() -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let nats = Vec::from(Server::start_three(&program, directory.path()));
        Some(Self::over(nats, directory))
    }

    /// Over three servers that hear of each other over the routes.
    fn over_three_linked() -> Option<(Self, Routes)> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let (nats, routes) = Server::start_three_linked(&program, directory.path());
        Some((Self::over(nats.into(), directory), routes))
    }

    fn over(nats: Vec<Server>, directory: TempDir) -> Self {
        let spec = directory.path().join("bank.rebel");
        std::fs::write(&spec, BANK).expect("writable");
        Self { nats, database: None, standbys: Vec::new(), spec, directory }
    }

    /// Where the journals of the shards are: words for each command.
    fn nodes(&self) -> Vec<String> {
        self.nodes_over(&self.servers())
    }

    fn nodes_over(&self, servers: &str) -> Vec<String> {
        let ports: Vec<u16> = self.database.iter().chain(&self.standbys).map(postgres::Server::port).collect();
        words(servers, (!ports.is_empty()).then(|| postgres::Server::address_at_any(&ports)))
    }

    /// Runs `enact cluster WORDS`; its status, and what it printed.
    #[cfg(feature = "postgres")]
    fn cluster(&self, words: &[&str]) -> (Option<i32>, String) {
        let output = crate::served::program().arg("cluster").args(words).args(self.nodes()).output().expect("it ends");
        (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).expect("UTF-8"))
    }

    fn command(&self, node: &str) -> std::process::Command {
        self.command_at(node, FREE_PORT)
    }

    fn command_at(&self, node: &str, listen: &str) -> std::process::Command {
        self.command_over(&self.servers(), node, listen, "13s")
    }

    /// Where clients find the servers.
    fn servers(&self) -> String {
        self.nats.iter().map(Server::address).collect::<Vec<_>>().join(",")
    }

    fn command_over(&self, servers: &str, node: &str, listen: &str, lease: &str) -> std::process::Command {
        self.command_with(&self.nodes_over(servers), node, listen, lease)
    }

    /// A node that is told by `words` where the journals are.
    fn command_with(&self, words: &[String], node: &str, listen: &str, lease: &str) -> std::process::Command {
        let replicas = self.nats.len().to_string();
        let mut command = crate::served::program();
        command.arg("serve").arg(&self.spec).args(words).args(["--node", node]);
        command.args(["--replicas", &replicas, "--lease", lease, "--listen", listen]);
        command
    }

    /// A node that reaches each server over a link.
    fn serve_linked(&self, node: &str, lease: &str) -> (Served, Vec<Link>) {
        let links: Vec<Link> = self.nats.iter().map(|server| Link::to(server.port())).collect();
        let servers: Vec<String> = links.iter().map(|link| format!("nats://127.0.0.1:{}", link.port())).collect();
        (Served::start(self.command_over(&servers.join(","), node, FREE_PORT, lease)), links)
    }

    fn serve(&self, node: &str) -> Served {
        Served::start(self.command(node))
    }

    /// What an audit prints, which finds nothing.
    fn audit(&self, words: &[&str]) -> String {
        let mut command = crate::served::program();
        let audited = command.arg("audit").arg(&self.spec).args(words).output().expect("it ends");
        let printed = String::from_utf8(audited.stdout).expect("text");
        assert!(audited.status.success() && printed.starts_with("clean: "), "{words:?}: {printed}");
        printed
    }

    /// Checks that no record of any shard is missing or damaged.
    fn check_records(&self) {
        let mut command = crate::served::program();
        let verified = command.args(["cluster", "verify"]).args(self.nodes()).output().expect("it ends");
        let printed = String::from_utf8(verified.stdout).expect("text");
        assert!(verified.status.success() && printed.starts_with("sound: shards 12, entities "), "{printed}");
    }

    /// Checks that an audit of all shards, beside the nodes, finds nothing.
    fn check_audit(&self) {
        let words = self.nodes();
        let printed = self.audit(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(printed.starts_with("clean: shards 12, entities "), "{printed}");
    }

    /// Checks that audits of each shard find nothing, and that they do not see the others.
    fn check_audits(&self) {
        let is_spread = |shard: u16| {
            let one = self.audit(&["--journal", &self.servers(), "--shard", &shard.to_string()]);
            one.contains("transactions with parts in other journals: ")
        };
        let spread = (0..12).filter(|&shard| is_spread(shard)).count();
        assert!(spread > 0, "payments are between shards");
    }
}

/// Where the journals of the shards are, for a command: at `servers` of NATS, or in the database at an address.
fn words(servers: &str, database: Option<String>) -> Vec<String> {
    let database = database.into_iter().flat_map(|address| ["--journal".to_owned(), address]);
    ["--cluster".to_owned(), servers.to_owned()].into_iter().chain(database).collect()
}

async fn open_all(node: &Served) {
    for account in 0..ACCOUNTS {
        let (status, body) =
            node.post(&format!("/Account/A{account}/Open"), json!({ "initialDeposit": "EUR 100.00" })).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
}

/// The balances as `node` reads them, in whole euros.
async fn balances(node: &Served) -> BTreeMap<usize, i64> {
    let mut balances = BTreeMap::new();
    for account in 0..ACCOUNTS {
        balances.insert(account, balance(node.url("/Account"), account).await);
    }
    balances
}

async fn balance(accounts: String, account: usize) -> i64 {
    loop {
        let answer = http().get(format!("{accounts}/A{account}")).send().await.expect("an answer");
        let (status, body) = (answer.status(), answer.json::<Value>().await.expect("JSON"));
        if status == StatusCode::OK {
            let balance = body["fields"]["balance"].as_str().expect("money");
            return balance.trim_start_matches("EUR ").trim_end_matches(".00").parse().expect("whole euros");
        }
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE, "{body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_of_a_node_that_does_not_answer_is_moved_by_force_before_its_lease_is_over() {
    let Some(place) = Place::over_three() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let (_, ready) = b.get("/health/ready").await;
    let shard = ready["shards"][0].to_string();
    b.signal(Signal::STOP);
    let cluster = |words: &[&str]| {
        crate::served::program()
            .arg("cluster")
            .args(words)
            .args(["--cluster", &place.servers()])
            .output()
            .expect("it ends")
    };
    let moved = cluster(&["move", &shard, "a", "--force"]);
    assert_eq!(String::from_utf8_lossy(&moved.stdout), format!("shard {shard} is served by a\n"));
    let status = cluster(&["status", "--json"]);
    let status: Value = serde_json::from_slice(&status.stdout).expect("JSON");
    assert_eq!(status["nodes"][1]["name"], json!("b"), "its lease is not over: {status}");
    b.signal(Signal::CONT);
    // It has lost that one, and gets another one for it.
    serves(&b, 6).await;
    serves(&a, 6).await;
    let (_, ready) = a.get("/health/ready").await;
    let number: u16 = shard.parse().expect("a number");
    assert!(ready["shards"].as_array().expect("shards").contains(&json!(number)), "{ready}");
    assert_eq!(balances(&b).await, balances(&a).await);
}

/// Clients that let accounts pay each other and deposit euros, each under an idempotency key and until it has its answer.
struct Clients {
    is_over: Arc<AtomicBool>,
    clients: Vec<JoinHandle<(i64, BTreeMap<StatusCode, usize>)>>,
}

impl Clients {
    fn of(nodes: &[&Served]) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let clients = (0..6).map(|client| {
            let (is_over, base) = (Arc::clone(&is_over), nodes[client % nodes.len()].url(""));
            tokio::spawn(run(client, base, is_over))
        });
        Self { is_over: Arc::clone(&is_over), clients: clients.collect() }
    }

    /// Lets all of them end: the euros that were deposited, and how often they were told what else than success.
    async fn end(self) -> (i64, BTreeMap<StatusCode, usize>) {
        self.is_over.store(true, Ordering::Relaxed);
        let mut all = (0, BTreeMap::new());
        for client in self.clients {
            let (deposited, failures) = client.await.expect("it ends");
            all.0 += deposited;
            failures.into_iter().for_each(|(status, count)| *all.1.entry(status).or_insert(0) += count);
        }
        all
    }
}

async fn run(client: usize, base: String, is_over: Arc<AtomicBool>) -> (i64, BTreeMap<StatusCode, usize>) {
    let http = reqwest::Client::new();
    let (mut deposited, mut failures) = (0, BTreeMap::new());
    for n in 0.. {
        let account = (client * 5 + n * 7) % ACCOUNTS;
        let (event, body) = if n % 2 == 0 {
            ("Deposit", json!({ "amount": "EUR 1.00" }))
        } else {
            ("Pay", json!({ "amount": "EUR 1.00", "to": format!("A{}", (account + 1 + n) % ACCOUNTS) }))
        };
        if event == "Pay" && body["to"] == format!("A{account}") {
            continue;
        }
        loop {
            let request = http.post(format!("{base}/Account/A{account}/{event}")).json(&body);
            let request = request.header("idempotency-key", format!("{client}.{n}"));
            let Ok(answer) = request.timeout(Duration::from_secs(30)).send().await else {
                // The node is gone; this client's last command is in doubt.
                return (deposited, failures);
            };
            match answer.status() {
                StatusCode::OK => break,
                status => {
                    let body: Value = answer.json().await.expect("JSON");
                    let is_known =
                        [503, 504].contains(&status.as_u16()) || body["type"].to_string().contains("key-in-use");
                    assert!(is_known, "{status}: {body}");
                    *failures.entry(status).or_insert(0) += 1;
                }
            }
        }
        deposited += i64::from(event == "Deposit");
        if is_over.load(Ordering::Relaxed) {
            break;
        }
    }
    (deposited, failures)
}

/// Waits until `node` serves so many shards.
async fn serves(node: &Served, count: usize) {
    loop {
        let (status, ready) = node.get("/health/ready").await;
        if status == StatusCode::OK && ready["shards"].as_array().expect("shards").len() == count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until `node` says that others may have its shards. Before that it may not be ready for a record that takes long.
async fn has_no_lease(node: &Served) {
    loop {
        let (status, problem) = node.get("/health/ready").await;
        let names_lease = problem["detail"].as_str().is_some_and(|detail| detail.contains("lost its lease"));
        if status == StatusCode::SERVICE_UNAVAILABLE && names_lease {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_for_every_entity_and_one_that_stops_is_not_noticed() {
    let Some(place) = Place::over_one() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let clients = Clients::of(&[&a]);
    let before = balances(&b).await;
    assert_eq!(before.len(), ACCOUNTS);
    b.signal(Signal::TERM);
    let (ended, log) = b.ended();
    assert!(ended.success(), "{log}");
    serves(&a, 12).await;
    let c = place.serve("c");
    serves(&c, 6).await;
    let (deposited, failures) = clients.end().await;
    assert_eq!(balances(&c).await.values().sum::<i64>(), 100 * ACCOUNTS as i64 + deposited);
    assert_eq!(balances(&a).await, balances(&c).await);
    assert!(failures.is_empty(), "{failures:?}");
    place.check_audit();
    place.check_audits();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entities_of_a_node_that_is_killed_are_served_by_others_and_nothing_is_lost() {
    let Some(place) = Place::over_three() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let clients = Clients::of(&[&a]);
    tokio::task::block_in_place(|| place.check_audit());
    b.kill();
    tokio::task::block_in_place(|| place.check_audit());
    serves(&a, 12).await;
    tokio::task::block_in_place(|| place.check_audit());
    let (deposited, failures) = clients.end().await;
    assert_eq!(balances(&a).await.values().sum::<i64>(), 100 * ACCOUNTS as i64 + deposited, "{failures:?}");
    // It waits until the lease of its earlier run is over, and gets its shards back.
    let b = place.serve("b");
    serves(&b, 6).await;
    assert_eq!(balances(&b).await, balances(&a).await);
    place.check_audit();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_was_frozen_says_nothing_that_is_out_of_date_when_it_wakes_up() {
    let Some(place) = Place::over_one() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    b.signal(Signal::STOP);
    serves(&a, 12).await;
    let clients = Clients::of(&[&a]);
    let (deposited, _) = clients.end().await;
    let expected = balances(&a).await;
    // They are there when it wakes up, before it knows anything.
    let asked: Vec<_> = (0..ACCOUNTS).map(|account| tokio::spawn(balance(b.url("/Account"), account))).collect();
    let before = balances(&a);
    assert_eq!(before.await, expected, "all have been sent");
    b.signal(Signal::CONT);
    for (account, asked) in asked.into_iter().enumerate() {
        assert_eq!(asked.await.expect("an answer"), expected[&account], "A{account}, from the others");
    }
    assert_eq!(expected.values().sum::<i64>(), 100 * ACCOUNTS as i64 + deposited);
    serves(&b, 6).await;
    assert_eq!(balances(&b).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_nodes_and_shards_and_drains_a_node() {
    let Some(place) = Place::over_three() else { return };
    let addresses = place.servers();
    let asked = |words: &[&str]| {
        let output = crate::served::program().arg("cluster").args(words).args(["--cluster", &addresses]).output();
        let output = output.expect("it ends");
        (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
    };
    let unseen = asked(&["status"]);
    assert_eq!(unseen, (Some(4), String::new()), "no node has joined");
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let (code, status) = asked(&["status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(code, Some(0), "{status}");
    let of = |node: usize, what: &str| status["nodes"][node][what].clone();
    assert_eq!(
        [of(0, "name"), of(1, "name"), of(0, "shards"), of(1, "shards")],
        [json!("a"), json!("b"), json!(6), json!(6)]
    );
    assert_eq!(of(1, "address"), json!(b.address().to_string()));
    let shards = status["shards"].as_array().expect("shards");
    assert!(shards.iter().all(|shard| shard["replicas"].as_array().is_some_and(|all| all.len() == 3)), "{status}");
    assert_eq!(asked(&["check"]), (Some(0), "sound: nodes 2, shards 12\n".to_owned()));

    let of_b = shards.iter().find(|shard| shard["owner"] == json!("b")).expect("six of them")["shard"].to_string();
    let moved = |words: &[&str]| asked(&[&["move", of_b.as_str()], words].concat());
    // Another one goes the other way, so that both have their part.
    assert_eq!(moved(&["a"]), (Some(0), format!("shard {of_b} is served by a\n")));
    let (_, table) = asked(&["status"]);
    assert!(table.contains("a (moved to a)"), "{table}");
    assert_eq!(moved(&[]), (Some(0), format!("shard {of_b} is served by b\n")));
    assert_eq!(moved(&["nobody"]), (Some(4), String::new()));
    assert_eq!(asked(&["move", "12", "a"]), (Some(2), String::new()));

    let (code, said) = asked(&["verify"]);
    assert!(code == Some(0) && said.starts_with("sound: shards 12, entities "), "{said}");

    assert_eq!(asked(&["drain", "b"]), (Some(0), "b has no shards\n".to_owned()));
    serves(&a, 12).await;
    let (_, table) = asked(&["status"]);
    assert!(
        table.contains("0 (leaving)") && table.lines().filter(|line| line.contains("  a  ")).count() == 12,
        "{table}"
    );
    assert_eq!(balances(&b).await.len(), ACCOUNTS, "it asks the other one");
    let metrics = http().get(b.url("/metrics")).send().await.expect("serving").text().await.expect("text");
    let has = |line: &str| metrics.lines().any(|other| other == line);
    assert!(has("enact_node_joined 1") && has("enact_shards 0"), "{metrics}");
    let opened = metrics.lines().find_map(|line| line.strip_prefix("enact_shards_opened_total "));
    // The one that was moved twice; another one may have gone the other way meanwhile.
    assert!(opened.is_some_and(|opened| matches!(opened, "7" | "8")), "{metrics}");
    assert!(has(&format!("enact_forwarded_total {ACCOUNTS}")), "{metrics}");
    a.kill();
    b.kill();
    // Nothing is served any more when their leases are over.
    loop {
        let (code, said) = asked(&["check"]);
        if code == Some(4) && said.lines().filter(|line| line.contains("is served by no node")).count() == 12 {
            break;
        }
    }
}

#[test]
fn a_node_that_cannot_be_one_of_them_is_refused_with_the_reason() {
    let Some(place) = Place::over_one() else { return };
    let running = place.serve("a");
    let said = |command: &mut std::process::Command, status: i32| {
        let refused = command.output().expect("it ends");
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(status), "{said}");
        said
    };
    let said_to_second = said(&mut place.command("a"), 4);
    let address = running.address().to_string();
    assert!(
        said_to_second.contains("another node is called a") && said_to_second.contains(&address),
        "{said_to_second}"
    );
    let other = said(place.command("b").args(["--shards", "4"]), 4);
    assert!(other.contains("there are 12 shards, not 4"), "{other}");
    assert!(said(&mut place.command("b.c"), 2).contains("is no name of a node"));
    let changed = place.directory.path().join("other.rebel");
    std::fs::write(&changed, BANK.replace("insufficient funds", "too little")).expect("writable");
    let mut command = crate::served::program();
    command.arg("serve").arg(&changed).args(["--cluster", &place.nats[0].address(), "--node", "b"]);
    let other = said(command.args(["--replicas", "1", "--listen", FREE_PORT]), 5);
    assert!(other.contains("served under another contract, by a"), "{other}");
}
