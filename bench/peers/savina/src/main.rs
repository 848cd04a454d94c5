//! Runs programs of the Savina suite on other actor libraries.
//!
//! `peer-savina LIBRARY WORKERS` answers questions until its input ends. One line of JSON on standard input asks for a
//! run: `["pp", {"pings": 40000}]`. One line on standard output answers: `{"wall_ns": …, "cpu_ns": …, "found": …}`, where
//! `found` is what the actors reported, which the asking program holds against an oracle.
//!
//! # What differs between libraries
//! Nothing but the library: a program is written once against [`stage::Library`] and compiled for each of them. Where the
//! way in which an actor waits for an answer is the point of a benchmark, each library has its own, by its documentation.
//!
//! # What is fast
//! Unbounded mailboxes, sends that do not wait, release builds without tracing, and worker threads that live from run to
//! run. Messages of an actor are one enum, so that no library has to find a handler by type.
#![forbid(unsafe_code)]

mod libraries;
mod programs;
mod stage;

use std::env;
use std::error::Error;
use std::io::{self, BufRead, Write};

use serde_json::Value;
use tokio::runtime;

use libraries::{Actix, Kameo, Ractor, Tokio};
use programs::run;
use stage::Library;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [library, workers] = &arguments[..] else { return Err("usage: peer-savina LIBRARY WORKERS".into()) };
    let workers = workers.parse()?;
    match library.as_str() {
        "tokio" => serve_on_tokio(workers, &Tokio),
        "kameo" => serve_on_tokio(workers, &Kameo),
        "ractor" => serve_on_tokio(workers, &Ractor),
        "actix" => serve(&Actix::on_arbiters(1)),
        "actix-arbiters" => serve(&Actix::on_arbiters(workers)),
        unknown => Err(format!("there is no library {unknown}").into()),
    }
}

/// For those whose actors are tasks.
fn serve_on_tokio<L: Library>(workers: usize, library: &L) -> Result<(), Box<dyn Error>> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(workers).build()?;
    let _inside = runtime.enter();
    serve(library)
}

fn serve<L: Library>(library: &L) -> Result<(), Box<dyn Error>> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let (benchmark, parameters): (String, Value) = serde_json::from_str(&line?)?;
        serde_json::to_writer(&mut answers, &run(library, &benchmark, parameters)?)?;
        writeln!(answers)?;
        answers.flush()?;
    }
    Ok(())
}
