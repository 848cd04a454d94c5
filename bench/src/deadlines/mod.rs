//! How punctual the server is about deadlines when ten times as much is asked as it can serve.
//!
//! Each command has a deadline, and is answered by then: if not by its outcome, then by 504, which says what the command waited for.
//! Clients obey `Retry-After`. How late an answer is, is measured at the client, which shares the machine with the server.
//!
//! # Oracle
//! After each window the balances of all accounts add up to what was paid in, but for deposits whose outcome was not told.
use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

use crate::cost::{Kind, Requests};
use crate::measure;
use crate::served::{
    Answer, BenchError, Client, Load, Request, Served, Server, Tally, Window, Workload, block_on, groups, median_by,
};

/// How late the 99th percentile of the late answers may be, in milliseconds.
const LATE_P99_MS_MAX: f64 = 20.0;

/// What to run.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("clients", |arg| arg.default_values(["640"])))]
#[command(mut_arg("admission", |arg| arg.default_values(["locking", "serializable"])))]
pub struct Options {
    /// Requests, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Kind::Transfer, Kind::TransferHot])]
    pub requests: Vec<Kind>,
    /// Accounts that deposits and transfers are drawn from
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub accounts: u32,
    /// The deadline of each command, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 100)]
    pub deadline_ms: u64,
    /// How many clients ask how often
    #[command(flatten)]
    pub load: Load,
}

/// One verified window.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// What the clients asked for.
    pub workload: String,
    /// Admission strategy of the server.
    pub server: String,
    /// Concurrent clients.
    pub clients: usize,
    /// Acknowledged commands a second.
    pub per_second: f64,
    /// Commands that were turned away at once.
    pub turned_away: u64,
    /// Commands that were answered by 504.
    pub timeouts: u64,
    /// Those of them whose answer does not say what was waited for.
    pub nameless: u64,
    /// Commands that were answered after their deadline, however late and by whatever.
    pub late: u64,
    /// By how much, in milliseconds: the median of the late ones.
    pub late_p50_ms: f64,
    /// 99th percentile.
    pub late_p99_ms: f64,
    /// The most.
    pub late_max_ms: f64,
}

/// All windows; displays as a table of the median ones.
#[derive(Debug, Clone, Serialize)]
pub struct DeadlinesReport {
    /// Length of each window, in seconds.
    pub seconds: u64,
    /// The deadline of each command, in milliseconds.
    pub deadline_ms: u64,
    /// Every window.
    pub samples: Vec<Sample>,
}

/// Measures every combination of requests, clients and admission strategy.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<DeadlinesReport, BenchError> {
    let load = &options.load;
    let program = load.program()?;
    let mut samples = Vec::new();
    for round in 0..load.rounds {
        for &kind in &options.requests {
            for &clients in &load.clients {
                for admission in &load.admission {
                    let server = Server::enact(&program, admission);
                    let requests = Requests { kind, accounts: options.accounts };
                    samples.push(block_on(measure(options, &server, &requests, clients, round))?);
                }
            }
        }
    }
    let report = DeadlinesReport { seconds: load.seconds, deadline_ms: options.deadline_ms, samples };
    if let Some(path) = &load.json {
        measure::write_json(&report, path).map_err(|cause| BenchError::Report { path: PathBuf::from(path), cause })?;
    }
    Ok(report)
}

async fn measure(
    options: &Options,
    server: &Server,
    requests: &Requests,
    clients: usize,
    round: usize,
) -> Result<Sample, BenchError> {
    let load = &options.load;
    let served = Served::start(server, &load.data, requests.contract(), load.sync_min()).await?;
    requests.open(&served, clients).await?;
    let deadline = Duration::from_millis(options.deadline_ms);
    let mut connected = Vec::with_capacity(clients);
    for _ in 0..clients {
        connected.push(Client::connect_with(served.address(), Some(deadline)).await?);
    }
    let Window { warm_up, length, seed } = load.window(round);
    let start = Instant::now() + warm_up;
    let window = start..start + length;
    let work = |(number, client)| {
        let draws = ChaCha8Rng::seed_from_u64(seed ^ number as u64);
        work(requests, client, draws, number, deadline, window.clone())
    };
    let mut total = Punctuality::new();
    for seen in futures_util::future::try_join_all(connected.into_iter().enumerate().map(work)).await? {
        total.add(&seen);
    }
    requests.verify(&served, &total.tally).await?;
    served.stop().await?;
    Ok(total.sample(requests.name(), &server.name, clients, load.seconds))
}

async fn work(
    requests: &Requests,
    mut client: Client,
    mut draws: ChaCha8Rng,
    number: usize,
    deadline: Duration,
    window: Range<Instant>,
) -> Result<Punctuality, BenchError> {
    let mut seen = Punctuality::new();
    for turn in 0.. {
        let Request { path, body, adds } = requests.draw(number, turn, &mut draws);
        let sent = Instant::now();
        let (status, retry_after, body) = client.exchange(&path, &body.unwrap_or_default()).await?;
        let took = sent.elapsed();
        let is_measured = sent >= window.start && sent + took < window.end;
        seen.tally.count(Answer::of(status, retry_after, body), adds, is_measured.then_some(took))?;
        if is_measured {
            seen.count(status, body, took.checked_sub(deadline));
        }
        let now = Instant::now();
        if now >= window.end {
            break;
        }
        if let Some(span) = retry_after {
            tokio::time::sleep(span.min(window.end - now)).await;
        }
    }
    Ok(seen)
}

/// What one or more clients saw of deadlines.
struct Punctuality {
    tally: Tally,
    late_us: Histogram<u64>,
    timeouts: u64,
    nameless: u64,
}

impl Punctuality {
    fn new() -> Self {
        let late_us = Histogram::new_with_bounds(1, 60_000_000, 3).expect("the bounds are valid");
        Self { tally: Tally::new(), late_us, timeouts: 0, nameless: 0 }
    }

    /// Counts an answer of the window, `late` if it came after the deadline.
    fn count(&mut self, status: u16, body: &str, late: Option<Duration>) {
        if status == 504 {
            self.timeouts += 1;
            self.nameless += u64::from(!names_what_was_waited_for(body));
        }
        if let Some(late) = late {
            self.late_us.saturating_record(u64::try_from(late.as_micros()).unwrap_or(u64::MAX));
        }
    }

    fn add(&mut self, other: &Self) {
        self.tally.add(&other.tally);
        self.late_us.add(&other.late_us).expect("all have the same bounds");
        self.timeouts += other.timeouts;
        self.nameless += other.nameless;
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn sample(&self, workload: &str, server: &str, clients: usize, seconds: u64) -> Sample {
        let late_ms = |part: f64| self.late_us.value_at_quantile(part) as f64 / 1_000.0;
        Sample {
            workload: workload.to_owned(),
            server: server.to_owned(),
            clients,
            per_second: self.tally.done() as f64 / seconds as f64,
            turned_away: self.tally.turned_away - self.timeouts,
            timeouts: self.timeouts,
            nameless: self.nameless,
            late: self.late_us.len(),
            late_p50_ms: late_ms(0.5),
            late_p99_ms: late_ms(0.99),
            late_max_ms: late_ms(1.0),
        }
    }
}

/// Whether a problem says what the command waited for: the transactions, or else the part of the engine.
fn names_what_was_waited_for(body: &str) -> bool {
    let problem: serde_json::Value = serde_json::from_str(body).unwrap_or_default();
    let transactions = problem["waits_for"].as_array().is_some_and(|waits| !waits.is_empty());
    transactions || problem["phase"].is_string()
}

impl fmt::Display for DeadlinesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = [
            "workload",
            "clients",
            "server",
            "commands/s",
            "503",
            "504",
            "504 without a reason",
            "late",
            "p50 ms",
            "p99 ms",
            "max ms",
            "aim of p99",
            "",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        let key = |sample: &Sample| (sample.workload.clone(), sample.clients, sample.server.clone());
        for group in groups(&self.samples, key) {
            let sample = median_by(group, |sample| sample.late_p99_ms);
            let is_reached = sample.late_p99_ms <= LATE_P99_MS_MAX && sample.nameless == 0;
            table.add_row([
                sample.workload.clone(),
                sample.clients.to_string(),
                sample.server.clone(),
                format!("{:.0}", sample.per_second),
                sample.turned_away.to_string(),
                sample.timeouts.to_string(),
                sample.nameless.to_string(),
                sample.late.to_string(),
                format!("{:.1}", sample.late_p50_ms),
                format!("{:.1}", sample.late_p99_ms),
                format!("{:.1}", sample.late_max_ms),
                format!("<= {LATE_P99_MS_MAX}"),
                (if is_reached { "reached" } else { "missed" }).to_owned(),
            ]);
        }
        writeln!(f, "{table}")?;
        write!(
            f,
            "{} s a window, deadlines of {} ms; times: by how much the late answers came after their deadline",
            self.seconds, self.deadline_ms
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_names_transactions_or_a_part_of_the_engine() {
        for (body, is_named) in [
            (r#"{"phase":"queue"}"#, true),
            (r#"{"waits_for":[{"transaction":"1","event":"Deposit","why":"turn"}]}"#, true),
            (r#"{"waits_for":[]}"#, false),
            (r#"{"phase":null,"detail":"the deadline passed"}"#, false),
            ("", false),
        ] {
            assert_eq!(names_what_was_waited_for(body), is_named, "{body}");
        }
    }

    #[test]
    fn late_answers_and_timeouts_without_a_reason_are_counted() {
        let mut seen = Punctuality::new();
        seen.count(200, "{}", None);
        seen.count(200, "{}", Some(Duration::from_millis(3)));
        seen.count(504, r#"{"phase":"entity"}"#, Some(Duration::from_millis(5)));
        seen.count(504, "{}", Some(Duration::from_millis(7)));
        assert_eq!((seen.late_us.len(), seen.timeouts, seen.nameless), (3, 2, 1));
        assert!(seen.late_us.equivalent(seen.late_us.max(), 7_000), "{}", seen.late_us.max());
    }
}
