//! Snapshots of entities, in a redb file beside the log.
//!
//! Everything here can be rebuilt from the log, so no failure of this store is a failure of the journal. A store that
//! is damaged, which its blocks show (`sealed.rs`), is renamed to `snapshots.redb.damaged` with a warning and a new one is
//! begun; an entry whose checksum does not fit is passed over. Either way replay starts further back.
//!
//! An entry carries the fingerprint of the last record that it includes, and is used only while the log has that very
//! record. So a snapshot of another log, of a later state of this one (files that were copied one after the other), or
//! of a history that was never durable here is passed over as well.
//!
//! The store is opened when it is first used. Snapshots that arrive while one is being saved are saved together.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use enact_sync::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, TableError};

use super::format::Address;
use super::sealed::Sealed;
use super::store::{Fingerprint, Store as Log};
use crate::disk::Disk;
use crate::journal::{ReadError, SnapshotError};
use crate::record::{EntityKey, Seq, Snapshot};
use crate::reply::Reply;

pub(super) const FILE: &str = "snapshots.redb";
pub(super) const DAMAGED: &str = "snapshots.redb.damaged";
const TABLE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("snapshots-2");
const CACHE_BYTES: usize = 16 << 20;
const ENTRY_HEADER_LEN: usize = 24;

pub(super) struct Snapshots {
    log: Arc<Log>,
    /// Read by the threads that use the store, written by one that opens, replaces or closes it.
    store: RwLock<Store>,
    pending: Mutex<Vec<Pending>>,
}

/// The number counts how often a store was given up: a failure of an earlier one says nothing of this one.
enum Store {
    Unopened(u64),
    Open(u64, Database),
    Closed,
}

type Pending = (Snapshot, Reply<Result<(), SnapshotError>>);

/// A snapshot and the fingerprint of the last record that it includes.
struct Entry {
    snapshot: Snapshot,
    last: Fingerprint,
}

/// Why the store did not do what it was asked.
enum Failure {
    /// The store is damaged: begin a new one.
    Damaged(String),
    /// The store may work later.
    Unavailable(String),
    Closed,
}

impl<E: Into<redb::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        let error = error.into();
        let why = error.to_string();
        match error {
            redb::Error::Io(error) if !is_content(&error) => Self::Unavailable(why),
            redb::Error::PreviousIo => Self::Unavailable(why),
            _ => Self::Damaged(why),
        }
    }
}

/// The operating system has read, and what it has read makes no sense.
fn is_content(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

impl Snapshots {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self { log, store: RwLock::new(Store::Unopened(0)), pending: Mutex::new(Vec::new()) }
    }

    /// Queues a snapshot; [`save_pending`](Self::save_pending) has to follow.
    pub(super) fn submit(&self, snapshot: Snapshot, reply: Reply<Result<(), SnapshotError>>) {
        self.pending.lock().push((snapshot, reply));
    }

    /// Saves everything queued in one transaction and answers.
    pub(super) fn save_pending(&self) {
        let pending = std::mem::take(&mut *self.pending.lock());
        let (mut entries, mut replies) = (Vec::with_capacity(pending.len()), Vec::with_capacity(pending.len()));
        for (snapshot, reply) in pending {
            match self.log.fingerprint(&snapshot.entity, snapshot.seq) {
                Ok(last) => {
                    entries.push(Entry { snapshot, last });
                    replies.push(reply);
                }
                Err(error) => reply.answer(Err(SnapshotError::Unavailable { why: error.to_string() })),
            }
        }
        if entries.is_empty() {
            return;
        }
        let save = |store: &Database| self.save(store, &entries);
        // A damaged store has been replaced by an empty one: try that once.
        let saved = match self.with_store(save) {
            Err(Failure::Damaged(_)) => self.with_store(save),
            other => other,
        };
        for reply in replies {
            reply.answer(match &saved {
                Ok(()) => Ok(()),
                Err(Failure::Closed) => Err(SnapshotError::Closed),
                Err(Failure::Damaged(why) | Failure::Unavailable(why)) => {
                    Err(SnapshotError::Unavailable { why: why.clone() })
                }
            });
        }
    }

    fn save(&self, store: &Database, entries: &[Entry]) -> Result<(), Failure> {
        let mut transaction = store.begin_write()?;
        // Costs a little more per commit and saves reading the whole file after a crash.
        transaction.set_quick_repair(true);
        {
            let mut table = transaction.open_table(TABLE)?;
            for entry in entries {
                let entity = &entry.snapshot.entity;
                let kept = table.get(entity.as_str())?.and_then(|kept| self.decode(entity, kept.value()));
                let is_newer = |kept: &Entry| kept.snapshot.seq > entry.snapshot.seq;
                if !kept.is_some_and(|kept| is_newer(&kept) && self.is_of_log(&kept).unwrap_or(false)) {
                    table.insert(entity.as_str(), &*self.encode(entry))?;
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// The snapshot of `entity`, if it can be had and the log has the records that it includes.
    pub(super) fn load(&self, entity: &EntityKey) -> Result<Option<Snapshot>, ReadError> {
        let Some(entry) = self.load_entry(entity) else { return Ok(None) };
        if self.is_of_log(&entry)? {
            return Ok(Some(entry.snapshot));
        }
        let seq = entry.snapshot.seq.0;
        tracing::warn!(%entity, seq, "passed over a snapshot of records that are not those of the log");
        Ok(None)
    }

    fn is_of_log(&self, Entry { snapshot: Snapshot { entity, seq, .. }, last }: &Entry) -> Result<bool, ReadError> {
        self.log.has(entity, *seq, *last)
    }

    fn load_entry(&self, entity: &EntityKey) -> Option<Entry> {
        let load = |store: &Database| {
            let table = match store.begin_read()?.open_table(TABLE) {
                Err(TableError::TableDoesNotExist(_)) => return Ok(None),
                table => table?,
            };
            let Some(stored) = table.get(entity.as_str())? else { return Ok(None) };
            let entry = self.decode(entity, stored.value());
            if entry.is_none() {
                tracing::warn!(%entity, "passed over a damaged snapshot");
            }
            Ok(entry)
        };
        self.with_store(load).unwrap_or_else(|failure| {
            if let Failure::Unavailable(why) = failure {
                tracing::warn!(%entity, why, "cannot load a snapshot");
            }
            None
        })
    }

    /// Waits for those who use the store and closes it; nothing is loaded or saved any more.
    pub(super) fn close(&self) {
        let mut store = self.store.write().unwrap_or_else(PoisonError::into_inner);
        discard(std::mem::replace(&mut *store, Store::Closed));
    }

    fn with_store<T>(&self, work: impl Fn(&Database) -> Result<T, Failure>) -> Result<T, Failure> {
        loop {
            let used = match &*self.store.read().unwrap_or_else(PoisonError::into_inner) {
                Store::Unopened(_) => None,
                Store::Open(number, store) => Some((*number, contain(|| work(store)))),
                Store::Closed => return Err(Failure::Closed),
            };
            match used {
                None => self.open()?,
                Some((number, result)) => {
                    if let Err(failure) = &result {
                        self.give_up(number, failure);
                    }
                    return result;
                }
            }
        }
    }

    fn open(&self) -> Result<(), Failure> {
        let mut slot = self.store.write().unwrap_or_else(PoisonError::into_inner);
        let Store::Unopened(number) = *slot else { return Ok(()) };
        let store = match contain(|| open_store(&*self.log.disk)) {
            Err(Failure::Damaged(why)) => {
                self.move_aside(&why)?;
                contain(|| open_store(&*self.log.disk))?
            }
            other => other?,
        };
        *slot = Store::Open(number, store);
        Ok(())
    }

    /// Lets the next use open store `number` anew, or begin a new one.
    fn give_up(&self, number: u64, failure: &Failure) {
        let mut slot = self.store.write().unwrap_or_else(PoisonError::into_inner);
        if !matches!(&*slot, Store::Open(current, _) if *current == number) {
            return;
        }
        discard(std::mem::replace(&mut *slot, Store::Unopened(number + 1)));
        if let Failure::Damaged(why) = failure
            && self.move_aside(why).is_err()
        {
            *slot = Store::Closed;
        }
    }

    fn move_aside(&self, why: &str) -> Result<(), Failure> {
        tracing::warn!(file = FILE, moved_to = DAMAGED, why, "the store of snapshots is damaged, a new one is begun");
        let disk = &self.log.disk;
        let moved = disk.rename(FILE, DAMAGED).and_then(|()| disk.sync());
        moved.map_err(|error| Failure::Unavailable(error.to_string()))
    }

    fn checksum(&self, entity: &EntityKey, content: &[u8]) -> u32 {
        let sum = crc32c::crc32c(&self.log.log.0.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c_append(sum, entity.as_str().as_bytes()), content)
    }

    fn encode(&self, Entry { snapshot: Snapshot { entity, seq, payload }, last }: &Entry) -> Vec<u8> {
        let mut entry = Vec::with_capacity(ENTRY_HEADER_LEN + payload.len());
        entry.extend([0; 4]);
        entry.extend(last.checksum.to_le_bytes());
        entry.extend(last.address.to_bits().to_le_bytes());
        entry.extend(seq.0.to_le_bytes());
        entry.extend(payload);
        let sum = self.checksum(entity, &entry[4..]);
        entry[..4].copy_from_slice(&sum.to_le_bytes());
        entry
    }

    fn decode(&self, entity: &EntityKey, entry: &[u8]) -> Option<Entry> {
        let (sum, content) = entry.split_first_chunk::<4>()?;
        if u32::from_le_bytes(*sum) != self.checksum(entity, content) {
            return None;
        }
        let (checksum, content) = content.split_first_chunk::<4>()?;
        let (address, content) = content.split_first_chunk::<8>()?;
        let (seq, payload) = content.split_first_chunk::<8>()?;
        let address = Address::from_bits(u64::from_le_bytes(*address));
        let snapshot =
            Snapshot { entity: entity.clone(), seq: Seq(u64::from_le_bytes(*seq)), payload: payload.to_vec() };
        Some(Entry { snapshot, last: Fingerprint { address, checksum: u32::from_le_bytes(*checksum) } })
    }
}

fn open_store(disk: &dyn Disk) -> Result<Database, Failure> {
    let unavailable = |error: io::Error| Failure::Unavailable(error.to_string());
    let file = match disk.open(FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let file = disk.create(FILE).map_err(unavailable)?;
            disk.sync().map_err(unavailable)?;
            file
        }
        other => other.map_err(unavailable)?,
    };
    Ok(Database::builder().set_cache_size(CACHE_BYTES).create_with_backend(Sealed(file))?)
}

/// Drops a store, which writes to its file.
fn discard(store: Store) {
    if catch_unwind(AssertUnwindSafe(|| drop(store))).is_err() {
        tracing::warn!("the store of snapshots did not close cleanly");
    }
}

/// redb checks its own invariants by panics, which fail if the file was cut, or if its blocks are not of one moment.
fn contain<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(Failure::Damaged("redb panicked".to_owned())))
}
