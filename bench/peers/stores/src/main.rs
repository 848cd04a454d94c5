//! Stores the records of `enact-bench appends` in other embedded stores: groups of them, each durable before the next one.
//!
//! One line of JSON on standard input asks for a run: `{"store": "fjall", "place": "/tmp", "records": 400, "bytes": 100, "group": 1}`. One
//! line on standard output answers: `[{"Ok": {"wall": .., "cpu": ..}}, cpu]` or `[{"Err": "why"}, cpu]`, where the last `cpu` is the CPU time
//! of all of it, preparation and verification included. The program ends with its input.
//!
//! # Oracle
//! The store is opened again after a run, and all of its records are read and compared with what was stored.
#![forbid(unsafe_code)]

mod fjall;
mod sqlite;

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use enact_workloads::stm::cpu_time;
use serde::{Deserialize, Serialize};

use self::fjall::Fjall;
use self::sqlite::Sqlite;

#[derive(Deserialize)]
struct Question {
    store: String,
    /// Where a directory for it is made.
    place: PathBuf,
    records: u64,
    /// Of the payload of a record.
    bytes: usize,
    /// Records of a group.
    group: u64,
}

#[derive(Serialize)]
struct Figures {
    wall: Duration,
    cpu: Duration,
}

/// A store that keeps payloads under their positions.
trait Store: Sized {
    /// Opens the one in `directory`, which is made if there is none.
    fn open(directory: &Path) -> Result<Self, Box<dyn Error>>;

    /// Stores `payloads` at `first` and the positions behind it; they are durable when it returns.
    fn store(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>>;

    /// Shows all payloads with their positions, in order.
    fn read(&self, see: impl FnMut(u64, &[u8])) -> Result<(), Box<dyn Error>>;
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let before = cpu_time();
        let answer = match &*question.store {
            "fjall" => run::<Fjall>(&question),
            "sqlite" => run::<Sqlite>(&question),
            other => return Err(format!("there is no store {other}").into()),
        };
        let answer = answer.map_err(|failure| failure.to_string());
        serde_json::to_writer(&mut answers, &(answer, cpu_time() - before))?;
        writeln!(answers)?;
        answers.flush()?;
    }
    Ok(())
}

fn run<S: Store>(question: &Question) -> Result<Figures, Box<dyn Error>> {
    let directory = tempfile::Builder::new().prefix("peer-stores").tempdir_in(&question.place)?;
    let payloads: Vec<Vec<u8>> = (0..question.records).map(|number| payload(number, question.bytes)).collect();
    let mut store = S::open(directory.path())?;
    let (begun, before) = (Instant::now(), cpu_time());
    let mut first = 1;
    for group in payloads.chunks(usize::try_from(question.group)?) {
        store.store(first, group)?;
        first += group.len() as u64;
    }
    let figures = Figures { wall: begun.elapsed(), cpu: cpu_time() - before };
    drop(store);
    let (mut expected, mut is_right) = (payloads.iter().zip(1..), true);
    S::open(directory.path())?.read(|position, payload| {
        is_right &= expected.next().is_some_and(|(stored, at)| at == position && stored == payload);
    })?;
    if !is_right || expected.next().is_some() {
        return Err("the store does not have the records that were stored".into());
    }
    Ok(figures)
}

/// Bytes that tell records apart, as in `enact-bench`.
fn payload(number: u64, bytes: usize) -> Vec<u8> {
    number.to_le_bytes().into_iter().cycle().take(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<S: Store>(store: &str) {
        for (records, group) in [(1, 1), (50, 1), (50, 7), (50, 50)] {
            let question =
                Question { store: store.to_owned(), place: std::env::temp_dir(), records, bytes: 100, group };
            run::<S>(&question).expect("it has what was stored");
        }
    }

    #[test]
    fn each_store_has_what_was_stored() {
        check::<Fjall>("fjall");
        check::<Sqlite>("sqlite");
    }

    #[test]
    fn a_store_that_loses_the_last_record_is_found_out() {
        struct Forgetful(Fjall);
        impl Store for Forgetful {
            fn open(directory: &Path) -> Result<Self, Box<dyn Error>> {
                Fjall::open(directory).map(Self)
            }

            fn store(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
                self.0.store(first, &payloads[1..])
            }

            fn read(&self, see: impl FnMut(u64, &[u8])) -> Result<(), Box<dyn Error>> {
                self.0.read(see)
            }
        }
        let place = std::env::temp_dir();
        let question = Question { store: "forgetful".to_owned(), place, records: 4, bytes: 8, group: 2 };
        assert!(run::<Forgetful>(&question).is_err());
    }
}
