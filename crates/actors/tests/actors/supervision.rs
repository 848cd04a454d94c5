//! Failure: what a panic does to the turn, the actor, and those who depend on it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use enact_actors::{
    ActorError, Cx, Exit, ExitReason, Forward, OnPanic, Promise, Resolver, Restarts, Spec, System, actor,
};

type Ask = fn(&FragileRef) -> Promise<u64>;
type End = fn(&FragileRef);

/// Counts, and fails when told to.
struct Fragile {
    n: u64,
    resolvers: Vec<Resolver<u64>>,
}

impl Fragile {
    fn new() -> Self {
        Self { n: 0, resolvers: vec![] }
    }
}

#[actor]
impl Fragile {
    fn add(&mut self) -> u64 {
        self.n += 1;
        self.n
    }

    fn fail(&mut self) -> u64 {
        self.n += 10;
        panic!("broken at {}", self.n)
    }

    async fn fail_held(&mut self, cx: &Cx<Self>) -> u64 {
        cx.yield_now().await;
        panic!("broken in a held turn at {}", self.n)
    }

    async fn fail_cooperative(cx: Cx<Self>) -> u64 {
        cx.yield_now().await;
        cx.with(|fragile| panic!("broken in a cooperative turn at {}", fragile.n))
    }

    fn fail_forwarding(&mut self, _cx: &Cx<Self>) -> Forward<u64> {
        panic!("broken before the forward")
    }

    async fn wait(cx: Cx<Self>, started: mpsc::Sender<()>) -> u64 {
        let (promise, resolver) = Promise::pair();
        cx.with(|fragile| fragile.resolvers.push(resolver));
        started.send(()).unwrap();
        promise.await.unwrap_or(0)
    }

    fn child(&self, cx: &Cx<Self>, on_panic: OnPanic) -> FragileRef {
        cx.spawn(Spec::new(Fragile::new()).on_panic(on_panic).name("child"))
    }

    fn link_to(&self, cx: &Cx<Self>, other: FragileRef) {
        cx.link(&other);
    }

    fn unlink_from(&self, cx: &Cx<Self>, other: FragileRef) {
        cx.unlink(&other);
    }

    fn notice(&self, cx: &Cx<Self>, other: FragileRef, notices: mpsc::Sender<Exit>) {
        cx.watch(&other, move |fragile, _, exit| {
            fragile.n += 100;
            notices.send(exit).unwrap();
        });
    }
}

fn text_of(answer: &Result<u64, ActorError>) -> &str {
    match answer {
        Err(ActorError::Panicked { text, .. }) => text,
        other => panic!("no panic: {other:?}"),
    }
}

#[test]
fn a_panic_fails_the_promise_with_its_text_in_every_kind_of_turn() {
    let system = System::builder().workers(1).build().unwrap();
    let rows: [(Ask, &str); 4] = [
        (FragileRef::fail, "broken at 10"),
        (FragileRef::fail_held, "broken in a held turn at 0"),
        (FragileRef::fail_cooperative, "broken in a cooperative turn at 0"),
        (FragileRef::fail_forwarding, "broken before the forward"),
    ];
    for (ask, text) in rows {
        for on_panic in [OnPanic::Stop, OnPanic::Resume, OnPanic::Escalate] {
            let fragile = system.spawn(Spec::new(Fragile::new()).on_panic(on_panic));
            let answer = ask(&fragile).wait();
            assert_eq!(text_of(&answer), text);
            let Err(ActorError::Panicked { actor, .. }) = answer else { unreachable!() };
            assert_eq!(actor, fragile.identity());
        }
    }
}

#[test]
fn a_panicking_actor_stops_unless_told_otherwise_and_what_is_queued_fails() {
    let system = System::builder().workers(1).build().unwrap();
    let fragile = system.spawn(Fragile::new());
    let exit = fragile.watch();
    let (failed, queued) = fragile.run(|_, cx| (cx.handle().fail(), cx.handle().add())).wait().unwrap();
    assert_eq!(text_of(&failed.wait()), "broken at 10");
    assert_eq!(queued.wait(), Err(ActorError::Stopped { actor: fragile.identity() }));
    let reason = ExitReason::Panicked { text: "broken at 10".into() };
    assert_eq!(exit.wait(), Ok(Exit { actor: fragile.identity(), reason }));
    assert_eq!(fragile.add().wait(), Err(ActorError::Stopped { actor: fragile.identity() }));
    assert_eq!(fragile.tell().add().accepted(), Err(ActorError::Stopped { actor: fragile.identity() }));
}

#[test]
fn resume_goes_on_with_the_state_as_it_was_left() {
    let system = System::builder().workers(1).build().unwrap();
    let fragile = system.spawn(Spec::new(Fragile::new()).on_panic(OnPanic::Resume));
    for (ask, n) in [(FragileRef::fail as Ask, 11), (FragileRef::fail_held, 12), (FragileRef::fail_cooperative, 13)] {
        text_of(&ask(&fragile).wait());
        assert_eq!(fragile.add().wait(), Ok(n));
    }
}

fn restarting(system: &System, count: usize, makes: Arc<AtomicUsize>) -> FragileRef {
    system.spawn(Spec::restarting(Restarts::at_most(count, Duration::from_secs(600)), move || {
        makes.fetch_add(1, Ordering::SeqCst);
        Fragile::new()
    }))
}

#[test]
fn a_restart_makes_a_new_state_and_keeps_handle_and_mailbox() {
    let system = System::builder().workers(1).build().unwrap();
    let makes = Arc::default();
    let fragile = restarting(&system, 3, Arc::clone(&makes));
    assert_eq!(fragile.add().wait(), Ok(1));
    let (failed, queued) = fragile.run(|_, cx| (cx.handle().fail(), cx.handle().add())).wait().unwrap();
    assert_eq!(text_of(&failed.wait()), "broken at 11");
    assert_eq!(queued.wait(), Ok(1));
    assert_eq!(makes.load(Ordering::SeqCst), 2);
}

#[test]
fn a_restart_fails_the_turns_that_were_suspended_and_cancels_timers() {
    let system = System::builder().workers(1).build().unwrap();
    let fragile = restarting(&system, 3, Arc::default());
    let (started, is_suspended) = mpsc::channel();
    let suspended = fragile.wait(started);
    is_suspended.recv().unwrap();
    let timer = fragile.run(|_, cx| cx.after(Duration::from_secs(600), |_, _| ())).wait().unwrap();
    text_of(&fragile.fail().wait());
    assert_eq!(suspended.wait(), Err(ActorError::Restarted { actor: fragile.identity() }));
    assert_eq!(fragile.add().wait(), Ok(1));
    assert!(!timer.cancel());
}

#[test]
fn restarts_end_at_their_limit() {
    for limit in [0, 1, 3] {
        let system = System::builder().workers(1).build().unwrap();
        let makes = Arc::default();
        let fragile = restarting(&system, limit, Arc::clone(&makes));
        for _ in 0..limit {
            text_of(&fragile.fail().wait());
            assert_eq!(fragile.add().wait(), Ok(1));
        }
        text_of(&fragile.fail().wait());
        assert!(fragile.watch().wait().unwrap().reason.is_failure());
        assert_eq!(makes.load(Ordering::SeqCst), 1 + limit);
    }
}

#[test]
fn restarts_that_are_long_past_do_not_count() {
    let clock = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let system = System::builder().workers(1).tokio(clock.handle().clone()).build().unwrap();
    let fragile = system.spawn(Spec::restarting(Restarts::at_most(1, Duration::from_secs(60)), Fragile::new));
    for _ in 0..5 {
        text_of(&fragile.fail().wait());
        assert_eq!(fragile.add().wait(), Ok(1));
        clock.block_on(tokio::time::advance(Duration::from_secs(61)));
    }
    text_of(&fragile.fail().wait());
    clock.block_on(tokio::time::advance(Duration::from_secs(59)));
    text_of(&fragile.fail().wait());
    assert!(fragile.watch().wait().unwrap().reason.is_failure());
}

#[test]
fn a_maker_that_panics_ends_the_actor() {
    let system = System::builder().workers(1).build().unwrap();
    let mut made = false;
    let fragile = system.spawn(Spec::restarting(Restarts::at_most(9, Duration::from_secs(600)), move || {
        assert!(!std::mem::replace(&mut made, true), "no second one");
        Fragile::new()
    }));
    text_of(&fragile.fail().wait());
    let reason = ExitReason::Panicked { text: "broken at 10".into() };
    assert_eq!(fragile.watch().wait().unwrap().reason, reason);
}

#[test]
fn an_escalated_failure_becomes_the_parents() {
    let system = System::builder().workers(1).build().unwrap();
    let rows = [
        (OnPanic::Escalate, OnPanic::Stop, true),
        (OnPanic::Escalate, OnPanic::Escalate, true),
        (OnPanic::Escalate, OnPanic::Resume, false),
        (OnPanic::Stop, OnPanic::Stop, false),
        (OnPanic::Resume, OnPanic::Stop, false),
    ];
    for (of_child, of_parent, parent_ends) in rows {
        let parent = system.spawn(Spec::new(Fragile::new()).on_panic(of_parent));
        let child = parent.child(of_child).wait().unwrap();
        text_of(&child.fail().wait());
        if of_child != OnPanic::Resume {
            child.watch().wait().unwrap();
        }
        if parent_ends {
            let reason = ExitReason::Failed { because_of: child.identity() };
            assert_eq!(parent.watch().wait().unwrap().reason, reason);
        } else {
            assert_eq!(parent.add().wait(), Ok(1), "{of_child:?} {of_parent:?}");
        }
    }
}

#[test]
fn an_escalated_failure_restarts_a_parent_that_is_restarted() {
    let system = System::builder().workers(1).build().unwrap();
    let parent = restarting(&system, 3, Arc::default());
    assert_eq!(parent.add().wait(), Ok(1));
    let child = parent.child(OnPanic::Escalate).wait().unwrap();
    text_of(&child.fail().wait());
    child.watch().wait().unwrap();
    assert_eq!(parent.add().wait(), Ok(1));
}

#[test]
fn links_pass_failures_on_and_orderly_ends_not() {
    let system = System::builder().workers(2).build().unwrap();
    let rows: [(End, bool); 3] = [(|it| drop(it.fail()), true), (|it| it.stop(), false), (|it| it.kill(), false)];
    for (end, passed_on) in rows {
        for forward in [true, false] {
            let [one, other] = [(); 2].map(|()| system.spawn(Fragile::new()));
            one.link_to(other.clone()).wait().unwrap();
            let (ending, linked) = if forward { (&one, &other) } else { (&other, &one) };
            end(ending);
            ending.watch().wait().unwrap();
            if passed_on {
                let reason = ExitReason::Failed { because_of: ending.identity() };
                assert_eq!(linked.watch().wait().unwrap().reason, reason);
            } else {
                assert_eq!(linked.add().wait(), Ok(1));
            }
        }
    }
}

#[test]
fn a_link_to_an_actor_that_has_failed_fails_at_once() {
    let system = System::builder().workers(2).build().unwrap();
    let [one, other] = [(); 2].map(|()| system.spawn(Fragile::new()));
    text_of(&other.fail().wait());
    other.watch().wait().unwrap();
    one.tell().link_to(other.clone());
    assert_eq!(one.watch().wait().unwrap().reason, ExitReason::Failed { because_of: other.identity() });
}

#[test]
fn an_undone_link_passes_nothing_on() {
    let system = System::builder().workers(2).build().unwrap();
    let [one, other] = [(); 2].map(|()| system.spawn(Fragile::new()));
    one.link_to(other.clone()).wait().unwrap();
    one.unlink_from(other.clone()).wait().unwrap();
    text_of(&other.fail().wait());
    other.watch().wait().unwrap();
    assert_eq!(one.add().wait(), Ok(1));
}

#[test]
fn a_watcher_gets_one_notice_as_a_turn_before_or_after_the_end() {
    let system = System::builder().workers(2).build().unwrap();
    let (notices, noticed) = mpsc::channel();
    let [watcher, watched] = [(); 2].map(|()| system.spawn(Fragile::new()));
    watcher.notice(watched.clone(), notices.clone()).wait().unwrap();
    text_of(&watched.fail().wait());
    let exit = noticed.recv().unwrap();
    assert_eq!(exit.actor, watched.identity());
    assert!(exit.reason.is_failure());
    watcher.notice(watched, notices).wait().unwrap();
    assert_eq!(noticed.recv().unwrap(), exit);
    assert_eq!(watcher.add().wait(), Ok(201));
    drop(watcher);
    assert!(noticed.recv().is_err());
}

#[test]
fn destructors_that_panic_are_contained() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    struct Holder {
        _bomb: Option<Bomb>,
    }
    #[actor]
    impl Holder {
        fn carry(&self, bomb: Box<dyn std::any::Any + Send>) {
            drop(bomb);
        }
        fn answer(&self) -> Box<dyn std::any::Any + Send> {
            Box::new(Bomb)
        }
        async fn suspended(cx: Cx<Self>, bomb: Box<dyn std::any::Any + Send>) {
            let _bomb = bomb;
            cx.wait_for(|_| false).await;
        }
        fn nothing(&self) {}
    }
    let system = System::builder().workers(1).build().unwrap();
    let spec = || Spec::new(Holder { _bomb: None }).on_panic(OnPanic::Resume);
    let holder = system.spawn(spec());
    assert!(matches!(holder.carry(Box::new(Bomb)).wait(), Err(ActorError::Panicked { .. })));
    holder.tell().answer();
    drop(holder.answer());
    holder.tell().suspended(Box::new(Bomb));
    assert_eq!(holder.nothing().wait(), Ok(()));
    holder.kill();
    assert_eq!(holder.watch().wait().unwrap().reason, ExitReason::Stopped);
    let with_bomb = system.spawn(Holder { _bomb: Some(Bomb) });
    with_bomb.stop();
    assert_eq!(with_bomb.watch().wait().unwrap().reason, ExitReason::Stopped);
    // The worker has survived all of it.
    assert_eq!(system.spawn(spec()).nothing().wait(), Ok(()));
}

struct Verbose;

#[actor]
impl Verbose {
    fn fail(&mut self, text: String) {
        panic!("{text}")
    }
}

#[test]
fn of_a_long_panic_text_the_beginning_is_kept() {
    let system = System::builder().workers(1).build().unwrap();
    // An error that quotes an error that quotes an error: characters of two bytes, so that the limit falls between two.
    let said = format!("x{}", "ä".repeat(100_000));
    let Err(ActorError::Panicked { text, .. }) = system.spawn(Verbose).fail(said.clone()).wait() else {
        unreachable!()
    };
    let kept = text.strip_suffix("...").expect("what is missing is shown");
    assert!(said.starts_with(kept) && (4000..=4096).contains(&kept.len()), "{} bytes are kept", kept.len());
}

/// Thrown by a turn; throws something itself when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("thrown by what was thrown");
    }
}

#[test]
fn a_turn_that_throws_what_cannot_be_dropped_harms_nobody_else() {
    let system = System::builder().workers(1).build().unwrap();
    let [fragile, other] = [(); 2].map(|()| system.spawn(Fragile::new()));
    let thrown = fragile.run(|_, _| std::panic::panic_any(Bomb));
    assert!(matches!(thrown.wait(), Err(ActorError::Panicked { .. })));
    assert_eq!(other.add().wait(), Ok(1), "its worker goes on");
}
