//! A database that several nodes have agreed on: it is known by its identity, and their journals share connections.

use std::pin::pin;

use enact_journal::postgres::{BuildError, Database, OpenError, Options, Postgres, TableBuilder};
use enact_journal::{CheckError, Journal, Position};
use tokio_postgres::NoTls;

use crate::records::record;
use crate::support::{Single, fresh};

#[tokio::test(flavor = "multi_thread")]
async fn tables_with_an_identity_are_written_by_those_alone_who_name_it() {
    let Some(options) = fresh() else { return };
    let database = Database::new(options.clone()).expect("an address");
    assert_eq!(database.identity().await.expect("an answer"), None, "there are no tables");
    drop(Postgres::open(options.clone()).await.expect("they are nobody's yet"));
    assert_eq!(database.identity().await.expect("an answer"), None);
    let (one, other) = tokio::join!(database.identify(), database.identify());
    let identity = one.expect("it has one");
    assert_eq!(identity, other.expect("it has one"), "it is made once");
    assert_eq!(database.identity().await.expect("an answer"), Some(identity.clone()));

    let named = Options { identity: Some(identity), ..options.clone() };
    Postgres::open(named).await.expect("it is the one").append(vec![record(1, 0, b"x")]).await.expect("durable");
    let refused = Postgres::open(options.clone()).await.expect_err("the tables are those of nodes");
    assert!(matches!(&refused, OpenError::OfNodes { schema } if *schema == options.schema), "{refused}");
    let refused = TableBuilder::begin(Options { shard: 7, ..options.clone() }).await.expect_err("the same");
    assert!(matches!(&refused, BuildError::Open(OpenError::OfNodes { .. })), "{refused}");
    let look = Postgres::look(options.clone()).await.expect("anybody may look");
    assert_eq!(look.feed(Position::START, 9).await.expect("readable").len(), 1);
    let elsewhere = Options { identity: Some("elsewhere".to_owned()), ..options };
    for refused in [Postgres::open(elsewhere.clone()).await, Postgres::look(elsewhere).await] {
        let refused = refused.expect_err("it is not the one");
        assert!(matches!(&refused, OpenError::OtherDatabase { .. }) && refused.is_unsafe(), "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_of_one_database_share_the_connections_that_they_read_over() {
    let Some(options) = fresh() else { return };
    let options = Options { node: options.schema.clone(), ..options };
    let database = Database::new(options.clone()).expect("an address");
    let mut journals = Vec::new();
    for shard in 0..12 {
        let journal = database.open(shard).await.expect("it opens");
        journal.append(vec![record(1, 0, b"x")]).await.expect("durable");
        for _ in 0..4 {
            assert_eq!(journal.feed(Position::START, 9).await.expect("readable").len(), 1);
        }
        journals.push(journal);
    }
    let (client, connection) = tokio_postgres::connect(&options.server, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    let count: i64 = client.query_one(open, &[&format!("enact {}", options.node)]).await.expect("a number").get(0);
    // One to write over for each, four to read over for all, and those that list entities for a moment.
    assert!((16..=28).contains(&count), "{count}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_in_the_place_of_the_one_that_is_meant_gets_and_says_nothing() {
    let Some(mut single) = Single::start() else { return };
    let identity = Database::new(single.options()).expect("an address").identify().await.expect("it has one");
    let options = Options { identity: Some(identity.clone()), ..single.options() };
    let journal = Postgres::open(options.clone()).await.expect("it opens");
    journal.append(vec![record(1, 0, b"x")]).await.expect("durable");
    let say = async |identity: &str| {
        let (client, connection) = tokio_postgres::connect(&options.server, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.execute("UPDATE enact.identity SET id = $1", &[&identity]).await.expect("changed");
        client.query_one("SELECT count(*) FROM enact.records", &[]).await.expect("a number").get::<_, i64>(0)
    };
    say("another").await;
    single.server.restart();
    let mut waiting = pin!(journal.append(vec![record(1, 1, b"y")]));
    let checked = tokio::select! {
        appended = &mut waiting => panic!("{appended:?}"),
        checked = journal.check() => checked,
    };
    let Err(CheckError::Unsafe { why }) = checked else { panic!("{checked:?}") };
    assert!(why.contains("have the identity another"), "{why}");
    assert_eq!(say(&identity).await, 1, "nothing was written there");
    assert_eq!(waiting.await, Ok(Position(2)), "it is the one again");
}
