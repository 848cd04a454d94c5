//! Admission by field: what is told of numbers, elements and contents is what all outcomes say.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use enact_entities::{
    Action, Admission, Attempt, Branch, Calls, Condition, Decision, EntityKey, InProgress, Limits, Millis, Model,
    Reason, Rebel, Request, Slot, Strategy, Timestamp, TxId, Verdict, Work,
};
use enact_rebel::{EventCall, Instance, Source, Type, Value, check};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use proptest::test_runner::TestCaseError;

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

/// The contract with nothing told in advance: every verdict is one of all outcomes.
struct Plain(Arc<Rebel>);

impl Model for Plain {
    type State = Instance;
    type Event = EventCall;

    fn initial(&self, key: &EntityKey) -> Option<Instance> {
        self.0.initial(key)
    }

    fn state_name<'a>(&'a self, key: &EntityKey, state: &'a Instance) -> &'a str {
        self.0.state_name(key, state)
    }

    fn exists(&self, key: &EntityKey, state: &Instance) -> bool {
        self.0.exists(key, state)
    }

    fn event_name<'a>(&'a self, event: &'a EventCall) -> &'a str {
        self.0.event_name(event)
    }

    fn next(
        &self,
        key: &EntityKey,
        state: &Instance,
        event: &EventCall,
        at: Timestamp,
    ) -> Result<Instance, Vec<Reason>> {
        self.0.next(key, state, event, at)
    }

    fn broken(&self, key: &EntityKey, before: &Instance, after: &Instance, at: Timestamp) -> Vec<Reason> {
        self.0.broken(key, before, after, at)
    }

    fn calls(&self, key: &EntityKey, state: Option<&Instance>, event: &EventCall, at: Timestamp) -> Calls<EventCall> {
        self.0.calls(key, state, event, at)
    }
}

fn goal() -> EntityKey {
    EntityKey::new("Goal", "boat").expect("a key")
}

fn contract() -> Arc<Rebel> {
    Arc::new(Rebel::new(Arc::new(check(vec![Source::new("goal.rebel", CONTRACT)]).expect("a contract"))))
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

fn limits(outcomes_max: usize) -> Limits {
    Limits { open_max: 6, outcomes_max, overtakes_max: usize::MAX, ..Limits::default() }
}

fn told<E>(verdict: &Verdict<E>) -> &'static str {
    match verdict {
        Verdict::Admitted(..) => "admitted",
        Verdict::Rejected(_) => "rejected",
        _ => "delayed",
    }
}

/// What all outcomes of what `account` has in progress say to a request.
fn exact(
    plain: &Arc<Plain>,
    account: &Admission<Rebel>,
    strategy: Strategy,
    asked: Request<EventCall>,
) -> &'static str {
    let base = account.base().clone();
    let mut oracle = Admission::new(Arc::clone(plain), goal(), base, Slot::FIRST, strategy, limits(4_096));
    for entry in account.in_progress() {
        let tx = entry.branch.tx;
        let again = Request {
            branch: entry.branch,
            deadline: Millis(1_000),
            ordered: false,
            sole: false,
            certain: false,
            calls_known: false,
        };
        assert_eq!(told(&oracle.request(again)), "admitted", "what is in progress may be in progress");
        if entry.committed {
            oracle.decide(tx, Decision::Commit);
        }
    }
    told(&oracle.request(asked))
}

/// What is in progress, as the test keeps it.
#[derive(Clone)]
struct Entry {
    event: EventCall,
    is_committed: bool,
    in_line: bool,
}

/// What every subset of what may still abort says to a request, and every order that is still open.
struct Reference<'a> {
    model: &'a Rebel,
    base: &'a Instance,
    entries: Vec<Entry>,
}

impl Reference<'_> {
    fn next(&self, state: &Instance, event: &EventCall) -> Option<Instance> {
        let next = self.model.next(&goal(), state, event, Timestamp(0)).ok()?;
        self.model.broken(&goal(), state, &next, Timestamp(0)).is_empty().then_some(next)
    }

    /// The states that the entries leave in the order of slots, each with or without those of which `is_sure` does not hold; those of
    /// which `is_left_out` holds never happen.
    fn states(&self, is_sure: impl Fn(usize) -> bool, is_left_out: impl Fn(usize) -> bool) -> HashSet<Instance> {
        let mut states = HashSet::from([self.base.clone()]);
        for (index, entry) in self.entries.iter().enumerate() {
            if is_left_out(index) {
                continue;
            }
            let happened = states.iter().filter_map(|state| self.next(state, &entry.event));
            let happened: HashSet<Instance> = happened.collect();
            if is_sure(index) {
                states = happened;
            } else {
                states.extend(happened);
            }
        }
        states
    }

    fn told(&self, event: &EventCall, sole: bool) -> &'static str {
        let ends = self.states(|index| self.entries[index].is_committed, |_| false);
        let after: Vec<_> = ends.iter().map(|state| self.next(state, event)).collect();
        let states: BTreeSet<_> = after.iter().flatten().map(|next| next.state().clone()).collect();
        match after.iter().flatten().count() {
            0 => "rejected",
            accepted if accepted < after.len() || states.len() > 1 => "delayed",
            _ if sole || self.is_free(event) => "admitted",
            _ => "delayed",
        }
    }

    /// Whether `event` may go before everything that may still come before or behind it.
    fn is_free(&self, event: &EventCall) -> bool {
        let is_past = |index: usize| self.entries[index].is_committed && !self.entries[index].in_line;
        let anywhere = self.states(is_past, |_| false);
        let commutes = |index: usize| {
            // What is in line stays behind all that it found.
            let is_behind = |other: usize| other > index && self.entries[other].in_line;
            let is_before =
                |other: usize| self.entries[index].in_line && other < index && self.entries[other].is_committed;
            let others =
                self.states(|other| is_past(other) || is_before(other), |other| other == index || is_behind(other));
            others.iter().all(|state| {
                let other = &self.entries[index].event;
                let (Some(one), Some(two)) = (self.next(state, event), self.next(state, other)) else { return false };
                let (both, reverse) = (self.next(&one, other), self.next(&two, event));
                let keeps = |a: &Instance, b: &Option<Instance>| b.as_ref().is_some_and(|b| a.state() == b.state());
                both.is_some() && both == reverse && keeps(&two, &both) && keeps(&one, &reverse)
            })
        };
        anywhere.iter().all(|state| self.next(state, event).is_some())
            && (0..self.entries.len()).filter(|&index| !is_past(index)).all(commutes)
    }
}

#[derive(Clone, Debug)]
enum Act {
    Ask(&'static str, Vec<Value>),
    /// Which of the open ones.
    Decide(usize, bool),
}

fn money(text: &str) -> Value {
    Value::Money(text.parse().expect("an amount"))
}

fn act() -> impl Generator<Value = Act> {
    let small = -2_i64..5;
    let word = prop::sample::select(vec!["", "a", "b"]);
    let price = prop::sample::select(vec!["EUR 1.00", "EUR 3.00", "USD 1.00"]);
    let integer = |name: &'static str| small.clone().prop_map(move |n| Act::Ask(name, vec![Value::Integer(n)]));
    let text = |name: &'static str| word.clone().prop_map(move |text| Act::Ask(name, vec![Value::String(text.into())]));
    prop_oneof![
        3 => (1_i64..4, 0_i64..3).prop_map(|(amount, by)| Act::Ask("Save", vec![Value::Integer(amount), Value::Integer(by)])),
        3 => integer("Take"),
        2 => integer("Limit"),
        1 => integer("Boast"),
        2 => (-6_i64..5).prop_map(|to| Act::Ask("Pledge", vec![Value::Integer(to)])),
        2 => (0_i64..3).prop_map(|by| Act::Ask("Join", vec![Value::Integer(by)])),
        2 => (0_i64..3).prop_map(|by| Act::Ask("Leave", vec![Value::Integer(by)])),
        1 => Just(Act::Ask("Freeze", vec![])),
        1 => Just(Act::Ask("Thaw", vec![])),
        2 => text("Name"),
        1 => text("Keep"),
        2 => Just(Act::Ask("Double", vec![])),
        2 => prop::sample::select(vec!["50%", "200%"]).prop_map(|rate| {
            Act::Ask("Thirds", vec![Value::parse(&Type::Percentage, rate).expect("a rate")])
        }),
        2 => Just(Act::Ask("Turn", vec![])),
        1 => (2_i64..5).prop_map(|most| Act::Ask("Judge", vec![Value::Integer(most)])),
        1 => Just(Act::Ask("Rest", vec![])),
        1 => Just(Act::Ask("Copy", vec![])),
        1 => Just(Act::Ask("Clear", vec![])),
        2 => (3_i64..7).prop_map(|least| Act::Ask("Need", vec![Value::Integer(least)])),
        2 => prop::sample::select(vec![0, 10]).prop_map(|to| Act::Ask("Side", vec![Value::Integer(to)])),
        2 => (1_i64..4).prop_map(|by| Act::Ask("Lower", vec![Value::Integer(by)])),
        1 => integer("Note"),
        1 => integer("Read"),
        1 => Just(Act::Ask("Pause", vec![])),
        1 => Just(Act::Ask("Resume", vec![])),
        2 => price.clone().prop_map(|price| Act::Ask("Price", vec![money(price)])),
        2 => price.prop_map(|price| Act::Ask("Discount", vec![money(price)])),
        8 => (any::<usize>(), any::<bool>()).prop_map(|(which, commits)| Act::Decide(which, commits)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("ENACT_CASES").map_or(600, |n| n.parse().expect("a number")), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_fields_tell_is_what_all_outcomes_say(psac in any::<bool>(), acts in prop::collection::vec(act(), 1..25)) {
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        play(strategy, opened(&contract()), acts)?;
    }

    #[test]
    fn below_an_invariant_nothing_is_told_but_what_all_outcomes_say(
        psac in any::<bool>(),
        limit in -9_i64..0,
        pledge in -6_i64..1,
        acts in prop::collection::vec(act(), 1..25),
    ) {
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        play(strategy, below(limit, pledge), acts)?;
    }
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

fn describe(entry: &InProgress<EventCall>) -> String {
    let committed = if entry.committed { ", committed" } else { "" };
    let line = if entry.answer.in_line { ", in line" } else { "" };
    let calls: Vec<_> =
        entry.branch.work.events().map(|event| format!("{} {:?}", event.event(), event.arguments())).collect();
    format!("{}{committed}{line}", calls.join(", "))
}

/// Plays `acts`, from `base` on, and compares each verdict with what all outcomes say.
fn play(strategy: Strategy, base: Instance, acts: Vec<Act>) -> Result<(), TestCaseError> {
    let model = contract();
    let plain = Arc::new(Plain(Arc::clone(&model)));
    let mut account = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, strategy, limits(16));
    let mut open = Vec::new();
    for (tx, act) in (1..).zip(acts) {
        match act {
            Act::Ask(name, arguments) => {
                let event = event(&model, name, &arguments);
                let sole = strategy == Strategy::Serializable && tx % 2 == 0;
                let asked = request(tx, event.clone(), sole);
                let expected = match strategy {
                    Strategy::Serializable => {
                        let entry = |entry: InProgress<EventCall>| Entry {
                            event: entry.branch.work.events().next().expect("each is an event").clone(),
                            is_committed: entry.committed,
                            in_line: entry.answer.in_line,
                        };
                        let entries = account.in_progress().map(entry).collect();
                        Reference { model: &model, base: account.base(), entries }.told(&event, sole)
                    }
                    _ => exact(&plain, &account, strategy, asked.clone()),
                };
                let before: Vec<_> = account.in_progress().map(|entry| describe(&entry)).collect();
                let found = told(&account.request(asked));
                prop_assert!(
                    found == expected || found == "delayed",
                    "{} {arguments:?}: {found}, not {expected}, in {:?} behind {before:?}",
                    if sole { format!("{name} alone") } else { name.to_owned() },
                    account.base(),
                );
                if found == "admitted" {
                    open.push(TxId::from_u128(tx));
                }
            }
            Act::Decide(which, commits) if !open.is_empty() => {
                let decision = if commits { Decision::Commit } else { Decision::Abort };
                let decided = open.remove(which % open.len());
                account.decide(decided, decision);
            }
            Act::Decide(..) => {}
        }
    }
    // An effect that was promised and cannot be applied would panic.
    open.into_iter().for_each(|tx| drop(account.decide(tx, Decision::Commit)));
    prop_assert_eq!(account.in_progress().count(), 0);
    Ok(())
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
        let limits = Limits { overtakes_max: 2, ..limits(16) };
        let mut account = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, strategy, limits);
        for (tx, act) in (1..).zip(acts) {
            if let Act::Ask(name, arguments) = act {
                account.request(Request { ordered: true, ..request(tx, event(&model, name, &arguments), false) });
            }
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
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits(16));
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
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits(16));
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
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits(16));
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
    let mut goal = Admission::new(Arc::clone(&model), goal(), base, Slot::FIRST, Strategy::Serializable, limits(16));
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

/// What every subset of what may still abort says to a request to a lease, and every order that is still open.
struct Clocked<'a> {
    model: &'a Rebel,
    key: EntityKey,
    base: &'a Instance,
    /// Each with whether it is committed, and whether it is in line.
    entries: Vec<(Timed, bool, bool)>,
}

impl Clocked<'_> {
    fn applied(&self, state: &Instance, asked: &Timed) -> Option<Instance> {
        let next = self.model.next(&self.key, state, &asked.event, asked.at).ok()?;
        self.model.broken(&self.key, state, &next, asked.at).is_empty().then_some(next)
    }

    /// What is due comes first.
    fn next(&self, state: &Instance, asked: &Timed) -> Option<Instance> {
        let due = self.model.due(&self.key, state);
        if due.is_some_and(|due| due.precedes(asked.at, asked.by_timer)) { None } else { self.applied(state, asked) }
    }

    fn states(&self, is_sure: impl Fn(usize) -> bool, is_left_out: impl Fn(usize) -> bool) -> HashSet<Instance> {
        let entries = self.entries.iter().enumerate().filter(|(index, _)| !is_left_out(*index));
        entries.fold(HashSet::from([self.base.clone()]), |states, (index, (asked, ..))| {
            let mut next: HashSet<Instance> = states.iter().filter_map(|state| self.applied(state, asked)).collect();
            if !is_sure(index) {
                next.extend(states);
            }
            next
        })
    }

    fn told(&self, asked: &Timed, has_place: bool) -> &'static str {
        let ends = self.states(|index| self.entries[index].1, |_| false);
        let after: Vec<_> = ends.iter().map(|state| self.next(state, asked)).collect();
        let states: BTreeSet<_> = after.iter().flatten().map(|next| next.state().clone()).collect();
        match after.iter().flatten().count() {
            0 => "rejected",
            accepted if accepted < after.len() || states.len() > 1 => "delayed",
            _ if has_place || self.is_free(asked) => "admitted",
            _ => "delayed",
        }
    }

    /// Whether `asked` may go before everything that may still come before or behind it.
    fn is_free(&self, asked: &Timed) -> bool {
        let is_past = |index: usize| self.entries[index].1 && !self.entries[index].2;
        let commutes = |index: usize| {
            let is_behind = |other: usize| other > index && self.entries[other].2;
            let is_before = |other: usize| self.entries[index].2 && other < index && self.entries[other].1;
            let others =
                self.states(|other| is_past(other) || is_before(other), |other| other == index || is_behind(other));
            others.iter().all(|state| {
                let other = &self.entries[index].0;
                let (Some(one), Some(two)) = (self.next(state, asked), self.next(state, other)) else { return false };
                let (both, reverse) = (self.next(&one, other), self.next(&two, asked));
                let keeps = |a: &Instance, b: &Option<Instance>| b.as_ref().is_some_and(|b| a.state() == b.state());
                both.is_some() && both == reverse && keeps(&two, &both) && keeps(&one, &reverse)
            })
        };
        self.states(is_past, |_| false).iter().all(|state| self.next(state, asked).is_some())
            && (0..self.entries.len()).filter(|&index| !is_past(index)).all(commutes)
    }
}

#[derive(Clone, Debug)]
enum TimedAct {
    Ask(&'static str, Option<Value>, i64),
    /// The event that is due next, if nothing else happens.
    Fire,
    Decide(usize, bool),
}

fn timed_act() -> impl Generator<Value = TimedAct> {
    let at = || 0_i64..9;
    let with = |name: &'static str, numbers: std::ops::Range<i64>| {
        (numbers, at()).prop_map(move |(n, at)| TimedAct::Ask(name, Some(Value::Integer(n)), at))
    };
    let by_time = |name: &'static str| {
        (4_i64..10, at()).prop_map(move |(time, at)| {
            TimedAct::Ask(name, Some(Value::Timestamp(enact_rebel::Timestamp::from_millis(time))), at)
        })
    };
    let plain = |name: &'static str| at().prop_map(move |at| TimedAct::Ask(name, None, at));
    prop_oneof![
        4 => with("Use", -1..3),
        1 => with("Most", 3..6),
        3 => with("Tag", 0..3),
        3 => with("Untag", 0..3),
        2 => (prop::sample::select(vec!["", "a"]), at())
            .prop_map(|(text, at)| TimedAct::Ask("Name", Some(Value::String(text.into())), at)),
        1 => plain("Double"),
        2 => by_time("Extend"),
        2 => by_time("Plan"),
        1 => by_time("Rent"),
        1 => plain("Tick"),
        1 => plain("Pause"),
        1 => plain("End"),
        1 => plain("Park"),
        1 => plain("Unpark"),
        1 => plain("Resume"),
        2 => Just(TimedAct::Fire),
        7 => (any::<usize>(), any::<bool>()).prop_map(|(which, commits)| TimedAct::Decide(which, commits)),
    ]
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

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("ENACT_CASES").map_or(600, |n| n.parse().expect("a number")), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn beside_timers_fields_tell_what_all_outcomes_say(
        psac in any::<bool>(),
        acts in prop::collection::vec(timed_act(), 1..25),
    ) {
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        let model = timed_contract();
        let base = rented(&model);
        let mut entity = Admission::new(Arc::clone(&model), lease(), base, Slot::FIRST, strategy, limits(16));
        let mut open = Vec::new();
        for (tx, act) in (1..).zip(acts) {
            let asked = match act {
                TimedAct::Ask(name, argument, at) => {
                    Timed { event: call(&model, name, argument), at: Timestamp(at), by_timer: false }
                }
                TimedAct::Fire => match model.due(&lease(), entity.base()) {
                    Some(due) => Timed { event: due.event, at: due.time, by_timer: true },
                    None => continue,
                },
                TimedAct::Decide(which, commits) => {
                    if !open.is_empty() {
                        let decision = if commits { Decision::Commit } else { Decision::Abort };
                        entity.decide(open.remove(which % open.len()), decision);
                    }
                    continue;
                }
            };
            let sole = strategy == Strategy::Serializable && tx % 2 == 0;
            let entry = |entry: InProgress<EventCall>| {
                let event = entry.branch.work.events().next().expect("each is an event").clone();
                let asked = Timed { event, at: entry.branch.at, by_timer: entry.branch.work.timed };
                (asked, entry.committed, entry.answer.in_line)
            };
            let entries = entity.in_progress().map(entry).collect();
            let reference = Clocked { model: &model, key: lease(), base: entity.base(), entries };
            let expected = reference.told(&asked, psac || sole);
            let before = format!("{:?} behind {:?}", reference.base, reference.entries);
            let found = told(&entity.request(timed_request(tx, &asked, sole)));
            prop_assert!(found == expected || found == "delayed", "{asked:?}, alone: {sole}: {found}, not {expected}, in {before}");
            if found == "admitted" {
                open.push(TxId::from_u128(tx));
            }
        }
        // An effect that was promised and cannot be applied would panic.
        open.into_iter().for_each(|tx| drop(entity.decide(tx, Decision::Commit)));
        prop_assert_eq!(entity.in_progress().count(), 0);
    }
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
