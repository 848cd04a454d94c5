//! Sees that the files of an open journal stay where they are, also while nobody reads or writes.
//!
//! A file that is removed under a process stays writable until the process ends, and is gone then. So a thread looks
//! four times a second whether each file of the log is still the one in the directory and as long as it was, and the
//! directory still where it was. If not, the journal fails. Besides, no group is acknowledged in a segment that has no
//! name any more.
//!
//! What it sees of the sizes of files is kept for [`Watch::sizes`], so that who asks for them never waits for the disk.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use enact_sync::Mutex;

use super::PANICKED;
use super::attestations::ATTESTATIONS;
use super::checkpoint::CHECKPOINT;
use super::format::segment_name;
use super::manifest::MANIFEST;
use super::snapshots;
use super::store::Store;
use crate::disk::{Disk, FileStatus};

const INTERVAL: Duration = Duration::from_millis(250);

/// The files of a log: the manifest and its segments in order.
pub(super) struct Watch {
    disk: Arc<dyn Disk>,
    files: Mutex<Vec<Watched>>,
    sizes: Mutex<Sizes>,
}

/// What the files took when they were last looked at, and what was left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sizes {
    /// Bytes of the log, its checkpoint and its snapshots.
    pub(super) bytes: u64,
    pub(super) free_bytes: Option<u64>,
}

struct Watched {
    name: String,
    /// It may have grown.
    seen: FileStatus,
}

impl Watch {
    /// Watches the manifest and the segments from 1 to `segment_count`.
    pub(super) fn new(disk: Arc<dyn Disk>, segment_count: u32) -> io::Result<Self> {
        let watch = Self { disk, files: Mutex::default(), sizes: Mutex::default() };
        watch.add(MANIFEST.to_owned())?;
        (1..=segment_count).try_for_each(|number| watch.add(segment_name(number)))?;
        let bytes = watch.files.lock().iter().map(|watched| watched.seen.size).sum();
        watch.keep_sizes(bytes);
        Ok(watch)
    }

    /// The sizes that were seen last.
    pub(super) fn sizes(&self) -> Sizes {
        *self.sizes.lock()
    }

    /// The manifest and the segments take `bytes`; looks at what else takes space.
    fn keep_sizes(&self, bytes: u64) {
        let rebuilt = [CHECKPOINT, ATTESTATIONS, snapshots::FILE]
            .map(|name| self.disk.look_up(name).map_or(0, |found| found.size));
        let sizes = Sizes { bytes: bytes + rebuilt.iter().sum::<u64>(), free_bytes: self.disk.free_bytes() };
        *self.sizes.lock() = sizes;
    }

    fn add(&self, name: String) -> io::Result<()> {
        let seen = self.disk.look_up(&name)?;
        self.files.lock().push(Watched { name, seen });
        Ok(())
    }

    /// Segment `number`, the last one, is `size` bytes long by now.
    pub(super) fn grown(&self, number: u32, size: u32) -> io::Result<()> {
        if self.files.lock().len() <= number as usize {
            self.add(segment_name(number))?;
        }
        if let Some(last) = self.files.lock().last_mut() {
            last.seen.size = size.into();
        }
        Ok(())
    }

    /// Gives segment `number` another file by `replace`.
    pub(super) fn replaced(&self, number: u32, replace: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
        let mut files = self.files.lock();
        replace()?;
        if let Some(watched) = files.get_mut(number as usize) {
            watched.seen = self.disk.look_up(&watched.name)?;
        }
        Ok(())
    }

    /// Looks at everything once.
    fn check(&self) -> Result<(), Finding> {
        let mut unseen = Ok(());
        if let Err(error) = self.disk.check_place() {
            unseen = Err(Finding::unseen(&error, "the data directory")?);
        }
        let count = self.files.lock().len();
        let mut bytes = 0;
        for index in 0..count {
            match self.check_file(index, |name| self.disk.look_up(name)) {
                Err(Finding::Changed(what)) => return Err(Finding::Changed(what)),
                Err(not_seen @ Finding::Unseen(_)) => unseen = Err(not_seen),
                Ok(size) => bytes += size,
            }
        }
        if unseen.is_ok() {
            self.keep_sizes(bytes);
        }
        unseen
    }

    /// Looks at a file by `look_up`, which may take its time. Returns its size.
    fn check_file(&self, index: usize, look_up: impl FnOnce(&str) -> io::Result<FileStatus>) -> Result<u64, Finding> {
        let (name, seen) = {
            let watched = &self.files.lock()[index];
            (watched.name.clone(), watched.seen)
        };
        match look_up(&name) {
            // It was replaced meanwhile.
            Ok(found) if self.files.lock()[index].seen.id != seen.id => Ok(found.size),
            Ok(found) if found.id != seen.id => Err(Finding::Changed(format!("{name} has been replaced"))),
            Ok(found) if found.size < seen.size => {
                let what = format!("{name} has been cut from {} to {} bytes", seen.size, found.size);
                Err(Finding::Changed(what))
            }
            Ok(found) => Ok(found.size),
            Err(error) => Err(Finding::unseen(&error, &name)?),
        }
    }
}

/// What is not as it was.
#[derive(Debug)]
enum Finding {
    /// The journal has failed.
    Changed(String),
    /// The system could not look: what is not seen now may be there.
    Unseen(String),
}

impl Finding {
    /// What could not be looked at, unless it is certainly gone.
    fn unseen(error: &io::Error, what: &str) -> Result<Self, Self> {
        if error.kind() == io::ErrorKind::NotFound {
            return Err(Self::Changed(format!("{what} is gone: {error}")));
        }
        Ok(Self::Unseen(format!("{what}: {error}")))
    }
}

/// The thread that watches; ends when it is stopped, dropped, or has found something.
pub(super) struct Watcher {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watcher {
    pub(super) fn start(watch: Arc<Watch>, store: Weak<Store>) -> io::Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let run = move || {
            let mut is_blind = false;
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                match watch.check() {
                    Ok(()) => is_blind = false,
                    Err(Finding::Unseen(what)) => {
                        if !std::mem::replace(&mut is_blind, true) {
                            tracing::warn!("cannot look at {what}");
                        }
                    }
                    Err(Finding::Changed(what)) => {
                        let why = format!("the files of the journal are not what they were: {what}");
                        if let Some(store) = store.upgrade() {
                            store.commits.poison(&why);
                        }
                        return;
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("enact-journal-watch".to_owned()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }

    /// Ends the thread and waits for it.
    pub(super) fn stop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(PANICKED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OsDisk;

    #[test]
    fn a_file_that_is_replaced_while_it_is_looked_at_is_no_finding_and_any_other_one_is() {
        let place = tempfile::tempdir().expect("a directory");
        let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(&place.path().join("data")).expect("a directory"));
        for name in [MANIFEST.to_owned(), segment_name(1)] {
            disk.create(&name).expect("new");
        }
        let watch = Watch::new(Arc::clone(&disk), 1).expect("they are there");
        let replace = || {
            disk.create("other")?;
            disk.rename("other", &segment_name(1))
        };
        for _ in 0..3 {
            let looked = watch.check_file(1, |name| {
                watch.replaced(1, replace)?;
                disk.look_up(name)
            });
            assert!(looked.is_ok(), "{looked:?}");
            assert!(watch.check().is_ok());
        }
        replace().expect("replaced");
        assert!(matches!(watch.check(), Err(Finding::Changed(_))));
    }
}
