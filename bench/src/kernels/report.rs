//! The measurement, and what one way to call is worth against another, here and in the paper.
use std::fmt;

use serde::Serialize;

use super::{Kernel, Variant, paper};
use crate::measure::{self, Comparison, Interval, Race};

/// All samples, and ratios between variants; displays as two tables.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    #[serde(flatten)]
    measured: measure::Report,
    ratios: Vec<Ratio>,
}

/// The rate of one variant relative to that of another.
#[derive(Debug, Clone, Serialize)]
struct Ratio {
    kernel: &'static str,
    variant: &'static str,
    to: &'static str,
    #[serde(flatten)]
    here: Comparison,
    in_paper: Option<f64>,
}

impl Report {
    /// About `kernels`, in the order of the races.
    pub(super) fn new(kernels: &[Kernel], measured: measure::Report) -> Self {
        let ratios = kernels.iter().zip(&measured.races).flat_map(|(&kernel, race)| ratios(kernel, race));
        Self { ratios: ratios.collect(), measured }
    }
}

fn ratios(kernel: Kernel, race: &Race) -> impl Iterator<Item = Ratio> {
    let pairs: &[_] = match kernel {
        Kernel::Matrix => &[(Variant::Await, Variant::Rayon), (Variant::Await, Variant::Seq)],
        Kernel::Loop => {
            &[(Variant::Held, Variant::Await), (Variant::Sync, Variant::Await), (Variant::Native, Variant::Await)]
        }
        _ => &[(Variant::Forward, Variant::Await), (Variant::Sync, Variant::Await), (Variant::Native, Variant::Await)],
    };
    let place_of = |variant: Variant| race.series.iter().position(|series| series.name == variant.name());
    pairs.iter().filter_map(move |&(variant, to)| {
        let rates = paper::rate(kernel, variant).zip(paper::rate(kernel, to));
        Some(Ratio {
            kernel: kernel.name(),
            variant: variant.name(),
            to: to.name(),
            here: race.compare_to(place_of(variant)?, place_of(to)?),
            in_paper: rates.map(|(rate, base)| rate / base),
        })
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header([
            "kernel",
            "ratio of rates",
            "here",
            "95 %",
            "paper",
        ]);
        for Ratio { kernel, variant, to, here: Comparison { speed_up, interval }, in_paper } in &self.ratios {
            let interval = interval.map_or_else(String::new, |Interval { low, high }| format!("{low:.2}-{high:.2}"));
            table.add_row([
                (*kernel).to_owned(),
                format!("{variant} / {to}"),
                format!("{speed_up:.2}"),
                interval,
                in_paper.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ]);
        }
        write!(f, "{}\n\n{table}\n{}", self.measured, paper::SOURCE)
    }
}
