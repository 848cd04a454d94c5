//! A closed loop: each client has one request under way at any time, and none for as long as the server has told it to stay
//! away.

use std::ops::Range;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::time::sleep_until;

use super::{Answer, BenchError, Client, Served, Tally};
use crate::measure::Process;

/// What the clients ask for, and how the result is verified.
pub(crate) trait Workload {
    /// What the table calls it.
    fn name(&self) -> &str;

    /// The contract that is served.
    fn contract(&self) -> &'static str;

    /// What part of the rate of locking is aimed at, with so many clients and a sync that takes so long at least.
    fn aim_of_locking(&self, clients: usize, sync_min: Option<Duration>) -> Option<f64> {
        let _ = (clients, sync_min);
        None
    }

    /// Makes what has to be there for so many clients.
    async fn open(&self, served: &Served, clients: usize) -> Result<(), BenchError>;

    /// The next request of client `number`, its `turn`th.
    fn draw(&self, number: usize, turn: u64, draws: &mut ChaCha8Rng) -> Request;

    /// Refuses a result that the acknowledged requests do not explain.
    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError>;
}

/// One event, or a read if there is no body, and how many euros it adds to what is verified.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: Option<String>,
    pub(crate) adds: i64,
}

/// How long clients ask, and how their draws begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) warm_up: Duration,
    pub(crate) length: Duration,
    pub(crate) seed: u64,
}

impl Window {
    /// Lets `clients` ask `served` for the requests of `workload`. Also returns the CPU time used within the window.
    pub(crate) async fn measure<W: Workload>(
        &self,
        served: &Served,
        workload: &W,
        clients: usize,
    ) -> Result<(Tally, CpuTime), BenchError> {
        let mut connected = Vec::with_capacity(clients);
        for _ in 0..clients {
            connected.push(Client::connect(served.address()).await?);
        }
        let start = Instant::now() + self.warm_up;
        let window = start..start + self.length;
        let work = |(number, client)| {
            let draws = ChaCha8Rng::seed_from_u64(self.seed ^ number as u64);
            work(workload, client, draws, number, window.clone())
        };
        let tallies = futures_util::future::try_join_all(connected.into_iter().enumerate().map(work));
        let cpu = async { Ok(CpuTime::within(&window, || served.cpu_time()).await) };
        let (tallies, cpu) = futures_util::future::try_join(tallies, cpu).await?;
        let mut total = Tally::new();
        tallies.iter().for_each(|tally| total.add(tally));
        Ok((total, cpu))
    }
}

/// The CPU time that was used within a window, where the system tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CpuTime {
    /// By all threads of the server.
    pub(crate) server: Option<Duration>,
    /// By the load generator.
    pub(crate) clients: Option<Duration>,
}

impl CpuTime {
    /// Waits for the end of `window`; `server` tells what the server has used so far.
    pub(crate) async fn within(window: &Range<Instant>, server: impl Fn() -> Option<Duration>) -> Self {
        let so_far = || Self { server: server(), clients: Process::own().cpu_time() };
        sleep_until(window.start.into()).await;
        let before = so_far();
        sleep_until(window.end.into()).await;
        let after = so_far();
        let used = |before: Option<Duration>, after: Option<Duration>| after?.checked_sub(before?);
        Self { server: used(before.server, after.server), clients: used(before.clients, after.clients) }
    }
}

/// Asks until the window has ended.
async fn work<W: Workload>(
    workload: &W,
    mut client: Client,
    mut draws: ChaCha8Rng,
    number: usize,
    window: Range<Instant>,
) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    for turn in 0.. {
        let Request { path, body, adds } = workload.draw(number, turn, &mut draws);
        let sent = Instant::now();
        let answer = client.send(&path, body.as_deref()).await?;
        let answered = Instant::now();
        let comes_back_after = answer.retry_after();
        let is_settled = !matches!(answer, Answer::TurnedAway { .. });
        tally.settled += u64::from(is_settled && window.contains(&answered));
        let is_measured = sent >= window.start && answered < window.end;
        tally.count(answer, adds, is_measured.then(|| answered - sent))?;
        if answered >= window.end {
            break;
        }
        if let Some(span) = comes_back_after {
            // There is no need to come back after the end.
            tokio::time::sleep(span.min(window.end - answered)).await;
        }
    }
    Ok(tally)
}
