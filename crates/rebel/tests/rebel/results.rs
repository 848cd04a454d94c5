//! What events return.

use std::collections::BTreeMap;

use enact_rebel::{Accepted, Instance, Reference, Refused, Spec, Type, Value, check};

use crate::support::{NOW, call, spec};

const TILL: &str = "
    class Till
      sum: Integer = 0
      sales: Integer = 0
      price: Tariff
      initial shut
        on Open(start: Integer, at: Tariff) -> Integer: open
          post: this.sum = start, this.price = at
          return: this.sum + sum
      open
        on Sell(n: Integer) -> Integer
          let: gain = n * 3
          pre: \"nothing\": n > 0
          post: this.sum += gain, this.sales += 1
          sync: price.Use()
          return: this.sum - sum + this.sales * 100 + gain
        on Ask(n: Integer) -> Integer
          return: n * price.rate
        on Take(n: Integer) -> String
          pre: n >= 0
          post: this.sum -= n
          variant rest
            pre: sum - n > 0
            return: \"rest\"
          variant all: shut_
            let: word = \"empty\"
            return: word
        on Count(n: Integer) -> Integer
          post: this.sales = n
          variant up
            pre: n > sales
          variant down
          return: this.sales - sales
        on Overflow() -> Integer
          return: sum + 9223372036854775807
        on Call()
          sync: this.Overflow()
        on Twice(n: Integer) -> Integer
          return: n * 2
      final shut_
    class Tariff
      rate: Integer = 7
      uses: Integer = 0
      initial none
        on Use() -> Integer: used
          post: this.uses += 1
          return: this.uses
      used
        on Use() -> Integer
          post: this.uses += 1
          return: this.uses
";

struct Case {
    spec: Spec,
    world: BTreeMap<Reference, Instance>,
}

impl Case {
    fn new() -> Self {
        let mut case = Self { spec: spec(TILL), world: BTreeMap::new() };
        assert_eq!(case.happens("Open", &["5", "1"]), Some(Value::Integer(5)));
        case
    }

    fn step(&self, event: &str, arguments: &[&str]) -> Result<Accepted, Refused> {
        let class = self.spec.class("Till").unwrap();
        let target = class.reference(class.key("1").unwrap());
        self.spec.step(&self.world, &target, &call(class, event, arguments), NOW)
    }

    fn happens(&mut self, event: &str, arguments: &[&str]) -> Option<Value> {
        let step = self.step(event, arguments).unwrap_or_else(|refused| panic!("{refused}"));
        self.world.extend(step.after);
        step.result
    }
}

#[test]
fn a_result_reads_fields_before_and_after_the_effects_and_what_is_named() {
    let mut case = Case::new();
    assert_eq!(case.happens("Sell", &["2"]), Some(Value::Integer(6 + 100 + 6)));
    assert_eq!(case.happens("Sell", &["1"]), Some(Value::Integer(3 + 200 + 3)));
    assert_eq!(case.happens("Count", &["7"]), Some(Value::Integer(5)));
    assert_eq!(case.happens("Count", &["4"]), Some(Value::Integer(-3)));
}

#[test]
fn each_variant_returns_its_own_value_or_that_of_the_event() {
    let mut case = Case::new();
    assert_eq!(case.happens("Take", &["3"]), Some(Value::String("rest".into())));
    assert_eq!(case.happens("Take", &["2"]), Some(Value::String("empty".into())));
}

#[test]
fn a_result_asks_others_what_it_needs() {
    let mut case = Case::new();
    assert_eq!(case.happens("Ask", &["3"]), Some(Value::Integer(21)));
}

#[test]
fn a_step_returns_what_its_first_event_returns() {
    let case = Case::new();
    let step = case.step("Sell", &["1"]).unwrap();
    assert_eq!(step.result, Some(Value::Integer(3 + 100 + 3)), "and not that of the event it calls");
    let class = case.spec.class("Tariff").unwrap();
    let target = class.reference(class.key("2").unwrap());
    let step = case.spec.step(&case.world, &target, &call(class, "Use", &[]), NOW).unwrap();
    assert_eq!(step.result, Some(Value::Integer(1)));
}

#[test]
fn a_result_without_a_value_refuses_the_step_wherever_its_event_happens() {
    let case = Case::new();
    let refused = case.step("Overflow", &[]).unwrap_err().to_string();
    assert_eq!(refused, "Till 1.Overflow: the result is out of range, in `sum + 9223372036854775807`, where sum = 5");
    assert!(case.step("Call", &[]).unwrap_err().to_string().starts_with("Till 1.Call: Till 1.Overflow: "));
}

#[test]
fn a_program_can_tell_the_type_of_a_result_and_whether_it_depends_on_the_instance() {
    let spec = spec(TILL);
    let class = spec.class("Till").unwrap();
    let event = |name: &str| class.event(name).unwrap();
    assert_eq!((event("Take").result(), event("Call").result()), (Some(&Type::String), None));
    let fixed: Vec<&str> = ["Open", "Sell", "Ask", "Take", "Twice", "Call", "Overflow"]
        .into_iter()
        .filter(|name| event(name).has_fixed_result())
        .collect();
    assert_eq!(fixed, ["Twice"]);
}

#[test]
fn additions_stay_linear_unless_what_they_return_may_lack_a_value() {
    let spec = spec(
        "
        class Sum
          n: Integer = 0
          initial none
            on Open(): open
          open
            on Plain(by: Integer) -> Integer
              post: this.n += by
              return: this.n
            on Fixed(by: Integer) -> Integer
              post: this.n += by
              return: by * 2
            on Computed(by: Integer) -> Integer
              post: this.n += by
              return: this.n + by
    ",
    );
    let class = spec.class("Sum").unwrap();
    let key = class.key("1").unwrap();
    let is_linear = |event: &str, by: &str| class.linear(&key, &[call(class, event, &[by])], NOW).is_some();
    assert!(is_linear("Plain", "1") && is_linear("Fixed", "1") && !is_linear("Computed", "1"));
    assert!(!is_linear("Fixed", "9223372036854775807"), "it would overflow");
}

#[test]
fn return_is_a_name_elsewhere() {
    spec(
        "
        class A
          returns: Integer = 0
          initial none
            on Make(return: Integer): made
              post: this.returns = return
          made
            on Look(return: Integer) -> Integer
              return: return + returns
    ",
    );
    let behind =
        "class A\n  initial none\n    on Make(): made\n  made\n    on E() -> Integer\n      return: 1\n      pre: true";
    let report = check(vec![enact_rebel::Source::new("a.rebel", behind)]).unwrap_err();
    assert!(report.to_string().contains("this part stands in the wrong place"), "{report}");
}
