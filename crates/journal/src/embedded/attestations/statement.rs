//! The bytes of an attestation.
//!
//! All numbers are little-endian. Each has the same length; what is left up to 224 bytes is zero.
//!
//! | | |
//! |---|---|
//! | 0 | magic |
//! | 8 | version |
//! | 10 | kind: 1 of a log, 2 of a compacted segment |
//! | 12 | segment number |
//! | 16 | log id |
//! | 24 | time, in milliseconds since 1970 |
//! | 32 | last position |
//! | 40 | end of the groups in the segment |
//! | 44 | 0 |
//! | 48 | hash of the segment up to there, as it was written |
//! | 80 | hash of the compacted file |
//! | 112 | hash of the attestation before |
//! | 144 | key id |
//! | 152 | signature of all before |
//! | 216 | checksum of all before |

use sha2::{Digest, Sha256};

use crate::damage::Flaw;
use crate::embedded::format::{Hash, LogId};
use crate::keys::{KeyId, PublicKey, SIGNATURE_LEN, SigningKey};
use crate::numbers::{counted_at, u16_at, u32_at, u64_at};
use crate::record::Position;

pub(in crate::embedded) const LEN: usize = 224;
const MAGIC: [u8; 8] = *b"ENACTATT";
const VERSION: u16 = 1;
const SIGNED_LEN: usize = 152;
const CHECKSUM_AT: usize = SIGNED_LEN + SIGNATURE_LEN;

/// A place in a log, and what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Reached {
    pub(in crate::embedded) segment: u32,
    /// The end of the groups in the segment.
    pub(in crate::embedded) end: u32,
    /// The last position up to there.
    pub(in crate::embedded) last: Position,
    /// SHA-256 of the segment up to there, as it was written.
    pub(in crate::embedded) hash: Hash,
}

/// What is attested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) enum Subject {
    /// All of the log up to a place.
    Log,
    /// The file of a segment that was compacted, which has this SHA-256; the place is the end of the segment.
    Compacted(Hash),
}

/// An attestation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::embedded) struct Statement {
    pub(in crate::embedded) subject: Subject,
    pub(in crate::embedded) log: LogId,
    /// In milliseconds since 1970.
    pub(in crate::embedded) time: u64,
    pub(in crate::embedded) reached: Reached,
    /// The hash of the attestation before; zeros if there is none.
    pub(in crate::embedded) previous: Hash,
    pub(in crate::embedded) key: KeyId,
}

impl Statement {
    /// Its bytes, signed with `key`.
    pub(in crate::embedded) fn encode(&self, key: &SigningKey) -> Vec<u8> {
        let (kind, file_hash) = match self.subject {
            Subject::Log => (1_u16, [0; 32]),
            Subject::Compacted(hash) => (2, hash),
        };
        let mut out = Vec::with_capacity(LEN);
        out.extend(MAGIC);
        out.extend(VERSION.to_le_bytes());
        out.extend(kind.to_le_bytes());
        out.extend(self.reached.segment.to_le_bytes());
        for number in [self.log.0, self.time, self.reached.last.0, self.reached.end.into()] {
            out.extend(number.to_le_bytes());
        }
        for hash in [self.reached.hash, file_hash, self.previous] {
            out.extend(hash);
        }
        out.extend(self.key.0);
        let signature = key.sign(&out);
        out.extend(signature);
        out.extend(crc32c::crc32c(&out).to_le_bytes());
        out.resize(LEN, 0);
        out
    }

    /// Decodes the attestation that `bytes` are; its signature is not verified.
    pub(in crate::embedded) fn decode(bytes: &[u8]) -> Result<Self, Flaw> {
        if !is_whole(bytes) || bytes[..8] != MAGIC {
            return Err(Flaw::Attestation);
        }
        let version = u16_at(bytes, 8);
        if version != VERSION {
            return Err(Flaw::Version { found: version });
        }
        let hash = |at: usize| bytes[at..at + 32].try_into().expect("the length of a hash");
        let subject = match u16_at(bytes, 10) {
            1 => Subject::Log,
            2 => Subject::Compacted(hash(80)),
            _ => return Err(Flaw::Attestation),
        };
        let reached = Reached {
            segment: u32_at(bytes, 12),
            end: u32_at(bytes, 40),
            last: Position(counted_at(bytes, 32)?),
            hash: hash(48),
        };
        Ok(Self {
            subject,
            log: LogId(u64_at(bytes, 16)),
            time: u64_at(bytes, 24),
            reached,
            previous: hash(112),
            key: KeyId(bytes[144..SIGNED_LEN].try_into().expect("eight bytes")),
        })
    }
}

/// Whether `bytes` have the length and the checksum of an attestation: one that was torn has not.
pub(in crate::embedded) fn is_whole(bytes: &[u8]) -> bool {
    bytes.len() == LEN && u32_at(bytes, CHECKSUM_AT) == crc32c::crc32c(&bytes[..CHECKSUM_AT])
}

/// Whether the attestation that `bytes` are is signed with the private key of `key`.
pub(in crate::embedded) fn is_signed_by(bytes: &[u8], key: &PublicKey) -> bool {
    key.has_signed(&bytes[..SIGNED_LEN], &bytes[SIGNED_LEN..CHECKSUM_AT])
}

/// What the attestation behind the one that `bytes` are has of it.
pub(in crate::embedded) fn hash(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}
