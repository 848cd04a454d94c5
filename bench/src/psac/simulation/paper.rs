//! The figures of the paper, beside what the simulation makes of its costs.

use serde::Serialize;

use super::accounts::Rule;
use super::climb::{Load, calibrate};
use super::costs::{Costs, Journal, Times};
use super::world::Setup;
use super::{ACCOUNTS, Law, Point, point};

/// The numbers of nodes at which the paper's fits are compared.
pub(super) const NODES: [usize; 3] = [3, 6, 9];
pub(super) const RULES: [Rule; 2] = [Rule::Locking, Rule::Psac];
/// The paper's transfers a second at these, by the fits of its figure 6d.
pub(super) const RATES: [[f64; 3]; 2] = [[491.0, 864.0, 1_158.0], [808.0, 1_423.0, 1_907.0]];
pub(super) const SIGMAS: [f64; 2] = [0.049_880_9, 0.049_587_8];
pub(super) const RATIO: f64 = 1.65;
/// How far a ratio may be off, and a σ, as a part of it.
pub(super) const RATIO_OFF_MAX: f64 = 0.2;
pub(super) const SIGMA_OFF_MAX: f64 = 0.2;
const USERS_MAX: usize = 4_096;
/// A zone has a fast network: section 5.2.
const DELAY_MS: f64 = 0.25;

/// The paper's costs, or these with one thing changed.
struct Variant {
    name: &'static str,
    change: fn(&mut Setting),
}

/// What a variant may change.
struct Setting {
    costs: Costs,
    delay_ms: f64,
}

const VARIANTS: [Variant; 8] = [
    Variant { name: "the paper's costs", change: |_| {} },
    Variant { name: "shards spread evenly", change: |setting| setting.costs.apart_max = 1 },
    Variant { name: "shards where they fall", change: |setting| setting.costs.apart_max = usize::MAX },
    Variant { name: "coordinators never give up", change: |setting| setting.costs.patience_ms = None },
    Variant { name: "times do not vary", change: |setting| setting.costs.times = Times::Fixed },
    Variant { name: "messages take 5 ms", change: |setting| setting.delay_ms = 5.0 },
    Variant { name: "messages take 20 ms", change: |setting| setting.delay_ms = 20.0 },
    Variant { name: "a store that has no queue, and takes 20 times as long", change: slow_store },
];

fn slow_store(setting: &mut Setting) {
    if let Journal::Store { writers, write_us } = &mut setting.costs.journal {
        (*writers, *write_us) = (1_000_000, 20.0 * *write_us);
    }
}

/// What came of the costs of a variant.
#[derive(Debug, Clone, Serialize)]
pub struct Reproduction {
    /// What is changed.
    pub variant: &'static str,
    /// What all times are multiplied by, so that locking on 3 nodes does what it does in the paper.
    pub factor: f64,
    /// By strategy and number of nodes.
    pub points: Vec<Point>,
    /// By strategy.
    pub laws: Vec<Law>,
}

impl Reproduction {
    /// The rates of `psac` to those of `locking`, by number of nodes.
    pub(super) fn ratios(&self) -> Vec<f64> {
        let (locking, psac) = self.points.split_at(NODES.len());
        locking.iter().zip(psac).map(|(locking, psac)| psac.rate / locking.rate).collect()
    }
}

/// How many variants there are.
pub(super) const COUNT: usize = VARIANTS.len();

/// The variant with this number, calibrated.
pub(super) fn reproduce(variant: usize, load: &Load) -> Reproduction {
    let Variant { name, change } = &VARIANTS[variant];
    let load = Load { users_max: USERS_MAX, ..*load };
    let peak = |factor: f64, rule: Rule, nodes: usize| {
        let mut setting = Setting { costs: Costs::of_the_paper(factor), delay_ms: DELAY_MS };
        change(&mut setting);
        let Setting { costs, delay_ms } = &setting;
        let (users, warm_up, timed) = (0, 0, 0);
        let (delay_ms, accounts, seed) = (*delay_ms, ACCOUNTS, load.seed);
        let setup = Setup { costs, nodes, delay_ms, rule, users, accounts, seed, warm_up, timed };
        point(&setup, &load.climb(&setup))
    };
    let factor = calibrate(RATES[0][0], |factor| peak(factor, Rule::Locking, NODES[0]).rate);
    let points: Vec<_> = RULES.iter().flat_map(|rule| NODES.map(|nodes| peak(factor, *rule, nodes))).collect();
    let laws = points.chunks(NODES.len()).filter_map(Law::of).collect();
    Reproduction { variant: name, factor, points, laws }
}
