//! A start reads what is behind the checkpoint; whatever becomes of the checkpoint, the log decides.
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use enact_journal::disk::{Disk, DiskFile, DiskLock, FileStatus, LockError};
use enact_journal::{
    AppendError, Damage, Embedded, EntityKey, Finding, Flaw, Harmless, Journal, Kind, NewRecord, OpenError, Options,
    Record, Refusal, Salvage, Seq, verify_on,
};
use enact_journal_kit::sim::SimDisk;

use crate::salvage::salvaged;
use crate::workload::{SEGMENT_BYTES, batches, block_on, key, options, read_all, records, whole_batches};

const CHECKPOINT: &str = "checkpoint";
const FIRST: &str = "segment-0000000001.log";

/// With a checkpoint of as much as can be.
pub(crate) fn eager() -> Options {
    Options { checkpoint_bytes: 1, ..options() }
}

fn append(journal: &Embedded, batches: &[Vec<NewRecord>]) {
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
}

fn not_a_checkpoint() -> Damage {
    Damage { file: CHECKPOINT.to_owned(), offset: 0, flaw: Flaw::Checkpoint }
}

/// Returns when `holds`, which something that goes on in the background makes so.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        thread::yield_now();
    }
}

/// How many segments the checkpoint covers, as its header says.
pub(crate) fn covered(disk: &SimDisk) -> usize {
    let checkpoint = disk.bytes(CHECKPOINT);
    checkpoint.map_or(0, |bytes| u32::from_le_bytes(bytes[24..28].try_into().expect("four bytes")) as usize)
}

/// A journal with some sealed segments, closed, and then opened until a checkpoint covers all of them.
fn with_checkpoint(batches: &[Vec<NewRecord>]) -> SimDisk {
    let disk = SimDisk::new(7);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, batches);
    drop(journal);
    make_checkpoint(&disk);
    disk
}

pub(crate) fn make_checkpoint(disk: &SimDisk) {
    let sealed_count = disk.names().iter().filter(|name| name.starts_with("segment")).count() - 1;
    let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
    until("a checkpoint of all", || covered(disk) == sealed_count);
    drop(journal);
}

fn records_in(disk: &SimDisk) -> Vec<Record> {
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    read_all(&journal).expect("readable")
}

/// A disk that counts the bytes that one thread reads of it.
#[derive(Debug)]
struct Counting(Arc<dyn Disk>, Reads);

#[derive(Debug)]
struct CountingFile(Arc<dyn DiskFile>, Reads);

#[derive(Clone, Debug)]
struct Reads {
    of: ThreadId,
    bytes: Arc<AtomicU64>,
}

impl Disk for Counting {
    fn fresh_id(&self) -> u64 {
        self.0.fresh_id()
    }
    fn lock(&self) -> Result<DiskLock, LockError> {
        self.0.lock()
    }
    fn is_locked(&self) -> io::Result<bool> {
        self.0.is_locked()
    }
    fn names(&self) -> io::Result<Vec<String>> {
        self.0.names()
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CountingFile(self.0.create(name)?, self.1.clone())))
    }
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(CountingFile(self.0.open(name)?, self.1.clone())))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }
    fn look_up(&self, name: &str) -> io::Result<FileStatus> {
        self.0.look_up(name)
    }
    fn check_place(&self) -> io::Result<()> {
        self.0.check_place()
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

impl DiskFile for CountingFile {
    fn size(&self) -> io::Result<u64> {
        self.0.size()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read_at(offset, buf)?;
        if thread::current().id() == self.1.of {
            self.1.bytes.fetch_add(read as u64, Ordering::Relaxed);
        }
        Ok(read)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_at(offset, bytes)
    }
    fn set_size(&self, size: u64) -> io::Result<()> {
        self.0.set_size(size)
    }
    fn is_linked(&self) -> io::Result<bool> {
        self.0.is_linked()
    }
    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }
}

/// How many bytes a start reads until the journal is open.
fn bytes_at_start(disk: &SimDisk) -> u64 {
    let reads = Reads { of: thread::current().id(), bytes: Arc::default() };
    let counting = Arc::new(Counting(disk.mount(), reads.clone()));
    drop(Embedded::open_on(counting, options()).expect("opens"));
    reads.bytes.load(Ordering::Relaxed)
}

#[test]
fn a_start_reads_the_checkpoint_and_what_is_behind_it() {
    let batches = batches(2000);
    let disk = with_checkpoint(&batches);
    assert!(covered(&disk) > 128, "more segments than are taken up at once, twice");
    let log: u64 = disk.names().iter().filter(|name| name.starts_with("segment")).map(|name| size(&disk, name)).sum();
    // The checkpoint is read once for its checksum, and each of its parts once or twice; one segment is behind it.
    let bytes_max = 4 * size(&disk, CHECKPOINT) + size(&disk, "manifest") + u64::from(SEGMENT_BYTES);
    assert!(bytes_max < log / 4, "the log is long enough to tell: {bytes_max} of {log}");
    let read = bytes_at_start(&disk);
    assert!(read <= bytes_max, "{read} of {log} bytes, at most {bytes_max}");
    assert_eq!(records_in(&disk), records(&batches));
    disk.lose(CHECKPOINT);
    assert!(bytes_at_start(&disk) >= log);
    assert_eq!(records_in(&disk), records(&batches));
}

fn size(disk: &SimDisk, name: &str) -> u64 {
    disk.bytes(name).expect("there").len() as u64
}

#[test]
fn checkpoints_follow_the_log_and_the_journal_goes_on_behind_each() {
    let batches = batches(1200);
    let disk = SimDisk::new(3);
    let mut covered = 0;
    for part in batches.chunks(150) {
        let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
        let before = disk.bytes(CHECKPOINT);
        append(&journal, part);
        until("a later checkpoint", || disk.bytes(CHECKPOINT) != before);
        drop(journal);
        assert_eq!(verify_on(&*disk.mount()).expect("readable").damages, [], "behind {covered} batches");
        covered += part.len();
        assert_eq!(records_in(&disk), records(&batches[..covered]));
    }
}

#[test]
fn whatever_a_power_cut_leaves_of_a_checkpoint_what_was_durable_is_there() {
    for seed in 0..60 {
        let batches = batches(400);
        let disk = SimDisk::new(seed);
        let mut durable = 0;
        for part in 1..=4 {
            let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
            let found = read_all(&journal).expect("readable");
            assert!(whole_batches(&batches, &found) >= durable, "seed {seed}");
            durable = whole_batches(&batches, &found);
            let end = part * 100 - (seed as usize * 7) % 50;
            append(&journal, &batches[durable..end]);
            durable = end;
            // Wherever the checkpoint is by now.
            if seed % 2 == 0 {
                disk.power_cut();
            } else {
                disk.kill();
            }
            drop(journal);
            let found = verify_on(&*disk.mount()).expect("readable");
            assert_eq!(found.damages, [], "seed {seed}");
        }
    }
}

#[test]
fn a_damaged_checkpoint_is_passed_over() {
    let batches = batches(60);
    let disk = with_checkpoint(&batches);
    let whole = disk.bytes(CHECKPOINT).expect("there");
    let end = whole.len();
    let flipped = (0..end).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    });
    let cut = (0..end).step_by(5).map(|len| whole[..len].to_vec());
    let longer = [[whole.clone(), vec![0; 9]].concat(), [whole.clone(), whole.clone()].concat()];
    for (number, bytes) in flipped.chain(cut).chain(longer).enumerate() {
        disk.set_bytes(CHECKPOINT, bytes);
        let (left, diagnosis) = salvaged(&disk, &records(&batches));
        assert!(diagnosis.is_sound() && left.len() == records(&batches).len(), "damage {number}");
        assert_eq!(diagnosis.harmless, [Harmless::Checkpoint(not_a_checkpoint())], "damage {number}");
        assert_eq!(records_in(&disk), records(&batches), "damage {number}");
    }
}

#[test]
fn a_checkpoint_of_another_log_or_another_time_is_passed_over() {
    let (first, all) = (batches(300), batches(600));
    let earlier = with_checkpoint(&first);
    let later = earlier.copy(1);
    let journal = Embedded::open_on(later.mount(), options()).expect("opens");
    append(&journal, &all[300..]);
    drop(journal);
    later.lose(CHECKPOINT);
    make_checkpoint(&later);
    let other = with_checkpoint(&first);
    let other_log = SimDisk::new(99);
    let journal = Embedded::open_on(other_log.mount(), options()).expect("a new journal");
    append(&journal, &first);
    drop(journal);
    make_checkpoint(&other_log);
    for (of, disk, found, harmless) in [
        (&later, &earlier, &first[..], vec![]),
        (&earlier, &later, &all[..], vec![]),
        (&other, &other_log, &first[..], vec![Harmless::Checkpoint(not_a_checkpoint())]),
    ] {
        disk.set_bytes(CHECKPOINT, of.bytes(CHECKPOINT).expect("there"));
        let (_, diagnosis) = salvaged(disk, &records(found));
        assert!(diagnosis.is_sound(), "{diagnosis:?}");
        assert_eq!(diagnosis.harmless, harmless);
        assert_eq!(records_in(disk), records(found));
        assert_eq!(verify_on(&*disk.mount()).expect("readable").damages, []);
    }
}

#[test]
fn damage_in_a_segment_that_was_not_read_fails_the_journal_and_the_next_start_says_where() {
    let batches = batches(300);
    let disk = with_checkpoint(&batches);
    let whole = disk.bytes(FIRST).expect("there");
    for at in [3, 30, 80, 500, 2000, whole.len() - 300, whole.len() - 1] {
        let copy = disk.copy(0);
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        copy.set_bytes(FIRST, bytes);
        let journal = Embedded::open_on(copy.mount(), options()).expect("opens");
        let why = block_on(journal.failed()).expect("a reason");
        assert!(why.contains(FIRST), "byte {at}: {why}");
        let next = NewRecord { entity: EntityKey::new("Account", "new").expect("a name"), ..batches[0][0].clone() };
        let refused = block_on(journal.append(vec![next]));
        assert!(matches!(refused, Err(AppendError::Refused(Refusal::Poisoned { .. }))), "byte {at}: {refused:?}");
        drop(journal);
        assert_eq!(copy.bytes(CHECKPOINT), None, "byte {at}");
        let expected = verify_on(&*copy.mount()).expect("readable").damages[0].clone();
        match Embedded::open_on(copy.mount(), options()) {
            Err(OpenError::Damaged(damage)) => assert_eq!(damage, expected, "byte {at}"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[test]
fn a_covered_segment_that_is_gone_or_shorter_is_refused_at_once() {
    let batches = batches(300);
    let disk = with_checkpoint(&batches);
    let whole = disk.bytes(FIRST).expect("there");
    for len in [None, Some(0), Some(100), Some(whole.len() - 1)] {
        let copy = disk.copy(0);
        match len {
            None => copy.lose(FIRST),
            Some(len) => copy.set_bytes(FIRST, whole[..len].to_vec()),
        }
        match Embedded::open_on(copy.mount(), options()) {
            Err(OpenError::Damaged(Damage { file, .. })) => assert_eq!(file, FIRST, "{len:?}"),
            other => panic!("{len:?}: {other:?}"),
        }
    }
}

#[test]
fn a_checkpoint_that_says_something_else_is_found_by_a_verification() {
    let batches = batches(300);
    let disk = with_checkpoint(&batches);
    let whole = disk.bytes(CHECKPOINT).expect("there");
    // The last entity's address and sequence number, the last position, the hash of the last segment.
    for at in [whole.len() - 14, whole.len() - 22, 40, 48] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let end = bytes.len() - 4;
        let checksum = crc32c::crc32c(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        let copy = disk.copy(0);
        copy.set_bytes(CHECKPOINT, bytes);
        let damages = verify_on(&*copy.mount()).expect("readable").damages;
        assert_eq!(damages, [not_a_checkpoint()], "byte {at}");
        let (left, diagnosis) = salvaged(&copy, &records(&batches));
        assert_eq!(diagnosis.findings, [Finding::Damaged(not_a_checkpoint())], "byte {at}");
        assert_eq!(left.len(), records(&batches).len(), "byte {at}");
        copy.lose(CHECKPOINT);
        assert_eq!(records_in(&copy), records(&batches), "byte {at}");
    }
}

#[test]
fn a_full_disk_costs_the_checkpoint_and_nothing_else() {
    let all = batches(600);
    let disk = SimDisk::new(5);
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    append(&journal, &all[..400]);
    drop(journal);
    disk.set_capacity(disk.size() + 100);
    let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
    let full = block_on(journal.append(all[400].clone()));
    drop(journal);
    assert_eq!(disk.bytes(CHECKPOINT), None);
    assert!(!disk.names().iter().any(|name| name.starts_with("checkpoint")), "nothing is left of it");
    disk.set_capacity(u64::MAX);
    let kept = if full.is_ok() { 401 } else { 400 };
    assert_eq!(records_in(&disk), records(&all[..kept]));
}

fn of_class(class: &str, id: usize, expected: u64) -> NewRecord {
    let entity = EntityKey::new(class, &format!("{id}")).expect("a name");
    NewRecord { entity, expected: Seq(expected), kind: Kind(0), payload: vec![7; 150] }
}

#[test]
fn a_class_that_was_forgotten_before_a_checkpoint_is_back_if_the_next_start_wants_it() {
    let disk = SimDisk::new(9);
    let is_over = |class: &str| class == "Answer";
    let journal = Embedded::open_on(disk.mount(), options()).expect("a new journal");
    // Too few to be discarded.
    for id in 0..120 {
        let answer = (id % 10 == 3).then(|| of_class("Answer", id, 0));
        let batch = answer.into_iter().chain([of_class("Account", id, 0)]).collect();
        block_on(journal.append(batch)).expect("durable");
    }
    // Behind the checkpoint nothing tells of the class.
    for id in 0..60 {
        block_on(journal.append(vec![of_class("Account", id, 1)])).expect("durable");
    }
    drop(journal);
    let journal = Embedded::open_without(disk.mount(), eager(), is_over).expect("opens");
    until("a checkpoint", || disk.bytes(CHECKPOINT).is_some());
    drop(journal);
    let mut sound = Salvage::open_on(disk.mount()).expect("readable");
    assert_eq!(sound.by_ref().map(|group| group.expect("readable").records().len()).sum::<usize>(), 192);
    assert!(sound.diagnosis().is_sound() && sound.diagnosis().harmless.is_empty(), "{:?}", sound.diagnosis());

    let journal = Embedded::open_without(disk.mount(), options(), is_over).expect("opens");
    let answer = of_class("Answer", 3, 0);
    let refused = block_on(journal.append(vec![answer.clone()]));
    assert_eq!(refused, Err(Refusal::Forgotten { entity: answer.entity.clone() }.into()));
    assert_eq!(block_on(journal.last(&of_class("Account", 3, 0).entity)), Ok(Seq(2)));
    drop(journal);

    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    assert_eq!(block_on(journal.last(&answer.entity)), Ok(Seq(1)));
    block_on(journal.append(vec![of_class("Answer", 3, 1)])).expect("the next one");
    drop(journal);
    assert_eq!(verify_on(&*disk.mount()).expect("readable").damages, []);
    assert_eq!(block_on(Embedded::open_on(disk.mount(), options()).expect("opens").last(&key(0))), Ok(Seq::NONE));
}
