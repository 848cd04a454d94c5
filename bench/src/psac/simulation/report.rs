//! The figures, for people at a terminal.

use std::fmt;

use comfy_table::Table;

use super::paper::{NODES, RATES, RATIO, RATIO_OFF_MAX, Reproduction, SIGMA_OFF_MAX, SIGMAS};
use super::{Law, Point, Report};

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.paper.is_empty() {
            write_paper(f, &self.paper)?;
        }
        if !self.measured.is_empty() {
            writeln!(f, "With the costs that were measured of Enact, the best over the numbers of users")?;
            writeln!(f, "{}", points(&self.measured))?;
        }
        if !self.one_machine.is_empty() {
            writeln!(f, "The same where all nodes, their servers and their clients share two cores")?;
            writeln!(f, "{}", points(&self.one_machine))?;
        }
        if !self.laws.is_empty() {
            writeln!(f, "Amdahl's law: N nodes do lambda N / (1 + sigma (N - 1)) transfers a second")?;
            writeln!(f, "{}", laws(&self.laws))?;
        }
        write!(f, "seed {}; each transfer that began ended once, and money was conserved", self.seed)
    }
}

fn table(columns: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
    table
}

fn joined<T>(figures: &[T], text: impl Fn(&T) -> String) -> String {
    figures.iter().map(text).collect::<Vec<_>>().join(" / ")
}

fn rates(points: &[Point]) -> String {
    joined(points, |point| format!("{:.0}", point.rate))
}

fn write_paper(f: &mut fmt::Formatter<'_>, all: &[Reproduction]) -> fmt::Result {
    let mut found = table(&[
        "costs",
        "times",
        "locking, tx/s on 3 / 6 / 9 nodes",
        "sigma",
        "psac, tx/s",
        "sigma",
        "psac to locking",
        "ratios",
        "sigmas",
    ]);
    found.add_row([
        "the paper itself".to_owned(),
        String::new(),
        joined(&RATES[0], |rate| format!("{rate:.0}")),
        format!("{:.4}", SIGMAS[0]),
        joined(&RATES[1], |rate| format!("{rate:.0}")),
        format!("{:.4}", SIGMAS[1]),
        joined(&[0, 1, 2], |at: &usize| format!("{:.2}", RATES[1][*at] / RATES[0][*at])),
        format!("{RATIO} +- {RATIO_OFF_MAX}"),
        format!("+- {:.0} %", 100.0 * SIGMA_OFF_MAX),
    ]);
    for one in all {
        let (locking, psac) = one.points.split_at(NODES.len());
        let sigma = |place: usize| one.laws.get(place).map_or(f64::NAN, |law| law.sigma);
        let is_near = |place: usize| (sigma(place) / SIGMAS[place] - 1.0).abs() <= SIGMA_OFF_MAX;
        let verdict = |is_reached| (if is_reached { "reached" } else { "missed" }).to_owned();
        found.add_row([
            one.variant.to_owned(),
            format!("{:.2}", one.factor),
            rates(locking),
            format!("{:.4}", sigma(0)),
            rates(psac),
            format!("{:.4}", sigma(1)),
            joined(&one.ratios(), |ratio| format!("{ratio:.2}")),
            verdict(one.ratios().iter().all(|ratio| (ratio - RATIO).abs() <= RATIO_OFF_MAX)),
            verdict(is_near(0) && is_near(1)),
        ]);
    }
    writeln!(
        f,
        "With the costs of the paper's cluster, all times the same multiple, so that locking does 491 tx/s on 3 nodes"
    )?;
    writeln!(f, "{found}")?;
    if let Some(first) = all.first() {
        writeln!(f, "The first of them in detail")?;
        writeln!(f, "{}", points(&first.points))?;
    }
    Ok(())
}

fn points(points: &[Point]) -> Table {
    let mut table =
        table(&["delay ms", "strategy", "nodes", "users", "tx/s", "failed/s", "p50 ms", "p99 ms", "busy cores"]);
    for point in points {
        table.add_row([
            point.delay_ms.to_string(),
            point.strategy.to_string(),
            point.nodes.to_string(),
            point.users.to_string(),
            format!("{:.0}", point.rate),
            format!("{:.0}", point.failures),
            format!("{:.1}", point.p50_ms),
            format!("{:.1}", point.p99_ms),
            format!("{:.0} %", 100.0 * point.cpu),
        ]);
    }
    table
}

fn laws(laws: &[Law]) -> Table {
    let mut table = table(&["delay ms", "strategy", "lambda", "sigma", "R2"]);
    for law in laws {
        table.add_row([
            law.delay_ms.to_string(),
            law.strategy.to_string(),
            format!("{:.0}", law.lambda),
            format!("{:.4}", law.sigma),
            law.r_squared.map_or_else(String::new, |part| format!("{part:.2}")),
        ]);
    }
    table
}
