//! The secret that hides the keys of personal values from the servers of a cluster: `enact cluster secret`.

use std::path::Path;

use enact_cluster::Secret;

use crate::failure::Failure;
use crate::key_file::{self, KeyFileError};

const TAG: &str = "ENACT CLUSTER SECRET";

/// Makes a secret in `file`.
pub(crate) fn make(file: &Path) -> Result<(), Failure> {
    key_file::create(file, TAG, key_file::random()?.to_vec())?;
    eprintln!(
        "{} is the secret, for `enact serve --subject-keys-secret` of every node: copy it to each, and keep a copy apart from those of the servers.",
        file.display()
    );
    Ok(())
}

/// Reads a secret, of a file that is for its owner alone.
pub(crate) fn read(path: &Path) -> Result<Secret, KeyFileError> {
    let expected = "secret of a cluster, or more than one,";
    let bytes = key_file::read_secret(path, TAG, expected)?;
    let bytes = bytes.try_into().map_err(|_| KeyFileError::Malformed { path: path.to_owned(), expected })?;
    Ok(Secret::of(bytes))
}
