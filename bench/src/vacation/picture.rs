//! Speed-up curves and a heat map over primaries and secondaries, as SVG.
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::report::Report;
use super::run::Team;
use super::scaling::Scaling;

type Drawn = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (1_280, 760);
const FONT: &str = "sans-serif";
/// Secondaries whose curves are drawn.
const CURVES: [usize; 3] = [1, 8, 64];
/// Best speed-ups in the paper: its original, split with one secondary, split with eight.
const PAPER: [(f64, f64); 3] = [(42.0, 2.6), (46.0, 18.4), (42.0, 33.2)];

/// Draws `report` into the file at `path`.
pub(super) fn draw(report: &Report, path: &Path) -> Drawn {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let (left, right) = root.split_horizontally(SIZE.0 * 11 / 20);
    draw_curves(report, &left)?;
    let (upper, lower) = right.split_vertically(SIZE.1 / 2);
    let simulated = &report.simulated;
    draw_heat(simulated, &simulated.split, "Split: speed-up by primaries and secondaries", &upper)?;
    let slow = &simulated.split_with_bookings_of_the_paper;
    draw_heat(simulated, slow, "The same, if bookings were as slow as in the paper", &lower)?;
    root.present()
}

/// A curve: name, colour, speed-up for each number of primaries.
type Curve<'a> = (String, RGBColor, &'a [f64]);

fn curves(simulated: &Scaling) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = vec![
        ("original".to_owned(), RGBColor(200, 40, 40), &simulated.original),
        (
            "original, only writes conflict".to_owned(),
            RGBColor(240, 140, 40),
            &simulated.original_if_only_writes_conflict,
        ),
        ("original, ticket kept".to_owned(), RGBColor(150, 90, 160), &simulated.kept),
    ];
    let blues = [RGBColor(20, 30, 90), RGBColor(40, 100, 190), RGBColor(90, 190, 220)];
    for (secondaries, colour) in CURVES.into_iter().zip(blues) {
        if let Some(place) = simulated.secondaries.iter().position(|&other| other == secondaries) {
            curves.push((format!("split, s = {secondaries}"), colour, &simulated.split[place]));
        }
    }
    let greens = [RGBColor(20, 90, 40), RGBColor(90, 190, 90)];
    for (secondaries, colour) in CURVES.into_iter().zip(greens) {
        if let Some(place) = simulated.secondaries.iter().position(|&other| other == secondaries) {
            let name = format!("split, s = {secondaries}, the paper's bookings");
            curves.push((name, colour, &simulated.split_with_bookings_of_the_paper[place]));
        }
    }
    curves
}

fn draw_curves(report: &Report, area: &Area<'_>) -> Drawn {
    let simulated = &report.simulated;
    let curves = curves(simulated);
    let highest = curves.iter().flat_map(|(_, _, figures)| *figures).copied().fold(35.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .caption(format!("Vacation: speed-up, simulated on {} cores", simulated.cores), (FONT, 20))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..simulated.cores as f64 + 2.0, 0.0..highest * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .x_desc("primaries p")
        .y_desc("times the smallest team of its version")
        .axis_desc_style((FONT, 15))
        .label_style((FONT, 13))
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .draw()?;
    for (name, colour, figures) in curves {
        let points = simulated.primaries.iter().zip(figures).map(|(&primaries, &figure)| (primaries as f64, figure));
        let style = colour.stroke_width(2);
        let key = move |(x, y)| PathElement::new([(x, y), (x + 22, y)], style);
        chart.draw_series(LineSeries::new(points, style))?.label(name).legend(key);
    }
    let measured = (report.teams.iter().enumerate()).filter_map(|(place, team)| {
        let (primaries, colour) = match *team {
            Team::Original { primaries } => (primaries, RGBColor(200, 40, 40)),
            Team::Kept { primaries } => (primaries, RGBColor(150, 90, 160)),
            Team::Split { primaries, .. } => (primaries, RGBColor(20, 30, 90)),
        };
        Some((primaries as f64, report.speed_up(place)?.speed_up, colour))
    });
    let measured: Vec<_> = measured.collect();
    chart
        .draw_series(measured.into_iter().map(|(x, y, colour)| Circle::new((x, y), 3, colour.filled())))?
        .label(format!("measured here, {} cores", report.measured.machine.cores))
        .legend(|(x, y)| Circle::new((x + 11, y), 3, BLACK.filled()));
    chart
        .draw_series(PAPER.into_iter().map(|place| Cross::new(place, 5, BLACK.stroke_width(2))))?
        .label("best in the paper (64 cores)")
        .legend(|(x, y)| Cross::new((x + 11, y), 5, BLACK.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(180, 180, 180))
        .label_font((FONT, 13))
        .draw()
}

fn draw_heat(simulated: &Scaling, speed_ups: &[Vec<f64>], title: &str, area: &Area<'_>) -> Drawn {
    let (columns, rows) = (simulated.primaries.len() as i32, simulated.secondaries.len() as i32);
    let (width, height) = area.dim_in_pixel();
    let (left, top) = (64, 64);
    let cell = (((width as i32) - left - 16) / columns, ((height as i32) - top - 56) / rows);
    let corner = |column: i32, row: i32| (left + column * cell.0, top + (rows - row) * cell.1);
    let text = |size: i32| (FONT, size).into_font().into_text_style(area).pos(Pos::new(HPos::Center, VPos::Center));
    area.draw_text(title, &text(18), (width as i32 / 2, 26))?;
    let highest = speed_ups.iter().flatten().copied().fold(1.0, f64::max);
    for (row, figures) in (0..).zip(speed_ups) {
        for (column, &figure) in (0..).zip(figures) {
            let ((x, y), share) = (corner(column, row), figure / highest);
            let shade = |low: f64, high: f64| (low + (high - low) * share) as u8;
            let colour = RGBColor(shade(245.0, 15.0), shade(248.0, 50.0), shade(252.0, 120.0));
            area.draw(&Rectangle::new([(x, y - cell.1), (x + cell.0 - 1, y - 1)], colour.filled()))?;
            let ink = if share > 0.5 { WHITE } else { BLACK };
            let digits = if figure < 9.95 { format!("{figure:.1}") } else { format!("{figure:.0}") };
            area.draw_text(&digits, &text(12).color(&ink), (x + cell.0 / 2, y - cell.1 / 2))?;
        }
        let (x, y) = corner(0, row);
        area.draw_text(&simulated.secondaries[row as usize].to_string(), &text(13), (x - 14, y - cell.1 / 2))?;
    }
    for (column, primaries) in (0..).zip(&simulated.primaries) {
        let (x, y) = corner(column, 0);
        area.draw_text(&primaries.to_string(), &text(13), (x + cell.0 / 2, y + 12))?;
    }
    let (x, y) = corner(columns / 2, 0);
    area.draw_text("primaries p", &text(15), (x, y + 34))?;
    let turned = text(15).transform(FontTransform::Rotate270);
    area.draw_text("secondaries s", &turned, (18, top + rows * cell.1 / 2))
}
