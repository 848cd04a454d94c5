//! The actors of a system that are alive.
//!
//! A listed actor is kept: without handles it may still have turns to come, and it leaves only by ending.
use crossbeam_utils::CachePadded;
use enact_sync::Mutex;
use enact_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use enact_sync::unmodelled::Arc;

use crate::ActorId;
use crate::cell::ActorCell;

/// Parts of the registry, each behind its own lock: spawning actors do not wait for each other.
const SHARDS: usize = 16;

type Shard = CachePadded<Mutex<Table>>;

/// Actors, each in a place of its own: a word.
#[derive(Default)]
struct Table {
    places: Vec<Option<Arc<ActorCell>>>,
    free: Vec<u32>,
}

/// Where an actor is listed, from its beginning to its end.
pub(crate) struct Listed(AtomicU32);

impl Listed {
    const NOWHERE: u32 = u32::MAX;

    fn set(&self, at: u32) {
        // Relaxed: the actor begins after it was listed.
        self.0.store(at, Ordering::Relaxed);
    }

    fn take(&self) -> Option<u32> {
        let at = self.0.load(Ordering::Relaxed);
        self.0.store(Self::NOWHERE, Ordering::Relaxed);
        (at != Self::NOWHERE).then_some(at)
    }
}

impl Default for Listed {
    fn default() -> Self {
        Self(AtomicU32::new(Self::NOWHERE))
    }
}

impl Table {
    fn insert(&mut self, actor: Arc<ActorCell>) -> u32 {
        if let Some(at) = self.free.pop() {
            self.places[at as usize] = Some(actor);
            return at;
        }
        let at = u32::try_from(self.places.len()).expect("a part of the registry fits into memory");
        self.places.push(Some(actor));
        at
    }

    fn remove(&mut self, at: u32) -> Option<Arc<ActorCell>> {
        self.free.push(at);
        self.places[at as usize].take()
    }
}

pub(crate) struct Registry {
    shards: Vec<Shard>,
    count: AtomicUsize,
}

impl Default for Registry {
    fn default() -> Self {
        Self { shards: (0..SHARDS).map(|_| Shard::default()).collect(), count: AtomicUsize::new(0) }
    }
}

impl Registry {
    fn shard(&self, id: ActorId) -> &Shard {
        &self.shards[usize::try_from(id.get() % SHARDS as u64).unwrap_or_default()]
    }

    pub(crate) fn add(&self, actor: &Arc<ActorCell>) {
        self.count.fetch_add(1, Ordering::SeqCst);
        let at = self.shard(actor.id()).lock().insert(Arc::clone(actor));
        actor.listed.set(at);
    }

    /// Takes an actor out. Returns whether it was the last.
    pub(crate) fn remove(&self, actor: &ActorCell) -> bool {
        let Some(at) = actor.listed.take() else { return false };
        let removed = self.shard(actor.id()).lock().remove(at);
        drop(removed);
        self.count.fetch_sub(1, Ordering::SeqCst) == 1
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
            all.extend(shard.lock().places.iter().flatten().map(Arc::clone));
        }
        all
    }
}
