//! The actor runtime of Enact.
//!
//! An actor is a struct. [`#[actor]`](macro@actor) on its impl block makes each method a message and generates a handle
//! with the same methods. A call sends at once and returns a [`Promise`]; the handle's *views* have the same methods
//! and other ways to call:
//!
//! | call | returns | meaning |
//! |---|---|---|
//! | `counter.add(1)` | `Promise<T>` | send; the answer comes later |
//! | `counter.tell().add(1)` | [`Sent`] | send; no answer is wanted, and no promise made |
//! | `counter.call(cx).add(1)` | `Result<T, ActorError>` | in a turn: have it done now, inline if the actor is idle |
//! | `counter.forward(cx).add(1)` | [`Forward<T>`] | in a turn: have it answered in this turn's place |
//! | `counter.within(tx).add(1)` | [`Ask<T>`] | in a transaction: send as a part of it |
//! | `counter.tell_within(tx).add(1)` | [`Sent`] | the same without an answer |
//!
//! The signature of a handler chooses what its turn does:
//!
//! | signature | meaning |
//! |---|---|
//! | `fn m(&mut self, ..) -> T` | runs to completion |
//! | `async fn m(&mut self, ..) -> T` | keeps the actor while it waits (*get*); no thread waits |
//! | `async fn m(cx: Cx<Self>, ..) -> T` | lets the actor take other messages while it waits (*await*); the state is reached by [`Cx::with`] |
//! | `.. -> Forward<T>` | answers with a `T`, or has somebody else do it |
//!
//! ```
//! use enact_actors::*;
//!
//! struct Account {
//!     cents: i64,
//! }
//!
//! #[actor]
//! impl Account {
//!     fn deposit(&mut self, cents: i64) {
//!         self.cents += cents;
//!     }
//!     fn balance(&self) -> i64 {
//!         self.cents
//!     }
//!     async fn withdraw_when_possible(cx: Cx<Self>, cents: i64) -> i64 {
//!         cx.wait_for(|account| account.cents >= cents).await;
//!         cx.with(|account| {
//!             account.cents -= cents;
//!             account.cents
//!         })
//!     }
//! }
//!
//! let system = System::builder().workers(2).build()?;
//! let account = system.spawn(Account { cents: 0 });
//! let withdrawn = account.withdraw_when_possible(70);
//! account.tell().deposit(50);
//! account.tell().deposit(50);
//! assert_eq!(withdrawn.wait(), Ok(30));
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! # Guarantees
//! * **One turn at a time.** Between two awaits, a turn has its actor's state to itself.
//! * **Order.** Messages from one sender to one actor are taken up in the order in which they were sent, unless their
//!   handlers have [priorities](macro@actor#priorities) or [guards](macro@actor#guards).
//! * **Isolation.** Arguments and answers are owned and `Send`; a handler cannot let a borrow of the state out, nor hold
//!   one across an await beside which others run.
//! * **Every promise ends** that waits for nothing outside of the system, with a value or a typed [`ActorError`]: a
//!   panic, a stop, a restart and a full mailbox are answers, too, and so is a circle of waits, within milliseconds or
//!   when its worker has ended a longer turn. Left alone is a circle two of whose turns wait for something outside,
//!   too, as for a timer, another crate's `select!` or an awaited transaction, and one through a thread or a lock,
//!   which the runtime does not see: a [`timeout`](Promise::timeout) ends these.
//! * **Fairness.** An actor with a full mailbox takes a batch of turns and goes to the back; a turn that blocks in a call
//!   delays only what waits for it, and what is queued behind one that computes for long goes to another worker within a
//!   millisecond, unless all of them compute for long or have as much to do for those that came before. An idle actor
//!   that hears from outside of the system's threads, from a thread, a timer or a socket, waits for at most two runs of
//!   each runnable actor.
//! * **Rest.** A system without work uses no processor time.
//!
//! # Transactions
//! Actors share state by the variables of `enact_stm`. A message, a new actor or a new state can belong to a transaction,
//! and happens if and only if that does: [`Cx::spawn_within`], [`Cx::become_within`] and the `within` views. The guide,
//! `docs/guide/transactional-actors.md`, builds an example and says what may be relied on.
//!
//! # Source
//! M. Andrieux, *Safe concurrent abstractions for multicore OCaml*: promises, get, await, forward, synchronous calls.
//! J. Swalens, J. De Koster, W. De Meuter, *Transactional Actors: Communication in Transactions*.
#![deny(unsafe_code)]

mod actor;
mod cell;
mod cx;
mod deadlock;
mod error;
mod frame;
mod handle;
mod identity;
mod io;
mod life;
mod mailbox;
mod parker;
mod promise;
mod scheduler;
mod spec;
mod system;
mod tentative;
mod timer;
mod turn;
mod within;

pub use enact_macros::actor;

pub use crate::actor::Actor;
pub use crate::cx::Cx;
pub use crate::error::{ActorError, Cycle, Exit, ExitReason};
pub use crate::handle::{Handle, Sent};
pub use crate::identity::{ActorId, Identity};
pub use crate::promise::{Forward, Promise, Resolver};
pub use crate::spec::{Mailbox, OnPanic, Restarts, Spec, WhenFull};
pub use crate::system::{Builder, Shutdown, System};
pub use crate::timer::Timer;
pub use crate::within::Ask;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The programs of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/transactional-actors.md")]
struct Guide;

/// The scheduler in simulated time, for those who work on it; changes at will.
#[cfg(feature = "simulation")]
#[doc(hidden)]
pub mod simulation {
    pub use crate::scheduler::simulation::{Outcome, Recording, Setting, forks_begin_apart, line, record, replay};
}

/// What the code generated by [`#[actor]`](macro@actor) is made of; not for use by hand.
#[doc(hidden)]
pub mod message {
    pub use enact_stm::Tx;

    pub use crate::actor::{Restorable, copy};
    pub use crate::turn::{
        Answer, Brings, Brought, Call, Duty, Lease, Message, Post, Reply, Told, Value, cooperative, guarded, held,
        plain, ranked,
    };
    pub use crate::within::Within;
    pub use crate::{Actor, ActorError, Ask, Cx, Forward, Handle, Promise, Sent};
}
