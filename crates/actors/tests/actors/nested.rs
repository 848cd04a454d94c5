//! A held turn whose answer comes from the next actor in line has it taken up at once, on the same thread, if that is a
//! turn without a context. Nothing but the time shows that: what may happen meanwhile may happen here, too.

use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, OnPanic, Promise, Resolver, Spec, System, actor};

/// One worker: whom it sends to is next in line.
fn system() -> System {
    System::builder().workers(1).build().unwrap()
}

/// What the asked actor does before it answers.
type Act = Box<dyn FnOnce(&Cx<Asked>) + Send>;

/// The same without a context.
type Alone = Box<dyn FnOnce() + Send>;

/// Answers on the thread of the turn that awaits it.
struct Asked;

#[actor]
impl Asked {
    fn answer(&self, cx: &Cx<Self>, act: Act) -> u32 {
        act(cx);
        1
    }
    fn answer_alone(&self, act: Alone) -> u32 {
        act();
        1
    }
    async fn answer_held(&mut self, act: Alone) -> u32 {
        act();
        1
    }
    async fn answer_after(&mut self, first: Promise<u32>) -> u32 {
        first.await.unwrap() + 1
    }
    async fn answer_beside_others(cx: Cx<Self>, act: Act) -> u32 {
        act(&cx);
        cx.yield_now().await;
        cx.with(|_| 1)
    }
    async fn number(&self) -> u32 {
        1
    }
}

/// Awaits answers in turns that hold it.
struct Asking {
    asked: AskedRef,
    went_on: Arc<AtomicBool>,
}

#[actor]
impl Asking {
    async fn ask(&mut self, act: Act) -> Result<u32, ActorError> {
        let answer = self.asked.answer(act).await;
        self.went_on.store(true, Ordering::SeqCst);
        answer
    }
    async fn ask_alone(&mut self, act: Alone) -> Result<u32, ActorError> {
        let answer = self.asked.answer_alone(act).await;
        self.went_on.store(true, Ordering::SeqCst);
        answer
    }
    async fn ask_held(&mut self, act: Alone) -> Result<u32, ActorError> {
        let answer = self.asked.answer_held(act).await;
        self.went_on.store(true, Ordering::SeqCst);
        answer
    }
    async fn ask_after(&mut self, first: Promise<u32>) -> Result<u32, ActorError> {
        let answer = self.asked.answer_after(first).await;
        self.went_on.store(true, Ordering::SeqCst);
        answer
    }
    async fn ask_beside_others(&mut self, act: Act) -> Result<u32, ActorError> {
        self.asked.answer_beside_others(act).await
    }
    /// Takes other messages meanwhile.
    async fn ask_and_take_others(cx: Cx<Self>, act: Alone) -> u32 {
        let asked = cx.with(|asking| asking.asked.clone());
        asked.answer_alone(act).await.unwrap()
    }
    /// Becomes another while it is answered. Returns whether it is that one then.
    async fn ask_and_become(cx: Cx<Self>) -> bool {
        let (asked, another) = (cx.with(|asking| asking.asked.clone()), Arc::new(AtomicBool::new(false)));
        cx.become_next(Asking { asked: asked.clone(), went_on: Arc::clone(&another) });
        asked.answer_alone(Box::new(|| ())).await.unwrap();
        cx.with(|asking| Arc::ptr_eq(&asking.went_on, &another))
    }
    /// Awaits answers until it is told otherwise.
    async fn ask_until(&mut self, enough: Arc<AtomicBool>) -> u64 {
        let mut answers = 0;
        while !enough.load(Ordering::SeqCst) {
            answers += u64::from(self.asked.number().await.unwrap());
        }
        answers
    }
    fn set(&self, flag: Arc<AtomicBool>) {
        flag.store(true, Ordering::SeqCst);
    }
}

/// A way to ask for an answer that may be taken up at once.
type Way = fn(&AskingRef, Alone) -> Promise<Result<u32, ActorError>>;

const WAYS: [Way; 2] = [AskingRef::ask_alone, AskingRef::ask_held];

fn asking(system: &System) -> (AskingRef, AskedRef, Arc<AtomicBool>) {
    let (asked, went_on) = (system.spawn(Asked), Arc::new(AtomicBool::new(false)));
    let asking = system.spawn(Asking { asked: asked.clone(), went_on: Arc::clone(&went_on) });
    (asking, asked, went_on)
}

#[test]
fn a_turn_that_is_killed_while_it_is_answered_does_not_go_on() {
    for ask in WAYS {
        let system = system();
        let (asking, _asked, went_on) = asking(&system);
        let exit = asking.watch();
        let victim = asking.clone();
        let answer = ask(&asking, Box::new(move || victim.kill()));
        assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
        assert_eq!(exit.wait().unwrap().reason, ExitReason::Stopped);
        assert!(!went_on.load(Ordering::SeqCst));
    }
}

#[test]
fn a_turn_whose_actor_fails_with_the_one_that_answers_does_not_go_on() {
    for ask in WAYS {
        let system = system();
        let (asking, asked, went_on) = asking(&system);
        let linked = asking.clone();
        asked.run(move |_, cx| cx.link(&linked)).wait().unwrap();
        let exit = asking.watch();
        let answer = ask(&asking, Box::new(|| panic!("on purpose")));
        assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
        let reason = exit.wait().unwrap().reason;
        assert!(matches!(reason, ExitReason::Failed { because_of } if because_of == asked.identity()));
        assert!(!went_on.load(Ordering::SeqCst));
    }
}

#[test]
fn a_turn_that_answers_after_a_wait_of_its_own_holds_nobody_else_up() {
    let system = system();
    let (asking, _asked, went_on) = asking(&system);
    let (first, resolver) = Promise::pair();
    let answer = asking.ask_after(first);
    let other = system.spawn(Gate);
    assert_eq!(other.number().wait(), Ok(1));
    assert!(!went_on.load(Ordering::SeqCst));
    resolver.resolve(6);
    assert_eq!(answer.wait(), Ok(Ok(7)));
    assert!(went_on.load(Ordering::SeqCst));
}

#[test]
fn a_turn_that_is_killed_while_the_one_that_answers_waits_does_not_go_on() {
    let system = system();
    let (asking, _asked, went_on) = asking(&system);
    let (first, resolver) = Promise::pair();
    let answer = asking.ask_after(first);
    asking.kill();
    assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
    resolver.resolve(6);
    assert!(!went_on.load(Ordering::SeqCst));
}

#[test]
fn a_panic_of_the_turn_that_answers_is_the_answer() {
    let system = system();
    let (asking, asked, _) = asking(&system);
    let answer = asking.ask(Box::new(|_| panic!("on purpose"))).wait().unwrap();
    assert!(matches!(answer, Err(ActorError::Panicked { actor, .. }) if actor == asked.identity()));
    assert!(matches!(asking.ask(Box::new(|_| ())).wait(), Ok(Err(ActorError::Stopped { .. }))));
}

#[test]
fn a_child_of_the_turn_that_answers_escalates_to_its_actor() {
    let system = system();
    let (asking, asked, _) = asking(&system);
    let exit = asked.watch();
    let act = |cx: &Cx<Asked>| {
        let child = cx.spawn(Spec::new(Asked).on_panic(OnPanic::Escalate));
        child.tell().answer(Box::new(|_| panic!("on purpose")));
    };
    assert!(asking.ask_beside_others(Box::new(act)).wait().is_ok());
    assert!(matches!(exit.wait().unwrap().reason, ExitReason::Failed { .. }));
    assert!(!asking.has_ended());
}

#[test]
fn a_timer_of_the_turn_that_answers_rings_for_its_actor() {
    let system = system();
    let (asking, asked, _) = asking(&system);
    let (tell, told) = mpsc::channel();
    let act = move |cx: &Cx<Asked>| _ = cx.after(Duration::ZERO, move |_, cx| tell.send(cx.id()).unwrap());
    assert_eq!(asking.ask(Box::new(act)).wait(), Ok(Ok(1)));
    assert_eq!(told.recv(), Ok(asked.id()));
}

#[test]
fn the_turn_that_answers_may_block_its_thread() {
    let system = system();
    let (asking, _, _) = asking(&system);
    let (gate, opened) = (system.spawn(Gate), Arc::new(AtomicBool::new(false)));
    let (promise, resolver) = Promise::pair();
    let passing = gate.pass(promise);
    let is_open = Arc::clone(&opened);
    let act = move |cx: &Cx<Asked>| {
        // Only another thread can do this once this one is blocked.
        let opener = cx.spawn(Opener);
        opener.tell().open(resolver, is_open);
        assert_eq!(gate.call(cx).number(), Ok(1));
    };
    assert_eq!(asking.ask(Box::new(act)).wait(), Ok(Ok(1)));
    assert!(opened.load(Ordering::SeqCst));
    assert_eq!(passing.wait(), Ok(7));
    // The worker is whole again.
    assert_eq!(asking.ask(Box::new(|_| ())).wait(), Ok(Ok(1)));
}

/// Holds itself until it is opened.
struct Gate;

#[actor]
impl Gate {
    async fn pass(&mut self, opened: Promise<u32>) -> u32 {
        opened.await.unwrap()
    }
    fn number(&self) -> u32 {
        1
    }
}

struct Opener;

#[actor]
impl Opener {
    fn open(&mut self, gate: Resolver<u32>, opened: Arc<AtomicBool>) {
        opened.store(true, Ordering::SeqCst);
        gate.resolve(7);
    }
}

struct Ender;

#[actor]
impl Ender {
    async fn end(&mut self, victim: AskingRef) -> ExitReason {
        victim.kill();
        victim.watch().await.unwrap().reason
    }
}

#[test]
fn a_turn_that_blocks_until_the_one_that_it_answers_is_gone_goes_on() {
    let system = system();
    let (asking, _asked, went_on) = asking(&system);
    let (victim, ender) = (asking.clone(), system.spawn(Ender));
    let (tell, told) = mpsc::channel();
    let answer = asking.ask(Box::new(move |cx| tell.send(ender.call(cx).end(victim)).unwrap()));
    assert_eq!(told.recv().unwrap(), Ok(ExitReason::Stopped));
    assert!(matches!(answer.wait(), Err(ActorError::Stopped { .. })));
    assert!(!went_on.load(Ordering::SeqCst));
}

#[test]
fn a_turn_that_answers_by_calling_the_one_that_waits_is_told_of_the_deadlock() {
    let system = system();
    let (asking, asked, _) = asking(&system);
    let (tell, told) = mpsc::channel();
    let caller = asking.clone();
    let act = move |cx: &Cx<Asked>| {
        tell.send(caller.call(cx).set(Arc::default())).unwrap();
    };
    assert_eq!(asking.ask(Box::new(act)).wait(), Ok(Ok(1)));
    let Err(ActorError::Deadlock { cycle }) = told.recv().unwrap() else { panic!("a call in a circle has succeeded") };
    assert!(cycle.actors().contains(&asking.identity()) && cycle.actors().contains(&asked.identity()));
}

#[test]
fn two_actors_that_answer_each_other_without_end_leave_room_for_others() {
    let system = system();
    let [(asking, ..), (other, ..)] = [(); 2].map(|()| asking(&system));
    let enough = Arc::new(AtomicBool::new(false));
    let answers = asking.ask_until(Arc::clone(&enough));
    other.tell().set(enough);
    assert!(answers.wait().is_ok());
}

#[test]
fn others_are_taken_while_a_cooperative_turn_is_answered() {
    let system = System::builder().workers(2).build().unwrap();
    let (asking, _asked, went_on) = asking(&system);
    let ((begin, begun), (open, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let act = move || {
        begin.send(()).unwrap();
        gate.recv().unwrap();
    };
    let answer = asking.ask_and_take_others(Box::new(act));
    begun.recv().unwrap();
    assert_eq!(asking.set(went_on).timeout(Duration::from_secs(60)).wait(), Ok(()));
    open.send(()).unwrap();
    assert_eq!(answer.wait(), Ok(1));
}

#[test]
fn an_actor_has_become_another_when_a_cooperative_turn_of_its_is_answered() {
    let system = system();
    let (asking, ..) = asking(&system);
    assert_eq!(asking.ask_and_become().wait(), Ok(true));
}

/// Awaits its next one before it answers.
struct Link {
    next: Option<LinkRef>,
}

#[actor]
impl Link {
    async fn length(&mut self) -> u32 {
        match &self.next {
            Some(next) => next.length().await.unwrap() + 1,
            None => 1,
        }
    }
}

#[test]
fn a_chain_of_a_thousand_held_turns_is_answered() {
    let system = system();
    let mut first = system.spawn(Link { next: None });
    for _ in 1..1000 {
        first = system.spawn(Link { next: Some(first) });
    }
    assert_eq!(first.length().wait(), Ok(1000));
    assert_eq!(first.length().wait(), Ok(1000), "none is left held");
}

#[test]
fn an_actor_whose_last_handle_goes_while_it_is_answered_ends_after_its_turn() {
    let system = system();
    let (asking, _asked, went_on) = asking(&system);
    let exit = asking.watch();
    let last = asking.clone();
    let answer = asking.ask(Box::new(move |_| drop(last)));
    drop(asking);
    assert_eq!(answer.wait(), Ok(Ok(1)));
    assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
    assert!(went_on.load(Ordering::SeqCst));
}

/// Leaves its wakers with others.
struct Forgetful;

#[actor]
impl Forgetful {
    async fn leave_a_waker(_cx: Cx<Self>) -> Waker {
        poll_fn(|cx| Poll::Ready(cx.waker().clone())).await
    }
    async fn count_polls_until(_cx: Cx<Self>, end: Arc<AtomicBool>, wakers: mpsc::Sender<Waker>) -> u32 {
        let mut polls = 0;
        poll_fn(move |cx| {
            polls += 1;
            if end.load(Ordering::SeqCst) {
                return Poll::Ready(polls);
            }
            wakers.send(cx.waker().clone()).unwrap();
            Poll::Pending
        })
        .await
    }
    fn touch(&self) {}
}

#[test]
fn a_waker_that_is_kept_wakes_no_later_turn() {
    let system = system();
    let forgetful = system.spawn(Forgetful);
    let kept = forgetful.leave_a_waker().wait().unwrap();
    let (end, (tell, wakers)) = (Arc::new(AtomicBool::new(false)), mpsc::channel());
    let polls = forgetful.count_polls_until(Arc::clone(&end), tell);
    let own = wakers.recv().unwrap();
    assert!(!own.will_wake(&kept));
    kept.wake();
    // A turn that was woken has been polled before this is answered.
    forgetful.touch().wait().unwrap();
    end.store(true, Ordering::SeqCst);
    own.wake();
    assert_eq!(polls.wait(), Ok(2));
}
