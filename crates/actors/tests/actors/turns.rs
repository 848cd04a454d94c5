//! Turns: one at a time, in order, fair.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Mailbox, Promise, Shutdown, Spec, System, WhenFull, actor};
use proptest::prelude::*;

/// What all recorders have seen.
#[derive(Default)]
struct Findings {
    in_turn_twice: AtomicUsize,
    out_of_order: AtomicUsize,
    taken: AtomicUsize,
}

/// Records what it is sent, and notices when two of its turns overlap.
struct Recorder {
    findings: Arc<Findings>,
    in_turn: AtomicBool,
    /// The last number from each sender.
    last: HashMap<usize, u64>,
}

impl Recorder {
    fn enter(&mut self, sender: usize, number: u64) {
        if self.in_turn.swap(true, Ordering::SeqCst) {
            self.findings.in_turn_twice.fetch_add(1, Ordering::SeqCst);
        }
        thread::yield_now();
        if self.last.insert(sender, number).is_some_and(|last| last >= number) {
            self.findings.out_of_order.fetch_add(1, Ordering::SeqCst);
        }
        self.findings.taken.fetch_add(1, Ordering::SeqCst);
        self.in_turn.store(false, Ordering::SeqCst);
    }
}

#[actor]
impl Recorder {
    fn plain(&mut self, sender: usize, number: u64) {
        self.enter(sender, number);
    }

    async fn held(&mut self, cx: &Cx<Self>, sender: usize, number: u64) {
        self.enter(sender, number);
        self.in_turn.store(true, Ordering::SeqCst);
        cx.yield_now().await;
        self.in_turn.store(false, Ordering::SeqCst);
    }

    async fn cooperative(cx: Cx<Self>, sender: usize, number: u64) {
        cx.with(|recorder| recorder.enter(sender, number));
        cx.yield_now().await;
        cx.with(|recorder| assert!(!recorder.in_turn.load(Ordering::SeqCst)));
    }
}

fn send(recorder: &RecorderRef, kind: u64, sender: usize, number: u64) {
    let sent = match kind % 5 {
        0 => recorder.tell().held(sender, number),
        1 => recorder.tell().cooperative(sender, number),
        _ => recorder.tell().plain(sender, number),
    };
    sent.accepted().unwrap();
}

/// Sends to the recorders in its turns.
struct Sender {
    id: usize,
    seed: u64,
    sent: u64,
    recorders: Vec<RecorderRef>,
}

#[actor]
impl Sender {
    /// `messages` messages over many turns, so that senders are rescheduled in between.
    fn go(&mut self, cx: &Cx<Self>, messages: u64) {
        for _ in 0..messages.min(50) {
            self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.sent += 1;
            let to = (self.seed >> 33) as usize % self.recorders.len();
            send(&self.recorders[to], self.seed >> 40, self.id, self.sent);
        }
        if messages > 50 {
            cx.handle().tell().go(messages - 50);
        }
    }
}

/// Actors and threads that send to the same recorders, and a shutdown behind them.
fn stress(seed: u64, workers: usize, senders: usize, recorders: usize, messages: u64) -> Arc<Findings> {
    let findings = Arc::new(Findings::default());
    let system = System::builder().workers(workers).build().unwrap();
    let recorder =
        || Recorder { findings: Arc::clone(&findings), in_turn: AtomicBool::default(), last: HashMap::default() };
    let recorders: Vec<_> = (0..recorders).map(|_| system.spawn(recorder())).collect();
    for id in 0..senders {
        let sender = Sender { id, seed: seed.wrapping_add(id as u64), sent: 0, recorders: recorders.clone() };
        system.spawn(sender).tell().go(messages);
    }
    thread::scope(|scope| {
        for id in senders..senders + 2 {
            let recorders = &recorders;
            scope.spawn(move || {
                for number in 1..=messages {
                    send(&recorders[number as usize % recorders.len()], number ^ seed, id, number);
                }
            });
        }
    });
    assert_eq!(system.shutdown(Duration::from_secs(120)).wait(), Ok(Shutdown::Drained));
    findings
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn turns_never_overlap_keep_each_senders_order_and_are_all_taken_before_a_shutdown(
        seed in any::<u64>(),
        workers in 1..5usize,
        senders in 1..6usize,
        recorders in 1..4usize,
        messages in 1..400u64,
    ) {
        let findings = stress(seed, workers, senders, recorders, messages);
        prop_assert_eq!(findings.in_turn_twice.load(Ordering::SeqCst), 0);
        prop_assert_eq!(findings.out_of_order.load(Ordering::SeqCst), 0);
        let sent = (senders + 2) * usize::try_from(messages).unwrap();
        prop_assert_eq!(findings.taken.load(Ordering::SeqCst), sent);
    }
}

/// Holds its worker until told otherwise.
struct Blocker;

#[actor]
impl Blocker {
    fn block(&self, until: mpsc::Receiver<()>) {
        until.recv().unwrap();
    }
}

struct Echo;

#[actor]
impl Echo {
    fn echo(&self, n: u64) -> u64 {
        n
    }

    fn echo_through(&self, other: EchoRef, until: mpsc::Receiver<()>) -> Promise<u64> {
        // `other` is now in this worker's slot, and this turn goes on.
        let answer = other.echo(7);
        until.recv().unwrap();
        answer
    }
}

#[test]
fn a_turn_that_computes_for_long_delays_nobody_while_another_worker_is_free() {
    let system = System::builder().workers(2).build().unwrap();
    let (release, until) = mpsc::channel();
    let blocked = system.spawn(Blocker).block(until);
    for n in 0..100 {
        assert_eq!(system.spawn(Echo).echo(n).wait(), Ok(n));
    }
    release.send(()).unwrap();
    blocked.wait().unwrap();
}

#[test]
fn what_a_long_turn_has_sent_is_taken_up_by_another_worker() {
    let system = System::builder().workers(2).build().unwrap();
    let (release, until) = mpsc::channel();
    let (done, answered) = mpsc::channel();
    let other = system.spawn(Echo);
    let probe = other.clone();
    let outer = system.spawn(Echo).echo_through(other, until);
    // The long turn ends only after `other` has answered this, behind the message that the long turn has sent.
    thread::spawn(move || done.send(probe.echo(8).wait()).unwrap());
    assert_eq!(answered.recv().unwrap(), Ok(8));
    release.send(()).unwrap();
    assert_eq!(outer.wait().unwrap().wait(), Ok(7));
}

/// Passes on what it gets, for ever, and notes on which threads.
struct Member {
    next: Option<MemberRef>,
    threads: Arc<Mutex<HashSet<ThreadId>>>,
}

#[actor]
impl Member {
    fn stand_before(&mut self, next: MemberRef) {
        self.next = Some(next);
    }

    fn pass_on(&self) {
        self.threads.lock().unwrap().insert(thread::current().id());
        self.next.iter().for_each(|next| drop(next.tell().pass_on()));
    }
}

/// Computes until others do, too.
struct Computing;

#[actor]
impl Computing {
    fn compute(&self, together: Arc<Barrier>) {
        together.wait();
    }

    fn fork(&self, others: [ComputingRef; 2], together: Arc<Barrier>) -> [Promise<()>; 2] {
        others.map(|other| other.compute(Arc::clone(&together)))
    }
}

#[test]
fn turns_that_one_actor_has_forked_run_side_by_side_though_every_worker_has_work_of_its_own() {
    let system = System::builder().workers(2).build().unwrap();
    let threads = Arc::new(Mutex::new(HashSet::new()));
    let ring: Vec<_> = (0..50).map(|_| system.spawn(Member { next: None, threads: Arc::clone(&threads) })).collect();
    for (member, next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        member.tell().stand_before(next.clone());
    }
    ring.iter().take(10).for_each(|member| drop(member.tell().pass_on()));
    for _ in 0..20 {
        threads.lock().unwrap().clear();
        while threads.lock().unwrap().len() < 2 {
            thread::yield_now();
        }
        let others = [system.spawn(Computing), system.spawn(Computing)];
        let forked = system.spawn(Computing).fork(others, Arc::new(Barrier::new(2)));
        for done in forked.wait().unwrap() {
            done.wait().unwrap();
        }
    }
    ring.iter().for_each(|member| member.kill());
}

/// Sends itself messages for ever.
struct Busy {
    stop: Arc<AtomicBool>,
    turns: Arc<AtomicUsize>,
}

#[actor]
impl Busy {
    fn spin(&mut self, cx: &Cx<Self>) {
        self.turns.fetch_add(1, Ordering::Relaxed);
        if !self.stop.load(Ordering::Relaxed) {
            cx.handle().tell().spin();
        }
    }
}

#[test]
fn busy_actors_do_not_starve_others_on_the_same_worker_or_senders_from_outside() {
    let system = System::builder().workers(1).build().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let turns = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let busy = system.spawn(Busy { stop: Arc::clone(&stop), turns: Arc::clone(&turns) });
        busy.tell().spin();
        busy.tell().spin();
    }
    let echo = system.spawn(Echo);
    for n in 0..200 {
        assert_eq!(echo.echo(n).wait(), Ok(n));
    }
    assert!(turns.load(Ordering::Relaxed) > 0);
    stop.store(true, Ordering::Relaxed);
}

struct Switcher {
    left: u64,
    other: Option<SwitcherRef>,
}

#[actor]
impl Switcher {
    fn meet(&mut self, other: SwitcherRef) {
        self.other = Some(other);
    }

    fn ball(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            if let Some(other) = &self.other {
                other.tell().ball();
            }
        }
    }
}

#[test]
fn two_actors_that_keep_sending_to_each_other_do_not_keep_a_third_from_its_worker() {
    let system = System::builder().workers(1).build().unwrap();
    let left = u64::MAX;
    let (one, other) = (system.spawn(Switcher { left, other: None }), system.spawn(Switcher { left, other: None }));
    one.tell().meet(other.clone());
    other.tell().meet(one.clone());
    one.tell().ball();
    for n in 0..50 {
        assert_eq!(system.spawn(Echo).echo(n).wait(), Ok(n));
    }
    one.kill();
    other.kill();
    assert!(matches!(one.run(|_, _| ()).wait(), Err(ActorError::Stopped { .. })));
}

/// Cooperative turns take turns: each leaves its mark, yields, and leaves it again.
#[derive(Default)]
struct Marks(Vec<u32>);

#[actor]
impl Marks {
    async fn mark(cx: Cx<Self>, n: u32) {
        cx.with(|marks| marks.0.push(n));
        cx.yield_now().await;
        cx.with(|marks| marks.0.push(n));
    }

    async fn mark_held(&mut self, cx: &Cx<Self>, n: u32) {
        self.0.push(n);
        cx.yield_now().await;
        self.0.push(n);
    }

    async fn go(cx: Cx<Self>, held: bool) -> Vec<u32> {
        let marks = cx.handle();
        for n in 1..=3 {
            if held {
                marks.tell().mark_held(n);
            } else {
                marks.tell().mark(n);
            }
        }
        cx.wait_for(|marks| marks.0.len() == 6).await;
        cx.with(|marks| marks.0.clone())
    }
}

#[test]
fn a_cooperative_turn_that_yields_goes_behind_what_is_in_the_mailbox() {
    let system = System::builder().workers(1).build().unwrap();
    assert_eq!(system.spawn(Marks::default()).go(false).wait(), Ok(vec![1, 2, 3, 1, 2, 3]));
}

#[test]
fn a_turn_that_holds_its_actor_is_not_interleaved() {
    let system = System::builder().workers(1).build().unwrap();
    assert_eq!(system.spawn(Marks::default()).go(true).wait(), Ok(vec![1, 1, 2, 2, 3, 3]));
}

#[test]
fn wait_for_looks_again_only_after_turns() {
    struct Gate {
        open: bool,
    }
    #[actor]
    impl Gate {
        fn open(&mut self) {
            self.open = true;
        }
        fn touch(&mut self) {}
        async fn looks_until_open(cx: Cx<Self>) -> usize {
            let mut looks = 0;
            cx.wait_for(|gate| {
                looks += 1;
                gate.open
            })
            .await;
            looks
        }
    }
    let system = System::builder().workers(1).build().unwrap();
    let gate = system.spawn(Gate { open: false });
    let looks = gate.looks_until_open();
    for _ in 0..10 {
        gate.touch().wait().unwrap();
    }
    gate.tell().open();
    // One at the start, at most one per turn, one when it is open.
    let looks = looks.wait().unwrap();
    assert!((2..=12).contains(&looks), "{looks}");
}

#[test]
fn a_state_is_dropped_once_and_by_a_worker() {
    struct Droppy(mpsc::Sender<Option<String>>);
    #[actor]
    impl Droppy {
        fn touch(&self) {}
    }
    impl Drop for Droppy {
        fn drop(&mut self) {
            self.0.send(thread::current().name().map(String::from)).unwrap();
        }
    }
    let system = System::builder().workers(1).thread_name("at work").build().unwrap();
    let (sender, dropped) = mpsc::channel();
    let droppy = system.spawn(Droppy(sender));
    droppy.tell().touch();
    drop(droppy);
    assert_eq!(dropped.recv().unwrap().as_deref(), Some("at work"));
    assert!(dropped.recv().is_err());
}

/// Takes many messages of one type in a row.
#[derive(Default)]
struct Series {
    taken: u32,
}

#[actor]
impl Series {
    fn hold_thread(&self, started: mpsc::Sender<()>, until: mpsc::Receiver<()>) {
        started.send(()).unwrap();
        let _released = until.recv();
    }

    fn take(&mut self, cx: &Cx<Self>, then: fn(&Cx<Self>, u32)) {
        self.taken += 1;
        then(cx, self.taken);
    }

    fn taken(&self) -> u32 {
        self.taken
    }

    async fn wait_for(cx: Cx<Self>, taken: u32) {
        cx.wait_for(|series| series.taken == taken).await;
    }
}

/// An actor that finds so many messages of one type when its first turn ends.
fn series(system: &System, spec: Spec<Series>, count: usize, then: fn(&Cx<Series>, u32)) -> SeriesRef {
    let series = system.spawn(spec);
    let (started, is_started) = mpsc::channel();
    let (release, until) = mpsc::channel();
    series.tell().hold_thread(started, until);
    is_started.recv().unwrap();
    (0..count).for_each(|_| series.tell().take(then).accepted().unwrap());
    release.send(()).unwrap();
    series
}

#[test]
fn between_two_messages_of_a_type_a_kill_is_obeyed_and_a_next_state_begun_with() {
    let system = System::builder().workers(1).build().unwrap();
    let killed = series(&system, Series::default().into(), 4, |cx, taken| {
        assert!(taken < 3, "the actor was killed");
        if taken == 2 {
            cx.handle().kill();
        }
    });
    assert_eq!(killed.watch().wait().unwrap().reason, ExitReason::Stopped);
    let other = series(&system, Series::default().into(), 4, |cx, taken| {
        if taken == 2 {
            cx.become_next(Series { taken: 10 });
        }
    });
    assert_eq!(other.taken().wait(), Ok(12));
}

#[test]
fn between_two_messages_of_a_type_there_is_room_for_another() {
    let system = System::builder().workers(1).build().unwrap();
    let bounded = Spec::new(Series::default()).mailbox(Mailbox::bounded(4, WhenFull::Fail));
    let series = series(&system, bounded, 3, |cx, taken| {
        if taken <= 3 {
            let accepted = cx.handle().tell().take(|_, _| ()).accepted();
            assert!(accepted.is_ok(), "message {taken}: {accepted:?}");
        }
    });
    assert_eq!(series.wait_for(6).timeout(Duration::from_secs(60)).wait(), Ok(()));
}
