//! Personal values are stored, handed on and shown, and nothing depends on them.

use std::sync::Arc;

use enact_rebel::{Action, Class, EventCall, Instance, Reference, Sealed, Source, Spec, Type, Value, check};

use crate::support::{NOW, key, spec};

const CUSTOMERS: &str = "
class Customer
  id: String @identity
  name: String @personal
  born: Date? @personal
  earlier: List[Integer] = []
  initial unknown
    on Register(called: String @personal, birth: Date? @personal): known
      post: this.name = called, this.born = birth
  known
    on Rename(to: String @personal)
      post: this.name = to
    on Choose(first: Boolean, one: String @personal, other: String @personal)
      let: chosen = if first then one else other
      post: this.name = chosen
    on Forget()
      post: this.born = none
    on Copy(from: Customer)
      post: this.name = from.name
class Letter
  id: Integer @identity
  text: String @personal
  initial open
    on Send(who: Customer, words: String @personal(who)): sent
      post: this.text = words
      sync: who.Rename(words)
  final sent
";

fn sealed(subject: &str, bytes: &[u8]) -> Value {
    let class: Arc<Class> = spec(CUSTOMERS).class("Customer").unwrap().clone();
    let subject = class.reference(class.key(subject).unwrap());
    Value::Sealed(Arc::new(Sealed { subject, generation: 1, bytes: bytes.to_vec() }))
}

fn next(class: &Class, instance: &Instance, event: &str, arguments: &[(&str, Value)]) -> Instance {
    let call = class.event(event).unwrap().call(arguments.iter().map(|(name, value)| (*name, value.clone()))).unwrap();
    class.next(&key(class), instance, &call, NOW).unwrap_or_else(|refused| panic!("{event}: {refused:?}"))
}

fn customers() -> (Spec, Arc<Class>) {
    let spec = spec(CUSTOMERS);
    let customer = spec.class("Customer").unwrap().clone();
    (spec, customer)
}

#[test]
fn what_is_personal_is_stored_chosen_named_cleared_and_handed_on() {
    let (_, customer) = customers();
    let [ada, lovelace, born] = [b"ada", b"lov", b"day"].map(|bytes| sealed("1", bytes));
    let known = next(&customer, &customer.initial(), "Register", &[("called", ada.clone()), ("birth", born.clone())]);
    assert_eq!((known.fields().get("name"), known.fields().get("born")), (Some(&ada), Some(&born)));
    for (first, chosen) in [(true, &ada), (false, &lovelace)] {
        let arguments = [("first", Value::Boolean(first)), ("one", ada.clone()), ("other", lovelace.clone())];
        assert_eq!(next(&customer, &known, "Choose", &arguments).fields().get("name"), Some(chosen));
    }
    let forgotten = next(&customer, &known, "Forget", &[]);
    assert_eq!(forgotten.fields().get("born"), Some(&Value::None));
    // A record of it reads back as it was.
    let json = serde_json::to_string(&known).unwrap();
    assert_eq!(serde_json::from_str::<Instance>(&json).unwrap(), known);
}

#[test]
fn a_value_is_handed_on_with_its_subject() {
    let (spec, customer) = customers();
    let letter = spec.class("Letter").unwrap();
    let send = letter.event("Send").unwrap();
    let [who, words] = send.params() else { panic!("two parameters") };
    assert_eq!((who.subject(), words.subject().map(|name| &**name)), (None, Some("who")));
    assert_eq!(*words.ty(), Type::Personal(Type::String.into()));
    let ada = customer.reference(customer.key("ada").unwrap());
    let text = sealed("ada", b"dear");
    let call = send.call([("who", Value::Reference(ada.clone())), ("words", text.clone())]).unwrap();
    let syncs = letter.syncs(&letter.key("7").unwrap(), &letter.initial(), &call, NOW).unwrap();
    let [sync] = &syncs[..] else { panic!("one call") };
    let rename: &EventCall = match &sync.action {
        Action::Do(call) => call,
        other => panic!("{other:?}"),
    };
    assert_eq!((&sync.target, rename.arguments().get("to")), (&ada, Some(&text)));
    let of = |value: &Value| match value {
        Value::Sealed(sealed) => sealed.subject.clone(),
        other => panic!("{other}"),
    };
    assert_eq!(of(rename.arguments().get("to").unwrap()), Reference { class: "Customer".into(), ..ada });
}

#[test]
fn a_personal_parameter_takes_sealed_values_and_none_where_it_is_optional() {
    let (_, customer) = customers();
    let register = customer.event("Register").unwrap();
    let ada = sealed("1", b"ada");
    let taken = |name: &Value, born: &Value| register.call([("called", name.clone()), ("birth", born.clone())]).is_ok();
    assert!(taken(&ada, &ada) && taken(&ada, &Value::None));
    assert!(!taken(&Value::None, &Value::None), "a name is given");
    assert!(!taken(&Value::String("Ada".into()), &Value::None), "a clear name");
    assert!(Value::parse(register.params()[0].ty(), "Ada").is_err());
}

#[test]
fn the_text_of_a_sealed_value_tells_it_from_others_and_shows_nothing_of_it() {
    let [one, other] = [b"one", b"two"].map(|bytes| sealed("1", bytes));
    assert_eq!(one.to_string(), "sealed(Customer 1, 1, 6f6e65)");
    assert_ne!(one.to_string(), other.to_string());
}

/// `CUSTOMERS` with one more event, which does `line`.
fn with(line: &str) -> String {
    CUSTOMERS.replace(
        "    on Forget()\n",
        &format!("    on Odd(one: String @personal, two: String @personal)\n{line}    on Forget()\n"),
    )
}

#[test]
fn nothing_else_is_done_with_what_is_personal() {
    let cases = [
        ("a guard", "      pre: one == two\n", "E410"),
        ("a guard on a field", "      pre: this.name == one\n", "E405"),
        ("a presence", "      pre: born == none\n", "E410"),
        ("a fallback", "      post: this.name = one ?? two\n", "E202"),
        ("a presence that is demanded", "      post: this.name = born!\n", "E202"),
        ("a list", "      post: this.earlier = [one]\n", "E201"),
        ("a set in a guard", "      pre: {one}.size == 1\n", "E410"),
        ("an element", "      pre: one in {two}\n", "E410"),
        ("a count", "      pre: count(x in [1, 2] where one == two) == 0\n", "E410"),
        ("a chosen comparison", "      pre: (if one == two then true else false)\n", "E410"),
        ("a named comparison", "      let: same = one == two\n      pre: same\n", "E410"),
        ("a sum", "      post: this.name += two\n", "E202"),
        ("a literal", "      post: this.name = \"x\"\n", "E201"),
        ("a length", "      pre: one.size > 0\n", "E106"),
        ("a comparison of another's", "      pre: Customer[\"x\"].name == one\n", "E410"),
        ("a field of the identity", "      pre: Customer[one] is initialized\n", "E201"),
    ];
    for (what, line, code) in cases {
        let Err(report) = check(vec![Source::new("test.rebel", with(line))]) else { panic!("{what} is taken") };
        let codes: Vec<_> = report.errors().map(|error| error.code.number()).collect();
        assert!(codes.contains(&code), "{what}: {codes:?}\n{report}");
    }
    let elsewhere = [
        ("a record", "record Person\n  name: String @personal\n"),
        ("a function", "fn f(name: String @personal): Integer = 1\n"),
        ("a constant", "const NAME: String @personal = \"x\"\n"),
        ("an element", "class A\n  names: List[String @personal] = []\n  initial a\n"),
        ("a result", "class A\n  initial a\n    on E() -> String @personal: b\n      return: \"x\"\n  final b\n"),
        (
            "an index",
            "class A\n  n: String @personal\n  index n\n  initial a\n    on E(m: String @personal): b\n      post: this.n = m\n  final b\n",
        ),
        ("an identity", "class A\n  n: String @personal @identity\n  initial a\n    on E(): b\n  final b\n"),
        ("a default", "class A\n  n: String @personal = \"x\"\n  initial a\n    on E(): b\n  final b\n"),
    ];
    for (what, text) in elsewhere {
        assert!(check(vec![Source::new("test.rebel", format!("{text}{CUSTOMERS}"))]).is_err(), "{what} is taken");
    }
}

#[test]
fn a_field_stays_as_personal_as_it_was() {
    let version = |number: u32, ty: &str, more: &str| {
        let text = format!(
            "module m version {number}\nclass A\n  n: {ty}\n  initial a\n    on E(m: {ty}): b\n      post: this.n = m\n  b\n{more}"
        );
        check(vec![Source::new("m.rebel", text)]).unwrap_or_else(|report| panic!("{report}"))
    };
    let cases = [
        ("String @personal", "String @personal", "", true),
        ("String @personal", "String? @personal", "", true),
        ("String", "String @personal", "migrate from 1\n", false),
        ("String @personal", "String", "migrate from 1\n", false),
        ("String", "String @personal", "migrate from 1\n  A.n = n\n", false),
        ("String @personal", "String", "migrate from 1\n  A.n = n\n", false),
    ];
    for (old, new, lines, is_taken) in cases {
        let old_spec = version(1, old, "");
        let taken = version(2, new, lines).migration(&old_spec);
        assert_eq!(taken.is_ok(), is_taken, "{old} -> {new} {lines}: {:?}", taken.err());
    }
    let text = "module m version 2\nclass A\n  n: String @personal\n  same: Boolean\n  initial a\n    on E(m: String @personal): b\n      \
                post: this.n = m, this.same = true\n  b\nmigrate from 1\n  A.same = n == n\n";
    let looked = check(vec![Source::new("m.rebel", text)])
        .and_then(|spec| spec.migration(&version(1, "String @personal", "")).map(drop));
    assert!(looked.is_err(), "a migration looks at a personal value");
}
