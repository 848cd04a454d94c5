//! Promises by themselves: readers, combinators, ends.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use enact_actors::{ActorError, Cx, Forward, Promise, Resolver, System, actor};
use proptest::prelude::*;

/// A promise that stays open.
fn open<T: Send + 'static>() -> Promise<T> {
    let (promise, resolver) = Promise::pair();
    std::mem::forget(resolver);
    promise
}

#[test]
fn a_dropped_resolver_fails_its_promise() {
    let (promise, resolver) = Promise::<i64>::pair();
    drop(resolver);
    assert_eq!(promise.wait(), Err(ActorError::Abandoned));
}

#[test]
fn the_only_reader_gets_the_value_itself() {
    struct NotClone(Box<str>);
    let (promise, resolver) = Promise::pair();
    resolver.resolve(NotClone("it".into()));
    assert_eq!(&*promise.wait().unwrap().0, "it");
}

#[test]
fn many_readers_copy_the_value_once_less_than_they_are() {
    struct Counted(Arc<AtomicUsize>);
    impl Clone for Counted {
        fn clone(&self) -> Self {
            self.0.fetch_add(1, Ordering::SeqCst);
            Self(Arc::clone(&self.0))
        }
    }
    let clones = Arc::new(AtomicUsize::new(0));
    let (promise, resolver) = Promise::pair();
    let readers: Vec<_> = (0..5).map(|_| promise.clone()).collect();
    let dropped = promise.clone();
    resolver.resolve(Counted(Arc::clone(&clones)));
    let late = promise.clone();
    drop(dropped);
    assert!(readers.into_iter().chain([promise, late]).all(|reader| reader.wait().is_ok()));
    assert_eq!(clones.load(Ordering::SeqCst), 6);
}

#[test]
fn a_panic_while_a_shared_value_is_copied_fails_that_reader_alone() {
    struct Uncopyable;
    impl Clone for Uncopyable {
        fn clone(&self) -> Self {
            panic!("no copies")
        }
    }
    let (promise, resolver) = Promise::pair();
    let first = promise.clone();
    resolver.resolve(Uncopyable);
    assert_eq!(first.wait().err(), Some(ActorError::CallbackPanicked { text: "no copies".into() }));
    assert!(promise.wait().is_ok());
}

#[test]
fn a_value_that_nobody_wants_is_dropped_at_once() {
    let value = Arc::new(());
    let (promise, resolver) = Promise::pair();
    assert!(resolver.is_wanted());
    drop(promise);
    assert!(!resolver.is_wanted());
    resolver.resolve(Arc::clone(&value));
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn is_ready_tells_whether_an_answer_of_either_kind_has_come() {
    let (promise, resolver) = Promise::<()>::pair();
    assert!(!promise.is_ready());
    resolver.fail(ActorError::Abandoned);
    assert!(promise.is_ready());
}

#[test]
fn combinators_give_the_same_before_and_after_the_answer() {
    type Given = (&'static str, Result<i64, ActorError>);
    type Made = fn(Promise<i64>) -> Promise<i64>;
    let timeout = ActorError::Timeout { after: Duration::ZERO };
    let panicked = |text: &str| ActorError::CallbackPanicked { text: text.into() };
    let gone = ActorError::Abandoned;
    let rows: Vec<(Given, Made, Result<i64, ActorError>)> = vec![
        (("map", Ok(2)), |p| p.map(|n| n + 1), Ok(3)),
        (("map of an error", Err(gone.clone())), |p| p.map(|n| n + 1), Err(gone.clone())),
        (("map panics", Ok(2)), |p| p.map(|n| panic!("at {n}")), Err(panicked("at 2"))),
        (("and_then", Ok(2)), |p| p.and_then(|n| Promise::ready(n * 10)), Ok(20)),
        (("and_then fails", Ok(2)), |p| p.and_then(|_| Promise::failed(ActorError::Abandoned)), Err(gone.clone())),
        (("and_then panics", Ok(2)), |p| p.and_then(|n| panic!("at {n}")), Err(panicked("at 2"))),
        (("or_else of a value", Ok(2)), |p| p.or_else(|_| Promise::ready(9)), Ok(2)),
        (("or_else of an error", Err(timeout.clone())), |p| p.or_else(|_| Promise::ready(9)), Ok(9)),
        (("join", Ok(2)), |p| p.join(Promise::ready(5)).map(|(n, m)| n + m), Ok(7)),
        (("join fails left", Err(gone.clone())), |p| p.join(open()).map(|(n, ())| n), Err(gone.clone())),
        (
            ("join fails right", Ok(2)),
            |p| p.join(Promise::<()>::failed(ActorError::Abandoned)).map(|(n, ())| n),
            Err(gone.clone()),
        ),
        (
            ("join_all", Ok(2)),
            |p| {
                Promise::join_all([Promise::ready(1), p, Promise::ready(3)])
                    .map(|all| all[0] * 100 + all[1] * 10 + all[2])
            },
            Ok(123),
        ),
        (
            ("join_all fails at the first error", Err(gone.clone())),
            |p| Promise::join_all([open(), p]).map(|all| all[0]),
            Err(gone.clone()),
        ),
        (("race", Ok(2)), |p| Promise::race([open(), p]), Ok(2)),
        (("race of nobody", Ok(2)), |_| Promise::race([]), Err(gone.clone())),
        (("timeout in time", Ok(2)), |p| p.timeout(Duration::from_secs(60)), Ok(2)),
        (("timeout of an error", Err(gone.clone())), |p| p.timeout(Duration::from_secs(60)), Err(gone.clone())),
        (("timeout late", Ok(2)), |_| open().timeout(Duration::ZERO), Err(timeout)),
    ];
    for ((what, given), make, expected) in rows {
        let settled = make(given.clone().map_or_else(Promise::failed, Promise::ready));
        assert_eq!(settled.wait(), expected, "{what}, settled before");
        let (promise, resolver) = Promise::pair();
        let made = make(promise);
        match given {
            Ok(value) => resolver.resolve(value),
            Err(error) => resolver.fail(error),
        }
        assert_eq!(made.wait(), expected, "{what}, settled after");
    }
}

#[test]
fn a_race_is_won_by_the_first_answer() {
    let (slow, _open) = Promise::pair();
    let (fast, resolver) = Promise::pair();
    let race = Promise::race([slow, fast]);
    assert!(!race.is_ready());
    resolver.resolve(1);
    assert_eq!(race.wait(), Ok(1));
}

#[test]
fn joining_nothing_is_ready() {
    assert_eq!(Promise::<i64>::join_all([]).wait(), Ok(vec![]));
}

#[test]
fn callbacks_run_once_each_in_the_order_they_were_given() {
    let (promise, resolver) = Promise::pair();
    let log = Arc::new(std::sync::Mutex::new(Vec::new()));
    let readers: Vec<_> = (0..4)
        .map(|reader| {
            let log = Arc::clone(&log);
            promise.clone().map(move |n: i64| log.lock().unwrap().push((reader, n)))
        })
        .collect();
    resolver.resolve(7);
    assert_eq!(*log.lock().unwrap(), [(0, 7), (1, 7), (2, 7), (3, 7)]);
    assert!(readers.into_iter().all(|reader| reader.wait().is_ok()));
}

#[test]
fn a_chain_of_any_length_needs_a_constant_amount_of_stack() {
    let (promise, resolver) = Promise::pair();
    let mut end = promise;
    for _ in 0..200_000 {
        end = end.map(|n: u64| n + 1);
    }
    resolver.resolve(0);
    assert_eq!(end.wait(), Ok(200_000));
}

#[test]
fn a_promise_is_awaited_in_other_executors() {
    let (promise, resolver) = Promise::pair();
    let waiting = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(promise)
    });
    resolver.resolve("there");
    assert_eq!(waiting.join().unwrap(), Ok("there"));
}

#[tokio::test]
async fn a_promise_dropped_while_awaited_leaves_nothing_behind() {
    let (promise, resolver) = Promise::<()>::pair();
    let shared = promise.clone();
    for _ in 0..1000 {
        let mut reader = promise.clone();
        poll_fn(|cx| {
            assert!(std::pin::Pin::new(&mut reader).poll(cx).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    resolver.resolve(());
    assert_eq!(shared.await, Ok(()));
    assert_eq!(promise.await, Ok(()));
}

#[test]
fn wait_on_a_worker_is_refused_with_a_hint() {
    struct Impatient;
    #[actor]
    impl Impatient {
        fn block(&self) {
            drop(Promise::ready(1).wait());
        }
    }
    let system = System::builder().workers(1).build().unwrap();
    let Err(ActorError::Panicked { text, .. }) = system.spawn(Impatient).block().wait() else { panic!() };
    assert!(text.contains("call(cx)"), "{text}");
}

/// Answers later than it is asked.
struct Deferring {
    waiting: Vec<Resolver<i64>>,
}

#[actor]
impl Deferring {
    fn ask(&mut self, cx: &Cx<Self>) -> Forward<i64> {
        let (promise, resolver) = Promise::pair();
        self.waiting.push(resolver);
        cx.forward(promise)
    }

    async fn answer(cx: Cx<Self>, count: usize, n: i64) {
        cx.wait_for(|deferring| deferring.waiting.len() == count).await;
        cx.with(|deferring| deferring.waiting.drain(..).for_each(|resolver| resolver.resolve(n)));
    }

    async fn ask_other(cx: Cx<Self>, other: DeferringRef) -> Forward<i64> {
        cx.yield_now().await;
        other.forward(&cx).ask()
    }
}

#[test]
fn an_answer_can_be_given_by_a_later_turn() {
    let system = System::builder().workers(1).build().unwrap();
    let deferring = system.spawn(Deferring { waiting: vec![] });
    let through = system.spawn(Deferring { waiting: vec![] });
    let answers = Promise::join_all([deferring.ask(), deferring.ask(), through.ask_other(deferring.clone())]);
    assert!(!answers.is_ready());
    deferring.tell().answer(3, 5);
    assert_eq!(answers.wait(), Ok(vec![5, 5, 5]));
}

#[test]
fn an_answer_that_is_given_up_by_a_stop_fails() {
    let system = System::builder().workers(1).build().unwrap();
    let deferring = system.spawn(Deferring { waiting: vec![] });
    let answer = deferring.ask();
    deferring.stop();
    assert_eq!(answer.wait(), Err(ActorError::Abandoned));
}

proptest! {
    /// Any tree of combinators over promises gives what the same tree gives over plain results, in whatever order the
    /// promises are kept.
    #[test]
    fn combinators_agree_with_plain_results(values in prop::collection::vec(prop::option::of(0..100i64), 1..8), order in any::<u64>()) {
        let (promises, mut resolvers): (Vec<_>, Vec<_>) = values.iter().map(|_| Promise::<i64>::pair()).unzip();
        let made = Promise::join_all(promises.into_iter().enumerate().map(|(at, promise)| match at % 3 {
            0 => promise.map(|n| n + 1),
            1 => promise.and_then(|n| Promise::ready(n).map(|n| n * 2)),
            _ => promise.or_else(|_| Promise::ready(-1)),
        }));
        let expected: Option<Vec<i64>> = values.iter().enumerate().map(|(at, value)| match at % 3 {
            0 => value.map(|n| n + 1),
            1 => value.map(|n| n * 2),
            _ => value.or(Some(-1)),
        }).collect();
        let mut state = order;
        let mut left = values.clone();
        while !resolvers.is_empty() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = (state >> 33) as usize % resolvers.len();
            let resolver = resolvers.swap_remove(at);
            match left.swap_remove(at) {
                Some(value) => resolver.resolve(value),
                None => drop(resolver),
            }
        }
        prop_assert_eq!(made.wait().ok(), expected);
    }
}
