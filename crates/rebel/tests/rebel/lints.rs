//! What is allowed and can hardly be meant is said, and nothing is said of what can be meant.

use crate::support::{self, spec};

/// The warnings, each as its code and the text it points at.
fn warnings(source: &str) -> Vec<(&'static str, String)> {
    let spec = spec(source);
    let said = spec.warnings().diagnostics().iter();
    said.map(|diagnostic| {
        let span = diagnostic.labels[0].span;
        (diagnostic.code.number(), source[span.start..span.end].to_owned())
    })
    .collect()
}

fn check(source: &str, expected: &[(&str, &str)]) {
    let found = warnings(source);
    let found: Vec<(&str, &str)> = found.iter().map(|(code, text)| (*code, text.as_str())).collect();
    assert_eq!(found, expected, "{source}");
}

/// A class with one event that changes `n`, with these guards.
fn guarded(guards: &str) -> String {
    format!(
        "class A
           n: Integer = 0
           initial i
             on Make(): s
           s
             on Go(k: Integer, m: Money)
               pre: {guards}
               post: this.n += k, this.n_ == m
        "
    )
    .replace(", this.n_ == m", "")
    .replace("m: Money", "_m: Money")
}

#[test]
fn w046_a_timer_whose_event_may_be_refused_is_said() {
    let source = |parts: &str| {
        format!(
            "class A
               n: Integer = 0
               until: Timestamp
               invariant n >= 0
               initial i
                 on Make(t: Timestamp): s
                   post: this.until = t
               s
                 on Add(by: Integer)
                   post: this.n += by
                 on End(): e
                   {parts}
                 after until: End
               final e"
        )
    };
    check(&source("post: this.n = 0"), &[]);
    check(&source("pre: n >= 0"), &[]);
    check(&source("pre: n > 0"), &[("W046", "until: End")]);
    check(
        &source("sync: not this.Add(1)").replace("this.", "A[\"b\"].").replace("post: A[\"b\"].", "post: this."),
        &[("W046", "until: End")],
    );
    let variants = |second: &str| {
        source("X").replace("End(): e\n                   X", &format!("End()\n                   variant a: e\n                     pre: n > 5\n                   variant b: e\n                     pre: {second}"))
    };
    check(&variants("n >= 0"), &[]);
    check(&variants("n < 5"), &[("W046", "until: End")]);
}

#[test]
fn w051_a_guard_that_always_or_never_holds_is_said() {
    check(&guarded("true"), &[("W051", "true")]);
    check(&guarded("1 < 2, k > 0"), &[("W051", "1 < 2")]);
    check(&guarded("k > 0, 2 < 1"), &[("W051", "2 < 1")]);
    check(&guarded("k > 0 or 2 > 1"), &[("W051", "k > 0 or 2 > 1")]);
    check(&guarded("EUR 1.00 < USD 2.00"), &[("W051", "EUR 1.00 < USD 2.00")]);
    check(&guarded("k > 0, n >= 0, n + k >= 0"), &[]);
    check(&guarded("_m >= EUR 0.00 or _m < EUR 0.00"), &[]);
}

#[test]
fn w052_an_event_whose_guards_contradict_each_other_is_said_once() {
    check(&guarded("k > 5, k < 3"), &[("W052", "k > 5")]);
    check(&guarded("k > 5, k < 7"), &[]);
}

#[test]
fn w001_a_state_that_only_dead_events_lead_to_is_said() {
    let source = |guard: &str| {
        format!(
            "class A
               initial i
                 on Make(): s
               s
                 on Go(k: Integer): far
                   pre: k > 5, k < {guard}
               far
                 on Back(): s
            "
        )
    };
    check(&source("3"), &[("W052", "k > 5"), ("W001", "far")]);
    check(&source("7"), &[]);
}

#[test]
fn w053_an_invariant_that_creation_always_breaks_is_said() {
    let source = |value: &str| {
        format!(
            "class A
               n: Integer
               invariant n > 0
               initial i
                 on Make(k: Integer): s
                   pre: k < 10
                   post: this.n == {value}
               s
            "
        )
    };
    check(&source("k - 10"), &[("W053", "n > 0")]);
    check(&source("k - 9"), &[("W053", "n > 0")]);
    check(&source("k - 8"), &[]);
}

/// A class whose event has these calls.
fn calling(calls: &[&str]) -> String {
    format!(
        "class Door
           initial i
             on Make(): open
           open
             on Knock(times: Integer)
               pre: times > 0
             on Shut(): shut
             on Burn(): ashes
           shut
             on Open(): open
             on Burn(): ashes
           final ashes
         class Hand
           initial i
             on Use(door: Door, other: Door, n: Integer): s
               sync:
                 other.Knock(n)
                 {}
           s
        ",
        calls.join("\n                 ")
    )
}

#[test]
fn w061_an_event_that_is_called_and_demanded_to_be_impossible_is_said() {
    check(&calling(&["not door.Knock(n)", "door.Knock(n)"]), &[("W061", "not door.Knock(n)")]);
    check(&calling(&["not door.Knock(n)", "door.Knock(n + 1)"]), &[]);
    check(&calling(&["not other.Shut()", "door.Shut()"]), &[]);
    check(&calling(&["not door.Shut()", "if n > 1: door.Shut()"]), &[]);
}

#[test]
fn w063_calls_on_one_instance_that_are_never_both_accepted_are_said() {
    check(&calling(&["door.Shut()", "door.Knock(n)"]), &[("W063", "door.Knock(n)")]);
    check(&calling(&["door.Shut()", "other.Knock(n)", "door.Knock(n)"]), &[]);
    check(&calling(&["door.Burn()", "other.Knock(n)", "door.Open()"]), &[("W063", "door.Open()")]);
    check(&calling(&["door.Shut()", "door.Open()", "door.Knock(n)"]), &[]);
    check(&calling(&["door.Knock(n)", "door.Knock(n)"]), &[]);
    check(&calling(&["door.Make()", "door.Make()"]), &[("W063", "door.Make()")]);
    check(&calling(&["if n > 1: door.Shut()", "if n > 1: door.Shut()"]), &[("W063", "door.Shut()")]);
    check(&calling(&["if n > 1: door.Shut()", "if n < 1: door.Shut()"]), &[]);
}

#[test]
fn w080_a_class_whose_analysis_is_given_up_is_named_and_no_other_is_touched() {
    // Each function calls the one before it twice.
    let mut doubling = "fn f0(n: Integer): Integer = n + 1\n".to_owned();
    for n in 1..26 {
        doubling += &format!("fn f{n}(n: Integer): Integer = f{0}(n) + f{0}(n)\n", n - 1);
    }
    let class = |name: &str, added: &str| {
        format!(
            "class {name}\n  n: Integer = 0\n  initial i\n    on Make(): s\n  s\n    on Add(k: Integer)\n      \
             pre: k > 0\n      post: this.n += {added}\n"
        )
    };
    let (heavy, light) = (class("Heavy", "f25(k)"), class("Light", "k"));
    for source in [format!("{doubling}{heavy}{light}"), format!("{doubling}{light}{heavy}")] {
        check(&source, &[("W080", "Heavy")]);
        let light = support::class(&source, "Light");
        assert_eq!(light.relation("Add", "Add"), Some(enact_rebel::Relation::Invariant));
    }
}
