//! Values of the data model of serde, as bytes without names.

use std::fmt::{self, Display, Write as _};

use serde::ser::{
    Error as _, Serialize, SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};

/// How many fields a struct may have: as many as a number has bits.
pub(super) const FIELDS_MAX: u32 = u128::BITS;

/// Why a value is not written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct WriteError(String);

impl serde::ser::Error for WriteError {
    fn custom<T: Display>(why: T) -> Self {
        Self(why.to_string())
    }
}

type Written = Result<(), WriteError>;

/// Appends values to some bytes.
pub(super) struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(bytes: &'a mut Vec<u8>) -> Self {
        Self { bytes }
    }

    /// Seven bits a byte, the lowest first; all bytes but the last have the highest bit.
    fn number(&mut self, mut number: u128) -> Written {
        while number >= 0x80 {
            self.bytes.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.bytes.push(number as u8);
        Ok(())
    }

    /// The numbers 0, -1, 1, -2 .. as 0, 1, 2, 3 ..
    fn signed(&mut self, number: i128) -> Written {
        self.number(((number << 1) ^ (number >> 127)) as u128)
    }

    fn run(&mut self, bytes: &[u8]) -> Written {
        self.number(bytes.len() as u128)?;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn several(self, len: Option<usize>) -> Result<Self, WriteError> {
        let len = len.ok_or_else(|| WriteError::custom("a sequence does not say how long it is"))?;
        let mut writer = self;
        writer.number(len as u128)?;
        Ok(writer)
    }

    /// Room for a number that is mostly less than 128, and where it is.
    fn room(&mut self) -> usize {
        self.bytes.push(0);
        self.bytes.len() - 1
    }

    /// Puts a number where room was made for it. What is behind it is moved only if the number is not less than 128.
    fn fill(&mut self, at: usize, number: u128) -> Written {
        if number < 0x80 {
            self.bytes[at] = number as u8;
            return Ok(());
        }
        let behind = self.bytes.split_off(at);
        self.number(number)?;
        self.bytes.extend_from_slice(&behind[1..]);
        Ok(())
    }

    fn fields(mut self) -> Fields<'a> {
        let at = self.room();
        Fields { writer: self, at, present: 0, next: 0 }
    }

    fn again(&mut self) -> Writer<'_> {
        Writer { bytes: self.bytes }
    }
}

/// The fields of a struct, behind a number that has a bit for each of those that are there.
pub(super) struct Fields<'a> {
    writer: Writer<'a>,
    at: usize,
    present: u128,
    next: u32,
}

impl Fields<'_> {
    fn field<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
        self.present |= 1_u128.checked_shl(self.next).unwrap_or(0);
        self.skip()?;
        value.serialize(self.writer.again())
    }

    fn skip(&mut self) -> Written {
        self.next += 1;
        if self.next <= FIELDS_MAX { Ok(()) } else { Err(WriteError::custom("a struct has too many fields")) }
    }

    fn end(mut self) -> Written {
        self.writer.fill(self.at, self.present)
    }
}

impl<'a> Serializer for Writer<'a> {
    type Ok = ();
    type Error = WriteError;
    type SerializeSeq = Self;
    type SerializeTuple = Self;
    type SerializeTupleStruct = Self;
    type SerializeTupleVariant = Self;
    type SerializeMap = Self;
    type SerializeStruct = Fields<'a>;
    type SerializeStructVariant = Fields<'a>;

    fn is_human_readable(&self) -> bool {
        false
    }

    fn serialize_bool(self, truth: bool) -> Written {
        self.bytes.push(u8::from(truth));
        Ok(())
    }

    fn serialize_i8(self, number: i8) -> Written {
        self.serialize_i128(number.into())
    }

    fn serialize_i16(self, number: i16) -> Written {
        self.serialize_i128(number.into())
    }

    fn serialize_i32(self, number: i32) -> Written {
        self.serialize_i128(number.into())
    }

    fn serialize_i64(self, number: i64) -> Written {
        self.serialize_i128(number.into())
    }

    fn serialize_i128(mut self, number: i128) -> Written {
        self.signed(number)
    }

    fn serialize_u8(self, number: u8) -> Written {
        self.bytes.push(number);
        Ok(())
    }

    fn serialize_u16(self, number: u16) -> Written {
        self.serialize_u128(number.into())
    }

    fn serialize_u32(self, number: u32) -> Written {
        self.serialize_u128(number.into())
    }

    fn serialize_u64(self, number: u64) -> Written {
        self.serialize_u128(number.into())
    }

    fn serialize_u128(mut self, number: u128) -> Written {
        self.number(number)
    }

    fn serialize_f32(self, number: f32) -> Written {
        self.serialize_f64(number.into())
    }

    fn serialize_f64(self, number: f64) -> Written {
        self.bytes.extend_from_slice(&number.to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, sign: char) -> Written {
        self.serialize_u32(sign.into())
    }

    fn serialize_str(mut self, text: &str) -> Written {
        self.run(text.as_bytes())
    }

    fn serialize_bytes(mut self, bytes: &[u8]) -> Written {
        self.run(bytes)
    }

    fn serialize_none(self) -> Written {
        self.serialize_bool(false)
    }

    fn serialize_some<T: ?Sized + Serialize>(self, value: &T) -> Written {
        self.bytes.push(1);
        value.serialize(self)
    }

    fn serialize_unit(self) -> Written {
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Written {
        Ok(())
    }

    fn serialize_unit_variant(self, _: &'static str, variant: u32, _: &'static str) -> Written {
        self.serialize_u32(variant)
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(self, _: &'static str, value: &T) -> Written {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        mut self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        value: &T,
    ) -> Written {
        self.number(variant.into())?;
        value.serialize(self)
    }

    fn serialize_seq(self, len: Option<usize>) -> Result<Self, WriteError> {
        self.several(len)
    }

    fn serialize_tuple(self, _: usize) -> Result<Self, WriteError> {
        Ok(self)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Self, WriteError> {
        Ok(self)
    }

    fn serialize_tuple_variant(
        mut self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Self, WriteError> {
        self.number(variant.into())?;
        Ok(self)
    }

    fn serialize_map(self, len: Option<usize>) -> Result<Self, WriteError> {
        self.several(len)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Fields<'a>, WriteError> {
        Ok(self.fields())
    }

    fn serialize_struct_variant(
        mut self,
        _: &'static str,
        variant: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Fields<'a>, WriteError> {
        self.number(variant.into())?;
        Ok(self.fields())
    }

    fn collect_str<T: ?Sized + Display>(mut self, value: &T) -> Written {
        struct Text<'a>(&'a mut Vec<u8>);

        impl fmt::Write for Text<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }

        let at = self.room();
        write!(Text(self.bytes), "{value}").map_err(WriteError::custom)?;
        self.fill(at, (self.bytes.len() - at - 1) as u128)
    }
}

macro_rules! one_after_another {
    ($($of:ident: $element:ident),*) => {$(
        impl $of for Writer<'_> {
            type Ok = ();
            type Error = WriteError;

            fn $element<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
                value.serialize(self.again())
            }

            fn end(self) -> Written {
                Ok(())
            }
        }
    )*};
}

one_after_another!(
    SerializeSeq: serialize_element,
    SerializeTuple: serialize_element,
    SerializeTupleStruct: serialize_field,
    SerializeTupleVariant: serialize_field
);

impl SerializeMap for Writer<'_> {
    type Ok = ();
    type Error = WriteError;

    fn serialize_key<T: ?Sized + Serialize>(&mut self, key: &T) -> Written {
        key.serialize(self.again())
    }

    fn serialize_value<T: ?Sized + Serialize>(&mut self, value: &T) -> Written {
        value.serialize(self.again())
    }

    fn end(self) -> Written {
        Ok(())
    }
}

macro_rules! fields_of {
    ($($of:ident),*) => {$(
        impl $of for Fields<'_> {
            type Ok = ();
            type Error = WriteError;

            fn serialize_field<T: ?Sized + Serialize>(&mut self, _: &'static str, value: &T) -> Written {
                self.field(value)
            }

            fn skip_field(&mut self, _: &'static str) -> Written {
                self.skip()
            }

            fn end(self) -> Written {
                Fields::end(self)
            }
        }
    )*};
}

fields_of!(SerializeStruct, SerializeStructVariant);
