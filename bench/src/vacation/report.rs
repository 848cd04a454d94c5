//! The measurement beside the simulation.
use std::fmt;

use serde::Serialize;

use super::run::{ABORTS, HASHES, Team};
use super::scaling::Scaling;
use crate::measure::{self, Comparison, Interval, Race, median, quantile};

/// All samples, the simulation, and what it predicts for the measured teams; displays as tables.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    #[serde(flatten)]
    pub(super) measured: measure::Report,
    /// Of the race's contenders, by place.
    #[serde(skip)]
    pub(super) teams: Vec<Team>,
    /// Seconds that each of them takes in the simulation of this machine.
    pub(super) predicted_s: Vec<f64>,
    pub(super) simulated: Scaling,
}

impl Report {
    pub(super) fn race(&self) -> &Race {
        &self.measured.races[0]
    }

    fn place_of(&self, team: Team) -> Option<usize> {
        self.teams.iter().position(|&other| other == team)
    }

    /// The team at `place` against the smallest of its version, if that was measured.
    pub(super) fn speed_up(&self, place: usize) -> Option<Comparison> {
        let smallest = self.place_of(self.teams[place].smallest())?;
        Some(self.race().compare_to(place, smallest))
    }

    fn median_s(&self, place: usize) -> f64 {
        median(&self.race().series[place].walls_s())
    }

    /// The fastest of the teams that `is_wanted`.
    fn best(&self, is_wanted: impl Fn(Team) -> bool) -> Option<usize> {
        let wanted = (0..self.teams.len()).filter(|&place| is_wanted(self.teams[place]));
        wanted.min_by(|&a, &b| self.median_s(a).total_cmp(&self.median_s(b)))
    }

    /// How many times the time of the team at `base` the one at `place` takes, in words. That of the processors holds on
    /// a busy machine, too.
    fn ratio(&self, place: usize, base: usize) -> String {
        let Comparison { speed_up, interval } = self.race().compare_to(place, base);
        let (team, other) = (self.teams[place], self.teams[base]);
        let inverse = |Interval { low, high }: Interval| format!(" (95 %: {:.2}-{:.2})", 1.0 / high, 1.0 / low);
        let interval = interval.map_or_else(String::new, inverse);
        let cpu_s = |place: usize| self.race().series[place].median_cpu_s();
        let cpu = cpu_s(place).zip(cpu_s(base)).map(|(cpu, base)| format!(", {:.2} times the CPU time", cpu / base));
        format!("{team} takes {:.2} times as long as {other}{interval}{}", 1.0 / speed_up, cpu.unwrap_or_default())
    }

    fn row(&self, place: usize) -> [String; 9] {
        let series = &self.race().series[place];
        let ms = |s: f64| format!("{:.1}", s * 1_000.0);
        let walls = series.walls_s();
        let fact = |name| series.median_fact(name).map_or_else(String::new, |value| format!("{value:.2}"));
        let speed_up = self.speed_up(place);
        let interval = speed_up.and_then(|comparison| comparison.interval);
        [
            self.teams[place].to_string(),
            ms(median(&walls)),
            format!("{}-{}", ms(quantile(&walls, 0.25)), ms(quantile(&walls, 0.75))),
            series.median_cpu_s().map_or_else(String::new, ms),
            speed_up.map_or_else(String::new, |comparison| format!("{:.2}", comparison.speed_up)),
            interval.map_or_else(String::new, |Interval { low, high }| format!("{low:.2}-{high:.2}")),
            fact(ABORTS),
            fact(HASHES),
            ms(self.predicted_s[place]),
        ]
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = ["team", "median ms", "quartiles", "CPU ms", "speed-up", "95 %", ABORTS, HASHES, "simulated ms"];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        (0..self.teams.len()).for_each(|place| {
            table.add_row(self.row(place));
        });
        writeln!(f, "{}\n{table}\n{}", self.measured.title, self.measured.machine)?;
        if let Some(others) = self.race().others {
            writeln!(f, "other processes used {:.0} % of the machine", others * 100.0)?;
        }
        let smallest = (self.place_of(Team::SMALLEST_SPLIT), self.place_of(Team::SMALLEST_ORIGINAL));
        let best = (self.best(Team::is_split), self.best(|team| matches!(team, Team::Original { .. })));
        for pair in [smallest, best] {
            if let (Some(split), Some(original)) = pair {
                writeln!(f, "{}", self.ratio(split, original))?;
            }
        }
        write!(f, "\n{}", self.simulated)
    }
}
