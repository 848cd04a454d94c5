//! A served contract as a process of its own, and clients of it.

mod client;
mod head;
mod journals;
mod load;
mod process;
mod report;
mod tally;
mod window;

use std::io;
use std::path::PathBuf;

pub(crate) use self::client::{Answer, Client};
pub use self::journals::Journal;
pub(crate) use self::journals::{Over, Servers};
pub use self::load::Load;
pub(crate) use self::load::{block_on, program};
pub(crate) use self::process::{Served, Server};
pub use self::report::{Report, Sample};
pub(crate) use self::report::{groups, median_by};
pub(crate) use self::tally::Tally;
pub(crate) use self::window::{CpuTime, Request, Window, Workload};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The program `enact` could not be built.
    #[error("cannot build `enact`: name it by --program, or run this in its workspace")]
    Build(#[source] io::Error),
    /// The server could not be started or spoken to.
    #[error("the served bank failed while {doing}: {cause}")]
    Server {
        /// What the benchmark was doing.
        doing: &'static str,
        /// What went wrong.
        cause: String,
    },
    /// A request was answered by something else than success or a refusal.
    #[error("a request was answered with status {status}: {body}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The answer's body.
        body: String,
    },
    /// The oracle refused the result.
    #[error("money was not conserved: there are EUR {found}.00 but EUR {expected}.00 was paid in")]
    NotConserved {
        /// Sum of the balances read back.
        found: i64,
        /// Sum paid in.
        expected: i64,
    },
    /// The report could not be written.
    #[error("cannot write {}: {cause}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        cause: io::Error,
    },
}
