//! Writes a backup: whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::{
    BODY_BYTES_MAX, BackupError, BackupTotals, FOOTER_MAGIC, GROUP_MAGIC, HASH_LEN, HEADER_LEN, MAGIC,
    RECORD_HEADER_LEN, VERSION, header_checksum,
};
use crate::disk::sync_parent;
use crate::record::{Group, Position};

const BUFFER_BYTES: usize = 1 << 20;

/// A backup that is being written, to a file of the same name with `.new` at its end.
///
/// Dropping it removes what was written; a process that is killed leaves the unfinished file behind.
///
/// ```
/// use enact_journal::{BackupReader, BackupWriter, EntityKey, Group, Kind, Position, Record, Seq};
///
/// # let place = tempfile::tempdir()?;
/// let path = place.path().join("bank.backup");
/// let entity = EntityKey::new("Account", "NL01")?;
/// let record = Record { entity, seq: Seq(1), position: Position(1), kind: Kind(1), payload: b"open".to_vec() };
/// let group = Group::new(Position(1), Position(1), vec![record]);
/// let mut backup = BackupWriter::create(&path, 7)?;
/// backup.push(&group)?;
/// assert_eq!(backup.finish()?.last, Position(1));
///
/// let mut backup = BackupReader::open(&path)?;
/// assert_eq!(backup.next().expect("a group")?, group);
/// assert!(backup.next().is_none() && backup.totals().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BackupWriter {
    path: PathBuf,
    unfinished: Unfinished,
    file: BufWriter<File>,
    hasher: Sha256,
    totals: BackupTotals,
    buffer: Vec<u8>,
}

/// A file that is removed when it is dropped.
#[derive(Debug)]
struct Unfinished(PathBuf);

impl Drop for Unfinished {
    fn drop(&mut self) {
        // What cannot be removed is found by the next backup of this name, which says so.
        fs::remove_file(&self.0).unwrap_or_default();
    }
}

impl BackupWriter {
    /// Begins a backup of the log with this id in a new file, with mode 0600.
    ///
    /// # Errors
    /// When there is a file at `path` or an unfinished one beside it, or as the operating system reports.
    pub fn create(path: &Path, log: u64) -> Result<Self, BackupError> {
        let exists = path.symlink_metadata().is_ok();
        if exists {
            return Err(BackupError::Exists { path: path.into() });
        }
        let mut name = path.as_os_str().to_owned();
        name.push(".new");
        let unfinished = PathBuf::from(name);
        let file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::Unfinished { path: unfinished });
            }
            file => file.map_err(BackupError::io(&unfinished))?,
        };
        let mut backup = Self {
            path: path.into(),
            unfinished: Unfinished(unfinished),
            file: BufWriter::with_capacity(BUFFER_BYTES, file),
            hasher: Sha256::new(),
            totals: BackupTotals { bytes: 0, group_count: 0, last: Position::START, hash: [0; HASH_LEN] },
            buffer: Vec::new(),
        };
        let mut header = Vec::with_capacity(HEADER_LEN);
        header.extend(MAGIC);
        header.extend(VERSION.to_le_bytes());
        header.extend([0; 6]);
        header.extend(log.to_le_bytes());
        header.resize(HEADER_LEN, 0);
        let sum = header_checksum(&header, 12);
        header[12..16].copy_from_slice(&sum.to_le_bytes());
        backup.write(&header)?;
        Ok(backup)
    }

    /// Writes the next group of the log.
    ///
    /// # Errors
    /// When the group has more than 1 GiB, or as the operating system reports.
    ///
    /// # Panics
    /// When the group does not begin at the position after the last one.
    pub fn push(&mut self, group: &Group) -> Result<(), BackupError> {
        let (first, last) = (group.first(), group.last());
        assert_eq!(first, self.totals.last.next(), "the groups of a backup follow each other");
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        buffer.resize(HEADER_LEN, 0);
        let mut next = first;
        for record in group.records() {
            put_gap(&mut buffer, next, record.position);
            next = record.position.next();
            let (key, payload) = (record.entity.as_str().as_bytes(), &record.payload);
            buffer.extend(record.seq.0.to_le_bytes());
            buffer.extend((payload.len() as u32).to_le_bytes());
            buffer.extend((key.len() as u16).to_le_bytes());
            buffer.extend([record.kind.0, 0]);
            buffer.extend(key);
            buffer.extend(payload);
        }
        put_gap(&mut buffer, next, last.next());
        let (header, body) = buffer.split_at_mut(HEADER_LEN);
        if body.len() > BODY_BYTES_MAX {
            return Err(BackupError::TooLong { first, bytes: body.len() });
        }
        let count = last.0 - first.0 + 1;
        header[..4].copy_from_slice(&GROUP_MAGIC);
        header[8..16].copy_from_slice(&first.0.to_le_bytes());
        header[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
        header[20..24].copy_from_slice(&(count as u32).to_le_bytes());
        header[24..28].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        let sum = header_checksum(header, 4);
        header[4..8].copy_from_slice(&sum.to_le_bytes());
        self.write(&buffer)?;
        self.buffer = buffer;
        self.totals.group_count += 1;
        self.totals.last = last;
        Ok(())
    }

    /// Makes the backup complete and durable, and gives it its name.
    ///
    /// # Errors
    /// When there is a file of that name by now, or as the operating system reports; there is no backup then.
    pub fn finish(mut self) -> Result<BackupTotals, BackupError> {
        let BackupTotals { group_count, last, .. } = self.totals;
        let mut footer = Vec::with_capacity(HEADER_LEN + HASH_LEN);
        footer.extend(FOOTER_MAGIC);
        footer.extend([0; 4]);
        footer.extend(group_count.to_le_bytes());
        footer.extend(last.0.to_le_bytes());
        footer.extend(last.0.to_le_bytes());
        self.write(&footer)?;
        let hash = self.hasher.clone().finalize();
        self.write(&hash)?;
        self.totals.hash = hash.into();
        let failed = BackupError::io(&self.unfinished.0);
        self.file.flush().and_then(|()| self.file.get_ref().sync_all()).map_err(failed)?;
        // A link, because a rename would replace what has got the name meanwhile.
        match fs::hard_link(&self.unfinished.0, &self.path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(BackupError::Exists { path: self.path });
            }
            linked => linked.map_err(BackupError::io(&self.path))?,
        }
        let Self { path, unfinished, totals, .. } = self;
        drop(unfinished);
        sync_parent(&path).map_err(BackupError::io(&path))?;
        Ok(totals)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), BackupError> {
        self.hasher.update(bytes);
        self.totals.bytes += bytes.len() as u64;
        self.file.write_all(bytes).map_err(BackupError::io(&self.unfinished.0))
    }
}

/// Puts what stands for the positions from `from` on before `to`, which have no records.
fn put_gap(buffer: &mut Vec<u8>, from: Position, to: Position) {
    if from < to {
        buffer.extend((to.0 - from.0).to_le_bytes());
        buffer.extend([0; RECORD_HEADER_LEN - 8]);
    }
}
