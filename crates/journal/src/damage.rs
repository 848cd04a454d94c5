//! Where and how the bytes of a journal are not what was written.

use std::fmt;

use crate::keys::KeyId;
use crate::record::{EntityKey, Position, Seq};

/// Damaged bytes: in which file, where, and what is wrong with them.
///
/// A journal with damage refuses to open or to be read past it. [`Salvage`](crate::Salvage) reads what is whole of it,
/// and a backup has the rest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file} is damaged at byte {offset}: {flaw}")]
pub struct Damage {
    /// The name of the file in the data directory, or of the backup.
    pub file: String,
    /// The offset of the damaged part in the file.
    pub offset: u64,
    /// What is wrong.
    pub flaw: Flaw,
}

/// What is wrong with damaged bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// The file is missing although a later one exists or records name it.
    Missing,
    /// The file ends inside of what should be there.
    Short,
    /// The header of the segment does not have its checksum.
    SegmentHeader,
    /// The segment has a format that this program does not read.
    Version {
        /// The format version in the file.
        found: u16,
    },
    /// The segment belongs to another log or to another place in this one.
    Foreign,
    /// The segment does not continue the one before it: hash or positions differ.
    Unchained,
    /// The header of a group of records is not valid.
    GroupHeader,
    /// A record does not have its checksum.
    Record,
    /// A record has its checksum and cannot be one of this format.
    Malformed,
    /// A record is not the one that should stand here.
    Order {
        /// The position that should be here.
        expected: Position,
        /// The position that is here.
        found: Position,
    },
    /// A record does not follow the entity's record before it.
    Chain {
        /// The entity.
        entity: EntityKey,
        /// The sequence number that should be here.
        expected: Seq,
        /// The sequence number that is here.
        found: Seq,
    },
    /// Records of an entity are missing as if they had been discarded, and it has no [tombstone](crate::Kind::TOMBSTONE) behind them.
    Discarded {
        /// The entity.
        entity: EntityKey,
    },
    /// Bytes that fill a group up are not zero.
    Padding,
    /// The footer of a sealed segment is missing or does not have its checksum.
    Footer,
    /// The footer of a sealed segment describes other records than the segment has.
    FooterMismatch,
    /// The manifest does not have its checksum here, or belongs to another log.
    Manifest,
    /// The segment is not the one that the manifest lists.
    Unlisted,
    /// The checkpoint says something else than the segments that it covers.
    Checkpoint,
    /// The log ends here, and the manifest says that it was longer.
    Shortened {
        /// A position that was durable.
        last: Position,
    },
    /// The bytes are no attestation.
    Attestation,
    /// The attestation is signed with a key that is none of those given.
    AttestationKey {
        /// What tells the key from others.
        key: KeyId,
    },
    /// The attestation is not what its key has signed.
    Signature,
    /// The attestation is one of another log.
    AttestationForeign,
    /// The attestation does not follow the one before it.
    AttestationOrder,
    /// What stands from here on is not what was attested.
    Attested {
        /// The number of the first attestation that it does not fit, from 1.
        attestation: u64,
    },
    /// The log ends here, and more of it was attested.
    AttestedEnd {
        /// The last position that was attested there.
        last: Position,
        /// The number of that attestation, from 1.
        attestation: u64,
    },
    /// The segment is one that was compacted, and no attestation says that this file stands for it.
    Unattested,
    /// A block of the store of snapshots does not have its checksum.
    Block,
    /// The header of the backup is not valid, or it is another file.
    BackupHeader,
    /// The backup does not have the hash at its end.
    BackupHash,
    /// Something follows the end of the backup.
    Trailing,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("the file is missing"),
            Self::Short => f.write_str("the file ends too early"),
            Self::SegmentHeader => f.write_str("the segment header is not valid"),
            Self::Version { found } => write!(f, "format version {found} is not one that this program reads"),
            Self::Foreign => f.write_str("the segment belongs to another log or another place in it"),
            Self::Unchained => f.write_str("the segment does not continue the one before it"),
            Self::GroupHeader => f.write_str("the group header is not valid"),
            Self::Record => f.write_str("the record does not have its checksum"),
            Self::Malformed => f.write_str("the record is malformed"),
            Self::Order { expected, found } => write!(f, "position {expected} should be here, found {found}"),
            Self::Chain { entity, expected, found } => {
                write!(f, "record {expected} of {entity} should be here, found {found}")
            }
            Self::Discarded { entity } => {
                write!(f, "records of {entity} are missing, and no tombstone stands for them")
            }
            Self::Padding => f.write_str("the padding of the group is not zero"),
            Self::Footer => f.write_str("the footer of the sealed segment is not valid"),
            Self::FooterMismatch => f.write_str("the footer describes other records than the segment has"),
            Self::Manifest => f.write_str("the manifest is not valid"),
            Self::Checkpoint => {
                f.write_str("it is not a checkpoint of the segments: delete the file while no server runs")
            }
            Self::Unlisted => f.write_str("the segment is not the one that the manifest lists"),
            Self::Attestation => f.write_str("there is no valid attestation"),
            Self::AttestationKey { key } => {
                write!(f, "the attestation is signed with the key {key}, which is none of those given")
            }
            Self::Signature => f.write_str("the attestation does not have the signature of its key"),
            Self::AttestationForeign => f.write_str("the attestation is one of another log"),
            Self::AttestationOrder => {
                f.write_str("the attestation does not follow the one before: one was removed, changed or put between")
            }
            Self::Attested { attestation } => {
                write!(f, "what stands from here on is not what attestation {attestation} attests")
            }
            Self::AttestedEnd { last, attestation } => {
                write!(f, "the log ends here, attestation {attestation} attests it up to position {last}")
            }
            Self::Unattested => {
                f.write_str("the segment was compacted, and no attestation says that this file stands for it")
            }
            Self::Block => f.write_str("the block does not have its checksum"),
            Self::BackupHeader => f.write_str("the header is not that of a backup"),
            Self::BackupHash => f.write_str("the bytes before do not have the hash that stands here"),
            Self::Trailing => f.write_str("the backup ends here, and the file goes on"),
            Self::Shortened { last } => write!(f, "the log ends here, records up to position {last} were durable"),
        }
    }
}
