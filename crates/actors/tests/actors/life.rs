//! Life: names, ends, the last handle, shutdown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Promise, Shutdown, Spec, System, actor};

/// A way to ask a citizen for a turn that says when it has begun and then waits.
type Suspend = fn(&CitizenRef, mpsc::Sender<()>, Promise<()>) -> Promise<usize>;

/// Counts its turns; its end is counted when it is dropped.
struct Citizen {
    turns: usize,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Citizen {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[actor]
impl Citizen {
    fn turn(&mut self) -> usize {
        self.turns += 1;
        self.turns
    }

    fn hold_thread(&mut self, started: mpsc::Sender<()>, until: mpsc::Receiver<()>) {
        started.send(()).unwrap();
        let _released = until.recv();
    }

    async fn hold(&mut self, started: mpsc::Sender<()>, until: Promise<()>) -> usize {
        started.send(()).unwrap();
        let _released = until.await;
        self.turns
    }

    async fn suspend(cx: Cx<Self>, started: mpsc::Sender<()>, until: Promise<()>) -> usize {
        started.send(()).unwrap();
        let _released = until.await;
        cx.with(|citizen| citizen.turns)
    }

    fn stop_then_answer(&mut self, cx: &Cx<Self>) -> usize {
        cx.handle().tell().turn();
        cx.stop();
        self.turns
    }

    /// Sends itself messages, one per turn.
    fn chain(&mut self, cx: &Cx<Self>, left: usize) {
        self.turns += 1;
        if left > 0 {
            cx.handle().tell().chain(left - 1);
        }
    }
}

fn citizen(dropped: &Arc<AtomicUsize>) -> Citizen {
    Citizen { turns: 0, dropped: Arc::clone(dropped) }
}

#[test]
fn the_last_handle_ends_an_actor_after_its_mailbox_is_empty() {
    let system = System::builder().workers(2).build().unwrap();
    for messages in [0, 1, 1000] {
        let handle = system.spawn(citizen(&Arc::default()));
        let answers: Vec<_> = (0..messages).map(|_| handle.turn()).collect();
        let (exit, clone) = (handle.watch(), handle.clone());
        drop(handle);
        assert_eq!(clone.turn().wait(), Ok(messages + 1));
        drop(clone);
        assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
        assert_eq!(answers.into_iter().next_back().map(Promise::wait), (messages > 0).then_some(Ok(messages)));
    }
}

#[test]
fn turns_under_way_and_delayed_turns_keep_an_actor_alive() {
    let system = System::builder().workers(2).build().unwrap();
    let dropped = Arc::default();
    let (started, is_started) = mpsc::channel();
    let rows: [Suspend; 2] = [CitizenRef::hold, CitizenRef::suspend];
    for ask in rows {
        let (until, release) = Promise::pair();
        let handle = system.spawn(citizen(&dropped));
        let (answer, exit) = (ask(&handle, started.clone(), until), handle.watch());
        is_started.recv().unwrap();
        drop(handle);
        release.resolve(());
        assert_eq!(answer.wait(), Ok(0));
        assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
    }
    let handle = system.spawn(citizen(&dropped));
    let (ran, has_run) = mpsc::channel();
    handle.run(move |_, cx| cx.after(Duration::from_millis(2), move |_, _| ran.send(()).unwrap())).wait().unwrap();
    let exit = handle.watch();
    drop(handle);
    has_run.recv().unwrap();
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

#[test]
fn an_actor_kept_alive_outlives_its_handles() {
    let system = System::builder().workers(1).build().unwrap();
    let handle = system.spawn(Spec::new(citizen(&Arc::default())).name("lonely").keep_alive());
    let exit = handle.watch();
    drop(handle);
    // A turn of another actor on the only worker: whatever the dropped handle set going has run.
    system.spawn(citizen(&Arc::default())).turn().wait().unwrap();
    assert_eq!(system.actors().iter().filter(|actor| actor.name() == "lonely").count(), 1);
    assert!(!exit.is_ready());
    drop(system);
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Shutdown);
}

#[test]
fn stop_takes_up_what_was_sent_before_and_lets_turns_end() {
    let system = System::builder().workers(2).build().unwrap();
    let handle = system.spawn(citizen(&Arc::default()));
    let (started, is_started) = mpsc::channel();
    let (until, release) = Promise::pair();
    let suspended = handle.suspend(started.clone(), until);
    is_started.recv().unwrap();
    let (hold, release_hold) = Promise::pair();
    let held = handle.hold(started, hold);
    is_started.recv().unwrap();
    let before: Vec<_> = (0..10).map(|_| handle.turn()).collect();
    handle.stop();
    assert!(matches!(handle.turn().wait(), Err(ActorError::Stopped { .. })));
    assert!(!handle.has_ended());
    release_hold.resolve(());
    assert_eq!(held.wait(), Ok(0));
    assert_eq!(before.into_iter().next_back().unwrap().wait(), Ok(10));
    release.resolve(());
    assert_eq!(suspended.wait(), Ok(10));
    assert_eq!(handle.watch().wait().unwrap().reason, ExitReason::Stopped);
}

#[test]
fn kill_ends_the_actor_between_two_turns_and_cuts_suspended_ones_short() {
    let system = System::builder().workers(2).build().unwrap();
    let dropped = Arc::default();
    let stopped = |handle: &CitizenRef| Err(ActorError::Stopped { actor: handle.identity() });
    let (started, is_started) = mpsc::channel();
    let rows: [Suspend; 2] = [CitizenRef::hold, CitizenRef::suspend];
    for ask in rows {
        let (until, _release) = Promise::pair();
        let handle = system.spawn(citizen(&dropped));
        let answer = ask(&handle, started.clone(), until);
        is_started.recv().unwrap();
        handle.kill();
        assert_eq!(answer.wait(), stopped(&handle));
        assert_eq!(handle.watch().wait().unwrap().reason, ExitReason::Stopped);
    }
    let handle = system.spawn(citizen(&dropped));
    let (release, until) = mpsc::channel();
    let running = handle.hold_thread(started, until);
    is_started.recv().unwrap();
    let queued = handle.turn();
    handle.kill();
    release.send(()).unwrap();
    assert_eq!(running.wait(), Ok(()));
    assert_eq!(queued.wait(), stopped(&handle));
    handle.watch().wait().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
}

#[test]
fn an_actor_that_stops_itself_still_answers_and_takes_up_nothing_more() {
    let system = System::builder().workers(1).build().unwrap();
    let handle = system.spawn(citizen(&Arc::default()));
    assert_eq!(handle.stop_then_answer().wait(), Ok(0));
    assert_eq!(handle.watch().wait().unwrap().reason, ExitReason::Stopped);
    assert!(handle.has_ended());
}

#[test]
fn messages_sent_before_a_handle_is_published_are_taken_up_first() {
    struct Parent;
    #[actor]
    impl Parent {
        fn make(&self, dropped: Arc<AtomicUsize>) -> CitizenRef {
            let child = enact_actors::Actor::spawn(Citizen { turns: 0, dropped });
            child.tell().turn();
            child.tell().turn();
            child
        }
    }
    let system = System::builder().workers(4).build().unwrap();
    let parent = system.spawn(Parent);
    for _ in 0..200 {
        assert_eq!(parent.make(Arc::default()).wait().unwrap().turn().wait(), Ok(3));
    }
}

#[test]
fn shutdown_takes_up_what_was_sent_and_what_that_sends() {
    let system = System::builder().workers(2).build().unwrap();
    let dropped = Arc::default();
    let handles: Vec<_> = (0..20).map(|_| system.spawn(citizen(&dropped))).collect();
    handles.iter().for_each(|handle| drop(handle.tell().chain(500)));
    let exits: Vec<_> = handles.iter().map(|handle| handle.watch()).collect();
    let last: Vec<_> = handles.iter().map(|handle| handle.run(|_, cx| cx.handle())).collect();
    assert_eq!(system.shutdown(Duration::from_secs(60)).wait(), Ok(Shutdown::Drained));
    assert_eq!(dropped.load(Ordering::SeqCst), 20);
    assert!(last.into_iter().all(|answer| answer.wait().is_ok()));
    assert!(exits.into_iter().all(|exit| exit.wait().unwrap().reason == ExitReason::Shutdown));
    assert!(system.actors().is_empty());
}

#[test]
fn shutdown_refuses_what_comes_from_outside_and_waits_for_suspended_turns() {
    let system = System::builder().workers(1).build().unwrap();
    let handle = system.spawn(citizen(&Arc::default()));
    let (started, is_started) = mpsc::channel();
    let (until, release) = Promise::pair();
    let suspended = handle.suspend(started, until);
    is_started.recv().unwrap();
    let shutdown = system.shutdown(Duration::from_secs(600));
    assert_eq!(handle.turn().wait(), Err(ActorError::Stopped { actor: handle.identity() }));
    let late = system.spawn(citizen(&Arc::default()));
    assert_eq!(late.watch().wait().unwrap().reason, ExitReason::Shutdown);
    assert!(!shutdown.is_ready());
    release.resolve(());
    assert_eq!(suspended.wait(), Ok(0));
    assert_eq!(shutdown.wait(), Ok(Shutdown::Drained));
}

#[test]
fn a_shutdown_at_its_deadline_cuts_short_what_is_suspended_and_names_what_is_stuck() {
    let system = System::builder().workers(2).build().unwrap();
    let handle = system.spawn(citizen(&Arc::default()));
    let (started, is_started) = mpsc::channel();
    let (until, _release) = Promise::pair();
    let suspended = handle.suspend(started.clone(), until);
    is_started.recv().unwrap();
    let stuck = system.spawn(Spec::new(citizen(&Arc::default())).name("stuck"));
    let (release, until) = mpsc::channel();
    let running = stuck.hold_thread(started, until);
    is_started.recv().unwrap();
    let cut_short = Shutdown::CutShort { stuck: vec![stuck.identity()] };
    assert_eq!(system.shutdown(Duration::from_millis(1)).wait(), Ok(cut_short));
    assert_eq!(suspended.wait(), Err(ActorError::Stopped { actor: handle.identity() }));
    // The thread was left behind; dropping the system does not wait for it.
    drop(system);
    release.send(()).unwrap();
    assert_eq!(running.wait(), Ok(()));
    assert_eq!(stuck.watch().wait().unwrap().reason, ExitReason::Shutdown);
}

#[test]
fn dropping_the_system_ends_every_actor_and_thread() {
    let dropped = Arc::default();
    let system = System::builder().workers(3).build().unwrap();
    let clone = system.clone();
    let handles: Vec<_> = (0..100).map(|_| clone.spawn(citizen(&dropped))).collect();
    let (until, _release) = Promise::pair();
    let (started, is_started) = mpsc::channel();
    let suspended = handles[0].hold(started, until);
    is_started.recv().unwrap();
    drop(system);
    assert!(handles[1].turn().wait().is_ok(), "a clone keeps the system");
    drop(clone);
    assert_eq!(dropped.load(Ordering::SeqCst), 100);
    assert!(suspended.is_ready());
    for handle in handles {
        assert_eq!(handle.turn().wait(), Err(ActorError::Stopped { actor: handle.identity() }));
    }
}

#[test]
fn a_system_dropped_by_one_of_its_own_actors_ends() {
    struct Owner {
        system: Option<System>,
    }
    #[actor]
    impl Owner {
        fn let_go(&mut self) {
            self.system = None;
        }
    }
    let system = System::builder().workers(2).build().unwrap();
    let owner = system.spawn(Owner { system: Some(system.clone()) });
    drop(system);
    assert_eq!(owner.let_go().wait(), Ok(()));
    assert_eq!(owner.watch().wait().unwrap().reason, ExitReason::Shutdown);
}

#[tokio::test]
async fn a_system_made_in_a_tokio_runtime_uses_it() {
    struct Sleeper;
    #[actor]
    impl Sleeper {
        async fn sleep(&mut self) -> tokio::runtime::Id {
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::runtime::Handle::current().id()
        }
    }
    let system = System::builder().workers(1).build().unwrap();
    let own = tokio::runtime::Handle::current().id();
    assert_eq!(system.spawn(Sleeper).sleep().await, Ok(own));
}

#[test]
fn tokio_works_in_handlers_of_a_system_made_on_a_plain_thread() {
    struct Client;
    #[actor]
    impl Client {
        async fn work(cx: Cx<Self>) -> u32 {
            let _ = cx;
            tokio::time::sleep(Duration::from_millis(1)).await;
            tokio::task::spawn_blocking(|| 7).await.unwrap()
        }
    }
    let system = System::builder().workers(1).build().unwrap();
    assert_eq!(system.spawn(Client).work().wait(), Ok(7));
}

#[test]
fn an_actor_is_named_by_its_type_or_as_told() {
    struct Generic<T>(T);
    #[actor]
    impl<T: Clone + Send + 'static> Generic<T> {
        fn value(&self) -> T {
            self.0.clone()
        }
    }
    let system = System::builder().workers(1).build().unwrap();
    let plain = system.spawn(citizen(&Arc::default()));
    assert_eq!(plain.identity().name(), "Citizen");
    assert_eq!(format!("{plain:?}"), format!("CitizenRef(Citizen{})", plain.id()));
    let generic = system.spawn(Generic("x"));
    assert_eq!(generic.identity().name(), "Generic<&str>");
    assert_eq!(generic.value().wait(), Ok("x"));
    assert_eq!(system.spawn(Spec::new(Generic(1)).name("one")).identity().name(), "one");
}
