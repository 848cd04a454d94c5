//! What the simulation says about machines with more cores than this one.
use std::fmt;

use serde::Serialize;

use super::costs::Costs;
use super::run::{Team, Workplace};
use super::simulation::{Conflicts, Model};

/// Teams that are simulated, unless one side has more actors than there are cores.
const PRIMARIES: [usize; 17] = [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64];
const SECONDARIES: [usize; 8] = [1, 2, 4, 8, 16, 24, 32, 64];

/// Simulated speed-ups on a number of cores, each against the smallest team of its version.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Scaling {
    pub(super) cores: usize,
    pub(super) costs: Costs,
    pub(super) primaries: Vec<usize>,
    pub(super) secondaries: Vec<usize>,
    /// By primaries.
    pub(super) original: Vec<f64>,
    /// The same with the conflicts of snapshot isolation.
    pub(super) original_if_only_writes_conflict: Vec<f64>,
    /// The same with tickets kept.
    pub(super) kept: Vec<f64>,
    /// By secondaries, then by primaries.
    pub(super) split: Vec<Vec<f64>>,
    /// The same if a booking took as large a part of a ticket as in the paper.
    pub(super) split_with_bookings_of_the_paper: Vec<Vec<f64>>,
    /// How many times longer the smallest split team takes than the smallest original one.
    pub(super) smallest_split_to_original: f64,
}

impl Scaling {
    pub(super) fn simulate(workplace: &Workplace, costs: &Costs, cores: usize) -> Self {
        let ns_at = |costs: &Costs, conflicts, team| model(workplace, costs, cores, conflicts).run(team).ns as f64;
        let ns = |conflicts, team| ns_at(costs, conflicts, team);
        let up_to_cores = |counts: &[usize]| counts.iter().copied().filter(|&count| count <= cores).collect::<Vec<_>>();
        let (primaries, secondaries) = (up_to_cores(&PRIMARIES), up_to_cores(&SECONDARIES));
        let speed_ups = |conflicts, team: &dyn Fn(usize) -> Team| -> Vec<f64> {
            let base = ns(conflicts, team(1).smallest());
            primaries.iter().map(|&primaries| base / ns(conflicts, team(primaries))).collect()
        };
        let of_split_at = |costs: &Costs| -> Vec<Vec<f64>> {
            let ns = |primaries, secondaries| ns_at(costs, Conflicts::Reads, Team::Split { primaries, secondaries });
            let base = ns(1, 1);
            let of = |&secondaries| primaries.iter().map(|&primaries| base / ns(primaries, secondaries)).collect();
            secondaries.iter().map(of).collect()
        };
        let smallest_split = ns(Conflicts::Reads, Team::SMALLEST_SPLIT);
        Self {
            cores,
            costs: costs.clone(),
            original: speed_ups(Conflicts::Reads, &|primaries| Team::Original { primaries }),
            original_if_only_writes_conflict: speed_ups(Conflicts::Writes, &|primaries| Team::Original { primaries }),
            kept: speed_ups(Conflicts::Reads, &|primaries| Team::Kept { primaries }),
            split: of_split_at(costs),
            split_with_bookings_of_the_paper: of_split_at(&costs.with_bookings_of_the_paper()),
            smallest_split_to_original: smallest_split / ns(Conflicts::Reads, Team::SMALLEST_ORIGINAL),
            primaries,
            secondaries,
        }
    }
}

/// What the simulation predicts for `team` on this machine, in seconds.
pub(super) fn predicted_s(workplace: &Workplace, costs: &Costs, team: Team) -> f64 {
    model(workplace, costs, workplace.workers, Conflicts::Reads).run(team).ns as f64 / 1e9
}

fn model<'a>(workplace: &'a Workplace, costs: &'a Costs, cores: usize, conflicts: Conflicts) -> Model<'a> {
    Model { size: workplace.settings.size, costs, initial: &workplace.initial, cores, conflicts }
}

impl fmt::Display for Scaling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Costs { find_ns, book_ns, message_ns, order_ns, .. } = self.costs;
        let ticket_ns = self.costs.ticket_ns();
        writeln!(
            f,
            "Simulated speed-ups on {} cores, from steps measured here: search {find_ns} ns, ticket {ticket_ns} ns, \
             booking {book_ns} ns, message {message_ns} ns, as part of a transaction {order_ns} ns",
            self.cores
        )?;
        let mut table = comfy_table::Table::new();
        let columns = ["p", "original", "write conflicts only", "kept"].map(str::to_owned);
        let of_split = self.secondaries.iter().map(|secondaries| format!("split s={secondaries}"));
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns.into_iter().chain(of_split));
        for (row, primaries) in self.primaries.iter().enumerate() {
            let whole = [&self.original, &self.original_if_only_writes_conflict, &self.kept];
            let figures = whole.into_iter().chain(&self.split).map(|figures| format!("{:.1}", figures[row]));
            table.add_row([primaries.to_string()].into_iter().chain(figures));
        }
        writeln!(f, "{table}\nSplit, if a booking took as large a part of a ticket as in the paper:")?;
        let mut table = comfy_table::Table::new();
        let of_split = self.secondaries.iter().map(|secondaries| format!("s={secondaries}"));
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(["p".to_owned()].into_iter().chain(of_split));
        for (row, primaries) in self.primaries.iter().enumerate() {
            let figures = self.split_with_bookings_of_the_paper.iter().map(|figures| format!("{:.1}", figures[row]));
            table.add_row([primaries.to_string()].into_iter().chain(figures));
        }
        write!(f, "{table}\nsplit 1+1 takes {:.2} times as long as original 1 there", self.smallest_split_to_original)
    }
}
