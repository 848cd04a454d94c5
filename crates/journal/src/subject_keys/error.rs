//! Why a call on the keys of subjects fails.

use std::io;
use std::sync::Arc;

use super::FILE;
use crate::disk::{DirectoryError, LockError};

/// Why the keys of subjects could not be opened, used or changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SubjectKeysError {
    /// The directory is not acceptable.
    #[error("cannot use the directory of subject keys: {0}")]
    Directory(Arc<DirectoryError>),
    /// Another process has the directory, or this one has it twice.
    #[error("the directory of subject keys is in use by {holder}")]
    Locked {
        /// Who, as far as is known, such as `process 4711`.
        holder: String,
    },
    /// The operating system failed.
    #[error("cannot use {file} of the subject keys: {error}")]
    Disk {
        /// The file.
        file: String,
        /// What the operating system said.
        error: Arc<io::Error>,
    },
    /// The file is not what was written. Nothing was changed.
    #[error("{file} is damaged at byte {offset}: restore the directory of subject keys from its last copy")]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the part that is damaged, or missing.
        offset: u64,
    },
    /// The file has a format that this program does not read.
    #[error("{file} has format version {found}: use the program that wrote it, or a later one")]
    Version {
        /// The file.
        file: String,
        /// The format version in the file.
        found: u16,
    },
    /// The store has never had this key.
    #[error(
        "the subject keys have no key {generation} of {subject}: the directory is another one than was sealed with, or an earlier copy \
         of it; put the right one in its place"
    )]
    Unknown {
        /// The subject.
        subject: String,
        /// The generation of the key.
        generation: u32,
    },
    /// The bytes are not what this key has sealed for this subject.
    #[error(
        "what was sealed with key {generation} of {subject} was changed, or with another key of that number: restore it from a backup, \
         or put the right directory of subject keys in its place"
    )]
    Tampered {
        /// The subject.
        subject: String,
        /// The generation of the key.
        generation: u32,
    },
    /// The operating system gave no random bytes. Nothing was changed.
    #[error("the operating system gives no random bytes for a key or a nonce: try again")]
    Random,
    /// The servers that keep the keys do not answer.
    #[error("the servers that keep the subject keys do not answer: {why}; try again")]
    Unavailable {
        /// What happened.
        why: String,
    },
    /// An earlier change failed, and nothing is known of it. What was sealed before can be read all the same.
    #[error("the subject keys take no change since one has failed ({why}): open them again")]
    Failed {
        /// What has failed.
        why: String,
    },
}

impl SubjectKeysError {
    /// The file of keys could not be used.
    pub(super) fn disk(error: io::Error) -> Self {
        Self::of(FILE, error)
    }

    /// `file` could not be used.
    pub(super) fn of(file: &str, error: io::Error) -> Self {
        Self::Disk { file: file.to_owned(), error: Arc::new(error) }
    }

    /// What later calls are told when this has failed.
    pub(super) fn as_lasting(&self) -> Self {
        match self {
            Self::Failed { .. } => self.clone(),
            failed => Self::Failed { why: failed.to_string() },
        }
    }

    /// The file of keys is damaged at `offset`.
    pub(super) fn damaged(offset: u64) -> Self {
        Self::Damaged { file: FILE.to_owned(), offset }
    }
}

impl From<DirectoryError> for SubjectKeysError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(Arc::new(error))
    }
}

impl From<LockError> for SubjectKeysError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::InUse { holder } => Self::Locked { holder },
            LockError::Io(error) => Self::of("lock", error),
        }
    }
}
