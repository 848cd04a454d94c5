//! Waits that can never end are refused, and only those.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Barrier};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use enact_actors::{ActorError, Cx, Forward, Handle, Identity, Mailbox, Promise, Spec, System, WhenFull, actor};
use proptest::prelude::*;

type Answer = Result<u64, ActorError>;

/// Who asks whom, and how.
type Path<'a> = &'a [(&'a NodeRef, By)];

/// Asks along a list of nodes, in the way that its kind says, and adds one.
struct Node;

/// How a node waits for the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// `async fn(&mut self)`.
    Get,
    /// `async fn(cx: Cx<Self>)`.
    Await,
    /// A synchronous call in a plain turn.
    Call,
    /// A forward in a plain turn: it does not wait itself.
    Forward,
    /// As `Get`, through combinators of promises.
    Combined,
}

fn ask(path: &[(NodeRef, By)]) -> Promise<Answer> {
    let Some(((node, by), rest)) = path.split_first() else { return Promise::ready(Ok(0)) };
    let rest = rest.to_vec();
    match by {
        By::Get => node.get(rest),
        By::Await => node.wait(rest),
        By::Call => node.call_next(rest),
        By::Forward => node.forward_next(rest),
        By::Combined => node.combined(rest),
    }
}

fn add_one(answer: Result<Answer, ActorError>) -> Answer {
    Ok(answer?? + 1)
}

#[actor]
impl Node {
    async fn get(&mut self, rest: Vec<(NodeRef, By)>) -> Answer {
        add_one(ask(&rest).await)
    }

    async fn wait(cx: Cx<Self>, rest: Vec<(NodeRef, By)>) -> Answer {
        let _ = cx;
        add_one(ask(&rest).await)
    }

    fn call_next(&mut self, cx: &Cx<Self>, rest: Vec<(NodeRef, By)>) -> Answer {
        let Some(((node, by), rest)) = rest.split_first() else { return Ok(1) };
        let (node, rest) = (node.call(cx), rest.to_vec());
        add_one(match by {
            By::Get => node.get(rest),
            By::Await => node.wait(rest),
            By::Call => node.call_next(rest),
            By::Forward => node.forward_next(rest),
            By::Combined => node.combined(rest),
        })
    }

    fn forward_next(&mut self, cx: &Cx<Self>, rest: Vec<(NodeRef, By)>) -> Forward<Answer> {
        cx.forward(ask(&rest).map(|answer| Ok(answer? + 1)))
    }

    async fn combined(&mut self, rest: Vec<(NodeRef, By)>) -> Answer {
        let fine = Promise::ready(Ok(0));
        let all = Promise::join_all([fine, ask(&rest).map(|answer| answer)]).and_then(Promise::ready);
        add_one(Promise::race([all]).await.map(|mut all| all.remove(1)))
    }
}

fn names(nodes: &[&NodeRef]) -> Vec<Identity> {
    nodes.iter().map(|node| node.identity()).collect()
}

/// The cycle that `answer` reports, turned so that it begins with its smallest id.
fn cycle_of(answer: Result<Answer, ActorError>) -> Vec<Identity> {
    let Ok(Err(ActorError::Deadlock { cycle })) = answer else { panic!("no deadlock: {answer:?}") };
    let mut actors = cycle.actors().to_vec();
    let least = actors.iter().enumerate().min_by_key(|(_, actor)| actor.id()).map_or(0, |(at, _)| at);
    actors.rotate_left(least);
    actors
}

/// Has its worker never without work.
struct Busy;

#[actor]
impl Busy {
    fn go_on(&mut self, cx: &Cx<Self>, enough: Arc<AtomicBool>) {
        if !enough.load(Ordering::Relaxed) {
            cx.handle().tell().go_on(enough);
        }
    }
}

#[test]
fn a_circle_is_told_of_while_its_worker_has_other_work() {
    let system = System::builder().workers(1).build().unwrap();
    let enough = Arc::new(AtomicBool::new(false));
    let busy = system.spawn(Spec::new(Busy).keep_alive());
    busy.tell().go_on(Arc::clone(&enough));
    let [a, b] = [(); 2].map(|()| system.spawn(Spec::new(Node).keep_alive()));
    let path = [(a.clone(), By::Get), (b.clone(), By::Get), (a.clone(), By::Get)];
    assert_eq!(cycle_of(ask(&path).wait()), names(&[&a, &b]));
    enough.store(true, Ordering::Relaxed);
}

#[test]
fn a_wait_that_comes_back_to_a_held_actor_names_the_circle() {
    use By::{Await, Call, Combined, Forward, Get};
    let system = System::builder().workers(2).build().unwrap();
    let [a, b, c] = [(); 3].map(|()| system.spawn(Spec::new(Node).keep_alive()));
    let rows: [(Path<'_>, &[&NodeRef]); 12] = [
        (&[(&a, Get), (&a, Get)], &[&a]),
        (&[(&a, Call), (&a, Call)], &[&a]),
        (&[(&a, Get), (&b, Get), (&a, Get)], &[&a, &b]),
        (&[(&a, Get), (&b, Get), (&c, Get), (&a, Get)], &[&a, &b, &c]),
        (&[(&a, Call), (&b, Call), (&a, Call)], &[&a, &b]),
        (&[(&a, Get), (&b, Call), (&c, Get), (&a, Get)], &[&a, &b, &c]),
        (&[(&a, Call), (&b, Get), (&c, Call), (&a, Get)], &[&a, &b, &c]),
        // A cooperative turn on the way lets its actor go, but the answer still needs it.
        (&[(&a, Get), (&b, Await), (&a, Get)], &[&a, &b]),
        (&[(&a, Call), (&b, Await), (&c, Await), (&a, Get)], &[&a, &b, &c]),
        (&[(&a, Combined), (&b, Combined), (&a, Get)], &[&a, &b]),
        // A turn that has forwarded waits for nothing any more.
        (&[(&a, Get), (&b, Forward), (&a, Get)], &[&a]),
        (&[(&a, Get), (&b, Forward), (&c, Get), (&a, Get)], &[&a, &c]),
    ];
    for (path, cycle) in rows {
        let shown: Vec<_> = path.iter().map(|(node, by)| (node.identity(), by)).collect();
        let path: Vec<_> = path.iter().map(|(node, by)| ((*node).clone(), *by)).collect();
        assert_eq!(cycle_of(ask(&path).wait()), names(cycle), "{shown:?}");
        // Everybody goes on afterwards.
        for node in [&a, &b, &c] {
            assert_eq!(node.get(vec![]).wait(), Ok(Ok(1)));
        }
    }
}

#[test]
fn a_wait_for_an_actor_that_only_awaits_is_no_deadlock() {
    use By::{Await, Forward, Get};
    let system = System::builder().workers(2).build().unwrap();
    let [a, b] = [(); 2].map(|()| system.spawn(Node));
    let rows: [Path<'_>; 5] = [
        &[(&a, Await), (&a, Get)],
        &[(&a, Await), (&b, Await), (&a, Await), (&b, Get)],
        &[(&a, Await), (&b, Get), (&a, Get)],
        &[(&a, Forward), (&a, Forward), (&a, Get)],
        &[(&a, Await), (&b, Forward), (&a, Forward), (&b, Get)],
    ];
    for path in rows {
        let path: Vec<_> = path.iter().map(|(node, by)| ((*node).clone(), *by)).collect();
        assert_eq!(ask(&path).wait(), Ok(Ok(path.len() as u64)));
    }
}

/// Meets its partner at the barrier before it asks it, so that both waits begin together.
struct Partner(Arc<Barrier>);

#[actor]
impl Partner {
    async fn meet(&mut self, other: PartnerRef) -> Result<(), ActorError> {
        self.0.wait();
        other.nothing().await
    }

    fn nothing(&self) {}
}

#[test]
fn of_two_actors_that_close_a_circle_together_exactly_one_is_told() {
    let system = System::builder().workers(2).build().unwrap();
    for _ in 0..500 {
        let barrier = Arc::new(Barrier::new(2));
        let (one, other) = (system.spawn(Partner(Arc::clone(&barrier))), system.spawn(Partner(barrier)));
        let answers = one.meet(other.clone()).join(other.meet(one.clone())).wait().unwrap();
        match answers {
            (Ok(()), Err(ActorError::Deadlock { cycle })) => {
                assert_eq!(cycle.actors(), [other.identity(), one.identity()]);
            }
            (Err(ActorError::Deadlock { cycle }), Ok(())) => {
                assert_eq!(cycle.actors(), [one.identity(), other.identity()]);
            }
            answers => panic!("{answers:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Any tangle of questions ends: each chain with its length or with an error, none with a hang.
    #[test]
    fn any_tangle_of_questions_ends(
        paths in prop::collection::vec(prop::collection::vec((0..4usize, 0..5usize), 1..6), 1..8),
    ) {
        let kinds = [By::Get, By::Await, By::Call, By::Forward, By::Combined];
        let system = System::builder().workers(2).build().unwrap();
        let nodes = [(); 4].map(|()| system.spawn(Node));
        let asked: Vec<_> = paths
            .iter()
            .map(|path| ask(&path.iter().map(|&(node, by)| (nodes[node].clone(), kinds[by])).collect::<Vec<_>>()))
            .collect();
        for (path, answer) in paths.iter().zip(asked) {
            match answer.timeout(Duration::from_secs(60)).wait() {
                Ok(Ok(length)) => prop_assert_eq!(length, path.len() as u64),
                Ok(Err(ActorError::Deadlock { .. })) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }
    }
}

/// Waits for one of several answers.
struct Chooser;

#[actor]
impl Chooser {
    async fn race_with_self(&mut self, cx: &Cx<Self>, other: ChooserRef) -> Result<u64, ActorError> {
        Promise::race([cx.handle().value(), other.value()]).await
    }

    async fn select_with_self(&mut self, cx: &Cx<Self>) -> Result<u64, ActorError> {
        let own = cx.handle().value();
        tokio::select! {
            answer = own => answer,
            () = tokio::time::sleep(Duration::from_secs(600)) => Ok(0),
        }
    }

    async fn own_through_other_combinators(&mut self, cx: &Cx<Self>) -> Vec<Result<u64, ActorError>> {
        let own = || cx.handle().value();
        let many: Vec<_> = (0..40).map(|_| own()).collect();
        futures_util::future::join_all(many).await
    }

    async fn own_with_timeout(&mut self, cx: &Cx<Self>) -> Result<u64, ActorError> {
        cx.handle().value().timeout(Duration::from_millis(5)).await
    }

    async fn wait_for_other(&mut self, other: ChooserRef) -> Result<u64, ActorError> {
        other.value().await
    }

    async fn select_other(&mut self, other: ChooserRef, until: tokio::sync::oneshot::Receiver<u64>) -> u64 {
        tokio::select! {
            biased;
            answer = other.value() => answer.unwrap_or(0),
            answer = until => answer.unwrap_or(1),
        }
    }

    fn value(&self) -> u64 {
        7
    }
}

#[test]
fn a_race_that_somebody_else_can_win_is_no_deadlock() {
    let system = System::builder().workers(2).build().unwrap();
    let (one, other) = (system.spawn(Chooser), system.spawn(Chooser));
    assert_eq!(one.race_with_self(other).wait(), Ok(Ok(7)));
}

#[test]
fn a_wait_with_an_end_is_no_deadlock() {
    let system = System::builder().workers(1).build().unwrap();
    let timeout = ActorError::Timeout { after: Duration::from_millis(5) };
    assert_eq!(system.spawn(Chooser).own_with_timeout().wait(), Ok(Err(timeout)));
}

#[test]
fn a_dead_wait_is_told_even_beside_other_wake_ups() {
    let system = System::builder().workers(1).build().unwrap();
    let answer = system.spawn(Chooser).select_with_self().wait().unwrap();
    assert!(matches!(answer, Err(ActorError::Deadlock { .. })), "{answer:?}");
    let answers = system.spawn(Chooser).own_through_other_combinators().wait().unwrap();
    assert_eq!(answers.len(), 40);
    assert!(answers.iter().all(|answer| matches!(answer, Err(ActorError::Deadlock { .. }))), "{answers:?}");
}

#[test]
fn a_circle_through_a_turn_that_something_else_can_wake_is_left_to_it() {
    let system = System::builder().workers(2).build().unwrap();
    let (one, other) = (system.spawn(Chooser), system.spawn(Chooser));
    let (wake, until) = tokio::sync::oneshot::channel();
    // `other` waits for `one` or the channel; `one` waits for `other`, which is told nothing: the channel may end it.
    let selecting = other.select_other(one.clone(), until);
    let waiting = one.wait_for_other(other.clone());
    // Whichever suspends last closes the circle: if it is `other`, its own wait is dead and it is told.
    wake.send(3).ok();
    let selected = selecting.wait().unwrap();
    assert!([0, 3, 7].contains(&selected), "{selected}");
    assert_eq!(waiting.wait(), Ok(Ok(7)));
}

/// Asks another one once a gate is open.
struct Pausing;

#[actor]
impl Pausing {
    async fn ask_after(&mut self, gate: Promise<()>, other: PausingRef) -> Result<(), ActorError> {
        gate.await?;
        other.nothing().await
    }

    /// Something outside could wake this turn while it waits for its answer.
    async fn ask_beside(
        &mut self,
        gate: Promise<()>,
        other: PausingRef,
        kept: Sender<Waker>,
    ) -> Result<(), ActorError> {
        gate.await?;
        let (mut answer, mut is_kept) = (other.nothing(), false);
        poll_fn(|cx| {
            if !std::mem::replace(&mut is_kept, true) {
                kept.send(cx.waker().clone()).unwrap();
            }
            Pin::new(&mut answer).poll(cx)
        })
        .await
    }

    fn nothing(&self) {}
}

/// Waits no longer than a minute, so that what hangs is reported.
fn end_of<T: Send + 'static>(answer: Promise<T>) -> T {
    answer.timeout(Duration::from_secs(60)).wait().expect("every wait ends")
}

fn assert_one_is_told(answers: &[Result<(), ActorError>; 2]) {
    let told = answers.iter().filter(|answer| matches!(answer, Err(ActorError::Deadlock { .. }))).count();
    assert!(told == 1 && answers.contains(&Ok(())), "{answers:?}");
}

#[test]
fn a_circle_is_found_when_nothing_outside_can_wake_its_turns_any_more() {
    let system = System::builder().workers(1).build().unwrap();
    let [one, other, last] = [(); 3].map(|()| system.spawn(Pausing));
    let ((gate, open), (other_gate, open_other)) = (Promise::pair(), Promise::pair());
    let (keep, wakers) = mpsc::channel();
    let answers = [one.ask_beside(gate, other.clone(), keep.clone()), other.ask_beside(other_gate, one.clone(), keep)];
    open.resolve(());
    open_other.resolve(());
    let kept = [(); 2].map(|()| wakers.recv_timeout(Duration::from_secs(60)).expect("both turns go on"));
    // The only worker has ended the polls that these wakers come from before it takes this up.
    end_of(last.nothing());
    assert!(answers.iter().all(|answer| !answer.is_ready()), "something else could wake either of them");
    drop(kept);
    assert_one_is_told(&answers.map(end_of));
}

/// The thread that opens a gate is not done with the waker when the turn runs.
#[test]
fn of_two_turns_whose_gates_another_thread_opens_exactly_one_is_told() {
    let system = System::builder().workers(2).build().unwrap();
    for _ in 0..2_000 {
        let (one, other) = (system.spawn(Pausing), system.spawn(Pausing));
        let ((gate, open), (other_gate, open_other)) = (Promise::pair(), Promise::pair());
        let answers = [one.ask_after(gate, other.clone()), other.ask_after(other_gate, one.clone())];
        thread::spawn(|| {
            open.resolve(());
            open_other.resolve(());
        });
        let answers = answers.map(end_of);
        if answers != [Ok(()), Ok(())] {
            assert_one_is_told(&answers);
        }
    }
}

/// Sends to a bounded mailbox that waits.
struct Feeder;

#[actor]
impl Feeder {
    fn feed_self(&self, cx: &Cx<Self>) -> Vec<Result<(), ActorError>> {
        (0..3).map(|_| cx.handle().tell().nothing().accepted()).collect()
    }

    fn nothing(&self) {}
}

#[test]
fn a_wait_for_room_in_ones_own_mailbox_is_a_deadlock() {
    let system = System::builder().workers(1).build().unwrap();
    let feeder = system.spawn(Spec::new(Feeder).mailbox(Mailbox::bounded(2, WhenFull::Wait)));
    let sent = feeder.feed_self().wait().unwrap();
    assert_eq!(sent[..2], [Ok(()), Ok(())]);
    let Err(ActorError::Deadlock { cycle }) = &sent[2] else { panic!("{sent:?}") };
    assert_eq!(cycle.actors(), [feeder.identity()]);
}

#[test]
fn handles_of_one_actor_are_equal_whatever_they_are_used_for() {
    let system = System::builder().workers(1).build().unwrap();
    let node: NodeRef = system.spawn(Node);
    let untyped: &Handle<Node> = &node;
    assert_eq!(*untyped, *node.clone());
}
