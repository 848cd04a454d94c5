//! The scheduler in simulated time: what a program does is [recorded](tape) on one worker and [replayed](world) on any
//! number of them, with any cost of a cache line that comes from another core.
//!
//! # What is real
//! All that decides: each simulated worker has the scheduler's own [queue](super::own_queue), policy, judge, watch and list of
//! sleepers, which are given a [clock](machine) that stands still while they decide.
//!
//! # What is simulated
//! * *Time.* A turn takes what it took when it was recorded, wherever it runs: what it looks up itself, such as a shared table,
//!   comes from nowhere else.
//! * *Cache lines.* A worker that locks a mailbox, takes messages that others have sent, runs an actor that has run elsewhere,
//!   or looks at what another worker shows, has lines come from another core and waits for each. One that finds a mailbox
//!   locked waits for that, too.
//! * *Threads.* A wake-up costs the waker and takes time; each worker has a core of its own, and nothing else runs there.
//! * *Turns.* They are those of the recording in whichever order their messages come. A program that does more where its
//!   messages cross, because it asks again at once, does not do so here.
mod machine;
mod recording;
mod scenario;
mod tape;
#[cfg(test)]
mod tests;
mod world;

use std::time::Duration;

pub use self::recording::Recording;
pub use self::scenario::forks_begin_apart;
pub(crate) use self::tape::Tape;
pub use self::tape::record;
pub use self::world::{Outcome, Setting, replay};

/// What it costs here that a cache line comes from another core, as the scheduler takes it, and whether that was measured: cores that
/// are busy are in the way.
#[must_use]
pub fn line() -> (Duration, bool) {
    (super::line::cost(), super::line::measured().is_some())
}

fn nanos(span: Duration) -> u64 {
    super::pace::nanos(span)
}
