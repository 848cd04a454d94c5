//! Random programs of clients, actors and transactions on real threads, held to what serial executions explain. In a
//! program of their own: a transaction that has lost often gets priority, and those of all others are tried again.
mod histories;
mod play;
#[expect(dead_code, reason = "the models have programs with steps that no random program has")]
mod program;
mod random;
mod serial;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use play::{Marks, play};

/// How often each program is played.
const PLAYS: usize = 10;
/// Programs with more states on the ways to their outcomes are left out.
const STATES_MAX: usize = 5_000;

/// Plays the program of `seed`, unless it is too big. Returns whether it did.
fn check(seed: u64, marks: &Arc<Marks>) -> bool {
    let program = Arc::new(random::program(seed));
    let Some(allowed) = serial::outcomes(&program, STATES_MAX) else { return false };
    for _ in 0..PLAYS {
        let outcome = play(&program, marks, 2);
        assert!(
            allowed.contains(&outcome),
            "seed {seed}: no serial execution of\n    {program:?}\ncomes to\n    {outcome:?}\nbut to\n    {allowed:#?}"
        );
    }
    true
}

/// So many seeds, from 0 unless the environment says otherwise.
fn seeds(count: u64) -> Range<u64> {
    let first = std::env::var("ENACT_PROGRAMS_FROM").map_or(0, |seed| seed.parse().expect("a seed"));
    first..first + count
}

#[test]
fn small_programs_come_to_what_a_serial_execution_comes_to() {
    let marks = Arc::new(Marks::default());
    let seeds = seeds(60);
    let (count, played) = (seeds.clone().count(), seeds.filter(|&seed| check(seed, &marks)).count());
    println!("{played} of {count} programs, {marks:?}");
    assert!(2 * played > count, "most programs are small enough");
    assert!(marks.attempts.load(Ordering::Relaxed) > 0, "some transactions meet");
    assert!(marks.tentative.load(Ordering::Relaxed) > 0, "some turns begin before their transactions end");
}
