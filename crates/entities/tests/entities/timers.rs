//! Timers: what is due happens by itself, once, before everything else, and whatever crashes.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use enact_entities::{
    Command, Engine, EngineOptions, EntityKey, ManualClock, ReadMode, Rebel, Receipt, Record, SubmitError, Timestamp,
    Values, View,
};
use enact_journal::{
    AppendError, CloseError, Journal, Limits, Memory, NewRecord, Position, ReadError, Seq, Snapshot, SnapshotError,
};
use enact_rebel::{Caller, EventCall, Instance, Source, Spec, Value, check};
use tokio::sync::RwLock;

use crate::support::chance::Chance;
use crate::support::client::{LONG, until};
use crate::support::key;

const SALE: &str = "
    class Sale
      until: Timestamp
      pieces: Integer = 0
      begun: Integer = 0
      initial new
        on Plan(end: Timestamp): planned
          post: this.until = end
      planned
        on Add()
          post: this.pieces += 1
        on Move(end: Timestamp)
          post: this.until = end
        on Stop(): stopped
        on Begin(): selling
          pre: \"nothing to sell\": pieces > 0
          post: this.begun += 1
        after until: Begin
      stopped
        on Resume(): planned
      selling
        on Add()
          post: this.pieces += 1
    class Room
      taken: Integer = 0
      initial unbuilt
        on Build(): built
      built
        internal on Take()
          post: this.taken += 1
        internal on GiveBack()
          post: this.taken -= 1
    class Ticket
      room: Room
      until: Timestamp
      initial wished
        on Hold(of: Room, end: Timestamp): held
          post: this.room = of, this.until = end
          sync: of.Take()
      held
        on Buy(): sold
        internal on Release(): released
          sync: room.GiveBack()
        after until: Release
      final sold, released
    class Desk
      initial shut
        on Sell(ticket: Ticket): sold
          sync: ticket.Buy()
        on Look(sale: Sale): seen
          pre: sale is selling
      final sold, seen
    class Meter
      next: Timestamp
      ticks: Integer = 0
      uses: Integer = 0
      initial new
        on Start(first: Timestamp): running
          post: this.next = first
      running
        internal on Use()
          post: this.uses += 1
        on Tick()
          post: this.ticks += 1, this.next += 1 hour
        after next: Tick
    class Trip
      initial planned
        on Begin(meter: Meter, room: Room): begun
          sync: meter.Use(), room.Take()
      final begun
    class Loan
      first: Timestamp
      second: Timestamp
      log: Integer = 0
      initial new
        on Lend(a: Timestamp, b: Timestamp): lent
          post: this.first = a, this.second = b
      lent
        after second: Warn
        on Remind()
          post: this.log = log * 10 + 1
        on Warn()
          post: this.log = log * 10 + 2
        after first: Remind
";

fn spec() -> Arc<Spec> {
    Arc::new(check(vec![Source::new("sale.rebel", SALE)]).unwrap_or_else(|report| panic!("{report}")))
}

/// An engine with a clock that is set by hand.
struct Shop<J: Journal> {
    engine: Engine<Rebel, J>,
    clock: Arc<ManualClock>,
    spec: Arc<Spec>,
}

impl<J: Journal> Clone for Shop<J> {
    fn clone(&self) -> Self {
        Self { engine: self.engine.clone(), clock: Arc::clone(&self.clock), spec: Arc::clone(&self.spec) }
    }
}

impl<J: Journal> Shop<J> {
    fn open(journal: J, now: i64) -> Self {
        let (spec, clock) = (spec(), Arc::new(ManualClock::new(Timestamp(now))));
        let model = Rebel::new(Arc::clone(&spec));
        let engine = Engine::with_clock(model, journal, EngineOptions::default(), clock.clone());
        Self { engine, clock, spec }
    }

    /// The same with somebody who lets happen what is due.
    fn looked_after(journal: J, now: i64) -> Self {
        let shop = Self::open(journal, now);
        let engine = shop.engine.clone();
        tokio::spawn(async move { engine.maintain().await });
        shop
    }

    fn set(&self, now: i64) {
        self.clock.set(Timestamp(now));
    }

    /// A call; a number is a time where one is wanted, and a text an instance of the class that is wanted.
    fn call(&self, class: &str, event: &str, arguments: &[&str]) -> EventCall {
        let event = self.spec.class(class).unwrap().event(event).unwrap();
        let value = |(param, text): (&enact_rebel::Param, &&str)| {
            let value = match param.ty().to_string().as_str() {
                "Timestamp" => Value::Timestamp(enact_rebel::Timestamp::from_millis(text.parse().unwrap())),
                _ => Value::parse(param.ty(), text).unwrap(),
            };
            (param.name().to_string(), value)
        };
        let values: Vec<(String, Value)> = event.params().iter().zip(arguments).map(value).collect();
        event.call(values.iter().map(|(name, value)| (name.as_str(), value.clone()))).unwrap()
    }

    async fn submit(&self, entity: &str, event: &str, arguments: &[&str]) -> Result<Receipt, SubmitError> {
        let key = key(entity);
        let event = self.call(key.class(), event, arguments);
        self.engine.submit(Command { key, event, then: Vec::new(), idempotency: None, deadline: LONG }).await
    }

    async fn read(&self, entity: &str) -> Instance {
        match self.engine.read(&key(entity), ReadMode::Certain, None, LONG).await {
            Ok(View::One { state, .. }) => state,
            other => panic!("{entity} cannot be read: {other:?}"),
        }
    }

    /// Waits until so many timers are known: an entity tells after its client has been told.
    async fn has_timers(&self, count: usize) {
        let known = tokio::time::timeout(Duration::from_secs(20), until(|| self.engine.timer_count() == count)).await;
        known.unwrap_or_else(|_| panic!("{} timers, not {count}", self.engine.timer_count()));
    }

    async fn state(&self, entity: &str) -> String {
        self.read(entity).await.state().to_string()
    }

    async fn field(&self, entity: &str, name: &str) -> String {
        self.read(entity).await.fields().get(name).expect("it has a value").to_string()
    }
}

/// The events that the journal has of an entity, each with its time; a refused one of a timer as `!Name`.
async fn events(journal: &impl Journal, entity: &str) -> Vec<(String, i64)> {
    let records = journal.read(&key(entity), Seq::NONE).await.expect("the journal can be read");
    let mut found = Vec::new();
    for record in records {
        let Ok(Record::Committed { events, at, .. }) = Record::<EventCall>::decode(&record.payload) else {
            panic!("{entity} has another record")
        };
        found.extend(events.iter().map(|event| {
            assert_eq!(event.due().is_some(), event.caller() == Some(&Caller::system()));
            let mark = if event.is_note() { "!" } else { "" };
            (format!("{mark}{}", event.event()), at.0)
        }));
    }
    found
}

fn happened(events: &[(&str, i64)]) -> Vec<(String, i64)> {
    events.iter().map(|(event, at)| ((*event).to_owned(), *at)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_due_happens_by_itself_at_its_own_time_and_once() {
    let journal = Memory::new();
    let shop = Shop::looked_after(journal.clone(), 0);
    shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
    shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    shop.has_timers(1).await;
    shop.set(4_999);
    shop.submit("Sale/t", "Plan", &["5000000"]).await.expect("possible");
    shop.has_timers(2).await;
    assert_eq!(events(&journal, "Sale/s").await.len(), 2, "it is not yet due");
    shop.set(7_000);
    shop.has_timers(1).await;
    let expected = happened(&[("Plan", 0), ("Add", 0), ("Begin", 5_000)]);
    assert_eq!(events(&journal, "Sale/s").await, expected);
    shop.set(1_000_000);
    shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    assert_eq!(events(&journal, "Sale/s").await.len(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_a_call_and_a_read_find_an_entity_after_what_was_due() {
    let journal = Memory::new();
    let shop = Shop::open(journal.clone(), 0);
    for entity in ["Ticket/a", "Ticket/b", "Ticket/c"] {
        shop.submit("Room/r", "Build", &[]).await.ok();
        shop.submit(entity, "Hold", &["r", "5000"]).await.expect("possible");
    }
    assert_eq!(shop.field("Room/r", "taken").await, "3");
    shop.set(5_000);
    // Nobody looks after the engine: a command, a call and a read let it happen.
    let refused = shop.submit("Ticket/a", "Buy", &[]).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    assert_eq!(events(&journal, "Ticket/a").await, happened(&[("Hold", 0), ("Release", 5_000)]));
    let refused = shop.submit("Desk/d", "Sell", &["b"]).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    assert_eq!(events(&journal, "Ticket/b").await, happened(&[("Hold", 0), ("Release", 5_000)]));
    assert_eq!(shop.state("Ticket/c").await, "released");
    assert_eq!(shop.field("Room/r", "taken").await, "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_after_what_was_due() {
    let shop = Shop::open(Memory::new(), 0);
    shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
    shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    let refused = shop.submit("Desk/d", "Look", &["s"]).await;
    assert!(matches!(refused, Err(SubmitError::Refused { .. })), "{refused:?}");
    shop.set(5_000);
    assert!(shop.submit("Desk/d", "Look", &["s"]).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_event_is_noted_and_tried_again_when_the_time_or_the_state_changes() {
    for again in [&[("Move", &["8000"][..])][..], &[("Stop", &[][..]), ("Resume", &[][..])][..]] {
        let journal = Memory::new();
        let shop = Shop::looked_after(journal.clone(), 0);
        shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
        shop.has_timers(1).await;
        shop.set(6_000);
        shop.has_timers(0).await;
        assert_eq!(events(&journal, "Sale/s").await, happened(&[("Plan", 0), ("!Begin", 5_000)]));
        shop.submit("Sale/s", "Add", &[]).await.expect("possible");
        shop.set(7_000);
        assert_eq!(shop.state("Sale/s").await, "planned", "it is not tried again, although it is possible now");
        for (event, arguments) in again {
            shop.submit("Sale/s", event, arguments).await.expect("possible");
        }
        if again.len() == 1 {
            shop.has_timers(1).await;
        }
        shop.set(9_000);
        assert_eq!(shop.state("Sale/s").await, "selling");
        let all = events(&journal, "Sale/s").await;
        // The state was entered at 7,000, when the time of the timer had come already.
        let last = if again.len() == 1 { 8_000 } else { 7_000 };
        assert_eq!(all.last(), Some(&("Begin".to_owned(), last)), "{all:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_that_are_due_happen_in_the_order_of_their_times() {
    for (a, b, expected) in [("1", "2", "12"), ("2", "1", "21"), ("3", "3", "21")] {
        let shop = Shop::looked_after(Memory::new(), 0);
        shop.submit("Loan/l", "Lend", &[a, b]).await.expect("possible");
        shop.has_timers(1).await;
        shop.set(10);
        shop.has_timers(0).await;
        assert_eq!(shop.field("Loan/l", "log").await, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_was_moved_does_not_fire_early() {
    let journal = Memory::new();
    let shop = Shop::looked_after(journal.clone(), 0);
    shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
    shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    shop.submit("Sale/s", "Move", &["9000"]).await.expect("possible");
    // Another one shows that the engine has looked.
    shop.submit("Sale/t", "Plan", &["6000"]).await.expect("possible");
    shop.has_timers(2).await;
    shop.set(8_999);
    shop.has_timers(1).await;
    assert_eq!(events(&journal, "Sale/s").await.len(), 3);
    shop.set(9_000);
    shop.has_timers(0).await;
    assert_eq!(events(&journal, "Sale/s").await[3], ("Begin".to_owned(), 9_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_that_was_before_is_decided_before_what_is_due_happens() {
    let journal = Memory::new();
    let shop = Shop::open(journal.clone(), 0);
    shop.submit("Room/r", "Build", &[]).await.expect("possible");
    shop.submit("Ticket/a", "Hold", &["r", "5000"]).await.expect("possible");
    shop.set(4_999);
    journal.hold();
    let buyer = tokio::spawn({
        let shop = shop.clone();
        async move { shop.submit("Ticket/a", "Buy", &[]).await }
    });
    until(|| journal.waiting_count() == 1).await;
    // From now on the ticket is released, unless the buyer gets it: nobody can say yet.
    shop.set(5_000);
    let reader = tokio::spawn({
        let shop = shop.clone();
        async move { shop.state("Ticket/a").await }
    });
    tokio::task::yield_now().await;
    assert_eq!(journal.waiting_count(), 1);
    journal.release();
    assert!(buyer.await.expect("no panic").is_ok());
    assert_eq!(reader.await.expect("no panic"), "sold");
    assert_eq!(events(&journal, "Ticket/a").await, happened(&[("Hold", 0), ("Buy", 4_999)]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_comes_late_is_answered_if_nothing_is_due() {
    let shop = Shop::open(Memory::new(), 0);
    shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
    shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    let sale = key("Sale/s");
    let late = async || match shop.engine.read(&sale, ReadMode::Certain, None, Duration::ZERO).await {
        Ok(View::One { state, .. }) => Some(state.state().to_string()),
        _ => None,
    };
    // A machine that has no time for it answers none of them.
    let mut answers = Vec::new();
    while answers.len() < 1_000 && answers.iter().all(Option::is_none) {
        answers.push(late().await);
    }
    assert_eq!(answers.pop(), Some(Some("planned".to_owned())));
    shop.set(5_000);
    for _ in 0..100 {
        assert_ne!(late().await.as_deref(), Some("planned"), "a state that has come to its end");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_of_the_applied_state_waits_for_what_was_due_behind_an_open_event() {
    let journal = Memory::new();
    let shop = Shop::open(journal.clone(), 0);
    shop.submit("Room/r", "Build", &[]).await.expect("possible");
    shop.submit("Meter/m", "Start", &["5000"]).await.expect("possible");
    let journal = Watched::over(journal.crash());
    let shop = Shop::open(journal.clone(), 4_999);
    let locked = journal.rooms.clone().write_owned().await;
    let trip = tokio::spawn({
        let shop = shop.clone();
        async move { shop.submit("Trip/t", "Begin", &["m", "r"]).await }
    });
    // The trip uses the meter and is open there while the room is read.
    let range = async || match shop.engine.read(&key("Meter/m"), ReadMode::Range, None, LONG).await {
        Ok(View::Range(range)) => range.fields,
        other => panic!("a range is told at once: {other:?}"),
    };
    let values = async |name| range().await.into_iter().find(|field| field.name == name).expect("a field").values;
    let between = |low: &str, high: &str| Values::Between { low: low.into(), high: high.into() };
    while values("uses").await != between("0", "1") {}
    shop.set(5_000);
    assert_eq!(values("ticks").await, between("1", "1"), "it has ticked, and nobody knows whether it was used before");
    let meter = key("Meter/m");
    let mut reader = pin!(shop.engine.read(&meter, ReadMode::Applied, None, LONG));
    let others = async {
        for _ in 0..300 {
            range().await;
        }
    };
    tokio::select! {
        biased;
        read = &mut reader => panic!("the tick is not applied: {read:?}"),
        () = others => {}
    }
    drop(locked);
    let read = reader.await;
    let Ok(View::One { state, .. }) = &read else { panic!("{read:?}") };
    assert_eq!(state.fields().get("ticks"), Some(&Value::Integer(1)));
    assert!(trip.await.expect("no panic").is_ok());
}

/// A shop with one sale that is due at 5,000, and refused then if there is nothing to sell.
async fn planned(journal: &Memory, pieces: usize) {
    let shop = Shop::open(journal.clone(), 0);
    shop.submit("Sale/s", "Plan", &["5000"]).await.expect("possible");
    for _ in 0..pieces {
        shop.submit("Sale/s", "Add", &[]).await.expect("possible");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_at_any_point_between_due_and_fired_leaves_one_effect() {
    for (pieces, last) in [(1, "Begin"), (0, "!Begin")] {
        for durable in 0..3 {
            let journal = Memory::new();
            planned(&journal, pieces).await;
            let before = events(&journal, "Sale/s").await.len();
            let shop = Shop::looked_after(journal.clone(), 4_999);
            shop.has_timers(1).await;
            journal.hold();
            shop.set(5_000);
            for _ in 0..durable {
                if events(&journal, "Sale/s").await.len() == before {
                    until(|| journal.waiting_count() > 0).await;
                }
                journal.sync(1);
            }
            if durable == 0 {
                until(|| journal.waiting_count() > 0).await;
            }
            let journal = journal.crash();
            let shop = Shop::looked_after(journal.clone(), 6_000);
            let expected = if pieces > 0 { "selling" } else { "planned" };
            assert_eq!(shop.state("Sale/s").await, expected);
            shop.has_timers(0).await;
            let all = events(&journal, "Sale/s").await;
            assert_eq!(all[before..], [(last.to_owned(), 5_000)], "{durable} groups were durable");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_between_the_effect_that_sets_a_timer_and_its_note_is_none() {
    let journal = Memory::new();
    let shop = Shop::open(journal.clone(), 0);
    journal.hold();
    let client = tokio::spawn({
        let shop = shop.clone();
        async move { shop.submit("Sale/s", "Plan", &["5000"]).await }
    });
    until(|| journal.waiting_count() == 1).await;
    assert_eq!(journal.sync(1), 1, "effect and note are one group");
    assert!(client.await.expect("no panic").is_ok());
    let shop = Shop::looked_after(journal.crash(), 1);
    shop.has_timers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_are_found_again_after_a_crash() {
    let journal = Memory::new();
    let shop = Shop::looked_after(journal.clone(), 0);
    for number in 0..600 {
        let end = (5_000 + number).to_string();
        shop.submit(&format!("Sale/s{number}"), "Plan", &[&end]).await.expect("possible");
    }
    let shop = Shop::looked_after(journal.crash(), 1);
    shop.has_timers(600).await;
    shop.set(5_299);
    shop.has_timers(300).await;
    shop.set(10_000);
    shop.has_timers(0).await;
}

/// A journal that counts what is read, and lets nobody read the records of rooms while they are locked.
#[derive(Clone)]
struct Watched {
    journal: Memory,
    reads: Arc<AtomicUsize>,
    rooms: Arc<RwLock<()>>,
}

impl Watched {
    fn over(journal: Memory) -> Self {
        Self { journal, reads: Arc::default(), rooms: Arc::default() }
    }
}

impl Journal for Watched {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        self.journal.append(batch)
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<enact_journal::Record>, ReadError>> + Send + use<> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let rooms = (entity.class() == "Room").then(|| Arc::clone(&self.rooms));
        let reading = self.journal.read(entity, after);
        async move {
            let _passed = match rooms {
                Some(rooms) => Some(rooms.read_owned().await),
                None => None,
            };
            reading.await
        }
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        self.journal.last(entity)
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<enact_journal::Record>, ReadError>> + Send + use<> {
        self.journal.feed(after, limit)
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        self.journal.save_snapshot(snapshot)
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        self.journal.load_snapshot(entity)
    }

    fn limits(&self) -> Limits {
        self.journal.limits()
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        // The journal is opened again with all that it has.
        std::future::ready(Ok(()))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_a_stop_reads_no_entity() {
    let journal = Watched::over(Memory::new());
    let shop = Shop::open(journal.clone(), 0);
    let engine = shop.engine.clone();
    let looking = tokio::spawn(async move { engine.maintain().await });
    for number in 0..300 {
        shop.submit(&format!("Sale/s{number}"), "Plan", &["5000"]).await.expect("possible");
        shop.submit(&format!("Ticket/t{number}"), "Buy", &[]).await.expect_err("there is none");
    }
    shop.engine.shutdown(LONG).await.expect("the journal closes");
    looking.abort();
    let (before, restored) = (journal.reads.load(Ordering::Relaxed), Shop::looked_after(journal.clone(), 1));
    restored.has_timers(300).await;
    restored.submit("Sale/other", "Plan", &["9000"]).await.expect("possible");
    restored.has_timers(301).await;
    let reads = journal.reads.load(Ordering::Relaxed) - before;
    assert!(reads <= 17, "the notes of each shard, and the other sale: {reads}");
    restored.set(5_000);
    restored.has_timers(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_that_are_due_together_keep_no_request_out() {
    let journal = Memory::new();
    let shop = Shop::looked_after(journal.clone(), 0);
    for number in 0..1_000 {
        shop.submit(&format!("Sale/s{number}"), "Plan", &["5000"]).await.expect("possible");
    }
    shop.submit("Sale/other", "Plan", &["9000"]).await.expect("possible");
    shop.has_timers(1_001).await;
    journal.hold();
    shop.set(5_000);
    until(|| journal.waiting_count() == 32).await;
    // Of a thousand, 32 are under way; a request is none of them, and is there with its own record.
    let request = tokio::spawn({
        let shop = shop.clone();
        async move { shop.submit("Sale/other", "Add", &[]).await }
    });
    until(|| journal.waiting_count() == 33).await;
    journal.release();
    assert!(request.await.expect("no panic").is_ok());
    shop.has_timers(1).await;
    for number in 0..1_000 {
        let all = events(&journal, &format!("Sale/s{number}")).await;
        assert_eq!(all, happened(&[("Plan", 0), ("!Begin", 5_000)]));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_does_not_matter_how_late_the_engine_looks() {
    for seed in 0..40 {
        let mut chance = Chance::new(seed);
        let (eager_journal, mut lazy_journal) = (Memory::new(), Memory::new());
        let eager = Shop::looked_after(eager_journal.clone(), 0);
        let mut lazy = Shop::open(lazy_journal.clone(), 0);
        let mut now = 0;
        for _ in 0..40 {
            let sale = format!("Sale/s{}", chance.below(3));
            let (event, end) = (["Plan", "Add", "Move", "Stop", "Resume", "Add"][chance.below(6)], chance.below(60));
            now += i64::try_from(chance.below(6)).unwrap();
            let end = end.to_string();
            let arguments = [end.as_str()];
            let arguments = if matches!(event, "Plan" | "Move") { &arguments[..] } else { &[] };
            eager.set(now);
            if chance.below(2) == 0 {
                // What is due by now has happened when nothing is left but what is later.
                for _ in 0..64 {
                    tokio::task::yield_now().await;
                }
            }
            if chance.below(8) == 0 {
                lazy_journal = lazy_journal.crash();
                lazy = Shop::open(lazy_journal.clone(), now);
            }
            lazy.set(now);
            let (one, other) =
                tokio::join!(eager.submit(&sale, event, arguments), lazy.submit(&sale, event, arguments));
            assert_eq!(one.is_ok(), other.is_ok(), "seed {seed}: {sale} {event} at {now}: {one:?} {other:?}");
        }
        eager.set(1_000);
        lazy.set(1_000);
        for number in 0..3 {
            let sale = format!("Sale/s{number}");
            assert_eq!(eager.read(&sale).await, lazy.read(&sale).await, "seed {seed}: {sale}");
            assert_eq!(events(&eager_journal, &sale).await, events(&lazy_journal, &sale).await, "seed {seed}: {sale}");
        }
    }
}
