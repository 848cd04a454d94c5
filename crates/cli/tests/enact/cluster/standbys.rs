//! A database whose primary is lost, and a standby that is promoted in its place.

use std::fs;

use enact_journal_kit::postgres::Server;
use rustix::process::Signal;
use tokio::task::block_in_place;
use tokio_postgres::{Client, NoTls};

use super::registers::{self, Registers};
use super::workload::{Reading, Workload};
use super::{Place, serves};
use crate::served::BANK;

const SEED: u64 = 20_261_130;
const NAMES: [&str; 2] = ["db2", "db3"];

impl Place {
    /// Over one server of NATS, and a database with two standbys, whose commits wait for what `names` says.
    async fn over_standbys(names: &str) -> Option<Self> {
        let mut place = Self::over_database()?;
        let primary = place.database.as_mut().expect("there is one");
        block_in_place(|| primary.stop());
        let directories = NAMES.map(|name| place.directory.path().join(name));
        directories.iter().for_each(|directory| fs::create_dir(directory).expect("a directory"));
        let mut standbys = directories.each_ref().map(|directory| primary.copy(directory));
        let ports = [primary.port(), standbys[0].port(), standbys[1].port()];
        // Copies of the files of a server have its settings.
        let settings = format!("synchronous_standby_names = '{names}'");
        primary.configure(&settings);
        block_in_place(|| primary.restart());
        for (standby, name) in standbys.iter_mut().zip(NAMES) {
            block_in_place(|| standby.start_standby(name, &ports, &settings));
        }
        follow(primary, NAMES.len()).await;
        place.standbys = standbys.into();
        Some(place)
    }
}

async fn client(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.address(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

/// Waits until so many standbys follow the server.
async fn follow(server: &Server, count: usize) {
    let client = client(server).await;
    let following = "SELECT FROM pg_stat_replication WHERE state = 'streaming'";
    while client.query(following, &[]).await.expect("an answer").len() < count {}
}

/// How far a standby has got.
async fn received(standby: &Server) -> u64 {
    let received = "SELECT (pg_last_wal_receive_lsn() - '0/0')::bigint AS at";
    let at: i64 = client(standby).await.query_one(received, &[]).await.expect("an answer").get("at");
    u64::try_from(at).expect("not negative")
}

async fn promote(standby: &Server) {
    let promoted: bool = client(standby).await.query_one("SELECT pg_promote()", &[]).await.expect("an answer").get(0);
    assert!(promoted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promoted_standby_that_commits_waited_for_has_all_that_was_acknowledged_and_nodes_go_on_with_it() {
    let Some(mut place) = Place::over_standbys("ANY 1 (db2, db3)").await else { return };
    fs::write(&place.spec, format!("{BANK}{}", registers::SPEC)).expect("writable");
    let (a, b) = (place.serve("a"), place.serve("b"));
    serves(&b, 6).await;
    let bases = [a.url(""), b.url("")];
    let workload = Workload::start(&bases, SEED, Reading::BehindEachDeposit).await;
    let registers = Registers::start(&bases, SEED).await;
    workload.goes_on().await;
    assert_eq!(block_in_place(|| place.cluster(&["check"])), (Some(0), "sound: nodes 2, shards 12\n".to_owned()));

    // One of them is behind when the primary is lost.
    place.standbys[1].kill();
    workload.goes_on().await;
    block_in_place(|| place.database.as_mut().expect("there is one").kill());
    block_in_place(|| place.standbys[1].restart());
    let [first, second] = [received(&place.standbys[0]).await, received(&place.standbys[1]).await];
    assert!(first >= second, "{first} {second}");
    promote(&place.standbys[0]).await;
    // Its commits wait for the other one.
    follow(&place.standbys[0], 1).await;
    workload.goes_on().await;
    serves(&a, 6).await;
    serves(&b, 6).await;
    workload.goes_on().await;
    workload.end().await;
    registers.end().await;
    block_in_place(|| place.check_records());
    block_in_place(|| place.check_audit());
    assert_eq!(block_in_place(|| place.cluster(&["check"])), (Some(0), "sound: nodes 2, shards 12\n".to_owned()));
    // A node that is started when only one of three hosts is there finds that one.
    drop((a, b));
    let c = place.serve("c");
    serves(&c, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_whose_standbys_may_lack_what_was_acknowledged_is_told_so() {
    let Some(place) = Place::over_standbys("").await else { return };
    let a = place.serve("a");
    serves(&a, 12).await;
    let (code, said) = block_in_place(|| place.cluster(&["check"]));
    let told = "no commit waits for a standby, and the address of the database names several hosts";
    assert!(code == Some(4) && said.starts_with(told) && said.ends_with("error: 1 thing to mend\n"), "{code:?} {said}");
    a.signal(Signal::TERM);
    let (ended, log) = a.ended();
    assert!(ended.success() && log.contains(told), "{log}");
}
