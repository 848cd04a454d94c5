//! YCSB+T's closed economy: read-modify-write transfers of one cent between two accounts that are drawn by Zipf's law.
//!
//! The contract reads two balances and writes both, and says nothing of addition: what a store of keys and values would see.
//!
//! # Oracle
//! All accounts together hold what they held in the beginning.
//!
//! # Source
//! A. Dey, A. Fekete, R. Nambiar, U. Röhm: *YCSB+T: Benchmarking Web-Scale Transactional Databases*, ICDE Workshops 2014.

use enact_rebel::Value;
use rand_chacha::ChaCha8Rng;

use super::zipf::Zipf;
use crate::engine::{Draw, EngineError, Engines, Expected, Request, Turn, Workload};

/// Cents that each account holds in the beginning.
const OPENING: i64 = 100_000;

pub(in crate::psac) struct ClosedEconomy {
    accounts: Vec<String>,
    choice: Zipf,
}

impl ClosedEconomy {
    pub(in crate::psac) fn new(accounts: u32, exponent: f64) -> Self {
        let choice = Zipf::new(accounts, exponent);
        Self { accounts: (0..accounts).map(|number| format!("account-{number}")).collect(), choice }
    }
}

impl Workload for ClosedEconomy {
    type Note = ();

    const CONTRACT: &'static str = include_str!("closed_economy.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let amount = OPENING.to_string();
        self.accounts
            .iter()
            .map(|account| engines.request("Account", account, "Insert", &[("amount", &amount)]))
            .collect()
    }

    fn draw(&self, engines: &Engines, turn: Turn, draws: &mut ChaCha8Rng) -> Draw<()> {
        let (from, to) = self.choice.draw_two(draws);
        let arguments = [("from", &*self.accounts[from]), ("to", &*self.accounts[to])];
        let request = engines.request("Transfer", &turn.to_string(), "Commit", &arguments);
        Draw { request, expected: Expected::DoneUnless("nothing to transfer"), note: () }
    }

    fn acknowledged(&self, _note: (), _result: Option<&Value>) {}

    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        let found = engines.sum("Account", &self.accounts, "balance").await?;
        EngineError::unless_conserved(OPENING * i64::try_from(self.accounts.len()).expect("few"), found)
    }
}
