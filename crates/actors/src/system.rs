//! A system: worker threads and the actors they run.
use std::io;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use enact_stm::{Tx, hooks};
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, thread};

use crate::io::OwnIo;
use crate::scheduler::{self, Scheduler};
use crate::{Actor, Identity, Promise, Resolver, Spec, tentative};

/// The size of a worker's stack unless set otherwise: inline calls nest on it.
const STACK_BYTES: usize = 4 << 20;
/// The stack of the thread that watches over a shutdown: destructors of actors may run on it.
const WATCHER_STACK_BYTES: usize = 2 << 20;
/// How long actors that are told to end at the deadline of a shutdown have for the turns they are in.
const LAST_TURN_TIME: Duration = Duration::from_secs(1);

/// Worker threads and the actors they run.
///
/// Clones are the same system. When the last one is dropped, every actor ends after the turn that it is in, and the
/// threads are waited for, unless that happens on one of them; [`shutdown`](Self::shutdown) lets the actors finish
/// first. Handles may outlive the system: what is sent through them fails with
/// [`ActorError::Stopped`](crate::ActorError::Stopped).
///
/// Handlers run inside a tokio runtime: its timers and I/O, and what is built on them, work in asynchronous handlers.
///
/// ```
/// use enact_actors::*;
/// use std::time::Duration;
///
/// struct Counter {
///     n: i64,
/// }
///
/// #[actor]
/// impl Counter {
///     fn add(&mut self, k: i64) {
///         self.n += k;
///     }
///     fn value(&self) -> i64 {
///         self.n
///     }
/// }
///
/// let system = System::builder().workers(2).build()?;
/// let counter = system.spawn(Counter { n: 0 });
/// counter.tell().add(40);
/// counter.tell().add(2);
/// assert_eq!(counter.value().wait(), Ok(42));
/// assert_eq!(system.shutdown(Duration::from_secs(5)).wait(), Ok(Shutdown::Drained));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct System {
    inner: Arc<Inner>,
}

struct Inner {
    scheduler: Arc<Scheduler>,
    /// Whether threads were left behind, in a turn that did not end.
    left_behind: AtomicBool,
    io: Mutex<Option<OwnIo>>,
}

/// How a shutdown went.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shutdown {
    /// All messages had been taken up and all turns had ended before the deadline.
    Drained,
    /// The deadline came first; what was left failed with [`ActorError::Stopped`](crate::ActorError::Stopped).
    CutShort {
        /// Actors in a turn that did not end, so that their threads were left behind.
        stuck: Vec<Identity>,
    },
}

/// Settings of a [`System`].
#[derive(Clone, Debug)]
#[must_use = "call `build`"]
pub struct Builder {
    workers: Option<NonZeroUsize>,
    thread_name: String,
    stack_bytes: usize,
    tokio: Option<tokio::runtime::Handle>,
}

impl Builder {
    /// How many turns can run at the same time; as many as the machine has cores unless set.
    ///
    /// Workers are not bound to CPUs. On Linux a worker that wakes another rules its own CPU out for the moment of the
    /// wake-up, so that they do not share it; threads, or a process, that were bound from outside are left alone.
    ///
    /// # Panics
    /// If `workers` is zero.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(NonZeroUsize::new(workers).expect("a system has at least one worker"));
        self
    }

    /// The name of the worker threads; `enact-worker` unless set.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.thread_name = name.into();
        self
    }

    /// The stack of each worker thread in bytes; 4 MiB unless set.
    ///
    /// Synchronous calls run on it one inside the other while half of it is left, and are sent to the callee otherwise. So
    /// each turn has half of it at least.
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = bytes;
        self
    }

    /// The tokio runtime for timers and I/O. Unless set, the one that [`build`](Self::build) is called in, or else one
    /// that the system makes and ends itself.
    ///
    /// If the runtime ends before the system, [`Cx::after`](crate::Cx::after), [`Cx::every`](crate::Cx::every) and
    /// [`Promise::timeout`] go on by a clock of the process. What handlers use of tokio itself fails then.
    pub fn tokio(mut self, runtime: tokio::runtime::Handle) -> Self {
        self.tokio = Some(runtime);
        self
    }

    /// Starts the system.
    ///
    /// # Errors
    /// If the operating system refuses a thread.
    pub fn build(self) -> io::Result<System> {
        let workers = match self.workers {
            Some(workers) => workers,
            None => std::thread::available_parallelism()?,
        };
        let (tokio, own_io) = match self.tokio.or_else(|| tokio::runtime::Handle::try_current().ok()) {
            Some(tokio) => (tokio, None),
            None => crate::io::start().map(|(tokio, own_io)| (tokio, Some(own_io)))?,
        };
        let scheduler = Scheduler::start(workers.get(), self.thread_name, self.stack_bytes, tokio)?;
        let inner = Inner { scheduler, left_behind: AtomicBool::new(false), io: Mutex::new(own_io) };
        Ok(System { inner: Arc::new(inner) })
    }
}

impl System {
    /// Settings, all of which have defaults.
    pub fn builder() -> Builder {
        Builder { workers: None, thread_name: "enact-worker".into(), stack_bytes: STACK_BYTES, tokio: None }
    }

    /// Makes an actor, from its state or from a [`Spec`]. After a shutdown has begun, one that has ended already.
    pub fn spawn<A: Actor>(&self, spec: impl Into<Spec<A>>) -> A::Ref {
        scheduler::spawn(&self.inner.scheduler, spec.into(), None)
    }

    /// As [`spawn`](Self::spawn), if `tx` commits: see [`Cx::spawn_within`](crate::Cx::spawn_within).
    pub fn spawn_within<A: Actor>(&self, tx: &mut Tx<'_, '_>, spec: impl Into<Spec<A>>) -> A::Ref {
        scheduler::spawn_within(tx, &self.inner.scheduler, spec.into(), None)
    }

    #[cfg(feature = "simulation")]
    pub(crate) fn scheduler(&self) -> &Scheduler {
        &self.inner.scheduler
    }

    /// The actors that are alive, in no order.
    #[must_use]
    pub fn actors(&self) -> Vec<Identity> {
        self.inner.scheduler.registry().all().iter().map(|actor| actor.identity().clone()).collect()
    }

    /// Shuts the system down.
    ///
    /// From now on nothing is accepted from outside. The actors go on until no message is left and no turn is under
    /// way, at most for `deadline`; timers that have not run by then are cancelled. Then every actor ends and its
    /// state is dropped. The promise is kept when that is done.
    ///
    /// # Errors
    /// [`ActorError::Abandoned`](crate::ActorError::Abandoned) if the operating system refuses the thread that watches
    /// over the shutdown; the system then ends when it is dropped.
    ///
    /// # Blocking
    /// Not here; the promise can be awaited or waited for.
    pub fn shutdown(&self, deadline: Duration) -> Promise<Shutdown> {
        let (promise, resolver) = Promise::pair();
        let inner = Arc::clone(&self.inner);
        tentative::perform(move || inner.shut_down(deadline, resolver));
        promise
    }
}

impl Inner {
    fn shut_down(self: Arc<Self>, deadline: Duration, resolver: Resolver<Shutdown>) {
        self.scheduler.accept_only_own();
        let due = Instant::now() + deadline;
        let watch_over = move || {
            let outcome = self.finish(due);
            drop(self);
            resolver.resolve(outcome);
        };
        if let Err(error) = thread::spawn_named("enact-shutdown".into(), WATCHER_STACK_BYTES, watch_over) {
            tracing::error!(%error, "no thread to watch over the shutdown");
        }
    }

    fn finish(&self, due: Instant) -> Shutdown {
        let drained = self.scheduler.wait_until_settled(due);
        self.scheduler.close();
        if !self.scheduler.wait_until_empty(Instant::now() + LAST_TURN_TIME) {
            self.left_behind.store(true, Ordering::Release);
        }
        let stuck: Vec<Identity> =
            self.scheduler.registry().all().iter().map(|actor| actor.identity().clone()).collect();
        if drained && stuck.is_empty() { Shutdown::Drained } else { Shutdown::CutShort { stuck } }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.scheduler.close();
        // An actor may have to wait for the transaction that this thread is in.
        if !self.left_behind.load(Ordering::Acquire) && !hooks::is_in_a_transaction() {
            self.scheduler.join();
        }
        if let Some(own_io) = self.io.lock().take() {
            own_io.end();
        }
    }
}

impl std::fmt::Debug for System {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("System").field("actors", &self.inner.scheduler.registry().len()).finish_non_exhaustive()
    }
}
