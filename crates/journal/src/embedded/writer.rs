//! The thread that writes: takes groups from the queue, makes them durable, answers.

use std::io;
use std::sync::Arc;
use std::thread;

use super::snapshots::Snapshots;
use super::store::Store;
use super::tail::{Tail, WriteFailure};
use super::{PANICKED, commits::Group};
use crate::disk::DiskLock;
use crate::journal::{AppendError, CloseError, Refusal};

pub(super) struct Writer {
    store: Arc<Store>,
    snapshots: Arc<Snapshots>,
    tail: Tail,
    lock: Option<DiskLock>,
}

impl Writer {
    pub(super) fn new(store: Arc<Store>, snapshots: Arc<Snapshots>, tail: Tail, lock: DiskLock) -> Self {
        Self { store, snapshots, tail, lock: Some(lock) }
    }

    /// Writes until the journal is closed.
    pub(super) fn run(mut self) {
        while let Some(group) = self.store.commits.next_group() {
            self.write(group);
        }
        self.store.commits.wait_for_close();
        self.close();
    }

    fn write(&mut self, group: Group) {
        let commits = &self.store.commits;
        let outgoing = group.outgoing();
        if outgoing.is_empty() {
            return commits.publish(group, None);
        }
        match self.tail.append(&outgoing) {
            Ok(written) => commits.publish(group, Some(&written)),
            Err(WriteFailure::Full(error)) => {
                commits.refuse(group, &Refusal::StorageFull { why: error.to_string() });
            }
            Err(WriteFailure::Before(error)) => {
                let why = failed(&error);
                commits.fail(group, &why, &Refusal::Poisoned { why: why.clone() }.into());
            }
            Err(WriteFailure::InDoubt(error)) => {
                let why = failed(&error);
                commits.fail(group, &why, &AppendError::InDoubt { why: why.clone() });
            }
        }
    }

    fn close(&mut self) {
        let result = self
            .store
            .commits
            .poisoned()
            .and_then(|()| self.tail.mark().map_err(|error| CloseError::Poisoned { why: failed(&error) }));
        self.snapshots.save_pending();
        self.snapshots.close();
        self.lock = None;
        self.store.commits.end_close(&result);
    }
}

fn failed(error: &io::Error) -> String {
    let why = format!("a write to the log has failed: {error}");
    tracing::error!("{why}");
    why
}

impl Drop for Writer {
    fn drop(&mut self) {
        if thread::panicking() {
            self.store.commits.poison(PANICKED);
            self.store.commits.end_close(&Err(CloseError::Poisoned { why: PANICKED.to_owned() }));
        }
    }
}
