//! The engine: what drives the pure state machines of this crate over one journal.
//!
//! A live entity keeps its [`Participant`](crate::Participant), a transaction its [`Coordinator`](crate::Coordinator). A transaction
//! is a part of the task that submits it, and an entity is changed in [turns](turns) by the task that brings the message: on its way to
//! the journal a command is not handed over to another thread. All share one journal, so that a transaction commits with one record
//! group and waits for one sync, together with all others that are waiting.
//!
//! # What a crash leaves
//! Nothing that is open was written. What was acknowledged is in the journal, whole. So opening an engine restores
//! nothing but finds it: entities are recovered when they are first asked for.
//!
//! # When something is in doubt
//! If the journal cannot say whether an append is durable, or a violated invariant ends a transaction, the engine
//! *fails*: it tells those that wait that it does not know, takes nothing more, and must be opened again. It never guesses.
//!
//! # When the model panics
//! The entity whose turn it was refuses everything until nothing that it admitted is under way, and is then recovered from
//! the journal. All others go on. What a transaction asks itself fails the engine: `initial`, `seeded`, `is_of_timer`, `calls` without a
//! state, `answered`, `has_result`, `may_set_timer`. One in `is_timed` or `due` while a read looks for
//! what is due reaches the caller of [`Engine::read`].
mod barrier;
mod changes;
mod clock;
mod committer;
mod decisions;
mod directory;
mod disk;
mod durations;
mod elsewhere;
mod entities;
mod entity;
mod envelope;
mod error;
mod firing;
mod graph;
mod history;
mod loading;
mod memory;
mod metrics;
mod news;
mod options;
mod order;
mod origin;
mod progress;
mod promises;
mod reading;
mod requests;
mod retention;
mod stopping;
mod timers;
mod transaction;
mod transport;
mod turns;
mod upkeep;
mod vault;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use enact_journal::{EntityKey, EntityKeyError, Journal};
use enact_rebel::Value;
use enact_sync::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use self::barrier::{Barrier, Unproven};
use self::clock::Clock;
pub use self::clock::{ManualClock, SystemClock, WallClock};
use self::committer::Committer;
use self::directory::{Directory, Maker};
pub use self::disk::DiskState;
pub use self::durations::{DurationCounts, Durations};
use self::elsewhere::Elsewhere;
pub use self::entities::{Entities, Membership, NodeCounts, Standing};
pub use self::envelope::MessageError;
pub use self::error::{Awaited, Doubt, EntityError, Link, ReadError, ShutdownError, SubmitError, Waits};
use self::firing::Firings;
use self::graph::UnderWay;
use self::metrics::Counts;
pub use self::metrics::{DelayCount, EventCount, Metrics, OTHER};
use self::news::Announcer;
pub use self::news::News;
pub use self::options::{EngineOptions, Retention};
pub use self::origin::{Origin, REQUEST_SPANS};
use self::progress::Progress;
use self::requests::{Answers, Running};
use self::timers::Timers;
pub use self::timers::timer_key;
use self::transaction::Transaction;
pub use self::transport::{Network, Transport};
use self::vault::Erasing;
pub use self::vault::{EraseError, Keeping, Kept, KeyStore, Vault, VaultError};
use crate::admission::{Strategies, Strategy};
use crate::model::Model;
use crate::participant::ParticipantOptions;
use crate::record::Idempotency;
use crate::tx::{Millis, Timestamp, TxId};

/// How long after its deadline a request still listens to entities that say what it waited for, and what that waits for.
const GRACE: Millis = Millis(10);

/// What a client wants to happen, with everything that it calls: one event or several, all of them or none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command<E> {
    /// The entity addressed.
    pub key: EntityKey,
    /// The event.
    pub event: E,
    /// What happens after it in the same transaction, in this order, at the same or other entities. Each event meets what those
    /// before it have made.
    ///
    /// A transaction has at most 1,000 entities and 10,000 events, those that are called included.
    #[serde(default = "Vec::new", skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<(EntityKey, E)>,
    /// What makes the command repeatable, if the client sent that.
    pub idempotency: Option<Idempotency>,
    /// How long it may take, whatever it waits for.
    pub deadline: Duration,
}

/// A command that committed and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The transaction.
    pub tx: TxId,
    /// The life-cycle state that the entity addressed is in after it.
    pub state: Option<String>,
    /// What the event returns, if it has a result. An earlier answer has that of its time.
    pub result: Option<Value>,
    /// Whether this is the answer to an earlier command with the same idempotency key.
    pub replayed: bool,
}

/// Entities of one model, over one journal.
///
/// Cheap to clone; all clones are one engine.
pub struct Engine<M: Model, J: Journal> {
    shared: Arc<Shared<M, J>>,
}

impl<M: Model, J: Journal> Clone for Engine<M, J> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

struct Shared<M: Model, J: Journal> {
    model: Arc<M>,
    strategies: Arc<Strategies>,
    journal: Arc<J>,
    clock: Clock,
    time: Arc<dyn WallClock>,
    timers: Arc<Timers>,
    firings: Firings,
    directory: Directory<M, J>,
    committer: Arc<Committer<J>>,
    elsewhere: Option<Arc<Elsewhere<M::Event>>>,
    running: Running,
    under_way: UnderWay,
    counts: Arc<Counts>,
    /// The turns of histories to be read.
    histories: Arc<Semaphore>,
    /// The turns of readings of changes.
    readings: Semaphore,
    /// A position up to which readings of changes have found records.
    read_up_to: AtomicU64,
    /// Wakes those who follow the changes.
    announcer: Announcer,
    answers: Answers,
    /// What shows that the journal is still this engine's.
    barrier: Arc<Barrier<J>>,
    barrier_reads: bool,
    /// Why the journal is not kept as it must be, if it is not.
    violation: Mutex<Option<String>>,
    check_every: Duration,
    retention: Option<Retention>,
    erasing: OnceLock<Erasing>,
    /// Names the coordinators of all transactions, which participants of this process never have to look for.
    coordinator: EntityKey,
    in_flight: AtomicUsize,
    in_flight_max: usize,
    slow_after: Duration,
    idle_after: Duration,
    stopping: AtomicBool,
    failure: Failure,
    idle: tokio::sync::Notify,
}

impl<M: Model, J: Journal> Engine<M, J> {
    /// An engine over the entities in `journal`, whose events have the time of the system's clock.
    pub fn new(model: M, journal: J, options: EngineOptions) -> Self {
        Self::with_clock(model, journal, options, Arc::new(SystemClock))
    }

    /// The same with another clock.
    ///
    /// # Panics
    /// Never.
    pub fn with_clock(model: M, journal: J, options: EngineOptions, time: Arc<dyn WallClock>) -> Self {
        Self::open(model, journal, options, time, None)
    }

    /// An engine that has some of the entities of the model; `transport` says which, and brings messages to the engines that have
    /// the others. `example two_engines` shows two.
    ///
    /// A transaction may change entities of several engines: it is coordinated by the one that it is submitted to, and commits in two
    /// phases, so that a crash of any of them leaves all of it or nothing. What an earlier run has left between engines is taken up by
    /// [`maintain`](Self::maintain).
    ///
    /// # Errors
    /// If the name of this engine is none.
    pub fn with_transport(
        model: M,
        journal: J,
        options: EngineOptions,
        time: Arc<dyn WallClock>,
        transport: Arc<dyn Transport>,
    ) -> Result<Self, EntityKeyError> {
        let elsewhere = Elsewhere::new(transport)?;
        Ok(Self::open(model, journal, options, time, Some(Arc::new(elsewhere))))
    }

    fn open(
        model: M,
        journal: J,
        options: EngineOptions,
        time: Arc<dyn WallClock>,
        elsewhere: Option<Arc<Elsewhere<M::Event>>>,
    ) -> Self {
        let (model, journal, clock) = (Arc::new(model), Arc::new(journal), Clock::start(time.time()));
        let timers = Arc::new(Timers::new());
        let strategies = Arc::new(options.strategies);
        let mut participant = ParticipantOptions::new(Strategy::default());
        participant.limits = options.limits;
        if elsewhere.is_none() {
            // The coordinator is in this process and lives as long as its transaction: nobody has to ask for it.
            participant.ask_after = Millis::NEVER;
        }
        let committer = Arc::new(Committer::new(Arc::clone(&journal), clock));
        let (failure, announcer) = (Failure::default(), Announcer::default());
        let own = || EntityKey::new(".transaction", "engine").expect("a valid name");
        let coordinator = elsewhere.as_ref().map_or_else(own, |elsewhere| elsewhere.coordinator().clone());
        let counts = Arc::new(Counts::of(model.classes()));
        let maker = Maker {
            model: Arc::clone(&model),
            journal: Arc::clone(&journal),
            clock,
            options: participant,
            strategies: Arc::clone(&strategies),
            memory: Arc::default(),
            timers: Arc::clone(&timers),
            counts: Arc::clone(&counts),
            committer: Arc::clone(&committer),
            elsewhere: elsewhere.clone(),
            failure: failure.clone(),
            announcer: announcer.clone(),
        };
        let barrier = Arc::new(Barrier::of::<M::Event>(Arc::clone(&committer)));
        let shared = Shared {
            model,
            strategies,
            barrier,
            barrier_reads: options.barrier_reads,
            violation: Mutex::default(),
            check_every: options.check_every,
            retention: options.retention,
            erasing: OnceLock::new(),
            committer,
            elsewhere,
            journal,
            clock,
            time,
            timers,
            firings: Firings::default(),
            directory: Directory::new(maker, options.live_bytes_max),
            running: Running::default(),
            under_way: UnderWay::default(),
            counts,
            histories: Arc::new(Semaphore::new(history::READ_AT_ONCE)),
            readings: Semaphore::new(changes::READ_AT_ONCE),
            read_up_to: AtomicU64::new(0),
            announcer,
            answers: Answers::kept_for(options.keep_answers),
            coordinator,
            in_flight: AtomicUsize::new(0),
            in_flight_max: options.in_flight_max,
            slow_after: options.slow_after,
            idle_after: options.idle_after,
            stopping: AtomicBool::new(false),
            failure,
            idle: tokio::sync::Notify::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The contract of the entities.
    pub fn model(&self) -> &M {
        &self.shared.model
    }

    /// The journal. What appends to it beside the engine makes that fail.
    pub fn journal(&self) -> &J {
        &self.shared.journal
    }

    /// The strategies of admission.
    pub fn strategies(&self) -> &Strategies {
        &self.shared.strategies
    }

    /// Makes the event of `command` happen, with everything it calls, or nothing of it.
    ///
    /// `Ok` means durable. There is an answer at the deadline, whatever the command waits for: a
    /// [timeout](SubmitError::Timeout) if its record has not been given to the journal, and will not be;
    /// [in doubt](SubmitError::InDoubt) if the journal has it and has not answered.
    ///
    /// # Errors
    /// See [`SubmitError`] on what each one says about the effect.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// The command takes its course even if the future is dropped; under the same idempotency key its answer can be had
    /// later.
    pub async fn submit(&self, command: Command<M::Event>) -> Result<Receipt, SubmitError> {
        self.submit_as(TxId::fresh(), command).await
    }

    /// The same as the transaction `tx`, which the caller has [made](TxId::fresh) for it alone, so as to know it also if no answer
    /// arrives.
    ///
    /// # Errors
    /// Those of [`submit`](Self::submit).
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// That of [`submit`](Self::submit).
    pub async fn submit_as(&self, tx: TxId, command: Command<M::Event>) -> Result<Receipt, SubmitError> {
        if let Some(engine) = self.engine_of(&command.key) {
            return Err(SubmitError::Elsewhere { entity: command.key, engine });
        }
        let ticket = Ticket::take(&self.shared)?;
        let over = moment(command.deadline);
        match self.shared.carry(ticket, tx, command, None).await {
            Err(refused @ SubmitError::Refused { replayed: false, .. }) => {
                let proven = self.shared.proven(refused, over).await;
                Err(proven.unwrap_or_else(|unproven| unproven.of_refusal(tx)))
            }
            answer => answer,
        }
    }

    /// The name of the engine that has `entity`, if that is another one.
    fn engine_of(&self, entity: &EntityKey) -> Option<String> {
        self.shared.elsewhere.as_ref()?.engine_of(entity).map(str::to_owned)
    }

    /// What has been counted since the engine was opened.
    ///
    /// # Complexity
    /// Linear in the events that the contract declares and in the pairs of them that have waited.
    pub fn metrics(&self) -> Metrics {
        Metrics {
            commands: self.shared.in_flight.load(Ordering::Relaxed),
            entity_bytes: self.live_bytes(),
            timers: self.timer_count(),
            appends: self.shared.committer.durations(),
            volume: self.shared.journal.volume(),
            ..self.shared.counts.metrics()
        }
    }

    /// The time that a command would have now.
    pub fn time(&self) -> Timestamp {
        self.shared.time.time()
    }

    /// About how many bytes of memory the entities take that are in memory.
    pub fn live_bytes(&self) -> usize {
        self.shared.directory.bytes()
    }

    /// How many entities have a timer that has not fired, as far as is known: at a start it takes a moment until the journal has
    /// been read.
    pub fn timer_count(&self) -> usize {
        self.shared.timers.count()
    }

    /// The state of the journal's disk.
    pub fn disk(&self) -> DiskState {
        match self.failure() {
            Some(why) => DiskState::Failed { why },
            None => match self.shared.violation.lock().clone() {
                Some(why) => DiskState::Unsafe { why },
                None => self.shared.committer.disk(self.shared.slow_after),
            },
        }
    }

    /// Why the engine takes nothing more, if it has failed.
    pub fn failure(&self) -> Option<String> {
        self.shared.failure.why()
    }

    /// Waits until the engine or its journal has failed, which they may never do.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn failed(&self) -> String {
        let mut failure = self.shared.failure.0.subscribe();
        let journal = async {
            match self.shared.journal.failed().await {
                Some(why) => self.shared.fail(why),
                None => std::future::pending().await,
            }
        };
        let mut journal = std::pin::pin!(journal);
        loop {
            if let Some(why) = failure.borrow_and_update().clone() {
                return why;
            }
            tokio::select! {
                // The sender lives as long as `self`.
                _ = failure.changed() => {}
                () = &mut journal => {}
            }
        }
    }
}

/// Longer than anybody waits: thirty years.
const FAR: Duration = Duration::from_secs(30 * 365 * 86_400);

/// The moment `span` from now, at most thirty years.
fn moment(span: Duration) -> Instant {
    Instant::now() + span.min(FAR)
}

/// The answer if it comes within `span`, or a moment later if somebody is about to say why it did not.
async fn within<F: Future + Unpin>(span: Duration, mut answer: F, is_told: impl FnOnce() -> bool) -> Option<F::Output> {
    match timeout(span, &mut answer).await {
        Ok(answer) => Some(answer),
        Err(_) if is_told() => timeout(GRACE.span(), answer).await.ok(),
        Err(_) => None,
    }
}

impl<M: Model, J: Journal> Shared<M, J> {
    /// Makes the event of `command` happen, at the time `at` if one is given.
    async fn carry(
        self: &Arc<Self>,
        ticket: Ticket<M, J>,
        tx: TxId,
        command: Command<M::Event>,
        at: Option<Timestamp>,
    ) -> Result<Receipt, SubmitError> {
        let span = command.deadline;
        let over = moment(span) + GRACE.span();
        let progress = Arc::new(Progress::new(tx, command.key.clone(), moment(span)));
        self.under_way.begin(tx, &progress);
        let transaction = Transaction::new(tx, ticket, Arc::clone(&progress));
        let under_way = transaction.begin(command, self.clock.after(span), at);
        let answer = match within(span, under_way, || progress.is_told()).await {
            Some(answer) => answer,
            None => Err(progress.give_up()),
        };
        match answer {
            Ok(receipt) => Ok(receipt),
            Err(error) => {
                self.counts.command(&error);
                Err(self.explained(error, over).await)
            }
        }
    }

    /// The `answer` to a client: as soon as it is certain that no other engine had taken the journal over when it was found, if that is wanted.
    async fn proven<T>(&self, answer: T, over: Instant) -> Result<T, Unproven> {
        if self.barrier_reads {
            self.prove(over).await?;
        }
        Ok(answer)
    }

    /// Returns when it is certain that no other engine had taken the journal over when this was called.
    async fn prove(&self, over: Instant) -> Result<(), Unproven> {
        let passed = self.barrier.pass(over.saturating_duration_since(Instant::now())).await;
        if let Err(Unproven::Failed { why }) = &passed {
            self.fail(why.clone());
        }
        passed
    }

    fn is_sound(&self) -> bool {
        self.failure.0.borrow().is_none()
    }

    /// Takes nothing more; the first reason is kept.
    fn fail(&self, why: String) {
        self.failure.fail(why);
    }
}

/// Whether the engine has failed, and why.
#[derive(Clone)]
struct Failure(watch::Sender<Option<String>>);

impl Default for Failure {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl Failure {
    /// Why the engine has failed, if it has.
    fn why(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Notes the first failure.
    fn fail(&self, why: String) {
        self.0.send_if_modified(|failure| {
            let first = failure.is_none();
            if first {
                tracing::error!(why, "the engine has failed and takes nothing more until it is opened again");
                *failure = Some(why);
            }
            first
        });
    }
}

/// The right to have one command under way; given back when dropped.
struct Ticket<M: Model, J: Journal>(Arc<Shared<M, J>>);

impl<M: Model, J: Journal> Ticket<M, J> {
    fn take(engine: &Arc<Shared<M, J>>) -> Result<Self, SubmitError> {
        if let Some(why) = engine.failure.why() {
            return Err(SubmitError::Failed { why });
        }
        let others = engine.in_flight.fetch_add(1, Ordering::SeqCst);
        let ticket = Self(Arc::clone(engine));
        // Counted first, looked at then; `shutdown` does both the other way round. In the one order of all four, either
        // this sees the mark or `shutdown` sees the ticket.
        if engine.stopping.load(Ordering::SeqCst) {
            return Err(SubmitError::Stopping);
        }
        if others >= engine.in_flight_max {
            return Err(SubmitError::Overloaded { retry_after: transaction::RETRY_AFTER });
        }
        Ok(ticket)
    }

    /// For what is a part of something that has a ticket, or is done for nobody: it counts, and is never one too many.
    fn inner(engine: &Arc<Shared<M, J>>) -> Result<Self, SubmitError> {
        if let Some(why) = engine.failure.why() {
            return Err(SubmitError::Failed { why });
        }
        engine.in_flight.fetch_add(1, Ordering::SeqCst);
        Ok(Self(Arc::clone(engine)))
    }

    fn engine(&self) -> &Arc<Shared<M, J>> {
        &self.0
    }
}

impl<M: Model, J: Journal> Drop for Ticket<M, J> {
    fn drop(&mut self) {
        if self.0.in_flight.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
