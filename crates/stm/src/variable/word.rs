//! What fits into one word and is stored in place.

mod sealed {
    pub trait Sealed {}
}

/// A small `Copy` value that a [`TCell`](crate::TCell) stores inline: integers and floats of at most 64 bits, `bool`
/// and `char`.
///
/// Sealed, because a type with padding could not be copied through an atomic word.
pub trait Word: sealed::Sealed + Copy + Send + Sync + 'static {
    #[doc(hidden)]
    fn into_bits(self) -> u64;
    #[doc(hidden)]
    fn from_bits(bits: u64) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl sealed::Sealed for $type {}
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
        impl sealed::Sealed for $type {}
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

impl sealed::Sealed for bool {}
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

impl sealed::Sealed for char {}
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
