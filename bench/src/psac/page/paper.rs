//! Each result of the paper, what it is here, and why it differs.

use super::Experiment;
use crate::document::{Block, Table};
use crate::measure::in_short;
use crate::psac::report::{Measurement, Scaling};

/// A row of the paper.
struct Row {
    /// What the paper calls it.
    name: &'static str,
    theirs: &'static str,
    experiment: Experiment,
    /// The strategy that is theirs, where there is one.
    strategy: Option<&'static str>,
    why: &'static str,
}

const ROWS: [Row; 9] = [
    Row {
        name: "Bare",
        theirs: "λ 16,751 a node, σ 0.0029",
        experiment: Experiment::Bare,
        strategy: None,
        why: "a node has four cores to itself there; engines and their clients share one machine here, so that σ is what they take \
              from each other",
    },
    Row {
        name: "Simple",
        theirs: "λ 10,372, σ 0.0009",
        experiment: Experiment::Simple,
        strategy: None,
        why: "as Bare; what a fresh actor costs is the distance to it",
    },
    Row {
        name: "Sharding",
        theirs: "λ 6,303, σ 0.0047",
        experiment: Experiment::Sharded,
        strategy: None,
        why: "an actor may be on another node there, behind a network; here each engine keeps its own",
    },
    Row {
        name: "Persistence",
        theirs: "λ 1,928, σ 0.0082",
        experiment: Experiment::Persistent,
        strategy: None,
        why: "a quorum of three Cassandra nodes writes each record there; here it is a local journal that syncs once for all that wait",
    },
    Row {
        name: "NoSync",
        theirs: "about 4,000 tx/s on 9 nodes, equal for both",
        experiment: Experiment::NoSync,
        strategy: None,
        why: "their data store was full; no HTTP and a shared sync here",
    },
    Row {
        name: "Sync",
        theirs: "about 1,500 tx/s at most, equal for both",
        experiment: Experiment::Sync,
        strategy: None,
        why: "as NoSync; five actors and several quorum writes a transfer there, one record group here, or two over several engines",
    },
    Row {
        name: "Sync1000 with 2PL",
        theirs: "λ 180, σ 0.0499, at most 3,609",
        experiment: Experiment::Sync1000,
        strategy: Some("locking"),
        why: "a lock is held for several quorum writes and hops there, for a sync here",
    },
    Row {
        name: "Sync1000 with PSAC",
        theirs: "λ 296, σ 0.0496, at most 5,969",
        experiment: Experiment::Sync1000,
        strategy: Some("psac"),
        why: "as with 2PL; at most 8 may be open at an object there, 1,024 here",
    },
    Row {
        name: "Figure 8: PSAC to 2PL on Sync1000",
        theirs: "up to 1.8 times the median throughput, latency on par or lower until 2PL breaks down",
        experiment: Experiment::Sync1000,
        strategy: None,
        why: "what does not wait gains as long as a promise lasts, which is longer there",
    },
];

/// The table, where at least one of them was measured.
pub(super) fn paper(measurements: &[Measurement<'_>], scalings: &[Scaling]) -> Vec<Block> {
    let is_measured = |row: &Row| measurements.iter().any(|one| one.sample.experiment == row.experiment.name());
    if !ROWS.iter().any(is_measured) {
        return Vec::new();
    }
    let text = "What the paper reports, in transactions a second, and what was measured here: λ and σ where three numbers of engines were, \
                with the most clients, or else the most that was done a second. Theirs is a cluster of machines, ours is one machine with one \
                process; no absolute figure can be compared.";
    let mut table = Table::new("Theirs and ours")
        .with_words("the paper's")
        .with_words("theirs")
        .with_words("ours")
        .with_words("why they differ");
    for row in ROWS {
        let ours = if row.name.starts_with("Figure 8") {
            ratio(measurements, row.experiment)
        } else {
            law(scalings, &row).or_else(|| most(measurements, &row))
        };
        table.add([
            row.name.to_owned(),
            row.theirs.to_owned(),
            ours.unwrap_or_else(|| NONE.to_owned()),
            row.why.to_owned(),
        ]);
    }
    vec![Block::Prose(text.to_owned()), Block::Table(table)]
}

const NONE: &str = "not measured";

impl Row {
    /// Whether this is of the row: without a strategy of theirs, the default or what has none.
    fn is_of(&self, experiment: &str, strategy: &str) -> bool {
        let default = enact_entities::Strategy::default().to_string();
        let is_it = match self.strategy {
            Some(theirs) => strategy == theirs,
            None => strategy == default || strategy == crate::psac::NO_STRATEGY,
        };
        experiment == self.experiment.name() && is_it
    }
}

fn law(scalings: &[Scaling], row: &Row) -> Option<String> {
    let of_row = scalings.iter().filter(|one| row.is_of(&one.experiment, &one.strategy));
    let Scaling { clients, law, delay_ms, .. } = of_row.max_by_key(|one| one.clients)?;
    let limit = law.asymptote().map_or_else(String::new, |limit| format!(", at most {}", in_short(limit)));
    let delay = if *delay_ms == 0.0 { String::new() } else { format!(", messages {delay_ms} ms") };
    Some(format!("λ {}, σ {:.4}{limit}, {clients} clients{delay}", in_short(law.lambda), law.sigma))
}

fn most(measurements: &[Measurement<'_>], row: &Row) -> Option<String> {
    let of_row = measurements.iter().filter(|one| row.is_of(&one.sample.experiment, &one.sample.strategy));
    let one = of_row.max_by(|a, b| a.rate.median.total_cmp(&b.rate.median))?;
    let place = super::in_words(one.sample);
    Some(format!("{} tx/s: {place}", in_short(one.rate.median)))
}

/// The most of the ratios to locking.
fn ratio(measurements: &[Measurement<'_>], experiment: Experiment) -> Option<String> {
    let of_psac = |one: &&Measurement<'_>| one.sample.experiment == experiment.name() && one.sample.strategy == "psac";
    let ratios = measurements.iter().filter(of_psac).filter_map(|one| Some((one, one.of_locking?.speed_up)));
    let (one, most) = ratios.max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(format!("up to {} times: {}", in_short(most), super::in_words(one.sample)))
}
