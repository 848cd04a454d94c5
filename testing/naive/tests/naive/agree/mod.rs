//! The naive evaluator and the interpreter agree on random steps in random worlds of every specification there is: the examples, those
//! on the pages of the documentation, those of the tests of `enact-rebel`, and those beside this test, which have what others lack.
//!
//! `ENACT_STEPS` says how many steps are compared for each, `ENACT_SEED` where the random numbers begin.

mod chance;
mod sources;
mod values;
mod worlds;

use std::collections::BTreeMap;

use enact_naive::coverage;

use self::worlds::{Tally, run};

/// Steps for each specification.
const STEPS: u64 = 1_000;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Runs all specifications that are `chosen`, and says what happened in each.
fn agree(chosen: Vec<(String, Vec<enact_rebel::Source>)>) -> BTreeMap<String, Tally> {
    let (steps, seed) = (number("ENACT_STEPS", STEPS), number("ENACT_SEED", 0));
    let tallies: BTreeMap<String, Tally> =
        chosen.into_iter().map(|(name, sources)| (name.clone(), run(&name, sources, steps, seed))).collect();
    let disagreements: Vec<&str> =
        tallies.values().flat_map(|tally| tally.disagreements.values()).map(String::as_str).collect();
    assert!(disagreements.is_empty(), "{} disagreements:\n{}", disagreements.len(), disagreements.join("\n"));
    tallies
}

#[test]
fn both_interpreters_agree_on_random_steps_of_every_example() {
    let tallies = agree(sources::examples());
    assert_eq!(tallies.len(), 10);
    is_telling(&tallies, 10);
}

#[test]
fn both_interpreters_agree_on_random_steps_of_every_specification_of_the_documentation_and_the_tests() {
    let tallies = agree(sources::documented());
    assert!(tallies.len() > 25, "{}", tallies.len());
    is_telling(&tallies, 1_000);
}

#[test]
fn both_interpreters_agree_on_random_steps_with_every_construct_of_the_language() {
    let tallies = agree(sources::constructs());
    is_telling(&tallies, 4);
    let (timed, refused) = (tallies["timers"].timed, tallies["timers"].timed_and_refused);
    assert!(timed > 100 && refused > 10, "{timed} {refused}");
    let met = coverage();
    let missing: Vec<_> = constructs().filter(|construct| !met.contains(construct)).collect();
    assert!(missing.is_empty(), "not met: {missing:?}");
}

/// More than one of so many steps has happened, and some were refused.
fn is_telling(tallies: &BTreeMap<String, Tally>, one_of: u64) {
    for (name, tally) in tallies {
        println!("{name}: {tally}");
        let is_telling = tally.accepted * one_of > tally.refused && tally.refused > 0;
        assert!(is_telling || number("ENACT_STEPS", STEPS) < STEPS, "{name}: {tally}");
    }
}

/// What the language has.
fn constructs() -> impl Iterator<Item = String> {
    let lists = [
        (
            "",
            "Aggregate And Apply Arithmetic Ask Call CallerId Compare CompareZero CurrencyOf Field FieldOf Fresh HasRole Identity If In \
             Insert KeyOf Let List Literal Local Map Negate NewField Not Now Or Otherwise Param Present Range Record Refer Remove Set \
             Share SizeOf This Today Updated With Within",
        ),
        ("Update ", "At For If Becomes Decreases Increases"),
        ("Aggregate ", "Count First Greatest Last Least List Map Quantified Set Sort Sum"),
        (
            "Apply ",
            "Absolute Add Amount Append Clamp Contains Country Date Day Divide DivideTo Element EndsWith Get Greatest Has InCurrency \
             Keys Least Length Lower Money Month Multiply Negate Quotient Rank Remainder Round Share Slice Start StartsWith Subtract Time \
             Trim Upper Values Weekday Widen Without Year Zero",
        ),
        (
            "Fault ",
            "Absent CurrencyMismatch DivisionByZero Inexact IsNone NoElement NoKey NoSeed OutOfRange Overflow Refused TooLong \
             TooManyElements TwoValues",
        ),
        ("Refused ", "Argument Condition Fault Guard Internal Invariant Key LifeCycle Read Role UnknownEvent"),
    ];
    lists.into_iter().flat_map(|(kind, names)| names.split_whitespace().map(move |name| format!("{kind}{name}")))
}
