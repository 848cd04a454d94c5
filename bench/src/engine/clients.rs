//! Clients that submit one command after the other: the one loop of all workloads on engines in process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use enact_entities::{Reason, Receipt, SubmitError};
use enact_rebel::Value;
use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::EngineError;
use super::engines::{Engines, Request, Setup};
use crate::measure::cpu_time_of_process;

/// What clients submit, and what has to hold when they have stopped.
pub(crate) trait Workload: Send + Sync + Sized + 'static {
    /// What the oracle has to know of a command.
    type Note: Send;

    /// What the entities are, in Rebel.
    const CONTRACT: &'static str;

    /// What is submitted before the first client comes, in any order.
    fn opening(&self, engines: &Engines) -> Vec<Request>;

    /// What a client submits next.
    fn draw(&self, engines: &Engines, turn: Turn, draws: &mut ChaCha8Rng) -> Draw<Self::Note>;

    /// Notes a command that was acknowledged, with its result.
    fn acknowledged(&self, note: Self::Note, result: Option<&Value>);

    /// Compares what the entities hold with what was acknowledged.
    ///
    /// # Errors
    /// [`EngineError::Wrong`] or [`EngineError::NotConserved`] where it is something else.
    fn verify(&self, engines: &Engines) -> impl Future<Output = Result<(), EngineError>> + Send;
}

/// Which command of which client in which window: unlike every other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) window: u32,
    pub(crate) client: u32,
    pub(crate) number: u64,
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "w{}-c{}-{}", self.window, self.client, self.number)
    }
}

/// A command, what is to become of it, and what is noted then.
#[derive(Debug)]
pub(crate) struct Draw<N> {
    pub(crate) request: Request,
    pub(crate) expected: Expected,
    pub(crate) note: N,
}

/// What is to become of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expected {
    Done,
    /// The guard with this text refuses it.
    Refused(&'static str),
    /// It is done, or the guard with this text refuses it.
    DoneUnless(&'static str),
}

impl Expected {
    fn allows_to_be_done(self) -> bool {
        !matches!(self, Self::Refused(_))
    }

    fn allows(self, refused_for: &[Reason]) -> bool {
        match self {
            Self::Done => false,
            Self::Refused(guard) | Self::DoneUnless(guard) => {
                refused_for.iter().all(|reason| matches!(reason, Reason::Guard { text, .. } if text == guard))
            }
        }
    }
}

/// What clients have done.
#[derive(Debug)]
pub(crate) struct Work {
    /// What each command took until it was acknowledged, in microseconds.
    latency_us: Histogram<u64>,
    /// How many were acknowledged before the window was over.
    in_time: u64,
    /// How many were refused by a guard, as the workload intends.
    pub(crate) refused: u64,
    /// How often one was turned away, and was submitted again.
    pub(crate) turned_away: u64,
}

impl Default for Work {
    fn default() -> Self {
        Self { latency_us: Histogram::new(3).expect("three digits"), in_time: 0, refused: 0, turned_away: 0 }
    }
}

impl Work {
    /// How many commands were acknowledged.
    pub(crate) fn done(&self) -> u64 {
        self.latency_us.len()
    }

    /// Notes that a turn begins within the window.
    pub(crate) fn begin_turn(&mut self) {
        self.in_time = self.done();
    }

    /// Notes that what was asked at this time is acknowledged.
    pub(crate) fn note(&mut self, begun: Instant) {
        let micros = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.latency_us.record(micros).expect("it grows");
    }

    /// Submits a command, and notes what became of it.
    pub(crate) async fn take<W: Workload>(
        &mut self,
        Draw { request, expected, note }: Draw<W::Note>,
        engines: &Engines,
        workload: &W,
    ) -> Result<(), EngineError> {
        let begun = Instant::now();
        match submit_until_taken(engines, &request, &mut self.turned_away).await {
            Ok(receipt) if expected.allows_to_be_done() => {
                workload.acknowledged(note, receipt.result.as_ref());
                self.note(begun);
            }
            Ok(_) => return Err(EngineError::Wrong(format!("{} was not refused: {}", request.key, request.event))),
            Err(SubmitError::Refused { refusal, .. }) if expected.allows(&refusal.reasons) => self.refused += 1,
            Err(failed) => return Err(failed.into()),
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("alike");
        self.in_time += other.in_time;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
    }
}

/// What clients have done in a window of time.
#[derive(Debug)]
pub(crate) struct Window {
    pub(crate) work: Work,
    length: Duration,
    cpu: Duration,
}

impl Window {
    /// Has `client` work for each number below `clients`, until the time that it is told.
    ///
    /// # Errors
    /// The first of a client.
    pub(crate) async fn run<F>(
        clients: u32,
        length: Duration,
        client: impl Fn(u32, Instant) -> F,
    ) -> Result<Self, EngineError>
    where
        F: Future<Output = Result<Work, EngineError>> + Send + 'static,
    {
        let (over, cpu_before) = (Instant::now() + length, cpu_time_of_process());
        let mut work = Work::default();
        for client in (0..clients).map(|number| tokio::spawn(client(number, over))).collect::<Vec<_>>() {
            work.add(&client.await.expect("a client does not panic")?);
        }
        Ok(Self { work, length, cpu: cpu_time_of_process() - cpu_before })
    }
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
impl Window {
    /// Commands a second that were acknowledged before the window was over. Those that take longer would count for time in which the other
    /// clients have stopped.
    pub(crate) fn rate(&self) -> f64 {
        self.work.in_time as f64 / self.length.as_secs_f64()
    }

    /// The latency in milliseconds that so many of the acknowledged commands do not exceed.
    pub(crate) fn latency_ms(&self, part: f64) -> f64 {
        self.work.latency_us.value_at_quantile(part) as f64 / 1_000.0
    }

    /// Microseconds of CPU time a command that was acknowledged or refused.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.work.done() + self.work.refused) as f64
    }
}

/// Windows of time on the same new engines, one with each number of clients.
#[derive(Debug)]
pub(crate) struct Windows<'a> {
    /// Where the journals are.
    pub(crate) directory: &'a Path,
    pub(crate) setup: Setup,
    pub(crate) clients: &'a [u32],
    /// Of each window.
    pub(crate) length: Duration,
}

impl Windows<'_> {
    /// Runs every window, and verifies what the entities hold in the end.
    ///
    /// # Errors
    /// [`EngineError`] when a command has another outcome than expected, or the oracle refuses the result.
    pub(crate) async fn run<W: Workload>(&self, workload: W) -> Result<Vec<Window>, EngineError> {
        let engines = Engines::start(W::CONTRACT, self.directory, &self.setup).await?;
        engines.submit_all(workload.opening(&engines)).await?;
        let workload = Arc::new(workload);
        let mut windows = Vec::new();
        for (window, &clients) in (0..).zip(self.clients) {
            let client = |client, over| run_client(engines.clone(), Arc::clone(&workload), (window, client), over);
            windows.push(Window::run(clients, self.length, client).await?);
        }
        workload.verify(&engines).await?;
        engines.stop().await?;
        Ok(windows)
    }
}

async fn run_client<W: Workload>(
    engines: Engines,
    workload: Arc<W>,
    (window, client): (u32, u32),
    over: Instant,
) -> Result<Work, EngineError> {
    let mut draws = ChaCha8Rng::seed_from_u64(u64::from(client));
    let mut work = Work::default();
    let mut turns = (0..).map(|number| Turn { window, client, number });
    while Instant::now() < over {
        work.begin_turn();
        let turn = turns.next().expect("there is no end");
        let draw = workload.draw(&engines, turn, &mut draws);
        work.take(draw, &engines, &*workload).await?;
    }
    Ok(work)
}

/// Submits a command again and again until it is taken. Early lock release turns away what relied on a commit that was not
/// recorded.
async fn submit_until_taken(
    engines: &Engines,
    request: &Request,
    turned_away: &mut u64,
) -> Result<Receipt, SubmitError> {
    loop {
        match engines.submit(request).await {
            Err(SubmitError::Overloaded { .. }) => {
                *turned_away += 1;
                tokio::task::yield_now().await;
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Bank, Decider, Kind, Records};
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_acknowledged_after_the_window_is_no_part_of_its_rate() {
        let directory = tempfile::tempdir().expect("a place for the test");
        let sync_min = Some(Duration::from_millis(400));
        let setup = Setup {
            engines: 1,
            delay: Duration::ZERO,
            sync_min,
            decider: Decider::default(),
            records: Records::Directories,
        };
        let length = Duration::from_millis(100);
        let windows = Windows { directory: directory.path(), setup, clients: &[3], length };
        let windows = windows.run(Bank::new(Kind::Deposit, 2)).await.expect("money is conserved");
        let [window] = &windows[..] else { panic!("{windows:?}") };
        assert!(window.work.done() <= 3 && window.rate() == 0.0, "{window:?}");
    }
}
