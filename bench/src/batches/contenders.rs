//! The ways in which transfers are made.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::runtime;
use tokio::time::sleep;

use super::{BatchesError, Options};
use crate::cost::{iban, open_accounts, paid_in, sum_of_accounts};
use crate::engine::{Decider, EngineError, Engines, Records, Setup};
use crate::measure::{Lap, Sample, Stopwatch};
use crate::served::{Answer, BenchError, Client, Served, Server, block_on};

const SPEC: &str = include_str!("../../../examples/bank.rebel");
const OPENING_CENTS: i64 = 100_000_000;

/// How long a client that was turned away stays away: a whole second would be most of what is measured.
const AWAY_MAX: Duration = Duration::from_millis(5);
/// How much of an unexpected answer is shown.
const SHOWN_BYTES: usize = 300;

pub(super) struct Shape<'a> {
    pub(super) options: &'a Options,
    pub(super) program: PathBuf,
}

/// The two accounts of transfer `number`, the same in every run.
fn between(number: u32, accounts: u32) -> (u32, u32) {
    let mut draws = ChaCha8Rng::seed_from_u64(number.into());
    let from = draws.random_range(0..accounts);
    (from, (from + draws.random_range(1..accounts)) % accounts)
}

impl Shape<'_> {
    fn sample(&self, lap: Lap) -> Sample {
        Sample::new(lap, self.options.transfers.into())
    }

    /// Every client submits one transfer after the other to an engine of this process.
    pub(super) fn in_process(&self) -> Result<Sample, BatchesError> {
        let &Options { transfers, accounts, clients, ref data, .. } = self.options;
        let directory = tempfile::Builder::new().prefix("enact-bench-").tempdir_in(data)?;
        let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
        let names: Vec<String> = (0..accounts).map(iban).collect();
        runtime.block_on(async {
            let (decider, records) = (Decider::default(), Records::Directories);
            let setup = Setup { engines: 1, delay: Duration::ZERO, sync_min: None, decider, records };
            let engines = Engines::start(SPEC, directory.path(), &setup).await?;
            let deposit = format!("EUR {}.00", OPENING_CENTS / 100);
            let open = [("owner", "Ada"), ("initialDeposit", &*deposit)];
            let opened = names.iter().map(|name| engines.request("Account", name, "Open", &open)).collect();
            engines.submit_all(opened).await.map_err(EngineError::from)?;
            let next = Arc::new(AtomicU32::new(0));
            let watch = Stopwatch::start();
            let clients = (0..clients).map(|_| {
                let (engines, next, names) = (engines.clone(), Arc::clone(&next), names.clone());
                tokio::spawn(async move {
                    while let Some(number) = take(&next, transfers) {
                        let (from, to) = between(number, accounts);
                        let (from, to) = (&*names[from as usize], &*names[to as usize]);
                        let arguments = [("amount", "EUR 1.00"), ("from", from), ("to", to)];
                        let request = engines.request("Transfer", &format!("T{number}"), "Book", &arguments);
                        engines.submit(&request).await.map_err(EngineError::from)?;
                    }
                    Ok::<(), BatchesError>(())
                })
            });
            for client in clients.collect::<Vec<_>>() {
                client.await.expect("a client does not panic")?;
            }
            let lap = watch.stop();
            let expected = OPENING_CENTS * i64::from(accounts);
            let found = engines.sum("Account", &names, "balance").await?;
            EngineError::unless_conserved(expected, found)?;
            engines.stop().await?;
            Ok(self.sample(lap))
        })
    }

    /// Every client sends one request after the other, with a transfer each.
    pub(super) fn requests(&self) -> Result<Sample, BatchesError> {
        let &Options { transfers, accounts, clients, .. } = self.options;
        self.served(clients, &async |client, next| {
            while let Some(number) = take(next, transfers) {
                let (from, to) = between(number, accounts);
                let body = format!(r#"{{"amount":"EUR 1.00","from":"{}","to":"{}"}}"#, iban(from), iban(to));
                loop {
                    match client.send(&format!("/Transfer/T{number}/Book"), Some(&body)).await? {
                        Answer::Done => break,
                        Answer::TurnedAway { status: 503, retry_after } => stay_away(retry_after).await,
                        other => return Err(other.unexpected().into()),
                    }
                }
            }
            Ok(())
        })
    }

    /// Every client sends one batch after the other, of `size` transfers, which are one transaction if it is `atomic`.
    pub(super) fn batches(&self, size: u32, atomic: bool) -> Result<Sample, BatchesError> {
        let &Options { transfers, accounts, batch_clients, .. } = self.options;
        self.served(batch_clients, &async |client, next| {
            while let Some(batch) = take(next, transfers.div_ceil(size)) {
                let numbers = batch * size..transfers.min((batch + 1) * size);
                let (sent, body) = (numbers.len(), body(numbers, accounts, atomic));
                loop {
                    let (status, retry_after, answer) = client.exchange("/-/batch", &body).await?;
                    let done = match (status, atomic) {
                        (200, false) => answer.matches(r#""status":200"#).count(),
                        (200, true) => sent,
                        (503, _) => {
                            stay_away(retry_after).await;
                            continue;
                        }
                        _ => 0,
                    };
                    if done == sent {
                        break;
                    }
                    let answer = answer.chars().take(SHOWN_BYTES).collect();
                    return Err(BatchesError::NotDone { done, sent, answer });
                }
            }
            Ok(())
        })
    }

    /// Has so many clients ask a server on a fresh directory, and verifies what it holds in the end.
    fn served(
        &self,
        clients: u32,
        work: &impl AsyncFn(&mut Client, &AtomicU32) -> Result<(), BatchesError>,
    ) -> Result<Sample, BatchesError> {
        let &Options { accounts, ref data, .. } = self.options;
        block_on(async {
            let served = Served::start(&Server::enact(&self.program, "serializable"), data, SPEC, None).await?;
            open_accounts(&served, accounts).await?;
            let connect = (0..clients).map(|_| Client::connect(served.address()));
            let mut clients = try_join_all(connect).await?;
            let next = AtomicU32::new(0);
            let (watch, before) = (Stopwatch::start(), served.cpu_time());
            try_join_all(clients.iter_mut().map(|client| work(client, &next))).await?;
            let (mut lap, after) = (watch.stop(), served.cpu_time());
            lap.cpu = lap.cpu.zip(after).zip(before).map(|((own, after), before)| own + (after - before));
            let (found, expected) = (sum_of_accounts(&served, accounts).await?, paid_in(accounts));
            if found != expected {
                return Err(BenchError::NotConserved { found, expected }.into());
            }
            let helped = served.cpu_time().unwrap_or_default();
            served.stop().await?;
            Ok(self.sample(lap).helped(helped))
        })
    }
}

/// Waits as the server has asked for, if not for longer than [`AWAY_MAX`].
async fn stay_away(retry_after: Option<Duration>) {
    sleep(retry_after.unwrap_or_default().min(AWAY_MAX)).await;
}

/// The next number below `end` that nobody has.
fn take(next: &AtomicU32, end: u32) -> Option<u32> {
    Some(next.fetch_add(1, Ordering::Relaxed)).filter(|number| *number < end)
}

/// A batch of the transfers with these numbers.
fn body(numbers: Range<u32>, accounts: u32, atomic: bool) -> String {
    let mut body = format!(r#"{{"atomic":{atomic},"commands":["#);
    for number in numbers.clone() {
        let (from, to) = between(number, accounts);
        let comma = if number == numbers.start { "" } else { "," };
        let (from, to) = (iban(from), iban(to));
        write!(
            body,
            r#"{comma}{{"class":"Transfer","id":"T{number}","event":"Book","arguments":{{"amount":"EUR 1.00","from":"{from}","to":"{to}"}}}}"#
        )
        .expect("memory takes it");
    }
    body.push_str("]}");
    body
}
