//! Reads and refusals behind a barrier: one whose journal was taken over says nothing that may be out of date.

use enact_entities::{DiskState, EngineOptions, ReadError, ReadMode, SubmitError};
use enact_journal::{Fault, Journal, Memory, Position};

use crate::support::bank::Event;
use crate::support::client::{LONG, balance, bank, command, open, until};
use crate::support::key;

fn behind_barriers() -> EngineOptions {
    EngineOptions { barrier_reads: true, ..EngineOptions::default() }
}

/// How many barriers `journal` has.
async fn barriers(journal: &Memory) -> usize {
    let records = journal.feed(Position::START, usize::MAX).await.expect("readable");
    records.iter().filter(|record| record.entity.class() == ".barrier").count()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_whose_journal_was_taken_over_shows_and_refuses_nothing_behind_barriers() {
    for (options, is_proven) in [(EngineOptions::default(), false), (behind_barriers(), true)] {
        let journal = Memory::new();
        let first = bank(&journal, options.clone());
        open(&first, "Account/A", 10_000).await;
        assert_eq!(balance(&first, "Account/A").await, 10_000);
        let second = bank(&journal.take_over("second"), options);
        second.submit(command("Account/A", Event::Deposit(5_000))).await.expect("it writes now");

        let withdrawn = first.submit(command("Account/A", Event::Withdraw(12_000))).await;
        let read = first.read(&key("Account/A"), ReadMode::Certain, None, LONG).await;
        if is_proven {
            assert!(matches!(withdrawn, Err(SubmitError::Failed { .. })), "{withdrawn:?}");
            assert!(matches!(read, Err(ReadError::Failed { .. })), "{read:?}");
            assert!(first.failure().expect("it knows").contains("taken over by second"));
        } else {
            assert!(matches!(withdrawn, Err(SubmitError::Refused { .. })), "out of date: {withdrawn:?}");
            assert!(read.is_ok(), "out of date: {read:?}");
        }
        assert_eq!(balance(&second, "Account/A").await, 15_000);
    }
}

#[tokio::test]
async fn all_that_wait_while_a_barrier_is_on_its_way_share_the_next() {
    let journal = Memory::new();
    let bank = bank(&journal, behind_barriers());
    open(&bank, "Account/A", 10_000).await;
    assert_eq!(barriers(&journal).await, 0, "what is durable needs none");
    journal.hold();
    let read = || {
        let bank = bank.clone();
        tokio::spawn(async move { balance(&bank, "Account/A").await })
    };
    let first = read();
    until(|| journal.waiting_count() == 1).await;
    let others: Vec<_> = (0..50).map(|_| read()).collect();
    // On one thread, so that all have asked.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    journal.release();
    assert_eq!(first.await.expect("no panic"), 10_000);
    for other in others {
        assert_eq!(other.await.expect("no panic"), 10_000);
    }
    assert_eq!(barriers(&journal).await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_a_barrier_is_none_and_the_engine_goes_on() {
    let journal = Memory::new();
    let bank = bank(&journal, behind_barriers());
    open(&bank, "Account/A", 10_000).await;
    journal.fail_next(Fault::Refused);
    let read = bank.read(&key("Account/A"), ReadMode::Certain, None, LONG).await;
    assert!(matches!(read, Err(ReadError::StorageFull { .. })), "{read:?}");
    journal.fail_next(Fault::Refused);
    let refused = bank.submit(command("Account/A", Event::Withdraw(12_000))).await;
    assert!(matches!(refused, Err(SubmitError::StorageFull { .. })), "{refused:?}");
    assert!(matches!(bank.disk(), DiskState::Full { .. }));

    assert_eq!(balance(&bank, "Account/A").await, 10_000);
    let refused = bank.submit(command("Account/A", Event::Withdraw(12_000))).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    assert_eq!(bank.disk(), DiskState::Ready);
}
