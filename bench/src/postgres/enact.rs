//! Enact as a process that serves the contract of `transfers`.

use std::path::Path;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::PostgresError;
use super::ledger::{Account, OPENING, Order, OrderId, Workload};
use super::window::{Bank, Teller, missing};
use crate::served::{Answer, Client, Served, Server};
use crate::transfers::SPEC;

/// Connections beside those of the clients.
const LANES: u32 = 16;

pub(super) struct Enact(Served);

impl Enact {
    /// Serves the accounts of `workload` from a new directory in `parent`.
    pub(super) async fn start(program: &Path, parent: &Path, workload: &Workload) -> Result<Self, PostgresError> {
        let server = Server::enact(program, "serializable");
        let enact = Self(Served::start(&server, parent, SPEC, None).await?);
        let body = opening();
        enact
            .in_lanes(workload.accounts, async |client, account| {
                client.insist(&format!("{}/Open", account_path(account.into())), &body).await?;
                Ok(())
            })
            .await?;
        Ok(enact)
    }

    pub(super) async fn stop(self) -> Result<(), PostgresError> {
        Ok(self.0.stop().await?)
    }

    /// Does something with each number below `count`, and returns what comes of it in their order.
    async fn in_lanes<T>(
        &self,
        count: u32,
        each: impl AsyncFn(&mut Client, u32) -> Result<T, PostgresError>,
    ) -> Result<Vec<T>, PostgresError> {
        let each = &each;
        let lane = async |lane: u32| {
            let mut client = Client::connect(self.0.address()).await?;
            let mut done = Vec::new();
            for number in (lane..count).step_by(LANES as usize) {
                done.push((number, each(&mut client, number).await?));
            }
            Ok::<_, PostgresError>(done)
        };
        let mut all: Vec<_> = try_join_all((0..LANES).map(lane)).await?.into_iter().flatten().collect();
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, one)| one).collect())
    }
}

fn account_path(account: Account) -> String {
    format!("/Account/A{account}")
}

fn transfer_path(id: OrderId) -> String {
    format!("/MoneyTransfer/c{}-{}", id.client, id.turn)
}

/// The parameters of an account's beginning.
fn opening() -> String {
    format!(r#"{{"initialDeposit":"EUR {OPENING}.00"}}"#)
}

impl Bank for Enact {
    type Teller = Client;

    const LOOKED_AT_MAX: usize = 10_000;

    async fn tellers(&self, clients: u32) -> Result<Vec<Client>, PostgresError> {
        Ok(try_join_all((0..clients).map(|_| Client::connect(self.0.address()))).await?)
    }

    fn cpu_time(&self) -> Option<Duration> {
        self.0.cpu_time()
    }

    async fn balances(&self, accounts: u32) -> Result<Vec<i64>, PostgresError> {
        let balance = async |client: &mut Client, account: u32| {
            Ok(client.euros(&account_path(account.into()), "balance").await?)
        };
        self.in_lanes(accounts, balance).await
    }

    async fn expect_made(&self, orders: &[Order]) -> Result<(), PostgresError> {
        let look = async |client: &mut Client, number: u32| {
            let (path, state) = match orders[number as usize] {
                Order::Open(account) => (account_path(account), "opened"),
                Order::Book { id, .. } => (transfer_path(id), "booked"),
            };
            if client.is_in(&path, state).await? { Ok(()) } else { Err(missing(path)) }
        };
        self.in_lanes(u32::try_from(orders.len()).expect("a sample"), look).await.map(drop)
    }
}

impl Teller for Client {
    async fn submit(&mut self, order: Order) -> Result<Answer, PostgresError> {
        let (path, body) = match order {
            Order::Open(account) => (format!("{}/Open", account_path(account)), opening()),
            Order::Book { id, payer, payee } => {
                let body = format!(r#"{{"amount":"EUR 1.00","from":"A{payer}","to":"A{payee}"}}"#);
                (format!("{}/Book", transfer_path(id)), body)
            }
        };
        Ok(self.send(&path, Some(&body)).await?)
    }
}
