//! The mailbox and the one thread that runs its actor.
use std::future::poll_fn;
use std::task::{Poll, Waker};

use enact_actors::{ActorError, Cx, ExitReason, Mailbox, Promise, Resolver, Spec, System, WhenFull, actor};
use enact_stm::atomically;
use enact_sync::atomic::{AtomicBool, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, thread};

use crate::model;

/// Keeps what it was told, in order.
#[derive(Default)]
struct Log {
    lines: Vec<u32>,
}

#[actor]
impl Log {
    fn line(&mut self, line: u32) -> usize {
        self.lines.push(line);
        self.lines.len()
    }
    fn lines(&self) -> Vec<u32> {
        self.lines.clone()
    }
    /// Holds the actor until the promise is kept.
    async fn line_when(&mut self, line: Promise<u32>, begun: Resolver<()>) -> usize {
        begun.resolve(());
        self.lines.extend(line.await);
        self.lines.len()
    }
    /// As `line_when`, and lets the actor take other messages meanwhile.
    async fn line_beside_others(cx: Cx<Self>, line: Promise<u32>, begun: Resolver<()>) -> usize {
        begun.resolve(());
        let line = line.await;
        cx.with(|log| {
            log.lines.extend(line);
            log.lines.len()
        })
    }
}

fn log(system: &System) -> LogRef {
    system.spawn(Log::default())
}

/// Sends lines until one is refused; how many were not.
fn send(log: &LogRef, lines: impl IntoIterator<Item = u32>) -> usize {
    lines.into_iter().take_while(|&line| log.tell().line(line).accepted().is_ok()).count()
}

//   runner                          sender
//   takes line 1, answers
//                                   hears the answer, sends line 2
//   finds no more, goes to rest     <- the push must find the actor idle, or the rest must find the line
#[test]
fn a_push_beside_a_rest_is_not_lost() {
    for workers in 1..=2 {
        model(workers, |system| {
            let log = log(system);
            // The answer comes before the rest, which the next push meets.
            assert_eq!(log.line(1).wait(), Ok(1));
            assert_eq!(log.line(2).wait(), Ok(2));
        });
    }
}

//   here                                             sender
//   sends 11                                         sends 1
//   sends 12                                         sends 2
//   asks for the lines <- 11 before 12, 1 before 2
#[test]
fn messages_of_two_senders_are_all_taken_up_each_senders_in_order() {
    model(2, |system| {
        let log = log(system);
        let other = log.clone();
        let sender = thread::spawn(move || send(&other, [1, 2]));
        assert_eq!(send(&log, [11, 12]), 2);
        assert_eq!(sender.join().expect("it does not panic"), 2);
        let lines = log.lines().wait().expect("the actor lives");
        let of = |sender: u32| lines.iter().copied().filter(|line| line / 10 == sender).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![1, 2], vec![11, 12]));
    });
}

//   this thread                     sender
//                                   sends 1: accepted
//   stops the actor
//                                   sends 2: refused; nothing after it is accepted
//   hears the end                   hears 1's answer
#[test]
fn what_is_accepted_beside_a_stop_is_taken_up_and_the_rest_refused() {
    model(2, |system| {
        let log = log(system);
        let (other, exit) = (log.clone(), log.watch());
        let sender = thread::spawn(move || [1, 2, 3].map(|line| other.line(line).wait()));
        log.stop();
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
        let answers = sender.join().expect("it does not panic");
        let taken = answers.iter().take_while(|answer| answer.is_ok()).count();
        for (sent, answer) in answers.into_iter().enumerate() {
            match answer {
                Ok(count) => assert_eq!(count, sent + 1),
                Err(error) => {
                    assert!(sent >= taken && matches!(error, ActorError::Stopped { .. }), "{sent}: {error}");
                }
            }
        }
    });
}

//   this thread                     sender                        runner
//                                   sends 1, 2
//                                                                 takes 1
//   kills the actor
//                                   sends 3
//                                                                 ends: 2 and 3 are answered, with an error
#[test]
fn every_message_beside_a_kill_is_answered_and_none_after_one_that_was_refused() {
    model(2, |system| {
        let log = log(system);
        let (other, exit) = (log.clone(), log.watch());
        let sender = thread::spawn(move || [1, 2, 3].map(|line| other.line(line)).map(Promise::wait));
        log.kill();
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
        let answers = sender.join().expect("it does not panic").map(|answer| answer.is_ok());
        assert!(answers.is_sorted_by(|before, after| before >= after), "{answers:?}");
    });
}

//   this thread                     sender                        runner
//   sends 11: the mailbox is full
//                                   sends 1: waits for room
//                                                                 takes 11: makes room, wakes a sender
//   sends 12                        <- either of the two gets the room, and the other one is woken next
#[test]
fn a_sender_that_waits_for_room_is_woken() {
    model(1, |system| {
        let log = system.spawn(Spec::new(Log::default()).mailbox(Mailbox::bounded(1, WhenFull::Wait)));
        let other = log.clone();
        let sender = thread::spawn(move || send(&other, [1, 2]));
        assert_eq!(send(&log, [11, 12]), 2);
        assert_eq!(sender.join().expect("it does not panic"), 2);
        assert_eq!(log.lines().wait().expect("the actor lives").len(), 4);
    });
}

//   here                                      sender
//                                             sends 1: the mailbox is full
//                                             sends 2: waits for room
//   kills the actor <- must wake the sender
#[test]
fn a_sender_that_waits_for_room_learns_of_the_end() {
    model(1, |system| {
        let log = system.spawn(Spec::new(Log::default()).mailbox(Mailbox::bounded(1, WhenFull::Wait)));
        let (promise, never) = Promise::<u32>::pair();
        let (begun, begins) = Promise::pair();
        let held = log.line_when(promise, begins);
        begun.wait().expect("the turn begins");
        let other = log.clone();
        let sender = thread::spawn(move || send(&other, [1, 2]));
        log.kill();
        assert!(held.wait().is_err());
        assert!(sender.join().expect("it does not panic") < 2);
        drop(never);
    });
}

//   here               sender               runner
//                      asks
//                                           answers, goes to rest
//   drops its handle
//                      drops the last one   <- the rest or the drop ends the actor
#[test]
fn the_last_handle_is_dropped_beside_a_rest_and_the_actor_ends() {
    model(2, |system| {
        let log = log(system);
        let exit = log.watch();
        let other = log.clone();
        let sender = thread::spawn(move || other.line(1).wait());
        drop(log);
        assert_eq!(sender.join().expect("it does not panic"), Ok(1));
        assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Released);
    });
}

//   here                          runner
//                                 polls the promise: pending
//   resolves it, wakes the turn
//                                 suspends <- the wake-up must not be lost
#[test]
fn a_held_turn_is_woken_while_it_falls_asleep() {
    model(2, |system| {
        let log = log(system);
        let (promise, resolver) = Promise::pair();
        let (begun, begins) = Promise::pair();
        let held = log.line_when(promise, begins);
        log.tell().line(2);
        begun.wait().expect("the turn begins");
        resolver.resolve(1);
        assert_eq!(held.wait(), Ok(1));
        assert_eq!(log.lines().wait(), Ok(vec![1, 2]), "the held turn comes first");
    });
}

//   here                                   runner
//                                          suspends the turn, takes up line 2
//   resolves the promise, wakes the turn
//                                          goes to rest <- must resume the turn first
#[test]
fn a_cooperative_turn_is_woken_while_others_run() {
    model(2, |system| {
        let log = log(system);
        let (promise, resolver) = Promise::pair();
        let (begun, begins) = Promise::pair();
        let beside = log.line_beside_others(promise, begins);
        log.tell().line(2);
        begun.wait().expect("the turn begins");
        resolver.resolve(1);
        beside.wait().expect("it is woken");
        let mut lines = log.lines().wait().expect("the actor lives");
        lines.sort_unstable();
        assert_eq!(lines, [1, 2]);
    });
}

/// Leaves its waker with others and ends.
#[derive(Clone)]
struct Forgetful;

#[actor(speculative)]
impl Forgetful {
    async fn leave_a_waker(&mut self, wakers: Arc<Mutex<Vec<Waker>>>) {
        poll_fn(|cx| {
            wakers.lock().push(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
    }
}

//   transaction                                runner
//   sends tentatively
//                                              runs the turn, waits for the decision
//   calls its old waker
//   commits <- must wake it for the decision
#[test]
fn a_wake_up_for_a_tentative_turn_that_has_ended_does_not_stand_for_the_one_when_it_is_decided() {
    model(2, |system| {
        let forgetful = system.spawn(Forgetful);
        let wakers = Arc::<Mutex<Vec<Waker>>>::default();
        let left = atomically(|tx| {
            let left = forgetful.within(tx).leave_a_waker(Arc::clone(&wakers));
            for _ in 0..20 {
                std::mem::take(&mut *wakers.lock()).into_iter().for_each(Waker::wake);
                thread::yield_now();
            }
            Ok(left)
        })
        .run();
        assert_eq!(left.promise().wait(), Ok(()));
    });
}

/// Takes up what is behind a turn in one go with it.
#[derive(Clone)]
struct Batch;

#[actor(speculative)]
impl Batch {
    fn wait_for(&mut self, opened: Arc<AtomicBool>) {
        wait_for(&opened);
    }
    fn begin(&mut self, begun: Arc<AtomicBool>) {
        begun.store(true, Ordering::Release);
    }
}

fn wait_for(flag: &AtomicBool) {
    while !flag.load(Ordering::Acquire) {
        thread::yield_now();
    }
}

//   transaction                            runner
//   sends tentatively
//                                          begins it as the last turn of its batch
//   commits <- must bring the actor back
#[test]
fn a_tentative_turn_that_is_the_last_of_its_batch_is_decided() {
    // What an actor takes up before it goes to the back of the queue.
    const BATCH: usize = if cfg!(enact_shuttle) { 2 } else { 128 };
    model(2, |system| {
        let batch = system.spawn(Batch);
        let (opened, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        batch.tell().wait_for(Arc::clone(&opened));
        for _ in 2..BATCH {
            batch.tell().begin(Arc::new(AtomicBool::new(false)));
        }
        let began = atomically(|tx| {
            let began = batch.within(tx).begin(Arc::clone(&begun));
            opened.store(true, Ordering::Release);
            wait_for(&begun);
            Ok(began)
        })
        .run();
        assert_eq!(began.promise().wait(), Ok(()));
    });
}
