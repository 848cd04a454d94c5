//! One live entity: what keeps its participant, and carries its messages and deadlines, in [turns](super::turns).
//!
//! The first turn is to be recovered from the journal. Whatever comes meanwhile waits, so every other turn finds the
//! participant recovered, or the reason why it is not.
//!
//! # Promises to coordinators elsewhere
//! Their records are appended in tasks, each of which brings its end as a turn. As long as the entity has promised something, waits to, or has a
//! record on its way, it keeps itself in memory: nobody else may know of it.
use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Weak};

use enact_journal::{AppendError, EntityKey, Journal, Kind, Position, Seq, Snapshot as Image};
use tokio::sync::oneshot;
use tracing::Span;

use super::clock::Clock;
use super::committer::{Append, CommitError, Committer, Tail};
use super::directory::Live;
use super::elsewhere::Elsewhere;
use super::envelope::Unrecorded;
use super::error::EntityError;
use super::loading::Loading;
use super::memory::Footprint;
use super::metrics::{ClassCounts, EventIds};
use super::news::Announcer;
use super::order::Order;
use super::origin::{self, Origin};
use super::progress::Progress;
use super::timers::{Note, Timers};
use super::turns::{Answer, Turns};
use super::{FAR, Failure, moment};
use crate::admission::{Branch, Decision, Wait};
use crate::message::{Decide, Precommit, Prepare, Said, ToCoordinator, Vote};
use crate::model::{Due, Model};
use crate::participant::{
    Input, Output, Participant, ParticipantOptions, Read, ReadId, ReadMode, RecoveryError, View, WriteId, Written,
};
use crate::record::{Record, Snapshot};
use crate::tx::{Attempt, Millis, Slot, TxId};

/// How many effects are applied between two snapshots of an entity.
const EFFECTS_BETWEEN_SNAPSHOTS: usize = 256;

/// What a read got: a view, or what it waited for until its deadline.
pub(super) type Reading<S> = Result<View<S>, Vec<Wait>>;

/// An answer, unless the entity cannot be used.
type Answered<T> = Answer<Result<T, EntityError>>;

/// Owes somebody an answer.
type Debt<T> = oneshot::Sender<Result<T, EntityError>>;

/// A vote that is owed, to whom if that is not a coordinator elsewhere, on which events, and within which span.
struct Voting<M: Model> {
    debt: Option<Debt<Vote<M::Event>>>,
    events: Option<EventIds>,
    _span: Span,
}

/// What is said in a turn to the one whose turn it is.
enum Heard<S, E> {
    Vote(Vote<E>),
    Ack,
    Reading(Reading<S>),
}

/// Whose turn it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asker {
    Nobody,
    Voter(TxId, Attempt),
    Committer(TxId),
    Reader(ReadId),
}

/// What others are told of an entity.
pub(super) struct Told {
    /// What has become of the records, before anything is answered.
    pub(super) loading: Arc<Loading>,
    pub(super) footprint: Arc<Footprint>,
    pub(super) order: Arc<Order>,
    /// When to look at the entity.
    pub(super) timers: Arc<Timers>,
    /// What is counted of its class, if that is.
    pub(super) counts: Option<Arc<ClassCounts>>,
    /// Who follows the changes.
    pub(super) announcer: Announcer,
}

/// What an entity is made of.
pub(super) struct Parts<M: Model, J> {
    pub(super) key: EntityKey,
    pub(super) model: Arc<M>,
    pub(super) journal: Arc<J>,
    pub(super) clock: Clock,
    pub(super) options: ParticipantOptions,
    pub(super) committer: Arc<Committer<J>>,
    pub(super) tail: Arc<Tail>,
    pub(super) elsewhere: Option<Arc<Elsewhere<M::Event>>>,
    pub(super) failure: Failure,
    pub(super) told: Told,
}

pub(super) struct Entity<M: Model, J: Journal> {
    of: Parts<M, J>,
    turns: Weak<Turns<Self>>,
    participant: Result<Participant<M>, EntityError>,
    votes: HashMap<(TxId, Attempt), Voting<M>>,
    /// Answers that are owed as soon as a commit is acknowledged.
    commits: HashMap<TxId, oneshot::Sender<()>>,
    reads: HashMap<ReadId, Debt<Reading<M::State>>>,
    next_read: ReadId,
    /// What it asks of coordinators elsewhere as soon as it is in the directory.
    questions: Vec<Output<M::State, M::Event>>,
    /// Why the record was refused that it is told of now.
    unrecorded: Option<Unrecorded>,
    /// Itself, as long as something is under way for a coordinator elsewhere.
    kept: Option<Arc<Live<M, J>>>,
    /// The earliest tick that a timer has been set for.
    tick_at: Millis,
    durable: DurableRecords,
    applied_since_snapshot: usize,
    /// What has been applied and not told to the timers, if the entity may have any.
    applied: Vec<TxId>,
    /// After how many of them the state is weighed next: not after each, as that may take as long as the state is large.
    weigh_at: usize,
}

impl<M: Model, J: Journal> Entity<M, J> {
    /// An entity as the journal has it.
    pub(super) async fn recovered(of: Parts<M, J>, turns: Weak<Turns<Self>>) -> Box<Self> {
        let recovered = recover(&of).await;
        let (participant, durable, questions) = match recovered {
            Ok(Recovered { participant, durable, questions }) => (Ok(participant), durable, questions),
            Err(cause) => {
                tracing::error!(entity = %of.key, %cause, "entity cannot be recovered");
                (Err(cause), DurableRecords::default(), Vec::new())
            }
        };
        match &participant {
            Err(cause) if cause.is_transient() => of.told.loading.unread(),
            _ => of.told.loading.read(),
        }
        of.told.footprint.set_has_records(durable.complete_up_to() > Seq::NONE);
        let mut entity = Self {
            of,
            turns,
            participant,
            votes: HashMap::new(),
            commits: HashMap::new(),
            reads: HashMap::new(),
            next_read: ReadId(0),
            questions,
            unrecorded: None,
            kept: None,
            tick_at: Millis::NEVER,
            durable,
            applied_since_snapshot: 0,
            applied: Vec::new(),
            weigh_at: 1,
        };
        entity.tell_order();
        entity.keep_deadline();
        entity.weigh();
        if entity.of.model.is_timed(&entity.of.key) {
            entity.tell_timers(&[]);
        }
        Box::new(entity)
    }

    /// Takes an input; what is said to `asker`.
    fn step(&mut self, asker: Asker, input: Input<M::Event>) -> Option<Heard<M::State, M::Event>> {
        let Ok(participant) = &mut self.participant else { return None };
        let mut heard = None;
        for output in participant.step(input, self.of.clock.now()) {
            let said = self.carry_out(asker, output);
            heard = heard.or(said);
        }
        self.tell_order();
        if !self.applied.is_empty() {
            let applied = std::mem::take(&mut self.applied);
            self.tell_timers(&applied);
        }
        if self.applied_since_snapshot >= self.weigh_at {
            self.weigh_at = 2 * self.applied_since_snapshot;
            self.weigh();
        }
        self.keep_deadline();
        self.snapshot_if_due();
        self.let_go();
        heard
    }

    fn carry_out(&mut self, asker: Asker, output: Output<M::State, M::Event>) -> Option<Heard<M::State, M::Event>> {
        match output {
            Output::Send(message) if self.is_elsewhere(&message.to) => self.say(message),
            // Questions have no receiver here: a coordinator lives as long as its transaction.
            Output::Send(message) => match message.said {
                Said::Vote(vote) if asker == Asker::Voter(message.tx, message.attempt) => {
                    return Some(Heard::Vote(vote));
                }
                Said::Vote(vote) => {
                    if let Some(Voting { debt, events, .. }) = self.votes.remove(&(message.tx, message.attempt)) {
                        self.count(&vote, events.as_ref());
                        debt.into_iter().for_each(|debt| pay(debt, Ok(vote.clone())));
                    }
                }
                Said::Ack(_) if asker == Asker::Committer(message.tx) => return Some(Heard::Ack),
                Said::Ack(_) => {
                    if let Some(debt) = self.commits.remove(&message.tx) {
                        pay(debt, ());
                    }
                }
                Said::Ask(_) => {}
            },
            Output::Applied(applied) => {
                self.applied_since_snapshot += 1;
                if self.of.model.is_timed(&self.of.key) {
                    self.applied.push(applied.tx);
                }
            }
            Output::ReadReply { id, view } => return self.answer_read(asker, id, Ok(view)),
            Output::ReadExpired { id, waits_for } => return self.answer_read(asker, id, Err(waits_for)),
            Output::ProtocolError { decide } if self.is_elsewhere(&decide.coordinator) => {
                tracing::error!(entity = %self.of.key, ?decide, "never promised what is decided; it has no effect");
            }
            Output::ProtocolError { decide } => panic!("{}: never promised what is decided: {decide:?}", self.of.key),
            Output::Append { write, record, .. } => self.append(write, record),
            // The engine has failed with the append.
            Output::Halt => {}
        }
        None
    }

    fn answer_read(
        &mut self,
        asker: Asker,
        id: ReadId,
        reading: Reading<M::State>,
    ) -> Option<Heard<M::State, M::Event>> {
        if asker == Asker::Reader(id) {
            return Some(Heard::Reading(reading));
        }
        if let Some(debt) = self.reads.remove(&id) {
            pay(debt, Ok(reading));
        }
        None
    }

    fn count(&self, vote: &Vote<M::Event>, events: Option<&EventIds>) {
        match (&self.of.told.counts, events, vote) {
            (Some(counts), Some(events), Vote::Yes { answer, .. }) => counts.admitted(events, answer.in_line),
            (Some(counts), _, Vote::No(rejection)) => counts.refused(&rejection.refusal.event),
            _ => {}
        }
    }

    /// Counts a transaction that has not got its vote.
    fn count_delay(&self, tx: TxId) {
        if let (Some(counts), Ok(participant)) = (&self.of.told.counts, &self.participant) {
            participant.admission().culprit(tx).into_iter().for_each(|culprit| counts.delayed(culprit));
        }
    }

    /// Tells up to where everything is decided.
    fn tell_order(&self) {
        let Told { order, announcer, .. } = &self.of.told;
        if let Ok(participant) = &self.participant
            && order.advance(participant.first_unrecorded())
        {
            announcer.announce();
        }
    }

    /// Tells what has been applied, and what is due in the state that is applied.
    fn tell_timers(&self, applied: &[TxId]) {
        if let Ok(participant) = &self.participant {
            let due = self.of.model.due(&self.of.key, participant.admission().base());
            self.of.told.timers.applied(&self.of.key, applied, due.map(|due| due.at));
        }
    }

    /// Tells how much memory the state takes.
    fn weigh(&self) {
        if let Ok(participant) = &self.participant {
            self.of.told.footprint.set(self.of.model.bytes(&self.of.key, participant.admission().base()));
        }
    }

    /// Sees to it that the participant is woken at its next deadline, as long as somebody has the entity.
    fn keep_deadline(&mut self) {
        let Ok(participant) = &self.participant else { return };
        let Some(at) = participant.next_deadline().filter(|&at| at < self.tick_at) else { return };
        self.tick_at = at;
        let (turns, left) = (Weak::clone(&self.turns), self.of.clock.until(at));
        tokio::spawn(async move {
            tokio::time::sleep(left).await;
            if let Some(turns) = turns.upgrade() {
                drop(turns.take(|entity| {
                    entity.tick_at = Millis::NEVER;
                    entity.step(Asker::Nobody, Input::Tick);
                    Answer::now(())
                }));
            }
        });
    }

    fn snapshot_if_due(&mut self) {
        let Ok(participant) = &self.participant else { return };
        if self.applied_since_snapshot < EFFECTS_BETWEEN_SNAPSHOTS {
            return;
        }
        self.applied_since_snapshot = 0;
        self.weigh_at = 1;
        let payload = participant.snapshot().encode();
        let image = Image { entity: self.of.key.clone(), seq: self.durable.complete_up_to(), payload };
        // Submitted by the call; a snapshot that is not kept costs the next recovery some time.
        drop(self.of.journal.save_snapshot(image));
    }

    /// Asks coordinators elsewhere what became of the promises that it was recovered with.
    pub(super) fn ask(&mut self) -> Answer<()> {
        for question in std::mem::take(&mut self.questions) {
            self.carry_out(Asker::Nobody, question);
        }
        Answer::now(())
    }

    /// Asks `coordinator`, which is elsewhere, what became of the promises to it.
    pub(super) fn ask_again(&mut self, coordinator: EntityKey) -> Answer<()> {
        self.step(Asker::Nobody, Input::Again { coordinator });
        Answer::now(())
    }

    fn is_elsewhere(&self, coordinator: &EntityKey) -> bool {
        self.of.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.coordinator() != coordinator)
    }

    fn say(&mut self, message: ToCoordinator<M::Event>) {
        if let Said::Vote(vote) = &message.said
            && let Some(Voting { events, .. }) = self.votes.remove(&(message.tx, message.attempt))
        {
            self.count(vote, events.as_ref());
        }
        let unrecorded = self.unrecorded.clone().filter(|_| message.said == Said::Vote(Vote::NotRecorded));
        if let Some(elsewhere) = &self.of.elsewhere {
            elsewhere.say(message, unrecorded);
        }
    }

    /// Appends a record of a promise in a task, which takes a turn when it is durable or refused.
    fn append(&mut self, write: WriteId, mut record: Record<M::Event>) {
        record.note_first_undecided(self.of.told.order.first_undecided());
        let live = Arc::clone(self.kept.as_ref().expect("what has promised something keeps itself"));
        let Parts { committer, elsewhere, failure, .. } = &self.of;
        let (committer, elsewhere, failure) = (Arc::clone(committer), elsewhere.clone(), failure.clone());
        let tx = match &record {
            Record::Prepared(prepared) => prepared.branch.tx,
            Record::Outcome { tx, .. } => *tx,
            _ => unreachable!("a participant writes of its promises"),
        };
        let note = self.note(&record);
        let (key, tail, kind) = (self.of.key.clone(), Arc::clone(&live.tail), Kind(record.kind()));
        let mut appends = vec![Append { key: key.clone(), tail, kind, payload: record.encode(), depends_on: None }];
        appends.extend(note.as_ref().map(Note::append::<M::Event>));
        let timers = Arc::clone(&self.of.told.timers);
        if let Record::Outcome { decision: Decision::Abort, .. } = record {
            timers.cancelled(&key, tx);
        }
        if let Some(elsewhere) = &elsewhere {
            elsewhere.promises.depart();
        }
        origin::spawn(async move {
            let progress = Progress::new(tx, key.clone(), moment(FAR));
            let records = appends.len() as u64;
            let mut unrecorded = None;
            let (result, seq) = match committer.append(appends, None, &progress, || ()).await {
                Ok((seqs, position)) => {
                    note.iter().zip(&seqs[1..]).for_each(|(note, &seq)| timers.noted(note, seq));
                    if let Some(elsewhere) = elsewhere {
                        let before = Position(position.0.saturating_sub(records));
                        elsewhere.promises.written(&key, &record, before, position);
                    }
                    (Written::Durable, seqs.first().copied())
                }
                Err(CommitError::Append(AppendError::InDoubt { why })) => {
                    failure.fail(format!("the journal cannot say whether a promise of {key} is durable: {why}"));
                    (Written::InDoubt, None)
                }
                Err(cause) => {
                    tracing::warn!(entity = %key, %tx, %cause, "a promise or its outcome is not recorded");
                    timers.cancelled(&key, tx);
                    unrecorded = Some(Unrecorded::from(&cause));
                    (Written::Refused, None)
                }
            };
            drop(live.turn(move |entity| {
                if let Some(seq) = seq {
                    entity.durable.add(seq);
                    entity.of.told.footprint.set_has_records(true);
                }
                entity.unrecorded = unrecorded;
                entity.step(Asker::Nobody, Input::Written { write, result });
                entity.unrecorded = None;
                if let Some(elsewhere) = &entity.of.elsewhere {
                    elsewhere.promises.arrived();
                    elsewhere.has_settled();
                }
                Answer::now(())
            }));
        });
    }

    /// The note that has to be written with a promise that may set a timer.
    fn note(&self, record: &Record<M::Event>) -> Option<Note> {
        let Record::Prepared(prepared) = record else { return None };
        let branch = &prepared.branch;
        let (key, model) = (&self.of.key, &self.of.model);
        let may_set = model.is_timed(key) && branch.work.events().any(|event| model.may_set_timer(key, event));
        may_set.then(|| self.of.told.timers.begin(key, branch.tx)).flatten()
    }

    /// Keeps itself in memory as long as it has promised something to a coordinator elsewhere.
    pub(super) fn keep(&mut self, live: Arc<Live<M, J>>) -> Answer<()> {
        self.kept = Some(live);
        self.let_go();
        Answer::now(())
    }

    fn let_go(&mut self) {
        if self.kept.is_some() && self.participant.as_ref().is_ok_and(Participant::is_idle) {
            self.kept = None;
        }
    }

    /// Asks for a vote, which the coordinator elsewhere is told. `live` is this entity.
    pub(super) fn prepare_elsewhere(&mut self, prepare: Prepare<M::Event>, live: Arc<Live<M, J>>) -> Answer<()> {
        let Branch { tx, attempt, work, .. } = &prepare.request.branch;
        let (tx, attempt) = (*tx, *attempt);
        if let Err(cause) = &self.participant {
            tracing::warn!(%tx, entity = %self.of.key, %cause, "an entity cannot promise anything");
            let unrecorded = Some(Unrecorded::from(cause));
            let (to, from, said) = (prepare.coordinator, self.of.key.clone(), Said::Vote(Vote::NotRecorded));
            if let Some(elsewhere) = &self.of.elsewhere {
                elsewhere.say(ToCoordinator { to, from, tx, attempt, said }, unrecorded);
            }
            return Answer::now(());
        }
        let names = work.events().map(|event| self.of.model.event_name(event));
        let events = self.of.told.counts.as_ref().map(|counts| counts.ids(names));
        let span = Origin::with_current(|origin| origin.promise(&self.of.key, tx)).unwrap_or_else(Span::none);
        let is_new = self.votes.insert((tx, attempt), Voting { debt: None, events, _span: span }).is_none();
        self.kept = Some(live);
        self.step(Asker::Nobody, Input::Prepare(prepare));
        if is_new {
            self.count_delay(tx);
        }
        Answer::now(())
    }

    /// Tells the decision of a coordinator elsewhere. `live` is this entity.
    pub(super) fn decide_elsewhere(&mut self, decide: Decide, live: Arc<Live<M, J>>) -> Answer<()> {
        self.votes.remove(&(decide.tx, decide.attempt));
        self.kept = Some(live);
        self.step(Asker::Nobody, Input::Decide(decide));
        Answer::now(())
    }

    /// Asks for a vote; answered when there is one.
    pub(super) fn prepare(&mut self, prepare: Prepare<M::Event>) -> Answered<Vote<M::Event>> {
        if let Err(cause) = &self.participant {
            return Answer::now(Err(cause.clone()));
        }
        let (tx, attempt) = (prepare.request.branch.tx, prepare.request.branch.attempt);
        let names = prepare.request.branch.work.events().map(|event| self.of.model.event_name(event));
        let events = self.of.told.counts.as_ref().map(|counts| counts.ids(names));
        if let Some(Heard::Vote(vote)) = self.step(Asker::Voter(tx, attempt), Input::Prepare(prepare)) {
            self.count(&vote, events.as_ref());
            return Answer::now(Ok(vote));
        }
        self.count_delay(tx);
        let (debt, answer) = Answer::later();
        self.votes.insert((tx, attempt), Voting { debt: Some(debt), events, _span: Span::none() });
        answer
    }

    /// What is due next if every open transaction aborts.
    pub(super) fn due(&self) -> Answered<Option<Due<M::Event>>> {
        let due = self.participant.as_ref().map(|participant| participant.admission().due()).map_err(Clone::clone);
        if due.is_ok() && self.of.model.is_timed(&self.of.key) {
            self.tell_timers(&[]);
        }
        Answer::now(due)
    }

    /// Tells that the decision to commit has its place in the journal.
    pub(super) fn precommit(&mut self, precommit: Precommit) -> Answer<()> {
        self.step(Asker::Nobody, Input::Precommit(precommit));
        Answer::now(())
    }

    /// What `tx` waits for here, if it waits.
    pub(super) fn waits_for(&mut self, tx: TxId) -> Answer<Option<Vec<Wait>>> {
        Answer::now(self.participant.as_mut().ok().and_then(|participant| participant.waits_for(tx)))
    }

    /// Tells the decision, and where its record stands if there is one. A commit is answered when it is acknowledged.
    pub(super) fn decide(&mut self, decide: Decide, record: Option<Seq>) -> Answer<()> {
        // Nobody waits any more for a vote on it; mostly nobody has.
        if !self.votes.is_empty() {
            self.votes.remove(&(decide.tx, decide.attempt));
        }
        if let Some(seq) = record {
            self.durable.add(seq);
            self.of.told.footprint.set_has_records(true);
        }
        let (tx, decision) = (decide.tx, decide.decision);
        let heard = self.step(Asker::Committer(tx), Input::Decide(decide));
        if decision == Decision::Abort || self.participant.is_err() || heard.is_some() {
            return Answer::now(());
        }
        let (debt, answer) = Answer::later();
        self.commits.insert(tx, debt);
        answer
    }

    /// What the entity is, if it is in a final state by its record `seq`, which is the last one.
    pub(super) fn ended(&self, seq: Seq) -> Answered<Option<Snapshot<M::State, M::Event>>> {
        let is_last = self.durable.complete_up_to() == seq && self.durable.beyond().next().is_none();
        let ended = |participant: &Participant<M>| {
            let is_final = self.of.model.is_final(&self.of.key, participant.admission().base());
            let mut snapshot = (is_last && is_final).then(|| participant.snapshot())?;
            // What asks only leaves nothing behind, whatever becomes of it.
            snapshot.pending.retain(|pending| pending.prepared.branch.work.has_event());
            snapshot.pending.is_empty().then_some(snapshot)
        };
        Answer::now(self.participant.as_ref().map(ended).map_err(Clone::clone))
    }

    /// The tombstone of the entity is durable as its record `seq`.
    pub(super) fn buried(&mut self, seq: Seq) -> Answer<()> {
        self.durable.add(seq);
        Answer::now(())
    }

    /// The first slot whose transaction is not decided, or not given yet.
    pub(super) fn first_unapplied(&self) -> Answered<Slot> {
        let first = self.participant.as_ref().map(|participant| participant.admission().first_unapplied());
        Answer::now(first.map_err(Clone::clone))
    }

    /// The first slot of which it is not durable yet what becomes of it, or that has not been given.
    pub(super) fn first_unrecorded(&self) -> Answered<Slot> {
        Answer::now(self.participant.as_ref().map(Participant::first_unrecorded).map_err(Clone::clone))
    }

    /// Reads the state; answered when `mode` allows, or the deadline has passed.
    pub(super) fn read(
        &mut self,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Millis,
    ) -> Answered<Reading<M::State>> {
        if let Err(cause) = &self.participant {
            return Answer::now(Err(cause.clone()));
        }
        let id = self.next_read;
        self.next_read = ReadId(id.0 + 1);
        let read = Read { id, mode, after, deadline };
        if let Some(Heard::Reading(reading)) = self.step(Asker::Reader(id), Input::Read(read)) {
            return Answer::now(Ok(reading));
        }
        let (debt, answer) = Answer::later();
        self.reads.insert(id, debt);
        answer
    }
}

/// Pays what is owed; nobody may be left to take it.
fn pay<T>(debt: oneshot::Sender<T>, answer: T) {
    drop(debt.send(answer));
}

/// An entity as the journal has it, and what it asks of coordinators elsewhere.
struct Recovered<M: Model> {
    participant: Participant<M>,
    durable: DurableRecords,
    questions: Vec<Output<M::State, M::Event>>,
}

async fn recover<M: Model, J: Journal>(of: &Parts<M, J>) -> Result<Recovered<M>, EntityError> {
    let Parts { key, model, clock, options, committer, tail, .. } = of;
    let (model, options) = (Arc::clone(model), options.clone());
    let loaded = committer.load(key, tail).await?;
    let covered = loaded.snapshot.as_ref().map_or(Seq::NONE, |image| image.seq);
    let snapshot = loaded.snapshot.map(|image| Snapshot::decode(&image.payload)).transpose();
    let snapshot = snapshot.map_err(|cause| EntityError::undecodable(key, covered, cause))?;
    let mut records = Vec::new();
    let mut durable = DurableRecords::up_to(covered);
    for record in loaded.records {
        if record.kind == Kind::TOMBSTONE {
            // Those before may not be there.
            durable = DurableRecords::up_to(record.seq);
        }
        durable.add(record.seq);
        let decoded = Record::<M::Event>::decode(&record.payload);
        records.push(decoded.map_err(|cause| EntityError::undecodable(key, record.seq, cause))?);
    }
    let (participant, questions) = if snapshot.is_none() && records.is_empty() {
        let none = || RecoveryError::NoSuchEntity { entity: key.clone() };
        (Participant::new(model, key.clone(), options).ok_or_else(none)?, Vec::new())
    } else {
        Participant::recover(model, key.clone(), options, snapshot, records, clock.now())?
    };
    Ok(Recovered { participant, durable, questions })
}

/// Which records of an entity are reflected in what is kept of it in memory.
#[derive(Debug, Default)]
pub(super) struct DurableRecords {
    complete: Seq,
    beyond: BTreeSet<Seq>,
}

impl DurableRecords {
    pub(super) fn up_to(complete: Seq) -> Self {
        Self { complete, beyond: BTreeSet::new() }
    }

    pub(super) fn add(&mut self, seq: Seq) {
        if seq == self.complete.next() {
            self.complete = seq;
        } else if seq > self.complete {
            self.beyond.insert(seq);
        }
        while self.beyond.remove(&self.complete.next()) {
            self.complete = self.complete.next();
        }
    }

    /// The last record before which none is missing.
    pub(super) fn complete_up_to(&self) -> Seq {
        self.complete
    }

    /// Those behind one that is missing.
    pub(super) fn beyond(&self) -> impl Iterator<Item = Seq> {
        self.beyond.iter().copied()
    }
}
