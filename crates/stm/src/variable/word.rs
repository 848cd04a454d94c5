//! What fits into one word and is stored in place.

/// A small `Copy` value that a [`TCell`](crate::TCell) stores inline: integers and floats of at most 64 bits, `bool`,
/// `char`, and newtypes of these by `#[derive(Word)]`.
///
/// The derive is for a struct with one field, which is a `Word`. Anything else that packs into 64 bits implements the
/// trait by hand. The law: `from_bits(value.into_bits())` is `value`.
///
/// # Example
/// ```
/// use enact_stm::{TCell, Word, atomically};
/// #[derive(Debug, Clone, Copy, PartialEq, Word)]
/// struct Cents(i64);
/// let price = TCell::new(Cents(250));
/// atomically(|tx| tx.update(&price, |price| Cents(price.0 * 2))).run();
/// assert_eq!(price.into_inner(), Cents(500));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not fit into a `TCell`",
    label = "not a number, a `bool`, a `char` or a newtype of one",
    note = "a `TVar<{Self}>` holds any value",
    note = "a `Copy` struct around one number, `bool` or `char` fits with `#[derive(Word)]`"
)]
pub trait Word: Copy + Send + Sync + 'static {
    /// The value as bits. A pure function.
    fn into_bits(self) -> u64;
    /// The value that [`into_bits`](Self::into_bits) has made `bits` of. A pure function.
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Word for $type {
            #[inline]
            fn into_bits(self) -> u64 {
                self as u64
            }
            #[inline]
            fn from_bits(bits: u64) -> Self {
                bits as $type
            }
        }
    )*};
}

integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

macro_rules! floats {
    ($($type:ty as $bits:ty),*) => {$(
        impl Word for $type {
            #[inline]
            fn into_bits(self) -> u64 {
                u64::from(self.to_bits())
            }
            #[inline]
            fn from_bits(bits: u64) -> Self {
                <$type>::from_bits(bits as $bits)
            }
        }
    )*};
}

floats!(f32 as u32, f64 as u64);

impl Word for bool {
    #[inline]
    fn into_bits(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        bits != 0
    }
}

impl Word for char {
    #[inline]
    fn into_bits(self) -> u64 {
        u64::from(self)
    }
    #[inline]
    fn from_bits(bits: u64) -> Self {
        char::from_u32(bits as u32).expect("the bits were made from a char")
    }
}
