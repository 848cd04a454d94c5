//! What an engine tells of the changes of all its entities.

use std::collections::BTreeMap;

use enact_entities::{
    Answer, Attempt, Branch, Changes, Cursor, Decision, Durability, EngineOptions, EntityChange, HistoryPart, Prepared,
    ReadError, Record, Slot, Strategy, Timestamp, TxId, Work,
};
use enact_journal::{EntityKey, Fault, Journal, Kind, Memory, NewRecord, Position, Seq};
use enact_journal_kit::sim::SimDisk;
use tokio::time::timeout;

use crate::histories::{Overtaken, overtaken, submit};
use crate::support::altered::Altered;
use crate::support::bank::Event;
use crate::support::chance::{Chance, for_seeds};
use crate::support::client::{Bank, LONG, bank, bank_over, book, command, open, reopened, repeatable};
use crate::support::{key, tx};

/// What is compared of a change.
pub(crate) type Told = (EntityKey, Slot, TxId);

pub(crate) fn told(change: &EntityChange<Event>) -> Told {
    (change.entity.clone(), change.slot, change.tx)
}

async fn page<J: Journal>(bank: &Bank<J>, after: Cursor, limit: usize) -> Changes<Event> {
    bank.changes(after, limit, LONG).await.unwrap_or_else(|error| panic!("behind {after}: {error}"))
}

/// All changes behind `after`, in pages of `limit`.
pub(crate) async fn follow<J: Journal>(bank: &Bank<J>, after: Cursor, limit: usize) -> Vec<EntityChange<Event>> {
    let (mut changes, mut after) = (Vec::new(), after);
    loop {
        let page = page(bank, after, limit).await;
        assert!(page.changes.len() <= limit);
        changes.extend(page.changes);
        if page.next == after {
            return changes;
        }
        // As a client keeps it.
        after = page.next.to_string().parse().expect("it is one");
    }
}

/// A journal that is written by hand, as an engine does that lets transactions overlap.
struct Script {
    chance: Chance,
    journal: Memory,
    entities: Vec<Scripted>,
    records: u64,
    /// The changes, each with its place.
    expected: BTreeMap<(u64, Slot), Told>,
    notes_overlaps: bool,
}

struct Scripted {
    key: EntityKey,
    seq: Seq,
    next_slot: Slot,
    /// Open transactions, each with whether its promise is written.
    open: BTreeMap<Slot, bool>,
    /// The place of the last change of each slot.
    committed: BTreeMap<Slot, u64>,
}

impl Script {
    fn new(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let notes_overlaps = chance.percent(70);
        let scripted = |name: &str| Scripted {
            key: key(name),
            seq: Seq::NONE,
            next_slot: Slot::FIRST,
            open: BTreeMap::new(),
            committed: BTreeMap::new(),
        };
        let entities = ["Account/A", "Account/B", "Account/C"].map(scripted).into();
        Self { chance, journal: Memory::new(), entities, records: 0, expected: BTreeMap::new(), notes_overlaps }
    }

    /// Appends to the journal; the position.
    async fn write(&mut self, entity: usize, record: &Record<Event>) -> u64 {
        let Scripted { key, seq, .. } = &mut self.entities[entity];
        let record =
            NewRecord { entity: key.clone(), expected: *seq, kind: Kind(record.kind()), payload: record.encode() };
        *seq = seq.next();
        let position = self.journal.append(vec![record]).await.expect("nothing refuses it");
        self.records += 1;
        assert_eq!(position.0, self.records);
        position.0
    }

    fn overlap(&self, entity: usize, slot: Slot) -> Option<u64> {
        let first = self.entities[entity].open.keys().next().copied().unwrap_or(slot);
        self.notes_overlaps.then(|| slot.0 - first.0.min(slot.0))
    }

    fn tx_of(&self, entity: usize, slot: Slot) -> TxId {
        tx(u128::from(slot.0) * 8 + entity as u128)
    }

    async fn promise(&mut self, entity: usize, slot: Slot, has_event: bool) {
        let work = if has_event { Work::event(Event::Deposit(1)) } else { Work::of([]) };
        let branch = Branch { tx: self.tx_of(entity, slot), attempt: Attempt::FIRST, work, at: Timestamp(0) };
        let answer = Answer { calls: vec![], answers: vec![], state: None, in_line: false };
        let (coordinator, durability) = (key("Coordinator/C"), Durability::TwoPhase);
        let overlap = self.overlap(entity, slot);
        let prepared = Prepared { branch, slot, coordinator, answer, version: 1, durability, overlap };
        self.write(entity, &Record::Prepared(prepared.into())).await;
    }

    /// Opens a transaction, or ends one.
    async fn step(&mut self, may_open: bool) {
        let entity = self.chance.below(self.entities.len());
        let is_open = !self.entities[entity].open.is_empty();
        if may_open && (!is_open || self.chance.percent(45)) {
            let slot = self.entities[entity].next_slot;
            self.entities[entity].next_slot = slot.next();
            let in_two_phases = self.chance.percent(30);
            if in_two_phases {
                let has_event = self.chance.percent(80);
                self.promise(entity, slot, has_event).await;
                if !has_event {
                    let tx = self.tx_of(entity, slot);
                    self.write(entity, &Record::Outcome { tx, slot, decision: Decision::Commit }).await;
                    return;
                }
            }
            self.entities[entity].open.insert(slot, in_two_phases);
        } else if is_open {
            let slots: Vec<Slot> = self.entities[entity].open.keys().copied().collect();
            let slot = *self.chance.pick(&slots);
            let decision = if self.chance.percent(70) { Decision::Commit } else { Decision::Abort };
            self.end(entity, slot, decision).await;
        }
    }

    async fn end(&mut self, entity: usize, slot: Slot, decision: Decision) {
        let tx = self.tx_of(entity, slot);
        let overlap = self.overlap(entity, slot);
        let in_two_phases = self.entities[entity].open.remove(&slot).expect("it is open");
        let position = match (in_two_phases, decision) {
            (true, _) => self.write(entity, &Record::Outcome { tx, slot, decision }).await,
            (false, Decision::Abort) => return,
            (false, Decision::Commit) => {
                let (events, at) = (vec![Event::Deposit(1)], Timestamp(0));
                self.write(entity, &Record::Committed { tx, slot, events, at, version: 1, overlap }).await
            }
        };
        if decision == Decision::Commit {
            self.entities[entity].committed.insert(slot, position);
            if in_two_phases && self.chance.percent(20) {
                // A successor is told again.
                self.write(entity, &Record::Outcome { tx, slot, decision }).await;
            }
        }
    }

    /// What is to be told, from the definition: where the last one of all up to it stands.
    fn places(&mut self) {
        for (number, entity) in self.entities.iter().enumerate() {
            let mut place = 0;
            for (&slot, &position) in &entity.committed {
                place = place.max(position);
                self.expected.insert((place, slot), (entity.key.clone(), slot, self.tx_of(number, slot)));
            }
        }
    }
}

#[test]
fn every_reader_finds_each_change_once_in_the_order_of_effects_wherever_it_goes_on() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    for_seeds("changes", 40, |seed| {
        runtime.block_on(async {
            let mut script = Script::new(seed);
            for _ in 0..150 {
                script.step(true).await;
            }
            while script.entities.iter().any(|entity| !entity.open.is_empty()) {
                script.step(false).await;
            }
            script.places();
            let expected: Vec<Told> = script.expected.values().cloned().collect();
            let bank = bank(&script.journal, EngineOptions::default());
            for limit in [1, 2, 3, 7, 50, 1_000] {
                let changes = follow(&bank, Cursor::START, limit).await;
                assert_eq!(changes.iter().map(told).collect::<Vec<_>>(), expected, "in pages of {limit}");
                let (number, limit) = (script.chance.below(changes.len()), 1 + script.chance.below(9));
                let rest = follow(&bank, changes[number].cursor, limit).await;
                let rest: Vec<Told> = rest.iter().map(told).collect();
                assert_eq!(rest, expected[number + 1..], "behind {}", changes[number].cursor);
            }
        });
    });
}

#[tokio::test]
async fn a_change_is_told_when_all_before_it_are_decided() {
    let Overtaken { journal, bank, interest, deposited, transfer } = overtaken().await;
    let first = page(&bank, Cursor::START, 10).await;
    let told: Vec<TxId> = first.changes.iter().map(|change| change.tx).collect();
    assert_eq!((told.len(), told.last()), (3, Some(&interest)), "both accounts are opened");
    assert_eq!(
        page(&bank, first.next, 10).await,
        Changes { changes: vec![], next: first.next, has_more: false },
        "the transfer is open"
    );
    journal.release();
    let transferred = transfer.await.expect("no panic").expect("nothing refuses it");
    let rest = page(&bank, first.next, 10).await.changes;
    let at_a: Vec<TxId> =
        rest.iter().filter(|change| change.entity == key("Account/A")).map(|change| change.tx).collect();
    assert_eq!(at_a, [transferred, deposited]);
    assert_eq!(rest.len(), 4, "the transfer is a change of both accounts and of itself");
}

#[tokio::test]
async fn a_follower_is_told_when_what_was_open_before_a_change_is_decided() {
    for (is_committed, changes_behind) in [(true, 4), (false, 1)] {
        let Overtaken { journal, bank, deposited, transfer, .. } = overtaken().await;
        let mut news = bank.news();
        let mut next = page(&bank, Cursor::START, 10).await.next;
        if !is_committed {
            // Of what is aborted the journal has nothing.
            journal.fail_next(Fault::Refused);
        }
        journal.release();
        assert_eq!(transfer.await.expect("no panic").is_some(), is_committed);
        let mut told = Vec::new();
        while told.len() < changes_behind {
            timeout(LONG, news.wait()).await.expect("the follower is told");
            let some = page(&bank, next, 10).await;
            told.extend(some.changes.iter().map(|change| change.tx));
            next = some.next;
        }
        assert!(told.contains(&deposited));
    }
}

#[test]
fn a_follower_of_a_busy_engine_finds_the_histories_of_all_entities() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build().expect("a runtime");
    for_seeds("changes", 10, |seed| {
        runtime.block_on(async {
            let mut chance = Chance::new(seed);
            let strategies = Strategy::ALL[seed as usize % Strategy::ALL.len()].into();
            let bank = bank(&Memory::new(), EngineOptions { strategies, ..EngineOptions::default() });
            let accounts = ["Account/A", "Account/B"];
            for account in accounts {
                open(&bank, account, 10_000).await;
            }
            let follower =
                tokio::spawn(timeout(LONG, follow_news(bank.clone(), key("Account/C"), 1 + chance.below(20))));
            for round in 0..40 {
                let submitted = (0..8).map(|number| {
                    let (one, other) = if chance.percent(50) { (0, 1) } else { (1, 0) };
                    let amount = 1 + chance.below(8_000) as i128;
                    tokio::spawn(submit(
                        bank.clone(),
                        match chance.below(4) {
                            0 => command(accounts[one], Event::Deposit(amount)),
                            1 => command(accounts[one], Event::Withdraw(amount)),
                            2 => command(accounts[one], Event::Interest(1)),
                            _ => book(8 * round + number, accounts[one], accounts[other], amount),
                        },
                    ))
                });
                for submitted in submitted.collect::<Vec<_>>() {
                    submitted.await.expect("no panic");
                }
            }
            open(&bank, "Account/C", 10_000).await;
            let changes = follower.await.expect("no panic").expect("the follower is told of all");
            let later = follow(&bank, Cursor::START, 1_000).await;
            let [all, later] = [&changes, &later].map(|changes| changes.iter().map(told).collect::<Vec<_>>());
            assert_eq!(all, later, "a later reader finds the same");
            for account in accounts {
                let whole = HistoryPart::Page { after: None, limit: usize::MAX };
                let history = bank.history(&key(account), whole, LONG).await.expect("it can be read").transactions;
                let history: Vec<_> = history.into_iter().map(|past| (past.slot, past.tx, past.events)).collect();
                let of_account = changes.iter().filter(|change| change.entity == key(account));
                let of_account: Vec<_> =
                    of_account.map(|change| (change.slot, change.tx, change.events.clone())).collect();
                assert_eq!(of_account, history, "{account}");
            }
        });
    });
}

/// All changes up to the first one of `last`, of one who looks only when there are news.
async fn follow_news(bank: Bank<Memory>, last: EntityKey, limit: usize) -> Vec<EntityChange<Event>> {
    let (mut news, mut changes, mut after) = (bank.news(), Vec::new(), Cursor::START);
    loop {
        let Changes { changes: some, next, has_more } = page(&bank, after, limit).await;
        let is_over = some.iter().any(|change| change.entity == last);
        changes.extend(some);
        after = next;
        if is_over {
            return changes;
        }
        if !has_more {
            news.wait().await;
        }
    }
}

#[tokio::test]
async fn changes_that_cannot_be_read_are_an_error() {
    let journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    open(&bank, "Account/A", 10_000).await;
    journal.fail_reads(true);
    let unread = bank.changes(Cursor::START, 10, LONG).await;
    assert!(matches!(unread, Err(ReadError::Entity(_))), "{unread:?}");
    journal.fail_reads(false);
    assert_eq!(page(&bank, Cursor::START, 10).await.changes.len(), 1);
    bank.shutdown(LONG).await.expect("the journal closes");
    assert_eq!(bank.changes(Cursor::START, 10, LONG).await, Err(ReadError::Stopping));
}

/// Answers that nobody asks for any more are discarded, also if the journal ends with them.
#[tokio::test]
async fn a_cursor_behind_records_that_were_discarded_is_the_journals_own() {
    let mut journal = Memory::new();
    let bank = bank(&journal, EngineOptions::default());
    let last = of_accounts(&bank, 3).await;
    bank.submit(repeatable(command("Account/0", Event::Deposit(100)), "d-1", 1)).await.expect("possible");
    let end = page(&bank, last, 10).await.next;
    let records = journal.feed(Position::START, 100).await.expect("readable");
    for kept in [records.len() - 3, records.len() - 2] {
        journal = journal.crash();
        let altered = Altered::without_records_behind(journal.clone(), records[kept].position);
        let bank = bank_over(altered, EngineOptions::default());
        assert_eq!(page(&bank, end, 10).await, Changes { changes: vec![], next: end, has_more: false });
        let after: Cursor = "18446744073709551615.18446744073709551615.1".parse().expect("a cursor");
        assert_eq!(bank.changes(after, 10, LONG).await, Err(ReadError::Ahead { after }));
    }
}

/// A bank of this many accounts, and the cursor behind the last one.
async fn of_accounts<J: Journal>(bank: &Bank<J>, count: usize) -> Cursor {
    for number in 0..count {
        open(bank, &format!("Account/{number}"), 10_000).await;
    }
    page(bank, Cursor::START, 100).await.next
}

/// `longer` has more records than `shorter`, which then grows.
async fn refuses_what_is_behind_its_end<J: Journal>(longer: &Bank<Memory>, shorter: &Bank<J>) {
    let (behind, end) = (of_accounts(longer, 5).await, of_accounts(shorter, 3).await);
    let records_are_needed_from_before: Cursor = "2.5.1".parse().expect("a cursor");
    let far: Cursor = "18446744073709551615.18446744073709551615.1".parse().expect("a cursor");
    for after in [behind, records_are_needed_from_before, far] {
        assert_eq!(shorter.changes(after, 10, LONG).await, Err(ReadError::Ahead { after }));
    }
    assert_eq!(page(shorter, end, 10).await, Changes { changes: vec![], next: end, has_more: false });
    for number in 3..6 {
        open(shorter, &format!("Account/{number}"), 10_000).await;
    }
    assert_eq!(page(shorter, end, 10).await.changes.len(), 3, "the own cursor misses nothing");
    assert_eq!(page(shorter, behind, 10).await.changes.len(), 1, "the other one cannot be told any more");
}

#[tokio::test]
async fn a_cursor_behind_the_end_of_the_journal_is_refused() {
    let longer = bank(&Memory::new(), EngineOptions::default());
    refuses_what_is_behind_its_end(&longer, &bank(&Memory::new(), EngineOptions::default())).await;
    let longer = bank(&Memory::new(), EngineOptions::default());
    refuses_what_is_behind_its_end(&longer, &reopened(&SimDisk::new(3))).await;
}

/// An engine that has just been opened has read nothing: its end is looked up.
#[tokio::test]
async fn a_cursor_at_the_end_goes_on_after_a_restart() {
    let disk = SimDisk::new(3);
    let bank = reopened(&disk);
    let end = of_accounts(&bank, 3).await;
    bank.shutdown(LONG).await.expect("the journal closes");
    let bank = reopened(&disk);
    assert_eq!(page(&bank, end, 10).await, Changes { changes: vec![], next: end, has_more: false });
    open(&bank, "Account/3", 10_000).await;
    assert_eq!(page(&bank, end, 10).await.changes.len(), 1);
}

#[test]
fn a_cursor_is_one_of_three_numbers_or_none() {
    for text in ["0.0.0", "3.17.1", "17.17.4294967295"] {
        assert_eq!(text.parse::<Cursor>().map(|cursor| cursor.to_string()).as_deref(), Ok(text));
    }
    for text in ["", "1", "1.2", "1.2.3.4", "2.1.0", "-1.2.3", "1.2.4294967296", "a.b.c", "0.1000001.0"] {
        assert!(text.parse::<Cursor>().is_err(), "{text}");
    }
}
