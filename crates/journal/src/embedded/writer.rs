//! The thread that writes: takes groups from the queue, makes them durable, has them answered and [summed up](super::summary).

use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, thread};

use super::PANICKED;
use super::attestations::{Attestations, Reached};
use super::commits::{Group, Next};
use super::snapshots::Snapshots;
use super::store::Store;
use super::tail::{Tail, WriteFailure};
use super::upkeep::Upkeep;
use super::watch::{Watch, Watcher};
use super::workers::Workers;
use crate::disk::{DiskLock, is_full};
use crate::journal::{AppendError, CloseError, Refusal};

pub(super) struct Writer {
    store: Arc<Store>,
    snapshots: Arc<Snapshots>,
    tail: Tail,
    lock: Option<DiskLock>,
    watch: Arc<Watch>,
    watcher: Watcher,
    upkeep: Upkeep,
    attesting: Option<Attesting>,
    /// Answers long groups and sums them up, until the journal is closed.
    summer: Option<Workers>,
    /// How many segments there are.
    segment_count: u32,
    mark_lag: Duration,
    /// When the high-water mark has to move on.
    mark_due: Option<Instant>,
    /// The last group was refused for want of space.
    is_full: bool,
}

impl Writer {
    /// A writer at `tail`; starts to watch the files of the log, which has `segment_count` segments.
    ///
    /// # Errors
    /// When there is no thread for watching.
    #[expect(clippy::too_many_arguments, reason = "a writer is made at one place, of all that a journal consists of")]
    pub(super) fn new(
        store: Arc<Store>,
        snapshots: Arc<Snapshots>,
        tail: Tail,
        lock: DiskLock,
        mark_lag: Duration,
        segment_count: u32,
        watch: Arc<Watch>,
        upkeep: Upkeep,
        attesting: Option<Attesting>,
    ) -> io::Result<Self> {
        let watcher = Watcher::start(Arc::clone(&watch), Arc::downgrade(&store))?;
        let summer = Some(Workers::start("enact-journal-sum", 1)?);
        let lock = Some(lock);
        Ok(Self {
            store,
            snapshots,
            tail,
            lock,
            watch,
            watcher,
            upkeep,
            attesting,
            summer,
            segment_count,
            mark_lag,
            mark_due: None,
            is_full: false,
        })
    }

    /// Writes until the journal is closed.
    pub(super) fn run(mut self) {
        loop {
            let attest_due = self.attesting.as_ref().and_then(|attesting| attesting.due);
            let due = self.mark_due.into_iter().chain(attest_due).min();
            match self.store.commits.next(due) {
                Next::Group(group) => self.write(group),
                Next::Due if self.mark_due == due => self.advance_mark(),
                Next::Due => self.attest(),
                Next::End => break,
            }
        }
        self.store.commits.wait_for_close();
        self.close();
    }

    fn write(&mut self, mut group: Group) {
        let commits = &self.store.commits;
        if group.is_empty() {
            return group.answer(commits.publish(&group, None));
        }
        let (draft, previous) = group.parts();
        let written = self.tail.append(draft, previous).and_then(|written| {
            self.watch.grown(written.segment, written.segment_end).map_err(WriteFailure::InDoubt)?;
            Ok(written)
        });
        match written {
            Ok(written) => {
                let before = commits.publish(&group, Some(&written));
                let bytes = group.take_bytes();
                let finish = move |contents: &mut _| {
                    group.answer(before);
                    group.add_to(contents, &written.addresses);
                };
                let summer = self.summer.as_ref().expect("the journal is not closed");
                commits.reuse(self.tail.sum_up(bytes, finish, summer));
                if written.segment > self.segment_count {
                    self.segment_count = written.segment;
                    self.tail.seals.last().into_iter().for_each(|seal| self.upkeep.sealed(*seal));
                    if let Some((attesting, sealed)) = self.attesting.as_ref().zip(self.tail.sealed) {
                        attesting.attest(sealed);
                    }
                }
                self.attesting.iter_mut().for_each(Attesting::grown);
                self.mark_due = self.mark_due.or_else(|| Instant::now().checked_add(self.mark_lag));
                if std::mem::take(&mut self.is_full) {
                    tracing::info!("there is space on the disk again");
                }
            }
            Err(WriteFailure::Full(error)) => {
                if !std::mem::replace(&mut self.is_full, true) {
                    tracing::warn!(%error, "the disk is full: records are refused until there is space");
                }
                commits.refuse(group, &Refusal::StorageFull { why: error.to_string() });
            }
            Err(WriteFailure::Before(error)) => {
                self.mark_due = None;
                let why = failed(&error);
                commits.fail(group, &why, &Refusal::Poisoned { why: why.clone() }.into());
            }
            Err(WriteFailure::InDoubt(error)) => {
                self.mark_due = None;
                let why = failed(&error);
                commits.fail(group, &why, &AppendError::InDoubt { why: why.clone() });
            }
        }
    }

    fn advance_mark(&mut self) {
        self.mark_due = None;
        match self.tail.advance_mark() {
            Ok(()) => {}
            Err(error) if is_full(&error) => self.mark_due = Instant::now().checked_add(self.mark_lag),
            Err(error) => self.store.commits.poison(&failed(&error)),
        }
    }

    /// Has all of the log attested, which is durable, unless a write has failed: what of it is summed up is not known then.
    fn attest(&mut self) {
        let Some(attesting) = &mut self.attesting else { return };
        attesting.due = None;
        if self.store.commits.poisoned().is_ok() {
            self.tail.attestable().into_iter().for_each(|reached| attesting.attest(reached));
        }
    }

    fn close(&mut self) {
        self.watcher.stop();
        self.upkeep.stop();
        self.attest();
        // Waits for both.
        (self.attesting, self.summer) = (None, None);
        let result = self.store.commits.poisoned().and_then(|()| match self.tail.settle_mark() {
            Err(error) if is_full(&error) => {
                // All records are durable; the mark stays where it was.
                tracing::warn!(%error, "no space for the high-water mark");
                Ok(())
            }
            settled => settled.map_err(|error| CloseError::Poisoned { why: failed(&error) }),
        });
        self.snapshots.save_pending();
        self.snapshots.close();
        self.lock = None;
        self.store.commits.end_close(&result);
    }
}

/// Has the log attested, on a thread of its own.
pub(super) struct Attesting {
    attestations: Arc<Attestations>,
    worker: Workers,
    after: Duration,
    /// When what was written since has to be attested.
    due: Option<Instant>,
}

impl Attesting {
    /// Has what is there attested within the time `after`, and what is written from then on.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn start(attestations: Arc<Attestations>, after: Duration) -> io::Result<Self> {
        let worker = Workers::start("enact-journal-attest", 1)?;
        Ok(Self { attestations, worker, after, due: Instant::now().checked_add(after) })
    }

    fn grown(&mut self) {
        self.due = self.due.or_else(|| Instant::now().checked_add(self.after));
    }

    fn attest(&self, reached: Reached) {
        let attestations = Arc::clone(&self.attestations);
        self.worker.run(move || attestations.attest(reached));
    }
}

fn failed(error: &io::Error) -> String {
    format!("a write to the log has failed: {error}")
}

impl Drop for Writer {
    fn drop(&mut self) {
        if thread::panicking() {
            self.store.commits.poison(PANICKED);
            self.store.commits.end_close(&Err(CloseError::Poisoned { why: PANICKED.to_owned() }));
        }
    }
}
