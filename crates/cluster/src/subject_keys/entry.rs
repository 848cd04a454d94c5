//! What stands in the stream, and the secret that hides it.

use std::fmt;

use enact_journal::{SubjectKey, SubjectKeysError};
use serde::{Deserialize, Serialize};

/// What hides the keys of data subjects from the servers that keep them. All nodes of a cluster have the same, and nobody else: with it
/// and a copy of the servers' disks everything personal can be read.
///
/// ```
/// use enact_cluster::Secret;
///
/// let secret = Secret::random()?;
/// // Kept in a file that each node reads.
/// let same = Secret::of(*secret.bytes());
/// assert_eq!(same.bytes(), secret.bytes());
/// # Ok::<(), enact_journal::SubjectKeysError>(())
/// ```
#[derive(Clone)]
pub struct Secret(SubjectKey);

impl Secret {
    /// A new secret.
    ///
    /// # Errors
    /// When the operating system gives no random bytes.
    pub fn random() -> Result<Self, SubjectKeysError> {
        SubjectKey::random().map(Self)
    }

    /// The secret with these bytes.
    pub fn of(bytes: [u8; 32]) -> Self {
        Self(SubjectKey::of(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8; 32] {
        self.0.bytes()
    }

    /// What tells it from others, and is of no use to find it.
    pub(super) fn mark(&self) -> String {
        hex(&self.0.fingerprint(b"enact secret of a cluster"))
    }

    /// What tells a data subject from others, and does not say who it is without the secret.
    pub(super) fn digest(&self, subject: &str) -> String {
        hex(&self.0.fingerprint(subject.as_bytes())[..16])
    }

    pub(super) fn hide(&self, digest: &str, generation: u32, key: &SubjectKey) -> Result<Vec<u8>, SubjectKeysError> {
        Ok(self.0.seal(digest, generation, key.bytes())?.bytes)
    }

    /// The key that was hidden; nothing if it is another one's, or was changed.
    pub(super) fn reveal(&self, digest: &str, generation: u32, hidden: &[u8]) -> Option<SubjectKey> {
        let bytes = self.0.unseal(digest, generation, hidden)?;
        bytes.try_into().ok().map(SubjectKey::of)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the last message of a data subject says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// It has a key, which is hidden.
    Live { generation: u32, key: Vec<u8> },
    /// Its keys up to this one are destroyed.
    Destroyed { generation: u32 },
}
