//! Sees that the files of an open journal stay where they are, also while nobody reads or writes.
//!
//! A file that is removed under a process stays writable until the process ends, and is gone then. So a thread looks
//! four times a second whether each file of the log is still the one in the directory and as long as it was, and the
//! directory still where it was. If not, the journal fails. Besides, no group is acknowledged in a segment that has no
//! name any more.

use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use enact_sync::Mutex;

use super::PANICKED;
use super::format::segment_name;
use super::manifest::MANIFEST;
use super::store::Store;
use crate::disk::{Disk, FileStatus};

const INTERVAL: Duration = Duration::from_millis(250);

/// The files of a log: the manifest and its segments in order.
pub(super) struct Watch {
    disk: Arc<dyn Disk>,
    files: Mutex<Vec<Watched>>,
}

struct Watched {
    name: String,
    /// It may have grown.
    seen: FileStatus,
}

impl Watch {
    /// Watches the manifest and the segments from 1 to `segment_count`.
    pub(super) fn new(disk: Arc<dyn Disk>, segment_count: u32) -> io::Result<Self> {
        let watch = Self { disk, files: Mutex::new(Vec::new()) };
        watch.add(MANIFEST.to_owned())?;
        (1..=segment_count).try_for_each(|number| watch.add(segment_name(number)))?;
        Ok(watch)
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

    /// What is not as it was, if anything.
    fn check(&self) -> Result<(), String> {
        self.disk.check_place().or_else(|error| definite(&error, "the data directory"))?;
        let count = self.files.lock().len();
        for index in 0..count {
            let (name, seen) = {
                let watched = &self.files.lock()[index];
                (watched.name.clone(), watched.seen)
            };
            match self.disk.look_up(&name) {
                Ok(found) if found.id != seen.id => return Err(format!("{name} has been replaced")),
                Ok(found) if found.size < seen.size => {
                    return Err(format!("{name} has been cut from {} to {} bytes", seen.size, found.size));
                }
                Ok(_) => {}
                Err(error) => definite(&error, &name)?,
            }
        }
        Ok(())
    }
}

/// Only what is certainly gone is a failure: what cannot be looked at now may be there.
fn definite(error: &io::Error, what: &str) -> Result<(), String> {
    if error.kind() == io::ErrorKind::NotFound {
        return Err(format!("{what} is gone: {error}"));
    }
    tracing::warn!(%error, "cannot look at {what}");
    Ok(())
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
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                if let Err(what) = watch.check()
                    && let Some(store) = store.upgrade()
                {
                    let why = format!("the files of the journal have been tampered with: {what}");
                    tracing::error!("{why}");
                    return store.commits.poison(&why);
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
