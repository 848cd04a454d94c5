//! One run of one version, timed and verified.
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use enact::actors::Shutdown;
use enact::{Promise, System};
use enact_stm::{Statistics, statistics};
use enact_workloads::vacation::{SLOTS, State, verify};

use super::agency::{Agency, Settings};
use super::master::Master;
use super::{Messages, VacationError, original, split};
use crate::measure::{Sample, Stopwatch};

/// Longer than any run of sensible size takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Names of facts in samples.
pub(super) const ABORTS: &str = "aborts/customer";
pub(super) const HASHES: &str = "hashes/customer";

/// The team, and how it works.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Team {
    /// One transaction a customer.
    Original { primaries: usize },
    /// The same; a transaction that runs again keeps its ticket.
    Kept { primaries: usize },
    /// The ticket in one transaction, each booking in one of its own.
    Split { primaries: usize, secondaries: usize },
}

impl Team {
    pub(super) const SMALLEST_ORIGINAL: Self = Self::Original { primaries: 1 };
    pub(super) const SMALLEST_SPLIT: Self = Self::Split { primaries: 1, secondaries: 1 };

    /// The one that others of its version are compared with.
    pub(super) fn smallest(self) -> Self {
        match self {
            Self::Original { .. } => Self::SMALLEST_ORIGINAL,
            Self::Kept { .. } => Self::Kept { primaries: 1 },
            Self::Split { .. } => Self::SMALLEST_SPLIT,
        }
    }

    pub(super) fn is_split(self) -> bool {
        matches!(self, Self::Split { .. })
    }
}

impl fmt::Display for Team {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Original { primaries } => write!(f, "original {primaries}"),
            Self::Kept { primaries } => write!(f, "kept {primaries}"),
            Self::Split { primaries, secondaries } => write!(f, "split {primaries}+{secondaries}"),
        }
    }
}

/// What all runs of a benchmark share.
pub(super) struct Workplace {
    pub(super) settings: Settings,
    pub(super) messages: Messages,
    pub(super) workers: usize,
    pub(super) initial: State,
}

impl Workplace {
    /// Lets `team` serve all customers, from the first message to the last that says that something is done.
    pub(super) fn run(&self, team: Team) -> Result<Sample, VacationError> {
        let system = System::builder().workers(self.workers).build().map_err(VacationError::Threads)?;
        let agency = Arc::new(Agency::new(self.settings, &self.initial));
        let customers = self.initial.reservations.len();
        let commits_a_customer = if team.is_split() { 1 + SLOTS.len() } else { 1 };
        let (all_done, resolver) = Promise::pair();
        let master = system.spawn(Master::new(customers * commits_a_customer, resolver));
        let serve: Box<dyn Fn(usize)> = match team {
            Team::Original { primaries } => Box::new(original::hire(&system, &agency, &master, primaries, false)),
            Team::Kept { primaries } => Box::new(original::hire(&system, &agency, &master, primaries, true)),
            Team::Split { primaries, secondaries } => {
                Box::new(split::hire(&system, &agency, &master, (primaries, secondaries), self.messages))
            }
        };

        let (before, stopwatch) = (statistics(), Stopwatch::start());
        (0..customers).for_each(&serve);
        let stalled = || VacationError::Stalled { team: team.to_string() };
        let commits = all_done.timeout(PATIENCE).wait().map_err(|_| stalled())?;
        let (lap, after) = (stopwatch.stop(), statistics());

        drop((serve, master));
        if system.shutdown(PATIENCE).wait() != Ok(Shutdown::Drained) {
            return Err(stalled());
        }
        let Settings { size, cost, .. } = &self.settings;
        verify(size, *cost, &self.initial, &agency.state(), &commits)
            .map_err(|wrong| VacationError::Wrong { team: team.to_string(), wrong })?;
        let sample = Sample::new(lap, customers as u64);
        let a_customer = |count: u64| count as f64 / customers as f64;
        Ok(sample
            .with_fact(ABORTS, a_customer(aborts(after.since(&before))))
            .with_fact(HASHES, a_customer(agency.hashes())))
    }
}

fn aborts(statistics: Statistics) -> u64 {
    statistics.aborts_locked + statistics.aborts_changed + statistics.aborts_stood_back
}
