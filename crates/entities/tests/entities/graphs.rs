//! The graph of waits that a timeout carries: which transaction waits for which, across entities, down to what decides it.

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::Duration;

use enact_entities::{Awaited, Command, Engine, EngineOptions, Link, ReadError, ReadMode, SubmitError};
use enact_journal::Memory;
use tokio::task::JoinHandle;

use crate::support::bank::{Event, Hand};
use crate::support::client::{Bank, LONG, book, command, open, repeatable, until};
use crate::support::key;

type Submitted = JoinHandle<Result<enact_entities::Receipt, SubmitError>>;

fn bank(journal: &Memory) -> Bank<Memory> {
    Engine::new(Hand { hints: true }, journal.clone(), EngineOptions::default())
}

/// Submits a command that has to wait, so that whatever is submitted later comes later.
async fn submit(bank: &Bank<Memory>, command: Command<Event>) -> Submitted {
    let bank = bank.clone();
    let mut submitted = Box::pin(async move { bank.submit(command).await });
    let begun = poll_fn(|cx| Poll::Ready(submitted.as_mut().poll(cx).is_pending())).await;
    assert!(begun, "it has to wait");
    tokio::spawn(submitted)
}

/// What the command under the same key waits for, with the graph behind it.
async fn probe(bank: &Bank<Memory>, command: &Command<Event>) -> Vec<Link> {
    match bank.submit(command.clone()).await {
        Err(SubmitError::KeyInUse { graph, .. }) => graph,
        other => panic!("it depends on others: {other:?}"),
    }
}

/// A withdrawal at B whose record is being written; and a transfer from B to A that is open at A, as a deposit, and waits
/// for it at B.
async fn chain() -> (Memory, Bank<Memory>, [Submitted; 2]) {
    let journal = Memory::new();
    let bank = bank(&journal);
    for account in ["Account/A", "Account/B"] {
        open(&bank, account, 10_000).await;
    }
    journal.hold();
    let withdrawal = submit(&bank, command("Account/B", Event::Withdraw(6_000))).await;
    until(|| journal.waiting_count() > 0).await;
    let transfer = submit(&bank, book(1, "Account/B", "Account/A", 6_000)).await;
    (journal, bank, [withdrawal, transfer])
}

/// Asks with longer and longer deadlines until there are as many links as there must be.
async fn graph(expected: usize, ask: impl AsyncFn(Duration) -> Vec<Link>) -> Vec<Link> {
    let mut deadline = Duration::from_millis(10);
    loop {
        let links = ask(deadline).await;
        if links.len() == expected {
            return links;
        }
        tokio::task::yield_now().await;
        deadline = (deadline * 2).min(LONG);
    }
}

fn is_chain(links: &[Link]) {
    let [transfer, withdrawal] = links else { panic!("two links: {links:?}") };
    assert_eq!((&transfer.addressed, &transfer.awaited), (&key("Transfer/T1"), &Awaited::Entity(key("Account/B"))));
    let [wait] = &transfer.waits_for[..] else { panic!("it waits for one: {transfer:?}") };
    assert_eq!((wait.waiting.as_str(), wait.event.as_str(), wait.tx), ("Withdraw", "Withdraw", withdrawal.tx));
    assert_eq!((&withdrawal.addressed, &withdrawal.awaited), (&key("Account/B"), &Awaited::Record));
    assert!(withdrawal.waits_for.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timeout_names_what_those_wait_for_that_it_waited_for() {
    let (journal, bank, others) = chain().await;
    let links = graph(2, async |deadline| {
        let dependent = Command { deadline, ..command("Account/A", Event::Withdraw(15_000)) };
        match bank.submit(dependent).await {
            Err(SubmitError::Timeout { graph, .. }) => graph,
            // The transfer has not come to A.
            Err(SubmitError::Refused { .. }) => Vec::new(),
            other => panic!("it depends on the transfer: {other:?}"),
        }
    })
    .await;
    is_chain(&links);
    let said = links.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(
        said[0].contains(" on Transfer/T1 waits at Account/B: balance is between EUR 40.00 and EUR 100.00 and must be at least EUR 60.00: it depends on Withdraw of "),
        "{said:?}"
    );
    assert!(said[1].ends_with(" on Account/B waits for the disk to have written its record"), "{said:?}");
    journal.release();
    for other in others {
        drop(other.await.expect("no panic"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_times_out_names_it_too() {
    let (journal, bank, others) = chain().await;
    let links =
        graph(2, async |deadline| match bank.read(&key("Account/A"), ReadMode::Certain, None, deadline).await {
            Err(ReadError::Timeout { graph, .. }) => graph,
            // The transfer has not come to A.
            Ok(_) => Vec::new(),
            other => panic!("it depends on the transfer: {other:?}"),
        })
        .await;
    is_chain(&links);
    journal.release();
    for other in others {
        drop(other.await.expect("no panic"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_for_a_command_under_way_by_its_key_is_told_what_it_waits_for() {
    let (journal, bank, others) = chain().await;
    // Only what comes after the transfer depends on it.
    graph(2, async |deadline| match bank.read(&key("Account/A"), ReadMode::Certain, None, deadline).await {
        Err(ReadError::Timeout { graph, .. }) => graph,
        _ => Vec::new(),
    })
    .await;
    let dependent = repeatable(command("Account/A", Event::Withdraw(15_000)), "later", 1);
    let late = submit(&bank, dependent.clone()).await;
    let links = graph(3, async |_| probe(&bank, &dependent).await).await;
    assert_eq!((&links[0].addressed, &links[0].awaited), (&key("Account/A"), &Awaited::Entity(key("Account/A"))));
    is_chain(&links[1..]);
    journal.release();
    for other in others.into_iter().chain([late]) {
        drop(other.await.expect("no panic"));
    }
}

/// Twenty transfers, each of which waits for the next one at the account after its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_graph_ends_after_sixteen_links() {
    let journal = Memory::new();
    let bank = bank(&journal);
    let account = |number: usize| format!("Account/{number:02}");
    for number in 1..=20 {
        open(&bank, &account(number), 10_000).await;
    }
    journal.hold();
    let mut all = vec![submit(&bank, command(&account(20), Event::Deposit(5_000))).await];
    until(|| journal.waiting_count() > 0).await;
    for number in (1..20).rev() {
        let amount = if number == 19 { 12_000 } else { 15_000 };
        let transfer = book(number, &account(number + 1), &account(number), amount);
        let transfer = repeatable(transfer, "transfer", 1);
        all.push(submit(&bank, transfer.clone()).await);
        while probe(&bank, &transfer).await.first().is_none_or(|link| link.waits_for.is_empty()) {
            tokio::task::yield_now().await;
        }
    }
    graph(16, async |deadline| {
        let dependent = Command { deadline, ..command(&account(1), Event::Withdraw(15_000)) };
        match bank.submit(dependent).await {
            Err(SubmitError::Timeout { graph, .. }) => graph,
            other => panic!("it depends on the transfers: {other:?}"),
        }
    })
    .await;
    journal.release();
    for ended in all {
        ended.await.expect("no panic").expect("everything is covered in the end");
    }
}
