//! Tombstones of entities that have ended: what stays, what goes, and that nothing comes after them.

use std::sync::Arc;
use std::time::Duration;

use enact_entities::{
    Command, Cursor, Engine, EngineOptions, EntityError, EntityKey, HistoryPart, ManualClock, ReadError, ReadMode,
    Rebel, Record, RecoveryError, Retention, Snapshot, SubmitError, Timestamp, View,
};
use enact_journal::{Fault, Journal, Kind, Memory, NewRecord, Record as Stored, Seq};
use enact_rebel::{EventCall, Instance, Source, Spec, Value, check};
use tokio::task::JoinHandle;

use crate::support::client::LONG;

const SPEC: &str = "
class Till
  sum: Integer = 0
  initial idle
    on Start(): running
  running
    on Put(n: Integer)
      post: this.sum += n
    on Ask(sale: Sale)
      pre: \"it is paid\": sale is paid, sale.total > 5, sale.Total() > 5
      post: this.sum += 1

/// Ends at the second step.
class Job
  initial new
    on Step(): half
  half
    on Step(): done
  final done

class Sale
  total: Integer = 0
  initial new
    on Add(n: Integer): open
      post: this.total += n
  open
    on Add(n: Integer)
      post: this.total += n
    on Pay(till: Till): paid
      sync: till.Put(total)
    on Drop(): dropped
  open, paid, dropped
    read on Total() -> Integer
      return: total
  final paid, dropped
";

/// Days are short, because the engine rests for a part of them.
const DAY: i64 = 100;
const KEEP: Duration = Duration::from_millis(DAY as u64);

type Shop = Engine<Rebel, Memory>;

fn spec(text: &str) -> Arc<Spec> {
    Arc::new(check(vec![Source::new("shop.rebel", text)]).expect("a specification"))
}

/// A shop at some day.
fn shop(journal: &Memory, day: i64, retention: Option<Retention>) -> Shop {
    under(SPEC, journal, day, retention)
}

fn under(text: &str, journal: &Memory, day: i64, retention: Option<Retention>) -> Shop {
    let options = EngineOptions { retention, ..EngineOptions::default() };
    let time = Arc::new(ManualClock::new(Timestamp(day * DAY)));
    Engine::with_clock(Rebel::new(spec(text)), journal.clone(), options, time)
}

const fn retained() -> Option<Retention> {
    Some(Retention { keep: KEEP, begin_after: Duration::ZERO })
}

fn key(text: &str) -> EntityKey {
    text.parse().expect("a key")
}

fn call(event: &str, arguments: &[(&str, Value)]) -> EventCall {
    let spec = spec(SPEC);
    let of = spec.classes().find_map(|class| class.event(event)).expect("it is declared");
    of.call(arguments.iter().cloned()).expect("its arguments")
}

fn reference(text: &str) -> Value {
    let (spec, key) = (spec(SPEC), key(text));
    let class = spec.class(key.class()).expect("a class");
    Value::Reference(class.reference(class.key(key.id()).expect("an identity")))
}

async fn submit(shop: &Shop, entity: &str, event: EventCall) -> Result<Option<String>, SubmitError> {
    let command = Command { key: key(entity), event, then: Vec::new(), idempotency: None, deadline: LONG };
    shop.submit(command).await.map(|receipt| receipt.state)
}

async fn add(shop: &Shop, sale: &str, n: i64) {
    submit(shop, sale, call("Add", &[("n", Value::Integer(n))])).await.expect("added");
}

async fn pay(shop: &Shop, sale: &str) {
    submit(shop, sale, call("Pay", &[("till", reference("Till/t"))])).await.expect("paid");
}

async fn instance(shop: &Shop, entity: &str) -> Instance {
    match shop.read(&key(entity), ReadMode::Certain, None, LONG).await.expect("readable") {
        View::One { state, exists: true } => state,
        other => panic!("{entity}: {other:?}"),
    }
}

async fn number(shop: &Shop, entity: &str, field: &str) -> i64 {
    match instance(shop, entity).await.fields().get(field) {
        Some(Value::Integer(number)) => *number,
        other => panic!("{other:?}"),
    }
}

/// The till runs, and there are a paid, a dropped and an open sale, all of day 0.
async fn first_day(journal: &Memory) {
    let shop = shop(journal, 0, None);
    submit(&shop, "Till/t", call("Start", &[])).await.expect("started");
    submit(&shop, "Job/half", call("Step", &[])).await.expect("done");
    for (sale, n) in [("Sale/paid", 3), ("Sale/dropped", 4), ("Sale/open", 5)] {
        add(&shop, sale, n).await;
        add(&shop, sale, 10 * n).await;
    }
    pay(&shop, "Sale/paid").await;
    submit(&shop, "Sale/dropped", call("Drop", &[])).await.expect("dropped");
    drop(shop);
}

/// Looks after the shop until this holds.
async fn until(shop: &Shop, mut holds: impl AsyncFnMut(&Shop) -> bool) {
    let maintained: JoinHandle<()> = {
        let shop = shop.clone();
        tokio::spawn(async move { match shop.maintain().await {} })
    };
    while !holds(shop).await {
        assert!(!maintained.is_finished(), "it looks after the shop for ever");
        tokio::task::yield_now().await;
    }
    maintained.abort();
}

async fn tombstones(journal: &Memory) -> Vec<String> {
    let records = journal.feed(enact_journal::Position::START, usize::MAX).await.expect("readable");
    let tombstones = records.iter().filter(|record| record.kind == Kind::TOMBSTONE);
    tombstones.map(|record| record.entity.to_string()).collect()
}

/// The last note of how far the journal was swept.
async fn swept(journal: &Memory) -> Option<u64> {
    let notes = journal.read(&key(".retention/swept"), Seq::NONE).await.expect("readable");
    let note = notes.last().map(|note: &Stored| Record::<EventCall>::decode(&note.payload).expect("a record"))?;
    match note {
        Record::Swept { position } => Some(position.0),
        other => panic!("{other:?}"),
    }
}

/// A shop some days later whose journal has been swept.
async fn swept_shop(journal: &Memory, day: i64) -> Shop {
    let shop = shop(journal, day, retained());
    until(&shop, async |_| swept(journal).await.is_some()).await;
    shop
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_ended_long_ago_has_a_tombstone_and_reads_as_before() {
    let journal = Memory::new();
    first_day(&journal).await;
    let before = shop(&journal, 0, None);
    let expected = [instance(&before, "Sale/paid").await, instance(&before, "Sale/dropped").await];
    let count = journal.feed(enact_journal::Position::START, usize::MAX).await.expect("readable").len();

    for day in [2, 3] {
        let shop = swept_shop(&journal, day).await;
        assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"]);
        let now = [instance(&shop, "Sale/paid").await, instance(&shop, "Sale/dropped").await];
        assert_eq!(now, expected);
        assert_eq!(journal.read(&key("Sale/paid"), Seq::NONE).await.expect("readable").len(), 1);
        assert_eq!(instance(&shop, "Sale/open").await.state().as_ref(), "open");
        assert_eq!(journal.read(&key("Sale/open"), Seq::NONE).await.expect("readable").len(), 2);
        drop(shop);
    }
    let left = journal.feed(enact_journal::Position::START, usize::MAX).await.expect("readable");
    let left = left.iter().filter(|record| record.entity.class() != ".retention").count();
    // Six records are superseded by two tombstones.
    assert_eq!(left, count - 6 + 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_is_kept_whole_until_its_time_is_over() {
    let journal = Memory::new();
    first_day(&journal).await;
    let second_day = shop(&journal, 1, None);
    add(&second_day, "Sale/open", 1).await;
    pay(&second_day, "Sale/open").await;
    // The step of the first day could have ended it, and that of the second one has.
    submit(&second_day, "Job/half", call("Step", &[])).await.expect("done");
    drop(second_day);
    drop(swept_shop(&journal, 1).await);
    let end = swept(&journal).await;
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"], "a day is over, to the millisecond");
    let late = shop_of_tomorrow(&journal).await;
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped", "Sale/open", "Job/half"]);
    assert!(swept(&journal).await > end, "it went on from where it was");
    assert_eq!(number(&late, "Till/t", "sum").await, 33 + 56);
}

async fn shop_of_tomorrow(journal: &Memory) -> Shop {
    let before = swept(journal).await;
    let shop = shop(journal, 2, retained());
    until(&shop, async |_| tombstones(journal).await.len() == 4).await;
    until(&shop, async |_| swept(journal).await > before).await;
    shop
}

/// Each note is a record, which is passed, too.
#[tokio::test(start_paused = true)]
async fn a_journal_in_which_nothing_happens_does_not_grow() {
    let journal = Memory::new();
    first_day(&journal).await;
    let shop = shop(&journal, 2, retained());
    let maintained = tokio::spawn(async move { match shop.maintain().await {} });
    // A thousand passes, by the clock of the test.
    tokio::time::sleep(1000 * KEEP / 8).await;
    maintained.abort();
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"]);
    let notes = journal.read(&key(".retention/swept"), Seq::NONE).await.expect("readable").len();
    assert!((1..=2).contains(&notes), "{notes} notes");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_retention_everything_is_kept() {
    let journal = Memory::new();
    first_day(&journal).await;
    let shop = shop(&journal, 1000, None);
    let maintained = {
        let shop = shop.clone();
        tokio::spawn(async move { match shop.maintain().await {} })
    };
    for _ in 0..1000 {
        tokio::task::yield_now().await;
    }
    maintained.abort();
    assert_eq!(tombstones(&journal).await, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_an_entity_with_a_tombstone_are_refused_and_questions_to_it_answered() {
    let journal = Memory::new();
    first_day(&journal).await;
    for again in [false, true] {
        let shop = swept_shop(&journal, 2).await;
        let refused = submit(&shop, "Sale/paid", call("Add", &[("n", Value::Integer(1))])).await;
        let Err(SubmitError::Refused { refusal, .. }) = refused else { panic!("{refused:?}") };
        assert_eq!(refusal.event, "Add");
        let asked = submit(&shop, "Till/t", call("Ask", &[("sale", reference("Sale/paid"))])).await;
        assert_eq!(asked, Ok(Some("running".to_owned())), "{again}");
        let asked = submit(&shop, "Till/t", call("Ask", &[("sale", reference("Sale/dropped"))])).await;
        assert!(matches!(asked, Err(SubmitError::Refused { .. })), "{asked:?}");
        drop(shop);
    }
}

/// A question takes a place in the order, and leaves no record.
#[tokio::test(flavor = "multi_thread")]
async fn an_entity_that_was_asked_after_it_ended_gets_its_tombstone_too() {
    let journal = Memory::new();
    first_day(&journal).await;
    let shop = shop(&journal, 2, retained());
    for _ in 0..2 {
        submit(&shop, "Till/t", call("Ask", &[("sale", reference("Sale/paid"))])).await.expect("answered");
    }
    until(&shop, async |_| swept(&journal).await.is_some()).await;
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"]);
    let asked = submit(&shop, "Till/t", call("Ask", &[("sale", reference("Sale/paid"))])).await;
    assert_eq!(asked, Ok(Some("running".to_owned())));
}

/// The question is open until the record of the one that asks is durable.
#[tokio::test(flavor = "multi_thread")]
async fn an_open_question_to_an_entity_that_has_ended_does_not_keep_its_tombstone_back() {
    let journal = Memory::new();
    first_day(&journal).await;
    let shop = shop(&journal, 2, retained());
    journal.hold();
    let asking = {
        let shop = shop.clone();
        tokio::spawn(async move { submit(&shop, "Till/t", call("Ask", &[("sale", reference("Sale/paid"))])).await })
    };
    while journal.waiting_count() == 0 {
        tokio::task::yield_now().await;
    }
    // What is appended behind it is the first tombstone.
    let released = async {
        while journal.waiting_count() < 2 {
            tokio::task::yield_now().await;
        }
        journal.release();
    };
    tokio::join!(until(&shop, async |_| swept(&journal).await.is_some()), released);
    assert_eq!(asking.await.expect("no panic"), Ok(Some("running".to_owned())));
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_history_says_that_it_was_discarded_and_what_is_left_of_it() {
    let journal = Memory::new();
    first_day(&journal).await;
    let whole = HistoryPart::Page { after: None, limit: 100 };
    let before = shop(&journal, 0, None).history(&key("Sale/paid"), whole, LONG).await.expect("readable");
    assert_eq!((before.transactions.len(), before.is_discarded), (3, false));
    let last = before.transactions.last().expect("three");

    let shop = swept_shop(&journal, 2).await;
    let left = shop.history(&key("Sale/paid"), whole, LONG).await.expect("readable");
    assert!(left.is_discarded && !left.has_more);
    let [happened] = &left.transactions[..] else { panic!("{left:?}") };
    let known = |happened: &enact_entities::Happened<Instance, EventCall>| {
        (happened.slot, happened.tx, happened.at, happened.version, happened.state.clone())
    };
    assert_eq!((known(happened), &happened.events[..]), (known(last), &[][..]));
    for (time, count) in [(-1, 0), (0, 1), (DAY, 1)] {
        let at = shop.history(&key("Sale/paid"), HistoryPart::At(Timestamp(time)), LONG).await.expect("readable");
        assert_eq!((at.transactions.len(), at.is_discarded), (count, true), "at {time}");
    }
    let open = shop.history(&key("Sale/open"), whole, LONG).await.expect("readable");
    assert_eq!((open.transactions.len(), open.is_discarded), (2, false));
}

/// What is in `changes`: entity, number of events, and the state of its tombstone.
async fn changes(shop: &Shop, mut after: Cursor, limit: usize) -> Vec<(String, usize, Option<String>)> {
    let mut seen = Vec::new();
    loop {
        let some = shop.changes(after, limit, LONG).await.expect("readable");
        for change in some.changes {
            let state = change.tombstone.map(|tombstone| {
                let snapshot: Snapshot<Instance, EventCall> = tombstone.snapshot().expect("a snapshot");
                assert_eq!((snapshot.version, tombstone.slot), (change.version, change.slot));
                snapshot.base.state().to_string()
            });
            seen.push((change.entity.to_string(), change.events.len(), state));
        }
        if !some.has_more {
            return seen;
        }
        after = some.next;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_is_given_the_tombstone_instead_of_what_it_stands_for() {
    let journal = Memory::new();
    first_day(&journal).await;
    let early = shop(&journal, 0, None).changes(Cursor::START, 4, LONG).await.expect("readable");
    let shop = swept_shop(&journal, 2).await;
    let change = |entity: &str, events, state: Option<&str>| (entity.to_owned(), events, state.map(str::to_owned));
    let ended = [change("Sale/paid", 0, Some("paid")), change("Sale/dropped", 0, Some("dropped"))];
    let expected = [
        &[change("Till/t", 1, None), change("Job/half", 1, None)][..],
        &[change("Sale/open", 1, None), change("Sale/open", 1, None)],
        &[change("Till/t", 1, None)],
        &ended,
    ];
    for limit in [1, 2, 100] {
        assert_eq!(changes(&shop, Cursor::START, limit).await, expected.concat(), "pages of {limit}");
    }
    // One that has begun before goes on where it was.
    let rest = changes(&shop, early.next, 100).await;
    assert!(rest.ends_with(&ended), "{rest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_contract_in_which_it_goes_on_cannot_bring_it_back() {
    let journal = Memory::new();
    first_day(&journal).await;
    drop(swept_shop(&journal, 2).await);
    let lively = SPEC.replace("  final paid, dropped\n", "  paid\n    on Refund(): dropped\n  final dropped\n");
    assert_ne!(lively, SPEC);
    let shop = under(&lively, &journal, 2, None);
    match shop.read(&key("Sale/paid"), ReadMode::Certain, None, LONG).await {
        Err(ReadError::Entity(EntityError::Recovery(RecoveryError::Ended { entity, state }))) => {
            assert_eq!((entity.to_string(), &*state), ("Sale/paid".to_owned(), "paid"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(instance(&shop, "Sale/dropped").await.state().as_ref(), "dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_tombstone_is_tried_again_and_disturbs_nobody() {
    let journal = Memory::new();
    first_day(&journal).await;
    journal.fail_next(Fault::Refused);
    let shop = shop(&journal, 2, retained());
    until(&shop, async |_| tombstones(&journal).await.len() == 2).await;
    add(&shop, "Sale/open", 1).await;
    assert_eq!(number(&shop, "Sale/open", "total").await, 56);
}

/// Nobody can tell what these two are: one has a record that is none, and one an event that is not possible.
#[tokio::test(flavor = "multi_thread")]
async fn entities_that_cannot_be_used_hold_no_others_up() {
    let journal = Memory::new();
    let impossible = Record::Committed {
        tx: enact_entities::TxId::from_u128(7),
        slot: enact_entities::Slot::FIRST,
        events: vec![call("Drop", &[])],
        at: Timestamp(0),
        version: 1,
        overlap: None,
    };
    for (entity, payload) in [("Sale/malformed", vec![9]), ("Sale/impossible", impossible.encode())] {
        let record = NewRecord { entity: key(entity), expected: Seq::NONE, kind: Kind(3), payload };
        journal.append(vec![record]).await.expect("durable");
    }
    first_day(&journal).await;
    let shop = shop(&journal, 2, retained());
    until(&shop, async |_| swept(&journal).await.is_some()).await;
    assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_any_append_leaves_nothing_undone() {
    for appends in 0..4 {
        let mut journal = Memory::new();
        first_day(&journal).await;
        journal.hold();
        let before = shop(&journal, 2, retained());
        let mut left = appends;
        until(&before, async |_| {
            left -= journal.sync(left.min(1));
            left == 0 && (appends == 3 || journal.waiting_count() > 0)
        })
        .await;
        journal = journal.crash();
        drop(before);
        assert_eq!(tombstones(&journal).await.len(), appends.min(2), "after {appends}");
        let shop = swept_shop(&journal, 3).await;
        assert_eq!(tombstones(&journal).await, ["Sale/paid", "Sale/dropped"], "after {appends}");
        assert_eq!(number(&shop, "Sale/paid", "total").await, 33);
        drop(shop);
    }
}
