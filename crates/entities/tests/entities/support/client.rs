//! Clients of an engine over the bank written by hand.

use std::time::Duration;

use enact_entities::{Command, Engine, EngineOptions, Idempotency, ReadMode, View};
use enact_journal::{Embedded, Journal, Memory, Options};
use enact_journal_kit::sim::SimDisk;

use super::bank::{Event, Hand, State};
use super::key;

/// Longer than any machine takes: nobody gives up unless the test wants it.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// An engine that a client asks.
pub(crate) type Bank<J> = Engine<Hand, J>;

pub(crate) fn bank(journal: &Memory, options: EngineOptions) -> Bank<Memory> {
    bank_over(journal.clone(), options)
}

pub(crate) fn bank_over<J: Journal>(journal: J, options: EngineOptions) -> Bank<J> {
    Engine::new(Hand { hints: true }, journal, options)
}

/// A bank on a disk that was written before, so that whatever is asked for first has to be read.
pub(crate) fn reopened(disk: &SimDisk) -> Bank<Embedded> {
    let journal = Embedded::open_on(disk.mount(), Options::default()).expect("the journal opens");
    bank_over(journal, EngineOptions::default())
}

/// A disk with the account `A` and the key `d-1`.
pub(crate) async fn disk_with_an_account() -> SimDisk {
    let disk = SimDisk::new(0);
    let bank = reopened(&disk);
    open(&bank, "Account/A", 10_000).await;
    bank.submit(keyed_deposit()).await.expect("a deposit is possible");
    bank.shutdown(LONG).await.expect("the journal closes");
    disk
}

pub(crate) fn keyed_deposit() -> Command<Event> {
    repeatable(command("Account/A", Event::Deposit(100)), "d-1", 1)
}

pub(crate) fn command(entity: &str, event: Event) -> Command<Event> {
    Command { key: key(entity), event, then: Vec::new(), idempotency: None, deadline: LONG }
}

pub(crate) fn book(number: usize, from: &str, to: &str, amount: i128) -> Command<Event> {
    command(&format!("Transfer/T{number}"), Event::Book { from: key(from), to: key(to), amount })
}

pub(crate) fn repeatable(mut command: Command<Event>, name: &str, fingerprint: u8) -> Command<Event> {
    command.idempotency = Some(Idempotency { key: name.to_owned(), principal: None, fingerprint: [fingerprint; 32] });
    command
}

pub(crate) async fn open<J: Journal>(bank: &Bank<J>, account: &str, cents: i128) {
    bank.submit(command(account, Event::Open(cents))).await.expect("the account is opened");
}

pub(crate) async fn balance<J: Journal>(bank: &Bank<J>, account: &str) -> i128 {
    match bank.read(&key(account), ReadMode::Certain, None, LONG).await {
        Ok(View::One { state: State::Account { balance, .. }, .. }) => balance,
        other => panic!("{account} cannot be read: {other:?}"),
    }
}

/// Lets other tasks and threads go on until `done`.
pub(crate) async fn until(mut done: impl FnMut() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}
