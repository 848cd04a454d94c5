//! A thread that drives a tokio runtime is not blocked: what would block it panics, as tokio's own blocking calls do.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use enact_actors::{ActorError, Cx, Mailbox, Promise, Spec, System, WhenFull, actor};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{block_in_place, spawn_blocking};

/// Waits for what is there, and gives what it says, or its panic.
fn wait() -> Result<u32, String> {
    catch_unwind(|| Promise::ready(1).wait().unwrap()).map_err(said)
}

fn said(panic: Box<dyn std::any::Any + Send>) -> String {
    *panic.downcast().expect("a panic with arguments")
}

#[track_caller]
fn assert_refused<T: std::fmt::Debug>(what: &str, outcome: Result<T, String>) {
    let panic = outcome.expect_err("it would block a thread that drives a runtime");
    assert!(panic.starts_with(&format!("{what} would block a thread that drives a tokio runtime")), "{panic}");
    assert!(panic.contains("await the promise") && panic.contains("spawn_blocking"), "{panic}");
}

fn runtimes() -> [Runtime; 2] {
    [Builder::new_current_thread(), Builder::new_multi_thread()].map(|mut builder| builder.build().unwrap())
}

/// Has tasks of the system's runtime do what they should not.
#[derive(Default)]
struct Spawning;

#[actor]
impl Spawning {
    async fn wait_in_a_task(&mut self) -> Result<u32, String> {
        tokio::spawn(async { wait() }).await.unwrap()
    }
    async fn wait_in_a_blocking_task(&mut self) -> Result<u32, String> {
        spawn_blocking(wait).await.unwrap()
    }
    async fn call_in_a_task(cx: Cx<Self>, busy: BusyRef) -> Result<Result<(), ActorError>, String> {
        tokio::spawn(async move { catch_unwind(AssertUnwindSafe(|| busy.call(&cx).nothing())).map_err(said) })
            .await
            .unwrap()
    }
    async fn send_in_a_task(&mut self, busy: BusyRef) -> Result<(), String> {
        tokio::spawn(async move { catch_unwind(AssertUnwindSafe(|| drop(busy.nothing()))).map_err(said) })
            .await
            .unwrap()
    }
}

/// Is held until it is let go.
struct Busy;

#[actor]
impl Busy {
    async fn hold(&mut self, until: Promise<()>) {
        drop(until.await);
    }
    fn nothing(&self) {}
}

/// A system with a runtime of its own, one that was made inside of a runtime, and one that was given one.
fn systems(runtimes: &[Runtime; 2]) -> [System; 3] {
    let build = || System::builder().workers(1);
    let own = build().build().unwrap();
    let inside = runtimes[1].block_on(async { build().build().unwrap() });
    [own, inside, build().tokio(runtimes[1].handle().clone()).build().unwrap()]
}

#[test]
fn a_task_of_a_systems_runtime_does_not_wait() {
    let runtimes = runtimes();
    for system in systems(&runtimes) {
        let spawning = system.spawn(Spawning);
        assert_refused("`wait`", spawning.wait_in_a_task().wait().unwrap());
        assert_eq!(spawning.wait_in_a_blocking_task().wait(), Ok(Ok(1)));
    }
}

#[test]
fn a_task_of_a_systems_runtime_neither_calls_nor_waits_for_room() {
    let runtimes = runtimes();
    for system in systems(&runtimes) {
        let (until, release) = Promise::pair();
        let busy = system.spawn(Spec::new(Busy).mailbox(Mailbox::bounded(1, WhenFull::Wait)));
        let held = busy.hold(until);
        // This thread may wait until the turn is taken up; then the mailbox is full.
        busy.tell().nothing();
        let spawning = system.spawn(Spawning);
        assert_refused("a send to a full mailbox", spawning.send_in_a_task(busy.clone()).wait().unwrap());
        let (until, release_other) = Promise::pair();
        let other = system.spawn(Busy);
        let held_other = other.hold(until);
        assert_refused("`call`", spawning.call_in_a_task(other).wait().unwrap());
        release.resolve(());
        release_other.resolve(());
        assert_eq!([held.wait(), held_other.wait()], [Ok(()), Ok(())]);
    }
}

#[test]
fn a_future_that_a_thread_drives_does_not_wait() {
    for runtime in runtimes() {
        assert_refused("`wait`", runtime.block_on(async { wait() }));
        assert_eq!(runtime.block_on(async { spawn_blocking(wait).await.unwrap() }), Ok(1));
    }
}

#[test]
fn a_thread_that_drives_no_runtime_waits() {
    let [current_thread, multi_thread] = runtimes();
    assert_eq!(wait(), Ok(1));
    let _inside = current_thread.enter();
    assert_eq!(wait(), Ok(1));
    assert_eq!(multi_thread.block_on(async { block_in_place(wait) }), Ok(1));
    assert_eq!(multi_thread.block_on(async { tokio::spawn(async { block_in_place(wait) }).await.unwrap() }), Ok(1));
    assert_eq!(thread::spawn(wait).join().unwrap(), Ok(1));
}
