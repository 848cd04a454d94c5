//! A program played with real actors and transactions.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use enact_actors::{Ask, Cx, Promise, Resolver, System, actor};
use enact_stm::{Failed, TCell, Tx, snapshot, try_atomically};
use enact_sync::unmodelled::{Arc, OnceLock};
use enact_sync::{Mutex, thread};

use crate::program::{FAILED, Kind, Op, Outcome, Program, Step, Turns};

/// How often something worth a test has happened, over all times that a program is played.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// How often the program was played.
    pub(crate) played: AtomicUsize,
    /// Attempts after the first.
    pub(crate) attempts: AtomicUsize,
    /// Turns that began before the transaction of their message had ended.
    pub(crate) tentative: AtomicUsize,
    /// Turns that began and then had never been.
    pub(crate) undone: AtomicUsize,
}

/// How long a transaction lingers at most, in turns of the other threads.
const LINGER_MAX: usize = 24;

/// Plays `program` once, with this many workers.
pub(crate) fn play(program: &Arc<Program>, marks: &Arc<Marks>, workers: usize) -> Outcome {
    let system = System::builder().workers(workers).build().expect("threads");
    let world = World::new(&system, Arc::clone(program), Arc::clone(marks));
    let clients: Vec<_> = (0..program.clients.len())
        .map(|client| {
            let world = Arc::clone(&world);
            thread::spawn(move || world.be_client(client))
        })
        .collect();
    let clients = clients.into_iter().map(|client| client.join().expect("no client panics")).collect();
    let outcome = world.outcome(clients);
    // The actors know the world, which is why it must not keep them.
    drop(world.take_system());
    marks.played.fetch_add(1, Ordering::Relaxed);
    outcome
}

struct World {
    /// Until the end.
    system: Mutex<Option<System>>,
    program: Arc<Program>,
    marks: Arc<Marks>,
    cells: Vec<TCell<i64>>,
    /// Those that are there from the start.
    actors: OnceLock<Vec<Player>>,
    /// Those that committed transactions have made.
    made: Mutex<Vec<(usize, Player)>>,
    turns_begun: AtomicUsize,
    /// Of every message of a transaction, whether it was sent in the end and when its turn was seen from outside.
    bells: Mutex<Vec<(Arc<Posting>, Promise<()>)>>,
}

/// A message.
struct Call {
    script: usize,
    /// None for a message of no transaction.
    posting: Option<(Arc<Posting>, Resolver<()>)>,
}

/// One message of one attempt of a transaction.
#[derive(Default)]
struct Posting {
    has_begun: AtomicBool,
    /// The transaction has committed, with the part that has sent this.
    was_sent: AtomicBool,
}

/// An actor's state.
#[derive(Clone)]
struct State {
    world: Arc<World>,
    notes: Vec<i64>,
    turns: Count,
}

/// How many turns an actor has begun and ended.
#[derive(Clone, Copy, Default)]
struct Count {
    begun: usize,
    ended: usize,
}

/// What a transaction gives.
#[derive(Default)]
struct Given {
    notes: Vec<i64>,
    asks: Vec<Ask<i64>>,
    postings: Vec<Arc<Posting>>,
    made: Vec<(usize, Player)>,
}

/// The user's error.
struct Declined;

macro_rules! players {
    ($($name:ident $(($how:ident))?),*) => {$(
        #[derive(Clone)]
        struct $name(State);

        #[actor $(($how))?]
        impl $name {
            fn play(&mut self, cx: &Cx<Self>, call: Call) -> i64 {
                let script = call.script;
                let world = self.0.begin(call);
                for step in &world.program.scripts[script] {
                    if let Some(ops) = self.0.go_on(step, |next| cx.become_next($name(next))) {
                        let next = self.0.next();
                        let becomes = |tx: &mut Tx<'_, '_>, number| cx.become_within(tx, $name(next(number)));
                        let result = try_atomically(|tx| world.attempt(tx, ops, &becomes)).run();
                        self.0.notes.extend(world.keep(result).0);
                    }
                }
                self.0.end()
            }

            async fn play_held(&mut self, cx: &Cx<Self>, call: Call) -> i64 {
                let script = call.script;
                let world = self.0.begin(call);
                for step in &world.program.scripts[script] {
                    if let Some(ops) = self.0.go_on(step, |next| cx.become_next($name(next))) {
                        let next = self.0.next();
                        let becomes = |tx: &mut Tx<'_, '_>, number| cx.become_within(tx, $name(next(number)));
                        let result = try_atomically(|tx| world.attempt(tx, ops, &becomes)).await;
                        self.0.notes.extend(world.keep(result).0);
                    }
                }
                self.0.end()
            }

            async fn play_beside(cx: Cx<Self>, call: Call) -> i64 {
                let script = call.script;
                let world = cx.with(|player| player.0.begin(call));
                for step in &world.program.scripts[script] {
                    if let Some(ops) = cx.with(|player| player.0.go_on(step, |_| stays_what_it_is())) {
                        let result = try_atomically(|tx| world.attempt(tx, ops, &|_, _| stays_what_it_is())).await;
                        let given = world.keep(result).0;
                        cx.with(|player| player.0.notes.extend(given));
                    }
                }
                cx.with(|player| player.0.end())
            }

            fn report(&self) -> (Count, Vec<i64>) {
                (self.0.turns, self.0.notes.clone())
            }
        }
    )*};
}

players!(Ordinary, Speculative(speculative));

#[derive(Clone)]
enum Handle {
    Ordinary(OrdinaryRef),
    Speculative(SpeculativeRef),
}

#[derive(Clone)]
struct Player {
    handle: Handle,
    turns: Turns,
}

/// `handle.view.handler(call)`, whatever the player is.
macro_rules! send {
    ($player:expr, $call:expr $(, $view:ident ($($argument:expr)?))?) => {
        match (&$player.handle, $player.turns) {
            (Handle::Ordinary(actor), Turns::Plain) => actor$(.$view($($argument)?))?.play($call),
            (Handle::Ordinary(actor), Turns::Held) => actor$(.$view($($argument)?))?.play_held($call),
            (Handle::Ordinary(actor), Turns::Beside) => actor$(.$view($($argument)?))?.play_beside($call),
            (Handle::Speculative(actor), Turns::Plain) => actor$(.$view($($argument)?))?.play($call),
            (Handle::Speculative(actor), Turns::Held) => actor$(.$view($($argument)?))?.play_held($call),
            (Handle::Speculative(actor), Turns::Beside) => actor$(.$view($($argument)?))?.play_beside($call),
        }
    };
}

impl Player {
    fn report(&self) -> Promise<(Count, Vec<i64>)> {
        match &self.handle {
            Handle::Ordinary(actor) => actor.report(),
            Handle::Speculative(actor) => actor.report(),
        }
    }
}

fn stays_what_it_is() {
    panic!("neither clients nor turns beside others become something else");
}

impl State {
    fn new(world: &Arc<World>) -> Self {
        Self { world: Arc::clone(world), notes: Vec::new(), turns: Count::default() }
    }

    fn begin(&mut self, call: Call) -> Arc<World> {
        self.turns.begun += 1;
        self.world.turns_begun.fetch_add(1, Ordering::Relaxed);
        if let Some((posting, bell)) = call.posting {
            posting.has_begun.store(true, Ordering::Relaxed);
            if !posting.was_sent.load(Ordering::Relaxed) {
                self.world.marks.tentative.fetch_add(1, Ordering::Relaxed);
            }
            bell.resolve(());
        }
        Arc::clone(&self.world)
    }

    /// Does a step, but for a transaction.
    fn go_on<'a>(&mut self, step: &'a Step, becomes: impl FnOnce(Self)) -> Option<&'a [Op]> {
        match step {
            Step::Note(number) => self.notes.push(*number),
            Step::Tell(actor, script) => self.world.tell(*actor, *script),
            Step::Become(number) => becomes(self.next()(*number)),
            Step::Atomically(ops) => return Some(ops),
        }
        None
    }

    /// What it is after this turn, if it becomes a number.
    fn next(&self) -> impl Fn(i64) -> Self + use<> {
        let (world, begun) = (Arc::clone(&self.world), self.turns.begun);
        move |number| Self { world: Arc::clone(&world), notes: vec![number], turns: Count { begun, ended: begun } }
    }

    fn end(&mut self) -> i64 {
        self.turns.ended += 1;
        self.notes.last().copied().unwrap_or_default()
    }
}

impl World {
    fn new(system: &System, program: Arc<Program>, marks: Arc<Marks>) -> Arc<Self> {
        let cells = program.cells.iter().map(|&value| TCell::new(value)).collect();
        let world = Arc::new(Self {
            system: Mutex::new(Some(system.clone())),
            program,
            marks,
            cells,
            actors: OnceLock::new(),
            made: Mutex::new(Vec::new()),
            turns_begun: AtomicUsize::new(0),
            bells: Mutex::new(Vec::new()),
        });
        let kinds = &world.program.actors[..world.program.actors_at_first];
        let actors = kinds
            .iter()
            .map(|&Kind { is_speculative, turns }| {
                let state = State::new(&world);
                let handle = if is_speculative {
                    Handle::Speculative(system.spawn(Speculative(state)))
                } else {
                    Handle::Ordinary(system.spawn(Ordinary(state)))
                };
                Player { handle, turns }
            })
            .collect();
        assert!(world.actors.set(actors).is_ok(), "set once");
        world
    }

    fn take_system(&self) -> Option<System> {
        self.system.lock().take()
    }

    fn actor(&self, number: usize) -> &Player {
        &self.actors.get().expect("they are set before anybody acts")[number]
    }

    fn tell(&self, actor: usize, script: usize) {
        let sent = send!(self.actor(actor), Call { script, posting: None }, tell());
        sent.accepted().expect("no actor ends");
    }

    fn be_client(self: &Arc<Self>, client: usize) -> Vec<i64> {
        let (mut notes, mut asks) = (Vec::new(), Vec::new());
        for step in &self.program.clients[client] {
            match step {
                Step::Note(number) => notes.push(*number),
                Step::Tell(actor, script) => self.tell(*actor, *script),
                Step::Become(_) => stays_what_it_is(),
                Step::Atomically(ops) => {
                    let result = try_atomically(|tx| self.attempt(tx, ops, &|_, _| stays_what_it_is())).run();
                    let (given, asked) = self.keep(result);
                    notes.extend(given);
                    asks.extend(asked);
                }
            }
        }
        notes.extend(asks.into_iter().map(|ask| ask.promise().wait().expect("every committed question is answered")));
        notes
    }

    /// One attempt of a transaction.
    fn attempt<'t>(
        self: &'t Arc<Self>,
        tx: &mut Tx<'t, '_>,
        ops: &[Op],
        becomes: &(impl Fn(&mut Tx<'_, '_>, i64) + ?Sized),
    ) -> Result<Given, Failed<Declined>> {
        if tx.attempt() > 1 {
            self.marks.attempts.fetch_add(1, Ordering::Relaxed);
        }
        let mut given = Given::default();
        self.transact(tx, ops, becomes, &mut given)?;
        Ok(given)
    }

    fn transact<'t>(
        self: &'t Arc<Self>,
        tx: &mut Tx<'t, '_>,
        ops: &[Op],
        becomes: &(impl Fn(&mut Tx<'_, '_>, i64) + ?Sized),
        given: &mut Given,
    ) -> Result<(), Failed<Declined>> {
        for op in ops {
            match *op {
                Op::Read(cell) => given.notes.push(tx.read(&self.cells[cell])?),
                Op::Add(cell, amount) => drop(tx.update(&self.cells[cell], |value| value + amount)?),
                Op::Copy { from, to } => {
                    let value = tx.read(&self.cells[from])?;
                    tx.write(&self.cells[to], value)?;
                }
                Op::Take(cell) => {
                    let value = tx.read(&self.cells[cell])?;
                    if value == 0 {
                        return Err(Failed::Error(Declined));
                    }
                    tx.write(&self.cells[cell], value - 1)?;
                    given.notes.push(value - 1);
                }
                Op::Await(cell) => {
                    let value = tx.read(&self.cells[cell])?;
                    given.notes.push(if value == 0 { tx.retry()? } else { value });
                }
                Op::Tell(actor, script) => {
                    let call = self.post(script, given);
                    let sent = send!(self.receiver(actor, given), call, tell_within(tx));
                    sent.accepted().expect("no actor ends");
                }
                Op::Ask(actor, script) => {
                    let call = self.post(script, given);
                    let ask = send!(self.receiver(actor, given), call, within(tx));
                    given.asks.push(ask);
                }
                Op::Linger => {
                    for _ in 0..LINGER_MAX {
                        let mut waiting =
                            given.postings.iter().filter(|posting| !posting.has_begun.load(Ordering::Relaxed));
                        if !given.postings.is_empty() && waiting.next().is_none() {
                            break;
                        }
                        thread::yield_now();
                    }
                }
                Op::Become(number) => becomes(tx, number),
                Op::Spawn(actor) => {
                    let Kind { is_speculative, turns } = self.program.actors[actor];
                    let state = State::new(self);
                    let system = self.system.lock().clone().expect("it is there until all have ended");
                    let handle = if is_speculative {
                        Handle::Speculative(system.spawn_within(tx, Speculative(state)))
                    } else {
                        Handle::Ordinary(system.spawn_within(tx, Ordinary(state)))
                    };
                    given.made.push((actor, Player { handle, turns }));
                }
                Op::Part(ref ops) => {
                    let part = tx.nested(|tx| {
                        let mut part = Given { made: given.made.clone(), ..Given::default() };
                        self.transact(tx, ops, becomes, &mut part)?;
                        Ok(part)
                    })?;
                    match part {
                        Ok(part) => {
                            given.notes.extend(part.notes);
                            given.asks.extend(part.asks);
                            given.postings.extend(part.postings);
                            given.made = part.made;
                        }
                        Err(Declined) => given.notes.push(FAILED),
                    }
                }
                Op::Fail => return Err(Failed::Error(Declined)),
            }
        }
        Ok(())
    }

    /// A message of a transaction.
    fn post(&self, script: usize, given: &mut Given) -> Call {
        let posting = Arc::<Posting>::default();
        let (rung, bell) = Promise::pair();
        self.bells.lock().push((Arc::clone(&posting), rung));
        given.postings.push(Arc::clone(&posting));
        Call { script, posting: Some((posting, bell)) }
    }

    /// The actor of this number, which the transaction may have made itself.
    fn receiver<'a>(&'a self, actor: usize, given: &'a Given) -> &'a Player {
        let made = given.made.iter().find(|(number, _)| *number == actor);
        made.map_or_else(|| self.actor(actor), |(_, player)| player)
    }

    /// Keeps what a transaction has given.
    fn keep(&self, result: Result<Given, Declined>) -> (Vec<i64>, Vec<Ask<i64>>) {
        match result {
            Ok(Given { notes, asks, postings, made }) => {
                postings.iter().for_each(|posting| posting.was_sent.store(true, Ordering::Relaxed));
                self.made.lock().extend(made);
                (notes, asks)
            }
            Err(Declined) => (vec![FAILED], Vec::new()),
        }
    }

    /// What it has come to when all clients have ended and no message is left.
    fn outcome(&self, clients: Vec<Vec<i64>>) -> Outcome {
        let mut actors = vec![None; self.program.actors.len()];
        let mut turns_done = 0;
        // A report without a turn under way comes after what was sent before it was asked for, and after what those
        // turns have sent.
        let mut quiet = 0;
        while quiet <= self.program.depth() {
            let at_first = self.actors.get().into_iter().flatten().cloned().enumerate();
            let players: Vec<_> = at_first.chain(self.made.lock().iter().cloned()).collect();
            let reports: Vec<_> = players.iter().map(|(number, player)| (*number, player.report())).collect();
            let mut is_quiet = true;
            turns_done = 0;
            for (number, report) in reports {
                let (Count { begun, ended }, notes) = report.wait().expect("no actor ends");
                is_quiet &= begun == ended;
                turns_done += ended;
                actors[number] = Some(notes);
            }
            quiet += usize::from(is_quiet);
        }
        let undone = self.turns_begun.load(Ordering::Relaxed) - turns_done;
        self.marks.undone.fetch_add(undone, Ordering::Relaxed);
        self.made.lock().clear();
        for (posting, bell) in std::mem::take(&mut *self.bells.lock()) {
            let was_sent = posting.was_sent.load(Ordering::Relaxed);
            assert_eq!(bell.wait().is_ok(), was_sent, "a turn is seen from outside if its message was sent in the end");
        }
        let cells = snapshot(|tx| self.cells.iter().map(|cell| tx.read(cell)).collect());
        Outcome { cells, actors, clients }
    }
}
