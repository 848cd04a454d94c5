//! What transactional memories are compared by: small transactions on few or many variables, long readers, sets, waiting.
//!
//! # Layers
//! * [`Stm`] is one transactional memory: variables, blocks, waiting. Enact and each peer implement it.
//! * Each workload has a trait for its subject (a counter, a bank, a set), one implementation over any [`Stm`], one over
//!   any [`Locks`], and a driver that knows only the trait. All calls are resolved when the contender is compiled.
//! * [`run`], [`run_locked`] and [`run_atomic`] choose the driver.
//!
//! # A run
//! Fresh variables, then threads that repeat one operation until the time is over, then the oracle. Seeds depend on the
//! thread's number only. A run whose result the oracle refuses has no figure.
//!
//! An *attempt* is one execution of a block; attempts that did not commit are the aborts reported. They are counted by the
//! blocks themselves, in the same way for everyone.
mod accounts;
mod counters;
mod locks;
mod set;
mod table;
mod tree;
mod turns;
mod wide;
mod window;

#[cfg(test)]
mod tests;

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

pub use locks::{Locks, ParkingLot, Std};
use serde::{Deserialize, Serialize};
pub use set::Set;
pub use tree::{CloningTree, in_order};
pub use turns::{between_tasks, hand_over};
pub use window::{Attempts, cpu_time};

/// One transactional memory.
///
/// `'t` is one attempt, `'env` everything that outlives the call: a memory that lends its values ties them to `'t`, one
/// that clones them ignores both. Every operation fails if the attempt cannot go on.
#[expect(clippy::missing_errors_doc, reason = "all for the one reason above")]
pub trait Stm: Sized + 'static {
    /// A variable that holds a number.
    type Cell: Send + Sync;
    /// A variable that holds any value.
    type Var<T: Clone + Send + Sync + 'static>: Send + Sync;
    /// What a block sees of the attempt it runs in.
    type Tx<'t, 'env: 't>;
    /// How an operation says that the attempt cannot go on.
    type Abort;
    /// A value as [`Stm::read`] hands it out: lent, shared or cloned.
    type Read<'t, T: Clone + Send + Sync + 'static>: Deref<Target = T>;
    /// The leaf-oriented tree: [`CloningTree`], unless the memory lends values for as long as an attempt.
    type Tree: Set;

    /// A new variable that holds `number`.
    fn cell(number: i64) -> Self::Cell;
    /// A new variable that holds `value`.
    fn var<T: Clone + Send + Sync + 'static>(value: T) -> Self::Var<T>;
    /// Runs `block` as one transaction.
    fn atomically<'env, R, F>(block: F) -> R
    where
        F: for<'t> Fn(&mut Self::Tx<'t, 'env>) -> Result<R, Self::Abort> + 'env;
    /// Runs `block`, which only reads.
    fn read_only<'env, R, F>(block: F) -> R
    where
        F: for<'t> Fn(&mut Self::Tx<'t, 'env>) -> Result<R, Self::Abort> + 'env,
    {
        Self::atomically(block)
    }
    /// Reads a number.
    fn load<'t, 'env: 't>(tx: &mut Self::Tx<'t, 'env>, cell: &'t Self::Cell) -> Result<i64, Self::Abort>;
    /// Writes a number.
    fn store<'t, 'env: 't>(tx: &mut Self::Tx<'t, 'env>, cell: &'t Self::Cell, number: i64) -> Result<(), Self::Abort>;
    /// Reads a value.
    fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Self::Tx<'t, 'env>,
        var: &'t Self::Var<T>,
    ) -> Result<Self::Read<'t, T>, Self::Abort>;
    /// Writes a value.
    fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Self::Tx<'t, 'env>,
        var: &'t Self::Var<T>,
        value: T,
    ) -> Result<(), Self::Abort>;
    /// Waits until something that was read has changed.
    fn retry<'t, 'env: 't, R>(tx: &mut Self::Tx<'t, 'env>) -> Result<R, Self::Abort>;
}

/// A memory whose values may be taken out of an attempt, and whose variables may die before it.
///
/// Every operation fails if the attempt cannot go on.
#[expect(clippy::missing_errors_doc, reason = "all for the one reason above")]
pub trait Cloning: Stm {
    /// Reads a value and keeps it.
    fn get<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Self::Tx<'t, 'env>,
        var: &Self::Var<T>,
    ) -> Result<T, Self::Abort>;
    /// Writes a value.
    fn set<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Self::Tx<'t, 'env>,
        var: &Self::Var<T>,
        value: T,
    ) -> Result<(), Self::Abort>;
}

/// A memory whose transactions may wait without holding a thread.
pub trait AsyncStm: Stm {
    /// Runs [`hand_over`] as one transaction of the task that awaits it.
    fn hand_over(turn: &Self::Cell, player: usize) -> impl Future<Output = bool>;
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Every thread adds 1 to the same variable.
    Counter,
    /// Every thread adds 1 to a variable of its own.
    CounterOwn,
    /// Between two of 1,000 accounts; the sums are checked.
    Transfer,
    /// One thread sums 1,000 accounts.
    #[serde(rename = "sum1000.w0")]
    Sum1000W0,
    /// The same while another thread transfers between them; every sum is checked.
    #[serde(rename = "sum1000.w1")]
    Sum1000W1,
    /// Reads 10,000 variables and writes one of the thread's own.
    Read10k,
    /// Reads 10,000 variables and writes none.
    Read10kOnly,
    /// 80 % look-ups, 10 % insertions, 10 % removals of 2^16 keys in 2^14 buckets, one variable a bucket.
    Hash20,
    /// The same on a leaf-oriented search tree, one variable a link.
    Bst20,
    /// Two threads hand a turn to each other and wait for it.
    Pingpong,
    /// The same between two tasks of one scheduler on one thread.
    PingpongTasks,
}

impl Workload {
    /// All, in the order of the report.
    pub const ALL: [Self; 11] = [
        Self::Counter,
        Self::CounterOwn,
        Self::Transfer,
        Self::Sum1000W0,
        Self::Sum1000W1,
        Self::Read10k,
        Self::Read10kOnly,
        Self::Hash20,
        Self::Bst20,
        Self::Pingpong,
        Self::PingpongTasks,
    ];

    /// Its name in reports and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::CounterOwn => "counter_own",
            Self::Transfer => "transfer",
            Self::Sum1000W0 => "sum1000.w0",
            Self::Sum1000W1 => "sum1000.w1",
            Self::Read10k => "read10k",
            Self::Read10kOnly => "read10k_only",
            Self::Hash20 => "hash20",
            Self::Bst20 => "bst20",
            Self::Pingpong => "pingpong",
            Self::PingpongTasks => "pingpong_tasks",
        }
    }

    /// How many threads it takes where the workload itself says so; else the caller chooses.
    #[must_use]
    pub fn fixed_threads(self) -> Option<usize> {
        match self {
            Self::Sum1000W0 | Self::PingpongTasks => Some(1),
            Self::Sum1000W1 | Self::Pingpong => Some(2),
            _ => None,
        }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One run of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// What to run.
    pub workload: Workload,
    /// On how many threads; a workload with [`fixed_threads`](Workload::fixed_threads) takes its own number.
    pub threads: usize,
    /// For how long.
    pub length: Duration,
}

/// What was counted in a run whose result its oracle accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// Operations of all threads together; of `sum1000.w1` the sums.
    pub operations: u64,
    /// Attempts of these operations that did not commit; none where an operation cannot fail.
    pub aborts: Option<u64>,
    /// Operations of the threads that only disturb.
    pub beside: Option<u64>,
    /// How long the threads ran.
    pub wall: Duration,
    /// User and system time that this process used meanwhile.
    pub cpu: Duration,
}

/// Why a run has no figures.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The contender has no such workload.
    #[error("it has no {workload}")]
    NotOffered {
        /// What was asked for.
        workload: Workload,
    },
    /// What the variables hold is not what the operations that returned have left in them.
    #[error("{what} must be {expected} and is {found}")]
    Wrong {
        /// What was verified.
        what: Verified,
        /// What it must be.
        expected: i64,
        /// What it is.
        found: i64,
    },
}

/// What an oracle looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verified {
    /// A counter, against the additions.
    Counter,
    /// The money in all accounts at the end.
    Money,
    /// The money in all accounts, each weighted by its number, against the transfers.
    PlacedMoney,
    /// A sum that a transaction returned while others transferred.
    SumSeen,
    /// The number of keys in a set, against the insertions and removals.
    Size,
    /// The sum of the keys in a set, against the same.
    Keys,
    /// Keys that a set holds twice or out of place.
    Misplaced,
    /// The number of moves in a game, against those of the players.
    Turns,
    /// How often the first player moved more than the second.
    Lead,
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counter => "a counter",
            Self::Money => "the money in all accounts",
            Self::PlacedMoney => "the money weighted by account",
            Self::SumSeen => "a sum read beside transfers",
            Self::Size => "the number of keys",
            Self::Keys => "the sum of the keys",
            Self::Misplaced => "the number of keys out of place",
            Self::Turns => "the number of moves",
            Self::Lead => "the first player's lead in moves",
        })
    }
}

impl Verified {
    /// The oracle's verdict.
    fn expect(self, expected: i64, found: i64) -> Result<(), Refusal> {
        if expected == found { Ok(()) } else { Err(Refusal::Wrong { what: self, expected, found }) }
    }
}

/// Runs a workload on a transactional memory.
///
/// [`between_tasks`] is for those that have tasks.
///
/// # Errors
/// [`Refusal::Wrong`] if the result is not that of some serial order.
pub fn run<S: Stm>(run: Run) -> Result<Figures, Refusal> {
    match run.workload {
        Workload::Counter => counters::shared::<counters::InStm<S>>(run),
        Workload::CounterOwn => counters::own::<counters::InStm<S>>(run),
        Workload::Transfer => accounts::transfer::<accounts::InStm<S>>(run),
        Workload::Sum1000W0 => accounts::sum::<accounts::InStm<S>>(run, 0),
        Workload::Sum1000W1 => accounts::sum::<accounts::InStm<S>>(run, 1),
        Workload::Read10k => wide::read_and_write::<wide::InStm<S>>(run),
        Workload::Read10kOnly => wide::read_only::<wide::InStm<S>>(run),
        Workload::Hash20 => set::mix::<table::InStm<S>>(run),
        Workload::Bst20 => set::mix::<S::Tree>(run),
        Workload::Pingpong => turns::between_threads::<turns::InStm<S>>(run),
        workload @ Workload::PingpongTasks => Err(Refusal::NotOffered { workload }),
    }
}

/// Runs a workload on plain data under one lock.
///
/// # Errors
/// [`Refusal::Wrong`] if the result is not that of some serial order; [`Refusal::NotOffered`] for tasks.
pub fn run_locked<L: Locks>(run: Run) -> Result<Figures, Refusal> {
    match run.workload {
        Workload::Counter => counters::shared::<L::Lock<i64>>(run),
        Workload::CounterOwn => counters::own::<L::Lock<i64>>(run),
        Workload::Transfer => accounts::transfer::<accounts::Locked<L>>(run),
        Workload::Sum1000W0 => accounts::sum::<accounts::Locked<L>>(run, 0),
        Workload::Sum1000W1 => accounts::sum::<accounts::Locked<L>>(run, 1),
        Workload::Read10k => wide::read_and_write::<wide::Locked<L>>(run),
        Workload::Read10kOnly => wide::read_only::<wide::Locked<L>>(run),
        Workload::Hash20 => set::mix::<table::Locked<L>>(run),
        Workload::Bst20 => set::mix::<tree::Locked<L>>(run),
        Workload::Pingpong => turns::between_threads::<turns::Locked<L>>(run),
        workload @ Workload::PingpongTasks => Err(Refusal::NotOffered { workload }),
    }
}

/// Runs a workload on plain atomics: the two counters.
///
/// # Errors
/// [`Refusal::NotOffered`] for everything else.
pub fn run_atomic(run: Run) -> Result<Figures, Refusal> {
    match run.workload {
        Workload::Counter => counters::shared::<std::sync::atomic::AtomicI64>(run),
        Workload::CounterOwn => counters::own::<std::sync::atomic::AtomicI64>(run),
        workload => Err(Refusal::NotOffered { workload }),
    }
}
