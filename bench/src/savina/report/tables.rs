//! Every number of the report.

use super::super::results::{BenchmarkResult, Results, is_ours};
use super::{Entry, Row, reasons};
use crate::document::{Cell, Mark, Table};
use crate::measure::{Comparison, Interval, PEAK_MEMORY, in_short};

/// The share of others in per cent, and so on, without digits that mean nothing.
fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

pub(super) fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |Interval { low, high }| format!("{} to {}", in_short(low), in_short(high)))
}

fn times_1000(known: Option<Interval>) -> Option<Interval> {
    known.map(|Interval { low, high }| Interval { low: low * 1e3, high: high * 1e3 })
}

fn or_empty(value: Option<f64>) -> String {
    value.map_or_else(String::new, in_short)
}

/// Ratio and interval, the ratio marked by what the interval says.
fn compared(comparison: Option<Comparison>) -> [Cell; 2] {
    let Some(comparison) = comparison else { return ["", ""].map(Cell::from) };
    let ratio = Cell::marked(in_short(comparison.speed_up), Mark::of(&comparison));
    [ratio, Cell::from(interval(comparison.interval))]
}

/// All samples of benchmarks, and those that were disturbed. Cold starts use too little time to tell.
pub(super) fn samples(rows: &[Row<'_>]) -> (usize, usize) {
    let entries = || rows.iter().flat_map(|row| &row.entries);
    (entries().map(|entry| entry.series.samples.len()).sum(), entries().map(|entry| entry.disturbed).sum())
}

/// In the order of the ratios, the worst first.
pub(super) fn overview(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new("Enact and the best other library")
        .with_words("benchmark")
        .with_words("name")
        .with_numbers("Enact, messages/s")
        .with_words("best other")
        .with_numbers("messages/s")
        .with_numbers("Enact to it")
        .with_numbers("95 %")
        .with_words("verdict");
    let ratio = |row: &&Row<'_>| row.ratio_to_best().map_or(f64::INFINITY, |ratio| ratio.speed_up);
    let mut rows: Vec<_> = rows.iter().collect();
    rows.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
    for row in rows {
        let ours = row.ours().map_or_else(|| "no result".to_owned(), |ours| in_short(ours.rate.median));
        let best = row.best_peer();
        let against = row.ratio_to_best();
        let [ratio, range] = compared(against);
        let words = against.map_or("", |ratio| match Mark::of(&ratio) {
            Mark::Ahead => "ahead",
            Mark::Behind => "behind",
            Mark::Open | Mark::None => "open",
        });
        table.add([
            Cell::from(row.label.as_str()),
            Cell::from(row.result.title.as_str()),
            Cell::from(ours),
            Cell::from(best.map_or("", |best| best.series.name.as_str())),
            Cell::from(best.map_or_else(String::new, |best| in_short(best.rate.median))),
            ratio,
            range,
            Cell::from(words),
        ]);
    }
    table
}

/// What is known about why; empty if nothing is known of what was run.
pub(super) fn reasons(rows: &[Row<'_>]) -> Table {
    let mut table =
        Table::new("What is known about them").with_words("benchmark").with_words("name").with_words("reason");
    for together in rows.chunk_by(|a, b| a.result.benchmark == b.result.benchmark) {
        let result = together[0].result;
        if let Some(reason) = reasons::of(&result.benchmark) {
            table.add([&result.benchmark, &result.title, &format!("{reason}.")]);
        }
    }
    table
}

/// Names of all peers that have a result somewhere, in the order in which they first have one.
pub(super) fn peers<'a>(rows: &[Row<'a>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for entry in rows.iter().flat_map(Row::peers) {
        if !names.contains(&entry.series.name.as_str()) {
            names.push(&entry.series.name);
        }
    }
    names
}

/// Enact against everybody; empty if nobody else took part.
pub(super) fn ratios(rows: &[Row<'_>]) -> Table {
    let peers = peers(rows);
    let caption = "Enact's message rate divided by that of each other library, with 95 % intervals";
    let mut table = Table::new(caption).with_words("benchmark");
    for peer in &peers {
        table = table.with_numbers(*peer);
    }
    if peers.is_empty() {
        return table;
    }
    for row in rows {
        let cell = |peer: &&str| {
            let Some(ratio) = row.entry(peer).and_then(|entry| entry.ratio) else { return Cell::from("") };
            let range = ratio.interval.map_or_else(String::new, |known| format!(" ({})", interval(Some(known))));
            Cell::marked(format!("{}{range}", in_short(ratio.speed_up)), Mark::of(&ratio))
        };
        table.add([Cell::from(row.label.as_str())].into_iter().chain(peers.iter().map(cell)));
    }
    table
}

pub(super) fn times(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new("Medians of verified runs, with 95 % bootstrap intervals")
        .with_words("benchmark")
        .with_words("contender")
        .with_numbers("ms")
        .with_numbers("95 %")
        .with_numbers("CPU ms")
        .with_numbers("cores")
        .with_numbers("messages/s")
        .with_numbers("95 %")
        .with_numbers("best/s")
        .with_numbers("Enact to it")
        .with_numbers("95 %")
        .with_numbers("disturbed");
    for row in rows {
        for Entry { series, wall_s, rate, ratio, disturbed } in &row.entries {
            let [ratio, range] = compared(*ratio);
            table.add([
                Cell::from(row.label.as_str()),
                Cell::from(series.name.as_str()),
                Cell::from(in_short(wall_s.median * 1e3)),
                Cell::from(interval(times_1000(wall_s.interval))),
                Cell::from(or_empty(series.median_cpu_s().map(|cpu_s| cpu_s * 1e3))),
                Cell::from(or_empty(series.median_cores())),
                Cell::from(in_short(rate.median)),
                Cell::from(interval(rate.interval)),
                Cell::from(in_short(series.best_rate())),
                ratio,
                range,
                Cell::from(format!("{disturbed} of {}", series.samples.len())),
            ]);
        }
    }
    table
}

/// Rates of each group by workers.
pub(super) fn scaling(groups: &[Vec<&Row<'_>>]) -> Table {
    let mut workers: Vec<_> = groups.iter().flatten().map(|row| row.result.workers).collect();
    workers.sort_unstable();
    workers.dedup();
    let caption = "Median messages a second by worker threads";
    let mut table = Table::new(caption).with_words("benchmark").with_words("contender");
    for &workers in &workers {
        table = table.with_numbers(if workers == 1 { "1 worker".to_owned() } else { format!("{workers} workers") });
    }
    for group in groups {
        for contender in contenders(group) {
            let rate = |workers: &usize| {
                let row = group.iter().find(|row| row.result.workers == *workers)?;
                row.entry(contender).map(|entry| entry.rate.median)
            };
            let words = [group_name(group), contender.to_owned()];
            table.add(words.into_iter().chain(workers.iter().map(|workers| or_empty(rate(workers)))));
        }
    }
    table
}

/// What is the same in all of `group`.
pub(super) fn group_name(group: &[&Row<'_>]) -> String {
    let Row { result, measurement, label, .. } = group[0];
    let size = if result.scale == 1 { String::new() } else { format!(" x{}", result.scale) };
    let number = if label.contains('#') { format!(" #{}", measurement + 1) } else { String::new() };
    format!("{}{size}{number}", result.benchmark)
}

/// Everybody with a result in any of `rows`.
pub(super) fn contenders<'a>(rows: &[&'a Row<'_>]) -> Vec<&'a str> {
    let mut names: Vec<&str> = Vec::new();
    for entry in rows.iter().flat_map(|row| &row.entries) {
        if !names.contains(&entry.series.name.as_str()) {
            names.push(&entry.series.name);
        }
    }
    names
}

/// Peak memory of everybody; empty where the system does not tell.
pub(super) fn peak_memory(rows: &[Row<'_>]) -> Table {
    let (ours, others): (Vec<_>, Vec<_>) =
        contenders(&rows.iter().collect::<Vec<_>>()).into_iter().partition(|name| is_ours(name));
    let names = [ours, others].concat();
    let mut table = Table::new("Peak resident memory in MiB, medians").with_words("benchmark");
    for name in &names {
        table = table.with_numbers(*name);
    }
    for row in rows {
        let peak = |name: &&str| row.entry(name)?.series.median_fact(PEAK_MEMORY);
        let peaks: Vec<_> = names.iter().map(peak).collect();
        if peaks.iter().any(Option::is_some) {
            table.add([row.label.clone()].into_iter().chain(peaks.into_iter().map(or_empty)));
        }
    }
    table
}

#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub(super) fn allocations(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new("Heap allocations of one run")
        .with_words("benchmark")
        .with_words("contender")
        .with_numbers("allocations")
        .with_numbers("a message")
        .with_numbers("bytes")
        .with_numbers("bytes a message")
        .with_numbers("messages");
    for row in rows {
        for (contender, heap) in &row.result.heap {
            table.add([
                row.label.clone(),
                contender.clone(),
                in_short(heap.allocations.count as f64),
                in_short(heap.count_per_message()),
                in_short(heap.allocations.bytes as f64),
                in_short(heap.bytes_per_message()),
                in_short(heap.messages as f64),
            ]);
        }
    }
    table
}

pub(super) fn cold_start(results: &[Results]) -> Table {
    let mut table = Table::new("From nothing to the first verified result, medians")
        .with_words("contender")
        .with_numbers("ms")
        .with_numbers("95 %")
        .with_numbers("Enact's speed to it")
        .with_numbers("95 %");
    for (number, race) in
        results.iter().enumerate().filter_map(|(number, one)| Some((number, one.cold_start.as_ref()?)))
    {
        let ours = race.series.iter().position(|series| is_ours(&series.name));
        for (place, series) in race.series.iter().enumerate() {
            let name = if results.len() > 1 { format!("{} #{}", series.name, number + 1) } else { series.name.clone() };
            let wall = series.wall_s();
            let [ratio, range] = compared(ours.filter(|&ours| ours != place).map(|ours| race.compare_to(ours, place)));
            table.add([
                Cell::from(name),
                Cell::from(in_short(wall.median * 1e3)),
                Cell::from(interval(times_1000(wall.interval))),
                ratio,
                range,
            ]);
        }
    }
    table
}

pub(super) fn parameters_in_words(result: &BenchmarkResult) -> String {
    result.parameters.iter().map(|(key, value)| format!("{key} {value}")).collect::<Vec<_>>().join(", ")
}

pub(super) fn parameters(rows: &[Row<'_>]) -> Table {
    let mut table = Table::new("Parameters")
        .with_words("benchmark")
        .with_words("name")
        .with_words("parameters")
        .with_numbers("size")
        .with_numbers("workers")
        .with_numbers("rounds")
        .with_numbers("used by others");
    for row in rows {
        let result = row.result;
        table.add([
            row.label.clone(),
            result.title.clone(),
            parameters_in_words(result),
            format!("x{}", result.scale),
            result.workers.to_string(),
            result.race.series.first().map_or(0, |series| series.samples.len()).to_string(),
            result.race.others.map_or_else(String::new, percent),
        ]);
    }
    table
}

/// In a few words.
/// Names and values of what is known about the measurement.
pub(super) fn machine(results: &Results) -> Vec<(String, String)> {
    let version = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let versions: Vec<_> =
        results.libraries.iter().map(|one| format!("{} {}", one.name, version(&one.version))).collect();
    let others = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
    let mut facts = results.machine.facts();
    facts.extend([("others".to_owned(), others), ("discarded rounds".to_owned(), results.warm_up.to_string())]);
    facts
}
