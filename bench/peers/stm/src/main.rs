//! Runs the STM workloads on other transactional memories.
//!
//! One line of JSON on standard input asks for a run: `["fast-stm", {"workload": "counter", "threads": 2, ...}]`. One line
//! on standard output answers: `[{"Ok": figures}, cpu]` or `[{"Err": refusal}, cpu]`, where `cpu` is the CPU time of all of
//! it, preparation and verification included. The program ends with its input.
#![forbid(unsafe_code)]

mod asynchronous;
mod blocking;

use std::error::Error;
use std::io::{self, BufRead, Write};

use enact_workloads::stm::{Figures, Refusal, Run, Workload, between_tasks, cpu_time, run};

use asynchronous::Tasks;
use blocking::{FastStm, RustStm};

fn main() -> Result<(), Box<dyn Error>> {
    let mut answers = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let (peer, asked): (String, Run) = serde_json::from_str(&line?)?;
        let before = cpu_time();
        let answer = run_on(&peer, asked).ok_or_else(|| format!("there is no peer {peer}"))?;
        serde_json::to_writer(&mut answers, &(answer, cpu_time() - before))?;
        writeln!(answers)?;
        answers.flush()?;
    }
    Ok(())
}

fn run_on(peer: &str, asked: Run) -> Option<Result<Figures, Refusal>> {
    Some(match peer {
        "stm" => run::<RustStm>(asked),
        "fast-stm" => run::<FastStm>(asked),
        "async-stm" if asked.workload == Workload::PingpongTasks => between_tasks::<Tasks>(asked),
        "async-stm" => run::<Tasks>(asked),
        _ => return None,
    })
}
