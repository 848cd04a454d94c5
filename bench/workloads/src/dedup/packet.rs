//! The output file: one packet a chunk, and its inverse.
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;

use sha2::{Digest, Sha256};
use thiserror::Error;

use super::chunking::{Cut, chunks, pieces};
use super::codec::{CodecError, compress, decompress};

const DATA: u8 = 0;
const REFERENCE: u8 = 1;
const HEADER_BYTES: usize = 9;

/// The SHA-256 of a chunk: chunks of one fingerprint are taken to be equal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// That of `chunk`.
    pub fn of(chunk: &[u8]) -> Self {
        Self(Sha256::digest(chunk).into())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What stands in the file for one chunk: a byte for the kind, eight for the length of the rest, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet<'a> {
    /// The chunk, compressed: its first occurrence.
    Data(&'a [u8]),
    /// A chunk that a data packet before this one has.
    Reference(&'a Fingerprint),
}

impl Packet<'_> {
    /// The bytes in the file.
    pub fn to_bytes(self) -> Vec<u8> {
        let (kind, content) = match self {
            Self::Data(compressed) => (DATA, compressed),
            Self::Reference(fingerprint) => (REFERENCE, fingerprint.as_bytes().as_slice()),
        };
        let mut bytes = Vec::with_capacity(HEADER_BYTES + content.len());
        bytes.push(kind);
        bytes.extend_from_slice(&(content.len() as u64).to_le_bytes());
        bytes.extend_from_slice(content);
        bytes
    }
}

/// The file of `input`, packet by packet, made sequentially: what every version of the pipeline must write.
pub fn packets(input: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut met = HashSet::new();
    pieces(input).flat_map(|piece| chunks(piece, Cut::CHUNK)).map(move |chunk| {
        let fingerprint = Fingerprint::of(chunk);
        if met.insert(fingerprint) {
            Packet::Data(&compress(chunk)).to_bytes()
        } else {
            Packet::Reference(&fingerprint).to_bytes()
        }
    })
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpacked {
    /// The input that the file was made from.
    pub input: Vec<u8>,
    /// Data packets: chunks that differ.
    pub data: usize,
    /// Reference packets: chunks that repeat one.
    pub references: usize,
}

/// Why a file is not one of the pipeline's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// It ends within a packet.
    #[error("the packet at byte {at} is not complete")]
    Truncated {
        /// Where the packet starts.
        at: usize,
    },
    /// There is no such kind of packet, or its length is not one of its kind.
    #[error("the packet at byte {at} has the unknown kind {kind} or a wrong length")]
    Kind {
        /// Where the packet starts.
        at: usize,
        /// The kind.
        kind: u8,
    },
    /// The data of a packet is damaged.
    #[error("the data of the packet at byte {at} is damaged")]
    Data {
        /// Where the packet starts.
        at: usize,
        /// What is wrong with the data.
        source: CodecError,
    },
    /// A reference to nothing before it.
    #[error("the packet at byte {at} refers to {fingerprint}, which no data packet before it has")]
    Dangling {
        /// Where the packet starts.
        at: usize,
        /// What it refers to.
        fingerprint: Fingerprint,
    },
    /// A chunk that an earlier packet has already.
    #[error("the packet at byte {at} repeats the data of {fingerprint} instead of referring to it")]
    Repeated {
        /// Where the packet starts.
        at: usize,
        /// What it repeats.
        fingerprint: Fingerprint,
    },
}

/// Restores the input of a whole `file`, and checks that each reference points back and no chunk is stored twice.
///
/// # Errors
/// [`UnpackError`], with the place of the first packet that is wrong.
pub fn unpack(file: &[u8]) -> Result<Unpacked, UnpackError> {
    let mut unpacked = Unpacked { input: Vec::new(), data: 0, references: 0 };
    let mut known: HashMap<Fingerprint, Range<usize>> = HashMap::new();
    let mut rest = file;
    while !rest.is_empty() {
        let at = file.len() - rest.len();
        let (kind, content) = take_packet(&mut rest).ok_or(UnpackError::Truncated { at })?;
        match (kind, <[u8; 32]>::try_from(content)) {
            (DATA, _) => {
                let chunk = decompress(content).map_err(|source| UnpackError::Data { at, source })?;
                let fingerprint = Fingerprint::of(&chunk);
                let start = unpacked.input.len();
                if known.insert(fingerprint, start..start + chunk.len()).is_some() {
                    return Err(UnpackError::Repeated { at, fingerprint });
                }
                unpacked.input.extend_from_slice(&chunk);
                unpacked.data += 1;
            }
            (REFERENCE, Ok(bytes)) => {
                let fingerprint = Fingerprint(bytes);
                let chunk = known.get(&fingerprint).ok_or(UnpackError::Dangling { at, fingerprint })?;
                unpacked.input.extend_from_within(chunk.clone());
                unpacked.references += 1;
            }
            _ => return Err(UnpackError::Kind { at, kind }),
        }
    }
    Ok(unpacked)
}

fn take_packet<'a>(rest: &mut &'a [u8]) -> Option<(u8, &'a [u8])> {
    let &kind = rest.split_off_first()?;
    let length = u64::from_le_bytes(*rest.split_off(..8)?.first_chunk()?);
    Some((kind, rest.split_off(..usize::try_from(length).ok()?)?))
}
