//! One attempt of a transaction: reading, writing, committing.
//!
//! # Algorithm
//! Lazy snapshots over a deferred clock, with write-back: reads are invisible and checked at once, writes are buffered,
//! the variables to be written are locked only while the attempt commits.
//!
//! * *Begin*: `time` = the clock.
//! * *Read*: a version is part of the snapshot if it is not newer than `time`, or if this descriptor has published it
//!   itself. Otherwise the snapshot is *extended*: the clock is raised to the version, everything read so far is
//!   checked to be unchanged, and `time` moves. So code that runs has always seen one consistent state (opacity).
//! * *Commit* without writes: nothing. With writes: lock each variable in the order of the log (bounded spin, then give
//!   everything back: no deadlock); take `version = max(clock, versions locked) + 1`; check that everything read is
//!   unchanged; publish, which unlocks; wake the sleepers.
//!
//! # Why a clock that a commit does not write is enough
//! A commit reads the clock after it holds all its locks and before it publishes anything. Take a reader whose time was
//! read from (or raised in) the clock at a moment *t*. If the commit has read the clock after *t*, its version is newer
//! than the reader's time, and the reader must extend before it sees any of it. If before, it held its locks at *t*:
//! what the reader had read before fails the check of that extension, what it reads later it finds locked or new. So
//! each commit is in a snapshot with all its writes or with none. A version of this descriptor's own, newer than
//! `time`, is current and was committed before this attempt began, so it belongs to the state in which the attempt
//! began. Versions of one variable grow because of `max` over the versions locked.
//!
//! Fences: *lock, fence, read clock* in a commit against *read clock, fence, read variable* in a reader.
//!
//! # Snapshots
//! A snapshot reader announces itself, waits until commits that it finds under way are over, and takes the newest version
//! that any descriptor has published, or the clock if that is ahead, as its time, to which it raises the clock.
//! Meanwhile it is *choosing*, and commits that know it raise the clock to their own version, after they have taken
//! their locks and before they check what they have read.
//!
//! What had been published before the reader looked is within its time. A later commit knows of the reader. If its version
//! is within the time, it had read the clock before that was raised, so it held its locks then, and the reader finds it
//! wholly locked or wholly new. If it is newer, it leaves what it replaces in the variable's chain of past values, and
//! whatever follows it, in real time or because of what it has read or written, has read the clock after it had raised it,
//! and is newer too: so the reader does not see the later without the earlier. It logs nothing and never aborts.
//!
//! # Source
//! Riegel, Felber, Fetzer, *A Lazy Snapshot Algorithm with Eager Validation*, DISC 2006 (snapshot extension); Dice,
//! Shalev, Shavit, *Transactional Locking II*, DISC 2006 (locking at commit). The clock that moves only when somebody
//! meets a newer version is the idea of deferred clocks (Ramalhete et al., `PPoPP` 2024); owners in versions are ours.
#![expect(unsafe_code, reason = "the logs of a descriptor hold addresses of variables and values")]

mod abort;
mod access;
mod commit;
mod effects;
mod keep;
mod log;
mod nesting;
mod past;
mod read;
mod tx;

pub use abort::{Abort, Failed};
pub(crate) use abort::{Cause, Reason};
pub use access::Variable;
pub(crate) use commit::Refused;
use crossbeam_utils::CachePadded;
pub(crate) use effects::{Condition, Effect, Extras};
use enact_sync::atomic::{Ordering, ordered};
pub(crate) use keep::Kept;
use log::{Read, Write, WriteSet};
pub(crate) use read::wait_a_little;
pub use tx::{Expired, Tx, Version};

use crate::descriptor::Slot;
use crate::domain::DOMAIN;
use crate::memory::BATCH;
use crate::variable::node::{Free, Type};
use crate::variable::versioned_lock::VersionedLock;

/// How an attempt reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The present state, logged and checked.
    Logged,
    /// A snapshot, in the hope that the transaction only reads.
    Snapshot,
    /// A snapshot that the user has asked for.
    SnapshotOnly,
}

/// What runs attempts: logs that are reused, and the slot that others look at.
#[derive(Debug)]
pub(crate) struct Descriptor {
    /// What other threads look at.
    pub(crate) slot: &'static CachePadded<Slot>,
    /// The number of this descriptor as it stands in versioned locks.
    owner: u64,
    /// The time of the attempt's snapshot: versions that are not newer belong to it.
    time: u64,
    /// The attempt is pinned: what it reads is not freed.
    pinned: bool,
    /// How the attempt reads: with a log that a commit validates, or one consistent state without a log.
    pub(crate) mode: Mode,
    /// This attempt runs while nobody else commits.
    pub(crate) alone: bool,
    /// The commit of an attempt that runs alone may start deferred operations.
    pub(crate) may_defer: bool,
    /// Others stand back for this transaction.
    pub(crate) has_priority: bool,
    /// Nobody else commits, deferred operations included, so this attempt cannot fail unless it asks to wait.
    pub(crate) may_become_irrevocable: bool,
    /// What this attempt has done since it has become irrevocable cannot be undone.
    pub(crate) is_irrevocable: bool,
    /// This transaction runs inside a deferred operation.
    pub(crate) in_operation: bool,
    /// This thread has set what transactions depend on.
    pub(crate) is_dependent: bool,
    /// Why this attempt cannot go on, from when that is known: whatever its closure makes of it.
    pub(crate) aborted: Option<Reason>,
    /// There is something in `extras`.
    busy: bool,
    /// The read set: what the commit validates.
    reads: Vec<Read>,
    /// The write set: what the commit publishes.
    writes: WriteSet,
    /// What few attempts need: deferred operations, locks, sleepers, nested parts.
    pub(crate) extras: Extras,
    /// Nodes retired since this descriptor has last collected.
    retired: usize,
    /// The slot whose garbage this descriptor has collected last, besides its own.
    swept: Option<&'static CachePadded<Slot>>,
    /// Times of running snapshots, collected by a commit.
    snapshots: Vec<u64>,
    /// The state of the generator that spreads the pauses after conflicts.
    random: u64,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    /// What the transaction keeps from one attempt to the next.
    pub(crate) kept: Kept,
}

// SAFETY: the pointers in the logs are to variables that the attempt borrows for its `'t`; the thread that holds the
// descriptor between two steps of an attempt holds these borrows too, and all of it is `Sync`. Nothing in it is bound
// to a thread.
unsafe impl Send for Descriptor {}

impl Descriptor {
    pub(crate) fn new(slot: &'static CachePadded<Slot>) -> Self {
        Self {
            slot,
            owner: slot.mark_owner(),
            time: 0,
            pinned: false,
            mode: Mode::Logged,
            alone: false,
            may_defer: false,
            has_priority: false,
            may_become_irrevocable: false,
            is_irrevocable: false,
            in_operation: false,
            is_dependent: false,
            aborted: None,
            busy: false,
            reads: Vec::new(),
            writes: WriteSet::default(),
            extras: Extras::default(),
            retired: 0,
            swept: None,
            snapshots: Vec::new(),
            random: slot.owner.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            attempt: 0,
            kept: Kept::default(),
        }
    }

    /// Starts an attempt.
    #[inline]
    pub(crate) fn begin(&mut self) {
        self.aborted = None;
        if self.mode == Mode::Logged {
            self.time = DOMAIN.clock.load(Ordering::Acquire);
            ordered();
        } else {
            self.begin_snapshot();
        }
    }

    /// Notes that the attempt cannot go on, and gives what its closure is to pass on.
    #[cold]
    fn abort(&mut self, reason: Reason) -> Abort {
        self.aborted.get_or_insert(reason);
        Abort(reason)
    }

    /// Protects what the attempt reads by reference.
    #[inline]
    fn pin(&mut self) {
        if !self.pinned {
            self.pinned = true;
            self.slot.pin.enter();
        }
    }

    /// True if ending the attempt drops values of the user.
    #[inline]
    pub(crate) fn runs_code_at_its_end(&self) -> bool {
        self.busy || !self.writes.is_empty() || self.retired >= BATCH
    }

    /// Ends an attempt, whichever way: forgets logs and references. What was not published is freed.
    #[inline]
    pub(crate) fn end(&mut self) {
        if self.mode != Mode::Logged {
            self.end_snapshot();
        }
        self.reads.clear();
        if !self.writes.is_empty() {
            self.discard_writes();
        }
        if self.pinned {
            self.pinned = false;
            self.slot.pin.leave();
        }
        if self.busy {
            self.clear_extras();
        }
    }

    /// Ends what this attempt was granted over others: the descriptor goes on with other transactions.
    #[cold]
    pub(crate) fn step_down(&mut self) {
        (self.alone, self.has_priority) = (false, false);
        (self.may_become_irrevocable, self.is_irrevocable) = (false, false);
    }

    /// Frees what can be freed. The caller is not inside a transaction, for destructors of users run here.
    #[inline]
    pub(crate) fn clean(&mut self) {
        if self.retired >= BATCH {
            self.collect();
        }
    }

    /// Frees what this descriptor has retired, and what the next other one has, in case that one rests.
    #[cold]
    pub(crate) fn collect(&mut self) {
        self.retired = 0;
        self.slot.garbage.collect();
        self.swept = DOMAIN.descriptors.next_slot(self.swept);
        if let Some(other) = self.swept {
            other.garbage.collect();
        }
    }

    /// Makes what there is a reason to collect when this attempt ends: the next one may be long in coming.
    pub(crate) fn rest(&mut self) {
        if self.retired > 0 {
            self.retired = BATCH;
        }
    }

    /// True if there may be something to collect.
    pub(crate) fn has_retired(&self) -> bool {
        self.retired > 0
    }

    /// Leaves something to be freed that was made, or published, in the epoch `birth` at the earliest.
    ///
    /// # Safety
    /// `free` frees what is at `address`; it has been unlinked before this call, and it is retired only once.
    #[inline]
    unsafe fn retire(&mut self, address: u64, free: Free, birth: u64) {
        self.retired += 1;
        // SAFETY: this is the descriptor of the slot; the rest is as the caller says.
        unsafe { self.slot.garbage.retire(address, free, birth) };
    }

    fn discard_writes(&mut self) {
        for n in 0..self.writes.len() {
            let Write { of, value, .. } = self.writes[n];
            self.discard(of, value);
        }
        self.writes.clear();
    }

    /// Keeps a value that will not be published until the attempt has ended: there may be references to it.
    fn discard(&mut self, of: Option<&'static Type>, value: u64) {
        if let Some(of) = of
            && value != 0
        {
            self.extras.spent.push((value, of.free));
            self.busy = true;
        }
    }

    /// A number for a random choice.
    pub(crate) fn next_random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// True if the attempt has written nothing so far.
    pub(crate) fn only_reads(&self) -> bool {
        self.writes.is_empty()
    }

    fn has_written(&self, versioned_lock: *const VersionedLock) -> bool {
        self.writes.find(versioned_lock).is_some()
    }

    pub(crate) fn has_read_nothing(&self) -> bool {
        self.reads.is_empty()
    }

    /// True if there is something to be done after the commit, or at the end.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy
    }

    /// A filter of everything read and to be written.
    pub(crate) fn footprint(&self) -> u64 {
        self.reads.iter().fold(self.writes.filter(), |filter, read| filter | log::filter_bit(read.versioned_lock))
    }

    /// The variables to sleep on: versioned lock, what was seen, and the condition if there is one.
    pub(crate) fn waits(&self) -> impl Iterator<Item = (&VersionedLock, u64, Option<&Condition>)> {
        self.reads.iter().enumerate().map(|(n, read)| {
            let condition = self.extras.conditions.iter().find(|(index, _)| *index == n).map(|(_, c)| c);
            (read.lock(), read.seen, condition)
        })
    }
}
