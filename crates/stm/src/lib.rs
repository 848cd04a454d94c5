//! Software transactional memory for threads and async tasks.
//!
//! State that several threads share lies in [`TVar`]s and [`TCell`]s; a closure given to [`atomically`] reads and writes any
//! number of them as if it were alone.
//!
//! ```
//! use enact_stm::{TCell, TVar, atomically};
//!
//! struct Flight {
//!     seats: TCell<u32>,
//!     passengers: TVar<Vec<String>>,
//! }
//!
//! let flight = Flight { seats: TCell::new(2), passengers: TVar::new(vec![]) };
//! atomically(|tx| {
//!     let left = tx.read(&flight.seats)?;
//!     if left == 0 {
//!         return tx.retry(); // sleeps until something that was read has changed
//!     }
//!     tx.write(&flight.seats, left - 1)?;
//!     tx.update(&flight.passengers, |list| [list.as_slice(), &["Ada".to_owned()]].concat())?;
//!     Ok(())
//! })
//! .run(); // or `.await`
//! assert_eq!(flight.seats.into_inner(), 1);
//! ```
//!
//! # What it guarantees
//! * **Serializable**, in an order that respects real time: a transaction that begins after another has returned sees it.
//! * **Opaque**: running code sees one consistent state, also in an attempt that will fail. No panic, endless loop or wild
//!   index from values that never were there together.
//! * **Progress**: a transaction that has lost to others many times gets priority, and finally runs alone.
//! * **No lost wake-up, no polling**: who waits sleeps until something it has read changes.
//! * **Panics and errors roll back**, and nothing is poisoned by them.
//! * Values are immutable snapshots, read by reference. Nothing is changed in place, so making shared state private again
//!   needs no waiting for others.
//!
//! # Finding your way
//! | you want | use |
//! |---|---|
//! | a counter, a balance, a flag | [`TCell`] |
//! | any other value | [`TVar`] |
//! | to wait | [`Tx::retry`], [`Tx::retry_until`], [`Tx::wait_for`], [`Tx::or_else`], [`Watch`] |
//! | to fail and roll back | [`try_atomically`], [`Tx::nested`] |
//! | to read a lot without conflicts | [`snapshot`] |
//! | to count without conflicts | [`Tx::commute`] |
//! | expensive work once, not once an attempt | [`Tx::keep`] |
//! | input and output | [`Tx::defer`], [`Deferrable`]; at last [`synchronized`] |
//! | maps, queues, channels, semaphores | [`structures`] |
//! | a lock that outlives its transaction | [`TxLock`], [`Owner`] |
//! | numbers for your metrics | [`statistics`] |

mod call;
mod context;
mod defer;
mod domain;
mod fate;
mod gate;
pub mod hooks;
mod lock;
mod memory;
mod sleepers;
mod statistics;
pub mod structures;
mod transaction;
mod variable;
mod waking;
mod watch;
mod worker;

pub use call::{Atomically, Body, Partial, Total, Verdict, atomically, snapshot, synchronized, try_atomically};
pub use defer::{Deferrable, Deferred, Held, Objects, Poisoned};
pub use lock::{Owner, OwnerId, TxLock};
pub use statistics::{Statistics, statistics};
pub use structures::{Reader, TArray, TChan, TMVar, TMap, TQueue, TSemaphore, TSet};
pub use transaction::{Abort, Expired, Failed, Tx, Variable, Version};
pub use variable::{TCell, TVar, Word};
pub use watch::Watch;
