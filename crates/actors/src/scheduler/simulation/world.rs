//! Simulated workers that replay a recording.
//!
//! Each worker has a time of its own. The one that is behind all others does what it does next: up to its next message, the
//! end of its turn, or its next look around. So nothing happens that something earlier could still change.
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use super::super::GATHERING;
use super::super::TURNS_PER_LOOK;
use super::super::crossing::{Crossings, LastWorker, NOBODY, in_short};
use super::super::own_queue::OwnQueue;
use super::super::queues::Queues;
use super::super::sleepers::{Bed, Sleepers};
use super::super::watch::SENTINEL_LOOKS_EVERY;
use super::super::worker::SEARCH_ROUNDS;
use super::machine::{self, Runnable, Simulated};
use super::nanos;
use super::recording::{Recording, Send, TurnIndex};
use crate::cell::{SHORT_BATCH, TURNS_PER_RUN};

/// How long a mailbox is locked for a message, beside what crosses meanwhile.
const LOCKED_NS: u64 = 5;
/// How many half lines a mailbox has that is locked by another core than before.
const MAILBOX_HALF_LINES: u64 = 3;
/// How many half lines an actor has that runs on another core than before: its activation and its state. Processors fetch
/// several at a time; together with the mailbox's, these are what `cham` and `phil` were measured to wait for.
const ACTOR_HALF_LINES: u64 = 4;
/// How many messages lie in half a line.
const MESSAGES_PER_HALF_LINE: u64 = 2;
/// How many half lines a theft takes from a queue.
const THEFT_HALF_LINES: u64 = 6;
/// How many half lines another worker shows to one that looks around.
const HALF_LINES_PER_LOOK: u64 = 2;
/// How long a searching worker yields between two looks around, from and to: were it always the same, workers would meet in
/// step.
const YIELD_NS: (u64, u64) = (300, 700);
/// What a wake-up takes of the waker, and until the woken worker runs.
const WAKING_NS: u64 = 5_000;
const WAKE_UP_NS: u64 = 20_000;
/// How long the thread outside waits from the end of a run to the beginning of the next.
const BETWEEN_RUNS_NS: u64 = 50_000;

/// Of what is random.
const SEED: u64 = 0x9e37_79b9_7f4a_7c15;

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// How many workers there are, each with a core of its own.
    pub workers: usize,
    /// What it costs that a cache line comes from another core.
    pub line: Duration,
}

/// What a replay has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How long the runs have taken together, without what was discarded.
    pub elapsed: Duration,
    /// For how long workers were in turns, all together.
    pub busy: Duration,
    /// How often a mailbox was locked by another worker than before.
    pub crossings: u64,
    /// How often a worker was woken.
    pub wake_ups: u64,
}

/// Runs `recording` so often, one run after the other and after others that are discarded.
///
/// # Panics
/// If the recording does not come to its end.
#[must_use]
pub fn replay(recording: &Recording, setting: &Setting, discarded: u32, runs: u32) -> Outcome {
    let mut world = World::new(recording, setting);
    for _ in 0..discarded {
        world.run();
    }
    let before = world.counted;
    let elapsed_ns: u64 = (0..runs).map(|_| world.run()).sum();
    let counted = world.counted;
    Outcome {
        elapsed: Duration::from_nanos(elapsed_ns),
        busy: Duration::from_nanos(counted.busy_ns - before.busy_ns),
        crossings: counted.crossings - before.crossings,
        wake_ups: counted.wake_ups - before.wake_ups,
    }
}

#[derive(Clone, Copy, Default)]
struct Counted {
    busy_ns: u64,
    crossings: u64,
    wake_ups: u64,
}

pub(super) struct World<'r> {
    recording: &'r Recording,
    line_ns: u64,
    queues: Queues<Runnable>,
    sleepers: Sleepers<()>,
    workers: Vec<Worker>,
    actors: Vec<Actor>,
    /// Who does something next and when; the thread outside comes after all workers.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    /// When the run began, what has come from outside since, and how many turns are left.
    run_began_ns: u64,
    from_outside: usize,
    left: usize,
    ended_ns: u64,
    /// Turns whose beginning is asked for, and when they have begun.
    watched: Vec<(TurnIndex, Option<u64>)>,
    counted: Counted,
    random: u64,
}

struct Worker {
    queue: OwnQueue<Simulated>,
    now_ns: u64,
    step: Step,
    runs: Vec<Run>,
    crossings: Crossings,
    /// When it goes on; none while it sleeps.
    due_ns: Option<u64>,
    is_sentinel: bool,
}

/// What a worker does next.
#[derive(Clone, Copy)]
enum Step {
    ChooseActor,
    BeginTurn,
    /// Sends the message of this place, or ends the turn.
    GoOn(usize),
    LookAround {
        round: u32,
        /// When the first round began.
        since_ns: u64,
    },
    StandSentinel,
}

/// A run of an actor; the last one of a worker runs inside of the others.
struct Run {
    actor: Runnable,
    budget: usize,
    /// What the budget was when messages were fetched last in this run.
    fetched_at: Option<usize>,
    turn: TurnIndex,
    /// For how long the turn has run.
    after_ns: u64,
}

struct Actor {
    /// Here while it is idle.
    activation: Option<Runnable>,
    mailbox: VecDeque<Message>,
    batch: VecDeque<Message>,
    is_held: bool,
    resumed: Option<TurnIndex>,
    last_worker: LastWorker,
    /// The worker that has had its mailbox's lines last, and until when the mailbox is locked.
    mailbox_at: Option<usize>,
    locked_until_ns: u64,
    /// Where it has run last.
    ran_at: Option<usize>,
}

#[derive(Clone, Copy)]
struct Message {
    turn: TurnIndex,
    sender: usize,
}

impl Actor {
    fn new(index: usize) -> Self {
        Self {
            activation: Some(Runnable::new(index)),
            mailbox: VecDeque::new(),
            batch: VecDeque::new(),
            is_held: false,
            resumed: None,
            last_worker: LastWorker::NOBODY,
            mailbox_at: None,
            locked_until_ns: 0,
            ran_at: None,
        }
    }

    /// Takes a message in. The actor, if it has become runnable by that.
    fn accept(&mut self, message: Message) -> Option<Runnable> {
        let activation = if self.is_held { None } else { self.activation.take() };
        let queue = if activation.is_some() { &mut self.batch } else { &mut self.mailbox };
        queue.push_back(message);
        activation
    }

    fn has_work(&self) -> bool {
        if self.is_held { self.resumed.is_some() } else { !self.batch.is_empty() || !self.mailbox.is_empty() }
    }
}

impl<'r> World<'r> {
    pub(super) fn new(recording: &'r Recording, setting: &Setting) -> Self {
        let worker = |index| Worker {
            queue: OwnQueue::new(index, setting.line),
            now_ns: 0,
            step: Step::ChooseActor,
            runs: Vec::new(),
            crossings: Crossings::NONE,
            due_ns: Some(0),
            is_sentinel: false,
        };
        let workers: Vec<Worker> = (0..setting.workers).map(worker).collect();
        let deques = workers.iter().map(|worker| &worker.queue.deque);
        Self {
            recording,
            line_ns: nanos(setting.line),
            queues: Queues::of(deques, machine::instant(0)),
            sleepers: Sleepers::new(setting.workers),
            agenda: (0..setting.workers).map(|worker| Reverse((0, worker))).collect(),
            workers,
            actors: (0..recording.actors).map(Actor::new).collect(),
            run_began_ns: 0,
            from_outside: 0,
            left: 0,
            ended_ns: 0,
            watched: Vec::new(),
            counted: Counted::default(),
            random: SEED,
        }
    }

    /// Has it be noted when these turns begin.
    pub(super) fn watch(&mut self, turns: &[TurnIndex]) {
        self.watched = turns.iter().map(|&turn| (turn, None)).collect();
    }

    /// The thread outside begins to send.
    pub(super) fn begin(&mut self) {
        (self.from_outside, self.left) = (0, self.recording.turns.len());
        self.run_began_ns = self.ended_ns + BETWEEN_RUNS_NS;
        self.plan_send_from_outside();
    }

    /// Runs the recording once. How long that takes.
    fn run(&mut self) -> u64 {
        self.begin();
        while self.left > 0 {
            self.step();
        }
        self.ended_ns - self.run_began_ns
    }

    /// When the watched turns begin.
    pub(super) fn step_until_begun(&mut self) -> Vec<Duration> {
        loop {
            let begun = self.watched.iter().map(|(_, begun)| begun.map(Duration::from_nanos));
            if let Some(begun) = begun.collect() {
                return begun;
            }
            self.step();
        }
    }

    /// Has the one that is behind go on, as long as it stays behind.
    fn step(&mut self) {
        let Reverse((now_ns, who)) = self.agenda.pop().expect("a recording comes to its end");
        let Some(worker) = self.workers.get_mut(who) else { return self.send_from_outside() };
        if worker.due_ns != Some(now_ns) {
            // It was woken before.
            return;
        }
        worker.now_ns = now_ns;
        loop {
            self.go_on(who);
            let Some(due_ns) = self.workers[who].due_ns else { return };
            let is_behind = self.agenda.peek().is_none_or(|Reverse(next)| (due_ns, who) < *next);
            if !is_behind || self.left == 0 {
                return self.agenda.push(Reverse((due_ns, who)));
            }
            self.workers[who].now_ns = due_ns;
        }
    }

    fn go_on(&mut self, who: usize) {
        let Worker { now_ns, crossings, step, .. } = self.workers[who];
        machine::set(now_ns, crossings);
        match step {
            Step::ChooseActor => self.choose_actor(who),
            Step::BeginTurn => self.begin_turn(who),
            Step::GoOn(place) => self.go_on_with_turn(who, place),
            Step::LookAround { round, since_ns } => self.look_around(who, round, since_ns),
            Step::StandSentinel => self.stand_sentinel(who),
        }
    }

    /// The worker is busy for so long.
    fn spend(&mut self, who: usize, ns: u64) {
        let worker = &mut self.workers[who];
        worker.now_ns += ns;
        worker.due_ns = Some(worker.now_ns);
        self.counted.busy_ns += ns;
        machine::set(worker.now_ns, worker.crossings);
    }

    fn spend_half_lines(&mut self, who: usize, half_lines: u64) {
        self.spend(who, half_lines * self.line_ns / 2);
    }

    /// A number from `least` to `most` at random.
    fn between(&mut self, (least, most): (u64, u64)) -> u64 {
        // Marsaglia's xorshift.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        least + self.random % (most - least + 1)
    }

    fn choose_actor(&mut self, who: usize) {
        let Worker { queue, now_ns, .. } = &mut self.workers[who];
        let now_ns = *now_ns;
        let now = queue.count(&self.queues);
        let next = queue.next(&self.queues, now);
        if let Some(next) = next {
            queue.begin(&next);
            return self.begin_run(who, next, TURNS_PER_RUN);
        }
        queue.pause(&self.queues, machine::instant(now_ns));
        self.sleepers.start_searching();
        self.search(who);
    }

    fn begin_run(&mut self, who: usize, actor: Runnable, budget: usize) {
        let before = self.actors[actor.index()].ran_at.replace(who);
        if before.is_some_and(|before| before != who) {
            self.spend_half_lines(who, ACTOR_HALF_LINES);
        }
        let worker = &mut self.workers[who];
        worker.runs.push(Run { actor, budget, fetched_at: None, turn: TurnIndex::MAX, after_ns: 0 });
        worker.step = Step::BeginTurn;
    }

    fn begin_turn(&mut self, who: usize) {
        let run = self.workers[who].runs.last_mut().expect("a turn is in a run");
        let actor = &mut self.actors[run.actor.index()];
        let next = if actor.is_held {
            let resumed = actor.resumed.take();
            actor.is_held = resumed.is_none();
            resumed
        } else if run.budget > 0 {
            actor.batch.pop_front().map(|message| message.turn)
        } else {
            None
        };
        let Some(turn) = next else { return self.rest(who) };
        (run.turn, run.after_ns) = (turn, 0);
        let now_ns = self.workers[who].now_ns;
        for (_, begun) in self.watched.iter_mut().filter(|(watched, _)| *watched == turn) {
            begun.get_or_insert(now_ns);
        }
        self.pass_time_until(who, 0);
    }

    /// Passes time until the turn sends the message of this place, or ends.
    fn pass_time_until(&mut self, who: usize, place: usize) {
        let worker = &mut self.workers[who];
        worker.step = Step::GoOn(place);
        let run = worker.runs.last_mut().expect("a turn is in a run");
        let send = self.recording.sends_of(run.turn).get(place);
        let until_ns = send.map_or(u64::from(self.recording.turns[run.turn as usize].cost_ns), |send| send.after_ns);
        let ns = until_ns.saturating_sub(run.after_ns);
        run.after_ns += ns;
        self.spend(who, ns);
    }

    fn go_on_with_turn(&mut self, who: usize, place: usize) {
        let run = self.workers[who].runs.last().expect("a turn is in a run");
        let Some(&Send { turn, .. }) = self.recording.sends_of(run.turn).get(place) else { return self.end_turn(who) };
        self.send(who, turn);
        self.pass_time_until(who, place + 1);
    }

    fn send(&mut self, who: usize, turn: TurnIndex) {
        let to = self.recording.turns[turn as usize].actor as usize;
        self.lock(who, to);
        if let Some(actor) = self.actors[to].accept(Message { turn, sender: who }) {
            self.schedule(who, actor);
        }
    }

    /// Takes the lock of the mailbox of `actor`, for a moment.
    fn lock(&mut self, who: usize, actor: usize) {
        let Actor { mailbox_at, locked_until_ns, .. } = self.actors[actor];
        let comes_from_another = mailbox_at.is_some_and(|before| before != who);
        if comes_from_another {
            let waits_ns = locked_until_ns.saturating_sub(self.workers[who].now_ns);
            self.workers[who].crossings.waits += u32::from(waits_ns > 0);
            self.spend(who, waits_ns);
            self.spend_half_lines(who, MAILBOX_HALF_LINES);
        }
        let locked = &mut self.actors[actor];
        if let Some(before) = locked.last_worker.change_to(in_short(who)) {
            self.workers[who].crossings.add(before);
            self.counted.crossings += 1;
        }
        locked.mailbox_at = Some(who);
        locked.locked_until_ns = self.workers[who].now_ns + LOCKED_NS;
    }

    /// The worker has made an actor runnable.
    fn schedule(&mut self, who: usize, actor: Runnable) {
        let (mut actor, queue) = (Some(actor), &mut self.workers[who].queue);
        if !queue.add_next(&self.queues, &self.sleepers, &mut actor)
            && queue.finish_adding(&self.queues, actor, OwnQueue::add_next_timed)
        {
            self.ask_for_help(who);
        }
    }

    fn schedule_behind(&mut self, who: usize, actor: Runnable) {
        let (mut actor, queue) = (Some(actor), &mut self.workers[who].queue);
        if !queue.add_last(&self.sleepers, &mut actor)
            && queue.finish_adding(&self.queues, actor, OwnQueue::add_last_timed)
        {
            self.ask_for_help(who);
        }
    }

    fn ask_for_help(&mut self, who: usize) {
        if self.sleepers.can_help() && self.wake_one(self.workers[who].now_ns) {
            self.spend(who, WAKING_NS);
        }
    }

    /// Begins to wake a worker, if one sleeps. Whether one does.
    fn wake_one(&mut self, now_ns: u64) -> bool {
        let Some((woken, ())) = self.sleepers.wake_last() else { return false };
        let due_ns = now_ns + WAKING_NS + WAKE_UP_NS;
        let worker = &mut self.workers[woken];
        (worker.step, worker.due_ns) = (Step::LookAround { round: 0, since_ns: due_ns }, Some(due_ns));
        self.agenda.push(Reverse((due_ns, woken)));
        self.counted.wake_ups += 1;
        true
    }

    fn end_turn(&mut self, who: usize) {
        let run = self.workers[who].runs.last_mut().expect("a turn is in a run");
        let (index, actor) = (run.turn, run.actor.index());
        run.budget = run.budget.saturating_sub(1);
        let looks = run.budget.is_multiple_of(TURNS_PER_LOOK) && run.budget > 0;
        if looks && self.workers[who].queue.is_wanted_outside(&self.queues) {
            self.workers[who].runs.last_mut().expect("a turn is in a run").budget = 0;
        }
        self.left = self.left.saturating_sub(1);
        self.ended_ns = self.ended_ns.max(self.workers[who].now_ns);
        let turn = &self.recording.turns[index as usize];
        if let Some(resumed) = turn.answers {
            self.answer(who, resumed);
        }
        self.workers[who].step = Step::BeginTurn;
        if turn.holds {
            self.actors[actor].is_held = true;
            if self.actors[actor].resumed.is_none() {
                self.run_asked_here(who, index);
            }
        }
    }

    /// Has a suspended turn go on.
    fn answer(&mut self, who: usize, resumed: TurnIndex) {
        let asking = self.recording.turns[resumed as usize].actor as usize;
        let actor = &mut self.actors[asking];
        actor.resumed = Some(resumed);
        if !actor.is_held {
            return;
        }
        if let Some(activation) = actor.activation.take() {
            if actor.mailbox_at.replace(who) != Some(who) {
                self.spend_half_lines(who, MAILBOX_HALF_LINES);
            }
            self.schedule(who, activation);
        }
    }

    /// Has the actor that was asked last by this turn take one turn inside of it, if it is the next one here.
    fn run_asked_here(&mut self, who: usize, asking: TurnIndex) {
        let Some(last) = self.recording.sends_of(asking).last() else { return };
        let asked = self.recording.turns[last.turn as usize].actor as usize;
        let queue = &mut self.workers[who].queue;
        if !queue.may_nest(&self.queues) {
            return;
        }
        let actors = &self.actors;
        let is_brief =
            |next: &mut Runnable| next.index() == asked && !actors[asked].is_held && !actors[asked].batch.is_empty();
        let next = self.queues.slots[who].lock().take_if(is_brief);
        if let Some(next) = next {
            self.begin_run(who, next, 1);
        }
    }

    /// The run fetches messages, gives way to others, or ends.
    fn rest(&mut self, who: usize) {
        let run = self.workers[who].runs.last().expect("a run rests");
        let (index, budget) = (run.actor.index(), run.budget);
        if run.fetched_at.is_some_and(|before| SHORT_BATCH.contains(&(before - budget))) && !self.has_other_work(who) {
            self.spend(who, nanos(GATHERING));
        }
        self.lock(who, index);
        let actor = &mut self.actors[index];
        if !actor.has_work() {
            let run = self.workers[who].runs.pop().expect("a run rests");
            actor.activation = Some(run.actor);
            return self.leave_run(who);
        }
        if actor.batch.is_empty() {
            actor.batch.append(&mut actor.mailbox);
            let foreign = actor.batch.iter().filter(|message| message.sender != who).count() as u64;
            self.spend_half_lines(who, foreign.div_ceil(MESSAGES_PER_HALF_LINE));
        }
        if budget > 0 {
            self.workers[who].runs.last_mut().expect("a run rests").fetched_at = Some(budget);
            self.workers[who].step = Step::BeginTurn;
            return;
        }
        let run = self.workers[who].runs.pop().expect("a run rests");
        self.schedule_behind(who, run.actor);
        self.leave_run(who);
    }

    fn leave_run(&mut self, who: usize) {
        let worker = &mut self.workers[who];
        worker.step = if worker.runs.is_empty() { Step::ChooseActor } else { Step::BeginTurn };
    }

    fn has_other_work(&self, who: usize) -> bool {
        self.queues.slots[who].lock().is_some() || self.queues.have_queued_work()
    }

    fn search(&mut self, who: usize) {
        let worker = &mut self.workers[who];
        worker.step = Step::LookAround { round: 0, since_ns: worker.now_ns };
        worker.due_ns = Some(worker.now_ns);
    }

    fn look_around(&mut self, who: usize, round: u32, since_ns: u64) {
        if std::mem::take(&mut self.workers[who].is_sentinel) {
            self.sleepers.end_watch();
        }
        let (queue, since) = (&self.workers[who].queue, machine::instant(since_ns));
        let found = if round < SEARCH_ROUNDS {
            queue.look_around(&self.queues, since)
        } else {
            queue.take_next_of_another(&self.queues, since)
        };
        // What sleeps shows what it has shown before.
        let awake = self.workers.iter().filter(|worker| worker.due_ns.is_some()).count() as u64;
        self.spend_half_lines(who, (awake - 1) * HALF_LINES_PER_LOOK);
        if let Some(found) = found {
            self.spend_half_lines(who, THEFT_HALF_LINES);
            if self.sleepers.stop_searching() {
                self.ask_for_help(who);
            }
            let Worker { queue, now_ns, .. } = &mut self.workers[who];
            queue.resume(&self.queues, &found, machine::instant(*now_ns));
            self.begin_run(who, found, TURNS_PER_RUN);
        } else if round < SEARCH_ROUNDS {
            let ns = self.between(YIELD_NS);
            self.spend(who, ns);
            self.workers[who].step = Step::LookAround { round: round + 1, since_ns };
        } else {
            self.lie_down(who);
        }
    }

    fn is_needed(&self, who: usize) -> bool {
        self.queues.have_work_for(who, machine::instant(self.workers[who].now_ns))
    }

    fn lie_down(&mut self, who: usize) {
        match self.sleepers.lie_down(who, (), || self.is_needed(who)) {
            Bed::None => self.search(who),
            Bed::OfTheLast | Bed::OfAnother => self.workers[who].due_ns = None,
            Bed::OfTheSentinel => {
                self.workers[who].is_sentinel = true;
                self.watch_on(who);
            }
        }
    }

    fn watch_on(&mut self, who: usize) {
        let worker = &mut self.workers[who];
        worker.step = Step::StandSentinel;
        worker.due_ns = Some(worker.now_ns + nanos(SENTINEL_LOOKS_EVERY));
    }

    fn stand_sentinel(&mut self, who: usize) {
        if !self.is_needed(who) && !self.sleepers.are_all_asleep() {
            return self.watch_on(who);
        }
        self.workers[who].is_sentinel = false;
        self.sleepers.end_watch();
        assert!(self.sleepers.get_up(who), "one that was woken does not look");
        self.search(who);
    }

    fn plan_send_from_outside(&mut self) {
        if let Some(send) = self.recording.from_outside.get(self.from_outside) {
            self.agenda.push(Reverse((self.run_began_ns + send.after_ns, self.workers.len())));
        }
    }

    fn send_from_outside(&mut self) {
        let Send { after_ns, turn } = self.recording.from_outside[self.from_outside];
        let (now_ns, outside) = (self.run_began_ns + after_ns, self.workers.len());
        self.from_outside += 1;
        let actor = &mut self.actors[self.recording.turns[turn as usize].actor as usize];
        actor.last_worker.change_to(NOBODY);
        actor.mailbox_at = Some(outside);
        if let Some(runnable) = actor.accept(Message { turn, sender: outside }) {
            self.queues.injector.push(runnable);
            if self.sleepers.can_help() {
                self.wake_one(now_ns);
            }
        }
        self.plan_send_from_outside();
    }
}
