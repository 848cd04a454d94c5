//! Nodes with several entities and coordinators each, one journal a node, under every fault at random: messages that are lost,
//! doubled, reordered and cut off, disks that are slow, refuse and doubt, machines that crash alone and together.
//!
//! `ENACT_SEEDS` says how many seeds are played (10,000 unless told otherwise), `ENACT_SEED` which one alone.

mod chance;
mod world;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use enact_models::Bank;
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

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

/// Says which seed failed, unless it is told that none did.
struct Telling(u64);

impl Drop for Telling {
    fn drop(&mut self) {
        eprintln!("seed {0}: repeat with ENACT_SEED={0} cargo test -p enact-models --test simulation", self.0);
    }
}

#[test]
fn all_or_nothing_happens_in_a_serial_order_and_as_clients_were_told_whatever_fails() {
    let chosen = number("ENACT_SEED");
    let seeds = chosen.map_or(0..number("ENACT_SEEDS").unwrap_or(10_000), |seed| seed..seed + 1);
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let marks: Mutex<BTreeMap<&'static str, u64>> = Mutex::default();
    let bank = Bank::default();
    let play = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let telling = Telling(seed);
            let reached = World::play(&bank, seed);
            std::mem::forget(telling);
            let mut marks = marks.lock().expect("no other thread has failed");
            reached.into_iter().for_each(|(mark, count)| *marks.entry(mark).or_default() += count);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let playing: Vec<_> = (0..threads).map(|_| scope.spawn(play)).collect();
        for thread in playing {
            if let Err(panic) = thread.join() {
                next.store(end, Ordering::Relaxed);
                std::panic::resume_unwind(panic);
            }
        }
    });
    let marks = marks.into_inner().expect("no thread has failed");
    println!("{} seeds reached", seeds.end - seeds.start);
    marks.iter().for_each(|(mark, count)| println!("{count:>10}  {mark}"));
    if chosen.is_none() {
        assert_eq!(
            marks.keys().copied().collect::<Vec<_>>(),
            MARKS,
            "every situation is reached, and none has no name"
        );
    }
}
