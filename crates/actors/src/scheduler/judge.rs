//! Whether messages between workers cost more than another worker brings.
//!
//! If two workers spend more than half of their time on crossings, one of them would be faster alone; so would one beside `n`
//! others if less than a share in `n + 1` is left of their time. What a crossing costs is an estimate, which is too high where
//! cores are slow beside their caches, so a fifth less has to be left. With how many others a worker shares its mailboxes is
//! [counted](super::crossing) up to [`PARTNERS_MAX`], as the estimate is good for no more.
//!
//! A worker that has found that for [`BAD_WINDOWS`] windows in a row is *strict* for a while: neither does it take short work
//! from others, nor they from it; and those whose work it leaves are strict as long, as they would wake it for nothing. Nothing
//! is handed over: a sender's worker runs what it makes runnable, so actors that talk to each other gather on one worker by
//! themselves. Whether it has become better is seen afterwards, at the price of one window; each bad one doubles the time to
//! the next.
//!
//! A window is time in which the worker has something to do. Where many workers share what is enough for one, each of them is
//! out of work again and again within microseconds.
use std::time::Duration;

use super::crossing::Crossings;

/// How long a window is at least.
const WINDOW_US: u64 = 400;
/// How many bad windows in a row make a worker strict for the first time.
const BAD_WINDOWS: u32 = 3;
/// With how many others a worker shares its mailboxes, as far as that counts.
const PARTNERS_MAX: u32 = 4;
/// How long it is strict then, and at most.
const STRICT_FIRST_US: u64 = 16_000;
const STRICT_MAX_US: u64 = 256_000;

/// Finds out when a worker is strict. Times are in microseconds since the scheduler has begun.
pub(super) struct Judge {
    /// What it costs that a line crosses.
    line: Duration,
    /// Since when the worker has been busy in this window, and for how long before; none while it has nothing to do.
    since: Option<u64>,
    busy_us: u64,
    /// What was counted when the window began; none if it has not.
    before: Option<Crossings>,
    bad_in_a_row: u32,
    /// How long it was strict last; zero if a window has been good since.
    last_strict_us: u64,
}

impl Judge {
    pub(super) const fn new(line: Duration) -> Self {
        Self { line, since: None, busy_us: 0, before: None, bad_in_a_row: 0, last_strict_us: 0 }
    }

    /// Looks at the time, and at what the worker's thread has `counted`. Until when the worker is strict, if it was until
    /// `strict_until` before; zero if it is not.
    pub(super) fn look(&mut self, now: u64, counted: Crossings, strict_until: u64) -> u64 {
        if now < strict_until {
            self.change_thread();
            return strict_until;
        }
        let busy_us = self.busy_us + now.saturating_sub(*self.since.get_or_insert(now));
        let before = *self.before.get_or_insert(counted);
        if busy_us < WINDOW_US {
            return 0;
        }
        (self.since, self.busy_us, self.before) = (Some(now), 0, Some(counted));
        let is_strict = self.judge(busy_us, counted.since(before));
        if is_strict { now + self.last_strict_us } else { 0 }
    }

    /// Whether the worker is strict from now on, after a window in which so much has crossed.
    fn judge(&mut self, busy_us: u64, crossings: Crossings) -> bool {
        let (cost, busy) = (crossings.cost(self.line), Duration::from_micros(busy_us));
        let workers = crossings.partners().min(PARTNERS_MAX) + 1;
        // Of all their time, more is left for turns than four fifths of what one has.
        if 5 * workers * cost <= (5 * workers - 4) * busy {
            self.bad_in_a_row = 0;
            // Without crossings it says nothing of what they cost.
            if 20 * cost > busy {
                self.last_strict_us = 0;
            }
            return false;
        }
        self.bad_in_a_row += 1;
        if self.last_strict_us == 0 && self.bad_in_a_row < BAD_WINDOWS {
            return false;
        }
        self.bad_in_a_row = 0;
        self.last_strict_us = (2 * self.last_strict_us).clamp(STRICT_FIRST_US, STRICT_MAX_US);
        true
    }

    /// The worker has nothing to do from now on.
    pub(super) fn pause(&mut self, now: u64) {
        if let Some(since) = self.since.take() {
            self.busy_us += now.saturating_sub(since);
        }
    }

    /// The worker has something to do again.
    pub(super) fn resume(&mut self, now: u64) {
        self.since = Some(now);
    }

    /// The worker goes on on another thread, which has counted other things.
    pub(super) fn change_thread(&mut self) {
        (self.since, self.busy_us, self.before) = (None, 0, None);
    }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    const LINE: Duration = Duration::from_nanos(34);
    const LOOK_EVERY_US: u64 = 100;

    struct Program {
        name: &'static str,
        turn_ns: f64,
        crossings: f64,
        waits: f64,
        /// How many workers the mailboxes come from in turn.
        partners: u32,
    }

    /// What two workers do a turn in some programs of the Savina suite, on a machine where a line costs 34 ns; one of them
    /// also while its cores are slow, so that the same crossings weigh less.
    const PROGRAMS: [Program; 10] = [
        Program { name: "phil", turn_ns: 129.0, crossings: 0.96, waits: 0.104, partners: 1 },
        Program { name: "cham", turn_ns: 148.0, crossings: 1.05, waits: 0.097, partners: 1 },
        Program { name: "cdict", turn_ns: 216.0, crossings: 1.05, waits: 0.012, partners: 1 },
        Program { name: "big", turn_ns: 121.0, crossings: 0.47, waits: 0.0035, partners: 1 },
        Program { name: "btx", turn_ns: 177.0, crossings: 0.54, waits: 0.029, partners: 1 },
        Program { name: "ofl", turn_ns: 47.0, crossings: 0.041, waits: 0.008, partners: 1 },
        Program { name: "apsp", turn_ns: 639.0, crossings: 0.53, waits: 0.008, partners: 1 },
        Program { name: "count", turn_ns: 13.0, crossings: 0.011, waits: 0.008, partners: 1 },
        Program { name: "slow cham", turn_ns: 218.0, crossings: 1.05, waits: 0.1, partners: 1 },
        Program { name: "alone", turn_ns: 60.0, crossings: 0.0, waits: 0.0, partners: 1 },
    ];

    /// A worker that is judged in simulated time.
    struct Worker {
        judge: Judge,
        now: u64,
        strict_until: u64,
        counted: Crossings,
    }

    impl Worker {
        fn new(line: Duration) -> Self {
            Self { judge: Judge::new(line), now: 0, strict_until: 0, counted: Crossings::NONE }
        }

        /// Counts what crosses in so many turns.
        fn count(&mut self, program: &Program, turns: f64) {
            self.counted.waits += (turns * program.waits) as u32;
            for crossing in 0..(turns * program.crossings) as u32 {
                self.counted.add((crossing % program.partners) as u8);
            }
        }

        /// Runs the program for so long: for how much of that the worker is strict.
        fn run(&mut self, program: &Program, elapsed_us: u64) -> u64 {
            let mut strict_us = 0;
            let until = self.now + elapsed_us;
            while self.now < until {
                self.now += LOOK_EVERY_US;
                self.strict_until = self.judge.look(self.now, self.counted, self.strict_until);
                if self.strict_until > 0 {
                    strict_us += LOOK_EVERY_US;
                } else {
                    let turns = (LOOK_EVERY_US * 1_000) as f64 / program.turn_ns;
                    self.count(program, turns);
                }
            }
            strict_us
        }
    }

    #[test]
    fn a_worker_is_strict_if_one_would_be_as_fast_alone() {
        for program in &PROGRAMS {
            let strict_us = Worker::new(LINE).run(program, 4_000_000);
            if ["phil", "cham"].contains(&program.name) {
                assert!(strict_us > 3_900_000, "{}: {strict_us}", program.name);
            } else {
                assert_eq!(strict_us, 0, "{}", program.name);
            }
        }
    }

    #[test]
    fn where_lines_are_dear_it_is_strict_for_fewer_crossings() {
        // A turn takes longer by what crosses.
        let big = Program { turn_ns: 170.0, ..PROGRAMS[3] };
        assert!(Worker::new(3 * LINE).run(&big, 1_000_000) > 900_000);
    }

    #[test]
    fn the_more_workers_share_its_mailboxes_the_less_of_its_time_has_to_be_left() {
        for (partners, crossings, is_strict) in
            [(1, 1.0, false), (1, 1.3, true), (4, 1.3, false), (4, 1.6, false), (4, 1.75, true), (40, 1.75, true)]
        {
            let program = Program { name: "crowd", turn_ns: 170.0, crossings, waits: 0.0, partners };
            let strict_us = Worker::new(LINE).run(&program, 1_000_000);
            assert_eq!(strict_us > 900_000, is_strict, "{crossings} crossings a turn, {partners} others: {strict_us}");
        }
    }

    #[test]
    fn one_that_was_strict_finds_out_in_one_window_whether_it_is_to_be_again() {
        let mut worker = Worker::new(LINE);
        let cham = &PROGRAMS[1];
        worker.run(cham, 4 * WINDOW_US + STRICT_FIRST_US);
        assert_eq!(worker.judge.last_strict_us, STRICT_FIRST_US);
        let strict_us = worker.run(cham, 2 * WINDOW_US + 2 * STRICT_FIRST_US);
        assert!(strict_us >= 2 * STRICT_FIRST_US - WINDOW_US, "{strict_us}");
    }

    #[test]
    fn a_good_window_with_crossings_has_it_begin_from_the_start() {
        let [phil, .., alone] = &PROGRAMS;
        let mut worker = Worker::new(LINE);
        worker.run(phil, 1_000_000);
        assert_eq!(worker.judge.last_strict_us, STRICT_MAX_US);
        worker.run(alone, 1_000_000);
        assert_eq!(worker.judge.last_strict_us, STRICT_MAX_US, "nothing has crossed");
        worker.run(&PROGRAMS[3], 1_000_000);
        assert_eq!(worker.judge.last_strict_us, 0);
    }

    #[test]
    fn pauses_end_no_window() {
        let mut worker = Worker::new(LINE);
        let cham = &PROGRAMS[1];
        let mut strict_us = 0;
        for _ in 0..100 {
            strict_us += worker.run(cham, LOOK_EVERY_US);
            worker.judge.pause(worker.now);
            worker.now += 10 * LOOK_EVERY_US;
            worker.judge.resume(worker.now);
        }
        assert!(strict_us > 40 * LOOK_EVERY_US, "{strict_us}");
    }

    #[test]
    fn what_another_thread_has_counted_before_is_not_held_against_it() {
        let mut worker = Worker::new(LINE);
        worker.run(&PROGRAMS[3], 100_000);
        for thread in (0..2 * BAD_WINDOWS).rev() {
            // Its threads take turns, and each has counted less than the one before.
            worker.judge.change_thread();
            worker.counted = Crossings::NONE;
            worker.counted.mailboxes = thread * 10_000;
            assert_eq!(worker.run(&PROGRAMS[3], WINDOW_US), 0);
        }
    }

    #[test]
    fn what_another_worker_has_it_be_says_nothing_of_its_own_windows() {
        let mut worker = Worker::new(LINE);
        worker.strict_until = 50_000;
        assert_eq!(worker.run(&PROGRAMS[3], 100_000), 50_000 - LOOK_EVERY_US);
        assert_eq!(worker.judge.last_strict_us, 0);
    }
}
