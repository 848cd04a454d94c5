//! What compaction frees of a log, and what it costs those that read it afterwards.
//!
//! The log is that of transfers with idempotency keys: each is a group member of four records, one of the transfer, one of each of
//! two accounts, and the answer that is kept for a while. Then the class of the answers is forgotten.
//!
//! # Oracle
//! Before and after, the log is verified byte by byte and ends at the same position, and its feed has every record that is no answer.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, fmt, fs, io, thread};

use enact_journal::{
    AppendError, CloseError, Embedded, EntityKey, Journal, Kind, NewRecord, OpenError, Options as JournalOptions,
    Position, ReadError, Seq, verify,
};
use serde::Serialize;
use thiserror::Error;
use tokio::runtime::{self, Runtime};

use crate::measure::{median, write_json};

/// The class of the answers.
const ANSWERS: &str = ".answer-1";
/// Appends under way.
const IN_FLIGHT: usize = 512;
const PAGE: usize = 4_000;
/// How often is looked whether the segments are compacted.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Transfers that the log has
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub transfers: u32,
    /// Accounts that they are between
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub accounts: u32,
    /// The length of a segment of the log, in bytes
    #[arg(long, default_value_t = 64 << 20, value_parser = clap::value_parser!(u32).range(65_536..))]
    pub segment_bytes: u32,
    /// Accounts that are read, one after the other
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub reads: u32,
    /// The directory whose disk is written to; that for temporary files unless set
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Writes the figures as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CompactionError {
    /// The journal does not open.
    #[error("the journal cannot be used")]
    Open(#[from] OpenError),
    /// An append was not acknowledged.
    #[error("an append was not acknowledged")]
    Append(#[from] AppendError),
    /// The journal cannot be read.
    #[error("the journal cannot be read")]
    Read(#[from] ReadError),
    /// The journal does not close.
    #[error("the journal does not close")]
    Close(#[from] CloseError),
    /// What was written is not there.
    #[error("{0}")]
    Wrong(String),
    /// There is no place for data or for the report.
    #[error("the system refuses it")]
    System(#[from] io::Error),
}

/// What was measured of a log.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Figures {
    /// Bytes of its segments.
    pub log_bytes: u64,
    /// Milliseconds until it was open.
    pub start_ms: f64,
    /// Microseconds of reading all records of an account, the median.
    pub account_us: f64,
    /// Milliseconds of reading the whole feed.
    pub feed_ms: f64,
    /// Records of the feed.
    pub feed_records: u64,
}

/// One of them.
type Figure = fn(&Figures) -> f64;

/// The figures; displays as a table.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// With all answers.
    pub before: Figures,
    /// Without those in sealed segments.
    pub after: Figures,
    /// How many segments were written anew.
    pub segments: usize,
    /// Milliseconds that took, rests included.
    pub compaction_ms: f64,
}

/// Writes a log, measures it, compacts it, and measures it again.
///
/// # Errors
/// [`CompactionError`] when what was written is not there, or there is no place for data.
pub fn run(options: &Options) -> Result<Report, CompactionError> {
    let directory = tempfile::tempdir_in(options.directory.clone().unwrap_or_else(env::temp_dir))?;
    let bench = Bench {
        options,
        data: directory.path().join("data"),
        runtime: runtime::Builder::new_current_thread().enable_time().build()?,
    };
    bench.fill()?;
    let before = bench.figures()?;
    let (segments, took) = bench.compact()?;
    let report = Report { before, after: bench.figures()?, segments, compaction_ms: millis(took) };
    if let Some(path) = &options.json {
        write_json(&report, path)?;
    }
    Ok(report)
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

struct Bench<'a> {
    options: &'a Options,
    data: PathBuf,
    runtime: Runtime,
}

impl Bench<'_> {
    /// How many records there are of transfers and accounts.
    fn kept(&self) -> u64 {
        3 * u64::from(self.options.transfers)
    }

    fn open(&self, options: JournalOptions) -> Result<Embedded, OpenError> {
        Embedded::open(&self.data, JournalOptions { segment_bytes: self.options.segment_bytes, ..options })
    }

    fn fill(&self) -> Result<(), CompactionError> {
        let journal = self.open(JournalOptions::default())?;
        let mut last = vec![0; self.options.accounts as usize];
        self.runtime.block_on(async {
            let mut under_way = VecDeque::with_capacity(IN_FLIGHT);
            for number in 0..self.options.transfers {
                if under_way.len() == IN_FLIGHT
                    && let Some(oldest) = under_way.pop_front()
                {
                    oldest.await?;
                }
                under_way.push_back(Box::pin(journal.append(transfer(number, &mut last))));
            }
            for append in under_way {
                append.await?;
            }
            journal.close().await?;
            Ok(())
        })
    }

    fn figures(&self) -> Result<Figures, CompactionError> {
        let begun = Instant::now();
        let journal = self.open(JournalOptions::default())?;
        let start_ms = millis(begun.elapsed());
        let (account_us, feed_ms, [kept, all]) = self.runtime.block_on(async {
            let mut reads = Vec::new();
            for read in 0..self.options.reads {
                let entity = account(u64::from(read) * 7919 % u64::from(self.options.accounts));
                let begun = Instant::now();
                journal.read(&entity, Seq::NONE).await?;
                reads.push(begun.elapsed().as_secs_f64() * 1e6);
            }
            let (begun, mut end, mut counts) = (Instant::now(), Position::START, [0, 0]);
            loop {
                let page = journal.feed(end, PAGE).await?;
                let Some(last) = page.last() else { break };
                end = last.position;
                counts[0] += page.iter().filter(|record| record.entity.class() != ANSWERS).count() as u64;
                counts[1] += page.len() as u64;
            }
            let feed_ms = millis(begun.elapsed());
            journal.close().await?;
            Ok::<_, CompactionError>((median(&reads), feed_ms, counts))
        })?;
        drop(journal);
        let found = verify(&self.data)?;
        let last = Position(self.kept() + u64::from(self.options.transfers));
        if !found.is_sound() || found.last != last || kept != self.kept() {
            let wanted = self.kept();
            return Err(CompactionError::Wrong(format!("{found:?} with {kept} records of {wanted} that are kept")));
        }
        let log_bytes = segments(&self.data)?.iter().map(|(_, bytes)| bytes).sum();
        Ok(Figures { log_bytes, start_ms, account_us, feed_ms, feed_records: all })
    }

    /// Forgets the answers. Returns how many segments were written anew, and how long that took.
    fn compact(&self) -> Result<(usize, Duration), CompactionError> {
        let journal = self.open(JournalOptions { discard_after: Duration::ZERO, ..JournalOptions::default() })?;
        let before = segments(&self.data)?;
        let sealed = &before[..before.len().saturating_sub(1)];
        let begun = Instant::now();
        journal.forget(|class| class == ANSWERS);
        loop {
            let now = segments(&self.data)?;
            if sealed.iter().zip(&now).all(|((_, before), (_, now))| now < before) {
                break;
            }
            thread::sleep(LOOK_EVERY);
        }
        let took = begun.elapsed();
        self.runtime.block_on(journal.close())?;
        Ok((sealed.len(), took))
    }
}

/// The segments of a log in order, with their lengths.
fn segments(data: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(data)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.to_string_lossy().starts_with("segment-") && name.to_string_lossy().ends_with(".log") {
            segments.push((entry.path(), entry.metadata()?.len()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

fn account(number: u64) -> EntityKey {
    EntityKey::new("Account", &format!("NL00ENAC{number:010}")).expect("a name")
}

/// The records of transfer `number`; `last` is what each account has by then.
fn transfer(number: u32, last: &mut [u64]) -> Vec<NewRecord> {
    let accounts = last.len();
    let from = number as usize % accounts;
    let to = (from + 1 + number as usize / accounts % (accounts - 1)) % accounts;
    let record = |entity: EntityKey, expected: u64, bytes: usize| {
        let (expected, payload) = (Seq(expected), vec![number as u8; bytes]);
        NewRecord { entity, expected, kind: Kind(3), payload }
    };
    let named = |class: &str, id: &str| EntityKey::new(class, id).expect("a name");
    let mut records = vec![record(named("Transfer", &format!("T{number}")), 0, 118)];
    for number in [from, to] {
        records.push(record(account(number as u64), last[number], 71));
        last[number] += 1;
    }
    records.push(record(named(ANSWERS, &format!("{number:064x}")), 0, 98));
    records
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(["", "before", "after", "ratio"]);
        let rows: [(&str, Figure); 5] = [
            ("log, MB", |figures| figures.log_bytes as f64 / 1e6),
            ("records of the feed", |figures| figures.feed_records as f64),
            ("start, ms", |figures| figures.start_ms),
            ("an account's records, us", |figures| figures.account_us),
            ("the whole feed, ms", |figures| figures.feed_ms),
        ];
        for (name, figure) in rows {
            let (before, after) = (figure(&self.before), figure(&self.after));
            let [before, after, ratio] =
                [format!("{before:.0}"), format!("{after:.0}"), format!("{:.2}", after / before)];
            table.add_row([name, &before, &after, &ratio]);
        }
        writeln!(f, "{table}")?;
        write!(f, "{} segments written anew in {:.0} ms, rests included", self.segments, self.compaction_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_loses_its_answers_and_nothing_else() {
        let options =
            Options { transfers: 2_000, accounts: 50, segment_bytes: 1 << 18, reads: 20, directory: None, json: None };
        let report = run(&options).expect("a report");
        assert!(report.segments > 0, "{report}");
        assert!(report.after.log_bytes < report.before.log_bytes, "{report}");
        assert_eq!(report.before.feed_records, 8_000);
        assert!(report.after.feed_records < 8_000, "{report}");
    }
}
