//! Taxes: one of many payers, drawn uniformly, pays one cent to the one office.
//!
//! # Oracle
//! The office has collected a cent for each acknowledged payment, and the payers lack as much.
//!
//! # Source
//! The benchmark of this name in the implementation of local coordination avoidance by the authors of the paper.

use std::sync::atomic::{AtomicI64, Ordering};

use enact_rebel::Value;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::engine::{Draw, EngineError, Engines, Expected, Request, Turn, Workload};

/// Cents that each payer has in the beginning.
const OPENING: i64 = 1_000_000_000;
const OFFICE: &str = "office";

pub(in crate::psac) struct Tax {
    payers: Vec<String>,
    paid: AtomicI64,
}

impl Tax {
    pub(in crate::psac) fn new(payers: u32) -> Self {
        Self { payers: (0..payers).map(|number| format!("payer-{number}")).collect(), paid: AtomicI64::new(0) }
    }
}

impl Workload for Tax {
    type Note = ();

    const CONTRACT: &'static str = include_str!("tax.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let amount = OPENING.to_string();
        let payers =
            self.payers.iter().map(|payer| engines.request("Payer", payer, "Register", &[("amount", &amount)]));
        payers.chain([engines.request("Office", OFFICE, "Open", &[])]).collect()
    }

    fn draw(&self, engines: &Engines, _turn: Turn, draws: &mut ChaCha8Rng) -> Draw<()> {
        let payer = &self.payers[draws.random_range(0..self.payers.len())];
        let request = engines.request("Payer", payer, "PayTax", &[("amount", "1"), ("to", OFFICE)]);
        Draw { request, expected: Expected::Done, note: () }
    }

    fn acknowledged(&self, _note: (), _result: Option<&Value>) {
        // The clients have been joined before it is read.
        self.paid.fetch_add(1, Ordering::Relaxed);
    }

    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        let paid = self.paid.load(Ordering::Relaxed);
        EngineError::unless_conserved(paid, engines.number("Office", OFFICE, "collected").await?)?;
        let left = engines.sum("Payer", &self.payers, "balance").await?;
        EngineError::unless_conserved(OPENING * i64::try_from(self.payers.len()).expect("few") - paid, left)
    }
}
