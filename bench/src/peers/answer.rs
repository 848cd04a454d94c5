//! What a process of Enact's own program answers when it was asked for a run.
use std::error::Error;
use std::io::{self, Write};
use std::iter;

use serde::{Deserialize, Serialize};

use crate::measure::Sample;

/// One line of JSON; its result was verified where it was found.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// What was measured.
    Right(Sample),
    /// Why there is no result.
    Failed(String),
}

impl Answer {
    /// Writes it as a line.
    ///
    /// # Errors
    /// Those of `out`.
    pub(crate) fn write(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        writeln!(out)?;
        out.flush()
    }
}

impl<E: Error> From<Result<Sample, E>> for Answer {
    fn from(result: Result<Sample, E>) -> Self {
        result.map_or_else(|failure| Self::Failed(in_words(&failure)), Self::Right)
    }
}

/// An error with what caused it, in one line.
pub fn in_words(error: &dyn Error) -> String {
    let causes = iter::successors(Some(error), |&cause| cause.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
