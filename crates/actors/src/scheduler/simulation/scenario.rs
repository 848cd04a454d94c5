//! Programs that no benchmark has, made for one question.
use std::time::Duration;

use super::recording::{Draft, Recording};
use super::world::{Setting, World};

/// How many messages go round on each worker, among how many actors.
const MESSAGES: u64 = 10;
const ACTORS_OF_A_RING: u32 = 50;
/// How long they have gone round when an actor forks.
const LOAD: Duration = Duration::from_millis(3);
/// How long each of the two turns is that it forks.
const LONG: Duration = Duration::from_millis(20);

/// How far apart the two long turns begin that one actor forks, while on every worker messages go round whose turns are so
/// long.
#[must_use]
pub fn forks_begin_apart(setting: &Setting, turn: Duration) -> Duration {
    let (recording, forked) = forks_under_load(setting.workers, turn);
    let mut world = World::new(&recording, setting);
    world.watch(&forked);
    world.begin();
    let begun = world.step_until_begun();
    begun[0].abs_diff(begun[1])
}

/// Rings that never end, one for each worker, and an actor that forks.
fn forks_under_load(workers: usize, turn: Duration) -> (Recording, [u32; 2]) {
    let mut draft = Draft::default();
    let turn_ns = super::nanos(turn);
    let mut actor = 0;
    for _ in 0..workers {
        let ring: Vec<u32> = (0..ACTORS_OF_A_RING).map(|place| draft.turn(actor + place, turn_ns)).collect();
        actor += ACTORS_OF_A_RING;
        for (&turn, &next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
            draft.send(turn, turn_ns, next);
        }
        (0..MESSAGES).for_each(|_| draft.send_from_outside(0, ring[0]));
    }
    let fork = draft.turn(actor, 1_000);
    let forked = [1, 2].map(|other| {
        let long = draft.turn(actor + other, super::nanos(LONG));
        draft.send(fork, 500, long);
        long
    });
    draft.send_from_outside(super::nanos(LOAD), fork);
    (draft.finish(), forked)
}
