//! The place where an answer arrives: one that settles, several that read.
use enact_actors::{ActorError, Promise};
use enact_sync::thread;
use enact_sync::unmodelled::Arc;

use crate::explore;

#[test]
fn an_answer_beside_a_wait_is_not_missed() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let settler = thread::spawn(move || resolver.resolve(7));
        assert_eq!(promise.wait(), Ok(7));
        settler.join().expect("it does not panic");
    });
}

#[test]
fn a_resolver_dropped_beside_a_wait_fails_the_promise() {
    explore(|| {
        let (promise, resolver) = Promise::<u32>::pair();
        let settler = thread::spawn(move || drop(resolver));
        assert_eq!(promise.wait(), Err(ActorError::Abandoned));
        settler.join().expect("it does not panic");
    });
}

#[test]
fn all_readers_get_the_answer_and_one_that_gives_up_takes_nothing_from_the_others() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let (other, gives_up) = (promise.clone(), promise.clone());
        let value = Arc::new(7);
        let kept = Arc::clone(&value);
        let settler = thread::spawn(move || resolver.resolve(value));
        let reader = thread::spawn(move || other.wait());
        drop(gives_up);
        let mine = promise.wait();
        settler.join().expect("it does not panic");
        assert_eq!(mine, reader.join().expect("it does not panic"));
        assert_eq!(mine.as_deref(), Ok(&7));
        drop(mine);
        assert_eq!(Arc::strong_count(&kept), 1, "nobody keeps what all have read");
    });
}

#[test]
fn an_answer_that_nobody_reads_is_dropped() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let value = Arc::new(7);
        let kept = Arc::clone(&value);
        let settler = thread::spawn(move || resolver.resolve(value));
        drop(promise);
        settler.join().expect("it does not panic");
        assert_eq!(Arc::strong_count(&kept), 1);
    });
}

#[test]
fn a_continuation_beside_the_answer_runs_once() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let settler = thread::spawn(move || resolver.resolve(Arc::new(7)));
        let counted = Arc::new(());
        let counts = Arc::clone(&counted);
        let derived = promise.map(move |value| (value, counts)).map(|(value, counts)| (*value, counts));
        let (value, counts) = derived.wait().expect("the answer comes");
        settler.join().expect("it does not panic");
        drop(counts);
        assert_eq!((value, Arc::strong_count(&counted)), (7, 1));
    });
}
