//! How long the programs are that are replayed: some tens of thousands of turns, so that a replay takes milliseconds.
//!
//! What is smaller than published is how often the same is done again, and not how many actors do it. Long turns stay as long as they are,
//! as far as a run takes tens of milliseconds.

/// Programs that are not run as published, and what is set for each.
pub(super) const SIZES: &[(&str, &[(&str, u64)])] = &[
    ("count", &[("messages", 50_000)]),
    ("fjt", &[("messages", 1_000)]),
    ("fjc", &[("actors", 20_000)]),
    ("thr", &[("hops", 50_000)]),
    ("pp", &[("pings", 20_000)]),
    ("cham", &[("meetings", 20_000)]),
    ("big", &[("pings", 500)]),
    ("cdict", &[("requests", 2_500)]),
    ("csll", &[("requests", 300)]),
    ("pcbb", &[("items", 200)]),
    ("phil", &[("meals", 1_000)]),
    ("sbar", &[("customers", 1_000)]),
    ("logm", &[("terms", 1_500)]),
    ("btx", &[("transfers", 20_000)]),
    ("rsort", &[("values", 2_000)]),
    ("fbank", &[("samples", 3_000)]),
    ("sieve", &[("limit", 30_000)]),
    ("uct", &[("nodes", 20_000)]),
    ("ofl", &[("points", 10_000)]),
    ("trapr", &[("pieces", 2_000_000)]),
    ("piprec", &[("digits", 1_000)]),
    ("rmm", &[("rows", 256), ("threshold", 4_096)]),
    ("qsort", &[("values", 300_000)]),
    ("apsp", &[("nodes", 150), ("block", 25)]),
    ("sor", &[("iterations", 30)]),
    ("nqn", &[("queens", 10)]),
];
