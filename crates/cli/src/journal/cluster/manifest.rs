//! The file of a backup of all shards that names the others, `cluster.json`.
//!
//! It is read only if its bytes are those that this program would write for what it says; it ends with a hash of what is before that.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use enact_journal::{BackupTotals, Position};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

const NAME: &str = "cluster.json";
const FORMAT: u32 = 1;
/// More than a manifest of all shards there may be takes.
const BYTES_MAX: u64 = 1 << 20;

/// Why a directory is not a backup of all shards, or does not become one.
#[derive(Debug, Error)]
pub(crate) enum DirectoryError {
    #[error("{} is there already: a backup overwrites nothing, and one without `{NAME}` was cut off; name another directory, or remove it", path.display())]
    Exists { path: PathBuf },
    #[error("{} has no `{NAME}`: it is no backup of a cluster, or one that was cut off", path.display())]
    NoManifest { path: PathBuf },
    #[error("{} has format {found}, and this program reads {FORMAT}: use a newer one", path.display())]
    Format { path: PathBuf, found: u32 },
    #[error("{} is not what `enact cluster backup` has written", path.display())]
    Manifest { path: PathBuf },
    #[error("{} is a backup of something else than `{NAME}` says", path.display())]
    OtherFile { path: PathBuf },
    #[error("{}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("the shards do not belong together: {count} contradiction{} between them", if *count == 1 { "" } else { "s" })]
    Disagreement { count: u64 },
}

impl DirectoryError {
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self + use<'_> {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// Whether what is there is damaged; otherwise it cannot be read or written.
    pub(crate) fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Manifest { .. } | Self::OtherFile { .. } | Self::Disagreement { .. } | Self::NoManifest { .. }
        )
    }
}

/// What a backup of all shards consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Manifest {
    format: u32,
    /// The version of the program that has written it.
    pub(super) program: String,
    /// When the backup was begun, by the clock of its machine: all that was acknowledged before is in it.
    pub(super) begun: String,
    /// What tells the contract of the nodes from others.
    pub(super) contract: String,
    /// The shards, in order.
    pub(super) shards: Vec<Shard>,
}

/// A backup of one shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Shard {
    /// The last position that it has, where the shard was cut.
    last: Position,
    groups: u64,
    bytes: u64,
    /// That of the file, in its footer.
    sha256: String,
}

impl Shard {
    pub(super) fn of(totals: BackupTotals) -> Self {
        let BackupTotals { bytes, group_count, last, hash } = totals;
        Self { last, groups: group_count, bytes, sha256: hex(&hash) }
    }
}

/// The manifest with what shows that nothing of it was changed.
#[derive(Serialize, Deserialize)]
struct Sealed {
    #[serde(flatten)]
    manifest: Manifest,
    sha256: String,
}

/// The file of a shard in the directory.
pub(super) fn file_of(directory: &Path, shard: u16) -> PathBuf {
    directory.join(format!("shard-{shard:03}.backup"))
}

impl Manifest {
    pub(super) fn new(begun: String, contract: String, shards: Vec<Shard>) -> Self {
        Self { format: FORMAT, program: env!("CARGO_PKG_VERSION").to_owned(), begun, contract, shards }
    }

    /// How many shards there are.
    pub(super) fn count(&self) -> u16 {
        u16::try_from(self.shards.len()).unwrap_or(u16::MAX)
    }

    /// Writes it to `directory`, which becomes a backup by that.
    pub(super) fn write(&self, directory: &Path) -> Result<(), DirectoryError> {
        let (path, unfinished) = (directory.join(NAME), directory.join(format!("{NAME}.new")));
        let mut options = OpenOptions::new();
        let written = options.write(true).create_new(true).mode(0o600).open(&unfinished).and_then(|mut file| {
            file.write_all(self.text().as_bytes())?;
            file.sync_all()
        });
        written.map_err(DirectoryError::io(&unfinished))?;
        std::fs::rename(&unfinished, &path).map_err(DirectoryError::io(&path))?;
        File::open(directory).and_then(|directory| directory.sync_all()).map_err(DirectoryError::io(directory))
    }

    /// Reads the one of `directory`.
    pub(super) fn read(directory: &Path) -> Result<Self, DirectoryError> {
        let path = directory.join(NAME);
        let text = match std::fs::metadata(&path) {
            Ok(file) if file.len() > BYTES_MAX => return Err(DirectoryError::Manifest { path }),
            Ok(_) => std::fs::read(&path).map_err(DirectoryError::io(&path))?,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                return Err(DirectoryError::NoManifest { path: directory.to_owned() });
            }
            Err(source) => return Err(DirectoryError::Io { path, source }),
        };
        match serde_json::from_slice::<Sealed>(&text) {
            Ok(Sealed { manifest, .. }) if manifest.format > FORMAT => {
                Err(DirectoryError::Format { path, found: manifest.format })
            }
            Ok(Sealed { manifest, .. }) if manifest.text().as_bytes() == text && !manifest.shards.is_empty() => {
                Ok(manifest)
            }
            _ => Err(DirectoryError::Manifest { path }),
        }
    }

    /// The whole file, which says what it was when it was written.
    fn text(&self) -> String {
        let of = |sha256: String| {
            let sealed = Sealed { manifest: self.clone(), sha256 };
            let mut text = serde_json::to_string_pretty(&sealed).expect("numbers and texts have a text form");
            text.push('\n');
            text
        };
        of(hex(&Sha256::digest(of(String::new()))))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_with_one_byte_changed_or_missing_is_refused() {
        let place = tempfile::tempdir().expect("a directory");
        let shard = Shard { last: Position(7), groups: 3, bytes: 900, sha256: hex(&[17; 32]) };
        let manifest =
            Manifest::new("2026-11-28T09:00:00Z".to_owned(), "c0ffee".to_owned(), vec![shard.clone(), shard]);
        let read = || Manifest::read(place.path());
        assert!(matches!(read(), Err(DirectoryError::NoManifest { .. })));
        manifest.write(place.path()).expect("written");
        assert_eq!(read().expect("whole"), manifest);
        let text = std::fs::read(place.path().join(NAME)).expect("a file");
        for at in 0..text.len() {
            let mut other = text.clone();
            other[at] ^= 1;
            std::fs::write(place.path().join(NAME), &other).expect("written");
            assert!(read().is_err(), "byte {at}: {}", String::from_utf8_lossy(&other));
            std::fs::write(place.path().join(NAME), &text[..at]).expect("written");
            assert!(read().is_err(), "up to byte {at}");
        }
    }
}
