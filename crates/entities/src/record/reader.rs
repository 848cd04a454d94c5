//! The values that [`Writer`](super::writer::Writer) writes.

use std::fmt::Display;

use enact_rebel::limits;
use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error as _, IntoDeserializer, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;

use super::writer::FIELDS_MAX;

/// How deep enums nest, through which every value that holds others of its kind does: a value of the language, in a record.
const ENUMS_MAX: usize = limits::DEPTH_MAX + 64;

/// Why bytes are no value.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct ReadError(String);

impl serde::de::Error for ReadError {
    fn custom<T: Display>(why: T) -> Self {
        Self(why.to_string())
    }
}

type Read<T> = Result<T, ReadError>;

/// Takes values from the front of some bytes.
pub(super) struct Reader<'de> {
    rest: &'de [u8],
    enums: usize,
}

impl<'de> Reader<'de> {
    pub(super) const fn new(bytes: &'de [u8]) -> Self {
        Self { rest: bytes, enums: 0 }
    }

    /// That nothing is left.
    pub(super) fn end(self) -> Read<()> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(ReadError::custom(format_args!("{left} bytes are left"))),
        }
    }

    fn take(&mut self, count: usize) -> Read<&'de [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or_else(|| ReadError::custom("bytes are missing"))?;
        self.rest = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Read<u8> {
        Ok(self.take(1)?[0])
    }

    fn number(&mut self) -> Read<u128> {
        let mut number = 0;
        for shift in (0..u128::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u128::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(ReadError::custom("a number has more than 128 bits"))
    }

    fn number_of<T: TryFrom<u128>>(&mut self) -> Read<T> {
        T::try_from(self.number()?).map_err(|_| ReadError::custom("a number is too large"))
    }

    fn signed(&mut self) -> Read<i128> {
        let number = self.number()?;
        Ok((number >> 1) as i128 ^ -((number & 1) as i128))
    }

    fn signed_of<T: TryFrom<i128>>(&mut self) -> Read<T> {
        T::try_from(self.signed()?).map_err(|_| ReadError::custom("a number is too large"))
    }

    fn truth(&mut self) -> Read<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(ReadError::custom(format_args!("{other} is no truth value"))),
        }
    }

    fn run(&mut self) -> Read<&'de [u8]> {
        let len = self.number_of()?;
        self.take(len)
    }

    fn text(&mut self) -> Read<&'de str> {
        std::str::from_utf8(self.run()?).map_err(ReadError::custom)
    }

    /// How many elements follow, each of which takes a byte at least.
    fn count(&mut self) -> Read<usize> {
        let count = self.number_of()?;
        if count <= self.rest.len() { Ok(count) } else { Err(ReadError::custom("elements are missing")) }
    }

    fn fields<V: Visitor<'de>>(&mut self, names: &[&str], visitor: V) -> Read<V::Value> {
        let present = self.number()?;
        let count = names.len() as u32;
        if count > FIELDS_MAX || present.checked_shr(count).unwrap_or(0) != 0 {
            return Err(ReadError::custom("a struct has a field that this program does not know"));
        }
        visitor.visit_seq(Fields { reader: self, present, left: count })
    }
}

/// The fields of a struct; one that is not there is the end of the sequence for once, and gets its default.
struct Fields<'r, 'de> {
    reader: &'r mut Reader<'de>,
    present: u128,
    left: u32,
}

impl<'de> SeqAccess<'de> for Fields<'_, 'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        let is_present = self.left > 0 && self.present & 1 == 1;
        (self.present, self.left) = (self.present >> 1, self.left.saturating_sub(1));
        if is_present { seed.deserialize(&mut *self.reader).map(Some) } else { Ok(None) }
    }
}

/// A known number of values, or of keys with values.
struct Several<'r, 'de> {
    reader: &'r mut Reader<'de>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Several<'_, 'de> {
    type Error = ReadError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Read<Option<T::Value>> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

impl<'de> MapAccess<'de> for Several<'_, 'de> {
    type Error = ReadError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Read<Option<K::Value>> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Read<V::Value> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left)
    }
}

/// What follows the number of a variant.
struct Variant<'r, 'de>(&'r mut Reader<'de>);

impl<'de> EnumAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Read<(V::Value, Self)> {
        let number: U32Deserializer<ReadError> = self.0.number_of::<u32>()?.into_deserializer();
        Ok((seed.deserialize(number)?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = ReadError;

    fn unit_variant(self) -> Read<()> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Read<T::Value> {
        seed.deserialize(self.0)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Several { reader: self.0, left: len })
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: &'static [&'static str], visitor: V) -> Read<V::Value> {
        self.0.fields(fields, visitor)
    }
}

macro_rules! plain {
    ($($deserialize:ident: $visit:ident = $read:expr),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
            let read: fn(&mut Reader<'de>) -> Read<_> = $read;
            visitor.$visit(read(self)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = ReadError;

    plain! {
        deserialize_bool: visit_bool = Reader::truth,
        deserialize_i8: visit_i8 = Reader::signed_of,
        deserialize_i16: visit_i16 = Reader::signed_of,
        deserialize_i32: visit_i32 = Reader::signed_of,
        deserialize_i64: visit_i64 = Reader::signed_of,
        deserialize_i128: visit_i128 = Reader::signed,
        deserialize_u8: visit_u8 = Reader::byte,
        deserialize_u16: visit_u16 = Reader::number_of,
        deserialize_u32: visit_u32 = Reader::number_of,
        deserialize_u64: visit_u64 = Reader::number_of,
        deserialize_u128: visit_u128 = Reader::number,
        deserialize_f64: visit_f64 = |reader| {
            Ok(f64::from_le_bytes(reader.take(8)?.try_into().map_err(ReadError::custom)?))
        },
        deserialize_char: visit_char = |reader| {
            char::from_u32(reader.number_of()?).ok_or_else(|| ReadError::custom("a number is no character"))
        },
        deserialize_str: visit_borrowed_str = Reader::text,
        deserialize_string: visit_borrowed_str = Reader::text,
        deserialize_bytes: visit_borrowed_bytes = Reader::run,
        deserialize_byte_buf: visit_borrowed_bytes = Reader::run,
    }

    fn is_human_readable(&self) -> bool {
        false
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        if self.truth()? { visitor.visit_some(self) } else { visitor.visit_none() }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Read<V::Value> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.count()?;
        visitor.visit_seq(Several { reader: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, left: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Several { reader: self, left })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, left: usize, visitor: V) -> Read<V::Value> {
        visitor.visit_seq(Several { reader: self, left })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Read<V::Value> {
        let left = self.count()?;
        visitor.visit_map(Several { reader: self, left })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        self.fields(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Read<V::Value> {
        if self.enums == ENUMS_MAX {
            return Err(ReadError::custom("values nest too deep"));
        }
        self.enums += 1;
        let value = visitor.visit_enum(Variant(self))?;
        self.enums -= 1;
        Ok(value)
    }

    /// Nothing says what a value is but the type that is asked for.
    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Read<V::Value> {
        Err(ReadError::custom("a value of any type was asked for"))
    }

    forward_to_deserialize_any! { identifier ignored_any }
}
