//! Defaults of parameters, of functions and of the fields of records.

use std::collections::BTreeMap;

use enact_rebel::{
    Action, ArgumentError, EventCall, Instance, Reference, Source, Spec, Type, Value, Verdict, World, check,
};

use crate::support::{NOW, call, class, field, key, run, spec};

const SHOP: &str = r#"
    record Line
      product: String
      quantity: Integer = least
      price: Money(EUR) = start
      note: String? = "none yet"
    const least: Integer = 1 + 1
    const start: Money(EUR) = doubled(EUR 1.00)
    const box: Line = Line("box")
    fn doubled(amount: Money(EUR), times: Integer = least): Money(EUR) = amount * times
    class Stock
      name: String @identity
      free: Integer = 10
      initial new on Open(first: Integer = 20): open post: this.free = first
      open
        on Take(count: Integer = least, max: Integer = 15, min: Integer = 1)
          pre: count in min .. max, free >= count
          post: this.free -= count
        read on Has(count: Integer = least) -> Boolean
          return: free >= count
    class Order
      lines: List[Line] = [box]
      paid: Money(EUR) = EUR 0.00
      initial new
        on Place(from: Stock, line: Line = Line("pen", 3)): placed
          pre: from.Has(), can from.Take()
          post: this.lines += line, this.paid = doubled(line.price) + doubled(line.price, times: 1)
          sync:
            not from.Take(count: 12, max: 11)
            from.Take()
            from.Take(3)
            from.Take(max: 4)
            from.Take(4, min: 4)
        on Refuse(from: Stock): placed
          pre: from.Has(100)
      placed
        on Add(line: Line)
          post: this.lines += line
          "#;

fn reference(spec: &Spec, class: &str, key: &str) -> Reference {
    let class = spec.class(class).unwrap();
    class.reference(class.key(key).unwrap())
}

fn give<'a>(spec: &Spec, class: &str, event: &str, arguments: &[(&'a str, &str)]) -> EventCall {
    let event = spec.class(class).unwrap().event(event).unwrap();
    let value = |name: &'a str, text: &str| {
        let param = event.params().iter().find(|param| **param.name() == *name).unwrap();
        (name, Value::parse(param.ty(), text).unwrap())
    };
    event.call(arguments.iter().map(|(name, text)| value(name, text))).unwrap()
}

#[test]
fn a_call_without_an_argument_carries_the_default() {
    let spec = spec(SHOP);
    let take = spec.class("Stock").unwrap().event("Take").unwrap();
    let defaults: Vec<String> = take.params().iter().map(|param| param.default().unwrap().to_string()).collect();
    assert_eq!(defaults, ["2", "15", "1"]);
    assert_eq!(give(&spec, "Stock", "Take", &[]).to_string(), "Take(count: 2, max: 15, min: 1)");
    assert_eq!(give(&spec, "Stock", "Take", &[("max", "9")]).to_string(), "Take(count: 2, max: 9, min: 1)");
    let place = spec.class("Order").unwrap().event("Place").unwrap();
    assert_eq!(place.params()[0].default(), None);
    let missing = place.call([]).unwrap_err();
    assert_eq!(missing.len(), 1, "only `from` has none: {missing:?}");
    let unknown = take.call(["a", "b", "c"].map(|name| (name, Value::Integer(1)))).unwrap_err();
    let is_unknown = |error: &ArgumentError| matches!(error, ArgumentError::Unknown { .. });
    assert!(unknown.len() == 3 && unknown.iter().all(is_unknown), "none is missing: {unknown:?}");
}

#[test]
fn calls_questions_and_records_of_a_contract_use_defaults_by_position_and_by_name() {
    let spec = spec(SHOP);
    let (stock, order) = (reference(&spec, "Stock", "a"), reference(&spec, "Order", "o"));
    let mut world: BTreeMap<Reference, Instance> = BTreeMap::new();
    world.extend(spec.step(&world, &stock, &give(&spec, "Stock", "Open", &[]), NOW).unwrap().after);
    assert_eq!(field(&world[&stock], "free"), "20");
    let step = spec.step(&world, &order, &give(&spec, "Order", "Place", &[("from", "a")]), NOW).unwrap();
    assert_eq!(field(&step.after[&stock], "free"), (20 - 2 - 3 - 2 - 4).to_string());
    let taken = step.work[&stock].iter().filter_map(|task| match &task.action {
        Action::Do(call) => Some(call.to_string()),
        _ => None,
    });
    let expected = [(2, 15, 1), (3, 15, 1), (2, 4, 1), (4, 15, 4)];
    let expected = expected.map(|(count, max, min)| format!("Take(count: {count}, max: {max}, min: {min})"));
    assert_eq!(taken.collect::<Vec<_>>(), expected, "what is journaled has all arguments");
    let lines = [("box", 2), ("pen", 3)]
        .map(|(name, count)| {
            format!("Line(product: \"{name}\", quantity: {count}, price: EUR 2.00, note: \"none yet\")")
        })
        .join(", ");
    assert_eq!(field(&step.after[&order], "lines"), format!("[{lines}]"));
    assert_eq!(field(&step.after[&order], "paid"), "EUR 6.00");
    spec.step(&world, &order, &give(&spec, "Order", "Refuse", &[("from", "a")]), NOW).unwrap_err();
}

#[test]
fn the_text_of_a_record_may_leave_out_what_has_a_default() {
    let spec = spec(SHOP);
    let ty = spec.class("Order").unwrap().event("Add").unwrap().params()[0].ty().clone();
    let Type::Record(line) = &ty else { panic!("{ty}") };
    assert_eq!(line.default(0), None);
    assert_eq!(line.default(1), Some(&Value::Integer(2)));
    let read = |text: &str| Value::parse(&ty, text).map(|value| value.to_string()).map_err(drop);
    let whole =
        |quantity, note| Ok(format!("Line(product: \"pen\", quantity: {quantity}, price: EUR 2.00, note: {note})"));
    assert_eq!(read("Line(product: \"pen\")"), whole(2, "\"none yet\""));
    assert_eq!(read("Line(product: \"pen\", note: none)"), whole(2, "none"));
    assert_eq!(read("Line(product: \"pen\", quantity: 5)"), whole(5, "\"none yet\""));
    for wrong in ["Line()", "Line(quantity: 5)", "Line(product: \"pen\", 5)", "Line(product: \"pen\", quantity: 5,)"] {
        assert_eq!(read(wrong), Err(()), "{wrong}");
    }
}

#[test]
fn a_stored_call_from_before_there_was_the_parameter_means_its_default() {
    let source = "
        class Meter
          n: Integer = 0
          initial new on Make(): made
          made on Add(by: Integer, times: Integer = 3)
            pre: times in 1 .. 9
            post: this.n += by * times";
    let meter = class(source, "Meter");
    let made = run(&meter, &[("Make", &[])]);
    let stored: EventCall =
        serde_json::from_value(serde_json::json!({ "event": "Add", "arguments": { "by": { "Integer": 2 } } })).unwrap();
    let whole = call(&meter, "Add", &["2", "3"]);
    let after = meter.next(&key(&meter), &made, &stored, NOW).unwrap();
    assert_eq!(field(&after, "n"), "6");
    assert_eq!(after, meter.next(&key(&meter), &made, &whole, NOW).unwrap());
    let linear = |call: &EventCall| meter.linear(&key(&meter), std::slice::from_ref(call), NOW);
    assert_eq!((linear(&stored), linear(&stored).is_some()), (linear(&whole), true));
    assert_eq!(meter.changes(&key(&meter), &stored, NOW), meter.changes(&key(&meter), &whole, NOW));
    let judged = meter.judge(&key(&meter), &meter.outline(&made), &stored, NOW);
    assert_eq!((judged.verdict, judged.after), (Verdict::Accepted, meter.outline(&after)));
    let world: &dyn World = &BTreeMap::from([(meter.reference(key(&meter)), made)]);
    let step = spec(source).step(world, &meter.reference(key(&meter)), &stored, NOW).unwrap();
    let [task] = &step.work[&meter.reference(key(&meter))][..] else { panic!("one task") };
    assert_eq!(task.action, Action::Do(whole), "what is journaled from now on has it");
}

#[test]
fn a_default_reads_the_constants_of_its_class_and_of_no_other() {
    let source = "
        event Pay(amount: Money, fee: Money = EUR 1.00) needs (balance: Money)
          post: this.balance -= amount + fee
        abstract class Account(least: Money, most: Integer = 3)
          balance: Money = EUR 0.00
          initial new
            on Open(deposit: Money = least * most): open
              post: this.balance = deposit
          open
            on Again()
              sync: this.Reset()
            internal on Reset(to: Money = least)
              post: this.balance = to
            use Pay
            use Pay(fee: EUR 0.00) as PayFree
        class Basic extends Account(EUR 5.00)
        class Gold extends Account(EUR 100.00, most: 2)";
    let spec = spec(source);
    let open = |name: &str| {
        let class = spec.class(name).unwrap();
        class.next(&key(class), &class.initial(), &give(&spec, name, "Open", &[]), NOW).unwrap()
    };
    assert_eq!(
        (field(&open("Basic"), "balance"), field(&open("Gold"), "balance")),
        ("EUR 15.00".into(), "EUR 200.00".into())
    );
    let gold = reference(&spec, "Gold", "g");
    let world = BTreeMap::from([(gold.clone(), open("Gold"))]);
    let after = |event: &str, arguments: &[(&str, &str)]| {
        let step = spec.step(&world, &gold, &give(&spec, "Gold", event, arguments), NOW).unwrap();
        field(&step.after[&gold], "balance")
    };
    assert_eq!(after("Again", &[]), "EUR 100.00");
    assert_eq!(after("Pay", &[("amount", "EUR 10.00")]), "EUR 189.00");
    assert_eq!(after("PayFree", &[("amount", "EUR 10.00")]), "EUR 190.00");
    assert_eq!(spec.class("Gold").unwrap().event("PayFree").unwrap().params().len(), 1);
}

#[test]
fn a_default_of_another_module_reads_what_that_module_declares() {
    let stock = "module stock
        const size: Integer = 7
        record Crate
          name: String
          pieces: Integer = size
        fn filled(name: String, extra: Integer = size): Crate = Crate(name, size + extra)
        class Store
          all: Integer = 0
          initial new on Open(pieces: Integer = size): open post: this.all = pieces
          open";
    let shop = "module shop
        import stock: Crate, filled, Store
        class Shop
          crates: List[Crate] = [Crate(\"a\"), filled(\"b\"), filled(\"c\", extra: 1)]
          initial new on Open(store: Store): open sync: store.Open()
          open";
    let sources = vec![Source::new("shop.rebel", shop), Source::new("stock.rebel", stock)];
    let spec = check(sources).unwrap_or_else(|report| panic!("{report}"));
    let shop = spec.class("Shop").unwrap();
    let crates = [("a", 7), ("b", 14), ("c", 8)]
        .map(|(name, pieces)| format!("Crate(name: \"{name}\", pieces: {pieces})"))
        .join(", ");
    assert_eq!(field(&shop.initial(), "crates"), format!("[{crates}]"));
    let open = call(shop, "Open", &["s"]);
    let syncs = shop.syncs(&key(shop), &shop.initial(), &open, NOW).unwrap();
    assert!(matches!(&syncs[0].action, Action::Do(call) if call.to_string() == "Open(pieces: 7)"));
}

#[test]
fn a_migration_makes_records_with_defaults() {
    let old =
        spec("class A\n  name: String\n  initial i\n    on Make(to: String): s\n      post: this.name = to\n  s\n");
    let new = "module a version 2
record Line
  name: String
  count: Integer = 4
class A
  line: Line
  initial i
    on Make(to: Line = Line(\"x\")): s
      post: this.line = to
  s
migrate from 1
  drop A.name
  A.line = Line(name)
";
    let migration = spec(new).migration(&old).unwrap_or_else(|report| panic!("{report}"));
    let (class, made) = (old.class("A").unwrap(), run(old.class("A").unwrap(), &[("Make", &["pen"])]));
    let migrated = migration.instance("A", &key(class), &made).unwrap().unwrap();
    assert_eq!(field(&migrated, "line"), "Line(name: \"pen\", count: 4)");
}
