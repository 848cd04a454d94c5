//! Software transactional memory for threads and async tasks.
//!
//! State that several threads share lies in [`TVar`]s, [`TCell`]s and [`TLink`]s; a closure given to [`atomically`]
//! reads and writes any number of them as if it were alone.
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
//! # Functions that take a transaction
//! have this signature: `'t` is the attempt, for which they borrow the variables.
//! ```
//! # use enact_stm::{Abort, TCell, Tx, atomically};
//! # struct Flight { seats: TCell<u32> }
//! impl Flight {
//!     fn book<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u32, Abort> {
//!         tx.update(&self.seats, |left| left - 1)
//!     }
//! }
//! # let (there, back) = (Flight { seats: TCell::new(2) }, Flight { seats: TCell::new(1) });
//! assert_eq!(atomically(|tx| Ok((there.book(tx)?, back.book(tx)?))).run(), (1, 0));
//! ```
//!
//! # What it guarantees
//! * **Serializable**, in an order that respects real time: a transaction that begins after another has returned sees it.
//! * **Opaque**: running code sees one consistent state, also in an attempt that will fail. No panic, endless loop or wild
//!   index from values that never were there together.
//! * **Progress**: a transaction that has lost to others many times gets priority, and finally runs alone. A commit
//!   that finds another transaction running alone comes before all that ask to run alone after it. A future that is not
//!   polled holds up no commit, with one exception: while an irrevocable transaction waits for its deferred operation,
//!   transactions that defer wait too.
//! * **No lost wake-up, no polling**: a transaction that waits sleeps until something it has read changes. Only a
//!   thread that waits for a [`TxLock`], a [`Deferrable`] or its turn to run alone looks for some 25 us before, if a
//!   processor is left for others.
//! * **Panics and errors roll back**, and nothing is poisoned by them.
//! * Values are immutable snapshots, read by reference. Nothing is changed in place, so making shared state private again
//!   needs no waiting for others.
//!
//! # Finding your way
//! | you want | use |
//! |---|---|
//! | a counter, a balance, a flag, a newtype of one | [`TCell`], [`Word`](macro@Word) |
//! | any other value | [`TVar`] |
//! | a list, a tree or a graph of nodes | [`TLink`] |
//! | to give up in the end | [`Atomically::tries`], [`Atomically::timeout`] |
//! | to wait | [`Tx::retry`], [`Tx::retry_until`], [`Tx::wait_for`], [`Tx::or_else`], [`Watch`] |
//! | to fail and roll back | [`try_atomically`], [`Tx::fail`], [`Tx::nested`] |
//! | to read a lot without conflicts | [`snapshot`] |
//! | to count without conflicts | [`Tx::commute`] |
//! | expensive work once, not once an attempt | [`Tx::keep`] |
//! | input and output | [`Tx::defer`], [`Deferrable`]; at last [`synchronized`] |
//! | maps, queues, channels, semaphores | [`structures`] |
//! | a value that cannot be cloned out of a transaction | [`Parcel`] |
//! | replaced values dropped at once | [`collect`] |
//! | a lock that outlives its transaction | [`TxLock`], [`Owner`] |
//! | numbers for your metrics | [`statistics`] |
#![deny(unsafe_code)]

mod call;
mod contain;
mod context;
mod defer;
mod descriptor;
mod domain;
mod fate;
pub mod hooks;
mod lock;
mod memory;
mod parcel;
mod serial_lock;
mod sleepers;
mod statistics;
pub mod structures;
mod transaction;
mod variable;
mod waking;
mod watch;

pub use call::{
    Atomically, Body, GaveUp, Limited, Partial, Total, Verdict, atomically, snapshot, synchronized, try_atomically,
};
pub use defer::{Deferrable, Deferred, Held, Objects, Poisoned};
/// Implements [`Word`](trait@Word) for a struct with one field, which is a `Word` itself.
pub use enact_macros::Word;
pub use lock::{Owner, OwnerId, TxLock};
pub use memory::collect;
pub use parcel::{Parcel, Taken};
pub use statistics::{Statistics, statistics};
pub use structures::{Reader, TArray, TChan, TMVar, TMap, TQueue, TSemaphore, TSet};
pub use transaction::{Abort, Expired, Failed, Tx, Variable, Version};
pub use variable::{Linked, TCell, TLink, TVar, Word};
pub use watch::Watch;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
