//! Serialised form of the values that have a text form of their own: that text, checked when it is read.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Currency, Date, Decimal, Duration, Iban, Id, Money, Percentage, Period, Time, Timestamp, ValueError};

struct Text<T>(PhantomData<T>);

impl<T: FromStr<Err = ValueError>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the text form of a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

macro_rules! as_text {
    ($($ty:ty),*) => {$(
        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_str(Text(PhantomData))
            }
        }
    )*};
}

as_text!(Currency, Date, Decimal, Duration, Iban, Id, Money, Percentage, Period, Time, Timestamp);
