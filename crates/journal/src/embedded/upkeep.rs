//! What is done beside the writer: [checkpoints](super::checkpoint), [compaction](super::compaction), and the check of segments that a
//! start has not read.
//!
//! # When a checkpoint is made
//! When the segments behind the last one have more bytes than [it has to have](super::Options::checkpoint_bytes), and at least four
//! times as many as the checkpoint: so it costs a quarter of what the log costs to write, however many entities there are. One
//! that cannot be made is tried again with the next segment.
//!
//! # When a segment is not what was written
//! The journal fails, as it would not have opened if the segment had been read. The checkpoint is removed, so that the next
//! start reads the log and says where it is damaged.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use enact_sync::Mutex;

use super::PANICKED;
use super::attestations::{ATTESTATIONS, Attestations, are_there};
use super::checkpoint::{CHECKPOINT, Checkpoint, merge};
use super::commits::Commits;
use super::compaction::{Holdings, Rewrite, Unwanted, rewrite};
use super::format::{Address, segment_name};
use super::manifest::Seal;
use super::segment::Segment;
use super::store::Store;
use super::watch::Watch;

/// How many times as long as a checkpoint the log behind it is at least when the next one is made.
const GROWTH: u64 = 4;
/// How many segments a checkpoint covers more than the one before at most: each is an open file while it is made.
const SEGMENTS_AT_ONCE: usize = 64;
/// Segments are looked through for what tombstones stand for when one in so many entities has got one since the last time.
const WORTHWHILE: usize = 8;
/// After a part that took long to read.
const REST_MAX: Duration = Duration::from_secs(1);

/// What the thread is told.
#[derive(Debug)]
enum Event {
    /// The next segment has been sealed.
    Sealed(Seal),
    /// These forgotten classes, in order, may be discarded.
    Discardable(Vec<String>),
    /// What the tombstones before this stand for may be discarded, and there are so many of them that it may be worthwhile.
    Superseded(Address),
    End,
}

/// Tells the thread what may be discarded.
pub(super) struct Discards {
    events: mpsc::Sender<Event>,
    told: Mutex<Told>,
    opened: Instant,
    /// Nothing may be discarded before the log has been open for so long.
    after: Duration,
}

/// What the thread was told, and what is known of tombstones.
struct Told {
    classes: Vec<String>,
    /// How many tombstones it was told of.
    tombstones: usize,
    /// When they were counted last, how many there were, and where the log ended.
    counted: (Instant, usize, Address),
}

impl Discards {
    /// Of the forgotten classes those of which `is_over` holds now, and what tombstones stand for.
    pub(super) fn allow(&self, commits: &Commits, is_over: impl Fn(&str) -> bool) {
        if self.opened.elapsed() < self.after {
            return;
        }
        let mut classes = commits.forgotten();
        classes.retain(|class| is_over(class));
        let mut told = self.told.lock();
        // After the end, the next start is told again.
        let tell = |event| self.events.send(event).unwrap_or_default();
        if told.classes != classes {
            told.classes.clone_from(&classes);
            tell(Event::Discardable(classes));
        }
        let (counted, count, end) = told.counted;
        if counted.elapsed() >= self.after {
            let (entities, tombstones) = commits.counts();
            let new = count - told.tombstones;
            if new > 0 && new.saturating_mul(WORTHWHILE) >= entities {
                told.tombstones = count;
                tell(Event::Superseded(end));
            }
            told.counted = (Instant::now(), tombstones, commits.end());
        }
    }
}

/// The thread; ends when it is stopped or dropped.
pub(super) struct Upkeep {
    events: mpsc::Sender<Event>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Upkeep {
    /// Begins with the log in `store`, whose sealed segments have `seals`: those that `checkpoint` covers are unread.
    ///
    /// # Errors
    /// When there is no thread for it.
    pub(super) fn start(
        store: Arc<Store>,
        watch: Arc<Watch>,
        attestations: Option<Arc<Attestations>>,
        seals: Vec<Seal>,
        checkpoint: Option<Checkpoint>,
        checkpoint_bytes: u64,
    ) -> io::Result<Self> {
        let is_ending = Arc::new(AtomicBool::new(false));
        let (events, receiver) = mpsc::channel();
        let holdings = Holdings::default();
        let (has_news, is_ending_there) = (false, Arc::clone(&is_ending));
        let may_compact = attestations.is_some() || !are_there(&*store.disk);
        let work = Work {
            store,
            watch,
            attestations,
            may_compact,
            seals,
            checkpoint,
            checkpoint_bytes,
            holdings,
            discardable: Vec::new(),
            tombstones_before: Address::default(),
            has_news,
            is_ending: is_ending_there,
        };
        let run = move || work.run(&receiver);
        let thread = thread::Builder::new().name("enact-journal-upkeep".to_owned()).spawn(run)?;
        Ok(Self { events, is_ending, thread: Some(thread) })
    }

    /// The next segment has been sealed.
    pub(super) fn sealed(&self, seal: Seal) {
        // After a panic nobody listens: there is no further checkpoint then.
        self.events.send(Event::Sealed(seal)).unwrap_or_default();
    }

    /// What tells it what may be discarded, when it has run for so long.
    pub(super) fn discards(&self, after: Duration, commits: &Commits) -> Discards {
        let opened = Instant::now();
        let counted = (opened, commits.counts().1, commits.end());
        let told = Told { classes: Vec::new(), tombstones: 0, counted };
        Discards { events: self.events.clone(), told: Mutex::new(told), opened, after }
    }

    /// Ends the thread, whatever it does, and waits for it.
    pub(super) fn stop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        self.events.send(Event::End).unwrap_or_default();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(PANICKED);
        }
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.stop();
    }
}

struct Work {
    store: Arc<Store>,
    watch: Arc<Watch>,
    /// Where each segment that is compacted is attested.
    attestations: Option<Arc<Attestations>>,
    /// The log is not attested, or it is known how.
    may_compact: bool,
    /// Those of all sealed segments.
    seals: Vec<Seal>,
    checkpoint: Option<Checkpoint>,
    checkpoint_bytes: u64,
    holdings: Holdings,
    /// The classes that may be discarded, in order.
    discardable: Vec<String>,
    /// What tombstones before this stand for may be discarded.
    tombstones_before: Address,
    /// Something has happened since it was last looked at what can be compacted.
    has_news: bool,
    is_ending: Arc<AtomicBool>,
}

impl Work {
    fn run(mut self, events: &Receiver<Event>) {
        let covered = self.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.head().segment_count);
        let unread = self.seals[..covered as usize].to_vec();
        self.make_checkpoint();
        for (number, seal) in (1..).zip(unread) {
            match self.is_as_written(number, seal, events) {
                Ok(true) if self.is_ending() => return,
                Ok(true) => {}
                Ok(false) => return self.fail(number),
                Err(error) => tracing::warn!(%error, "cannot check {}", segment_name(number)),
            }
        }
        loop {
            self.has_news = false;
            if !self.compact(events) || self.is_ending() {
                return;
            }
            while !self.has_news {
                match events.recv() {
                    Ok(event) if !self.is_ending() => self.take(event),
                    _ => return,
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        self.has_news = true;
        match event {
            Event::Sealed(seal) => {
                self.seals.push(seal);
                self.make_checkpoint();
            }
            Event::Discardable(_) | Event::Superseded(_) if !self.may_compact => {
                let file = ATTESTATIONS;
                tracing::warn!(
                    file,
                    "the log is attested and there is no key, so no segment is compacted: give the key"
                );
            }
            Event::Discardable(classes) => self.discardable = classes,
            Event::Superseded(before) => {
                self.holdings.are_superseded();
                self.tombstones_before = before;
            }
            Event::End => {}
        }
    }

    /// Takes up what has happened, or rests: for as long as it has worked since `begun`. Whether to go on.
    fn rest(&mut self, begun: &mut Instant, events: &Receiver<Event>) -> bool {
        match events.recv_timeout(begun.elapsed().min(REST_MAX)) {
            Ok(event) => self.take(event),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        *begun = Instant::now();
        !self.is_ending()
    }

    fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// Whether the segment is the one with `seal`, as far as there is time to read it. After each part it rests for as long as that took.
    fn is_as_written(&mut self, number: u32, seal: Seal, events: &Receiver<Event>) -> io::Result<bool> {
        let segment = Segment::open(&*self.store.disk, number)?;
        let mut begun = Instant::now();
        segment.fits(seal, || self.rest(&mut begun, events))
    }

    /// Compacts the segments of which that is worthwhile; `false` if one is not what was written.
    fn compact(&mut self, events: &Receiver<Event>) -> bool {
        if self.discardable.is_empty() && self.tombstones_before == Address::default() {
            return true;
        }
        let classes = self.discardable.clone();
        for number in 1..=self.seals.len() as u32 {
            match self.compact_segment(number, &classes, events) {
                Ok(true) if self.is_ending() => return true,
                Ok(true) => {}
                Ok(false) => {
                    self.fail(number);
                    return false;
                }
                Err(error) => tracing::warn!(%error, "cannot compact {}", segment_name(number)),
            }
        }
        true
    }

    fn compact_segment(&mut self, number: u32, classes: &[String], events: &Receiver<Event>) -> io::Result<bool> {
        let store = Arc::clone(&self.store);
        let Store { disk, log, commits } = &*store;
        let (log, tombstones_before) = (*log, self.tombstones_before);
        let unwanted = Unwanted { classes, tombstones_before, commits };
        if !self.holdings.are_worthwhile(&**disk, log, number, &unwanted)? {
            return Ok(true);
        }
        let (name, seal) = (segment_name(number), self.seals[number as usize - 1]);
        let before = disk.look_up(&name)?.size;
        let mut begun = Instant::now();
        let written = match rewrite(&**disk, log, number, seal, &unwanted, || self.rest(&mut begun, events))? {
            Rewrite::Done(written) => written,
            Rewrite::Stopped => return Ok(true),
            Rewrite::Damaged => return Ok(false),
        };
        if let Some(attestations) = &self.attestations
            && let Err(error) = attestations.attest_compacted(number, &written)
        {
            disk.remove(&written).unwrap_or_default();
            return Err(error);
        }
        self.watch.replaced(number, || disk.rename(&written, &name))?;
        disk.sync()?;
        self.holdings.changed(number);
        let after = disk.look_up(&name)?.size;
        tracing::info!(file = name, before, after, "compacted a segment");
        Ok(true)
    }

    fn fail(&self, number: u32) {
        let disk = &self.store.disk;
        if let Err(error) = disk.remove(CHECKPOINT).and_then(|()| disk.sync()) {
            tracing::warn!(%error, "cannot remove the checkpoint: remove the file `{CHECKPOINT}` before the next start");
        }
        let name = segment_name(number);
        let why = format!("{name} is not what was written; the next start reads the whole log and says where");
        self.store.commits.poison(&why);
    }

    /// Makes checkpoints of the sealed segments as long as it is time for one.
    fn make_checkpoint(&mut self) {
        loop {
            match self.next_checkpoint() {
                Ok(None) => return,
                Ok(Some(made)) => self.checkpoint = Some(made),
                Err(error) => {
                    tracing::warn!(%error, "cannot make a checkpoint, the next start reads more of the log");
                    return;
                }
            }
        }
    }

    fn next_checkpoint(&self) -> io::Result<Option<Checkpoint>> {
        let Store { disk, log, commits } = &*self.store;
        let base = self.checkpoint.as_ref();
        let (covered, len) = base.map_or((0, 0), |base| (base.head().segment_count as usize, base.len));
        let newer = &self.seals[covered..];
        let bytes: u64 = newer.iter().map(|seal| u64::from(seal.len)).sum();
        if newer.is_empty() || bytes < self.checkpoint_bytes.max(GROWTH * len) {
            return Ok(None);
        }
        let seals = &self.seals[..self.seals.len().min(covered + SEGMENTS_AT_ONCE)];
        merge(&**disk, *log, base, seals, &commits.forgotten(), || self.is_ending())
    }
}
