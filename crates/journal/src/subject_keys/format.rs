//! The bytes of the file: a header, two marks, and slots of keys. Numbers are little-endian, checksums are CRC32C.
//!
//! | header | | mark | | slot | |
//! |---|---|---|---|---|---|
//! | 0 | magic | 0 | checksum of the rest | 0 | checksum of the identity |
//! | 8 | version | 4 | place behind the durable slots | 4 | generation |
//! | 12 | checksum of all else | 8 | store id | 8 | digest of the subject |
//! | 16 | store id | | | 24 | state |
//! | 32 | secret of the digests | | | 28 | key |
//! | | | | | 60 | checksum of identity and key |
//!
//! The header and each mark fill a sector with zeros. Both checksums of a slot also cover the store id and the place, so that a
//! slot counts nowhere else. The state is covered by none: each of its bytes is the same, and changes on its own.

use std::num::NonZeroU32;

use zeroize::Zeroizing;

use crate::numbers::{u16_at, u32_at};

const MAGIC: [u8; 8] = *b"ENACTSUB";
pub(super) const VERSION: u16 = 1;
const SECTOR: usize = 512;
pub(super) const HEADER_LEN: usize = SECTOR;
pub(super) const MARK_LEN: usize = SECTOR;
pub(super) const SLOT_LEN: usize = 64;
/// Where the state of a slot is, its key with the checksum, and the checksum alone.
pub(super) const STATE_AT: usize = 24;
pub(super) const KEY_AT: usize = STATE_AT + STATE_LEN;
const KEY_SUM_AT: usize = KEY_AT + KEY_LEN;

pub(super) const KEY_LEN: usize = 32;
pub(super) const STATE_LEN: usize = 4;
/// A key and its checksum, which is as good as four bytes of the key.
pub(super) const SECRET_LEN: usize = SLOT_LEN - KEY_AT;

pub(super) type StoreId = [u8; 16];
/// What tells a subject from others, and does not say who it is without the secret of the store.
pub(super) type Digest = [u8; 16];
pub(super) type Key = Zeroizing<[u8; KEY_LEN]>;

/// The place of a slot, in slots from the beginning of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(NonZeroU32);

impl Place {
    /// The place of the first slot.
    pub(super) const FIRST: Self = Self(NonZeroU32::new(((HEADER_LEN + 2 * MARK_LEN) / SLOT_LEN) as u32).unwrap());

    /// The place that is `count` slots behind this one, if files get so long.
    pub(super) fn after(self, count: usize) -> Option<Self> {
        let count = u32::try_from(count).ok()?;
        self.0.checked_add(count).map(Self)
    }

    /// Where it is in the file.
    pub(super) fn offset(self) -> u64 {
        u64::from(self.0.get()) * SLOT_LEN as u64
    }
}

/// What the file says of itself at its beginning.
pub(super) struct Header {
    pub(super) store: StoreId,
    pub(super) secret: Zeroizing<[u8; 32]>,
}

/// Why a header is none.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HeaderFlaw {
    Damaged,
    Version(u16),
}

impl Header {
    pub(super) fn encode(&self) -> Zeroizing<[u8; HEADER_LEN]> {
        let mut bytes = Zeroizing::new([0; HEADER_LEN]);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.store);
        bytes[32..64].copy_from_slice(&*self.secret);
        let sum = header_sum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Self, HeaderFlaw> {
        if bytes[..8] != MAGIC {
            return Err(HeaderFlaw::Damaged);
        }
        let version = u16_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderFlaw::Version(version));
        }
        if u32_at(bytes, 12) != header_sum(bytes) {
            return Err(HeaderFlaw::Damaged);
        }
        let secret = Zeroizing::new(std::array::from_fn(|at| bytes[32 + at]));
        Ok(Self { store: std::array::from_fn(|at| bytes[16 + at]), secret })
    }
}

fn header_sum(bytes: &[u8; HEADER_LEN]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&bytes[..12]), &bytes[16..])
}

/// Where mark `which`, 0 or 1, is in the file.
pub(super) fn mark_offset(which: usize) -> u64 {
    (HEADER_LEN + which * MARK_LEN) as u64
}

/// A mark that says that all slots before `end` are durable.
pub(super) fn encode_mark(store: StoreId, end: Place) -> [u8; MARK_LEN] {
    let mut bytes = [0; MARK_LEN];
    bytes[4..8].copy_from_slice(&end.0.get().to_le_bytes());
    bytes[8..24].copy_from_slice(&store);
    let sum = crc32c::crc32c(&bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// What the mark says, if it is whole.
pub(super) fn decode_mark(store: StoreId, bytes: &[u8]) -> Option<Place> {
    let is_whole = u32_at(bytes, 0) == crc32c::crc32c(&bytes[4..]) && bytes[8..24] == store;
    let end = NonZeroU32::new(u32_at(bytes, 4)).map(Place)?;
    (is_whole && end >= Place::FIRST).then_some(end)
}

/// How far the end of a key has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Live,
    /// Its end is decided: it is overwritten, or is going to be.
    Ending,
    /// It was overwritten, durably.
    Ended,
}

impl Stage {
    /// The state of a slot in this stage. All bytes of one differ from all of another.
    pub(super) fn state(self) -> [u8; STATE_LEN] {
        [match self {
            Self::Live => 0x3C,
            Self::Ending => 0xA5,
            Self::Ended => 0x5A,
        }; STATE_LEN]
    }
}

/// Whose key a slot has, and which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) digest: Digest,
    pub(super) generation: u32,
}

/// The bytes of one slot.
pub(super) struct Slot<'a>(pub(super) &'a [u8]);

impl<'a> Slot<'a> {
    /// Appends to `bytes` the slot at `place` with a live key.
    pub(super) fn encode(bytes: &mut Vec<u8>, store: StoreId, place: Place, identity: Identity, key: &Key) {
        let begin = bytes.len();
        bytes.extend([0; 4]);
        bytes.extend(identity.generation.to_le_bytes());
        bytes.extend(identity.digest);
        bytes.extend(Stage::Live.state());
        bytes.extend(&**key);
        let slot = Slot(&bytes[begin..]);
        let (identity_sum, key_sum) = (slot.identity_sum(store, place), slot.key_sum(store, place));
        bytes.extend(key_sum.to_le_bytes());
        bytes[begin..begin + 4].copy_from_slice(&identity_sum.to_le_bytes());
    }

    /// Whose it is at `place`, and its stage; nothing if its bytes are not what was written there, nor what a crash makes of that.
    pub(super) fn check(&self, store: StoreId, place: Place) -> Option<(Identity, Stage)> {
        let identity = self.identity(store, place)?;
        let state = &self.0[STATE_AT..KEY_AT];
        let (stage, is_explained) = if state == Stage::Ended.state() {
            (Stage::Ended, self.0[KEY_AT..].iter().all(|byte| *byte == 0))
        } else if self.is_ending() {
            (Stage::Ending, true)
        } else {
            // An end that was not decided wholly is none, and the key has not been touched.
            (Stage::Live, self.is_in(Stage::Live, Stage::Ending) && self.key(store, place).is_some())
        };
        is_explained.then_some((identity, stage))
    }

    /// Whose it is, if that is whole.
    pub(super) fn identity(&self, store: StoreId, place: Place) -> Option<Identity> {
        let is_whole = u32_at(self.0, 0) == self.identity_sum(store, place);
        let digest = std::array::from_fn(|at| self.0[8 + at]);
        is_whole.then(|| Identity { digest, generation: u32_at(self.0, 4) })
    }

    /// Its key, if that is whole, whatever its state says.
    pub(super) fn key(&self, store: StoreId, place: Place) -> Option<Key> {
        let is_whole = u32_at(self.0, KEY_SUM_AT) == self.key_sum(store, place);
        is_whole.then(|| Zeroizing::new(std::array::from_fn(|at| self.0[KEY_AT + at])))
    }

    /// Whether the end of its key is decided.
    pub(super) fn is_ending(&self) -> bool {
        self.is_in(Stage::Ending, Stage::Ended)
    }

    /// Whether each byte of the state is that of one stage or the other.
    fn is_in(&self, one: Stage, other: Stage) -> bool {
        let (one, other) = (one.state()[0], other.state()[0]);
        self.0[STATE_AT..KEY_AT].iter().all(|byte| *byte == one || *byte == other)
    }

    fn identity_sum(&self, store: StoreId, place: Place) -> u32 {
        let sum = crc32c::crc32c_append(crc32c::crc32c(&store), &place.0.get().to_le_bytes());
        crc32c::crc32c_append(sum, &self.0[4..STATE_AT])
    }

    fn key_sum(&self, store: StoreId, place: Place) -> u32 {
        crc32c::crc32c_append(self.identity_sum(store, place), &self.0[KEY_AT..KEY_SUM_AT])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STORE: StoreId = [7; 16];
    const IDENTITY: Identity = Identity { digest: [3; 16], generation: 5 };

    /// A slot with a key of random bytes in `state`.
    fn slot(state: [u8; STATE_LEN]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let key = Zeroizing::new(std::array::from_fn(|at| at as u8 * 7 + 1));
        Slot::encode(&mut bytes, STORE, Place::FIRST, IDENTITY, &key);
        bytes[STATE_AT..KEY_AT].copy_from_slice(&state);
        bytes
    }

    /// The stage of a slot in `state` with these changes.
    fn stage(state: [u8; STATE_LEN], changes: &[(usize, u8)]) -> Option<Stage> {
        let mut bytes = slot(state);
        for (at, byte) in changes {
            bytes[*at] = *byte;
        }
        let (identity, stage) = Slot(&bytes).check(STORE, Place::FIRST)?;
        assert_eq!(identity, IDENTITY);
        Some(stage)
    }

    #[test]
    fn a_slot_is_what_was_written_or_what_a_crash_leaves_and_nothing_else() {
        let (live, ending, ended) = (0x3C, 0xA5, 0x5A);
        let overwritten: Vec<_> = (KEY_AT..SLOT_LEN).map(|at| (at, 0)).collect();
        let (half, all_but_one) = (&overwritten[..20], &overwritten[1..]);
        for (state, changes, expected) in [
            ([live; 4], &[][..], Some(Stage::Live)),
            ([live; 4], half, None),
            ([live; 4], &overwritten, None),
            ([ending, live, live, live], &[], Some(Stage::Live)),
            ([live, ending, ending, ending], &[], Some(Stage::Live)),
            ([live, ending, ending, ending], half, None),
            ([ending; 4], &[], Some(Stage::Ending)),
            ([ending; 4], half, Some(Stage::Ending)),
            ([ending; 4], &overwritten, Some(Stage::Ending)),
            ([ending, ending, ended, ending], &overwritten, Some(Stage::Ending)),
            ([ended; 4], &overwritten, Some(Stage::Ended)),
            ([ended; 4], all_but_one, None),
            ([live, live, live, ended], &[], None),
            ([0; 4], &overwritten, None),
            ([live; 4], &[(8, 0)], None),
            ([ended; 4], &[(8, 0)], None),
        ] {
            assert_eq!(stage(state, changes), expected, "{state:x?}, {} changes", changes.len());
        }
    }

    #[test]
    fn a_slot_counts_in_its_place_and_its_store_alone() {
        let bytes = slot(Stage::Live.state());
        assert!(Slot(&bytes).key(STORE, Place::FIRST).is_some());
        let next = Place::FIRST.after(1).unwrap();
        for (store, place) in [(STORE, next), ([8; 16], Place::FIRST)] {
            assert_eq!(Slot(&bytes).check(store, place), None);
            assert!(Slot(&bytes).key(store, place).is_none());
        }
    }

    #[test]
    fn a_mark_counts_whole_and_in_its_store_alone() {
        let end = Place::FIRST.after(3).unwrap();
        let bytes = encode_mark(STORE, end);
        assert_eq!(decode_mark(STORE, &bytes), Some(end));
        assert_eq!(decode_mark([8; 16], &bytes), None);
        for at in 0..MARK_LEN {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            assert_eq!(decode_mark(STORE, &bytes), None, "byte {at}");
        }
    }
}
