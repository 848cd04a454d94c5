//! Vacation: one large transaction a customer against several small ones in transactional actors.
//!
//! # Versions
//! * *original p*: p clerks; each customer is one transaction with an expensive ticket between its reads and its writes,
//!   so that a clerk that loses a conflict makes the ticket again.
//! * *kept p*: the same, but a transaction that runs again keeps its ticket.
//! * *split p+s*: p primaries make the tickets; before that, each orders the four bookings of its customer from s
//!   secondaries, by messages that belong to its transaction.
//!
//! # Oracle
//! Every run is replayed: `enact_workloads::vacation::verify`.
//!
//! # Beyond this machine
//! The simulation plays the same schedule on 64 cores, or as many as wanted, with the costs of the steps as measured here.
//!
//! # Source
//! Swalens, De Koster and De Meuter, *Transactional actors: communication in transactions*, 2017, section 7.
mod agency;
mod costs;
mod master;
mod original;
mod picture;
mod report;
mod run;
mod scaling;
mod simulation;
mod split;

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::{fmt, io, thread};

use agency::Settings;
use costs::Costs;
use enact_workloads::vacation::{Cost, Draws, Size, WrongVacation, generate};
pub use report::Report;
use run::{Team, Workplace};
use scaling::{Scaling, predicted_s};
pub use split::Messages;
use thiserror::Error;

use crate::measure::{self, Contender, Plan, race, write_json};

/// What to run.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Customers
    #[arg(short = 'c', long, default_value_t = at_least_one(1_000))]
    pub customers: NonZeroUsize,
    /// Flights, rooms and cars, so many of each
    #[arg(short = 'r', long, default_value_t = at_least_one(50))]
    pub items: NonZeroUsize,
    /// Items that a search looks at
    #[arg(short = 'q', long, default_value_t = at_least_one(10))]
    pub queries: NonZeroUsize,
    /// Numbers of workers that serve customers
    #[arg(short = 'p', long, value_delimiter = ',', default_values_t = [1, 2, 4].map(at_least_one))]
    pub primaries: Vec<NonZeroUsize>,
    /// Numbers of workers that book items, in the split version
    #[arg(short = 's', long, value_delimiter = ',', default_values_t = [1, 2, 4].map(at_least_one))]
    pub secondaries: Vec<NonZeroUsize>,
    /// Cost of a ticket: that of bcrypt, 4 to 31, or 0 for no hash
    #[arg(long, default_value = "5")]
    pub cost: Cost,
    /// What a transaction draws when it runs again
    #[arg(long, value_enum, default_value_t = Redraw::Fixed)]
    pub draws: Redraw,
    /// When messages of transactions are delivered, in the split version
    #[arg(long, value_enum, default_value_t = Messages::Dependency)]
    pub messages: Messages,
    /// Makes one in so many transactions that issue a ticket fail; 0 for none
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub faults: u32,
    /// Threads that run actors; as many as there are cores unless given
    #[arg(long)]
    pub workers: Option<NonZeroUsize>,
    /// Cores of the machine that is simulated
    #[arg(long, default_value_t = at_least_one(64))]
    pub cores: NonZeroUsize,
    /// How often to measure.
    #[command(flatten)]
    pub plan: Plan,
    /// Writes all samples and the simulation as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draws the speed-ups as SVG
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
}

fn at_least_one(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).expect("a positive literal")
}

/// What a transaction draws when it runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Redraw {
    /// The same
    Fixed,
    /// Afresh
    Fresh,
}

/// Why there is no result.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VacationError {
    /// The operating system refused threads.
    #[error("cannot start the actors' threads")]
    Threads(#[source] io::Error),
    /// A run did not end.
    #[error("{team} did not end")]
    Stalled {
        /// Who.
        team: String,
    },
    /// The oracle refused a result.
    #[error("wrong result of {team}")]
    Wrong {
        /// Whose.
        team: String,
        /// What is wrong.
        #[source]
        wrong: WrongVacation,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Output {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
}

/// Measures all versions, interleaved; every sample's result has been verified.
///
/// # Errors
/// [`VacationError`] when an oracle refuses a result, or there are no threads or no place for the files.
pub fn run(options: &Options) -> Result<Report, VacationError> {
    let workplace = options.workplace().map_err(VacationError::Threads)?;
    let teams = options.teams();
    let costs = Costs::measure(&workplace)?;
    let measured = measure::Report::of(format!("Vacation, {options}"), || {
        let contender = |&team: &Team| {
            let workplace = &workplace;
            Contender::new(team.to_string(), move || workplace.run(team))
        };
        race("vacation", "customers", &options.plan, teams.iter().map(contender).collect()).map(|race| vec![race])
    })?;
    let predicted_s = teams.iter().map(|&team| predicted_s(&workplace, &costs, team)).collect();
    let report =
        Report { measured, teams, predicted_s, simulated: Scaling::simulate(&workplace, &costs, options.cores.get()) };
    if let Some(path) = &options.json {
        write_json(&report, path).map_err(|source| VacationError::Output { path: path.clone(), source })?;
    }
    if let Some(path) = &options.picture {
        let failed = |source| VacationError::Output { path: path.clone(), source };
        picture::draw(&report, path).map_err(|wrong| failed(io::Error::other(wrong.to_string())))?;
    }
    Ok(report)
}

impl Options {
    fn workplace(&self) -> io::Result<Workplace> {
        let Self { customers, items, queries, cost, faults, messages, .. } = *self;
        let size = Size { customers: customers.get(), items: items.get(), queries: queries.get() };
        let draws = match self.draws {
            Redraw::Fixed => Draws::Fixed,
            Redraw::Fresh => Draws::Fresh,
        };
        let workers = self.workers.map_or_else(thread::available_parallelism, Ok)?.get();
        let settings = Settings { size, cost, draws, faults };
        Ok(Workplace { settings, messages, workers, initial: generate(&size) })
    }

    /// The baseline comes first.
    fn teams(&self) -> Vec<Team> {
        let primaries = || self.primaries.iter().map(|primaries| primaries.get());
        let secondaries = || self.secondaries.iter().map(|secondaries| secondaries.get());
        let split = |primaries| secondaries().map(move |secondaries| Team::Split { primaries, secondaries });
        let original = primaries().map(|primaries| Team::Original { primaries });
        let kept = primaries().map(|primaries| Team::Kept { primaries });
        original.chain(kept).chain(primaries().flat_map(split)).collect()
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { customers, items, queries, cost, draws, messages, faults, .. } = self;
        let redraw = if *draws == Redraw::Fixed { "the same" } else { "afresh" };
        let delivery = match messages {
            Messages::Dependency => "delivered at once with a dependency",
            Messages::Delay => "delivered at the commit",
            Messages::Naive => "delivered at once and for good",
        };
        write!(
            f,
            "c={customers} r={items} q={queries}, bcrypt cost {cost}, {redraw} drawn again, messages {delivery}"
        )?;
        if *faults > 0 { write!(f, ", one in {faults} made to fail") } else { Ok(()) }
    }
}
