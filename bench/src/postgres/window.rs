//! A closed loop that is the same for both banks.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::ledger::{Ledger, Order, OrderId, Workload};
use super::report::Sample;
use super::{Contender, PostgresError};
use crate::psac::Experiment;
use crate::served::{Answer, CpuTime, Tally};

/// A server that keeps the accounts of a workload.
pub(super) trait Bank {
    type Teller: Teller;

    /// How many of the objects that were made are looked at.
    const LOOKED_AT_MAX: usize;

    /// One for each client.
    async fn tellers(&self, clients: u32) -> Result<Vec<Self::Teller>, PostgresError>;

    /// The CPU time that its processes have used so far, where the system tells.
    fn cpu_time(&self) -> Option<Duration>;

    /// The euros on the first so many accounts, in order of their numbers.
    async fn balances(&self, accounts: u32) -> Result<Vec<i64>, PostgresError>;

    /// Refuses if what these orders have made is not there.
    async fn expect_made(&self, orders: &[Order]) -> Result<(), PostgresError>;
}

/// What a client speaks to.
pub(super) trait Teller {
    /// Asks for the order, and waits for the answer.
    async fn submit(&mut self, order: Order) -> Result<Answer, PostgresError>;
}

/// The error of an object that was acknowledged and is not there.
pub(super) fn missing(what: impl std::fmt::Display) -> PostgresError {
    PostgresError::Wrong(format!("{what} was acknowledged and is not there"))
}

/// How long how many clients ask, and how their draws begin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) warm_up: Duration,
    pub(super) length: Duration,
    pub(super) seed: u64,
    pub(super) clients: u32,
}

/// What clients saw of a bank whose accounts were verified.
pub(super) struct Measured {
    tally: Tally,
    cpu: CpuTime,
    clients: u32,
}

impl Window {
    /// Lets the clients ask for the orders of `workload`, and verifies what the bank holds then.
    ///
    /// # Errors
    /// [`PostgresError`] when something is not answered with success, or the bank does not hold what was acknowledged.
    pub(super) async fn measure<B: Bank>(&self, bank: &B, workload: &Workload) -> Result<Measured, PostgresError> {
        let (measured, ledger) = self.ask(bank, workload).await?;
        verify(bank, &ledger).await?;
        Ok(measured)
    }

    /// Returns also what was acknowledged.
    pub(super) async fn ask<B: Bank>(
        &self,
        bank: &B,
        workload: &Workload,
    ) -> Result<(Measured, Ledger), PostgresError> {
        let tellers = bank.tellers(self.clients).await?;
        let ledger = RefCell::new(Ledger::new(workload));
        let start = Instant::now() + self.warm_up;
        let span = start..start + self.length;
        let work = async |(client, mut teller): (u32, B::Teller)| {
            let mut draws = ChaCha8Rng::seed_from_u64(self.seed ^ u64::from(client));
            let mut tally = Tally::new();
            for turn in 0.. {
                let order = workload.draw(OrderId { client, turn }, &mut draws);
                let sent = Instant::now();
                let answer = loop {
                    match teller.submit(order).await? {
                        // What a server has no room for has not happened.
                        Answer::TurnedAway { status: 503, retry_after } => {
                            tally.turned_away += u64::from(span.contains(&sent));
                            if Instant::now() >= span.end {
                                return Ok(tally);
                            }
                            tokio::time::sleep(retry_after.unwrap_or(Duration::from_millis(10))).await;
                        }
                        answer => break answer,
                    }
                };
                let Answer::Done = answer else { return Err(answer.unexpected().into()) };
                ledger.borrow_mut().note(order);
                let answered = Instant::now();
                tally.settled += u64::from(span.contains(&answered));
                let is_measured = sent >= span.start && answered < span.end;
                tally.count(answer, 0, is_measured.then(|| answered - sent))?;
                if answered >= span.end {
                    break;
                }
            }
            Ok::<_, PostgresError>(tally)
        };
        let tallies = futures_util::future::try_join_all((0..).zip(tellers).map(work));
        let cpu = async { Ok(CpuTime::within(&span, || bank.cpu_time()).await) };
        let (tallies, cpu) = futures_util::future::try_join(tallies, cpu).await?;
        let mut tally = Tally::new();
        tallies.iter().for_each(|one| tally.add(one));
        Ok((Measured { tally, cpu, clients: self.clients }, ledger.into_inner()))
    }
}

/// Refuses what the bank holds if it is not what was acknowledged.
pub(super) async fn verify<B: Bank>(bank: &B, ledger: &Ledger) -> Result<(), PostgresError> {
    ledger.accept(&bank.balances(ledger.accounts()).await?)?;
    bank.expect_made(&ledger.some(B::LOOKED_AT_MAX)).await
}

impl Measured {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(super) fn sample(&self, experiment: Experiment, contender: Contender, seconds: u64) -> Sample {
        let Self { tally, cpu, clients } = self;
        let each_us =
            |time: Option<Duration>| Some(time?.as_secs_f64() * 1e6 / tally.settled as f64).filter(|us| us.is_finite());
        let (server, connections) = match contender {
            Contender::Enact => ("Enact", None),
            Contender::Postgres(connections) => ("PostgreSQL", Some(connections)),
        };
        Sample {
            experiment: experiment.name().to_owned(),
            clients: *clients,
            server: server.to_owned(),
            connections,
            rate: tally.done() as f64 / seconds as f64,
            p50_ms: tally.latency_ms(0.5),
            p99_ms: tally.latency_ms(0.99),
            cpu_us: each_us(cpu.server),
            client_us: each_us(cpu.clients),
            turned_away: tally.turned_away,
        }
    }
}
