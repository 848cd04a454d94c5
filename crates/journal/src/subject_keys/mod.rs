//! Keys of data subjects: what is sealed with one is gone when the key is destroyed.
//!
//! # Problem
//! A log that is only appended to, its backups and its replicas keep what was written. To erase a person from all of them, what
//! is personal is sealed with a key of that person before it is written, and the key is kept here, in a file of slots that can
//! be overwritten. Destroying one key erases what was sealed with it, wherever copies of that are.
//!
//! # The file
//! `subject-keys` has a header, two marks and slots of 64 bytes ([`format`]). A subject's keys are numbered by their generation,
//! from 1; one lives at a time, and each has a slot of its own. Slots are appended and never used again, so that the next
//! generation is known, and what was sealed with a destroyed key is told from what was changed. A slot names its subject by an
//! HMAC under a secret of the file: who has a copy of the slots alone cannot try names.
//!
//! A slot is *live*, then *ending*, then *ended*. A mark says how many slots are durable.
//!
//! # Steps
//! Create: (1) append live slots; (2) sync; (3) write the mark that says less, and answer.
//!
//! Destroy: (1) write the state *ending*; (2) sync; (3) overwrite the key and its checksum with zeros; (4) sync; (5) write the
//! state *ended*, and answer.
//!
//! The last step of each becomes durable with the next sync.
//!
//! # Crashes
//! A crash leaves of each byte that was not synced the old one or the new one, and the file may be longer or shorter by what was
//! not synced. Nothing more is assumed: no order, and no sector that is written as a whole.
//!
//! * *An acknowledged key is never lost.* Its slot was synced. What is written to it later is its state, and its key only behind a
//!   durable *ending*. A state between *live* and *ending* with a whole key is a destruction that nobody was told of, and that did
//!   not happen: the slot counts as live. So a flipped byte of a state costs no key.
//! * *An acknowledged destruction holds.* The zeros were synced, and are never written over. A slot that is *ending*, wholly or on
//!   the way to *ended*, has its key overwritten when the file is opened, whatever of that was done: zeros that are visible and,
//!   after a failed sync, not durable are written again.
//! * *A torn create is told from damage* by its place. Slots before the mark were synced, and have to be whole. The first slot
//!   behind it that is not whole was never acknowledged, as one sync acknowledges all slots of a round, and the next round comes
//!   after it: the file is cut there. Whole slots before the cut may have been acknowledged; they are written and synced again.
//! * *A mark never says too much.* It is written when what it says is durable, over the other mark, which says less, and a sync lies
//!   between two marks: one of them is always whole. Opening writes the one that says most again, which may not be durable, and
//!   syncs. If power goes before a mark is durable, the last round alone is not covered, and damage to its slots looks like a torn
//!   create.
//! * *A key is visible when it is durable.* Nothing is sealed with one that a crash takes back.
//!
//! Whatever else is found is damage, and the store does not open. After a failed write or sync nothing is known: what was sealed
//! can still be read, and everything else is refused until the store is opened again, which settles what is in the file. A full disk
//! refuses new keys alone.
//!
//! # What erasure needs besides
//! The file system has to overwrite in place: one that copies on write, a snapshot of a volume and a worn block of a flash disk keep
//! old blocks. A copy of the directory restores all keys that it has, so that copies have to be replaced soon after a
//! destruction. Keys are in memory for the length of a call, and overwritten there afterwards, but for what the cipher expands
//! them to on the stack.

mod cipher;
mod error;
mod file;
mod format;
mod index;
mod key;
mod open;
mod rounds;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use ring::rand::SystemRandom;

use self::cipher::Digester;
pub use self::error::SubjectKeysError;
use self::file::KeyFile;
use self::format::Identity;
use self::index::Last;
pub use self::key::{Sealed, SubjectKey};
use self::rounds::Rounds;
use crate::disk::{Disk, DiskLock, OsDisk};

const FILE: &str = "subject-keys";

/// Keys of data subjects, one at a time for each, in a directory of their own: what is sealed with one is gone when it is destroyed.
///
/// A subject is named by any text. Its first key has generation 1; one that is created after a destruction has the next.
/// The keys stay on the disk. In memory is where they are, which took 55 MB for a million subjects when it was measured; their file
/// has 64 MB. Calls from many threads share syncs.
///
/// ```
/// use enact_journal::{Sealed, SubjectKeys};
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("keys");
/// let keys = SubjectKeys::open(&path)?;
/// assert_eq!(keys.seal("Customer/c17", b"Ada Lovelace")?, None);
/// keys.create("Customer/c17")?;
/// let Some(Sealed { generation, bytes, .. }) = keys.seal("Customer/c17", b"Ada Lovelace")? else { panic!("it has a key") };
/// drop(keys);
///
/// let keys = SubjectKeys::open(&path)?;
/// assert_eq!(keys.unseal("Customer/c17", generation, &bytes)?.as_deref(), Some(&b"Ada Lovelace"[..]));
/// assert!(keys.destroy("Customer/c17", generation)?);
/// assert_eq!(keys.unseal("Customer/c17", generation, &bytes)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct SubjectKeys {
    rounds: Rounds,
    file: KeyFile,
    digester: Digester,
    disk: Arc<dyn Disk>,
    #[expect(dead_code, reason = "held for its drop, which comes last")]
    lock: DiskLock,
}

impl SubjectKeys {
    /// Opens the keys in `directory`, or begins with none there; the directory is made if there is none, for its owner alone.
    ///
    /// What a crash has left unfinished is settled with a warning, and durable then.
    ///
    /// # Errors
    /// When the directory is unsuitable, open to others or in use, when the file is damaged or of another version, or as the
    /// operating system reports. A damaged file is left as it is.
    ///
    /// # Blocking
    /// Reads the whole file, and syncs.
    pub fn open(directory: &Path) -> Result<Self, SubjectKeysError> {
        Self::open_on(Arc::new(OsDisk::at(directory)?))
    }

    /// Opens the keys on `disk`.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_on(disk: Arc<dyn Disk>) -> Result<Self, SubjectKeysError> {
        let lock = disk.lock()?;
        let source = SystemRandom::new();
        let opened = open::open(&*disk, &source)?;
        let file = opened.writer.file.clone();
        let rounds = Rounds::new(opened.writer, opened.index);
        Ok(Self { rounds, file, digester: opened.digester, disk, lock })
    }

    /// The generation of the subject's key, if it has one.
    pub fn generation(&self, subject: &str) -> Option<u32> {
        let last = self.rounds.last(&self.digester.digest(subject))?;
        last.live.map(|_| last.generation)
    }

    /// [Seals](SubjectKey::seal) `clear` with the subject's present key; nothing if it has none.
    ///
    /// # Errors
    /// When the slot cannot be read or is damaged, when there are no random bytes, or after a change has
    /// [failed](SubjectKeysError::Failed).
    ///
    /// # Panics
    /// When `clear` has 64 GiB or more, which is more than the cipher can count.
    ///
    /// # Blocking
    /// Reads one slot, and waits for no sync.
    pub fn seal(&self, subject: &str, clear: &[u8]) -> Result<Option<Sealed>, SubjectKeysError> {
        let digest = self.digester.digest(subject);
        let Some(Last { generation, live: Some(place) }) = self.rounds.last_to_use(&digest)? else { return Ok(None) };
        let Some(key) = self.file.key(place, Identity { digest, generation })? else { return Ok(None) };
        key.seal(subject, generation, clear).map(Some)
    }

    /// Gives the subject a key if it has none. The key is durable when this returns.
    ///
    /// # Errors
    /// When the disk is full or there are no random bytes: the subject has no new key then, and the store goes on.
    /// When the operating system fails: the subject may have a key when the store is opened again, and until then this is
    /// [refused](SubjectKeysError::Failed).
    ///
    /// # Blocking
    /// Until the key is synced. Calls that come while a sync is under way share the next one.
    pub fn create(&self, subject: &str) -> Result<(), SubjectKeysError> {
        self.rounds.create(self.digester.digest(subject))
    }

    /// What was sealed for the subject with its key of `generation`; nothing if that key was destroyed.
    ///
    /// # Errors
    /// [`Unknown`](SubjectKeysError::Unknown) when the subject has never had that key,
    /// [`Tampered`](SubjectKeysError::Tampered) when `sealed` is not what was sealed with it, or when the slot cannot be read or is
    /// damaged.
    ///
    /// # Blocking
    /// Reads one slot, and waits for no sync.
    pub fn unseal(&self, subject: &str, generation: u32, sealed: &[u8]) -> Result<Option<Vec<u8>>, SubjectKeysError> {
        let digest = self.digester.digest(subject);
        let known = self.rounds.last(&digest).filter(|last| (1..=last.generation).contains(&generation));
        let last = known.ok_or_else(|| SubjectKeysError::Unknown { subject: subject.to_owned(), generation })?;
        let Some(place) = last.live.filter(|_| last.generation == generation) else { return Ok(None) };
        let Some(key) = self.file.key(place, Identity { digest, generation })? else { return Ok(None) };
        let clear = key.unseal(subject, generation, sealed);
        clear.map(Some).ok_or_else(|| SubjectKeysError::Tampered { subject: subject.to_owned(), generation })
    }

    /// Destroys the keys of the subject up to and including `generation`. Returns whether there was one.
    ///
    /// When this returns, also if there was none, the keys are overwritten and that is durable.
    ///
    /// # Errors
    /// When the operating system fails: the key may live when the store is opened again, so that this has to be repeated then, and
    /// until then this is [refused](SubjectKeysError::Failed).
    ///
    /// # Blocking
    /// Until the key is overwritten, which takes two syncs. Calls that come while a sync is under way share the next ones.
    pub fn destroy(&self, subject: &str, generation: u32) -> Result<bool, SubjectKeysError> {
        self.rounds.destroy(self.digester.digest(subject), generation)
    }
}

impl fmt::Debug for SubjectKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SubjectKeys").field("disk", &self.disk).finish_non_exhaustive()
    }
}
