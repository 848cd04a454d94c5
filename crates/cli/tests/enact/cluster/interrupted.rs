//! Backups and restores of all shards that are interrupted: killed, or without a server or a node that they rely on.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use enact_journal_kit::link::{Flow, Link};
use tokio::task::block_in_place;

use super::backups::{PAID_MIN, Payers, SHARDS, cluster, command, exported, settled};
use super::{Place, balances, open_all, words};
use crate::served::{Served, program};

/// Each message to a server or from it takes so long that nothing is over before it can be interrupted.
const LATE: Flow = Flow::Late(Duration::from_millis(20));

fn late(port: u16) -> Link {
    let link = Link::to(port);
    link.set(LATE, LATE);
    link
}

fn begun(words: &[&str], nodes: &[String]) -> Child {
    let mut command = program();
    command.arg("cluster").args(words).args(nodes).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the program starts")
}

/// Runs `enact cluster` with `words` and those that name the nodes; its status and all that it said.
fn cluster_of(words: &[&str], nodes: &[String]) -> (Option<i32>, String) {
    let nodes = nodes.iter().map(String::as_str);
    cluster(&words.iter().copied().chain(nodes).collect::<Vec<_>>())
}

async fn streams(place: &Place) -> Context {
    jetstream::new(async_nats::connect(place.servers()).await.expect("connected"))
}

/// What is there when a restore is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// The mark that keeps nodes from joining.
    Marked,
    /// The journal of the first shard.
    Begun,
    /// Records of the last shard.
    Filling,
}

impl Moment {
    async fn is_there(self, streams: &Context) -> bool {
        match self {
            Self::Marked => match streams.get_key_value("enact").await {
                Ok(bucket) => bucket.get("settings").await.is_ok_and(|settings| settings.is_some()),
                Err(_) => false,
            },
            Self::Begun => streams.get_stream("J0").await.is_ok(),
            Self::Filling => match streams.get_stream(format!("J{}", SHARDS - 1)).await {
                Ok(stream) => stream.cached_info().state.messages > 0,
                Err(_) => false,
            },
        }
    }
}

/// A backup of nodes over one server, and what the accounts in it have.
async fn backed_up(from: &Place) -> (PathBuf, Vec<i64>) {
    let node = Served::start(command(from, "a"));
    open_all(&node).await;
    let backup = from.directory.path().join("backup");
    let (code, said) = block_in_place(|| cluster_of(&["backup", text(&backup)], &from.nodes()));
    assert!(code == Some(0) && said.starts_with("backed up: shards 3, groups "), "{said}");
    (backup, balances(&node).await.into_values().collect())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Kills a restore to `place` as soon as `is_there`, and checks that nothing is served and that everybody is told what to remove.
async fn killed(backup: &Path, place: &Place, late: &[String], is_there: impl AsyncFn() -> bool) {
    let restore = ["restore", text(backup), "--replicas", "1"];
    let mut restoring = begun(&restore, late);
    while !is_there().await {
        let ended = restoring.try_wait().expect("ours");
        assert!(ended.is_none(), "it has ended before it was killed: {ended:?}");
    }
    restoring.kill().expect("ours");
    let Output { status, .. } = restoring.wait_with_output().expect("killed");
    assert_eq!(status.signal(), Some(9), "it has ended before it was killed");

    let node = command(place, "a").output().expect("it ends");
    let of_node = (node.status.code(), String::from_utf8(node.stderr).expect("UTF-8"));
    let others = [&restore[..], &["status"], &["verify"]];
    let others = others.map(|words| block_in_place(|| cluster_of(words, &place.nodes())));
    for (code, said) in others.into_iter().chain([of_node]) {
        assert_eq!(code, Some(4), "{said}");
        let told = "remove the streams J0, S0 and so on of all shards, or the schema of the database, and the stream `KV_enact`, \
                    and restore them again";
        assert!(said.contains(told), "{said}");
    }
}

/// Does what everybody was told.
async fn remove(streams: &Context) {
    for shard in 0..SHARDS {
        for name in [format!("J{shard}"), format!("S{shard}")] {
            if streams.get_stream(&name).await.is_ok() {
                streams.delete_stream(&name).await.expect("deleted");
            }
        }
    }
    streams.delete_stream("KV_enact").await.expect("deleted");
}

/// Restores to `place`, and checks that a node serves what was in the backup.
async fn restored(backup: &Path, place: &Place, expected: &[i64]) {
    let restore = ["restore", text(backup), "--replicas", "1"];
    let (code, said) = block_in_place(|| cluster_of(&restore, &place.nodes()));
    assert!(code == Some(0) && said.starts_with("restored: shards 3, groups "), "{said}");
    let node = Served::start(command(place, "a"));
    assert_eq!(balances(&node).await.into_values().collect::<Vec<_>>(), expected);
    block_in_place(|| place.audit(&place.nodes().iter().map(String::as_str).collect::<Vec<_>>()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_was_killed_serves_nothing_says_what_to_remove_and_the_next_one_ends_well() {
    let (Some(from), Some(to)) = (Place::over_one(), Place::over_one()) else { return };
    let (backup, expected) = backed_up(&from).await;
    let streams = streams(&to).await;
    for moment in [Moment::Marked, Moment::Begun, Moment::Filling] {
        let link = late(to.nats[0].port());
        let late = words(&format!("nats://127.0.0.1:{}", link.port()), None);
        killed(&backup, &to, &late, async || moment.is_there(&streams).await).await;
        remove(&streams).await;
    }
    restored(&backup, &to, &expected).await;
}

#[cfg(feature = "postgres")]
#[tokio::test(flavor = "multi_thread")]
async fn a_restore_to_a_database_that_was_killed_serves_nothing_says_what_to_remove_and_the_next_one_ends_well() {
    use enact_journal_kit::postgres::Server;
    use tokio_postgres::NoTls;

    let (Some(from), Some(to)) = (Place::over_one(), Place::over_database()) else { return };
    let (backup, expected) = backed_up(&from).await;
    let streams = streams(&to).await;
    let database = to.database.as_ref().expect("there is one");
    let (client, connection) = tokio_postgres::connect(&database.address(), NoTls).await.expect("connected");
    tokio::spawn(connection);
    let filling = "SELECT FROM pg_stat_activity WHERE query LIKE '%INSERT INTO records%' AND pid <> pg_backend_pid()";
    for is_filling in [false, true] {
        let (link, database) = (late(to.nats[0].port()), late(database.port()));
        let servers = format!("nats://127.0.0.1:{}", link.port());
        let late = words(&servers, Some(Server::address_at(database.port())));
        let is_there = async || {
            Moment::Marked.is_there(&streams).await
                && (!is_filling || !client.query(filling, &[]).await.expect("an answer").is_empty())
        };
        killed(&backup, &to, &late, is_there).await;
        remove(&streams).await;
        client.batch_execute("DROP SCHEMA enact CASCADE").await.expect("dropped");
    }
    restored(&backup, &to, &expected).await;
}

/// Begins a backup over links to the servers that make everything late, and returns when files are being written.
async fn backing_up(place: &Place, path: &Path) -> (Child, Vec<Link>) {
    let links: Vec<Link> = place.nats.iter().map(|server| late(server.port())).collect();
    let servers: Vec<String> = links.iter().map(|link| format!("nats://127.0.0.1:{}", link.port())).collect();
    let mut backing_up = begun(&["backup", text(path)], &words(&servers.join(","), None));
    while !path.join("shard-000.backup").exists() {
        let ended = backing_up.try_wait().expect("ours");
        assert!(ended.is_none(), "it has ended before anything was done to it: {ended:?}");
        tokio::task::yield_now().await;
    }
    (backing_up, links)
}

/// Checks that a backup, in whose middle something was killed, has ended well, and that it is whole: in a cluster that is restored from it is all that was acknowledged before.
async fn is_whole(backing_up: Child, path: &Path, acknowledged: impl IntoIterator<Item = String>) {
    let Output { status, stdout, stderr } = block_in_place(|| backing_up.wait_with_output()).expect("it ends");
    let said = [stdout, stderr].map(|said| String::from_utf8(said).expect("UTF-8")).concat();
    assert!(status.success() && said.contains("backed up: shards 3, groups "), "{status}: {said}");
    let (code, said) = block_in_place(|| cluster(&["verify", "--backup", text(path)]));
    assert!(code == Some(0) && said.starts_with("sound: shards 3, groups "), "{said}");
    let Some(to) = Place::over_one() else { return };
    let (code, said) = block_in_place(|| cluster_of(&["restore", text(path), "--replicas", "1"], &to.nodes()));
    assert_eq!(code, Some(0), "{said}");
    let node = Served::start(command(&to, "a"));
    settled(&node, &to).await;
    let there = block_in_place(|| exported(&to.servers()));
    let lost: Vec<_> = acknowledged.into_iter().filter(|tx| !there.contains_key(tx)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_whose_middle_a_server_of_three_is_killed_is_whole() {
    let Some(mut place) = Place::over_three() else { return };
    let (a, b) = (Served::start(command(&place, "a")), Served::start(command(&place, "b")));
    open_all(&a).await;
    let payers = Payers::of_disturbed(&[&a, &b]);
    let acknowledged = payers.paid(PAID_MIN).await;
    let path = place.directory.path().join("backup");
    let (backing_up, _links) = backing_up(&place, &path).await;
    place.nats[0].kill();
    is_whole(backing_up, &path, acknowledged).await;
    payers.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_in_whose_middle_a_node_is_killed_is_whole() {
    let Some(place) = Place::over_one() else { return };
    let (a, b) = (Served::start(command(&place, "a")), Served::start(command(&place, "b")));
    open_all(&a).await;
    let payers = Payers::of_disturbed(&[&a]);
    let acknowledged = payers.paid(PAID_MIN).await;
    let path = place.directory.path().join("backup");
    let (backing_up, _links) = backing_up(&place, &path).await;
    b.kill();
    is_whole(backing_up, &path, acknowledged).await;
    payers.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_that_loses_its_only_server_says_so_and_leaves_nothing_that_looks_like_one() {
    let Some(mut place) = Place::over_one() else { return };
    let a = Served::start(command(&place, "a"));
    open_all(&a).await;
    let path = place.directory.path().join("backup");
    let (backing_up, _links) = backing_up(&place, &path).await;
    place.nats[0].kill();
    let Output { status, stdout, stderr } = block_in_place(|| backing_up.wait_with_output()).expect("it ends");
    let said = String::from_utf8(stderr).expect("UTF-8");
    assert_eq!((status.code(), &*stdout), (Some(4), &b""[..]), "{said}");
    assert!(fs::read_dir(&path).is_err(), "nothing is left: {said}");
    assert!(said.contains("cannot be read for the moment: no server has answered within "), "{said}");
}
