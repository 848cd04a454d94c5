//! Files of keys and secrets in PEM.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use enact_journal::KeyError;
use pem::Pem;
use thiserror::Error;

use crate::failure::Failure;

/// Greatest size of a file.
const BYTES_MAX: u64 = 1 << 16;

/// Why a file is not taken for one of keys.
#[derive(Debug, Error)]
pub(crate) enum KeyFileError {
    #[error("cannot read {}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("{} is open to other users (mode {mode:04o}): chmod 600 {}", path.display(), path.display())]
    Exposed { path: PathBuf, mode: u32 },
    #[error("{} has no {expected} in PEM", path.display())]
    Malformed { path: PathBuf, expected: &'static str },
    #[error("{} has no key that can be used", path.display())]
    Unfit { path: PathBuf, source: KeyError },
}

/// Random bytes for a key.
pub(crate) fn random() -> Result<[u8; 32], Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Failure::Random)?;
    Ok(random)
}

/// Writes a file that is for its owner alone, and was not there.
pub(crate) fn create(file: &Path, tag: &str, bytes: Vec<u8>) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(file).and_then(|mut out| {
        out.write_all(pem(tag, bytes).as_bytes())?;
        out.sync_all()
    });
    written.map_err(|source| Failure::Unwritable { path: file.to_owned(), source })
}

pub(crate) fn pem(tag: &str, bytes: Vec<u8>) -> String {
    pem::encode(&Pem::new(tag, bytes)).replace("\r\n", "\n")
}

/// The one part with this `tag` of a file that is for its owner alone; `expected` says what that is, for people.
pub(crate) fn read_secret(path: &Path, tag: &str, expected: &'static str) -> Result<Vec<u8>, KeyFileError> {
    let malformed = || KeyFileError::Malformed { path: path.to_owned(), expected };
    let [part]: [_; 1] = parts(path, true, tag)?.try_into().map_err(|_| malformed())?;
    Ok(part)
}

/// The parts with this `tag`.
pub(crate) fn read_public(path: &Path, tag: &str) -> Result<Vec<Vec<u8>>, KeyFileError> {
    parts(path, false, tag)
}

fn parts(path: &Path, is_secret: bool, tag: &str) -> Result<Vec<Vec<u8>>, KeyFileError> {
    let at = || path.to_owned();
    let failed = |source| KeyFileError::Unreadable { path: at(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(KeyFileError::NotAFile { path: at() });
    }
    let mode = metadata.mode() & 0o777;
    if is_secret && mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: at(), mode });
    }
    let mut bytes = Vec::new();
    file.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    let parts = pem::parse_many(bytes).map_err(|_| KeyFileError::Malformed { path: at(), expected: "key" })?;
    Ok(parts.into_iter().filter(|part| part.tag() == tag).map(Pem::into_contents).collect())
}
