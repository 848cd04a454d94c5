//! Atomic deferral: work that belongs to a transaction and runs right after its commit.
//!
//! # The problem
//! Input, output and long computations cannot be rolled back, or keep a transaction open for long. Moved behind the commit
//! they are out of the transaction, but then others see a state in which they are missing.
//!
//! # The solution
//! The transaction acquires the locks of the objects that the operation works on, and commits; the operation runs; the locks
//! are released. Every other transaction *subscribes* to an object before it looks at it, so it sees the state before the
//! transaction or the one after the operation. Operations of one transaction run in the order in which they were deferred,
//! each releases its objects when it ends.
//!
//! Values that transactions refer to are never changed in place, so there is no need to wait for others between the commit
//! and the operation (the `Quiesce` of the paper).
//!
//! # Source
//! Zhou, Luchangco, Spear, *Extending Transactional Memory with Atomic Deferral*, OPODIS 2017, section 4, listing 1. By
//! type an operation reaches only the objects it has listed, which the paper leaves to the programmer.

mod circle;
mod object;
mod objects;
mod operation;

pub(crate) use circle::{Await, Circles, Sleep};
pub use object::{Deferrable, Held, Poisoned};
pub use objects::Objects;
pub use operation::Deferred;
pub(crate) use operation::{AfterCommit, Operation, Operations};
