//! The coordinator: transactions over many entities, all or nothing.
//!
//! # Problem
//! A transaction calls events on several entities, which call others. All happen or none, whatever is lost, doubled,
//! reordered or crashes; no two transactions wait for each other for ever; a client that asks again gets the same answer.
//!
//! # Steps
//! 1. *Plan*: take up the calls in their order, as far as they are known, and give each entity its part.
//! 2. *Vote*: ask the participants in the order of their keys, one by one, and those that are far side by side. What votes
//!    reveal changes the plan as soon as none is awaited; one that has said yes to another part than it is asked for now is asked
//!    again, and promises the new part in the place of the old one: nobody that waits there comes between. A refusal aborts as soon
//!    as nothing unknown can change what is refused. One that must know something of others first says what, and holds nothing:
//!    they are asked, and hold their answers as they hold a promise, and then it is asked again with the answers.
//! 3. *Decide*: when all have said yes, force the decision. Once it is durable the client is told, then the participants.
//!    Nothing times out after that.
//! 4. *Tell*: until everybody has acknowledged. A transaction of which nothing is known is an aborted one.
//!
//! # What is due comes first
//! A participant at which another event is due refuses whatever is later. The transaction then gives up all that it holds, the
//! due event happens as a transaction of its own, and the attempt after that begins anew; at most a hundred times. Waiting for
//! it holds nothing. A transaction that a timer makes happen waits only for events that are due at an earlier time.
//!
//! # Early release
//! Under [`Strategy::LockingEarlyRelease`](crate::Strategy::LockingEarlyRelease) a yes may depend on a commit that is not durable. The
//! records then stand directly behind those of that commit or are refused, and a refusal is not told: everything is aborted, and the
//! next attempt relies on nothing that may vanish. Why that is enough stands in `admission/release.rs`.
//!
//! # No deadlock
//! A request is *ordered* if its key is greater than every other key the transaction holds. Only ordered requests are delayed, and one
//! in the place of an earlier promise gives that up before it waits.
//! An entity that a vote reveals too late is asked out of order: it answers at once, and if it would have to delay the
//! request, everything is aborted and tried again under the next attempt number, with the plan that is known by then, in
//! order. Therefore, whenever a transaction waits at an entity, everything it holds has a smaller key. It waits for those that
//! hold the entity, or for one delayed there before it. Those that hold it and wait elsewhere wait at a greater key, and
//! those delayed there hold smaller keys only and wait for the same holders. So along every chain of waits the keys grow,
//! and no chain is a cycle.
//!
//! An event that needs answers is asked after the entities that give them, so mostly out of order if its key is smaller. If it
//! would have to wait, the next attempt asks in order, with the answers of this one as guesses; where one of those is stale by then,
//! what follows from it is asked for again in the place of what was promised.
//!
//! Of those that are asked side by side only the one with the greatest key is asked in order. Nobody else is asked before all of them have
//! voted, so that what waits there holds smaller keys only, whatever becomes of the others.
//!
//! Wait-die by age on the out-of-order requests would not do: a young transaction may wait in order for an old one, which may
//! then wait out of order for the young.
//!
//! # In doubt
//! If the journal cannot say whether the decision is durable, neither commit nor abort is true. The coordinator stops and
//! must be recovered from its journal; the client is told that it does not know yet.
//!
//! # What a crash leaves
//! Before the decision is durable: nothing, and participants that ask are told to abort. After it: the decision with the slots of the
//! participants, which are told again.

mod answers;
mod plan;
mod recovery;
mod transaction;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use enact_rebel::limits::DUE_MAX;

use self::answers::{Answers, Known, Recent};
use self::plan::Bounds;
pub use self::recovery::{CoordinatorRecoveryError, CoordinatorSnapshot};
use self::transaction::{Phase, Transaction};
use crate::EntityKey;
use crate::admission::{Decision, Wait};
use crate::message::{Decide, Precommit, Said, ToCoordinator, ToParticipant, Vote};
use crate::model::{Action, Call, Model};
use crate::participant::{Durability, WriteId, Written};
use crate::reason::{Reason, Refusal};
use crate::record::{AnswerRecord, Done, Idempotency, Record};
use crate::small_map::SmallMap;
use crate::tx::{Attempt, Millis, Slot, Timestamp, TxId};

/// How a coordinator behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoordinatorOptions {
    /// How participants are asked to keep their promises; each says with its yes how it does.
    pub durability: Durability,
    /// How many entities one transaction may touch.
    pub participants_max: usize,
    /// How many events may happen in one transaction.
    pub events_max: usize,
    /// How deeply calls may be nested; the first calls have depth 1.
    pub depth_max: usize,
    /// How long after a message without an answer it is sent again; doubled each time, up to 32 times as long.
    pub resend_after: Millis,
    /// How long after the deadline a silent participant may still say what it waited for.
    pub grace: Millis,
    /// How many answers are kept for repeated requests with a key.
    pub answers_max: usize,
    /// How many ended transactions are remembered by their id.
    pub recent_max: usize,
}

impl CoordinatorOptions {
    /// 1,000 participants and 10,000 events, as many as a step of Rebel may have, depth 64, 250 ms before a message is sent again, 100 ms of grace, 65,536 answers, 4,096 ended
    /// transactions.
    pub const fn new(durability: Durability) -> Self {
        Self {
            durability,
            participants_max: enact_rebel::limits::INSTANCES_MAX,
            events_max: enact_rebel::limits::ACTS_MAX,
            depth_max: 64,
            resend_after: Millis(250),
            grace: Millis(100),
            answers_max: 65_536,
            recent_max: 4096,
        }
    }
}

/// A transaction that a client wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin<E> {
    /// Its id, never used before.
    pub tx: TxId,
    /// What it calls; for a command one event. Without any it commits at once.
    pub calls: Vec<Call<E>>,
    /// The time of its events.
    pub at: Timestamp,
    /// Until when it may wait for votes.
    pub deadline: Millis,
    /// What makes it repeatable, if the client sent that.
    pub idempotency: Option<Idempotency>,
}

/// What a coordinator takes.
#[derive(Clone, Debug)]
pub enum CoordinatorInput<E> {
    /// A client wants a transaction.
    Begin(Begin<E>),
    /// A participant says something.
    Heard(ToCoordinator<E>),
    /// The journal says what became of records.
    Written {
        /// The records.
        write: WriteId,
        /// What became of them, all alike.
        result: Written,
    },
    /// What was sent to participants before, or said by them, may be lost.
    Again,
    /// Time has passed.
    Tick,
    /// What [`LetDue`](CoordinatorOutput::LetDue) wants has happened or been refused, or need not happen any more.
    Settled {
        /// The transaction that waits.
        tx: TxId,
    },
    /// What [`LetDue`](CoordinatorOutput::LetDue) wants cannot happen now. Nothing of the transaction that waits has happened.
    Unsettled {
        /// The transaction that waits.
        tx: TxId,
    },
}

/// What a coordinator wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoordinatorOutput<E> {
    /// Send this to a participant.
    Send {
        /// The participant.
        to: EntityKey,
        /// The message.
        message: ToParticipant<E>,
    },
    /// Append these in one atomic step and tell what became of them.
    Append {
        /// Names them in the answer.
        write: WriteId,
        /// Each with the entity or coordinator whose record it is.
        records: Vec<(EntityKey, Record<E>)>,
        /// Whether somebody waits for them.
        forced: bool,
        /// Behind whose record that of an entity has to stand, with none between. Where it does not, all of them are refused.
        depends_on: BTreeMap<EntityKey, TxId>,
        /// Send these as soon as the records have their place in the journal, so that nothing that is appended later becomes durable
        /// before them. Whether they become durable themselves is told as ever.
        precommits: Vec<(EntityKey, Precommit)>,
    },
    /// Tell the client.
    Reply {
        /// The transaction it asked for.
        tx: TxId,
        /// What became of it.
        reply: Reply,
    },
    /// Let the event happen that is due at an entity, or note that it was refused, as a transaction of its own; and say so
    /// before the deadline of the one that waits. It holds nothing meanwhile, and begins anew then.
    LetDue {
        /// The transaction that waits.
        tx: TxId,
        /// The entity.
        entity: EntityKey,
    },
    /// A record is in doubt: the coordinator takes nothing more and must be recovered from its journal.
    Halt,
}

/// What a client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reply {
    /// It is decided, durably.
    Answered {
        /// The transaction that decided it; an earlier one if the request was repeated.
        tx: TxId,
        /// Done or refused.
        result: Result<Done, Refusal>,
        /// Whether this is the answer to an earlier request with the same key.
        replayed: bool,
    },
    /// It waited until its deadline; nothing happened.
    TimedOut {
        /// Where it waited.
        entity: EntityKey,
        /// What it waited for there; nothing is known if the entity was silent.
        waits_for: Vec<Wait>,
    },
    /// Too many wait at an entity; nothing happened.
    Busy {
        /// The entity.
        entity: EntityKey,
    },
    /// A journal refused a record; nothing happened.
    NotRecorded,
    /// It cannot be known before recovery whether it happened. To ask again with the same key will tell.
    InDoubt,
    /// A request with the same key is running.
    KeyInUse,
    /// Another request has had the key.
    KeyReused,
}

/// Runs transactions.
///
/// Pure: the same inputs give the same outputs. The example of the crate drives one.
pub struct Coordinator<M: Model> {
    model: Arc<M>,
    key: EntityKey,
    options: CoordinatorOptions,
    transactions: SmallMap<TxId, Box<Transaction<M::Event>>>,
    /// When each transaction wants to be woken.
    timers: SmallMap<(Millis, TxId), ()>,
    writes: SmallMap<WriteId, TxId>,
    /// The participants that are told to give a forgotten transaction up as soon as the record that allows it is durable.
    dismissals: SmallMap<WriteId, Box<Dismissal>>,
    next_write: WriteId,
    answers: Answers,
    recent: Recent<Reply>,
    halted: bool,
    far: Option<Box<Distance>>,
}

/// A participant that holds a slot for a transaction that is forgotten.
#[derive(Debug)]
struct Dismissal {
    tx: TxId,
    from: EntityKey,
    attempt: Attempt,
    slot: Slot,
}

/// Whether an answer of an entity takes a while.
type Distance = dyn Fn(&EntityKey) -> bool + Send + Sync;

/// All that its future depends on, but the model, the numbers of writes, and the order in which answers are forgotten.
impl<M: Model> fmt::Debug for Coordinator<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("key", &self.key)
            .field("transactions", &self.transactions)
            .field("dismissals", &self.dismissals.values().collect::<Vec<_>>())
            .field("answers", &self.answers)
            .field("recent", &self.recent)
            .field("halted", &self.halted)
            .finish_non_exhaustive()
    }
}

type Outputs<M> = Vec<CoordinatorOutput<<M as Model>::Event>>;

impl<M: Model> Coordinator<M> {
    /// A coordinator without a past; `key` names it to participants and its records to the journal.
    pub fn new(model: Arc<M>, key: EntityKey, options: CoordinatorOptions) -> Self {
        Self {
            model,
            key,
            transactions: SmallMap::new(),
            timers: SmallMap::new(),
            writes: SmallMap::new(),
            dismissals: SmallMap::new(),
            next_write: WriteId(1),
            answers: Answers::new(options.answers_max),
            recent: Recent::new(options.recent_max),
            options,
            halted: false,
            far: None,
        }
    }

    /// Asks participants that are far at once, where nothing but the way of messages keeps it from asking them one after the other.
    ///
    /// The first attempt of a transaction asks all of them that it knows of side by side, so that it waits once for messages and
    /// records, however many they are. Only the last one in the order of keys may be delayed then. One of the others that would have to
    /// wait is refused that, and the next attempt asks one after the other, in order.
    #[must_use]
    pub fn asking_side_by_side(mut self, is_far: impl Fn(&EntityKey) -> bool + Send + Sync + 'static) -> Self {
        self.far = Some(Box::new(is_far));
        self
    }

    /// Its own key.
    pub const fn key(&self) -> &EntityKey {
        &self.key
    }

    /// The entities that owe an answer.
    pub(crate) fn debtors(&self) -> impl Iterator<Item = &EntityKey> {
        self.transactions.values().flat_map(|transaction| transaction.debtors())
    }

    /// How many transactions have not ended.
    pub fn in_flight(&self) -> usize {
        self.transactions.len()
    }

    /// When the coordinator wants to be woken by [`CoordinatorInput::Tick`], if nothing happens before.
    pub fn next_deadline(&self) -> Option<Millis> {
        self.timers.first().map(|(&(wake, _), ())| wake)
    }

    /// Takes one input and says what is to be done, in this order.
    pub fn step(&mut self, input: CoordinatorInput<M::Event>, now: Millis) -> Outputs<M> {
        let mut out = Vec::new();
        if self.halted {
            return out;
        }
        match input {
            CoordinatorInput::Begin(begin) => self.begin(begin, now, &mut out),
            CoordinatorInput::Heard(heard) => self.heard(heard, now, &mut out),
            CoordinatorInput::Written { write, result } => self.written(write, result, now, &mut out),
            CoordinatorInput::Again => self.send_again(now, &mut out),
            CoordinatorInput::Tick => self.tick(now, &mut out),
            CoordinatorInput::Settled { tx } => self.settled(tx, now, &mut out),
            CoordinatorInput::Unsettled { tx } => self.unsettled(tx, &mut out),
        }
        out
    }

    fn begin(&mut self, begin: Begin<M::Event>, now: Millis, out: &mut Outputs<M>) {
        let tx = begin.tx;
        if self.transactions.contains_key(&tx) {
            return;
        }
        if let Some(reply) = self.recent.get(tx) {
            return out.push(CoordinatorOutput::Reply { tx, reply: reply.clone() });
        }
        if let Some(reply) = begin.idempotency.as_ref().and_then(|request| self.known(request)) {
            return out.push(CoordinatorOutput::Reply { tx, reply });
        }
        let is_timed =
            |call: &Call<M::Event>| matches!(&call.action, Action::Event(event) if self.model.is_of_timer(event));
        let is_timed = begin.calls.first().is_some_and(is_timed);
        let mut transaction = Transaction::new(self.seeded(begin));
        transaction.is_timed = is_timed;
        let planned = transaction.replan(&*self.model, self.bounds());
        self.transactions.insert(tx, Box::new(transaction));
        match planned {
            Ok(()) => self.advance(tx, now, out),
            Err(refusal) => self.refuse(tx, refusal, now, out),
        }
    }

    /// The calls of a client with what they need of a number that no other step has.
    fn seeded(&self, begin: Begin<M::Event>) -> Begin<M::Event> {
        let Begin { tx, calls, .. } = begin;
        let seeded = |(position, call): (usize, Call<M::Event>)| match call.action {
            // The first call of a command has the number of the transaction, and no client makes two.
            Action::Event(event) => {
                let seed = tx.as_u128().wrapping_add(position as u128);
                Call::event(call.key.clone(), self.model.seeded(&call.key, event, seed))
            }
            _ => call,
        };
        let calls = calls.into_iter().enumerate().map(seeded).collect();
        Begin { calls, ..begin }
    }

    fn known(&mut self, request: &Idempotency) -> Option<Reply> {
        match self.answers.begin(request) {
            Known::New => None,
            Known::Running => Some(Reply::KeyInUse),
            Known::Reused => Some(Reply::KeyReused),
            Known::Answered(AnswerRecord { tx, result, .. }) => Some(Reply::Answered { tx, result, replayed: true }),
        }
    }

    const fn bounds(&self) -> Bounds {
        let CoordinatorOptions { participants_max, events_max, depth_max, .. } = self.options;
        Bounds { participants_max, events_max, depth_max }
    }

    fn transaction(&mut self, tx: TxId) -> &mut Transaction<M::Event> {
        self.with_model(tx).1
    }

    fn with_model(&mut self, tx: TxId) -> (&M, &mut Transaction<M::Event>) {
        (&self.model, self.transactions.get_mut(&tx).expect("the transaction has not ended"))
    }

    /// Asks the next participants of a transaction that is voting, or decides, if no vote is awaited.
    fn advance(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        let bounds = self.bounds();
        let (model, transaction) = self.with_model(tx);
        if transaction.is_asking() {
            return;
        }
        if let Err(refusal) = transaction.take_news(model, bounds) {
            return self.refuse(tx, refusal, now, out);
        }
        let Some(strangers) = self.transaction(tx).compare() else { return self.restart(tx, now, out) };
        for (key, slot) in strangers {
            let attempt = self.transaction(tx).attempt;
            self.tell(&key, tx, attempt, Some(slot), Decision::Abort, out);
        }
        let (model, transaction) = self.with_model(tx);
        match transaction.face_doubts(model, bounds) {
            Ok(false) => {}
            Ok(true) => return self.advance(tx, now, out),
            Err(refusal) => return self.refuse(tx, refusal, now, out),
        }
        let far = self.far.as_deref();
        let transaction = self.transactions.get_mut(&tx).expect("the transaction has not ended");
        if transaction.begin_to_ask(|key| far.is_some_and(|is_far| is_far(key))) {
            self.ask(tx, out);
            return self.wake_again(tx, self.options.resend_after, now);
        }
        assert!(!transaction.is_partial(), "{tx} waits for an answer that nobody owes");
        self.decide(tx, now, out);
    }

    /// Asks those whose votes are awaited, for the first time or again.
    fn ask(&self, tx: TxId, out: &mut Outputs<M>) {
        let transaction = &self.transactions[&tx];
        for to in transaction.asked() {
            if let Some(prepare) = transaction.prepare(tx, to, &self.key, self.options.durability) {
                out.push(CoordinatorOutput::Send { to: to.clone(), message: ToParticipant::Prepare(prepare) });
            }
        }
    }

    fn tell(
        &self,
        to: &EntityKey,
        tx: TxId,
        attempt: Attempt,
        slot: Option<Slot>,
        decision: Decision,
        out: &mut Outputs<M>,
    ) {
        let known = self.transactions.get(&tx).and_then(|transaction| transaction.durability_of(to));
        let (coordinator, durability) = (self.key.clone(), known.unwrap_or(Durability::TwoPhase));
        let decide = Decide { tx, attempt, coordinator, slot, decision, durability };
        out.push(CoordinatorOutput::Send { to: to.clone(), message: ToParticipant::Decide(decide) });
    }

    /// Sets the timer of a transaction `span` from now, doubled for the next time.
    fn wake_again(&mut self, tx: TxId, span: Millis, now: Millis) {
        let transaction = self.transactions.get_mut(&tx).expect("the transaction has not ended");
        let span = span.max(Millis(1));
        transaction.span = span;
        let wake = match transaction.phase {
            Phase::Voting => (now + span).min(transaction.deadline + self.options.grace),
            Phase::Telling { .. } => now + span,
            Phase::Early | Phase::Deciding | Phase::Refusing { .. } => Millis::NEVER,
        };
        let before = std::mem::replace(&mut transaction.wake, wake);
        if before == wake {
            return;
        }
        if before != Millis::NEVER {
            self.timers.remove(&(before, tx));
        }
        if wake != Millis::NEVER {
            self.timers.insert((wake, tx), ());
        }
    }

    /// Aborts the attempt everywhere and begins the next one with the plan known by now.
    fn restart(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        self.abort_attempt(tx, out);
        let bounds = self.bounds();
        let (model, transaction) = self.with_model(tx);
        match transaction.next_attempt(model, bounds) {
            Ok(()) => self.advance(tx, now, out),
            Err(refusal) => self.refuse(tx, refusal, now, out),
        }
    }

    fn abort_attempt(&mut self, tx: TxId, out: &mut Outputs<M>) {
        let transaction = self.transaction(tx);
        let attempt = transaction.attempt;
        for (key, slot) in transaction.take_held() {
            self.tell(&key, tx, attempt, slot, Decision::Abort, out);
        }
    }

    fn heard(&mut self, heard: ToCoordinator<M::Event>, now: Millis, out: &mut Outputs<M>) {
        let ToCoordinator { from, tx, attempt, said, .. } = heard;
        let current = self.transactions.get(&tx).filter(|transaction| transaction.attempt.number <= attempt.number);
        let Some(transaction) = current else {
            // Of an earlier attempt, or forgotten: both are aborted.
            if self.transactions.contains_key(&tx) || cfg!(planted = "dismiss_from_memory") {
                return self.dismiss(&from, tx, attempt, &said, out);
            }
            return self.dismiss_forgotten(from, tx, attempt, &said, out);
        };
        match &transaction.phase {
            Phase::Voting if transaction.awaits(&from, attempt) => {
                if let Said::Vote(vote) = said {
                    self.voted(tx, from, vote, now, out);
                }
            }
            Phase::Voting | Phase::Deciding => {
                if said.slot() != transaction.slot_of(&from) {
                    self.dismiss(&from, tx, attempt, &said, out);
                }
            }
            Phase::Early | Phase::Refusing { .. } => self.dismiss(&from, tx, attempt, &said, out),
            Phase::Telling { .. } => match said {
                Said::Ack(slot) => self.acknowledged(tx, &from, slot, out),
                #[cfg(planted = "change_the_decision")]
                Said::Ask(_) => self.dismiss(&from, tx, attempt, &said, out),
                _ if said.slot().is_some() && said.slot() == transaction.slot_of(&from) => {
                    self.tell(&from, tx, attempt, said.slot(), Decision::Commit, out);
                }
                _ => self.dismiss(&from, tx, attempt, &said, out),
            },
        }
    }

    /// Tells a participant that holds a slot for nothing to give it up.
    fn dismiss(&self, from: &EntityKey, tx: TxId, attempt: Attempt, said: &Said<M::Event>, out: &mut Outputs<M>) {
        if let (Some(slot), Said::Vote(_) | Said::Ask(_)) = (said.slot(), said) {
            self.tell(from, tx, attempt, Some(slot), Decision::Abort, out);
        }
    }

    /// The same for a transaction that is not known here: unless it is known elsewhere, because another one has taken the journal over.
    fn dismiss_forgotten(
        &mut self,
        from: EntityKey,
        tx: TxId,
        attempt: Attempt,
        said: &Said<M::Event>,
        out: &mut Outputs<M>,
    ) {
        if let (Some(slot), Said::Vote(_) | Said::Ask(_)) = (said.slot(), said) {
            let write = self.append(tx, vec![(self.key.clone(), Record::Barrier)], true, out);
            self.dismissals.insert(write, Box::new(Dismissal { tx, from, attempt, slot }));
        }
    }

    fn voted(&mut self, tx: TxId, from: EntityKey, vote: Vote<M::Event>, now: Millis, out: &mut Outputs<M>) {
        let bounds = self.bounds();
        let (model, transaction) = self.with_model(tx);
        let still_possible = match vote {
            Vote::Yes { slot, answer, durability, early } => {
                transaction.accept(from, (slot, durability, early), answer);
                Ok(())
            }
            Vote::No(rejection) if rejection.refusal.is_early() => {
                transaction.heard(&from);
                return self.let_due(tx, rejection.refusal, now, out);
            }
            Vote::No(rejection) => transaction.refused(model, bounds, from, rejection),
            Vote::Unanswered(unanswered) => transaction.inquire(model, from, unanswered),
            Vote::OutOfOrder => {
                transaction.heard(&from);
                return self.restart(tx, now, out);
            }
            Vote::Expired(waits_for) => return self.give_up(tx, Reply::TimedOut { entity: from, waits_for }, out),
            Vote::Busy => return self.give_up(tx, Reply::Busy { entity: from }, out),
            Vote::NotRecorded => return self.give_up(tx, Reply::NotRecorded, out),
        };
        match still_possible {
            Ok(()) => self.advance(tx, now, out),
            Err(refusal) => self.refuse(tx, refusal, now, out),
        }
    }

    /// Gives up all that the transaction holds until what is due has happened.
    fn let_due(&mut self, tx: TxId, refusal: Refusal, now: Millis, out: &mut Outputs<M>) {
        let transaction = self.transaction(tx);
        transaction.due_before += 1;
        if transaction.due_before > DUE_MAX {
            let reasons = vec![Reason::TooManyDue { limit: DUE_MAX }];
            return self.refuse(tx, Refusal { reasons, ..refusal }, now, out);
        }
        self.abort_attempt(tx, out);
        self.transaction(tx).phase = Phase::Early;
        self.wake_again(tx, Millis::NEVER, now);
        out.push(CoordinatorOutput::LetDue { tx, entity: refusal.entity });
    }

    fn is_early(&self, tx: TxId) -> bool {
        self.transactions.get(&tx).is_some_and(|transaction| matches!(transaction.phase, Phase::Early))
    }

    fn settled(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        if self.is_early(tx) {
            self.transaction(tx).phase = Phase::Voting;
            self.restart(tx, now, out);
        }
    }

    fn unsettled(&mut self, tx: TxId, out: &mut Outputs<M>) {
        if self.is_early(tx) {
            self.give_up(tx, Reply::NotRecorded, out);
        }
    }

    /// Ends a transaction without an answer that a repeated request would get.
    fn give_up(&mut self, tx: TxId, reply: Reply, out: &mut Outputs<M>) {
        self.abort_attempt(tx, out);
        let transaction = self.end(tx, |_| reply.clone());
        if let Some(request) = &transaction.idempotency {
            self.answers.cancel(request);
        }
        out.push(CoordinatorOutput::Reply { tx, reply });
    }

    /// Ends a transaction, of which is remembered what its client has been told, if anything is.
    fn end(&mut self, tx: TxId, told: impl FnOnce(&Transaction<M::Event>) -> Reply) -> Box<Transaction<M::Event>> {
        let transaction = self.transactions.remove(&tx).expect("the transaction has not ended");
        self.timers.remove(&(transaction.wake, tx));
        self.recent.keep(tx, || told(&transaction));
        transaction
    }

    fn refuse(&mut self, tx: TxId, refusal: Refusal, now: Millis, out: &mut Outputs<M>) {
        if self.transaction(tx).depends() {
            // What it relied on may vanish, and nobody may hear of it before it is durable.
            self.transaction(tx).certain = true;
            return self.restart(tx, now, out);
        }
        self.abort_attempt(tx, out);
        if self.transaction(tx).idempotency.is_none() {
            let reply = Reply::Answered { tx, result: Err(refusal), replayed: false };
            self.end(tx, |_| reply.clone());
            return out.push(CoordinatorOutput::Reply { tx, reply });
        }
        let answer = self.transaction(tx).answer(tx, Err(refusal));
        self.transaction(tx).phase = Phase::Refusing { answer: answer.clone() };
        self.wake_again(tx, Millis::NEVER, now);
        let record = (self.key.clone(), Record::Answer(Box::new(answer)));
        self.append(tx, vec![record], true, out);
    }

    fn append(
        &mut self,
        tx: TxId,
        records: Vec<(EntityKey, Record<M::Event>)>,
        forced: bool,
        out: &mut Outputs<M>,
    ) -> WriteId {
        let write = self.writes_for(tx);
        let (depends_on, precommits) = (BTreeMap::new(), Vec::new());
        out.push(CoordinatorOutput::Append { write, records, forced, depends_on, precommits });
        write
    }

    fn writes_for(&mut self, tx: TxId) -> WriteId {
        let write = self.next_write;
        self.next_write = WriteId(write.0 + 1);
        self.writes.insert(write, tx);
        write
    }

    fn decide(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        let key = self.key.clone();
        let version = self.model.version();
        let transaction = self.transaction(tx);
        transaction.phase = Phase::Deciding;
        let decision = Record::Decision(Box::new(transaction.decision(tx)));
        let mut records = Vec::with_capacity(transaction.participants().len() + 1);
        // Behind the decision only slots count.
        records.extend(transaction.take_commits(tx, version));
        records.push((key, decision));
        let (depends_on, precommits) = (transaction.depends_on(), transaction.precommits(tx));
        self.wake_again(tx, Millis::NEVER, now);
        let write = self.writes_for(tx);
        out.push(CoordinatorOutput::Append { write, records, forced: true, depends_on, precommits });
        #[cfg(planted = "answer_before_the_decision")]
        {
            let transaction = &self.transactions[&tx];
            let answer = transaction.answer(tx, Ok(transaction.done()));
            self.reply(tx, answer, out);
        }
    }

    fn written(&mut self, write: WriteId, result: Written, now: Millis, out: &mut Outputs<M>) {
        if result == Written::InDoubt && !cfg!(planted = "abort_in_doubt") {
            return self.halt(out);
        }
        let Some(tx) = self.writes.remove(&write) else { return };
        if let Some(dismissal) = self.dismissals.remove(&write) {
            let Dismissal { tx, from, attempt, slot } = *dismissal;
            if result == Written::Durable {
                self.tell(&from, tx, attempt, Some(slot), Decision::Abort, out);
            }
            return;
        }
        let Some(transaction) = self.transactions.get(&tx) else { return };
        match (&transaction.phase, result) {
            (Phase::Deciding, Written::Durable) => self.committed(tx, now, out),
            (Phase::Refusing { answer }, Written::Durable) => {
                let answer = answer.clone();
                self.answers.keep(&answer);
                let reply = Reply::Answered { tx, result: answer.result, replayed: false };
                self.end(tx, |_| reply.clone());
                out.push(CoordinatorOutput::Reply { tx, reply });
            }
            (Phase::Deciding | Phase::Refusing { .. }, _) => self.give_up(tx, Reply::NotRecorded, out),
            (Phase::Voting | Phase::Early | Phase::Telling { .. }, _) => {}
        }
    }

    fn committed(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        let transaction = self.transaction(tx);
        if !transaction.is_in_line() {
            let answer = transaction.answer(tx, Ok(transaction.done()));
            self.reply(tx, answer, out);
        }
        self.start_telling(tx, now, out);
    }

    fn reply(&mut self, tx: TxId, answer: AnswerRecord, out: &mut Outputs<M>) {
        self.answers.keep(&answer);
        let reply = Reply::Answered { tx, result: answer.result, replayed: false };
        out.push(CoordinatorOutput::Reply { tx, reply });
    }

    fn start_telling(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        let transaction = self.transaction(tx);
        transaction.phase = Phase::Telling { deaf: transaction.participants().collect() };
        self.tell_again(tx, out);
        self.wake_again(tx, self.options.resend_after, now);
        self.finish_if_heard(tx, out);
    }

    fn tell_again(&self, tx: TxId, out: &mut Outputs<M>) {
        let transaction = &self.transactions[&tx];
        if let Phase::Telling { deaf } = &transaction.phase {
            for (key, slot) in deaf.iter() {
                self.tell(key, tx, transaction.attempt, Some(*slot), Decision::Commit, out);
            }
        }
    }

    fn acknowledged(&mut self, tx: TxId, from: &EntityKey, slot: Slot, out: &mut Outputs<M>) {
        if let Phase::Telling { deaf } = &mut self.transaction(tx).phase {
            deaf.remove_if(from, |told| *told == slot);
        }
        self.finish_if_heard(tx, out);
    }

    fn finish_if_heard(&mut self, tx: TxId, out: &mut Outputs<M>) {
        let transaction = &self.transactions[&tx];
        if !matches!(&transaction.phase, Phase::Telling { deaf } if deaf.is_empty()) {
            return;
        }
        if transaction.is_in_line() {
            let answer = transaction.answer(tx, Ok(transaction.done()));
            self.reply(tx, answer, out);
        }
        let told = |told: &Transaction<_>| Reply::Answered { tx, result: Ok(told.done()), replayed: false };
        if self.end(tx, told).is_two_phase() {
            let record = (self.key.clone(), Record::End { tx });
            self.append(tx, vec![record], false, out);
        }
    }

    /// Sends everything again that has no answer.
    fn send_again(&mut self, now: Millis, out: &mut Outputs<M>) {
        let unanswered = self.transactions.iter().filter(|(_, transaction)| transaction.debtors().next().is_some());
        let unanswered: Vec<TxId> = unanswered.map(|(&tx, _)| tx).collect();
        for tx in unanswered {
            match self.transactions[&tx].phase {
                Phase::Telling { .. } => self.tell_again(tx, out),
                _ => self.ask(tx, out),
            }
            self.wake_again(tx, self.options.resend_after, now);
        }
    }

    fn tick(&mut self, now: Millis, out: &mut Outputs<M>) {
        while let Some((&(wake, tx), ())) = self.timers.first()
            && wake <= now
        {
            self.overdue(tx, now, out);
        }
    }

    fn overdue(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        let transaction = &self.transactions[&tx];
        let span = Millis(transaction.span.0.saturating_mul(2).min(self.options.resend_after.0.saturating_mul(32)));
        let asked = transaction.asked().next().cloned();
        match (&transaction.phase, asked) {
            (Phase::Voting, Some(entity)) if transaction.deadline + self.options.grace <= now => {
                let reply = Reply::TimedOut { entity, waits_for: Vec::new() };
                self.give_up(tx, reply, out);
            }
            (Phase::Voting, _) => {
                self.ask(tx, out);
                self.wake_again(tx, span, now);
            }
            _ => {
                self.tell_again(tx, out);
                self.wake_again(tx, span, now);
            }
        }
    }

    /// Stops. What is being decided is in doubt; what is still voting has certainly not happened.
    fn halt(&mut self, out: &mut Outputs<M>) {
        self.halted = true;
        for (&tx, transaction) in self.transactions.iter() {
            let reply = match transaction.phase {
                Phase::Voting | Phase::Early => Reply::NotRecorded,
                Phase::Deciding | Phase::Refusing { .. } => Reply::InDoubt,
                Phase::Telling { .. } if transaction.is_in_line() => Reply::InDoubt,
                Phase::Telling { .. } => continue,
            };
            out.push(CoordinatorOutput::Reply { tx, reply });
        }
        out.push(CoordinatorOutput::Halt);
    }
}
