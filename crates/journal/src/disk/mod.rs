//! The few operations on a directory and its files that the embedded journal is built on.
//!
//! A seam: [`OsDisk`] is the operating system, [`SlowDisk`] one that takes its time, `SimDisk` of `testing/journal` a simulation that
//! crashes on command.
//! What the journal relies on, and nothing more:
//! * a file's bytes and length are durable after its [`sync`](DiskFile::sync) has succeeded; before that, any part of
//!   them may be;
//! * a created, renamed or removed name is durable after the directory's [`sync`](Disk::sync) has succeeded;
//! * a rename is atomic;
//! * after a failed sync nothing is known, and syncing again proves nothing.

mod os;
mod slow;

use std::any::Any;
use std::sync::Arc;
use std::{fmt, io};

pub use os::{DirectoryError, OsDisk};
pub(crate) use os::{LOCK, sync_parent};
pub use slow::SlowDisk;

/// One directory, flat: names have no separators.
pub trait Disk: fmt::Debug + Send + Sync + 'static {
    /// A number that no other log is likely to have.
    fn fresh_id(&self) -> u64;

    /// Takes the directory for this process until the lock is dropped or the process dies.
    ///
    /// # Errors
    /// When somebody else has it, or the operating system fails.
    ///
    /// # Blocking
    /// Until nobody [looks](Self::is_locked) at the lock, for a second at most.
    fn lock(&self) -> Result<DiskLock, LockError>;

    /// Whether some process has the directory, this one included; takes nothing for longer than the look lasts.
    ///
    /// # Errors
    /// As the operating system reports.
    fn is_locked(&self) -> io::Result<bool>;

    /// The names in the directory, in any order.
    ///
    /// # Errors
    /// As the operating system reports.
    fn names(&self) -> io::Result<Vec<String>>;

    /// Makes a new, empty file for reading and writing, readable by its owner alone.
    ///
    /// # Errors
    /// When the name is taken, or as the operating system reports.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Opens an existing file for reading and writing.
    ///
    /// # Errors
    /// When there is none, when it is a link or no regular file, or as the operating system reports.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;

    /// Gives a file another name, replacing the file of that name.
    ///
    /// # Errors
    /// As the operating system reports.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// As the operating system reports.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// What the directory has under a name now, links not followed.
    ///
    /// # Errors
    /// When it has nothing there, or as the operating system reports.
    fn look_up(&self, name: &str) -> io::Result<FileStatus>;

    /// How many bytes the file system of the directory has left for this process, if that is known. The default knows nothing.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Checks that the path that the directory was opened by still names it.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) when it names nothing or something else, or as the operating system reports.
    fn check_place(&self) -> io::Result<()>;

    /// Makes the names durable.
    ///
    /// # Errors
    /// As the operating system reports; nothing is known then.
    fn sync(&self) -> io::Result<()>;
}

/// A file as its directory shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStatus {
    /// Another for each file that exists at the same time.
    pub id: u64,
    /// Its length in bytes.
    pub size: u64,
}

/// One open file.
pub trait DiskFile: fmt::Debug + Send + Sync + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// As the operating system reports.
    fn size(&self) -> io::Result<u64>;

    /// Reads from `offset` until `buf` is full or the file ends; the number of bytes read.
    ///
    /// # Errors
    /// As the operating system reports.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Writes all of `bytes` at `offset`.
    ///
    /// # Errors
    /// As the operating system reports; any part of the bytes may have been written.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file, or extends it with zeros.
    ///
    /// # Errors
    /// As the operating system reports.
    fn set_size(&self, size: u64) -> io::Result<()>;

    /// Whether some name still leads to the file.
    ///
    /// # Errors
    /// As the operating system reports.
    fn is_linked(&self) -> io::Result<bool>;

    /// Makes the bytes and the length durable.
    ///
    /// # Errors
    /// As the operating system reports; nothing is known then.
    fn sync(&self) -> io::Result<()>;
}

/// Holds the directory until it is dropped.
pub struct DiskLock(#[expect(dead_code, reason = "held for its drop")] Box<dyn Any + Send + Sync>);

impl DiskLock {
    /// A lock that is given up when `held` is dropped.
    pub fn new(held: impl Any + Send + Sync) -> Self {
        Self(Box::new(held))
    }
}

impl fmt::Debug for DiskLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DiskLock")
    }
}

/// Why a directory could not be taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockError {
    /// Somebody else has it.
    #[error("in use by {holder}")]
    InUse {
        /// Who, as far as is known, such as `process 4711`.
        holder: String,
    },
    /// The operating system failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// All bytes of `file`.
pub(crate) fn read_all(file: &dyn DiskFile) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.size()?).map_err(|_| io::ErrorKind::FileTooLarge)?;
    let mut bytes = vec![0; size];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// Whether a write failed for want of space, and of nothing else.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge)
}
