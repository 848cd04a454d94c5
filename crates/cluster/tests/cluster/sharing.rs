//! Nodes share the entities, and each answers for all of them.

use enact_cluster::shard_of;
use enact_entities::{Changes, Cursor, Entities, EntityChange, HistoryPart, ReadError, SubmitError};
use enact_rebel::EventCall;
use futures_util::future::join_all;

use crate::bank::{ACCOUNTS, Bank, DEADLINE, Node, balance, done, settled, shards, total};

#[tokio::test(flavor = "multi_thread")]
async fn every_node_answers_for_every_entity() {
    let Some(bank) = Bank::over_one() else { return };
    every_node_answers(&bank).await;
}

pub(crate) async fn every_node_answers(bank: &Bank) {
    let [a, b, c] = bank.nodes(["a", "b", "c"]).await;
    let owned = [&a, &b, &c].map(shards);
    assert!(owned.iter().all(|shards| shards.len() == 4), "{owned:?}");
    assert_eq!(owned.iter().flatten().count(), 12);
    bank.open_all(&a).await;
    for account in 0..ACCOUNTS {
        done(&b, bank.deposit(account, &format!("d{account}"))).await;
        assert_eq!(balance(&c, account).await, 101);
    }
    for node in [&a, &b, &c] {
        let page = HistoryPart::Page { after: None, limit: 10 };
        for account in 0..ACCOUNTS {
            let history = node
                .history(&format!("Account/{account}").parse().expect("a key"), page, DEADLINE)
                .await
                .expect("somebody has it");
            let events: Vec<_> = history.transactions.iter().flat_map(|past| &past.events).collect();
            assert_eq!(events.iter().map(|call| &**call.event()).collect::<Vec<_>>(), ["Open", "Deposit"]);
        }
    }
    let repeated = c.submit(bank.deposit(3, "d3")).await.expect("its earlier answer");
    assert!(repeated.replayed);
    assert_eq!(balance(&a, 3).await, 101);
    let refused = a.submit(bank.open(3)).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_over_shards_and_nodes_happens_at_both_ends_or_not_at_all() {
    let Some(bank) = Bank::over_one() else { return };
    transfers_are_whole(&bank).await;
}

pub(crate) async fn transfers_are_whole(bank: &Bank) {
    let nodes = bank.nodes(["a", "b"]).await;
    bank.open_all(&nodes[0]).await;
    let mut over_shards = 0;
    for n in 0..ACCOUNTS {
        let transfer = bank.transfer(&n.to_string(), 30, n, (n + 5) % ACCOUNTS);
        let of = |account: usize| shard_of(&format!("Account/{account}").parse().expect("a key"), 12);
        over_shards += usize::from(of(n) != of((n + 5) % ACCOUNTS));
        done(&nodes[n % 2], transfer).await;
    }
    assert!(over_shards > ACCOUNTS / 2, "{over_shards} transfers over shards");
    for account in 0..ACCOUNTS {
        assert_eq!(balance(&nodes[account % 2], account).await, 100);
    }
    let refused = nodes[0].submit(bank.transfer("large", 101, 1, 2)).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    assert_eq!(total(&nodes[1]).await, 100 * ACCOUNTS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_survives_the_leader_of_the_streams() {
    let Some(mut bank) = Bank::over_three() else { return };
    let nodes = bank.nodes(["a", "b"]).await;
    bank.open_all(&nodes[0]).await;
    for server in 0..3 {
        bank.servers[server].kill();
        for account in 0..ACCOUNTS {
            let deposit = bank.deposit(account, &format!("{server}.{account}"));
            crate::bank::insist(&nodes[account % 2], deposit).await;
        }
        bank.servers[server].restart();
        settled(&nodes).await;
    }
    assert_eq!(total(&nodes[1]).await, 103 * ACCOUNTS as i64);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_history_that_is_more_than_a_message_may_be_is_shorter() {
    const DEPOSITS: usize = 6_000;
    let Some(bank) = Bank::over_one() else { return };
    let nodes = bank.nodes(["a", "b"]).await;
    done(&nodes[0], bank.open(1)).await;
    for first in (0..DEPOSITS).step_by(200) {
        let deposits = (first..first + 200).map(|n| nodes[0].submit(bank.deposit(1, &n.to_string())));
        for deposited in join_all(deposits).await {
            deposited.expect("deposited");
        }
    }
    let account = "Account/1".parse().expect("a key");
    let mut pages = [Vec::new(), Vec::new()];
    for (node, pages) in nodes.iter().zip(&mut pages) {
        let (mut after, mut has_more) = (None, true);
        while has_more {
            let part = HistoryPart::Page { after, limit: 2 * DEPOSITS };
            let page = node.history(&account, part, DEADLINE).await.expect("it can be read");
            after = page.transactions.last().map(|last| last.slot);
            has_more = page.has_more;
            pages.push(page.transactions);
        }
    }
    let lengths = pages.each_ref().map(Vec::len);
    assert!(
        lengths.contains(&1) && lengths.iter().any(|&pages| pages > 1),
        "{lengths:?}: the owner has it in one page"
    );
    let [one, other] = pages.map(|pages| pages.concat());
    assert_eq!(one.len(), DEPOSITS + 1);
    assert!(one == other, "the same history");
}

/// The changes of each shard behind its cursor, in pages of `limit`, and how far they go.
async fn follow(node: &Node, after: &[Cursor], limit: usize) -> (Vec<Vec<EntityChange<EventCall>>>, Vec<Cursor>) {
    let (mut all, mut ends) = (Vec::new(), Vec::new());
    for (shard, after) in (0..).zip(after) {
        let (mut of_shard, mut at) = (Vec::new(), *after);
        loop {
            let Changes { changes, next, has_more } = match node.changes(shard, at, limit, DEADLINE).await {
                Ok(page) => page,
                // On a busy machine its owner may lose its lease for a moment.
                Err(ReadError::Entity(cause)) if cause.is_transient() => continue,
                Err(error) => panic!("shard {shard}: {error}"),
            };
            of_shard.extend(changes);
            at = next;
            if !has_more {
                break;
            }
        }
        all.push(of_shard);
        ends.push(at);
    }
    (all, ends)
}

/// What is the same for every reader.
fn told(changes: &[Vec<EntityChange<EventCall>>]) -> Vec<Vec<String>> {
    let told = |change: &EntityChange<EventCall>| format!("{} {} {:?}", change.entity, change.tx, change.events);
    changes.iter().map(|of_shard| of_shard.iter().map(told).collect()).collect()
}

async fn refuses_what_is_behind_the_end(node: &Node, shard: u16) {
    let after: Cursor = "5000.5000.1".parse().expect("a cursor");
    loop {
        match node.changes(shard, after, 10, DEADLINE).await {
            Err(ReadError::Ahead { after: told }) => return assert_eq!(told, after, "shard {shard}"),
            Err(ReadError::Entity(cause)) if cause.is_transient() => {}
            other => panic!("shard {shard}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_tells_the_changes_of_all_shards_and_the_next_owner_goes_on_with_them() {
    let Some(bank) = Bank::over_one() else { return };
    let [a, b] = bank.nodes(["a", "b"]).await;
    bank.open_all(&a).await;
    for n in 0..ACCOUNTS {
        done(&a, bank.transfer(&format!("first-{n}"), 3, n, (n + 5) % ACCOUNTS)).await;
    }
    let start = vec![Cursor::START; usize::from(a.shards())];
    let (first, cursors) = follow(&a, &start, 7).await;
    assert_eq!(told(&follow(&b, &start, 1_000).await.0), told(&first), "in one order");
    // Each account is opened, and is in two transfers, which are objects, too.
    assert_eq!(first.iter().map(Vec::len).sum::<usize>(), 4 * ACCOUNTS);
    for (shard, node) in (0..a.shards()).flat_map(|shard| [(shard, &a), (shard, &b)]) {
        refuses_what_is_behind_the_end(node, shard).await;
    }
    a.leave(DEADLINE).await;
    for n in 0..ACCOUNTS {
        crate::bank::insist(&b, bank.transfer(&format!("second-{n}"), 3, n, (n + 7) % ACCOUNTS)).await;
    }
    let (second, _) = follow(&b, &cursors, 2).await;
    assert_eq!(second.iter().map(Vec::len).sum::<usize>(), 3 * ACCOUNTS);
    let joined: Vec<Vec<_>> = first.into_iter().zip(second).map(|(first, second)| [first, second].concat()).collect();
    assert_eq!(told(&follow(&b, &start, 5).await.0), told(&joined));
}
