//! A second interpreter, written in the plainest way from the description of the language alone, agrees with the first.
//!
//! The test has its own trees, prints them as Rebel, and evaluates them itself. `ENACT_EXPRESSIONS`, `ENACT_EFFECTS` and
//! `ENACT_STEPS` say how many are compared (10,000, 3,000 and 1,000), `ENACT_SEED` where the random numbers begin.

mod effects;
mod expression;
mod step;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}
