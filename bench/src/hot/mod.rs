//! One hot object of the example bank over HTTP, closed loop: mixes of events that commute and of such that do not, under
//! each admission strategy.
//!
//! Every client asks the same account, or the same savings goal, again and again. The server is a process of its own, and every
//! acknowledged event is synced to disk.
//!
//! # Oracle
//! After each window the object holds what the acknowledged events have brought, or at least that where interest came too.
mod mix;
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

pub use self::mix::Mix;
use self::mix::{Bank, HOT, Request};
pub use self::report::{Report, Sample};
use crate::peers;
pub use crate::served::BenchError;
use crate::served::{Answer, Client, Served};

const SPEC: &str = include_str!("../../../examples/bank.rebel");

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Mixes of events, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Mix::ALL)]
    pub mixes: Vec<Mix>,
    /// Numbers of concurrent clients, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub clients: Vec<usize>,
    /// Length of each measured window, in seconds
    #[arg(long, default_value_t = 3)]
    pub seconds: u64,
    /// Unmeasured time before each window, in seconds
    #[arg(long, default_value_t = 1)]
    pub warm_up: u64,
    /// Admission strategies to compare, interleaved
    #[arg(long, value_delimiter = ',', default_values_t = ["locking".to_owned(), "serializable".to_owned()])]
    pub admission: Vec<String>,
    /// How often each measurement is repeated; the table shows the median run
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed of the clients' draws
    #[arg(long, default_value_t = 74_755)]
    pub seed: u64,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Parent of the fresh data directories; on the disk that is to be measured
    #[arg(long, default_value = ".")]
    pub data: PathBuf,
    /// Writes all samples as JSON
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Measures every combination of mix, clients and admission strategy, interleaved over the rounds.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => peers::cargo_program(Path::new("."), "enact-cli").map_err(BenchError::Build)?,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|cause| BenchError::Server { doing: "starting the load generator", cause: cause.to_string() })?;
    let report = runtime.block_on(measure_all(options, &program))?;
    if let Some(path) = &options.json {
        report.write_json(path).map_err(|cause| BenchError::Report { path: path.clone(), cause })?;
    }
    Ok(report)
}

async fn measure_all(options: &Options, program: &Path) -> Result<Report, BenchError> {
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for &mix in &options.mixes {
            for &clients in &options.clients {
                for admission in &options.admission {
                    let sample = measure(options, program, mix, admission, clients, round).await?;
                    eprintln!("{sample}");
                    samples.push(sample);
                }
            }
        }
    }
    Ok(Report { seconds: options.seconds, samples })
}

async fn measure(
    options: &Options,
    program: &Path,
    mix: Mix,
    admission: &str,
    clients: usize,
    round: usize,
) -> Result<Sample, BenchError> {
    let served = Served::start(program, &options.data, SPEC, admission).await?;
    let bank = Bank { clients };
    let mut teller = Client::connect(served.address()).await?;
    for Request { path, body, .. } in bank.opening() {
        match teller.post(&path, body).await? {
            Answer::Done => {}
            other => return Err(other.unexpected()),
        }
    }
    let start = Instant::now() + Duration::from_secs(options.warm_up);
    let window = start..start + Duration::from_secs(options.seconds);
    let mut running = Vec::with_capacity(clients);
    for number in 0..clients {
        let draws = ChaCha8Rng::seed_from_u64(options.seed ^ ((round as u64) << 32) ^ number as u64);
        let client = Client::connect(served.address()).await?;
        running.push(tokio::spawn(work(client, draws, mix, number, window.clone())));
    }
    let mut total = Tally::new();
    for client in running {
        total.add(&client.await.map_err(|cause| BenchError::Server { doing: "asking", cause: cause.to_string() })??);
    }
    verify(&mut teller, mix, &total).await?;
    served.stop().await?;
    Ok(total.sample(mix, admission, clients, options.seconds))
}

async fn verify(teller: &mut Client, mix: Mix, total: &Tally) -> Result<(), BenchError> {
    let (path, field, opening) = mix.holds();
    let found = teller.euros_at_least(&format!("{path}/{HOT}"), field).await?;
    let expected = opening + total.added;
    let is_right = if mix.is_exact() { found == expected } else { found >= expected };
    if is_right || total.unknown > 0 && found >= expected {
        Ok(())
    } else {
        Err(BenchError::NotConserved { found, expected })
    }
}

async fn work(
    mut client: Client,
    mut draws: ChaCha8Rng,
    mix: Mix,
    number: usize,
    window: std::ops::Range<Instant>,
) -> Result<Tally, BenchError> {
    let mut tally = Tally::new();
    loop {
        let Request { path, body, adds } = mix.draw(number, &mut draws);
        let sent = Instant::now();
        let answer = client.post(&path, body).await?;
        let answered = Instant::now();
        let comes_back_after = answer.retry_after();
        let is_measured = sent >= window.start && answered < window.end;
        tally.count(answer, adds, is_measured.then(|| answered - sent))?;
        if answered >= window.end {
            return Ok(tally);
        }
        if let Some(span) = comes_back_after {
            tokio::time::sleep(span).await;
        }
    }
}

/// What one or more clients saw; latencies within the window only.
struct Tally {
    latency_us: Histogram<u64>,
    /// Euros that acknowledged events have added.
    added: u64,
    refused: u64,
    turned_away: u64,
    /// Requests whose outcome was not told.
    unknown: u64,
}

impl Tally {
    fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { latency_us, added: 0, refused: 0, turned_away: 0, unknown: 0 }
    }

    fn count(&mut self, answer: Answer, adds: u64, latency: Option<Duration>) -> Result<(), BenchError> {
        let latency_us = latency.map(|latency| u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        let counted = u64::from(latency.is_some());
        match answer {
            Answer::Done => {
                self.added += adds;
                if let Some(latency_us) = latency_us {
                    self.latency_us.saturating_record(latency_us);
                }
            }
            Answer::Refused => self.refused += counted,
            Answer::TurnedAway { .. } => {
                self.turned_away += counted;
                self.unknown += 1;
            }
            Answer::Other { .. } => return Err(answer.unexpected()),
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("all tallies have the same bounds");
        self.added += other.added;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
        self.unknown += other.unknown;
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn sample(&self, mix: Mix, admission: &str, clients: usize, seconds: u64) -> Sample {
        Sample {
            mix: mix.name().to_owned(),
            admission: admission.to_owned(),
            clients,
            per_second: self.latency_us.len() as f64 / seconds as f64,
            refused: self.refused,
            turned_away: self.turned_away,
            p50_ms: self.latency_us.value_at_quantile(0.5) as f64 / 1_000.0,
            p99_ms: self.latency_us.value_at_quantile(0.99) as f64 / 1_000.0,
        }
    }
}
