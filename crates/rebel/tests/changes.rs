//! Which places a call changes, and in which manner.

mod support;

use std::sync::{Arc, LazyLock};

use enact_rebel::{Change, Class, Manner, Place, Value};
use support::{NOW, call, class, key};

const GOAL: &str = "
    class Goal
      saved: Money = EUR 0.00
      limit: Money = EUR 0.00
      until: Date = 2026-01-01
      savers: Set[Integer] = {}
      score: Decimal(2) = 0.00
      initial planned
        on Start(): open
      open
        on Save(amount: Money, by: Integer)
          post: this.saved += amount, this.savers += by
        on Return(amount: Money)
          post: this.saved = EUR 1.00 + saved - amount
        on Book(amount: Money)
          let: after = saved - amount
          pre: after >= 0
          post: this.saved = after
        on Rate(points: Decimal(2))
          post: this.score += points
        on Earn(rate: Percentage)
          post: this.saved += saved * rate
        on Limit(to: Money)
          post: this.limit = to
        on Match()
          post: this.limit = saved
        on Delay()
          post: this.until = today
        on Prolong()
          post: this.until = until + (today - until)
        on Forget()
          post: this.savers = {}
        on Swap(by: Integer)
          post: this.savers = savers + by
        on Close(): closed
      final closed";

fn goal() -> &'static Class {
    static CLASS: LazyLock<Arc<Class>> = LazyLock::new(|| class(GOAL, "Goal"));
    &CLASS
}

fn changes(event: &str, arguments: &[&str]) -> Vec<Change> {
    goal().changes(&key(goal()), &call(goal(), event, arguments), NOW).expect("it fits")
}

fn place(field: &str, element: Option<i64>) -> Place {
    Place { field: field.into(), element: element.map(Value::Integer) }
}

#[test]
fn every_effect_has_its_place_and_its_manner() {
    let saving = changes("Save", &["EUR 1.00", "7"]);
    assert_eq!(saving[0], Change { place: place("saved", None), manner: Manner::Adds });
    assert_eq!(saving[1].place, place("savers", Some(7)));
    for (event, arguments, field) in [
        ("Earn", ["1%"].as_slice(), "saved"),
        ("Limit", &["EUR 1.00"], "limit"),
        ("Delay", &[], "until"),
        ("Prolong", &[], "until"),
        ("Forget", &[], "savers"),
        ("Close", &[], ""),
    ] {
        let found = changes(event, arguments);
        assert_eq!(found.len(), 1, "{event}");
        assert_eq!(found[0].place, place(field, None), "{event}");
        assert!(matches!(found[0].manner, Manner::Makes(_)), "{event}");
    }
    // It depends on another field.
    assert_eq!(changes("Match", &[]), [Change { place: place("limit", None), manner: Manner::Other }]);
    assert_eq!(changes("Swap", &["7"]), [saving[1].clone()]);
}

#[test]
fn a_sum_adds_however_it_is_written() {
    for (event, argument, field) in
        [("Return", "EUR 1.00", "saved"), ("Book", "EUR 1.00", "saved"), ("Rate", "0.50", "score")]
    {
        assert_eq!(
            changes(event, &[argument]),
            [Change { place: place(field, None), manner: Manner::Adds }],
            "{event}"
        );
    }
}

#[test]
fn equal_changes_are_of_one_manner_and_others_are_not() {
    assert_eq!(changes("Earn", &["1%"]), changes("Earn", &["1%"]));
    for (one, other) in [
        (changes("Earn", &["1%"]), changes("Earn", &["2%"])),
        (changes("Earn", &["1%"]), changes("Save", &["EUR 1.00", "7"])),
        (changes("Limit", &["EUR 1.00"]), changes("Limit", &["USD 1.00"])),
        (changes("Delay", &[]), changes("Prolong", &[])),
    ] {
        assert_eq!(one[0].place, other[0].place);
        assert_ne!(one[0].manner, other[0].manner, "{one:?} {other:?}");
    }
    assert_ne!(changes("Save", &["EUR 1.00", "7"])[1].place, changes("Save", &["EUR 1.00", "8"])[1].place);
}
