//! Workers: what each runs, when it sleeps, and what stands in for one that blocks.
use std::time::Duration;

use enact_actors::{ActorError, Cx, Promise, Resolver, Shutdown, System, actor};
use enact_stm::atomically;
use enact_sync::{Mutex, thread};

use crate::{explore, model};

/// Answers when it is told to, holding itself until then.
pub(crate) struct Gate;

#[actor]
impl Gate {
    pub(crate) async fn pass(&mut self, opened: Promise<u32>, begun: Resolver<()>) -> u32 {
        begun.resolve(());
        opened.await.unwrap_or(0)
    }
    pub(crate) fn number(&self) -> u32 {
        1
    }
}

/// Calls the gate, which blocks its thread while the gate is held.
struct Caller {
    gate: GateRef,
}

#[actor]
impl Caller {
    fn number(&mut self, cx: &Cx<Self>) -> u32 {
        self.gate.call(cx).number().unwrap_or(0) + 1
    }
}

struct Opener;

#[actor]
impl Opener {
    fn open(&mut self, opens: Resolver<u32>) {
        opens.resolve(10);
    }
}

//   worker                        stand-in
//   caller 1 blocks on the gate
//                                 caller 2 blocks on the gate
//                                 <- another one runs the opener
#[test]
fn a_worker_that_blocks_hands_its_actors_over() {
    model(1, |system| {
        let gate = system.spawn(Gate);
        let callers = [(); 2].map(|()| system.spawn(Caller { gate: gate.clone() }));
        let opener = system.spawn(Opener);
        let (opened, opens) = Promise::pair();
        let (begun, begins) = Promise::pair();
        let passed = gate.pass(opened, begins);
        begun.wait().expect("the turn begins");
        let numbers = callers.each_ref().map(CallerRef::number);
        // Runs only on a thread that stands in: both callers may have blocked theirs.
        opener.tell().open(opens);
        assert_eq!(passed.wait(), Ok(10));
        assert_eq!(numbers.map(Promise::wait), [Ok(2), Ok(2)]);
        // The worker is whole again.
        assert_eq!(callers[0].number().wait(), Ok(2));
    });
}

#[derive(Default)]
struct Peer {
    other: Option<PeerRef>,
}

#[actor]
impl Peer {
    fn meet(&mut self, other: PeerRef) {
        self.other = Some(other);
    }
    fn ask_other(&mut self, cx: &Cx<Self>) -> Result<u32, ActorError> {
        self.other.as_ref().expect("they have met").call(cx).number()
    }
    fn number(&self) -> u32 {
        1
    }
}

//   peer 1            peer 2
//   calls 2, blocks   calls 1, blocks     <- one is told, the other answered
#[test]
fn of_two_calls_that_wait_for_each_other_one_fails_and_the_other_goes_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let peers = [(); 2].map(|()| system.spawn(Peer::default()));
            peers[0].tell().meet(peers[1].clone());
            peers[1].tell().meet(peers[0].clone());
            let answers = peers.each_ref().map(PeerRef::ask_other).map(|answer| answer.wait().expect("it ends"));
            let dead = answers.iter().filter(|answer| matches!(answer, Err(ActorError::Deadlock { .. }))).count();
            assert!(dead <= 1, "{answers:?}");
            assert_eq!(answers.iter().filter(|answer| **answer == Ok(1)).count(), 2 - dead, "{answers:?}");
            peers[0].kill();
            peers[1].kill();
        });
    }
}

/// Opens the gate, and calls it.
#[derive(Clone)]
struct Visitor {
    gate: GateRef,
}

#[actor(speculative)]
impl Visitor {
    fn visit(&mut self, cx: &Cx<Self>, opens: Resolver<u32>) -> u32 {
        opens.resolve(10);
        self.gate.call(cx).number().unwrap_or(0)
    }
}

//   transaction   visitor
//                 opens the gate: deferred to the commit
//                 calls the gate <- waits until the effect is done
//   commits
#[test]
fn a_call_in_a_tentative_turn_comes_after_what_the_turn_has_done_before() {
    model(2, |system| {
        let gate = system.spawn(Gate);
        let visitor = system.spawn(Visitor { gate: gate.clone() });
        let (opened, opens) = Promise::pair();
        let (begun, begins) = Promise::pair();
        let passed = gate.pass(opened, begins);
        begun.wait().expect("the turn begins");
        let opens = Mutex::new(Some(opens));
        let visit = atomically(|tx| {
            let opens = opens.lock().take().expect("nothing is in the way of this transaction");
            let visit = visitor.within(tx).visit(opens);
            (0..20).for_each(|_| thread::yield_now());
            Ok(visit)
        })
        .run();
        assert_eq!(visit.promise().wait(), Ok(1), "it would wait for ever if the gate were not open");
        assert_eq!(passed.wait(), Ok(10));
    });
}

/// Passes a number on until it is zero.
struct Relay {
    next: Option<RelayRef>,
}

#[actor]
impl Relay {
    fn pass(&mut self, n: u32, done: Resolver<u32>) {
        match &self.next {
            Some(next) if n > 0 => drop(next.tell().pass(n - 1, done)),
            _ => done.resolve(n),
        }
    }
}

//   here                                       relays
//                                              takes up 2
//   looks: does anything run?
//                                              sends 1 on
//   <- the shutdown sees 2, or 1, or the end
#[test]
fn a_shutdown_waits_for_messages_that_beget_messages() {
    model(2, |system| {
        let last = system.spawn(Relay { next: None });
        let first = system.spawn(Relay { next: Some(last.clone()) });
        let (done, resolver) = Promise::pair();
        first.tell().pass(2, resolver);
        assert_eq!(system.shutdown(Duration::MAX / 4).wait(), Ok(Shutdown::Drained));
        assert!(done.is_ready() && first.has_ended() && last.has_ended());
        assert_eq!(done.wait(), Ok(1));
    });
}

//   here               sender                           worker
//                      sends
//   drops the system                                    takes the message up
//                      <- hears an answer or an error
#[test]
fn a_system_that_is_dropped_leaves_no_promise_open() {
    explore(|| {
        let system = System::builder().workers(2).build().expect("threads");
        let relay = system.spawn(Relay { next: None });
        let (done, resolver) = Promise::pair();
        let sender = thread::spawn(move || relay.pass(1, resolver).wait());
        drop(system);
        let answer = sender.join().expect("it does not panic");
        // The answer of the turn and what the turn did, or neither.
        match answer {
            Ok(()) => assert_eq!(done.wait(), Ok(1)),
            Err(error) => assert!(matches!(error, ActorError::Stopped { .. }) && done.wait().is_err(), "{error}"),
        }
    });
}
