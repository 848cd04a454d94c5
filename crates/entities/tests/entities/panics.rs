//! A panic in the model fails the entity whose turn it was in, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use enact_entities::{Engine, EngineOptions, EntityError, EntityKey, ReadError, ReadMode, SubmitError, View};
use enact_journal::Memory;
use tokio::task::JoinHandle;

use crate::support::bank::{Event, State};
use crate::support::client::{LONG, command, until};
use crate::support::key;
use crate::support::watched::{Watched, Watcher};

/// When the account panics, and what it has been asked for.
#[derive(Default)]
struct Command {
    /// Every event of the account panics.
    is_given: AtomicBool,
    withdrawals: AtomicUsize,
}

impl Watcher for Arc<Command> {
    fn hear(&self, key: &EntityKey, event: &Event) {
        assert!(!self.is_given.load(Ordering::SeqCst) || *key != account(), "the model panics");
        if matches!(event, Event::Withdraw(_)) {
            self.withdrawals.fetch_add(1, Ordering::SeqCst);
        }
    }
}

type Bank = Engine<Watched<Arc<Command>>, Memory>;

fn account() -> EntityKey {
    key("Account/A")
}

fn bank(journal: &Memory) -> (Bank, Arc<Command>) {
    let on_command = Arc::new(Command::default());
    let model = Watched(Arc::clone(&on_command));
    (Engine::new(model, journal.clone(), EngineOptions::default()), on_command)
}

async fn deposit(bank: &Bank, account: &str, cents: i128) -> Result<(), SubmitError> {
    bank.submit(command(account, Event::Deposit(cents))).await.map(drop)
}

async fn balance(bank: &Bank, account: &str) -> i128 {
    loop {
        match bank.read(&key(account), ReadMode::Certain, None, LONG).await {
            Ok(View::One { state: State::Account { balance, .. }, .. }) => return balance,
            // Its last turn is over, and it has not ended yet.
            Err(ReadError::Entity(EntityError::Ended { .. })) => tokio::task::yield_now().await,
            other => panic!("{account} cannot be read: {other:?}"),
        }
    }
}

/// A bank with two accounts of 10,000 cents.
async fn opened() -> (Memory, Bank, Arc<Command>) {
    let journal = Memory::new();
    let (bank, on_command) = bank(&journal);
    for account in ["Account/A", "Account/B"] {
        bank.submit(command(account, Event::Open(10_000))).await.expect("the account is opened");
    }
    (journal, bank, on_command)
}

/// A deposit of 1,000 cents that is admitted, and not durable until the journal is released.
async fn admit_a_deposit(journal: &Memory, bank: &Bank) -> JoinHandle<Result<(), SubmitError>> {
    journal.hold();
    let bank = bank.clone();
    let admitted = tokio::spawn(async move { deposit(&bank, "Account/A", 1_000).await });
    until(|| journal.waiting_count() > 0).await;
    admitted
}

fn has_ended<T>(answer: &Result<T, SubmitError>) -> bool {
    matches!(answer, Err(SubmitError::Entity(EntityError::Ended { entity, .. })) if *entity == account())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_refuses_the_command_and_the_entity_comes_back_from_the_journal() {
    let (_, bank, on_command) = opened().await;
    on_command.is_given.store(true, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = deposit(&bank, "Account/A", 1).await;
        assert!(has_ended(&refused), "{refused:?}");
        assert_eq!(deposit(&bank, "Account/B", 1).await, Ok(()));
    }
    assert_eq!(bank.failure(), None);
    on_command.is_given.store(false, Ordering::SeqCst);
    assert_eq!(balance(&bank, "Account/A").await, 10_000);
    assert_eq!(deposit(&bank, "Account/A", 1).await, Ok(()));
    assert_eq!((balance(&bank, "Account/A").await, balance(&bank, "Account/B").await), (10_001, 10_003));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_cannot_be_recovered_for_a_panic_fails_alone() {
    let (journal, ..) = opened().await;
    let (bank, on_command) = bank(&journal.crash());
    on_command.is_given.store(true, Ordering::SeqCst);
    let refused = deposit(&bank, "Account/A", 1).await;
    assert!(has_ended(&refused), "{refused:?}");
    assert_eq!(bank.failure(), None);
    on_command.is_given.store(false, Ordering::SeqCst);
    assert_eq!(balance(&bank, "Account/A").await, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_admitted_before_a_panic_is_kept_and_nothing_comes_between() {
    let (journal, bank, on_command) = opened().await;
    let admitted = admit_a_deposit(&journal, &bank).await;
    on_command.is_given.store(true, Ordering::SeqCst);
    assert!(has_ended(&deposit(&bank, "Account/A", 1).await));
    on_command.is_given.store(false, Ordering::SeqCst);
    // A recovery now would not know what is admitted.
    for _ in 0..3 {
        let refused = deposit(&bank, "Account/A", 1).await;
        assert!(has_ended(&refused), "{refused:?}");
    }
    journal.release();
    assert_eq!(admitted.await.expect("no panic"), Ok(()));
    assert_eq!(balance(&bank, "Account/A").await, 11_000);
    assert_eq!(bank.failure(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_while_a_decision_is_told_changes_nothing_about_the_decision() {
    let (journal, bank, on_command) = opened().await;
    let admitted = admit_a_deposit(&journal, &bank).await;
    let dependent = tokio::spawn({
        let bank = bank.clone();
        async move { bank.submit(command("Account/A", Event::Withdraw(10_500))).await }
    });
    until(|| on_command.withdrawals.load(Ordering::SeqCst) > 0).await;
    // Answered in a later turn: the withdrawal is delayed now, and looked at again when the deposit is decided.
    bank.read(&account(), ReadMode::Applied, None, LONG).await.expect("nothing has panicked");
    on_command.is_given.store(true, Ordering::SeqCst);
    journal.release();
    assert_eq!(admitted.await.expect("no panic"), Ok(()));
    let dependent = dependent.await.expect("no panic");
    assert!(has_ended(&dependent), "{dependent:?}");
    on_command.is_given.store(false, Ordering::SeqCst);
    assert_eq!(balance(&bank, "Account/A").await, 11_000);
    assert_eq!(bank.failure(), None);
}
