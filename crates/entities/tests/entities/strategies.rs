//! The strategies of an engine: one for all classes, or another one for some of them.

use enact_entities::{EngineOptions, EntityKey, Range, ReadMode, Strategies, Strategy, SubmitError, Values, View};
use enact_journal::{Fault, Journal, Memory};
use tokio::task::JoinHandle;

use crate::support::bank::{Event, Step};
use crate::support::client::{Bank, LONG, balance, bank, command, open, until};
use crate::support::key;

const EARLY: Strategy = Strategy::LockingEarlyRelease;

/// A and B with 10,000 cents.
async fn opened(strategies: impl Into<Strategies>) -> (Memory, Bank<Memory>) {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions { strategies: strategies.into(), ..EngineOptions::default() });
    open(&bank, "Account/A", 10_000).await;
    open(&bank, "Account/B", 10_000).await;
    (journal, bank)
}

type Answer = Result<(), SubmitError>;

fn submit<J: Journal>(bank: &Bank<J>, entity: &str, event: Event) -> JoinHandle<Answer> {
    let (bank, command) = (bank.clone(), command(entity, event));
    tokio::spawn(async move { bank.submit(command).await.map(drop) })
}

async fn answer(of: JoinHandle<Answer>) -> Answer {
    of.await.expect("no panic")
}

fn at(account: &EntityKey, cents: i128) -> Event {
    Event::Run(vec![Step::Do(account.clone(), Event::Deposit(cents))])
}

/// Locking would let one of them into the journal at a time.
#[tokio::test(flavor = "multi_thread")]
async fn under_early_release_commands_to_one_entity_share_a_sync() {
    let (journal, bank) = opened(EARLY).await;
    journal.hold();
    let mut all = Vec::new();
    for _ in 0..10 {
        // The withdrawal needs the deposit before it.
        for event in [Event::Deposit(100), Event::Withdraw(10_100), Event::Deposit(10_000)] {
            all.push(submit(&bank, "Account/A", event));
            until(|| journal.waiting_count() == all.len()).await;
        }
    }
    journal.release();
    for submitted in all {
        assert_eq!(answer(submitted).await, Ok(()));
    }
    assert_eq!(balance(&bank, "Account/A").await, 10_000);
    assert_eq!(balance(&self::bank(&journal, EngineOptions::default()), "Account/A").await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn under_early_release_a_refused_append_takes_what_depends_on_it_with_it_and_the_next_one_goes_on() {
    let (journal, bank) = opened(EARLY).await;
    for round in 0..10 {
        journal.hold();
        let first = submit(&bank, "Account/A", Event::Deposit(100));
        until(|| journal.waiting_count() == 1).await;
        let second = submit(&bank, "Account/A", Event::Withdraw(10_050));
        until(|| journal.waiting_count() == 2).await;
        journal.fail_next(Fault::Refused);
        journal.release();
        assert!(answer(first).await.is_err() && answer(second).await.is_err(), "round {round}");
        assert_eq!(balance(&bank, "Account/A").await, 10_000);
        assert_eq!(answer(submit(&bank, "Account/A", Event::Deposit(1))).await, Ok(()));
        assert_eq!(answer(submit(&bank, "Account/A", Event::Withdraw(1))).await, Ok(()));
        assert_eq!(bank.failure(), None);
    }
}

/// The dependent has voted, and is let to the journal when everything that was refused is over.
#[tokio::test(flavor = "multi_thread")]
async fn under_early_release_a_dependent_is_refused_whenever_it_comes_to_the_journal() {
    let (journal, bank) = opened(Strategies::from(EARLY).with("Relay", Strategy::Locking)).await;
    for round in 0..10 {
        journal.hold();
        let first = submit(&bank, "Account/A", Event::Deposit(100));
        until(|| journal.waiting_count() == 1).await;
        let relay = format!("Relay/{round}");
        let holds_the_relay = submit(&bank, &relay, at(&key("Account/B"), 1));
        until(|| journal.waiting_count() == 2).await;
        let dependent = submit(&bank, &relay, at(&key("Account/A"), 7));
        // It has voted at the account, and waits for the relay.
        while highest_balance(&bank).await != "EUR 101.07" {
            tokio::task::yield_now().await;
        }
        journal.fail_next(Fault::Refused);
        journal.release();
        assert!(answer(first).await.is_err() && answer(holds_the_relay).await.is_err());
        let dependent = answer(dependent).await;
        assert!(matches!(dependent, Err(SubmitError::Overloaded { .. })), "{dependent:?}");
        assert_eq!(balance(&bank, "Account/A").await, 10_000);
        assert_eq!(bank.failure(), None);
    }
}

async fn highest_balance(bank: &Bank<Memory>) -> String {
    match bank.read(&key("Account/A"), ReadMode::Range, None, LONG).await {
        Ok(View::Range(Range { fields, .. })) => match &fields[0].values {
            Values::Between { high, .. } => high.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("there are few outcomes: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_has_its_own_strategy_and_all_others_that_of_the_engine() {
    for (strategies, waiting) in [
        (Strategies::from(Strategy::Locking), 1),
        (Strategies::from(Strategy::Locking).with("Account", Strategy::Psac), 3),
        (Strategies::from(Strategy::Locking).with("Account", EARLY), 3),
        (Strategies::from(Strategy::Locking).with("Relay", Strategy::Psac), 1),
        (Strategies::from(Strategy::Psac).with("Account", Strategy::Locking), 1),
    ] {
        let (journal, bank) = opened(strategies.clone()).await;
        assert_eq!(*bank.strategies(), strategies);
        journal.hold();
        let all: Vec<_> = (0..3).map(|_| submit(&bank, "Account/A", Event::Deposit(1))).collect();
        // Under a lock the others have been asked for by then, and are delayed.
        until(|| journal.waiting_count() >= waiting).await;
        for _ in 0..3 {
            bank.read(&key("Account/A"), ReadMode::Applied, None, LONG).await.expect("read");
        }
        assert_eq!(journal.waiting_count(), waiting, "{strategies}");
        journal.release();
        for submitted in all {
            assert_eq!(answer(submitted).await, Ok(()));
        }
        assert_eq!(balance(&bank, "Account/A").await, 10_003);
    }
}

#[test]
fn the_name_of_no_class_is_found() {
    let strategies = Strategies::from(Strategy::Locking).with("Account", EARLY).with("Acount", Strategy::Psac);
    let classes = ["Account", "Order"];
    let unknown = strategies.check(classes).expect_err("there is no such class");
    assert_eq!(unknown.to_string(), "Acount=psac: there is no class `Acount`; there are `Account`, `Order`");
    assert_eq!(Strategies::from(Strategy::Psac).with("Order", EARLY).check(classes), Ok(()));
}

#[test]
fn a_transaction_has_the_weakest_guarantee_of_the_classes_it_touches() {
    let strategies = Strategies::from(Strategy::Locking).with("Account", EARLY).with("Log", Strategy::Psac);
    assert!(strategies.are_serializable(["Account", "Order"]));
    assert!(!strategies.are_serializable(["Account", "Log"]));
}
