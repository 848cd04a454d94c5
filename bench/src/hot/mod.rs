//! One hot object of the example bank over HTTP: mixes of events that commute and of such that do not, under each admission
//! strategy.
//!
//! Every client asks the same account, or the same savings goal, again and again. The server is a process of its own, and every
//! acknowledged event is synced to disk.
//!
//! # Oracle
//! After each window the object holds what the acknowledged events have brought, or at least that where interest came too.
mod mix;

use std::time::Duration;

use rand_chacha::ChaCha8Rng;

pub use self::mix::Mix;
use self::mix::{HOT, Holds, opening};
use crate::served::{BenchError, Client, Load, Report, Request, Served, Tally, Workload};

const SPEC: &str = include_str!("../../../examples/bank.rebel");

/// What to run.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("clients", |arg| arg.default_values(["1", "4", "16", "64", "256", "1024"])))]
pub struct Options {
    /// Mixes of events, one measurement each.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Mix::ALL)]
    pub mixes: Vec<Mix>,
    /// How many clients ask how often.
    #[command(flatten)]
    pub load: Load,
}

/// Measures every combination of mix, clients and admission strategy, interleaved over the rounds.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    options.load.run(&options.mixes)
}

impl Workload for Mix {
    fn name(&self) -> &str {
        (*self).name()
    }

    fn contract(&self) -> &'static str {
        SPEC
    }

    fn aim_of_locking(&self, clients: usize, sync_min: Option<Duration>) -> Option<f64> {
        Some((*self).aim_of_locking(clients, sync_min))
    }

    async fn open(&self, served: &Served, clients: usize) -> Result<(), BenchError> {
        let mut teller = Client::connect(served.address()).await?;
        for Request { path, body, .. } in opening(*self, clients) {
            teller.insist(&path, &body.unwrap_or_default()).await?;
        }
        Ok(())
    }

    fn draw(&self, number: usize, _turn: u64, draws: &mut ChaCha8Rng) -> Request {
        (*self).request(number, draws)
    }

    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError> {
        let Holds { path, field, opening } = self.holds();
        let mut teller = Client::connect(served.address()).await?;
        let found = teller.euros_at_least(&format!("{path}/{HOT}"), field).await?;
        if !self.is_exact() && found > opening + tally.added {
            return Ok(());
        }
        tally.explains(found, opening)
    }
}
