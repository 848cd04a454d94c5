use std::collections::BTreeMap;
use std::fmt::{self, Display};

use proptest::prelude::*;

use super::*;

fn written(value: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.serialize(Writer::new(&mut bytes)).expect("it can be written");
    bytes
}

fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let mut reader = Reader::new(bytes);
    let value = T::deserialize(&mut reader).map_err(|why| why.to_string())?;
    reader.end().map_err(|why| why.to_string())?;
    Ok(value)
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Older {
    first: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second: Option<u8>,
    third: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newer {
    first: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    second: Option<u8>,
    third: u8,
    #[serde(default)]
    fourth: u8,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Nest {
    Leaf,
    Of(Box<Nest>),
    Two(u64, String),
    Named { left: Vec<Nest>, right: BTreeMap<String, i64> },
}

fn nest() -> impl Strategy<Value = Nest> {
    let leaf = prop_oneof![Just(Nest::Leaf), (any::<u64>(), any::<String>()).prop_map(|(n, text)| Nest::Two(n, text))];
    leaf.prop_recursive(4, 32, 4, |inner| {
        let map = prop::collection::btree_map(any::<String>(), any::<i64>(), 0..3);
        prop_oneof![
            inner.clone().prop_map(|of| Nest::Of(of.into())),
            (prop::collection::vec(inner, 0..4), map).prop_map(|(left, right)| Nest::Named { left, right }),
        ]
    })
}

proptest! {
    #[test]
    fn numbers_come_back(plain: (u8, u16, u32, u64, u128), signed: (i8, i16, i32, i64, i128), sign: char, half: f64) {
        prop_assert_eq!(read(&written(&plain)), Ok(plain));
        prop_assert_eq!(read(&written(&signed)), Ok(signed));
        prop_assert_eq!(read(&written(&sign)), Ok(sign));
        prop_assert_eq!(read::<f64>(&written(&half)).map(f64::to_bits), Ok(half.to_bits()));
    }

    #[test]
    fn values_come_back_from_their_bytes_and_from_no_part_of_them(nest in nest()) {
        let bytes = written(&nest);
        prop_assert_eq!(read(&bytes), Ok(nest));
        for cut in 0..bytes.len() {
            prop_assert!(read::<Nest>(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_a_value_or_none(bytes: Vec<u8>) {
        drop(read::<Nest>(&bytes));
        drop(read::<Record<String>>(&bytes));
    }
}

#[test]
fn the_ends_of_all_numbers_come_back() {
    let ends = (u128::MAX, i128::MIN, i128::MAX, u64::MAX, i64::MIN, i8::MIN);
    assert_eq!(read(&written(&ends)), Ok(ends));
    assert_eq!(written(&(0_i64, -1_i64, 1_i64, 63_i64, -64_i64)), [0, 1, 2, 126, 127]);
}

#[test]
fn a_field_that_is_not_there_gets_its_default_and_one_that_is_not_known_is_refused() {
    for second in [None, Some(7)] {
        let (older, newer) = (Older { first: 1, second, third: 3 }, Newer { first: 1, second, third: 3, fourth: 4 });
        assert_eq!(read(&written(&older)), Ok(older.clone()));
        assert_eq!(read(&written(&older)), Ok(Newer { fourth: 0, ..newer.clone() }));
        assert_eq!(read(&written(&newer)), Ok(newer.clone()));
        assert!(read::<Older>(&written(&newer)).is_err_and(|why| why.contains("does not know")));
    }
    // Nothing but what has a default may be missing.
    assert!(read::<Older>(&[0b011, 1, 0]).is_err());
}

#[test]
fn a_struct_of_many_fields_comes_back() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Many {
        a: u8,
        b: u8,
        c: u8,
        d: u8,
        e: u8,
        f: u8,
        g: u8,
        h: Vec<u8>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        i: Option<u8>,
        j: u8,
    }
    for i in [None, Some(9)] {
        let many = Many { a: 1, b: 2, c: 3, d: 4, e: 5, f: 6, g: 7, h: vec![8; 300], i, j: 10 };
        assert_eq!(read(&written(&many)), Ok(many));
    }
}

#[test]
fn a_text_that_is_written_in_place_is_the_same_as_one_that_is_there() {
    struct Shown<'a>(&'a str);
    impl Display for Shown<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.chars().try_for_each(|sign| write!(f, "{sign}"))
        }
    }
    impl Serialize for Shown<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }
    for len in [0, 1, 127, 128, 129, 20_000] {
        let text = "x".repeat(len);
        assert_eq!(written(&(Shown(&text), 5_u8)), written(&(text.as_str(), 5_u8)), "{len}");
    }
}

#[test]
fn what_cannot_be_there_is_refused_before_there_is_room_for_it() {
    let far_too_long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1];
    assert!(read::<Vec<u64>>(&far_too_long).is_err());
    assert!(read::<BTreeMap<u8, u8>>(&far_too_long).is_err());
    assert!(read::<String>(&far_too_long).is_err());
    assert!(read::<Vec<()>>(&[100]).is_err());
    assert!(read::<u128>(&[0xff; 30]).is_err());
    assert!(read::<u8>(&[1, 2]).is_err_and(|why| why.contains("left")));
    assert!(read::<bool>(&[2]).is_err());
    assert!(read::<u16>(&written(&70_000_u32)).is_err());
    assert!(read::<i16>(&written(&70_000_i32)).is_err());
}

#[test]
fn values_that_nest_deeper_than_any_record_are_refused() {
    let nested = |depth| [vec![1; depth], vec![0]].concat();
    assert!(read::<Nest>(&nested(300)).is_ok());
    assert!(read::<Nest>(&nested(1_000_000)).is_err_and(|why| why.contains("too deep")));
}
