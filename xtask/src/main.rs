//! `cargo xtask`: what developers of Enact run besides cargo itself.
#![forbid(unsafe_code)]

mod ci;
mod cluster;
mod fuzz;
mod release;
mod semver;
mod tidy;
mod verify;

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

const USAGE: &str = "\
Usage: cargo xtask <COMMAND>

Commands:
  ci                        run the gate: what has to hold before a change lands
  cluster                   run three nodes over three servers of NATS on this machine (needs Go)
  tidy                      check the style of all files that git tracks
  sanitize address|thread   run the tests of the crates with unsafe code under a sanitizer (nightly)
  miri                      interpret their unit tests and models (nightly)
  planted                   plant a bug at a time and show that the models find it
  fuzz [SECONDS]            run each fuzz target for 600 or the given seconds (nightly)
  faults [SECONDS]          kill, freeze and cut off the nodes and servers of a cluster for 1200 or the given seconds, over NATS and then
                            over PostgreSQL (needs Go and PostgreSQL)
  soak                      random damage, power cuts, kills and attacks, for hours
  semver                    compare the public items of the crates with those of the last release
  release                   build the program for what it was seen to do under load (needs llvm-tools)";

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let done = match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["ci"] => ci::run(),
        ["tidy"] => tidy::run(),
        ["sanitize", sanitizer @ ("address" | "thread")] => verify::sanitize(sanitizer),
        ["miri"] => verify::miri(),
        ["planted"] => verify::planted(),
        ["fuzz"] => fuzz::run("600"),
        ["fuzz", seconds] => fuzz::run(seconds),
        ["faults"] => verify::faults(verify::FAULTS_SECONDS),
        ["faults", seconds] => verify::faults(seconds),
        ["soak"] => verify::soak(),
        ["cluster"] => cluster::run(),
        ["semver"] => semver::run(),
        ["release"] => release::run(),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Done, or why not, for people.
type Outcome = Result<(), Box<dyn Error>>;

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the package lies in the root").to_owned()
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from)
}

/// The command that a line of words makes. What only helps the next build of the same tree is not written.
fn command(line: &str) -> Command {
    let mut words = line.split(' ');
    let mut command = Command::new(words.next().expect("split gives one word at least"));
    command.args(words).env("CARGO_TERM_COLOR", "never").env("CARGO_INCREMENTAL", "0");
    command
}

fn run_to_end(mut command: Command) -> Outcome {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} ended with {status}").into()) }
}
