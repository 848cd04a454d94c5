//! What has no value refuses the step: when, where, with which values, and what is not evaluated.

use enact_rebel::{Fault, Violation};

use crate::support::{self, call, class, key, next, refusal, run};

const LIMITED: &str = r#"
    class Till
      float: Money = EUR 100.00
      initial unopened
        on Open(amount: Money): opened
          post: this.float == amount
      opened
        on Pay(amount: Money)
          pre: "a large amount": not (amount > EUR 1000.00)
        on Less(amount: Money)
          pre: amount < EUR 1000.00
        on LessOrEqual(amount: Money)
          pre: amount <= EUR 1000.00
        on More(amount: Money)
          pre: amount >= EUR 0.00
        on Other(amount: Money)
          pre: amount != EUR 1000.00
        on Same(amount: Money)
          pre: not (amount == EUR 1000.00)
        on Zero(amount: Money)
          pre: amount > 0
"#;

#[test]
fn an_ordered_comparison_across_currencies_is_a_fault_with_its_place_and_values() {
    let till = class(LIMITED, "Till");
    let opened = run(&till, &[("Open", &["EUR 1.00"])]);
    for event in ["Pay", "Less", "LessOrEqual", "More"] {
        assert!(next(&till, &opened, event, &["EUR 5.00"]).is_ok(), "{event}");
        let violations = next(&till, &opened, event, &["USD 5000.00"]).unwrap_err();
        let [Violation::Arithmetic { fault: Fault::CurrencyMismatch { left, right }, place, values }] = &violations[..]
        else {
            panic!("{violations:?}")
        };
        assert_eq!((left.code(), right.code()), ("USD", "EUR"));
        assert!(place.contains("amount"), "{place}");
        assert_eq!(values.len(), 1);
    }
    assert_eq!(
        refusal(&till, &opened, "Pay", &["USD 1.00"]),
        ["currency mismatch: USD and EUR, in `not (amount > EUR 1000.00)`, where amount = USD 1.00"]
    );
}

#[test]
fn equality_is_total_and_the_literal_zero_has_every_currency() {
    let till = class(LIMITED, "Till");
    let opened = run(&till, &[("Open", &["EUR 1.00"])]);
    for event in ["Other", "Same", "Zero"] {
        assert!(next(&till, &opened, event, &["USD 1000.00"]).is_ok(), "{event}");
    }
}

#[test]
fn what_is_not_evaluated_cannot_fault() {
    let source = r#"
        class A
          initial i
            on And(a: Money, b: Money): s
              pre: not (a.currency == b.currency and a > b)
            on Or(a: Money, b: Money): s
              pre: a.currency != b.currency or a > b
            on If(a: Money, b: Money): s
              pre: if a.currency == b.currency then a > b else true
            on Late(a: Money, b: Money): s
              pre: not (a > b and a.currency == b.currency)
          s
    "#;
    let a = class(source, "A");
    for event in ["And", "Or", "If"] {
        assert!(next(&a, &a.initial(), event, &["USD 1.00", "EUR 2.00"]).is_ok(), "{event}");
    }
    assert!(next(&a, &a.initial(), "Late", &["USD 1.00", "EUR 2.00"]).is_err(), "from left to right");
}

#[test]
fn an_invariant_that_faults_counts_as_broken() {
    let source = r#"
        class A
          low: Money = EUR 1.00
          high: Money = EUR 2.00
          invariant "in order": low <= high
          initial i
            on Make(): s
          s
            on Raise(to: Money)
              post: this.high == to
    "#;
    let a = class(source, "A");
    let made = run(&a, &[("Make", &[])]);
    assert!(next(&a, &made, "Raise", &["EUR 3.00"]).is_ok());
    let violations = next(&a, &made, "Raise", &["USD 3.00"]).unwrap_err();
    assert!(matches!(violations[..], [Violation::Arithmetic { .. }]), "{violations:?}");
    let usd = a.act(&key(&a), &made, &call(&a, "Raise", &["USD 3.00"]), support::NOW).unwrap();
    assert_eq!(a.broken_invariants(&key(&a), &usd, support::NOW), violations, "the event itself has no part in it");
}
