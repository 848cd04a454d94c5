//! The engine: the state machines over a journal that fails on command.

use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Awaited, Command, EngineOptions, EntityError, ReadError, ReadMode, Receipt, Strategy, SubmitError, View, Wait,
};
use enact_journal::{Fault, Journal, Memory, ReadError as JournalReadError};
use tokio::sync::Barrier;

use crate::support::bank::{Event, State};
use crate::support::chance::Chance;
use crate::support::client::{
    LONG, balance, bank, book, command, disk_with_an_account, keyed_deposit, open, reopened, repeatable, until,
};
use crate::support::key;

/// What `ask` waited for, with a deadline that is long enough to begin to wait.
async fn expired(ask: impl AsyncFn(Duration) -> Vec<Wait>) -> Vec<Wait> {
    let mut deadline = Duration::from_millis(1);
    loop {
        let waits_for = ask(deadline).await;
        if !waits_for.is_empty() {
            return waits_for;
        }
        deadline *= 2;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_changes_both_accounts_and_survives_reopening() {
    let journal = Memory::new();
    let first = bank(&journal, EngineOptions::default());
    open(&first, "Account/A", 10_000).await;
    open(&first, "Account/B", 5_000).await;
    let receipt = first.submit(book(1, "Account/A", "Account/B", 3_000)).await.expect("there is enough");
    assert_eq!(receipt.state.as_deref(), Some("booked"));
    assert_eq!((balance(&first, "Account/A").await, balance(&first, "Account/B").await), (7_000, 8_000));

    let second = bank(&journal.crash(), EngineOptions::default());
    assert_eq!((balance(&second, "Account/A").await, balance(&second, "Account/B").await), (7_000, 8_000));
    let again = second.submit(book(1, "Account/A", "Account/B", 3_000)).await;
    assert!(matches!(again, Err(SubmitError::Refused { .. })), "a transfer is booked once: {again:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_is_one_record_group() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    open(&bank, "Account/B", 5_000).await;
    journal.hold();
    let submitted = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(book(1, "Account/A", "Account/B", 3_000)).await }
    });
    until(|| journal.waiting_count() > 0).await;
    assert_eq!(journal.sync(1), 1);
    assert!(submitted.await.expect("no panic").is_ok(), "one append is all that it takes");
    assert_eq!(journal.waiting_count(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_acknowledged_before_it_is_durable() {
    let journal = Memory::new();
    let bank1 = bank(&journal, EngineOptions::default());
    journal.hold();
    let submitted = tokio::spawn({
        let bank = bank1.clone();
        async move { bank.submit(command("Account/A", Event::Open(10_000))).await }
    });
    until(|| journal.waiting_count() > 0).await;
    let journal = journal.crash();
    let answer = submitted.await.expect("no panic");
    assert!(matches!(answer, Err(SubmitError::InDoubt { .. })), "{answer:?}");

    let bank = bank(&journal, EngineOptions::default());
    let read = bank.read(&key("Account/A"), ReadMode::Certain, None, LONG).await;
    assert_eq!(read.as_ref().map(exists), Ok(false));
}

fn exists(view: &View<State>) -> bool {
    matches!(view, View::One { exists: true, .. })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_gets_the_same_answer_and_no_second_effect_also_after_a_restart() {
    let journal = Memory::new();
    let first = bank(&journal, EngineOptions::default());
    open(&first, "Account/A", 10_000).await;
    let deposit = repeatable(command("Account/A", Event::Deposit(100)), "d-1", 1);
    let refused = repeatable(command("Account/A", Event::Withdraw(1_000_000)), "w-1", 2);
    let done = first.submit(deposit.clone()).await.expect("a deposit is possible");
    let Err(SubmitError::Refused { refusal, replayed: false }) = first.submit(refused.clone()).await else {
        panic!("there is not so much")
    };
    // What was refused stays refused under its key, though it would be possible now.
    first.submit(command("Account/A", Event::Deposit(2_000_000))).await.expect("a deposit is possible");

    for bank in [first.clone(), bank(&journal, EngineOptions::default())] {
        let again = bank.submit(deposit.clone()).await;
        assert_eq!(again, Ok(Receipt { replayed: true, ..done.clone() }));
        let again = bank.submit(refused.clone()).await;
        assert_eq!(again, Err(SubmitError::Refused { refusal: refusal.clone(), replayed: true }));
        let other = repeatable(command("Account/A", Event::Deposit(100)), "d-1", 3);
        assert_eq!(bank.submit(other).await, Err(SubmitError::KeyReused));
        assert_eq!(balance(&bank, "Account/A").await, 2_010_100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_running_is_in_use() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    journal.hold();
    let request = repeatable(command("Account/A", Event::Open(10_000)), "o-1", 1);
    let first = tokio::spawn({
        let (bank, request) = (bank.clone(), request.clone());
        async move { bank.submit(request).await }
    });
    until(|| journal.waiting_count() > 0).await;
    assert!(matches!(bank.submit(request.clone()).await, Err(SubmitError::KeyInUse { .. })));
    let other = repeatable(command("Account/A", Event::Open(20_000)), "o-1", 2);
    assert_eq!(bank.submit(other).await, Err(SubmitError::KeyReused));
    journal.release();
    assert!(first.await.expect("no panic").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_belongs_to_the_entity_that_is_addressed() {
    let journal = Memory::new();
    for (number, balance_before) in [(1, 0), (2, 10_000)] {
        let bank = bank(&journal, EngineOptions::default());
        for account in ["Account/A", "Account/B"] {
            let opened = bank.submit(repeatable(command(account, Event::Open(10_000)), "o-1", 1)).await;
            assert_eq!(opened.map(|receipt| receipt.replayed), Ok(balance_before > 0), "start {number} of {account}");
            assert_eq!(balance(&bank, account).await, 10_000);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_answer_is_no_longer_kept_is_a_new_one() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions { keep_answers: Duration::ZERO, ..EngineOptions::default() });
    open(&bank, "Account/A", 10_000).await;
    for count in 1..=3 {
        let deposit = repeatable(command("Account/A", Event::Deposit(100)), "d-1", 1);
        assert_eq!(bank.submit(deposit).await.map(|receipt| receipt.replayed), Ok(false));
        assert_eq!(balance(&bank, "Account/A").await, 10_000 + count * 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn in_doubt_is_neither_done_nor_refused_and_the_key_settles_it_after_recovery() {
    for is_performed in [false, true] {
        let journal = Memory::new();
        let first = bank(&journal, EngineOptions::default());
        open(&first, "Account/A", 10_000).await;
        journal.fail_next(Fault::InDoubt { is_performed });
        let deposit = repeatable(command("Account/A", Event::Deposit(100)), "d-1", 1);
        let answer = first.submit(deposit.clone()).await;
        assert!(matches!(answer, Err(SubmitError::InDoubt { .. })), "{answer:?}");
        assert!(matches!(first.submit(deposit.clone()).await, Err(SubmitError::Failed { .. })));
        let read = first.read(&key("Account/A"), ReadMode::Certain, None, LONG).await;
        assert!(matches!(read, Err(ReadError::Failed { .. })), "{read:?}");
        first.failed().await;

        let second = bank(&journal.crash(), EngineOptions::default());
        let again = second.submit(deposit).await.expect("now it is known");
        assert_eq!(again.replayed, is_performed);
        assert_eq!(balance(&second, "Account/A").await, 10_100, "once, performed then: {is_performed}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_append_has_no_effect_and_the_next_one_goes_on() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    for round in 0..3 {
        journal.fail_next(Fault::Refused);
        let refused = bank.submit(command("Account/A", Event::Deposit(100))).await;
        assert!(matches!(refused, Err(SubmitError::StorageFull { .. })), "{refused:?}");
        bank.submit(command("Account/A", Event::Deposit(1))).await.expect("the journal goes on");
        assert_eq!(balance(&bank, "Account/A").await, 10_001 + round);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_whose_caller_is_gone_takes_its_course() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    journal.hold();
    let caller = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(command("Account/A", Event::Deposit(100))).await }
    });
    until(|| journal.waiting_count() > 0).await;
    caller.abort();
    assert!(caller.await.is_err_and(|error| error.is_cancelled()));
    journal.release();
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_waits_past_the_deadline_is_told_what_for_and_nothing_happened() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    journal.hold();
    let deposit = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(command("Account/A", Event::Deposit(1_000))).await }
    });
    until(|| journal.waiting_count() > 0).await;
    let waits_for = expired(async |deadline| {
        let dependent = Command { deadline, ..command("Account/A", Event::Withdraw(10_500)) };
        match bank.submit(dependent).await {
            Err(SubmitError::Timeout { awaited, waits_for, .. }) => {
                assert!(waits_for.is_empty() || awaited == Awaited::Entity(key("Account/A")), "{awaited}");
                waits_for
            }
            other => panic!("it depends on the deposit: {other:?}"),
        }
    })
    .await;
    assert_eq!(waits_for.len(), 1);
    assert_eq!(waits_for[0].event, "Deposit");
    let waits_for =
        expired(async |deadline| match bank.read(&key("Account/A"), ReadMode::Certain, None, deadline).await {
            Err(ReadError::Timeout { waits_for, .. }) => waits_for,
            other => panic!("it depends on the deposit: {other:?}"),
        })
        .await;
    assert_eq!(waits_for.len(), 1);
    journal.release();
    assert!(deposit.await.expect("no panic").is_ok());
    assert_eq!(balance(&bank, "Account/A").await, 11_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn beyond_the_limit_a_command_is_turned_away() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions { in_flight_max: 1, ..EngineOptions::default() });
    journal.hold();
    let first = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(command("Account/A", Event::Open(10_000))).await }
    });
    until(|| journal.waiting_count() > 0).await;
    let second = bank.submit(command("Account/B", Event::Open(10_000))).await;
    assert!(matches!(second, Err(SubmitError::Overloaded { .. })), "{second:?}");
    journal.release();
    assert!(first.await.expect("no panic").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_finishes_what_is_admitted_and_takes_nothing_more() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    journal.hold();
    let first = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(command("Account/A", Event::Open(10_000))).await }
    });
    until(|| journal.waiting_count() > 0).await;
    let stopping = tokio::spawn({
        let bank = bank.clone();
        async move { bank.shutdown(LONG).await }
    });
    while bank.read(&key("Account/Z"), ReadMode::Applied, None, LONG).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let late = bank.submit(command("Account/B", Event::Open(10_000))).await;
    assert_eq!(late, Err(SubmitError::Stopping));
    journal.release();
    assert!(first.await.expect("no panic").is_ok());
    assert_eq!(stopping.await.expect("no panic"), Ok(()));
    assert!(journal.append(vec![]).await.is_err(), "the journal is closed");
}

/// Random transfers from many clients, with so few entities in memory that they come and go all the time.
#[tokio::test(flavor = "multi_thread")]
async fn money_is_conserved_under_every_strategy_also_while_entities_come_and_go() {
    const ACCOUNTS: usize = 100;
    const OPENING: i128 = 10_000;
    for (strategy, live_bytes_max) in [
        (Strategy::Locking, usize::MAX),
        (Strategy::LockingEarlyRelease, usize::MAX),
        (Strategy::Psac, usize::MAX),
        (Strategy::Serializable, usize::MAX),
        (Strategy::LockingEarlyRelease, 64 * 3_000),
        (Strategy::LockingEarlyRelease, 0),
        (Strategy::Serializable, 64 * 3_000),
        (Strategy::Serializable, 0),
    ] {
        let journal = Memory::new();
        let bank1 =
            bank(&journal, EngineOptions { strategies: strategy.into(), live_bytes_max, ..EngineOptions::default() });
        for number in 0..ACCOUNTS {
            open(&bank1, &format!("Account/A{number}"), OPENING).await;
        }
        let mut clients = Vec::new();
        for client in 0..16_usize {
            let bank = bank1.clone();
            clients.push(tokio::spawn(async move {
                let mut chance = Chance::new(74_755 + client as u64);
                for number in 0..50 {
                    let (from, to) = (chance.below(ACCOUNTS), chance.below(ACCOUNTS));
                    let amount = i128::try_from(1 + chance.below(6_000)).expect("small");
                    let transfer =
                        book(client * 1_000 + number, &format!("Account/A{from}"), &format!("Account/A{to}"), amount);
                    match bank.submit(transfer).await {
                        Ok(_) | Err(SubmitError::Refused { .. }) => {}
                        Err(other) => panic!("{strategy:?}: {other}"),
                    }
                }
            }));
        }
        for client in clients {
            client.await.expect("no panic");
        }
        let recovered = bank(&journal, EngineOptions { strategies: strategy.into(), ..EngineOptions::default() });
        let mut sum = 0;
        for number in 0..ACCOUNTS {
            let account = format!("Account/A{number}");
            let live = balance(&bank1, &account).await;
            assert!(live >= 0);
            assert_eq!(balance(&recovered, &account).await, live, "recovery finds what was live");
            sum += live;
        }
        assert_eq!(sum, OPENING * ACCOUNTS as i128, "{strategy:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hot_entity_is_recovered_from_its_snapshot() {
    let journal = Memory::new();
    let bank1 = bank(&journal, EngineOptions::default());
    open(&bank1, "Account/A", 10_000).await;
    for _ in 0..1_000 {
        bank1.submit(command("Account/A", Event::Deposit(1))).await.expect("a deposit is possible");
    }
    assert!(journal.load_snapshot(&key("Account/A")).await.expect("the journal is open").is_some());
    assert_eq!(balance(&bank(&journal, EngineOptions::default()), "Account/A").await, 11_000);
}

fn is_unread(error: &EntityError) -> bool {
    matches!(error, EntityError::Journal(JournalReadError::Io { .. }))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_cannot_be_read_refuses_until_it_can_without_a_restart() {
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    disk.fail_reads(true);
    for _ in 0..2 {
        let read = bank.read(&key("Account/A"), ReadMode::Certain, None, LONG).await;
        assert!(matches!(&read, Err(ReadError::Entity(cause)) if is_unread(cause)), "{read:?}");
        for refused in [command("Account/A", Event::Deposit(1)), keyed_deposit(), book(1, "Account/A", "Account/B", 1)]
        {
            let answer = bank.submit(refused).await;
            assert!(matches!(&answer, Err(SubmitError::Entity(cause)) if is_unread(cause)), "{answer:?}");
        }
    }
    disk.fail_reads(false);
    assert_eq!(balance(&bank, "Account/A").await, 10_100);
    assert!(bank.submit(keyed_deposit()).await.expect("its answer can be read").replayed);
    bank.submit(command("Account/A", Event::Deposit(1))).await.expect("a deposit is possible");
    assert_eq!(balance(&bank, "Account/A").await, 10_101);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_could_not_be_read_is_read_again_once_for_all_clients() {
    const CLIENTS: usize = 16;
    let disk = disk_with_an_account().await;
    let bank = reopened(&disk);
    disk.fail_reads(true);
    let all_refused = Arc::new(Barrier::new(CLIENTS + 1));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (bank, all_refused) = (bank.clone(), Arc::clone(&all_refused));
            tokio::spawn(async move {
                for refused_count in 0.. {
                    match bank.submit(command("Account/A", Event::Deposit(1))).await {
                        Ok(_) => return,
                        Err(SubmitError::Entity(cause)) if is_unread(&cause) => {}
                        Err(other) => panic!("{other}"),
                    }
                    if refused_count == 2 {
                        all_refused.wait().await;
                    }
                    assert!(refused_count < 10_000, "still refused");
                }
            })
        })
        .collect();
    all_refused.wait().await;
    disk.fail_reads(false);
    for client in clients {
        client.await.expect("no panic");
    }
    assert_eq!(balance(&bank, "Account/A").await, 10_100 + CLIENTS as i128, "every deposit happened once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_look_for_the_end_of_an_entity_refuses_the_command_alone() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    // After a refusal the end of its records is looked for with the next append.
    journal.fail_next(Fault::Refused);
    let full = bank.submit(command("Account/A", Event::Deposit(1))).await;
    assert!(matches!(full, Err(SubmitError::StorageFull { .. })), "{full:?}");
    journal.fail_reads(true);
    let refused = bank.submit(command("Account/A", Event::Deposit(1))).await;
    assert!(matches!(&refused, Err(SubmitError::Entity(cause)) if is_unread(cause)), "{refused:?}");
    assert_eq!(bank.failure(), None);
    journal.fail_reads(false);
    bank.submit(command("Account/A", Event::Deposit(1))).await.expect("possible");
    assert_eq!(balance(&bank, "Account/A").await, 10_001);
}
