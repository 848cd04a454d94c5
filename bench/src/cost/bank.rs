//! Requests to the example bank.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::served::{BenchError, Client, Request, Served, Tally, Workload};

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const OPENING_EUROS: i64 = 1_000_000;
/// Connections that open the accounts.
const TELLERS: u32 = 16;

/// What the clients ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `GET /health`: what HTTP alone costs
    Health,
    /// A deposit on an account drawn uniformly
    Deposit,
    /// Deposits on one account
    DepositHot,
    /// A transfer between two accounts drawn uniformly
    Transfer,
    /// Transfers from accounts drawn uniformly to one
    TransferHot,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 5] = [Self::Health, Self::Deposit, Self::DepositHot, Self::Transfer, Self::TransferHot];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Health => "health",
            Self::Deposit => "deposit",
            Self::DepositHot => "deposit-hot",
            Self::Transfer => "transfer",
            Self::TransferHot => "transfer-hot",
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

/// Requests of one kind to a bank with so many accounts.
pub(crate) struct Requests {
    pub(crate) kind: Kind,
    pub(crate) accounts: u32,
}

impl Workload for Requests {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn contract(&self) -> &'static str {
        SPEC
    }

    async fn open(&self, served: &Served, _clients: usize) -> Result<(), BenchError> {
        open_accounts(served, self.accounts).await
    }

    fn draw(&self, number: usize, turn: u64, draws: &mut ChaCha8Rng) -> Request {
        match self.kind {
            Kind::Health => Request { path: "/health".to_owned(), body: None, adds: 0 },
            Kind::Deposit => deposit(draws.random_range(0..self.accounts)),
            Kind::DepositHot => deposit(0),
            Kind::Transfer => {
                let from = draws.random_range(0..self.accounts);
                let to = (from + draws.random_range(1..self.accounts)) % self.accounts;
                transfer(number, turn, from, to)
            }
            Kind::TransferHot => transfer(number, turn, draws.random_range(1..self.accounts), 0),
        }
    }

    async fn verify(&self, served: &Served, tally: &Tally) -> Result<(), BenchError> {
        let (found, expected) = (sum_of_accounts(served, self.accounts).await?, paid_in(self.accounts));
        match self.kind {
            Kind::Deposit | Kind::DepositHot => tally.explains(found, expected),
            // Neither changes the sum, whatever became of it.
            Kind::Health | Kind::Transfer | Kind::TransferHot if found == expected => Ok(()),
            Kind::Health | Kind::Transfer | Kind::TransferHot => Err(BenchError::NotConserved { found, expected }),
        }
    }
}

/// What was paid into so many accounts when they were opened.
pub(crate) fn paid_in(accounts: u32) -> i64 {
    i64::from(accounts) * OPENING_EUROS
}

/// What is on so many accounts.
pub(crate) async fn sum_of_accounts(served: &Served, accounts: u32) -> Result<i64, BenchError> {
    let mut teller = Client::connect(served.address()).await?;
    let mut found = 0;
    for account in 0..accounts {
        found += teller.euros(&format!("/Account/{}", iban(account)), "balance").await?;
    }
    Ok(found)
}

/// Opens accounts with the numbers below `accounts`, a million euros on each.
pub(crate) async fn open_accounts(served: &Served, accounts: u32) -> Result<(), BenchError> {
    let lane = async |lane: u32| {
        let mut teller = Client::connect(served.address()).await?;
        for account in (lane..accounts).step_by(TELLERS as usize) {
            let body = format!(r#"{{"owner":"Ada","initialDeposit":"EUR {OPENING_EUROS}.00"}}"#);
            teller.insist(&format!("/Account/{}/Open", iban(account)), &body).await?;
        }
        Ok(())
    };
    futures_util::future::try_join_all((0..TELLERS).map(lane)).await.map(drop)
}

/// A deposit of one euro.
pub(crate) fn deposit(account: u32) -> Request {
    let path = format!("/Account/{}/Deposit", iban(account));
    Request { path, body: Some(r#"{"amount":"EUR 1.00"}"#.to_owned()), adds: 1 }
}

/// A transfer of one euro, the `turn`th of client `number`.
pub(crate) fn transfer(number: usize, turn: u64, from: u32, to: u32) -> Request {
    let body = format!(r#"{{"amount":"EUR 1.00","from":"{}","to":"{}"}}"#, iban(from), iban(to));
    Request { path: format!("/Transfer/c{number}-{turn}/Book"), body: Some(body), adds: 0 }
}

/// The number of an account, with the check digits of ISO 13616.
pub(crate) fn iban(account: u32) -> String {
    // `ENAC`, ten digits, `NL`, and 00 for the check digits, in figures; 10^12 mod 97 and so on take them apart.
    let rest = "14231012".bytes().fold(0, figure);
    let rest = (0..10).rev().fold(rest, |rest, place| (rest * 10 + account / 10_u32.pow(place) % 10) % 97);
    let rest = "232100".bytes().fold(rest, figure);
    format!("NL{:02}ENAC{account:010}", 98 - rest)
}

fn figure(rest: u32, digit: u8) -> u32 {
    (rest * 10 + u32::from(digit - b'0')) % 97
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_have_valid_numbers() {
        let valid = |text: &str| text.parse::<enact_rebel::Iban>().is_ok();
        let last = [9_999, 1_234_567_890, u32::MAX];
        assert!((0..1_000).chain(last).all(|account| valid(&iban(account))));
    }

    #[test]
    fn every_request_keeps_or_adds_what_it_says() {
        assert_eq!((deposit(1).adds, transfer(0, 0, 1, 2).adds), (1, 0));
    }
}
