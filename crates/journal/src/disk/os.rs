//! A directory of the operating system.
//!
//! All operations are relative to the directory's descriptor and refuse links, so neither a renamed parent nor a
//! planted link leads them elsewhere.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstatvfs, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::{Disk, DiskFile, DiskLock, FileStatus, LockError};

/// How long a look whether a directory is locked may keep others from locking it, and how often they try again meanwhile.
const LOOK_MAX: Duration = Duration::from_secs(1);
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Names the process that has the directory. Earlier versions lock this file instead of the directory.
pub(crate) const LOCK: &str = "lock";

/// A data directory: mode 0700, files 0600.
#[derive(Debug)]
pub struct OsDisk {
    path: PathBuf,
    dir: File,
    /// How files are opened.
    access: OFlags,
}

/// Why a data directory was not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DirectoryError {
    /// The path is a link or a file.
    #[error("{} is not a directory, or a link to one: name the directory itself", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Others may enter the directory.
    #[error("{} has mode {mode:03o} and is open to others: chmod 700", path.display())]
    Open {
        /// The path.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
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

impl OsDisk {
    /// The directory at `path`, made durably with mode 0700 if there is none.
    ///
    /// # Errors
    /// When the path is a link or a file, when others may enter the directory, or as the operating system reports.
    pub fn at(path: &Path) -> Result<Self, DirectoryError> {
        create_directory(path).map_err(|error| DirectoryError::Io { path: path.into(), error })?;
        Self::existing(path)
    }

    /// The directory at `path`, which must exist.
    ///
    /// # Errors
    /// As [`at`](Self::at), and when there is no directory.
    pub fn existing(path: &Path) -> Result<Self, DirectoryError> {
        let failed = |error| DirectoryError::Io { path: path.into(), error };
        if !fs::symlink_metadata(path).map_err(failed)?.is_dir() {
            return Err(DirectoryError::NotADirectory { path: path.into() });
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = match rustix::fs::open(path, flags, Mode::empty()) {
            Ok(dir) => File::from(dir),
            Err(Errno::LOOP | Errno::NOTDIR) => return Err(DirectoryError::NotADirectory { path: path.into() }),
            Err(errno) => return Err(failed(errno.into())),
        };
        let mode = dir.metadata().map_err(failed)?.mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(DirectoryError::Open { path: path.into(), mode });
        }
        Ok(Self { path: path.into(), dir, access: OFlags::RDWR })
    }

    /// As [`existing`](Self::existing), for reading only: the file system may be one that cannot be written to.
    ///
    /// # Errors
    /// As [`existing`](Self::existing). Whatever would change the directory or its files fails.
    pub fn read_only(path: &Path) -> Result<Self, DirectoryError> {
        Ok(Self { access: OFlags::RDONLY, ..Self::existing(path)? })
    }

    /// # Errors
    /// When the directory is open for reading only.
    fn check_writable(&self) -> io::Result<()> {
        if self.access == OFlags::RDWR { Ok(()) } else { Err(io::ErrorKind::ReadOnlyFilesystem.into()) }
    }

    /// The directory once more, to be locked apart from all others that are open.
    fn open_anew(&self) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(File::from(openat(&self.dir, ".", flags, Mode::empty())?))
    }

    fn open_file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let flags = flags | self.access | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = match openat(&self.dir, name, flags, Mode::RUSR | Mode::WUSR) {
            Ok(file) => File::from(file),
            Err(Errno::LOOP) => return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is a symbolic link")),
            Err(errno) => return Err(errno.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
        }
        Ok(file)
    }
}

fn create_directory(path: &Path) -> io::Result<()> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    create_directory(parent_of(path))?;
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => sync_parent(path),
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes durable that `path` is there under its name.
pub(crate) fn sync_parent(path: &Path) -> io::Result<()> {
    File::open(parent_of(path))?.sync_all()
}

impl Disk for OsDisk {
    fn fresh_id(&self) -> u64 {
        // The keys of a fresh hasher come from the operating system's random source.
        RandomState::new().hash_one(std::process::id())
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.check_writable()?;
        // The lock is on the directory: a file in it could be removed and made anew, and then be locked once more.
        let dir = self.open_anew()?;
        let file = self.open_file(LOCK, OFlags::CREATE)?;
        let end = Instant::now() + LOOK_MAX;
        for held in [&dir, &file] {
            match lock_behind_looks(held, end) {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(LockError::InUse { holder: holder(&file) }),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        self.check_place()?;
        file.set_len(0)?;
        file.write_all_at(format!("process {}", std::process::id()).as_bytes(), 0)?;
        Ok(DiskLock::new((dir, file)))
    }

    fn is_locked(&self) -> io::Result<bool> {
        let file = match self.open_file(LOCK, OFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            file => Some(file?),
        };
        for held in [Some(self.open_anew()?), file].into_iter().flatten() {
            match held.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(true),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(false)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.dir)? {
            // A name that is not text is not one of ours.
            if let Ok(name) = entry?.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.check_writable()?;
        Ok(Arc::new(self.open_file(name, OFlags::CREATE | OFlags::EXCL)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.open_file(name, OFlags::empty())?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        Ok(renameat(&self.dir, from, &self.dir, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.check_writable()?;
        Ok(unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn look_up(&self, name: &str) -> io::Result<FileStatus> {
        let status = statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(FileStatus { id: status.st_ino, size: u64::try_from(status.st_size).unwrap_or_default() })
    }

    fn free_bytes(&self) -> Option<u64> {
        let system = fstatvfs(&self.dir).ok()?;
        Some(system.f_bavail.saturating_mul(system.f_frsize))
    }

    fn check_place(&self) -> io::Result<()> {
        let (named, held) = (fs::symlink_metadata(&self.path)?, self.dir.metadata()?);
        if (named.dev(), named.ino()) == (held.dev(), held.ino()) {
            return Ok(());
        }
        let why = format!("{} has been replaced by another directory", self.path.display());
        Err(io::Error::new(io::ErrorKind::NotFound, why))
    }

    fn sync(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

/// Locks `held`, and waits until `end` at most for those that only look whether it is locked: they share the lock for a moment.
fn lock_behind_looks(held: &File, end: Instant) -> Result<(), TryLockError> {
    loop {
        match held.try_lock() {
            Err(TryLockError::WouldBlock) if Instant::now() < end && is_shared(held)? => thread::sleep(LOOK_INTERVAL),
            done => return done,
        }
    }
}

/// Whether those that have `held` locked share the lock.
fn is_shared(held: &File) -> Result<bool, TryLockError> {
    match held.try_lock_shared() {
        Ok(()) => held.unlock().map(|()| true).map_err(TryLockError::Error),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(error) => Err(error),
    }
}

fn holder(lock: &File) -> String {
    let mut text = [0; 32];
    let len = FileExt::read_at(lock, &mut text, 0).unwrap_or(0);
    match str::from_utf8(&text[..len]) {
        Ok(text) if !text.is_empty() => text.to_owned(),
        _ => "another process".to_owned(),
    }
}

impl DiskFile for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buf.len() {
            match FileExt::read_at(self, &mut buf[read..], offset + read as u64) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.write_all_at(bytes, offset)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.set_len(size)
    }

    fn is_linked(&self) -> io::Result<bool> {
        Ok(self.metadata()?.nlink() > 0)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}
