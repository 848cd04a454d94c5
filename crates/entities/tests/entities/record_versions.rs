//! Records of every version that this program reads, as they lie in stores.

use enact_entities::{
    Action, Answer, AnswerRecord, Attempt, Branch, Call, Caller, Condition, Decision, DecisionRecord, Done, Durability,
    EntityKey, Erasure, Idempotency, Pending, Prepared, Question, Reason, Record, Refusal, Slot, Snapshot, Timestamp,
    Tombstone, TxId, Work,
};
use enact_journal::Position;
use enact_rebel::{self as rebel, EventCall, Id, Instance, Source, Spec, Value, check};

/// Each with what it is called there.
const VERSION_3: &str = include_str!("record_versions/version-3.hex");
const VERSION_4: &str = include_str!("record_versions/version-4.hex");

/// A value of every type is an argument of its event and a field of its instance.
const CONTRACT: &str = "
enum Colour { red, green }

record Line
  product: String
  quantity: Integer = 1

class Thing
  boolean: Boolean
  integer: Integer
  money: Money
  percentage: Percentage
  currency: Currency
  text: String
  iban: Iban
  date: Date
  timestamp: Timestamp
  thing: Thing
  colour: Colour
  amounts: Set[Money]
  decimal: Decimal(2)
  time: Time
  duration: Duration
  period: Period
  id: Id
  absent: Integer?
  dates: List[Date]
  prices: Map[Iban, Money]
  line: Line

  initial unmade
    on Make(newBoolean: Boolean, newInteger: Integer, newMoney: Money, newPercentage: Percentage, newCurrency: Currency,
        newText: String, newIban: Iban, newDate: Date, newTimestamp: Timestamp, newThing: Thing, newColour: Colour, newAmounts: Set[Money],
        newDecimal: Decimal(2), newTime: Time, newDuration: Duration, newPeriod: Period, newId: Id, newAbsent: Integer?,
        newDates: List[Date], newPrices: Map[Iban, Money], newLine: Line): made
      post: this.boolean = newBoolean
            this.integer = newInteger
            this.money = newMoney
            this.percentage = newPercentage
            this.currency = newCurrency
            this.text = newText
            this.iban = newIban
            this.date = newDate
            this.timestamp = newTimestamp
            this.thing = newThing
            this.colour = newColour
            this.amounts = newAmounts
            this.decimal = newDecimal
            this.time = newTime
            this.duration = newDuration
            this.period = newPeriod
            this.id = newId
            this.absent = newAbsent
            this.dates = newDates
            this.prices = newPrices
            this.line = newLine
  final made
";

const ARGUMENTS: [&str; 21] = [
    "true",
    "-9223372036854775808",
    "EUR -1000000000000000000.01",
    "2.5%",
    "JPY",
    "Zoë",
    "NL91ABNA0417164300",
    "1969-12-31",
    "2026-11-21T09:30:00.001Z",
    "other",
    "green",
    "{BHD 0.001, EUR 12.50}",
    "-12.50",
    "18:30:15.250",
    "36 hours",
    "1 year 2 months 3 days",
    "0190163d-8694-739b-aea5-966c26f8ad91",
    "none",
    "[2026-11-21, 0001-01-01]",
    "{NL91ABNA0417164300: EUR 0.00}",
    "Line(product: \"pen\", quantity: 2)",
];

fn spec() -> Spec {
    check(vec![Source::new("thing.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

fn make() -> EventCall {
    let spec = spec();
    let event = spec.class("Thing").and_then(|class| class.event("Make")).expect("it is declared");
    let arguments = event.params().iter().zip(ARGUMENTS);
    let typed = arguments.map(|(param, text)| {
        (&**param.name(), Value::parse(param.ty(), text).unwrap_or_else(|why| panic!("{}: {why}", param.name())))
    });
    event.call(typed).expect("they fit")
}

/// With all that a call may carry.
fn full() -> EventCall {
    let spec = spec();
    let thing = spec.class("Thing").expect("it is declared");
    let of = thing.reference(thing.key("other").expect("a text"));
    let answered = rebel::Answered { of, question: rebel::Question::Field("money".into()), answer: None };
    let caller = rebel::Caller::new("ada", ["teller"]).expect("a name of its own");
    make().with_answers(vec![answered]).with_caller(caller).with_seed(Id::from_u128(7))
}

fn made() -> Instance {
    let spec = spec();
    let thing = spec.class("Thing").expect("it is declared");
    let key = thing.key("one").expect("a text");
    thing.next(&key, &thing.initial(), &make(), rebel::Timestamp::from_millis(0)).expect("it can be made")
}

fn key(text: &str) -> EntityKey {
    text.parse().expect("a key")
}

fn tx(bits: u128) -> TxId {
    TxId::from_u128(bits)
}

fn prepared() -> Prepared<EventCall> {
    let actions = [
        Action::Condition(Condition::initialized("it must exist")),
        Action::Event(full()),
        Action::Condition(Condition::in_state(["made"], "it must be made")),
        Action::Ask(Question::Field("money".into())),
        Action::Ask(Question::Possible(make())),
        Action::Condition(Condition::impossible(make(), "only once")),
    ];
    Prepared {
        branch: Branch {
            tx: tx(7),
            attempt: Attempt::FIRST.next().next_round(),
            work: Work::of(actions),
            at: Timestamp(-1),
        },
        durability: Durability::Shared,
        slot: Slot(3),
        coordinator: key("Coordinator/C"),
        answer: Answer {
            calls: vec![vec![Call::event(key("Thing/two"), make())], vec![]],
            answers: vec![Some(Value::Integer(5)), Some(Value::Boolean(true)), None],
            state: Some("made".into()),
            in_line: true,
        },
        version: 2,
        overlap: None,
    }
}

fn records() -> Vec<(&'static str, Record<EventCall>)> {
    let refusal = Refusal {
        entity: key("Thing/one"),
        event: "Make".into(),
        reasons: vec![
            Reason::Guard { text: "enough".into(), values: vec![("money".into(), "EUR 1.00".into())] },
            Reason::Role { event: "Make".into(), roles: vec!["teller".into()] },
            Reason::NoSuchEntity,
        ],
        callers: vec![Caller { entity: key("Thing/two"), event: "Make".into() }],
    };
    let idempotency = |principal: Option<&str>| {
        Some(Idempotency { key: "k".into(), principal: principal.map(str::to_owned), fingerprint: [9; 32] })
    };
    let answer = |idempotency, result| AnswerRecord { tx: tx(1), at: Timestamp(5), idempotency, result };
    let decision = |answer| {
        Record::Decision(Box::new(DecisionRecord {
            tx: tx(u128::MAX),
            attempt: Attempt::FIRST,
            participants: vec![(key("Thing/one"), Slot(4))],
            answer,
        }))
    };
    let committed = |events, version| Record::Committed {
        tx: tx(0x0192_a1b2_0000_7000_8000_0000_0000_0001),
        slot: Slot(u64::MAX),
        events,
        at: Timestamp(i64::MIN),
        version,
        overlap: None,
    };
    let result = Some(Value::Integer(7).into());
    vec![
        ("prepared", Record::Prepared(prepared().into())),
        ("outcome", Record::Outcome { tx: tx(7), slot: Slot(3), decision: Decision::Abort }),
        ("committed", committed(vec![make()], 1)),
        ("committed-with-all", committed(vec![full(), make()], u32::MAX)),
        ("decision", decision(answer(idempotency(None), Ok(Done { state: Some("made".into()), result: None })))),
        ("decision-with-result", decision(answer(None, Ok(Done { state: None, result })))),
        ("answer", Record::Answer(answer(idempotency(Some("p")), Err(refusal)).into())),
        ("end", Record::End { tx: tx(7) }),
        ("timer", Record::Timer { entity: key("Thing/one") }),
    ]
}

/// Those that there have been since version 4.
fn new_records() -> Vec<(&'static str, Record<EventCall>)> {
    let tombstone = Tombstone { tx: tx(7), slot: Slot(8), at: Timestamp(-1), version: 3, snapshot: vec![4, 0, 255] };
    let erasure = |by| Erasure { tx: tx(7), subject: key("Thing/one"), generation: 300, at: Timestamp(-1), by };
    vec![
        ("tombstone", Record::Tombstone(tombstone.into())),
        ("swept", Record::Swept { position: Position(u64::MAX) }),
        ("erased", Record::Erased(erasure(None).into())),
        ("erased-by-somebody", Record::Erased(erasure(Some("p".to_owned())).into())),
    ]
}

fn snapshot() -> Snapshot<Instance, EventCall> {
    Snapshot {
        base: made(),
        next_slot: Slot(9),
        pending: vec![Pending { prepared: prepared(), committed: true }],
        version: 3,
    }
}

/// The bytes that are called `name` in `stored`.
fn bytes_of(stored: &str, name: &str) -> Vec<u8> {
    let line = stored.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect("it is stored");
    (0..line.len()).step_by(2).map(|at| u8::from_str_radix(&line[at..at + 2], 16).expect("hexadecimal")).collect()
}

#[test]
fn every_kind_of_record_is_read_in_each_version() {
    for (version, stored) in [(3, VERSION_3), (4, VERSION_4)] {
        for (name, record) in records() {
            let bytes = bytes_of(stored, name);
            assert_eq!(bytes[0], version, "{name}");
            assert_eq!(Record::decode(&bytes), Ok(record), "{name} of version {version}");
        }
        assert_eq!(Snapshot::decode(&bytes_of(stored, "snapshot")), Ok(snapshot()), "of version {version}");
    }
}

/// Fields and variants have kept their places.
#[test]
fn every_kind_of_record_is_written_in_the_latest_version() {
    for (name, record) in records().into_iter().chain(new_records()) {
        assert_eq!(record.encode(), bytes_of(VERSION_4, name), "{name}");
        assert_eq!(Record::decode(&record.encode()), Ok(record), "{name}");
    }
    assert_eq!(snapshot().encode(), bytes_of(VERSION_4, "snapshot"));
}
