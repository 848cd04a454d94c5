//! Both interpreters stop at the same limits: with as much as a step may have, and with one more.

use std::collections::BTreeMap;

use enact_naive::{Call, World, compare, step};
use enact_rebel::{Instance, Reference, Source, Spec, Timestamp, Value, check};

const CONTRACT: &str = "
    class Item
      key: Integer @identity
      count: Integer = 0
      initial none
        on Touch(): used
      used
        on Touch()
          post: this.count += 1
        read on Above(n: Integer) -> Boolean
          return: count > n
    class Clock
      next: Timestamp
      initial none
        on Start(): running
          post: this.next = now
      running
        on Look()
        internal on Tick()
          post: this.next += 1 minute
        after next: Tick
    class Root
      count: Integer = 0
      initial none
        on Run(questions: Integer, events: Integer): done
          pre: count(n in 1 .. questions where Item[1].Above(n)) >= 0
          sync: for n in 1 .. events: Item[1].Touch()
        on Spread(asked: Integer, touched: Integer): done
          pre: count(n in 1 .. asked where Item[n] is initialized) >= 0
          sync: for n in asked + 1 .. asked + touched: Item[n].Touch()
      final done
";

struct Both {
    spec: Spec,
    real: BTreeMap<Reference, Instance>,
    naive: World,
}

impl Both {
    fn new() -> Self {
        let spec = check(vec![Source::new("limits.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{report}"));
        Self { spec, real: BTreeMap::new(), naive: World::new() }
    }

    /// Whether both make the step happen; they agree.
    fn step(&mut self, (class, key): (&str, &str), event: &str, arguments: &[(&str, i64)], seconds: i64) -> bool {
        let class = self.spec.class(class).unwrap();
        let of = class.reference(class.key(key).unwrap());
        let arguments = arguments.iter().map(|(name, number)| (*name, Value::Integer(*number)));
        let call = class.event(event).unwrap().call(arguments).unwrap();
        let at = Timestamp::from_millis(1_000 * seconds);
        let real = self.spec.step_in_time(&self.real, &of, &call, at);
        let naive = step(&self.spec, &self.naive, &of, &Call::from(&call), at);
        compare(&self.spec, &real, &naive).unwrap_or_else(|disagreement| panic!("{call}: {disagreement}"));
        self.real.extend(real.after);
        self.naive.extend(naive.after);
        naive.result.is_ok()
    }
}

#[test]
fn a_step_has_ten_thousand_events_and_questions() {
    for (questions, events, is_possible) in
        [(0, 9_999, true), (0, 10_000, false), (99, 9_900, true), (100, 9_900, false)]
    {
        let mut both = Both::new();
        assert!(both.step(("Item", "1"), "Touch", &[], 0));
        let arguments = [("questions", questions), ("events", events)];
        assert_eq!(both.step(("Root", "r"), "Run", &arguments, 0), is_possible, "{questions} and {events}");
    }
}

#[test]
fn a_step_touches_or_asks_a_thousand_instances() {
    for (asked, touched, is_possible) in
        [(0, 999, true), (0, 1_000, false), (999, 0, true), (1_000, 0, false), (500, 499, true), (500, 500, false)]
    {
        let arguments = [("asked", asked), ("touched", touched)];
        assert_eq!(Both::new().step(("Root", "r"), "Spread", &arguments, 0), is_possible, "{asked} and {touched}");
    }
}

#[test]
fn a_hundred_due_events_come_before_a_step() {
    for (minutes, is_possible) in [(99, true), (100, false)] {
        let mut both = Both::new();
        assert!(both.step(("Clock", "c"), "Start", &[], 0));
        assert_eq!(both.step(("Clock", "c"), "Look", &[], 60 * minutes), is_possible, "{minutes}");
        assert!(both.step(("Clock", "c"), "Look", &[], 60 * minutes), "what has happened stays");
    }
}
