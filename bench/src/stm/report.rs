//! The measurement, and how Enact stands to the best of its peers and to a lock.

use std::fmt;

use crate::measure::{self, Comparison, Interval, Race, Series};

/// Names of the contenders that are transactional memories of others.
const PEERS: [&str; 3] = ["stm", "fast-stm", "async-stm"];
const LOCK: &str = "parking_lot";

/// All samples; displays as a table of every contender and one of ratios.
#[derive(Debug, Clone)]
pub struct Report(pub measure::Report);

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = comfy_table::Table::new();
        let columns = ["workload", "best peer", "enact / best peer", "95 %", "enact / parking_lot", "95 %"];
        table.load_style(comfy_table::presets::ASCII_MARKDOWN).set_header(columns);
        for race in &self.0.races {
            let [peer, to_peer, peer_interval] = cells(race, best_peer(race));
            let [_, to_lock, lock_interval] = cells(race, place_of(race, LOCK));
            table.add_row([race.workload.clone(), peer, to_peer, peer_interval, to_lock, lock_interval]);
        }
        writeln!(f, "{}\n\n{table}", self.0)?;
        write!(f, "bst20: Enact walks by reference, the other transactional memories clone an Arc a node")
    }
}

fn place_of(race: &Race, name: &str) -> Option<usize> {
    race.series.iter().position(|series| series.name == name)
}

fn best_peer(race: &Race) -> Option<usize> {
    let peers = PEERS.iter().filter_map(|name| place_of(race, name));
    let rate = |&place: &usize| Series::median_rate(&race.series[place]);
    peers.max_by(|a, b| rate(a).total_cmp(&rate(b)))
}

/// Name of the contender at `place`, and how many times faster than it the baseline is.
fn cells(race: &Race, place: Option<usize>) -> [String; 3] {
    let Some(place) = place else { return Default::default() };
    let Comparison { speed_up, interval } = race.compare(place);
    let inverse = |Interval { low, high }: Interval| format!("{:.2}-{:.2}", 1.0 / high, 1.0 / low);
    let interval = interval.map_or_else(String::new, inverse);
    [race.series[place].name.clone(), format!("{:.2}", 1.0 / speed_up), interval]
}
