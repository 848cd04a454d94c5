//! The pictures of the report.
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Row, is_ours, tables, verdict};
use crate::document::picture::{Area, Drawn, Ink};
use crate::document::{Figure, Mark};
use crate::measure::{Comparison, Estimate, in_short};

/// Units across a figure; the page scales it to about one pixel a unit.
const WIDTH: u32 = 400;
const FONT: &str = "sans-serif";
const TEXT_SIZE: i32 = 15;
/// Units a letter takes, on average and rather more.
const GLYPH: u32 = 7;
/// Units a row of text and mark takes.
const ROW: u32 = 22;
const MARGIN: u32 = 6;
/// Units for the names of contenders, which are longer than those of benchmarks.
const NAMES: u32 = 106;

fn text(ink: Ink, side: HPos) -> TextStyle<'static> {
    let style = TextStyle::from((FONT, TEXT_SIZE).into_font());
    TextStyle { color: ink.colour().to_backend_color(), pos: Pos::new(side, VPos::Center), ..style }
}

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
        let ink = ink(verdict(&dot.ratio));
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

/// A round number without digits that say nothing.
fn tick_label(tick: f64) -> String {
    let short = in_short(tick);
    let (digits, prefix) = short.split_at(short.trim_end_matches(char::is_alphabetic).len());
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{prefix}")
}

/// The next 1, 2 or 5 times a power of ten.
fn step(at_least: f64) -> f64 {
    let decade = 10_f64.powf(at_least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|&step| step >= at_least).unwrap_or(decade)
}

/// Rates of everybody by the number of workers; `group` is in order of that number.
pub(super) fn scaling(group: &[&Row<'_>], number: usize) -> Figure {
    let curve = |name: &str| {
        let point = |row: &&Row<'_>| Some((row.result.workers as f64, row.entry(name)?.rate));
        (name.to_owned(), group.iter().filter_map(point).collect::<Vec<_>>())
    };
    let curves: Vec<_> = tables::contenders(group).into_iter().map(curve).collect();
    let described: Vec<_> = curves
        .iter()
        .map(|(name, points)| {
            let rates: Vec<_> = points.iter().map(|(_, rate)| in_short(rate.median)).collect();
            format!("{name} {}", rates.join(", "))
        })
        .collect();
    let description = format!("Messages a second by workers, in order of their number: {}.", described.join("; "));
    let height = 120 + 18 * curves.len() as u32;
    Figure::drawn(
        &format!("scaling-{number}"),
        tables::group_name(group),
        &description,
        (WIDTH, height.max(220)),
        |area| draw_curves(area, &curves),
    )
    .with_caption("messages/s by workers")
}

type Curve = (String, Vec<(f64, Estimate)>);

fn draw_curves(area: &Area<'_>, curves: &[Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|(_, points)| points);
    let end = |rate: &Estimate| rate.interval.map_or(rate.median, |known| known.high.max(rate.median));
    let highest = points().map(|(_, rate)| end(rate)).fold(0.0, f64::max) * 1.05;
    let last = points().map(|(workers, _)| *workers).fold(1.0, f64::max);
    let first = points().map(|(workers, _)| *workers).fold(last, f64::min);
    let slack = (last - first) * 0.08;
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, 50)
        .set_label_area_size(LabelAreaPosition::Right, NAMES)
        .set_label_area_size(LabelAreaPosition::Bottom, 24)
        .build_cartesian_2d(first - slack..last + slack, 0.0..highest)?;
    let step = step(highest / 4.0);
    for tick in (0..).map(|number| f64::from(number) * step).take_while(|&tick| tick <= highest) {
        let across = [(first - slack, tick), (last + slack, tick)];
        chart.draw_series([PathElement::new(across, Ink::Rule.colour().stroke_width(1))])?;
        let at = EmptyElement::at((first - slack, tick));
        chart.draw_series([at + Text::new(tick_label(tick), (-6, 0), text(Ink::Quiet, HPos::Right))])?;
    }
    let mut numbers: Vec<_> = points().map(|(workers, _)| *workers as u32).collect();
    numbers.sort_unstable();
    numbers.dedup();
    for workers in numbers {
        let at = EmptyElement::at((f64::from(workers), 0.0));
        chart.draw_series([at + Text::new(workers.to_string(), (0, 13), text(Ink::Quiet, HPos::Center))])?;
    }
    let pixels_per_unit = f64::from(chart.plotting_area().dim_in_pixel().1) / highest;
    let mut ends: Vec<_> = curves.iter().filter_map(|(name, points)| Some((name, points.last()?.1.median))).collect();
    ends.sort_by(|a, b| b.1.total_cmp(&a.1));
    let places = apart(&ends.iter().map(|(_, rate)| rate * pixels_per_unit).collect::<Vec<_>>(), 17.0);
    // Ours last, over the others.
    let mut order: Vec<_> = curves.iter().collect();
    order.sort_by_key(|(name, _)| is_ours(name));
    for (name, points) in order {
        let is_ours = is_ours(name);
        let (ink, width) = if is_ours { (Ink::Ours, 3) } else { (Ink::Theirs, 2) };
        let line: Vec<_> = points.iter().map(|(workers, rate)| (*workers, rate.median)).collect();
        let intervals = points.iter().filter_map(|(workers, rate)| Some((*workers, rate.interval?)));
        // Those of everybody would hide each other.
        for (workers, interval) in intervals.filter(|_| is_ours) {
            let whisker = [(workers, interval.low), (workers, interval.high)];
            chart.draw_series([PathElement::new(whisker, ink.colour().stroke_width(1))])?;
        }
        chart.draw_series(line.iter().map(|&point| Circle::new(point, 3, ink.colour().filled())))?;
        chart.draw_series([PathElement::new(line, ink.colour().stroke_width(width))])?;
    }
    for ((name, rate), place) in ends.into_iter().zip(places) {
        let (ink, guide) = if is_ours(name) { (Ink::Ours, Ink::Ours) } else { (Ink::Quiet, Ink::Theirs) };
        let beside = place / pixels_per_unit;
        let lead = [(last, rate), (last + slack, beside)];
        chart.draw_series([PathElement::new(lead, guide.colour().stroke_width(1))])?;
        let at = EmptyElement::at((last + slack, beside));
        chart.draw_series([at + Text::new(name.clone(), (4, 0), text(ink, HPos::Left))])?;
    }
    Ok(())
}

/// Places at least `gap` apart, in the falling order of `wanted`, near what is wanted and not below 0.
fn apart(wanted: &[f64], gap: f64) -> Vec<f64> {
    let mut places: Vec<f64> = Vec::with_capacity(wanted.len());
    for &place in wanted {
        let below = places.last().map_or(f64::INFINITY, |last| last - gap);
        places.push(place.min(below));
    }
    let mut floor = 0.0;
    for place in places.iter_mut().rev() {
        *place = place.max(floor);
        floor = *place + gap;
    }
    places
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        assert_eq!(ticks(0.4, 6.0), [0.5, 1.0, 2.0, 5.0]);
        assert_eq!(ticks(0.005, 200.0), [0.01, 0.1, 1.0, 10.0, 100.0]);
        assert_eq!(
            [0.01, 0.5, 1.0, 20.0, 100.0, 5e6, 2.5e6].map(tick_label),
            ["0.01", "0.5", "1", "20", "100", "5M", "2.5M"]
        );
        assert_eq!([0.9, 1.0, 1.1, 4.0, 6.0, 3e6].map(step), [1.0, 1.0, 2.0, 5.0, 10.0, 5e6]);
    }

    proptest! {
        #[test]
        fn labels_do_not_overlap_and_stay_in_order(mut wanted in proptest::collection::vec(0.0..200.0_f64, 0..12)) {
            wanted.sort_by(|a, b| b.total_cmp(a));
            let places = apart(&wanted, 17.0);
            prop_assert_eq!(places.len(), wanted.len());
            prop_assert!(places.windows(2).all(|pair| pair[0] - pair[1] >= 17.0 - 1e-9), "{:?}", places);
            prop_assert!(places.iter().all(|&place| place >= 0.0), "{:?}", places);
        }

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
