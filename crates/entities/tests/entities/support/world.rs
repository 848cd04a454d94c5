//! Coordinators and participants on a network and disks that do exactly what a test tells them.
//!
//! Messages wait in `net` until they are delivered, doubled or dropped; records wait in `disk` until they are durable or
//! refused, in the order in which they were appended. A crash loses a node and what it has on the way to the disk; its
//! journal stays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use enact_entities::{
    Audited, Begin, Call, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, Durability,
    EarlyRelease, EntityKey, Idempotency, Input, Millis, Model, Output, Participant, ParticipantOptions, Precommit,
    Read, ReadId, ReadMode, Record, Reply, Snapshot, Strategy, Timestamp, ToCoordinator, ToParticipant, TxId, View,
    Vote, Wait, WriteId, Written, audit,
};

use super::bank::{Bank, Event, Hand};
use super::key;

#[derive(Clone, Debug)]
pub(crate) enum Packet<E = Event> {
    Down(EntityKey, ToParticipant<E>),
    Precommit(EntityKey, Precommit),
    Up(ToCoordinator<E>),
}

impl<E> Packet<E> {
    pub(crate) fn tx(&self) -> TxId {
        match self {
            Self::Down(_, ToParticipant::Prepare(prepare)) => prepare.request.branch.tx,
            Self::Down(_, ToParticipant::Decide(decide)) => decide.tx,
            Self::Precommit(_, precommit) => precommit.tx,
            Self::Up(up) => up.tx,
        }
    }

    /// The participant at one end.
    pub(crate) fn participant(&self) -> &EntityKey {
        match self {
            Self::Down(to, _) | Self::Precommit(to, _) => to,
            Self::Up(up) => &up.from,
        }
    }

    pub(crate) fn is_decision(&self) -> bool {
        matches!(self, Self::Down(_, ToParticipant::Decide(_)))
    }

    pub(crate) fn is_prepare(&self) -> bool {
        matches!(self, Self::Down(_, ToParticipant::Prepare(_)))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Queued<E> {
    pub(crate) owner: EntityKey,
    write: WriteId,
    pub(crate) records: Vec<(EntityKey, Record<E>)>,
    /// Behind whose record that of an entity has to stand.
    depends_on: BTreeMap<EntityKey, TxId>,
}

pub(crate) type Log<E> = Vec<Record<E>>;

/// A snapshot and the position in the journal that it is filed under.
pub(crate) type Filed<M> = (Snapshot<<M as Model>::State, <M as Model>::Event>, usize);

/// A participant and what it wants done.
pub(crate) type Recovered<M> = (Participant<M>, Vec<Output<<M as Model>::State, <M as Model>::Event>>);

/// A network of the entities of one model.
pub(crate) struct Net<M: Model> {
    pub(crate) model: Arc<M>,
    pub(crate) participant_options: ParticipantOptions,
    /// The strategies of entities that have another one than the rest.
    pub(crate) strategies: BTreeMap<EntityKey, Strategy>,
    pub(crate) coordinator_options: CoordinatorOptions,
    pub(crate) now: Millis,
    pub(crate) net: Vec<Packet<M::Event>>,
    pub(crate) disk: Vec<Queued<M::Event>>,
    pub(crate) logs: BTreeMap<EntityKey, Log<M::Event>>,
    pub(crate) snapshots: BTreeMap<EntityKey, Filed<M>>,
    pub(crate) participants: BTreeMap<EntityKey, Participant<M>>,
    pub(crate) coordinators: BTreeMap<EntityKey, Coordinator<M>>,
    /// Nodes that are down.
    pub(crate) down: BTreeSet<EntityKey>,
    pub(crate) replies: BTreeMap<TxId, Vec<Reply>>,
    pub(crate) reads: BTreeMap<ReadId, View<M::State>>,
    pub(crate) reads_expired: BTreeMap<ReadId, Vec<Wait>>,
    pub(crate) protocol_errors: usize,
    pub(crate) halted: BTreeSet<EntityKey>,
    /// Interesting situations that were reached.
    pub(crate) marks: BTreeSet<&'static str>,
    /// Nodes whose journal refused a record: it lags behind what they, or their snapshots, know.
    lagging: BTreeSet<EntityKey>,
    /// Participants that may have changed since the last check.
    touched: BTreeSet<EntityKey>,
    delayed: BTreeSet<(EntityKey, TxId)>,
    next_tx: u128,
    next_read: u64,
}

/// A network of the bank by hand.
pub(crate) type World = Net<Hand>;

impl<M: Model> Net<M> {
    pub(crate) fn with(model: Arc<M>, strategy: Strategy, durability: Durability) -> Self {
        Self {
            model,
            participant_options: ParticipantOptions::new(strategy),
            strategies: BTreeMap::new(),
            coordinator_options: CoordinatorOptions::new(durability),
            now: Millis(0),
            net: Vec::new(),
            disk: Vec::new(),
            logs: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            participants: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            down: BTreeSet::new(),
            replies: BTreeMap::new(),
            reads: BTreeMap::new(),
            reads_expired: BTreeMap::new(),
            protocol_errors: 0,
            halted: BTreeSet::new(),
            marks: BTreeSet::new(),
            lagging: BTreeSet::new(),
            touched: BTreeSet::new(),
            delayed: BTreeSet::new(),
            next_tx: 1,
            next_read: 1,
        }
    }

    pub(crate) fn durability(&self) -> Durability {
        self.coordinator_options.durability
    }

    pub(crate) fn new_tx(&mut self) -> TxId {
        self.next_tx += 1;
        TxId::from_u128(self.next_tx)
    }

    /// Starts a transaction of `calls` at `Coordinator/C`, with a deadline of one second.
    pub(crate) fn start(&mut self, calls: Vec<Call<M::Event>>) -> TxId {
        self.start_with(calls, None)
    }

    pub(crate) fn start_with(&mut self, calls: Vec<Call<M::Event>>, idempotency: Option<Idempotency>) -> TxId {
        let tx = self.new_tx();
        let deadline = self.now + Millis(1000);
        self.begin(&key("Coordinator/C"), Begin { tx, calls, at: Timestamp(0), deadline, idempotency });
        tx
    }

    /// Starts a transaction of one event.
    pub(crate) fn event(&mut self, entity: &str, event: M::Event) -> TxId {
        self.start(vec![Call::event(key(entity), event)])
    }

    pub(crate) fn begin(&mut self, coordinator: &EntityKey, begin: Begin<M::Event>) {
        self.coordinator_step(coordinator, CoordinatorInput::Begin(begin));
    }

    /// Runs one event to its end and expects that it is done.
    pub(crate) fn done(&mut self, entity: &str, event: M::Event) {
        let tx = self.event(entity, event);
        self.run();
        assert!(self.committed(tx), "{:?}", self.replies.get(&tx));
    }

    pub(crate) fn reply(&self, tx: TxId) -> Option<&Reply> {
        self.replies.get(&tx).and_then(|replies| replies.last())
    }

    pub(crate) fn committed(&self, tx: TxId) -> bool {
        matches!(self.reply(tx), Some(Reply::Answered { result: Ok(_), .. }))
    }

    pub(crate) fn refused(&self, tx: TxId) -> bool {
        matches!(self.reply(tx), Some(Reply::Answered { result: Err(_), .. }))
    }

    pub(crate) fn read(&mut self, entity: &str, mode: ReadMode, after: Option<TxId>) -> ReadId {
        self.read_until(self.now + Millis(100_000), entity, mode, after)
    }

    /// A read that comes when its deadline has passed.
    pub(crate) fn late_read(&mut self, entity: &str, mode: ReadMode) -> ReadId {
        self.read_until(self.now, entity, mode, None)
    }

    fn read_until(&mut self, deadline: Millis, entity: &str, mode: ReadMode, after: Option<TxId>) -> ReadId {
        self.next_read += 1;
        let id = ReadId(self.next_read);
        self.participant_step(&key(entity), Input::Read(Read { id, mode, after, deadline }));
        id
    }

    pub(crate) fn participant_step(&mut self, at: &EntityKey, input: Input<M::Event>) {
        if self.down.contains(at) || self.halted.contains(at) {
            return;
        }
        if !self.participants.contains_key(at) {
            self.recover_participant(at);
        }
        self.touched.insert(at.clone());
        let participant = self.participants.get_mut(at).expect("it was recovered");
        let outputs = participant.step(input, self.now);
        self.take_outputs(at, outputs);
        self.note_delays(at);
    }

    fn note_delays(&mut self, at: &EntityKey) {
        let admission = self.participants[at].admission();
        for n in 1..=self.next_tx {
            let tx = TxId::from_u128(n);
            if admission.delayed_attempt(tx).is_some() {
                self.delayed.insert((at.clone(), tx));
            }
        }
        if admission.in_progress().any(|entry| entry.committed) {
            self.marks.insert("deferred behind an open head");
        }
    }

    fn take_outputs(&mut self, at: &EntityKey, outputs: Vec<Output<M::State, M::Event>>) {
        for output in outputs {
            match output {
                Output::Send(up) => {
                    self.note_vote(&up);
                    self.net.push(Packet::Up(up));
                }
                Output::Append { write, record, .. } => {
                    let records = vec![(at.clone(), record)];
                    self.disk.push(Queued { owner: at.clone(), write, records, depends_on: BTreeMap::new() });
                }
                Output::Applied(_) => {}
                Output::ReadReply { id, view } => {
                    assert_eq!(self.reads.insert(id, view), None, "a read is answered once");
                }
                Output::ReadExpired { id, waits_for } => {
                    self.reads_expired.insert(id, waits_for);
                }
                Output::ProtocolError { .. } => self.protocol_errors += 1,
                Output::Halt => {
                    self.halted.insert(at.clone());
                }
            }
        }
    }

    fn note_vote(&mut self, up: &ToCoordinator<M::Event>) {
        let enact_entities::Said::Vote(vote) = &up.said else { return };
        let was_delayed = self.delayed.contains(&(up.from.clone(), up.tx));
        match vote {
            Vote::Yes { early: Some(EarlyRelease { depends_on: Some(_) }), .. } => self.marks.insert("released early"),
            Vote::Yes { .. } if was_delayed => self.marks.insert("delayed, then admitted"),
            Vote::No(_) if was_delayed => self.marks.insert("delayed, then rejected"),
            Vote::OutOfOrder => self.marks.insert("asked out of order and restarted"),
            Vote::Expired(_) => self.marks.insert("delayed until the deadline"),
            _ => false,
        };
    }

    pub(crate) fn coordinator_step(&mut self, at: &EntityKey, input: CoordinatorInput<M::Event>) {
        if self.down.contains(at) || self.halted.contains(at) {
            return;
        }
        if !self.coordinators.contains_key(at) {
            self.recover_coordinator(at);
        }
        let coordinator = self.coordinators.get_mut(at).expect("it was recovered");
        let outputs = coordinator.step(input, self.now);
        self.take_coordinator_outputs(at, outputs);
    }

    fn take_coordinator_outputs(&mut self, at: &EntityKey, outputs: Vec<CoordinatorOutput<M::Event>>) {
        for output in outputs {
            match output {
                CoordinatorOutput::Send { to, message } => self.net.push(Packet::Down(to, message)),
                CoordinatorOutput::Append { write, records, depends_on, precommits, .. } => {
                    self.disk.push(Queued { owner: at.clone(), write, records, depends_on });
                    self.net.extend(precommits.into_iter().map(|(to, precommit)| Packet::Precommit(to, precommit)));
                }
                CoordinatorOutput::Reply { tx, reply } => self.replies.entry(tx).or_default().push(reply),
                CoordinatorOutput::LetDue { .. } => unreachable!("no class has timers"),
                CoordinatorOutput::Halt => {
                    self.halted.insert(at.clone());
                }
            }
        }
    }

    /// Delivers message number `i`.
    pub(crate) fn deliver(&mut self, i: usize) {
        match self.net.remove(i) {
            Packet::Down(to, ToParticipant::Prepare(prepare)) => self.participant_step(&to, Input::Prepare(prepare)),
            Packet::Down(to, ToParticipant::Decide(decide)) => self.participant_step(&to, Input::Decide(decide)),
            Packet::Precommit(to, precommit) => self.participant_step(&to, Input::Precommit(precommit)),
            Packet::Up(up) => {
                let to = up.to.clone();
                self.coordinator_step(&to, CoordinatorInput::Heard(up));
            }
        }
    }

    /// The first queued write of each journal.
    pub(crate) fn writable(&self) -> Vec<usize> {
        let mut owners = BTreeSet::new();
        let all = (0..self.disk.len()).filter(|&i| {
            let journal = (self.durability() == Durability::TwoPhase).then(|| &self.disk[i].owner);
            owners.insert(journal)
        });
        all.collect()
    }

    fn stands_behind(&self, (entity, other): (&EntityKey, &TxId)) -> bool {
        let last = self.logs.get(entity).and_then(|log| log.last());
        matches!(last, Some(Record::Committed { tx, .. }) if tx == other)
    }

    /// Ends queued write number `i`; one whose records would not stand where they have to is refused.
    pub(crate) fn write(&mut self, i: usize, result: Written) {
        let Queued { owner, write, records, depends_on } = self.disk.remove(i);
        let fits = depends_on.iter().all(|dependency| self.stands_behind(dependency));
        let result = if result == Written::Durable && !fits {
            self.marks.insert("refused with what it depends on");
            Written::Refused
        } else {
            result
        };
        self.touched.extend(records.iter().map(|(entity, _)| entity.clone()));
        if result == Written::Durable {
            for (entity, record) in records {
                let bytes = record.encode();
                let record = Record::decode(&bytes).expect("what was encoded can be decoded");
                self.logs.entry(entity).or_default().push(record);
            }
        }
        if result == Written::Refused {
            self.lagging.insert(owner.clone());
        }
        if self.coordinators.contains_key(&owner) {
            self.coordinator_step(&owner, CoordinatorInput::Written { write, result });
        } else {
            self.participant_step(&owner, Input::Written { write, result });
        }
    }

    pub(crate) fn is_coordinator(at: &EntityKey) -> bool {
        at.class() == "Coordinator"
    }

    /// Loses a node, what it knows, and what it has not written yet.
    pub(crate) fn crash(&mut self, at: &EntityKey) {
        self.participants.remove(at);
        self.coordinators.remove(at);
        self.disk.retain(|queued| queued.owner != *at);
        self.down.insert(at.clone());
        self.halted.remove(at);
        if !self.snapshots.contains_key(at) {
            self.lagging.remove(at);
        }
    }

    pub(crate) fn crash_all(&mut self) {
        if self.disk.iter().any(|queued| !queued.depends_on.is_empty()) {
            self.marks.insert("crashed with a chain");
        }
        let all: Vec<_> = self.participants.keys().chain(self.coordinators.keys()).cloned().collect();
        for at in all {
            self.crash(&at);
        }
        if self.durability() == Durability::Shared {
            // One process: what was on the way between its parts is gone with it.
            self.net.clear();
        }
    }

    pub(crate) fn restart(&mut self, at: &EntityKey) {
        self.down.remove(at);
        if Self::is_coordinator(at) {
            self.recover_coordinator(at);
        } else {
            self.recover_participant(at);
        }
    }

    pub(crate) fn restart_all(&mut self) {
        for at in std::mem::take(&mut self.down) {
            self.restart(&at);
        }
    }

    fn recover_participant(&mut self, at: &EntityKey) {
        self.touched.insert(at.clone());
        let log = self.logs.get(at).cloned().unwrap_or_default();
        let (snapshot, from) = match self.snapshots.get(at) {
            Some((snapshot, from)) => (Some(snapshot.clone()), *from),
            None => (None, 0),
        };
        let (participant, outputs) = self.recovered(at, snapshot, log[from..].to_vec());
        self.participants.insert(at.clone(), participant);
        self.take_outputs(at, outputs);
    }

    pub(crate) fn recovered(
        &self,
        at: &EntityKey,
        snapshot: Option<Snapshot<M::State, M::Event>>,
        log: Log<M::Event>,
    ) -> Recovered<M> {
        let (model, mut options) = (Arc::clone(&self.model), self.participant_options.clone());
        options.strategy = self.strategies.get(at).copied().unwrap_or(options.strategy);
        Participant::recover(model, at.clone(), options, snapshot, log, self.now).expect("the journal is sound")
    }

    fn recover_coordinator(&mut self, at: &EntityKey) {
        let log = self.logs.get(at).cloned().unwrap_or_default();
        let options = self.coordinator_options.clone();
        let (coordinator, outputs) =
            Coordinator::recover(Arc::clone(&self.model), at.clone(), options, None, log, self.now)
                .expect("the journal is sound");
        self.coordinators.insert(at.clone(), coordinator);
        self.take_coordinator_outputs(at, outputs);
    }

    /// Keeps a snapshot of a participant, filed under the last position that it has been told everything before of.
    pub(crate) fn take_snapshot(&mut self, at: &EntityKey) {
        let Some(participant) = self.participants.get(at) else { return };
        let log = self.logs.get(at).map_or(&[][..], Vec::as_slice);
        let untold = |record: &Record<M::Event>| match record {
            Record::Committed { tx, .. } => participant.admission().find(*tx).is_some_and(|entry| !entry.committed),
            _ => false,
        };
        let from = log.iter().position(untold).unwrap_or(log.len());
        let snapshot = participant.snapshot();
        let bytes = snapshot.encode();
        let snapshot = Snapshot::decode(&bytes).expect("what was encoded can be decoded");
        self.snapshots.insert(at.clone(), (snapshot, from));
    }

    /// The next moment at which somebody wants to be woken.
    pub(crate) fn next_deadline(&self) -> Option<Millis> {
        let awake = |at: &EntityKey| !self.down.contains(at) && !self.halted.contains(at);
        let participants = self.participants.iter().filter(|(at, _)| awake(at));
        let coordinators = self.coordinators.iter().filter(|(at, _)| awake(at));
        let deadlines = participants.filter_map(|(_, participant)| participant.next_deadline());
        deadlines.chain(coordinators.filter_map(|(_, coordinator)| coordinator.next_deadline())).min()
    }

    /// Lets time pass and wakes everybody.
    pub(crate) fn pass(&mut self, span: u64) {
        self.now = self.now + Millis(span);
        for at in self.participants.keys().cloned().collect::<Vec<_>>() {
            self.participant_step(&at, Input::Tick);
        }
        for at in self.coordinators.keys().cloned().collect::<Vec<_>>() {
            self.coordinator_step(&at, CoordinatorInput::Tick);
        }
    }

    /// Delivers and writes everything, in order, until nothing is left.
    pub(crate) fn run(&mut self) {
        self.run_except(|_| false);
    }

    /// Delivers and writes everything but the messages that `held` holds back.
    pub(crate) fn run_except(&mut self, held: impl Fn(&Packet<M::Event>) -> bool) {
        for round in 0.. {
            assert!(round < 100_000, "the messages go round in circles: {:?}", self.net);
            if let Some(i) = self.net.iter().position(|packet| !held(packet)) {
                self.deliver(i);
            } else if !self.disk.is_empty() {
                self.write(0, Written::Durable);
            } else {
                return;
            }
        }
    }

    /// Runs, and lets time pass while anybody has something to wait for, up to `span` milliseconds.
    pub(crate) fn settle(&mut self, span: u64) {
        let end = self.now + Millis(span);
        self.run();
        while let Some(next) = self.next_deadline().filter(|&next| next <= end) {
            self.pass(next.0.saturating_sub(self.now.0));
            self.run();
        }
    }

    /// Checks what must be true at every moment, of the participants that may have changed since the last time.
    pub(crate) fn check_always(&mut self) {
        for at in &std::mem::take(&mut self.touched) {
            let Some(participant) = self.participants.get(at) else { continue };
            if self.halted.contains(at) || self.lagging.contains(at) {
                continue;
            }
            let mut log = self.logs.get(at).cloned().unwrap_or_default();
            let queued = self.disk.iter().flat_map(|queued| &queued.records);
            log.extend(queued.filter(|(entity, _)| entity == at).map(|(_, record)| record.clone()));
            let live = participant.snapshot();
            // A snapshot may know an outcome that was lost on the way to the journal.
            let (stored, from) = self.snapshots.get(at).cloned().map_or((None, 0), |(s, from)| (Some(s), from));
            let from_log = self.recovered(at, stored, log[from..].to_vec()).0.snapshot();
            let from_snapshot = self.recovered(at, Some(live.clone()), log).0.snapshot();
            assert_eq!(from_log.base, from_snapshot.base, "{at}: the snapshot agrees with the journal");
            assert_eq!(from_log.pending, from_snapshot.pending, "{at}: the snapshot agrees with the journal");
            if self.durability() == Durability::TwoPhase {
                assert_eq!(live.base, from_log.base, "{at}: recovery gives the live state");
                assert_eq!(live.pending, from_log.pending, "{at}: recovery gives the live list");
            }
            assert!(from_log.next_slot <= live.next_slot, "{at}: no slot is known that was not given");
        }
    }

    /// The transactions whose decision is durable.
    pub(crate) fn decided(&self) -> BTreeSet<TxId> {
        let all = self.logs.values().flatten();
        all.filter_map(|record| match record {
            Record::Decision(decision) => Some(decision.tx),
            _ => None,
        })
        .collect()
    }

    /// Checks that every reply says what happened, and that nobody was told two things.
    pub(crate) fn check_replies(&self) {
        let decided = self.decided();
        for (tx, replies) in &self.replies {
            for reply in replies {
                let claims = match reply {
                    Reply::Answered { result, .. } => Some(result.is_ok()),
                    Reply::InDoubt => None,
                    _ => Some(false),
                };
                assert!(claims.is_none_or(|done| done == decided.contains(tx)), "{tx} was told {reply:?}");
            }
        }
    }

    /// Checks that nothing is left over once everything is healed.
    pub(crate) fn check_settled(&self) {
        assert!(self.net.is_empty() && self.disk.is_empty());
        for (at, participant) in &self.participants {
            let left: Vec<_> = participant.admission().in_progress().collect();
            assert!(participant.is_idle(), "{at} is left with {left:?}");
        }
        for (at, coordinator) in &self.coordinators {
            assert_eq!(coordinator.in_flight(), 0, "{at} has unfinished transactions");
        }
        self.check_audit();
    }

    /// Checks that an audit of what has been written finds nothing, and ends where the participants are unless something waits for an
    /// abort that was not written.
    fn check_audit(&self) {
        for (at, log) in self.logs.iter().filter(|(at, _)| !Self::is_coordinator(at)) {
            let mut log = log.clone();
            log.sort_by_key(Record::slot);
            let mut last = None;
            let waiting = audit(&*self.model, at, (0..).zip(log), |audited| match audited {
                Audited::Judged(judged) => {
                    assert!(judged.refusals.is_empty(), "{at}: {judged:?}");
                    last = Some(judged.after.clone());
                }
                other => panic!("{at}: {other:?}"),
            });
            assert!(waiting.is_empty() || self.durability() == Durability::TwoPhase, "{at}");
            if let (Some(last), Some(participant), true) = (last, self.participants.get(at), waiting.is_empty()) {
                assert_eq!(last, *participant.admission().base(), "{at}");
            }
        }
    }
}

impl World {
    pub(crate) fn new(strategy: Strategy, durability: Durability) -> Self {
        Self::with(Hand::load(), strategy, durability)
    }

    /// Opens an account with this balance.
    pub(crate) fn account(&mut self, entity: &str, euros: i64) {
        self.done(entity, Hand::open(euros.max(50)));
        if euros < 50 {
            self.done(entity, Hand::withdraw(50 - euros));
        }
    }

    /// The applied balance in euros; cents are cut.
    pub(crate) fn balance(&self, entity: &str) -> i128 {
        self.cents(entity) / 100
    }

    pub(crate) fn cents(&self, entity: &str) -> i128 {
        match self.participants.get(&key(entity)) {
            Some(participant) => Hand::balance(&self.model, participant.admission().base()),
            None => 0,
        }
    }

    /// The balance in cents that a read has seen.
    pub(crate) fn seen(&self, id: ReadId) -> Option<i128> {
        match self.reads.get(&id)? {
            View::One { state, .. } => Some(Hand::balance(&self.model, state)),
            View::Range(range) => panic!("a range was seen: {range:?}"),
        }
    }
}
