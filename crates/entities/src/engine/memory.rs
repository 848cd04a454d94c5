//! About how much memory the entities in memory take.
//!
//! An estimate: what an idle entity takes, as measured, and what the model says of its state. What is under way is not in
//! it; the number of commands under way bounds that.
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes that an idle entity takes beside its state: its participant, its turns, its place in the directory.
const ENTITY_BYTES: usize = 2_000;

/// The sum over all entities.
#[derive(Debug, Default)]
pub(super) struct Memory(AtomicUsize);

impl Memory {
    pub(super) fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// What one entity takes; nothing any more once it is dropped.
#[derive(Debug)]
pub(super) struct Footprint {
    bytes: AtomicUsize,
    has_records: AtomicBool,
    of: Arc<Memory>,
}

impl Footprint {
    /// Of an entity that has been made and not loaded yet.
    pub(super) fn new(of: Arc<Memory>) -> Self {
        let footprint = Self { bytes: AtomicUsize::new(0), has_records: AtomicBool::new(true), of };
        footprint.set(0);
        footprint
    }

    /// The state takes `bytes`.
    pub(super) fn set(&self, bytes: usize) {
        let bytes = ENTITY_BYTES + bytes;
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.of.0.fetch_add(bytes.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The entity has been put away. Its memory is as good as free.
    pub(super) fn put_away(&self) {
        self.of.0.fetch_sub(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Whether the journal has anything of the entity.
    pub(super) fn has_records(&self) -> bool {
        self.has_records.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_records(&self, has_records: bool) {
        self.has_records.store(has_records, Ordering::Relaxed);
    }
}

impl Drop for Footprint {
    fn drop(&mut self) {
        self.put_away();
    }
}
