//! Cooperative turns that wait for what their worker runs next, beside what comes from others.
use enact_actors::{ActorError, Cx, ExitReason, Forward, Promise, Resolver, Restarts, Spec, System, actor};
use enact_sync::thread;

use crate::scheduler::{Gate, GateRef};
use crate::{explore, model};

/// Calls itself.
#[derive(Default)]
struct Caller {
    lines: u32,
}

#[actor]
impl Caller {
    /// So many times, one call within the other.
    async fn descend(cx: Cx<Self>, depth: u32) -> Result<u32, ActorError> {
        if depth == 0 {
            return Ok(0);
        }
        Ok(1 + cx.handle().descend(depth - 1).await??)
    }
    /// For what somebody else answers.
    async fn call_for(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        cx.handle().hand_on(answer).await
    }
    /// For what somebody else answers, and lets others go first before it waits.
    async fn call_ahead_for(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        let answer = cx.handle().hand_on(answer);
        cx.yield_now().await;
        answer.await
    }
    fn hand_on(&self, cx: &Cx<Self>, answer: Promise<u32>) -> Forward<u32> {
        cx.forward(answer)
    }
    fn line(&mut self) -> u32 {
        self.lines += 1;
        self.lines
    }
    fn fail(&self) {
        panic!("on purpose")
    }
}

/// Calls the next one.
#[derive(Default)]
struct Member {
    next: Option<MemberRef>,
}

#[actor]
impl Member {
    fn meet(&mut self, next: MemberRef) {
        self.next = Some(next);
    }
    async fn descend(cx: Cx<Self>, depth: u32) -> Result<u32, ActorError> {
        if depth == 0 {
            return Ok(0);
        }
        Ok(1 + cx.with(|member| member.next().descend(depth - 1)).await??)
    }
    async fn call_for(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        cx.with(|member| member.next().hand_on(answer)).await
    }
    /// Its turn holds the next one while it waits.
    async fn call_held(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        cx.with(|member| member.next().wait(answer)).await?
    }
    async fn wait(&mut self, answer: Promise<u32>) -> Result<u32, ActorError> {
        answer.await
    }
    /// As descend; the innermost turn blocks its thread while the gate is shut.
    async fn descend_to(cx: Cx<Self>, depth: u32, gate: GateRef) -> Result<u32, ActorError> {
        if depth == 0 {
            return gate.call(&cx).number();
        }
        cx.with(|member| member.next().descend_to(depth - 1, gate)).await?
    }
    fn hand_on(&self, cx: &Cx<Self>, answer: Promise<u32>) -> Forward<u32> {
        cx.forward(answer)
    }
    fn number(&self) -> u32 {
        1
    }
}

impl Member {
    fn next(&self) -> &MemberRef {
        self.next.as_ref().expect("they have met")
    }
}

fn two_members(system: &System) -> [MemberRef; 2] {
    let members = [(); 2].map(|()| system.spawn(Member::default()));
    (0..2).for_each(|at| _ = members[at].tell().meet(members[1 - at].clone()));
    members
}

//   worker                                sender
//   1 calls 2 calls 1 ...
//                                         sends to 1
//   <- runs calls first, then what came
#[test]
fn calls_of_each_other_beside_messages_from_outside_and_those_are_answered() {
    for workers in 1..=2 {
        model(workers, |system| {
            let members = two_members(system);
            let other = members[0].clone();
            let sending = thread::spawn(move || [(); 2].map(|()| other.number().wait()));
            let deep = [(0, 3), (1, 2)].map(|(at, depth)| members[at].descend(depth)).map(Promise::wait);
            assert_eq!(deep, [Ok(Ok(3)), Ok(Ok(2))]);
            assert_eq!(sending.join().expect("it does not panic"), [Ok(1), Ok(1)]);
            members.iter().for_each(|member| member.kill());
        });
    }
}

//   worker                               resolver
//   1 calls 2, which hands the call on
//                                        resolves
//   waits <- must see it, or be woken
#[test]
fn a_call_of_another_that_somebody_else_answers_meanwhile_goes_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let members = two_members(system);
            let (answers, resolvers): (Vec<_>, Vec<Resolver<u32>>) = (0..2).map(|_| Promise::pair()).unzip();
            let resolving = thread::spawn(move || resolvers.into_iter().for_each(|resolver| resolver.resolve(7)));
            let [handed_on, held] = answers.try_into().expect("two of them");
            let called = [members[0].call_for(handed_on), members[0].call_held(held)].map(Promise::wait);
            assert_eq!(called, [Ok(Ok(7)), Ok(Ok(7))]);
            resolving.join().expect("it does not panic");
            members.iter().for_each(|member| member.kill());
        });
    }
}

/// The innermost turn is one of an actor that has a caller.
//   here             worker                            stand-in
//                    1 calls 2 calls 1, which blocks
//   opens the gate                                     runs the gate
//                    goes on with the callers
#[test]
fn calls_are_answered_by_one_that_blocks_its_thread() {
    for workers in 1..=2 {
        model(workers, |system| {
            let (members, gate) = (two_members(system), system.spawn(Gate));
            let (opened, opens) = Promise::pair();
            let (begun, begins) = Promise::pair();
            let passed = gate.pass(opened, begins);
            begun.wait().expect("the turn begins");
            let answer = members[0].descend_to(2, gate);
            opens.resolve(10);
            assert_eq!((passed.wait(), answer.wait()), (Ok(10), Ok(Ok(1))));
            members.iter().for_each(|member| member.kill());
        });
    }
}

//   here                         worker
//                                1 calls 2, which answers
//   kills 1 <- every call ends
#[test]
fn calls_of_an_actor_that_is_killed_while_the_other_answers_end() {
    for workers in 1..=2 {
        model(workers, |system| {
            let members = two_members(system);
            let exits = members.each_ref().map(|member| member.watch());
            let other = members[0].clone();
            let ending = thread::spawn(move || other.kill());
            match members[0].descend(3).wait() {
                Ok(Ok(3) | Err(ActorError::Stopped { .. })) | Err(ActorError::Stopped { .. }) => {}
                ended => panic!("{ended:?}"),
            }
            ending.join().expect("it does not panic");
            members[1].kill();
            exits.into_iter().for_each(|exit| assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped));
        });
    }
}

//   worker                                      sender
//   calls itself
//                                               sends a line
//   <- the call does not wait behind the line
#[test]
fn calls_beside_messages_from_outside_and_those_are_answered() {
    for workers in 1..=2 {
        model(workers, |system| {
            let caller = system.spawn(Caller::default());
            let other = caller.clone();
            let sending = thread::spawn(move || [(); 2].map(|()| other.line()).map(Promise::wait));
            let deep = [3, 1].map(|depth| caller.descend(depth)).map(Promise::wait);
            assert_eq!(deep, [Ok(Ok(3)), Ok(Ok(1))]);
            assert_eq!(sending.join().expect("it does not panic"), [Ok(1), Ok(2)]);
        });
    }
}

//   worker                              resolver
//   calls itself, hands the call on
//                                       resolves
//   waits <- must see it, or be woken
#[test]
fn a_call_that_somebody_else_answers_meanwhile_goes_on() {
    for workers in 1..=2 {
        model(workers, |system| {
            let caller = system.spawn(Caller::default());
            let (answer, resolver): (_, Resolver<u32>) = Promise::pair();
            let resolving = thread::spawn(move || resolver.resolve(7));
            let called = [caller.call_for(answer).wait(), caller.descend(1).wait()];
            assert_eq!(called, [Ok(Ok(7)), Ok(Ok(1))]);
            resolving.join().expect("it does not panic");
        });
    }
}

/// Beside a message, so that the wait may begin with the last turn of a run.
//   worker                                                    sender
//   calls, hands on, yields
//                                                             sends a line
//   last turn of the run: waits <- is resumed by the answer
#[test]
fn a_call_that_was_handed_on_before_it_is_waited_for_goes_on() {
    model(1, |system| {
        let caller = system.spawn(Caller::default());
        let (answer, resolver): (_, Resolver<u32>) = Promise::pair();
        let other = caller.clone();
        let sending = thread::spawn(move || other.line().wait());
        let called = caller.call_ahead_for(answer);
        assert_eq!(sending.join().expect("it does not panic"), Ok(1));
        resolver.resolve(7);
        assert_eq!(called.wait(), Ok(Ok(7)));
    });
}

//   worker                                 ender
//   calls itself, three deep
//                                          kills or stops
//   <- every call is answered or refused
#[test]
fn calls_of_an_actor_that_is_killed_or_stops_meanwhile_end() {
    for stops in [false, true] {
        model(1, move |system| {
            let caller = system.spawn(Caller::default());
            let (other, exit) = (caller.clone(), caller.watch());
            let ending = thread::spawn(move || if stops { other.stop() } else { other.kill() });
            match caller.descend(3).wait() {
                // A call that comes after the stop is refused.
                Ok(Ok(3) | Err(ActorError::Stopped { .. })) | Err(ActorError::Stopped { .. }) => {}
                ended => panic!("{ended:?}"),
            }
            ending.join().expect("it does not panic");
            assert_eq!(exit.wait().expect("it ends").reason, ExitReason::Stopped);
        });
    }
}

//   worker                               failer
//   calls itself, three deep
//                                        a turn panics: restart
//   <- open calls end, later ones work
#[test]
fn calls_beside_a_restart_are_answered_or_cut_short() {
    model(1, |system| {
        let limit = Restarts::at_most(1, std::time::Duration::from_secs(600));
        let caller = system.spawn(Spec::restarting(limit, Caller::default));
        let other = caller.clone();
        let failing = thread::spawn(move || other.fail().wait());
        match caller.descend(3).wait() {
            Ok(Ok(3)) | Err(ActorError::Restarted { .. }) => {}
            ended => panic!("{ended:?}"),
        }
        assert!(matches!(failing.join().expect("it does not panic"), Err(ActorError::Panicked { .. })));
        assert_eq!(caller.descend(3).wait(), Ok(Ok(3)));
    });
}

//   here                                      worker
//                                             calls itself, three deep
//   drops the system <- the outer call ends
#[test]
fn a_system_that_is_dropped_leaves_no_call_open() {
    explore(|| {
        let system = System::builder().workers(2).build().expect("threads");
        let deep = system.spawn(Caller::default()).descend(3);
        drop(system);
        assert!(deep.is_ready());
    });
}
