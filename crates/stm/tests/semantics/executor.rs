//! A small executor: everything happens when the test says so, and every wake-up is counted.
use std::collections::VecDeque;
use std::future::{Future, Pending};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future to its end on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// One future, polled by hand.
pub(crate) struct Step<F> {
    future: Option<F>,
    wakes: Arc<Wakes>,
}

impl<F: Future + Unpin> Step<F> {
    pub(crate) fn new(future: F) -> Self {
        Self { future: Some(future), wakes: Arc::default() }
    }

    /// Polls, and polls again if the future has only made room for others, which is no wake-up.
    pub(crate) fn poll(&mut self) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        let future = self.future.as_mut().expect("the future was not dropped");
        let before = self.wakes.0.load(Ordering::SeqCst);
        loop {
            let polled = Pin::new(&mut *future).poll(&mut Context::from_waker(&waker));
            if polled.is_ready() || self.wakes.0.swap(before, Ordering::SeqCst) == before {
                return polled;
            }
        }
    }

    /// The future, to be driven in another way.
    pub(crate) fn into_inner(self) -> F {
        self.future.expect("the future was not dropped")
    }

    /// Drops the future.
    pub(crate) fn cancel(&mut self) {
        self.future = None;
    }

    /// Leaks the future, and keeps its wake-ups.
    pub(crate) fn forget(self) -> Step<Pending<()>> {
        std::mem::forget(self.future);
        Step { future: None, wakes: self.wakes }
    }

    /// How often the future was woken.
    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }

    /// True if anybody has kept a waker, and so may still wake the future.
    pub(crate) fn is_registered(&self) -> bool {
        Arc::strong_count(&self.wakes) > 1
    }
}

type Queue = Mutex<VecDeque<usize>>;

struct Enqueue {
    task: usize,
    queue: Arc<Queue>,
}

impl Wake for Enqueue {
    fn wake(self: Arc<Self>) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(self.task);
    }
}

/// Many futures on this thread, polled in the order in which they were woken.
#[derive(Default)]
pub(crate) struct Tasks<'a> {
    futures: Vec<Option<Pin<Box<dyn Future<Output = ()> + 'a>>>>,
    queue: Arc<Queue>,
}

impl<'a> Tasks<'a> {
    /// Adds a task, which is as good as woken.
    pub(crate) fn spawn(&mut self, future: impl Future<Output = ()> + 'a) {
        let task = self.futures.len();
        self.futures.push(Some(Box::pin(future)));
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(task);
    }

    /// Polls until nothing is woken any more. Gives the tasks in the order in which they were polled.
    pub(crate) fn run_woken(&mut self) -> Vec<usize> {
        let mut polled = Vec::new();
        loop {
            let next = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some(task) = next else { return polled };
            polled.push(task);
            let waker = Waker::from(Arc::new(Enqueue { task, queue: Arc::clone(&self.queue) }));
            let Some(future) = &mut self.futures[task] else { continue };
            if future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
                self.futures[task] = None;
            }
        }
    }

    /// How many tasks have not ended.
    pub(crate) fn count(&self) -> usize {
        self.futures.iter().flatten().count()
    }
}
