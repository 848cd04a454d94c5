//! Which workers sleep, and whom to wake.
//!
//! # No lost wake-up, no polling
//! A worker that finds nothing enters itself as asleep, leaves the searchers, and only then looks at the queues once
//! more. A thread that adds work first adds it and then looks for sleepers. With a fence between the two steps on each
//! side, at least one sees the other: either the worker sees the work, or the work's owner sees the sleeper. While
//! somebody searches, nobody is woken: the searcher will see the work, and the last one to stop searching because it
//! has found something wakes the next.
//!
//! # Work that is not worth a wake-up
//! Moving an actor to another core costs more than many runs do, so a worker wakes nobody for what it adds to its own queue
//! if that is not worth it (see `policy.rs`) and runs it itself. In case that it was wrong, one of those that sleep while
//! others are awake is the *sentinel*, which looks again and again for what is worth taking. It sleeps without end only
//! when everybody does. A worker that finds work makes another one look around, so that somebody becomes the sentinel.
use std::sync::atomic::fence;
use std::time::Instant;

use enact_sync::atomic::Ordering;

use super::local;
use super::placement::Placement;
use super::sleepers::{Bed, Sleepers};
use super::watch::SENTINEL_LOOKS_EVERY;
use crate::parker::Parker;

pub(crate) struct Idle {
    pub(super) sleepers: Sleepers<Placement>,
    parkers: Vec<Parker>,
}

impl Idle {
    pub(crate) fn new(workers: usize) -> Self {
        Self { sleepers: Sleepers::new(workers), parkers: (0..workers).map(|_| Parker::default()).collect() }
    }

    /// To be called after work was added: wakes a sleeper unless somebody is searching already.
    pub(crate) fn work_added(&self) {
        // Pairs with the fence in `Sleepers::lie_down`.
        fence(Ordering::SeqCst);
        self.ask_for_help();
    }

    /// To be called by a worker that has added work to its own queue and would be glad of help. It goes on without any
    /// if it overlooks a worker that is about to sleep: that one, or the sentinel, looks around once more.
    pub(crate) fn ask_for_help(&self) {
        if self.sleepers.can_help() {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        let Some((worker, placement)) = self.sleepers.wake_last() else { return };
        let wake = || self.parkers[worker].unpark();
        // A thread that wakes a worker from outside often waits next, and leaves it its CPU.
        if local::is_worker() { placement.wake_apart(wake) } else { wake() }
    }

    pub(crate) fn start_searching(&self) {
        self.sleepers.start_searching();
    }

    /// A searcher has found work. If it was the last one, another takes its place: there may be more.
    pub(crate) fn stop_searching(&self) {
        if self.sleepers.stop_searching() {
            self.work_added();
        }
    }

    /// A searcher has found nothing: sleeps until it is woken, or until it `is_needed` if it is the sentinel, and is a searcher
    /// again.
    ///
    /// Whether it `is_needed` is asked once more before; `all_asleep` is called if nobody is left awake.
    pub(crate) fn sleep(&self, worker: usize, is_needed: impl Fn() -> bool, all_asleep: impl FnOnce()) {
        match self.sleepers.lie_down(worker, Placement::of_this_thread(), &is_needed) {
            Bed::None => return,
            Bed::OfTheLast => all_asleep(),
            Bed::OfTheSentinel => {
                let woken = self.stand_sentinel(worker, is_needed);
                self.sleepers.end_watch();
                if woken || self.sleepers.get_up(worker) {
                    return;
                }
                // Somebody is about to wake it.
            }
            Bed::OfAnother => {}
        }
        self.parkers[worker].park();
    }

    /// Sleeps until it is needed, or until everybody sleeps. Returns whether it was woken.
    fn stand_sentinel(&self, worker: usize, is_needed: impl Fn() -> bool) -> bool {
        loop {
            if self.parkers[worker].park_until(Instant::now() + SENTINEL_LOOKS_EVERY) {
                return true;
            }
            if is_needed() || self.all_asleep() {
                return false;
            }
        }
    }

    /// Wakes everybody, to see that there is nothing left to do.
    pub(crate) fn wake_all(&self) {
        // Pairs with the fence in `Sleepers::lie_down`: what the sleepers are to see was written before.
        fence(Ordering::SeqCst);
        for _ in 0..self.sleepers.count() {
            self.wake_one();
        }
    }

    pub(crate) fn all_asleep(&self) -> bool {
        self.sleepers.are_all_asleep()
    }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use std::cell::Cell;
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    /// Has `worker` sleep on a thread of its own: what tells when it gets up, and whether all slept when it fell asleep.
    fn fall_asleep(idle: &Arc<Idle>, worker: usize) -> mpsc::Receiver<&'static str> {
        let (tells, told) = mpsc::channel();
        let idle = Arc::clone(idle);
        idle.start_searching();
        thread::spawn(move || {
            idle.sleep(worker, || false, || tells.send("all asleep").unwrap());
            tells.send("up").unwrap();
        });
        told
    }

    #[test]
    fn one_that_sleeps_while_others_are_awake_gets_up_by_itself_when_it_is_needed() {
        let idle = Idle::new(2);
        idle.start_searching();
        let looks = Cell::new(0);
        let is_needed = || looks.replace(looks.get() + 1) == 3;
        idle.sleep(0, is_needed, || unreachable!("the other one is awake"));
        assert_eq!(looks.get(), 4);
    }

    #[test]
    fn the_sentinel_does_not_look_on_when_all_sleep() {
        let idle = Arc::new(Idle::new(2));
        let sentinel = fall_asleep(&idle, 0);
        while idle.sleepers.count() == 0 {
            thread::yield_now();
        }
        let last = fall_asleep(&idle, 1);
        assert_eq!(last.recv(), Ok("all asleep"));
        // To sleep as the last one, then.
        assert_eq!(sentinel.recv(), Ok("up"));
        idle.stop_searching();
        assert_eq!(last.recv(), Ok("up"));
    }

    #[test]
    fn the_last_one_sleeps_until_it_is_woken() {
        let idle = Arc::new(Idle::new(1));
        let told = fall_asleep(&idle, 0);
        assert_eq!(told.recv(), Ok("all asleep"));
        assert!(told.recv_timeout(50 * SENTINEL_LOOKS_EVERY).is_err(), "nobody has woken it");
        idle.work_added();
        assert_eq!(told.recv(), Ok("up"));
    }
}
