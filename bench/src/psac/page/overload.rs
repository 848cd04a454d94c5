//! Latency against throughput, as the number of clients is stepped up until more of them bring nothing: the picture of figure 8.

use std::collections::BTreeSet;

use super::{clients_in_words, engines_in_words, ink};
use crate::document::chart::{Path, paths};
use crate::document::{Block, Figure, Table};
use crate::measure::in_short;
use crate::psac::report::{Measurement, Sample};
use crate::served::groups;

/// A percentile of the latency in milliseconds.
type Latency = fn(&Measurement<'_>) -> f64;

/// Fewer numbers of clients are no way.
const STEPS_MIN: usize = 3;

/// Of each place in which there are enough numbers of clients.
pub(super) fn overload(measurements: &[Measurement<'_>]) -> Vec<Block> {
    let place = |one: &Measurement<'_>| {
        let Sample { experiment, engines, delay_ms, .. } = one.sample;
        (experiment.clone(), *engines, delay_ms.to_bits())
    };
    let places = groups(measurements, place).into_iter();
    let places: Vec<_> = places.filter(|of_place| steps(of_place).len() >= STEPS_MIN).collect();
    if places.is_empty() {
        return Vec::new();
    }
    let text = "As in figure 8 of the paper: what a transaction takes against how many are done a second, one point for each number of \
                clients, joined in order of their number. A line goes to the right as long as more clients bring more, and up where \
                they only wait; where it turns back they cost. The latency is logarithmic. Medians over the rounds.";
    let mut blocks = vec![Block::Prose(text.to_owned())];
    let mut table = Table::new("Where more clients bring no more")
        .with_words("experiment")
        .with_words("strategy")
        .with_numbers("most tx/s")
        .with_numbers("with clients")
        .with_numbers("p50 ms")
        .with_numbers("p95 ms")
        .with_numbers("p99 ms")
        .with_numbers("most clients")
        .with_numbers("tx/s")
        .with_numbers("p99 ms");
    for of_place in places {
        let Sample { experiment, engines, delay_ms, .. } = of_place[0].sample;
        let steps = steps(&of_place);
        let (first, last) = (steps.first().copied().unwrap_or(0), steps.last().copied().unwrap_or(0));
        let span = format!("{} to {}", first, clients_in_words(last));
        let place = format!("{experiment}, {}", engines_in_words(*engines, *delay_ms));
        blocks.push(Block::Heading(format!("{place}, {span}")));
        blocks.push(Block::Figures(pictures(&of_place)));
        for of_strategy in groups(&of_place, |one| &one.sample.strategy) {
            let by = |a: &&&&Measurement<'_>, b: &&&&Measurement<'_>| a.rate.median.total_cmp(&b.rate.median);
            let most = of_strategy.iter().max_by(by).expect("a group has a member");
            let end = of_strategy.iter().max_by_key(|one| one.sample.clients).expect("a group has a member");
            table.add([
                place.clone(),
                most.sample.strategy.clone(),
                in_short(most.rate.median),
                most.sample.clients.to_string(),
                in_short(most.p50_ms),
                in_short(most.p95_ms),
                in_short(most.p99_ms.median),
                end.sample.clients.to_string(),
                in_short(end.rate.median),
                in_short(end.p99_ms.median),
            ]);
        }
    }
    blocks.push(Block::Table(table));
    blocks
}

/// The numbers of clients, from the least to the most.
fn steps(of_place: &[&Measurement<'_>]) -> BTreeSet<u32> {
    of_place.iter().map(|one| one.sample.clients).collect()
}

/// One for each percentile.
fn pictures(of_place: &[&Measurement<'_>]) -> Vec<Figure> {
    let Sample { experiment, engines, delay_ms, .. } = of_place[0].sample;
    let percentiles: [(&str, Latency); 3] =
        [("50", |one| one.p50_ms), ("95", |one| one.p95_ms), ("99", |one| one.p99_ms.median)];
    let picture = |(percent, figure): (&str, Latency)| {
        let path = |of: Vec<&&Measurement<'_>>| {
            let mut in_order = of.clone();
            in_order.sort_by_key(|one| one.sample.clients);
            let points = in_order.iter().map(|one| (one.rate.median, figure(one))).collect();
            let name = of[0].sample.strategy.clone();
            Path { ink: ink(&name), name, points }
        };
        let lines: Vec<_> = groups(of_place, |one| one.sample.strategy.clone()).into_iter().map(path).collect();
        let words = format!("p{percent} in ms by transactions/s");
        let id = format!("overload-{experiment}-{engines}-{delay_ms}-{percent}");
        paths(&id, format!("{percent} of 100"), &words, &lines).with_caption(words)
    };
    percentiles.map(picture).into()
}
