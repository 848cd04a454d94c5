//! Serialised form of the values that have a text form of their own: that text, checked when it is read. In a form that is not for
//! people, some are numbers.

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

as_text!(Currency, Decimal, Duration, Iban, Percentage, Period, Time);

macro_rules! as_text_or {
    ($($ty:ty as $plain:ty: $of:expr, $from:expr;)*) => {$(
        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let of: fn(Self) -> $plain = $of;
                if serializer.is_human_readable() { serializer.collect_str(self) } else { of(*self).serialize(serializer) }
            }
        }

        impl<'de> Deserialize<'de> for $ty {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                if deserializer.is_human_readable() {
                    return deserializer.deserialize_str(Text(PhantomData));
                }
                let from: fn($plain) -> Option<Self> = $from;
                from(<$plain>::deserialize(deserializer)?).ok_or_else(|| D::Error::custom("no such value"))
            }
        }
    )*};
}

as_text_or! {
    Date as i64: Date::days, Date::from_days;
    Id as [u8; 16]: |id| id.as_u128().to_be_bytes(), |bytes| Some(Id::from_u128(u128::from_be_bytes(bytes)));
    Money as ([u8; 3], i128): |money| (money.currency().letters(), money.minor()), |(letters, minor)| {
        Money::new(Currency::of_letters(letters)?, minor)
    };
    Timestamp as i64: Timestamp::millis, |millis| Some(Timestamp::from_millis(millis));
}
