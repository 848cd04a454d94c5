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
mod clock;
mod committer;
mod decisions;
mod directory;
mod disk;
mod elsewhere;
mod entities;
mod entity;
mod envelope;
mod error;
mod firing;
mod graph;
mod loading;
mod memory;
mod metrics;
mod progress;
mod promises;
mod requests;
mod timers;
mod transaction;
mod transport;
mod turns;

use std::convert::Infallible;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use enact_journal::{EntityKey, EntityKeyError, Journal};
use enact_rebel::Value;
use enact_rebel::limits::DUE_MAX;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{Instant, interval, timeout, timeout_at};

use self::clock::Clock;
pub use self::clock::{ManualClock, SystemClock, WallClock};
use self::committer::Committer;
use self::directory::{Directory, Maker};
pub use self::disk::DiskState;
use self::disk::{Change, Changes};
use self::elsewhere::Elsewhere;
pub use self::entities::{Entities, Membership, NodeCounts, Standing};
pub use self::envelope::MessageError;
pub use self::error::{Awaited, Doubt, EntityError, Link, ReadError, ShutdownError, SubmitError, Waits};
use self::firing::Firings;
use self::graph::UnderWay;
use self::metrics::Counts;
pub use self::metrics::{DelayCount, EventCount, Metrics, OTHER};
use self::progress::Progress;
use self::requests::{Answers, Running};
use self::timers::Timers;
pub use self::timers::timer_key;
use self::transaction::Transaction;
pub use self::transport::{Network, Transport};
use crate::admission::{Limits, Strategies, Strategy};
use crate::model::Model;
use crate::participant::{ParticipantOptions, ReadMode, View};
use crate::record::Idempotency;
use crate::tx::{Millis, Timestamp, TxId};

/// How long after its deadline a request still listens to entities that say what it waited for, and what that waits for.
const GRACE: Millis = Millis(10);

/// How long an engine that stops waits at most until promises and decisions between engines are settled; what is left is taken up by the
/// next one.
const SETTLING_MAX: Duration = Duration::from_millis(500);

/// How long the journal has at least to close, however long commands took to end.
const CLOSING_MIN: Duration = Duration::from_secs(1);

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Which transactions may be open together at one entity, by its class.
    pub strategies: Strategies,
    /// The limits of admission at each entity.
    pub limits: Limits,
    /// How many commands may be under way; a further one is turned away at once.
    pub in_flight_max: usize,
    /// About how many bytes the entities in memory may take; idle ones beyond that are put away.
    pub live_bytes_max: usize,
    /// After how long without use an entity is put away, or after up to twice as long.
    pub idle_after: Duration,
    /// How long an append may take before the disk counts as [slow](DiskState::Slow).
    pub slow_after: Duration,
    /// For how long a request that is repeated under its idempotency key gets its earlier answer, a year at most. Afterwards
    /// it is a new request.
    pub keep_answers: Duration,
}

impl EngineOptions {
    /// Whether all entities of a class are answers that are no longer kept. A journal can be
    /// [opened without](enact_journal::Embedded::open_without) them.
    pub fn are_answers_over(&self) -> impl Fn(&str) -> bool + Send + use<> {
        let (answers, now) = (Answers::kept_for(self.keep_answers), clock::timestamp());
        move |class| answers.are_over(class, now)
    }
}

impl Default for EngineOptions {
    /// [`Strategy::Serializable`] for all classes, 4,096 commands under way, 256 MiB of entities that are put away after ten
    /// minutes without use, 5 s for an append, a day for answers.
    fn default() -> Self {
        Self {
            strategies: Strategies::default(),
            limits: Limits::default(),
            in_flight_max: 4096,
            live_bytes_max: 256 << 20,
            idle_after: Duration::from_secs(600),
            slow_after: Duration::from_secs(5),
            keep_answers: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// One event that a client wants to happen, with everything it calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command<E> {
    /// The entity addressed.
    pub key: EntityKey,
    /// The event.
    pub event: E,
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
    answers: Answers,
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
        let failure = Failure::default();
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
        };
        let shared = Shared {
            model,
            strategies,
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
        self.shared.carry(ticket, tx, command, None).await
    }

    /// Reads the entity `key`; there is an answer at the deadline. What is due at the entity happens before, so that no state is
    /// shown that has come to its end: in any mode the read waits for that.
    ///
    /// # Errors
    /// See [`ReadError`].
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect on anything else.
    pub async fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        let grace = moment(deadline) + GRACE.span();
        let answer = self.read_in_time(key, mode, after, deadline).await;
        let answer = answer.inspect_err(|error| self.shared.counts.read(error));
        match answer {
            Err(ReadError::Timeout { awaited, waits_for, mut graph }) => {
                self.shared.trace(&awaited, &waits_for, &mut graph, grace).await;
                Err(ReadError::Timeout { awaited, waits_for, graph })
            }
            answer => answer,
        }
    }

    /// Reads behind what is due.
    async fn read_in_time(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        if let Some(engine) = self.engine_of(key) {
            return Err(ReadError::Elsewhere { entity: key.clone(), engine });
        }
        if let Some(why) = self.failure() {
            return Err(ReadError::Failed { why });
        }
        if self.shared.stopping.load(Ordering::Acquire) {
            return Err(ReadError::Stopping);
        }
        if !self.shared.model.is_timed(key) {
            return self.read_now(key, mode, after, deadline).await;
        }
        let over = Instant::now() + deadline.min(FAR);
        let mut mode = mode;
        for _ in 0..DUE_MAX {
            let now = self.shared.time.time();
            let settled = async {
                while self.shared.let_due(key, now).await? {}
                Ok(())
            };
            let is_late = match timeout_at(over, settled).await {
                Ok(Ok(())) => false,
                Ok(Err(cause)) => return Err(ReadError::of_due(cause, key)),
                // All outcomes do not show whether something is due.
                Err(_) if mode == ReadMode::Range => return Err(ReadError::behind_due(key)),
                // The entity says what it waits for, or is in a state in which nothing is due after all.
                Err(_) => true,
            };
            let left = over.saturating_duration_since(Instant::now());
            match self.read_now(key, mode, after, left).await {
                Ok(View::One { state, .. }) if self.is_early(key, &state, now) => {}
                Err(ReadError::Timeout { waits_for, .. }) if is_late && waits_for.is_empty() => break,
                view => return view,
            }
            if is_late {
                break;
            }
            if mode == ReadMode::Applied {
                // What is due has happened, and is applied when what is open before it is decided.
                mode = ReadMode::Certain;
            }
        }
        Err(ReadError::behind_due(key))
    }

    /// Whether a read at the time `now` must not show this state, because something is due in it.
    fn is_early(&self, key: &EntityKey, state: &M::State, now: Timestamp) -> bool {
        self.shared.model.due(key, state).is_some_and(|due| due.precedes(now, false))
    }

    async fn read_now(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> Result<View<M::State>, ReadError> {
        let live = self.shared.directory.get(key)?;
        let (stage, until) = (live.stage(), self.shared.clock.after(deadline));
        let reading = live.turn(move |entity| entity.read(mode, after, until));
        let answer = match within(deadline, reading, || stage.is_told()).await {
            Some(Ok(Ok(Ok(view)))) => Ok(view),
            Some(Ok(Ok(Err(waits_for)))) => {
                Err(ReadError::Timeout { awaited: stage.awaited(), waits_for, graph: Vec::new() })
            }
            Some(Ok(Err(cause))) => Err(cause.into()),
            Some(Err(cause)) => Err(live.ended(&cause).into()),
            None => Err(ReadError::Timeout { awaited: stage.awaited(), waits_for: Vec::new(), graph: Vec::new() }),
        };
        self.shared.directory.release(&live);
        answer
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
            None => self.shared.committer.disk(self.shared.slow_after),
        }
    }

    /// Looks after the engine and never ends. Takes up what an earlier run has left between this engine and others. Lets happen what is due, at 32 entities at a time; without it that happens when
    /// somebody asks for the entity. And once a second: puts entities away that nobody uses, has answers forgotten that
    /// are no longer kept, and logs one line when the disk becomes slow and one when it answers again.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// Dropping the future ends it.
    pub async fn maintain(&self) -> Infallible {
        let all = tokio::join!(self.shared.look_in_time(), self.look_after(), self.shared.resume());
        match all {}
    }

    async fn look_after(&self) -> Infallible {
        let mut changes = Changes::default();
        let mut seconds = interval(Duration::from_secs(1));
        let mut tick = 0;
        loop {
            seconds.tick().await;
            self.shared.directory.sweep(tick, self.shared.idle_after.as_secs());
            tick += 1;
            self.shared.save_timers(false).await;
            self.shared.save_promises().await;
            let time = self.shared.clock.certain_time(self.shared.time.time());
            let answers = self.shared.answers;
            self.shared.journal.forget(|class| answers.are_over(class, time));
            match changes.see(&self.disk()) {
                Some(Change::Slow { since }) => {
                    tracing::warn!(millis = since.as_millis(), "the disk is slow: a record is not durable yet");
                }
                Some(Change::Answers) => tracing::info!("the disk answers again"),
                None => {}
            }
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

    /// Refuses new commands and reads, and lets those under way end within `deadline`. What other engines want is still promised and
    /// decided, until [`shutdown`](Self::shutdown). Engines that stop together let each other's commands end this way.
    ///
    /// Returns whether all have ended.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    ///
    /// # Cancel safety
    /// New commands and reads are refused as soon as the future has been polled, and for good.
    pub async fn drain(&self, deadline: Duration) -> bool {
        let over = moment(deadline);
        self.shared.stopping.store(true, Ordering::SeqCst);
        let all_ended = async {
            loop {
                let ended = self.shared.idle.notified();
                if self.shared.in_flight.load(Ordering::SeqCst) == 0 {
                    return;
                }
                ended.await;
            }
        };
        timeout_at(over, all_ended).await.is_ok()
    }

    /// [Drains](Self::drain) the engine and closes the journal, all of it within `deadline`; but the journal has a second at
    /// least. What is promised and decided between engines that run has half a second to be settled, so that nothing is in doubt
    /// afterwards. Then other engines hear nothing more from this one: what they want, the next one over the journal is asked for.
    ///
    /// What has not ended by then has the same fate as in a crash: nothing that was acknowledged is lost. A journal that
    /// has not closed by then is never dropped, as that would wait for it.
    ///
    /// # Errors
    /// If the journal had failed before, fails now, or does not close in time.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), ShutdownError> {
        let over = moment(deadline);
        if !self.drain(deadline).await {
            tracing::warn!("commands were still under way when the time to stop was over");
        }
        if let Some(elsewhere) = &self.shared.elsewhere {
            if timeout_at(over.min(moment(SETTLING_MAX)), elsewhere.settle()).await.is_err() {
                tracing::info!("promises or decisions are left for the next engine over the journal");
            }
            elsewhere.close();
        }
        let closing = over.max(moment(CLOSING_MIN));
        // What is not kept costs the next start some time.
        let _ = timeout_at(over, self.shared.save_timers(true)).await;
        match timeout_at(closing, self.shared.journal.close()).await {
            Ok(closed) => Ok(closed?),
            Err(_) => {
                mem::forget(Arc::clone(&self.shared.journal));
                let under_way = self.shared.in_flight.load(Ordering::SeqCst);
                Err(ShutdownError::Unclosed { deadline: deadline.max(CLOSING_MIN), under_way })
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
