//! What an engine tells of the past of an entity.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Command, Engine, EngineOptions, EntityError, Happened, History, HistoryPart, ManualClock, Model, ReadError,
    ReadMode, Record, Slot, Timestamp, TxId, Values, View,
};
use enact_journal::{Journal, Kind, Memory, NewRecord, Seq};
use tokio::task::JoinHandle;

use crate::support::bank::{Event, Hand, State};
use crate::support::chance::{Chance, for_seeds};
use crate::support::client::{Bank, LONG, balance, bank, book, command, open, until};
use crate::support::{key, tx};

const WHOLE: HistoryPart = HistoryPart::Page { after: None, limit: usize::MAX };

async fn ask<J: Journal>(bank: &Bank<J>, account: &str, part: HistoryPart) -> History<State, Event> {
    bank.history(&key(account), part, LONG).await.unwrap_or_else(|error| panic!("{account} {part:?}: {error}"))
}

/// All pages of `limit` transactions, as one.
async fn in_pages(bank: &Bank<Memory>, account: &str, limit: usize) -> Vec<Happened<State, Event>> {
    let mut transactions: Vec<Happened<State, Event>> = Vec::new();
    loop {
        let after = transactions.last().map(|last| last.slot);
        let page = ask(bank, account, HistoryPart::Page { after, limit }).await;
        if let Some(last) = transactions.last() {
            assert_eq!(page.before, last.state, "{account} after {after:?}");
        }
        assert!(page.transactions.len() <= limit);
        transactions.extend(page.transactions);
        if !page.has_more {
            return transactions;
        }
    }
}

fn balance_of(state: &State) -> i128 {
    match state {
        State::Account { balance, .. } => *balance,
        other => panic!("{other:?} is no account"),
    }
}

#[test]
fn a_history_has_every_commit_in_the_order_of_its_effect_and_nothing_else() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    for_seeds("histories", 20, |seed| {
        runtime.block_on(async {
            let mut chance = Chance::new(seed);
            let journal = Memory::new();
            let bank = bank(&journal, EngineOptions::default());
            let accounts = ["Account/A", "Account/B"];
            for account in accounts {
                open(&bank, account, 10_000).await;
            }
            let commands: Vec<_> = (0..200)
                .map(|n| {
                    let (one, other) = if chance.percent(50) { (0, 1) } else { (1, 0) };
                    let amount = 1 + chance.below(8_000) as i128;
                    match chance.below(3) {
                        0 => (command(accounts[one], Event::Deposit(amount)), vec![one]),
                        1 => (command(accounts[one], Event::Withdraw(amount)), vec![one]),
                        _ => (book(n, accounts[one], accounts[other], amount), vec![one, other]),
                    }
                })
                .collect();
            let mut acknowledged = [BTreeSet::new(), BTreeSet::new()];
            for some in commands.chunks(8) {
                let submitted: Vec<_> = some
                    .iter()
                    .map(|(command, touched)| (tokio::spawn(submit(bank.clone(), command.clone())), touched))
                    .collect();
                for (submitted, touched) in submitted {
                    if let Some(tx) = submitted.await.expect("no panic") {
                        touched.iter().for_each(|&account| assert!(acknowledged[account].insert(tx)));
                    }
                }
            }
            for (account, expected) in accounts.into_iter().zip(acknowledged) {
                let balance = balance(&bank, account).await;
                let History { before, transactions, has_more, is_discarded, .. } = ask(&bank, account, WHOLE).await;
                assert!(!has_more && !is_discarded);
                let model = Hand { hints: true };
                let mut state = before;
                for happened in &transactions {
                    for event in &happened.events {
                        state = model.next(&key(account), &state, event, happened.at).expect("it has happened");
                    }
                    assert_eq!(state, happened.state);
                }
                assert_eq!(balance_of(&state), balance);
                // The first one has opened the account.
                let shown: BTreeSet<TxId> = transactions[1..].iter().map(|happened| happened.tx).collect();
                assert_eq!(shown, expected);
                for limit in [1, 3, 1_000] {
                    assert_eq!(in_pages(&bank, account, limit).await, transactions, "pages of {limit}");
                }
            }
        });
    });
}

pub(crate) async fn submit(bank: Bank<Memory>, command: Command<Event>) -> Option<TxId> {
    bank.submit(command).await.ok().map(|receipt| receipt.tx)
}

/// Whether the account is the same in all outcomes.
async fn is_decided(bank: &Bank<Memory>, account: &str) -> bool {
    match bank.read(&key(account), ReadMode::Range, None, LONG).await {
        Ok(View::Range(range)) => {
            range.fields.iter().all(|field| matches!(&field.values, Values::Between { low, high } if low == high))
        }
        other => panic!("a range is told at once: {other:?}"),
    }
}

/// A bank in which a deposit to `Account/A` is durable before a transfer from there that came before it.
pub(crate) struct Overtaken {
    pub(crate) journal: Memory,
    pub(crate) bank: Bank<Memory>,
    /// What has happened at `Account/B`.
    pub(crate) interest: TxId,
    pub(crate) deposited: TxId,
    /// The transfer, which goes on when the journal is released.
    pub(crate) transfer: JoinHandle<Option<TxId>>,
}

pub(crate) async fn overtaken() -> Overtaken {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    open(&bank, "Account/B", 10_000).await;
    balance(&bank, "Account/B").await;
    journal.hold();
    let interest = tokio::spawn(submit(bank.clone(), command("Account/B", Event::Interest(10))));
    until(|| journal.waiting_count() == 1).await;
    // Admitted at A, and waiting at B for the interest.
    let transfer = tokio::spawn(submit(bank.clone(), book(1, "Account/A", "Account/B", 100)));
    while is_decided(&bank, "Account/A").await {
        tokio::task::yield_now().await;
    }
    let deposit = tokio::spawn(submit(bank.clone(), command("Account/A", Event::Deposit(7))));
    until(|| journal.waiting_count() == 2).await;
    journal.sync(2);
    let interest = interest.await.expect("no panic").expect("nothing refuses it");
    let deposited = deposit.await.expect("no panic").expect("nothing refuses it");
    until(|| journal.waiting_count() == 1).await;
    Overtaken { journal, bank, interest, deposited, transfer }
}

#[tokio::test]
async fn a_transaction_is_shown_when_all_before_it_are_decided() {
    let Overtaken { journal, bank, deposited, transfer, .. } = overtaken().await;
    assert_eq!(ask(&bank, "Account/A", WHOLE).await.transactions.len(), 1, "it is durable, and not shown yet");
    journal.release();
    let transferred = transfer.await.expect("no panic").expect("nothing refuses it");
    balance(&bank, "Account/A").await;
    let shown: Vec<_> = ask(&bank, "Account/A", WHOLE).await.transactions[1..].iter().map(|past| past.tx).collect();
    assert_eq!(shown, [transferred, deposited]);
}

/// A journal in which `Account/A` has these events, each with its slot and its time.
async fn written(log: &[(u64, i64, Event)]) -> Memory {
    let journal = Memory::new();
    for (number, (slot, at, event)) in (0..).zip(log) {
        let record = Record::Committed {
            tx: tx(u128::from(*slot)),
            slot: Slot(*slot),
            events: vec![event.clone()],
            at: Timestamp(*at),
            version: 1,
            overlap: None,
        };
        let (kind, payload) = (Kind(record.kind()), record.encode());
        let record = NewRecord { entity: key("Account/A"), expected: Seq(number), kind, payload };
        journal.append(vec![record]).await.expect("nothing refuses it");
    }
    journal
}

#[tokio::test]
async fn the_state_at_a_time_is_that_before_the_first_transaction_which_is_later() {
    // The record of the fourth slot comes before that of the third, and the time of the third is later than that of the fourth.
    let log = [
        (1, 100, Event::Open(10_000)),
        (2, 200, Event::Deposit(1)),
        (4, 250, Event::Deposit(100)),
        (3, 300, Event::Deposit(10)),
        (7, 400, Event::Deposit(1_000)),
    ];
    let bank = bank(&written(&log).await, EngineOptions::default());
    for (time, before, at_the_time) in [
        (99, None, None),
        (100, Some(0), Some(10_000)),
        (199, Some(0), Some(10_000)),
        (200, Some(10_000), Some(10_001)),
        (299, Some(10_000), Some(10_001)),
        (300, Some(10_011), Some(10_111)),
        (399, Some(10_011), Some(10_111)),
        (9_999, Some(10_111), Some(11_111)),
    ] {
        let History { before: found, transactions, has_more, .. } =
            ask(&bank, "Account/A", HistoryPart::At(Timestamp(time))).await;
        assert!(!has_more && transactions.len() <= 1);
        let last = transactions.first();
        assert_eq!(last.map(|last| balance_of(&last.state)), at_the_time, "at {time}");
        if let Some(before) = before {
            assert_eq!(balance_of(&found), before, "at {time}");
        }
    }
    assert_eq!(
        in_pages(&bank, "Account/A", 2).await.iter().map(|past| past.slot.0).collect::<Vec<_>>(),
        [1, 2, 3, 4, 7]
    );
}

#[tokio::test]
async fn a_history_of_nothing_is_empty_and_one_that_cannot_be_read_is_an_error() {
    let journal = Memory::new();
    let clock = Arc::new(ManualClock::new(Timestamp(1)));
    let bank = Engine::with_clock(Hand { hints: true }, journal.clone(), EngineOptions::default(), clock);
    assert!(ask(&bank, "Account/nobody", WHOLE).await.transactions.is_empty());
    assert!(matches!(bank.history(&key("Nothing/A"), WHOLE, LONG).await, Err(ReadError::Entity(_))));
    open(&bank, "Account/A", 10_000).await;
    journal.fail_reads(true);
    let unread = bank.history(&key("Account/A"), WHOLE, LONG).await;
    assert!(matches!(unread, Err(ReadError::Entity(EntityError::Journal(_)))), "{unread:?}");
    journal.fail_reads(false);
    assert_eq!(ask(&bank, "Account/A", WHOLE).await.transactions.len(), 1);
    bank.shutdown(Duration::from_secs(60)).await.expect("the journal closes");
    assert_eq!(bank.history(&key("Account/A"), WHOLE, LONG).await, Err(ReadError::Stopping));
}
