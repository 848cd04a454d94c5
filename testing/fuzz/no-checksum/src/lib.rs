//! A checksum that fits everything, so that a fuzzer gets to what lies behind one.
#![forbid(unsafe_code)]

/// The checksum of all bytes.
pub fn crc32c(_: &[u8]) -> u32 {
    0
}

/// The checksum of all bytes.
pub fn crc32c_append(_: u32, _: &[u8]) -> u32 {
    0
}
