//! Where transactions and actors could go wrong together: turns decided at an awkward moment, waits for each other, traces
//! of what has never been.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Forward, Mailbox, Promise, Shutdown, Spec, System, WhenFull, actor};
use enact_stm::{TCell, atomically, snapshot, synchronized};

use crate::open_transaction::Open;

/// Long enough for anything that is to happen at all.
const LONG: Duration = Duration::from_secs(60);

type Answer<'a> = Pin<Box<dyn Future<Output = u32> + Send + 'a>>;
type Plain = Box<dyn FnOnce(&mut Subject, &Cx<Subject>) + Send>;
type Held = Box<dyn for<'a> FnOnce(&'a mut Subject, &'a Cx<Subject>) -> Answer<'a> + Send>;
type Cooperative = Box<dyn FnOnce(Cx<Subject>) -> Answer<'static> + Send>;

/// Works ahead, at whatever it is told.
#[derive(Clone)]
struct Subject {
    value: u32,
}

#[actor(speculative)]
impl Subject {
    fn plain(&mut self, cx: &Cx<Self>, job: Plain) {
        job(self, cx);
    }
    async fn held(&mut self, cx: &Cx<Self>, job: Held) -> u32 {
        job(self, cx).await
    }
    async fn cooperative(cx: Cx<Self>, job: Cooperative) -> u32 {
        job(cx).await
    }
    fn forwarding(&mut self, cx: &Cx<Self>, promise: Promise<u32>) -> Forward<u32> {
        cx.forward(promise)
    }
    fn set(&mut self, value: u32) {
        self.value = value;
    }
    fn value(&self) -> u32 {
        self.value
    }
}

/// Waits for the decision before it takes anything up.
#[derive(Default)]
struct Log {
    lines: Vec<&'static str>,
}

#[actor]
impl Log {
    fn line(&mut self, line: &'static str) {
        self.lines.push(line);
    }
    fn lines(&self) -> Vec<&'static str> {
        self.lines.clone()
    }
    async fn ask(&mut self, subject: SubjectRef, go: Promise<()>, begins: Sender<()>) -> Result<u32, ActorError> {
        begins.send(()).expect("the test listens");
        go.await.expect("it is kept");
        subject.value().await
    }
}

/// Leaves a line when it is dropped.
struct Guard(LogRef);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.tell().line("dropped");
    }
}

impl Open {
    /// Sends `job` to `subject` in a transaction that stays open.
    fn with_plain(subject: &SubjectRef, job: impl Fn(&mut Subject, &Cx<Subject>) + Clone + Send + 'static) -> Self {
        let subject = subject.clone();
        Self::begin(move |tx| {
            assert!(subject.tell_within(tx).plain(Box::new(job.clone())).accepted().is_ok());
        })
    }
}

fn system() -> System {
    System::builder().workers(2).build().expect("threads")
}

fn subject(system: &System) -> SubjectRef {
    system.spawn(Subject { value: 0 })
}

/// The answer, or a failure of the test instead of a wait for ever.
fn answer<T: Send + 'static>(promise: Promise<T>) -> Result<T, ActorError> {
    promise.timeout(LONG).wait()
}

fn next<T>(notes: &Receiver<T>) -> T {
    notes.recv_timeout(LONG).expect("something happens")
}

#[test]
fn a_tentative_turn_that_uses_a_run_up_is_still_decided() {
    // However many turns a run has, one of these is its last.
    for before in 120..136 {
        let system = System::builder().workers(1).build().expect("threads");
        let subject = subject(&system);
        let (starts, started) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let waits: Plain = Box::new(move |_, _| {
            starts.send(()).expect("the test listens");
            released.recv().expect("the test goes on");
        });
        subject.tell().plain(waits);
        next(&started);
        for _ in 0..before {
            subject.tell().set(1);
        }
        let open = Open::with_plain(&subject, |subject, _| subject.value = 7);
        release.send(()).expect("the turn waits");
        // Another actor of the only worker is taken up after the run.
        let rested = system.spawn(Log::default());
        assert_eq!(answer(rested.lines()), Ok(vec![]));
        open.decide(true);
        assert_eq!(answer(subject.value()), Ok(7), "after {before} turns");
    }
}

#[test]
fn what_a_turn_has_promised_is_done_before_it_blocks_as_a_definitive_one() {
    let system = system();
    let subject = subject(&system);
    let (notes, noted) = mpsc::channel();
    let open = Open::with_plain(&subject, move |_, cx| {
        let child = cx.spawn(Subject { value: 4 });
        notes.send(Ok(0)).expect("the test listens");
        notes.send(child.call(cx).value()).expect("the test listens");
    });
    next(&noted).expect("it has a child");
    open.decide(true);
    assert_eq!(next(&noted), Ok(4));
}

#[test]
fn what_a_turn_has_promised_is_done_before_it_sleeps_in_a_transaction() {
    let system = system();
    let subject = subject(&system);
    let flag = Arc::new(TCell::new(false));
    let (notes, noted) = mpsc::channel();
    let open = Open::with_plain(&subject, move |_, cx| {
        let child = cx.spawn(Subject { value: 0 });
        let set = Arc::clone(&flag);
        child.tell().plain(Box::new(move |_, _| {
            atomically(|tx| tx.write(&*set, true)).run();
        }));
        notes.send("begun").expect("the test listens");
        atomically(|tx| if tx.read(&*flag)? { Ok(()) } else { tx.retry() }).run();
        notes.send("set").expect("the test listens");
    });
    assert_eq!(next(&noted), "begun");
    open.decide(true);
    assert_eq!(next(&noted), "set");
}

#[test]
fn a_tentative_turn_that_waits_for_room_learns_of_its_decision() {
    for commits in [true, false] {
        let system = system();
        let subject = subject(&system);
        let (notes, noted) = mpsc::channel();
        let open = Open::with_plain(&subject, move |_, cx| {
            // It takes nothing up before the decision.
            let child = cx.spawn(Spec::new(Log::default()).mailbox(Mailbox::bounded(1, WhenFull::Wait)));
            child.tell().line("one");
            notes.send("one").expect("the test listens");
            child.tell().line("two");
            notes.send("two").expect("the test listens");
        });
        assert_eq!(next(&noted), "one");
        open.decide(commits);
        assert_eq!(answer(subject.value()), Ok(0));
        assert_eq!(noted.try_recv().ok(), commits.then_some("two"));
    }
}

#[test]
fn nobody_learns_of_a_deadlock_with_a_turn_that_has_never_been() {
    // Only if the log asks last would it be told, which nobody can see from outside.
    for _ in 0..20 {
        let system = system();
        let subject = subject(&system);
        let log = system.spawn(Spec::new(Log::default()).mailbox(Mailbox::bounded(1, WhenFull::Wait)));
        let (begins, begun) = mpsc::channel();
        let (go, resolver) = Promise::pair();
        let answered = log.ask(subject.clone(), go, begins);
        next(&begun);
        assert!(log.tell().line("one").accepted().is_ok());
        let (notes, noted) = mpsc::channel();
        let to = log.clone();
        let open = Open::with_plain(&subject, move |_, _| {
            notes.send(()).expect("the test listens");
            // There is no room before the log has its answer, which comes after this turn.
            to.tell().line("never");
        });
        next(&noted);
        thread::yield_now();
        resolver.resolve(());
        let other = system.spawn(Log::default());
        assert_eq!(answer(other.lines()), Ok(vec![]));
        open.decide(false);
        assert_eq!(answer(answered), Ok(Ok(0)));
        assert_eq!(answer(log.lines()), Ok(vec!["one"]));
    }
}

#[test]
fn destructors_of_a_retracted_turn_leave_no_trace() {
    let system = system();
    let (subject, log) = (subject(&system), system.spawn(Log::default()));
    let (begins, begun) = mpsc::channel();
    let (to, kept) = (subject.clone(), log.clone());
    let open = Open::begin(move |tx| {
        let (begins, guard) = (begins.clone(), Guard(kept.clone()));
        let job: Held = Box::new(move |_, cx| {
            Box::pin(async move {
                let _guard = guard;
                begins.send(()).expect("the test listens");
                cx.definitive().await;
                0
            })
        });
        assert!(to.tell_within(tx).held(job).accepted().is_ok());
    });
    next(&begun);
    open.decide(false);
    assert_eq!(answer(subject.value()), Ok(0));
    assert_eq!(answer(log.lines()), Ok(vec![]));
}

#[test]
fn a_promise_that_a_retracted_turn_has_forwarded_is_retracted() {
    let system = system();
    let subject = subject(&system);
    let (promise, _resolver) = Promise::pair();
    let (gives, given) = mpsc::channel();
    let open = Open::begin(move |tx| {
        gives.send(subject.within(tx).forwarding(promise.clone())).expect("the test listens");
    });
    open.decide(false);
    assert_eq!(answer(next(&given).promise()), Err(ActorError::Retracted));
}

#[test]
fn a_turn_that_stops_its_actor_does_not_go_on_when_it_becomes_definitive() {
    let system = system();
    let subject = subject(&system);
    let exit = subject.watch();
    let (notes, noted) = mpsc::channel();
    let to = subject.clone();
    let open = Open::begin(move |tx| {
        let notes = notes.clone();
        let job: Held = Box::new(move |_, cx| {
            Box::pin(async move {
                cx.stop();
                let mut has_begun = false;
                // It is polled once more when it becomes definitive.
                poll_fn(|_| {
                    if std::mem::replace(&mut has_begun, true) {
                        return Poll::Ready(());
                    }
                    notes.send("stopped").expect("the test listens");
                    Poll::Pending
                })
                .await;
                notes.send("went on").expect("the test listens");
                0
            })
        });
        assert!(to.tell_within(tx).held(job).accepted().is_ok());
    });
    assert_eq!(next(&noted), "stopped");
    open.decide(true);
    assert_eq!(answer(exit).map(|exit| exit.reason), Ok(ExitReason::Stopped));
    assert!(noted.try_recv().is_err());
}

#[test]
fn the_later_of_two_next_states_counts_whichever_belongs_to_a_transaction() {
    let system = system();
    let subject = subject(&system);
    let (begins, begun) = mpsc::channel();
    let open = Open::with_plain(&subject, move |_, cx| {
        cx.become_next(Subject { value: 1 });
        begins.send(()).expect("the test listens");
        atomically(|tx| {
            cx.become_within(tx, Subject { value: 2 });
            Ok(())
        })
        .run();
    });
    next(&begun);
    open.decide(true);
    assert_eq!(answer(subject.value()), Ok(2));
}

#[test]
fn a_new_actor_whose_system_is_gone_at_the_commit_has_ended() {
    let system = Mutex::new(Some(system()));
    let (child, ask) = atomically(|tx| {
        let system = system.lock().expect("no panic").take().expect("one attempt");
        let child = system.spawn_within(tx, Subject { value: 4 });
        let ask = child.within(tx).value();
        assert_eq!(answer_elsewhere(&system), Ok(Shutdown::Drained));
        drop(system);
        Ok((child, ask))
    })
    .run();
    assert_eq!(answer(ask.promise()), Err(ActorError::Stopped { actor: child.identity() }));
    assert_eq!(answer(child.watch()).map(|exit| exit.reason), Ok(ExitReason::Shutdown));
}

/// Shuts down on another thread: this one is in a transaction.
fn answer_elsewhere(system: &System) -> Result<Shutdown, ActorError> {
    thread::scope(|scope| scope.spawn(|| answer(system.shutdown(LONG))).join()).expect("no panic")
}

#[test]
fn an_actor_does_not_wait_for_a_transaction_of_its_own_that_meets_a_closed_gate() {
    let system = system();
    let subject = subject(&system);
    let (closes, closed) = mpsc::channel();
    let (opens, opened) = mpsc::channel::<()>();
    let alone = thread::spawn(move || {
        synchronized(|_| {
            closes.send(()).expect("the test listens");
            opened.recv().expect("the test goes on");
            Ok(())
        });
    });
    next(&closed);
    let (sends, sent) = mpsc::channel();
    let worked = subject.cooperative(Box::new(move |cx| {
        Box::pin(async move {
            let (own, n) = (cx.handle(), TCell::new(0));
            atomically(|tx| {
                own.tell_within(tx).set(3);
                sends.send(()).expect("the test listens");
                tx.update(&n, |n| n + 1)
            })
            .await
        })
    }));
    next(&sent);
    // Behind the message of the transaction, which cannot commit now.
    let value = answer(subject.value());
    opens.send(()).expect("the gate is closed");
    alone.join().expect("no panic");
    assert_eq!(value, Ok(0));
    assert_eq!(answer(worked), Ok(1));
    assert_eq!(answer(subject.value()), Ok(3));
}

#[test]
fn a_suspended_turn_goes_on_before_a_message_of_its_own_open_transaction() {
    let system = system();
    let subject = subject(&system);
    let is_ready = Arc::new(AtomicBool::new(false));
    let (notes, noted) = mpsc::channel();
    let (to, ready) = (subject.clone(), Arc::clone(&is_ready));
    let open = Open::begin(move |tx| {
        let (notes, ready) = (notes.clone(), Arc::clone(&ready));
        let job: Cooperative = Box::new(move |cx| {
            Box::pin(async move {
                let (own, n) = (cx.handle(), TCell::new(0));
                let mut transaction = pin!(atomically(|tx| {
                    own.tell_within(tx).set(3);
                    tx.update(&n, |n| n + 1)
                }));
                let mut has_begun = false;
                // As a combinator does that polls only what has been woken, and may learn of that late.
                poll_fn(|cx| {
                    if !std::mem::replace(&mut has_begun, true) {
                        let polled = transaction.as_mut().poll(cx);
                        notes.send(None).expect("the test listens");
                        return polled;
                    }
                    if ready.load(Ordering::SeqCst) {
                        return transaction.as_mut().poll(cx);
                    }
                    notes.send(Some(cx.waker().clone())).expect("the test listens");
                    Poll::Pending
                })
                .await
            })
        });
        assert!(to.tell_within(tx).cooperative(job).accepted().is_ok());
    });
    assert!(next(&noted).is_none());
    open.decide(true);
    let waker: Waker = next(&noted).expect("it is polled when it is definitive");
    let value = subject.value();
    is_ready.store(true, Ordering::SeqCst);
    waker.wake();
    assert_eq!(answer(value), Ok(3));
}

#[test]
fn a_transaction_that_has_slept_elsewhere_belongs_to_the_tentative_turn_that_awaits_it() {
    let system = system();
    let subject = subject(&system);
    let (flag, n) = (Arc::new(TCell::new(false)), Arc::new(TCell::new(0)));
    let mut transaction: Answer<'static> = Box::pin({
        let (flag, n) = (Arc::clone(&flag), Arc::clone(&n));
        async move { atomically(|tx| if tx.read(&*flag)? { tx.update(&*n, |n| n + 1) } else { tx.retry() }).await }
    });
    assert!(transaction.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    atomically(|tx| tx.write(&*flag, true)).run();
    let (polls, polled) = mpsc::channel();
    let (to, transaction) = (subject.clone(), Arc::new(Mutex::new(Some(transaction))));
    let open = Open::begin(move |tx| {
        let (polls, transaction) = (polls.clone(), Arc::clone(&transaction));
        let job: Held = Box::new(move |_, _| {
            let mut transaction = transaction.lock().expect("no panic").take().expect("one attempt");
            Box::pin(poll_fn(move |cx| {
                let polled = transaction.as_mut().poll(cx);
                // Nobody listens to the later ones.
                let _sent = polls.send(());
                polled
            }))
        });
        assert!(to.tell_within(tx).held(job).accepted().is_ok());
    });
    next(&polled);
    assert_eq!(snapshot(|tx| tx.read(&*n)), 0);
    open.decide(false);
    assert_eq!(answer(subject.value()), Ok(0));
    assert_eq!(snapshot(|tx| tx.read(&*n)), 0);
}

#[test]
fn a_task_elsewhere_cannot_wait_for_a_turn_to_be_definitive_nor_change_its_state() {
    let system = system();
    let subject = subject(&system);
    let (gives, given) = mpsc::channel();
    let answered = subject.cooperative(Box::new(move |cx| {
        gives.send(cx).expect("the test listens");
        Box::pin(async { 0 })
    }));
    assert_eq!(answer(answered), Ok(0));
    let cx = next(&given);
    let definitive = thread::scope(|scope| {
        scope.spawn(|| pin!(cx.definitive()).poll(&mut Context::from_waker(Waker::noop()))).join()
    });
    assert!(definitive.is_err());
    let becomes = || {
        atomically(|tx| {
            cx.become_within(tx, Subject { value: 1 });
            Ok(())
        })
        .run();
    };
    assert!(thread::scope(|scope| scope.spawn(becomes).join()).is_err());
    assert_eq!(answer(subject.value()), Ok(0));
}
