//! What the clients of a soak do, each over a connection of its own.

use std::cell::Cell;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout_at};

use super::OPENING_EUROS;
use crate::served::{Answer, BenchError, Client};

/// Accounts that are there all the time.
pub(super) const LASTING: u64 = 1_000;
/// Accounts that a client has open at most.
const OPEN_MAX: usize = 20;
/// Commands of a batch.
const BATCH: usize = 20;
/// Changes that a follower asks for at once.
const PAGE: usize = 500;
/// How long a follower waits that has seen all.
const PAUSE: Duration = Duration::from_millis(200);

/// What all clients have done together.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) requests: Cell<u64>,
    pub(super) turned_away: Cell<u64>,
    /// Accounts that were opened.
    pub(super) opened: Cell<u64>,
    /// Commands with an idempotency key, whose answer is kept.
    pub(super) keyed: Cell<u64>,
    /// Changes that all followers have seen.
    pub(super) followed: Cell<u64>,
}

impl Done {
    pub(super) fn count(cell: &Cell<u64>, more: u64) {
        cell.set(cell.get() + more);
    }

    /// Objects, and answers that are kept.
    pub(super) fn objects(&self) -> u64 {
        self.opened.get() + self.keyed.get()
    }
}

pub(super) fn lasting(number: u64) -> String {
    format!("L{number}")
}

/// Opens an account; a second attempt finds it open.
pub(super) async fn open(client: &mut Client, id: &str) -> Result<(), BenchError> {
    let body = format!(r#"{{"initialDeposit":"EUR {OPENING_EUROS}.00"}}"#);
    loop {
        match client.send(&format!("/Account/{id}/Open"), Some(&body)).await? {
            Answer::Done | Answer::Refused => return Ok(()),
            Answer::TurnedAway { retry_after, .. } => sleep(retry_after.unwrap_or(PAUSE)).await,
            other @ Answer::Other { .. } => return Err(other.unexpected()),
        }
    }
}

/// A client that opens, closes, pays, reads and asks, with a pause behind each request.
pub(super) struct Worker<'a> {
    number: usize,
    client: Client,
    draws: ChaCha8Rng,
    done: &'a Done,
    /// Its own accounts that are open, the oldest first.
    open: VecDeque<String>,
    turn: u64,
}

impl<'a> Worker<'a> {
    pub(super) async fn connect(
        address: SocketAddr,
        number: usize,
        seed: u64,
        done: &'a Done,
    ) -> Result<Self, BenchError> {
        let draws = ChaCha8Rng::seed_from_u64(seed ^ number as u64);
        Ok(Self { number, client: Client::connect(address).await?, draws, done, open: VecDeque::new(), turn: 0 })
    }

    pub(super) async fn work(mut self, until: Instant, pause: Duration) -> Result<(), BenchError> {
        while Instant::now() < until {
            self.turn += 1;
            match self.draws.random_range(0..100) {
                0..4 => self.open_another().await?,
                4..7 => self.close_oldest().await?,
                7..30 => {
                    let path = format!("/Account/{}?mode=certain", self.any());
                    self.ask(&path, None).await?;
                }
                30..33 => {
                    let least = self.draws.random_range(0..2 * OPENING_EUROS);
                    self.ask(&format!("/Account?balance.ge=EUR%20{least}.00&limit=20"), None).await?;
                }
                33..35 => self.batch().await?,
                _ => {
                    let (from, body) = self.payment();
                    self.ask(&format!("/Account/{from}/Pay"), Some(&body)).await?;
                }
            }
            sleep(pause).await;
        }
        Ok(())
    }

    async fn ask(&mut self, path: &str, body: Option<&str>) -> Result<(), BenchError> {
        Done::count(&self.done.requests, 1);
        match self.client.send(path, body).await? {
            Answer::Done | Answer::Refused => Ok(()),
            Answer::TurnedAway { retry_after, .. } => {
                Done::count(&self.done.turned_away, 1);
                sleep(retry_after.unwrap_or_default()).await;
                Ok(())
            }
            other @ Answer::Other { .. } => Err(other.unexpected()),
        }
    }

    async fn open_another(&mut self) -> Result<(), BenchError> {
        if self.open.len() == OPEN_MAX {
            return self.close_oldest().await;
        }
        let id = format!("C{}-{}", self.number, self.turn);
        Done::count(&self.done.requests, 1);
        // Counted first: it may be there although nobody has said so.
        Done::count(&self.done.opened, 1);
        open(&mut self.client, &id).await?;
        self.open.push_back(id);
        Ok(())
    }

    async fn close_oldest(&mut self) -> Result<(), BenchError> {
        let Some(id) = self.open.pop_front() else { return Ok(()) };
        let body = format!(r#"{{"to":"{}"}}"#, self.any_lasting());
        self.ask(&format!("/Account/{id}/Close"), Some(&body)).await
    }

    /// Payments with idempotency keys, each a transaction of its own.
    async fn batch(&mut self) -> Result<(), BenchError> {
        let commands = (0..BATCH).map(|index| {
            let (from, body) = self.payment();
            let key = format!("{}.{}.{index}", self.number, self.turn);
            format!(r#"{{"class":"Account","id":"{from}","event":"Pay","arguments":{body},"idempotency_key":"{key}"}}"#)
        });
        let body = format!(r#"{{"commands":[{}]}}"#, commands.collect::<Vec<_>>().join(","));
        Done::count(&self.done.keyed, BATCH as u64);
        self.ask("/-/batch", Some(&body)).await
    }

    /// Who pays, and the body of the command; now and then more than there is.
    fn payment(&mut self) -> (String, String) {
        let (from, to) = (self.any(), self.any_lasting());
        let amount = self.draws.random_range(1..OPENING_EUROS / 2);
        (from, format!(r#"{{"amount":"EUR {amount}.00","to":"{to}"}}"#))
    }

    fn any(&mut self) -> String {
        match self.draws.random_range(0..10) {
            0 if !self.open.is_empty() => self.open[self.draws.random_range(0..self.open.len())].clone(),
            _ => self.any_lasting(),
        }
    }

    fn any_lasting(&mut self) -> String {
        lasting(self.draws.random_range(0..LASTING))
    }
}

/// A page of changes.
#[derive(Deserialize)]
struct Changes {
    changes: Vec<serde_json::Value>,
    next: String,
}

/// Follows all changes until then, page by page.
pub(super) async fn follow(address: SocketAddr, until: Instant, done: &Done) -> Result<(), BenchError> {
    let mut client = Client::connect(address).await?;
    let mut after = String::new();
    while Instant::now() < until {
        let Changes { changes, next } = client.json(&format!("/-/changes?limit={PAGE}{after}")).await?;
        Done::count(&done.followed, changes.len() as u64);
        after = format!("&after={next}");
        if changes.len() < PAGE {
            sleep(PAUSE).await;
        }
    }
    Ok(())
}

/// Holds a connection and says nothing, until then; whenever the server closes it, another one.
pub(super) async fn idle(address: SocketAddr, until: Instant) -> Result<(), BenchError> {
    let failed = |cause: std::io::Error| BenchError::Server { doing: "connecting", cause: cause.to_string() };
    while Instant::now() < until {
        let mut stream = TcpStream::connect(address).await.map_err(failed)?;
        let mut nothing = [0];
        // It is over when the time is, or the server has closed it in whichever way.
        drop(timeout_at(until.into(), stream.read(&mut nothing)).await);
    }
    Ok(())
}
