//! Text forms and serialised forms of values.

use std::sync::Arc;

use enact_rebel::{
    Bindings, Currency, Date, Enumeration, EventCall, Instance, KeyType, Money, Percentage, Source, Type, Value,
    ValueError, check,
};
use proptest::prelude::*;

fn colours() -> Type {
    let variants = ["red", "green"].map(Arc::from).to_vec();
    Type::Enum(Arc::new(Enumeration { name: "Colour".into(), variants }))
}

fn two_fields() -> KeyType {
    KeyType::Composite([KeyType::String, KeyType::Integer].into())
}

fn colour_key() -> KeyType {
    let Type::Enum(colours) = colours() else { panic!("it is one") };
    KeyType::Enum(colours)
}

fn reference(key: KeyType) -> Type {
    Type::Reference { class: "Account".into(), key }
}

/// A type and the text form of one of its values.
fn typed_text() -> BoxedStrategy<(Type, String)> {
    let magnitude = -(10_i128.pow(36))..=10_i128.pow(36);
    let scalar = prop_oneof![
        any::<bool>().prop_map(|truth| (Type::Boolean, truth.to_string())),
        any::<i64>().prop_map(|number| (Type::Integer, number.to_string())),
        (prop::sample::select(vec!["EUR", "JPY", "BHD", "CLF"]), magnitude.clone()).prop_map(|(code, minor)| {
            let currency: Currency = code.parse().unwrap();
            (Type::Money, Money::new(currency, minor).unwrap().to_string())
        }),
        magnitude.prop_map(|units| (Type::Percentage, Percentage::from_units(units).unwrap().to_string())),
        prop::sample::select(vec!["EUR", "USD"]).prop_map(|code| (Type::Currency, code.to_owned())),
        any::<String>().prop_map(|text| (Type::String, text)),
        any::<String>()
            .prop_filter("no identity", |text| !text.is_empty())
            .prop_map(|text| (reference(KeyType::String), text)),
        any::<i64>().prop_map(|number| (reference(KeyType::Integer), number.to_string())),
        Just((Type::Iban, "NL91ABNA0417164300".to_owned())),
        Just((reference(KeyType::Iban), "GB82WEST12345698765432".to_owned())),
        (any::<i64>(), "[^:]{1,9}", 0..1000_i64).prop_map(|(number, text, day)| {
            let inner = KeyType::Composite([KeyType::String, KeyType::Date].into());
            let of = KeyType::Reference { class: "Other".into(), key: inner.into() };
            let day = Value::Date(Date::from_days(day).unwrap());
            let key = KeyType::Composite([KeyType::Integer, of, KeyType::Currency].into());
            (reference(key), format!("{number}:{text}:{day}:EUR"))
        }),
        prop::sample::select(vec!["red", "green"]).prop_map(|name| (reference(colour_key()), name.to_owned())),
        Just((reference(KeyType::Date), "2026-11-21".to_owned())),
        Just((Type::Date, "2026-11-21".to_owned())),
        Just((Type::Timestamp, "1969-12-31T23:59:59.999Z".to_owned())),
        prop::sample::select(vec!["red", "green"]).prop_map(|name| (colours(), name.to_owned())),
    ];
    scalar.boxed()
}

proptest! {
    #[test]
    fn a_value_is_read_back_from_its_text((ty, text) in typed_text()) {
        let value = Value::parse(&ty, &text).unwrap();
        prop_assert!(value.has_type(&ty));
        prop_assert_eq!(value.to_string(), text);
    }

    #[test]
    fn a_set_is_read_back_from_its_text(ty in typed_text().prop_map(|(ty, _)| ty), texts in prop::collection::vec(any::<String>(), 0..4)) {
        let elements = texts.iter().filter_map(|text| Value::parse(&ty, text).ok());
        let set = Value::Set(Arc::new(elements.collect()));
        let ty = Type::Set(Box::new(ty));
        prop_assert!(set.has_type(&ty));
        prop_assert_eq!(Value::parse(&ty, &set.to_string()), Ok(set));
    }

    #[test]
    fn a_value_is_read_back_from_its_serialised_form((ty, text) in typed_text()) {
        let value = Value::parse(&ty, &text).unwrap();
        let json = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn any_text_is_a_value_or_an_error((ty, _) in typed_text(), text in any::<String>()) {
        for ty in [Type::Set(Box::new(ty.clone())), ty] {
            if let Ok(value) = Value::parse(&ty, &text) {
                prop_assert_eq!(Value::parse(&ty, &value.to_string()), Ok(value));
            }
        }
    }
}

#[test]
fn texts_that_are_no_values_say_why() {
    let set = Type::Set(Box::new(Type::Integer));
    let table: &[(Type, &str, &str)] = &[
        (Type::Boolean, "yes", "`yes` is no Boolean; write it like `true`"),
        (Type::Integer, "+1", "`+1` is no Integer"),
        (Type::Integer, "1.0", "`1.0` is no Integer"),
        (Type::Integer, "9223372036854775808", "outside the range of Integer"),
        (Type::Money, "12.50", "`12.50` is no Money; write it like `EUR 12.50`"),
        (Type::Money, "EUR 12,50", "is no Money"),
        (Type::Money, "EUR .5", "is no Money"),
        (Type::Money, "EUR 5.", "is no Money"),
        (Type::Money, "EUR --5", "is no Money"),
        (Type::Money, "EUR NaN", "is no Money"),
        (Type::Money, "eur 5", "`eur` is no currency of ISO 4217"),
        (Type::Money, "XXX 5", "`XXX` is no currency of ISO 4217"),
        (Type::Money, "EUR 0.001", "EUR has at most 2 decimals, not 3"),
        (Type::Money, "JPY 0.1", "JPY has at most 0 decimals, not 1"),
        (Type::Money, "BHD 0.0001", "BHD has at most 3 decimals, not 4"),
        (Type::Money, "EUR 10000000000000000000000000000000000.01", "outside the range of Money"),
        (Type::Percentage, "5", "`5` is no Percentage; write it like `2.5%`"),
        (Type::Percentage, "0.00000000000000001%", "at most 16 decimals, not 17"),
        (Type::Iban, "NL91ABNA0417164301", "the check digits of `NL91ABNA0417164301` are wrong"),
        (Type::Iban, "nl91abna0417164300", "is no Iban"),
        (Type::Iban, "NL91", "is no Iban"),
        (Type::Date, "21-11-2026", "is no Date; write it like `2026-11-21`"),
        (Type::Timestamp, "2026-11-21", "is no Timestamp"),
        (colours(), "blue", "`blue` is none of the variants of Colour: red, green"),
        (reference(KeyType::String), "", "any text but none"),
        (reference(colour_key()), "blue", "`blue` is none of the variants of Colour: red, green"),
        (
            reference(two_fields()),
            "12",
            "an identity of type String:Integer joins its fields by `:`, and this text has 1",
        ),
        (reference(two_fields()), "a:b:12", "and this text has 3"),
        (reference(two_fields()), ":12", "any text but none"),
        (reference(two_fields()), "a:b", "`b` is no Integer"),
        (set.clone(), "1, 2", "is no Set; write it like `{a, b}`"),
        (set.clone(), "{1, }", "is no Set"),
        (set, "{1, x}", "`x` is no Integer"),
    ];
    for (ty, text, part) in table {
        let error = Value::parse(ty, text).unwrap_err().to_string();
        assert!(error.contains(part), "{ty} {text}: {error}");
    }
}

#[test]
fn an_error_shows_no_more_than_the_beginning_of_a_long_text() {
    let long = "é".repeat(100_000);
    for ty in [Type::Integer, Type::Money, Type::Currency, Type::Iban, Type::Date, colours()] {
        assert!(Value::parse(&ty, &long).unwrap_err().to_string().len() < 300, "{ty}");
    }
}

#[test]
fn amounts_have_the_decimals_of_their_currency() {
    for (text, minor, shown) in [
        ("EUR 12.50", 1250, "EUR 12.50"),
        ("EUR 12.5", 1250, "EUR 12.50"),
        ("EUR 0", 0, "EUR 0.00"),
        ("EUR -0.05", -5, "EUR -0.05"),
        ("JPY 12", 12, "JPY 12"),
        ("BHD 1.234", 1234, "BHD 1.234"),
        ("CLF 1.2345", 12345, "CLF 1.2345"),
    ] {
        let money: Money = text.parse().unwrap();
        assert_eq!((money.minor(), money.to_string().as_str()), (minor, shown));
    }
}

#[test]
fn the_range_of_amounts_and_percentages_ends_at_its_limit() {
    let euro: Currency = "EUR".parse().unwrap();
    assert!(Money::new(euro, Money::MINOR_MAX).is_some() && Money::new(euro, Money::MINOR_MAX + 1).is_none());
    assert!(Money::new(euro, -Money::MINOR_MAX).is_some() && Money::new(euro, -Money::MINOR_MAX - 1).is_none());
    assert!(Percentage::from_units(Percentage::UNITS_MAX).is_some());
    assert!(Percentage::from_units(Percentage::UNITS_MAX + 1).is_none());
}

#[test]
fn ibans_are_checked_by_their_digits() {
    for text in ["NL91ABNA0417164300", "GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "NO9386011117947"] {
        assert!(Value::parse(&Type::Iban, text).is_ok(), "{text}");
    }
    // One digit changed, two neighbours exchanged, check digits one too low.
    for text in ["NL90ABNA0417164300", "NL91ABNA0417164301", "NL91ABNA0417164030", "GB82WEST12345698765423"] {
        assert!(matches!(Value::parse(&Type::Iban, text), Err(ValueError::Checksum { .. })), "{text}");
    }
}

#[test]
fn calls_and_instances_are_stored_with_names_and_text_forms() {
    let call: EventCall =
        serde_json::from_str(r#"{"event":"Withdraw","arguments":{"amount":{"Money":"EUR 5.00"}}}"#).unwrap();
    assert_eq!(call.to_string(), "Withdraw(amount: EUR 5.00)");
    assert_eq!(
        serde_json::to_string(&call).unwrap(),
        r#"{"event":"Withdraw","arguments":{"amount":{"Money":"EUR 5.00"}}}"#
    );
    let stored = r#"{"state":"opened","fields":{"balance":{"Money":"EUR 5.00"},"tags":{"Set":[{"String":"a"}]}}}"#;
    let instance: Instance = serde_json::from_str(stored).unwrap();
    assert_eq!(serde_json::to_string(&instance).unwrap(), stored);
}

#[test]
fn damaged_stored_values_are_refused() {
    for json in [
        r#"{"Money":"EUR 5.005"}"#,
        r#"{"Money":5.0}"#,
        r#"{"Iban":"NL91ABNA0417164301"}"#,
        r#"{"Date":"2026-02-30"}"#,
        r#"{"Integer":9223372036854775808}"#,
        r#"{"Float":1.0}"#,
    ] {
        assert!(serde_json::from_str::<Value>(json).is_err(), "{json}");
    }
    assert!(serde_json::from_str::<Instance>(r#"{"state":"a","fields":{},"more":1}"#).is_err());
}

#[test]
fn bindings_are_equal_whatever_the_order_they_were_made_in() {
    let bind = |names: [&str; 3]| -> Bindings {
        names.map(|name| (name.into(), Value::String(name.into()))).into_iter().collect()
    };
    assert_eq!(bind(["a", "b", "c"]), bind(["c", "a", "b"]));
    assert_eq!(bind(["a", "b", "c"]).get("b"), Some(&Value::String("b".into())));
    assert_eq!(bind(["a", "b", "c"]).get("d"), None);
}

/// What is stored in an instance counts towards its size.
#[test]
fn an_instance_is_as_large_as_what_it_holds() {
    let spec = check(vec![Source::new(
        "note.rebel",
        "class Note\n  text: String = \"\"\n  tags: Set[String] = {}\n  initial blank\n    on Write(words: String, marks: Set[String]): written\n      post: this.text == words, this.tags == marks\n  written\n",
    )])
    .unwrap();
    let class = spec.class("Note").unwrap();
    let bytes = |text: usize, tags: usize| {
        let tag = |number| Value::String(format!("{number:0>100}").into());
        let tags = Value::Set(Arc::new((0..tags).map(tag).collect()));
        let text = Value::String("x".repeat(text).into());
        let write = class.event("Write").unwrap().call([("words", text), ("marks", tags)]).unwrap();
        class
            .next(&class.key("n").unwrap(), &class.initial(), &write, "2026-11-24T09:00:00.000Z".parse().unwrap())
            .unwrap()
            .bytes()
    };
    let least = bytes(0, 0);
    assert!(least < 1_000, "{least}");
    assert_eq!(bytes(5_000, 0), least + 5_000);
    assert!((10_000..20_000).contains(&(bytes(0, 100) - least)));
}
