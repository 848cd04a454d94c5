//! What all transactions of the process share: the clock, the serial lock, the sleepers, the memory, the descriptors,
//! what deferred operations sleep on.
//!
//! There is one domain a process, so that any two transactions may meet; each part lies on cache lines of its own.
use crossbeam_utils::CachePadded;
use enact_sync::atomic::AtomicU64;
use enact_sync::global;

use crate::defer::Circles;
use crate::descriptor::Descriptors;
use crate::memory::Memory;
use crate::serial_lock::SerialLock;
use crate::sleepers::Sleepers;

/// One snapshot reader that is choosing its time, in [`Domain::snapshots`].
pub(crate) const CHOOSES: u64 = 1 << 32;

pub(crate) struct Domain {
    /// A time that no running snapshot is ahead of, 2 at first: 1 announces a snapshot that does not know its time. A
    /// commit reads it, and writes it only while a snapshot chooses its time; see [`transaction`](crate::transaction).
    pub(crate) clock: CachePadded<AtomicU64>,
    /// How many snapshot readers have announced themselves and, in units of [`CHOOSES`], how many of these do not know
    /// their time yet.
    pub(crate) snapshots: CachePadded<AtomicU64>,
    pub(crate) serial_lock: SerialLock,
    pub(crate) memory: Memory,
    pub(crate) sleepers: Sleepers,
    pub(crate) descriptors: Descriptors,
    pub(crate) circles: Circles,
}

global! {
    /// The process's own.
    pub(crate) static DOMAIN: Domain = Domain {
        clock: CachePadded::new(AtomicU64::new(2)),
        snapshots: CachePadded::new(AtomicU64::new(0)),
        serial_lock: SerialLock::new(),
        memory: Memory::new(),
        sleepers: Sleepers::new(),
        descriptors: Descriptors::new(),
        circles: Circles::new(),
    };
}
