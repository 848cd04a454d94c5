//! Payments between two accounts, of which a part goes to accounts that are full: the payer can pay, and the payee refuses.
//!
//! # Oracle
//! What has room holds together what it held in the beginning, and what is full holds what it held.

use enact_rebel::Value;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::engine::{Draw, EngineError, Engines, Expected, Request, Turn, Workload};

/// Cents that each account holds in the beginning.
const OPENING: i64 = 1_000_000_000;

pub(in crate::psac) struct Aborts {
    with_room: Vec<String>,
    full: Vec<String>,
    refused_percent: u8,
}

impl Aborts {
    /// So many accounts have room, and as many are full.
    pub(in crate::psac) fn new(accounts: u32, refused_percent: u8) -> Self {
        let named = |name: &str| (0..accounts).map(|number| format!("{name}-{number}")).collect();
        Self { with_room: named("account"), full: named("full"), refused_percent }
    }

    /// What all that have room hold in the beginning, and all that are full.
    fn opening_cents(&self) -> i64 {
        OPENING * i64::try_from(self.full.len()).expect("few")
    }
}

impl Workload for Aborts {
    type Note = ();

    const CONTRACT: &'static str = include_str!("aborts.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let amount = OPENING.to_string();
        let open = |account: &String, limit: &str| {
            engines.request("Account", account, "Open", &[("amount", &amount), ("limit", limit)])
        };
        let all = self.opening_cents().to_string();
        let with_room = self.with_room.iter().map(|account| open(account, &all));
        with_room.chain(self.full.iter().map(|account| open(account, &amount))).collect()
    }

    fn draw(&self, engines: &Engines, _turn: Turn, draws: &mut ChaCha8Rng) -> Draw<()> {
        let count = self.with_room.len();
        let from = draws.random_range(0..count);
        let to = (from + draws.random_range(1..count)) % count;
        let (to, expected) = if draws.random_ratio(self.refused_percent.into(), 100) {
            (&self.full[to], Expected::Refused("the account is full"))
        } else {
            (&self.with_room[to], Expected::Done)
        };
        let request = engines.request("Account", &self.with_room[from], "Pay", &[("amount", "1"), ("to", to)]);
        Draw { request, expected, note: () }
    }

    fn acknowledged(&self, _note: (), _result: Option<&Value>) {}

    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        for accounts in [&self.with_room, &self.full] {
            EngineError::unless_conserved(self.opening_cents(), engines.sum("Account", accounts, "balance").await?)?;
        }
        Ok(())
    }
}
