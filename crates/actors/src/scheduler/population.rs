//! The actors of a system that are alive.
//!
//! Whoever is listed is kept: an actor without handles may still have turns to come, and leaves only by ending.
use std::collections::HashMap;

use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;

use crate::ActorId;
use crate::cell::ActorCell;
use crate::identity::HashById;

/// Parts of the population, each behind its own lock: spawning actors do not wait for each other.
const SHARDS: usize = 16;

type Shard = CachePadded<Mutex<HashMap<ActorId, Arc<ActorCell>, HashById>>>;

pub(crate) struct Population {
    shards: Vec<Shard>,
    count: AtomicUsize,
}

impl Default for Population {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), count: AtomicUsize::new(0) }
    }
}

impl Population {
    fn shard(&self, id: ActorId) -> &Shard {
        &self.shards[usize::try_from(id.get() % SHARDS as u64).unwrap_or_default()]
    }

    pub(crate) fn add(&self, actor: &Arc<ActorCell>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.shard(actor.id()).lock().insert(actor.id(), Arc::clone(actor));
    }

    /// Takes an actor out; whether it was the last.
    pub(crate) fn remove(&self, id: ActorId) -> bool {
        let removed = self.shard(id).lock().remove(&id);
        removed.is_some() && self.count.fetch_sub(1, Ordering::SeqCst) == 1
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(crate) fn all(&self) -> Vec<Arc<ActorCell>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            all.extend(shard.lock().values().cloned());
        }
        all
    }
}
