//! Messages with priorities.

use std::sync::mpsc::{self, Sender};
use std::time::Duration;

use enact_actors::{ActorError, Cx, Mailbox, Promise, Resolver, Restarts, Spec, System, WhenFull, actor};

use crate::open_transaction::Open;

/// Keeps the order in which it takes messages up.
#[derive(Default)]
struct Desk {
    seen: Vec<(i32, &'static str)>,
}

#[actor]
impl Desk {
    #[priority(*urgency)]
    fn handle(&mut self, urgency: i32, name: &'static str) {
        self.seen.push((urgency, name));
    }
    #[priority(i32::MAX)]
    fn now(&mut self, name: &'static str) {
        self.seen.push((i32::MAX, name));
    }
    fn handle_later(&mut self, cx: &Cx<Self>, urgency: i32, name: &'static str) {
        self.seen.push((0, "sends"));
        cx.handle().tell().handle(urgency, name);
    }
    /// Holds the actor until the promise is kept.
    async fn wait(&mut self, until: Promise<()>, begun: Resolver<()>) {
        begun.resolve(());
        _ = until.await;
    }
    /// Goes on after the promise is kept, among other messages.
    #[priority(1)]
    async fn go_on_later(cx: Cx<Self>, until: Promise<()>, begun: Resolver<()>) {
        begun.resolve(());
        _ = until.await;
        cx.with(|desk| desk.seen.push((0, "went on")));
    }
    #[priority(i32::MIN)]
    fn seen(&mut self) -> Vec<(i32, &'static str)> {
        std::mem::take(&mut self.seen)
    }
    fn fail(&mut self) {
        panic!("as told");
    }
}

fn system() -> System {
    System::builder().workers(2).build().expect("threads")
}

/// Has the actor wait; it goes on when the resolver is used or dropped.
fn hold(desk: &DeskRef) -> Resolver<()> {
    let (until, go_on) = Promise::pair();
    let (begun, begins) = Promise::pair();
    drop(desk.wait(until, begins));
    begun.wait().expect("the turn begins");
    go_on
}

#[test]
fn higher_comes_first_and_equals_come_in_order_of_arrival() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let go_on = hold(&desk);
    for (urgency, name) in [(1, "a"), (3, "b"), (-2, "c"), (3, "d"), (0, "e"), (1, "f")] {
        desk.tell().handle(urgency, name);
    }
    let seen = desk.seen();
    drop(go_on);
    let expected = vec![(3, "b"), (3, "d"), (1, "a"), (1, "f"), (0, "e"), (-2, "c")];
    assert_eq!(seen.wait(), Ok(expected));
}

#[test]
fn many_messages_of_many_priorities_come_as_a_stable_sort_has_them() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let go_on = hold(&desk);
    let names = ["a", "b", "c", "d", "e"];
    let sent: Vec<_> = (0..2_000_i32).map(|n| ((n * 7_919) % 13 - 6, names[n as usize % names.len()])).collect();
    for &(urgency, name) in &sent {
        desk.tell().handle(urgency, name);
    }
    let seen = desk.seen();
    drop(go_on);
    let mut expected = sent;
    expected.sort_by_key(|&(urgency, _)| std::cmp::Reverse(urgency));
    assert_eq!(seen.wait(), Ok(expected));
}

#[test]
fn what_arrives_during_a_turn_comes_before_older_messages_of_lower_priority() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let go_on = hold(&desk);
    desk.tell().handle_later(9, "late");
    for name in ["a", "b"] {
        desk.tell().handle(-1, name);
    }
    let seen = desk.seen();
    drop(go_on);
    assert_eq!(seen.wait(), Ok(vec![(0, "sends"), (9, "late"), (-1, "a"), (-1, "b")]));
}

#[test]
fn messages_without_priority_have_0_and_so_has_a_turn_that_goes_on() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let (until, go_on_later) = Promise::pair();
    let (begun, begins) = Promise::pair();
    let turn = desk.go_on_later(until, begins);
    begun.wait().expect("the turn begins");
    let go_on = hold(&desk);
    desk.tell().handle(-1, "low");
    desk.tell().handle(0, "same");
    go_on_later.resolve(());
    desk.tell().handle(1, "high");
    let seen = desk.seen();
    drop(go_on);
    assert_eq!(turn.wait(), Ok(()));
    assert_eq!(seen.wait(), Ok(vec![(1, "high"), (0, "same"), (0, "went on"), (-1, "low")]));
}

#[test]
fn a_kill_overtakes_every_priority() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let go_on = hold(&desk);
    let now = desk.handle(i32::MAX, "never");
    desk.kill();
    assert!(matches!(now.wait(), Err(ActorError::Stopped { .. })));
    drop(go_on);
}

#[test]
fn a_stop_comes_after_all_priorities() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let go_on = hold(&desk);
    let answers = [desk.handle(5, "a"), desk.handle(-5, "b")];
    desk.stop();
    drop(go_on);
    assert_eq!(answers.map(Promise::wait), [Ok(()), Ok(())]);
}

#[test]
fn a_restart_keeps_messages_and_their_order() {
    let system = system();
    let desk = system.spawn(Spec::restarting(Restarts::at_most(1, Duration::from_secs(600)), Desk::default));
    let go_on = hold(&desk);
    let failed = desk.fail();
    desk.tell().handle(-2, "low");
    desk.tell().handle(-1, "high");
    let seen = desk.seen();
    drop(go_on);
    assert!(matches!(failed.wait(), Err(ActorError::Panicked { .. })));
    assert_eq!(seen.wait(), Ok(vec![(-1, "high"), (-2, "low")]));
}

#[test]
fn a_bounded_mailbox_has_room_again_for_each_message_taken_up() {
    let system = system();
    let desk = system.spawn(Spec::new(Desk::default()).mailbox(Mailbox::bounded(3, WhenFull::Fail)));
    for _ in 0..3 {
        let go_on = hold(&desk);
        let answers = [2, 3, 1, 4].map(|urgency| desk.handle(urgency, "x"));
        drop(go_on);
        let answers = answers.map(Promise::wait);
        assert_eq!(answers[..3], [const { Ok(()) }; 3]);
        assert!(matches!(answers[3], Err(ActorError::Full { .. })));
    }
}

#[test]
fn an_undecided_message_holds_back_those_of_its_priority_and_lower_ones() {
    for commits in [true, false] {
        let system = system();
        let desk = system.spawn(Desk::default());
        let go_on = hold(&desk);
        let receiver = desk.clone();
        let open = Open::begin(move |tx| _ = receiver.tell_within(tx).handle(1, "undecided"));
        desk.tell().handle(1, "after");
        desk.tell().handle(-1, "low");
        let first = desk.now("first");
        let seen = desk.seen();
        drop(go_on);
        assert_eq!(first.wait(), Ok(()), "before the decision");
        open.decide(commits);
        let mut expected = vec![(i32::MAX, "first"), (1, "undecided"), (1, "after"), (-1, "low")];
        expected.retain(|&(_, name)| commits || name != "undecided");
        assert_eq!(seen.wait(), Ok(expected));
    }
}

#[test]
fn a_turn_goes_on_before_an_undecided_message_and_gives_its_room_back_once() {
    let system = system();
    let desk = system.spawn(Spec::new(Desk::default()).mailbox(Mailbox::bounded(2, WhenFull::Fail)));
    let (until, go_on_later) = Promise::pair();
    let (begun, begins) = Promise::pair();
    let turn = desk.go_on_later(until, begins);
    begun.wait().expect("the turn begins");
    let receiver = desk.clone();
    let open = Open::begin(move |tx| _ = receiver.tell_within(tx).now("undecided"));
    go_on_later.resolve(());
    assert_eq!(turn.wait(), Ok(()));
    open.decide(true);
    assert_eq!(desk.seen().wait(), Ok(vec![(0, "went on"), (i32::MAX, "undecided")]));
    let go_on = hold(&desk);
    assert_eq!([1, 2, 3].map(|urgency| desk.tell().handle(urgency, "x").accepted().is_ok()), [true, true, false]);
    drop(go_on);
}

#[test]
fn a_speculative_actor_takes_the_most_urgent_message_up_before_it_is_decided() {
    for commits in [true, false] {
        let system = system();
        let sketch = system.spawn(Sketch { seen: Vec::new() });
        let (tells, told) = mpsc::channel();
        let receiver = sketch.clone();
        let open = Open::begin(move |tx| _ = receiver.tell_within(tx).handle(1, tells.clone()));
        assert_eq!(told.recv(), Ok(0), "the turn runs before the decision");
        let (tells, told) = mpsc::channel();
        sketch.tell().handle(0, tells.clone());
        sketch.tell().handle(2, tells);
        open.decide(commits);
        let before = usize::from(commits);
        assert_eq!((told.recv(), told.recv()), (Ok(before), Ok(before + 1)));
        let expected = [1, 2, 0].into_iter().filter(|&urgency| commits || urgency != 1).collect::<Vec<_>>();
        assert_eq!(sketch.run(|sketch, _| sketch.seen.clone()).wait(), Ok(expected));
    }
}

/// Works ahead.
#[derive(Clone)]
struct Sketch {
    seen: Vec<i32>,
}

#[actor(speculative)]
impl Sketch {
    #[priority(*urgency)]
    fn handle(&mut self, urgency: i32, tells: Sender<usize>) {
        tells.send(self.seen.len()).expect("the test listens");
        self.seen.push(urgency);
    }
}

/// Calls another actor that is idle, or not.
struct Caller;

#[actor]
impl Caller {
    fn have_handled(&mut self, cx: &Cx<Self>, desk: DeskRef) -> Result<(), ActorError> {
        desk.call(cx).handle(3, "called")
    }
}

#[test]
fn a_call_is_answered_whether_the_actor_is_idle_or_has_more_urgent_messages() {
    let system = system();
    let desk = system.spawn(Desk::default());
    let caller = system.spawn(Caller);
    assert_eq!(caller.have_handled(desk.clone()).wait(), Ok(Ok(())));
    let go_on = hold(&desk);
    let called = caller.have_handled(desk.clone());
    desk.tell().handle(9, "urgent");
    drop(go_on);
    assert_eq!(called.wait(), Ok(Ok(())));
    let seen = desk.seen().wait().expect("the actor lives");
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0], (3, "called"));
}
