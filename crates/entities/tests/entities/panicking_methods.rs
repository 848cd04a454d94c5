//! Whichever method of the model panics while an entity has its turn: that entity fails alone, what it admitted keeps its promise, and it
//! comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use enact_entities::{
    Asked, Calls, Change, Command, Cover, Due, Effects, Engine, EngineOptions, EntityError, EntityKey, Field, Forecast,
    Linear, Location, ManualClock, Model, Place, ReadError, ReadMode, Reason, Rebel, Relation, SubmitError, Timestamp,
    View, WallClock,
};
use enact_journal::Memory;
use enact_rebel::{EventCall, Instance, Source, Value, check};
use enact_sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::support::client::{LONG, until};
use crate::support::key;

const GOALS: &str = "
    class Goal
      saved: Integer = 100
      holder: String = \"nobody\"
      savers: Set[Integer] = {}
      invariant \"never negative\": saved >= 0
      initial new
        on Open(): open
      open
        on Save(n: Integer)
          pre: \"positive\": n > 0
          post: this.saved += n
        read on Worth(n: Integer) -> Integer
          return: saved * n
        on Double()
          post: this.saved = saved * 2
        on Pay(n: Integer, to: Goal)
          pre: \"enough\": saved * saved >= n
          post: this.saved -= n
          sync: to.Save(n)
        on Rename(to: String)
          post: this.holder = to
        on Copy(from: Goal)
          pre: \"another has more\": from.saved > 1
          post: this.saved += 1
        on Join(who: Integer)
          pre: \"new\": not (who in savers)
          post: this.savers += who
        on Leave(): closed
      closed
        on Reopen(): open
    class Check
      text: String = \"\"
      number: Integer = 0
      initial new
        on OfSaved(of: Goal): done
          post: this.number = of.saved
        on OfHolder(of: Goal): done
          post: this.text = of.holder
        on OfWorth(of: Goal, n: Integer): done
          post: this.number = of.Worth(n)
        on WhileOpen(of: Goal): done
          pre: \"it is open\": of is open
        on IfThere(of: Goal): done
          pre: \"it is there\": of is initialized
      final done
    class Offer
      until: Timestamp
      pieces: Integer = 0
      initial new
        on Open(end: Timestamp): open
          post: this.until = end
      open
        on Add(n: Integer)
          post: this.pieces += n, this.until = until
        on End(): over
        after until: End
      final over
";

/// The contract, one of whose methods panics for the entities called A.
struct Panicking {
    rebel: Rebel,
    trap: Arc<Trap>,
}

#[derive(Default)]
struct Trap {
    method: Mutex<Option<&'static str>>,
    hits: AtomicUsize,
}

impl Trap {
    fn set(&self, method: Option<&'static str>) {
        *self.method.lock() = method;
    }

    fn spring(&self, method: &str) {
        if *self.method.lock() == Some(method) {
            self.hits.fetch_add(1, Ordering::SeqCst);
            panic!("{method} panics on command");
        }
    }

    fn at(&self, key: &EntityKey, method: &str) {
        if key.id() == "A" {
            self.spring(method);
        }
    }
}

macro_rules! trapped {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $returned:ty;)*) => {
        $(fn $name(&self, key: &EntityKey, $($argument: $ty),*) -> $returned {
            self.trap.at(key, stringify!($name));
            self.rebel.$name(key, $($argument),*)
        })*
    };
}

impl Model for Panicking {
    type State = Instance;
    type Event = EventCall;

    fn initial(&self, key: &EntityKey) -> Option<Instance> {
        self.rebel.initial(key)
    }

    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a Instance) -> &'a str {
        self.trap.at(key, "state_name");
        self.rebel.state_name(key, state)
    }

    fn event_name<'a>(&'a self, event: &'a EventCall) -> &'a str {
        self.trap.spring("event_name");
        self.rebel.event_name(event)
    }

    // Without a state it is asked by the transaction, too.
    fn calls(&self, key: &EntityKey, state: Option<&Instance>, event: &EventCall, at: Timestamp) -> Calls<EventCall> {
        if state.is_some() {
            self.trap.at(key, "calls");
        }
        self.rebel.calls(key, state, event, at)
    }

    fn answered(&self, event: &EventCall, answers: &[(Asked<EventCall>, Option<Value>)]) -> EventCall {
        self.rebel.answered(event, answers)
    }

    fn is_of_timer(&self, event: &EventCall) -> bool {
        self.rebel.is_of_timer(event)
    }

    trapped! {
        exists(state: &Instance) -> bool;
        next(state: &Instance, event: &EventCall, at: Timestamp) -> Result<Instance, Vec<Reason>>;
        broken(before: &Instance, after: &Instance, at: Timestamp) -> Vec<Reason>;
        is_sound(state: &Instance) -> bool;
        questions(state: &Instance, event: &EventCall, at: Timestamp) -> Result<Vec<Asked<EventCall>>, Vec<Reason>>;
        seeded(event: EventCall, seed: u128) -> EventCall;
        has_result(event: &EventCall) -> bool;
        result(state: &Instance, event: &EventCall, at: Timestamp) -> Option<Value>;
        has_fixed_result(event: &EventCall) -> bool;
        value(state: &Instance, field: &str) -> Option<Value>;
        location(state: &Instance, field: &str) -> Option<Location>;
        reads_time(event: &EventCall) -> bool;
        changes(event: &EventCall, at: Timestamp) -> Option<Vec<Change>>;
        relation(open: &EventCall, incoming: &EventCall) -> Relation;
        linear(events: &[EventCall], at: Timestamp) -> Option<Linear>;
        effects(state: &Instance, event: &EventCall, at: Timestamp) -> Option<Effects>;
        judge(state: &Instance, cover: &Cover, event: &EventCall, at: Timestamp) -> Forecast;
        numbers(state: &Instance) -> Vec<(Field, i128)>;
        bytes(state: &Instance) -> usize;
        number(state: &Instance, field: Field) -> Option<i128>;
        content(state: &Instance, place: &Place) -> Option<String>;
        due(state: &Instance) -> Option<Due<EventCall>>;
        is_timed() -> bool;
        may_set_timer(event: &EventCall) -> bool;
        show(field: Field, value: i128) -> (String, String);
    }
}

struct World {
    journal: Memory,
    engine: Engine<Panicking, Memory>,
    trap: Arc<Trap>,
    clock: Arc<ManualClock>,
}

type Answer = Result<(), SubmitError>;

impl World {
    fn over(journal: Memory) -> Self {
        let spec = check(vec![Source::new("goals.rebel", GOALS)]).unwrap_or_else(|e| panic!("{}", e.render(false)));
        let (trap, clock) = (Arc::new(Trap::default()), Arc::new(ManualClock::new(Timestamp(1_000))));
        let model = Panicking { rebel: Rebel::new(spec.into()), trap: Arc::clone(&trap) };
        let engine = Engine::with_clock(model, journal.clone(), EngineOptions::default(), clock.clone());
        Self { journal, engine, trap, clock }
    }

    /// A and B of each class are open.
    async fn opened() -> Self {
        let world = Self::over(Memory::new());
        for id in ["A", "B"] {
            world.submit(&format!("Goal/{id} Open")).await.expect("no panic").expect("it is opened");
            world.submit(&format!("Offer/{id} Open 1000000")).await.expect("no panic").expect("it is opened");
        }
        world
    }

    /// Submits `Class/Id Event argument ..`, a millisecond after the last one.
    fn submit(&self, line: &str) -> JoinHandle<Answer> {
        let mut words = line.split(' ');
        let (to, name) = (key(words.next().expect("an entity")), words.next().expect("an event"));
        let spec = self.engine.model().rebel.spec();
        let event = spec.class(to.class()).and_then(|class| class.event(name)).expect("the contract has it");
        let goal = spec.class("Goal").expect("a class");
        let value = |(param, word): (&enact_rebel::Param, &str)| {
            let value = match word.parse::<i64>() {
                Ok(number) if **param.name() == *"end" => Value::Timestamp(enact_rebel::Timestamp::from_millis(number)),
                Ok(number) => Value::Integer(number),
                Err(_) if **param.name() == *"to" && to.class() == "Goal" && name == "Rename" => {
                    Value::String(word.into())
                }
                Err(_) => Value::Reference(goal.reference(goal.key(word).expect("a key"))),
            };
            (param.name().to_string(), value)
        };
        let arguments: Vec<(String, Value)> = event.params().iter().zip(words).map(value).collect();
        let arguments = arguments.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let event = event.call(arguments).expect("the arguments fit");
        self.clock.set(Timestamp(self.clock.time().0 + 1));
        let (engine, command) =
            (self.engine.clone(), Command { key: to, event, then: Vec::new(), idempotency: None, deadline: LONG });
        tokio::spawn(async move { engine.submit(command).await.map(drop) })
    }

    /// Submits what is possible until its record waits for the disk.
    async fn admit(&self, line: &str) -> JoinHandle<Answer> {
        let waiting = self.journal.waiting_count();
        let admitted = self.submit(line);
        until(|| self.journal.waiting_count() > waiting).await;
        admitted
    }

    async fn read(&self, entity: &str, mode: ReadMode) -> Result<View<Instance>, ReadError> {
        self.engine.read(&key(entity), mode, None, LONG).await
    }

    async fn number(&self, entity: &str, field: &str) -> i64 {
        match self.read(entity, ReadMode::Certain).await {
            Ok(View::One { state, .. }) => match state.fields().get(field) {
                Some(Value::Integer(number)) => *number,
                other => panic!("{field} is {other:?}"),
            },
            other => panic!("{entity} cannot be read: {other:?}"),
        }
    }
}

fn has_ended(cause: &EntityError) -> bool {
    matches!(cause, EntityError::Ended { entity, .. } if entity.id() == "A")
}

enum When {
    /// When this comes while `before` are open.
    Asked(&'static str),
    Read(ReadMode),
    /// When the entity is loaded.
    Loaded,
}

use When::{Asked as On, Loaded, Read};

/// The method; what is admitted before it panics; when it does.
const ROWS: &[(&str, &[&str], When)] = &[
    ("state_name", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("exists", &["Goal/A Save 5"], Read(ReadMode::Applied)),
    ("exists", &["Goal/A Save 5"], On("Check/1 IfThere A")),
    ("event_name", &["Goal/A Save 5"], On("Goal/A Save 0")),
    ("next", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("broken", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("questions", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("calls", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("result", &["Goal/A Save 5"], On("Check/1 OfWorth A 1")),
    ("has_fixed_result", &["Goal/A Save 5"], On("Check/1 OfWorth A 1")),
    ("value", &["Goal/A Save 5"], On("Check/1 OfHolder A")),
    ("location", &["Goal/A Save 5"], On("Check/1 OfSaved A")),
    ("reads_time", &["Goal/A Pay 1 B", "Goal/A Pay 1 B"], On("Goal/A Pay 1 B")),
    ("changes", &["Goal/A Save 5"], On("Goal/A Save 1")),
    ("relation", &["Goal/A Save 5"], On("Goal/A Save 1")),
    ("linear", &["Goal/A Save 5"], On("Goal/A Save 1")),
    ("effects", &["Goal/A Save 5"], On("Goal/A Double")),
    ("judge", &["Goal/A Save 5"], On("Goal/A Double")),
    ("numbers", &["Goal/A Save 5"], Read(ReadMode::Range)),
    ("show", &["Goal/A Save 5"], Read(ReadMode::Range)),
    ("number", &["Goal/A Save 5"], On("Goal/A Save 1")),
    ("content", &["Goal/A Save 5", "Goal/A Join 7"], On("Goal/A Join 8")),
    ("due", &["Offer/A Add 5"], On("Offer/A Add 1")),
    ("is_sound", &[], Loaded),
    ("bytes", &[], Loaded),
    ("next", &[], Loaded),
];

#[tokio::test(flavor = "multi_thread")]
async fn whichever_method_panics_its_entity_fails_alone_and_comes_back() {
    for (method, before, when) in ROWS {
        let case = case(method, before, when);
        assert!(timeout(Duration::from_secs(60), case).await.is_ok(), "{method} is never asked");
    }
}

async fn case(method: &'static str, before: &[&str], when: &When) {
    let mut world = World::opened().await;
    if matches!(when, Loaded) {
        world = World::over(world.journal.crash());
    }
    let mut admitted = Vec::new();
    world.journal.hold();
    for line in before {
        admitted.push(world.admit(line).await);
    }
    world.trap.set(Some(method));
    match when {
        On(line) => {
            let answer = world.submit(line).await.expect("no panic");
            assert!(matches!(&answer, Err(SubmitError::Entity(cause)) if has_ended(cause)), "{method}: {answer:?}");
        }
        Read(mode) => {
            let answer = world.read("Goal/A", *mode).await;
            assert!(matches!(&answer, Err(ReadError::Entity(cause)) if has_ended(cause)), "{method}: {answer:?}");
        }
        Loaded => {
            let answer = world.submit("Goal/A Save 1").await.expect("no panic");
            assert!(matches!(&answer, Err(SubmitError::Entity(cause)) if has_ended(cause)), "{method}: {answer:?}");
        }
    }
    assert!(world.trap.hits.load(Ordering::SeqCst) > 0);
    world.journal.release();
    for answer in admitted {
        assert_eq!(answer.await.expect("no panic"), Ok(()), "{method}: what was admitted is kept");
    }
    for line in ["Goal/B Save 1", "Offer/B Add 1"] {
        assert_eq!(world.submit(line).await.expect("no panic"), Ok(()), "{method}: others go on");
    }
    assert_eq!(world.engine.failure(), None, "{method}");
    world.trap.set(None);
    for line in ["Goal/A Save 1", "Offer/A Add 1"] {
        while let Err(cause) = world.submit(line).await.expect("no panic") {
            assert!(matches!(&cause, SubmitError::Entity(cause) if has_ended(cause)), "{method}: {cause}");
        }
    }
    let changed = |event: &str| {
        let numbers = before
            .iter()
            .filter_map(|line| line.strip_prefix(event))
            .map(|rest| rest.split(' ').next().and_then(|number| number.parse::<i64>().ok()).expect("a number"));
        numbers.sum::<i64>()
    };
    let saved = 100 + changed("Goal/A Save ") - changed("Goal/A Pay ") + 1;
    assert_eq!(world.number("Goal/A", "saved").await, saved, "{method}");
    assert_eq!(world.number("Offer/A", "pieces").await, changed("Offer/A Add ") + 1, "{method}");
}
