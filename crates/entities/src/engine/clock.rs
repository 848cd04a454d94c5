//! The only place where entities meet a clock and a random source.
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

use crate::tx::{Millis, Timestamp};

/// For how long a wait for a time sleeps at most before it looks at the clock again, which somebody may have set.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// What time it is: the time that events carry, and at which timers are due.
pub trait WallClock: Send + Sync + 'static {
    /// The present time.
    fn time(&self) -> Timestamp;

    /// Waits until the present time is `time` or later.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    fn reached(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The clock of the system.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    fn time(&self) -> Timestamp {
        timestamp()
    }

    fn reached(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            while let Some(left) = u64::try_from(time.0.saturating_sub(self.time().0)).ok().filter(|&left| left > 0) {
                tokio::time::sleep(Duration::from_millis(left).min(SLEEP_MAX)).await;
            }
        })
    }
}

/// A clock that stands still until it is set, for tests and simulations.
///
/// ```
/// use enact_entities::{ManualClock, Timestamp, WallClock};
/// let clock = ManualClock::new(Timestamp(1_000));
/// clock.set(Timestamp(2_000));
/// assert_eq!(clock.time(), Timestamp(2_000));
/// ```
#[derive(Debug)]
pub struct ManualClock(watch::Sender<Timestamp>);

impl ManualClock {
    /// A clock that shows `time`.
    pub fn new(time: Timestamp) -> Self {
        Self(watch::Sender::new(time))
    }

    /// Sets it, and wakes whatever waits for that time.
    pub fn set(&self, time: Timestamp) {
        self.0.send_replace(time);
    }
}

impl WallClock for ManualClock {
    fn time(&self) -> Timestamp {
        *self.0.borrow()
    }

    fn reached(&self, time: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            // The sender is this clock, so that it does not end before.
            let _ = self.0.subscribe().wait_for(|now| *now >= time).await;
        })
    }
}

/// The monotonic clock of one engine, from the moment it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    opened: Instant,
    opened_at: Timestamp,
}

impl Clock {
    pub(super) fn start(opened_at: Timestamp) -> Self {
        Self { opened: Instant::now(), opened_at }
    }

    /// The present moment.
    pub(super) fn now(self) -> Millis {
        Millis(millis(self.opened.elapsed()))
    }

    /// A time that has certainly come if it is `time` by now, also if somebody has set the clock ahead since the engine was
    /// opened.
    pub(super) fn certain_time(self, time: Timestamp) -> Timestamp {
        let elapsed = i64::try_from(self.now().0).unwrap_or(i64::MAX);
        time.min(Timestamp(self.opened_at.0.saturating_add(elapsed)))
    }

    /// The moment `span` from now.
    pub(super) fn after(self, span: Duration) -> Millis {
        self.now() + Millis(millis(span))
    }

    /// How long it is until `moment`.
    pub(super) fn until(self, moment: Millis) -> Duration {
        Duration::from_millis(moment.0.saturating_sub(self.now().0))
    }
}

/// The time that an event of this moment carries.
pub(super) fn timestamp() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// A fresh transaction id, younger than every earlier one of this process.
fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
