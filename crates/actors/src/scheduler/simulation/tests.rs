//! Programs whose best number of workers is known.
use std::time::Duration;

use super::recording::{Draft, Recording};
use super::{Outcome, Setting, forks_begin_apart, replay};

const LINES_NS: [u64; 4] = [0, 30, 100, 300];
const WORKERS: [usize; 3] = [2, 8, 64];

fn setting(workers: usize, line_ns: u64) -> Setting {
    Setting { workers, line: Duration::from_nanos(line_ns) }
}

/// One message that goes round so often among so many actors.
fn ring(actors: u32, hops: u32, turn_ns: u64) -> Recording {
    let mut draft = Draft::default();
    let turns: Vec<u32> = (0..hops).map(|hop| draft.turn(hop % actors, turn_ns)).collect();
    turns.windows(2).for_each(|pair| draft.send(pair[0], turn_ns / 2, pair[1]));
    draft.send_from_outside(0, turns[0]);
    draft.finish()
}

/// An actor that has so many others compute for so long.
fn fork(turns: u32, turn_ns: u64) -> Recording {
    let mut draft = Draft::default();
    let first = draft.turn(0, 1_000);
    draft.send_from_outside(0, first);
    for turn in 0..turns {
        let forked = draft.turn(turn + 1, turn_ns);
        draft.send(first, 500, forked);
    }
    draft.finish()
}

/// Actors that ask one and the same so often, all at a time.
fn crowd(actors: u32, asks: u32, turn_ns: u64) -> Recording {
    let mut draft = Draft::default();
    for actor in 1..=actors {
        let mut asking = draft.turn(actor, turn_ns);
        draft.send_from_outside(0, asking);
        for _ in 0..asks {
            let (answering, next) = (draft.turn(0, turn_ns), draft.turn(actor, turn_ns));
            draft.send(asking, turn_ns / 2, answering);
            draft.send(answering, turn_ns / 2, next);
            asking = next;
        }
    }
    draft.finish()
}

fn times_as_fast(of: Outcome, than: Outcome) -> f64 {
    than.elapsed.as_secs_f64() / of.elapsed.as_secs_f64()
}

#[test]
fn the_same_recording_is_replayed_in_the_same_way() {
    let recording = crowd(30, 200, 300);
    let [first, second] = [(), ()].map(|()| replay(&recording, &setting(8, 30), 1, 3));
    assert_eq!(first, second);
    assert!(first.crossings > 0, "{first:?}");
}

#[test]
fn long_turns_that_one_actor_forks_are_done_by_all_workers() {
    let recording = fork(256, 1_000_000);
    for line in LINES_NS {
        let alone = replay(&recording, &setting(1, line), 0, 1);
        for workers in WORKERS {
            let shared = replay(&recording, &setting(workers, line), 0, 1);
            let speed_up = times_as_fast(shared, alone);
            // One wakes the next, which takes a part of a millisecond, and the last turns are done by some alone.
            let least = 0.7 * workers as f64;
            assert!(speed_up >= least && speed_up <= workers as f64, "{workers} workers, {line} ns: {speed_up}");
        }
    }
}

#[test]
fn a_message_that_goes_round_stays_on_one_worker() {
    for turn_ns in [60, 2_000] {
        let recording = ring(50, 30_000, turn_ns);
        let alone = replay(&recording, &setting(1, 0), 0, 1);
        for (workers, line) in WORKERS.into_iter().flat_map(|workers| LINES_NS.map(|line| (workers, line))) {
            let beside_others = replay(&recording, &setting(workers, line), 0, 1);
            let speed_up = times_as_fast(beside_others, alone);
            assert!((0.95..=1.05).contains(&speed_up), "{workers} workers, {line} ns: {speed_up}");
            assert!(beside_others.crossings < 300, "{workers} workers, {line} ns: {beside_others:?}");
        }
    }
}

#[test]
fn where_everybody_asks_one_actor_no_worker_more_makes_it_slower() {
    let recording = crowd(30, 300, 60);
    for (workers, line) in [(2, 30), (2, 300), (8, 100), (64, 300)] {
        let [alone, together] = [1, workers].map(|workers| replay(&recording, &setting(workers, line), 8, 8));
        let speed_up = times_as_fast(together, alone);
        assert!(speed_up >= 0.95, "{workers} workers, {line} ns: {speed_up}, {together:?}");
    }
}

#[test]
fn forked_long_turns_begin_within_a_millisecond_beside_short_turns_on_every_worker() {
    for (workers, turn_ns) in [(2, 60), (2, 500), (2, 5_000), (8, 500), (64, 5_000)] {
        for line in LINES_NS {
            let apart = forks_begin_apart(&setting(workers, line), Duration::from_nanos(turn_ns));
            let case = format!("{workers} workers, {line} ns a line, {turn_ns} ns a turn");
            assert!(apart <= Duration::from_millis(1), "{case}: {apart:?}");
        }
    }
}
