//! `if`, `else` and `for` in `post:`: which effects happen, and what several of them make of one place.

use enact_rebel::{Code, EventCall, Fault, Instance, Reference, Source, Value, Violation, check};
use std::collections::BTreeMap;

use crate::support::{NOW, call, class, field, key, next, refusal, run, spec};

const DEPOT: &str = "
    record Line
      product: String
      quantity: Integer
    record Bay
      doors: Integer
      open: Boolean
    class Depot
      stock: Map[String, Integer] = {}
      bays: Map[String, Bay] = {}
      moved: Integer = 0
      seen: Set[String] = {}
      log: List[String] = []
      isRush: Boolean
      initial new
        on Start(first: Map[String, Integer], isUrgent: Boolean): running
          post:
            this.stock = first
            if isUrgent: this.isRush = true else: this.isRush = false
      running
        on Ship(lines: List[Line], isGift: Boolean)
          post:
            for line in lines:
              this.stock[line.product] -= line.quantity
              this.moved += line.quantity
              this.log += line.product
            if isGift: this.stock[\"card\"] -= 1
        on Count(found: Map[String, Integer])
          post:
            for product in found.keys:
              if product in stock:
                this.stock[product] = found[product]
              else:
                this.seen += product
                this.moved += stock.size
        on Swap(a: String, b: String, x: Integer, y: Integer)
          post: this.stock[a] = x, this.stock[b] = y
        on Adjust(a: String, b: String, x: Integer, y: Integer)
          post: this.stock[a] = x, this.stock[b] += y
        on Replace(a: String, b: String, x: Integer)
          post: this.stock[a] = x, this.stock -= b
        on Mark(a: String, b: String)
          post: this.seen += a, this.seen -= b
        on Both(by: Integer)
          post: this.moved += by, this.moved -= 1, this.moved += moved
        on Build(names: Set[String])
          post: for name in names: this.bays[name] = Bay(1, false)
        on Rebuild(a: String, b: String, x: Integer, y: Integer)
          post: this.bays[a].doors += x, this.bays[b].doors += y, this.bays[b].open = true
        on Divide(by: Integer)
          post:
            if 10 div by > 1:
              this.moved = 1
              this.log += \"some\"
        on Nest(a: Boolean, b: Boolean)
          post:
            if a:
              if b: this.moved = 1 else: this.moved = 2
            else:
              for n in 1 .. 3:
                if n != 2: this.moved += n
                this.log += \"n\"
            this.seen += \"nested\"
        on Aside(a: Boolean, b: Boolean)
          post:
            if a: for n in 1 .. 2: this.moved += n
            else: this.moved = 7
            if b: this.log += \"b\"";

fn depot(calls: &[(&str, &[&str])]) -> (std::sync::Arc<enact_rebel::Class>, Instance) {
    let class = class(DEPOT, "Depot");
    let start: [(&str, &[&str]); 1] = [("Start", &[r#"{"pen": 5, "ink": 3, "card": 1}"#, "true"])];
    let instance = run(&class, &[&start, calls].concat());
    (class, instance)
}

fn fault(of: &enact_rebel::Class, instance: &Instance, event: &str, arguments: &[&str]) -> Vec<Fault> {
    let refused = next(of, instance, event, arguments).unwrap_err();
    let fault = |violation| match violation {
        Violation::Arithmetic { fault, .. } => fault,
        other => panic!("{other:?}"),
    };
    refused.into_iter().map(fault).collect()
}

#[test]
fn only_the_effects_of_the_branch_that_is_taken_happen() {
    let (class, rushed) = depot(&[]);
    assert_eq!(field(&rushed, "isRush"), "true");
    assert_eq!(field(&run(&class, &[("Start", &["{}", "false"])]), "isRush"), "false");
    let fields = |a: &str, b: &str| {
        let after = next(&class, &rushed, "Nest", &[a, b]).unwrap();
        ["moved", "log", "seen"].map(|name| field(&after, name))
    };
    assert_eq!(fields("true", "true"), ["1", "[]", r#"{"nested"}"#]);
    assert_eq!(fields("true", "false"), ["2", "[]", r#"{"nested"}"#]);
    assert_eq!(fields("false", "true"), ["4", r#"["n", "n", "n"]"#, r#"{"nested"}"#]);
}

#[test]
fn an_else_belongs_to_the_if_at_its_own_indentation() {
    let (class, depot) = depot(&[]);
    let moved = |a: &str| field(&next(&class, &depot, "Aside", &[a, "true"]).unwrap(), "moved");
    assert_eq!([moved("true"), moved("false")], ["3", "7"]);
}

#[test]
fn a_loop_changes_an_entry_for_each_element_and_what_it_adds_to_one_entry_sums_up() {
    let (class, depot) = depot(&[]);
    let line = |product: &str, quantity: i64| format!("Line(product: \"{product}\", quantity: {quantity})");
    let lines = format!("[{}, {}, {}]", line("pen", 2), line("ink", 1), line("pen", 3));
    let shipped = next(&class, &depot, "Ship", &[&lines, "true"]).unwrap();
    assert_eq!(field(&shipped, "stock"), r#"{"card": 0, "ink": 2, "pen": 0}"#);
    assert_eq!((field(&shipped, "moved"), field(&shipped, "log")), ("6".into(), r#"["pen", "ink", "pen"]"#.into()));
    let unknown = format!("[{}]", line("cap", 1));
    assert_eq!(fault(&class, &depot, "Ship", &[&unknown, "false"]), [Fault::NoElement { key: "cap".into() }]);
    assert_eq!(next(&class, &depot, "Ship", &["[]", "false"]).unwrap(), depot, "there is nothing to ship");
}

#[test]
fn effects_and_conditions_read_the_values_before_the_event_on_every_path() {
    let (class, depot) = depot(&[]);
    let counted = next(&class, &depot, "Count", &[r#"{"cap": 1, "hat": 1, "pen": 9}"#]).unwrap();
    assert_eq!(field(&counted, "stock"), r#"{"card": 1, "ink": 3, "pen": 9}"#);
    assert_eq!((field(&counted, "seen"), field(&counted, "moved")), (r#"{"cap", "hat"}"#.into(), "6".into()));
}

#[test]
fn what_is_added_to_one_place_sums_up_and_reads_the_value_before() {
    let (class, depot) = depot(&[("Both", &["5"])]);
    assert_eq!(field(&depot, "moved"), "4");
    assert_eq!(field(&next(&class, &depot, "Both", &["5"]).unwrap(), "moved"), "12");
    let most = i64::MAX.to_string();
    assert_eq!(fault(&class, &depot, "Both", &[&most]), [Fault::Overflow], "in the order of the text");
}

#[test]
fn every_type_that_has_sums_sums_up_as_its_operators_do() {
    let rows = [
        ("Integer", "1", "+=", "2", "-=", "5"),
        ("Money", "EUR 1.00", "+=", "EUR 2.00", "-=", "EUR 0.50"),
        ("Money(EUR)", "EUR 1.00", "+=", "given", "+=", "EUR 0.50"),
        ("Percentage", "1%", "+=", "2%", "-=", "0.5%"),
        ("Decimal(4)", "1.5", "+=", "2", "-=", "0.25"),
        ("Date", "2026-01-31", "+=", "1 month", "-=", "2"),
        ("Timestamp", "Timestamp \"2026-01-31T10:00Z\"", "+=", "1 month", "-=", "15 minutes"),
        ("Duration", "1 hour", "+=", "2 minutes", "-=", "3 seconds"),
        ("Period", "1 month", "+=", "2 days", "-=", "1 day"),
        ("String", "\"a\"", "+=", "\"b\"", "+=", "\"c\""),
        ("Set[Integer]", "{1, 2}", "+=", "{3, 4}", "-=", "1"),
        ("Set[Set[Integer]]", "{{1}}", "+=", "{2}", "-=", "{1}"),
        ("List[Integer]", "[1]", "+=", "2", "+=", "[3, 4]"),
        ("List[Decimal(2)]", "[1.25]", "+=", "2", "+=", "[3.5]"),
    ];
    for (ty, begin, first, one, second, other) in rows {
        let by = |symbol: &str| symbol.trim_end_matches('=').to_owned();
        let whole = if ty.starts_with("List") && !one.starts_with('[') { format!("[{one}]") } else { one.to_owned() };
        let chained = format!("(a {} {whole}) {} {other}", by(first), by(second));
        let source = format!(
            "
class A
  a: {ty} = {begin}
  b: {ty} = {begin}
  m: Map[Integer, {ty}] = {{7: {begin}}}
  initial new
    on Make(): made
  made
    on E(isReal: Boolean, given: Money)
      pre: given > 0
      post:
        if isReal: this.a {first} {one}
        this.a {second} {other}
        this.b = {chained}
        this.m[7] {first} {one}
        for key in {{7, 8}}:
          if key == 7: this.m[key] {second} {other}
"
        );
        let class = class(&source, "A");
        let after = run(&class, &[("Make", &[]), ("E", &["true", "EUR 9.00"])]);
        let [a, b] = ["a", "b"].map(|name| field(&after, name));
        assert_eq!(a, b, "{ty}: {chained}");
        let Some(Value::Map(entries)) = after.fields().get("m") else { panic!("{after:?}") };
        assert_eq!(entries.values().map(ToString::to_string).collect::<Vec<_>>(), [b], "{ty}");
    }
}

#[test]
fn effects_that_turn_out_to_give_one_place_two_values_refuse_the_step() {
    let (class, depot) = depot(&[("Build", &[r#"{"a", "b"}"#])]);
    let after = |event: &str, arguments: &[&str]| next(&class, &depot, event, arguments).unwrap();
    let two = |key: &str| vec![Fault::TwoValues { key: key.into() }];
    assert_eq!(field(&after("Swap", &["pen", "ink", "1", "2"]), "stock"), r#"{"card": 1, "ink": 2, "pen": 1}"#);
    assert_eq!(field(&after("Swap", &["pen", "pen", "1", "1"]), "stock"), r#"{"card": 1, "ink": 3, "pen": 1}"#);
    assert_eq!(fault(&class, &depot, "Swap", &["pen", "pen", "1", "2"]), two("pen"));
    assert_eq!(
        field(&after("Adjust", &["cap", "ink", "1", "2"]), "stock"),
        r#"{"cap": 1, "card": 1, "ink": 5, "pen": 5}"#
    );
    assert_eq!(fault(&class, &depot, "Adjust", &["pen", "pen", "7", "2"]), two("pen"));
    assert_eq!(field(&after("Replace", &["pen", "ink", "1"]), "stock"), r#"{"card": 1, "pen": 1}"#);
    assert_eq!(fault(&class, &depot, "Replace", &["pen", "pen", "1"]), two("pen"));
    assert_eq!(field(&after("Mark", &["x", "y"]), "seen"), r#"{"x"}"#);
    assert_eq!(fault(&class, &depot, "Mark", &["x", "x"]), two("x"));
}

#[test]
fn effects_on_places_inside_of_one_entry_go_together() {
    let (class, depot) = depot(&[("Build", &[r#"{"a", "b"}"#])]);
    let rebuilt = next(&class, &depot, "Rebuild", &["a", "a", "2", "3"]).unwrap();
    let untouched = r#""b": Bay(doors: 1, open: false)"#;
    assert_eq!(field(&rebuilt, "bays"), format!("{{\"a\": Bay(doors: 6, open: true), {untouched}}}"));
    assert_eq!(
        fault(&class, &depot, "Rebuild", &["a", "c", "2", "3"]),
        [Fault::NoElement { key: "c".into() }],
        "what is not there cannot be changed in parts"
    );
}

#[test]
fn a_condition_without_a_value_refuses_every_effect_that_it_governs() {
    let (class, depot) = depot(&[]);
    assert_eq!(fault(&class, &depot, "Divide", &["0"]), [Fault::DivisionByZero, Fault::DivisionByZero]);
    assert_eq!(
        refusal(&class, &depot, "Divide", &["0"])[0],
        "this divides by zero, in `if 10 div by > 1: this.moved = 1`, where by = 0, moved = 0"
    );
}

#[test]
fn a_variant_adds_to_what_all_variants_add() {
    let source = "
        class Meter
          n: Integer = 0
          read_: Map[String, Integer] = {}
          initial new on Start(): on_
          on_
            on Add(k: Integer)
              post:
                this.n += k
                this.read_[\"all\"] = k
              variant much
                pre: k > 10
                post:
                  this.n += 100
                  this.read_[\"much\"] = k
              variant little
                post: if k > 5: this.n -= 1";
    let class = class(source, "Meter");
    let after = |k: &str| run(&class, &[("Start", &[]), ("Add", &[k])]);
    let n = |k: &str| field(&after(k), "n");
    assert_eq!([n("11"), n("6"), n("1")], ["111", "5", "1"]);
    assert_eq!(field(&after("11"), "read_"), r#"{"all": 11, "much": 11}"#);
}

#[test]
fn a_timer_follows_the_time_that_a_branch_has_set() {
    let source = "
        class Seat
          until: Timestamp? = none
          initial new on Hold(isLong: Boolean): held
            post: if isLong: this.until = now + 2 hours else: this.until = now + 1 minute
          held
            internal on Free(): free
            after until: Free
          final free";
    let class = class(source, "Seat");
    let due = |is_long: &str| {
        let held = run(&class, &[("Hold", &[is_long])]);
        class.due(&key(&class), &held).expect("it has a timer").at.millis() - NOW.millis()
    };
    assert_eq!((due("true"), due("false")), (2 * 3_600_000, 60_000));
}

#[test]
fn calls_under_else_happen_where_the_condition_does_not_hold() {
    let source = "
        class Purse
          n: Integer = 0
          initial new on Make(): made
          made on Give(k: Integer) post: this.n += k
        class Payer
          initial idle
            on Pay(to: Purse, all: Set[Integer], isMuch: Boolean): idle2
              sync:
                if isMuch:
                  to.Give(100)
                  to.Give(1)
                else:
                  for k in all: to.Give(k)
                  to.Give(10)
          idle2";
    let spec = spec(source);
    let reference = |class: &str, key: &str| -> Reference {
        let class = spec.class(class).unwrap();
        class.reference(class.key(key).unwrap())
    };
    let (purse, payer) = (reference("Purse", "a"), reference("Payer", "b"));
    let mut world: BTreeMap<Reference, Instance> = BTreeMap::new();
    let made = spec.step(&world, &purse, &call(spec.class("Purse").unwrap(), "Make", &[]), NOW).unwrap();
    world.extend(made.after);
    let given = |is_much: &str| {
        let pay: EventCall = call(spec.class("Payer").unwrap(), "Pay", &["a", "{2, 3}", is_much]);
        field(&spec.step(&world, &payer, &pay, NOW).unwrap().after[&purse], "n")
    };
    assert_eq!((given("true"), given("false")), ("101".into(), "15".into()));
}

#[test]
fn a_branch_asks_what_its_path_needs_and_a_loop_asks_for_all_elements_at_once() {
    let source = "
        class Shelf
          pieces: Integer = 4
          isOpen: Boolean = true
          initial bare on Build(): built
          built
        class Count
          sum: Integer = 0
          seen: Map[Shelf, Integer] = {}
          initial new on Make(): made
          made
            on Add(one: Shelf, all: Set[Shelf], isWhole: Boolean)
              post:
                if isWhole:
                  for shelf in all:
                    if shelf.isOpen: this.seen[shelf] = shelf.pieces
                else: this.sum += one.pieces";
    let class = class(source, "Count");
    let made = run(&class, &[("Make", &[])]);
    let questions = |is_whole: &str| {
        let call = call(&class, "Add", &["a", r#"{"b", "c"}"#, is_whole]);
        let asked = class.questions(&key(&class), &made, &call, NOW);
        asked.into_iter().map(|(of, question)| format!("{of}.{question}")).collect::<Vec<_>>()
    };
    assert_eq!(questions("false"), ["Shelf a.pieces"]);
    assert_eq!(questions("true"), ["Shelf b.isOpen", "Shelf c.isOpen"]);
}

/// The codes of what is wrong with a class of these effects, which its first event has.
fn codes(effects: &str) -> Vec<Code> {
    let text = format!(
        "
record Pair
  a: Integer
  b: Integer
class A
  n: Integer
  m: Map[Integer, Integer] = {{}}
  p: Pair = Pair(1, 2)
  initial new
    on Make(c: Boolean, xs: Set[Integer]): made
      post:
{effects}
  made
"
    );
    match check(vec![Source::new("a.rebel", text)]) {
        Ok(_) => Vec::new(),
        Err(report) => report.errors().map(|diagnostic| diagnostic.code).collect(),
    }
}

#[test]
fn each_path_gives_a_place_one_value_and_creation_gives_every_field_one() {
    let fine: [&[&str]; 6] = [
        &["if c: this.n = 1", "else: this.n = 2"],
        &["this.n = 1", "for x in xs: this.m[x] = 1"],
        &["this.n = 1", "this.p.a = 1", "if c: this.p.b = 2 else: this.p.b = 3"],
        &["this.n = 1", "this.m[1] = 2", "if c: this.m -= 1"],
        &["if c:", "  this.n = 1", "  this.p = Pair(3, 4)", "else:", "  this.n = 2", "  this.p.a += 1"],
        &["this.n = 1", "this.p.a += 1", "for x in xs: this.p.a += x"],
    ];
    for lines in fine {
        assert_eq!(codes(&indented(lines)), [], "{lines:?}");
    }
    let rows: [(&[&str], Code); 9] = [
        (&["if c: this.n = 1"], Code::FieldWithoutValue),
        (&["for x in xs: this.m[x] = 1"], Code::FieldWithoutValue),
        (&["if c: this.n = 1 else: this.n += 1"], Code::ReadBeforeValue),
        (&["this.n = 1", "if c: this.n = 2"], Code::AssignedTwice),
        (&["if c: this.n = 1", "if not c: this.n = 2"], Code::AssignedTwice),
        (&["this.n = 1", "this.p.a = 1", "for x in xs: this.p.a += x"], Code::AssignedTwice),
        (&["this.n = 1", "this.p = Pair(3, 4)", "if c: this.p.b = 2"], Code::AssignedTwice),
        (&["this.n = 1", "for x in xs: this.m[1] = x"], Code::AssignedTwice),
        (&["this.n = 1", "for x in xs: for y in xs: this.m[x] = y"], Code::AssignedTwice),
    ];
    for (lines, code) in rows {
        assert!(codes(&indented(lines)).contains(&code), "{lines:?}: {:?}", codes(&indented(lines)));
    }
}

fn indented(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("        {line}\n")).collect()
}

#[test]
fn branches_may_nest_as_deep_as_expressions_and_no_deeper() {
    let nested = |depth: usize| {
        let ifs: String = (0..depth).map(|level| format!("{}if c:\n", " ".repeat(8 + level))).collect();
        codes(&format!("        this.n = 1\n{ifs}{}this.m[1] = 2\n", " ".repeat(8 + depth)))
    };
    assert_eq!(nested(100), []);
    assert_eq!(nested(300), [Code::Limit]);
}

#[test]
fn many_conditions_on_one_field_are_no_more_than_their_sum() {
    let ifs: String = (0..200).map(|n| format!("        if n > {n}: this.n += 1\n")).collect();
    let text =
        format!("class A\n  n: Integer = 100\n  initial i\n    on Make(): s\n  s\n    on E()\n      post:\n{ifs}");
    let class = class(&text, "A");
    let made = run(&class, &[("Make", &[]), ("E", &[])]);
    assert_eq!(made.fields().get("n"), Some(&Value::Integer(200)));
}
