//! Text forms and serialised forms of values.

use std::collections::BTreeMap;
use std::sync::Arc;

use enact_rebel::{
    Bindings, Currency, Date, Decimal, Duration, Enumeration, EventCall, Id, Instance, KeyType, Money, Percentage,
    Period, RecordType, RecordValue, Source, Time, Type, Value, ValueError, check, limits,
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
        decimal().prop_map(|number| (Type::Decimal(number.decimals()), number.to_string())),
        time().prop_map(|time| (Type::Time, time.to_string())),
        any::<i64>().prop_map(|millis| (Type::Duration, Duration::from_millis(millis).to_string())),
        any::<(i32, i32)>().prop_map(|(months, days)| (Type::Period, Period::new(months, days).to_string())),
        any::<u128>().prop_map(|bits| (Type::Id, Id::from_u128(bits).to_string())),
        any::<u128>().prop_map(|bits| (reference(KeyType::Id), Id::from_u128(bits).to_string())),
        (any::<u128>(), any::<i64>()).prop_map(|(bits, number)| {
            let key = KeyType::Composite([KeyType::Id, KeyType::Integer].into());
            (reference(key), format!("{}:{number}", Id::from_u128(bits)))
        }),
        any::<i64>().prop_map(|minor| {
            let euro: Currency = "EUR".parse().unwrap();
            (Type::MoneyOf(euro), Money::new(euro, minor.into()).unwrap().to_string())
        }),
        Just((Type::Optional(Type::Integer.into()), "none".to_owned())),
        any::<i64>().prop_map(|number| (Type::Optional(Type::Integer.into()), number.to_string())),
        any::<String>().prop_map(|text| (Type::Optional(Type::String.into()), text)),
    ];
    scalar.boxed()
}

fn decimal() -> impl Strategy<Value = Decimal> {
    let units = prop_oneof![-1000_i128..1000, -Decimal::UNITS_MAX..=Decimal::UNITS_MAX];
    (units, 0..=Decimal::DECIMALS_MAX).prop_map(|(units, decimals)| Decimal::new(units, decimals).unwrap())
}

fn time() -> impl Strategy<Value = Time> {
    let (millis, seconds, minutes) = (0..86_400_000_i64, 0..86_400_i64, 0..1440_i64);
    prop_oneof![millis, seconds.prop_map(|seconds| 1000 * seconds), minutes.prop_map(|minutes| 60_000 * minutes)]
        .prop_map(|millis| Time::from_millis(millis).unwrap())
}

/// A type and some of its values.
type Typed = (Type, Vec<Value>);

/// Values of one type that hold no others.
fn scalars() -> BoxedStrategy<Typed> {
    (typed_text(), prop::collection::vec(any::<String>(), 0..4), any::<[u32; 4]>())
        .prop_map(|((ty, text), texts, seeds)| {
            let read = |text: &String| Value::parse(&ty, text).ok();
            let mut values: Vec<Value> = [&text].into_iter().chain(&texts).filter_map(read).collect();
            values.extend(seeds.iter().filter_map(|seed| Value::of_number(&ty, None, (*seed).into())));
            (ty, values)
        })
        .boxed()
}

/// Values of one type that nest up to three levels.
fn nested() -> BoxedStrategy<Typed> {
    scalars()
        .prop_recursive(3, 24, 3, |inner| {
            let size = 0_usize..4;
            prop_oneof![
                (inner.clone(), size.clone()).prop_map(|((ty, values), size)| {
                    let sets =
                        values.chunks(size.max(1)).map(|set| Value::Set(Arc::new(set.iter().cloned().collect())));
                    (Type::Set(ty.into()), sets.chain([Value::Set(Arc::default())]).collect())
                }),
                (inner.clone(), size.clone()).prop_map(|((ty, values), size)| {
                    let lists = values.chunks(size.max(1)).map(|list| Value::List(list.into()));
                    (Type::List(ty.into()), lists.chain([Value::List([].into())]).collect())
                }),
                (inner.clone(), inner.clone()).prop_map(|((key, keys), (ty, values))| {
                    let map: BTreeMap<Value, Value> = keys.into_iter().zip(values).collect();
                    let values = vec![Value::Map(Arc::new(map)), Value::Map(Arc::default())];
                    (Type::Map((key, ty).into()), values)
                }),
                (inner.clone(), inner.clone()).prop_map(|(left, right)| {
                    let fields = vec![("left".into(), left.0), ("right".into(), right.0)];
                    let ty = Type::Record(Arc::new(RecordType::new("Pair".into(), fields)));
                    let pair = |(left, right)| {
                        let fields = vec![("left".into(), left), ("right".into(), right)];
                        Value::Record(Arc::new(RecordValue { of: "Pair".into(), fields }))
                    };
                    (ty, left.1.into_iter().zip(right.1).map(pair).collect())
                }),
                inner.prop_map(|(ty, mut values)| match ty {
                    Type::Optional(_) => (ty, values),
                    _ => {
                        values.push(Value::None);
                        (Type::Optional(ty.into()), values)
                    }
                }),
            ]
        })
        .boxed()
}

/// Whether `none` alone may be the text of a value that is there.
fn has_text_none(ty: &Type) -> bool {
    match ty {
        Type::Optional(ty) => matches!(**ty, Type::String | Type::Reference { .. }),
        _ => false,
    }
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
    fn nested_values_are_read_back_from_their_texts((ty, values) in nested()) {
        for value in values {
            prop_assert!(value.has_type(&ty), "{} {}", ty, value);
            // Inside another, every value is read back; alone, all but `none` beside texts.
            let list = Value::List([value.clone(), value.clone()].into());
            prop_assert_eq!(Value::parse(&Type::List(ty.clone().into()), &list.to_string()), Ok(list));
            if !has_text_none(&ty) {
                prop_assert_eq!(Value::parse(&ty, &value.to_string()), Ok(value));
            }
        }
    }

    #[test]
    fn nested_values_are_read_back_from_their_serialised_forms((ty, values) in nested()) {
        for value in values {
            let json = serde_json::to_string(&value).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Value>(&json).unwrap(), &value, "{}", ty);
            let json = serde_json::to_value(&value).unwrap();
            prop_assert_eq!(serde_json::from_value::<Value>(json).unwrap(), value);
        }
    }

    /// The text is cut in two, gets a character more, or another one.
    #[test]
    fn a_damaged_text_is_a_value_or_an_error(
        (ty, values) in nested(), cut in any::<prop::sample::Index>(), sign in "[{}()\\[\\],: \"\\\\a1]",
    ) {
        for value in values {
            let chars: Vec<char> = value.to_string().chars().collect();
            let at = cut.index(chars.len() + 1);
            let (start, end) = (chars[..at].iter().collect::<String>(), chars[at..].iter().collect::<String>());
            let without_one = chars[at..].iter().skip(1).collect::<String>();
            let (more, other) = (format!("{start}{sign}{end}"), format!("{start}{sign}{without_one}"));
            for text in [start, end, more, other] {
                if let Ok(value) = Value::parse(&ty, &text) {
                    prop_assert!(value.has_type(&ty), "{} {}", ty, text);
                }
            }
        }
    }

    #[test]
    fn a_value_of_one_type_has_the_order_of_its_number((ty, values) in scalars()) {
        for (left, right) in values.iter().zip(values.iter().skip(1)) {
            if let (Some(a), Some(b), false) = (left.number(), right.number(), ty == Type::Money) {
                prop_assert_eq!(left.cmp(right), a.cmp(&b), "{} {} {}", ty, left, right);
                prop_assert_eq!(Value::of_number(&ty, left.currency(), a), Some(left.clone()));
            }
        }
    }

    #[test]
    fn a_value_is_read_back_from_its_serialised_form((ty, text) in typed_text()) {
        let value = Value::parse(&ty, &text).unwrap();
        let json = serde_json::to_string(&value).unwrap();
        prop_assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), value);
    }

    #[test]
    fn any_text_is_a_value_or_an_error((ty, _) in typed_text(), text in any::<String>()) {
        let (list, map) = (Type::List(ty.clone().into()), Type::Map((ty.clone(), ty.clone()).into()));
        let fields = vec![("a".into(), ty.clone())];
        let record = Type::Record(Arc::new(RecordType::new("R".into(), fields)));
        for ty in [Type::Set(Box::new(ty.clone())), list, map, record, Type::Optional(ty.clone().into()), ty] {
            if let Ok(value) = Value::parse(&ty, &text) {
                prop_assert_eq!(Value::parse(&ty, &value.to_string()), Ok(value));
            }
        }
    }
}

fn list(element: Type) -> Type {
    Type::List(element.into())
}

fn map(key: Type, value: Type) -> Type {
    Type::Map((key, value).into())
}

fn line() -> Type {
    let fields = vec![("product".into(), Type::String), ("quantity".into(), Type::Integer)];
    Type::Record(Arc::new(RecordType::new("Line".into(), fields)))
}

#[test]
fn values_that_hold_others_have_a_text_form() {
    let optional = |ty: Type| Type::Optional(ty.into());
    let variants = ["nonesuch", "dark"].map(Arc::from).to_vec();
    let shades = Type::Enum(Arc::new(Enumeration { name: "Shade".into(), variants }));
    for (ty, name, text) in [
        (list(line()), "List[Line]", r#"[Line(product: "a, b", quantity: 2), Line(product: "", quantity: -1)]"#),
        (list(optional(Type::String)), "List[String?]", r#"["none", none, "\"\\"]"#),
        (list(optional(shades)), "List[Shade?]", "[nonesuch, none, dark]"),
        (optional(list(Type::Integer)), "List[Integer]?", "none"),
        (optional(Type::String), "String?", "none"),
        (map(Type::String, list(Type::Integer)), "Map[String, List[Integer]]", r#"{"": [], "a: b": [1, 2]}"#),
        (map(Type::Time, Type::Time), "Map[Time, Time]", "{00:00: 18:30, 18:30:15.250: 00:00}"),
        (map(Type::Timestamp, Type::Period), "Map[Timestamp, Period]", "{2026-11-21T09:30:00.000Z: 1 year 2 days}"),
        (
            Type::Set(Type::Set(Type::Decimal(1).into()).into()),
            "Set[Set[Decimal(1)]]",
            "{{}, {-1.0, 0.0, 0.1, 10.0}, {0.0}}",
        ),
        (list(Type::MoneyOf("EUR".parse().unwrap())), "List[Money(EUR)]", "[EUR 1.00, EUR -1.00]"),
        (list(Type::Duration), "List[Duration]", "[1 hour, -15 minutes]"),
        (
            list(reference(KeyType::Id)),
            "List[Account]",
            "[0190163d-8694-739b-aea5-966c26f8ad91, 00000000-0000-0000-0000-000000000000]",
        ),
    ] {
        let value = Value::parse(&ty, text).unwrap();
        assert_eq!((ty.to_string().as_str(), value.to_string().as_str()), (name, text));
        assert!(value.has_type(&ty));
    }
}

#[test]
fn blanks_between_the_parts_of_a_value_do_not_matter() {
    let ty = map(Type::Time, list(line()));
    let spaced = "\n{ 18:30 :\t[ Line ( product : \"a\" ,quantity:2 ) ] }  ";
    assert_eq!(Value::parse(&ty, spaced).unwrap().to_string(), r#"{18:30: [Line(product: "a", quantity: 2)]}"#);
    assert_eq!(Value::parse(&map(Type::Integer, Type::Integer), "{1:2,3:4}").unwrap().to_string(), "{1: 2, 3: 4}");
}

#[test]
fn none_alone_is_absence_but_for_a_text() {
    let of = |ty: Type, text: &str| Value::parse(&Type::Optional(ty.into()), text);
    assert_eq!(of(Type::Integer, "none"), Ok(Value::None));
    assert_eq!(of(Type::Integer, "1"), Ok(Value::Integer(1)));
    assert_eq!(of(Type::String, "none"), Ok(Value::String("none".into())));
    assert_eq!(of(reference(KeyType::String), "none"), Ok(Value::None));
    assert_eq!(of(Type::Optional(Type::Integer.into()), "none"), Ok(Value::None));
    assert!(Value::None.has_type(&Type::Optional(Type::Integer.into())) && !Value::None.has_type(&Type::Integer));
    assert!(!Value::String("1".into()).has_type(&Type::Optional(Type::Integer.into())));
}

#[test]
fn a_value_has_the_type_of_all_that_it_holds() {
    let has = |text: &str, ty: &Type, other: &Type| {
        let value = Value::parse(ty, text).unwrap();
        assert!(value.has_type(ty) && !value.has_type(other), "{ty} {other}");
    };
    let renamed = |name: &str, second: Type| {
        let fields = vec![("product".into(), Type::String), ("quantity".into(), second)];
        Type::Record(Arc::new(RecordType::new(name.into(), fields)))
    };
    has("[1]", &list(Type::Integer), &list(Type::Boolean));
    has("{1: 2}", &map(Type::Integer, Type::Integer), &map(Type::Integer, Type::Boolean));
    has("{1: 2}", &map(Type::Integer, Type::Integer), &map(Type::Boolean, Type::Integer));
    has("1.50", &Type::Decimal(2), &Type::Decimal(3));
    has("EUR 1", &Type::MoneyOf("EUR".parse().unwrap()), &Type::MoneyOf("USD".parse().unwrap()));
    let text = r#"Line(product: "p", quantity: 2)"#;
    has(text, &line(), &renamed("Row", Type::Integer));
    has(text, &line(), &renamed("Line", Type::Boolean));
}

#[test]
fn a_collection_is_read_up_to_its_limit() {
    let numbers = |count: usize| (0..count).map(|number| number.to_string()).collect::<Vec<_>>();
    let entries = |count: usize| (0..count).map(|number| format!("{number}: 1")).collect::<Vec<_>>();
    for (ty, open, items, close) in [
        (list(Type::Integer), '[', numbers as fn(usize) -> Vec<String>, ']'),
        (Type::Set(Type::Integer.into()), '{', numbers, '}'),
        (map(Type::Integer, Type::Integer), '{', entries, '}'),
    ] {
        let text = |count: usize| format!("{open}{}{close}", items(count).join(", "));
        assert!(Value::parse(&ty, &text(limits::COLLECTION_MAX)).is_ok(), "{ty}");
        assert_eq!(Value::parse(&ty, &text(limits::COLLECTION_MAX + 1)), Err(ValueError::TooManyElements), "{ty}");
    }
}

#[test]
fn values_nest_up_to_their_limit() {
    let nested = |depth: usize, open: &str, close: &str, wrap: fn(Type) -> Type| {
        let ty = (0..depth).fold(Type::Integer, |ty, _| wrap(ty));
        Value::parse(&ty, &format!("{}1{}", open.repeat(depth), close.repeat(depth)))
    };
    let pair = |ty| Type::Record(Arc::new(RecordType::new("R".into(), vec![("a".into(), ty)])));
    let (set, entry) = (|ty: Type| Type::Set(ty.into()), |ty| map(Type::Integer, ty));
    for (open, close, wrap) in
        [("[", "]", list as fn(Type) -> Type), ("{", "}", set), ("{1: ", "}", entry), ("R(a: ", ")", pair)]
    {
        assert!(nested(limits::DEPTH_MAX, open, close, wrap).is_ok());
        assert_eq!(nested(limits::DEPTH_MAX + 1, open, close, wrap), Err(ValueError::TooDeep));
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
        (Type::Set(Type::String.into()), "{a}", "`a` is no quoted text; write it like `\"a\"`"),
        (Type::Decimal(2), "1,5", "`1,5` is no Decimal; write it like `12.50`"),
        (Type::Decimal(2), "1.505", "Decimal(2) has at most 2 decimals, not 3"),
        (Type::Decimal(2), "10000000000000000000000000000000000.01", "outside the range of Decimal"),
        (Type::Time, "24:00", "`24:00` is no Time; write it like `18:30`"),
        (Type::Duration, "1 day", "`1 day` is no Duration; write it like `36 hours`"),
        (Type::Period, "1 hour", "`1 hour` is no Period; write it like `1 year 2 months 3 days`"),
        (Type::Id, "1", "`1` is no Id"),
        (Type::MoneyOf("EUR".parse().unwrap()), "USD 1", "the amount is in USD; give it in EUR"),
        (Type::Optional(Type::Integer.into()), "null", "`null` is no Integer"),
        (list(Type::Integer), "{1}", "`{1}` is no List; write it like `[a, b]`"),
        (list(Type::Integer), "[1] 2", "is no List"),
        (list(Type::Integer), "[none]", "`none` is no Integer"),
        (list(list(Type::Integer)), "[[1], [2, ]]", "`[2, ]]` is no List"),
        (map(Type::Integer, Type::Boolean), "{1 true}", "`1 true` is no Integer"),
        (map(Type::Integer, Type::Boolean), "{1}", "`{1}` is no Map; write it like `{a: b, c: d}`"),
        (map(Type::Integer, Type::Boolean), "{1: true, 1: true}", "the key `1` stands twice"),
        (line(), "Line(product: \"p\")", "is no Line; write it like `Line(product: .., quantity: ..)`"),
        (line(), "Line(product: p, quantity: 2)", "`p` is no quoted text"),
        (line(), "Line(quantity: 2, product: \"p\")", "is no Line"),
    ];
    for (ty, text, part) in table {
        let error = Value::parse(ty, text).unwrap_err().to_string();
        assert!(error.contains(part), "{ty} {text}: {error}");
    }
}

#[test]
fn an_error_shows_no_more_than_the_beginning_of_a_long_text() {
    let long = "é".repeat(100_000);
    for ty in [
        Type::Integer,
        Type::Money,
        Type::Currency,
        Type::Iban,
        Type::Date,
        colours(),
        Type::Decimal(3),
        Type::Period,
        Type::Id,
        list(Type::String),
        line(),
    ] {
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
    for stored in [
        r#"{"Decimal":"12.50"}"#,
        r#"{"Time":"18:30"}"#,
        r#"{"Duration":"36 hours"}"#,
        r#"{"Period":"1 year 2 days"}"#,
        r#"{"Id":"0190163d-8694-739b-aea5-966c26f8ad91"}"#,
        r#""None""#,
        r#"{"List":[{"Integer":2},{"Integer":1}]}"#,
        r#"{"Map":[[{"String":"a"},{"Integer":1}],[{"String":"b"},{"List":[]}]]}"#,
        r#"{"Record":{"of":"Line","fields":[["product",{"String":"p"}],["count",{"Integer":2}]]}}"#,
        r#"{"Reference":{"class":"A","key":{"Id":"0190163d-8694-739b-aea5-966c26f8ad91"}}}"#,
    ] {
        let value: Value = serde_json::from_str(stored).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), stored);
    }
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
        r#"{"Decimal":"0.0000000000000000001"}"#,
        r#"{"Time":"24:00"}"#,
        r#"{"Map":[[{"Integer":1},{"Integer":1}],[{"Integer":1},{"Integer":2}]]}"#,
        r#"{"Record":{"of":"Line","fields":[],"more":1}}"#,
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
