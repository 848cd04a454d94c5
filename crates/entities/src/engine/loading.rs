//! What is known of an entity's records before it can be asked, and what a request waits for because of it.
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use enact_journal::EntityKey;

use super::error::Awaited;

/// Whether the records of an entity have been read; written by its first turn alone.
#[derive(Debug, Default)]
pub(super) struct Loading(AtomicU8);

const READING: u8 = 0;
const READ: u8 = 1;
const UNREAD: u8 = 2;

impl Loading {
    /// The records have been read, whatever they say.
    pub(super) fn read(&self) {
        self.0.store(READ, Ordering::Release);
    }

    /// The system could not read the records.
    pub(super) fn unread(&self) {
        self.0.store(UNREAD, Ordering::Release);
    }

    /// Whether the system could not read the records.
    pub(super) fn is_unread(&self) -> bool {
        self.0.load(Ordering::Acquire) == UNREAD
    }

    /// Whether the records are still to be read.
    pub(super) fn is_going_on(&self) -> bool {
        self.0.load(Ordering::Acquire) == READING
    }
}

/// What a request waits for at the moment.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    Key,
    Entity {
        key: EntityKey,
        loading: Arc<Loading>,
    },
    /// What is due at this entity.
    Due(EntityKey),
    Journal,
}

impl Stage {
    /// Whether it is an entity that tells at the deadline what it waits for itself.
    pub(super) fn is_told(&self) -> bool {
        matches!(self, Self::Entity { loading, .. } if !loading.is_going_on())
    }

    pub(super) fn awaited(self) -> Awaited {
        match self {
            Self::Key => Awaited::Key,
            Self::Entity { key, loading } if loading.is_going_on() => Awaited::Load(key),
            Self::Entity { key, .. } => Awaited::Entity(key),
            Self::Due(key) => Awaited::Due(key),
            Self::Journal => Awaited::Journal,
        }
    }
}
