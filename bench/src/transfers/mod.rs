//! Money transfers over HTTP against a served bank.
//!
//! The workload is *Sync1000* of Path-Sensitive Atomic Commit, section 6: one transfer entity books between two of N
//! accounts drawn uniformly. The server is a process of its own, started on a fresh data directory, or over fresh servers of NATS
//! or PostgreSQL, as in production: every acknowledged transfer has been synced to disk.
//!
//! # Oracle
//! After each window the balances of all accounts are read back and must add up to what was paid in.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::served::{BenchError, Client, Journal, Load, Report, Request, Served, Server, Tally, Workload};

/// The bank of accounts and transfers.
pub(crate) const SPEC: &str = include_str!("transfers.rebel");
const OPENING_EUROS: i64 = 1_000_000;

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Accounts that the transfers are drawn from.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub accounts: u64,
    /// Where the records are kept, one measurement each; NATS takes a program that was built with `--features nats`, PostgreSQL one with
    /// `--features postgres`, and a simulated sync does not count there.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Journal::Directory])]
    pub journals: Vec<Journal>,
    /// How many clients ask how often.
    #[command(flatten)]
    pub load: Load,
}

/// Measures transfers for every combination of clients, admission strategy and journal, interleaved over the rounds.
///
/// # Errors
/// [`BenchError`] when the server cannot be built or used, answers something unexpected, or the oracle refuses a result.
pub fn run(options: &Options) -> Result<Report, BenchError> {
    let load = &options.load;
    let program = load.program()?;
    let pairs =
        load.admission.iter().flat_map(|admission| options.journals.iter().map(move |&journal| (admission, journal)));
    let servers: Vec<_> = pairs.map(|(admission, journal)| Server::enact_over(&program, admission, journal)).collect();
    load.run_on(&[Transfers { accounts: options.accounts }], &servers)
}

/// Transfers between so many accounts.
struct Transfers {
    accounts: u64,
}

impl Workload for Transfers {
    fn name(&self) -> &str {
        "transfers"
    }

    fn contract(&self) -> &'static str {
        SPEC
    }

    async fn open(&self, served: &Served, _clients: usize) -> Result<(), BenchError> {
        open_accounts(served, self.accounts).await
    }

    fn draw(&self, number: usize, turn: u64, draws: &mut ChaCha8Rng) -> Request {
        let from = draws.random_range(0..self.accounts);
        let to = (from + draws.random_range(1..self.accounts)) % self.accounts;
        let path = format!("/MoneyTransfer/c{number}-{turn}/Book");
        let body = format!(r#"{{"amount":"EUR 1.00","from":"{}","to":"{}"}}"#, account_id(from), account_id(to));
        Request { path, body: Some(body), adds: 0 }
    }

    async fn verify(&self, served: &Served, _tally: &Tally) -> Result<(), BenchError> {
        verify(served, self.accounts).await
    }
}

async fn open_accounts(bank: &Served, accounts: u64) -> Result<(), BenchError> {
    const LANES: u64 = 16;
    let lane = async |lane: u64| {
        let mut client = Client::connect(bank.address()).await?;
        for account in (lane..accounts).step_by(LANES as usize) {
            let body = format!(r#"{{"initialDeposit":"EUR {OPENING_EUROS}.00"}}"#);
            client.insist(&format!("/Account/{}/Open", account_id(account)), &body).await?;
        }
        Ok(())
    };
    futures_util::future::try_join_all((0..LANES).map(lane)).await.map(drop)
}

async fn verify(bank: &Served, accounts: u64) -> Result<(), BenchError> {
    let mut client = Client::connect(bank.address()).await?;
    let mut found = 0;
    for account in 0..accounts {
        found += client.euros(&format!("/Account/{}", account_id(account)), "balance").await?;
    }
    let expected = i64::try_from(accounts).expect("each was opened") * OPENING_EUROS;
    if found == expected { Ok(()) } else { Err(BenchError::NotConserved { found, expected }) }
}

fn account_id(number: u64) -> String {
    format!("A{number}")
}
