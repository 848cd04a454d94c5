//! What comes from outside of a system's workers, from other threads and from timers, waits for at most two runs of
//! each actor that is runnable, on the worker that takes it: what other workers do meanwhile depends on when their
//! machine lets each of them run. All is counted by the actors themselves, while this thread keeps a worker in a turn.

use std::collections::HashMap;
use std::convert::Infallible;
use std::hint;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use enact_actors::{Cx, Promise, Resolver, System, actor};
use tokio::runtime::Runtime;

/// How many turns an actor takes in one run at most.
const TURNS_PER_RUN: u64 = 128;
/// How many turns of a batch pass between two looks for what waits outside.
const TURNS_PER_LOOK: u64 = 8;
/// Longer than a run goes on once it has seen something wait outside.
const LONG: Duration = Duration::from_micros(200);
/// How often each rule is tried, so that it does not hold by chance.
const ROUNDS: usize = 20;

/// How much of something each thread has done.
#[derive(Clone, Default)]
struct Counter(Arc<Mutex<HashMap<ThreadId, u64>>>);

impl Counter {
    fn count(&self) {
        *self.0.lock().unwrap().entry(thread::current().id()).or_default() += 1;
    }
    fn of(&self, thread: ThreadId) -> u64 {
        self.0.lock().unwrap().get(&thread).copied().unwrap_or_default()
    }
    fn sum(&self) -> u64 {
        self.0.lock().unwrap().values().sum()
    }
}

/// What each actor has done on the worker that tells so.
struct Counts {
    worker: ThreadId,
    counts: Vec<u64>,
}

/// A flooded actor: each turn sends itself another message.
struct Flooded {
    turns: Counter,
    is_enough: Arc<AtomicBool>,
}

#[actor]
impl Flooded {
    fn turn(&self, cx: &Cx<Self>) {
        self.turns.count();
        if !self.is_enough.load(Ordering::SeqCst) {
            cx.handle().tell().turn();
        }
    }
    fn long_turn(&self) {
        self.turns.count();
        let since = Instant::now();
        while since.elapsed() < LONG {
            hint::spin_loop();
        }
    }
    fn keep_the_thread(&self, kept: mpsc::Sender<()>, go_on: mpsc::Receiver<Infallible>) {
        kept.send(()).unwrap();
        assert!(go_on.recv().is_err(), "it ends");
    }
}

/// One of two actors with one ball: each turn is a run, and the next one is that of the other.
struct Player {
    runs: Counter,
    is_enough: Arc<AtomicBool>,
}

#[actor]
impl Player {
    fn play(&self, cx: &Cx<Self>, other: PlayerRef) {
        self.runs.count();
        if !self.is_enough.load(Ordering::SeqCst) {
            other.tell().play(cx.handle());
        }
    }
}

/// Has nothing to do before it hears from outside; then it tells what the others have done.
struct Quiet(Vec<Counter>);

#[actor]
impl Quiet {
    fn counts(&self) -> Counts {
        let worker = thread::current().id();
        Counts { worker, counts: self.0.iter().map(|counter| counter.of(worker)).collect() }
    }
    fn keep_the_thread(&self, kept: mpsc::Sender<()>, go_on: mpsc::Receiver<Infallible>) {
        kept.send(()).unwrap();
        assert!(go_on.recv().is_err(), "it ends");
    }
    async fn counts_after(&mut self, promise: Promise<()>, waits: mpsc::Sender<()>) -> Counts {
        waits.send(()).unwrap();
        promise.await.unwrap();
        self.counts()
    }
    async fn counts_after_sleep(&mut self, waits: mpsc::Sender<()>) -> Counts {
        waits.send(()).unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        self.counts()
    }
    fn count_after_a_second(&self, cx: &Cx<Self>, resolver: Resolver<Counts>) {
        cx.after(Duration::from_secs(1), |quiet, _| resolver.resolve(quiet.counts()));
    }
}

/// A system whose actors never rest, with a clock that moves only when told to.
struct Stage {
    clock: Runtime,
    system: System,
    flooded: Vec<FloodedRef>,
    /// What each actor counts, and how much of it fits into two runs.
    counters: Vec<Counter>,
    limits: Vec<u64>,
    is_enough: Arc<AtomicBool>,
}

impl Stage {
    /// Four flooded actors and two players for each worker.
    fn with(workers: usize) -> Self {
        let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        let system = System::builder().workers(workers).tokio(clock.handle().clone()).build().unwrap();
        let is_enough = Arc::<AtomicBool>::default();
        let (mut flooded, mut counters, mut limits) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..4 * workers {
            let turns = Counter::default();
            let actor = system.spawn(Flooded { turns: turns.clone(), is_enough: Arc::clone(&is_enough) });
            (0..3 * TURNS_PER_RUN).for_each(|_| drop(actor.tell().turn()));
            flooded.push(actor);
            counters.push(turns);
            limits.push(2 * TURNS_PER_RUN);
        }
        for _ in 0..workers {
            let players = [(); 2].map(|()| {
                let runs = Counter::default();
                counters.push(runs.clone());
                limits.push(2);
                system.spawn(Player { runs, is_enough: Arc::clone(&is_enough) })
            });
            players[0].tell().play(players[1].clone());
        }
        Self { clock, system, flooded, counters, limits, is_enough }
    }

    fn quiet(&self) -> QuietRef {
        self.system.spawn(Quiet(self.counters.clone()))
    }

    /// Keeps the only worker in a turn of a flooded actor.
    fn keep_a_worker(&self) -> Kept {
        keep(|kept, go_on| drop(self.flooded[0].tell().keep_the_thread(kept, go_on)))
    }

    /// Has a second pass for the timers.
    fn pass_a_second(&self) {
        self.clock.block_on(async {
            // Lets timers that were just set take their place.
            tokio::task::yield_now().await;
            tokio::time::advance(Duration::from_secs(1)).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        });
    }

    /// What each actor has done on each worker.
    fn counts(&self) -> Vec<HashMap<ThreadId, u64>> {
        self.counters.iter().map(|counter| counter.0.lock().unwrap().clone()).collect()
    }

    #[track_caller]
    fn check(&self, before: &[HashMap<ThreadId, u64>], after: Counts) {
        let before = before.iter().map(|before| before.get(&after.worker).copied().unwrap_or_default());
        let between: Vec<_> = before.zip(after.counts).map(|(before, after)| after - before).collect();
        assert!(between.iter().zip(&self.limits).all(|(count, limit)| count <= limit), "{between:?}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.is_enough.store(true, Ordering::SeqCst);
    }
}

/// A worker that is kept in a turn until this is dropped.
struct Kept(#[expect(dead_code, reason = "the worker waits for its end")] mpsc::Sender<Infallible>);

/// Has `ask` keep a worker in a turn, and waits until it is.
fn keep(ask: impl FnOnce(mpsc::Sender<()>, mpsc::Receiver<Infallible>)) -> Kept {
    let ((kept, is_kept), (go_on, goes_on)) = (mpsc::channel(), mpsc::channel());
    ask(kept, goes_on);
    is_kept.recv().unwrap();
    Kept(go_on)
}

#[test]
fn an_ask_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(1);
    for _ in 0..ROUNDS {
        let (quiet, kept) = (stage.quiet(), stage.keep_a_worker());
        let before = stage.counts();
        let answer = quiet.counts();
        drop(kept);
        stage.check(&before, answer.wait().unwrap());
    }
}

#[test]
fn an_ask_of_two_workers_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(2);
    for _ in 0..ROUNDS {
        let quiet = [(); 3].map(|()| stage.quiet());
        let kept = [0, 1].map(|worker| keep(|kept, go_on| drop(quiet[worker].tell().keep_the_thread(kept, go_on))));
        let before = stage.counts();
        let answer = quiet[2].counts();
        drop(kept);
        stage.check(&before, answer.wait().unwrap());
    }
}

#[test]
fn the_last_of_a_thousand_asks_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(1);
    for _ in 0..ROUNDS {
        let quiet: Vec<_> = (0..1000).map(|_| stage.quiet()).collect();
        let kept = stage.keep_a_worker();
        let before = stage.counts();
        let answers: Vec<_> = quiet.iter().map(QuietRef::counts).collect();
        drop(kept);
        answers.into_iter().for_each(|answer| stage.check(&before, answer.wait().unwrap()));
    }
}

/// The worker owes its own actors as many runs as there were asks before.
#[test]
fn an_ask_after_a_thousand_others_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(1);
    for _ in 0..ROUNDS {
        let (quiet, last): (Vec<_>, _) = ((0..1000).map(|_| stage.quiet()).collect(), stage.quiet());
        let kept = stage.keep_a_worker();
        quiet.iter().for_each(|quiet| drop(quiet.tell().counts()));
        let kept_in_the_last = keep(|tell, go_on| {
            last.tell().keep_the_thread(tell, go_on);
            drop(kept);
        });
        let (before, late) = (stage.counts(), stage.quiet());
        let answer = late.counts();
        drop(kept_in_the_last);
        stage.check(&before, answer.wait().unwrap());
    }
}

#[test]
fn a_turn_that_another_thread_wakes_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(1);
    for _ in 0..ROUNDS {
        let ((promise, resolver), (tell, waits)) = (Promise::pair(), mpsc::channel());
        let quiet = stage.quiet();
        let answer = quiet.counts_after(promise, tell);
        waits.recv().unwrap();
        let kept = stage.keep_a_worker();
        let before = stage.counts();
        resolver.resolve(());
        drop(kept);
        stage.check(&before, answer.wait().unwrap());
    }
}

#[test]
fn a_turn_whose_time_has_come_waits_for_two_runs_of_each_runnable_actor_at_most() {
    let stage = Stage::with(1);
    for round in 0..ROUNDS {
        let quiet = stage.quiet();
        let ((promise, resolver), (tell, waits)) = (Promise::pair(), mpsc::channel());
        let answer = if round % 2 == 0 {
            quiet.count_after_a_second(resolver).wait().unwrap();
            promise
        } else {
            let answer = quiet.counts_after_sleep(tell);
            waits.recv().unwrap();
            answer
        };
        let kept = stage.keep_a_worker();
        let before = stage.counts();
        stage.pass_a_second();
        drop(kept);
        stage.check(&before, answer.wait().unwrap());
    }
}

/// The run under way ends at its second look: one sees the ask wait, the next one that it has waited for long. One
/// that was due before the ask ends at its first.
#[test]
fn an_ask_waits_for_the_turns_between_three_looks_of_batches_of_long_turns() {
    let system = System::builder().workers(1).build().unwrap();
    let (turns, is_enough) = (Counter::default(), Arc::new(AtomicBool::new(true)));
    let busy = system.spawn(Flooded { turns: turns.clone(), is_enough });
    for before_it in 0..2 * TURNS_PER_LOOK {
        let quiet = system.spawn(Quiet(vec![turns.clone()]));
        (0..before_it).for_each(|_| drop(busy.tell().long_turn()));
        let kept = keep(|kept, go_on| drop(busy.tell().keep_the_thread(kept, go_on)));
        (0..TURNS_PER_RUN).for_each(|_| drop(busy.tell().long_turn()));
        let (before, answer) = (turns.sum(), quiet.counts());
        drop(kept);
        let between = answer.wait().unwrap().counts[0] - before;
        assert!(between <= 3 * TURNS_PER_LOOK, "{between} turns");
        busy.run(|_, _| ()).wait().unwrap();
    }
}

/// Whenever the worker looks, another ask is there.
#[test]
fn asks_without_end_leave_every_second_run_to_what_runs_inside() {
    const ASKS: u64 = 200;
    let stage = Stage::with(1);
    let quiet = [stage.quiet(), stage.quiet()];
    let keep_next = |asks: usize, kept: Option<Kept>| {
        keep(|tell, go_on| {
            quiet[asks % 2].tell().keep_the_thread(tell, go_on);
            drop(kept);
        })
    };
    let first = keep_next(0, None);
    let sums = || stage.counters.iter().map(Counter::sum).collect::<Vec<_>>();
    let before = sums();
    let last = (1..=ASKS as usize).fold(first, |kept, asks| keep_next(asks, Some(kept)));
    let after = sums();
    drop(last);
    let own = stage.counters.len() as u64;
    for (before, after) in before.into_iter().zip(after) {
        assert!(after - before >= ASKS / own / 2, "{} runs or turns beside {ASKS} asks", after - before);
    }
}
