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
//! * A commit makes a branch certain, an abort removes it; then every committed head is applied, and delayed ones are
//!   judged again, in the order of arrival, until eight were judged in vain.
//!
//! # What a decision costs
//! Numbers, elements of sets, contents of fields and the life cycle have cells that are kept up to date: what is linear is compared
//! with them, what is not is judged once in all states that they allow. What has several parts and changes a place in another manner
//! than what is open there is delayed without an evaluation. What is left is evaluated in at most
//! [`Limits::outcomes_max`] outcomes, eight times each; where that does not suffice, the newcomer is delayed. So a decision costs
//! the same however much is open or delayed. With nothing open there is one outcome, so whatever [`Strategy::Locking`] would
//! settle is settled.
//!
//! # Why `apply` never fails
//! Each admitted event was possible in all outcomes of those before it, and decisions only remove outcomes.
//!
//! # Strategies
//! * [`Strategy::Locking`]: one open transaction; strict two-phase locking.
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
//! [`Limits::overtakes_max`] of them, such newcomers wait behind it. Those that do not concern it still pass.
//!
//! # Sources
//! Path-Sensitive Atomic Commit, listing 1 and figures 1 to 3, corrected: heads are applied in a loop, a committed action
//! is certain, and delayed ones are judged again after every decision, as figure 3 shows it. The interval domain is
//! escrow. The condition of [`Strategy::Serializable`] is forward commutativity.

mod cell;
mod entity;
mod explain;
mod interval;
mod judge;
mod manners;
mod progress;
mod queue;
mod wait;

use std::sync::Arc;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

pub use self::entity::{Answer, Branch, Rejection, Unanswered};
use self::entity::{Entity, Shape, Unsettled};
pub(crate) use self::explain::Culprit;
use self::judge::{Cause, Judgement, hinders, judge};
use self::progress::Progress;
use self::queue::{Delayed, Queue};
pub use self::wait::{Prospect, Undecided, Wait, Why};
use crate::EntityKey;
use crate::model::{Due, Model};
use crate::tx::{Attempt, Millis, Slot, TxId};

/// Which transactions may be open together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Strategy {
    /// One at a time: strict two-phase locking.
    Locking,
    /// All whose guards do not depend on what is open: path-sensitive atomic commit as published. Each entity applies
    /// effects in one order, but two entities may disagree about it.
    Psac,
    /// All that in addition commute with what is open: every history equals a serial one.
    #[default]
    Serializable,
}

impl Strategy {
    const fn open_max(self, limits: &Limits) -> usize {
        match self {
            Self::Locking => 1,
            Self::Psac | Self::Serializable => limits.open_max,
        }
    }
}

/// The limits of one entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How many transactions may be open at once; at least 1. [`Strategy::Locking`] takes 1 whatever stands here.
    pub open_max: usize,
    /// How many distinct outcomes are looked at; a newcomer that would cause more, or more evaluations than eight times as
    /// many, is delayed. At least 2.
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

/// The outcomes of one entity from end to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// Whether the instance has been created in some outcome.
    pub exists: bool,
    /// The names of the life-cycle states it may be in.
    pub states: Vec<String>,
    /// The numeric fields; one that some outcome lacks is left out.
    pub fields: Vec<FieldRange>,
}

/// The least and the greatest value of one field over all outcomes, as the model shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldRange {
    /// The name of the field.
    pub name: String,
    /// The least value.
    pub low: String,
    /// The greatest value.
    pub high: String,
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
}

/// How many delayed ones are judged in vain after a decision before the others are left to a later one. What is first in line
/// is so often what all others wait for that to ask them all would make each decision as dear as the line is long.
const IN_VAIN_MAX: usize = 8;

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
        let progress = Progress::new(Entity { model, key }, base, next_slot, limits.outcomes_max.max(2));
        Self { progress, strategy, limits, delayed: Queue::default() }
    }

    /// Gives the memory of empty collections back, if nothing is in progress.
    pub(crate) fn rest(&mut self) {
        if self.delayed.len() == 0 {
            self.delayed = Queue::default();
            self.progress.rest();
        }
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
        let delayed = || self.delayed.find(tx).map(|delayed| &delayed.branch.work);
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
        let waiting = self.delayed.find(tx)?;
        let awaited = match waiting.cause {
            Cause::Turn(ahead) => self.delayed.find(ahead).map(|ahead| &ahead.branch),
            _ => explain::culprit(&self.progress, waiting),
        };
        Some(Culprit {
            waiting: entity.first_event(&waiting.branch.work),
            awaited: awaited.and_then(|awaited| entity.first_event(&awaited.work)),
            cause: waiting.cause.name(),
        })
    }

    /// What all outcomes have in common and between which values they differ, or nothing if what is in progress is not
    /// all linear and has more than [`Limits::outcomes_max`] outcomes.
    pub fn range(&mut self) -> Option<Range> {
        let entity = self.progress.entity.clone();
        let mut range = Range { exists: entity.exists(self.base()), ..Range::default() };
        let mut field = |field, low, high| {
            let ((name, low), (_, high)) = (entity.show(field, low), entity.show(field, high));
            range.fields.push(FieldRange { name, low, high });
        };
        let numbers = entity.numbers(self.base());
        if self.progress.is_exact() && self.progress.interval.is_life_cycle_at_rest() {
            let ends = |(number, base)| Some((number, self.progress.interval.field(number, base)?));
            let ends: Option<Vec<_>> = numbers.iter().copied().map(ends).collect();
            if let Some(ends) = ends {
                ends.into_iter().for_each(|(number, ends)| field(number, ends.low, ends.high));
                range.states = vec![entity.state_name(self.base()).to_owned()];
                return Some(range);
            }
        }
        self.progress.refill();
        let outcomes = self.progress.outcomes()?;
        for (number, _) in numbers {
            let values: Option<Vec<i128>> = outcomes.iter().map(|state| entity.number(state, number)).collect();
            if let Some(values) = values
                && let (Some(&low), Some(&high)) = (values.iter().min(), values.iter().max())
            {
                field(number, low, high);
            }
        }
        range.exists = outcomes.iter().any(|state| entity.exists(state));
        let names: IndexSet<String> = outcomes.iter().map(|state| entity.state_name(state).to_owned()).collect();
        range.states = names.into_iter().collect();
        Some(range)
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
        let Request { branch, deadline, ordered, sole } = request;
        if let Some(entry) = self.progress.find(branch.tx) {
            return Verdict::Admitted(entry.slot, entry.answer.clone());
        }
        if self.delayed_attempt(branch.tx).is_some() {
            return Verdict::Delayed;
        }
        self.progress.refill();
        let shape = self.progress.entity.shape(&branch, self.progress.base());
        let changes = self.progress.entity.changes(&branch);
        let mut newcomer =
            Delayed { branch, deadline, sole, shape, pins: false, changes, cause: Cause::Bound, overtaken: 0 };
        if let Some(verdict) = self.settle(&mut newcomer, self.delayed.len()) {
            return verdict;
        }
        if !ordered {
            return Verdict::OutOfOrder;
        }
        if self.delayed.len() >= self.limits.delayed_max {
            return Verdict::Busy;
        }
        self.delayed.insert(self.delayed.len(), newcomer);
        Verdict::Delayed
    }

    /// What a newcomer that only asks relies on, where fields are decided one by one.
    fn pin(&self, newcomer: &Delayed<M::Event>) -> Option<Result<Shape<M::Event>, Unsettled>> {
        let asks = newcomer.branch.work.questions().next().is_some();
        let by_field = asks && self.strategy != Strategy::Psac && self.progress.is_exact();
        by_field.then(|| self.progress.entity.pin(&newcomer.branch.work, &self.progress))?
    }

    /// Judges one that stands behind the first `ahead` delayed ones; nothing if it has to wait.
    fn settle(&mut self, newcomer: &mut Delayed<M::Event>, ahead: usize) -> Option<Verdict<M::Event>> {
        // What a question relies on is what it finds by now.
        if newcomer.shape.is_none() || newcomer.pins {
            match self.pin(newcomer) {
                Some(Ok(shape)) => (newcomer.shape, newcomer.pins) = (Some(shape), true),
                Some(Err(Unsettled)) => {
                    newcomer.cause = Cause::Answer;
                    return None;
                }
                None if newcomer.pins => newcomer.shape = None,
                None => {}
            }
        }
        let branch = &newcomer.branch;
        match judge(&mut self.progress, self.strategy, &self.limits, newcomer) {
            Judgement::Reject(stop) => Some(Verdict::Rejected(self.progress.entity.rejection(&branch.work, stop))),
            Judgement::Ask(unanswered) => Some(Verdict::Unanswered(unanswered)),
            Judgement::Delay(cause) => {
                newcomer.cause = cause;
                None
            }
            Judgement::Admit { answer, outcomes } => {
                let overtaken = self.overtaken_by(newcomer, ahead);
                for &i in &overtaken {
                    if self.delayed.at(i).overtaken >= self.limits.overtakes_max {
                        newcomer.cause = Cause::Turn(self.delayed.at(i).branch.tx);
                        return None;
                    }
                }
                for i in overtaken {
                    self.delayed.at(i).overtaken += 1;
                }
                let slot = self.progress.push(
                    newcomer.branch.clone(),
                    answer.clone(),
                    newcomer.shape.as_ref().map(|shape| shape.footprint.clone()),
                    newcomer.changes.clone(),
                    outcomes,
                );
                Some(Verdict::Admitted(slot, answer))
            }
        }
    }

    fn overtaken_by(&mut self, newcomer: &Delayed<M::Event>, ahead: usize) -> Vec<usize> {
        let progress = &mut self.progress;
        let waiting = self.delayed.first(ASKED_MAX, ahead).enumerate();
        waiting.filter(|(_, waiting)| hinders(progress, self.strategy, newcomer, waiting)).map(|(i, _)| i).collect()
    }

    /// Takes the decision on `tx`, which is open, or for an abort may be delayed.
    ///
    /// # Panics
    /// If `tx` is not open, or committed already; and if the model refuses an effect that admission promised, which
    /// means that the model broke one of its laws.
    pub fn decide(&mut self, tx: TxId, decision: Decision) -> Consequences<M::Event> {
        match decision {
            Decision::Commit => self.progress.commit(tx),
            Decision::Abort if self.withdraw(tx) => {
                return Consequences { settled: self.retry(), ..Consequences::default() };
            }
            Decision::Abort => self.progress.abort(tx),
        }
        Consequences { applied: self.progress.drain(), settled: self.retry(), ..Consequences::default() }
    }

    fn withdraw(&mut self, tx: TxId) -> bool {
        self.delayed.position(tx).and_then(|index| self.delayed.remove(index)).is_some()
    }

    /// Judges delayed ones again, in the order of arrival, until some were judged in vain. The first of them is settled if
    /// nothing is open, so that one is open afterwards or none is delayed.
    fn retry(&mut self) -> Vec<(TxId, Verdict<M::Event>)> {
        let mut settled = Vec::new();
        self.progress.refill();
        let mut still = 0;
        while still < IN_VAIN_MAX
            && self.progress.open_count() < self.strategy.open_max(&self.limits)
            && let Some(mut delayed) = self.delayed.remove(still)
        {
            match self.settle(&mut delayed, still) {
                Some(verdict) => {
                    settled.push((delayed.branch.tx, verdict));
                    self.progress.refill();
                }
                None => {
                    self.delayed.insert(still, delayed);
                    still += 1;
                }
            }
        }
        settled
    }

    /// Removes every delayed transaction whose deadline has come; then judges the others again, since one of them may have
    /// waited behind it.
    pub fn expire(&mut self, now: Millis) -> Consequences<M::Event> {
        let late = self.delayed.take_late(now);
        self.progress.refill();
        if late.is_empty() {
            return Consequences::default();
        }
        let expired = late.iter().map(|delayed| (delayed.branch.tx, self.explain(delayed))).collect();
        Consequences { expired, applied: Vec::new(), settled: self.retry() }
    }

    /// What `tx` waits for, if it is delayed, or committed and in line.
    pub fn waits_for(&mut self, tx: TxId) -> Option<Vec<Wait>> {
        if self.progress.find(tx).is_some_and(|entry| entry.committed && entry.answer.in_line) {
            return Some(explain::explain_line(&self.progress, tx));
        }
        let i = self.delayed.position(tx)?;
        let delayed = self.delayed.remove(i)?;
        self.progress.refill();
        let waits = self.explain(&delayed);
        self.delayed.insert(i, delayed);
        Some(waits)
    }

    fn explain(&mut self, waiting: &Delayed<M::Event>) -> Vec<Wait> {
        if let Cause::Turn(tx) = waiting.cause
            && let Some(ahead) = self.delayed.find(tx)
        {
            let name = |branch: &Branch<M::Event>| self.progress.entity.work_name(&branch.work);
            let why = Why::Turn { overtaken: ahead.overtaken };
            return vec![Wait { waiting: name(&waiting.branch), tx, event: name(&ahead.branch), others: 0, why }];
        }
        let older = self.delayed.older_than(waiting.branch.tx);
        explain::explain(&mut self.progress, self.strategy, waiting, older)
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
