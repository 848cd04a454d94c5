//! What charts have in common, and curves.
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::picture::{Area, Drawn, Figure, Ink};
use crate::measure::{Estimate, in_short};

/// Units across a figure; the page scales it to about one pixel a unit.
pub(crate) const WIDTH: u32 = 400;
const FONT: &str = "sans-serif";
const TEXT_SIZE: i32 = 15;
/// Units a letter takes, on average and rather more.
pub(crate) const GLYPH: u32 = 7;
pub(crate) const MARGIN: u32 = 6;
/// The same where room is scarce and small letters are more frequent.
const NARROW_GLYPH: u32 = 6;
/// Units for the names of what is compared, at least.
pub(crate) const NAMES: u32 = 106;
/// Units a label of a curve takes of the height.
const LABEL: u32 = 18;

pub(crate) fn text(ink: Ink, side: HPos) -> TextStyle<'static> {
    let style = TextStyle::from((FONT, TEXT_SIZE).into_font());
    TextStyle { color: ink.colour().to_backend_color(), pos: Pos::new(side, VPos::Center), ..style }
}

/// A round number without digits that say nothing.
pub(crate) fn tick_label(tick: f64) -> String {
    let short = in_short(tick);
    let (digits, prefix) = short.split_at(short.trim_end_matches(char::is_alphabetic).len());
    let digits = if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{prefix}")
}

/// The next 1, 2 or 5 times a power of ten.
pub(crate) fn step(at_least: f64) -> f64 {
    let decade = 10_f64.powf(at_least.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * decade).find(|&step| step >= at_least).unwrap_or(decade)
}

/// What is drawn as one line.
#[derive(Debug)]
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// From left to right, at least one.
    pub(crate) points: Vec<(f64, Estimate)>,
}

/// How what grows to the right is spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    Linear,
    /// For what is doubled again and again, from 1.
    Logarithmic,
}

impl Axis {
    fn place(self, value: f64) -> f64 {
        match self {
            Self::Linear => value,
            Self::Logarithmic => value.log2(),
        }
    }
}

/// A figure of `curves` with their names at their ends; `what` says in its description what grows with what.
pub(crate) fn curves(id: &str, title: impl Into<String>, what: &str, axis: Axis, curves: &[Curve]) -> Figure {
    let described = curves.iter().map(|curve| {
        let points: Vec<_> = curve.points.iter().map(|(_, point)| in_short(point.median)).collect();
        format!("{} {}", curve.name, points.join(", "))
    });
    let description = format!("{what}, in order of their number: {}.", described.collect::<Vec<_>>().join("; "));
    let height = 120 + LABEL * curves.len() as u32;
    Figure::drawn(id, title, &description, (WIDTH, height.max(220)), |area| draw_curves(area, axis, curves))
}

fn draw_curves(area: &Area<'_>, axis: Axis, curves: &[Curve]) -> Drawn {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let end = |point: &Estimate| point.interval.map_or(point.median, |known| known.high.max(point.median));
    let highest = points().map(|(_, point)| end(point)).fold(0.0, f64::max).max(f64::MIN_POSITIVE) * 1.05;
    let mut numbers: Vec<_> = points().map(|(number, _)| *number).collect();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    let [first, last] = [numbers.first(), numbers.last()].map(|end| end.map_or(0.0, |&number| axis.place(number)));
    let slack = if first < last { (last - first) * 0.08 } else { 1.0 };
    let names = curves.iter().map(|curve| curve.name.len() as u32 * NARROW_GLYPH + 12).max().unwrap_or(0).max(NAMES);
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, 50)
        .set_label_area_size(LabelAreaPosition::Right, names)
        .set_label_area_size(LabelAreaPosition::Bottom, 24)
        .build_cartesian_2d(first - slack..last + slack, 0.0..highest)?;
    let step = step(highest / 4.0);
    for tick in (0..).map(|number| f64::from(number) * step).take_while(|&tick| tick <= highest) {
        let across = [(first - slack, tick), (last + slack, tick)];
        chart.draw_series([PathElement::new(across, Ink::Rule.colour().stroke_width(1))])?;
        let at = EmptyElement::at((first - slack, tick));
        chart.draw_series([at + Text::new(tick_label(tick), (-6, 0), text(Ink::Quiet, HPos::Right))])?;
    }
    for number in numbers {
        let at = EmptyElement::at((axis.place(number), 0.0));
        chart.draw_series([at + Text::new(number.to_string(), (0, 13), text(Ink::Quiet, HPos::Center))])?;
    }
    // Ours last, over the others.
    let mut order: Vec<_> = curves.iter().collect();
    order.sort_by_key(|curve| curve.ink == Ink::Ours);
    for Curve { ink, points, .. } in order {
        let is_ours = *ink == Ink::Ours;
        let line: Vec<_> = points.iter().map(|(number, point)| (axis.place(*number), point.median)).collect();
        let intervals = points.iter().filter_map(|(number, point)| Some((axis.place(*number), point.interval?)));
        // Those of everybody would hide each other.
        for (place, interval) in intervals.filter(|_| is_ours) {
            let whisker = [(place, interval.low), (place, interval.high)];
            chart.draw_series([PathElement::new(whisker, ink.colour().stroke_width(1))])?;
        }
        chart.draw_series(line.iter().map(|&point| Circle::new(point, 3, ink.colour().filled())))?;
        chart.draw_series([PathElement::new(line, ink.colour().stroke_width(if is_ours { 3 } else { 2 }))])?;
    }
    let pixels_per_unit = f64::from(chart.plotting_area().dim_in_pixel().1) / highest;
    let mut ends: Vec<_> = curves.iter().filter_map(|curve| Some((curve, curve.points.last()?))).collect();
    ends.sort_by(|a, b| b.1.1.median.total_cmp(&a.1.1.median));
    let places = apart(&ends.iter().map(|(_, (_, end))| end.median * pixels_per_unit).collect::<Vec<_>>(), 17.0);
    for ((Curve { name, ink, .. }, (number, end)), place) in ends.into_iter().zip(places) {
        let beside = place / pixels_per_unit;
        let lead = [(axis.place(*number), end.median), (last + slack, beside)];
        chart.draw_series([PathElement::new(lead, ink.colour().stroke_width(1))])?;
        let words = if *ink == Ink::Ours { Ink::Ours } else { Ink::Quiet };
        let at = EmptyElement::at((last + slack, beside));
        chart.draw_series([at + Text::new(name.clone(), (4, 0), text(words, HPos::Left))])?;
    }
    Ok(())
}

/// Points that are joined in their order, which need not be that from left to right.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) name: String,
    pub(crate) ink: Ink,
    /// What grows to the right, and what grows upwards, which is positive; at least one.
    pub(crate) points: Vec<(f64, f64)>,
}

/// A figure of `paths` with their names below, whose height is logarithmic; `what` says in its description what is shown.
pub(crate) fn paths(id: &str, title: impl Into<String>, what: &str, paths: &[Path]) -> Figure {
    let described = paths.iter().map(|path| {
        let points = path.points.iter().map(|(across, up)| format!("{} at {}", in_short(*up), in_short(*across)));
        format!("{} {}", path.name, points.collect::<Vec<_>>().join(", "))
    });
    let description = format!("{what}: {}.", described.collect::<Vec<_>>().join("; "));
    let rows = paths.len().div_ceil(NAMES_A_ROW) as u32;
    Figure::drawn(id, title, &description, (WIDTH, 236 + LABEL * rows), |area| draw_paths(area, paths, LABEL * rows))
}

/// Of the height, what is too small for it is at its bottom.
const LEAST: f64 = 1e-3;
/// Names below paths that stand beside each other.
const NAMES_A_ROW: usize = 2;

/// With so much room for the names.
fn draw_paths(area: &Area<'_>, paths: &[Path], names: u32) -> Drawn {
    let points = || paths.iter().flat_map(|path| &path.points);
    let up = |value: f64| value.max(LEAST).log10();
    let widest = points().map(|(across, _)| *across).fold(1.0, f64::max) * 1.05;
    let lowest = points().map(|(_, value)| up(*value)).fold(f64::INFINITY, f64::min) - 0.1;
    let highest = points().map(|(_, value)| up(*value)).fold(f64::NEG_INFINITY, f64::max) + 0.1;
    let mut chart = ChartBuilder::on(area)
        .margin(MARGIN)
        .set_label_area_size(LabelAreaPosition::Left, 50)
        .set_label_area_size(LabelAreaPosition::Right, 12)
        .set_label_area_size(LabelAreaPosition::Bottom, 32 + names)
        .build_cartesian_2d(0.0..widest, lowest..highest)?;
    // Decades, and what is between them where they are few.
    let digits: &[f64] = if highest - lowest > 2.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let ticks = (-3..=12).flat_map(|decade| digits.iter().map(move |digit| digit * 10_f64.powi(decade)));
    for tick in ticks.filter(|&tick| (lowest..=highest).contains(&tick.log10())) {
        let across = [(0.0, tick.log10()), (widest, tick.log10())];
        chart.draw_series([PathElement::new(across, Ink::Rule.colour().stroke_width(1))])?;
        let at = EmptyElement::at((0.0, tick.log10()));
        chart.draw_series([at + Text::new(tick_label(tick), (-6, 0), text(Ink::Quiet, HPos::Right))])?;
    }
    let step = step(widest / 4.0);
    for tick in (0..).map(|number| f64::from(number) * step).take_while(|&tick| tick <= widest) {
        let at = EmptyElement::at((tick, lowest));
        chart.draw_series([at + Text::new(tick_label(tick), (0, 13), text(Ink::Quiet, HPos::Center))])?;
    }
    // Ours is broad, and below the others, so that what lies on it is seen.
    let mut order: Vec<_> = paths.iter().collect();
    order.sort_by_key(|path| path.ink != Ink::Ours);
    for Path { ink, points, .. } in order {
        let line: Vec<_> = points.iter().map(|&(across, value)| (across, up(value))).collect();
        let (radius, width) = if *ink == Ink::Ours { (5, 5) } else { (3, 2) };
        chart.draw_series(line.iter().map(|&point| Circle::new(point, radius, ink.colour().filled())))?;
        chart.draw_series([PathElement::new(line, ink.colour().stroke_width(width))])?;
    }
    let column = (WIDTH - 50) as i32 / NAMES_A_ROW as i32;
    for (number, Path { name, ink, .. }) in paths.iter().enumerate() {
        let across = column * (number % NAMES_A_ROW) as i32;
        let down = 38 + LABEL as i32 * (number / NAMES_A_ROW) as i32;
        let at = EmptyElement::at((0.0, lowest));
        let words = text(if *ink == Ink::Ours { Ink::Ours } else { Ink::Quiet }, HPos::Left);
        chart.draw_series([at
            + Circle::new((across, down), 4, ink.colour().filled())
            + Text::new(name.clone(), (across + 9, down), words)])?;
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
    fn labels_of_ticks_are_round_and_short() {
        assert_eq!(
            [0.01, 0.5, 1.0, 20.0, 100.0, 5e6, 2.5e6].map(tick_label),
            ["0.01", "0.5", "1", "20", "100", "5M", "2.5M"]
        );
        assert_eq!([0.9, 1.0, 1.1, 4.0, 6.0, 3e6].map(step), [1.0, 1.0, 2.0, 5.0, 10.0, 5e6]);
    }

    /// A figure with the same points for each name.
    fn figure(axis: Axis, points: &[(f64, f64)], names: &[&str]) -> String {
        let curve = |name: &&str| Curve {
            name: (*name).to_owned(),
            ink: Ink::Ours,
            points: points.iter().map(|&(x, y)| (x, Estimate { median: y, interval: None })).collect(),
        };
        curves("c", "Rates", "Rates by clients", axis, &names.iter().map(curve).collect::<Vec<_>>()).svg
    }

    #[test]
    fn curves_have_their_names_and_numbers_and_say_what_they_show() {
        let svg = figure(Axis::Logarithmic, &[(1.0, 10.0), (64.0, 500.0)], &["one", "other"]);
        for text in [
            ">\none\n",
            ">\nother\n",
            ">\n1\n",
            ">\n64\n",
            "Rates by clients, in order of their number: one 10, 500; other 10, 500.",
        ] {
            assert!(svg.contains(text), "{text} in {svg}");
        }
    }

    #[test]
    fn a_single_point_and_one_at_zero_can_be_drawn() {
        for points in [[(64.0, 0.0)], [(1.0, 5.0)]] {
            let svg = figure(Axis::Logarithmic, &points, &["one"]);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            // The first line is that of a tick, from the left end to the right.
            let ends = svg.split("points=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a line");
            let places: Vec<_> = ends.split_whitespace().filter_map(|end| end.split(',').next()).collect();
            assert!(places.len() == 2 && places[0] != places[1], "{ends}");
        }
    }

    #[test]
    fn a_path_may_turn_back_and_has_its_name_and_a_height_by_decades() {
        let path =
            |name: &str, points: &[(f64, f64)]| Path { name: name.to_owned(), ink: Ink::Base, points: points.into() };
        let both = [path("one", &[(100.0, 0.5), (900.0, 20.0), (700.0, 800.0)]), path("other", &[(0.0, 0.0)])];
        let svg = paths("p", "Latency", "Latency by rate", &both).svg;
        for text in
            [">\none\n", ">\nother\n", ">\n100\n", ">\n0.1\n", "one 0.50 at 100, 20 at 900, 800 at 700; other 0 at 0."]
        {
            assert!(svg.contains(text), "{text} in {svg}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
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
    }
}
