//! A bank under a steady mix for as long as wanted, to see whether its server grows beyond what it stores.
//!
//! Clients open and close accounts, pay, read, ask and send batches with idempotency keys, with a pause behind each request; others follow all
//! changes, and others hold connections and say nothing. The server is the program, as a process of its own on a data directory. Meanwhile its
//! memory, descriptors, threads and files are read, and at the end compared (`growth`) with what was stored.
//!
//! # Oracle
//! Money comes by opened accounts alone: all balances together are what was paid in, before and after the server is stopped and started on
//! what it has stored. Then `enact audit` finds nothing there.

mod clients;
mod growth;
mod samples;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::time::sleep_until;

use self::clients::{Done, LASTING, Worker};
pub use self::growth::{Growth, Sample};
use crate::measure::{in_short, write_json};
use crate::served::{BenchError, Client, Served, Server, block_on, program};

const SPEC: &str = include_str!("soak.rebel");
const OPENING_EUROS: i64 = 100;
/// How often the server is looked at; shorter soaks look this often in all.
const SAMPLES: u32 = 480;
const SAMPLE_AT_MOST_EVERY: Duration = Duration::from_millis(50);
/// Objects that the server keeps for the next command: few, so that a short soak fills what a long one would.
const MEMORY: [&str; 2] = ["--memory", "16MiB"];

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// For how long, such as `8h` or `90s`
    #[arg(long = "for", value_name = "TIME", default_value = "8h", value_parser = humantime::parse_duration)]
    pub time: Duration,
    /// Clients that open, close, pay, read and ask
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    pub clients: u16,
    /// How long each of them rests behind a request
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = humantime::parse_duration)]
    pub pause: Duration,
    /// Clients that follow all changes
    #[arg(long, default_value_t = 2)]
    pub followers: u16,
    /// Connections on which nothing is said
    #[arg(long, default_value_t = 32)]
    pub idle: u16,
    /// Seed of the clients' draws
    #[arg(long, default_value_t = 74_755)]
    pub seed: u64,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Parent of the fresh data directory
    #[arg(long, default_value = ".")]
    pub data: PathBuf,
    /// Writes all samples as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Why a soak has no result, or not the one that is wanted.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SoakError {
    /// The server failed, answered something unexpected, or lost money.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// What was stored is not what the specification allows.
    #[error("the audit of what was stored found something: {printed}")]
    Audit {
        /// What it printed.
        printed: String,
    },
    /// There is no command to audit with.
    #[error("the audit of what was stored cannot be run")]
    NoAudit(#[source] std::io::Error),
    /// Something has grown.
    #[error("grown beyond what was stored: {}", names.join("; "))]
    Grown {
        /// What.
        names: Vec<&'static str>,
    },
    /// The soak was too short to say anything.
    #[error("too short to compare its halves: --for some seconds at least")]
    Short,
}

/// What a soak has seen; displays as a table.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// How long it took, in seconds.
    pub seconds: f64,
    /// Requests of clients, but for those of followers.
    pub requests: u64,
    /// Of these, those that were told to come back later.
    pub turned_away: u64,
    /// Accounts that were opened.
    pub opened: u64,
    /// Changes that followers have seen together.
    pub followed: u64,
    /// Records that were stored.
    pub records: f64,
    /// How the server has grown.
    pub growth: Vec<Growth>,
    /// All that was read of it.
    pub samples: Vec<Sample>,
}

impl Report {
    /// Fails if something has grown beyond what was stored.
    ///
    /// # Errors
    /// [`SoakError::Grown`], or [`SoakError::Short`] if that cannot be told.
    pub fn verdict(&self) -> Result<(), SoakError> {
        let names: Vec<_> = self.growth.iter().filter(|growth| growth.is_beyond()).map(|growth| growth.name).collect();
        match names.is_empty() {
            true if self.growth.is_empty() => Err(SoakError::Short),
            true => Ok(()),
            false => Err(SoakError::Grown { names }),
        }
    }
}

/// Soaks a server, and verifies what it has stored. Whether it has grown is the [verdict](Report::verdict) of the report.
///
/// # Errors
/// [`SoakError`] when the server cannot be used, money was not conserved, or the audit found something.
pub fn run(options: &Options) -> Result<Report, SoakError> {
    let program = program(options.program.as_deref())?;
    let report = block_on(soak(options, &program))?;
    if let Some(path) = &options.json {
        let failed = |cause| BenchError::Report { path: path.clone(), cause };
        write_json(&report, path).map_err(failed)?;
    }
    Ok(report)
}

async fn soak(options: &Options, program: &Path) -> Result<Report, SoakError> {
    let server = Server::enact(program, "serializable").with_arguments(&MEMORY);
    let served = Served::start(&server, &options.data, SPEC, None).await?;
    let done = Done::default();
    open_lasting(&served, &done).await?;
    let begun = Instant::now();
    let samples = load(options, &served, &done, begun).await?;
    let seconds = begun.elapsed().as_secs_f64();
    verify(&served, &done).await?;
    let served = served.restarted(&server).await?;
    verify(&served, &done).await?;
    let directory = served.stop_keeping().await?;
    audit(program, directory.path())?;
    let growth = growth::growth(&samples);
    Ok(Report {
        seconds,
        requests: done.requests.get(),
        turned_away: done.turned_away.get(),
        opened: done.opened.get(),
        followed: done.followed.get(),
        records: samples.last().map_or(0.0, |last| last.records),
        growth,
        samples,
    })
}

async fn open_lasting(served: &Served, done: &Done) -> Result<(), BenchError> {
    let mut client = Client::connect(served.address()).await?;
    for number in 0..LASTING {
        clients::open(&mut client, &clients::lasting(number)).await?;
        Done::count(&done.opened, 1);
    }
    Ok(())
}

/// Lets all clients work, and reads what the server takes meanwhile.
async fn load(options: &Options, served: &Served, done: &Done, begun: Instant) -> Result<Vec<Sample>, BenchError> {
    let (address, until) = (served.address(), begun + options.time);
    let workers = (0..usize::from(options.clients)).map(async |number| {
        Worker::connect(address, number, options.seed, done).await?.work(until, options.pause).await
    });
    let followers = (0..options.followers).map(|_| clients::follow(address, until, done));
    let idle = (0..options.idle).map(|_| clients::idle(address, until));
    let every = (options.time / SAMPLES).max(SAMPLE_AT_MOST_EVERY);
    let watching = async {
        let mut samples = Vec::new();
        let mut next = begun;
        while next < until {
            sleep_until(next.into()).await;
            samples.push(samples::sample(served, begun, done.objects()).await?);
            next += every;
        }
        Ok(samples)
    };
    let (samples, ..) =
        futures_util::future::try_join4(watching, try_join_all(workers), try_join_all(followers), try_join_all(idle))
            .await?;
    Ok(samples)
}

/// A page of accounts.
#[derive(Deserialize)]
struct Page {
    instances: Vec<Account>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct Account {
    fields: Fields,
}

#[derive(Deserialize)]
struct Fields {
    balance: String,
}

/// Checks that all accounts are there, with what was paid in.
async fn verify(served: &Served, done: &Done) -> Result<(), BenchError> {
    let mut client = Client::connect(served.address()).await?;
    let (mut found, mut after) = (0, String::new());
    loop {
        let page: Page = client.json(&format!("/Account?limit=1000{after}")).await?;
        for account in &page.instances {
            let euros = account.fields.balance.strip_prefix("EUR ").and_then(|amount| amount.strip_suffix(".00"));
            let unexpected = || BenchError::Unexpected { status: 200, body: account.fields.balance.clone() };
            found += euros.and_then(|euros| euros.parse::<i64>().ok()).ok_or_else(unexpected)?;
        }
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    let expected = i64::try_from(done.opened.get()).expect("each was opened") * OPENING_EUROS;
    if found == expected { Ok(()) } else { Err(BenchError::NotConserved { found, expected }) }
}

/// Judges what lies in `directory`, where nobody has it open.
fn audit(program: &Path, directory: &Path) -> Result<(), SoakError> {
    let mut command = Command::new(program);
    command.arg("audit").arg(directory.join(Served::SPEC)).arg("--data").arg(directory.join(Served::DATA));
    let audited = command.output().map_err(SoakError::NoAudit)?;
    if audited.status.success() {
        return Ok(());
    }
    let printed = [audited.stdout, audited.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    Err(SoakError::Audit { printed })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seconds, requests, turned_away, opened, followed, records, .. } = self;
        let mut table = comfy_table::Table::new();
        let head = ["", "level", "rise, first half", "rise, second half", "explained", "tolerated", ""];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(head);
        for growth in &self.growth {
            let Growth { name, level, first_rise, rise, explained, tolerated } = growth;
            let [level, first_rise, rise, explained, tolerated] =
                [level, first_rise, rise, explained, tolerated].map(|figure| in_short(*figure));
            let verdict = if growth.is_beyond() { "grown" } else { "steady" };
            table.add_row([name, &*level, &first_rise, &rise, &explained, &tolerated, verdict]);
        }
        writeln!(f, "{table}")?;
        write!(
            f,
            "{seconds:.0} s, {requests} requests ({turned_away} turned away), {opened} accounts opened, {records} records, \
             {followed} changes followed; money is what was paid in, and the audit is clean"
        )
    }
}
