//! What admission costs while a thousand transactions are open at one entity and a thousand are delayed, without HTTP, journal or
//! threads.
//!
//! Each crowd is one that a naive decider looks through again at each decision: what all wait for differs, or is the same, or never
//! comes. The time of a decision is divided by the number of transactions that it settles or applies, or one.
//!
//! # Oracle
//! After each run nothing is in progress or delayed, and the account holds what the commits have brought.
mod account;
mod crowd;

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use self::account::{Account, Figures};
pub use self::crowd::Crowd;
use crate::measure;
use crate::served::{groups, median_by};

/// The aim for the 99th percentile of the time that admission takes for a settled transaction, in microseconds.
const P99_US_MAX: f64 = 5.0;

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Crowds, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Crowd::ALL)]
    pub crowds: Vec<Crowd>,
    /// How many transactions are open, and how many delayed, where the crowd allows it
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(20..=1_000))]
    pub size: u32,
    /// How often each crowd gathers and ends; the table shows the medians
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdmissionError {
    /// The account is not as the commits made it.
    #[error("{crowd}: {what} is {found}, not {expected}")]
    Wrong {
        /// The crowd.
        crowd: &'static str,
        /// What was looked at.
        what: &'static str,
        /// What it should be.
        expected: String,
        /// What it is.
        found: String,
    },
    /// The report could not be written.
    #[error("cannot write {}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// One verified run of a crowd; the time of a decision is that for each transaction that it settles or applies.
#[derive(Debug, Clone, Serialize)]
pub struct Sample {
    /// The crowd.
    pub crowd: &'static str,
    /// The most that were open, or committed and not applied.
    pub in_progress_max: usize,
    /// The most that were delayed.
    pub delayed_max: usize,
    /// Median time of a request, in microseconds.
    pub request_p50_us: f64,
    /// 99th percentile of the same.
    pub request_p99_us: f64,
    /// Median time of a decision.
    pub decision_p50_us: f64,
    /// 99th percentile of the same.
    pub decision_p99_us: f64,
    /// The longest single call, whatever it settled.
    pub call_max_us: f64,
}

/// All samples; displays as a table of the median run of each crowd, by the 99th percentile.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Every run, in the order taken.
    pub samples: Vec<Sample>,
}

/// Runs every crowd, interleaved over the rounds.
///
/// # Errors
/// [`AdmissionError`] when the oracle refuses a result, or there is no place for the file.
///
/// # Panics
/// If the contract of the benchmark is not Rebel.
pub fn run(options: &Options) -> Result<Report, AdmissionError> {
    let mut samples = Vec::new();
    for _ in 0..options.rounds {
        for &crowd in &options.crowds {
            let mut account = Account::new(crowd.name(), crowd.opening());
            crowd.pass(&mut account, options.size as usize);
            samples.push(account.verified()?.sample(crowd));
        }
    }
    let report = Report { samples };
    if let Some(path) = &options.json {
        measure::write_json(&report, path).map_err(|source| AdmissionError::Report { path: path.clone(), source })?;
    }
    Ok(report)
}

impl Figures {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn sample(&self, crowd: Crowd) -> Sample {
        let us = |ns: u64| ns as f64 / 1_000.0;
        let (requests, decisions) = (&self.request_ns, &self.decision_ns);
        Sample {
            crowd: crowd.name(),
            in_progress_max: self.in_progress_max,
            delayed_max: self.delayed_max,
            request_p50_us: us(requests.value_at_quantile(0.5)),
            request_p99_us: us(requests.value_at_quantile(0.99)),
            decision_p50_us: us(decisions.value_at_quantile(0.5)),
            decision_p99_us: us(decisions.value_at_quantile(0.99)),
            call_max_us: us(self.call_max_ns),
        }
    }
}

impl Sample {
    fn p99_us(&self) -> f64 {
        self.request_p99_us.max(self.decision_p99_us)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = [
            "crowd",
            "in progress",
            "delayed",
            "request p50 us",
            "p99 us",
            "decision p50 us",
            "p99 us",
            "aim",
            "",
            "longest us",
        ];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        for group in groups(&self.samples, |sample| sample.crowd) {
            let sample = median_by(group, Sample::p99_us);
            table.add_row([
                sample.crowd.to_owned(),
                sample.in_progress_max.to_string(),
                sample.delayed_max.to_string(),
                format!("{:.2}", sample.request_p50_us),
                format!("{:.2}", sample.request_p99_us),
                format!("{:.2}", sample.decision_p50_us),
                format!("{:.2}", sample.decision_p99_us),
                format!("< {P99_US_MAX}"),
                (if sample.p99_us() < P99_US_MAX { "reached" } else { "missed" }).to_owned(),
                format!("{:.0}", sample.call_max_us),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "a decision's time is divided by how many it settles or applies; the longest call is not")?;
        write!(f, "every account holds what its commits brought")
    }
}
