//! How an actor is set up: its name, its mailbox, and what a panic means for it.
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::time::Duration;

use crate::Actor;
use crate::cell::State;

/// An actor to be, with its options. A plain value of the actor's type is a specification with all defaults.
///
/// ```
/// # use enact_actors::*;
/// # use std::time::Duration;
/// # struct Till { cents: u64 }
/// # #[actor] impl Till { fn take(&mut self, cents: u64) { assert!(cents > 0, "nothing to take"); self.cents += cents } fn sum(&self) -> u64 { self.cents } }
/// # let system = System::builder().workers(1).build()?;
/// let till = system.spawn(
///     Spec::restarting(Restarts::at_most(3, Duration::from_secs(10)), || Till { cents: 0 })
///         .name("till")
///         .mailbox(Mailbox::bounded(1000, WhenFull::Fail)),
/// );
/// till.tell().take(5);
/// assert!(matches!(till.take(0).wait(), Err(ActorError::Panicked { .. })));
/// assert_eq!(till.sum().wait(), Ok(0), "restarted");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "spawn it"]
pub struct Spec<A: Actor> {
    pub(crate) state: A,
    pub(crate) name: Option<String>,
    pub(crate) mailbox: Mailbox,
    pub(crate) supervision: Supervision,
    pub(crate) keep_alive: bool,
    /// Invariant: the maker of a restart makes states of this type, and of no sub- or supertype.
    pub(crate) actor: PhantomData<fn(A) -> A>,
}

#[derive(Default)]
pub(crate) struct Supervision {
    pub(crate) restart: Option<(Restarts, Box<dyn FnMut() -> State + Send>)>,
    pub(crate) otherwise: OnPanic,
}

/// What becomes of an actor whose turn has panicked, if it is not restarted.
///
/// The promise of the turn has failed with [`ActorError::Panicked`](crate::ActorError::Panicked) in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum OnPanic {
    /// It stops: its state may be half changed. Queued messages fail, watchers and links are told. The default.
    #[default]
    Stop,
    /// It goes on with the state as the panic left it, and with its suspended turns.
    Resume,
    /// It stops, and the failure becomes its parent's, as if a turn of the parent had panicked. Without a parent, it
    /// stops.
    Escalate,
}

/// How often an actor may be restarted before its failure is taken to be permanent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Restarts {
    pub(crate) count: usize,
    pub(crate) within: Duration,
}

impl Restarts {
    /// At most `count` restarts within any span of `within`.
    #[must_use]
    pub const fn at_most(count: usize, within: Duration) -> Self {
        Self { count, within }
    }
}

/// How many messages may wait for an actor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Mailbox {
    /// As many as memory holds. The default.
    #[default]
    Unbounded,
    /// At most `capacity`; `when_full` says what a sender meets then. What the actor sends itself by timers, and the
    /// resumption of suspended turns, take room but are never refused.
    Bounded {
        /// How many messages may wait.
        capacity: NonZeroUsize,
        /// What a sender meets when they do.
        when_full: WhenFull,
    },
}

impl Mailbox {
    /// Room for `capacity` messages.
    ///
    /// # Panics
    /// If `capacity` is zero.
    #[must_use]
    pub fn bounded(capacity: usize, when_full: WhenFull) -> Self {
        let capacity = NonZeroUsize::new(capacity).expect("a mailbox has room for at least one message");
        Self::Bounded { capacity, when_full }
    }
}

/// What a sender meets at a full mailbox. Nothing is ever dropped without a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WhenFull {
    /// The send fails with [`ActorError::Full`](crate::ActorError::Full): the promise, or what `tell()` returns.
    Fail,
    /// The send waits for room. A plain thread blocks; in a turn, the worker's other actors are run by another thread
    /// meanwhile, and a wait in a circle fails with [`ActorError::Deadlock`](crate::ActorError::Deadlock). A send that would
    /// block a thread which drives a tokio runtime panics.
    Wait,
}

impl Supervision {
    /// Whether a panic stops the actor and concerns no other.
    pub(crate) fn is_default(&self) -> bool {
        self.restart.is_none() && self.otherwise == OnPanic::Stop
    }
}

impl<A: Actor> Spec<A> {
    /// An actor with this state.
    pub fn new(state: A) -> Self {
        Self {
            state,
            name: None,
            mailbox: Mailbox::default(),
            supervision: Supervision::default(),
            keep_alive: false,
            actor: PhantomData,
        }
    }

    /// An actor whose state is made by `make`, now and again after each panic.
    ///
    /// A restart keeps the handles, the mailbox and its messages; suspended turns fail with
    /// [`ActorError::Restarted`](crate::ActorError::Restarted), timers are cancelled. When `restarts` is used up, or
    /// `make` itself panics, [`on_panic`](Self::on_panic) decides.
    pub fn restarting(restarts: Restarts, mut make: impl FnMut() -> A + Send + 'static) -> Self {
        let mut spec = Self::new(make());
        spec.supervision.restart = Some((restarts, Box::new(move || Box::new(make()) as State)));
        spec
    }

    /// The actor's name in errors, logs and notices, instead of its type's.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What a panic means when the actor is not restarted.
    pub fn on_panic(mut self, on_panic: OnPanic) -> Self {
        self.supervision.otherwise = on_panic;
        self
    }

    /// The room in the actor's mailbox.
    pub fn mailbox(mut self, mailbox: Mailbox) -> Self {
        self.mailbox = mailbox;
        self
    }

    /// The actor lives on when its last handle is dropped, until it stops itself or the system is shut down.
    pub fn keep_alive(mut self) -> Self {
        self.keep_alive = true;
        self
    }
}

impl<A: Actor> From<A> for Spec<A> {
    fn from(state: A) -> Self {
        Self::new(state)
    }
}
