//! Which entities are live, and who keeps them so.
//!
//! # Problem
//! An entity has at most one actor at a time, however many transactions ask for it at once, and memory stays bounded
//! however many entities exist on disk.
//!
//! # Who may touch what
//! A handle leaves the directory only as an [`Arc`] that was cloned under the lock of its shard. Whoever uses the
//! entity keeps that `Arc` until everything asked of it has been answered: a coordinator until its decision is
//! acknowledged, a reader until it has its view. So an entity whose only `Arc` is the directory's has nothing open,
//! delayed or unanswered, nobody can ask it anything before the lock is given up, and it may be put away. All it has
//! acknowledged is in the journal.
//!
//! # When the disk does not read
//! An entity whose records the system could not read refuses all that it is asked, so nothing was ever admitted or
//! acknowledged there. The next request that asks for it replaces it by one that reads again, in use or not.
//!
//! # When an entity panics
//! Its actor has ended, and what it admitted may still become durable. So nobody gets it any more, and it is recovered from
//! the journal as soon as its only [`Arc`] is the directory's: whatever was admitted is in the journal then, or never will be.
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enact_actors::{ActorError, System};
use enact_journal::{EntityKey, Journal};
use enact_sync::Mutex;

use super::clock::Clock;
use super::committer::Tail;
use super::entity::{EntityActor, EntityActorRef};
use super::error::EntityError;
use super::loading::{Loading, Stage};
use crate::model::Model;
use crate::participant::ParticipantOptions;

const SHARDS: usize = 64;

/// How many entities one request looks at for one that can be put away.
const EVICTION_LOOKS_MAX: usize = 8;

/// An entity in memory.
pub(super) struct Live<M: Model, J: Journal> {
    pub(super) key: EntityKey,
    pub(super) actor: EntityActorRef<M, J>,
    pub(super) tail: Arc<Tail>,
    loading: Arc<Loading>,
    /// Asked for since the directory last considered putting it away.
    used: AtomicBool,
}

impl<M: Model, J: Journal> Live<M, J> {
    /// Why the entity has not answered.
    pub(super) fn ended(&self, cause: &ActorError) -> EntityError {
        EntityError::Ended { entity: self.key.clone(), why: cause.to_string() }
    }

    /// What a request waits for that asks the entity.
    pub(super) fn stage(&self) -> Stage {
        Stage::Entity { key: self.key.clone(), loading: Arc::clone(&self.loading) }
    }
}

pub(super) struct Directory<M: Model, J: Journal> {
    shards: Vec<Mutex<Shard<M, J>>>,
    hasher: RandomState,
    shard_max: usize,
    make: Maker<M, J>,
}

/// What every entity is made from.
pub(super) struct Maker<M, J> {
    pub(super) system: System,
    pub(super) model: Arc<M>,
    pub(super) journal: Arc<J>,
    pub(super) clock: Clock,
    pub(super) options: ParticipantOptions,
}

struct Shard<M: Model, J: Journal> {
    live: HashMap<EntityKey, Arc<Live<M, J>>>,
    /// Every live entity once, in the order in which it will be considered.
    order: VecDeque<EntityKey>,
}

impl<M: Model, J: Journal> Directory<M, J> {
    /// A directory that puts idle entities away when more than about `live_max` are live.
    pub(super) fn new(make: Maker<M, J>, live_max: usize) -> Self {
        let shard = || Mutex::new(Shard { live: HashMap::new(), order: VecDeque::new() });
        Self {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: RandomState::new(),
            shard_max: live_max.div_ceil(SHARDS),
            make,
        }
    }

    /// The live entity `key`, woken from the journal if need be.
    ///
    /// # Errors
    /// If its actor has ended and is still in use.
    pub(super) fn get(&self, key: &EntityKey) -> Result<Arc<Live<M, J>>, EntityError> {
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let number = self.hasher.hash_one(key) as usize % SHARDS;
        let mut shard = self.shards[number].lock();
        if let Some(live) = shard.live.get_mut(key) {
            let has_ended = live.actor.has_ended();
            if has_ended && Arc::strong_count(live) > 1 {
                let why = "it panicked, and comes back when what it was asked before has ended".to_owned();
                return Err(EntityError::Ended { entity: key.clone(), why });
            }
            if has_ended || live.loading.is_unread() {
                *live = Arc::new(self.make.live(key));
            }
            live.used.store(true, Ordering::Relaxed);
            return Ok(Arc::clone(live));
        }
        if shard.live.len() >= self.shard_max {
            shard.put_one_away();
        }
        let live = Arc::new(self.make.live(key));
        shard.live.insert(key.clone(), Arc::clone(&live));
        shard.order.push_back(key.clone());
        Ok(live)
    }
}

impl<M: Model, J: Journal> Shard<M, J> {
    /// Puts away the first idle entity that has not been used since it was last considered, looking at a few.
    fn put_one_away(&mut self) {
        for _ in 0..EVICTION_LOOKS_MAX {
            let Some(key) = self.order.pop_front() else { return };
            let live = &self.live[&key];
            let idle = Arc::strong_count(live) == 1;
            if idle && !live.used.swap(false, Ordering::Relaxed) {
                self.live.remove(&key);
                return;
            }
            self.order.push_back(key);
        }
    }
}

impl<M: Model, J: Journal> Maker<M, J> {
    fn live(&self, key: &EntityKey) -> Live<M, J> {
        let (model, journal, loading) = (Arc::clone(&self.model), Arc::clone(&self.journal), Arc::default());
        let entity =
            EntityActor::new(key.clone(), model, journal, self.clock, self.options.clone(), Arc::clone(&loading));
        let actor = self.system.spawn(entity);
        actor.tell().load();
        Live { key: key.clone(), actor, tail: Arc::default(), loading, used: AtomicBool::new(true) }
    }
}
