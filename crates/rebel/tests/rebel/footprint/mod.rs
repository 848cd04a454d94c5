//! What footprints say of events is what the interpreter does.
//!
//! Random steps are made in a small universe, with instances that differ in one place. `ENACT_FOOTPRINTS` says how many times the
//! usual number of them are tried (1), `ENACT_SEED` where the random numbers begin.

mod laws;
mod outcome;
mod places;
mod random;
mod small;

use std::fs;
use std::path::{Path, PathBuf};

use enact_rebel::limits::FOOTPRINT_MAX;
use enact_rebel::{Instance, Value, check};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use self::laws::{Effort, Laws, Met};

use crate::chance::Chance;
use crate::generated;
use crate::rows;
use crate::support;
use crate::universe::{Universe, World};

fn number(name: &str, default: usize) -> usize {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

fn seed() -> u64 {
    u64::try_from(number("ENACT_SEED", 0)).unwrap()
}

/// Checks the laws of all events of a specification.
fn keeps_the_laws(name: &str, text: &str, seed: u64, effort: Effort, met: &Met) {
    // An internal event is a step like any other, if somebody calls it.
    let text = text.replace("internal on", "on");
    let spec = check(support::sources(name, &text)).unwrap_or_else(|report| panic!("{report}\n{text}"));
    let universe = Universe::new(&spec, &text);
    let source = format!("ENACT_SEED={seed} {name}\n{text}");
    Laws { universe: &universe, source: &source, met }.some(&mut Chance::new(seed), effort, |_| true);
}

/// The texts of the specifications in a folder, each folder in it as one.
fn specifications(folder: &str) -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let list = |folder: &Path| -> Vec<PathBuf> {
        let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths
    };
    let text = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        let is_headed = text.starts_with("// ----");
        let heading = format!("// ---- {} ----\n", path.file_name().unwrap().to_string_lossy());
        if is_headed { text } else { heading + &text }
    };
    let paths = list(&folder).into_iter();
    let specification = |path: PathBuf| {
        let texts = if path.is_dir() { list(&path).iter().map(text).collect() } else { text(&path) };
        (path.display().to_string(), texts)
    };
    paths.map(specification).collect()
}

#[test]
fn the_footprints_of_the_examples_keep_the_laws() {
    let times = number("ENACT_FOOTPRINTS", 1);
    let effort = Effort { tried: 300, kept: [5 * times, 3], neighbours: 16, pairs: 10 * times };
    let met = Met::default();
    for (name, text) in specifications("../../examples").into_iter().chain(specifications("tests/rebel/specs")) {
        keeps_the_laws(&name, &text, seed(), effort, &met);
    }
    met.all();
    assert!(met.never.borrow().len() <= 4, "nearly all events are accepted in some state: {:?}", met.never);
}

#[test]
fn the_footprints_of_random_specifications_keep_the_laws() {
    let times = number("ENACT_FOOTPRINTS", 1);
    let effort = Effort { tried: 120, kept: [6, 3], neighbours: 16, pairs: 20 };
    let met = Met::default();
    for turn in 0..25 * times {
        let seed = seed().wrapping_add(turn as u64);
        let text = random::specification(&mut Chance::new(seed));
        keeps_the_laws("random", &text, seed, effort, &met);
    }
    met.all();
}

#[test]
fn the_footprints_of_small_classes_keep_the_laws_in_every_state() {
    let met = Met::default();
    for text in [small::PARTS, small::WHOLES] {
        let spec = support::spec(text);
        let universe = Universe::new(&spec, "");
        let class = spec.class("Small").unwrap();
        let (root, mut states) = (&universe.references(class)[0], universe.instances(class));
        // No event leads to an instance with a timer that has no value.
        let is_none = |instance: &Instance, field| instance.fields().get(field) == Some(&Value::None);
        states.retain(|found| **found.state() != *"waiting" || is_none(found, "o") || !is_none(found, "until"));
        let calls: Vec<_> = class.events().iter().flat_map(|event| universe.calls(event)).collect();
        let others = universe.world(&mut Chance::new(0));
        Laws { universe: &universe, source: text, met: &met }.all(root, &states, &others, &calls, 23);
    }
    met.all();
}

#[test]
fn the_footprints_of_instances_that_refer_to_each_other_keep_the_laws() {
    let times = number("ENACT_FOOTPRINTS", 1);
    let effort = Effort { tried: 400, kept: [30 * times, 10], neighbours: 30, pairs: 100 * times };
    let met = Met::default();
    keeps_the_laws("links", small::LINKS, seed(), effort, &met);
    met.these(|met| [&met.accepted, &met.refused, &met.irrelevant, &met.asked, &met.called, &met.together]);
}

#[test]
fn the_footprints_of_generated_classes_keep_the_laws_in_every_state() {
    let mut runner = TestRunner::deterministic();
    let met = Met::default();
    for _ in 0..30 * number("ENACT_FOOTPRINTS", 1) {
        let text = generated::specification().new_tree(&mut runner).unwrap().current();
        let spec = support::spec(&text);
        let class = spec.class("A").unwrap();
        let universe = Universe::new(&spec, "");
        let calls: Vec<_> = ["E", "F", "G"].into_iter().flat_map(|event| generated::calls(class, event)).collect();
        let root = class.reference(support::key(class));
        let others = World::new();
        Laws { universe: &universe, source: &text, met: &met }.all(
            &root,
            &generated::instances(class),
            &others,
            &calls,
            2,
        );
    }
    met.these(|met| [&met.accepted, &met.refused, &met.irrelevant, &met.tested, &met.commuting, &met.together]);
}

#[test]
fn the_footprints_of_all_rows_of_the_reference_keep_the_laws() {
    let times = number("ENACT_FOOTPRINTS", 1);
    let effort = Effort { tried: 150, kept: [8 * times, 4], neighbours: 24, pairs: 40 * times };
    let met = Met::default();
    for rows::Row { construct, text, touches } in rows::rows() {
        let spec = support::spec(&text);
        let universe = Universe::new(&spec, &text);
        let source = format!("{construct}, which touches {touches:?}\n{text}");
        let laws = Laws { universe: &universe, source: &source, met: &met };
        laws.some(&mut Chance::new(seed()), effort, |footprint| **footprint.event() == *"Try");
    }
    met.all();
}

#[test]
fn a_footprint_has_bounds_that_are_reached_and_not_passed() {
    let spec_of = |count: usize| {
        let (mut fields, mut effects) = (String::new(), String::new());
        for field in 0..count {
            fields += &format!("  f{field}: Integer = 0\n");
            effects += &format!("        this.f{field} += 1\n");
        }
        support::spec(&format!(
            "class Wide\n{fields}  initial none_\n    on Make(): made\n  made\n    on Step()\n      post:\n{effects}    on Run(other: Wide)\n      sync: other.Step()\n"
        ))
    };
    // A touch of the state of the other is one more.
    for (count, is_complete) in [(FOOTPRINT_MAX - 1, true), (FOOTPRINT_MAX, false)] {
        let spec = spec_of(count);
        assert!(spec.footprint("Wide", "Step").unwrap().is_complete(), "its own touches are not counted");
        let run = spec.footprint("Wide", "Run").unwrap();
        // Beside them its own state and the call.
        assert_eq!((run.is_complete(), run.touches().len()), (is_complete, FOOTPRINT_MAX + 2));
    }
}

#[test]
fn calls_may_be_many_in_a_row() {
    const EVENTS: usize = 950;
    let mut text =
        "class Link\n  next: Link\n  initial none_\n    on Make(to: Link): made\n      post: this.next = to\n  made\n"
            .to_owned();
    for event in 0..EVENTS {
        text += &format!("    on E{event}()\n");
        if event + 1 < EVENTS {
            text += &format!("      sync: next.E{}()\n", event + 1);
        }
    }
    let spec = support::spec(&text);
    let footprints: Vec<_> = spec.footprints().filter(|footprint| **footprint.event() != *"Make").collect();
    let last = |event: usize| footprints[event].touches().last().unwrap().to_string();
    assert_eq!(last(EVENTS - 4), "next.next.next: its state Read");
    // A path that is too long to be written is one to any instance.
    assert!(last(EVENTS - 101).starts_with("some Link: "));
    assert!(!footprints[0].is_complete() && footprints[EVENTS - 101].is_complete());
}

#[test]
fn only_what_is_declared_has_a_footprint() {
    let spec = support::spec(small::LINKS);
    assert!(spec.footprint("Link", "Hit").is_some());
    assert_eq!((spec.footprint("Link", "Hot"), spec.footprint("Chain", "Hit")), (None, None));
    let events: Vec<String> = spec.footprints().map(|footprint| footprint.event().to_string()).collect();
    let declared: Vec<String> =
        spec.class("Link").unwrap().events().iter().map(|event| event.name().to_string()).collect();
    assert_eq!(events, declared);
}
