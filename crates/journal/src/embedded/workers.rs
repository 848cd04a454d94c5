//! A few threads that run jobs which wait for the disk, so that no caller's thread does.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use enact_sync::{Condvar, Mutex};

type Job = Box<dyn FnOnce() + Send>;

/// Threads that take jobs in order; dropping them runs what is queued and waits for its end.
pub(super) struct Workers {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

struct State {
    jobs: VecDeque<Job>,
    is_ending: bool,
}

impl Workers {
    /// Starts `count` threads.
    pub(super) fn start(name: &str, count: usize) -> io::Result<Self> {
        let state = Mutex::new(State { jobs: VecDeque::new(), is_ending: false });
        let queue = Arc::new(Queue { state, work: Condvar::new() });
        let mut workers = Self { queue, threads: Vec::with_capacity(count) };
        for _ in 0..count {
            let queue = Arc::clone(&workers.queue);
            let run = move || {
                while let Some(job) = queue.next() {
                    // A job that panics drops its reply, which answers its caller.
                    if catch_unwind(AssertUnwindSafe(job)).is_err() {
                        tracing::error!("a job of the journal has panicked");
                    }
                }
            };
            workers.threads.push(thread::Builder::new().name(name.to_owned()).spawn(run)?);
        }
        Ok(workers)
    }

    /// Queues a job.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.queue.state.lock().jobs.push_back(Box::new(job));
        self.queue.work.notify_one();
    }
}

impl Queue {
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.is_ending {
                return None;
            }
            state = self.work.wait(state);
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.state.lock().is_ending = true;
        for _ in &self.threads {
            self.queue.work.notify_one();
        }
        for thread in self.threads.drain(..) {
            thread.join().expect("jobs cannot end their thread");
        }
    }
}
