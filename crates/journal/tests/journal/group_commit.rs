//! Appends that arrive while a sync is under way share the next one; what waits is bounded; what needs no disk does not wait.

use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::{io, thread};

use enact_journal::disk::{Disk, DiskFile, DiskLock, FileStatus, LockError};
use enact_journal::{AppendError, Embedded, Journal, Kind, NewRecord, Options, Position, Refusal, Seq};
use enact_journal_kit::sim::{SimDisk, Step};

use crate::workload::{block_on, key};

/// A disk whose file syncs and file reads wait while their gate is closed.
#[derive(Debug)]
pub(crate) struct GatedDisk {
    disk: Arc<dyn Disk>,
    gate: Arc<Gate>,
    reads: Arc<Gate>,
}

impl GatedDisk {
    /// On `disk`; the gate of syncs and the one of reads.
    pub(crate) fn on(disk: Arc<dyn Disk>) -> (Self, Arc<Gate>, Arc<Gate>) {
        let (gate, reads) = (Arc::new(Gate::default()), Arc::new(Gate::default()));
        (Self { disk, gate: Arc::clone(&gate), reads: Arc::clone(&reads) }, gate, reads)
    }

    fn gated(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(GatedFile { file, gate: Arc::clone(&self.gate), reads: Arc::clone(&self.reads) })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    waiting: usize,
}

impl Gate {
    pub(crate) fn set_closed(&self, is_closed: bool) {
        self.state.lock().unwrap().is_closed = is_closed;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.waiting += 1;
        self.changed.notify_all();
        while state.is_closed {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
    }

    pub(crate) fn wait_for_waiting(&self) {
        self.wait_for(1);
    }

    fn wait_for(&self, waiting: usize) {
        let mut state = self.state.lock().unwrap();
        while state.waiting < waiting {
            state = self.changed.wait(state).unwrap();
        }
    }
}

impl Disk for GatedDisk {
    fn fresh_id(&self) -> u64 {
        self.disk.fresh_id()
    }

    fn lock(&self) -> Result<DiskLock, LockError> {
        self.disk.lock()
    }

    fn is_locked(&self) -> io::Result<bool> {
        self.disk.is_locked()
    }

    fn names(&self) -> io::Result<Vec<String>> {
        self.disk.names()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(self.disk.create(name)?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.gated(self.disk.open(name)?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn look_up(&self, name: &str) -> io::Result<FileStatus> {
        self.disk.look_up(name)
    }

    fn check_place(&self) -> io::Result<()> {
        self.disk.check_place()
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
    reads: Arc<Gate>,
}

impl DiskFile for GatedFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.reads.pass();
        self.file.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn is_linked(&self) -> io::Result<bool> {
        self.file.is_linked()
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }
}

/// A journal with one durable record of entity 0, behind a gate.
fn gated(options: Options) -> (SimDisk, Arc<Gate>, Embedded) {
    let (disk, gate, _, journal) = gated_twice(options);
    (disk, gate, journal)
}

/// As [`gated`]; also the gate of reads.
fn gated_twice(options: Options) -> (SimDisk, Arc<Gate>, Arc<Gate>, Embedded) {
    let disk = SimDisk::new(11);
    let (gated, gate, reads) = GatedDisk::on(disk.mount());
    let journal = Embedded::open_on(Arc::new(gated), options).expect("a new journal");
    block_on(journal.append(vec![record(0, 0, 10)])).expect("durable");
    disk.record();
    (disk, gate, reads, journal)
}

/// What `future` has at its first poll.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

fn record(id: usize, expected: u64, len: usize) -> NewRecord {
    NewRecord { entity: key(id), expected: Seq(expected), kind: Kind(0), payload: vec![1; len] }
}

fn counts(disk: &SimDisk) -> (usize, usize) {
    let steps = disk.steps();
    let syncs = steps.iter().filter(|step| matches!(step, Step::Sync(_))).count();
    let writes = steps.iter().filter(|step| matches!(step, Step::Write(..))).count();
    assert_eq!(steps.len(), syncs + writes, "nothing but writes and syncs: {steps:?}");
    (writes, syncs)
}

#[test]
fn thousand_appends_behind_a_sync_share_one_write_and_one_sync() {
    let (disk, gate, journal) = gated(Options::default());
    gate.set_closed(true);
    let first = journal.append(vec![record(0, 1, 10)]);
    gate.wait_for_waiting();
    let behind: Vec<_> = (2..1002).map(|n| journal.append(vec![record(0, n, 10)])).collect();
    gate.set_closed(false);
    block_on(first).expect("durable");
    for append in behind {
        block_on(append).expect("durable");
    }
    assert_eq!(counts(&disk), (2, 2), "writes and syncs for 1 and 1000 appends");
}

#[test]
fn append_that_comes_alone_costs_one_write_and_one_sync() {
    let (disk, _, journal) = gated(Options::default());
    for n in 1..=50 {
        block_on(journal.append(vec![record(0, n, 10)])).expect("durable");
    }
    assert_eq!(counts(&disk), (50, 50));
}

#[test]
fn barrier_on_an_idle_journal_costs_nothing() {
    let (disk, _, journal) = gated(Options::default());
    block_on(journal.append(vec![])).expect("durable");
    assert_eq!(counts(&disk), (0, 0));
}

/// A record takes its key, its payload and 36 bytes; a group 40 bytes more and padding.
#[test]
fn bytes_written_per_record_are_few() {
    let (disk, _, journal) = gated(Options::default());
    let batch = (1..=64).map(|n| record(0, n, 100)).collect();
    block_on(journal.append(batch)).expect("durable");
    let written: Vec<usize> = disk
        .steps()
        .into_iter()
        .filter_map(|step| if let Step::Write(_, _, len) = step { Some(len) } else { None })
        .collect();
    let key_len = key(0).as_str().len();
    assert_eq!(written, [(40 + 64 * (36 + key_len + 100)).next_multiple_of(8)]);
}

#[test]
fn queue_is_bounded_in_bytes_and_empties() {
    let size = |record: &NewRecord| record.entity.as_str().len() + record.payload.len();
    let limit = 3 * size(&record(0, 1, 1000));
    let (_, gate, journal) = gated(Options { queue_bytes: limit, ..Options::default() });
    gate.set_closed(true);
    let under_way: Vec<_> = (1..=3).map(|n| journal.append(vec![record(0, n, 1000)])).collect();
    let bytes = size(&record(1, 0, 0));
    let refused = block_on(journal.append(vec![record(1, 0, 0)]));
    assert_eq!(refused, Err(AppendError::Refused(Refusal::Overloaded { queued: limit, bytes, limit })));
    gate.set_closed(false);
    for append in under_way {
        block_on(append).expect("durable");
    }
    block_on(journal.append(vec![record(1, 0, 0)])).expect("there is room again");
    // Alone, a batch is taken whatever its size.
    block_on(journal.append(vec![record(1, 1, 10 * limit)])).expect("durable");
}

/// Nothing is shown or counted as last before its sync has succeeded.
#[test]
fn record_is_not_read_before_it_is_durable() {
    let (_, gate, journal) = gated(Options::default());
    gate.set_closed(true);
    let append = journal.append(vec![record(0, 1, 10), record(1, 0, 10)]);
    gate.wait_for_waiting();
    assert_eq!(block_on(journal.last(&key(0))), Ok(Seq(1)));
    assert_eq!(block_on(journal.last(&key(1))), Ok(Seq::NONE));
    assert_eq!(block_on(journal.read(&key(0), Seq::NONE)).expect("readable").len(), 1);
    assert_eq!(crate::workload::read_all(&journal).expect("readable").len(), 1);
    gate.set_closed(false);
    block_on(append).expect("durable");
    assert_eq!(crate::workload::read_all(&journal).expect("readable").len(), 3);
}

/// Both readers wait for the disk, so that what asks them would wait, too.
#[test]
fn what_memory_tells_of_an_entity_is_ready_at_the_first_poll() {
    let (_, gate, reads, journal) = gated_twice(Options::default());
    reads.set_closed(true);
    let readers = [journal.read(&key(0), Seq::NONE), journal.read(&key(0), Seq::NONE)];
    reads.wait_for(2);
    gate.set_closed(true);
    let append = journal.append(vec![record(0, 1, 10), record(1, 0, 10)]);
    gate.wait_for_waiting();

    let of_known = (
        at_once(journal.last(&key(0))),
        at_once(journal.read(&key(0), Seq(1))),
        at_once(journal.read(&key(0), Seq::NONE)),
        at_once(journal.load_snapshot(&key(0))),
    );
    let of_unknown = [1, 2].map(|id| {
        let (last, records) = (at_once(journal.last(&key(id))), at_once(journal.read(&key(id), Seq::NONE)));
        (last, records, at_once(journal.load_snapshot(&key(id))))
    });
    gate.set_closed(false);
    reads.set_closed(false);
    block_on(append).expect("durable");
    for reader in readers {
        assert_eq!(block_on(reader).expect("readable").len(), 1);
    }
    // Its record is on the disk, where a snapshot may be as well; what is not durable is not there.
    assert_eq!(of_known, (Some(Ok(Seq(1))), Some(Ok(vec![])), None, None));
    let [under_way, without_records] = of_unknown;
    assert_eq!(under_way, (Some(Ok(Seq::NONE)), Some(Ok(vec![])), Some(Ok(None))));
    assert_eq!(without_records, under_way);
}

/// Dropping the journal writes what was submitted.
#[test]
fn drop_flushes() {
    let (disk, gate, journal) = gated(Options::default());
    gate.set_closed(true);
    let first = journal.append(vec![record(0, 1, 10)]);
    gate.wait_for_waiting();
    let second = journal.append(vec![record(0, 2, 10)]);
    gate.set_closed(false);
    drop(journal);
    disk.power_cut_keeping(|_| false);
    assert!(block_on(first).is_ok() && block_on(second).is_ok());
    let journal = crate::workload::open(disk.mount()).expect("opens");
    assert_eq!(block_on(journal.last(&key(0))), Ok(Seq(3)));
}

/// Long groups are answered beside the writer, and the one who waits for this one takes his time to wake up.
#[test]
fn neither_an_append_nor_the_close_is_answered_before_a_group_that_was_written_ahead_of_it() {
    struct Slow(Arc<Gate>);

    impl Wake for Slow {
        fn wake(self: Arc<Self>) {
            self.0.pass();
        }
    }

    let (_, gate, journal) = gated(Options::default());
    for (expected, behind) in [(1, Some(10)), (3, Some(40_000)), (5, None)] {
        gate.set_closed(true);
        let mut ahead = Box::pin(journal.append(vec![record(0, expected, 40_000)]));
        let waking = Arc::new(Gate::default());
        waking.set_closed(true);
        let waker = Waker::from(Arc::new(Slow(Arc::clone(&waking))));
        assert!(ahead.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        gate.set_closed(false);
        waking.wait_for_waiting();

        let mut behind: Pin<Box<dyn Future<Output = bool>>> = match behind {
            Some(len) => {
                let append = journal.append(vec![record(0, expected + 1, len)]);
                Box::pin(async { append.await.is_ok() })
            }
            None => {
                let close = journal.close();
                Box::pin(async { close.await.is_ok() })
            }
        };
        let is_pending = (0..10_000).all(|_| {
            thread::yield_now();
            behind.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending()
        });
        waking.set_closed(false);
        assert!(is_pending, "what came behind was answered first");
        assert_eq!(block_on(ahead), Ok(Position(expected + 1)));
        assert!(block_on(behind));
    }
}

/// Those are woken that wait beside the one whose waker panics, and what follows is not acknowledged.
#[test]
fn waker_that_panics_fails_the_journal_and_keeps_nobody_waiting() {
    struct Panic;

    impl Wake for Panic {
        fn wake(self: Arc<Self>) {
            panic!("planted");
        }
    }

    for len in [10, 40_000] {
        let (disk, gate, journal) = gated(Options::default());
        gate.set_closed(true);
        let first = journal.append(vec![record(0, 1, 10)]);
        gate.wait_for_waiting();
        let mut panicking = Box::pin(journal.append(vec![record(0, 2, len)]));
        let waker = Waker::from(Arc::new(Panic));
        assert!(panicking.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let beside = journal.append(vec![record(1, 0, len)]);
        gate.set_closed(false);
        assert_eq!(block_on(first), Ok(Position(2)));
        assert_eq!(block_on(beside), Ok(Position(4)), "{len} bytes");
        let behind = block_on(journal.append(vec![record(1, 1, 10)]));
        assert!(matches!(behind, Err(AppendError::InDoubt { .. } | AppendError::Refused(_))), "{behind:?}");
        assert!(block_on(journal.close()).is_err());
        drop(journal);
        disk.power_cut();
        let journal = crate::workload::open(disk.mount()).expect("opens");
        assert!(block_on(journal.last(&key(1))).expect("readable") >= Seq(1));
    }
}
