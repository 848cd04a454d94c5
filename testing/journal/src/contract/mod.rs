//! The contract of [`Journal`] as tests, for every implementation.
//!
//! A [`Harness`] opens and crashes the implementation under test; [`contract_tests!`](crate::contract_tests) makes a
//! test of each case:
//!
//! ```
//! use enact_journal::Memory;
//! use enact_journal_kit::contract::{Harness, block_on};
//!
//! #[derive(Default)]
//! struct InMemory(Memory);
//!
//! impl Harness for InMemory {
//!     type Journal = Memory;
//!
//!     async fn open(&mut self) -> Memory {
//!         self.0 = self.0.crash();
//!         self.0.clone()
//!     }
//!
//!     async fn crash(&mut self, journal: Memory) {
//!         self.0 = journal.crash();
//!     }
//! }
//!
//! enact_journal_kit::contract_tests!(InMemory::default(), block_on);
//! ```

pub mod cases;
pub mod reigns;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use enact_journal::Journal;

/// Opens and crashes a journal under test.
pub trait Harness {
    /// The implementation.
    type Journal: Journal;

    /// Opens the journal on what is there; nothing, at first.
    fn open(&mut self) -> impl Future<Output = Self::Journal>;

    /// Kills the process or the machine that `journal` runs in, at once and without a goodbye.
    fn crash(&mut self, journal: Self::Journal) -> impl Future<Output = ()>;
}

/// Takes a journal over that several may have open.
pub trait TakeOver: Harness {
    /// Opens the journal for a new writer while `earlier` has it open and goes on.
    fn take_over(&mut self, earlier: &Self::Journal) -> impl Future<Output = Self::Journal>;
}

/// Makes a `#[test]` of every case of the contract about a journal that a new writer takes over.
///
/// The arguments are those of [`contract_tests!`](crate::contract_tests), with a [`TakeOver`](crate::contract::TakeOver)
/// as the harness.
#[macro_export]
macro_rules! take_over_tests {
    ($harness:expr, $block_on:expr) => {
        $crate::contract_tests!(@ reigns $harness, $block_on;
            an_earlier_writer_is_refused_everything
            a_take_over_succeeds_under_load
            a_new_writer_sees_all_of_the_reigns_before
        );
    };
}

/// Makes a `#[test]` of every case of the contract.
///
/// The arguments: an expression for a fresh [`Harness`](crate::contract::Harness), and a function that runs a future,
/// such as [`block_on`](crate::contract::block_on).
#[macro_export]
macro_rules! contract_tests {
    ($harness:expr, $block_on:expr) => {
        $crate::contract_tests!(@ cases $harness, $block_on;
            new_journal_is_empty
            records_are_read_back_as_written
            positions_are_dense_and_the_feed_follows_the_calls
            feed_is_read_in_pages
            batch_is_refused_as_a_whole
            records_of_one_entity_in_a_batch_follow_each_other
            a_tombstone_is_read_and_perhaps_what_it_stands_for
            empty_batch_is_a_barrier
            stale_owner_is_fenced_off
            appends_take_effect_in_the_order_of_the_calls
            append_is_submitted_by_the_call
            refused_append_does_not_disturb_those_behind
            batch_size_limit_is_inclusive
            record_size_limit_is_inclusive
            batch_record_limit_is_inclusive
            an_entity_is_loaded_from_its_newest_snapshot_on
            a_load_beside_appends_and_snapshots_is_whole
            an_append_whose_answer_is_lost_is_there_once
            reads_show_whole_batches_only
            newest_snapshot_is_kept
            snapshot_ahead_of_the_records_is_refused
            close_flushes_then_refuses
            durable_appends_survive_a_crash
            crash_keeps_a_prefix_of_whole_batches
            snapshot_after_a_crash_is_whole_or_gone
        );
    };
    (@ $cases:ident $harness:expr, $block_on:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                $block_on($crate::contract::$cases::$case($harness));
            }
        )*
    };
}

/// Runs a future on this thread and sleeps while it waits.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_until(None, future).unwrap_or_else(|| unreachable!("it has for ever"))
}

/// The same for a future that a fault would keep waiting for ever: nothing if it is not ready within `span`.
pub fn block_on_for<F: Future>(span: Duration, future: F) -> Option<F::Output> {
    block_on_until(Some(Instant::now() + span), future)
}

fn block_on_until<F: Future>(over: Option<Instant>, future: F) -> Option<F::Output> {
    struct Unpark(Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return Some(output),
            Poll::Pending => match over.map(|over| over.saturating_duration_since(Instant::now())) {
                None => thread::park(),
                Some(Duration::ZERO) => return None,
                Some(left) => thread::park_timeout(left),
            },
        }
    }
}
