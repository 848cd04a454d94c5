//! All that a program may come to: its serial executions on a plain model, every one of them.
//!
//! A transaction happens at one moment, with everything in it, and so does what a turn does between two of its
//! transactions. Messages of one sender to one actor arrive in the order of sending; nothing else is promised about
//! their order. Transactions that fail leave nothing but a note.
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};

use crate::program::{FAILED, Op, Outcome, Program, Step, Turns};

/// Where an answer goes: a client's agent, and which of its questions it was.
type Reply = (usize, usize);

#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    cells: Vec<i64>,
    /// The actors, and behind them the clients.
    agents: Vec<Agent>,
    /// By sender and receiver; none is empty.
    mail: BTreeMap<(usize, usize), VecDeque<Letter>>,
}

#[derive(Clone, Default, PartialEq, Eq, Hash)]
struct Agent {
    exists: bool,
    notes: Vec<i64>,
    /// What it will have as its notes from the next turn on.
    next: Option<Vec<i64>>,
    tasks: Vec<Task>,
    answers: Vec<Option<i64>>,
}

/// A client's work, or a turn.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Task {
    /// Of an actor.
    script: Option<usize>,
    step: usize,
    /// What the last transaction has given, if it is not noted yet.
    given: Vec<i64>,
    reply: Option<Reply>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Letter {
    script: usize,
    reply: Option<Reply>,
}

/// Why a transaction does not commit.
enum Stop {
    Failed,
    Waits,
}

/// What every serial execution of `program` comes to; `None` if there are more than `states_max` states on the ways
/// there.
///
/// # Panics
/// If one never ends.
pub(crate) fn outcomes(program: &Program, states_max: usize) -> Option<BTreeSet<Outcome>> {
    let (mut outcomes, mut known) = (BTreeSet::new(), HashSet::new());
    let mut open = vec![State::first(program)];
    while let Some(state) = open.pop() {
        if known.contains(&state) {
            continue;
        }
        let before = open.len();
        state.moves(program, &mut open);
        if open.len() == before {
            outcomes.insert(state.outcome(program));
        }
        known.insert(state);
        if known.len() > states_max {
            return None;
        }
    }
    Some(outcomes)
}

impl State {
    fn first(program: &Program) -> Self {
        let actors =
            (0..program.actors.len()).map(|n| Agent { exists: n < program.actors_at_first, ..Agent::default() });
        let clients = program.clients.iter().map(|_| Agent {
            exists: true,
            tasks: vec![Task { script: None, step: 0, given: Vec::new(), reply: None }],
            ..Agent::default()
        });
        let agents = actors.chain(clients).collect();
        Self { cells: program.cells.clone(), agents, mail: BTreeMap::new() }
    }

    fn outcome(&self, program: &Program) -> Outcome {
        assert!(
            self.mail.is_empty() && self.agents.iter().all(|agent| agent.tasks.is_empty()),
            "a serial execution of the program never ends: {program:?}"
        );
        let (actors, clients) = self.agents.split_at(program.actors.len());
        Outcome {
            cells: self.cells.clone(),
            actors: actors.iter().map(|actor| actor.exists.then(|| actor.notes.clone())).collect(),
            clients: clients.iter().map(|client| client.notes.clone()).collect(),
        }
    }

    /// Everything that may happen next.
    fn moves(&self, program: &Program, next: &mut Vec<Self>) {
        for (n, agent) in self.agents.iter().enumerate() {
            for task in 0..agent.tasks.len() {
                let mut state = self.clone();
                if state.go_on(program, n, task) {
                    next.push(state);
                }
            }
            let takes_more = n < program.actors.len() && program.actors[n].turns == Turns::Beside;
            if agent.exists && (agent.tasks.is_empty() || takes_more) {
                for &(from, to) in self.mail.keys().filter(|(_, to)| *to == n) {
                    let mut state = self.clone();
                    let letter = state.take_letter(from, to);
                    let task = Task { script: Some(letter.script), step: 0, given: Vec::new(), reply: letter.reply };
                    state.agents[n].tasks.push(task);
                    let last = state.agents[n].tasks.len() - 1;
                    state.advance(program, n, last);
                    next.push(state);
                }
            }
        }
    }

    /// Does what an agent does at one moment. Returns whether it could.
    fn go_on(&mut self, program: &Program, n: usize, task: usize) -> bool {
        if !self.agents[n].tasks[task].given.is_empty() {
            self.advance(program, n, task);
            return true;
        }
        match self.step(program, n, task) {
            Some(Step::Atomically(ops)) => {
                let (mut tried, mut given) = (self.clone(), Vec::new());
                match tried.transact(n, ops, &mut given) {
                    Ok(()) => *self = tried,
                    Err(Stop::Failed) => given = vec![FAILED],
                    Err(Stop::Waits) => return false,
                }
                let task_now = &mut self.agents[n].tasks[task];
                task_now.step += 1;
                task_now.given = given;
                let is_beside = n < program.actors.len() && program.actors[n].turns == Turns::Beside;
                if !is_beside || self.agents[n].tasks[task].given.is_empty() {
                    self.advance(program, n, task);
                }
                true
            }
            Some(_) => {
                self.advance(program, n, task);
                true
            }
            None => self.finish(n, task),
        }
    }

    fn step<'p>(&self, program: &'p Program, n: usize, task: usize) -> Option<&'p Step> {
        let Task { script, step, .. } = self.agents[n].tasks[task];
        match script {
            Some(script) => program.scripts[script].get(step),
            None => program.clients[n - program.actors.len()].get(step),
        }
    }

    /// Does what comes before the next transaction, which nobody else can tell apart.
    fn advance(&mut self, program: &Program, n: usize, task: usize) {
        let given = std::mem::take(&mut self.agents[n].tasks[task].given);
        self.agents[n].notes.extend(given);
        loop {
            match self.step(program, n, task) {
                Some(Step::Note(number)) => self.agents[n].notes.push(*number),
                Some(Step::Tell(actor, script)) => self.send(n, *actor, Letter { script: *script, reply: None }),
                Some(Step::Become(number)) => self.agents[n].next = Some(vec![*number]),
                Some(Step::Atomically(_)) => return,
                None => {
                    self.finish(n, task);
                    return;
                }
            }
            self.agents[n].tasks[task].step += 1;
        }
    }

    /// Ends a turn, or a client whose questions are all answered.
    fn finish(&mut self, n: usize, task: usize) -> bool {
        let agent = &mut self.agents[n];
        let Some(answers) = agent.answers.iter().copied().collect::<Option<Vec<_>>>() else { return false };
        agent.notes.extend(answers);
        let task = agent.tasks.remove(task);
        let last = agent.notes.last().copied().unwrap_or_default();
        if let Some(next) = agent.next.take() {
            agent.notes = next;
        }
        if let Some((asker, question)) = task.reply {
            self.agents[asker].answers[question] = Some(last);
        }
        true
    }

    fn send(&mut self, from: usize, to: usize, letter: Letter) {
        self.mail.entry((from, to)).or_default().push_back(letter);
    }

    fn take_letter(&mut self, from: usize, to: usize) -> Letter {
        let letters = self.mail.get_mut(&(from, to)).expect("the sender has sent something");
        let letter = letters.pop_front().expect("none is empty");
        if letters.is_empty() {
            self.mail.remove(&(from, to));
        }
        letter
    }

    fn transact(&mut self, n: usize, ops: &[Op], notes: &mut Vec<i64>) -> Result<(), Stop> {
        for op in ops {
            match *op {
                Op::Add(cell, amount) => self.cells[cell] += amount,
                Op::Copy { from, to } => self.cells[to] = self.cells[from],
                Op::Take(cell) if self.cells[cell] == 0 => return Err(Stop::Failed),
                Op::Take(cell) => {
                    self.cells[cell] -= 1;
                    notes.push(self.cells[cell]);
                }
                Op::Await(cell) if self.cells[cell] == 0 => return Err(Stop::Waits),
                Op::Read(cell) | Op::Await(cell) => notes.push(self.cells[cell]),
                Op::Tell(actor, script) => self.send(n, actor, Letter { script, reply: None }),
                Op::Ask(actor, script) => {
                    let reply = Some((n, self.agents[n].answers.len()));
                    self.agents[n].answers.push(None);
                    self.send(n, actor, Letter { script, reply });
                }
                Op::Linger => {}
                Op::Become(number) => self.agents[n].next = Some(vec![number]),
                Op::Spawn(actor) => self.agents[actor].exists = true,
                Op::Part(ref ops) => {
                    let (before, noted) = (self.clone(), notes.len());
                    match self.transact(n, ops, notes) {
                        Err(Stop::Failed) => {
                            *self = before;
                            notes.truncate(noted);
                            notes.push(FAILED);
                        }
                        other => other?,
                    }
                }
                Op::Fail => return Err(Stop::Failed),
            }
        }
        Ok(())
    }
}
