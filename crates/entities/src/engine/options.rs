//! How an engine behaves.
use std::time::Duration;

use super::clock;
use super::requests::Answers;
use crate::admission::{Limits, Strategies};

/// For how long the records of an entity are kept that has come to a final state.
///
/// Then [`Engine::maintain`](super::Engine::maintain) writes a [tombstone](crate::Tombstone), which has the state and stands for all
/// records before. The entity is read and asked as before; its history, what it was earlier, and its single changes are known no more.
/// A [journal](enact_journal::Kind::TOMBSTONE) that discards records has their space again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long, from the last transaction on.
    pub keep: Duration,
    /// For how long the engine is open before the first tombstone is written: a clock that was wrong at the start has been put right
    /// by then.
    pub begin_after: Duration,
}

/// How an engine behaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineOptions {
    /// Which transactions may be open together at one entity, by its class.
    pub strategies: Strategies,
    /// The limits of admission at each entity.
    pub limits: Limits,
    /// How many commands may be under way; a further one is turned away at once.
    pub in_flight_max: usize,
    /// About how many bytes the entities in memory may take; idle ones beyond that are put away.
    pub live_bytes_max: usize,
    /// After how long without use an entity is put away, or after up to twice as long.
    pub idle_after: Duration,
    /// How long an append may take before the disk counts as [slow](super::DiskState::Slow).
    pub slow_after: Duration,
    /// Whether reads and refusals are answered only behind a record that shows that no other engine has taken the journal over before
    /// they were found. Without it, one that it was taken from answers from memory until it appends something: what has the engine
    /// must know by other means that it may still answer, such as a lease. Each answer waits for the journal then, and the journal grows
    /// by a record for all those that wait together.
    pub barrier_reads: bool,
    /// How often [`Engine::maintain`](super::Engine::maintain) looks whether the journal is
    /// [kept as it must be](enact_journal::Journal::check).
    pub check_every: Duration,
    /// Whether entities that have ended get tombstones, and their records are not kept for ever.
    pub retention: Option<Retention>,
    /// For how long a request that is repeated under its idempotency key gets its earlier answer, a year at most. Afterwards
    /// it is a new request.
    pub keep_answers: Duration,
}

impl EngineOptions {
    /// Whether all entities of a class are answers that are no longer kept. A journal can be
    /// [opened without](enact_journal::Embedded::open_without) them.
    pub fn are_answers_over(&self) -> impl Fn(&str) -> bool + Send + use<> {
        let (answers, now) = (Answers::kept_for(self.keep_answers), clock::timestamp());
        move |class| answers.are_over(class, now)
    }
}

impl Default for EngineOptions {
    /// [`Strategy::Serializable`](crate::Strategy::Serializable) for all classes, 4,096 commands under way, 256 MiB of entities
    /// that are put away after ten minutes without use, 5 s for an append, no barrier, a look at the journal each minute, a day for
    /// answers, no tombstones.
    fn default() -> Self {
        Self {
            strategies: Strategies::default(),
            limits: Limits::default(),
            in_flight_max: 4096,
            live_bytes_max: 256 << 20,
            idle_after: Duration::from_secs(600),
            slow_after: Duration::from_secs(5),
            barrier_reads: false,
            check_every: Duration::from_secs(60),
            retention: None,
            keep_answers: Duration::from_secs(24 * 60 * 60),
        }
    }
}
