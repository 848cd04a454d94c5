//! The commit protocol over nodes, simulated event by event.
//!
//! # What is simulated
//! Each user asks for one transfer after the other, always at the same node, without a pause. That node passes it on to the node of
//! the transfer's shard, which coordinates: it asks the two accounts in the order of their keys, each only when the one before has
//! voted yes, decides when both have, answers, and tells both. An account admits, or delays, by the admission of the product. What is
//! [forced](super::costs::Forced) is appended before the protocol goes on. Steps wait for a core of their node, first come, first
//! served; appends wait for their [journal](super::costs::Journal). A message to another node travels for the delay, and an append
//! takes a round trip to other servers.
//!
//! A coordinator that has waited for votes too long aborts: it fails the client, who asks for another transfer at once, and tells
//! the accounts that it asked.
//!
//! # What is left out
//! Losses and doubled messages, memory, snapshots, and acknowledgements of outcomes, on which nobody waits. The client has no cost and is
//! as near as can be. The product asks accounts side by side where it can; here they are asked one after the other.
//!
//! # Oracle
//! When the clock has stopped no user asks any more, and everything ends: each transfer that began ended once, no account has
//! anything open or delayed, and money is conserved.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use enact_entities::Decision;
use enact_workloads::SplitMix64;
use hdrhistogram::Histogram;

use super::accounts::{Accounts, Rule};
use super::costs::{Cores, Costs, Forced, Journal, Times};
use super::placement::place;
use super::queues::{Groups, Servers};
use super::transfer::{Part, Step, Transfer, Transfers, place_of};

/// A longer one counts as an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setup<'a> {
    pub(super) costs: &'a Costs,
    pub(super) nodes: usize,
    /// How long a message between nodes travels.
    pub(super) delay_ms: f64,
    pub(super) rule: Rule,
    pub(super) users: usize,
    pub(super) accounts: usize,
    pub(super) seed: u64,
    /// How many transfers end before the clock starts.
    pub(super) warm_up: u64,
    /// How many transfers end while it runs.
    pub(super) timed: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// Transfers a second that committed.
    pub(super) rate: f64,
    /// Transfers a second that were aborted.
    pub(super) failures: f64,
    pub(super) mean_ms: f64,
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
    /// The part of all cores that was busy.
    pub(super) cpu: f64,
}

impl Setup<'_> {
    /// # Panics
    /// If the oracle refuses the result, or nobody would ever ask.
    pub(super) fn run(&self) -> Outcome {
        assert!(self.users > 0 && self.timed > 0 && self.accounts > 1, "there is something to measure: {self:?}");
        let mut world = World::new(self);
        (0..self.users).for_each(|user| world.begin(user));
        while let Some(Reverse(Scheduled { at, happening, .. })) = world.schedule.pop() {
            world.now = at;
            world.happen(happening);
        }
        world.verify();
        world.outcome()
    }
}

/// A step of the transfer at this place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Task {
    transfer: usize,
    step: Step,
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Arrived(Task),
    /// The processor is done.
    Computed(Task),
    /// The writer of this journal is done.
    Written(usize, Task),
    /// The group of this journal is durable.
    GroupWritten(usize),
    /// The round trip of an append is over.
    Durable(Task),
    /// The coordinator of the transfer at this place waits no longer, if it still has this number.
    GiveUp(usize, u64),
}

struct Scheduled {
    at: u64,
    /// What happens at the same time happens in the order in which it was scheduled.
    number: u64,
    happening: Happening,
}

enum Writers {
    /// By node.
    Stores(Vec<Servers<Task>>),
    /// By shard.
    Groups(Vec<Groups<Task>>),
}

struct World<'a> {
    setup: &'a Setup<'a>,
    now: u64,
    scheduled: u64,
    schedule: BinaryHeap<Reverse<Scheduled>>,
    draws: SplitMix64,
    /// The node of each shard.
    owners: Vec<usize>,
    /// The shard of each account.
    shards: Vec<usize>,
    processors: Vec<Servers<Task>>,
    writers: Writers,
    accounts: Accounts,
    transfers: Transfers,
    begun: u64,
    ended: u64,
    clock: Clock,
}

/// What is measured while the clock runs.
struct Clock {
    started: u64,
    stopped: Option<u64>,
    committed: u64,
    failed: u64,
    latencies_us: Histogram<u64>,
    busy_ns: u64,
}

impl<'a> World<'a> {
    fn new(setup: &'a Setup<'a>) -> Self {
        let Costs { cores, journal, shards, apart_max, .. } = *setup.costs;
        let mut draws = SplitMix64::new(setup.seed);
        let owners = place(setup.nodes, shards, apart_max, &mut draws);
        let shard_of = (0..setup.accounts).map(|_| draws.below(shards as u64) as usize).collect();
        let processors = match cores {
            Cores::EachNode(cores) => (0..setup.nodes).map(|_| Servers::new(cores)).collect(),
            Cores::Shared(cores) => vec![Servers::new(cores)],
        };
        let writers = match journal {
            Journal::Store { writers, .. } => {
                Writers::Stores((0..setup.nodes).map(|_| Servers::new(writers)).collect())
            }
            Journal::Groups { .. } => Writers::Groups((0..shards).map(|_| Groups::default()).collect()),
        };
        let latencies_us = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3).expect("the bounds are valid");
        let clock = Clock { started: 0, stopped: None, committed: 0, failed: 0, latencies_us, busy_ns: 0 };
        Self {
            setup,
            now: 0,
            scheduled: 0,
            schedule: BinaryHeap::new(),
            draws,
            owners,
            shards: shard_of,
            processors,
            writers,
            accounts: Accounts::new(setup.accounts, setup.rule),
            transfers: Transfers::default(),
            begun: 0,
            ended: 0,
            clock,
        }
    }

    fn begin(&mut self, user: usize) {
        let count = self.setup.accounts as u64;
        let from = self.draws.below(count) as usize;
        let to = (from + 1 + self.draws.below(count - 1) as usize) % count as usize;
        let (accounts, amounts) = if from < to { ([from, to], [-1, 1]) } else { ([to, from], [1, -1]) };
        self.begun += 1;
        let place = self.transfers.begin(Transfer {
            number: self.begun,
            user,
            began: self.now,
            shard: self.draws.below(self.owners.len() as u64) as usize,
            accounts,
            amounts,
            parts: [Part::Unasked; 2],
            is_decided: false,
            has_given_up: false,
            is_answered: false,
            is_over: false,
            steps: 0,
        });
        self.compute(Task { transfer: place, step: Step::Request });
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrived(task) => {
                self.transfers.at_mut(task.transfer).steps -= 1;
                self.compute(task);
            }
            Happening::Computed(task) => {
                let processor = self.processor_of(task);
                if let Some((next, ns)) = self.processors[processor].leave() {
                    self.occupy(next, ns);
                }
                self.transfers.at_mut(task.transfer).steps -= 1;
                self.computed(task);
            }
            Happening::Written(journal, task) => {
                if let Writers::Stores(stores) = &mut self.writers
                    && let Some((next, ns)) = stores[journal].leave()
                {
                    self.after(ns, Happening::Written(journal, next));
                }
                self.after(self.round_trip(), Happening::Durable(task));
            }
            Happening::GroupWritten(journal) => self.group_written(journal),
            Happening::Durable(task) => {
                self.transfers.at_mut(task.transfer).steps -= 1;
                self.durable(task);
            }
            Happening::GiveUp(place, number) => self.give_up(place, number),
        }
    }

    fn after(&mut self, ns: u64, happening: Happening) {
        self.scheduled += 1;
        self.schedule.push(Reverse(Scheduled { at: self.now + ns, number: self.scheduled, happening }));
    }

    /// Draws how long a step takes that takes so long on average.
    fn time(&mut self, mean_us: f64) -> u64 {
        let factor = match self.setup.costs.times {
            Times::Fixed => 1.0,
            Times::Exponential => -(((self.draws.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64).ln(),
        };
        (mean_us * factor * 1e3) as u64
    }

    fn delay(&self) -> u64 {
        (self.setup.delay_ms * 1e6) as u64
    }

    /// To the servers that keep the other copies of a record.
    fn round_trip(&self) -> u64 {
        2 * self.delay()
    }

    /// The node of the client.
    fn entry(&self, transfer: &Transfer) -> usize {
        transfer.user % self.setup.nodes
    }

    /// The shard in which the step happens; none at the client's node.
    fn shard_of(&self, Task { transfer, step }: Task) -> Option<usize> {
        let transfer = self.transfers.at(transfer);
        match step {
            Step::Request | Step::Answer => None,
            Step::Coordinate | Step::Voted(_) | Step::Decide => Some(transfer.shard),
            Step::Vote(place) | Step::Apply(place) | Step::Abort(place) => Some(self.shards[transfer.accounts[place]]),
        }
    }

    fn node_of(&self, task: Task) -> usize {
        self.shard_of(task).map_or_else(|| self.entry(self.transfers.at(task.transfer)), |shard| self.owners[shard])
    }

    fn processor_of(&self, task: Task) -> usize {
        match self.setup.costs.cores {
            Cores::EachNode(_) => self.node_of(task),
            Cores::Shared(_) => 0,
        }
    }

    /// Whether the account is in another shard than the coordinator.
    fn is_elsewhere(&self, transfer: &Transfer, place: usize) -> bool {
        self.shards[transfer.accounts[place]] != transfer.shard
    }

    /// Whether what the step does is durable before the protocol goes on.
    fn is_forced(&self, Task { transfer, step }: Task) -> bool {
        let transfer = self.transfers.at(transfer);
        match step {
            Step::Decide => true,
            Step::Request | Step::Voted(_) | Step::Answer => false,
            Step::Coordinate | Step::Apply(_) | Step::Abort(_) => self.setup.costs.forced == Forced::EveryStep,
            Step::Vote(place) => self.setup.costs.forced == Forced::EveryStep || self.is_elsewhere(transfer, place),
        }
    }

    /// Whether the step begins with a message that was encoded.
    fn is_message(&self, Task { transfer, step }: Task) -> bool {
        let transfer = self.transfers.at(transfer);
        match step {
            Step::Request | Step::Decide => false,
            Step::Coordinate | Step::Answer => self.entry(transfer) != self.owners[transfer.shard],
            Step::Vote(place) | Step::Voted(place) | Step::Apply(place) | Step::Abort(place) => {
                self.is_elsewhere(transfer, place)
            }
        }
    }

    fn cpu_us(&self, task: Task) -> f64 {
        let costs = self.setup.costs;
        let own = match task.step {
            Step::Request => costs.request_us,
            Step::Coordinate => costs.coordinate_us,
            Step::Vote(_) => costs.vote_us,
            Step::Decide => costs.decide_us,
            Step::Apply(_) | Step::Abort(_) => costs.apply_us,
            Step::Voted(_) | Step::Answer => 0.0,
        };
        let message = if self.is_message(task) { costs.message_us } else { 0.0 };
        let append = if self.is_forced(task) { costs.append_us } else { 0.0 };
        own + message + append
    }

    /// From the node of one step to that of another.
    fn send(&mut self, from: Task, step: Step) {
        let task = Task { step, ..from };
        if self.node_of(from) == self.node_of(task) {
            self.compute(task);
        } else {
            self.transfers.at_mut(task.transfer).steps += 1;
            self.after(self.delay(), Happening::Arrived(task));
        }
    }

    fn compute(&mut self, task: Task) {
        let mean_us = self.cpu_us(task);
        if mean_us == 0.0 {
            return self.computed(task);
        }
        let ns = self.time(mean_us);
        self.transfers.at_mut(task.transfer).steps += 1;
        let processor = self.processor_of(task);
        if let Some(task) = self.processors[processor].enter(task, ns) {
            self.occupy(task, ns);
        }
    }

    fn occupy(&mut self, task: Task, ns: u64) {
        if self.is_timed() {
            self.clock.busy_ns += ns;
        }
        self.after(ns, Happening::Computed(task));
    }

    /// The processor has done its part.
    fn computed(&mut self, task: Task) {
        match task.step {
            Step::Vote(place) => self.asked(task, place),
            _ if self.is_forced(task) => self.append(task),
            _ => self.durable(task),
        }
    }

    fn append(&mut self, task: Task) {
        self.transfers.at_mut(task.transfer).steps += 1;
        let (node, shard) = (self.node_of(task), self.shard_of(task).expect("only shards have journals"));
        match (self.setup.costs.journal, &mut self.writers) {
            (Journal::Store { write_us, .. }, Writers::Stores(_)) => {
                let ns = self.time(write_us);
                let Writers::Stores(stores) = &mut self.writers else { unreachable!("they stay what they are") };
                if let Some(task) = stores[node].enter(task, ns) {
                    self.after(ns, Happening::Written(node, task));
                }
            }
            (Journal::Groups { write_us }, Writers::Groups(groups)) => {
                if groups[shard].enter(task) {
                    let ns = self.time(write_us);
                    self.after(ns, Happening::GroupWritten(shard));
                }
            }
            _ => unreachable!("the writers are those of the journal"),
        }
    }

    fn group_written(&mut self, journal: usize) {
        let (Journal::Groups { write_us }, Writers::Groups(groups)) = (self.setup.costs.journal, &mut self.writers)
        else {
            unreachable!("only groups are written as such");
        };
        let (written, has_next) = groups[journal].leave();
        if has_next {
            let ns = self.time(write_us);
            self.after(ns, Happening::GroupWritten(journal));
        }
        for task in written {
            self.after(self.round_trip(), Happening::Durable(task));
        }
    }

    /// The step is done, and durable if it has to be: what follows.
    fn durable(&mut self, task: Task) {
        match task.step {
            Step::Request => self.send(task, Step::Coordinate),
            Step::Coordinate => self.coordinate(task),
            Step::Vote(place) => {
                if self.transfers.at(task.transfer).parts[place] == Part::Held {
                    self.send(task, Step::Voted(place));
                }
            }
            Step::Voted(place) => self.voted(task, place),
            Step::Decide => {
                self.send(task, Step::Answer);
                self.send(task, Step::Apply(0));
                self.send(task, Step::Apply(1));
            }
            Step::Answer => self.answered(task.transfer),
            Step::Apply(place) => self.release(task.transfer, place, Decision::Commit),
            Step::Abort(place) => self.aborted(task.transfer, place),
        }
        self.transfers.end_if_over(task.transfer);
    }

    fn coordinate(&mut self, task: Task) {
        if let Some(patience_ms) = self.setup.costs.patience_ms {
            let number = self.transfers.at(task.transfer).number;
            self.after((patience_ms * 1e6) as u64, Happening::GiveUp(task.transfer, number));
        }
        self.ask(task, 0);
    }

    fn ask(&mut self, task: Task, place: usize) {
        self.transfers.at_mut(task.transfer).parts[place] = Part::Asked;
        self.send(task, Step::Vote(place));
    }

    /// The account judges, unless it has heard of the abort.
    fn asked(&mut self, task: Task, place: usize) {
        let transfer = self.transfers.at_mut(task.transfer);
        if transfer.parts[place] == Part::Gone {
            return self.transfers.end_if_over(task.transfer);
        }
        transfer.parts[place] = Part::Held;
        let (account, amount, id) = (transfer.accounts[place], transfer.amounts[place], transfer.id(task.transfer));
        if self.accounts.ask(account, id, amount) {
            self.admitted(task);
        }
    }

    fn admitted(&mut self, task: Task) {
        if self.is_forced(task) { self.append(task) } else { self.durable(task) }
    }

    fn voted(&mut self, task: Task, place: usize) {
        let transfer = self.transfers.at_mut(task.transfer);
        if transfer.has_given_up {
            return;
        }
        if place == 0 {
            return self.ask(task, 1);
        }
        transfer.is_decided = true;
        self.compute(Task { step: Step::Decide, ..task });
    }

    /// The account ends what it holds, and what that lets in votes.
    fn release(&mut self, place: usize, part: usize, decision: Decision) {
        let transfer = self.transfers.at_mut(place);
        transfer.parts[part] = Part::Gone;
        let (account, id) = (transfer.accounts[part], transfer.id(place));
        for other in self.accounts.decide(account, id, decision) {
            let transfer = place_of(other);
            let step = Step::Vote(self.transfers.at(transfer).place_of(account));
            self.admitted(Task { transfer, step });
        }
    }

    fn aborted(&mut self, place: usize, part: usize) {
        match self.transfers.at(place).parts[part] {
            Part::Held => self.release(place, part, Decision::Abort),
            _ => self.transfers.at_mut(place).parts[part] = Part::Gone,
        }
    }

    fn give_up(&mut self, place: usize, number: u64) {
        let transfer = self.transfers.at_mut(place);
        if transfer.number != number || transfer.is_decided || transfer.is_over {
            return;
        }
        transfer.has_given_up = true;
        let coordinator = Task { transfer: place, step: Step::Decide };
        for part in 0..2 {
            match self.transfers.at(place).parts[part] {
                Part::Unasked => self.transfers.at_mut(place).parts[part] = Part::Gone,
                _ => self.send(coordinator, Step::Abort(part)),
            }
        }
        self.send(coordinator, Step::Answer);
    }

    /// The client has its answer, and asks for another transfer until the clock has stopped.
    fn answered(&mut self, place: usize) {
        let transfer = self.transfers.at_mut(place);
        transfer.is_answered = true;
        let (user, began, has_failed) = (transfer.user, transfer.began, transfer.has_given_up);
        if self.is_timed() {
            self.clock.failed += u64::from(has_failed);
            self.clock.committed += u64::from(!has_failed);
            if !has_failed {
                self.clock.latencies_us.saturating_record((self.now - began) / 1_000);
            }
        }
        self.ended += 1;
        if self.ended == self.setup.warm_up {
            self.clock.started = self.now;
        }
        if self.ended == self.setup.warm_up + self.setup.timed {
            self.clock.stopped = Some(self.now);
        }
        if self.clock.stopped.is_none() {
            self.begin(user);
        }
    }

    fn is_timed(&self) -> bool {
        self.ended >= self.setup.warm_up && self.clock.stopped.is_none()
    }

    /// The oracle.
    fn verify(&self) {
        assert_eq!(self.begun, self.ended, "each transfer that began ended once: {:?}", self.setup);
        assert_eq!(self.transfers.count(), 0, "no transfer is left: {:?}", self.setup);
        self.accounts.verify();
    }

    fn outcome(&self) -> Outcome {
        let Clock { started, stopped, committed, failed, latencies_us, busy_ns } = &self.clock;
        let s = (stopped.unwrap_or(self.now) - started) as f64 / 1e9;
        let cores = match self.setup.costs.cores {
            Cores::EachNode(cores) => cores * self.setup.nodes,
            Cores::Shared(cores) => cores,
        };
        let ms = |us: u64| us as f64 / 1e3;
        Outcome {
            rate: *committed as f64 / s,
            failures: *failed as f64 / s,
            mean_ms: latencies_us.mean() / 1e3,
            p50_ms: ms(latencies_us.value_at_quantile(0.5)),
            p99_ms: ms(latencies_us.value_at_quantile(0.99)),
            cpu: *busy_ns as f64 / 1e9 / s / cores as f64,
        }
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
