//! The time that threads spend on connections, shared fairly among clients.
//!
//! # Problem
//! A runtime polls its tasks in the order in which they were woken, so a client would have as many turns as connections: one
//! request would wait for a poll of each of two thousand connections that flood the server.
//!
//! # Rule
//! A connection is no task of the runtime. When it is woken it joins the queue of its client ([`queues`]), and a few tasks, the
//! *runners*, one a thread, poll the connections that are next. A runner lets the runtime look for events every [`QUANTUM`], so
//! a client that was quiet waits for that long, and for one poll, however many connections of others are runnable.
//!
//! # Nothing waits for ever
//! A connection that becomes runnable wakes a runner that rests. A runner rests only when no connection is runnable, which it
//! sees under the lock under which connections become runnable.

mod queues;
mod waits;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_task::Runnable;
use parking_lot::Mutex;
use tokio::task::{coop, yield_now};
use tracing::error;

use self::queues::Queues;
pub(crate) use self::waits::Waits;
use crate::places::Client;

/// How long a runner polls connections before the runtime looks for events.
const QUANTUM: Duration = Duration::from_micros(100);

/// Polls connections until it is dropped and the last of them has ended.
#[derive(Debug)]
pub(crate) struct Processor {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    waits: Arc<Waits>,
}

#[derive(Debug)]
struct State {
    /// Runnable connections, and since when.
    queues: Queues<(Runnable, Instant)>,
    /// The wakers of runners that rest.
    resting: Vec<Waker>,
    runners: usize,
    connections: usize,
    is_closing: bool,
}

/// A connection that has not ended.
struct Open(Arc<Shared>);

/// A task that polls connections.
struct Runner(Arc<Shared>);

impl Processor {
    /// Starts `runners` runners.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn start(runners: usize) -> Self {
        let state = State { queues: Queues::new(), resting: Vec::new(), runners, connections: 0, is_closing: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), waits: Arc::new(Waits::new()) });
        for _ in 0..runners {
            tokio::spawn(Runner(Arc::clone(&shared)).run());
        }
        Self { shared }
    }

    /// How long connections wait.
    pub(crate) fn waits(&self) -> &Arc<Waits> {
        &self.shared.waits
    }

    /// Polls `connection`, of `client`, until it has ended. Its panics are logged.
    pub(crate) fn spawn(&self, client: Client, connection: impl Future<Output = ()> + Send + 'static) {
        self.shared.state.lock().connections += 1;
        let open = Open(Arc::clone(&self.shared));
        let shared = Arc::clone(&self.shared);
        let (runnable, task) = async_task::spawn(
            async move {
                let _open = open;
                connection.await;
            },
            move |runnable| shared.push(client, runnable),
        );
        task.detach();
        runnable.schedule();
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.shared.state.lock().is_closing = true;
        self.shared.wake_all_if_ended();
    }
}

impl Shared {
    fn push(&self, client: Client, runnable: Runnable) {
        let mut state = self.state.lock();
        if state.runners == 0 {
            drop(state);
            // The runtime has ended: so does the connection.
            drop(runnable);
            return;
        }
        state.queues.push(client, (runnable, Instant::now()));
        let runner = state.resting.pop();
        drop(state);
        runner.into_iter().for_each(Waker::wake);
    }

    fn wake_all_if_ended(&self) {
        let mut state = self.state.lock();
        let resting = if state.has_ended() { std::mem::take(&mut state.resting) } else { Vec::new() };
        drop(state);
        resting.into_iter().for_each(Waker::wake);
    }
}

impl State {
    fn has_ended(&self) -> bool {
        self.is_closing && self.connections == 0
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.state.lock().connections -= 1;
        self.0.wake_all_if_ended();
    }
}

impl Runner {
    async fn run(self) {
        let mut since = Instant::now();
        let mut ended = None;
        while let Some((client, (runnable, ready))) = std::future::poll_fn(|cx| self.next(&mut ended, cx)).await {
            let begin = Instant::now();
            self.0.waits.note(begin - ready);
            if catch_unwind(AssertUnwindSafe(|| runnable.run())).is_err() {
                error!("a connection panicked, and is closed");
            }
            let end = Instant::now();
            ended = Some((client, u64::try_from((end - begin).as_nanos()).unwrap_or(u64::MAX)));
            if end - since >= QUANTUM || !coop::has_budget_remaining() {
                yield_now().await;
                since = Instant::now();
            }
        }
    }

    /// The connection to poll next, after the poll that has `ended`; none if there will be no more.
    fn next(
        &self,
        ended: &mut Option<(Client, u64)>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<(Client, (Runnable, Instant))>> {
        let mut state = self.0.state.lock();
        if let Some((client, cost)) = ended.take() {
            state.queues.end(client, cost);
        }
        if let Some(next) = state.queues.begin() {
            return Poll::Ready(Some(next));
        }
        if state.has_ended() {
            return Poll::Ready(None);
        }
        state.resting.push(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.runners -= 1;
        let abandoned = if state.runners == 0 { state.queues.take_all() } else { Vec::new() };
        drop(state);
        drop(abandoned);
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::runtime::Builder;
    use tokio::sync::oneshot;

    use super::*;

    fn client(last: u8) -> Client {
        Client::at(IpAddr::from([10, 0, 0, last]))
    }

    /// Waits until no connection of `processor` is left.
    async fn ended(processor: &Processor) {
        while processor.shared.state.lock().connections > 0 {
            yield_now().await;
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_request_waits_for_few_polls_of_two_thousand_connections_that_flood_the_server() {
        const ROUNDS: usize = 100;
        let processor = Processor::start(1);
        let (polls, is_over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        for _ in 0..2_000 {
            let (polls, is_over) = (Arc::clone(&polls), Arc::clone(&is_over));
            processor.spawn(client(1), async move {
                while is_over.load(Ordering::Relaxed) == 0 {
                    let begin = Instant::now();
                    while begin.elapsed() < Duration::from_micros(20) {}
                    polls.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            });
        }
        let (begin, begun) = oneshot::channel();
        let total = Arc::clone(&polls);
        processor.spawn(client(2), async move {
            let before = total.load(Ordering::Relaxed);
            for _ in 0..ROUNDS {
                yield_now().await;
            }
            is_over.store(1, Ordering::Relaxed);
            begin.send(total.load(Ordering::Relaxed) - before).expect("the test waits");
        });
        let polls = begun.await.expect("it ends");
        assert!(polls <= 20 * ROUNDS, "{polls} polls of the flood for {ROUNDS} of a quiet client");
        ended(&processor).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_panic_ends_its_connection_alone() {
        let processor = Processor::start(1);
        processor.spawn(client(1), async { panic!("a poll that fails") });
        let (answer, answered) = oneshot::channel();
        processor.spawn(client(1), async move { answer.send(()).expect("the test waits") });
        answered.await.expect("the other connection goes on");
        ended(&processor).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn runners_end_after_the_last_connection_of_a_dropped_processor() {
        let processor = Processor::start(3);
        let (go_on, gone_on) = oneshot::channel::<()>();
        processor.spawn(client(1), async move { gone_on.await.expect("sent") });
        let shared = Arc::clone(&processor.shared);
        drop(processor);
        for _ in 0..100 {
            yield_now().await;
        }
        assert_eq!(shared.state.lock().runners, 3);
        go_on.send(()).expect("the connection waits");
        while shared.state.lock().runners > 0 {
            yield_now().await;
        }
    }

    #[test]
    fn connections_end_with_their_runtime() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("a runtime");
        let (answer, answered) = oneshot::channel::<()>();
        let (wake, woken) = oneshot::channel::<()>();
        let processor = runtime.block_on(async { Processor::start(2) });
        processor.spawn(client(1), async move {
            let _held = answer;
            woken.await.expect_err("nothing is sent");
            std::future::pending::<()>().await;
        });
        drop(runtime);
        drop(wake);
        assert!(answered.blocking_recv().is_err(), "the connection is dropped when it would be polled");
        assert_eq!(processor.shared.state.lock().connections, 0);
    }
}
