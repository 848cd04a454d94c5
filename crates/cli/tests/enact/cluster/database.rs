//! Nodes whose shards are in a database, which is killed under load as the nodes are, and what an operator does with them.

use enact_journal_kit::postgres::{self, programs};
use reqwest::StatusCode;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};

use super::registers::{self, Registers};
use super::workload::{Reading, Workload};
use super::{ACCOUNTS, Place, balances, open_all, serves};
use crate::served::{BANK, FREE_PORT, Served, enact};

const SEED: u64 = 20_261_129;

impl Place {
    /// Over one server of NATS, and a database.
    pub(super) fn over_database() -> Option<Self> {
        Self::over_one()?.with_database()
    }

    pub(super) fn with_database(self) -> Option<Self> {
        let (programs, directory) = (programs()?, self.directory.path().join("postgres"));
        std::fs::create_dir(&directory).expect("a directory");
        std::fs::set_permissions(self.directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("it is ours");
        let database = postgres::Server::start(&programs, &directory);
        Some(Self { database: Some(database), ..self })
    }

    fn database(&mut self) -> &mut postgres::Server {
        self.database.as_mut().expect("there is one")
    }
}

/// Holds the rows of all owners, and returns when a group of records has been sent that waits for one. It will not be there if the server is killed
/// while they are held.
async fn inserts_wait(address: &str) -> Client {
    let connected = async || {
        let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("connected");
        tokio::spawn(connection);
        client
    };
    let (holding, looking) = (connected().await, connected().await);
    holding.batch_execute("BEGIN; SELECT FROM enact.owners FOR UPDATE").await.expect("held");
    let waiting = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%INSERT INTO records%'";
    while looking.query(waiting, &[]).await.expect("an answer").is_empty() {}
    holding
}

/// The first shard that the node serves.
async fn first_of(node: &Served) -> String {
    node.get("/health/ready").await.1["shards"][0].to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_nodes_and_of_the_database_lose_nothing_double_nothing_and_one_that_wakes_up_late_has_no_effect() {
    let Some(mut place) = Place::over_database() else { return };
    std::fs::write(&place.spec, format!("{BANK}{}", registers::SPEC)).expect("writable");
    let (a, b, c) = (place.serve("a"), place.serve("b"), place.serve("c"));
    serves(&c, 4).await;
    let bases = [a.url(""), b.url("")];
    let workload = Workload::start(&bases, SEED, Reading::BehindEachDeposit).await;
    let registers = Registers::start(&bases, SEED).await;
    workload.goes_on().await;

    for _ in 0..2 {
        let held = inserts_wait(&place.database().address()).await;
        block_in_place(|| place.database().restart());
        drop(held);
        workload.goes_on().await;
    }
    // It takes no part in what is asked; the shards that it has are served by the others when its lease is over.
    c.kill();
    serves(&a, 6).await;
    workload.goes_on().await;
    // While it is frozen, another one takes its shards over, and the database restarts.
    b.signal(Signal::STOP);
    block_in_place(|| place.database().restart());
    serves(&a, 12).await;
    b.signal(Signal::CONT);
    workload.goes_on().await;
    serves(&b, 6).await;
    workload.goes_on().await;
    workload.end().await;
    registers.end().await;
    block_in_place(|| place.check_audit());
    let (code, said) = block_in_place(|| place.cluster(&["verify"]));
    assert!(code == Some(0) && said.starts_with("sound: shards 12, entities "), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_sees_moves_drains_backs_up_and_restores_nodes_over_a_database() {
    let Some(place) = Place::over_database() else { return };
    let (a, b) = (place.serve("a"), place.serve("b"));
    open_all(&a).await;
    serves(&b, 6).await;
    let asked = |words: &[&str]| block_in_place(|| place.cluster(words));
    assert_eq!(asked(&["check"]), (Some(0), "sound: nodes 2, shards 12\n".to_owned()));
    let (_, status) = asked(&["status", "--json"]);
    let status: Value = serde_json::from_str(&status).expect("JSON");
    assert_eq!(status["is_in_database"], json!(true), "{status}");
    let last: u64 =
        status["shards"].as_array().expect("shards").iter().map(|of| of["last"].as_u64().expect("a number")).sum();
    assert!(last > ACCOUNTS as u64, "{status}");
    let shard = first_of(&b).await;
    assert_eq!(asked(&["move", &shard, "a"]), (Some(0), format!("shard {shard} is served by a\n")));
    assert_eq!(asked(&["drain", "b"]), (Some(0), "b has no shards\n".to_owned()));
    serves(&a, 12).await;
    block_in_place(|| place.check_audit());

    // Where the journals are is known to all who ask: nobody looks for them at the servers of NATS.
    let servers = place.servers();
    let cluster = ["--cluster", &servers];
    for words in [&["cluster", "status"][..], &["cluster", "verify"], &["contract", "rollback"]] {
        let refused = block_in_place(|| enact(&[words, &cluster].concat()));
        let said = String::from_utf8(refused.stderr).expect("UTF-8");
        assert_eq!(refused.status.code(), Some(4), "{said}");
        assert!(said.contains("and not in streams of NATS: name that database with `--journal"), "{said}");
    }
    let spec = place.spec.to_str().expect("UTF-8");
    let serve = ["serve", spec, "--node", "c", "--listen", FREE_PORT, "--replicas", "1"];
    let refused = block_in_place(|| enact(&[&serve[..], &cluster].concat()));
    assert_eq!(refused.status.code(), Some(4), "{refused:?}");
    let streams = ["--journal", servers.as_str()];
    let refused = block_in_place(|| enact(&[&serve[..], &cluster, &streams].concat()));
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");

    let backup = place.directory.path().join("backup");
    let backup = backup.to_str().expect("UTF-8");
    let (code, said) = asked(&["backup", backup]);
    assert!(code == Some(0) && said.starts_with("backed up: shards 12, groups "), "{said}");
    let expected = balances(&a).await;
    a.signal(Signal::TERM);
    b.signal(Signal::TERM);
    assert!(a.ended().0.success() && b.ended().0.success());
    let nodes = place.nodes();
    let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
    let check = block_in_place(|| enact(&[&["contract", "check", spec][..], &nodes].concat()));
    let said = String::from_utf8(check.stdout).expect("UTF-8");
    assert_eq!(said, "nothing changes: this is the specification of the entities\n");
    let rollback = block_in_place(|| enact(&[&["contract", "rollback"][..], &nodes].concat()));
    let said = String::from_utf8(rollback.stderr).expect("UTF-8");
    assert!(rollback.status.code() == Some(5) && said.contains("there is no version before 1"), "{said}");

    let (code, said) = asked(&["restore", backup, "--replicas", "1"]);
    assert!(code == Some(4) && said.contains("there are nodes with 12 shards already"), "{said}");
    // Another cluster, in another schema.
    let Some(to) = Place::over_one() else { return };
    let schema = format!("{}?schema=restored", place.database.as_ref().expect("there is one").address());
    let to_nodes = ["--cluster", &to.servers(), "--journal", &schema].map(str::to_owned);
    let to_nodes = to_nodes.each_ref().map(String::as_str);
    let restored =
        block_in_place(|| enact(&[&["cluster", "restore", backup, "--replicas", "1"][..], &to_nodes].concat()));
    let said = String::from_utf8([restored.stdout, restored.stderr].concat()).expect("UTF-8");
    assert!(said.starts_with("restored: shards 12, groups "), "{said}");
    let mut command = crate::served::program();
    command.args(serve).args(to_nodes);
    let c = Served::start(command);
    serves(&c, 12).await;
    assert_eq!(balances(&c).await, expected);
    let (status, body) = c.post("/Account/A3/Deposit", json!({ "amount": "EUR 1.00" })).await;
    assert_eq!(status, StatusCode::OK, "{body}");
}
