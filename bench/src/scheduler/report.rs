//! What was found, as tables.
use std::fmt;
use std::time::Duration;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use super::{Replayed, Row, Spread};

/// A number of workers that is slower than this to the best of fewer is one too many.
const LEAST_TO_FEWER: f64 = 0.95;
/// Work is to be spread within that.
const SPREAD_WITHIN: Duration = Duration::from_millis(1);

/// What the replays and the real runs came to.
pub struct Report {
    /// What a cache line costs here.
    pub(super) line: Duration,
    /// Whether that was measured, and not assumed.
    pub(super) is_measured: bool,
    pub(super) rows: Vec<Row>,
    pub(super) spread: Vec<Spread>,
}

impl Report {
    /// How many replays were slower than with fewer workers, and of how many.
    pub fn losses(&self) -> (usize, usize) {
        let all = || self.rows.iter().flat_map(|row| &row.replayed);
        (all().filter(|replayed| is_loss(replayed)).count(), all().count())
    }

    fn lines(&self) -> impl Iterator<Item = u64> + '_ {
        let replayed = self.rows.first().map_or(&[][..], |row| &row.replayed);
        let mut lines: Vec<u64> = replayed.iter().map(|replayed| replayed.line_ns).collect();
        lines.dedup();
        lines.into_iter()
    }

    fn of_line(&self, line_ns: u64) -> Table {
        let mut table = table();
        let of = |row: &Row| {
            row.replayed.iter().filter(move |one| one.line_ns == line_ns).map(|one| one.workers).collect::<Vec<_>>()
        };
        let workers = self.rows.first().map(of).unwrap_or_default();
        let head = ["program", "turns", "ns a turn"].map(str::to_owned).into_iter();
        table.set_header(head.chain(workers.iter().map(|workers| format!("{workers} workers"))));
        for row in &self.rows {
            let (turns, work) = (row.program.recording.turns(), row.program.recording.work());
            let each_ns = work.as_nanos() / (turns.max(1) as u128);
            let cells = row.replayed.iter().filter(|one| one.line_ns == line_ns).map(cell);
            table.add_row(
                [row.program.name.to_owned(), turns.to_string(), each_ns.to_string()].into_iter().chain(cells),
            );
        }
        table
    }

    fn of_spread(&self) -> Table {
        let mut table = table();
        table.set_header(["ns a line", "workers", "us apart"]);
        for Spread { line_ns, workers, apart } in &self.spread {
            let mark = if *apart > SPREAD_WITHIN { " <" } else { "" };
            table.add_row([line_ns.to_string(), workers.to_string(), format!("{}{mark}", apart.as_micros())]);
        }
        table
    }

    fn of_here(&self) -> Table {
        let mut table = table();
        table.set_header(["program", "simulated", "real", "simulated cores", "real cores"]);
        for (row, here) in self.rows.iter().filter_map(|row| Some((row, row.here.as_ref()?))) {
            let figures = [here.simulated, here.real, here.simulated_cores, here.real_cores];
            table
                .add_row([row.program.name.to_owned()].into_iter().chain(figures.map(|figure| format!("{figure:.2}"))));
        }
        table
    }
}

fn table() -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table
}

fn is_loss(replayed: &Replayed) -> bool {
    replayed.to_fewer < LEAST_TO_FEWER
}

/// The rate to that of one worker, and where it is a loss also to that of the best of fewer.
fn cell(replayed: &Replayed) -> String {
    let Replayed { outcome, to_one, to_fewer, .. } = replayed;
    let cores = outcome.busy.as_secs_f64() / outcome.elapsed.as_secs_f64();
    let loss = if is_loss(replayed) { format!(" < {to_fewer:.2}") } else { String::new() };
    format!("{to_one:.2} ({cores:.1}){loss}")
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line_ns in self.lines() {
            writeln!(
                f,
                "simulated, a line costs {line_ns} ns: rate to one worker (cores used), and to the best of fewer if under {LEAST_TO_FEWER}"
            )?;
            writeln!(f, "{}\n", self.of_line(line_ns))?;
        }
        writeln!(
            f,
            "simulated: how far apart two long turns begin that an actor forks while others have short ones\n{}\n",
            self.of_spread()
        )?;
        if self.rows.iter().any(|row| row.here.is_some()) {
            writeln!(
                f,
                "two workers to one, simulated where a line costs {} ns{}, and here\n{}\n",
                self.line.as_nanos(),
                if self.is_measured {
                    " as here"
                } else {
                    ", which is assumed, as the cores were too busy to measure it"
                },
                self.of_here()
            )?;
        }
        let (losses, all) = self.losses();
        write!(f, "{losses} of {all} replays are slower than {LEAST_TO_FEWER} of the best with fewer workers")
    }
}
