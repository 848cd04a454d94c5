//! Admission by field: what is told of numbers, elements and contents is what all outcomes say.

use std::sync::{Arc, LazyLock};

use enact_entities::{
    Action, Admission, Attempt, Branch, Condition, Decision, EntityKey, Limits, Millis, Model, Rebel, Request, Slot,
    Strategy, Timestamp, TxId, Verdict, Work,
};
use enact_rebel::{EventCall, Instance, Source, Type, Value, check};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;

/// Numbers that are added to and replaced, elements that come and go, contents that are asked for.
const CONTRACT: &str = "
class Goal
  saved: Integer = 0
  limit: Integer = 0
  savers: Set[Integer] = {}
  frozen: Boolean = false
  word: String = \"\"
  price: Money = EUR 3.00
  pledge: Integer = 0
  notes: List[Integer] = []
  up: Integer = 5
  side: Integer = 0
  asked: Integer = 0
  invariant saved + limit >= 0
  invariant saved + pledge >= 0
  initial planned
    on Start(): open
  open
    on Save(amount: Integer, by: Integer)
      pre: amount > 0
      post: this.saved += amount, this.savers += by
    on Take(amount: Integer)
      pre: saved >= amount, not frozen
      post: this.saved -= amount
    on Limit(to: Integer)
      pre: saved + to >= 0
      post: this.limit = to
    on Boast(of: Integer)
      pre: limit >= of
    on Join(by: Integer)
      pre: not (by in savers)
      post: this.savers += by
    on Leave(by: Integer)
      pre: by in savers
      post: this.savers -= by
    on Freeze()
      post: this.frozen = true
    on Thaw()
      pre: frozen
      post: this.frozen = false
    on Name(text: String)
      pre: word == \"\" or word == text
      post: this.word = text
    on Keep(text: String)
      pre: word == text
    on Price(to: Money)
      post: this.price = to
    on Discount(by: Money)
      pre: price >= by
      post: this.price -= by
    on Pledge(to: Integer)
      post: this.pledge = to
    on Double()
      post: this.saved += saved
    on Thirds(rate: Percentage)
      pre: saved * saved <= 16
      post: this.price = price * rate
    on Clear()
      post: this.savers = {}
    on Need(least: Integer)
      pre: up + side >= least
      post: this.asked += 1
    on Side(to: Integer)
      post: this.side = to
    on Lower(by: Integer)
      post: this.up -= by
    on Turn()
      post: this.up = 0 - up
    on Judge(most: Integer)
      post: this.frozen = saved > most
    on Rest()
      pre: not frozen
      post: this.asked += 1
    on Copy()
      post: this.limit = saved
    on Note(text: Integer)
      post: this.notes += text
    on Read(most: Integer)
      pre: notes.size <= most
      post: this.pledge += 1
    on Pause(): paused
      pre: saved > 0
  paused
    on Resume(): open
    on Save(amount: Integer, by: Integer)
      pre: amount > 0
      post: this.saved += amount, this.savers += by
    on Double()
      post: this.saved += saved
    on Pledge(to: Integer)
      post: this.pledge = to
";

fn goal() -> EntityKey {
    EntityKey::new("Goal", "boat").expect("a key")
}

fn contract() -> Arc<Rebel> {
    static MODEL: LazyLock<Arc<Rebel>> = LazyLock::new(|| {
        Arc::new(Rebel::new(Arc::new(check(vec![Source::new("goal.rebel", CONTRACT)]).expect("a contract"))))
    });
    Arc::clone(&MODEL)
}

fn event(model: &Rebel, name: &str, arguments: &[Value]) -> EventCall {
    let event = model.spec().class("Goal").expect("the class").event(name).expect("the event");
    let names = event.params().iter().map(|param| &**param.name());
    event.call(names.zip(arguments.iter().cloned())).expect("they fit")
}

/// The goal after its start, with 3 saved, a limit of 2, one saver and no name.
fn opened(model: &Rebel) -> Instance {
    let integer = Value::Integer;
    let events = [("Start", vec![]), ("Save", vec![integer(3), integer(1)]), ("Limit", vec![integer(2)])];
    events.into_iter().fold(model.initial(&goal()).expect("the class"), |state, (name, arguments)| {
        model.next(&goal(), &state, &event(model, name, &arguments), Timestamp(0)).expect("possible")
    })
}

fn request(tx: u128, event: EventCall, sole: bool) -> Request<EventCall> {
    let branch =
        Branch { tx: TxId::from_u128(tx), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) };
    Request { branch, deadline: Millis(1_000), ordered: false, sole, certain: false, calls_known: false }
}

fn limits() -> Limits {
    Limits { open_max: 6, overtakes_max: usize::MAX, ..Limits::default() }
}

fn told<E>(verdict: &Verdict<E>) -> &'static str {
    match verdict {
        Verdict::Admitted(..) => "admitted",
        Verdict::Rejected(_) => "rejected",
        _ => "delayed",
    }
}

/// An event with its arguments.
type Act = (&'static str, Vec<Value>);

fn money(text: &str) -> Value {
    Value::Money(text.parse().expect("an amount"))
}

fn act() -> impl Generator<Value = Act> {
    let small = -2_i64..5;
    let word = prop::sample::select(vec!["", "a", "b"]);
    let price = prop::sample::select(vec!["EUR 1.00", "EUR 3.00", "USD 1.00"]);
    let integer = |name: &'static str| small.clone().prop_map(move |n| (name, vec![Value::Integer(n)]));
    let text = |name: &'static str| word.clone().prop_map(move |text| (name, vec![Value::String(text.into())]));
    prop_oneof![
        3 => (1_i64..4, 0_i64..3).prop_map(|(amount, by)| ("Save", vec![Value::Integer(amount), Value::Integer(by)])),
        3 => integer("Take"),
        2 => integer("Limit"),
        1 => integer("Boast"),
        2 => (-6_i64..5).prop_map(|to| ("Pledge", vec![Value::Integer(to)])),
        2 => (0_i64..3).prop_map(|by| ("Join", vec![Value::Integer(by)])),
        2 => (0_i64..3).prop_map(|by| ("Leave", vec![Value::Integer(by)])),
        1 => Just(("Freeze", vec![])),
        1 => Just(("Thaw", vec![])),
        2 => text("Name"),
        1 => text("Keep"),
        2 => Just(("Double", vec![])),
        2 => prop::sample::select(vec!["50%", "200%"]).prop_map(|rate| {
            ("Thirds", vec![Value::parse(&Type::Percentage, rate).expect("a rate")])
        }),
        2 => Just(("Turn", vec![])),
        1 => (2_i64..5).prop_map(|most| ("Judge", vec![Value::Integer(most)])),
        1 => Just(("Rest", vec![])),
        1 => Just(("Copy", vec![])),
        1 => Just(("Clear", vec![])),
        2 => (3_i64..7).prop_map(|least| ("Need", vec![Value::Integer(least)])),
        2 => prop::sample::select(vec![0, 10]).prop_map(|to| ("Side", vec![Value::Integer(to)])),
        2 => (1_i64..4).prop_map(|by| ("Lower", vec![Value::Integer(by)])),
        1 => integer("Note"),
        1 => integer("Read"),
        1 => Just(("Pause", vec![])),
        1 => Just(("Resume", vec![])),
        2 => price.clone().prop_map(|price| ("Price", vec![money(price)])),
        2 => price.prop_map(|price| ("Discount", vec![money(price)])),
    ]
}

/// The goal with this limit and this pledge, which may be too low: an earlier contract had no such rules.
fn below(limit: i64, pledge: i64) -> Instance {
    let rules =
        ["  invariant saved + limit >= 0\n", "  invariant saved + pledge >= 0\n", "      pre: saved + to >= 0\n"];
    let text = rules.iter().fold(CONTRACT.to_owned(), |text, rule| text.replace(rule, ""));
    let lax = Rebel::new(Arc::new(check(vec![Source::new("goal.rebel", text)]).expect("a contract")));
    [("Limit", limit), ("Pledge", pledge)].iter().fold(opened(&lax), |goal_before, (name, to)| {
        let event = event(&lax, name, &[Value::Integer(*to)]);
        lax.next(&goal(), &goal_before, &event, Timestamp(0)).expect("possible")
    })
}

#[test]
fn an_instance_below_an_invariant_leaves_it_alone_or_mends_it_and_is_told_of_by_field_again_then() {
    let model = contract();
    let mut account = Admission::new(
        Arc::clone(&model),
        goal(),
        below(-5, -5),
        Slot::FIRST,
        Strategy::Serializable,
        Limits::default(),
    );
    let n = |number: i64| vec![Value::Integer(number)];
    let save = |amount: i64, by: i64| vec![Value::Integer(amount), Value::Integer(by)];
    let mut tx = 0;
    let mut ask = |account: &mut Admission<Rebel>, name: &str, arguments: &[Value]| {
        tx += 1;
        let verdict = told(&account.request(request(tx, event(&model, name, arguments), false)));
        (verdict, TxId::from_u128(tx))
    };
    // By field, all of them could be open together; 16 outcomes are those of four.
    let joining: Vec<(&str, TxId)> = (10..15).map(|by| ask(&mut account, "Join", &n(by))).collect();
    let told: Vec<&str> = joining.iter().map(|(told, _)| *told).collect();
    assert_eq!(told, ["admitted", "admitted", "admitted", "admitted", "delayed"]);
    for (_, tx) in &joining[..4] {
        account.decide(*tx, Decision::Abort);
    }
    // Saved are 3, the limit and the pledge are -5: what changes none of them is not judged by them.
    for (name, arguments, expected) in [
        ("Save", save(1, 1), "rejected"),
        ("Freeze", vec![], "admitted"),
        ("Join", n(7), "admitted"),
        ("Pledge", n(-6), "rejected"),
        ("Pledge", n(-5), "admitted"),
        ("Save", save(2, 1), "admitted"),
    ] {
        assert!(!model.is_sound(&goal(), account.base()), "before {name}");
        let (verdict, tx) = ask(&mut account, name, &arguments);
        assert_eq!(verdict, expected, "{name} {arguments:?}");
        if verdict == "admitted" {
            account.decide(tx, Decision::Commit);
        }
    }
    assert!(model.is_sound(&goal(), account.base()), "saved are 5 by now");
    // More than outcomes can be looked at.
    let verdicts: Vec<&str> = (0..100).map(|by| ask(&mut account, "Save", &save(1, by)).0).collect();
    assert!(verdicts.iter().all(|told| *told == "admitted"), "{verdicts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn as_long_as_one_is_delayed_one_is_open(psac in any::<bool>(), acts in prop::collection::vec(act(), 1..60)) {
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        let model = contract();
        let base = opened(&model);
        let limits = Limits { overtakes_max: 2, ..limits() };
        let mut account = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, strategy, limits);
        for (tx, (name, arguments)) in (1..).zip(acts) {
            account.request(Request { ordered: true, ..request(tx, event(&model, name, &arguments), false) });
        }
        let mut commits = false;
        while account.delayed_count() > 0 {
            let open = account.in_progress().find(|entry| !entry.committed);
            let open = open.expect("what is delayed waits for something").branch.tx;
            account.decide(open, if commits { Decision::Commit } else { Decision::Abort });
            commits = !commits;
        }
    }
}

/// Asks for all of them, one after the other, while all before them stay open.
fn verdicts(strategy: Strategy, asked: &[(&str, &[Value])]) -> Vec<&'static str> {
    let model = contract();
    let base = opened(&model);
    let mut account = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, strategy, Limits::default());
    let ask = |(tx, (name, arguments)): (u128, &(&str, &[Value]))| {
        told(&account.request(request(tx, event(&model, name, arguments), false)))
    };
    (1..).zip(asked).map(ask).collect()
}

#[test]
fn a_hundred_that_save_are_open_together() {
    let savers: Vec<[Value; 2]> = (0..100).map(|by| [Value::Integer(1), Value::Integer(by)]).collect();
    let asked: Vec<(&str, &[Value])> = savers.iter().map(|arguments| ("Save", arguments.as_slice())).collect();
    assert!(verdicts(Strategy::Serializable, &asked).iter().all(|told| *told == "admitted"));
}

/// Events with their arguments, and what each is told.
type Row<'a> = (&'a [(&'a str, &'a [Value])], &'a [&'a str]);

#[test]
fn elements_numbers_and_contents_wait_only_for_what_concerns_them() {
    let n = |number: i64| [Value::Integer(number)];
    let text = |text: &str| [Value::String(text.into())];
    let (euro, dollar) = ([money("EUR 1.00")], [money("USD 1.00")]);
    let half = [Value::parse(&Type::Percentage, "50%").expect("a rate")];
    #[rustfmt::skip]
    let rows: &[Row] = &[
        // Another element is another place.
        (&[("Join", &n(7)), ("Join", &n(8)), ("Leave", &n(1))], &["admitted", "admitted", "admitted"]),
        // The same element twice: the second depends on the first.
        (&[("Join", &n(7)), ("Join", &n(7))], &["admitted", "delayed"]),
        (&[("Leave", &n(7))], &["rejected"]),
        (&[("Join", &n(7)), ("Leave", &n(7))], &["admitted", "delayed"]),
        // Equal numbers commute, others do not, and neither does what adds.
        (&[("Limit", &n(4)), ("Limit", &n(4)), ("Limit", &n(5))], &["admitted", "admitted", "delayed"]),
        // A number is replaced beside additions to another one.
        (&[("Limit", &n(4)), ("Take", &n(1)), ("Limit", &n(4))], &["admitted", "admitted", "admitted"]),
        // ... as far as the invariant over both allows: -2 needs the 2 that might be taken.
        (&[("Take", &n(2)), ("Limit", &n(-2))], &["admitted", "delayed"]),
        (&[("Freeze", &[]), ("Freeze", &[]), ("Take", &n(1))], &["admitted", "admitted", "delayed"]),
        // Equal functions commute, and a level that one of them relies on is reached whichever comes first.
        (&[("Turn", &[]), ("Turn", &[]), ("Turn", &[])], &["admitted", "admitted", "admitted"]),
        (&[("Double", &[]), ("Double", &[]), ("Save", &[Value::Integer(1), Value::Integer(7)])], &["admitted", "admitted", "delayed"]),
        (&[("Double", &[]), ("Turn", &[]), ("Freeze", &[])], &["admitted", "admitted", "admitted"]),
        // A function makes nothing of what another one relies on, or is made of.
        (&[("Need", &n(5)), ("Turn", &[])], &["admitted", "delayed"]),
        (&[("Need", &n(-5)), ("Turn", &[])], &["admitted", "admitted"]),
        (&[("Rest", &[]), ("Judge", &n(2))], &["admitted", "delayed"]),
        (&[("Save", &[Value::Integer(1), Value::Integer(7)]), ("Judge", &n(3))], &["admitted", "delayed"]),
        (&[("Thirds", &half), ("Thirds", &half), ("Double", &[])], &["admitted", "admitted", "delayed"]),
        (&[("Save", &[Value::Integer(1), Value::Integer(7)]), ("Copy", &[])], &["admitted", "delayed"]),
        // What is relied on is not falsified.
        (&[("Take", &n(1)), ("Freeze", &[])], &["admitted", "delayed"]),
        (&[("Boast", &n(2)), ("Limit", &n(1))], &["admitted", "delayed"]),
        (&[("Boast", &n(2)), ("Limit", &n(3)), ("Boast", &n(3))], &["admitted", "admitted", "delayed"]),
        (&[("Keep", &text("")), ("Keep", &text(""))], &["admitted", "admitted"]),
        (&[("Keep", &text("a"))], &["rejected"]),
        // A number in another currency takes the place of the one that is there.
        (&[("Price", &euro), ("Discount", &euro)], &["admitted", "delayed"]),
        (&[("Price", &dollar), ("Discount", &euro)], &["admitted", "delayed"]),
        (&[("Discount", &dollar)], &["rejected"]),
    ];
    for (asked, expected) in rows {
        assert_eq!(verdicts(Strategy::Serializable, asked), *expected, "{asked:?}");
    }
}

/// A lower number before what needs the sum of it and of another one, which is behind the first in line and not applied.
#[test]
fn what_is_committed_in_line_is_no_support_for_what_may_come_before_it() {
    let model = contract();
    let base = opened(&model);
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits());
    let ask = |goal: &mut Admission<Rebel>, tx: u128, name: &str, number: i64, sole: bool| {
        told(&goal.request(request(tx, event(&model, name, &[Value::Integer(number)]), sole)))
    };
    assert_eq!(ask(&mut goal, 1, "Side", 0, false), "admitted");
    assert_eq!(ask(&mut goal, 2, "Side", 10, true), "admitted");
    assert_eq!(ask(&mut goal, 3, "Need", 5, false), "admitted");
    goal.decide(TxId::from_u128(2), Decision::Commit);
    assert!(goal.find(TxId::from_u128(2)).is_some_and(|entry| entry.committed && entry.answer.in_line));
    assert_eq!(ask(&mut goal, 4, "Lower", 3, false), "delayed");
}

/// What is made of a number may be made of one in another currency, once that has come to be there.
#[test]
fn a_function_behind_another_currency_is_one_of_that_currency() {
    let model = contract();
    let base = opened(&model);
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits());
    let rate = Value::parse(&Type::Percentage, "50%").expect("a rate");
    assert_eq!(told(&goal.request(request(1, event(&model, "Price", &[money("USD 1.00")]), false))), "admitted");
    assert_eq!(told(&goal.request(request(2, event(&model, "Thirds", &[rate]), true))), "admitted");
    goal.decide(TxId::from_u128(1), Decision::Commit);
    let discount = event(&model, "Discount", &[money("USD 1.00")]);
    assert_eq!(told(&goal.request(request(3, discount, true))), "delayed", "half a dollar may be left");
}

#[test]
fn what_is_not_linear_is_guarded_by_all_that_it_reads() {
    let model = contract();
    let base = opened(&model);
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits());
    let rate = Value::parse(&Type::Percentage, "50%").expect("a rate");
    assert_eq!(told(&goal.request(request(1, event(&model, "Freeze", &[]), false))), "admitted");
    assert_eq!(told(&goal.request(request(2, event(&model, "Thirds", &[rate]), true))), "admitted");
    let save = event(&model, "Save", &[Value::Integer(2), Value::Integer(7)]);
    assert_eq!(told(&goal.request(request(3, save, false))), "delayed", "5 times 5 is more than 16");
}

#[test]
fn a_set_that_is_replaced_says_nothing_of_its_elements() {
    let model = contract();
    let base = opened(&model);
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits());
    assert_eq!(told(&goal.request(request(1, event(&model, "Freeze", &[]), false))), "admitted");
    assert_eq!(told(&goal.request(request(2, event(&model, "Clear", &[]), true))), "admitted");
    let leave = event(&model, "Leave", &[Value::Integer(1)]);
    assert_eq!(told(&goal.request(request(3, leave, true))), "delayed", "it is there unless the set is cleared");
}

/// The text `none` and no text at all are written alike.
#[test]
fn an_optional_element_is_not_taken_for_another_one_of_the_same_text() {
    let contract = "
class Shelf
  marks: Set[String?] = {}
  sought: Integer = 0
  initial new
    on Put(mark: String?): used
      post: this.marks += mark
  used
    on Mark(mark: String?)
      post: this.marks += mark
    on Seek(mark: String?)
      pre: mark in marks
      post: this.sought += 1
";
    let model = Arc::new(Rebel::new(Arc::new(check(vec![Source::new("shelf.rebel", contract)]).expect("a contract"))));
    let key = EntityKey::new("Shelf", "s").expect("a key");
    let call = |name: &str, mark: Value| {
        let event = model.spec().class("Shelf").and_then(|class| class.event(name)).expect("the event");
        event.call([("mark", mark)]).expect("it fits")
    };
    let base = model.initial(&key).expect("the class");
    let text = |text: &str| Value::String(text.into());
    let base = model.next(&key, &base, &call("Put", text("none")), Timestamp(0)).expect("possible");
    let mut shelf =
        Admission::new(Arc::clone(&model), key, base, Slot::FIRST, Strategy::Serializable, Limits::default());
    assert_eq!(told(&shelf.request(request(1, call("Mark", text("x")), false))), "admitted");
    assert_eq!(told(&shelf.request(request(2, call("Seek", Value::None), false))), "rejected");
}

/// Timers that move to another state and that stay, states with timers and without, and events of which some change what is due.
const TIMED: &str = "
class Lease
  until: Timestamp? = none
  next: Timestamp? = none
  used: Integer = 0
  most: Integer = 5
  tags: Set[Integer] = {}
  word: String = \"\"
  invariant used <= 100
  initial new
    on Rent(end: Timestamp): rented
      post: this.until = end
  rented
    on Use(by: Integer)
      pre: used + by <= most
      post: this.used += by
    on Most(to: Integer)
      post: this.most = to
    on Tag(with: Integer)
      post: this.tags += with
    on Untag(with: Integer)
      pre: with in tags
      post: this.tags -= with
    on Name(text: String)
      post: this.word = text
    on Double()
      post: this.used += used
    on Extend(end: Timestamp)
      post: this.until = end
    on Plan(time: Timestamp)
      post: this.next = time, this.used += 1
    on Tick()
      pre: used < 7
      post: this.used += 1
    on Pause(): paused
    on End(): ended
    after until: End
    after next: Tick
  paused
    on Use(by: Integer)
      pre: used + by <= most
      post: this.used += by
    on Extend(end: Timestamp)
      post: this.until = end
    on Park(): parked
    on Resume(): rented
  parked
    on Use(by: Integer)
      pre: used + by <= most
      post: this.used += by
    on Unpark(): paused
  ended
    on Use(by: Integer)
      pre: used + by <= most
      post: this.used += by
    on Rent(end: Timestamp): rented
      post: this.until = end
";

/// What is asked of a lease, and when.
#[derive(Clone, Debug)]
struct Timed {
    event: EventCall,
    at: Timestamp,
    /// Whether a timer makes it happen.
    by_timer: bool,
}

fn lease() -> EntityKey {
    EntityKey::new("Lease", "l").expect("a key")
}

fn timed_contract() -> Arc<Rebel> {
    let spec = check(vec![Source::new("lease.rebel", TIMED)]);
    Arc::new(Rebel::new(spec.unwrap_or_else(|report| panic!("{}", report.render(false))).into()))
}

fn call(model: &Rebel, name: &str, argument: Option<Value>) -> EventCall {
    let event = model.spec().class("Lease").and_then(|class| class.event(name)).expect("the event");
    let names = event.params().iter().map(|param| &**param.name());
    event.call(names.zip(argument)).expect("it fits")
}

/// A lease that ends at 7.
fn rented(model: &Rebel) -> Instance {
    let end = Value::Timestamp(enact_rebel::Timestamp::from_millis(7));
    let new = model.initial(&lease()).expect("the class");
    model.next(&lease(), &new, &call(model, "Rent", Some(end)), Timestamp(0)).expect("possible")
}

fn timed_request(tx: u128, asked: &Timed, sole: bool) -> Request<EventCall> {
    let work = Work { timed: asked.by_timer, ..Work::event(asked.event.clone()) };
    let branch = Branch { tx: TxId::from_u128(tx), attempt: Attempt::FIRST, work, at: asked.at };
    Request { branch, deadline: Millis(1_000), ordered: false, sole, certain: false, calls_known: false }
}

/// More are open together than outcomes can be looked at, until something is due, which they are refused behind.
#[test]
fn a_hundred_events_that_leave_the_timers_alone_are_open_together() {
    let model = timed_contract();
    let mut entity = Admission::new(
        Arc::clone(&model),
        lease(),
        rented(&model),
        Slot::FIRST,
        Strategy::Serializable,
        Limits::default(),
    );
    let mut tx = 0;
    let mut ask = |name: &str, argument: i64, at: i64| {
        tx += 1;
        let asked =
            Timed { event: call(&model, name, Some(Value::Integer(argument))), at: Timestamp(at), by_timer: false };
        told(&entity.request(timed_request(tx, &asked, false)))
    };
    assert!((0..100).all(|number| ask("Tag", number, 6) == "admitted"));
    assert_eq!(ask("Tag", 100, 7), "rejected", "the lease has ended by then");
    assert_eq!(ask("Tag", 101, 6), "admitted");
}

/// A contract without the timer left an instance whose time is none: nothing but what mends it happens.
#[test]
fn a_timer_without_a_time_for_a_fault_refuses_what_fields_would_admit() {
    let contract = "
class Span
  end: Timestamp
  used: Integer = 0
  initial new
    on Begin(to: Timestamp): begun
      post: this.end = to
  begun
    on Use()
      post: this.used += 1
    on Over(): over
    after end + 1 day: Over
  final over
";
    let of = |text: &str| Arc::new(Rebel::new(Arc::new(check(vec![Source::new("span.rebel", text)]).expect("valid"))));
    let (model, lax) = (of(contract), of(&contract.replace("    after end + 1 day: Over\n", "")));
    let key = EntityKey::new("Span", "s").expect("a key");
    let call = |name: &str, arguments: Vec<(&str, Value)>| {
        let class = lax.spec().class("Span").expect("the class");
        class.event(name).expect("the event").call(arguments).expect("it fits")
    };
    let end = enact_rebel::Timestamp::from_millis(i64::MAX);
    let begin = call("Begin", vec![("to", Value::Timestamp(end))]);
    let new = lax.initial(&key).expect("the class");
    let base = lax.next(&key, &new, &begin, Timestamp(0)).expect("possible");
    assert!(!model.is_sound(&key, &base));
    let mut span =
        Admission::new(Arc::clone(&model), key, base, Slot::FIRST, Strategy::Serializable, Limits::default());
    let begun = Action::Condition(Condition::in_state(["begun"], "it must have begun"));
    let branch = Branch { tx: TxId::from_u128(1), attempt: Attempt::FIRST, work: Work::of([begun]), at: Timestamp(0) };
    let asks =
        Request { branch, deadline: Millis(1_000), ordered: false, sole: false, certain: false, calls_known: false };
    assert_eq!(told(&span.request(asks)), "admitted");
    assert_eq!(told(&span.request(request(2, call("Use", vec![]), false))), "rejected");
}
