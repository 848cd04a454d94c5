//! What a command over HTTP costs the server, beside an empty request and beside the floor.
//!
//! The *floor* is a server of the same HTTP crates that keeps accounts and transfers in two hash maps, and appends what it does to a
//! log with group commit: one write and one `fdatasync` for all that wait, and answers after it. It has neither contract nor
//! isolation nor recovery. What Enact takes beyond it is the price of these.
//!
//! Both servers are processes of their own, of whose threads the CPU time is read; the load generator's does not count.
//!
//! # Oracle
//! After each window the balances of all accounts add up to what was paid in.
mod bank;
mod floor;
mod report;

use std::path::Path;

pub use self::bank::Kind;
pub(crate) use self::bank::{Requests, deposit, iban, open_accounts, paid_in, sum_of_accounts};
pub(crate) use self::floor::serve_on;
pub use self::floor::{FLOOR_COMMAND, FloorOptions, serve_floor};
pub use self::report::CostReport;
use crate::served::{BenchError, Load, Server};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("clients", |arg| arg.default_values(["64", "256"])))]
pub struct Options {
    /// Requests, one measurement each
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Kind::ALL)]
    pub requests: Vec<Kind>,
    /// Accounts that deposits and transfers are drawn from
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(2..))]
    pub accounts: u32,
    /// How many clients ask how often
    #[command(flatten)]
    pub load: Load,
}

/// Measures every kind of request on the floor and on Enact, interleaved over the rounds; `own` is this program, which can be the
/// floor.
///
/// # Errors
/// [`BenchError`] when a server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options, own: &Path) -> Result<CostReport, BenchError> {
    let program = options.load.program()?;
    let enact = options.load.admission.iter().map(|admission| Server::enact(&program, admission));
    let servers: Vec<_> = std::iter::once(Server::own(report::FLOOR, own, FLOOR_COMMAND)).chain(enact).collect();
    let requests: Vec<_> = options.requests.iter().map(|&kind| Requests { kind, accounts: options.accounts }).collect();
    options.load.run_on(&requests, &servers).map(CostReport)
}
