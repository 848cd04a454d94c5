//! The program of other stores, asked for one run at a time.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::AppendsError;
use crate::peers::{Program, cargo};

/// Those that it has.
pub(super) const STORES: [&str; 2] = ["fjall", "sqlite"];

/// What a store is to keep.
#[derive(Serialize)]
pub(super) struct Question<'a> {
    pub(super) store: &'a str,
    /// Where a directory for it is made.
    pub(super) place: &'a Path,
    pub(super) records: u64,
    /// Of the payload of a record.
    pub(super) bytes: usize,
    /// Records of a group.
    pub(super) group: u64,
}

/// How long it has taken; the CPU time is that of the program.
#[derive(Deserialize)]
pub(super) struct Figures {
    pub(super) wall: Duration,
    pub(super) cpu: Duration,
}

/// The running program.
pub(super) struct Peers(Program);

impl Peers {
    /// Builds the program in `directory`, optimised, and starts it.
    pub(super) fn build(directory: &Path) -> Result<Self, AppendsError> {
        let started = cargo(directory, "peer-stores").and_then(|start| start.with([""; 0]));
        started.map(Self).map_err(|source| AppendsError::Build { directory: directory.to_owned(), source })
    }

    /// Lets a store keep records; also gives the CPU time that the program used for it in all.
    pub(super) fn run(&mut self, question: &Question<'_>) -> io::Result<(Result<Figures, String>, Duration)> {
        Ok(serde_json::from_str(&self.0.ask(&serde_json::to_string(question)?)?)?)
    }
}
