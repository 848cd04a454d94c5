//! A read of all outcomes: what it tells of each field is what the outcomes have.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use enact_entities::{
    Admission, Attempt, Branch, Decision, EntityKey, Limits, Millis, Model, Range, Rebel, Request, Slot, Strategy,
    Timestamp, TxId, Values, Verdict, Work,
};
use enact_rebel::{Instance, Source, Type, Value, check};
use proptest::prelude::{Just, ProptestConfig, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as Generator;
use proptest::test_runner::TestCaseError;

const CONTRACT: &str = "
enum Colour { red, green, blue }

class Shelf
  tags: Set[String] = {\"a\"}
  marks: Set[String?] = {}
  label: String = \"\"
  colour: Colour = Colour.red
  full: Boolean = false
  note: String? = none
  log: List[Integer] = []
  count: Integer = 0
  price: Money = EUR 1.00
  initial new
    on Put(): used
  used
    on Add(tag: String)
      post: this.tags += tag
    on Drop(tag: String)
      post: this.tags -= tag
    on Mark(with: String?)
      post: this.marks += with
    on Seek(mark: String?)
      pre: mark in marks
      post: this.count += 1
    on Clear()
      post: this.tags = {}
    on Label(text: String)
      post: this.label = text
    on Paint(with: Colour)
      post: this.colour = with
    on Fill()
      pre: not full
      post: this.full = true
    on Note(text: String?)
      post: this.note = text
    on Log(number: Integer)
      post: this.log += number
    on Count(by: Integer)
      post: this.count += by
    on Price(to: Money)
      post: this.price = to
    on Close(): closed
  closed
    on Reopen(): used
";

fn shelf() -> EntityKey {
    EntityKey::new("Shelf", "s").expect("a key")
}

fn contract() -> Arc<Rebel> {
    static MODEL: LazyLock<Arc<Rebel>> = LazyLock::new(|| {
        let spec = check(vec![Source::new("shelf.rebel", CONTRACT)]);
        Arc::new(Rebel::new(spec.unwrap_or_else(|report| panic!("{}", report.render(false))).into()))
    });
    Arc::clone(&MODEL)
}

/// A used shelf of which nothing is in progress.
fn used(strategy: Strategy, limits: Limits) -> Admission<Rebel> {
    let model = contract();
    let put = model.spec().class("Shelf").and_then(|class| class.event("Put")).expect("the event");
    let put = put.call([]).expect("it fits");
    let new = model.initial(&shelf()).expect("the class");
    let base = model.next(&shelf(), &new, &put, Timestamp(0)).expect("possible");
    Admission::new(model, shelf(), base, Slot::FIRST, strategy, limits)
}

/// Whether the event, with its one argument if it has one, is admitted as transaction `tx`.
fn admits(entity: &mut Admission<Rebel>, tx: u128, name: &str, argument: Option<Value>, sole: bool) -> bool {
    let model = contract();
    let event = model.spec().class("Shelf").and_then(|class| class.event(name)).expect("the event");
    let names = event.params().iter().map(|param| &**param.name());
    let event = event.call(names.zip(argument)).expect("it fits");
    let branch =
        Branch { tx: TxId::from_u128(tx), attempt: Attempt::FIRST, work: Work::event(event), at: Timestamp(0) };
    let request = Request { branch, deadline: Millis(1_000), ordered: false, sole, certain: false, calls_known: false };
    matches!(entity.request(request), Verdict::Admitted(..))
}

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn texts<const N: usize>(values: [&str; N]) -> BTreeSet<Value> {
    values.into_iter().map(text).collect()
}

fn values(range: &Range, field: &str) -> Values {
    range.fields.iter().find(|found| found.name == field).expect("it is told").values.clone()
}

/// The states that there may be: each open event happens or not, each committed one does.
fn outcomes(entity: &Admission<Rebel>) -> HashSet<Instance> {
    let model = contract();
    entity.in_progress().fold(HashSet::from([entity.base().clone()]), |states, entry| {
        let event = entry.branch.work.events().next().expect("each is an event");
        let after = |state| model.next(&shelf(), state, event, Timestamp(0)).expect("it was admitted");
        let mut next: HashSet<Instance> = states.iter().map(after).collect();
        if !entry.committed {
            next.extend(states);
        }
        next
    })
}

/// Fails unless `range` tells of `outcomes` what they have.
fn is_told(range: &Range, outcomes: &HashSet<Instance>) -> Result<(), TestCaseError> {
    let states: BTreeSet<&str> = outcomes.iter().map(|outcome| &**outcome.state()).collect();
    prop_assert_eq!(&range.states.iter().map(String::as_str).collect::<BTreeSet<_>>(), &states);
    prop_assert_eq!(range.fields.len(), 9);
    for field in &range.fields {
        let found: BTreeSet<&Value> =
            outcomes.iter().map(|outcome| outcome.fields().get(&field.name).expect("it has a value")).collect();
        let set = |value: &Value| match value {
            Value::Set(elements) => BTreeSet::clone(elements),
            other => panic!("{other} is no set"),
        };
        match &field.values {
            Values::Between { low, high } => {
                let ty = if field.name == "count" { Type::Integer } else { Type::Money };
                let bound = |text: &str| Value::parse(&ty, text).expect("a number");
                prop_assert!(found.iter().all(|value| bound(low) <= **value && **value <= bound(high)), "{:?}", field);
            }
            Values::Elements { certain, possible } => {
                let all: Vec<BTreeSet<Value>> = found.into_iter().map(set).collect();
                prop_assert!(all.iter().all(|set| set.is_superset(certain)), "{:?} of {:?}", field, all);
                if let Some(possible) = possible {
                    let known = |element: &&Value| all.iter().all(|set| set.contains(element));
                    let any: BTreeSet<&Value> = all.iter().flatten().collect();
                    let (every, some): (BTreeSet<&Value>, BTreeSet<&Value>) = any.into_iter().partition(known);
                    prop_assert_eq!(certain.iter().collect::<BTreeSet<_>>(), every);
                    prop_assert_eq!(possible.iter().collect::<BTreeSet<_>>(), some);
                }
            }
            Values::Among(Some(values)) => prop_assert_eq!(values.iter().collect::<BTreeSet<_>>(), found),
            Values::Among(None) => {}
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
enum Act {
    Ask(&'static str, Option<Value>),
    /// Which of the open ones, and whether it commits.
    Decide(usize, bool),
}

fn act() -> impl Generator<Value = Act> {
    let of = |name: &'static str, words: &[&'static str]| {
        prop::sample::select(words.to_vec()).prop_map(move |word| Act::Ask(name, Some(text(word))))
    };
    let optional = |name: &'static str| {
        prop::sample::select(vec![Value::None, text("none"), text("x")])
            .prop_map(move |value| Act::Ask(name, Some(value)))
    };
    let colour = prop::sample::select(vec!["red", "green", "blue"]).prop_map(|name| {
        let model = contract();
        let paint = model.spec().class("Shelf").and_then(|class| class.event("Paint")).expect("the event");
        Act::Ask("Paint", Some(Value::parse(paint.params()[0].ty(), name).expect("a colour")))
    });
    let price = prop::sample::select(vec!["EUR 1.00", "EUR 3.00", "USD 1.00"])
        .prop_map(|price| Act::Ask("Price", Some(Value::parse(&Type::Money, price).expect("an amount"))));
    let number = |name| (1_i64..4).prop_map(move |by| Act::Ask(name, Some(Value::Integer(by))));
    prop_oneof![
        4 => of("Add", &["a", "b", "c"]),
        4 => of("Drop", &["a", "b", "c"]),
        2 => optional("Mark"),
        2 => optional("Seek"),
        1 => Just(Act::Ask("Clear", None)),
        2 => of("Label", &["", "x", "y"]),
        2 => colour,
        1 => Just(Act::Ask("Fill", None)),
        1 => optional("Note"),
        1 => number("Log"),
        2 => number("Count"),
        2 => price,
        1 => Just(Act::Ask("Close", None)),
        1 => Just(Act::Ask("Reopen", None)),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(which, commits)| Act::Decide(which, commits)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_outcome_lies_in_the_range_and_what_is_told_of_single_fields_is_exact(
        psac in any::<bool>(),
        few in any::<bool>(),
        acts in prop::collection::vec(act(), 1..25),
    ) {
        let strategy = if psac { Strategy::Psac } else { Strategy::Serializable };
        let limits = Limits { open_max: 7, outcomes_max: if few { 4 } else { 256 }, ..Limits::default() };
        let mut entity = used(strategy, limits);
        let mut open = Vec::new();
        for (tx, act) in (1..).zip(acts) {
            match act {
                Act::Ask(name, argument) => {
                    let sole = strategy == Strategy::Serializable && tx % 2 == 0;
                    if admits(&mut entity, tx, name, argument, sole) {
                        open.push(TxId::from_u128(tx));
                    }
                }
                Act::Decide(which, commits) if !open.is_empty() => {
                    let decision = if commits { Decision::Commit } else { Decision::Abort };
                    entity.decide(open.remove(which % open.len()), decision);
                }
                Act::Decide(..) => {}
            }
            let outcomes = outcomes(&entity);
            let range = entity.range();
            prop_assert!(few || range.is_some(), "{} outcomes", outcomes.len());
            if let Some(range) = range {
                is_told(&range, &outcomes)?;
            }
        }
    }
}

/// More than outcomes can be looked at.
#[test]
fn elements_and_contents_are_told_however_many_are_open() {
    let mut shelf = used(Strategy::Serializable, Limits { open_max: 300, ..Limits::default() });
    for tx in 0..100 {
        assert!(admits(&mut shelf, 2 * tx, "Add", Some(text(&tx.to_string())), false));
        assert!(admits(&mut shelf, 2 * tx + 1, "Label", Some(text("x")), false));
    }
    shelf.decide(TxId::from_u128(0), Decision::Commit);
    assert!(admits(&mut shelf, 200, "Drop", Some(text("a")), false));
    let range = shelf.range().expect("the cells tell");
    let Values::Elements { certain, possible } = values(&range, "tags") else { panic!("{range:?}") };
    assert_eq!(certain, texts(["0"]), "the first is committed");
    let mut expected: BTreeSet<Value> = (1..100).map(|number: u128| text(&number.to_string())).collect();
    expected.insert(text("a"));
    assert_eq!(possible, Some(expected));
    assert_eq!(values(&range, "label"), Values::Among(Some(vec![text(""), text("x")])));
    assert_eq!(values(&range, "full"), Values::Among(Some(vec![Value::Boolean(false)])));
}

/// What the cells do not tell is told by the outcomes, and not at all if these are too many.
#[test]
fn what_is_not_told_may_be_anything() {
    for (outcomes_max, expected) in [(256, Some(BTreeSet::from([text("a"), text("b")]))), (2, None)] {
        let mut shelf = used(Strategy::Psac, Limits { outcomes_max, ..Limits::default() });
        assert!(admits(&mut shelf, 1, "Count", Some(Value::Integer(1)), false));
        assert!(admits(&mut shelf, 2, "Clear", None, false));
        assert!(admits(&mut shelf, 3, "Add", Some(text("b")), false));
        let range = shelf.range().expect("the cells tell of the rest");
        let elements = Values::Elements { certain: BTreeSet::new(), possible: expected };
        assert_eq!(values(&range, "tags"), elements, "{outcomes_max} outcomes");
        assert_eq!(values(&range, "count"), Values::Between { low: "0".into(), high: "1".into() });
    }
}

#[test]
fn money_that_may_be_in_two_currencies_is_told_by_its_values() {
    let mut shelf = used(Strategy::Psac, Limits::default());
    let dollar = Value::parse(&Type::Money, "USD 1.00").expect("an amount");
    let euro = Value::parse(&Type::Money, "EUR 1.00").expect("an amount");
    assert!(admits(&mut shelf, 1, "Price", Some(dollar.clone()), false));
    let range = shelf.range().expect("two outcomes");
    assert_eq!(values(&range, "price"), Values::Among(Some(vec![euro, dollar])));
}
