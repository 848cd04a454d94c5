//! A closed loop: each client has one request under way at any time, and none for as long as the server has told it to stay
//! away.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{Answer, BenchError, Client, Report, Sample, Served};
use crate::peers;

/// How many clients ask how often.
#[derive(Debug, Clone, clap::Args)]
pub struct Load {
    /// Numbers of concurrent clients, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub clients: Vec<usize>,
    /// Length of each measured window, in seconds.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Unmeasured time before each window, in seconds.
    #[arg(long, default_value_t = 2)]
    pub warm_up: u64,
    /// Admission strategies to compare, interleaved.
    #[arg(long, value_delimiter = ',', default_values_t = ["serializable".to_owned()])]
    pub admission: Vec<String>,
    /// How often each measurement is repeated; the table shows the median run.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed of the clients' draws.
    #[arg(long, default_value_t = 74_755)]
    pub seed: u64,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Parent of the fresh data directories; on the disk that is to be measured.
    #[arg(long, default_value = ".")]
    pub data: PathBuf,
    /// The time in milliseconds that a sync takes at least, whatever the disk takes.
    #[arg(long, value_name = "MS")]
    pub sync_ms: Option<u64>,
    /// Writes all samples as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// What the clients ask for, and how the result is verified.
pub(crate) trait Workload {
    /// What the table calls it.
    fn name(&self) -> &str;

    /// The contract that is served.
    fn contract(&self) -> &'static str;

    /// Makes what has to be there for so many clients.
    async fn open(&self, served: &Served, clients: usize) -> Result<(), BenchError>;

    /// The next request of client `number`, its `turn`th.
    fn draw(&self, number: usize, turn: u64, draws: &mut ChaCha8Rng) -> Request;

    /// Refuses a result that the acknowledged requests do not explain.
    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError>;
}

/// One event, and how many euros it adds to what is verified.
pub(crate) struct Request {
    pub(crate) path: String,
    pub(crate) body: String,
    pub(crate) adds: u64,
}

impl Load {
    /// Measures every combination of workload, clients and admission strategy, interleaved over the rounds.
    pub(crate) fn run<W: Workload>(&self, workloads: &[W]) -> Result<Report, BenchError> {
        let program = match &self.program {
            Some(program) => program.clone(),
            None => peers::cargo_program(Path::new("."), "enact-cli").map_err(BenchError::Build)?,
        };
        eprintln!("serves the bank: {}", program.display());
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(|cause| {
                BenchError::Server { doing: "starting the load generator", cause: cause.to_string() }
            })?;
        let report = runtime.block_on(self.measure_all(workloads, &program))?;
        if let Some(path) = &self.json {
            report.write_json(path).map_err(|cause| BenchError::Report { path: path.clone(), cause })?;
        }
        Ok(report)
    }

    async fn measure_all<W: Workload>(&self, workloads: &[W], program: &Path) -> Result<Report, BenchError> {
        let windows = self.rounds * workloads.len() * self.clients.len() * self.admission.len();
        let bar = ProgressBar::new(windows as u64).with_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})")
                .expect("the template is well formed"),
        );
        let mut samples = Vec::with_capacity(windows);
        for round in 0..self.rounds {
            for workload in workloads {
                for &clients in &self.clients {
                    for admission in &self.admission {
                        bar.set_message(format!("{}, {clients} clients, {admission}", workload.name()));
                        samples.push(self.measure(workload, program, admission, clients, round).await?);
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(Report { seconds: self.seconds, samples })
    }

    async fn measure<W: Workload>(
        &self,
        workload: &W,
        program: &Path,
        admission: &str,
        clients: usize,
        round: usize,
    ) -> Result<Sample, BenchError> {
        let served =
            Served::start(program, &self.data, workload.contract(), admission, self.sync_ms.map(Duration::from_millis))
                .await?;
        workload.open(&served, clients).await?;
        let start = Instant::now() + Duration::from_secs(self.warm_up);
        let window = start..start + Duration::from_secs(self.seconds);
        let mut connected = Vec::with_capacity(clients);
        for _ in 0..clients {
            connected.push(Client::connect(served.address()).await?);
        }
        let work = |(number, client)| {
            let draws = ChaCha8Rng::seed_from_u64(self.seed ^ ((round as u64) << 32) ^ number as u64);
            work(workload, client, draws, number, window.clone())
        };
        let mut total = Tally::new();
        for tally in futures_util::future::try_join_all(connected.into_iter().enumerate().map(work)).await? {
            total.add(&tally);
        }
        workload.verify(&served, &total).await?;
        served.stop().await?;
        Ok(total.sample(workload.name(), admission, clients, self.seconds))
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
        let answer = client.post(&path, body).await?;
        let answered = Instant::now();
        let comes_back_after = answer.retry_after();
        let is_measured = sent >= window.start && answered < window.end;
        tally.count(answer, adds, is_measured.then(|| answered - sent))?;
        if answered >= window.end {
            break;
        }
        if let Some(span) = comes_back_after {
            tokio::time::sleep(span).await;
        }
    }
    Ok(tally)
}

/// What one or more clients saw; latencies and counts are those of the window.
pub(crate) struct Tally {
    latency_us: Histogram<u64>,
    /// Euros that acknowledged requests have added, whenever.
    pub(crate) added: u64,
    /// Requests whose outcome was not told, whenever.
    pub(crate) unknown: u64,
    refused: u64,
    turned_away: u64,
}

impl Tally {
    fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { latency_us, added: 0, unknown: 0, refused: 0, turned_away: 0 }
    }

    fn count(&mut self, answer: Answer, adds: u64, latency: Option<Duration>) -> Result<(), BenchError> {
        let counted = u64::from(latency.is_some());
        match answer {
            Answer::Done => {
                self.added += adds;
                if let Some(latency) = latency {
                    self.latency_us.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
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
        self.unknown += other.unknown;
        self.refused += other.refused;
        self.turned_away += other.turned_away;
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn sample(&self, workload: &str, admission: &str, clients: usize, seconds: u64) -> Sample {
        Sample {
            workload: workload.to_owned(),
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
