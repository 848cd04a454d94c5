//! Identities that nobody has chosen.
//!
//! They are the first 128 bits of the SHA-256 digest of the seed (16 bytes), a byte that says what for (0 for an identity, 1 for the
//! seed of a call), and a number (8 bytes), the most significant byte first, marked as a UUID of version 8.

use enact_rebel::Id;
use sha2::{Digest, Sha256};

/// The identity of the fresh instance that is the value number `number` of an event.
pub(crate) fn identity(seed: Id, number: usize) -> Id {
    derived(seed, 0, number)
}

/// The seed of the call number `number` of an event.
pub(crate) fn of_call(seed: Id, number: usize) -> Id {
    derived(seed, 1, number)
}

fn derived(seed: Id, purpose: u8, number: usize) -> Id {
    let mut input = seed.as_u128().to_be_bytes().to_vec();
    input.push(purpose);
    input.extend((number as u64).to_be_bytes());
    let mut bytes: [u8; 16] = Sha256::digest(input)[..16].try_into().expect("half of a digest");
    bytes[6] = 0x80 | bytes[6] & 0x0f;
    bytes[8] = 0x80 | bytes[8] & 0x3f;
    Id::from_u128(u128::from_be_bytes(bytes))
}
