//! A standby that is promoted without the last records, because no commit has waited for it.

use std::collections::HashSet;
use std::pin::pin;

use enact_journal::postgres::{Database, Options, Postgres};
use enact_journal::{CheckError, Journal, Position};
use enact_journal_kit::postgres::Server;
use tokio_postgres::{Client, NoTls};

use crate::records::record;
use crate::support::Single;

async fn client(server: &Server) -> Client {
    let (client, connection) = tokio_postgres::connect(&server.address(), NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// How many records there are.
async fn count(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM enact.records", &[]).await.expect("a number").get(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_behind_records_that_a_promoted_standby_lacks() {
    let Some(mut primary) = Single::start() else { return };
    primary.server.stop();
    let directory = tempfile::tempdir().expect("a directory");
    let mut standby = primary.server.copy(directory.path());
    primary.server.restart();
    let ports = [primary.server.port(), standby.port()];
    standby.start_standby("standby", &ports, "");

    let node = "writer".to_owned();
    let options = Options { node, ..Options::at(&Server::address_at_any(&ports)) };
    let database = Database::new(options.clone()).expect("an address");
    assert!(database.loses_by_promotion().await.expect("known"), "no commit waits for the standby");
    let alone = Database::new(primary.options()).expect("an address");
    assert!(!alone.loses_by_promotion().await.expect("known"), "nothing is to be promoted");

    let journal = Postgres::open(options).await.expect("it opens");
    journal.append(vec![record(1, 0, b"x")]).await.expect("durable");
    let following = client(&standby).await;
    while count(&following).await < 1 {}
    standby.kill();
    journal.append(vec![record(1, 1, b"y")]).await.expect("durable");
    primary.server.kill();
    standby.restart();
    let promoted = client(&standby).await;
    promoted.execute("SELECT pg_promote()", &[]).await.expect("promoted");

    let mut waiting = pin!(journal.append(vec![record(1, 2, b"z")]));
    let sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = 'enact writer'";
    let mut seen = HashSet::<i32>::new();
    // It has come, looked, and gone.
    while seen.len() < 3 {
        tokio::select! {
            appended = &mut waiting => panic!("{appended:?} behind a record that is missing"),
            rows = promoted.query(sessions, &[]) => seen.extend(rows.expect("rows").iter().map(|row| row.get::<_, i32>(0))),
        }
    }
    let checked = tokio::select! {
        appended = &mut waiting => panic!("{appended:?} behind a record that is missing"),
        checked = journal.check() => checked,
    };
    let Err(CheckError::Unsafe { why }) = checked else { panic!("{checked:?}") };
    assert!(why.contains("the records end at position 1, and were durable up to 2"), "{why}");
    assert_eq!(count(&promoted).await, 1);

    standby.kill();
    primary.server.restart();
    assert_eq!(waiting.await, Ok(Position(3)), "it goes on where all of them are");
}
