//! Appends to the embedded journal, beside a loop that writes and syncs, and beside stores that keep the same records.
//!
//! # Contenders
//! * *loop*: one thread writes groups of bytes to a file and syncs each. Its groups are as large as those of the journal in
//!   the run before, with the bytes that a record takes there.
//! * *enact*: so many appends of one record each are in flight; when one is acknowledged, another one follows. The journal checks what
//!   each of them expects, gives it a position and a checksum, and makes groups of what waits.
//! * *redb*: one transaction for each of the groups of the loop, each durable, with the records under their positions.
//! * *fjall* and *sqlite*, on demand: the same, with one batch of fjall, or one transaction of `SQLite` (`journal_mode = WAL`, `synchronous =
//!   FULL`), for each group. They run in a program of their own, built from `bench/peers`, which takes its turn in every round.
//!
//! # Oracle
//! After a run the journal is verified, byte by byte, and has as many records as were appended; so has each store, whose
//! records are read and counted, and the file has as many bytes.
mod contenders;
mod peers;

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::{env, io};

use enact_journal::{AppendError, OpenError};
use thiserror::Error;

use self::contenders::Shape;
use self::peers::{Peers, STORES};
use crate::measure::{Contender, Plan, Race, Report, race, write_json};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Appends in flight, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 64, 1024], value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub in_flight: Vec<u32>,
    /// Bytes of a record
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    pub bytes: u32,
    /// Records of a run for each append in flight
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..))]
    pub records: u32,
    /// The directory whose disk is written to; that for temporary files unless set
    #[arg(long)]
    pub directory: Option<PathBuf>,
    /// Also run other stores, built from this directory by cargo
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = "bench/peers")]
    pub peers: Option<PathBuf>,
    /// How often to measure
    #[command(flatten)]
    pub plan: Plan,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why there is no report.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AppendsError {
    /// The journal does not open, or cannot be read.
    #[error("the journal cannot be used")]
    Open(#[from] OpenError),
    /// An append was not acknowledged.
    #[error("an append was not acknowledged")]
    Append(#[from] AppendError),
    /// What was written is not there.
    #[error("{0}")]
    Wrong(String),
    /// The other store failed.
    #[error("the store beside the journal")]
    Store(#[source] Box<redb::Error>),
    /// The program of the other stores could not be built or started.
    #[error("cannot build the peers in {}", directory.display())]
    Build {
        /// Where they are.
        directory: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// The program of the other stores did not answer.
    #[error("the program of the other stores broke off")]
    Peer(#[source] io::Error),
    /// There is no place for data or for the report.
    #[error("the system refuses it")]
    System(#[from] io::Error),
}

/// Measures the contenders for each number of appends in flight, interleaved.
///
/// # Errors
/// [`AppendsError`] when what was acknowledged is not there, or there is no place for data.
pub fn run(options: &Options) -> Result<Report, AppendsError> {
    let place = options.directory.clone().unwrap_or_else(env::temp_dir);
    let peers = options.peers.as_deref().map(Peers::build).transpose()?.map(RefCell::new);
    let title = format!("Appends of records of {} bytes, each synced, in {}", options.bytes, place.display());
    let report = Report::of(title, || {
        options
            .in_flight
            .iter()
            .map(|&in_flight| options.race(in_flight, &place, peers.as_ref()))
            .collect::<Result<_, _>>()
    })?;
    if let Some(path) = &options.json {
        write_json(&report, path)?;
    }
    Ok(report)
}

impl Options {
    fn race(&self, in_flight: u32, place: &Path, peers: Option<&RefCell<Peers>>) -> Result<Race, AppendsError> {
        let shape = Shape {
            place: place.to_owned(),
            in_flight: in_flight as usize,
            records: u64::from(self.records) * u64::from(in_flight),
            bytes: self.bytes as usize,
        };
        // The others write what the journal has written.
        let groups = Cell::new(shape.append()?.1);
        let mut contenders = vec![
            Contender::new("loop", || shape.write(groups.get())),
            Contender::new("enact", || {
                let (sample, written) = shape.append()?;
                groups.set(written);
                Ok(sample)
            }),
            Contender::new("redb", || shape.insert(groups.get())),
        ];
        for store in STORES {
            let (shape, groups) = (&shape, &groups);
            contenders.extend(
                peers.map(|peers| Contender::new(store, || shape.ask(&mut peers.borrow_mut(), store, groups.get()))),
            );
        }
        race(format!("{in_flight} in flight"), "records", &self.plan, contenders)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contender_is_measured_and_has_what_it_wrote() {
        let options = Options {
            in_flight: vec![1, 16],
            bytes: 100,
            records: 20,
            directory: None,
            peers: None,
            plan: Plan { rounds: 1, warm_up: 0 },
            json: None,
        };
        let report = run(&options).expect("a report");
        for race in &report.races {
            let names: Vec<&str> = race.series.iter().map(|series| &*series.name).collect();
            assert_eq!(names, ["loop", "enact", "redb"], "{}", race.workload);
            assert!(race.series.iter().all(|series| series.samples.len() == 1));
        }
    }
}
