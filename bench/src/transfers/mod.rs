//! Money transfers over HTTP against a served bank, closed loop: each client has one request under way at any time, and
//! none for as long as the server has told it to stay away.
//!
//! The workload is *Sync1000* of Path-Sensitive Atomic Commit, section 6: one transfer entity books between two of N
//! accounts drawn uniformly. The server is a process of its own, started on a fresh data directory, as in production:
//! every acknowledged transfer has been synced to disk.
//!
//! # Oracle
//! After each window the balances of all accounts are read back and must add up to what was paid in.
mod report;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
pub use report::{Report, Sample};

use crate::peers;
pub use crate::served::BenchError;
use crate::served::{Answer, Client, Served};

const SPEC: &str = include_str!("transfers.rebel");

const OPENING_EUROS: u64 = 1_000_000;

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Numbers of concurrent clients, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub clients: Vec<usize>,
    /// Accounts that the transfers are drawn from.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub accounts: u64,
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
    /// Writes all samples as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

/// Measures transfers for every combination of clients and admission strategy, interleaved over the rounds.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    let program = match &options.program {
        Some(program) => program.clone(),
        None => peers::cargo_program(Path::new("."), "enact-cli").map_err(BenchError::Build)?,
    };
    eprintln!("serves the bank: {}", program.display());
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
    let windows = options.rounds * options.clients.len() * options.admission.len();
    let bar = ProgressBar::new(windows as u64).with_style(
        ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})").expect("the template is well formed"),
    );
    let mut samples = Vec::with_capacity(windows);
    for round in 0..options.rounds {
        for &clients in &options.clients {
            for admission in &options.admission {
                bar.set_message(format!("{clients} clients, {admission}"));
                samples.push(measure(options, program, admission, clients, round).await?);
                bar.inc(1);
            }
        }
    }
    bar.finish_and_clear();
    Ok(Report { accounts: options.accounts, seconds: options.seconds, samples })
}

async fn measure(
    options: &Options,
    program: &Path,
    admission: &str,
    clients: usize,
    round: usize,
) -> Result<Sample, BenchError> {
    let bank = Served::start(program, &options.data, SPEC, admission).await?;
    open_accounts(&bank, options.accounts).await?;
    let start = Instant::now() + Duration::from_secs(options.warm_up);
    let window = start..start + Duration::from_secs(options.seconds);
    let mut running = Vec::with_capacity(clients);
    for number in 0..clients {
        let seed = options.seed ^ ((round as u64) << 32) ^ number as u64;
        let teller = Teller {
            client: Client::connect(bank.address()).await?,
            draws: ChaCha8Rng::seed_from_u64(seed),
            accounts: options.accounts,
            name: format!("c{number}"),
        };
        running.push(tokio::spawn(teller.work(window.clone())));
    }
    let mut total = Tally::new();
    for client in running {
        total.add(&client.await.map_err(|cause| BenchError::Server { doing: "booking", cause: cause.to_string() })??);
    }
    verify(&bank, options.accounts).await?;
    bank.stop().await?;
    Ok(total.sample(admission, clients, options.seconds))
}

async fn open_accounts(bank: &Served, accounts: u64) -> Result<(), BenchError> {
    let lanes = 32.min(accounts);
    let mut running = Vec::new();
    for lane in 0..lanes {
        let mut client = Client::connect(bank.address()).await?;
        running.push(tokio::spawn(async move {
            for account in (lane..accounts).step_by(usize::try_from(lanes).expect("at most 32")) {
                let body = format!(r#"{{"initialDeposit":"EUR {OPENING_EUROS}.00"}}"#);
                match client.post(&format!("/Account/{}/Open", account_id(account)), body).await? {
                    Answer::Done => {}
                    other => return Err(other.unexpected()),
                }
            }
            Ok(())
        }));
    }
    for lane in running {
        lane.await.map_err(|cause| BenchError::Server { doing: "opening accounts", cause: cause.to_string() })??;
    }
    Ok(())
}

async fn verify(bank: &Served, accounts: u64) -> Result<(), BenchError> {
    let mut client = Client::connect(bank.address()).await?;
    let mut found = 0;
    for account in 0..accounts {
        found += client.euros(&format!("/Account/{}", account_id(account)), "balance").await?;
    }
    let expected = accounts * OPENING_EUROS;
    if found == expected { Ok(()) } else { Err(BenchError::NotConserved { found, expected }) }
}

fn account_id(number: u64) -> String {
    format!("A{number}")
}

/// One client of the bank: books until its window has ended.
struct Teller {
    client: Client,
    draws: ChaCha8Rng,
    accounts: u64,
    name: String,
}

impl Teller {
    async fn work(mut self, window: std::ops::Range<Instant>) -> Result<Tally, BenchError> {
        let mut tally = Tally::new();
        for number in 0_u64.. {
            let from = self.draws.random_range(0..self.accounts);
            let to = (from + self.draws.random_range(1..self.accounts)) % self.accounts;
            let path = format!("/MoneyTransfer/{}-{number}/Book", self.name);
            let body = format!(r#"{{"amount":"EUR 1.00","from":"{}","to":"{}"}}"#, account_id(from), account_id(to));
            let sent = Instant::now();
            let answer = self.client.post(&path, body).await?;
            let answered = Instant::now();
            if answered >= window.end {
                break;
            }
            let comes_back_after = answer.retry_after();
            if sent >= window.start {
                tally.count(answer, answered - sent)?;
            }
            if let Some(span) = comes_back_after {
                tokio::time::sleep(span).await;
            }
        }
        Ok(tally)
    }
}

/// What one or more clients saw within their window.
struct Tally {
    latency_us: Histogram<u64>,
    refused: u64,
    turned_away: u64,
}

impl Tally {
    fn new() -> Self {
        let latency_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { latency_us, refused: 0, turned_away: 0 }
    }

    fn count(&mut self, answer: Answer, latency: Duration) -> Result<(), BenchError> {
        match answer {
            Answer::Done => self.latency_us.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX)),
            Answer::Refused => self.refused += 1,
            Answer::TurnedAway { .. } => self.turned_away += 1,
            Answer::Other { .. } => return Err(answer.unexpected()),
        }
        Ok(())
    }

    fn add(&mut self, other: &Self) {
        self.latency_us.add(&other.latency_us).expect("all tallies have the same bounds");
        self.refused += other.refused;
        self.turned_away += other.turned_away;
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn sample(&self, admission: &str, clients: usize, seconds: u64) -> Sample {
        Sample {
            admission: admission.to_owned(),
            clients,
            transfers_per_second: self.latency_us.len() as f64 / seconds as f64,
            refused: self.refused,
            turned_away: self.turned_away,
            p50_ms: self.latency_us.value_at_quantile(0.5) as f64 / 1_000.0,
            p99_ms: self.latency_us.value_at_quantile(0.99) as f64 / 1_000.0,
        }
    }
}
