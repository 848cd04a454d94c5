//! One transaction: it keeps the coordinator, carries its messages, and writes its records.
//!
//! A transaction is alone with its coordinator, so transactions never wait for each other here, only at entities. It
//! holds every entity it has asked until that entity has answered everything. It is a part of the task that wants it, so that
//! nothing is handed over to another thread but records to the journal; if that task does not wait any more, it runs on in one of its
//! own.
//!
//! Participants of other engines are sent messages, and it waits for theirs. Its client is told as soon as the decision is
//! durable; a task goes on with telling the participants.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use enact_journal::{AppendError, EntityKey, Journal, Kind, Refusal as JournalRefusal, Seq};
use tokio::runtime::Handle;
use tokio::task::consume_budget;
use tokio::time::timeout;

use super::committer::{Answered, Append, CommitError};
use super::decisions::Decisions;
use super::directory::Live;
use super::elsewhere::{Elsewhere, Inbox, Letter};
use super::envelope::Envelope;
use super::error::{Awaited, Doubt, EntityError, SubmitError};
use super::loading::{Loading, Stage};
use super::origin;
use super::progress::{Late, Progress};
use super::requests::{self, Repeatable};
use super::timers::Note;
use super::turns::Answer;
use super::{Command, FAR, GRACE, Receipt, Shared, Ticket, moment};
use crate::admission::Decision;
use crate::by_key::ByKey;
use crate::coordinator::{
    Begin, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, CoordinatorSnapshot, Reply,
};
use crate::message::{Decide, Precommit, Prepare, Said, ToCoordinator, ToParticipant, Vote};
use crate::model::{Call, Model};
use crate::participant::{Durability, WriteId, Written};
use crate::record::{DecisionRecord, Record};
use crate::tx::{Millis, Timestamp, TxId};

/// When a client that was turned away is advised to come back.
pub(super) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// After how long what is due elsewhere is asked for again.
const RESEND_AFTER: Millis = Millis(250);

pub(super) struct Transaction<M: Model, J: Journal> {
    tx: TxId,
    engine: Arc<Shared<M, J>>,
    /// What the client is told.
    told: Option<Result<Receipt, SubmitError>>,
    progress: Arc<Progress>,
    /// Every entity that was asked, until the transaction ends.
    held: ByKey<Held<M, J>>,
    /// Acknowledgements of decisions that have not been taken up yet.
    acks: Vec<Answer<()>>,
    /// Whether the one entity that was asked told it to stand in line, so that its acknowledgement is waited for.
    in_line: bool,
    /// The time of its events.
    at: Timestamp,
    /// Until when it waits for votes.
    over: Millis,
    /// Why the coordinator was told that something was not recorded.
    failure: Option<SubmitError>,
    ended: bool,
    /// What others say to it, as soon as one of them has been asked.
    inbox: Option<Inbox<M::Event>>,
    /// Nothing once its client has been told.
    ticket: Option<Ticket<M, J>>,
}

/// An entity that was asked.
struct Held<M: Model, J: Journal> {
    live: Arc<Live<M, J>>,
    /// Where the record of the transaction stands there.
    record: Option<Seq>,
}

/// What a coordinator still has to do when its client has been told: to tell participants elsewhere.
type Rest<M> = Coordinator<M>;

/// What early release asks of an append.
struct Early {
    depends_on: BTreeMap<EntityKey, TxId>,
    precommits: Vec<(EntityKey, Precommit)>,
}

impl<M: Model, J: Journal> Transaction<M, J> {
    pub(super) fn new(tx: TxId, ticket: Ticket<M, J>, progress: Arc<Progress>) -> Self {
        let mut transaction = Self::of(Arc::clone(ticket.engine()), tx, progress);
        transaction.ticket = Some(ticket);
        transaction
    }

    fn of(engine: Arc<Shared<M, J>>, tx: TxId, progress: Arc<Progress>) -> Self {
        Self {
            tx,
            engine,
            told: None,
            progress,
            held: ByKey::default(),
            acks: Vec::new(),
            in_line: false,
            at: Timestamp(0),
            over: Millis::NEVER,
            failure: None,
            ended: false,
            inbox: None,
            ticket: None,
        }
    }

    /// Tells a decision of an earlier run until it is acknowledged.
    pub(super) async fn resumed(engine: Arc<Shared<M, J>>, decision: DecisionRecord, inbox: Inbox<M::Event>) {
        let (tx, key) = (decision.tx, engine.coordinator.clone());
        let Some((addressed, _)) = decision.participants.first().cloned() else { return };
        let progress = Arc::new(Progress::new(tx, addressed, moment(FAR)));
        let mut transaction = Self::of(Arc::clone(&engine), tx, progress);
        transaction.inbox = Some(inbox);
        let snapshot = CoordinatorSnapshot { decisions: vec![decision], answers: Vec::new() };
        let (model, options, now) = (Arc::clone(&engine.model), Self::options(), engine.clock.now());
        match Coordinator::recover(model, key, options, Some(snapshot), [], now) {
            Ok((coordinator, outputs)) => transaction.tell_rest(coordinator, outputs).await,
            Err(cause) => engine.fail(cause.to_string()),
        }
    }

    fn options() -> CoordinatorOptions {
        let mut options = CoordinatorOptions::new(Durability::Shared);
        options.grace = GRACE;
        // It runs one transaction, and repeated requests find their answers in the journal.
        (options.recent_max, options.answers_max) = (0, 0);
        options
    }

    /// The coordinator of this transaction. It asks entities of other engines side by side, but for those with locks, most of which would
    /// make it begin anew.
    fn coordinator(&self) -> Coordinator<M> {
        let engine = Arc::clone(&self.engine);
        let coordinator = Coordinator::new(Arc::clone(&engine.model), engine.coordinator.clone(), Self::options());
        let Some(elsewhere) = engine.elsewhere.clone() else { return coordinator };
        coordinator.asking_side_by_side(move |entity| {
            elsewhere.engine_of(entity).is_some() && !engine.strategies.of(entity.class()).is_locking()
        })
    }

    /// Runs the command from its plan until its client can be told; its events have the time `at`, or that at which its plan
    /// begins.
    pub(super) fn begin(self, command: Command<M::Event>, deadline: Millis, at: Option<Timestamp>) -> UnderWay {
        UnderWay { tx: self.tx, running: Some(Box::pin(self.run(command, deadline, at))) }
    }

    async fn run(
        mut self,
        command: Command<M::Event>,
        deadline: Millis,
        at: Option<Timestamp>,
    ) -> Result<Receipt, SubmitError> {
        // A caller that submits one command after the other lets other tasks have the thread, too.
        consume_budget().await;
        let rest = self.execute(command, deadline, at).await;
        self.ended = true;
        let (tx, told) = (self.tx, self.told.take());
        match rest {
            None => self.let_go(),
            Some(rest) => drop(origin::spawn(self.tell_rest(rest, Vec::new()))),
        }
        told.unwrap_or(Err(SubmitError::InDoubt { tx, doubt: Doubt::Failed, graph: Vec::new() }))
    }

    /// Carries the command out until its client can be told; what is left to do then, if anything.
    async fn execute(
        &mut self,
        command: Command<M::Event>,
        deadline: Millis,
        at: Option<Timestamp>,
    ) -> Option<Rest<M>> {
        let (engine, progress) = (Arc::clone(&self.engine), Arc::clone(&self.progress));
        let Some(request) = command.idempotency.as_ref() else {
            return self.coordinate(command, (deadline, at), None).await;
        };
        // Rare states of this future lie elsewhere, so that all others are small.
        let admitted = Box::pin(requests::admit(&engine, self.tx, &command.key, request));
        match progress.wait(Stage::Key, admitted).await {
            Ok(Ok(repeatable)) => self.coordinate(command, (deadline, at), Some(repeatable)).await,
            Ok(Err(reply)) => {
                self.tell_client(reply);
                None
            }
            Err(Late) => {
                self.tell_client(Err(progress.give_up()));
                None
            }
        }
    }

    async fn coordinate(
        &mut self,
        command: Command<M::Event>,
        (deadline, at): (Millis, Option<Timestamp>),
        mut repeatable: Option<Repeatable<'_>>,
    ) -> Option<Rest<M>> {
        let mut coordinator = self.coordinator();
        let at = at.unwrap_or_else(|| self.engine.time.time());
        self.at = at;
        self.over = deadline + GRACE;
        let calls = iter::once((command.key, command.event)).chain(command.then);
        let begin = Begin {
            tx: self.tx,
            calls: calls.map(|(key, event)| Call::event(key, event)).collect(),
            at,
            deadline,
            idempotency: command.idempotency,
        };
        // A few acknowledgements come at once.
        let mut inputs = VecDeque::with_capacity(4);
        inputs.push_back(CoordinatorInput::Begin(begin));
        loop {
            self.take_in(&mut coordinator, &mut inputs, &mut repeatable).await;
            if self.told.is_some() || self.inbox.is_none() {
                return (coordinator.in_flight() > 0 && self.engine.is_sound()).then_some(coordinator);
            }
            inputs.extend(self.hear(&coordinator).await);
        }
    }

    /// Gives the coordinator all inputs, and those that follow from them at once.
    async fn take_in(
        &mut self,
        coordinator: &mut Coordinator<M>,
        inputs: &mut VecDeque<CoordinatorInput<M::Event>>,
        repeatable: &mut Option<Repeatable<'_>>,
    ) {
        while let Some(input) = inputs.pop_front() {
            // A large transaction lets others have the thread between its entities.
            consume_budget().await;
            let mut outputs = coordinator.step(input, self.engine.clock.now());
            // The client hears last: its effects are then in every mailbox before anything that it asks next.
            let reply = outputs.iter().position(|output| matches!(output, CoordinatorOutput::Reply { .. }));
            let reply = reply.map(|place| outputs.remove(place));
            for output in outputs.into_iter().chain(reply) {
                if let Some(input) = self.carry_out(output, repeatable).await {
                    inputs.push_back(input);
                }
            }
        }
    }

    /// What a participant elsewhere says next, or a tick when it is time for one.
    async fn hear(&mut self, coordinator: &Coordinator<M>) -> Option<CoordinatorInput<M::Event>> {
        let clock = self.engine.clock;
        let tick_at = coordinator.next_deadline().unwrap_or(Millis::NEVER);
        let inbox = self.inbox.as_mut().expect("somebody elsewhere has been asked");
        match timeout(clock.until(tick_at).min(FAR), inbox.next()).await {
            Ok(Letter::Said(heard, unrecorded)) => {
                if let (Some(elsewhere), Some(unrecorded)) = (&self.engine.elsewhere, unrecorded) {
                    self.failure = Some(unrecorded.at(elsewhere.engine_of(&heard.from).unwrap_or_default()));
                }
                Some(CoordinatorInput::Heard(*heard))
            }
            // The answer to a question that has been answered before.
            Ok(Letter::Due { .. }) => None,
            Ok(Letter::Again { engine }) => {
                let is_awaited = coordinator.debtors().any(|entity| self.is_at(entity, &engine));
                is_awaited.then_some(CoordinatorInput::Again)
            }
            Err(_) => Some(CoordinatorInput::Tick),
        }
    }

    /// Goes on with a decided transaction until every participant elsewhere has acknowledged it.
    async fn tell_rest(mut self, mut coordinator: Rest<M>, outputs: Vec<CoordinatorOutput<M::Event>>) {
        self.ended = true;
        self.ticket = None;
        // That of the command has come to its end, and there is one more record.
        self.progress = Arc::new(Progress::new(self.tx, self.progress.addressed().clone(), moment(FAR)));
        // Those of this engine have been told.
        self.let_go();
        let mut inputs = VecDeque::new();
        for output in outputs {
            inputs.extend(self.carry_out(output, &mut None).await);
        }
        loop {
            self.take_in(&mut coordinator, &mut inputs, &mut None).await;
            if coordinator.in_flight() == 0 || !self.engine.is_sound() {
                return;
            }
            inputs.extend(self.hear(&coordinator).await);
        }
    }

    /// The others, if one of them has `entity`.
    fn elsewhere_of(&self, entity: &EntityKey) -> Option<&Elsewhere<M::Event>> {
        self.engine.elsewhere.as_ref().map(Arc::as_ref).filter(|elsewhere| elsewhere.engine_of(entity).is_some())
    }

    fn is_at(&self, entity: &EntityKey, engine: &str) -> bool {
        self.elsewhere_of(entity).and_then(|elsewhere| elsewhere.engine_of(entity)) == Some(engine)
    }

    /// Listens to others from now on.
    fn listen(&mut self) {
        if let Some(elsewhere) = &self.engine.elsewhere {
            self.inbox.get_or_insert_with(|| elsewhere.inbox(self.tx));
        }
    }

    /// Lets go of every entity, of one that is still to take a decision up as soon as it has.
    fn let_go(&mut self) {
        let (engine, tx) = (Arc::clone(&self.engine), self.tx);
        let (acks, held) = (std::mem::take(&mut self.acks), std::mem::take(&mut self.held));
        let release = move || held.into_iter().for_each(|(_, held)| engine.directory.release(&held.live));
        if acks.is_empty() {
            return release();
        }
        origin::spawn(async move {
            for ack in acks {
                if let Err(cause) = ack.await {
                    // The entity is recovered from the journal, where it finds what was decided.
                    tracing::error!(%tx, %cause, "a decision could not be told");
                }
            }
            release();
        });
    }

    /// Does what the coordinator wants; what it hears in return, if anything.
    async fn carry_out(
        &mut self,
        output: CoordinatorOutput<M::Event>,
        repeatable: &mut Option<Repeatable<'_>>,
    ) -> Option<CoordinatorInput<M::Event>> {
        match output {
            CoordinatorOutput::Send { to, message } if self.elsewhere_of(&to).is_some() => {
                self.send(to, message);
                None
            }
            CoordinatorOutput::Send { to, message: ToParticipant::Prepare(prepare) } => {
                Some(self.ask(to, prepare).await)
            }
            CoordinatorOutput::Send { to, message: ToParticipant::Decide(decide) } => self.tell(&to, decide).await,
            CoordinatorOutput::Append { write, records, depends_on, precommits, .. } => {
                let early = Early { depends_on, precommits };
                Some(self.append(write, records, early, repeatable.as_ref()).await)
            }
            CoordinatorOutput::Reply { reply, .. } => {
                let reply = self.receipt(reply);
                // A client that repeats the request now finds its answer, not a request that is running.
                *repeatable = None;
                self.tell_client(reply);
                None
            }
            CoordinatorOutput::LetDue { tx, entity } => Some(Box::pin(self.let_due(tx, &entity)).await),
            // The engine has failed with the append, and its clients are told with it.
            CoordinatorOutput::Halt => None,
        }
    }

    /// Waits until what is due at `entity` has happened.
    async fn let_due(&mut self, tx: TxId, entity: &EntityKey) -> CoordinatorInput<M::Event> {
        if self.elsewhere_of(entity).is_some() {
            return self.let_due_elsewhere(tx, entity).await;
        }
        let (engine, progress) = (Arc::clone(&self.engine), Arc::clone(&self.progress));
        let cause = match progress.wait(Stage::Due(entity.clone()), engine.let_due(entity, self.at)).await {
            Ok(Ok(_)) => return CoordinatorInput::Settled { tx },
            Ok(Err(cause @ (SubmitError::Timeout { .. } | SubmitError::InDoubt { .. }))) => {
                tracing::warn!(%tx, %entity, %cause, "what is due has not happened");
                progress.give_up()
            }
            Ok(Err(cause)) => cause,
            Err(Late) => progress.give_up(),
        };
        self.failure = Some(cause);
        CoordinatorInput::Unsettled { tx }
    }

    /// Has the engine of `entity` let happen what is due there, and waits until it has.
    async fn let_due_elsewhere(&mut self, tx: TxId, entity: &EntityKey) -> CoordinatorInput<M::Event> {
        let (engine, progress, clock) = (Arc::clone(&self.engine), Arc::clone(&self.progress), self.engine.clock);
        self.listen();
        let (Some(elsewhere), Some(inbox)) = (&engine.elsewhere, &mut self.inbox) else {
            unreachable!("the entity is elsewhere")
        };
        let mut again = clock.now();
        while progress.reach(Stage::Due(entity.clone())).is_ok() && clock.now() < self.over {
            let left = clock.until(self.over);
            if again <= clock.now() {
                let left_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
                let (entity, coordinator) = (entity.clone(), engine.coordinator.clone());
                let to = entity.clone();
                elsewhere.send(&to, &Envelope::LetDue { entity, by: self.at, left_ms, coordinator, tx });
                again = clock.now() + RESEND_AFTER;
            }
            match timeout(clock.until(again).min(left), inbox.next()).await {
                Ok(Letter::Due { has_happened: true }) => return CoordinatorInput::Settled { tx },
                Ok(Letter::Due { has_happened: false }) => break,
                Ok(Letter::Again { engine }) if elsewhere.engine_of(entity) == Some(&*engine) => again = clock.now(),
                // Nothing is held: a participant that has promised something asks, and is told to give it up.
                Ok(Letter::Said(..) | Letter::Again { .. }) | Err(_) => {}
            }
        }
        self.failure = Some(progress.give_up());
        CoordinatorInput::Unsettled { tx }
    }

    /// Sends a message to a participant elsewhere.
    fn send(&mut self, to: EntityKey, message: ToParticipant<M::Event>) {
        self.listen();
        let (engine, clock) = (Arc::clone(&self.engine), self.engine.clock);
        let Some(elsewhere) = &engine.elsewhere else { return };
        match message {
            ToParticipant::Prepare(prepare) => {
                let loading = Arc::<Loading>::default();
                loading.read();
                if self.progress.reach(Stage::Entity { key: to.clone(), loading }).is_ok() {
                    let left = clock.until(prepare.request.deadline);
                    elsewhere.ask(to, prepare, left, engine.model.version());
                }
            }
            ToParticipant::Decide(decide) => {
                let name = to.clone();
                elsewhere.send(&name, &Envelope::Decide { to, decide });
            }
        }
    }

    /// Asks for a vote; a tick if there is none when the deadline is over.
    async fn ask(&mut self, to: EntityKey, prepare: Prepare<M::Event>) -> CoordinatorInput<M::Event> {
        let tick_at = self.over;
        let (tx, attempt) = (prepare.request.branch.tx, prepare.request.branch.attempt);
        let coordinator = prepare.coordinator.clone();
        let vote = match self.hold(&to) {
            Err(cause) => self.cannot_vote(cause),
            Ok(live) => match self.progress.reach(live.stage()) {
                Ok(()) => {
                    let clock = self.engine.clock;
                    let vote = match live.turn(|entity| entity.prepare(prepare)).here() {
                        Ok(vote) => Ok(vote),
                        Err(mut answer) => loop {
                            match timeout(clock.until(tick_at), &mut answer).await {
                                Ok(vote) => break vote,
                                // The timer is of another clock, by which it may be early.
                                Err(_) if clock.now() < tick_at => {}
                                Err(_) => return CoordinatorInput::Tick,
                            }
                        },
                    };
                    match vote {
                        Ok(Ok(vote)) => vote,
                        Ok(Err(cause)) => self.cannot_vote(cause),
                        Err(cause) => self.cannot_vote(live.ended(&cause)),
                    }
                }
                Err(Late) => Vote::Expired(Vec::new()),
            },
        };
        self.in_line = matches!(&vote, Vote::Yes { answer, .. } if answer.in_line);
        CoordinatorInput::Heard(ToCoordinator { to: coordinator, from: to, tx, attempt, said: Said::Vote(vote) })
    }

    fn hold(&mut self, key: &EntityKey) -> Result<Arc<Live<M, J>>, EntityError> {
        if let Some(held) = self.held.get(key) {
            return Ok(Arc::clone(&held.live));
        }
        let live = self.engine.directory.get(key)?;
        self.held.insert(key.clone(), Held { live: Arc::clone(&live), record: None });
        Ok(live)
    }

    fn cannot_vote(&mut self, cause: EntityError) -> Vote<M::Event> {
        self.failure = Some(cause.into());
        Vote::NotRecorded
    }

    /// Tells a decision. That an entity has taken it up is its acknowledgement; of a commit in line, that it has been applied.
    async fn tell(&mut self, to: &EntityKey, decide: Decide) -> Option<CoordinatorInput<M::Event>> {
        let Held { live, record } = self.held.get(to)?;
        let (tx, attempt, coordinator, slot) = (decide.tx, decide.attempt, decide.coordinator.clone(), decide.slot);
        let commits = decide.decision == Decision::Commit;
        let record = *record;
        let ack = live.turn(move |entity| entity.decide(decide, record));
        let slot = slot.filter(|_| commits);
        if slot.is_none() || !self.in_line {
            self.acks.extend(ack.unless_here());
        } else {
            self.progress.stand_in_line(to);
            if let Err(cause) = ack.await {
                // It is in the journal, where the entity finds it when it is recovered.
                tracing::error!(tx = %self.tx, %cause, "a decision could not be told");
            }
        }
        let slot = slot?;
        Some(CoordinatorInput::Heard(ToCoordinator {
            to: coordinator,
            from: to.clone(),
            tx,
            attempt,
            said: Said::Ack(slot),
        }))
    }

    async fn append(
        &mut self,
        write: WriteId,
        records: Vec<(EntityKey, Record<M::Event>)>,
        early: Early,
        repeatable: Option<&Repeatable<'_>>,
    ) -> CoordinatorInput<M::Event> {
        let mut entries = Vec::with_capacity(records.len());
        let mut answered = None;
        let span = self.span(&records);
        let (timed, notes) = self.set_timers(&records);
        let mut kept = None;
        for (key, mut record) in records {
            if let Some(elsewhere) = self.engine.elsewhere.as_ref().filter(|_| Decisions::keeps(&record)) {
                entries.push(elsewhere.decisions.append(&record));
                if let (Record::Decision(decision), Some(repeatable)) = (&record, repeatable) {
                    let answer = Record::<M::Event>::Answer(Box::new(decision.answer.clone()));
                    let (place, kind) = (repeatable.place().clone(), Kind(answer.kind()));
                    answered = Some(Answered { place, kind, payload: answer.encode() });
                }
                kept = Some((entries.len() - 1, record));
                continue;
            }
            let held = self.held.get(&key).map(|held| &held.live);
            held.into_iter().for_each(|live| record.note_first_undecided(live.order.first_undecided()));
            let encoded = || (Kind(record.kind()), record.encode());
            match held {
                Some(live) => {
                    let (tail, depends_on) = (Arc::clone(&live.tail), early.depends_on.get(&key).copied());
                    let (kind, payload) = encoded();
                    entries.push(Append { key, tail, kind, payload, depends_on });
                }
                // The coordinator's own record: needed again only by a repetition of the request.
                None => {
                    answered = repeatable.map(|repeatable| {
                        let (kind, payload) = encoded();
                        Answered { place: repeatable.place().clone(), kind, payload }
                    });
                }
            }
        }
        let keys: Vec<EntityKey> = entries.iter().map(|entry| entry.key.clone()).collect();
        entries.extend(notes.iter().map(Note::append::<M::Event>));
        let release = || {
            for (to, precommit) in early.precommits {
                if let Some(Held { live, .. }) = self.held.get(&to) {
                    drop(live.turn(move |entity| entity.precommit(precommit)));
                }
            }
        };
        let written = self.engine.committer.append(entries, answered, &self.progress, release).await;
        if written.is_err() {
            timed.iter().for_each(|entity| self.engine.timers.cancelled(entity, self.tx));
        }
        let result = match written {
            Ok((seqs, _)) => {
                if let (Some(elsewhere), Some((index, record))) = (&self.engine.elsewhere, kept) {
                    if let Some(image) = elsewhere.decisions.written(record, seqs[index]) {
                        // Submitted by the call; a snapshot that is not kept costs the next start some time.
                        drop(self.engine.journal.save_snapshot(image));
                    }
                    elsewhere.has_settled();
                }
                notes.iter().zip(&seqs[keys.len()..]).for_each(|(note, &seq)| self.engine.timers.noted(note, seq));
                for (key, seq) in keys.iter().zip(seqs) {
                    self.held.get_mut(key).into_iter().for_each(|held| held.record = Some(seq));
                }
                span.into_iter().for_each(|span| self.engine.counts.committed(span));
                Written::Durable
            }
            Err(CommitError::Append(AppendError::InDoubt { why })) => {
                self.engine.fail(format!("the journal cannot say whether {} is durable: {why}", self.tx));
                Written::InDoubt
            }
            Err(cause) => {
                self.failure = Some(self.not_recorded(cause));
                Written::Refused
            }
        };
        CoordinatorInput::Written { write, result }
    }

    /// How many engines a commit in `records` is of, if one is in them.
    fn span(&self, records: &[(EntityKey, Record<M::Event>)]) -> Option<usize> {
        let mut is_commit = false;
        let mut others = BTreeSet::new();
        for (_, record) in records {
            is_commit |= matches!(record, Record::Committed { .. } | Record::Decision(_));
            if let (Some(elsewhere), Record::Decision(decision)) = (&self.engine.elsewhere, record) {
                others.extend(decision.participants.iter().filter_map(|(entity, _)| elsewhere.engine_of(entity)));
            }
        }
        is_commit.then_some(1 + others.len())
    }

    /// The entities at which the records may set a timer, and the notes of it that have to be written with them.
    fn set_timers(&self, records: &[(EntityKey, Record<M::Event>)]) -> (Vec<EntityKey>, Vec<Note>) {
        let may_set = |(key, record): &(EntityKey, Record<M::Event>)| match record {
            Record::Committed { events, .. } if self.engine.model.is_timed(key) => {
                events.iter().any(|event| self.engine.model.may_set_timer(key, event))
            }
            _ => false,
        };
        let timed: Vec<EntityKey> =
            records.iter().filter(|&record| may_set(record)).map(|(key, _)| key.clone()).collect();
        let notes = timed.iter().filter_map(|key| self.engine.timers.begin(key, self.tx)).collect();
        (timed, notes)
    }

    fn not_recorded(&self, cause: CommitError) -> SubmitError {
        match cause {
            CommitError::Append(AppendError::Refused(JournalRefusal::Overloaded { .. })) => {
                SubmitError::Overloaded { retry_after: RETRY_AFTER }
            }
            CommitError::Append(AppendError::Refused(JournalRefusal::StorageFull { why })) => {
                SubmitError::StorageFull { why }
            }
            CommitError::Append(AppendError::Refused(
                JournalRefusal::TooLarge { .. }
                | JournalRefusal::TooMany { .. }
                | JournalRefusal::RecordTooLarge { .. },
            )) => SubmitError::Failed { why: cause.to_string() },
            // An append queued behind a refused one finds its entities at other positions.
            CommitError::Append(AppendError::Refused(JournalRefusal::Conflict { .. })) if self.engine.is_sound() => {
                SubmitError::Overloaded { retry_after: RETRY_AFTER }
            }
            CommitError::Forsaken if self.engine.is_sound() => SubmitError::Overloaded { retry_after: RETRY_AFTER },
            CommitError::Late => self.progress.give_up(),
            // It was to be learnt where an entity's records end; nothing was submitted.
            CommitError::Read(cause) => EntityError::from(cause).into(),
            cause => {
                self.engine.fail(cause.to_string());
                SubmitError::Failed { why: cause.to_string() }
            }
        }
    }

    fn receipt(&mut self, reply: Reply) -> Result<Receipt, SubmitError> {
        match reply {
            Reply::Answered { tx, result, replayed } => match result {
                Ok(done) => Ok(Receipt { tx, state: done.state, result: done.result.map(|value| *value), replayed }),
                Err(refusal) => Err(SubmitError::Refused { refusal, replayed }),
            },
            Reply::TimedOut { waits_for, .. } if waits_for.is_empty() => Err(self.progress.give_up()),
            Reply::TimedOut { entity, waits_for } => {
                let awaited = Awaited::Entity(entity);
                Err(SubmitError::Timeout { tx: self.tx, awaited, waits_for, graph: Vec::new() })
            }
            Reply::Busy { .. } => Err(SubmitError::Overloaded { retry_after: RETRY_AFTER }),
            Reply::NotRecorded => {
                Err(self.failure.take().unwrap_or(SubmitError::Overloaded { retry_after: RETRY_AFTER }))
            }
            Reply::InDoubt => Err(SubmitError::InDoubt { tx: self.tx, doubt: Doubt::Failed, graph: Vec::new() }),
            Reply::KeyInUse => Err(SubmitError::KeyInUse { tx: self.tx, graph: Vec::new() }),
            Reply::KeyReused => Err(SubmitError::KeyReused),
        }
    }

    fn tell_client(&mut self, reply: Result<Receipt, SubmitError>) {
        self.told.get_or_insert(reply);
    }
}

impl<M: Model, J: Journal> Drop for Transaction<M, J> {
    fn drop(&mut self) {
        self.engine.under_way.end(self.tx);
        if !self.ended {
            // Nobody is left to tell the participants; recovery will.
            self.engine.fail(format!("the coordinator of {} ended before its transaction", self.tx));
        }
    }
}

/// A transaction under way, as a part of the task that wants it. Dropped, it runs on in a task of its own.
pub(super) struct UnderWay {
    tx: TxId,
    running: Option<Running>,
}

type Running = Pin<Box<dyn Future<Output = Result<Receipt, SubmitError>> + Send>>;

impl Future for UnderWay {
    type Output = Result<Receipt, SubmitError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let running = self.running.as_mut().expect("polled after its end");
        let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
        // Dropped after a panic, the transaction fails the engine.
        let polled = polled.unwrap_or(Poll::Ready(Err(SubmitError::InDoubt {
            tx: self.tx,
            doubt: Doubt::Failed,
            graph: Vec::new(),
        })));
        if polled.is_ready() {
            self.running = None;
        }
        polled
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let (Some(running), Ok(_)) = (self.running.take(), Handle::try_current()) {
            drop(origin::spawn(running));
        }
    }
}
