//! The page: every measurement in figures and tables.
//!
//! # Direction
//! Every ratio is a rate divided by that of locking, round by round: above 1 locking is slower. A difference is claimed only if the 95 %
//! interval of the ratio excludes 1, which takes five rounds.

mod overload;
mod paper;

use std::collections::BTreeSet;

use clap::ValueEnum;
use enact_entities::Strategy;

use self::overload::overload;
use self::paper::paper;
use super::Experiment;
use super::report::{Measurement, Report, Sample, Scaling, scalings};
use crate::document::chart::{Axis, Curve, curves};
use crate::document::picture::Ink;
use crate::document::{Block, Cell, Document, Figure, Mark, Section, Table};
use crate::engine::Decider;
use crate::measure::{Comparison, Estimate, Interval, in_short, median};
use crate::served::groups;

const TITLE: &str = "Enact and the experiments of path-sensitive atomic commit";

/// Everything about `report`.
pub(crate) fn document(report: &Report) -> Document {
    let measurements = report.measurements();
    let scalings = scalings(&measurements);
    let mut sections = Vec::new();
    let mut section = |id, heading: &str, blocks: Vec<Block>| {
        if !blocks.is_empty() {
            sections.push(Section { id, heading: heading.to_owned(), blocks });
        }
    };
    section("overview", "Beside locking", overview(&measurements));
    section("experiments", "Experiment by experiment", experiments(&measurements));
    section("overload", "Stepped to overload", overload(&measurements));
    section("engines", "More engines", more_engines(&scalings));
    section("paper", "Beside the paper", paper(&measurements, &scalings));
    section("all", "All figures", vec![Block::Table(all(&measurements))]);
    section("method", "How it was measured", method(report));
    Document {
        title: TITLE.to_owned(),
        summary: summary(report, &measurements),
        highlights: highlights(&measurements),
        sections,
    }
}

/// The measurements of what is compared with locking: the strategy that is the default.
fn compared<'a>(measurements: &'a [Measurement<'a>]) -> Vec<(&'a Measurement<'a>, Comparison)> {
    let is_it = |one: &&Measurement<'_>| one.sample.strategy == Strategy::default().to_string();
    let mut compared: Vec<_> =
        measurements.iter().filter(is_it).filter_map(|one| Some((one, one.of_locking?))).collect();
    compared.sort_by(|(_, a), (_, b)| a.speed_up.total_cmp(&b.speed_up));
    compared
}

/// Ahead of locking, behind it, and not to be told apart.
fn tally(compared: &[(&Measurement<'_>, Comparison)]) -> [usize; 3] {
    [Mark::Ahead, Mark::Behind, Mark::Open]
        .map(|mark| compared.iter().filter(|(_, ratio)| Mark::of(ratio) == mark).count())
}

fn summary(report: &Report, measurements: &[Measurement<'_>]) -> Vec<String> {
    let names: BTreeSet<_> = report.samples.iter().map(|sample| &sample.experiment).collect();
    let mut sentences = vec![format!(
        "Enact {} ran {} of {} experiments in one process on {}: {} verified windows of {} s in interleaved rounds.",
        report.machine.version,
        names.len(),
        Experiment::ALL.len(),
        report.machine.in_short(),
        report.samples.len(),
        report.seconds,
    )];
    let compared = compared(measurements);
    if let [(least, low), .., (most, high)] = &compared[..] {
        let [ahead, behind, open] = tally(&compared);
        sentences.push(format!(
            "Beside locking in each of {} comparisons, {} is ahead in {ahead}, behind in {behind}, and cannot be told \
             apart in {open}; its rate is {} times ({}) to {} times ({}) that of locking.",
            compared.len(),
            Strategy::default(),
            in_short(low.speed_up),
            in_words(least.sample),
            in_short(high.speed_up),
            in_words(most.sample),
        ));
    }
    if report.machine.debug_build {
        sentences.push("Enact was built without optimisation: these figures mean nothing.".to_owned());
    }
    sentences
}

fn highlights(measurements: &[Measurement<'_>]) -> Vec<(String, String, Mark)> {
    let compared = compared(measurements);
    if compared.is_empty() {
        return Vec::new();
    }
    let [ahead, behind, open] = tally(&compared);
    let ratios: Vec<_> = compared.iter().map(|(_, ratio)| ratio.speed_up).collect();
    vec![
        (in_short(median(&ratios)), format!("median ratio of {} to locking", Strategy::default()), Mark::None),
        (ahead.to_string(), "ahead of locking".to_owned(), Mark::Ahead),
        (behind.to_string(), "behind locking".to_owned(), Mark::Behind),
        (open.to_string(), "not to be told apart".to_owned(), Mark::Open),
    ]
}

fn engines_in_words(engines: u8, delay_ms: f64) -> String {
    match (engines, delay_ms) {
        (1, _) => "1 engine".to_owned(),
        (_, 0.0) => format!("{engines} engines"),
        _ => format!("{engines} engines, messages travel {delay_ms} ms"),
    }
}

fn in_words(sample: &Sample) -> String {
    let Sample { experiment, engines, delay_ms, clients, .. } = sample;
    format!("{experiment}, {}, {}", engines_in_words(*engines, *delay_ms), clients_in_words(*clients))
}

fn clients_in_words(clients: u32) -> String {
    if clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") }
}

fn interval(interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |Interval { low, high }| format!("{} to {}", in_short(low), in_short(high)))
}

/// The least ratio comes first.
fn overview(measurements: &[Measurement<'_>]) -> Vec<Block> {
    let compared = compared(measurements);
    if compared.is_empty() {
        return Vec::new();
    }
    let text = "The rate of the default strategy divided by that of locking in the same round, least first. Where the 95 % interval \
                has 1 in it, or there are fewer than five rounds, neither is claimed to be faster.";
    let mut table = Table::new(format!("{} beside locking, medians", Strategy::default()))
        .with_words("experiment")
        .with_numbers("engines")
        .with_numbers("delay ms")
        .with_numbers("clients")
        .with_numbers("tx/s")
        .with_numbers("of locking")
        .with_numbers("95 %")
        .with_words("verdict")
        .with_words("aim")
        .with_numbers("p99 ms")
        .with_numbers("p99 ms of locking");
    for (one, ratio) in compared {
        let Sample { experiment, engines, delay_ms, clients, aim, .. } = one.sample;
        let locking = measurements.iter().find(|other| other.is_locking_beside(one.sample));
        let mark = Mark::of(&ratio);
        let verdict = match mark {
            Mark::Ahead => "ahead",
            Mark::Behind => "behind",
            Mark::Open | Mark::None => "open",
        };
        let aim = aim.map(|aim| format!("{aim} {}", if ratio.speed_up >= aim { "reached" } else { "missed" }));
        table.add([
            Cell::from(experiment),
            engines.to_string().into(),
            delay_ms.to_string().into(),
            clients.to_string().into(),
            in_short(one.rate.median).into(),
            Cell::marked(in_short(ratio.speed_up), mark),
            interval(ratio.interval).into(),
            Cell::marked(verdict, mark),
            aim.unwrap_or_default().into(),
            in_short(one.p99_ms.median).into(),
            locking.map_or_else(String::new, |locking| in_short(locking.p99_ms.median)).into(),
        ]);
    }
    vec![Block::Prose(text.to_owned()), Block::Table(table)]
}

/// Throughput and latency against clients, beside each other.
fn experiments(measurements: &[Measurement<'_>]) -> Vec<Block> {
    let text = "Acknowledged transactions a second, higher is better, and the latency that 99 of 100 do not exceed, lower is better, by \
                number of clients; medians over the rounds, with 95 % bootstrap intervals of the default strategy from five rounds on.";
    let mut blocks = vec![Block::Prose(text.to_owned())];
    for of_experiment in groups(measurements, |one| &one.sample.experiment) {
        let name = &of_experiment[0].sample.experiment;
        blocks.push(Block::Heading(name.clone()));
        if let Ok(experiment) = Experiment::from_str(name, false) {
            blocks.push(Block::Prose(format!("{}.", experiment.description())));
        }
        for place in groups(&of_experiment, |one| (one.sample.engines, one.sample.delay_ms.to_bits())) {
            let Sample { engines, delay_ms, .. } = place[0].sample;
            let (id, title) = (format!("{name}-{engines}-{delay_ms}"), engines_in_words(*engines, *delay_ms));
            let of = |what: &str, unit: &str, figure: fn(&Measurement<'_>) -> Estimate| {
                let curves_of = strategies(&place, |one| (f64::from(one.sample.clients), figure(one)));
                let (id, words) = (format!("{id}-{what}"), format!("{unit} by clients"));
                curves(&id, title.clone(), &words, Axis::Logarithmic, &curves_of).with_caption(words)
            };
            blocks.push(Block::Figures(vec![
                of("rate", "transactions/s", |one| one.rate),
                of("p99", "p99 in ms", |one| one.p99_ms),
            ]));
        }
    }
    blocks
}

/// A curve for each strategy, from left to right.
fn strategies(measurements: &[&&Measurement<'_>], point: impl Fn(&Measurement<'_>) -> (f64, Estimate)) -> Vec<Curve> {
    let curve = |of: Vec<&&&Measurement<'_>>| {
        let mut points: Vec<_> = of.iter().map(|one| point(one)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let name = of[0].sample.strategy.clone();
        Curve { ink: ink(&name), name, points }
    };
    groups(measurements, |one| &one.sample.strategy).into_iter().map(curve).collect()
}

fn ink(strategy: &str) -> Ink {
    match Decider::parse(strategy) {
        Ok(Decider::Strategy(Strategy::Locking)) => Ink::Base,
        Ok(Decider::Strategy(Strategy::Psac)) => Ink::Kin,
        Ok(Decider::Strategy(Strategy::Serializable)) => Ink::Ours,
        Ok(Decider::Static) => Ink::Other,
        Ok(Decider::Strategy(Strategy::LockingEarlyRelease)) | Err(_) => Ink::Theirs,
    }
}

fn more_engines(scalings: &[Scaling]) -> Vec<Block> {
    if scalings.is_empty() {
        return Vec::new();
    }
    let text = "Amdahl's law, X(N) = λN / (1 + σ(N - 1)), fitted to the medians by least squares: λ is what one engine does a second, σ the \
                part that only one at a time can do, λ/σ what no number of engines exceeds. Engines share the machine here, so that σ has \
                in it what they take from each other; a σ above 1 says that engines take more than they bring.";
    let place = |one: &Scaling| (one.experiment.clone(), one.delay_ms.to_bits(), one.clients);
    let figure = |(number, group): (usize, Vec<&Scaling>)| {
        let Scaling { experiment, delay_ms, clients, .. } = group[0];
        let curve =
            |one: &&Scaling| Curve { name: one.strategy.clone(), ink: ink(&one.strategy), points: one.points.clone() };
        let delay = if *delay_ms == 0.0 { String::new() } else { format!(", messages travel {delay_ms} ms") };
        let title = format!("{experiment}, {}{delay}", clients_in_words(*clients));
        let words = "transactions/s by engines";
        curves(&format!("engines-{number}"), title, words, Axis::Linear, &group.iter().map(curve).collect::<Vec<_>>())
            .with_caption(words)
    };
    let figures: Vec<Figure> = groups(scalings, place).into_iter().enumerate().map(figure).collect();
    let mut table = Table::new("Fits to Amdahl's law")
        .with_words("experiment")
        .with_numbers("delay ms")
        .with_numbers("clients")
        .with_words("strategy")
        .with_words("engines")
        .with_numbers("λ, tx/s")
        .with_numbers("σ")
        .with_numbers("λ/σ, tx/s")
        .with_numbers("R²");
    for Scaling { experiment, delay_ms, clients, strategy, points, law, r_squared } in scalings {
        table.add([
            experiment.clone(),
            delay_ms.to_string(),
            clients.to_string(),
            strategy.clone(),
            points.iter().map(|(engines, _)| engines.to_string()).collect::<Vec<_>>().join(", "),
            in_short(law.lambda),
            format!("{:.4}", law.sigma),
            law.asymptote().map_or_else(|| "none".to_owned(), in_short),
            r_squared.map_or_else(String::new, |part| format!("{part:.2}")),
        ]);
    }
    vec![Block::Prose(text.to_owned()), Block::Figures(figures), Block::Table(table)]
}

fn all(measurements: &[Measurement<'_>]) -> Table {
    let mut table = Table::new("Every strategy, medians of verified windows")
        .with_words("experiment")
        .with_numbers("engines")
        .with_numbers("delay ms")
        .with_numbers("clients")
        .with_words("strategy")
        .with_numbers("tx/s")
        .with_numbers("95 %")
        .with_numbers("of locking")
        .with_numbers("p50 ms")
        .with_numbers("p95 ms")
        .with_numbers("p99 ms")
        .with_numbers("CPU us")
        .with_numbers("refused")
        .with_numbers("turned away");
    for Measurement { sample, rate, p50_ms, p95_ms, p99_ms, of_locking } in measurements {
        let ratio = |ratio: &Comparison| Cell::marked(in_short(ratio.speed_up), Mark::of(ratio));
        table.add([
            Cell::from(&sample.experiment),
            sample.engines.to_string().into(),
            sample.delay_ms.to_string().into(),
            sample.clients.to_string().into(),
            Cell::from(&sample.strategy),
            in_short(rate.median).into(),
            interval(rate.interval).into(),
            of_locking.as_ref().map_or_else(|| "".into(), ratio),
            in_short(*p50_ms).into(),
            in_short(*p95_ms).into(),
            in_short(p99_ms.median).into(),
            in_short(sample.cpu_us).into(),
            sample.refused.to_string().into(),
            sample.turned_away.to_string().into(),
        ]);
    }
    table
}

fn method(report: &Report) -> Vec<Block> {
    let points = [
        "Each client submits one command after the other, in the process of the engines; an acknowledged one has been synced. With two \
         engines and more a transaction over several of them commits in two phases. What is acknowledged after the window is over has a \
         latency and is no part of the rate.",
        "After the last window of each run an oracle compares what all objects hold with what was acknowledged, and a command that has \
         another outcome than the experiment intends ends the run: there is no figure then.",
        "Refused commands are those that a guard refuses as the experiment intends; they are no part of the rate. Commands that were turned \
         away were submitted again. CPU time is that of the whole process by acknowledged or refused command.",
        "A round runs every experiment under every strategy. Ratios are taken within a round, so that what disturbs the machine hits both.",
        "Intervals are 95 % percentile-bootstrap intervals of the median, 10,000 resamples; fewer than five rounds have none.",
    ];
    let sync = match report.sync_min_ms {
        0.0 => "as the disk takes".to_owned(),
        sync => format!("{sync} ms at least"),
    };
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let mut facts = vec![fact("a sync", sync), fact("exponent of Zipf's law", report.zipf.to_string())];
    facts.extend(report.machine.facts());
    vec![Block::List(points.map(str::to_owned).to_vec()), Block::Command(report.command.clone()), Block::Facts(facts)]
}

#[cfg(test)]
mod tests;
