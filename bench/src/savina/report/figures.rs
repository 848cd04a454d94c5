//! The pictures of the report.
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::{Row, is_ours, tables};
use crate::document::chart::{Axis, Curve, GLYPH, MARGIN, NAMES, WIDTH, curves, step, text, tick_label};
use crate::document::picture::{Area, Drawn, Ink};
use crate::document::{Figure, Mark};
use crate::measure::{Comparison, Estimate, in_short};

/// Units a row of text and mark takes.
const ROW: u32 = 22;

/// One line of a figure of ratios.
struct Dot {
    name: String,
    ratio: Comparison,
    note: String,
}

/// Enact against the best, and against each of the others; none if nobody else took part.
pub(super) fn against(rows: &[Row<'_>]) -> Vec<Figure> {
    let best = |row: &Row<'_>| {
        let (peer, ratio) = (&row.best_peer()?.series.name, row.ratio_to_best()?);
        Some(Dot { name: row.label.clone(), ratio, note: format!("{} {peer}", in_short(ratio.speed_up)) })
    };
    let best: Vec<_> = rows.iter().filter_map(best).collect();
    if best.is_empty() {
        return Vec::new();
    }
    let peers = tables::peers(rows);
    let each = peers.into_iter().map(|peer| {
        let dot = |row: &Row<'_>| {
            let ratio = row.entry(peer)?.ratio?;
            Some(Dot { name: row.label.clone(), ratio, note: in_short(ratio.speed_up) })
        };
        (peer, rows.iter().filter_map(dot).collect::<Vec<_>>())
    });
    let each: Vec<_> = each.filter(|(_, dots)| !dots.is_empty()).collect();
    let mut figures = vec![
        dots("against-best", "Enact to the best other library", best)
            .with_caption("rate ratio, logarithmic; right of 1 Enact is faster")
            .wide(),
    ];
    for (number, (peer, of_it)) in each.into_iter().enumerate() {
        figures.push(dots(&format!("against-{number}"), &format!("Enact to {peer}"), of_it));
    }
    figures
}

/// The lowest ratio comes first.
fn dots(id: &str, title: &str, mut dots: Vec<Dot>) -> Figure {
    dots.sort_by(|a, b| a.ratio.speed_up.total_cmp(&b.ratio.speed_up));
    let described: Vec<_> = dots.iter().map(|dot| format!("{} {}", dot.name, in_short(dot.ratio.speed_up))).collect();
    let description =
        format!("Ratios of message rates on a logarithmic scale, above 1 Enact is faster: {}.", described.join(", "));
    let height = 44 + ROW * dots.len() as u32;
    Figure::drawn(id, title, &description, (WIDTH, height), |area| draw_dots(area, &dots))
}

fn draw_dots(area: &Area<'_>, dots: &[Dot]) -> Drawn {
    let (low, high) = range(dots);
    let rows = dots.len() as f64;
    let room = |texts: &dyn Fn(&Dot) -> usize| dots.iter().map(texts).max().unwrap_or(0) as u32 * GLYPH + 12;
    let (names, notes) = (room(&|dot| dot.name.len()), room(&|dot| dot.note.len()));
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, names.min(140))
        .set_label_area_size(LabelAreaPosition::Right, notes.min(150))
        .set_label_area_size(LabelAreaPosition::Bottom, 28)
        .build_cartesian_2d((low..high).log_scale(), 0.0..rows)?;
    for tick in ticks(low, high) {
        let ink = if (tick - 1.0).abs() < f64::EPSILON { Ink::Base } else { Ink::Rule };
        chart.draw_series([PathElement::new([(tick, 0.0), (tick, rows)], ink.colour().stroke_width(1))])?;
        let label =
            EmptyElement::at((tick, 0.0)) + Text::new(tick_label(tick), (0, 13), text(Ink::Quiet, HPos::Center));
        chart.draw_series([label])?;
    }
    for (place, dot) in dots.iter().enumerate() {
        let y = rows - place as f64 - 0.5;
        let ink = ink(Mark::of(&dot.ratio));
        if let Some(interval) = dot.ratio.interval {
            let ends = [(interval.low, y), (interval.high, y)];
            chart.draw_series([PathElement::new(ends, ink.colour().stroke_width(2))])?;
        }
        chart.draw_series([Circle::new((dot.ratio.speed_up, y), 5, ink.colour().filled())])?;
        let name = EmptyElement::at((low, y)) + Text::new(dot.name.clone(), (-8, 0), text(Ink::Text, HPos::Right));
        let note = EmptyElement::at((high, y)) + Text::new(dot.note.clone(), (8, 0), text(ink, HPos::Left));
        chart.draw_series([name])?;
        chart.draw_series([note])?;
    }
    Ok(())
}

fn ink(mark: Mark) -> Ink {
    match mark {
        Mark::Ahead => Ink::Ahead,
        Mark::Behind => Ink::Behind,
        Mark::Open | Mark::None => Ink::Open,
    }
}

/// What all ratios and their intervals are in, and at least a factor of two to each side of 1.
fn range(dots: &[Dot]) -> (f64, f64) {
    let ends = |dot: &Dot| {
        let interval = dot.ratio.interval.map(|known| [known.low, known.high]);
        interval.into_iter().flatten().chain([dot.ratio.speed_up])
    };
    let all = dots.iter().flat_map(ends);
    let (low, high) = all.fold((0.5_f64, 2.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    (low / 1.15, high * 1.15)
}

/// 1, 2 and 5 of each decade in the range; of a long range only the decades.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let steps: &[f64] = if last - first > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let ticks = (first..=last).flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

/// The rates of everybody in one result, the highest first.
pub(super) fn rates(row: &Row<'_>) -> Figure {
    let result = row.result;
    let mut bars: Vec<_> = row.entries.iter().map(|entry| (entry.series.name.as_str(), entry.rate)).collect();
    bars.sort_by(|a, b| b.1.median.total_cmp(&a.1.median));
    let described: Vec<_> = bars.iter().map(|(name, rate)| format!("{name} {}", in_short(rate.median))).collect();
    let description = format!("Messages a second, medians: {}.", described.join(", "));
    let id = format!("rates-{}", row.label.replace([' ', '#'], "-"));
    let height = 36 + ROW * bars.len() as u32;
    let size = if result.scale == 1 { String::new() } else { format!(", size x{}", result.scale) };
    let workers = if result.workers == 1 { "1 worker".to_owned() } else { format!("{} workers", result.workers) };
    Figure::drawn(&id, row.label.clone(), &description, (WIDTH, height), |area| draw_bars(area, &bars))
        .with_caption(format!("messages/s, {workers}{size}"))
}

fn draw_bars(area: &Area<'_>, bars: &[(&str, Estimate)]) -> Drawn {
    let end = |rate: &Estimate| rate.interval.map_or(rate.median, |known| known.high.max(rate.median));
    let highest = bars.iter().map(|(_, rate)| end(rate)).fold(0.0, f64::max) * 1.02;
    let rows = bars.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, NAMES)
        .set_label_area_size(LabelAreaPosition::Right, 58)
        .set_label_area_size(LabelAreaPosition::Bottom, 24)
        .build_cartesian_2d(0.0..highest, 0.0..rows)?;
    let step = step(highest / 4.0);
    for tick in (0..).map(|number| f64::from(number) * step).take_while(|&tick| tick <= highest) {
        chart.draw_series([PathElement::new([(tick, 0.0), (tick, rows)], Ink::Rule.colour().stroke_width(1))])?;
        let label =
            EmptyElement::at((tick, 0.0)) + Text::new(tick_label(tick), (0, 13), text(Ink::Quiet, HPos::Center));
        chart.draw_series([label])?;
    }
    for (place, (name, rate)) in bars.iter().enumerate() {
        let y = rows - place as f64 - 0.5;
        let (fill, words) = if is_ours(name) { (Ink::Ours, Ink::Ours) } else { (Ink::Theirs, Ink::Text) };
        chart.draw_series([Rectangle::new([(0.0, y - 0.34), (rate.median, y + 0.34)], fill.colour().filled())])?;
        if let Some(interval) = rate.interval {
            let line = |a, b| PathElement::new([a, b], Ink::Whisker.colour().stroke_width(1));
            let (low, high) = (interval.low, interval.high);
            let cap = |x| line((x, y - 0.16), (x, y + 0.16));
            chart.draw_series([line((low, y), (high, y)), cap(low), cap(high)])?;
        }
        let label = EmptyElement::at((0.0, y)) + Text::new((*name).to_owned(), (-8, 0), text(words, HPos::Right));
        let value =
            EmptyElement::at((highest, y)) + Text::new(in_short(rate.median), (56, 0), text(words, HPos::Right));
        chart.draw_series([label])?;
        chart.draw_series([value])?;
    }
    Ok(())
}

/// Rates of everybody by the number of workers; `group` is in order of that number.
pub(super) fn scaling(group: &[&Row<'_>], number: usize) -> Figure {
    let curve = |name: &str| {
        let point = |row: &&Row<'_>| Some((row.result.workers as f64, row.entry(name)?.rate));
        let ink = if is_ours(name) { Ink::Ours } else { Ink::Theirs };
        Curve { name: name.to_owned(), ink, points: group.iter().filter_map(point).collect() }
    };
    let of_all: Vec<_> = tables::contenders(group).into_iter().map(curve).collect();
    let id = format!("scaling-{number}");
    curves(&id, tables::group_name(group), "Messages a second by workers", Axis::Linear, &of_all)
        .with_caption("messages/s by workers")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.4, 6.0), [0.5, 1.0, 2.0, 5.0]);
        assert_eq!(ticks(0.005, 200.0), [0.01, 0.1, 1.0, 10.0, 100.0]);
    }

    proptest! {
        #[test]
        fn a_range_has_every_ratio_in_it(ratios in proptest::collection::vec(1e-3..1e3_f64, 1..9)) {
            let dot = |&speed_up: &f64| Dot {
                name: String::new(),
                ratio: Comparison { speed_up, interval: None },
                note: String::new(),
            };
            let (low, high) = range(&ratios.iter().map(dot).collect::<Vec<_>>());
            prop_assert!(ratios.iter().chain([&1.0]).all(|ratio| (low..=high).contains(ratio)));
            prop_assert!(ticks(low, high).contains(&1.0));
        }
    }
}
