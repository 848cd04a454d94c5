//! Containers of transactional variables, made with the public interface alone.
//!
//! Each operation takes the transaction, so that any number of them, on any number of containers, happen at one moment.
//! Values are given by reference into the snapshot: nothing is cloned. What two transactions must touch in common to
//! conflict differs:
//!
//! | container | two transactions conflict if |
//! |---|---|
//! | [`TMap`], [`TSet`] | one changes a bucket, of 8 entries at most, that the other looks at |
//! | [`TQueue`] | they work at the same end, or the queue is empty or full |
//! | [`TChan`] | both send, or both receive with one [`Reader`] |
//! | [`TMVar`] | one changes it |
//! | [`TSemaphore`] | one acquires; releases do not conflict with each other |
//! | [`TArray`] | one changes an element that the other looks at |
//!
//! To look at a whole container without a conflict, use [`snapshot`](crate::snapshot).
#![forbid(unsafe_code)]

mod array;
mod chan;
mod map;
mod mvar;
mod queue;
mod semaphore;
mod set;

pub use array::TArray;
pub use chan::{Reader, TChan};
pub use map::TMap;
pub use mvar::TMVar;
pub use queue::TQueue;
pub use semaphore::TSemaphore;
pub use set::TSet;
