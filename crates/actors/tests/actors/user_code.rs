//! Code of the user's that the runtime runs at awkward moments, and that panics there: it harms nobody else.

use std::cell::RefCell;
use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use enact_actors::{ActorError, Cx, ExitReason, Promise, Resolver, Restarts, Spec, System, actor};

use crate::process::in_a_process_of_its_own;

/// What is thrown; its destructor throws another, so many times.
struct Thrown(u32);

impl Drop for Thrown {
    fn drop(&mut self) {
        if self.0 > 0 {
            panic_any(Thrown(self.0 - 1));
        }
    }
}

/// A value that throws when it is dropped.
struct Explosive;

impl Drop for Explosive {
    fn drop(&mut self) {
        panic_any(Thrown(2));
    }
}

fn panicked<T>() -> Result<T, ActorError> {
    Err(ActorError::CallbackPanicked { text: "a panic without text".into() })
}

/// Callbacks of a thread run one after the other: what stops one would stop all that come later.
fn assert_that_callbacks_still_run() {
    assert!(Promise::ready(1).map(|n| n + 1).is_ready());
}

#[test]
fn a_destructor_at_the_end_of_a_thread_resolves_a_promise_with_a_continuation() {
    struct ResolvesAtTheEnd(RefCell<Option<Resolver<u64>>>);
    impl Drop for ResolvesAtTheEnd {
        fn drop(&mut self) {
            self.0.take().unwrap().resolve(1);
        }
    }
    thread_local! {
        static LAST: ResolvesAtTheEnd = const { ResolvesAtTheEnd(RefCell::new(None)) };
    }
    in_a_process_of_its_own(
        "user_code::a_destructor_at_the_end_of_a_thread_resolves_a_promise_with_a_continuation",
        || {
            let (promise, resolver) = Promise::pair();
            let mapped = promise.map(|n| n + 1);
            let thread = std::thread::spawn(move || {
                LAST.with(|last| last.0.replace(Some(resolver)));
                // What the thread uses first is destroyed last.
                assert_that_callbacks_still_run();
            });
            thread.join().unwrap();
            assert_eq!(mapped.wait(), Ok(2));
        },
    );
}

#[test]
fn a_payload_whose_destructor_panics_stops_no_other_callback() {
    let (promise, resolver) = Promise::pair();
    let mapped: Promise<()> = promise.map(|()| panic_any(Thrown(2)));
    resolver.resolve(());
    assert_eq!(mapped.wait(), panicked());
    assert_that_callbacks_still_run();
}

#[test]
fn a_callback_that_is_not_called_and_whose_destructor_panics_stops_no_other_callback() {
    let explosive = Explosive;
    let mapped = Promise::failed(ActorError::Abandoned).map(move |()| drop(explosive));
    assert!(mapped.wait().is_err());
    assert_that_callbacks_still_run();
}

#[test]
fn a_copy_that_panics_with_a_payload_whose_destructor_panics_fails_its_reader_alone() {
    struct Uncopyable;
    impl Clone for Uncopyable {
        fn clone(&self) -> Self {
            panic_any(Thrown(2));
        }
    }
    let (promise, resolver) = Promise::pair();
    let (first, mapped) = (promise.clone(), promise.clone().map(drop));
    resolver.resolve(Uncopyable);
    assert_eq!(first.wait().map(drop), panicked());
    assert_eq!(mapped.wait(), panicked());
    assert!(promise.wait().is_ok());
    assert_that_callbacks_still_run();
}

#[test]
fn a_waker_that_panics_keeps_no_other_reader_waiting() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic_any(Thrown(2));
        }
    }
    #[derive(Default)]
    struct Notes(AtomicBool);
    impl Wake for Notes {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let (mut first, resolver) = Promise::pair();
    let (mut second, mapped) = (first.clone(), first.clone().map(|n: u64| n + 1));
    let notes = Arc::new(Notes::default());
    let poll = |promise: &mut Promise<u64>, waker: Waker| {
        assert!(std::pin::Pin::new(promise).poll(&mut Context::from_waker(&waker)).is_pending());
    };
    poll(&mut first, Waker::from(Arc::new(Panics)));
    poll(&mut second, Waker::from(Arc::clone(&notes)));
    resolver.resolve(1);
    assert!(notes.0.load(Ordering::SeqCst));
    assert_eq!([first.wait(), second.wait(), mapped.wait()], [Ok(1), Ok(1), Ok(2)]);
}

struct Waiting {
    n: u64,
}

#[actor]
impl Waiting {
    /// Waits with a waker that panics.
    async fn wait_in_vain(cx: Cx<Self>, waiting: Resolver<()>) {
        struct Panics;
        impl Wake for Panics {
            fn wake(self: Arc<Self>) {
                panic_any(Thrown(2));
            }
        }
        let waker = Waker::from(Arc::new(Panics));
        let mut waits = Box::pin(cx.wait_for(|waiting| waiting.n == 1));
        std::future::poll_fn(|_| {
            assert!(waits.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            std::task::Poll::Ready(())
        })
        .await;
        waiting.resolve(());
        std::future::pending::<()>().await;
    }

    fn set(&mut self, n: u64) -> u64 {
        std::mem::replace(&mut self.n, n)
    }
}

#[test]
fn a_waker_that_panics_when_the_state_changes_costs_no_worker() {
    let system = System::builder().workers(1).build().unwrap();
    let actor = system.spawn(Waiting { n: 0 });
    let (waiting, resolver) = Promise::pair();
    actor.tell().wait_in_vain(resolver);
    waiting.wait().unwrap();
    let answers = Promise::join_all([actor.set(1), actor.set(2)]).timeout(Duration::from_secs(60));
    assert_eq!(answers.wait(), Ok(vec![0, 1]));
}

#[test]
fn the_destructor_of_what_makes_an_actor_anew_may_panic() {
    let system = System::builder().workers(1).build().unwrap();
    let explosive = Explosive;
    let makes = AtomicUsize::new(0);
    let actor = system.spawn(Spec::restarting(Restarts::at_most(1, Duration::from_secs(60)), move || {
        let _explosive = &explosive;
        makes.fetch_add(1, Ordering::SeqCst);
        Waiting { n: 0 }
    }));
    let exit = actor.watch().timeout(Duration::from_secs(60));
    actor.stop();
    assert_eq!(exit.wait().map(|exit| exit.reason), Ok(ExitReason::Stopped));
    assert_eq!(system.spawn(Waiting { n: 3 }).set(4).timeout(Duration::from_secs(60)).wait(), Ok(3));
}
