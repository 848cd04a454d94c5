//! What it costs that a cache line comes from another core: 30 to 300 ns, by the machine.
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::{Duration, Instant};
use std::{hint, thread};

use crossbeam_utils::CachePadded;

use super::placement::Placement;

/// What it is taken for where it cannot be found out.
const UNKNOWN: Duration = Duration::from_nanos(100);
/// How long finding out takes at most.
const TIME_MAX: Duration = Duration::from_millis(2);
const BATCHES: u32 = 16;
/// How often the line comes and goes in a batch.
const RETURNS: u32 = 32;
/// How many looks at the line there are for one at the clock.
const LOOKS: u32 = 1_024;

/// The cost of a line, [measured] or taken for 100 ns.
pub(super) fn cost() -> Duration {
    measured().unwrap_or(UNKNOWN)
}

/// The cost of a line, found out by the first one that asks in this process, within two milliseconds; nothing if the cores were too
/// busy for that.
pub(super) fn measured() -> Option<Duration> {
    static COST: OnceLock<Option<Duration>> = OnceLock::new();
    // A model has no cores, and an interpreter none of its own.
    if cfg!(any(enact_loom, enact_shuttle, miri)) {
        return None;
    }
    *COST.get_or_init(measure)
}

/// Passes a line to and fro between two threads on different CPUs. The shortest batch counts, in which nothing has come
/// between.
fn measure() -> Option<Duration> {
    let passes = CachePadded::new(AtomicU32::new(0));
    let (tells, placement) = mpsc::channel();
    thread::scope(|scope| {
        let (passes, deadline) = (&passes, Instant::now() + TIME_MAX);
        let other = move || {
            tells.send(Placement::of_this_thread()).ok()?;
            thread::park_timeout(TIME_MAX);
            (0..BATCHES * RETURNS).try_for_each(|pass| pass_on(passes, 2 * pass + 1, deadline))
        };
        let other = thread::Builder::new().spawn_scoped(scope, other).ok()?;
        placement.recv().ok()?.wake_apart(|| other.thread().unpark());
        let mut shortest = None;
        for batch in 0..BATCHES {
            let begun = Instant::now();
            for pass in batch * RETURNS..(batch + 1) * RETURNS {
                pass_on(passes, 2 * pass, deadline)?;
            }
            // The first one waits for the thread to begin.
            if batch > 0 {
                let elapsed = begun.elapsed();
                shortest = Some(shortest.map_or(elapsed, |shortest: Duration| shortest.min(elapsed)));
            }
        }
        shortest.map(|shortest| shortest / (2 * RETURNS))
    })
}

/// Waits for the pass before this one, and passes the line on; `None` after the deadline.
fn pass_on(passes: &AtomicU32, pass: u32, deadline: Instant) -> Option<()> {
    let mut looks = 0_u32;
    while passes.load(Ordering::Acquire) != pass {
        looks += 1;
        if looks.is_multiple_of(LOOKS) && Instant::now() >= deadline {
            return None;
        }
        hint::spin_loop();
    }
    passes.store(pass + 1, Ordering::Release);
    Some(())
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_known_from_then_on() {
        let first = cost();
        assert!(first > Duration::ZERO);
        assert_eq!(cost(), first);
    }
}
