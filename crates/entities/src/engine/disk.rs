//! What the appends of an engine tell about the disk of its journal.
use std::collections::BTreeMap;
use std::time::Duration;

use crate::tx::Millis;

/// How long a full disk counts as full after the last append that it refused. An engine that is asked for nothing because
/// it is not ready would never find out that there is space again.
const FULL_FOR: Millis = Millis(60_000);

/// The state of the journal's disk, as far as appends have met it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DiskState {
    /// Nothing speaks against the next append.
    Ready,
    /// The last append was refused for want of space, within the last minute. The next one that succeeds ends that.
    Full {
        /// What the journal said.
        why: String,
    },
    /// An append has been under way for longer than [`slow_after`](crate::EngineOptions::slow_after).
    Slow {
        /// For how long.
        since: Duration,
    },
    /// The journal is not kept as it must be, so that what is acknowledged may get lost; or it has lost something. It takes appends.
    Unsafe {
        /// What is wrong.
        why: String,
    },
    /// The engine has failed and must be opened again.
    Failed {
        /// What happened.
        why: String,
    },
}

/// The appends under way, and what the last ones met.
#[derive(Debug, Default)]
pub(super) struct Appends {
    next: AppendId,
    begun: BTreeMap<AppendId, Millis>,
    full: Option<(Millis, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AppendId(u64);

/// What an append tells about space on the disk.
#[derive(Debug)]
pub(super) enum Space {
    Unknown,
    Enough,
    Wanting(String),
}

impl Appends {
    pub(super) fn begin(&mut self, now: Millis) -> AppendId {
        let id = self.next;
        self.next = AppendId(id.0 + 1);
        self.begun.insert(id, now);
        id
    }

    pub(super) fn end(&mut self, id: AppendId, space: Space, now: Millis) {
        self.begun.remove(&id);
        match space {
            Space::Unknown => {}
            Space::Enough => self.full = None,
            Space::Wanting(why) => self.full = Some((now, why)),
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.begun.is_empty()
    }

    pub(super) fn state(&self, slow_after: Duration, now: Millis) -> DiskState {
        let oldest = self.begun.values().next().map(|begun| Duration::from_millis(now.0.saturating_sub(begun.0)));
        if let Some(since) = oldest.filter(|&since| since >= slow_after) {
            return DiskState::Slow { since };
        }
        match &self.full {
            Some((at, why)) if now < *at + FULL_FOR => DiskState::Full { why: why.clone() },
            _ => DiskState::Ready,
        }
    }
}

/// What is logged when the state changes; the journal itself logs a full disk and a failure.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    Slow { since: Duration },
    Answers,
}

/// Finds the changes in a series of states.
#[derive(Debug, Default)]
pub(super) struct Changes {
    was_slow: bool,
}

impl Changes {
    pub(super) fn see(&mut self, state: &DiskState) -> Option<Change> {
        let change = match (self.was_slow, state) {
            (false, DiskState::Slow { since }) => Change::Slow { since: *since },
            (true, DiskState::Ready | DiskState::Full { .. }) => Change::Answers,
            _ => return None,
        };
        self.was_slow = !self.was_slow;
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW_AFTER: Duration = Duration::from_secs(5);

    fn slow(millis: u64) -> DiskState {
        DiskState::Slow { since: Duration::from_millis(millis) }
    }

    #[test]
    fn the_oldest_append_that_is_under_way_decides_whether_the_disk_is_slow() {
        let mut appends = Appends::default();
        let first = appends.begin(Millis(1_000));
        let second = appends.begin(Millis(4_000));
        assert_eq!(appends.state(SLOW_AFTER, Millis(5_999)), DiskState::Ready);
        assert_eq!(appends.state(SLOW_AFTER, Millis(6_000)), slow(5_000));
        appends.end(first, Space::Enough, Millis(6_500));
        assert_eq!(appends.state(SLOW_AFTER, Millis(8_999)), DiskState::Ready);
        assert_eq!(appends.state(SLOW_AFTER, Millis(9_000)), slow(5_000));
        appends.end(second, Space::Unknown, Millis(9_000));
        assert_eq!(appends.state(SLOW_AFTER, Millis(99_000)), DiskState::Ready);
        assert!(appends.is_idle());
    }

    #[test]
    fn a_full_disk_is_full_until_an_append_succeeds_or_none_was_refused_for_a_minute() {
        let full = DiskState::Full { why: "no space".to_owned() };
        let mut appends = Appends::default();
        let mut append = |space, at| {
            let id = appends.begin(Millis(at));
            appends.end(id, space, Millis(at));
            appends.state(SLOW_AFTER, Millis(at + 59_999))
        };
        assert_eq!(append(Space::Wanting("no space".to_owned()), 0), full);
        assert_eq!(append(Space::Unknown, 0), full);
        assert_eq!(append(Space::Enough, 1), DiskState::Ready);
        assert_eq!(append(Space::Wanting("no space".to_owned()), 2), full);
        assert_eq!(append(Space::Unknown, 3), DiskState::Ready);
    }

    #[test]
    fn each_change_is_seen_once() {
        let mut changes = Changes::default();
        let failed = DiskState::Failed { why: String::new() };
        let rows = [
            (DiskState::Ready, None),
            (slow(5_000), Some(Change::Slow { since: SLOW_AFTER })),
            (slow(6_000), None),
            (DiskState::Ready, Some(Change::Answers)),
            (DiskState::Full { why: String::new() }, None),
            (slow(7_000), Some(Change::Slow { since: Duration::from_secs(7) })),
            (failed, None),
        ];
        for (row, (state, expected)) in rows.into_iter().enumerate() {
            assert_eq!(changes.see(&state), expected, "row {row}");
        }
    }
}
