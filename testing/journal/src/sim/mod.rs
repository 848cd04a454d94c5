//! A simulated disk, for tests of what rests on a [`Disk`].
//!
//! It holds what is visible and what is durable, and keeps them apart as a real machine does:
//! * A [power cut](SimDisk::power_cut) keeps any part of what was not synced: sector by sector, in any order, a sector
//!   torn, a file cut short; created, renamed and removed names only up to some point, unless the directory was
//!   synced.
//! * A [killed process](SimDisk::kill) loses nothing, also not what is not durable.
//! * A [failed sync](Fault::SyncLost) leaves the bytes visible and makes them durable never again, unless they are
//!   written again: as a kernel does that has marked the pages clean.
//! * All reads, writes or syncs can [hang](SimDisk::hang) until they are released.
//! * Any step can [fail](SimDisk::fail_in) before, half way or after it is done; the disk can be [full](SimDisk::set_capacity).
//!
//! Everything random comes from the seed: the same calls give the same disk.
//!
//! ```
//! use std::sync::Arc;
//! use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Seq};
//! use enact_journal_kit::sim::SimDisk;
//! # fn block_on<F: Future>(future: F) -> F::Output { enact_journal_kit::contract::block_on(future) }
//! let disk = SimDisk::new(42);
//! let account = EntityKey::new("Account", "NL01")?;
//! let record = NewRecord { entity: account.clone(), expected: Seq::NONE, kind: Kind(0), payload: vec![1] };
//!
//! let journal = Embedded::open_on(disk.mount(), Options::default())?;
//! block_on(journal.append(vec![record]))?;
//! disk.power_cut();
//! drop(journal);
//!
//! let journal = Embedded::open_on(disk.mount(), Options::default())?;
//! assert_eq!(block_on(journal.last(&account))?, Seq(1));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fate;
mod state;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::{fmt, io};

use enact_journal::disk::{Disk, DiskFile, DiskLock, FileStatus, LockError};
use enact_sync::{Condvar, Mutex, MutexGuard};
use fate::{ChosenFate, Random, RandomFate};
use state::{Change, FileId, State};

/// The disk of a simulated machine. Clones are the same disk.
#[derive(Clone)]
pub struct SimDisk(Arc<Shared>);

struct Shared {
    machine: Mutex<Machine>,
    /// Signals that something hangs no longer.
    released: Condvar,
}

struct Machine {
    state: State,
    /// Counts kills and power cuts: mounts from before are dead.
    boot: u64,
    is_locked: bool,
    random: Random,
    faults: BTreeMap<u64, Fault>,
    is_failed: bool,
    are_reads_failing: bool,
    hanging: BTreeSet<Hang>,
    hanging_count: usize,
    capacity: u64,
    step_count: u64,
    recording: Option<Recording>,
}

struct Recording {
    base: State,
    done: Vec<(Step, Option<Change>)>,
}

/// How a step of the disk fails. After each but the last two the disk stays failed until the next kill or
/// power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done.
    Refused,
    /// A write is done half; any other step not at all.
    Torn,
    /// All is done, and an error is reported.
    AfterDone,
    /// A sync fails, and what was to be synced can no longer be; any other step is not done.
    SyncLost,
    /// A write is done half, for want of space; any other step not at all.
    Full,
    /// All is done, and a want of space is reported.
    FullAfterDone,
}

/// What hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hang {
    /// Reads of a file.
    Reads,
    /// Changes of files and of names, before they are visible.
    Writes,
    /// Syncs of files and of the directory, before they have any effect.
    Syncs,
}

/// One change that was asked of the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A new file.
    Create(String),
    /// So many bytes at that offset of a file.
    Write(String, u64, usize),
    /// A new size of a file.
    SetSize(String, u64),
    /// A sync of a file.
    Sync(String),
    /// A file's new name.
    Rename(String, String),
    /// A file's end.
    Remove(String),
    /// A sync of the directory.
    SyncNames,
}

impl SimDisk {
    /// An empty disk; `seed` decides what power cuts keep.
    pub fn new(seed: u64) -> Self {
        Self::with(State::default(), seed)
    }

    fn with(state: State, seed: u64) -> Self {
        let machine = Machine {
            state,
            boot: 0,
            is_locked: false,
            random: Random(seed),
            faults: BTreeMap::new(),
            is_failed: false,
            are_reads_failing: false,
            hanging: BTreeSet::new(),
            hanging_count: 0,
            capacity: u64::MAX,
            step_count: 0,
            recording: None,
        };
        Self(Arc::new(Shared { machine: Mutex::new(machine), released: Condvar::new() }))
    }

    /// The disk as the process that is started now sees it; useless after the next kill or power cut.
    pub fn mount(&self) -> Arc<dyn Disk> {
        Arc::new(Mount { machine: Arc::clone(&self.0), boot: self.0.lock().boot })
    }

    /// The process dies: its files and its lock are gone, everything it wrote is still visible.
    pub fn kill(&self) {
        self.0.lock().reboot();
        self.0.released.notify_all();
    }

    /// The machine loses power: of what was not synced an arbitrary part remains.
    pub fn power_cut(&self) {
        let mut machine = self.0.lock();
        let Machine { state, random, .. } = &mut *machine;
        state.cut(&mut RandomFate::new(random));
        machine.reboot();
        self.0.released.notify_all();
    }

    /// The machine loses power: of what was not synced, piece `n` remains if `keeps(n)`, whole.
    pub fn power_cut_keeping(&self, keeps: impl FnMut(usize) -> bool) {
        let mut machine = self.0.lock();
        machine.state.cut(&mut ChosenFate::new(keeps));
        machine.reboot();
        self.0.released.notify_all();
    }

    /// The number of pieces (sectors, changes of size or name) that a power cut would keep or lose.
    pub fn unsynced_count(&self) -> usize {
        self.0.lock().state.unsynced_count()
    }

    /// Lets a step fail: the next one if `steps` is 0, the one after that if it is 1.
    pub fn fail_in(&self, steps: u64, fault: Fault) {
        let mut machine = self.0.lock();
        let step = machine.step_count + steps;
        machine.faults.insert(step, fault);
    }

    /// Lets all reads fail, or succeed again.
    pub fn fail_reads(&self, are_failing: bool) {
        self.0.lock().are_reads_failing = are_failing;
    }

    /// From now on `what` waits, until [`release`](Self::release), [`resume`](Self::resume), a kill or a power cut.
    pub fn hang(&self, what: Hang) {
        self.0.lock().hanging.insert(what);
    }

    /// Lets everything go on that hangs.
    pub fn release(&self) {
        self.0.lock().hanging.clear();
        self.0.released.notify_all();
    }

    /// Lets go on what hangs because of `what`.
    pub fn resume(&self, what: Hang) {
        self.0.lock().hanging.remove(&what);
        self.0.released.notify_all();
    }

    /// How many calls hang.
    pub fn hanging_count(&self) -> usize {
        self.0.lock().hanging_count
    }

    /// From now on all files together hold at most `bytes`.
    pub fn set_capacity(&self, bytes: u64) {
        self.0.lock().capacity = bytes;
    }

    /// The bytes in all files together.
    pub fn size(&self) -> u64 {
        self.0.lock().state.size()
    }

    /// Remembers all steps from now on, for [`steps`](Self::steps) and [`at_step`](Self::at_step).
    pub fn record(&self) {
        let mut machine = self.0.lock();
        let base = machine.state.clone();
        machine.recording = Some(Recording { base, done: Vec::new() });
    }

    /// The steps since recording began.
    pub fn steps(&self) -> Vec<Step> {
        let machine = self.0.lock();
        machine.recording.iter().flat_map(|recording| &recording.done).map(|(step, _)| step.clone()).collect()
    }

    /// Another disk, as this one was after the first `count` recorded steps.
    #[must_use]
    pub fn at_step(&self, count: usize, seed: u64) -> Self {
        let machine = self.0.lock();
        let mut state = State::default();
        if let Some(recording) = &machine.recording {
            state.clone_from(&recording.base);
            for change in recording.done.iter().take(count).filter_map(|(_, change)| change.as_ref()) {
                state.apply(change);
            }
        }
        Self::with(state, seed)
    }

    /// Another disk, as this one is.
    #[must_use]
    pub fn copy(&self, seed: u64) -> Self {
        Self::with(self.0.lock().state.clone(), seed)
    }

    /// The names of the files.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().state.names().cloned().collect()
    }

    /// The bytes of a file, if there is one.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let machine = self.0.lock();
        machine.state.file(name).map(|file| machine.state.bytes(file).to_vec())
    }

    /// Damages a file: its durable bytes are now `bytes`.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut machine = self.0.lock();
        let file = machine.state.file(name).expect("a file to damage");
        machine.state.set_bytes(file, bytes);
    }

    /// Damages the directory: the file is gone, durably.
    pub fn lose(&self, name: &str) {
        let mut machine = self.0.lock();
        machine.state.apply(&Change::Remove { name: name.to_owned() });
        machine.state.apply(&Change::SyncNames);
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("names", &self.names()).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock()
    }

    /// The machine, as soon as `what` does not hang; at once in a dead process.
    fn reach(&self, boot: u64, what: Hang) -> MutexGuard<'_, Machine> {
        let mut machine = self.lock();
        machine.hanging_count += 1;
        while machine.hanging.contains(&what) && machine.boot == boot {
            machine = self.released.wait(machine);
        }
        machine.hanging_count -= 1;
        machine
    }
}

impl Machine {
    fn reboot(&mut self) {
        self.boot += 1;
        self.is_locked = false;
        self.is_failed = false;
        self.hanging.clear();
        self.faults.clear();
    }

    fn check_alive(&self, boot: u64) -> io::Result<()> {
        if self.boot == boot { Ok(()) } else { Err(io::Error::other("the process is dead")) }
    }

    /// Does `change`, or what its fault leaves of it.
    fn perform(&mut self, boot: u64, step: Step, change: Change) -> io::Result<()> {
        self.check_alive(boot)?;
        let fault = self.faults.remove(&self.step_count);
        self.step_count += 1;
        let (done, result) = self.decide(change, fault);
        if let Some(change) = &done {
            self.state.apply(change);
        }
        if let Some(recording) = &mut self.recording {
            recording.done.push((step, done));
        }
        result
    }

    fn decide(&mut self, change: Change, fault: Option<Fault>) -> (Option<Change>, io::Result<()>) {
        if self.is_failed {
            return (None, Err(failed()));
        }
        let Some(fault) = fault else { return self.fit(change) };
        let is_full = matches!(fault, Fault::Full | Fault::FullAfterDone);
        self.is_failed = !is_full;
        let done = match (fault, change) {
            (Fault::AfterDone | Fault::FullAfterDone, change) => Some(change),
            (Fault::Torn | Fault::Full, Change::Write { file, offset, mut bytes }) => {
                bytes.truncate(bytes.len() / 2);
                Some(Change::Write { file, offset, bytes })
            }
            (Fault::SyncLost, Change::Sync { file }) => Some(Change::LoseUnsynced { file }),
            _ => None,
        };
        (done, Err(if is_full { io::ErrorKind::StorageFull.into() } else { failed() }))
    }

    /// Does of a write what there is space for.
    fn fit(&self, change: Change) -> (Option<Change>, io::Result<()>) {
        let Change::Write { file, offset, mut bytes } = change else { return (Some(change), Ok(())) };
        let free = self.capacity.saturating_sub(self.state.size());
        let most = self.state.bytes(file).len() as u64 + free;
        let fitting = usize::try_from(most.saturating_sub(offset)).unwrap_or(usize::MAX);
        let is_fitting = bytes.len() <= fitting;
        bytes.truncate(fitting);
        let result = if is_fitting { Ok(()) } else { Err(io::ErrorKind::StorageFull.into()) };
        (Some(Change::Write { file, offset, bytes }), result)
    }
}

fn failed() -> io::Error {
    io::Error::other("the simulated disk has failed")
}

/// The disk, mounted by one process.
struct Mount {
    machine: Arc<Shared>,
    boot: u64,
}

impl Mount {
    fn file(&self, id: FileId) -> Arc<dyn DiskFile> {
        Arc::new(SimFile { machine: Arc::clone(&self.machine), boot: self.boot, id })
    }
}

impl fmt::Debug for Mount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimDisk").field("boot", &self.boot).finish_non_exhaustive()
    }
}

impl Disk for Mount {
    fn fresh_id(&self) -> u64 {
        self.machine.lock().random.next()
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        let mut machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        if machine.is_locked {
            return Err(LockError::InUse { holder: "another process".to_owned() });
        }
        machine.is_locked = true;
        Ok(DiskLock::new(Held { machine: Arc::clone(&self.machine), boot: self.boot }))
    }

    fn is_locked(&self) -> io::Result<bool> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        Ok(machine.is_locked)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        Ok(machine.state.names().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut machine = self.machine.reach(self.boot, Hang::Writes);
        if machine.state.file(name).is_some() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        machine.perform(self.boot, Step::Create(name.to_owned()), Change::Create { name: name.to_owned() })?;
        let id = machine.state.file(name).expect("the file was created");
        drop(machine);
        Ok(self.file(id))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        let id = machine.state.file(name).ok_or(io::ErrorKind::NotFound)?;
        drop(machine);
        Ok(self.file(id))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut machine = self.machine.reach(self.boot, Hang::Writes);
        machine.state.file(from).ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (from.to_owned(), to.to_owned());
        machine.perform(self.boot, Step::Rename(from.clone(), to.clone()), Change::Rename { from, to })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut machine = self.machine.reach(self.boot, Hang::Writes);
        machine.state.file(name).ok_or(io::ErrorKind::NotFound)?;
        machine.perform(self.boot, Step::Remove(name.to_owned()), Change::Remove { name: name.to_owned() })
    }

    fn look_up(&self, name: &str) -> io::Result<FileStatus> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        let id = machine.state.file(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(FileStatus { id, size: machine.state.bytes(id).len() as u64 })
    }

    fn check_place(&self) -> io::Result<()> {
        self.machine.lock().check_alive(self.boot)
    }

    fn sync(&self) -> io::Result<()> {
        self.machine.reach(self.boot, Hang::Syncs).perform(self.boot, Step::SyncNames, Change::SyncNames)
    }
}

struct Held {
    machine: Arc<Shared>,
    boot: u64,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut machine = self.machine.lock();
        if machine.boot == self.boot {
            machine.is_locked = false;
        }
    }
}

struct SimFile {
    machine: Arc<Shared>,
    boot: u64,
    id: FileId,
}

impl fmt::Debug for SimFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimFile").field("id", &self.id).finish_non_exhaustive()
    }
}

impl DiskFile for SimFile {
    fn size(&self) -> io::Result<u64> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        Ok(machine.state.bytes(self.id).len() as u64)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let machine = self.machine.reach(self.boot, Hang::Reads);
        machine.check_alive(self.boot)?;
        if machine.are_reads_failing {
            return Err(failed());
        }
        let bytes = machine.state.bytes(self.id).get(offset as usize..).unwrap_or_default();
        let len = bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut machine = self.machine.reach(self.boot, Hang::Writes);
        let step = Step::Write(machine.state.name(self.id), offset, bytes.len());
        machine.perform(self.boot, step, Change::Write { file: self.id, offset, bytes: bytes.to_vec() })
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        let mut machine = self.machine.reach(self.boot, Hang::Writes);
        let step = Step::SetSize(machine.state.name(self.id), size);
        machine.perform(self.boot, step, Change::SetSize { file: self.id, size })
    }

    fn is_linked(&self) -> io::Result<bool> {
        let machine = self.machine.lock();
        machine.check_alive(self.boot)?;
        Ok(machine.state.is_linked(self.id))
    }

    fn sync(&self) -> io::Result<()> {
        let mut machine = self.machine.reach(self.boot, Hang::Syncs);
        let step = Step::Sync(machine.state.name(self.id));
        machine.perform(self.boot, step, Change::Sync { file: self.id })
    }
}
