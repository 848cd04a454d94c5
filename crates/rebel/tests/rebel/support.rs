//! What the tests of this crate share.

use std::sync::Arc;

use enact_rebel::{Class, EventCall, Instance, Key, Money, Source, Spec, Timestamp, Value, Violation, check};

/// 2026-11-21T09:30:00Z.
pub(crate) const NOW: Timestamp = Timestamp::from_millis(1_795_253_400_000);

/// The sources that stand in one text behind lines of the form `// ---- name ----`, or the text itself as `name`.
pub(crate) fn sources(name: &str, text: &str) -> Vec<Source> {
    let heading = |line: &str| Some(line.strip_prefix("// ---- ")?.trim_end().strip_suffix(" ----")?.to_owned());
    let mut sources: Vec<Source> = Vec::new();
    for line in text.split_inclusive('\n') {
        match (heading(line), sources.last_mut()) {
            (Some(name), _) => sources.push(Source::new(name, "")),
            (None, Some(source)) => source.text.push_str(line),
            (None, None) => sources.push(Source::new(name, line)),
        }
    }
    if sources.is_empty() {
        sources.push(Source::new(name, ""));
    }
    sources
}

/// The specification in `source`, which must be fine.
pub(crate) fn spec(source: &str) -> Spec {
    check(vec![Source::new("test.rebel", source)]).unwrap_or_else(|report| panic!("{report}"))
}

/// One class of the specification in `source`.
pub(crate) fn class(source: &str, name: &str) -> Arc<Class> {
    spec(source).class(name).unwrap().clone()
}

/// Some identity of the class.
pub(crate) fn key(class: &Class) -> Key {
    ["NL91ABNA0417164300", "1"].iter().find_map(|text| class.key(text).ok()).unwrap()
}

/// An amount of money.
pub(crate) fn money(text: &str) -> Value {
    Value::Money(text.parse::<Money>().unwrap())
}

/// A call with arguments in their text forms, in the order of the parameters.
pub(crate) fn call(class: &Class, event: &str, arguments: &[&str]) -> EventCall {
    let event = class.event(event).unwrap();
    assert_eq!(event.params().len(), arguments.len(), "arguments of {}", event.name());
    let values = event.params().iter().zip(arguments);
    let values = values.map(|(param, text)| (&**param.name(), Value::parse(param.ty(), text).unwrap()));
    event.call(values).unwrap()
}

/// The instance after a call.
pub(crate) fn next(
    class: &Class,
    instance: &Instance,
    event: &str,
    arguments: &[&str],
) -> Result<Instance, Vec<Violation>> {
    class.next(&key(class), instance, &call(class, event, arguments), NOW)
}

/// The instance after several calls, all of which must be accepted.
pub(crate) fn run(class: &Class, calls: &[(&str, &[&str])]) -> Instance {
    calls.iter().fold(class.initial(), |instance, (event, arguments)| {
        next(class, &instance, event, arguments).unwrap_or_else(|violations| panic!("{event}: {violations:?}"))
    })
}

/// The texts of the reasons why a call is refused.
pub(crate) fn refusal(class: &Class, instance: &Instance, event: &str, arguments: &[&str]) -> Vec<String> {
    next(class, instance, event, arguments).unwrap_err().iter().map(ToString::to_string).collect()
}

/// The value of a field in its text form.
pub(crate) fn field(instance: &Instance, name: &str) -> String {
    instance.fields().get(name).unwrap_or_else(|| panic!("no value of {name}")).to_string()
}

/// The number that a value is, in its smallest unit; 0 for what is none.
pub(crate) fn number(value: &Value) -> i128 {
    match value {
        Value::Integer(number) => (*number).into(),
        Value::Money(money) => money.minor(),
        Value::Percentage(percentage) => percentage.units(),
        Value::Date(date) => date.days().into(),
        Value::Timestamp(time) => time.millis().into(),
        _ => 0,
    }
}
