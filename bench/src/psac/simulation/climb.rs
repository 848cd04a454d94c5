//! The load, stepped up until more users bring no more.

use crate::measure::median;

use super::world::{Outcome, Setup};

const USERS_MIN: usize = 16;
/// So many steps in a row without a better one are overload.
const OVERLOAD_STEPS: usize = 3;
/// What is better by less is noise.
const BETTER: f64 = 1.02;
/// Every user ends so many transfers on average before the clock starts, and twice as many while it runs.
const WARM_UP_EACH: u64 = 1;
const CALIBRATIONS_MAX: usize = 8;
const CALIBRATED: f64 = 0.005;

/// How the load is stepped up.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// Between two numbers of users.
    pub(super) factor: f64,
    /// The last step has no more.
    pub(super) users_max: usize,
    /// How often each number is simulated, each time with other draws.
    pub(super) rounds: u32,
    /// How many transfers are timed at least.
    pub(super) transfers: u64,
    pub(super) seed: u64,
}

/// The step with the highest median of the rate.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Peak {
    pub(super) users: usize,
    /// Of each figure the median over the rounds.
    pub(super) outcome: Outcome,
}

impl Load {
    /// Steps the users of `setup` up.
    pub(super) fn climb(&self, setup: &Setup<'_>) -> Peak {
        let mut best = self.step(setup, USERS_MIN);
        let (mut users, mut worse) = (USERS_MIN as f64, 0);
        while worse < OVERLOAD_STEPS {
            users *= self.factor;
            if users.round() as usize > self.users_max {
                break;
            }
            let step = self.step(setup, users.round() as usize);
            if step.outcome.rate > best.outcome.rate * BETTER {
                (best, worse) = (step, 0);
            } else {
                worse += 1;
            }
        }
        best
    }

    fn step(&self, setup: &Setup<'_>, users: usize) -> Peak {
        let warm_up = (WARM_UP_EACH * users as u64).max(self.transfers / 4);
        let timed = (2 * WARM_UP_EACH * users as u64).max(self.transfers);
        let outcomes: Vec<_> = (0..self.rounds)
            .map(|round| Setup { users, warm_up, timed, seed: self.seed + u64::from(round), ..*setup }.run())
            .collect();
        let middle = |figure: fn(&Outcome) -> f64| median(&outcomes.iter().map(figure).collect::<Vec<_>>());
        let outcome = Outcome {
            rate: middle(|one| one.rate),
            failures: middle(|one| one.failures),
            mean_ms: middle(|one| one.mean_ms),
            p50_ms: middle(|one| one.p50_ms),
            p99_ms: middle(|one| one.p99_ms),
            cpu: middle(|one| one.cpu),
        };
        Peak { users, outcome }
    }
}

/// The factor of all times with which `peak_rate` of it is `aim`.
pub(super) fn calibrate(aim: f64, peak_rate: impl Fn(f64) -> f64) -> f64 {
    let mut factor = 1.0;
    for _ in 0..CALIBRATIONS_MAX {
        let ratio = peak_rate(factor) / aim;
        if (ratio - 1.0).abs() < CALIBRATED {
            break;
        }
        factor *= ratio;
    }
    factor
}
