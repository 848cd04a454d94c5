//! The example bank: deposits, transfers and new accounts.

use std::sync::atomic::{AtomicI64, Ordering};

use clap::ValueEnum;
use clap::builder::PossibleValue;
use enact_rebel::Value;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::EngineError;
use super::clients::{Draw, Expected, Turn, Workload};
use super::engines::{Engines, Request};
use crate::cost::iban;

const OPENING_CENTS: i64 = 100_000_000;
/// The number of the first account that a client opens; the numbers of the others follow, apart by client and window.
const FIRST_CREATED: u32 = 1_000_000;
const CLIENTS_MAX: u32 = 1_024;
const WINDOWS_MAX: u32 = 16;

/// What the clients submit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A deposit on an account drawn uniformly
    Deposit,
    /// A transfer between two accounts drawn uniformly
    Transfer,
    /// Transfers from accounts drawn uniformly to one
    TransferHot,
    /// A new account
    Open,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Deposit, Self::Transfer, Self::TransferHot, Self::Open];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deposit => "deposit",
            Self::Transfer => "transfer",
            Self::TransferHot => "transfer-hot",
            Self::Open => "open",
        }
    }
}

impl ValueEnum for Kind {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name()))
    }
}

/// Accounts that the clients know from the beginning, and what they do with them.
pub(crate) struct Bank {
    kind: Kind,
    accounts: Vec<String>,
    deposited_cents: AtomicI64,
}

impl Bank {
    pub(crate) fn new(kind: Kind, accounts: u32) -> Self {
        Self { kind, accounts: (0..accounts).map(iban).collect(), deposited_cents: AtomicI64::new(0) }
    }
}

impl Workload for Bank {
    /// The cents that come in.
    type Note = i64;

    const CONTRACT: &'static str = include_str!("../../../examples/bank.rebel");

    fn opening(&self, engines: &Engines) -> Vec<Request> {
        let deposit = format!("EUR {}.00", OPENING_CENTS / 100);
        let arguments = [("owner", "Ada"), ("initialDeposit", &*deposit)];
        self.accounts.iter().map(|account| engines.request("Account", account, "Open", &arguments)).collect()
    }

    fn draw(&self, engines: &Engines, turn: Turn, draws: &mut ChaCha8Rng) -> Draw<i64> {
        let count = self.accounts.len();
        let from = draws.random_range(1..count);
        let to = match self.kind {
            Kind::TransferHot => 0,
            Kind::Deposit | Kind::Transfer | Kind::Open => (from + draws.random_range(1..count)) % count,
        };
        let (from, to) = (&self.accounts[from], &self.accounts[to]);
        let (request, note) = match self.kind {
            Kind::Deposit => (engines.request("Account", to, "Deposit", &[("amount", "EUR 1.00")]), 100),
            Kind::Transfer | Kind::TransferHot => {
                let arguments = [("amount", "EUR 1.00"), ("from", from), ("to", to)];
                (engines.request("Transfer", &turn.to_string(), "Book", &arguments), 0)
            }
            Kind::Open => {
                let arguments = [("owner", "Bob"), ("initialDeposit", "EUR 50.00")];
                (engines.request("Account", &created(turn), "Open", &arguments), 0)
            }
        };
        Draw { request, expected: Expected::Done, note }
    }

    fn acknowledged(&self, cents: i64, _result: Option<&Value>) {
        // The clients have been joined before it is read.
        self.deposited_cents.fetch_add(cents, Ordering::Relaxed);
    }

    /// The accounts that were there from the beginning hold what was paid in.
    async fn verify(&self, engines: &Engines) -> Result<(), EngineError> {
        let opening = OPENING_CENTS * i64::try_from(self.accounts.len()).expect("few");
        let expected = opening + self.deposited_cents.load(Ordering::Relaxed);
        EngineError::unless_conserved(expected, engines.sum("Account", &self.accounts, "balance").await?)
    }
}

/// The account that a client opens in this turn.
fn created(Turn { window, client, number }: Turn) -> String {
    let of_client = u32::try_from(number).expect("few").wrapping_mul(CLIENTS_MAX).wrapping_add(client);
    iban(FIRST_CREATED.wrapping_add(of_client.wrapping_mul(WINDOWS_MAX)).wrapping_add(window))
}
