//! The beginning and the end of an actor, and what happens beside a turn that is answered on its own thread.
use std::future::poll_fn;
use std::task::{Poll, Waker};

use enact_actors::{ActorError, Cx, ExitReason, Promise, Resolver, System, actor};
use enact_stm::{Failed, try_atomically};
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, thread};

use crate::scheduler::{Gate, GateRef};
use crate::{explore, model};

/// Gives handles of itself and of others away.
struct Parent;

#[actor]
impl Parent {
    fn bear(&self, cx: &Cx<Self>) -> ParentRef {
        cx.spawn(Self)
    }
    fn own(&self, cx: &Cx<Self>) -> ParentRef {
        cx.handle()
    }
    fn number(&self) -> u32 {
        1
    }
}

//   here                                  worker
//                                         spawns a child
//   drops the system: ends all it knows
//                                         registers the child <- it must end, too
#[test]
fn an_actor_that_is_born_beside_the_end_of_its_system_ends_with_it() {
    explore(|| {
        let system = System::builder().workers(2).build().expect("threads");
        let parent = system.spawn(Parent);
        let born = parent.bear();
        drop(system);
        // A child that the parent has told of knows that it has ended.
        if let Ok(child) = born.wait() {
            assert!(child.has_ended());
        }
        assert!(parent.has_ended());
    });
}

//   here                                    outside
//   shuts the system down
//                                           spawns an actor
//   the shutdown ends <- so has the actor
#[test]
fn an_actor_that_is_born_outside_beside_the_end_of_its_system_ends_with_it() {
    explore(|| {
        let system = Arc::new(System::builder().workers(1).build().expect("threads"));
        let outside = Arc::clone(&system);
        let bearing = thread::spawn(move || outside.spawn(Parent));
        let shutdown = system.shutdown(std::time::Duration::MAX / 4);
        assert!(shutdown.wait().is_ok());
        let child = bearing.join().expect("it does not panic");
        drop(system);
        assert!(child.has_ended());
    });
}

//   here                                          worker
//   spawns within the transaction
//   fails <- the actor ends without a beginning
#[test]
fn an_actor_of_a_transaction_that_fails_has_never_been() {
    for workers in 1..=2 {
        model(workers, |system| {
            let exits = Mutex::new(Vec::new());
            let failed: Result<(), ()> = try_atomically(|tx| {
                let parent = system.spawn_within(tx, Parent);
                exits.lock().push((parent.watch(), system.actors().len()));
                Err(Failed::Error(()))
            })
            .run();
            assert_eq!(failed, Err(()));
            for (exit, alive) in exits.into_inner() {
                assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Retracted);
                assert_eq!(alive, 0, "it begins with the commit");
            }
        });
    }
}

//   here                                  dropper          runner
//                                         drops a handle   makes a handle of itself
//   drops another one
//   reads the answer <- the actor lives
#[test]
fn the_last_handle_goes_while_the_actor_gives_one_of_itself_away() {
    model(2, |system| {
        let parent = system.spawn(Parent);
        let exit = parent.watch();
        let own = parent.own();
        let other = parent.clone();
        let dropping = thread::spawn(move || drop(other));
        drop(parent);
        // Its last handle may be the one in the answer.
        let own = own.wait().expect("it was sent before");
        assert_eq!(own.number().wait(), Ok(1));
        dropping.join().expect("it does not panic");
        assert!(!own.has_ended());
        drop(own);
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Released);
    });
}

//   here                              cloner               asker
//   drops its handle                  clones, drops both   asks, drops its own
//   <- it ends once, after the last
#[test]
fn handles_that_cross_each_other_keep_the_actor_until_the_last_is_gone() {
    model(2, |system| {
        let parent = system.spawn(Parent);
        let exit = parent.watch();
        let [one, other] = [(); 2].map(|()| parent.clone());
        let cloning = thread::spawn(move || drop((one.clone(), one)));
        let asking = thread::spawn(move || other.own().wait().map(|own| own.number().wait()));
        drop(parent);
        cloning.join().expect("it does not panic");
        assert_eq!(asking.join().expect("it does not panic"), Ok(Ok(1)));
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Released);
    });
}

/// Answers, after it has done what it is told to.
struct Answerer;

#[actor]
impl Answerer {
    fn answer_beside(&self, victim: Option<AwaiterRef>) -> u32 {
        victim.iter().for_each(|victim| victim.kill());
        1
    }
    /// Blocks its thread while the gate is shut.
    fn answer_when_open(&self, cx: &Cx<Self>, gate: GateRef) -> u32 {
        gate.call(cx).number().unwrap_or(0)
    }
}

/// Awaits answers in turns that hold it.
struct Awaiter {
    answerer: AnswererRef,
    went_on: Arc<AtomicBool>,
}

#[actor]
impl Awaiter {
    async fn ask(&mut self, victim: Option<AwaiterRef>) -> u32 {
        let answer = self.answerer.answer_beside(victim).await;
        self.went_on.store(true, Ordering::Release);
        answer.unwrap_or(0)
    }
    async fn ask_when_open(&mut self, gate: GateRef) -> u32 {
        self.answerer.answer_when_open(gate).await.unwrap_or(0)
    }
}

fn awaiter(system: &System) -> (AwaiterRef, Arc<AtomicBool>) {
    let went_on = Arc::new(AtomicBool::new(false));
    (system.spawn(Awaiter { answerer: system.spawn(Answerer), went_on: Arc::clone(&went_on) }), went_on)
}

//   turn                         answerer
//   awaits an answer, is held
//                                kills the turn's actor, answers
//   <- is dropped, not resumed
#[test]
fn a_held_turn_that_its_answerer_kills_does_not_go_on() {
    // Of two workers, the other may have answered before the turn looks for the first time.
    model(1, |system| {
        let (awaiter, went_on) = awaiter(system);
        let answer = awaiter.ask(Some(awaiter.clone()));
        assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
        assert!(!went_on.load(Ordering::Acquire));
    });
}

//   here              turn                        answerer
//                     awaits an answer
//   kills its actor                               answers
//                     <- one of the two ends it
#[test]
fn a_held_turn_that_is_killed_from_outside_while_it_is_answered_ends_once() {
    model(2, |system| {
        let (awaiter, went_on) = awaiter(system);
        let exit = awaiter.watch();
        let answer = awaiter.ask(None);
        awaiter.kill();
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
        match answer.wait() {
            Ok(answer) => assert!(answer == 1 && went_on.load(Ordering::Acquire)),
            Err(error) => assert!(matches!(error, ActorError::Stopped { .. }), "{error}"),
        }
    });
}

//   here             worker 1                               stand-in
//                    answers the turn, blocks on the gate
//   opens the gate                                          runs the gate
//                    goes on <- holds nobody
#[test]
fn a_held_turn_is_answered_by_one_that_blocks_its_thread() {
    for workers in 1..=2 {
        model(workers, |system| {
            let (awaiter, _) = awaiter(system);
            let gate = system.spawn(Gate);
            let (opened, opens) = Promise::pair();
            let (begun, begins) = Promise::pair();
            let passed = gate.pass(opened, begins);
            begun.wait().expect("the turn begins");
            let answer = awaiter.ask_when_open(gate);
            opens.resolve(10);
            assert_eq!((passed.wait(), answer.wait()), (Ok(10), Ok(1)));
            // The worker is whole again, and nobody is left held.
            assert_eq!(awaiter.ask(None).wait(), Ok(1));
        });
    }
}

/// Leaves its wakers with others.
struct Forgetful;

#[actor]
impl Forgetful {
    async fn leave_a_waker(_cx: Cx<Self>, to: Arc<Mutex<Option<Waker>>>) {
        poll_fn(|cx| {
            to.lock().replace(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
    }
    async fn count_polls(_cx: Cx<Self>, begun: Resolver<()>, opened: Promise<()>) -> u32 {
        let (mut polls, mut opened) = (0, std::pin::pin!(opened));
        begun.resolve(());
        poll_fn(|cx| {
            polls += 1;
            opened.as_mut().poll(cx).map(|_| polls)
        })
        .await
    }
}

//   here                                      runner
//                                             turn 1 leaves its waker, ends
//                                             turn 2 suspends
//   calls the old waker <- turn 2 sleeps on
#[test]
fn a_waker_that_is_kept_by_others_wakes_no_later_turn() {
    model(2, |system| {
        let forgetful = system.spawn(Forgetful);
        let kept = Arc::new(Mutex::new(None));
        forgetful.leave_a_waker(Arc::clone(&kept)).wait().expect("it ends");
        let (begun, begins) = Promise::pair();
        let (opened, opens) = Promise::pair();
        let polls = forgetful.count_polls(begins, opened);
        begun.wait().expect("the turn begins");
        let waking = thread::spawn(move || kept.lock().take().into_iter().for_each(Waker::wake));
        waking.join().expect("it does not panic");
        opens.resolve(());
        assert!(polls.wait().expect("it ends") <= 2, "polled by a wake-up that was not its own");
    });
}
