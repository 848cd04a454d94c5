//! Nodes with several entities and coordinators each, one journal a node, under every fault at random: messages that are lost,
//! doubled, reordered and cut off, disks that are slow, refuse and doubt, machines that crash alone and together.
//!
//! `ENACT_SEEDS` says how many seeds are played (10,000 unless told otherwise), `ENACT_SEED` which one alone.

mod world;

use enact_models::{Bank, Seeds};
use world::World;

/// What every run has to reach, so that it means something.
const MARKS: [&str; 25] = [
    "a client asked again, and it ran anew",
    "a client asked again, and was told the same",
    "a coordinator came back with a decision to tell",
    "a crash kept a part of what was appended",
    "a crash lost what was appended",
    "a deadline passed",
    "a decision was in doubt, and was lost",
    "a decision was in doubt, and was made",
    "a link was cut",
    "a message arrived twice",
    "a message was lost",
    "a participant came back with a promise",
    "a participant came back with a snapshot",
    "a participant shared the journal of its coordinator",
    "a promise was in doubt",
    "a transaction committed",
    "a transaction was aborted after a promise",
    "a transaction was delayed",
    "a transaction was refused",
    "a yes came after a delay",
    "all nodes crashed",
    "an append was refused",
    "asked out of order",
    "committed behind one that is open",
    "promises of both kinds were open at one entity",
];

#[test]
fn all_or_nothing_happens_in_a_serial_order_and_as_clients_were_told_whatever_fails() {
    let seeds = Seeds::of_environment("simulation", 10_000);
    let bank = Bank::default();
    let marks = seeds.play(|seed| World::play(&bank, seed));
    println!("{} seeds reached", seeds.len());
    marks.iter().for_each(|(mark, count)| println!("{count:>10}  {mark}"));
    if !seeds.is_chosen() {
        assert_eq!(
            marks.keys().copied().collect::<Vec<_>>(),
            MARKS,
            "every situation is reached, and none has no name"
        );
    }
}
