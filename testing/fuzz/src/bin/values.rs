//! Values, instances and calls from outside: a text is refused, or it is a value that is written as it was read, and whatever is
//! decoded is an instance or a call that is looked at without a panic.
#![no_main]

use std::sync::{Arc, LazyLock};

use arbitrary::Arbitrary;
use enact_rebel::{Class, EventCall, Instance, Source, Timestamp, Type, Value, check};
use libfuzzer_sys::fuzz_target;

const CONTRACT: &str = "
enum Kind { plain, gold }
record Line
  what: String
  count: Integer = 1
  note: String? = none
class Thing
  key: Iban @identity
  flag: Boolean = false
  number: Integer = 0
  price: Money = EUR 0.00
  rate: Percentage = 0%
  unit: Currency
  text: String = \"\"
  account: Iban
  day: Date = 2026-01-01
  at: Timestamp
  other: Thing
  kind: Kind = Kind.plain
  numbers: Set[Integer] = {}
  others: Set[Thing] = {}
  sum: Decimal(2) = 0.00
  euros: Money(EUR) = EUR 0.00
  perhaps: Kind? = none
  span: Duration = 15 minutes
  months: Period = 1 month
  clock: Time = Time \"09:30\"
  lines: List[Line] = []
  stock: Map[String, List[Integer?]] = {}
  initial none
    on Make(unit_: Currency, account_: Iban, other_: Thing): made
      post: this.unit = unit_, this.account = account_, this.other = other_, this.at = now
  made
    on Change(n: Integer, m: Money, p: Percentage, ns: Set[Integer], o: Thing, k: Kind, l: Line, d: Decimal(2), x: String)
      pre: number + n > 0, price - m >= EUR 1.00, k != kind
      post: this.number += n, this.price = m * p, this.numbers = ns, this.others += o, this.kind = k,
            this.lines += l, this.sum += d / 3, this.stock[x] = [n, none], this.at = now + span + months
    on Sort(n: Integer = 3, ns: Set[Integer] = {1, 2}, l: Line = Line(\"pen\"), b: Boolean = true, x: String = \"x\")
      post:
        for i in ns:
          if i > n: this.numbers += i else: this.numbers -= i
          this.number += i
        if b:
          this.stock[x] = [l.count, none]
          this.price -= EUR 1.00
        else:
          this.lines += l
          for k in stock.keys: this.stock -= k
";

static THING: LazyLock<Arc<Class>> = LazyLock::new(|| {
    let spec = check(vec![Source::new("thing.rebel", CONTRACT)]).unwrap_or_else(|report| panic!("{report}"));
    Arc::clone(spec.class("Thing").expect("it is declared"))
});

#[derive(Arbitrary, Debug)]
enum Input<'a> {
    Text(u8, &'a str),
    Instance(&'a [u8], &'a [u8]),
    /// One field of an instance and one argument of a call, in their text forms.
    Fields(u8, &'a str, bool, u8, &'a str),
}

fn types() -> Vec<&'static Type> {
    THING.fields().iter().map(|field| field.ty()).collect()
}

fn look(instance: &Instance, call: &EventCall) {
    let key = THING.key("NL91ABNA0417164300").expect("it is an account");
    let at = Timestamp::from_millis(1_795_253_400_000);
    let _wrong = THING.verify(&key, instance);
    let _told = (THING.linear(&key, std::slice::from_ref(call), at), THING.changes(&key, call, at));
    let _needs = THING.syncs(&key, instance, call, at);
    if let Ok(next) = THING.next(&key, instance, call, at) {
        assert!(
            THING.verify(&key, &next).is_ok() || THING.verify(&key, instance).is_err(),
            "a step leaves what is sound sound"
        );
    }
}

fuzz_target!(|input: Input<'_>| match input {
    Input::Text(which, text) => {
        let types = types();
        let ty = types[usize::from(which) % types.len()];
        if let Ok(value) = Value::parse(ty, text) {
            assert!(value.has_type(ty));
            assert_eq!(Value::parse(ty, &value.to_string()), Ok(value.clone()), "a value is read as it is written");
            let json = serde_json::to_string(&value).expect("a value is written");
            assert_eq!(serde_json::from_str::<Value>(&json).ok(), Some(value));
        }
    }
    Input::Instance(instance, call) => {
        let (Ok(instance), Ok(call)) = (serde_json::from_slice(instance), serde_json::from_slice(call)) else { return };
        look(&instance, &call);
    }
    Input::Fields(field, value, has_defaults, param, argument) => {
        let fields = THING.fields();
        let field = &fields[usize::from(field) % fields.len()];
        let event = THING.event(if has_defaults { "Sort" } else { "Change" }).expect("it is declared");
        let param = &event.params()[usize::from(param) % event.params().len()];
        let json =
            |ty: &Type, text: &str| Value::parse(ty, text).ok().and_then(|value| serde_json::to_value(value).ok());
        let (Some(value), Some(argument)) = (json(field.ty(), value), json(param.ty(), argument)) else { return };
        let instance = serde_json::json!({ "state": "made", "fields": { &**field.name(): value } });
        let call = serde_json::json!({ "event": &**event.name(), "arguments": { &**param.name(): argument } });
        let (Ok(instance), Ok(call)) = (serde_json::from_value(instance), serde_json::from_value(call)) else { return };
        look(&instance, &call);
    }
});
