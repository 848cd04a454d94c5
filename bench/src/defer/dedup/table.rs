//! The shape of the table of chunks, the same in all versions: many short buckets by fingerprint.
use std::iter;

use enact_workloads::dedup::Fingerprint;

/// About as many as the chunks of 20 MiB.
const BUCKETS: usize = 4_096;

/// The buckets of an empty table.
pub(super) fn buckets<B>(empty: impl FnMut() -> B) -> Vec<B> {
    iter::repeat_with(empty).take(BUCKETS).collect()
}

/// The bucket that a chunk is in, if it is in the table.
pub(super) fn bucket_of(fingerprint: &Fingerprint) -> usize {
    let [low, high, ..] = *fingerprint.as_bytes();
    usize::from(u16::from_le_bytes([low, high])) % BUCKETS
}
