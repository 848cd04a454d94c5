//! The pipeline with locks and condition variables: what the transactional versions are measured against.
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use enact_workloads::dedup::{Fingerprint, Packet, compress};

use super::output::Output;
use super::pipeline::{Admitted, Part, Version};
use super::queue::LockQueue;
use super::table::{bucket_of, buckets};

/// A chunk of the table, with a lock and a condition of its own.
pub(super) struct LockedChunk {
    fingerprint: Fingerprint,
    original: Part,
    progress: Mutex<Progress>,
    is_compressed: Condvar,
}

enum Progress {
    Admitted,
    Compressed(Vec<u8>),
    Written,
}

/// The version with a lock for each bucket of the table, each chunk and the output.
pub(super) struct Locks {
    table: Vec<Mutex<Vec<Arc<LockedChunk>>>>,
    output: Mutex<Output>,
}

impl Locks {
    pub(super) fn new(output: Output) -> Self {
        Self { table: buckets(Mutex::default), output: Mutex::new(output) }
    }
}

impl Version for Locks {
    type Chunk = Arc<LockedChunk>;
    type Queue<T: Clone + Send + Sync + 'static> = LockQueue<T>;

    fn admit(&self, fingerprint: Fingerprint, original: Part) -> Admitted<Self::Chunk> {
        let mut bucket = lock(&self.table[bucket_of(&fingerprint)]);
        if let Some(known) = bucket.iter().find(|chunk| chunk.fingerprint == fingerprint) {
            return Admitted::Known(Arc::clone(known));
        }
        let progress = Mutex::new(Progress::Admitted);
        let new = Arc::new(LockedChunk { fingerprint, original, progress, is_compressed: Condvar::new() });
        bucket.push(Arc::clone(&new));
        Admitted::New(new)
    }

    fn compress(&self, chunk: &Self::Chunk) {
        let compressed = compress(&chunk.original);
        *lock(&chunk.progress) = Progress::Compressed(compressed);
        chunk.is_compressed.notify_all();
    }

    fn write(&self, chunk: &Self::Chunk) -> io::Result<()> {
        let is_waiting = |progress: &mut Progress| matches!(progress, Progress::Admitted);
        let waited = chunk.is_compressed.wait_while(lock(&chunk.progress), is_waiting);
        let mut progress = waited.unwrap_or_else(PoisonError::into_inner);
        let packet = match &*progress {
            Progress::Compressed(data) => Packet::Data(data).to_bytes(),
            _ => Packet::Reference(&chunk.fingerprint).to_bytes(),
        };
        *progress = Progress::Written;
        lock(&self.output).put(&packet)
    }

    fn packets_done(&self) -> u64 {
        lock(&self.output).done()
    }
}

/// No state behind a lock here is left half changed by a panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
