//! Ids that nobody has chosen: they follow from the seed of a step and the place where one is asked for.
//!
//! The seed of a called event follows from that of its caller and the place of the call among all that the caller makes. So
//! every event of a step has a seed of its own, the same at each participant and in each replay.

use sha2::{Digest, Sha256};

use crate::value::Id;

/// What an id is made for.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The key of an instance that an event names.
    Key = 0,
    /// The seed of an event that is called.
    Call = 1,
}

/// The id number `number` that follows from `seed`, in the form of a UUID of version 8.
pub(crate) fn derived(seed: Id, purpose: Purpose, number: usize) -> Id {
    let mut digest = Sha256::new();
    digest.update(seed.as_u128().to_be_bytes());
    digest.update([purpose as u8]);
    digest.update((number as u64).to_be_bytes());
    let digest: [u8; 32] = digest.finalize().into();
    let bits = u128::from_be_bytes(*digest.first_chunk().expect("half of it"));
    let (version, variant) = (0xf << 76, 0b11 << 62);
    Id::from_u128(bits & !version & !variant | 8 << 76 | 0b10 << 62)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_the_same_on_every_machine_and_differ_by_purpose_and_number() {
        let seed = Id::from_u128(1);
        // printf '%032x%02x%016x' 1 0 0 | xxd -r -p | sha256sum, with version and variant of a UUID.
        assert_eq!(derived(seed, Purpose::Key, 0).to_string(), "1bc7b22c-dbb4-867b-a30a-e278bfc6002e");
        let mut seen = std::collections::BTreeSet::new();
        for number in 0..100 {
            for seed in [seed, Id::from_u128(2)] {
                assert!(seen.insert(derived(seed, Purpose::Key, number)));
                assert!(seen.insert(derived(seed, Purpose::Call, number)));
            }
        }
    }
}
