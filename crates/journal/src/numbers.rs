//! Numbers as files have them: little-endian.

use crate::damage::Flaw;

/// Greatest position or number of records that a file may name. No log gets there, and sums of two do not overflow.
const COUNTED_MAX: u64 = 1 << 62;

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// A position, sequence number or count at `at`.
pub(crate) fn counted_at(bytes: &[u8], at: usize) -> Result<u64, Flaw> {
    let counted = u64_at(bytes, at);
    if counted <= COUNTED_MAX { Ok(counted) } else { Err(Flaw::Malformed) }
}
