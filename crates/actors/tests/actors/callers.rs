//! A cooperative turn that has called its own actor, or the one that is the next to run, goes on at once when that has
//! answered, and is not put away for the wait. Nothing but the time shows that: what may happen meanwhile may happen
//! here, too.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Forward, Promise, Resolver, Restarts, Spec, System, actor};

/// Deeper than there are callers at a time.
const DEEP: u32 = 5_000;
/// How many turns an actor takes before others have theirs.
const TURNS_PER_RUN: usize = 128;

fn system() -> System {
    System::builder().workers(1).build().unwrap()
}

/// What the innermost turn does.
type Act = Box<dyn FnOnce(&Cx<Caller>) + Send>;

#[derive(Default)]
struct Caller {
    other: Option<OtherRef>,
    /// What has happened, in this order.
    seen: Vec<u32>,
    /// How many turns went on after their call.
    went_on: Arc<AtomicUsize>,
}

#[actor]
impl Caller {
    /// Calls itself so many times, one call within the other, and counts.
    async fn descend(cx: Cx<Self>, depth: u32, act: Option<Act>) -> Result<u32, ActorError> {
        if depth == 0 {
            act.into_iter().for_each(|act| act(&cx));
            return Ok(0);
        }
        let below = cx.handle().descend(depth - 1, act).await??;
        cx.with(|caller| caller.went_on.fetch_add(1, Ordering::SeqCst));
        Ok(below + 1)
    }
    /// As descend; each turn notes its depth before and after its call.
    async fn descend_noting(cx: Cx<Self>, depth: u32) -> Result<(), ActorError> {
        cx.with(|caller| caller.seen.push(depth));
        if depth > 0 {
            cx.handle().descend_noting(depth - 1).await??;
        }
        cx.with(|caller| caller.seen.push(depth));
        Ok(())
    }
    /// Goes on twice as deep after the way back.
    async fn descend_twice(cx: Cx<Self>, depth: u32) -> Result<u32, ActorError> {
        if depth == 0 {
            return Ok(1);
        }
        let one = cx.handle().descend_twice(depth - 1).await??;
        Ok(one + cx.handle().descend_twice(depth - 1).await??)
    }
    async fn call_behind_a_note(cx: Cx<Self>) -> Result<Vec<u32>, ActorError> {
        let handle = cx.handle();
        handle.tell().note(1);
        let seen = handle.seen();
        handle.tell().note(2);
        seen.await
    }
    async fn call_what_is_answered_later(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        let number = cx.handle().hand_on(answer).await?;
        cx.with(|caller| caller.went_on.fetch_add(1, Ordering::SeqCst));
        Ok(number)
    }
    async fn call_for_other(cx: Cx<Self>) -> Result<u32, ActorError> {
        cx.handle().ask_other().await?
    }
    async fn become_and_call(cx: Cx<Self>, next: u32) -> Result<Vec<u32>, ActorError> {
        cx.become_next(Self { seen: vec![next], ..Self::default() });
        let seen = cx.handle().seen().await?;
        cx.with(|caller| caller.seen.push(next + 1));
        Ok(seen)
    }
    fn ask_other(&self, cx: &Cx<Self>) -> Result<u32, ActorError> {
        self.other.as_ref().expect("it was told").call(cx).number()
    }
    fn hand_on(&self, cx: &Cx<Self>, answer: Promise<u32>) -> Forward<u32> {
        cx.forward(answer)
    }
    fn meet(&mut self, other: OtherRef) {
        self.other = Some(other);
    }
    fn note(&mut self, what: u32) {
        self.seen.push(what);
    }
    fn seen(&self) -> Vec<u32> {
        self.seen.clone()
    }
}

/// What the innermost turn of members does.
type MemberAct = Box<dyn FnOnce(&Cx<Member>) + Send>;

/// Calls the next one of a ring.
#[derive(Default)]
struct Member {
    next: Option<MemberRef>,
    /// How many turns of all members went on after their call.
    went_on: Arc<AtomicUsize>,
}

#[actor]
impl Member {
    fn meet(&mut self, next: MemberRef, went_on: Arc<AtomicUsize>) {
        self.next = Some(next);
        self.went_on = went_on;
    }
    async fn descend(cx: Cx<Self>, depth: u32, act: Option<MemberAct>) -> Result<u32, ActorError> {
        if depth == 0 {
            act.into_iter().for_each(|act| act(&cx));
            return Ok(0);
        }
        let below = cx.with(|member| member.next().descend(depth - 1, act)).await??;
        cx.with(|member| member.went_on.fetch_add(1, Ordering::SeqCst));
        Ok(below + 1)
    }
    async fn call_what_is_answered_later(cx: Cx<Self>, answer: Promise<u32>) -> Result<u32, ActorError> {
        cx.with(|member| member.next().hand_on(answer)).await
    }
    async fn call_for_other(cx: Cx<Self>, other: OtherRef) -> Result<u32, ActorError> {
        cx.with(|member| member.next().ask_other(other)).await?
    }
    async fn become_and_call(cx: Cx<Self>, next: MemberRef) -> Result<bool, ActorError> {
        let called = cx.with(|member| member.next().clone());
        cx.become_next(Self { next: Some(next.clone()), ..Self::default() });
        called.descend(0, None).await??;
        Ok(cx.with(|member| member.next.as_ref() == Some(&next)))
    }
    fn ask_other(&self, cx: &Cx<Self>, other: OtherRef) -> Result<u32, ActorError> {
        other.call(cx).number()
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

/// A ring of so many members, and the count of their turns that went on.
fn ring(system: &System, members: usize) -> (Vec<MemberRef>, Arc<AtomicUsize>) {
    let went_on = Arc::new(AtomicUsize::new(0));
    let ring: Vec<_> = (0..members).map(|_| system.spawn(Member::default())).collect();
    for (member, next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        member.meet(next.clone(), Arc::clone(&went_on)).wait().unwrap();
    }
    (ring, went_on)
}

/// Holds its actor while it waits.
struct Other;

#[actor]
impl Other {
    async fn wait_for_caller(&mut self, caller: CallerRef) -> Result<u32, ActorError> {
        caller.call_for_other().await?
    }
    async fn wait_for_member(&mut self, member: MemberRef, own: OtherRef) -> Result<u32, ActorError> {
        member.call_for_other(own).await?
    }
    fn number(&self) -> u32 {
        1
    }
}

#[test]
fn calls_within_calls_are_answered_however_many() {
    for workers in 1..=2 {
        let system = System::builder().workers(workers).build().unwrap();
        for depth in [1, 2, 127, 128, 129, DEEP] {
            let caller = system.spawn(Caller::default());
            assert_eq!(caller.descend(depth, None).wait(), Ok(Ok(depth)));
        }
    }
}

#[test]
fn calls_go_on_in_the_opposite_order() {
    let system = system();
    let caller = system.spawn(Caller::default());
    assert_eq!(caller.descend_noting(300).wait(), Ok(Ok(())));
    let expected: Vec<u32> = (0..=300).rev().chain(0..=300).collect();
    assert_eq!(caller.seen().wait(), Ok(expected));
}

#[test]
fn a_turn_that_goes_on_may_call_again() {
    let system = system();
    assert_eq!(system.spawn(Caller::default()).descend_twice(12).wait(), Ok(Ok(1 << 12)));
}

#[test]
fn messages_before_the_one_that_is_waited_for_are_taken_up_before_it() {
    let system = system();
    let caller = system.spawn(Caller::default());
    assert_eq!(caller.call_behind_a_note().wait(), Ok(Ok(vec![1])));
    assert_eq!(caller.seen().wait(), Ok(vec![1, 2]));
}

#[test]
fn a_message_waits_for_one_run_of_turns_that_go_on() {
    let system = system();
    let (went_on, then) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
    let caller = system.spawn(Caller { went_on: Arc::clone(&went_on), ..Caller::default() });
    let (count, seen) = (Arc::clone(&went_on), Arc::clone(&then));
    let act = move |cx: &Cx<Caller>| {
        let note = move |_: &mut Caller, _: &Cx<Caller>| *seen.lock().unwrap() = Some(count.load(Ordering::SeqCst));
        drop(cx.handle().run(note));
    };
    assert_eq!(caller.descend(1_000, Some(Box::new(act))).wait(), Ok(Ok(1_000)));
    let then = then.lock().unwrap().expect("it was taken up before the calls had all gone on");
    assert!(then <= TURNS_PER_RUN, "{then}");
}

#[test]
fn turns_that_go_on_take_turns_with_messages() {
    let system = system();
    let (went_on, then) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let caller = system.spawn(Caller { went_on: Arc::clone(&went_on), ..Caller::default() });
    let (count, seen) = (Arc::clone(&went_on), Arc::clone(&then));
    let act = move |cx: &Cx<Caller>| {
        for _ in 0..100 {
            let (count, seen) = (Arc::clone(&count), Arc::clone(&seen));
            drop(cx.handle().run(move |_, _| seen.lock().unwrap().push(count.load(Ordering::SeqCst))));
        }
    };
    assert_eq!(caller.descend(1_000, Some(Box::new(act))).wait(), Ok(Ok(1_000)));
    let then = then.lock().unwrap();
    assert_eq!(then.len(), 100);
    assert!(then.windows(2).all(|two| two[1] <= two[0] + 1), "{then:?}");
}

#[test]
fn other_actors_have_their_turns_beside_calls_within_calls() {
    let system = system();
    let (caller, other) = (system.spawn(Caller::default()), system.spawn(Other));
    let went_on = Arc::new(AtomicUsize::new(0));
    let _set = caller.run({
        let went_on = Arc::clone(&went_on);
        move |caller, _| caller.went_on = went_on
    });
    let then = Arc::new(Mutex::new(None));
    let (count, seen) = (Arc::clone(&went_on), Arc::clone(&then));
    let act =
        move |_: &Cx<Caller>| drop(other.run(move |_, _| *seen.lock().unwrap() = Some(count.load(Ordering::SeqCst))));
    assert_eq!(caller.descend(1_000, Some(Box::new(act))).wait(), Ok(Ok(1_000)));
    let then = then.lock().unwrap().expect("it had its turn before the calls had all gone on");
    assert!(then <= TURNS_PER_RUN, "{then}");
}

#[test]
fn a_call_whose_answer_is_handed_on_goes_on_when_that_comes() {
    let system = system();
    let went_on = Arc::new(AtomicUsize::new(0));
    let caller = system.spawn(Caller { went_on: Arc::clone(&went_on), ..Caller::default() });
    let (later, resolver): (_, Resolver<u32>) = Promise::pair();
    let answer = caller.call_what_is_answered_later(later);
    assert_eq!(caller.seen().wait(), Ok(vec![]));
    assert_eq!(went_on.load(Ordering::SeqCst), 0);
    resolver.resolve(7);
    assert_eq!(answer.wait(), Ok(Ok(7)));
}

#[test]
fn a_call_is_answered_by_what_its_actor_has_become() {
    let system = system();
    let caller = system.spawn(Caller::default());
    assert_eq!(caller.become_and_call(7).wait(), Ok(Ok(vec![7])));
    assert_eq!(caller.seen().wait(), Ok(vec![7, 8]));
}

#[test]
fn calls_of_an_actor_that_is_killed_meanwhile_do_not_go_on() {
    let system = system();
    let went_on = Arc::new(AtomicUsize::new(0));
    let caller = system.spawn(Caller { went_on: Arc::clone(&went_on), ..Caller::default() });
    let exit = caller.watch();
    let victim = caller.clone();
    let answer = caller.descend(10, Some(Box::new(move |_| victim.kill())));
    assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Stopped);
    assert_eq!(went_on.load(Ordering::SeqCst), 0);
}

#[test]
fn a_restart_cuts_the_calls_short() {
    let system = system();
    let went_on = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&went_on);
    let limit = Restarts::at_most(1, Duration::from_secs(600));
    let make = move || Caller { went_on: Arc::clone(&count), ..Caller::default() };
    let caller = system.spawn(Spec::restarting(limit, make));
    let answer = caller.descend(10, Some(Box::new(|_| panic!("on purpose"))));
    assert!(matches!(answer.wait(), Err(ActorError::Restarted { .. })));
    assert_eq!(caller.descend(10, None).wait(), Ok(Ok(10)));
    assert_eq!(went_on.load(Ordering::SeqCst), 10);
}

#[test]
fn an_actor_that_stops_lets_its_calls_go_on() {
    let system = system();
    let caller = system.spawn(Caller::default());
    let stopping = caller.clone();
    // What is sent after the stop is refused; this call is in.
    let answer = caller.descend(1, Some(Box::new(move |_| stopping.stop())));
    assert_eq!(answer.wait(), Ok(Ok(1)));
    assert_eq!(caller.watch().wait().unwrap().reason, ExitReason::Stopped);
}

#[test]
fn the_last_handle_may_go_beside_a_call() {
    let system = system();
    let caller = system.spawn(Caller::default());
    let exit = caller.watch();
    let went_on = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&went_on);
    caller.descend(200, None).map(move |deep| done.store(deep == Ok(200), Ordering::SeqCst)).wait().unwrap();
    drop(caller);
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
    assert!(went_on.load(Ordering::SeqCst));
}

/// ```text
/// other: holds its actor, waits for a turn of the caller
/// caller: that turn waits for the next message, which calls the other one
/// ```
#[test]
fn a_circle_through_a_call_is_told() {
    for workers in 1..=2 {
        let system = System::builder().workers(workers).build().unwrap();
        let (caller, other) = (system.spawn(Caller::default()), system.spawn(Other));
        caller.tell().meet(other.clone());
        let answer = other.wait_for_caller(caller.clone()).wait().expect("it ends");
        assert!(matches!(answer, Err(ActorError::Deadlock { .. })), "{answer:?}");
        assert_eq!(other.number().wait(), Ok(1));
    }
}

#[test]
fn calls_round_a_ring_are_answered_however_many() {
    for workers in 1..=2 {
        let system = System::builder().workers(workers).build().unwrap();
        for (members, depth) in [(2, 1), (2, 17), (3, 20_000), (100, 99), (100, 5_000)] {
            let (ring, went_on) = ring(&system, members);
            assert_eq!(ring[0].descend(depth, None).wait(), Ok(Ok(depth)));
            assert_eq!(went_on.load(Ordering::SeqCst), depth as usize);
        }
    }
}

#[test]
fn an_actor_that_is_sent_to_beside_calls_has_its_turn_before_they_have_all_gone_on() {
    let system = system();
    let (ring, went_on) = ring(&system, 3);
    let other = system.spawn(Other);
    let then = Arc::new(Mutex::new(None));
    let (count, seen) = (Arc::clone(&went_on), Arc::clone(&then));
    let act =
        move |_: &Cx<Member>| drop(other.run(move |_, _| *seen.lock().unwrap() = Some(count.load(Ordering::SeqCst))));
    assert_eq!(ring[0].descend(1_000, Some(Box::new(act))).wait(), Ok(Ok(1_000)));
    let then = then.lock().unwrap().expect("it had its turn before the calls had all gone on");
    assert!(then <= 32, "{then}");
}

#[test]
fn a_message_to_an_actor_whose_turns_wait_for_others_is_taken_up_meanwhile() {
    let system = system();
    let (ring, went_on) = ring(&system, 3);
    let then = Arc::new(Mutex::new(None));
    let (count, seen, first) = (Arc::clone(&went_on), Arc::clone(&then), ring[0].clone());
    let act =
        move |_: &Cx<Member>| drop(first.run(move |_, _| *seen.lock().unwrap() = Some(count.load(Ordering::SeqCst))));
    assert_eq!(ring[0].descend(1_000, Some(Box::new(act))).wait(), Ok(Ok(1_000)));
    let then = then.lock().unwrap().expect("it was taken up before the calls had all gone on");
    assert!(then <= 32, "{then}");
}

#[test]
fn a_call_of_another_whose_answer_is_handed_on_goes_on_when_that_comes() {
    let system = system();
    let (ring, _) = ring(&system, 2);
    let (later, resolver): (_, Resolver<u32>) = Promise::pair();
    let answer = ring[0].call_what_is_answered_later(later);
    assert_eq!(ring[0].number().wait(), Ok(1));
    assert!(!answer.is_ready());
    resolver.resolve(7);
    assert_eq!(answer.wait(), Ok(Ok(7)));
}

#[test]
fn a_call_of_another_is_answered_to_what_its_actor_has_become() {
    let system = system();
    let (ring, _) = ring(&system, 2);
    assert_eq!(ring[0].become_and_call(ring[0].clone()).wait(), Ok(Ok(true)));
}

#[test]
fn calls_of_others_do_not_go_on_in_an_actor_that_is_killed_meanwhile() {
    let system = system();
    let (ring, went_on) = ring(&system, 3);
    let (exit, victim) = (ring[1].watch(), ring[1].clone());
    // The turns of the first and the last one learn of it and go on, up to the next one of the victim.
    let answer = ring[0].descend(30, Some(Box::new(move |_| victim.kill())));
    let ended = answer.wait().expect("the first one lives");
    assert!(matches!(ended, Err(ActorError::Stopped { .. })), "{ended:?}");
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Stopped);
    assert!(went_on.load(Ordering::SeqCst) < 3);
    assert_eq!(ring[2].number().wait(), Ok(1));
}

#[test]
fn a_restart_cuts_calls_of_others_short() {
    let system = system();
    let (asked, went_on) = (system.spawn(Member::default()), Arc::new(AtomicUsize::new(0)));
    let (called, count) = (asked.clone(), Arc::clone(&went_on));
    let limit = Restarts::at_most(1, Duration::from_secs(600));
    let make = move || Member { next: Some(called.clone()), went_on: Arc::clone(&count) };
    let caller = system.spawn(Spec::restarting(limit, make));
    let victim = caller.clone();
    let act = move |_: &Cx<Member>| drop(victim.run(|_, _| panic!("on purpose")));
    let answer = caller.descend(1, Some(Box::new(act))).wait();
    // The call may have gone on before the actor fails.
    assert!(matches!(answer, Ok(Ok(1)) | Err(ActorError::Restarted { .. })), "{answer:?}");
    assert_eq!(caller.descend(1, None).wait(), Ok(Ok(1)));
}

#[test]
fn an_actor_that_stops_lets_its_calls_of_others_go_on() {
    let system = system();
    let (ring, _) = ring(&system, 2);
    let stopping = ring[0].clone();
    let answer = ring[0].descend(1, Some(Box::new(move |_| stopping.stop())));
    assert_eq!(answer.wait(), Ok(Ok(1)));
    assert_eq!(ring[0].watch().wait().unwrap().reason, ExitReason::Stopped);
}

/// ```text
/// other:  holds its actor, waits for a turn of the first member
/// first:  that turn waits for the next member
/// second: calls the other one synchronously
/// ```
#[test]
fn a_circle_through_a_call_of_another_is_told() {
    for workers in 1..=2 {
        let system = System::builder().workers(workers).build().unwrap();
        let (ring, _) = ring(&system, 2);
        let other = system.spawn(Other);
        let answer = other.wait_for_member(ring[0].clone(), other.clone()).wait().expect("it ends");
        assert!(matches!(answer, Err(ActorError::Deadlock { .. })), "{answer:?}");
        assert_eq!(other.number().wait(), Ok(1));
        assert_eq!(ring[0].number().wait(), Ok(1));
    }
}
