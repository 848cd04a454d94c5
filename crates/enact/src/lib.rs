//! Enact: actors and transactions for one program.
//!
//! State that belongs to somebody lives in an *actor* and is reached by messages; state that several share lives in
//! *variables* and is changed by transactions. Neither needs a lock.
//!
//! ```
//! use enact::{System, TCell, actor, atomically};
//! use std::sync::Arc;
//!
//! /// Sells the tickets that all offices share.
//! struct Office {
//!     tickets: Arc<TCell<u32>>,
//!     sold: u32,
//! }
//!
//! #[actor]
//! impl Office {
//!     fn sell(&mut self, wanted: u32) -> bool {
//!         let tickets = &*self.tickets;
//!         let granted = atomically(|tx| {
//!             let left = tx.read(tickets)?;
//!             let enough = left >= wanted;
//!             if enough {
//!                 tx.write(tickets, left - wanted)?;
//!             }
//!             Ok(enough)
//!         })
//!         .run();
//!         self.sold += if granted { wanted } else { 0 };
//!         granted
//!     }
//!
//!     fn sold(&self) -> u32 {
//!         self.sold
//!     }
//! }
//!
//! let system = System::builder().workers(2).build()?;
//! let tickets = Arc::new(TCell::new(5));
//! let north = system.spawn(Office { tickets: Arc::clone(&tickets), sold: 0 });
//! let south = system.spawn(Office { tickets, sold: 0 });
//! let answers = north.sell(3).join(south.sell(3)).wait().unwrap();
//! assert!(answers.0 != answers.1, "one of them came too late");
//! assert_eq!(north.sold().join(south.sold()).map(|(north, south)| north + south).wait(), Ok(3));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Finding your way
//! | you want | use |
//! |---|---|
//! | messages, promises, supervision | [`actors`]: `#[actor]`, [`System`], [`Cx`], [`Promise`] |
//! | shared state that changes as a whole | [`stm`]: [`TVar`], [`TCell`], [`atomically`] |
//!
//! The names that most programs need stand at the root as well; a program depends on this crate alone.
#![forbid(unsafe_code)]

pub use enact_actors as actors;
pub use enact_stm as stm;

pub use enact_actors::{Actor, ActorError, Cx, Forward, Promise, Resolver, Spec, System, actor};
pub use enact_stm::{Abort, TCell, TVar, Tx, atomically, try_atomically};
