//! Admission: which transactions may be open at one entity at the same time.
//!
//! # Problem
//! Between the vote of a participant and the decision of the coordinator the entity does not know whether the effect it
//! promised will happen. Two-phase locking makes everybody wait. Path-sensitive atomic commit asks instead whether the
//! newcomer's verdict depends on what is undecided: if it is the same in *all outcomes* of the open transactions, nobody
//! needs to wait.
//!
//! # States
//! A transaction is *delayed*, or *open* (admitted, undecided), or *committed* (decided, but an open one stands before
//! it), or gone. What is open or committed has a slot; effects are applied in the order of slots.
//!
//! # Steps
//! * A newcomer that is possible in all outcomes is admitted, one that is possible in none is refused, any other one is
//!   delayed. *Possible* means: life cycle, guards, arithmetic and conditions, of one event of the newcomer after the
//!   other, and the invariants after all of them.
//! * A question is admitted when its answer is the same in all outcomes, and holds it like a promise. One for a field is decided
//!   by field: it waits for what is open on this field, and delays what would change it.
//! * A commit makes a branch certain, an abort removes it; then every committed head is applied, and those delayed ones are judged
//!   again that what has changed may settle.
//!
//! # What a decision costs
//! Numbers, elements of sets, contents of fields and the life cycle have cells that are kept up to date: what is linear is compared
//! with them, what is not is judged once in all states that they allow. What has several parts and changes a place in another manner
//! than what is open there is delayed without an evaluation; what moves the life cycle, or changes what something open relies on in a
//! way that no threshold says, is compared with it in each outcome. What is left is evaluated in at most
//! [`Limits::outcomes_max`] outcomes, eight times each; where that does not suffice, the newcomer is delayed.
//!
//! A delayed one is found by what it waits for (`index.rs`): the level of a sum, the class of changes in a cell, a turn, the bound, or
//! else a change of some cell. So a decision judges those that it settles, and for each changed cell eight in vain at most, however
//! much is open or delayed; what that leaves is looked at in the next call. With nothing open the first of all is judged, whatever
//! it waits for. There is one outcome then, so whatever [`Strategy::Locking`] would settle is settled.
//!
//! # What is due
//! What is due comes before what is later, in each outcome apart. An event has cells only if it leaves what is due as it is, so that
//! where the cells describe what is in progress the applied state says for all outcomes what is due.
//!
//! # Why `apply` never fails
//! Each admitted event was possible in all outcomes of those before it, and decisions only remove outcomes.
//!
//! # Strategies
//! * [`Strategy::Locking`]: one open transaction; strict two-phase locking.
//! * [`Strategy::LockingEarlyRelease`]: the same with early lock release; see `release.rs`.
//! * [`Strategy::Psac`]: as in the paper. Two transactions may be applied in opposite orders at two entities (its figure 9).
//! * [`Strategy::Serializable`]: also, the newcomer may not change the verdict or the answer of an open event, and its
//!   effect commutes with each open one, in every outcome of the others. One without other parts need not: it stands *in line*.
//!
//! # In line
//! A transaction with one part has no place at another entity, so that its place in the order of all is free. Where it does not
//! commute with what is in progress it is admitted behind that, and stays in progress until all before it is applied; its
//! client hears of the commit then. Until it is applied it holds back what has several parts: that could come before it at another
//! entity, and cannot here.
//!
//! What touches nothing that one in line changes, and changes nothing that it touches, is not held back.
//!
//! # Why the last one is serializable
//! Let a transaction commit when its decision is taken, and take that as the serial order. At one entity two transactions
//! are applied in another order only if they were open together, and such two commute in every state that any subset
//! of the others leaves: moving one past the other, step by step, changes neither a verdict nor an answer nor the
//! final state. What is decided before the newcomer is admitted precedes it in both orders. One in line takes its place when it is
//! applied: all before it here is decided by then, and what came behind it commutes with it, or is in line as well. Each place lies
//! between the beginning of a transaction and its answer, so that the order is strict: what began after another was answered comes
//! after it.
//!
//! # Fairness
//! A delayed transaction counts the newcomers that were admitted past it although they could make it wait. After
//! [`Limits::overtakes_max`] of them, such newcomers wait for its turn. Those that do not concern it still pass. A turn is always that
//! of an earlier arrival, so that turns never form a circle.
//!
//! # Sources
//! Path-Sensitive Atomic Commit, listing 1 and figures 1 to 3, corrected: heads are applied in a loop, a committed action
//! is certain, and delayed ones are judged again after every decision, as figure 3 shows it. The interval domain is
//! escrow. The condition of [`Strategy::Serializable`] is forward commutativity.

mod cell;
mod changed;
mod counted;
mod entity;
mod explain;
mod footprint;
mod index;
mod interval;
mod judge;
mod manners;
mod progress;
mod queue;
mod range;
mod release;
mod strategies;
mod wait;
mod waking;
mod watch;

use std::sync::Arc;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

pub use self::entity::{Answer, Branch, Rejection, Unanswered};
use self::entity::{Entity, Shape, Step, Unsettled};
pub(crate) use self::entity::{broken, due_before, possible};
pub(crate) use self::explain::Culprit;
use self::index::{Index, Key, Round};
use self::judge::{Cause, Judgement, hinders, judge};
use self::progress::Progress;
use self::queue::{Arrival, Delayed, Queue};
pub use self::range::{FieldRange, Range, Values};
pub use self::release::EarlyRelease;
pub use self::strategies::{Strategies, UnknownClass};
pub use self::wait::{Prospect, Undecided, Wait, Why};
use crate::EntityKey;
use crate::model::{Due, Model};
use crate::tx::{Attempt, Millis, Slot, TxId};

/// Which transactions may be open together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// One at a time: strict two-phase locking.
    Locking,
    /// One at a time, until its decision has a place in the journal: strict two-phase locking with early lock release. The next one
    /// builds on an effect that is not durable, and commits only if that does. Without a journal that all share
    /// ([`Durability::TwoPhase`](crate::Durability::TwoPhase)) it is [`Locking`](Self::Locking).
    LockingEarlyRelease,
    /// All whose guards do not depend on what is open: path-sensitive atomic commit as published. Each entity applies
    /// effects in one order, but two entities may disagree about it.
    Psac,
    /// All that in addition commute with what is open: every history equals a serial one.
    #[default]
    Serializable,
}

impl Strategy {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Locking, Self::LockingEarlyRelease, Self::Psac, Self::Serializable];

    /// Whether every history of transactions that meet only entities with such strategies equals a serial one.
    pub const fn is_serializable(self) -> bool {
        !matches!(self, Self::Psac)
    }

    /// Whether most that meet take turns.
    pub(crate) const fn is_locking(self) -> bool {
        matches!(self, Self::Locking | Self::LockingEarlyRelease)
    }

    /// Whether one more may be open beside what is in progress.
    fn has_room<M: Model>(self, progress: &Progress<M>, limits: &Limits) -> bool {
        match self {
            Self::Locking => progress.open_count() == 0,
            Self::LockingEarlyRelease => !progress.is_held() && progress.open_count() < limits.open_max,
            Self::Psac | Self::Serializable => progress.open_count() < limits.open_max,
        }
    }
}

/// The limits of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many transactions may be open at once; at least 1. [`Strategy::Locking`] takes 1 whatever stands here.
    pub open_max: usize,
    /// How many distinct outcomes are looked at; a newcomer that would cause more, or more evaluations than eight times as
    /// many, is delayed. At least 1: then nothing is tried out, and what neither the [relation](Model::relation) of events nor the
    /// cells of what is open tell waits until one outcome is left.
    pub outcomes_max: usize,
    /// How many transactions may be delayed; a further one is turned away.
    pub delayed_max: usize,
    /// How many newcomers that could make it wait may be admitted past a delayed transaction. With 0 those are served in
    /// the order of arrival.
    pub overtakes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { open_max: 1024, outcomes_max: 16, delayed_max: 1024, overtakes_max: 16 }
    }
}

/// One transaction's request to one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request<E> {
    /// What the transaction wants to do here.
    pub branch: Branch<E>,
    /// How long it may be delayed.
    pub deadline: Millis,
    /// Whether it may be delayed at all: only if its transaction holds nothing that comes later in the order of keys.
    pub ordered: bool,
    /// Whether its transaction has no other part, so that its place in the order of all is free.
    pub sole: bool,
    /// Whether it must not rely on an effect that is [released early](Strategy::LockingEarlyRelease).
    pub certain: bool,
    /// Whether the coordinator knows what the events call, which is the same in every state: no answer tells it, and where nothing
    /// else is in progress nobody works it out again.
    pub calls_known: bool,
}

/// What is decided of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Decision {
    /// Its effects happen.
    Commit,
    /// Nothing of it happens.
    Abort,
}

/// What an entity says to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<E> {
    /// It is open now, under this slot.
    Admitted(Slot, Answer<E>),
    /// It is possible in no outcome; nothing is kept of it.
    Rejected(Rejection<E>),
    /// It cannot be judged before these are answered; nothing is kept of it.
    Unanswered(Unanswered<E>),
    /// It waits in the list of the delayed.
    Delayed,
    /// It would have to wait and may not; nothing is kept of it.
    OutOfOrder,
    /// It would have to wait and the list is full; nothing is kept of it.
    Busy,
}

/// A transaction whose turn it was: its effect, if it has one, is part of the base now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The transaction.
    pub tx: TxId,
    /// Its slot.
    pub slot: Slot,
}

/// What follows from a decision or from the passage of time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Consequences<E> {
    /// The delayed transactions whose deadline came, with what each waited for.
    pub expired: Vec<(TxId, Vec<Wait>)>,
    /// What was applied, in slot order.
    pub applied: Vec<Applied>,
    /// The delayed transactions that need not wait any more, in the order of their verdicts.
    pub settled: Vec<(TxId, Verdict<E>)>,
}

impl<E> Default for Consequences<E> {
    fn default() -> Self {
        Self { expired: Vec::new(), applied: Vec::new(), settled: Vec::new() }
    }
}

/// A transaction that is open, or committed and not applied yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InProgress<E> {
    /// What the transaction does here.
    pub branch: Branch<E>,
    /// Its slot.
    pub slot: Slot,
    /// What it was told when it was admitted.
    pub answer: Answer<E>,
    /// Whether its commit is decided.
    pub committed: bool,
}

/// Admits, delays and refuses the transactions of one entity, and applies their effects.
///
/// Pure: the same calls give the same results.
///
/// ```
/// use std::sync::Arc;
/// use enact_entities::{
///     Admission, Attempt, Branch, Calls, Decision, EntityKey, Limits, Millis, Model, Reason, Request, Slot, Strategy, Timestamp,
///     TxId, Verdict, Work,
/// };
///
/// /// Balances that never become negative; an event is the amount added.
/// struct Balances;
///
/// impl Model for Balances {
///     type State = i64;
///     type Event = i64;
///     fn initial(&self, _: &EntityKey) -> Option<i64> {
///         Some(0)
///     }
///     fn state_name(&self, _: &EntityKey, _: &i64) -> &str {
///         "open"
///     }
///     fn exists(&self, _: &EntityKey, _: &i64) -> bool {
///         true
///     }
///     fn event_name(&self, _: &i64) -> &str {
///         "Add"
///     }
///     fn next(&self, _: &EntityKey, balance: &i64, amount: &i64, _: Timestamp) -> Result<i64, Vec<Reason>> {
///         let sum = balance + amount;
///         let text = || "the balance stays positive".to_owned();
///         if sum >= 0 { Ok(sum) } else { Err(vec![Reason::Guard { text: text(), values: vec![] }]) }
///     }
///     fn calls(&self, _: &EntityKey, _: Option<&i64>, _: &i64, _: Timestamp) -> Calls<i64> {
///         Calls::Known(vec![])
///     }
/// }
///
/// let key = EntityKey::new("Account", "NL01")?;
/// let mut account = Admission::new(Arc::new(Balances), key, 100, Slot::FIRST, Strategy::Psac, Limits::default());
/// let request = |tx, amount| Request {
///     branch: Branch {
///         tx: TxId::from_u128(tx),
///         attempt: Attempt::FIRST,
///         work: Work::event(amount),
///         at: Timestamp(0),
///     },
///     deadline: Millis(1_000),
///     ordered: true,
///     sole: false,
///     certain: false,
///     calls_known: false,
/// };
/// // Figure 3 of the paper: the third withdrawal depends on the second alone.
/// assert!(matches!(account.request(request(1, -30)), Verdict::Admitted(..)));
/// assert!(matches!(account.request(request(2, -50)), Verdict::Admitted(..)));
/// assert!(matches!(account.request(request(3, -60)), Verdict::Delayed));
/// let after = account.decide(TxId::from_u128(2), Decision::Commit);
/// assert!(matches!(after.settled[..], [(_, Verdict::Rejected(_))]));
/// assert_eq!(*account.base(), 100);
/// account.decide(TxId::from_u128(1), Decision::Commit);
/// assert_eq!(*account.base(), 20);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Admission<M: Model> {
    progress: Progress<M>,
    strategy: Strategy,
    limits: Limits,
    delayed: Queue<M::Event>,
    index: Index,
    /// Through all that are delayed, where the cells do not tell whom a decision concerns.
    round: Round,
    /// The last of those that were looked at once more.
    visited: Option<Key>,
    judged: u64,
}

/// How many of those that wait a newcomer is compared with before it passes them. Those behind them are passed when their turn to be
/// asked has come.
const ASKED_MAX: usize = 16;

impl<M: Model> Admission<M> {
    /// An entity in state `base`, with nothing in progress, that gives `next_slot` to the first it admits.
    pub fn new(
        model: Arc<M>,
        key: EntityKey,
        base: M::State,
        next_slot: Slot,
        strategy: Strategy,
        limits: Limits,
    ) -> Self {
        let progress = Progress::new(Entity { model, key }, base, next_slot, limits.outcomes_max.max(1));
        Self {
            progress,
            strategy,
            limits,
            delayed: Queue::default(),
            index: Index::default(),
            round: Round::default(),
            visited: None,
            judged: 0,
        }
    }

    /// Gives the memory of empty collections back, if nothing is in progress.
    pub(crate) fn rest(&mut self) {
        if self.delayed.len() > 0 {
            return;
        }
        if !self.delayed.is_untouched() {
            self.delayed = Queue::default();
            self.index = Index::default();
        }
        self.progress.rest();
    }

    /// The entity.
    pub fn key(&self) -> &EntityKey {
        &self.progress.entity.key
    }

    /// The state with every applied effect.
    pub fn base(&self) -> &M::State {
        self.progress.base()
    }

    /// The slot that the next admitted transaction gets; every smaller one has been given.
    pub const fn next_slot(&self) -> Slot {
        self.progress.next_slot()
    }

    /// What is open or committed and not applied, in slot order.
    pub fn in_progress(&self) -> impl Iterator<Item = InProgress<M::Event>> {
        self.progress.entries().map(describe)
    }

    /// The transaction `tx`, if it is open, or committed and not applied.
    pub fn find(&self, tx: TxId) -> Option<InProgress<M::Event>> {
        self.progress.find(tx).map(describe)
    }

    /// The slot of `tx`, if it is open, or committed and not applied.
    pub fn slot_of(&self, tx: TxId) -> Option<Slot> {
        self.progress.slot_of(tx)
    }

    /// Whether `tx` is in progress, and stands in line.
    pub(crate) fn is_in_line(&self, tx: TxId) -> bool {
        self.progress.find(tx).is_some_and(|entry| entry.answer.in_line)
    }

    /// The attempt under which `tx` is delayed, if it is.
    pub fn delayed_attempt(&self, tx: TxId) -> Option<Attempt> {
        self.delayed.attempt(tx)
    }

    /// How many transactions are delayed.
    pub fn delayed_count(&self) -> usize {
        self.delayed.len()
    }

    /// The earliest deadline of a delayed transaction.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.delayed.next_deadline()
    }

    /// The slot of the first effect that is not applied, or [`next_slot`](Self::next_slot) if there is none.
    pub fn first_unapplied(&self) -> Slot {
        let first = self.progress.entries().find(|entry| entry.branch.work.has_event());
        first.map_or(self.next_slot(), |entry| entry.slot)
    }

    /// Every state that the decisions still missing can lead to, or nothing if there are more than
    /// [`Limits::outcomes_max`].
    pub fn outcomes(&mut self) -> Option<Arc<IndexSet<M::State>>> {
        self.progress.refill();
        self.progress.outcomes()
    }

    /// The one state that everything still missing leads to, if it is only one.
    pub fn certain(&mut self) -> Option<M::State> {
        self.lay_out_alone();
        if self.progress.is_exact() {
            return self.progress.interval.is_settled().then(|| self.progress.certain());
        }
        self.progress.refill();
        let outcomes = self.progress.outcomes()?;
        (outcomes.len() == 1).then(|| outcomes[0].clone())
    }

    /// What is due if every open transaction aborts.
    pub(crate) fn due(&self) -> Option<Due<M::Event>> {
        let Entity { model, key } = &self.progress.entity;
        if !model.is_timed(key) {
            return None;
        }
        model.due(key, &self.progress.certain())
    }

    /// What a read waits for: to see what `after` does, if that is here, or for what is not decided.
    pub(crate) fn waits_of_read(&self, after: Option<TxId>) -> Vec<Wait> {
        let Some(tx) = after else { return explain::explain_value(&self.progress) };
        let delayed = || self.delayed.find(tx).map(|(_, delayed)| &delayed.branch.work);
        let work = self.progress.find(tx).map(|entry| &entry.branch.work).or_else(delayed);
        let event = work.map_or_else(String::new, |work| self.progress.entity.work_name(work));
        vec![Wait { waiting: String::new(), tx, event, others: 0, why: Why::After }]
    }

    /// Whom `tx` waits for, if it is delayed, without a look at values.
    ///
    /// # Complexity
    /// That of finding `tx`, and of a look at a bounded number of those in progress.
    pub(crate) fn culprit(&self, tx: TxId) -> Option<Culprit<'_>> {
        let entity = &self.progress.entity;
        let (_, waiting) = self.delayed.find(tx)?;
        let awaited = match waiting.cause {
            Cause::Turn(ahead) => self.delayed.find(ahead).map(|(_, ahead)| &ahead.branch),
            _ => explain::culprit(&self.progress, waiting),
        };
        Some(Culprit {
            waiting: entity.first_event(&waiting.branch.work),
            awaited: awaited.and_then(|awaited| entity.first_event(&awaited.work)),
            cause: waiting.cause.name(),
        })
    }

    /// Takes a request and says what becomes of it.
    ///
    /// Asking again for a transaction that is open gives the same answer, and for a delayed one [`Verdict::Delayed`];
    /// neither has an effect.
    ///
    /// # Complexity
    /// Logarithmic in what is in progress if all of it and the newcomer are linear. Otherwise the newcomer is evaluated
    /// in each outcome, under [`Strategy::Serializable`] in each outcome per open transaction that does something else; at most
    /// eight times [`Limits::outcomes_max`] evaluations in all.
    pub fn request(&mut self, request: Request<M::Event>) -> Verdict<M::Event> {
        self.request_at(request, Arrival::END)
    }

    /// Takes a request in the place of what its transaction has asked for before, which is given up: it passes those that wait for that,
    /// which are judged again behind it.
    ///
    /// # Panics
    /// If the transaction is committed already.
    pub fn replace(&mut self, request: Request<M::Event>) -> (Verdict<M::Event>, Consequences<M::Event>) {
        let tx = request.branch.tx;
        let mut applied = Vec::new();
        if let Some((arrival, delayed)) = self.delayed.remove(tx) {
            self.leave(arrival, &delayed);
        } else if self.slot_of(tx).is_some() {
            self.progress.note_changes(self.delayed.len() > 0);
            self.progress.abort(tx);
            applied = self.progress.drain();
        }
        let verdict = self.request_at(request, Arrival::FIRST);
        (verdict, Consequences { applied, settled: self.wake(), ..Consequences::default() })
    }

    /// Judges a request with this place among the delayed ones; it is the last of them if it has to wait.
    fn request_at(&mut self, request: Request<M::Event>, arrival: Arrival) -> Verdict<M::Event> {
        let Request { branch, deadline, ordered, sole, certain, calls_known } = request;
        if let Some(entry) = self.progress.find(branch.tx) {
            return Verdict::Admitted(entry.slot, entry.answer.clone());
        }
        if self.delayed_attempt(branch.tx).is_some() {
            return Verdict::Delayed;
        }
        let is_alone = self.progress.is_empty() && self.delayed.len() == 0;
        if is_alone && self.strategy != Strategy::LockingEarlyRelease {
            return self.request_alone(branch, calls_known);
        }
        self.lay_out_alone();
        self.progress.refill();
        let shape = self.progress.entity.shape(&branch, self.progress.base());
        let changes = self.progress.entity.changes(&branch);
        let (pins, cause, watches) = (false, Cause::Bound, Vec::new());
        let mut newcomer = Delayed {
            branch,
            deadline,
            sole,
            certain,
            calls_known,
            shape,
            pins,
            changes,
            cause,
            watches,
            overtaken: 0,
        };
        if let Some(verdict) = self.settle(&mut newcomer, arrival) {
            return verdict;
        }
        if !ordered {
            return Verdict::OutOfOrder;
        }
        if self.delayed.len() >= self.limits.delayed_max {
            return Verdict::Busy;
        }
        let arrival = self.delayed.arrive(&newcomer);
        self.wait(arrival, Box::new(newcomer));
        Verdict::Delayed
    }

    /// Judges one that finds nothing in progress and nobody waiting.
    fn request_alone(&mut self, branch: Branch<M::Event>, calls_known: bool) -> Verdict<M::Event> {
        self.judged += 1;
        let entity = &self.progress.entity;
        match entity.step_telling(&branch, self.progress.base(), !calls_known) {
            Ok(Step { state, answer }) => {
                Verdict::Admitted(self.progress.push_alone(branch, answer.clone(), state), answer)
            }
            Err(stop) => match Judgement::<M>::of(stop) {
                Judgement::Ask(unanswered) => Verdict::Unanswered(unanswered),
                Judgement::Reject(stop) => Verdict::Rejected(entity.rejection(&branch.work, stop)),
                Judgement::Admit { .. } | Judgement::Delay(_) => unreachable!("it stops"),
            },
        }
    }

    /// Finds out what the one that is alone in progress does place by place, as it will not be alone any more.
    fn lay_out_alone(&mut self) {
        let Some(branch) = self.progress.alone() else { return };
        let entity = &self.progress.entity;
        let shape = entity.shape(branch, self.progress.base());
        let shape = shape.or_else(|| self.pin(branch)?.ok());
        let changes = entity.changes(branch);
        self.progress.lay_out_alone(shape.map(|shape| shape.footprint), changes);
    }

    /// What a newcomer that only asks relies on, where fields are decided one by one.
    fn pin(&self, branch: &Branch<M::Event>) -> Option<Result<Shape<M::Event>, Unsettled>> {
        let asks = branch.work.questions().next().is_some();
        let is_early = || self.progress.entity.due_before(branch, self.progress.base()).is_some();
        let by_field = asks && self.strategy != Strategy::Psac && self.progress.is_exact() && !is_early();
        by_field.then(|| self.progress.entity.pin(&branch.work, &self.progress))?
    }

    /// Judges one with this place among the delayed ones; nothing if it has to wait.
    fn settle(&mut self, newcomer: &mut Delayed<M::Event>, arrival: Arrival) -> Option<Verdict<M::Event>> {
        self.judged += 1;
        // What a question relies on is what it finds by now.
        if newcomer.shape.is_none() || newcomer.pins {
            match self.pin(&newcomer.branch) {
                Some(Ok(shape)) => (newcomer.shape, newcomer.pins) = (Some(shape), true),
                Some(Err(Unsettled(_))) => {
                    newcomer.cause = Cause::Answer;
                    return None;
                }
                None if newcomer.pins => newcomer.shape = None,
                None => {}
            }
        }
        let branch = &newcomer.branch;
        match judge(&mut self.progress, self.strategy, &self.limits, newcomer) {
            Judgement::Reject(mut stop) => {
                if newcomer.calls_known {
                    stop.calls.clear();
                }
                Some(Verdict::Rejected(self.progress.entity.rejection(&branch.work, stop)))
            }
            Judgement::Ask(unanswered) => Some(Verdict::Unanswered(unanswered)),
            Judgement::Delay(cause) => {
                newcomer.cause = cause;
                None
            }
            Judgement::Admit { mut answer, outcomes } => {
                if newcomer.calls_known {
                    answer.calls.clear();
                }
                let overtaken = match self.overtaken_by(newcomer, arrival) {
                    Ok(overtaken) => overtaken,
                    Err(tx) => {
                        newcomer.cause = Cause::Turn(tx);
                        return None;
                    }
                };
                for overtaken in overtaken {
                    self.delayed.get_mut(overtaken).expect("it is delayed").overtaken += 1;
                }
                let slot = match (self.strategy, outcomes) {
                    (Strategy::LockingEarlyRelease, Some(after)) => {
                        self.progress.push_held(newcomer.branch.clone(), answer.clone(), &after)
                    }
                    (_, outcomes) => self.progress.push(
                        newcomer.branch.clone(),
                        answer.clone(),
                        newcomer.shape.as_ref().map(|shape| shape.footprint.clone()),
                        newcomer.changes.clone(),
                        outcomes,
                    ),
                };
                Some(Verdict::Admitted(slot, answer))
            }
        }
    }

    /// Those before `arrival` that `newcomer` could make wait, or the first of them that has been overtaken often enough.
    fn overtaken_by(&mut self, newcomer: &Delayed<M::Event>, arrival: Arrival) -> Result<Vec<Arrival>, TxId> {
        let mut overtaken = Vec::new();
        for (place, waiting) in self.delayed.before(arrival).take(ASKED_MAX) {
            if hinders(&mut self.progress, self.strategy, newcomer, waiting) {
                if waiting.overtaken >= self.limits.overtakes_max {
                    return Err(waiting.branch.tx);
                }
                overtaken.push(place);
            }
        }
        Ok(overtaken)
    }

    /// Takes the decision on `tx`, which is open, or for an abort may be delayed.
    ///
    /// # Panics
    /// If `tx` is not open, or committed already; and if the model refuses an effect that admission promised, which
    /// means that the model broke one of its laws.
    pub fn decide(&mut self, tx: TxId, decision: Decision) -> Consequences<M::Event> {
        if decision == Decision::Abort
            && let Some((arrival, delayed)) = self.delayed.remove(tx)
        {
            self.leave(arrival, &delayed);
            return Consequences { settled: self.wake(), ..Consequences::default() };
        }
        self.progress.note_changes(self.delayed.len() > 0);
        match decision {
            Decision::Commit => self.progress.commit(tx),
            Decision::Abort => self.progress.abort(tx),
        }
        let applied = self.progress.drain();
        Consequences { applied, settled: self.wake(), ..Consequences::default() }
    }

    /// Removes every delayed transaction whose deadline has come; then judges those again that may have waited behind it.
    pub fn expire(&mut self, now: Millis) -> Consequences<M::Event> {
        let late = self.delayed.take_late(now);
        if late.is_empty() {
            return Consequences::default();
        }
        self.progress.refill();
        let mut expired = Vec::with_capacity(late.len());
        for (arrival, delayed) in &late {
            expired.push((delayed.branch.tx, self.explain(*arrival, delayed)));
        }
        for (arrival, delayed) in late {
            self.leave(arrival, &delayed);
        }
        Consequences { expired, applied: Vec::new(), settled: self.wake() }
    }

    /// What `tx` waits for, if it is delayed, or committed and in line.
    pub fn waits_for(&mut self, tx: TxId) -> Option<Vec<Wait>> {
        if self.progress.find(tx).is_some_and(|entry| entry.committed && entry.answer.in_line) {
            return Some(explain::explain_line(&self.progress, tx));
        }
        let (arrival, _) = self.delayed.find(tx)?;
        let delayed = self.delayed.take(arrival)?;
        self.progress.refill();
        let waits = self.explain(arrival, &delayed);
        self.delayed.put(arrival, delayed);
        Some(waits)
    }

    fn explain(&mut self, arrival: Arrival, waiting: &Delayed<M::Event>) -> Vec<Wait> {
        if let Cause::Turn(tx) = waiting.cause
            && let Some((_, ahead)) = self.delayed.find(self.index.turn_of(arrival, tx))
        {
            let name = |branch: &Branch<M::Event>| self.progress.entity.work_name(&branch.work);
            let (tx, why) = (ahead.branch.tx, Why::Turn { overtaken: ahead.overtaken });
            return vec![Wait { waiting: name(&waiting.branch), tx, event: name(&ahead.branch), others: 0, why }];
        }
        let older = self.delayed.older_than(waiting.branch.tx);
        explain::explain(&mut self.progress, self.strategy, waiting, older)
    }

    /// How often a transaction has been judged so far: what admission has cost.
    pub const fn judged(&self) -> u64 {
        self.judged
    }

    /// Takes up again, in slot order, what was in progress before a restart, and goes on with `next_slot`.
    pub(crate) fn restore(&mut self, entries: impl IntoIterator<Item = InProgress<M::Event>>, next_slot: Slot) {
        for entry in entries {
            let InProgress { branch, slot, answer, committed } = entry;
            let tx = branch.tx;
            let shape = self.progress.entity.shape(&branch, self.progress.base());
            let changes = self.progress.entity.changes(&branch);
            self.progress.restore(slot, branch, answer, shape.map(|shape| shape.footprint), changes, None);
            if committed {
                self.progress.commit(tx);
            }
        }
        self.progress.skip_to(next_slot);
    }
}

fn describe<M: Model>(entry: &progress::Entry<M>) -> InProgress<M::Event> {
    let progress::Entry { branch, slot, answer, committed, .. } = entry;
    InProgress { branch: branch.clone(), slot: *slot, answer: answer.clone(), committed: *committed }
}
