//! The place where an answer arrives: one that settles, several that read.
use enact_actors::{ActorError, Promise};
use enact_sync::atomic::{AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;
use enact_sync::{Mutex, thread};

use crate::explore;

//   waiter                               settler
//   looks: empty
//                                        resolves
//   sleeps <- must see it, or be woken
#[test]
fn an_answer_beside_a_wait_is_not_missed() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let settler = thread::spawn(move || resolver.resolve(7));
        assert_eq!(promise.wait(), Ok(7));
        settler.join().expect("it does not panic");
    });
}

//   waiter                               settler
//   looks: empty
//                                        drops the resolver
//   sleeps <- must see it, or be woken
#[test]
fn a_resolver_dropped_beside_a_wait_fails_the_promise() {
    explore(|| {
        let (promise, resolver) = Promise::<u32>::pair();
        let settler = thread::spawn(move || drop(resolver));
        assert_eq!(promise.wait(), Err(ActorError::Abandoned));
        settler.join().expect("it does not panic");
    });
}

//   here                                    settler    reader
//   one handle gives up                     resolves   waits
//   waits <- both read 7, nobody keeps it
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

//   here                settler
//   drops the promise   resolves             <- one of the two drops the value
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

//   here                      settler
//   attaches a continuation   resolves             <- one of the two runs it
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

/// Its copy asks for another one, of the promise that it is the answer of.
struct Curious {
    same: Arc<Mutex<Option<Promise<Curious>>>>,
    /// How deep copies are nested.
    depth: usize,
}

impl Clone for Curious {
    fn clone(&self) -> Self {
        let same = self.same.lock().take();
        let depth = same.map_or(0, |same| same.clone().wait().map_or(0, |other| other.depth + 1));
        Self { same: Arc::clone(&self.same), depth }
    }
}

//   here                                               reader
//   copies the answer                                  copies the answer
//   reads the promise in its copy <- no lock is held
#[test]
fn a_copy_reads_the_promise_whose_answer_it_copies() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let (other, same) = (promise.clone(), promise.clone());
        let settler = thread::spawn(move || {
            let same = Arc::new(Mutex::new(Some(same)));
            resolver.resolve(Curious { same, depth: 0 });
        });
        let reader = thread::spawn(move || other.wait().expect("the answer comes").depth);
        let depths = [promise.wait().expect("the answer comes").depth, reader.join().expect("it does not panic")];
        settler.join().expect("it does not panic");
        assert_eq!(depths.iter().sum::<usize>(), 1, "one copy is made inside of another one");
    });
}

/// Its first two copies are made at the same time.
struct Met(Arc<AtomicUsize>);

impl Clone for Met {
    fn clone(&self) -> Self {
        if self.0.fetch_add(1, Ordering::SeqCst) < 2 {
            while self.0.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        }
        Self(Arc::clone(&self.0))
    }
}

//   reader 1          reader 2
//   begins its copy   begins its copy
//   ends it           ends it              <- neither waits for the other
#[test]
fn readers_copy_an_answer_side_by_side() {
    explore(|| {
        let (promise, resolver) = Promise::pair();
        let copies = Arc::new(AtomicUsize::new(0));
        resolver.resolve(Met(Arc::clone(&copies)));
        let readers = [promise.clone(), promise.clone()].map(|reader| thread::spawn(move || reader.wait().is_ok()));
        assert!(promise.wait().is_ok());
        assert!(readers.into_iter().all(|reader| reader.join().expect("it does not panic")));
        assert!(copies.load(Ordering::SeqCst) >= 2);
        assert_eq!(Arc::strong_count(&copies), 1, "nobody keeps what all have read");
    });
}
