//! A node: production machines over one journal, driven input by input.
//!
//! A node does nothing on its own. Its driver delivers messages, moves its clock, decides what becomes of each append, and crashes
//! it. The same inputs give the same effects, so that a node can be brought back to any state by its inputs.
//!
//! A record that was appended is durable once the driver says so. A crash keeps what is durable and any prefix of the rest. Every
//! machine with records comes back with the node; others begin when the first message reaches them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use enact_entities::{
    Applied, Begin, Coordinator, CoordinatorInput, CoordinatorOptions, CoordinatorOutput, Decide, Decision, EntityKey,
    Input, Millis, Model, Output, Participant, ParticipantOptions, Record, Reply, Slot, Snapshot, ToCoordinator,
    ToParticipant, TxId, WriteId, Written,
};
use enact_journal::{AppendError, Fault, Journal, Kind, Memory, NewRecord, Position, Seq};

use crate::serial::States;

/// The class of coordinators; every other class is one of the contract.
pub const COORDINATOR: &str = "Coordinator";

/// A message between two machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<E> {
    /// To a participant.
    Down(EntityKey, ToParticipant<E>),
    /// To a coordinator.
    Up(ToCoordinator<E>),
}

impl<E> Packet<E> {
    /// The receiver.
    pub const fn to(&self) -> &EntityKey {
        match self {
            Self::Down(to, _) => to,
            Self::Up(up) => &up.to,
        }
    }
}

/// What becomes of the oldest append that is not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// It is durable.
    Durable,
    /// It is refused, with all that were appended after it.
    Refused,
    /// It is in doubt: there after the next crash, or not.
    InDoubt {
        /// Whether it will be there.
        is_performed: bool,
    },
}

/// What a node has done in one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<E> {
    /// It has sent a message.
    Sent(Packet<E>),
    /// It has told a client.
    Told {
        /// The transaction that the client asked for.
        tx: TxId,
        /// What the client was told.
        reply: Reply,
    },
    /// An effect has become part of the applied state of an entity.
    Applied(EntityKey, Applied),
    /// A participant was told what contradicts the protocol.
    ProtocolError(EntityKey, Decide),
    /// A machine has stopped, because one of its records is in doubt.
    Halted(EntityKey),
}

/// The options of all machines of a node.
#[derive(Clone, Debug)]
pub struct NodeOptions {
    /// Those of participants.
    pub participant: ParticipantOptions,
    /// Those of coordinators.
    pub coordinator: CoordinatorOptions,
    /// Whether coordinators ask participants side by side.
    pub is_side_by_side: bool,
}

type Answer = Pin<Box<dyn Future<Output = Result<Position, AppendError>>>>;

struct Appended<E> {
    owner: EntityKey,
    write: WriteId,
    records: Vec<(EntityKey, Record<E>)>,
    forced: bool,
    answer: Answer,
}

enum Party<M: Model> {
    Participant(Box<Participant<M>>),
    Coordinator(Box<Coordinator<M>>),
}

/// A durable or pending record, as a checker sees it.
pub type Filed<E> = (EntityKey, Record<E>);

/// Machines over one journal.
pub struct Node<M: Model> {
    model: Arc<M>,
    options: NodeOptions,
    now: Millis,
    parties: BTreeMap<EntityKey, Party<M>>,
    journal: Memory,
    appended: VecDeque<Appended<M::Event>>,
    /// The last record of each entity that was appended.
    last: BTreeMap<EntityKey, Seq>,
    /// The snapshots that were taken, each with the last record that its participant had seen.
    snapshots: BTreeMap<EntityKey, (Seq, Vec<u8>)>,
    /// The transactions that have arrived at each participant since the last crash, in the order of their last requests.
    arrivals: BTreeMap<EntityKey, Vec<TxId>>,
    halted: BTreeSet<EntityKey>,
    /// The append that is in doubt, if it was performed: it is there after the next crash.
    doubt: Vec<Filed<M::Event>>,
}

type Effects<M> = Vec<Effect<<M as Model>::Event>>;

impl<M: Model> Node<M> {
    /// A node without records, whose entities begin in `states`; the others, as the contract says.
    pub fn new(model: Arc<M>, options: NodeOptions, states: &States<M>) -> Self {
        let version = model.version();
        let snapshot = |(at, base): (&EntityKey, &M::State)| {
            let snapshot: Snapshot<M::State, M::Event> =
                Snapshot { base: base.clone(), next_slot: Slot::FIRST, pending: Vec::new(), version };
            (at.clone(), (Seq::NONE, snapshot.encode()))
        };
        let snapshots = states.iter().map(snapshot).collect();
        let journal = Memory::new();
        journal.hold();
        Self {
            model,
            options,
            now: Millis(0),
            parties: BTreeMap::new(),
            journal,
            appended: VecDeque::new(),
            last: BTreeMap::new(),
            snapshots,
            arrivals: BTreeMap::new(),
            halted: BTreeSet::new(),
            doubt: Vec::new(),
        }
    }

    /// The time of the node's clock, which begins at 0 with every start.
    pub const fn now(&self) -> Millis {
        self.now
    }

    /// How many appends are not decided.
    pub fn appended_count(&self) -> usize {
        self.appended.len()
    }

    /// How many of the oldest appends have to be decided until a machine hears something that it acts on: a promise, a decision, an
    /// answer, or a commit that it acknowledges.
    pub fn until_heard(&self) -> Option<usize> {
        let is_heard = |appended: &Appended<M::Event>| {
            let commits =
                |(_, record): &Filed<M::Event>| matches!(record, Record::Outcome { decision: Decision::Commit, .. });
            appended.forced || appended.records.iter().any(commits)
        };
        self.appended.iter().position(is_heard).map(|index| index + 1)
    }

    /// The machines that have stopped.
    pub const fn halted(&self) -> &BTreeSet<EntityKey> {
        &self.halted
    }

    /// The participants that are live.
    pub fn participants(&self) -> impl Iterator<Item = &Participant<M>> {
        self.parties.values().filter_map(|party| match party {
            Party::Participant(participant) => Some(&**participant),
            Party::Coordinator(_) => None,
        })
    }

    /// Whether no machine has anything left to do.
    pub fn is_settled(&self) -> bool {
        self.until_heard().is_none()
            && self.halted.is_empty()
            && self.parties.values().all(|party| match party {
                Party::Participant(participant) => {
                    participant.admission().in_progress().next().is_none() && participant.next_deadline().is_none()
                }
                Party::Coordinator(coordinator) => coordinator.in_flight() == 0,
            })
    }

    /// When the first machine wants to be woken.
    pub fn next_deadline(&self) -> Option<Millis> {
        let live = self.parties.iter().filter(|(at, _)| !self.halted.contains(*at));
        let deadlines = live.filter_map(|(_, party)| match party {
            Party::Participant(participant) => participant.next_deadline(),
            Party::Coordinator(coordinator) => coordinator.next_deadline(),
        });
        deadlines.min()
    }

    /// The durable records, in the order of the journal.
    pub fn durable(&self) -> Vec<Filed<M::Event>> {
        let records = ready(self.journal.feed(Position::START, usize::MAX)).expect("the journal is open");
        records.into_iter().map(|record| (record.entity, decode(&record.payload))).collect()
    }

    /// The records that are not durable, in the order in which they were appended.
    pub fn pending(&self) -> impl Iterator<Item = &Filed<M::Event>> {
        self.appended.iter().flat_map(|appended| &appended.records)
    }

    /// The transactions that wait at a participant, in the order of their requests.
    pub fn delayed(&self, at: &EntityKey) -> impl Iterator<Item = TxId> {
        let Some(Party::Participant(participant)) = self.parties.get(at) else {
            return Vec::new().into_iter();
        };
        let is_delayed = |tx: &TxId| participant.admission().delayed_attempt(*tx).is_some();
        let arrivals = self.arrivals.get(at).into_iter().flatten().copied();
        arrivals.filter(is_delayed).collect::<Vec<_>>().into_iter()
    }

    /// All that the future of the node depends on. Two nodes that say the same do the same from here.
    ///
    /// A participant shows no more than its snapshot and what is delayed: the rest follows from that and from what is appended,
    /// which tells whether a promise is durable and a commit acknowledged. The time matters only where a machine counts
    /// from it: `is_late` tells which deadlines have passed. The order of what is durable means nothing: records name their slots.
    pub fn describe(&self, is_late: impl Fn(Millis) -> bool) -> String {
        use std::fmt::Write;

        let mut text = format!("{:?} {:?}\n", is_late(self.now), self.halted);
        let mut line = |line: std::fmt::Arguments<'_>| writeln!(text, "{line}").expect("a string takes any text");
        // A barrier says nothing once it is durable, and neither does a commit that is recorded again.
        let durable = self.durable().into_iter().filter(|(_, record)| !matches!(record, Record::Barrier));
        let mut durable: Vec<_> = durable.map(|(at, record)| format!("{at} {record:?}")).collect();
        durable.sort_unstable();
        durable.dedup();
        line(format_args!("durable {durable:#?}"));
        for appended in &self.appended {
            line(format_args!("appended {} {:?} {}", appended.owner, appended.records, appended.forced));
        }
        line(format_args!("in doubt {:?}, snapshots {:?}", self.doubt, self.snapshots));
        for (at, party) in &self.parties {
            match party {
                Party::Participant(participant) => {
                    let attempt = |tx| (tx, participant.admission().delayed_attempt(tx));
                    let delayed: Vec<_> = self.delayed(at).map(attempt).collect();
                    line(format_args!("{at} {:?} {delayed:?}", participant.snapshot()));
                }
                Party::Coordinator(coordinator) => line(format_args!("{:?} {coordinator:?}", self.now)),
            }
        }
        text
    }

    /// A client asks a coordinator of this node for a transaction.
    pub fn begin(&mut self, at: &EntityKey, begin: Begin<M::Event>) -> Effects<M> {
        self.coordinator_step(at, CoordinatorInput::Begin(begin))
    }

    /// A message arrives.
    pub fn deliver(&mut self, packet: Packet<M::Event>) -> Effects<M> {
        match packet {
            Packet::Down(to, ToParticipant::Prepare(prepare)) => {
                let tx = prepare.request.branch.tx;
                let arrivals = self.arrivals.entry(to.clone()).or_default();
                let attempt = prepare.request.branch.attempt;
                let is_known = match self.parties.get(&to) {
                    Some(Party::Participant(participant)) => {
                        participant.admission().delayed_attempt(tx).is_some_and(|delayed| delayed >= attempt)
                    }
                    _ => false,
                };
                if !is_known {
                    arrivals.retain(|other| *other != tx);
                    arrivals.push(tx);
                }
                self.participant_step(&to, Input::Prepare(prepare))
            }
            Packet::Down(to, ToParticipant::Decide(decide)) => self.participant_step(&to, Input::Decide(decide)),
            Packet::Up(up) => {
                let to = up.to.clone();
                self.coordinator_step(&to, CoordinatorInput::Heard(up))
            }
        }
    }

    /// The clock moves to `now`, and every machine is woken.
    pub fn pass(&mut self, now: Millis) -> Effects<M> {
        self.now = now;
        let mut effects = Vec::new();
        for at in self.parties.keys().cloned().collect::<Vec<_>>() {
            effects.extend(if is_coordinator(&at) {
                self.coordinator_step(&at, CoordinatorInput::Tick)
            } else {
                self.participant_step(&at, Input::Tick)
            });
        }
        effects
    }

    /// Decides the oldest append.
    pub fn write(&mut self, fate: Fate) -> Effects<M> {
        match fate {
            Fate::Durable => {}
            Fate::Refused => self.journal.fail_next(Fault::Refused),
            Fate::InDoubt { is_performed } => self.journal.fail_next(Fault::InDoubt { is_performed }),
        }
        self.journal.sync(1);
        let mut effects = Vec::new();
        // A refusal decides all that stand behind it.
        while let Some(result) = self.appended.front_mut().and_then(|front| poll(&mut front.answer)) {
            let Appended { owner, write, records, .. } = self.appended.pop_front().expect("it was polled");
            let result = match result {
                Ok(_) => Written::Durable,
                Err(AppendError::Refused(_)) => Written::Refused,
                Err(_) => Written::InDoubt,
            };
            if result != Written::Durable {
                self.last.clear();
            }
            if fate == (Fate::InDoubt { is_performed: true }) && result == Written::InDoubt {
                self.doubt = records;
            }
            effects.extend(if is_coordinator(&owner) {
                self.coordinator_step(&owner, CoordinatorInput::Written { write, result })
            } else {
                self.participant_step(&owner, Input::Written { write, result })
            });
        }
        effects
    }

    /// Keeps a snapshot of each participant all of whose records are durable, and known to it.
    pub fn snapshot(&mut self) {
        let busy: BTreeSet<_> = self.pending().map(|(at, _)| at.clone()).collect();
        let live = self.parties.iter().filter(|(at, _)| !busy.contains(*at) && !self.halted.contains(*at));
        for (at, party) in live {
            if let Party::Participant(participant) = party {
                // A coordinator that shares the journal has committed it, and it has not been told.
                let is_open = |tx: &TxId| {
                    participant.admission().in_progress().any(|open| open.branch.tx == *tx && !open.committed)
                };
                let is_news = |record: &Record<_>| matches!(record, Record::Committed { tx, .. } if is_open(tx));
                if self.records(at, Seq::NONE).iter().any(is_news) {
                    continue;
                }
                let seq = ready(self.journal.last(at)).expect("the journal is open");
                self.snapshots.insert(at.clone(), (seq, participant.snapshot().encode()));
            }
        }
    }

    /// Loses all that the node knows, but what is durable and the `kept` oldest appends, and starts it again.
    ///
    /// # Panics
    /// If a machine cannot be recovered from its records.
    pub fn crash(&mut self, kept: usize) -> Effects<M> {
        self.journal.sync(kept);
        self.journal = self.journal.crash();
        self.journal.hold();
        self.now = Millis(0);
        self.appended.clear();
        self.parties.clear();
        self.last.clear();
        self.arrivals.clear();
        self.halted.clear();
        self.doubt.clear();
        let owners: BTreeSet<_> = self.durable().into_iter().map(|(at, _)| at).collect();
        owners.iter().flat_map(|at| self.recover(at)).collect()
    }

    fn records(&self, at: &EntityKey, after: Seq) -> Vec<Record<M::Event>> {
        let records = ready(self.journal.read(at, after)).expect("the journal is open");
        records.iter().map(|record| decode(&record.payload)).collect()
    }

    fn recover(&mut self, at: &EntityKey) -> Effects<M> {
        let NodeOptions { participant, coordinator, is_side_by_side } = self.options.clone();
        let model = Arc::clone(&self.model);
        if is_coordinator(at) {
            let records = self.records(at, Seq::NONE);
            let (recovered, outputs) = Coordinator::recover(model, at.clone(), coordinator, None, records, self.now)
                .expect("its records are sound");
            let recovered = if is_side_by_side { recovered.asking_side_by_side(|_| true) } else { recovered };
            self.parties.insert(at.clone(), Party::Coordinator(Box::new(recovered)));
            self.take_coordinator_outputs(at, outputs)
        } else {
            let (seq, snapshot) = match self.snapshots.get(at) {
                Some((seq, bytes)) => (*seq, Some(Snapshot::decode(bytes).expect("what was encoded can be decoded"))),
                None => (Seq::NONE, None),
            };
            let records = self.records(at, seq);
            let (recovered, outputs) =
                Participant::recover(model, at.clone(), participant, snapshot, records, self.now)
                    .expect("its records are sound");
            self.parties.insert(at.clone(), Party::Participant(Box::new(recovered)));
            self.take_outputs(at, outputs)
        }
    }

    fn participant_step(&mut self, at: &EntityKey, input: Input<M::Event>) -> Effects<M> {
        if self.halted.contains(at) {
            return Vec::new();
        }
        let mut effects = self.load(at);
        let Some(Party::Participant(participant)) = self.parties.get_mut(at) else {
            unreachable!("{at} was recovered as a participant")
        };
        let outputs = participant.step(input, self.now);
        effects.extend(self.take_outputs(at, outputs));
        effects
    }

    fn coordinator_step(&mut self, at: &EntityKey, input: CoordinatorInput<M::Event>) -> Effects<M> {
        if self.halted.contains(at) {
            return Vec::new();
        }
        let mut effects = self.load(at);
        let Some(Party::Coordinator(coordinator)) = self.parties.get_mut(at) else {
            unreachable!("{at} was recovered as a coordinator")
        };
        let outputs = coordinator.step(input, self.now);
        effects.extend(self.take_coordinator_outputs(at, outputs));
        effects
    }

    fn load(&mut self, at: &EntityKey) -> Effects<M> {
        if self.parties.contains_key(at) { Vec::new() } else { self.recover(at) }
    }

    fn take_outputs(&mut self, at: &EntityKey, outputs: Vec<Output<M::State, M::Event>>) -> Effects<M> {
        let mut effects = Vec::new();
        for output in outputs {
            match output {
                Output::Send(up) => effects.push(Effect::Sent(Packet::Up(up))),
                Output::Append { write, record, forced } => {
                    self.append(at, write, vec![(at.clone(), record)], forced);
                }
                Output::Applied(applied) => effects.push(Effect::Applied(at.clone(), applied)),
                Output::ProtocolError { decide } => effects.push(Effect::ProtocolError(at.clone(), decide)),
                Output::ReadReply { .. } | Output::ReadExpired { .. } => unreachable!("nobody reads"),
                Output::Halt => {
                    self.halted.insert(at.clone());
                    effects.push(Effect::Halted(at.clone()));
                }
            }
        }
        effects
    }

    fn take_coordinator_outputs(&mut self, at: &EntityKey, outputs: Vec<CoordinatorOutput<M::Event>>) -> Effects<M> {
        let mut effects = Vec::new();
        for output in outputs {
            match output {
                CoordinatorOutput::Send { to, message } => effects.push(Effect::Sent(Packet::Down(to, message))),
                CoordinatorOutput::Append { write, records, forced, depends_on, precommits } => {
                    assert!(
                        depends_on.is_empty() && precommits.is_empty(),
                        "nothing is released early between journals"
                    );
                    self.append(at, write, records, forced);
                }
                CoordinatorOutput::Reply { tx, reply } => effects.push(Effect::Told { tx, reply }),
                CoordinatorOutput::LetDue { .. } => unreachable!("no class has timers"),
                CoordinatorOutput::Halt => {
                    self.halted.insert(at.clone());
                    effects.push(Effect::Halted(at.clone()));
                }
            }
        }
        effects
    }

    fn append(&mut self, owner: &EntityKey, write: WriteId, records: Vec<Filed<M::Event>>, forced: bool) {
        let mut batch = Vec::with_capacity(records.len());
        for (entity, record) in &records {
            let durable = || ready(self.journal.last(entity)).expect("the journal is open");
            let last = self.last.entry(entity.clone()).or_insert_with(durable);
            let (kind, payload) = (Kind(record.kind()), record.encode());
            batch.push(NewRecord { entity: entity.clone(), expected: *last, kind, payload });
            *last = last.next();
        }
        let answer = Box::pin(self.journal.append(batch));
        self.appended.push_back(Appended { owner: owner.clone(), write, records, forced, answer });
    }
}

fn is_coordinator(at: &EntityKey) -> bool {
    at.class() == COORDINATOR
}

fn decode<E: serde::Serialize + serde::de::DeserializeOwned>(bytes: &[u8]) -> Record<E> {
    Record::decode(bytes).expect("what was encoded can be decoded")
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Option<F::Output> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// The output of a future that waits for nothing.
fn ready<F: Future>(future: F) -> F::Output {
    poll(&mut Box::pin(future)).expect("reads of a journal in memory are done at once")
}
