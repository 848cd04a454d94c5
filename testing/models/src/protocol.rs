//! Nodes on a network that loses, doubles and reorders, as a space of states.
//!
//! # States
//! A state of the whole is one of each node, the messages on the way, and what clients know. The states of a node are numbered as
//! they are reached: each has a history of inputs that leads to it, and a description of all that its future depends
//! on. A step of a node is worked out once, by playing its history and then the input, so that exploring the whole costs hardly
//! more than comparing numbers.
//!
//! That two histories with one description have one future is checked: the second history that reaches a state is played beside the
//! first in each step that is worked out from there, and must do the same.
//!
//! # Time
//! A resend and a question are due one tick after what they repeat, and a deadline comes when [`Action::Late`] says so. So what a timer
//! does can happen at any moment, and the time itself tells nothing.
//!
//! # Loss
//! Nothing has to be delivered, so a lost message needs no step of its own.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, RwLock};

use enact_entities::{
    Action as CallAction, Begin, Call, CoordinatorOptions, Durability, EntityKey, Idempotency, Millis, Model,
    ParticipantOptions, Record, Reply, Slot, Timestamp, ToParticipant, TxId,
};

use crate::ledger::Ledger;
use crate::node::{Effect, Fate, Node, NodeOptions, Packet};
use crate::scenario::{Faults, Scenario, Transaction};
use crate::serial::{Committed, execute, explanation};

/// After every tick there is.
const DEADLINE: Millis = Millis(10_000);

/// More steps than it takes to settle whatever is left.
const SETTLING_STEPS_MAX: usize = 2_000;

/// What added to the id of a transaction gives the id under which its client asks again.
const AGAIN: u128 = 1_000;

/// What a client knows of its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// It is done.
    Done,
    /// It was refused.
    Refused,
    /// Nothing happened.
    Void,
    /// It is in doubt.
    InDoubt,
}

impl Told {
    const fn of(reply: &Reply) -> Self {
        match reply {
            Reply::Answered { result: Ok(_), .. } => Self::Done,
            Reply::Answered { .. } => Self::Refused,
            Reply::InDoubt => Self::InDoubt,
            _ => Self::Void,
        }
    }
}

/// A state of all.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    nodes: Vec<u32>,
    /// For each node, the one that its journal was taken over from, if that may still be there.
    replaced: Vec<Option<u32>>,
    /// The messages on the way, each once, in the order of their numbers.
    net: Vec<u32>,
    told: Vec<Told>,
    /// For each transaction that has begun, those whose clients had been told that they are done.
    begun: Vec<Option<u64>>,
    left: Faults,
    /// What has gone wrong on the way here.
    broken: Option<u32>,
}

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client asks for a transaction.
    Begin(u8),
    /// A client that knows the answer asks again.
    Repeat(u8),
    /// A message arrives.
    Deliver(u32),
    /// A message arrives, and another copy is on the way.
    Double(u32),
    /// A node's oldest appends become durable, up to the first that a machine waits for.
    Write(u8),
    /// A node's oldest append is refused.
    Refuse(u8),
    /// A node's oldest append is in doubt, and was performed or not.
    Doubt(u8, bool),
    /// A node crashes and comes back, with so many of its appends.
    Crash(u8, u8),
    /// A message arrives at a node that crashes before all that follows from it is durable.
    Fail(u32, u8),
    /// A message arrives at a node whose append then is in doubt, was performed or not, and which crashes.
    FailInDoubt(u32, bool),
    /// What is due at a node is sent again.
    Tick(u8),
    /// The deadlines pass at a node.
    Late(u8),
    /// Another node takes the journal of a node over, with so many of its appends. The one that it was taken from does not know that, hears what
    /// is said to it, and is refused whatever it appends.
    TakeOver(u8, u8),
    /// A message arrives at the node that was replaced.
    DeliverReplaced(u32),
    /// What is due at the node that was replaced is sent again.
    TickReplaced(u8),
}

/// What a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Input {
    Begin(u8),
    Repeat(u8),
    Deliver(u32),
    Write,
    /// The oldest append, whether or not a machine waits for it.
    WriteOne,
    Refuse,
    Doubt(bool),
    Crash(u8),
    Tick,
    Late,
}

/// What a node does in one step, and where it leads.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    to: u32,
    outcome: Arc<Outcome>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Outcome {
    /// Each once, in the order of their numbers.
    sent: Vec<u32>,
    told: Vec<(TxId, Reply)>,
    broken: Option<u32>,
    /// What was told to a participant that has never promised it. To one that was replaced that may happen, and has no effect.
    unpromised: Option<u32>,
}

/// A state of a node.
struct Known<M: Model> {
    history: Vec<Input>,
    /// The second history that was found to lead here.
    twin: Option<Vec<Input>>,
    facts: Arc<Facts<M>>,
}

/// What is to be seen of a state of a node.
struct Facts<M: Model> {
    appended: u8,
    is_heard: bool,
    /// Whether the oldest append is one that a machine waits for.
    is_first_heard: bool,
    has_deadline: bool,
    is_late: bool,
    is_halted: bool,
    is_settled: bool,
    bases: Vec<(EntityKey, M::State)>,
    ledger: Ledger<M::Event>,
}

struct Table<M: Model> {
    nodes: Vec<Known<M>>,
    by_description: HashMap<(u64, u64), u32>,
    steps: HashMap<(u32, Input), Step>,
    packets: Vec<Packet<M::Event>>,
    by_packet: HashMap<String, u32>,
    breaches: Vec<String>,
}

/// How a history ends once nothing goes wrong any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End<S> {
    /// The state of each entity.
    pub states: BTreeMap<EntityKey, S>,
    /// The transactions that committed, counted from 0, with their slots.
    pub committed: BTreeMap<usize, BTreeMap<EntityKey, Slot>>,
    /// A serial order that explains the states, if there is one.
    pub serial: Option<Vec<usize>>,
    /// What each client knows.
    pub told: Vec<Told>,
}

/// How a history has ended, or which promise it has broken.
type Ended<M> = Result<Arc<End<<M as Model>::State>>, String>;

/// A space of states.
pub struct Protocol<M: Model> {
    scenario: Scenario<M>,
    hosts: BTreeMap<EntityKey, u8>,
    table: RwLock<Table<M>>,
    /// What was found of ends.
    ends: Mutex<HashMap<State, Ended<M>>>,
    /// States without messages from which all ends well.
    ending_well: Mutex<HashSet<State>>,
}

impl<M: Model> Protocol<M> {
    /// The states that follow from `scenario`.
    pub fn new(scenario: Scenario<M>) -> Self {
        let hosts = (0..).zip(&scenario.nodes).flat_map(|(host, keys)| keys.iter().map(move |key| (key.clone(), host)));
        let table = Table {
            nodes: Vec::new(),
            by_description: HashMap::new(),
            steps: HashMap::new(),
            packets: Vec::new(),
            by_packet: HashMap::new(),
            breaches: Vec::new(),
        };
        let hosts = hosts.collect();
        Self { scenario, hosts, table: RwLock::new(table), ends: Mutex::default(), ending_well: Mutex::default() }
    }

    /// The scenario.
    pub const fn scenario(&self) -> &Scenario<M> {
        &self.scenario
    }

    /// Nothing has happened yet, but that the first transactions have begun.
    pub fn start(&self) -> State {
        self.start_with(0..self.scenario.begun)
    }

    /// Nothing has happened yet, but that these transactions have begun.
    pub fn start_with(&self, begun: impl IntoIterator<Item = usize>) -> State {
        let nodes = (0..self.scenario.nodes.len()).map(|host| {
            let node = self.fresh();
            self.enter(host as u32, &node, Vec::new())
        });
        let count = self.scenario.transactions.len();
        let mut state = State {
            nodes: nodes.collect(),
            replaced: vec![None; self.scenario.nodes.len()],
            net: Vec::new(),
            told: vec![Told::Nothing; count],
            begun: vec![None; count],
            left: self.scenario.faults,
            broken: None,
        };
        begun.into_iter().for_each(|number| self.take(&mut state, Action::Begin(number as u8)));
        state
    }

    /// What may happen in `state`.
    pub fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        let Faults { crashes, take_overs, doubles, ticks, lates, refusals, doubts, repeats } = state.left;
        let numbered = || (0..).zip(&self.scenario.transactions);
        actions.extend(numbered().filter(|&(n, _)| state.begun[n as usize].is_none()).map(|(n, _)| Action::Begin(n)));
        if repeats > 0 {
            let knows = |n: u8| matches!(state.told[n as usize], Told::Done | Told::Refused);
            actions.extend(numbered().filter(|&(n, _)| knows(n)).map(|(n, _)| Action::Repeat(n)));
        }
        for &packet in &state.net {
            let to = self.host_of_packet(packet);
            if state.replaced[to as usize].is_some_and(|replaced| !self.facts(replaced).is_halted) {
                actions.push(Action::DeliverReplaced(packet));
            }
            let facts = self.facts(state.nodes[to as usize]);
            if facts.is_halted {
                continue;
            }
            actions.push(Action::Deliver(packet));
            if doubles > 0 {
                actions.push(Action::Double(packet));
            }
            if crashes > 0 && self.scenario.is_prompt {
                let arrived = self.step(state.nodes[to as usize], to.into(), Input::Deliver(packet)).to;
                let arrived = self.facts(arrived);
                if arrived.is_heard {
                    actions.extend((0..=arrived.appended).map(|kept| Action::Fail(packet, kept)));
                }
                if arrived.is_first_heard {
                    actions.extend([true, false].map(|is_performed| Action::FailInDoubt(packet, is_performed)));
                }
            }
        }
        let table = self.table.read().expect("no step panics");
        for (host, &node) in (0..).zip(&state.nodes) {
            let Known { facts, history, .. } = &table.nodes[node as usize];
            if facts.is_halted {
                actions.push(Action::Crash(host, 0));
                continue;
            }
            if facts.is_heard {
                actions.push(Action::Write(host));
            }
            if facts.is_first_heard && refusals > 0 {
                actions.push(Action::Refuse(host));
            }
            if facts.is_first_heard && doubts > 0 {
                actions.extend([true, false].map(|is_performed| Action::Doubt(host, is_performed)));
            }
            if crashes > 0 && !history.is_empty() {
                actions.extend((0..=facts.appended).map(|kept| Action::Crash(host, kept)));
            }
            if take_overs > 0 && !history.is_empty() {
                actions.extend((0..=facts.appended).map(|kept| Action::TakeOver(host, kept)));
            }
            let replaced = state.replaced[host as usize].map(|replaced| &table.nodes[replaced as usize].facts);
            if ticks > 0 && replaced.is_some_and(|facts| facts.has_deadline && !facts.is_halted) {
                actions.push(Action::TickReplaced(host));
            }
            if ticks > 0 && facts.has_deadline {
                actions.push(Action::Tick(host));
            }
            if lates > 0 && !facts.is_late && facts.has_deadline {
                actions.push(Action::Late(host));
            }
        }
    }

    /// The state after `action`.
    ///
    /// # Panics
    /// If the action is none of the [`actions`](Self::actions) of the state.
    pub fn next(&self, state: &State, action: Action) -> State {
        let mut next = state.clone();
        let left = &mut next.left;
        match action {
            Action::Crash(host, _) if !self.facts(state.nodes[host as usize]).is_halted => left.crashes -= 1,
            Action::Fail(..) | Action::FailInDoubt(..) => left.crashes -= 1,
            Action::TakeOver(..) => left.take_overs -= 1,
            Action::Double(_) => left.doubles -= 1,
            Action::Tick(_) | Action::TickReplaced(_) => left.ticks -= 1,
            Action::Late(_) => left.lates -= 1,
            Action::Refuse(_) => left.refusals -= 1,
            Action::Doubt(..) => left.doubts -= 1,
            Action::Repeat(_) => left.repeats -= 1,
            Action::Begin(_)
            | Action::Deliver(_)
            | Action::DeliverReplaced(_)
            | Action::Write(_)
            | Action::Crash(..) => {}
        }
        self.take(&mut next, action);
        next
    }

    /// What has gone wrong on the way to `state`.
    pub fn breach(&self, state: &State) -> Option<String> {
        let table = self.table.read().expect("no step panics");
        state.broken.map(|breach| table.breaches[breach as usize].clone())
    }

    /// An action in words.
    pub fn show(&self, action: Action) -> String {
        let table = self.table.read().expect("no step panics");
        let packet = |packet: u32| format!("{:?}", table.packets[packet as usize]);
        match action {
            Action::Deliver(number) => format!("Deliver {}", packet(number)),
            Action::Double(number) => format!("Double {}", packet(number)),
            Action::DeliverReplaced(number) => format!("Deliver to the one that was replaced {}", packet(number)),
            Action::Fail(number, kept) => format!("Fail with {kept} {}", packet(number)),
            Action::FailInDoubt(number, is_performed) => format!("Fail in doubt, {is_performed}, {}", packet(number)),
            other => format!("{other:?}"),
        }
    }

    /// How the history ends that has led to `state`, if nothing goes wrong any more from there: what is on the way is lost, if
    /// `is_lost`, or arrives, machines that have stopped come back, and timers go on until all is settled.
    ///
    /// # Errors
    /// Which promise of the protocol is broken.
    pub fn end(&self, state: &State, is_lost: bool) -> Ended<M> {
        if let Some(breach) = self.breach(state) {
            return Err(breach);
        }
        let mut end = state.clone();
        if is_lost {
            end.net.clear();
        }
        let mut ticks = 0;
        for _ in 0..SETTLING_STEPS_MAX {
            let Some(action) = self.healing(&end, ticks) else {
                return self.judged(end);
            };
            ticks += usize::from(matches!(action, Action::Tick(_)));
            self.take(&mut end, action);
            if let Some(breach) = self.breach(&end) {
                return Err(breach);
            }
        }
        Err("it does not settle when nothing goes wrong any more".to_owned())
    }

    /// Whether [`end`](Self::end) finds nothing broken, for one who asks this of every state that may follow.
    ///
    /// Unless a timer comes next, the state after the next step tells, which may follow, too. And of states that differ only in what is on the
    /// way, and is lost, one tells.
    pub fn ends_well(&self, state: &State, is_lost: bool) -> bool {
        if !is_lost || state.net.is_empty() {
            let next = self.healing(state, 0);
            let is_told_later = next.is_some_and(|action| !matches!(action, Action::Tick(_)));
            return state.broken.is_none() && (is_told_later || self.end(state, is_lost).is_ok());
        }
        let mut silent = state.clone();
        silent.net.clear();
        if self.ending_well.lock().expect("no judgement panics").contains(&silent) {
            return true;
        }
        let is_well = self.end(&silent, is_lost).is_ok();
        if is_well {
            self.ending_well.lock().expect("no judgement panics").insert(silent);
        }
        is_well
    }

    /// How the history has ended that has led to `state`, in which nothing can happen any more.
    ///
    /// # Errors
    /// Which promise of the protocol is broken.
    pub fn outcome(&self, state: &State) -> Ended<M> {
        self.judged(state.clone())
    }

    /// What happens next when nothing goes wrong any more; nothing if all is settled.
    fn healing(&self, state: &State, ticks: usize) -> Option<Action> {
        let table = self.table.read().expect("no step panics");
        let nodes = || (0..).zip(&state.nodes).map(|(host, &node): (u8, _)| (host, &table.nodes[node as usize].facts));
        let first = |holds: fn(&Facts<M>) -> bool| nodes().find(|(_, facts)| holds(facts)).map(|(host, _)| host);
        if let Some(host) = first(|facts| facts.is_halted) {
            return Some(Action::Crash(host, 0));
        }
        if let Some(&packet) = state.net.first() {
            return Some(Action::Deliver(packet));
        }
        if let Some(host) = first(|facts| facts.is_heard) {
            return Some(Action::Write(host));
        }
        let unsettled: Vec<_> = nodes().filter(|(_, facts)| !facts.is_settled).map(|(host, _)| host).collect();
        (!unsettled.is_empty()).then(|| Action::Tick(unsettled[ticks % unsettled.len()]))
    }

    fn judged(&self, end: State) -> Ended<M> {
        if let Some(found) = self.ends.lock().expect("no judgement panics").get(&end) {
            return found.clone();
        }
        let found = self.judge(&end).map(Arc::new);
        self.ends.lock().expect("no judgement panics").insert(end, found.clone());
        found
    }

    fn judge(&self, end: &State) -> Result<End<M::State>, String> {
        let all: Vec<_> = end.nodes.iter().map(|&node| self.facts(node)).collect();
        let mut ledger = Ledger::default();
        all.iter().for_each(|facts| ledger.merge(&facts.ledger));
        let committed: BTreeMap<usize, BTreeMap<EntityKey, Slot>> =
            ledger.decisions.iter().map(|(tx, slots)| (self.number(*tx), slots.clone())).collect();
        self.check_replies(end, &committed)?;
        let mut states = self.scenario.states.clone();
        states.extend(all.iter().flat_map(|facts| facts.bases.iter().cloned()));
        self.check_parts(&committed)?;
        ledger.check(&*self.scenario.model, &self.scenario.states, &states)?;
        let numbers: Vec<usize> = committed.keys().copied().collect();
        let transactions: Vec<_> = numbers.iter().map(|&n| self.committed(end, n, &numbers)).collect();
        let serial = explanation(&*self.scenario.model, &self.scenario.states, &transactions, &states);
        let serial: Option<Vec<usize>> = serial.map(|order| order.into_iter().map(|place| numbers[place]).collect());
        if serial.is_none() && self.scenario.strategy.is_serializable() {
            return Err(format!("no serial order of {numbers:?} explains {states:?}"));
        }
        Ok(End { states, committed, serial, told: end.told.clone() })
    }

    fn committed(&self, end: &State, number: usize, all: &[usize]) -> Committed<'_, M::Event> {
        let behind = end.begun[number].expect("what has committed has begun");
        let places = (0..).zip(all).filter(|(_, other)| behind & (1 << **other) != 0);
        Committed { calls: &self.scenario.transactions[number].calls, behind: places.map(|(place, _)| place).collect() }
    }

    /// Every reply says what happened, and where nothing has gone wrong every client has one.
    fn check_replies(&self, end: &State, committed: &BTreeMap<usize, BTreeMap<EntityKey, Slot>>) -> Result<(), String> {
        let Faults { crashes, take_overs, lates, refusals, doubts, .. } = self.scenario.faults;
        let left = end.left;
        let is_answered = (left.crashes, left.take_overs, left.doubts) == (crashes, take_overs, doubts);
        let is_decided = is_answered && (left.lates, left.refusals) == (lates, refusals);
        for (number, told) in end.told.iter().enumerate() {
            let is_committed = committed.contains_key(&number);
            let is_true = match told {
                Told::Done => is_committed,
                Told::Refused | Told::Void => !is_committed,
                Told::Nothing => !is_answered || end.begun[number].is_none(),
                Told::InDoubt => !is_answered,
            };
            if !is_true {
                return Err(format!("transaction {number} was told {told:?}, and committed: {is_committed}"));
            }
            if is_decided && *told == Told::Void {
                return Err(format!("transaction {number} was given up although nothing went wrong"));
            }
        }
        Ok(())
    }

    /// What has committed has a slot at every entity that it calls, but where that shares the journal of the coordinator and changes nothing.
    fn check_parts(&self, committed: &BTreeMap<usize, BTreeMap<EntityKey, Slot>>) -> Result<(), String> {
        for (&number, slots) in committed {
            let Transaction { coordinator, calls } = &self.scenario.transactions[number];
            let leaves_nothing = |call: &Call<M::Event>| {
                self.scenario.shares_journals
                    && self.hosts[&call.key] == self.hosts[coordinator]
                    && matches!(call.action, CallAction::Condition(_))
            };
            let mut called = calls.iter().filter(|call| !leaves_nothing(call)).map(|call| &call.key);
            if let Some(key) = called.find(|key| !slots.contains_key(*key)) {
                return Err(format!("transaction {number} committed without its part at {key}"));
            }
        }
        Ok(())
    }

    /// Whether each transaction alone is possible: a scenario in which none is proves nothing.
    pub fn is_possible_alone(&self, number: usize) -> bool {
        execute(&*self.scenario.model, &self.scenario.states, &self.scenario.transactions[number].calls).is_some()
    }

    fn number(&self, tx: TxId) -> usize {
        usize::try_from(tx.as_u128() % AGAIN).expect("a small number") - 1
    }

    fn facts(&self, node: u32) -> Arc<Facts<M>> {
        Arc::clone(&self.table.read().expect("no step panics").nodes[node as usize].facts)
    }

    /// Lets `action` happen, whatever is left of its kind.
    fn take(&self, state: &mut State, action: Action) {
        let host_of = |n: u8| self.hosts[&self.scenario.transactions[n as usize].coordinator];
        let (host, input) = match action {
            Action::TakeOver(host, kept) => return self.take_over(state, host, kept),
            Action::DeliverReplaced(packet) => {
                state.net.retain(|other| *other != packet);
                return self.input_replaced(state, self.host_of_packet(packet), Input::Deliver(packet));
            }
            Action::TickReplaced(host) => return self.input_replaced(state, host, Input::Tick),
            Action::Begin(n) => {
                let told_done = (0..).zip(&state.told).filter(|(_, told)| **told == Told::Done);
                state.begun[n as usize] = Some(told_done.fold(0, |mask, (other, _): (u32, _)| mask | 1 << other));
                (host_of(n), Input::Begin(n))
            }
            Action::Repeat(n) => (host_of(n), Input::Repeat(n)),
            Action::Deliver(packet)
            | Action::Double(packet)
            | Action::Fail(packet, _)
            | Action::FailInDoubt(packet, _) => {
                if !matches!(action, Action::Double(_)) {
                    state.net.retain(|other| *other != packet);
                }
                (self.host_of_packet(packet), Input::Deliver(packet))
            }
            Action::Write(host) => (host, Input::Write),
            Action::Refuse(host) => (host, Input::Refuse),
            Action::Doubt(host, is_performed) => (host, Input::Doubt(is_performed)),
            Action::Crash(host, kept) => (host, Input::Crash(kept)),
            Action::Tick(host) => (host, Input::Tick),
            Action::Late(host) => (host, Input::Late),
        };
        self.input(state, host, input);
        match action {
            Action::Fail(_, kept) => return self.input(state, host, Input::Crash(kept)),
            Action::FailInDoubt(_, is_performed) => {
                let told = state.told.clone();
                self.input(state, host, Input::Doubt(is_performed));
                self.input(state, host, Input::Crash(0));
                // A client in doubt knows what one without an answer knows.
                let was_nothing = |told: &Told| *told == Told::Nothing;
                let silent = state
                    .told
                    .iter_mut()
                    .zip(&told)
                    .filter(|(now, before)| **now == Told::InDoubt && was_nothing(before));
                silent.for_each(|(now, _)| *now = Told::Nothing);
                return;
            }
            _ => {}
        }
        while self.scenario.is_prompt && state.broken.is_none() && self.facts(state.nodes[host as usize]).is_heard {
            self.input(state, host, Input::Write);
        }
    }

    /// The node that `host` was goes on, in place of any that was replaced before.
    fn take_over(&self, state: &mut State, host: u8, kept: u8) {
        let before = state.nodes[host as usize];
        (0..kept).for_each(|_| self.input(state, host, Input::WriteOne));
        state.replaced[host as usize] = Some(std::mem::replace(&mut state.nodes[host as usize], before));
        self.input(state, host, Input::Crash(kept));
    }

    /// The node that was replaced takes `input`, and is refused what it appends.
    fn input_replaced(&self, state: &mut State, host: u8, input: Input) {
        let replaced = state.replaced[host as usize].expect("it was replaced");
        let now = std::mem::replace(&mut state.nodes[host as usize], replaced);
        self.input_unjudged(state, host, input);
        while state.broken.is_none() && self.facts(state.nodes[host as usize]).is_heard {
            self.input(state, host, Input::Refuse);
        }
        state.replaced[host as usize] = Some(std::mem::replace(&mut state.nodes[host as usize], now));
    }

    fn host_of_packet(&self, packet: u32) -> u8 {
        self.hosts[self.table.read().expect("no step panics").packets[packet as usize].to()]
    }

    fn input(&self, state: &mut State, host: u8, input: Input) {
        let unpromised = self.input_unjudged(state, host, input);
        state.broken = state.broken.or(unpromised);
    }

    /// Returns what was told to a participant that has never promised it.
    fn input_unjudged(&self, state: &mut State, host: u8, input: Input) -> Option<u32> {
        let Step { to, outcome } = self.step(state.nodes[host as usize], u32::from(host), input);
        state.nodes[host as usize] = to;
        for &packet in &outcome.sent {
            if let Err(place) = state.net.binary_search(&packet) {
                state.net.insert(place, packet);
            }
        }
        state.broken = state.broken.or(outcome.broken);
        for (tx, reply) in &outcome.told {
            if let Err(breach) = self.tell(state, *tx, reply) {
                state.broken = Some(self.breached(breach));
            }
        }
        outcome.unpromised
    }

    fn tell(&self, state: &mut State, tx: TxId, reply: &Reply) -> Result<(), String> {
        let (number, told) = (self.number(tx), Told::of(reply));
        let known = state.told[number];
        if tx.as_u128() > AGAIN {
            let first = TxId::from_u128(tx.as_u128() - AGAIN);
            let is_same = matches!(reply, Reply::Answered { tx, replayed: true, .. } if *tx == first) && told == known;
            return if is_same { Ok(()) } else { Err(format!("{number} was told {known:?}, and then {reply:?}")) };
        }
        match (known, told) {
            (Told::Nothing, _) => state.told[number] = told,
            _ if known == told => {}
            _ => return Err(format!("transaction {number} was told {known:?}, and then {told:?}")),
        }
        Ok(())
    }

    fn breached(&self, breach: String) -> u32 {
        let breaches = &mut self.table.write().expect("no step panics").breaches;
        if let Some(known) = breaches.iter().position(|other| *other == breach) {
            return known as u32;
        }
        breaches.push(breach);
        breaches.len() as u32 - 1
    }

    fn fresh(&self) -> Node<M> {
        let Scenario { model, strategy, limits, states, is_side_by_side, .. } = &self.scenario;
        let mut participant = ParticipantOptions::new(*strategy);
        participant.limits = limits.clone();
        participant.ask_after = Millis(0);
        let mut coordinator = CoordinatorOptions::new(Durability::TwoPhase);
        coordinator.resend_after = Millis(0);
        coordinator.grace = Millis(0);
        Node::new(
            Arc::clone(model),
            NodeOptions { participant, coordinator, is_side_by_side: *is_side_by_side },
            states,
        )
    }

    fn step(&self, node: u32, host: u32, input: Input) -> Step {
        let (history, twin) = {
            let table = self.table.read().expect("no step panics");
            if let Some(step) = table.steps.get(&(node, input)) {
                return step.clone();
            }
            let known = &table.nodes[node as usize];
            (known.history.clone(), known.twin.clone())
        };
        let step = self.work_out((host, node), history, input);
        if let Some(twin) = twin {
            let other = self.work_out((host, node), twin, input);
            assert_eq!(step, other, "two histories with one description have one future");
        }
        let mut table = self.table.write().expect("no step panics");
        table.steps.entry((node, input)).or_insert(step).clone()
    }

    fn work_out(&self, (host, from): (u32, u32), mut history: Vec<Input>, input: Input) -> Step {
        let mut node = self.fresh();
        for &earlier in &history {
            self.feed(host, &mut node, earlier);
        }
        let effects = catch_unwind(AssertUnwindSafe(|| self.feed(host, &mut node, input)));
        history.push(input);
        let mut outcome = Outcome { sent: Vec::new(), told: Vec::new(), broken: None, unpromised: None };
        let effects = match effects {
            Ok(effects) => effects,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                outcome.broken = Some(self.breached(text.unwrap_or_default()));
                return Step { to: from, outcome: Arc::new(outcome) };
            }
        };
        for effect in effects {
            match effect {
                Effect::Sent(packet) => outcome.sent.push(self.packet(packet)),
                Effect::Told { tx, reply } => {
                    let is_decided = |decided: &Filed<M>| matches!(&decided.1, Record::Decision(d) if d.tx == tx);
                    if Told::of(&reply) == Told::Done && tx.as_u128() < AGAIN && !node.durable().iter().any(is_decided)
                    {
                        outcome.broken =
                            Some(self.breached(format!("{tx} is told done before its decision is durable")));
                    }
                    outcome.told.push((tx, reply));
                }
                Effect::ProtocolError(at, decide) => {
                    outcome.unpromised = Some(self.breached(format!("{at} is told {decide:?} against the protocol")));
                }
                Effect::Applied(..) | Effect::Halted(_) => {}
            }
        }
        // The network has no order.
        outcome.sent.sort_unstable();
        outcome.sent.dedup();
        Step { to: self.enter(host, &node, history), outcome: Arc::new(outcome) }
    }

    /// Lets `node` take `input`, and what its machines say to each other then if they share its journal.
    fn feed(&self, host: u32, node: &mut Node<M>, input: Input) -> Vec<Effect<M::Event>> {
        let mut effects = VecDeque::from(self.feed_one(node, input));
        if !self.scenario.shares_journals {
            return effects.into();
        }
        let mut seen = Vec::new();
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Sent(mut packet) if u32::from(self.hosts[packet.to()]) == host => {
                    if let Packet::Down(_, ToParticipant::Prepare(prepare)) = &mut packet {
                        prepare.durability = Durability::Shared;
                    }
                    effects.extend(node.deliver(packet));
                }
                effect => seen.push(effect),
            }
        }
        seen
    }

    fn feed_one(&self, node: &mut Node<M>, input: Input) -> Vec<Effect<M::Event>> {
        match input {
            Input::Begin(n) => self.begin(node, n, 0),
            Input::Repeat(n) => self.begin(node, n, AGAIN),
            Input::Deliver(packet) => {
                let packet = self.table.read().expect("no step panics").packets[packet as usize].clone();
                node.deliver(packet)
            }
            Input::Write => {
                let count = node.until_heard().expect("a machine waits for a record");
                (0..count).flat_map(|_| node.write(Fate::Durable)).collect()
            }
            Input::WriteOne => node.write(Fate::Durable),
            Input::Refuse => node.write(Fate::Refused),
            Input::Doubt(is_performed) => node.write(Fate::InDoubt { is_performed }),
            Input::Crash(kept) => node.crash(kept.into()),
            Input::Tick => node.pass(node.now() + Millis(1)),
            Input::Late => node.pass(DEADLINE),
        }
    }

    fn begin(&self, node: &mut Node<M>, n: u8, again: u128) -> Vec<Effect<M::Event>> {
        let Transaction { coordinator, calls } = &self.scenario.transactions[n as usize];
        let idempotency = Idempotency { key: format!("request {n}"), principal: None, fingerprint: [n; 32] };
        let tx = TxId::from_u128(again + u128::from(n) + 1);
        let begin =
            Begin { tx, calls: calls.clone(), at: Timestamp(0), deadline: DEADLINE, idempotency: Some(idempotency) };
        node.begin(coordinator, begin)
    }

    fn packet(&self, packet: Packet<M::Event>) -> u32 {
        let text = format!("{packet:?}");
        let Table { packets, by_packet, .. } = &mut *self.table.write().expect("no step panics");
        *by_packet.entry(text).or_insert_with(|| {
            packets.push(packet);
            packets.len() as u32 - 1
        })
    }

    /// The number of the state that `node` is in, to which `history` has led.
    fn enter(&self, host: u32, node: &Node<M>, history: Vec<Input>) -> u32 {
        let text = node.describe(|now| now >= DEADLINE);
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, host, &text).hash(&mut hasher);
            hasher.finish()
        };
        let digest = (half(0), half(1));
        let mut table = self.table.write().expect("no step panics");
        let Table { nodes, by_description, .. } = &mut *table;
        if let Some(&known) = by_description.get(&digest) {
            let known_node = &mut nodes[known as usize];
            if known_node.twin.is_none() && known_node.history != history {
                known_node.twin = Some(history);
            }
            return known;
        }
        let number = nodes.len() as u32;
        nodes.push(Known { history, twin: None, facts: Arc::new(Facts::of(node)) });
        by_description.insert(digest, number);
        number
    }
}

type Filed<M> = crate::node::Filed<<M as Model>::Event>;

impl<M: Model> Facts<M> {
    fn of(node: &Node<M>) -> Self {
        let mut ledger = Ledger::default();
        ledger.read(node.durable());
        let bases =
            node.participants().map(|participant| (participant.key().clone(), participant.admission().base().clone()));
        Self {
            appended: u8::try_from(node.appended_count()).expect("few appends"),
            is_heard: node.until_heard().is_some(),
            is_first_heard: node.until_heard() == Some(1),
            has_deadline: node.next_deadline().is_some(),
            is_late: node.now() >= DEADLINE,
            is_halted: !node.halted().is_empty(),
            is_settled: node.is_settled(),
            bases: bases.collect(),
            ledger,
        }
    }
}
