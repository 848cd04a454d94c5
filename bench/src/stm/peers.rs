//! The program of the peers, asked for one run at a time.
use std::io;
use std::path::Path;
use std::time::Duration;

use enact_workloads::stm::{Figures, Refusal, Run};

use super::StmBenchError;
use crate::peers::{Program, cargo};

/// The running program.
pub(super) struct Peers(Program);

impl Peers {
    /// Builds the program in `directory`, optimised, and starts it.
    pub(super) fn build(directory: &Path) -> Result<Self, StmBenchError> {
        let started = cargo(directory, "peer-stm").and_then(|start| start.with([""; 0]));
        started.map(Self).map_err(|source| StmBenchError::Build { directory: directory.to_owned(), source })
    }

    /// Lets `peer` run once; also gives the CPU time that the program used for it in all.
    pub(super) fn run(&mut self, peer: &str, run: Run) -> io::Result<(Result<Figures, Refusal>, Duration)> {
        Ok(serde_json::from_str(&self.0.ask(&serde_json::to_string(&(peer, run))?)?)?)
    }
}
