//! Bigger random programs, with more serial executions than anybody could list: what everybody has read and written is
//! recorded, and searched for a cycle.
//!
//! The cells are variables, and so are the states of actors and the messages. A message is written by its sender and
//! read by the turn that it becomes, so a turn of a message that was never sent reads what nobody has written; what a
//! turn does between its transactions is an attempt of its own, which replaces the state. An actor keeps its record in
//! its state: it knows of no turn that has never been.
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use enact_actors::{Cx, Promise, System, actor};
use enact_check::{Criterion, History, Recorder, Tickets, Token, Variable};
use enact_stm::{Abort, Failed, TCell, Tx, try_atomically};

use crate::random::Random;
use crate::seeds;

const CELLS: usize = 4;
const WORKERS: usize = 6;
const CLIENTS: usize = 3;
/// How many messages one behind the other a client can cause.
const DEPTH: u32 = 3;

#[derive(Clone, Copy, Debug)]
enum Access {
    Read(Variable, Token),
    /// The old value and the new one.
    Replace(Variable, Token, Token),
}

type Attempt = Vec<Access>;

fn cell_variable(cell: usize) -> Variable {
    Variable(cell as u64)
}

fn state_variable(worker: usize) -> Variable {
    Variable(1_000 + worker as u64)
}

fn letter_variable(number: u64) -> Variable {
    Variable(10_000 + number)
}

struct Shared {
    cells: Vec<TCell<u64>>,
    workers: OnceLock<Vec<Handle>>,
    /// How many values there have been; each is another one.
    tokens: AtomicU64,
    turns_begun: AtomicUsize,
}

#[derive(Clone, Copy)]
struct Letter {
    token: Token,
    seed: u64,
    /// How many more may follow one behind the other.
    depth: u32,
}

/// What a turn or a client does next.
#[derive(Clone, Copy)]
enum Step {
    Send { to: usize, seed: u64 },
    Atomically { seed: u64 },
}

/// The user's error.
struct Declined;

impl Shared {
    fn token(&self) -> Token {
        Token(1 + self.tokens.fetch_add(1, Ordering::Relaxed))
    }

    /// A letter, and the writing of it.
    fn letter(&self, seed: u64, depth: u32) -> (Letter, Access) {
        let token = self.token();
        (Letter { token, seed, depth }, Access::Replace(letter_variable(token.0), Token::INITIAL, token))
    }

    fn worker(&self, number: usize) -> &Handle {
        &self.workers.get().expect("they are there before anybody sends")[number]
    }

    /// One attempt of the transaction of `seed`: what it has read and written.
    fn attempt<'t>(&'t self, tx: &mut Tx<'t, '_>, seed: u64, depth: u32) -> Result<Attempt, Failed<Declined>> {
        let mut random = Random::new(seed);
        let (mut accesses, first) = (Vec::new(), random.below(CELLS));
        if random.below(2) == 0 {
            self.send_within(tx, &mut random, depth, &mut accesses);
        }
        for cell in (0..=random.below(2)).map(|n| (first + n) % CELLS) {
            self.access(tx, &mut random, cell, &mut accesses)?;
        }
        if random.below(4) == 0 {
            let part = tx.nested(|tx| {
                let mut part = Vec::new();
                self.send_within(tx, &mut random, depth, &mut part);
                self.access(tx, &mut random, (first + 2) % CELLS, &mut part)?;
                if random.below(2) == 0 { Err(Failed::Error(Declined)) } else { Ok(part) }
            })?;
            accesses.extend(part.unwrap_or_default());
        }
        thread::yield_now();
        if random.below(3) == 0 {
            self.send_within(tx, &mut random, depth, &mut accesses);
        }
        if random.below(8) == 0 { Err(Failed::Error(Declined)) } else { Ok(accesses) }
    }

    fn access<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        random: &mut Random,
        cell: usize,
        accesses: &mut Attempt,
    ) -> Result<(), Abort> {
        let variable = cell_variable(cell);
        let seen = Token(tx.read(&self.cells[cell])?);
        accesses.push(Access::Read(variable, seen));
        if random.below(2) == 0 {
            let token = self.token();
            tx.write(&self.cells[cell], token.0)?;
            accesses.push(Access::Replace(variable, seen, token));
        }
        Ok(())
    }

    fn send_within(&self, tx: &mut Tx<'_, '_>, random: &mut Random, depth: u32, accesses: &mut Attempt) {
        let (to, seed) = (random.below(WORKERS), random.below(usize::MAX) as u64);
        let Some(depth) = depth.checked_sub(1) else { return };
        let (letter, access) = self.letter(seed, depth);
        self.worker(to).send_within(tx, letter);
        accesses.push(access);
    }
}

/// What happens for a letter, or for a client's turn to act.
fn steps(seed: u64) -> Vec<Step> {
    let mut random = Random::new(seed);
    (0..random.below(3))
        .map(|_| {
            let seed = random.below(usize::MAX) as u64;
            if random.below(4) == 0 {
                Step::Send { to: random.below(WORKERS), seed }
            } else {
                Step::Atomically { seed }
            }
        })
        .collect()
}

/// An actor's state.
#[derive(Clone)]
struct State {
    shared: Arc<Shared>,
    number: usize,
    token: Token,
    attempts: Vec<Arc<Attempt>>,
    /// What is done since the last transaction.
    open: Attempt,
    turns_begun: usize,
    turns_ended: usize,
}

impl State {
    fn new(shared: &Arc<Shared>, number: usize) -> Self {
        Self {
            shared: Arc::clone(shared),
            number,
            token: Token::INITIAL,
            attempts: Vec::new(),
            open: Vec::new(),
            turns_begun: 0,
            turns_ended: 0,
        }
    }

    fn begin(&mut self, letter: Letter) -> Arc<Shared> {
        self.turns_begun += 1;
        self.shared.turns_begun.fetch_add(1, Ordering::Relaxed);
        self.open.push(Access::Read(letter_variable(letter.token.0), letter.token));
        Arc::clone(&self.shared)
    }

    fn send(&mut self, to: usize, seed: u64, depth: u32) {
        let Some(depth) = depth.checked_sub(1) else { return };
        let (letter, access) = self.shared.letter(seed, depth);
        self.shared.worker(to).send(letter);
        self.open.push(access);
    }

    /// What was done since the last transaction happens at one moment, which replaces the state.
    fn close(&mut self) {
        let (variable, before) = (state_variable(self.number), self.token);
        self.token = self.shared.token();
        let mut attempt = vec![Access::Read(variable, before)];
        attempt.append(&mut self.open);
        attempt.push(Access::Replace(variable, before, self.token));
        self.attempts.push(Arc::new(attempt));
    }

    /// Keeps what a transaction has done, if it has committed. One that kept the actor to itself has seen its state.
    fn keep(&mut self, result: Result<Attempt, Declined>, has_seen_state: bool) {
        if let Ok(mut attempt) = result {
            if has_seen_state {
                attempt.push(Access::Read(state_variable(self.number), self.token));
            }
            self.attempts.push(Arc::new(attempt));
        }
    }

    fn end(&mut self) {
        self.close();
        self.turns_ended += 1;
    }
}

macro_rules! workers {
    ($($name:ident $(($how:ident))?),*) => {$(
        #[derive(Clone)]
        struct $name(State);

        #[actor $(($how))?]
        impl $name {
            fn plain(&mut self, letter: Letter) {
                let shared = self.0.begin(letter);
                for step in steps(letter.seed) {
                    match step {
                        Step::Send { to, seed } => self.0.send(to, seed, letter.depth),
                        Step::Atomically { seed } => {
                            self.0.close();
                            let result = try_atomically(|tx| shared.attempt(tx, seed, letter.depth)).run();
                            self.0.keep(result, true);
                        }
                    }
                }
                self.0.end();
            }

            async fn held(&mut self, letter: Letter) {
                let shared = self.0.begin(letter);
                for step in steps(letter.seed) {
                    match step {
                        Step::Send { to, seed } => self.0.send(to, seed, letter.depth),
                        Step::Atomically { seed } => {
                            self.0.close();
                            let result = try_atomically(|tx| shared.attempt(tx, seed, letter.depth)).await;
                            self.0.keep(result, true);
                        }
                    }
                }
                self.0.end();
            }

            async fn beside(cx: Cx<Self>, letter: Letter) {
                let shared = cx.with(|worker| worker.0.begin(letter));
                for step in steps(letter.seed) {
                    match step {
                        Step::Send { to, seed } => cx.with(|worker| worker.0.send(to, seed, letter.depth)),
                        Step::Atomically { seed } => {
                            cx.with(|worker| worker.0.close());
                            let result = try_atomically(|tx| shared.attempt(tx, seed, letter.depth)).await;
                            cx.with(|worker| worker.0.keep(result, false));
                        }
                    }
                }
                cx.with(|worker| worker.0.end());
            }

            fn report(&self) -> (usize, usize, Vec<Arc<Attempt>>) {
                (self.0.turns_begun, self.0.turns_ended, self.0.attempts.clone())
            }
        }
    )*};
}

workers!(Ordinary, Speculative(speculative));

enum Handle {
    Ordinary(OrdinaryRef),
    Speculative(SpeculativeRef),
}

impl Handle {
    /// A letter's seed says how the turn is done: the same in every attempt.
    fn send(&self, letter: Letter) {
        let sent = match (self, letter.seed % 3) {
            (Self::Ordinary(worker), 0) => worker.tell().plain(letter),
            (Self::Ordinary(worker), 1) => worker.tell().held(letter),
            (Self::Ordinary(worker), _) => worker.tell().beside(letter),
            (Self::Speculative(worker), 0) => worker.tell().plain(letter),
            (Self::Speculative(worker), 1) => worker.tell().held(letter),
            (Self::Speculative(worker), _) => worker.tell().beside(letter),
        };
        sent.accepted().expect("no worker ends");
    }

    fn send_within(&self, tx: &mut Tx<'_, '_>, letter: Letter) {
        let sent = match (self, letter.seed % 3) {
            (Self::Ordinary(worker), 0) => worker.tell_within(tx).plain(letter),
            (Self::Ordinary(worker), 1) => worker.tell_within(tx).held(letter),
            (Self::Ordinary(worker), _) => worker.tell_within(tx).beside(letter),
            (Self::Speculative(worker), 0) => worker.tell_within(tx).plain(letter),
            (Self::Speculative(worker), 1) => worker.tell_within(tx).held(letter),
            (Self::Speculative(worker), _) => worker.tell_within(tx).beside(letter),
        };
        sent.accepted().expect("no worker ends");
    }

    fn report(&self) -> Promise<(usize, usize, Vec<Arc<Attempt>>)> {
        match self {
            Self::Ordinary(worker) => worker.report(),
            Self::Speculative(worker) => worker.report(),
        }
    }
}

/// A client: what it has done, attempt by attempt.
fn act(shared: &Shared, seed: u64, rounds: u64) -> Vec<Arc<Attempt>> {
    let mut attempts = Vec::new();
    for step in (0..rounds).flat_map(|round| steps(seed.wrapping_mul(rounds).wrapping_add(round))) {
        match step {
            Step::Send { to, seed } => {
                let (letter, access) = shared.letter(seed, DEPTH - 1);
                shared.worker(to).send(letter);
                attempts.push(Arc::new(vec![access]));
            }
            Step::Atomically { seed } => {
                attempts.extend(try_atomically(|tx| shared.attempt(tx, seed, DEPTH)).run().ok().map(Arc::new));
            }
        }
    }
    attempts
}

/// What all workers have done when no message is left, and how many turns have never been.
fn reports(shared: &Shared) -> (Vec<Vec<Arc<Attempt>>>, usize) {
    let workers = shared.workers.get().expect("they are there");
    let mut quiet = 0;
    loop {
        let reports: Vec<_> = workers.iter().map(Handle::report).collect();
        let reports: Vec<_> = reports.into_iter().map(|report| report.wait().expect("no worker ends")).collect();
        quiet += u32::from(reports.iter().all(|(begun, ended, _)| begun == ended));
        // A report comes after what was sent before, and after what those turns have sent.
        if quiet > DEPTH {
            let turns: usize = reports.iter().map(|(_, ended, _)| ended).sum();
            let undone = shared.turns_begun.load(Ordering::Relaxed) - turns;
            return (reports.into_iter().map(|(.., attempts)| attempts).collect(), undone);
        }
    }
}

/// Every letter that was sent is read once.
fn check_letters(attempts: &[Vec<Arc<Attempt>>], seed: u64) {
    let (mut sent, mut read) = (HashSet::new(), HashSet::new());
    for access in attempts.iter().flatten().flat_map(|attempt| attempt.iter()) {
        match *access {
            Access::Replace(letter, Token::INITIAL, _) if letter >= letter_variable(0) => {
                sent.insert(letter);
            }
            Access::Read(letter, _) if letter >= letter_variable(0) => {
                assert!(read.insert(letter), "seed {seed}: a message became two turns");
            }
            _ => {}
        }
    }
    assert_eq!(sent, read, "seed {seed}: what was sent, and what became a turn");
}

fn check(seed: u64, rounds: u64) -> usize {
    let system = System::builder().workers(2).build().expect("threads");
    let shared = Arc::new(Shared {
        cells: (0..CELLS).map(|_| TCell::new(0)).collect(),
        workers: OnceLock::new(),
        tokens: AtomicU64::new(0),
        turns_begun: AtomicUsize::new(0),
    });
    let spawn = |number: usize| {
        let state = State::new(&shared, number);
        if number.is_multiple_of(3) {
            Handle::Ordinary(system.spawn(Ordinary(state)))
        } else {
            Handle::Speculative(system.spawn(Speculative(state)))
        }
    };
    assert!(shared.workers.set((0..WORKERS).map(spawn).collect()).is_ok(), "set once");
    let mut attempts: Vec<_> = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS as u64)
            .map(|client| {
                scope.spawn({
                    let shared = &shared;
                    move || act(shared, seed * CLIENTS as u64 + client, rounds)
                })
            })
            .collect();
        clients.into_iter().map(|client| client.join().expect("no client panics")).collect()
    });
    let (of_workers, undone) = reports(&shared);
    attempts.extend(of_workers);
    check_letters(&attempts, seed);
    let tickets = Tickets::default();
    let recorders = (0..).zip(&attempts).map(|(agent, attempts)| {
        let mut recorder = Recorder::new(agent);
        for attempt in attempts {
            recorder.begin(tickets.next());
            for access in attempt.iter() {
                match *access {
                    Access::Read(variable, token) => recorder.read(variable, token),
                    Access::Replace(variable, old, new) => recorder.replace(variable, old, new),
                }
            }
            recorder.commit(tickets.next());
        }
        recorder
    });
    let coverage =
        History::merge(recorders).check(Criterion::Serializable).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    println!("seed {seed}: {coverage:?}, {undone} turns have never been");
    undone
}

#[test]
fn what_transactions_and_turns_have_done_has_a_serial_order() {
    let undone: usize = seeds(4).map(|seed| check(seed, 150)).sum();
    assert!(undone > 0, "some turns have never been");
}
