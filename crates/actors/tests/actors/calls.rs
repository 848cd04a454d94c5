//! Synchronous calls.

use std::hint::black_box;
use std::sync::mpsc;
use std::thread::{self, ThreadId};

use enact_actors::{ActorError, Cx, Forward, Promise, System, actor};

use crate::process::in_a_process_of_its_own;

/// A frame of a turn that has much on its stack.
const LARGE: usize = 100 << 10;

/// Calls others.
struct Caller;

#[actor]
impl Caller {
    fn thread_and_callees(&self, cx: &Cx<Self>, callee: CalleeRef) -> (ThreadId, Result<ThreadId, ActorError>) {
        (thread::current().id(), callee.call(cx).thread())
    }

    fn after_tells(&self, cx: &Cx<Self>, callee: CalleeRef) -> Result<u64, ActorError> {
        for _ in 0..10 {
            callee.tell().add(1);
        }
        callee.call(cx).add(0)
    }

    fn each_kind(&self, cx: &Cx<Self>, callee: CalleeRef, other: CalleeRef) -> Vec<Result<u64, ActorError>> {
        vec![
            callee.call(cx).add(1),
            callee.call(cx).held(),
            callee.call(cx).cooperative(),
            callee.call(cx).forwarding(other),
            callee.call(cx).fail(),
        ]
    }

    async fn asynchronously(&mut self, cx: &Cx<Self>, callee: CalleeRef) -> Result<u64, ActorError> {
        cx.yield_now().await;
        callee.call(cx).held()
    }

    async fn from_cooperative(cx: Cx<Self>, callee: CalleeRef) -> Result<u64, ActorError> {
        cx.yield_now().await;
        callee.call(&cx).cooperative()
    }

    fn nested(&self, cx: &Cx<Self>, depth: usize) -> Result<usize, ActorError> {
        if depth == 0 { Ok(0) } else { Ok(cx.spawn(Caller).call(cx).nested(depth - 1)?? + 1) }
    }

    /// As `nested`, with so much on the stack.
    fn nested_with_large_frames(&self, cx: &Cx<Self>, depth: usize) -> Result<usize, ActorError> {
        let large = [1_u8; LARGE];
        let inner = if depth == 0 { 0 } else { cx.spawn(Caller).call(cx).nested_with_large_frames(depth - 1)?? };
        Ok(inner + usize::from(black_box(&large)[depth]))
    }

    /// The same in turns that wait for an answer, which another turn gives at once, inside of them.
    async fn nested_with_large_answers(&mut self, cx: &Cx<Self>, depth: usize) -> Result<usize, ActorError> {
        let answer = cx.spawn(Callee::default()).large_frame().await?;
        let inner = if depth == 0 { 0 } else { cx.spawn(Caller).call(cx).nested_with_large_answers(depth - 1)?? };
        Ok(inner + answer)
    }

    fn blocking(&self, cx: &Cx<Self>, callee: CalleeRef, started: mpsc::Sender<()>, until: Promise<()>) -> u64 {
        callee.call(cx).wait_until(started, until).unwrap_or(0)
    }
}

/// Is called.
#[derive(Default)]
struct Callee {
    n: u64,
}

#[actor]
impl Callee {
    fn thread(&self) -> ThreadId {
        thread::current().id()
    }

    fn large_frame(&self) -> usize {
        let large = [1_u8; 10 * LARGE];
        usize::from(black_box(&large)[LARGE])
    }

    fn add(&mut self, k: u64) -> u64 {
        self.n += k;
        self.n
    }

    async fn held(&mut self) -> u64 {
        tokio::task::yield_now().await;
        self.add(10)
    }

    async fn cooperative(cx: Cx<Self>) -> u64 {
        cx.yield_now().await;
        cx.with(|callee| callee.add(100))
    }

    fn forwarding(&mut self, cx: &Cx<Self>, other: CalleeRef) -> Forward<u64> {
        other.forward(cx).add(7)
    }

    fn fail(&mut self) -> u64 {
        panic!("no answer")
    }

    fn hold_thread(&self, started: mpsc::Sender<()>, until: mpsc::Receiver<()>) {
        started.send(()).unwrap();
        until.recv().unwrap();
    }

    async fn wait_until(&mut self, started: mpsc::Sender<()>, until: Promise<()>) -> u64 {
        started.send(()).unwrap();
        until.await.map_or(0, |()| 1)
    }
}

#[test]
fn a_call_of_an_idle_actor_runs_on_the_callers_thread() {
    let system = System::builder().workers(4).build().unwrap();
    let (caller, callee) = (system.spawn(Caller), system.spawn(Callee::default()));
    for _ in 0..100 {
        let (own, callees) = caller.thread_and_callees(callee.clone()).wait().unwrap();
        assert_eq!(callees, Ok(own));
    }
}

#[test]
fn a_call_of_a_busy_actor_is_sent_and_waited_for() {
    let system = System::builder().workers(2).build().unwrap();
    let (caller, callee) = (system.spawn(Caller), system.spawn(Callee::default()));
    let (started, is_started) = mpsc::channel();
    let (release, until) = mpsc::channel();
    callee.tell().hold_thread(started, until);
    is_started.recv().unwrap();
    let answer = caller.thread_and_callees(callee);
    release.send(()).unwrap();
    assert!(answer.wait().unwrap().1.is_ok());
}

#[test]
fn a_call_comes_after_what_the_caller_has_told_before() {
    let system = System::builder().workers(2).build().unwrap();
    let caller = system.spawn(Caller);
    for _ in 0..200 {
        assert_eq!(caller.after_tells(system.spawn(Callee::default())).wait(), Ok(Ok(10)));
    }
}

#[test]
fn every_kind_of_handler_can_be_called_from_every_kind() {
    let system = System::builder().workers(1).build().unwrap();
    let caller = system.spawn(Caller);
    let callee = system.spawn(Callee::default());
    let answers = caller.each_kind(callee.clone(), system.spawn(Callee::default())).wait().unwrap();
    assert_eq!(answers[..4], [Ok(1), Ok(11), Ok(111), Ok(7)]);
    assert_eq!(answers[4], Err(ActorError::Panicked { actor: callee.identity(), text: "no answer".into() }));
    let callee = system.spawn(Callee::default());
    assert_eq!(caller.asynchronously(callee.clone()).wait(), Ok(Ok(10)));
    assert_eq!(caller.from_cooperative(callee).wait(), Ok(Ok(110)));
}

#[test]
fn calls_nest_deeply() {
    let system = System::builder().workers(1).build().unwrap();
    assert_eq!(system.spawn(Caller).nested(300).wait(), Ok(Ok(300)));
}

/// A stack that overflows ends the process.
#[test]
fn calls_nest_beyond_the_stack() {
    in_a_process_of_its_own("calls::calls_nest_beyond_the_stack", || {
        let system = System::builder().workers(1).build().unwrap();
        assert_eq!(system.spawn(Caller).nested_with_large_frames(100).wait(), Ok(Ok(101)));
        assert_eq!(system.spawn(Caller).nested_with_large_answers(1_000).wait(), Ok(Ok(1_001)));
    });
}

#[test]
fn any_number_of_blocked_calls_leaves_the_workers_free() {
    let system = System::builder().workers(1).build().unwrap();
    let (started, is_started) = mpsc::channel();
    let (until, release) = Promise::pair();
    let blocked: Vec<_> = (0..30)
        .map(|_| system.spawn(Caller).blocking(system.spawn(Callee::default()), started.clone(), until.clone()))
        .collect();
    (0..30).for_each(|_| is_started.recv().unwrap());
    assert_eq!(system.spawn(Callee::default()).add(1).wait(), Ok(1));
    release.resolve(());
    drop(until);
    assert!(blocked.into_iter().all(|answer| answer.wait() == Ok(1)));
    // The threads that stood in have gone back to waiting, and the system goes on.
    assert_eq!(system.spawn(Callee::default()).add(1).wait(), Ok(1));
}
