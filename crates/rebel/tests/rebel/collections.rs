//! Optional values, records, lists, maps, numbers with decimals, spans of time, and the functions on them.

use std::collections::BTreeMap;

use enact_rebel::{Fault, Instance, Reference, Spec, Value, Violation};

use crate::support::{self, NOW, call, class, field, next, refusal, run, spec};

const SHOP: &str = "
    record Line
      product: String
      quantity: Integer
      note: String?
    record Address
      city: String
      since: Date
    class Order
      lines: List[Line] = []
      stock: Map[String, Integer] = {}
      homes: Map[String, Address] = {}
      home: Address = Address(\"Delft\", 2026-01-01)
      paid: Date? = none
      initial draft
        on Open(items: List[Line]): open
          post: this.lines = items, this.stock = map(l in items: l.product -> l.quantity)
      open
        on Append(line: Line)
          post: this.lines += line
        on AppendAll(more: List[Line])
          post: this.lines += more
        on Set(a: String, b: String, x: Integer, y: Integer)
          post: this.stock[a] = x, this.stock[b] = y
        on Add(a: String, b: String, x: Integer, y: Integer)
          post: this.stock[a] += x, this.stock[b] += y
        on Drop(a: String)
          post: this.stock -= a
        on Move(who: String, city: String)
          post: this.homes[who].city = city, this.home.city = city, this.home.since = today
        on Settle(who: String, at: Address)
          post: this.homes[who] = at
        on Pay()
          pre: \"paid already\": paid == none
          post: this.paid = today
        on Since(day: Date)
          pre: paid! <= day
        on First(product: String)
          pre: lines[0].product == product, (stock.get(product) ?? -1) >= 0";

fn shop() -> (std::sync::Arc<enact_rebel::Class>, Instance) {
    let order = class(SHOP, "Order");
    let pen = r#"[Line(product: "pen", quantity: 2, note: none), Line(product: "ink", quantity: 1, note: "blue")]"#;
    let open = run(&order, &[("Open", &[pen])]);
    (order, open)
}

/// The fault that refuses a call.
fn fault(class: &enact_rebel::Class, instance: &Instance, event: &str, arguments: &[&str]) -> Fault {
    match next(class, instance, event, arguments).unwrap_err().remove(0) {
        Violation::Arithmetic { fault, .. } => fault,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_list_grows_by_an_element_or_by_a_list_and_keeps_its_order() {
    let (order, open) = shop();
    let line = |name: &str| format!("Line(product: \"{name}\", quantity: 1, note: none)");
    let more = next(&order, &open, "Append", &[&line("cap")]).unwrap();
    let more = next(&order, &more, "AppendAll", &[&format!("[{}, {}]", line("a"), line("pen"))]).unwrap();
    let Some(Value::List(lines)) = more.fields().get("lines") else { panic!("a list") };
    let products: Vec<String> = lines
        .iter()
        .map(|line| match line {
            Value::Record(line) => line.get("product").unwrap().to_string(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(products, ["pen", "ink", "cap", "a", "pen"]);
    assert_eq!(field(&open, "stock"), r#"{"ink": 1, "pen": 2}"#);
}

#[test]
fn entries_of_one_map_are_given_values_at_once_and_one_entry_only_one_value() {
    let (order, open) = shop();
    let set = |a, b, x, y| next(&order, &open, "Set", &[a, b, x, y]);
    assert_eq!(field(&set("pen", "cap", "7", "8").unwrap(), "stock"), r#"{"cap": 8, "ink": 1, "pen": 7}"#);
    assert_eq!(field(&set("cap", "cap", "8", "8").unwrap(), "stock"), r#"{"cap": 8, "ink": 1, "pen": 2}"#);
    assert_eq!(fault(&order, &open, "Set", &["cap", "cap", "7", "8"]), Fault::TwoValues { key: "cap".into() });
    let added = next(&order, &open, "Add", &["pen", "ink", "7", "8"]).unwrap();
    assert_eq!(field(&added, "stock"), r#"{"ink": 9, "pen": 9}"#);
    let both = next(&order, &open, "Add", &["pen", "pen", "1", "3"]).unwrap();
    assert_eq!(field(&both, "stock"), r#"{"ink": 1, "pen": 6}"#, "what is added to one entry sums up");
    assert_eq!(fault(&order, &open, "Add", &["pen", "cap", "1", "1"]), Fault::NoElement { key: "cap".into() });
    assert_eq!(field(&next(&order, &open, "Drop", &["pen"]).unwrap(), "stock"), r#"{"ink": 1}"#);
    assert_eq!(field(&next(&order, &open, "Drop", &["cap"]).unwrap(), "stock"), r#"{"ink": 1, "pen": 2}"#);
}

#[test]
fn an_effect_goes_as_deep_as_the_value_does() {
    let (order, open) = shop();
    let settled = next(&order, &open, "Settle", &["ada", r#"Address(city: "Oslo", since: 2025-05-05)"#]).unwrap();
    let moved = next(&order, &settled, "Move", &["ada", "Bern"]).unwrap();
    assert_eq!(field(&moved, "homes"), r#"{"ada": Address(city: "Bern", since: 2025-05-05)}"#);
    assert_eq!(field(&moved, "home"), r#"Address(city: "Bern", since: 2026-11-21)"#);
    assert_eq!(fault(&order, &settled, "Move", &["bob", "Bern"]), Fault::NoElement { key: "bob".into() });
}

#[test]
fn what_is_absent_is_asked_for_replaced_or_a_fault() {
    let (order, open) = shop();
    assert_eq!(fault(&order, &open, "Since", &["2026-12-01"]), Fault::IsNone);
    let paid = next(&order, &open, "Pay", &[]).unwrap();
    assert_eq!(refusal(&order, &paid, "Pay", &[]), ["paid already: `paid == none`, where paid = 2026-11-21"]);
    next(&order, &paid, "Since", &["2026-12-01"]).unwrap();
    next(&order, &open, "First", &["pen"]).unwrap();
    next(&order, &open, "First", &["ink"]).unwrap_err();
    let empty = run(&order, &[("Open", &["[]"])]);
    assert_eq!(fault(&order, &empty, "First", &["pen"]), Fault::NoElement { key: "0".into() });
}

#[test]
fn a_collection_has_ten_thousand_elements_and_no_more() {
    let many = class(
        "class Many
           numbers: List[Integer] = []
           named: Map[Integer, Integer] = {}
           initial none
             on Fill(upTo: Integer): full
               post: this.numbers = list(n in 0 ..< upTo), this.named = map(n in 0 ..< upTo: n -> n)
           full
             on Append(n: Integer)
               post: this.numbers += n
             on Enter(n: Integer)
               post: this.named[n] = n
             on Double()
               post: this.numbers += numbers",
        "Many",
    );
    let full = run(&many, &[("Fill", &["10000"])]);
    for (event, arguments) in [("Append", &["1"][..]), ("Enter", &["10000"]), ("Double", &[])] {
        assert_eq!(fault(&many, &full, event, arguments), Fault::TooManyElements, "{event}");
    }
    next(&many, &full, "Enter", &["9999"]).unwrap();
    assert_eq!(fault(&many, &many.initial(), "Fill", &["10001"]), Fault::TooManyElements);
}

/// The value of an expression over parameters that are given with their types.
fn value(params: &[(&str, &str, &str)], ty: &str, expression: &str) -> Result<String, Fault> {
    let declared: Vec<String> = params.iter().map(|(name, ty, _)| format!("{name}: {ty}")).collect();
    let source = format!(
        "rounding half-even\nenum Kind {{ low, high, mid }}\nclass C\n  result: {ty}?  = none\n  initial i_\n    on Run({}): done\n      post: this.result = {expression}\n  done\n",
        declared.join(", ")
    );
    let class = class(&source, "C");
    let arguments: Vec<&str> = params.iter().map(|(_, _, value)| *value).collect();
    next(&class, &class.initial(), "Run", &arguments).map(|after| field(&after, "result")).map_err(|violations| {
        match violations.into_iter().next() {
            Some(Violation::Arithmetic { fault, .. }) => fault,
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn numbers_with_decimals_round_once_where_the_table_says_so() {
    let rows: &[(&str, &str, &str, &str)] = &[
        ("Decimal(2)", "Decimal(2)", "x + 1", "2.25"),
        ("Decimal(2)", "Decimal(3)", "x + 0.125", "1.375"),
        ("Decimal(2)", "Decimal(4)", "x * x", "1.5625"),
        ("Decimal(2)", "Decimal(2)", "x / 2", "0.62"),
        ("Decimal(2)", "Decimal(1)", "round(x, 1)", "1.2"),
        ("Decimal(2)", "Decimal(1)", "round(x, 1, half-up)", "1.3"),
        ("Decimal(2)", "Decimal(0)", "round(x, 0, ceiling)", "2"),
        ("Decimal(2)", "Decimal(2)", "x * 10%", "0.12"),
        ("Decimal(2)", "Money", "EUR 1.00 * x", "EUR 1.25"),
        ("Decimal(2)", "Money", "EUR 1.00 / x", "EUR 0.80"),
        ("Decimal(2)", "Money", "EUR 1.00 / 3", "EUR 0.33"),
        ("Decimal(2)", "Decimal(4)", "divide(1, 3, 4)", "0.3333"),
        ("Decimal(2)", "Percentage", "percentage(1, 3)", "33.3333333333333333%"),
        ("Decimal(2)", "Decimal(4)", "(EUR 12.50).amount", "12.5000"),
        ("Decimal(2)", "Money", "money(EUR, x)", "EUR 1.25"),
        ("Decimal(2)", "Boolean", "x > 1 and 1 < x and x == 1.250", "true"),
        ("Decimal(2)", "Decimal(2)", "abs(0 - x) + max(x, 1) + clamp(x, 2, 3)", "4.50"),
        ("Decimal(2)", "Decimal(2)", "sum(n in [x, 2.00]: n)", "3.25"),
    ];
    for (of, ty, expression, expected) in rows {
        assert_eq!(value(&[("x", of, "1.25")], ty, expression).as_deref(), Ok(*expected), "{expression}");
    }
    let faults: &[(&str, &str, Fault)] = &[
        ("Decimal(2)", "x / 0", Fault::DivisionByZero),
        ("Money", "money(JPY, x)", Fault::Inexact),
        ("Integer", "1 div 0", Fault::DivisionByZero),
        ("Integer", "1 mod 0", Fault::DivisionByZero),
        ("Percentage", "percentage(x, 0.00)", Fault::DivisionByZero),
    ];
    for (ty, expression, expected) in faults {
        assert_eq!(value(&[("x", "Decimal(2)", "1.25")], ty, expression).as_ref(), Err(expected), "{expression}");
    }
    assert_eq!(value(&[], "Integer", "-7 div 2 + (-7 mod 2)").as_deref(), Ok("-3"), "towards minus infinity");
}

#[test]
fn spans_of_time_are_of_fixed_length_or_of_the_calendar() {
    let rows: &[(&str, &str, &str)] = &[
        ("Timestamp", "t + 15 minutes", "2026-01-31T10:15:00.000Z"),
        ("Timestamp", "t + 1 month", "2026-02-28T10:00:00.000Z"),
        ("Timestamp", "t - 2 weeks", "2026-01-17T10:00:00.000Z"),
        ("Duration", "(t + 36 hours) - t", "36 hours"),
        ("Duration", "90 seconds * 2", "3 minutes"),
        ("Duration", "sum(n in [1, 2]: 10 minutes * n)", "30 minutes"),
        ("Date", "t.date + 1 month", "2026-02-28"),
        ("Date", "t.date + 1", "2026-02-01"),
        ("Date", "2024-02-29 + 1 year", "2025-02-28"),
        ("Integer", "t.date.weekday * 100 + t.date.month", "601"),
        ("Boolean", "t.time >= Time \"09:30\" and t.time < Time \"10:00:01\"", "true"),
        ("Timestamp", "(t.date + 1).start", "2026-02-01T00:00:00.000Z"),
        ("Boolean", "30 days == 1 month", "false"),
        ("Period", "1 month + 3 days", "1 month 3 days"),
    ];
    for (ty, expression, expected) in rows {
        let found = value(&[("t", "Timestamp", "2026-01-31T10:00:00.000Z")], ty, expression);
        assert_eq!(found.as_deref(), Ok(*expected), "{expression}");
    }
}

#[test]
fn texts_are_counted_by_code_points_and_enums_ordered_as_declared() {
    let rows: &[(&str, &str, &str)] = &[
        ("Integer", "s.length", "4"),
        ("String", "s.slice(1, 3)", "é€"),
        ("String", "s.trim.upper + \"!\"", "AÉ€!"),
        ("Boolean", "s.startsWith(\"a\") and s.endsWith(\" \") and s.contains(\"€\")", "true"),
        ("Boolean", "\"Z\" < \"a\" and \"a\" < \"é\"", "true"),
        ("Boolean", "Kind.low < Kind.high and Kind.high < Kind.mid", "true"),
        ("String", "(Iban \"NL91 ABNA 0417 1643 00\").country", "NL"),
        ("Currency", "EUR", "EUR"),
        ("List[String]", "sort(w in [\"bb\", \"a\", \"cc\"]: w.length)", r#"["a", "bb", "cc"]"#),
        ("List[Kind]", "sort(k in [Kind.mid, Kind.low, Kind.high]: k)", "[low, high, mid]"),
        ("Integer", "min(n in [3, 1, 2])! + max(n in [3, 1, 2])!", "4"),
        ("Integer", "(first(n in [3, 1, 2] where n < 3) ?? 0) * 10 + (last(n in [3, 1] where n > 5) ?? 7)", "17"),
    ];
    for (ty, expression, expected) in rows {
        assert_eq!(value(&[("s", "String", "aé€ ")], ty, expression).as_deref(), Ok(*expected), "{expression}");
    }
    assert_eq!(value(&[], "String", "\"abc\".slice(2, 4)"), Err(Fault::OutOfRange));
}

#[test]
fn amounts_of_different_currencies_are_not_sorted() {
    let sorted = |amounts| value(&[("of", "List[Money]", amounts)], "List[Money]", "sort(m in of: m)");
    assert_eq!(sorted("[EUR 2.00, EUR -1.00, EUR 0.50]").as_deref(), Ok("[EUR -1.00, EUR 0.50, EUR 2.00]"));
    assert!(matches!(sorted("[EUR 2.00, USD 1.00]"), Err(Fault::CurrencyMismatch { .. })));
    assert_eq!(sorted("[USD 1.00]").as_deref(), Ok("[USD 1.00]"));
}

#[test]
fn a_range_ends_with_the_greatest_number_and_has_ten_thousand_elements_at_most() {
    let count = |low: &str, high: &str| {
        value(&[("low", "Integer", low), ("high", "Integer", high)], "Integer", "count(n in low .. high)")
    };
    let (least, most) = (i64::MIN.to_string(), i64::MAX.to_string());
    assert_eq!(count(&most, &most).as_deref(), Ok("1"));
    assert_eq!(count(&most, "0").as_deref(), Ok("0"));
    assert_eq!(count("1", "10000").as_deref(), Ok("10000"));
    for (low, high) in [("0", "10000"), ("0", &*most), (&*least, &*most)] {
        assert_eq!(count(low, high), Err(Fault::TooManyElements), "{low} .. {high}");
    }
}

#[test]
fn what_is_computed_lies_in_a_range_as_two_comparisons_say() {
    let rows = [
        ("x + 0 in 1 .. 2", "true"),
        ("x + 0 in 2 .. 3", "false"),
        ("x + 0 in 1.250 .. 1.25", "true"),
        ("x + 0 in 1.250 ..< 1.25", "false"),
        ("round(x, 1) in 1.20 .. 1.2", "true"),
        ("n + 1 in 3.5 .. 4.5", "true"),
        ("[k][0] in Kind.high .. Kind.mid", "true"),
        ("[k][0] in Kind.low ..< Kind.high", "false"),
        ("abs(m) in 0 .. EUR 1.00", "true"),
        ("abs(m) in 0 ..< EUR 1.00", "false"),
    ];
    let params =
        [("x", "Decimal(2)", "1.25"), ("n", "Integer", "3"), ("k", "Kind", "high"), ("m", "Money", "EUR -1.00")];
    for (expression, expected) in rows {
        assert_eq!(value(&params, "Boolean", expression).as_deref(), Ok(expected), "{expression}");
    }
}

#[test]
fn an_amount_in_another_currency_is_refused_as_an_argument_and_a_fault_where_it_is_assigned() {
    let account = class(
        "class Account
           balance: Money(EUR) = EUR 0.00
           initial none
             on Open(sum: Money): open
               post: this.balance = sum
           open
             on Add(by: Money(EUR))
               post: this.balance += by
             on Convert(by: Money)
               post: this.balance += by",
        "Account",
    );
    assert!(matches!(fault(&account, &account.initial(), "Open", &["USD 1.00"]), Fault::CurrencyMismatch { .. }));
    let open = run(&account, &[("Open", &["EUR 1.00"])]);
    assert!(matches!(fault(&account, &open, "Convert", &["USD 1.00"]), Fault::CurrencyMismatch { .. }));
    let dollars = account.event("Add").unwrap().call([("by", support::money("USD 1.00"))]).unwrap_err();
    assert_eq!(dollars[0].to_string(), "the parameter `by` of `Add` is of type Money(EUR), which `USD 1.00` is not");
    let linear = account.linear(&support::key(&account), &[call(&account, "Add", &["EUR 5.00"])], NOW);
    assert!(linear.is_some(), "amounts of a known currency are decided by field");
}

/// An order of several products, with what is free of each.
const STOCK: &str = "
    record Item
      product: Product
      quantity: Integer
    class Product
      free: Integer
      price: Money(EUR)
      initial unknown
        on List(count: Integer, cost: Money(EUR)): listed
          post: this.free = count, this.price = cost
      listed
        internal on Reserve(count: Integer)
          pre: count > 0, \"out of stock\": free >= count
          post: this.free -= count
    class Order
      due: Money(EUR) = EUR 0.00
      initial draft
        on Place(items: List[Item]): placed
          pre: items.size > 0
          post: this.due = sum(i in items: i.product.price * i.quantity)
          sync: for i in items: i.product.Reserve(i.quantity)
      placed";

fn reference(spec: &Spec, class: &str, key: &str) -> Reference {
    let class = spec.class(class).unwrap();
    class.reference(class.key(key).unwrap())
}

#[test]
fn two_lines_of_one_product_reserve_both_and_ask_for_its_price_once() {
    let spec = spec(STOCK);
    let (pen, order) = (reference(&spec, "Product", "pen"), reference(&spec, "Order", "o"));
    let product = spec.class("Product").unwrap();
    let mut world = BTreeMap::new();
    let listed = spec.step(&world, &pen, &call(product, "List", &["5", "EUR 1.50"]), NOW).unwrap();
    world.extend(listed.after);
    let place = |text: &str| call(spec.class("Order").unwrap(), "Place", &[text]);
    let two = r#"[Item(product: "pen", quantity: 2), Item(product: "pen", quantity: 3)]"#;
    let step = spec.step(&world, &order, &place(two), NOW).unwrap();
    assert_eq!(field(&step.after[&pen], "free"), "0");
    assert_eq!(field(&step.after[&order], "due"), "EUR 7.50");
    let more = two.replace('3', "4");
    let refused = spec.step(&world, &order, &place(&more), NOW).unwrap_err();
    assert!(refused.to_string().contains("out of stock"), "{refused}");
}
