//! Enact: actors and transactions for one program.
//!
//! State that belongs to somebody lives in an *actor* and is reached by messages; state that several share lives in
//! *variables* and is changed by transactions. Neither needs a lock.
//!
//! ```
//! use enact::{System, actor};
//!
//! struct Counter(u64);
//!
//! #[actor]
//! impl Counter {
//!     fn add(&mut self, n: u64) -> u64 {
//!         self.0 += n;
//!         self.0
//!     }
//! }
//!
//! let system = System::builder().build()?;
//! let counter = system.spawn(Counter(40));
//! assert_eq!(counter.add(2).wait(), Ok(42));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Finding your way
//! A program depends on this crate alone. The names that most programs need stand at its root; the others are in two
//! modules:
//!
//! | you want | use |
//! |---|---|
//! | messages and answers | [`actor`](macro@actor), [`System`], [`Cx`], [`Promise`], [`Forward`], [`Resolver`] |
//! | errors, restarts, mailboxes, shutdown | [`ActorError`], [`Spec`], [`actors::Restarts`], [`actors::Mailbox`], [`actors::Shutdown`] |
//! | shared state that changes as a whole | [`TVar`], [`TCell`], [`atomically`], [`try_atomically`], [`Tx`], [`Abort`] |
//! | a newtype in a [`TCell`] | `#[derive(Word)]`: [`stm::Word`](macro@stm::Word) |
//! | snapshots, containers, deferred input and output | [`stm`] |
//! | a message, an actor or a state that belongs to a transaction | the `within` views of every handle, [`Cx::spawn_within`], [`Cx::become_within`] |
//! | everything about actors: the ways to call, the forms of handlers, the guarantees | [`actors`] |
//!
//! In the repository, `docs/guide/how-enact-programs-look.md` walks through five complete programs, from request and reply to
//! shared resources. `docs/stm.md` is the tour of transactions, and `docs/guide/transactional-actors.md` says what happens when
//! messages belong to them.
//!
//! A function that takes a transaction borrows its variables for `'t`, the time of one attempt:
//! ```
//! use enact::stm::Word;
//! use enact::{Abort, TCell, Tx, atomically};
//!
//! #[derive(Debug, Clone, Copy, PartialEq, Word)]
//! struct Cents(i64);
//!
//! struct Account {
//!     balance: TCell<Cents>,
//! }
//!
//! impl Account {
//!     fn deposit<'t>(&'t self, tx: &mut Tx<'t, '_>, Cents(amount): Cents) -> Result<Cents, Abort> {
//!         tx.update(&self.balance, |Cents(balance)| Cents(balance + amount))
//!     }
//! }
//!
//! let account = Account { balance: TCell::new(Cents(100)) };
//! assert_eq!(atomically(|tx| account.deposit(tx, Cents(50))).run(), Cents(150));
//! ```
//!
//! # Both together
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
//!     async fn sell(&mut self, wanted: u32) -> bool {
//!         let granted = atomically(|tx| {
//!             let left = tx.read(&self.tickets)?;
//!             let enough = left >= wanted;
//!             if enough {
//!                 tx.write(&self.tickets, left - wanted)?;
//!             }
//!             Ok(enough)
//!         })
//!         .await;
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
#![forbid(unsafe_code)]

pub use enact_actors as actors;
#[doc(hidden)]
pub use enact_actors::message;
pub use enact_actors::{Actor, ActorError, Cx, Forward, Promise, Resolver, Spec, System, actor};
pub use enact_stm as stm;
pub use enact_stm::{Abort, TCell, TVar, Tx, atomically, try_atomically};

/// The program of the repository's front page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct FrontPage;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/how-enact-programs-look.md")]
struct Guide;
