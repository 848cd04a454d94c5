//! The participant: one entity in the commit protocol.
//!
//! # Problem
//! A yes is a promise that outlives a crash. Until the decision arrives the participant may neither forget it nor act on
//! its own, and everything else at the entity must go on as far as it does not depend on it.
//!
//! # States of one transaction here
//! `Delayed` -> `Preparing` (admitted, its record on the way to the disk) -> `Voted` -> committed or aborted -> gone.
//! A committed one may have to wait for earlier slots before it is applied.
//!
//! # Durability
//! A coordinator says with its request how a yes is kept; both kinds may be open at one entity.
//! * [`Durability::TwoPhase`]: a `Prepared` record is durable before the yes. After the yes only the coordinator decides: a
//!   participant that hears nothing asks. The outcome is written without being waited for; the ack of a commit
//!   waits for it, because the coordinator forgets what everybody has acknowledged, and a forgotten transaction
//!   is an aborted one.
//! * [`Durability::Shared`]: the coordinator writes the effects of all participants and its decision into their common journal
//!   in one atomic step. A participant writes nothing; a crash loses every open transaction, in all of them at once.
//!
//! # What a crash leaves
//! | crash | two-phase | shared |
//! |---|---|---|
//! | before `Prepared` is durable | nobody was promised anything: gone | - |
//! | after it | open again under its slot; asks the coordinator | - |
//! | before the decision is durable | the coordinator has forgotten it: abort | gone everywhere |
//! | after it | commit, told again until acknowledged | the entity finds its own `Committed` record |
//!
//! # Order
//! Slots are the order of effects. Records of a later slot may come earlier in the journal, so recovery sorts by slot.

mod history;
mod read;
mod recovery;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub(crate) use self::history::history;
pub use self::history::{Happened, History, HistoryOf, HistoryPart};
use self::read::{LateRead, Reads};
pub use self::read::{Read, ReadId, ReadMode, View};
pub use self::recovery::RecoveryError;
pub(crate) use self::recovery::{Replay, known};
use crate::EntityKey;
use crate::admission::{
    Admission, Answer, Applied, Branch, Consequences, Decision, InProgress, Limits, Strategy, Verdict, Wait,
};
use crate::message::{Decide, Precommit, Prepare, Said, ToCoordinator, Vote};
use crate::model::Model;
use crate::record::{Pending, Prepared, Record, Snapshot};
use crate::small_map::SmallMap;
use crate::tx::{Attempt, Millis, Slot, TxId};

/// How the promise of a participant is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Durability {
    /// By a record of the participant: its journal is not that of the coordinator.
    TwoPhase,
    /// By the coordinator, which writes the effects and its decision into their common journal in one step.
    Shared,
}

impl Durability {
    /// That of a promise of which nothing is said.
    pub(crate) const fn shared() -> Self {
        Self::Shared
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
    pub(crate) fn is_shared(&self) -> bool {
        *self == Self::Shared
    }
}

/// How a participant behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParticipantOptions {
    /// Which transactions may be open together.
    pub strategy: Strategy,
    /// The limits of admission.
    pub limits: Limits,
    /// How long after its yes a participant asks for the decision; doubled after each question, up to 32 times as long.
    pub ask_after: Millis,
}

impl ParticipantOptions {
    /// The default limits, and a question after one second.
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, limits: Limits::default(), ask_after: Millis(1_000) }
    }
}

/// Names one record that was handed out to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WriteId(pub u64);

/// What became of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Written {
    /// It survives a crash.
    Durable,
    /// It is certainly not there, and never will be.
    Refused,
    /// It may be there or not: only recovery from the journal will tell.
    InDoubt,
}

/// What a participant takes.
#[derive(Clone, Debug)]
pub enum Input<E> {
    /// A coordinator asks for a vote.
    Prepare(Prepare<E>),
    /// A coordinator has given its decision to the journal.
    Precommit(Precommit),
    /// A coordinator tells its decision.
    Decide(Decide),
    /// The journal says what became of a record.
    Written {
        /// The record.
        write: WriteId,
        /// What became of it.
        result: Written,
    },
    /// Somebody reads.
    Read(Read),
    /// What was said to a coordinator before may be lost.
    Again {
        /// Its key.
        coordinator: EntityKey,
    },
    /// Time has passed.
    Tick,
}

/// What a participant wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output<S, E> {
    /// Send this.
    Send(ToCoordinator<E>),
    /// Append this to the journal of the entity and tell what became of it.
    Append {
        /// Names the record in the answer.
        write: WriteId,
        /// The record.
        record: Record<E>,
        /// Whether somebody waits for it. One that nobody waits for may be written together with later ones.
        forced: bool,
    },
    /// An effect has become part of the applied state.
    Applied(Applied),
    /// The answer to a read.
    ReadReply {
        /// The read.
        id: ReadId,
        /// What it sees.
        view: View<S>,
    },
    /// A read has waited for these until its deadline.
    ReadExpired {
        /// The read.
        id: ReadId,
        /// What it waited for.
        waits_for: Vec<Wait>,
    },
    /// A coordinator broke the protocol: it decided what was never promised, or against its own decision. It has no effect.
    ProtocolError {
        /// The decision.
        decide: Decide,
    },
    /// A record is in doubt: the participant takes nothing more and must be recovered from its journal.
    Halt,
}

/// One entity in the commit protocol.
///
/// Pure: the same inputs give the same outputs. The example of the crate drives one.
pub struct Participant<M: Model> {
    admission: Admission<M>,
    model: Arc<M>,
    ask_after: Millis,
    /// One per transaction that is delayed, open, or committed and not applied.
    standings: SmallMap<TxId, Standing>,
    /// When each voted one asks for its decision.
    asks: SmallMap<(Millis, TxId), ()>,
    /// Two-phase: committed here, and the record of it is not durable yet.
    unacknowledged: SmallMap<TxId, Box<Unacknowledged>>,
    writes: SmallMap<WriteId, (TxId, Slot)>,
    next_write: WriteId,
    reads: Reads,
    halted: bool,
}

#[derive(Debug)]
struct Standing {
    attempt: Attempt,
    coordinator: EntityKey,
    durability: Durability,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Delayed,
    Preparing,
    Voted {
        ask_at: Millis,
        span: Millis,
    },
    Committed {
        /// The acknowledgement that is owed when it is applied; few are, and those that are not take no room.
        tell: Option<Box<Told>>,
    },
}

/// What is acknowledged.
#[derive(Clone, Debug)]
struct Told {
    attempt: Attempt,
    slot: Slot,
    coordinator: EntityKey,
}

#[derive(Debug)]
struct Unacknowledged {
    told: Told,
    /// Whether its record is on the way; otherwise the journal refused it and the next redelivery tries again.
    writing: bool,
    /// Whether nothing else is known of it any more.
    is_past: bool,
}

type Outputs<M> = Vec<Output<<M as Model>::State, <M as Model>::Event>>;

impl<M: Model> Participant<M> {
    /// An entity without records; nothing if its class does not exist.
    pub fn new(model: Arc<M>, key: EntityKey, options: ParticipantOptions) -> Option<Self> {
        let base = model.initial(&key)?;
        Some(Self::with_base(model, key, options, base, Slot::FIRST))
    }

    fn with_base(model: Arc<M>, key: EntityKey, options: ParticipantOptions, base: M::State, next_slot: Slot) -> Self {
        let ParticipantOptions { strategy, limits, ask_after } = options;
        Self {
            admission: Admission::new(Arc::clone(&model), key, base, next_slot, strategy, limits),
            model,
            ask_after,
            standings: SmallMap::new(),
            asks: SmallMap::new(),
            unacknowledged: SmallMap::new(),
            writes: SmallMap::new(),
            next_write: WriteId(1),
            reads: Reads::default(),
            halted: false,
        }
    }

    /// The entity.
    pub fn key(&self) -> &EntityKey {
        self.admission.key()
    }

    /// What is applied, open and delayed.
    pub const fn admission(&self) -> &Admission<M> {
        &self.admission
    }

    /// The slot of the first effect of which it is not durable what becomes of it: its transaction is not decided, or its outcome is on its
    /// way to the journal. The next slot if there is none.
    pub fn first_unrecorded(&self) -> Slot {
        let unwritten = self.unacknowledged.values().map(|commit| commit.told.slot).min();
        unwritten.unwrap_or(Slot(u64::MAX)).min(self.admission.first_unapplied())
    }

    /// Whether nothing is open, delayed, unwritten or waiting: the entity may be put away.
    pub fn is_idle(&self) -> bool {
        self.standings.is_empty() && self.unacknowledged.is_empty() && self.writes.is_empty() && self.reads.is_empty()
    }

    /// What `tx` waits for, if it is delayed, or committed and in line.
    pub fn waits_for(&mut self, tx: TxId) -> Option<Vec<Wait>> {
        self.admission.waits_for(tx)
    }

    /// When the participant wants to be woken by [`Input::Tick`], if nothing happens before.
    pub fn next_deadline(&self) -> Option<Millis> {
        let ask = self.asks.first().map(|(&(at, _), ())| at);
        [ask, self.admission.next_deadline(), self.reads.next_deadline()].into_iter().flatten().min()
    }

    /// Takes one input and says what is to be done, in this order. A deadline that has come is served first, whatever the input is.
    ///
    /// # Panics
    /// If the model refuses an effect that it allowed before, which breaks its laws.
    pub fn step(&mut self, input: Input<M::Event>, now: Millis) -> Outputs<M> {
        // A decision is acknowledged and applied.
        let mut out = Vec::with_capacity(2);
        if self.halted {
            return out;
        }
        // Whatever stands in the queue before the tick, the first turn after a deadline serves it.
        if self.admission.next_deadline().is_some_and(|deadline| deadline <= now) {
            let consequences = self.admission.expire(now);
            self.follow(consequences, now, &mut out);
        }
        match input {
            Input::Prepare(prepare) => self.prepare(prepare, now, &mut out),
            Input::Precommit(Precommit { tx, slot }) => {
                let consequences = self.admission.precommit(tx, slot);
                self.follow(consequences, now, &mut out);
            }
            Input::Decide(decide) => self.decide(decide, now, &mut out),
            Input::Written { write, result } => self.written(write, result, now, &mut out),
            Input::Read(read) => self.reads.arrive(read, self.admission.next_slot()),
            Input::Again { coordinator } => self.ask_at_once(&coordinator, now, &mut out),
            Input::Tick => self.ask(now, &mut out),
        }
        if !self.halted {
            self.answer_reads(now, &mut out);
        }
        if self.is_idle() {
            self.rest();
        }
        out
    }

    /// Gives the memory of empty collections back: one that has had an element keeps its room for more, which would be most of
    /// what an idle entity takes.
    fn rest(&mut self) {
        self.reads = Reads::default();
        self.admission.rest();
    }

    fn prepare(&mut self, prepare: Prepare<M::Event>, now: Millis, out: &mut Outputs<M>) {
        let Prepare { coordinator, durability, request } = prepare;
        let Branch { tx, attempt, .. } = request.branch;
        // Its commit has happened here, and is not recorded yet: a second promise would be taken for the one that holds.
        if self.unacknowledged.contains_key(&tx) {
            return;
        }
        if let Some(standing) = self.standings.get(&tx) {
            if standing.attempt > attempt || matches!(standing.stage, Stage::Committed { .. }) {
                return;
            }
            if standing.attempt == attempt {
                if matches!(standing.stage, Stage::Voted { .. }) {
                    self.vote_yes(tx, out);
                }
                return;
            }
        }
        let is_replaced = self.standings.contains_key(&tx);
        if request.deadline <= now {
            if is_replaced {
                self.abort(tx, now, out);
            }
            return self.vote(&coordinator, tx, attempt, Vote::Expired(Vec::new()), out);
        }
        let standing = Standing { attempt, coordinator, durability, stage: Stage::Delayed };
        if is_replaced {
            self.give_up(tx, out);
            self.standings.insert(tx, standing);
            let (verdict, consequences) = self.admission.replace(request);
            self.settle(tx, verdict, now, out);
            self.follow(consequences, now, out);
        } else {
            self.standings.insert(tx, standing);
            let verdict = self.admission.request(request);
            self.settle(tx, verdict, now, out);
        }
    }

    /// Passes on what admission says of a transaction that has a standing.
    fn settle(&mut self, tx: TxId, verdict: Verdict<M::Event>, now: Millis, out: &mut Outputs<M>) {
        let vote = match verdict {
            Verdict::Delayed => return,
            Verdict::Admitted(slot, answer) => return self.admitted(tx, slot, answer, now, out),
            Verdict::Rejected(rejection) => Vote::No(rejection),
            Verdict::Unanswered(unanswered) => Vote::Unanswered(unanswered),
            Verdict::OutOfOrder => Vote::OutOfOrder,
            Verdict::Busy => Vote::Busy,
        };
        self.turn_away(tx, vote, out);
    }

    fn turn_away(&mut self, tx: TxId, vote: Vote<M::Event>, out: &mut Outputs<M>) {
        let standing = self.standings.remove(&tx).expect("a transaction that is turned away had a standing");
        self.vote(&standing.coordinator, tx, standing.attempt, vote, out);
    }

    fn admitted(&mut self, tx: TxId, slot: Slot, answer: Answer<M::Event>, now: Millis, out: &mut Outputs<M>) {
        match self.standings[&tx].durability {
            durability @ Durability::Shared => {
                self.ask_again(tx, self.ask_after, now);
                let Standing { attempt, coordinator, .. } = &self.standings[&tx];
                let early = self.admission.early_release(tx);
                self.vote(coordinator, tx, *attempt, Vote::Yes { slot, answer, durability, early }, out);
            }
            Durability::TwoPhase => {
                let prepared = self.prepared(self.in_progress(tx));
                let slot = prepared.slot;
                self.standing(tx).stage = Stage::Preparing;
                self.append(tx, slot, Record::Prepared(Box::new(prepared)), true, out);
                #[cfg(planted = "vote_before_the_record")]
                {
                    self.ask_again(tx, self.ask_after, now);
                    self.vote_yes(tx, out);
                }
            }
        }
    }

    fn in_progress(&self, tx: TxId) -> InProgress<M::Event> {
        self.admission.find(tx).expect("an admitted transaction is in progress")
    }

    fn standing(&mut self, tx: TxId) -> &mut Standing {
        self.standings.get_mut(&tx).expect("a transaction in progress has a standing")
    }

    fn prepared(&self, entry: InProgress<M::Event>) -> Prepared<M::Event> {
        let InProgress { branch, slot, answer, .. } = entry;
        let Standing { coordinator, durability, .. } = &self.standings[&branch.tx];
        let (coordinator, durability) = (coordinator.clone(), *durability);
        let version = self.model.version();
        Prepared { branch, slot, coordinator, answer, version, durability, overlap: None }
    }

    /// Sets when a transaction that has voted asks for its decision.
    fn ask_again(&mut self, tx: TxId, span: Millis, now: Millis) {
        let ask_at = now + span;
        self.standing(tx).stage = Stage::Voted { ask_at, span };
        if ask_at != Millis::NEVER {
            self.asks.insert((ask_at, tx), ());
        }
    }

    /// A transaction does not wait for its decision any more.
    fn stop_asking(&mut self, tx: TxId) {
        if let Some(Standing { stage: Stage::Voted { ask_at, .. }, .. }) = self.standings.get(&tx) {
            self.asks.remove(&(*ask_at, tx));
        }
    }

    fn vote_yes(&self, tx: TxId, out: &mut Outputs<M>) {
        let InProgress { branch, slot, answer, .. } = self.in_progress(tx);
        let Standing { coordinator, durability, .. } = &self.standings[&tx];
        let durability = *durability;
        // What is in several journals is not written in one order.
        let early = self.admission.early_release(tx).filter(|_| durability == Durability::Shared);
        self.vote(coordinator, tx, branch.attempt, Vote::Yes { slot, answer, durability, early }, out);
    }

    fn vote(&self, to: &EntityKey, tx: TxId, attempt: Attempt, vote: Vote<M::Event>, out: &mut Outputs<M>) {
        self.say(to, tx, attempt, Said::Vote(vote), out);
    }

    fn say(&self, to: &EntityKey, tx: TxId, attempt: Attempt, said: Said<M::Event>, out: &mut Outputs<M>) {
        out.push(Output::Send(ToCoordinator { to: to.clone(), from: self.key().clone(), tx, attempt, said }));
    }

    fn append(&mut self, tx: TxId, slot: Slot, record: Record<M::Event>, forced: bool, out: &mut Outputs<M>) {
        let write = self.next_write;
        self.next_write = WriteId(write.0 + 1);
        self.writes.insert(write, (tx, slot));
        out.push(Output::Append { write, record, forced });
    }

    fn decide(&mut self, decide: Decide, now: Millis, out: &mut Outputs<M>) {
        match decide.decision {
            Decision::Commit => self.commit(decide, now, out),
            Decision::Abort => self.told_to_abort(decide, now, out),
        }
    }

    fn commit(&mut self, decide: Decide, now: Millis, out: &mut Outputs<M>) {
        let Decide { tx, attempt, slot: Some(slot), .. } = decide else {
            return out.push(Output::ProtocolError { decide });
        };
        let held = self.admission.slot_of(tx).filter(|held| *held == slot);
        match (held, self.standings.get(&tx).map(|standing| &standing.stage)) {
            (Some(_), Some(Stage::Voted { .. })) if !self.admission.is_doomed(tx) => {
                self.stop_asking(tx);
                self.standing(tx).stage = Stage::Committed { tell: None };
                self.record_commit(tx, attempt, slot, out);
                let consequences = self.admission.decide(tx, Decision::Commit);
                self.follow(consequences, now, out);
            }
            (Some(_), Some(Stage::Committed { .. })) => self.confirm_commit(decide, slot, out),
            #[cfg(planted = "acknowledge_from_memory")]
            (None, _) if slot < self.admission.next_slot() => self.confirm_commit(decide, slot, out),
            // Every slot that was given and is not in progress any more has been decided: unless another one has taken the journal over
            // and has given it again.
            (None, _) if slot < self.admission.next_slot() => self.confirm_past_commit(decide, slot, out),
            _ => out.push(Output::ProtocolError { decide }),
        }
    }

    fn record_commit(&mut self, tx: TxId, attempt: Attempt, slot: Slot, out: &mut Outputs<M>) {
        let Standing { coordinator, durability, .. } = &self.standings[&tx];
        let (told, durability) = (Told { attempt, slot, coordinator: coordinator.clone() }, *durability);
        match durability {
            Durability::Shared => self.acknowledge(tx, told, out),
            Durability::TwoPhase => {
                let commit = Unacknowledged { told, writing: true, is_past: false };
                self.unacknowledged.insert(tx, Box::new(commit));
                self.append(tx, slot, Record::Outcome { tx, slot, decision: Decision::Commit }, false, out);
            }
        }
    }

    /// Acknowledges a commit that is durable: at once, but for one in line, of which that means that it is applied.
    fn acknowledge(&mut self, tx: TxId, told: Told, out: &mut Outputs<M>) {
        let in_line = self.admission.slot_of(tx) == Some(told.slot) && self.admission.is_in_line(tx);
        match self.standings.get_mut(&tx).map(|standing| &mut standing.stage) {
            Some(Stage::Committed { tell }) if in_line => *tell = Some(Box::new(told)),
            _ => self.say(&told.coordinator, tx, told.attempt, Said::Ack(told.slot), out),
        }
    }

    /// The decision was delivered again: acknowledge it as soon as it is durable.
    fn confirm_commit(&mut self, decide: Decide, slot: Slot, out: &mut Outputs<M>) {
        let Decide { tx, attempt, coordinator, .. } = decide;
        match self.unacknowledged.get_mut(&tx) {
            Some(waiting) if waiting.told.slot == slot => {
                if !std::mem::replace(&mut waiting.writing, true) {
                    self.append(tx, slot, Record::Outcome { tx, slot, decision: Decision::Commit }, false, out);
                }
            }
            _ => self.acknowledge(tx, Told { attempt, slot, coordinator }, out),
        }
    }

    /// The same of a commit of which nothing is known any more: what is acknowledged to another journal has to be in this one.
    fn confirm_past_commit(&mut self, decide: Decide, slot: Slot, out: &mut Outputs<M>) {
        if decide.durability.is_shared() || self.unacknowledged.contains_key(&decide.tx) {
            return self.confirm_commit(decide, slot, out);
        }
        let Decide { tx, attempt, coordinator, .. } = decide;
        let told = Told { attempt, slot, coordinator };
        self.unacknowledged.insert(tx, Box::new(Unacknowledged { told, writing: true, is_past: true }));
        self.append(tx, slot, Record::Outcome { tx, slot, decision: Decision::Commit }, false, out);
    }

    fn told_to_abort(&mut self, decide: Decide, now: Millis, out: &mut Outputs<M>) {
        let Decide { tx, attempt, slot, .. } = decide;
        let Some(standing) = self.standings.get(&tx).filter(|standing| standing.attempt <= attempt) else { return };
        let held = self.admission.slot_of(tx);
        if slot.is_some() && slot != held {
            return;
        }
        match standing.stage {
            // Its commit is recorded, and was acknowledged, if only before a crash: this answers a question from before that, which found
            // the transaction forgotten.
            Stage::Committed { .. } if slot.is_some() && !self.unacknowledged.contains_key(&tx) => {}
            Stage::Committed { .. } => out.push(Output::ProtocolError { decide }),
            _ => self.abort(tx, now, out),
        }
    }

    /// Ends a transaction that is delayed or open.
    fn abort(&mut self, tx: TxId, now: Millis, out: &mut Outputs<M>) {
        self.give_up(tx, out);
        let consequences = self.admission.decide(tx, Decision::Abort);
        self.follow(consequences, now, out);
    }

    /// Forgets what was promised to a transaction, but for its place in admission.
    fn give_up(&mut self, tx: TxId, out: &mut Outputs<M>) {
        let slot = self.admission.slot_of(tx);
        self.stop_asking(tx);
        let standing = self.standings.remove(&tx);
        let durability = standing.map_or(Durability::Shared, |standing| standing.durability);
        if let (Durability::TwoPhase, Some(slot)) = (durability, slot) {
            self.append(tx, slot, Record::Outcome { tx, slot, decision: Decision::Abort }, false, out);
        }
    }

    fn follow(&mut self, consequences: Consequences<M::Event>, now: Millis, out: &mut Outputs<M>) {
        for (tx, waits) in consequences.expired {
            self.turn_away(tx, Vote::Expired(waits), out);
        }
        for applied in consequences.applied {
            let standing = self.standings.remove(&applied.tx);
            out.push(Output::Applied(applied));
            if let Some(Standing { stage: Stage::Committed { tell: Some(told) }, .. }) = standing {
                self.acknowledge(applied.tx, *told, out);
            }
        }
        for (tx, verdict) in consequences.settled {
            self.settle(tx, verdict, now, out);
        }
    }

    fn written(&mut self, write: WriteId, result: Written, now: Millis, out: &mut Outputs<M>) {
        if result == Written::InDoubt {
            self.halted = true;
            return out.push(Output::Halt);
        }
        let Some((tx, slot)) = self.writes.remove(&write) else { return };
        if let Some(commit) = self.unacknowledged.get_mut(&tx).filter(|commit| commit.told.slot == slot) {
            if result == Written::Refused {
                commit.writing = false;
                if commit.is_past {
                    self.unacknowledged.remove(&tx);
                }
                return;
            }
            let commit = self.unacknowledged.remove(&tx).expect("it was found");
            return self.acknowledge(tx, commit.told, out);
        }
        let held = self.admission.slot_of(tx) == Some(slot);
        if !held || !matches!(self.standings[&tx].stage, Stage::Preparing) {
            return;
        }
        if result == Written::Durable {
            self.ask_again(tx, self.ask_after, now);
            self.vote_yes(tx, out);
        } else {
            self.turn_away(tx, Vote::NotRecorded, out);
            let consequences = self.admission.decide(tx, Decision::Abort);
            self.follow(consequences, now, out);
        }
    }

    /// Asks for every decision of `coordinator`.
    fn ask_at_once(&mut self, coordinator: &EntityKey, now: Millis, out: &mut Outputs<M>) {
        let is_of_it = |tx: &TxId| self.standings[tx].coordinator == *coordinator;
        let awaited: Vec<TxId> = self.asks.keys().map(|&(_, tx)| tx).filter(is_of_it).collect();
        for tx in awaited {
            self.stop_asking(tx);
            self.ask_for(tx, out);
            self.ask_again(tx, self.ask_after, now);
        }
    }

    /// Asks for every decision that is overdue.
    fn ask(&mut self, now: Millis, out: &mut Outputs<M>) {
        let longest = Millis(self.ask_after.0.saturating_mul(32));
        while let Some((&(at, tx), ())) = self.asks.first()
            && at <= now
        {
            self.asks.remove(&(at, tx));
            let Standing { stage: Stage::Voted { span, .. }, .. } = &self.standings[&tx] else {
                unreachable!("{tx} asks for a decision it does not wait for at {}", self.key());
            };
            let span = (*span + *span).min(longest);
            self.ask_for(tx, out);
            self.ask_again(tx, span.max(Millis(1)), now);
        }
    }

    /// Asks for the decision on a transaction that has voted.
    fn ask_for(&self, tx: TxId, out: &mut Outputs<M>) {
        let Standing { attempt, coordinator, .. } = &self.standings[&tx];
        let slot = self.admission.slot_of(tx).expect("what has voted yes is in progress");
        self.say(coordinator, tx, *attempt, Said::Ask(slot), out);
    }

    fn answer_reads(&mut self, now: Millis, out: &mut Outputs<M>) {
        // One that comes late, because the machine stood still, need not wait for anything.
        for (id, view) in self.reads.answer(&mut self.admission, &self.model) {
            out.push(Output::ReadReply { id, view });
        }
        for LateRead { id, waits_for } in self.reads.expire(&self.admission, now) {
            out.push(Output::ReadExpired { id, waits_for });
        }
    }

    /// What recovery needs of the present state. Store it at a position of the journal such that this participant has seen
    /// every earlier record.
    pub fn snapshot(&self) -> Snapshot<M::State, M::Event> {
        let pending = self.admission.in_progress().map(|entry| {
            let committed = entry.committed;
            Pending { prepared: self.prepared(entry), committed }
        });
        Snapshot {
            base: self.admission.base().clone(),
            next_slot: self.admission.next_slot(),
            pending: pending.collect(),
            version: self.model.version(),
        }
    }
}
