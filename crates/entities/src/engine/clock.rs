//! The only place where entities meet a clock and a random source.
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use uuid::Uuid;

use crate::tx::{Millis, Timestamp, TxId};

/// The monotonic clock of one engine, from the moment it was opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    opened: Instant,
    opened_at: Timestamp,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { opened: Instant::now(), opened_at: timestamp() }
    }

    /// The present moment.
    pub(super) fn now(self) -> Millis {
        Millis(millis(self.opened.elapsed()))
    }

    /// A time that has certainly come, also if somebody has set the system's clock ahead since the engine was opened.
    pub(super) fn certain_time(self) -> Timestamp {
        let elapsed = i64::try_from(self.now().0).unwrap_or(i64::MAX);
        timestamp().min(Timestamp(self.opened_at.0.saturating_add(elapsed)))
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
pub(super) fn tx_id() -> TxId {
    TxId::from_u128(Uuid::now_v7().as_u128())
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
