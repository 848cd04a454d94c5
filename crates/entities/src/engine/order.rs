//! Up to where the effects of an entity are decided, for those that do not take a turn at it.
use std::sync::atomic::{AtomicU64, Ordering};

use crate::tx::Slot;

/// The first slot of a live entity of which it is not durable what becomes of it, or that has not been given yet. What is told may be
/// behind, never ahead.
#[derive(Debug, Default)]
pub(super) struct Order(AtomicU64);

impl Order {
    /// That slot; one before all of them until the entity is recovered.
    pub(super) fn first_undecided(&self) -> Slot {
        Slot(self.0.load(Ordering::Acquire))
    }

    /// Tells that slot, in a turn of the entity. Returns whether more is decided than was told before.
    pub(super) fn advance(&self, first_undecided: Slot) -> bool {
        // Turns come one after the other, and nobody else writes it.
        let before = self.0.load(Ordering::Relaxed);
        self.0.store(first_undecided.0, Ordering::Release);
        before < first_undecided.0
    }
}
