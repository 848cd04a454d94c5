//! One kernel, and how a version of it is measured.
//!
//! The clock starts when the actors are there and runs for as many kernels, one after the other, as are needed for a
//! time that can be measured; a caller outside the system waits for each. Results are kept and verified afterwards.
use enact::{ActorError, System};
use enact_workloads::kernels::WrongKernel;

use super::probe::Probe;
use super::{Failure, Variant};
use crate::measure::{Sample, Stopwatch};

/// Where kernels run.
pub(super) struct Stage {
    pub(super) system: System,
    /// As many threads without actors.
    pub(super) pool: rayon::ThreadPool,
}

/// What a kernel consists of.
pub(super) trait Program {
    /// What a caller gets.
    type Found;

    /// How many calls of methods one kernel makes, where it consists of little else.
    fn calls(&self) -> Option<u64> {
        None
    }

    /// All versions, with their actors; the first one is the baseline of the comparison.
    fn versions<'a, P: Probe>(&'a self, stage: &'a Stage) -> Vec<Version<'a, Self::Found>>;

    fn verify(&self, found: &Self::Found) -> Result<(), WrongKernel>;
}

/// A kernel in one variant, ready to run.
pub(super) struct Version<'a, T> {
    pub(super) variant: Variant,
    /// How many kernels take about a tenth of a second.
    pub(super) repeat: usize,
    run: Box<dyn FnMut() -> Result<T, ActorError> + 'a>,
}

impl<'a, T> Version<'a, T> {
    pub(super) fn new(variant: Variant, repeat: usize, run: impl FnMut() -> Result<T, ActorError> + 'a) -> Self {
        Self { variant, repeat, run: Box::new(run) }
    }

    /// Runs the kernel `repeat` times and verifies every result.
    pub(super) fn measure(&mut self, program: &impl Program<Found = T>, repeat: usize) -> Result<Sample, Failure> {
        let mut found = Vec::with_capacity(repeat);
        let stopwatch = Stopwatch::start();
        for _ in 0..repeat {
            found.push((self.run)()?);
        }
        let lap = stopwatch.stop();
        found.iter().try_for_each(|found| program.verify(found))?;
        let sample = Sample::new(lap, repeat as u64);
        Ok(match program.calls() {
            Some(calls) => sample.with_fact("ns/call", lap.wall.as_nanos() as f64 / (calls * repeat as u64) as f64),
            None => sample,
        })
    }
}
