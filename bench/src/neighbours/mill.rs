//! The hot object, and the deposits beside it.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::cost::{deposit, open_accounts, paid_in, sum_of_accounts};
use crate::served::{BenchError, Client, Request, Served, Tally, Workload};

/// The example bank with a mill.
pub(super) const SPEC: &str = concat!(include_str!("../../../examples/bank.rebel"), include_str!("mill.rebel"));

const MILL: &str = "/Mill/hot";
/// What each turn reads.
const WEIGHTS: usize = 1_000;

/// Deposits on so many accounts.
pub(super) struct Deposits {
    pub(super) accounts: u32,
}

impl Workload for Deposits {
    fn name(&self) -> &str {
        "deposits"
    }

    fn contract(&self) -> &'static str {
        SPEC
    }

    async fn open(&self, served: &Served, _clients: usize) -> Result<(), BenchError> {
        open_accounts(served, self.accounts).await
    }

    fn draw(&self, _number: usize, _turn: u64, draws: &mut ChaCha8Rng) -> Request {
        deposit(draws.random_range(0..self.accounts))
    }

    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError> {
        tally.explains(sum_of_accounts(served, self.accounts).await?, paid_in(self.accounts))
    }
}

/// Turns of the mill.
pub(super) struct Turns;

impl Workload for Turns {
    fn name(&self) -> &str {
        "turns"
    }

    fn contract(&self) -> &'static str {
        SPEC
    }

    async fn open(&self, served: &Served, _clients: usize) -> Result<(), BenchError> {
        let weights = (2..2 + WEIGHTS).map(|weight| weight.to_string()).collect::<Vec<_>>().join(",");
        let mut miller = Client::connect(served.address()).await?;
        miller.insist(&format!("{MILL}/Fill"), &format!(r#"{{"with":[{weights}]}}"#)).await
    }

    fn draw(&self, _number: usize, _turn: u64, _draws: &mut ChaCha8Rng) -> Request {
        Request { path: format!("{MILL}/Turn"), body: Some("{}".to_owned()), adds: 1 }
    }

    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError> {
        let mut miller = Client::connect(served.address()).await?;
        let found = miller.number(MILL, "turns").await?;
        tally.explains(found, 0)
    }
}
