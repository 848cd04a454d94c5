//! The same nodes with the journals of their shards in a database, and what is there only then.

use std::time::Duration;

use enact_cluster::{JoinError, Journals, Keeper, Options, Problem, VerifyError, shard_of};
use enact_entities::{EngineOptions, Entities};
use enact_journal::postgres::{Database, Options as TableOptions, Postgres};
use enact_journal::{Damage, Flaw, Journal as _, ReadError};
use enact_journal_kit::link::{Flow, Link};
use enact_journal_kit::postgres::{Server, shared};
use tokio_postgres::{Client, NoTls};

use crate::bank::{ACCOUNTS, Bank, DEADLINE, balance, fresh_schema, insist, settled, shards, total};
use crate::guarding::{is_safe, is_unsafe};
use crate::{barriers, moving, sharing};

#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_for_every_entity_in_a_database() {
    let Some(bank) = Bank::over_database() else { return };
    sharing::every_node_answers(&bank).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transfers_over_shards_of_a_database_happen_at_both_ends_or_not_at_all() {
    let Some(bank) = Bank::over_database() else { return };
    sharing::transfers_are_whole(&bank).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_in_a_database_are_handed_over_while_clients_go_on() {
    let Some(bank) = Bank::over_database() else { return };
    moving::one_joins_and_leaves(bank).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shards_that_another_writer_of_the_database_has_taken_over_are_opened_again_and_nothing_is_lost() {
    let Some(bank) = Bank::over_database() else { return };
    moving::others_take_over(bank).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_written_to_the_database_is_seen_at_once_behind_barriers() {
    for (barrier_reads, seen) in [(false, 100), (true, 101)] {
        let Some(bank) = Bank::over_database() else { return };
        barriers::somebody_else_writes(&bank, barrier_reads, seen).await;
    }
}

fn tables(bank: &Bank) -> TableOptions {
    match &bank.journals {
        Journals::Tables(options) => TableOptions::clone(options),
        other => panic!("{other:?}"),
    }
}

async fn connected(options: &TableOptions) -> Client {
    let (client, connection) = tokio_postgres::connect(&options.server, NoTls).await.expect("connected");
    tokio::spawn(connection);
    client
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_that_disagree_about_where_the_journals_are_are_refused_and_leave_nothing_behind() {
    let Some(bank) = Bank::over_database() else { return };
    let a = bank.join("a").await;
    a.settled().await;
    let options = tables(&bank);
    let identity = Database::new(options.clone()).expect("an address").identity().await.expect("an answer");
    let decided = Keeper::Database { identity: identity.clone() };
    let refused = |given| Err(JoinError::OtherJournals { found: decided.clone(), given });
    let with = |journals| bank.try_join(Options { journals, ..bank.options("b") });
    assert_eq!(with(Journals::Streams).await.map(drop), refused(Keeper::Streams));

    let elsewhere = fresh_schema(&options.server);
    let nobodys = with(elsewhere.clone().into()).await.map(drop);
    assert_eq!(nobodys, refused(Keeper::Database { identity: None }));
    let other = Database::new(elsewhere.clone()).expect("an address");
    assert_eq!(other.identity().await.expect("an answer"), None, "it was looked at");
    let other = other.identify().await.expect("it has one");
    let others = with(elsewhere.into()).await.map(drop);
    assert_eq!(others, refused(Keeper::Database { identity: Some(other) }));
    with(bank.journals.clone()).await.expect("the same").leave(DEADLINE).await;

    let Some(streams) = Bank::over_one() else { return };
    streams.join("a").await.leave(DEADLINE).await;
    let joined = streams.try_join(Options { journals: bank.journals.clone(), ..streams.options("a") }).await;
    let given = Keeper::Database { identity };
    assert_eq!(joined.map(drop), Err(JoinError::OtherJournals { found: Keeper::Streams, given }));
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_of_a_server_without_nodes_stay_its_own_in_a_database() {
    let Some(bank) = Bank::over_database() else { return };
    let alone = Postgres::open(tables(&bank)).await.expect("opened");
    alone.close().await.expect("closed");
    let refused = bank.try_join(bank.options("a")).await.map(drop);
    assert_eq!(refused, Err(JoinError::Occupied { shards: 12 }));
    drop(Postgres::open(tables(&bank)).await.expect("it was not taken away"));
    bank.try_join(Options { shards: 1, ..bank.options("a") }).await.expect("as many as there are");
    Postgres::open(tables(&bank)).await.expect_err("it is one of the nodes");
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_whose_servers_of_nats_have_lost_everything_find_their_shards_in_the_database() {
    let Some(bank) = Bank::over_database() else { return };
    let a = bank.join("a").await;
    bank.open_all(&a).await;
    a.leave(DEADLINE).await;
    let Some(mut anew) = Bank::over_one() else { return };
    anew.journals = bank.journals.clone();
    let other = anew.try_join(Options { shards: 4, ..anew.options("a") }).await.map(drop);
    assert_eq!(other, Err(JoinError::Occupied { shards: 4 }));
    let a = anew.join("a").await;
    settled(std::slice::from_ref(&a)).await;
    assert_eq!(total(&a).await, 100 * ACCOUNTS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_does_not_reach_the_database_gives_its_shards_to_one_that_does_and_gets_them_back() {
    let Some(bank) = Bank::over_database() else { return };
    let Some(server) = shared() else { return };
    let links = [(); 2].map(|()| Link::to(server.port()));
    let over = |link: &Link| Journals::from(TableOptions { server: Server::address_at(link.port()), ..tables(&bank) });
    let join = async |node: &str, link: &Link| {
        bank.try_join(Options { journals: over(link), ..bank.options(node) }).await.expect("it joins")
    };
    let nodes = [join("a", &links[0]).await, join("b", &links[1]).await];
    let [a, b] = &nodes;
    settled(&nodes).await;
    bank.open_all(a).await;
    links[1].set(Flow::Lost, Flow::Lost);
    settled(std::slice::from_ref(a)).await;
    let counts = b.membership().expect("one of several").counts;
    assert_eq!(counts.leases_lost, 0, "it is alive");
    assert_eq!(total(b).await, 100 * ACCOUNTS as i64, "it asks the other one");
    let are_cut_off = async |nodes: &[&str]| {
        let status = enact_cluster::status(&bank.options("a").servers, &bank.journals).await.expect("known");
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        status.problems().contains(&Problem::CutOff { nodes })
    };
    assert!(are_cut_off(&["b"]).await);
    let unseen =
        enact_cluster::status(&bank.options("b").servers, &over(&links[1])).await.expect("the nodes are known");
    let (named, owned): (Vec<_>, Vec<_>) = (
        unseen.nodes.iter().map(|node| &*node.name).collect(),
        unseen.shards.iter().map(|of| of.owner.as_deref()).collect(),
    );
    assert_eq!((named, owned), (vec!["a", "b"], vec![Some("a"); 12]));
    let of_all = |problem: &Problem| matches!(problem, Problem::Database { shards, .. } if shards.len() == 12);
    assert!(unseen.is_in_database && unseen.problems().iter().any(of_all), "{unseen:?}");
    links[1].set(Flow::Passes, Flow::Passes);
    settled(&nodes).await;
    insist(b, bank.deposit(3, "behind")).await;
    assert_eq!(total(a).await, 100 * ACCOUNTS as i64 + 1);

    // One that nobody reaches moves nothing: what is in memory is read where it is.
    let opened = || nodes.each_ref().map(|node| node.membership().expect("one of several").counts.opened);
    let before = opened();
    links.iter().for_each(|link| link.set(Flow::Lost, Flow::Lost));
    while !are_cut_off(&["a", "b"]).await {}
    assert_eq!(nodes.each_ref().map(|node| shards(node).len()), [6; 2]);
    assert_eq!(total(a).await, 100 * ACCOUNTS as i64 + 1);
    links.iter().for_each(|link| link.set(Flow::Passes, Flow::Passes));
    while are_cut_off(&["a", "b"]).await {}
    insist(b, bank.deposit(3, "last")).await;
    assert_eq!(opened(), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_could_lose_something_is_refused_before_a_node_joins_and_is_seen_while_it_serves() {
    let Some(bank) = Bank::over_database() else { return };
    let engine = EngineOptions { check_every: Duration::from_millis(50), ..EngineOptions::default() };
    let node = bank.try_join(Options { engine, ..bank.options("a") }).await.expect("it joins");
    settled(std::slice::from_ref(&node)).await;
    bank.open_all(&node).await;
    let options = tables(&bank);
    let client = connected(&options).await;
    let records = format!("{}.records", options.schema);
    is_safe(&node).await;
    let alter = async |how: &str| client.batch_execute(&format!("ALTER TABLE {records} {how} TRIGGER forever")).await;
    alter("DISABLE").await.expect("altered");
    is_unsafe(&node, &records).await;
    assert_eq!(balance(&node, 3).await, 100, "it goes on to serve");
    let status = enact_cluster::status(&bank.options("a").servers, &bank.journals).await.expect("known");
    let said: Vec<String> = status.problems().iter().map(ToString::to_string).collect();
    let shards = "shards 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11: ";
    assert!(said.iter().any(|said| said.starts_with(shards) && said.contains(&records)), "{said:?}");
    alter("ENABLE ALWAYS").await.expect("altered");
    is_safe(&node).await;
    let status = enact_cluster::status(&bank.options("a").servers, &bank.journals).await.expect("known");
    assert!(status.is_in_database && status.problems().is_empty(), "{status:?}");

    let lax = TableOptions { server: format!("{}?options=-c%20synchronous_commit=off", options.server), ..options };
    let refused = bank.try_join(Options { journals: lax.into(), ..bank.options("b") }).await.map(drop);
    let Err(JoinError::Database { why }) = &refused else { panic!("{refused:?}") };
    assert!(why.contains("synchronous_commit = off"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_in_a_database_that_is_not_what_it_was_is_found() {
    let Some(bank) = Bank::over_database() else { return };
    let a = bank.join("a").await;
    bank.open_all(&a).await;
    insist(&a, bank.deposit(3, "one")).await;
    let journals = bank.agreed().await;
    let mut entities = 0;
    for shard in 0..12 {
        entities += journals.verify(shard).await.expect("sound").entities;
    }
    assert!(entities >= ACCOUNTS, "{entities}");
    let shard = shard_of(&"Account/3".parse().expect("a key"), 12);
    let options = tables(&bank);
    let change = format!(
        "ALTER TABLE {0}.records DISABLE TRIGGER forever;
         UPDATE {0}.records SET payload = 'x' WHERE shard = {shard} AND entity = 'Account/3' AND seq = 1;
         ALTER TABLE {0}.records ENABLE ALWAYS TRIGGER forever",
        options.schema
    );
    connected(&options).await.batch_execute(&change).await.expect("changed");
    let found = journals.verify(shard).await.expect_err("it was changed");
    let VerifyError::Read(ReadError::Damaged(Damage { flaw, .. })) = &found else { panic!("{found}") };
    assert!(matches!(flaw, Flaw::Record) && found.is_damage(), "{found}");
    assert!(!journals.verify(99).await.expect_err("there is none").is_damage());
}
