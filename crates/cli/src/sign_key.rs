//! The keys that a journal is attested with: `enact sign-key`.

use std::path::Path;

use enact_journal::{KeyError, PublicKey, SigningKey};

use crate::failure::Failure;
use crate::key_file::{self, KeyFileError};

const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";

/// Makes a key in `file`; standard output has the public one.
pub(crate) fn make(file: &Path) -> Result<(), Failure> {
    let private = SigningKey::pkcs8_of(key_file::random()?);
    let key = SigningKey::from_pkcs8(&private).expect("32 bytes are a key");
    key_file::create(file, PRIVATE, private)?;
    print!("{}", key_file::pem(PUBLIC, key.public().to_spki()));
    eprintln!(
        "{} is the private key {}, for `enact serve --sign-key`. Standard output is the public one, for `enact journal verify --public-key`: keep it \
         on another machine.",
        file.display(),
        key.public().id()
    );
    Ok(())
}

/// Reads a private key, of a file that is for its owner alone.
pub(crate) fn read(path: &Path) -> Result<SigningKey, KeyFileError> {
    let key = key_file::read_secret(path, PRIVATE, "private key, or more than one,")?;
    SigningKey::from_pkcs8(&key).map_err(|source| KeyFileError::Unfit { path: path.to_owned(), source })
}

/// Reads public keys, one at least.
pub(crate) fn read_public(path: &Path) -> Result<Vec<PublicKey>, KeyFileError> {
    let keys = key_file::read_public(path, PUBLIC)?;
    if keys.is_empty() {
        return Err(KeyFileError::Malformed { path: path.to_owned(), expected: "public key" });
    }
    let read: Result<_, KeyError> = keys.iter().map(|key| PublicKey::from_spki(key)).collect();
    read.map_err(|source| KeyFileError::Unfit { path: path.to_owned(), source })
}
