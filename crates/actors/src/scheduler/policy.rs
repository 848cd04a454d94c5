//! Whether work is to move to another core: decided by what is known of its cost, for the worker that has it and for the one
//! that would take it alike.
//!
//! # Long runs
//! A run is worth moving if it is longer than a move, and if it would wait for longer than a wake-up takes. Both are known by
//! the actor's own runs: beside an actor with long turns, those with short ones wake nobody; nor does a chain of actors each of
//! which sends on at the end of its turn.
//!
//! # Short runs
//! Moving one costs more than it does. Many at a time are worth it all the same, if they do not talk to those that stay:
//! what that costs is [counted](super::crossing), and a worker for which it is more than another core brings is *strict*.

/// What it costs to run an actor on another core than the one that has it in its cache: several cache lines.
pub(super) const COST_OF_A_MOVE_NS: u64 = 1_000;
/// What it costs to wake a worker, for the one that wakes it and until it runs.
const COST_OF_A_WAKE_UP_NS: u64 = 5_000;
/// How much work in its queue a worker keeps for itself.
const BACKLOG_MAX_NS: u64 = 500_000;
/// How many actors it keeps for itself, whatever their work: so many are moved together, which costs less for each.
const BACKLOG_MAX: usize = 32;

/// Whether a run that costs so much, and begins after so much else here, is worth moving.
pub(super) const fn is_worth_a_move(run_ns: u64, ahead_ns: u64) -> bool {
    run_ns >= COST_OF_A_MOVE_NS && ahead_ns >= COST_OF_A_WAKE_UP_NS
}

/// What waits in the queue of a worker.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    pub(super) len: usize,
    /// What the run of each costs.
    pub(super) each_ns: u64,
    /// Whether that is known of each, as runs are long there.
    pub(super) is_timed: bool,
}

impl Backlog {
    const fn work_ns(self) -> u64 {
        self.each_ns.saturating_mul(self.len as u64)
    }

    /// Whether it is worth waking a worker for, if so much else comes before the first of them.
    pub(super) const fn is_worth_a_wake_up(self, ahead_ns: u64, is_strict: bool) -> bool {
        if self.len == 0 {
            return false;
        }
        let ahead_of_last_ns = ahead_ns.saturating_add(self.each_ns.saturating_mul(self.len as u64 - 1));
        is_worth_a_move(self.each_ns, ahead_of_last_ns)
            || self.work_ns() >= BACKLOG_MAX_NS
            || (!self.is_timed && !is_strict && self.len >= BACKLOG_MAX)
    }

    /// Whether a worker takes from it that has nothing to do and is awake, or looks from time to time.
    pub(super) const fn is_worth_a_theft(self, is_strict: bool) -> bool {
        self.len > 0 && (!is_strict || self.each_ns >= COST_OF_A_MOVE_NS || self.work_ns() >= BACKLOG_MAX_NS)
    }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    const LONG: u64 = 10_000;
    const SHORT: u64 = 100;

    #[test]
    fn a_run_is_worth_a_move_if_it_is_long_and_would_wait_for_long() {
        for (run_ns, ahead_ns, is_worth) in
            [(LONG, LONG, true), (LONG, SHORT, false), (SHORT, LONG, false), (SHORT, SHORT, false)]
        {
            assert_eq!(is_worth_a_move(run_ns, ahead_ns), is_worth, "{run_ns} after {ahead_ns}");
        }
    }

    /// What waits, whether that is timed, how much is ahead, whether the worker is strict: whether it is worth a wake-up, and
    /// a theft.
    #[test]
    fn what_is_worth_a_wake_up_is_worth_a_theft() {
        let cases = [
            ("nothing", 0, LONG, true, LONG, false, [false, false]),
            ("a long one behind another", 1, LONG, true, LONG, false, [true, true]),
            ("a long one that comes next", 1, LONG, true, 0, false, [false, true]),
            ("two long ones", 2, LONG, true, 0, false, [true, true]),
            ("a strict worker's long ones", 2, LONG, true, 0, true, [true, true]),
            ("short ones beside a long run", 40, SHORT, true, LONG, false, [false, true]),
            ("so many that they are long together", 6_000, SHORT, true, 0, true, [true, true]),
            ("a few short ones", 3, SHORT, false, 0, false, [false, true]),
            ("many short ones", 40, SHORT, false, 0, false, [true, true]),
            ("a strict worker's short ones", 40, SHORT, false, 0, true, [false, false]),
        ];
        for (name, len, each_ns, is_timed, ahead_ns, is_strict, worth) in cases {
            let backlog = Backlog { len, each_ns, is_timed };
            let is_worth = [backlog.is_worth_a_wake_up(ahead_ns, is_strict), backlog.is_worth_a_theft(is_strict)];
            assert_eq!(is_worth, worth, "{name}");
            assert!(is_worth.is_sorted(), "{name}: somebody is woken for nothing");
        }
    }
}
