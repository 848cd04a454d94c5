//! What entities in memory take is bounded in bytes, and is given back.

use std::time::Duration;

use enact_entities::{EngineOptions, ReadMode, SubmitError};
use enact_journal::Memory;

use crate::support;
use crate::support::bank::Event;
use crate::support::client::{LONG, balance, bank, command, open, until};
use crate::support::key;

type Bank = support::client::Bank<Memory>;

/// The engine looks after itself while `done` is not so.
async fn maintained(bank: &Bank, done: impl Fn(&Bank) -> bool) {
    tokio::select! {
        never = bank.maintain() => match never {},
        () = until(|| done(bank)) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_what_never_was_leave_nothing_behind() {
    let bank = bank(&Memory::new(), EngineOptions::default());
    for number in 0..100 {
        let account = format!("Account/A{number}");
        let read = bank.read(&key(&account), ReadMode::Certain, None, LONG).await;
        assert!(read.is_ok(), "{read:?}");
        let refused = bank.submit(command(&account, Event::Deposit(1))).await;
        assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    }
    until(|| bank.live_bytes() == 0).await;
    open(&bank, "Account/A1", 10_000).await;
    assert_eq!(balance(&bank, "Account/A1").await, 10_000);
    assert!(bank.live_bytes() > 0, "what exists stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn entities_beyond_the_limit_are_put_away() {
    let journal = Memory::new();
    let live_bytes_max = 100_000;
    let bank = bank(&journal, EngineOptions { live_bytes_max, ..EngineOptions::default() });
    for number in 0..300 {
        open(&bank, &format!("Account/A{number}"), 10_000 + number).await;
    }
    maintained(&bank, |bank| bank.live_bytes() <= live_bytes_max).await;
    assert!(bank.live_bytes() > live_bytes_max / 2, "no more than need be");
    for number in 0..300 {
        assert_eq!(balance(&bank, &format!("Account/A{number}")).await, 10_000 + number);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_engine_that_nobody_uses_shrinks_to_nothing() {
    let options = EngineOptions { idle_after: Duration::ZERO, ..EngineOptions::default() };
    let bank = bank(&Memory::new(), options);
    for number in 0..100 {
        open(&bank, &format!("Account/A{number}"), 10_000 + number).await;
    }
    maintained(&bank, |bank| bank.live_bytes() == 0).await;
    assert_eq!(balance(&bank, "Account/A7").await, 10_007);
}
