//! `SmallBank`: customers with a savings and a checking account each, and six short transactions on them.
//!
//! 15 % each ask for the balance, deposit, transact on savings, amalgamate two customers and write a check; 25 % send a payment.
//! Customers are drawn by Zipf's law. A withdrawal or payment of more than there is is refused.
//!
//! # Oracle
//! All balances add up to what was there in the beginning and came in since, less what checks took.
//!
//! # Source
//! M. Alomari, M. Cahill, A. Fekete, U. Röhm: *The Cost of Serializability on Platforms That Use Snapshot Isolation*, ICDE 2008. Shares
//! and amounts are those of OLTP-Bench, where savings only fall; here half of the transactions on them are deposits.

use std::sync::atomic::{AtomicI64, Ordering};

use enact_rebel::Value;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::zipf::Zipf;
use crate::engine::{Draw, EngineError, Engines, Expected, Request, Turn, Workload};

/// Cents that each account holds in the beginning.
const OPENING: i64 = 1_000_000;
const POOR: Expected = Expected::DoneUnless("insufficient funds");

pub(in crate::psac) struct SmallBank {
    customers: Vec<String>,
    choice: Zipf,
    brought: AtomicI64,
}

impl SmallBank {
    pub(in crate::psac) fn new(customers: u32, exponent: f64) -> Self {
        Self {
            customers: (0..customers).map(|number| format!("customer-{number}")).collect(),
            choice: Zipf::new(customers, exponent),
            brought: AtomicI64::new(0),
        }
    }
}

/// What a command brings.
pub(in crate::psac) enum Brings {
    /// So many cents.
    Cents(i64),
    /// It takes what it returns.
    TakesResult,
}

impl Workload for SmallBank {
    type Note = Brings;

    const CONTRACT: &'static str = include_str!("small_bank.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let amount = OPENING.to_string();
        let open = |class: &str, customer: &String| engines.request(class, customer, "Open", &[("amount", &amount)]);
        let both = |customer| ["Savings", "Checking"].map(|class| open(class, customer));
        self.customers.iter().flat_map(both).collect()
    }

    fn draw(&self, engines: &Engines, _turn: Turn, draws: &mut ChaCha8Rng) -> Draw<Brings> {
        let (one, other) = self.choice.draw_two(draws);
        let (one, other) = (&self.customers[one], &self.customers[other]);
        let checking = |event: &str, arguments: &[(&str, &str)]| engines.request("Checking", one, event, arguments);
        let (request, expected, note) = match draws.random_range(0..100) {
            0..15 => (checking("Balance", &[]), Expected::Done, Brings::Cents(0)),
            15..30 => (checking("Deposit", &[("amount", "130")]), Expected::Done, Brings::Cents(130)),
            30..45 => {
                let by: i64 = if draws.random_bool(0.5) { 2_020 } else { -2_020 };
                let request = engines.request("Savings", one, "Transact", &[("by", &by.to_string())]);
                (request, POOR, Brings::Cents(by))
            }
            45..60 => (checking("Amalgamate", &[("to", other)]), Expected::Done, Brings::Cents(0)),
            60..75 => (checking("WriteCheck", &[("amount", "500")]), Expected::Done, Brings::TakesResult),
            _ => (checking("SendPayment", &[("amount", "500"), ("to", other)]), POOR, Brings::Cents(0)),
        };
        Draw { request, expected, note }
    }

    fn acknowledged(&self, note: Brings, result: Option<&Value>) {
        let cents = match (note, result) {
            (Brings::Cents(cents), _) => cents,
            (Brings::TakesResult, Some(Value::Integer(taken))) => -taken,
            (Brings::TakesResult, other) => unreachable!("a check returns what it takes, not {other:?}"),
        };
        // The clients have been joined before it is read.
        self.brought.fetch_add(cents, Ordering::Relaxed);
    }

    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        let opening = 2 * OPENING * i64::try_from(self.customers.len()).expect("few");
        let expected = opening + self.brought.load(Ordering::Relaxed);
        let saved = engines.sum("Savings", &self.customers, "balance").await?;
        let checked = engines.sum("Checking", &self.customers, "balance").await?;
        EngineError::unless_conserved(expected, saved + checked)
    }
}
