//! The actor of one live entity: it keeps the participant, and carries its messages and deadlines.
//!
//! The first message that an entity takes is `load`, sent before anybody else has the handle. Whatever comes meanwhile
//! waits in the mailbox, so every other handler finds the participant recovered, or the reason why it is not.
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use enact_actors::{Cx, Forward, Promise, Resolver, actor};
use enact_journal::{EntityKey, Journal, Seq, Snapshot as Image};
use tokio::time::Instant;

use super::clock::Clock;
use super::error::EntityError;
use super::loading::Loading;
use super::memory::Footprint;
use super::metrics::{ClassCounts, EventIds};
use super::queueing::Queueing;
use super::timers::Timers;
use crate::admission::{Decision, Wait};
use crate::message::{Decide, Precommit, Prepare, Said, Vote};
use crate::model::{Due, Model};
use crate::participant::{Input, Output, Participant, ParticipantOptions, Read, ReadId, ReadMode, View};
use crate::record::{Record, Snapshot};
use crate::tx::{Attempt, Millis, TxId};

/// How many effects are applied between two snapshots of an entity.
const EFFECTS_BETWEEN_SNAPSHOTS: usize = 256;

/// What a read got: a view, or what it waited for until its deadline.
pub(super) type Reading<S> = Result<View<S>, Vec<Wait>>;

/// Owes somebody an answer, unless the entity cannot be used.
type Debt<T> = Resolver<Result<T, EntityError>>;

/// A vote that is owed, and on what.
struct Voting<M: Model> {
    vote: Debt<Vote<M::Event>>,
    events: Option<EventIds>,
}

/// What others are told of an entity.
pub(super) struct Told {
    /// What has become of `load`, before anything is answered.
    pub(super) loading: Arc<Loading>,
    pub(super) footprint: Arc<Footprint>,
    /// How long messages wait.
    pub(super) queueing: Arc<Queueing>,
    /// When to look at the entity.
    pub(super) timers: Arc<Timers>,
    /// What is counted of its class, if that is.
    pub(super) counts: Option<Arc<ClassCounts>>,
}

pub(super) struct EntityActor<M: Model, J: Journal> {
    key: EntityKey,
    model: Arc<M>,
    journal: Arc<J>,
    clock: Clock,
    options: ParticipantOptions,
    told: Told,
    participant: Result<Participant<M>, EntityError>,
    votes: HashMap<(TxId, Attempt), Voting<M>>,
    /// Answers that are owed as soon as a commit is acknowledged.
    commits: HashMap<TxId, Resolver<()>>,
    reads: HashMap<ReadId, Debt<Reading<M::State>>>,
    next_read: ReadId,
    /// The earliest tick that a timer has been set for.
    tick_at: Millis,
    durable: DurableRecords,
    applied_since_snapshot: usize,
    /// What has been applied and not told to the timers, if the entity may have any.
    applied: Vec<TxId>,
    /// After how many of them the state is weighed next: not after each, as that may take as long as the state is large.
    weigh_at: usize,
}

impl<M: Model, J: Journal> EntityActor<M, J> {
    pub(super) fn new(
        key: EntityKey,
        model: Arc<M>,
        journal: Arc<J>,
        clock: Clock,
        options: ParticipantOptions,
        told: Told,
    ) -> Self {
        Self {
            participant: Err(EntityError::Ended { entity: key.clone(), why: "it has not been loaded".into() }),
            key,
            model,
            journal,
            clock,
            options,
            told,
            votes: HashMap::new(),
            commits: HashMap::new(),
            reads: HashMap::new(),
            next_read: ReadId(0),
            tick_at: Millis::NEVER,
            durable: DurableRecords::default(),
            applied_since_snapshot: 0,
            applied: Vec::new(),
            weigh_at: 1,
        }
    }

    async fn recover(&mut self) -> Result<Participant<M>, EntityError> {
        let image = self.journal.load_snapshot(&self.key).await?;
        let covered = image.as_ref().map_or(Seq::NONE, |image| image.seq);
        let snapshot = image.map(|image| Snapshot::decode(&image.payload)).transpose();
        let snapshot = snapshot.map_err(|cause| EntityError::undecodable(&self.key, covered, cause))?;
        let mut records = Vec::new();
        self.durable = DurableRecords::up_to(covered);
        for record in self.journal.read(&self.key, covered).await? {
            self.durable.add(record.seq);
            let decoded = Record::<M::Event>::decode(&record.payload);
            records.push(decoded.map_err(|cause| EntityError::undecodable(&self.key, record.seq, cause))?);
        }
        let (model, key, options) = (Arc::clone(&self.model), self.key.clone(), self.options.clone());
        let (participant, _) = Participant::recover(model, key, options, snapshot, records, self.clock.now())?;
        Ok(participant)
    }

    fn step(&mut self, cx: &Cx<Self>, input: Input<M::Event>) {
        let Ok(participant) = &mut self.participant else { return };
        for output in participant.step(input, self.clock.now()) {
            self.carry_out(output);
        }
        if !self.applied.is_empty() {
            let applied = std::mem::take(&mut self.applied);
            self.tell_timers(&applied);
        }
        if self.applied_since_snapshot >= self.weigh_at {
            self.weigh_at = 2 * self.applied_since_snapshot;
            self.weigh();
        }
        self.keep_deadline(cx);
        self.snapshot_if_due();
    }

    fn carry_out(&mut self, output: Output<M::State, M::Event>) {
        match output {
            Output::Send(message) => {
                // Questions have no receiver here: a coordinator lives as long as its transaction.
                match message.said {
                    Said::Vote(vote) => {
                        if let Some(voting) = self.votes.remove(&(message.tx, message.attempt)) {
                            self.count(&vote, voting.events.as_ref());
                            voting.vote.resolve(Ok(vote));
                        }
                    }
                    Said::Ack(_) => {
                        if let Some(waiting) = self.commits.remove(&message.tx) {
                            waiting.resolve(());
                        }
                    }
                    Said::Ask(_) => {}
                }
            }
            Output::Applied(applied) => {
                self.applied_since_snapshot += 1;
                if self.model.is_timed(&self.key) {
                    self.applied.push(applied.tx);
                }
            }
            Output::ReadReply { id, view } => self.answer_read(id, Ok(view)),
            Output::ReadExpired { id, waits_for } => self.answer_read(id, Err(waits_for)),
            Output::ProtocolError { decide } => panic!("{}: never promised what is decided: {decide:?}", self.key),
            Output::Append { .. } | Output::Halt => unreachable!("with a shared journal a participant writes nothing"),
        }
    }

    fn count(&self, vote: &Vote<M::Event>, events: Option<&EventIds>) {
        match (&self.told.counts, events, vote) {
            (Some(counts), Some(events), Vote::Yes { answer, .. }) => counts.admitted(events, answer.in_line),
            (Some(counts), _, Vote::No(rejection)) => counts.refused(&rejection.refusal.event),
            _ => {}
        }
    }

    /// Counts a transaction that has not got its vote.
    fn count_delay(&self, id: (TxId, Attempt)) {
        if let (Some(counts), Ok(participant), true) =
            (&self.told.counts, &self.participant, self.votes.contains_key(&id))
        {
            participant.admission().culprit(id.0).into_iter().for_each(|culprit| counts.delayed(culprit));
        }
    }

    fn note_wait(&self, sent: Option<Instant>) {
        if let Some(sent) = sent {
            self.told.queueing.note(sent.elapsed());
        }
    }

    /// Tells what has been applied, and what is due in the state that is applied.
    fn tell_timers(&self, applied: &[TxId]) {
        if let Ok(participant) = &self.participant {
            let due = self.model.due(&self.key, participant.admission().base());
            self.told.timers.applied(&self.key, applied, due.map(|due| due.at));
        }
    }

    /// Tells how much memory the state takes.
    fn weigh(&self) {
        if let Ok(participant) = &self.participant {
            self.told.footprint.set(self.model.bytes(&self.key, participant.admission().base()));
        }
    }

    fn answer_read(&mut self, id: ReadId, reading: Reading<M::State>) {
        if let Some(waiting) = self.reads.remove(&id) {
            waiting.resolve(Ok(reading));
        }
    }

    fn keep_deadline(&mut self, cx: &Cx<Self>) {
        let Ok(participant) = &self.participant else { return };
        if let Some(at) = participant.next_deadline().filter(|&at| at < self.tick_at) {
            self.tick_at = at;
            cx.after(self.clock.until(at), Self::tick);
        }
    }

    fn tick(&mut self, cx: &Cx<Self>) {
        self.tick_at = Millis::NEVER;
        self.step(cx, Input::Tick);
    }

    fn snapshot_if_due(&mut self) {
        let Ok(participant) = &self.participant else { return };
        if self.applied_since_snapshot < EFFECTS_BETWEEN_SNAPSHOTS {
            return;
        }
        self.applied_since_snapshot = 0;
        self.weigh_at = 1;
        let payload = participant.snapshot().encode();
        let image = Image { entity: self.key.clone(), seq: self.durable.complete_up_to(), payload };
        // Submitted by the call; a snapshot that is not kept costs the next recovery some time.
        drop(self.journal.save_snapshot(image));
    }
}

#[actor]
impl<M: Model, J: Journal> EntityActor<M, J> {
    /// Recovers the participant from the journal, as asked for at `sent`.
    pub(super) async fn load(&mut self, sent: Instant) {
        self.note_wait(Some(sent));
        self.participant = self.recover().await;
        match &self.participant {
            Err(cause) if cause.is_transient() => self.told.loading.unread(),
            _ => self.told.loading.read(),
        }
        self.told.footprint.set_has_records(self.durable.complete_up_to() > Seq::NONE);
        self.weigh();
        if self.model.is_timed(&self.key) {
            self.tell_timers(&[]);
        }
        if let Err(cause) = &self.participant {
            tracing::error!(entity = %self.key, %cause, "entity cannot be recovered");
        }
    }

    /// Asks for a vote; answered when there is one. Of `sent`, see [`Live::sent`](super::directory::Live::sent).
    pub(super) fn prepare(
        &mut self,
        cx: &Cx<Self>,
        prepare: Prepare<M::Event>,
        sent: Option<Instant>,
    ) -> Forward<Result<Vote<M::Event>, EntityError>> {
        self.note_wait(sent);
        if let Err(cause) = &self.participant {
            return cx.reply(Err(cause.clone()));
        }
        let (vote, resolver) = Promise::pair();
        let id = (prepare.request.branch.tx, prepare.request.branch.attempt);
        let names = prepare.request.branch.work.events().map(|event| self.model.event_name(event));
        let events = self.told.counts.as_ref().map(|counts| counts.ids(names));
        self.votes.insert(id, Voting { vote: resolver, events });
        self.step(cx, Input::Prepare(prepare));
        self.count_delay(id);
        cx.forward(vote)
    }

    /// What is due next if every open transaction aborts.
    pub(super) fn due(&mut self) -> Result<Option<Due<M::Event>>, EntityError> {
        let due = self.participant.as_ref().map(|participant| participant.admission().due()).map_err(Clone::clone)?;
        if self.model.is_timed(&self.key) {
            self.tell_timers(&[]);
        }
        Ok(due)
    }

    /// Tells that the decision to commit has its place in the journal.
    pub(super) fn precommit(&mut self, cx: &Cx<Self>, precommit: Precommit) {
        self.step(cx, Input::Precommit(precommit));
    }

    /// What `tx` waits for here, if it waits.
    pub(super) fn waits_for(&mut self, tx: TxId) -> Option<Vec<Wait>> {
        self.participant.as_mut().ok()?.waits_for(tx)
    }

    /// Tells the decision, and where its record stands if there is one. A commit is answered when it is acknowledged.
    pub(super) fn decide(&mut self, cx: &Cx<Self>, decide: Decide, record: Option<Seq>) -> Forward<()> {
        self.votes.remove(&(decide.tx, decide.attempt));
        if let Some(seq) = record {
            self.durable.add(seq);
            self.told.footprint.set_has_records(true);
        }
        if decide.decision == Decision::Abort || self.participant.is_err() {
            self.step(cx, Input::Decide(decide));
            return cx.reply(());
        }
        let (acknowledged, resolver) = Promise::pair();
        self.commits.insert(decide.tx, resolver);
        self.step(cx, Input::Decide(decide));
        cx.forward(acknowledged)
    }

    /// Reads the state; answered when `mode` allows, or the deadline has passed.
    pub(super) fn read(
        &mut self,
        cx: &Cx<Self>,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Millis,
        sent: Option<Instant>,
    ) -> Forward<Result<Reading<M::State>, EntityError>> {
        self.note_wait(sent);
        if let Err(cause) = &self.participant {
            return cx.reply(Err(cause.clone()));
        }
        let (reading, resolver) = Promise::pair();
        let id = self.next_read;
        self.next_read = ReadId(id.0 + 1);
        self.reads.insert(id, resolver);
        self.step(cx, Input::Read(Read { id, mode, after, deadline }));
        cx.forward(reading)
    }
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
        if seq > self.complete {
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
