//! The keys that a journal is attested with: `enact sign-key`, and the files of both in PEM.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use enact_journal::{KeyError, PublicKey, SigningKey};
use pem::Pem;
use thiserror::Error;

use crate::failure::Failure;

/// Greatest size of a file of keys.
const BYTES_MAX: u64 = 1 << 16;
const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";

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

/// Makes a key in `file`; standard output has the public one.
pub(crate) fn make(file: &Path) -> Result<(), Failure> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(Failure::Random)?;
    let private = SigningKey::pkcs8_of(random);
    let key = SigningKey::from_pkcs8(&private).expect("32 bytes are a key");
    let mut options = OpenOptions::new();
    let written = options.write(true).create_new(true).mode(0o600).open(file).and_then(|mut out| {
        out.write_all(pem(PRIVATE, private).as_bytes())?;
        out.sync_all()
    });
    written.map_err(|source| Failure::Unwritable { path: file.to_owned(), source })?;
    print!("{}", pem(PUBLIC, key.public().to_spki()));
    eprintln!(
        "{} is the private key {}, for `enact serve --sign-key`. Standard output is the public one, for `enact journal verify --public-key`: keep it \
         on another machine.",
        file.display(),
        key.public().id()
    );
    Ok(())
}

fn pem(tag: &str, bytes: Vec<u8>) -> String {
    pem::encode(&Pem::new(tag, bytes)).replace("\r\n", "\n")
}

/// Reads a private key, of a file that is for its owner alone.
pub(crate) fn read(path: &Path) -> Result<SigningKey, KeyFileError> {
    let parts = parts(path, true)?;
    let [key] = &*tagged(&parts, PRIVATE) else {
        return Err(KeyFileError::Malformed { path: path.to_owned(), expected: "private key, or more than one," });
    };
    SigningKey::from_pkcs8(key.contents()).map_err(|source| KeyFileError::Unfit { path: path.to_owned(), source })
}

/// Reads public keys, one at least.
pub(crate) fn read_public(path: &Path) -> Result<Vec<PublicKey>, KeyFileError> {
    let parts = parts(path, false)?;
    let keys = tagged(&parts, PUBLIC);
    if keys.is_empty() {
        return Err(KeyFileError::Malformed { path: path.to_owned(), expected: "public key" });
    }
    let read: Result<_, KeyError> = keys.iter().map(|key| PublicKey::from_spki(key.contents())).collect();
    read.map_err(|source| KeyFileError::Unfit { path: path.to_owned(), source })
}

fn tagged<'a>(parts: &'a [Pem], tag: &str) -> Vec<&'a Pem> {
    parts.iter().filter(|part| part.tag() == tag).collect()
}

/// What is in a file of PEM.
fn parts(path: &Path, is_secret: bool) -> Result<Vec<Pem>, KeyFileError> {
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
    pem::parse_many(bytes).map_err(|_| KeyFileError::Malformed { path: at(), expected: "key" })
}
