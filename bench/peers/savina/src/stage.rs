//! What a program of the suite is written against, whatever the library.
use std::ops::ControlFlow;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use enact_workloads::stm::cpu_time;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// How long a run may take; one that takes longer has lost a message.
const RUN_TIME_MAX: Duration = Duration::from_secs(15 * 60);

/// An actor library.
pub(crate) trait Library: Clone + Send + Sync + Unpin + 'static {
    /// The address of an actor.
    type Ref<B: Behaviour<Self>>: Clone + Send + Sync + Unpin + 'static;

    fn spawn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B>;

    /// The same in the turn of an actor, where a library has something better for that.
    fn spawn_in_turn<B: Behaviour<Self>>(&self, behaviour: B) -> Self::Ref<B> {
        self.spawn(behaviour)
    }

    /// Sends without waiting; a message to an actor that has ended is dropped.
    fn tell<B: Behaviour<Self>>(to: &Self::Ref<B>, message: B::Message);

    /// The address of an actor that asks or is asked.
    type PartnerRef<D: Dialogue<Self>>: Clone + Send + Sync + Unpin + 'static;

    /// Makes an actor that asks by the library's own request and takes nothing else until the answer has come.
    fn spawn_partner<D: Dialogue<Self>>(&self, dialogue: D) -> Self::PartnerRef<D>;

    /// As [`tell`](Self::tell).
    fn tell_partner<D: Dialogue<Self>>(to: &Self::PartnerRef<D>, message: D::Message);
}

/// The state of an actor, and what it does with a message.
pub(crate) trait Behaviour<L: Library>: Sized + Send + Unpin + 'static {
    type Message: Send + 'static;

    /// Handles one message; `me` gives the actor's own address. The actor ends at [`ControlFlow::Break`].
    fn handle(&mut self, message: Self::Message, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()>;
}

/// The state of an actor that asks others or is asked by them, and what it does then.
pub(crate) trait Dialogue<L: Library>: Sized + Send + Unpin + 'static {
    type Message: Send + 'static;
    type Question: Send + 'static;
    type Answer: Send + 'static;
    /// Whom it asks.
    type Asked: Dialogue<L>;

    fn handle(&mut self, message: Self::Message) -> Turn<L, Self::Asked>;

    fn answer(&mut self, question: Self::Question) -> Self::Answer;

    /// Takes the answer to what it has asked.
    fn answered(&mut self, answer: <Self::Asked as Dialogue<L>>::Answer);
}

/// How a turn of a [`Dialogue`] ends.
pub(crate) enum Turn<L: Library, A: Dialogue<L>> {
    /// Goes on with the next message.
    Next,
    Ask(L::PartnerRef<A>, A::Question),
    Stop,
}

/// Goes on with the next message.
pub(crate) const NEXT: ControlFlow<()> = ControlFlow::Continue(());

/// Ends the actor.
pub(crate) const STOP: ControlFlow<()> = ControlFlow::Break(());

/// A program of the suite; its fields are its parameters.
pub(crate) trait Program: DeserializeOwned {
    /// What the actors report; the oracle of the asking program expects it.
    type Found: Serialize;

    /// Makes the first actors and sends the first messages; what is returned collects what they reported.
    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Self::Found>;
}

/// Collects what the actors have reported, once all of them have ended.
pub(crate) type Findings<T> = Box<dyn FnOnce() -> T>;

/// Where the actors of a run are made.
#[derive(Clone)]
pub(crate) struct Stage<L> {
    library: L,
    presence: Presence,
}

impl<L: Library> Stage<L> {
    pub(crate) fn spawn<B: Behaviour<L>>(&self, behaviour: B) -> L::Ref<B> {
        self.library.spawn(behaviour)
    }

    pub(crate) fn spawn_in_turn<B: Behaviour<L>>(&self, behaviour: B) -> L::Ref<B> {
        self.library.spawn_in_turn(behaviour)
    }

    pub(crate) fn spawn_partner<D: Dialogue<L>>(&self, dialogue: D) -> L::PartnerRef<D> {
        self.library.spawn_partner(dialogue)
    }

    /// For the state of an actor.
    pub(crate) fn presence(&self) -> Presence {
        self.presence.clone()
    }
}

/// Kept by an actor while it lives. Nothing is ever sent: the channel closes when everybody has gone.
#[derive(Clone)]
pub(crate) struct Presence(#[expect(dead_code, reason = "kept for when it is dropped")] mpsc::Sender<()>);

/// What actors report to; a clone is another actor's.
pub(crate) struct Report<T>(mpsc::Sender<T>);

/// What they have reported.
pub(crate) struct Reports<T>(mpsc::Receiver<T>);

/// Both ends.
pub(crate) fn reports<T>() -> (Report<T>, Reports<T>) {
    let (report, reports) = mpsc::channel();
    (Report(report), Reports(reports))
}

impl<T> Report<T> {
    pub(crate) fn give(&self, value: T) {
        // A run that was given up does not listen.
        self.0.send(value).ok();
    }
}

impl<T> Clone for Report<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Reports<T> {
    /// What has come so far: everything, when everybody has gone.
    pub(crate) fn all(&self) -> Vec<T> {
        self.0.try_iter().collect()
    }

    /// The only report.
    pub(crate) fn only(&self) -> Option<T> {
        let first = self.0.try_recv().ok();
        first.filter(|_| self.0.try_recv().is_err())
    }
}

impl<T: Ord> Reports<T> {
    /// Everything in order; of pairs, by what comes first.
    pub(crate) fn sorted(&self) -> Vec<T> {
        let mut all = self.all();
        all.sort_unstable();
        all
    }
}

/// A run from the first actor to the end of the last one.
#[derive(Serialize)]
pub(crate) struct Played<T> {
    wall_ns: u64,
    cpu_ns: u64,
    found: T,
}

/// Runs `program` once, on threads that run already.
pub(crate) fn play<L: Library, P: Program>(library: &L, program: P) -> Result<Played<P::Found>, &'static str> {
    let (presence, everybody) = mpsc::channel();
    let stage = Stage { library: library.clone(), presence: Presence(presence) };
    let (cpu, started) = (cpu_time(), Instant::now());
    let findings = program.start(&stage);
    drop(stage);
    if everybody.recv_timeout(RUN_TIME_MAX) == Err(RecvTimeoutError::Timeout) {
        return Err("it has not ended for a very long time");
    }
    let (wall, cpu) = (started.elapsed(), cpu_time() - cpu);
    Ok(Played { wall_ns: wall.as_nanos() as u64, cpu_ns: cpu.as_nanos() as u64, found: findings() })
}
