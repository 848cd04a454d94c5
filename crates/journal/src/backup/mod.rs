//! A backup: the groups of a log in one file, which can be checked on its own and built into a new log.
//!
//! ```text
//! backup := header, group*, footer
//! group  := group header, (record | gap)*
//! ```
//! All numbers are little-endian, checksums are CRC32C, and bytes that are not listed are zero. A group is one of the log
//! that is backed up: batches that became durable together. It begins at the position after the last one of the group before,
//! from 1 on, and its records have consecutive positions. A gap stands for consecutive records that the log had discarded.
//!
//! | header | | group header | | record | | footer | |
//! |---|---|---|---|---|---|---|---|
//! | 0 | magic | 0 | magic | 0 | seq | 0 | magic |
//! | 8 | version | 4 | checksum of the rest of the header | 8 | payload length | 8 | group count |
//! | 12 | checksum of the rest of the header and what is before it | 8 | first position | 12 | key length | 16 | last position |
//! | 16 | log id | 16 | length of the records and gaps | 14 | kind | 24 | last position |
//! | | | 20 | how many positions | 16 | key, payload | 32 | SHA-256 of all bytes before it |
//! | | | 24 | checksum of the records and gaps | | | | |
//!
//! A gap is a record without a key and a payload, with the number of positions instead of the seq.
//!
//! The header, a group header and the footer up to its hash have 32 bytes. The log id says which log was backed up, and is 0
//! if the journal has none. A file that ends without a footer is not a backup: it was cut off.
//!
//! Version 1 has no gaps. A reader refuses versions that it does not know. Nothing in the file says what a payload means.

mod reader;
mod writer;

use std::io;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

pub use reader::BackupReader;
pub use writer::BackupWriter;

use crate::damage::Damage;
use crate::record::Position;

const VERSION: u16 = 2;
/// The first version with gaps.
const GAPS_SINCE: u16 = 2;
/// The versions that are read.
const VERSIONS: RangeInclusive<u16> = 1..=VERSION;
const MAGIC: [u8; 8] = *b"ENACTBAK";
const GROUP_MAGIC: [u8; 4] = *b"BGRP";
const FOOTER_MAGIC: [u8; 4] = *b"BEND";
/// The length of the header, of a group header, and of a footer without its hash.
const HEADER_LEN: usize = 32;
const HASH_LEN: usize = 32;
const RECORD_HEADER_LEN: usize = 16;
/// More than the records of a group can take: a group has one batch, or several of some MiB together.
const BODY_BYTES_MAX: usize = 1 << 30;

/// What a backup consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackupTotals {
    /// The length of the file.
    pub bytes: u64,
    /// Groups of records.
    pub group_count: u64,
    /// The last position; also the number of records, with those that were discarded.
    pub last: Position,
    /// The SHA-256 of all bytes of the file before it, which stands at its end.
    pub hash: [u8; HASH_LEN],
}

/// Why a backup was not written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// There is a file of this name.
    #[error("{} is there already: a backup overwrites nothing", path.display())]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// There is a file of the name that a backup has before it is complete.
    #[error("{} is there: another backup is being written, or one was cut off; then remove it", path.display())]
    Unfinished {
        /// The path.
        path: PathBuf,
    },
    /// The file is not the backup that was written.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A group is longer than a backup takes.
    #[error("the group at position {first} has {bytes} bytes, at most {BODY_BYTES_MAX} are possible")]
    TooLong {
        /// The position of its first record.
        first: Position,
        /// The length of its records.
        bytes: usize,
    },
    /// The operating system failed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
}

impl BackupError {
    fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        |error| Self::Io { path: path.into(), error }
    }
}

/// The checksum of a header, which has it at `at`.
fn header_checksum(header: &[u8], at: usize) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&header[..at]), &header[at + 4..])
}
