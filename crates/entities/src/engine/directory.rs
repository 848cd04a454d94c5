//! Which entities are live, and what keeps them so.
//!
//! # Problem
//! An entity is in memory at most once, however many transactions ask for it at once, and memory stays bounded
//! however many entities exist on disk, and however large they are.
//!
//! # Who may touch what
//! A handle leaves the directory only as an [`Arc`] that was cloned under the lock of its shard. A user of the
//! entity keeps that `Arc` until everything asked of it has been answered: a coordinator until its decision is
//! acknowledged, a reader until it has its view, and an entity that has promised something to a coordinator elsewhere has one of itself. So an entity whose only `Arc` is the directory's has nothing open,
//! delayed or unanswered, nobody can ask it anything before the lock is given up, and it may be put away. All it has
//! acknowledged is in the journal.
//!
//! # When an entity is put away
//! When the memory of all together exceeds its limit, the first that has not been used since it was last considered; after a
//! while in which nobody uses it; and as soon as nobody uses it if the journal has nothing of it, so that requests for what
//! does not exist leave nothing behind.
//!
//! # When the disk does not read
//! An entity whose records the system could not read refuses all that it is asked, so nothing was ever admitted or
//! acknowledged there. The next request that asks for it replaces it by one that reads again, in use or not.
//!
//! # When an entity panics
//! Its state is gone, and what it admitted may still become durable. So nobody gets it any more, and it is recovered from
//! the journal as soon as its only [`Arc`] is the directory's: whatever was admitted is in the journal then, or never will be.
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use enact_journal::{EntityKey, Journal};
use enact_sync::Mutex;
use indexmap::IndexMap;
use indexmap::map::raw_entry_v1::{RawEntryApiV1, RawEntryMut};

use super::Failure;
use super::clock::Clock;
use super::committer::{Committer, Tail};
use super::elsewhere::Elsewhere;
use super::entity::{Entity, Parts, Told};
use super::error::EntityError;
use super::loading::{Loading, Stage};
use super::memory::{Footprint, Memory};
use super::metrics::Counts;
use super::news::Announcer;
use super::order::Order;
use super::timers::Timers;
use super::turns::{Answer, Ended, Turns};
use crate::admission::Strategies;
use crate::model::Model;
use crate::participant::ParticipantOptions;

/// A power of two.
const SHARDS: usize = 64;

/// How many entities one request looks at for one that can be put away.
const EVICTION_LOOKS_MAX: usize = 8;

/// An entity in memory.
pub(super) struct Live<M: Model, J: Journal> {
    pub(super) key: EntityKey,
    turns: Arc<Turns<Entity<M, J>>>,
    pub(super) tail: Arc<Tail>,
    loading: Arc<Loading>,
    footprint: Arc<Footprint>,
    pub(super) order: Arc<Order>,
    /// Asked for since the directory last considered putting it away.
    used: AtomicBool,
}

impl<M: Model, J: Journal> Live<M, J> {
    /// Takes a turn at the entity.
    pub(super) fn turn<R, T>(&self, turn: T) -> Answer<R>
    where
        R: Send + 'static,
        T: FnOnce(&mut Entity<M, J>) -> Answer<R> + Send + 'static,
    {
        self.turns.take(turn)
    }

    /// Why the entity has not answered.
    pub(super) fn ended(&self, cause: &Ended) -> EntityError {
        EntityError::Ended { entity: self.key.clone(), why: cause.to_string() }
    }

    /// Whether nobody has it but the directory, or has asked for it since the last look.
    fn is_unused(this: &Arc<Self>) -> bool {
        Arc::strong_count(this) == 1 && !this.used.swap(false, Ordering::Relaxed)
    }

    /// What a request waits for that asks the entity.
    pub(super) fn stage(&self) -> Stage {
        Stage::Entity { key: self.key.clone(), loading: Arc::clone(&self.loading) }
    }
}

pub(super) struct Directory<M: Model, J: Journal> {
    shards: Vec<Mutex<Shard<M, J>>>,
    /// Of every shard, so that one hash finds the shard of a key and its place there.
    hasher: RandomState,
    bytes_max: usize,
    make: Maker<M, J>,
}

/// What every entity is made from.
pub(super) struct Maker<M: Model, J> {
    pub(super) model: Arc<M>,
    pub(super) journal: Arc<J>,
    pub(super) clock: Clock,
    /// Of every participant, but for its strategy.
    pub(super) options: ParticipantOptions,
    pub(super) strategies: Arc<Strategies>,
    pub(super) memory: Arc<Memory>,
    pub(super) timers: Arc<Timers>,
    pub(super) counts: Arc<Counts>,
    pub(super) committer: Arc<Committer<J>>,
    pub(super) elsewhere: Option<Arc<Elsewhere<M::Event>>>,
    pub(super) failure: Failure,
    pub(super) announcer: Announcer,
}

struct Shard<M: Model, J: Journal> {
    live: IndexMap<EntityKey, Arc<Live<M, J>>>,
    /// The entity that is considered next.
    hand: usize,
}

impl<M: Model, J: Journal> Directory<M, J> {
    /// A directory that puts idle entities away when all together take more than about `bytes_max`.
    pub(super) fn new(make: Maker<M, J>, bytes_max: usize) -> Self {
        let hasher = RandomState::new();
        let shard = || Mutex::new(Shard { live: IndexMap::with_hasher(hasher.clone()), hand: 0 });
        Self { shards: (0..SHARDS).map(|_| shard()).collect(), hasher, bytes_max, make }
    }

    /// The live entity `key`, woken from the journal if need be.
    ///
    /// # Errors
    /// If it has panicked and is still in use.
    pub(super) fn get(&self, key: &EntityKey) -> Result<Arc<Live<M, J>>, EntityError> {
        let (live, is_new) = self.find_or_make(key)?;
        if is_new && self.make.elsewhere.is_some() {
            // Not under the lock: an answer may come before the question has been sent.
            drop(live.turn(Entity::ask));
        }
        Ok(live)
    }

    /// The live entity `key`, and whether it was not before.
    fn find_or_make(&self, key: &EntityKey) -> Result<(Arc<Live<M, J>>, bool), EntityError> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard_of(hash).lock();
        let live = match shard.live.raw_entry_mut_v1().from_hash(hash, |listed| listed == key) {
            RawEntryMut::Occupied(listed) => {
                let live = listed.into_mut();
                let has_ended = live.turns.has_ended();
                if has_ended && Arc::strong_count(live) > 1 {
                    let why = "it panicked, and comes back when what it was asked before has ended".to_owned();
                    return Err(EntityError::Ended { entity: key.clone(), why });
                }
                let is_new = has_ended || live.loading.is_unread();
                if is_new {
                    *live = Arc::new(self.make.live(key));
                }
                live.used.store(true, Ordering::Relaxed);
                return Ok((Arc::clone(live), is_new));
            }
            RawEntryMut::Vacant(unlisted) => {
                let live = Arc::new(self.make.live(key));
                unlisted.insert_hashed_nocheck(hash, key.clone(), Arc::clone(&live));
                live
            }
        };
        let put_away = if self.is_full() { shard.put_one_away(EVICTION_LOOKS_MAX) } else { None };
        drop(shard);
        drop(put_away);
        Ok((live, true))
    }

    /// The entity `key`, if it is live.
    pub(super) fn find(&self, key: &EntityKey) -> Option<Arc<Live<M, J>>> {
        self.shard(key).lock().live.get(key).filter(|live| !live.turns.has_ended()).map(Arc::clone)
    }

    /// Whether the entity `key` is in memory, in whatever state.
    pub(super) fn is_live(&self, key: &EntityKey) -> bool {
        self.shard(key).lock().live.contains_key(key)
    }

    /// The caller is done with `live`, which is put away if there is nothing to keep.
    pub(super) fn release(&self, live: &Arc<Live<M, J>>) {
        if live.footprint.has_records() {
            return;
        }
        let mut shard = self.shard(&live.key).lock();
        // One of the shard and one of the caller.
        let is_the_last = Arc::strong_count(live) == 2;
        if is_the_last && shard.live.get(&live.key).is_some_and(|listed| Arc::ptr_eq(listed, live)) {
            let put_away = shard.live.swap_remove(&live.key);
            drop(shard);
            live.footprint.put_away();
            drop(put_away);
        }
    }

    /// Puts idle entities away until memory is within its limit; and those that nobody has used since the sweep was here the
    /// last time: it looks at a part of all at each `tick`, and comes around in `ticks_around`.
    pub(super) fn sweep(&self, tick: u64, ticks_around: u64) {
        for shard in &self.shards {
            let looks_max = shard.lock().live.len();
            for _ in 0..looks_max {
                if !self.is_full() {
                    break;
                }
                drop(shard.lock().put_one_away(EVICTION_LOOKS_MAX));
            }
        }
        let due = |tick: u64| tick.saturating_mul(SHARDS as u64) / ticks_around.max(1);
        for (_, shard) in (due(tick)..due(tick + 1)).zip(self.shards.iter().cycle().skip(due(tick) as usize % SHARDS)) {
            let unused = shard.lock().take_unused();
            drop(unused);
        }
    }

    /// About how many bytes all entities in memory take.
    pub(super) fn bytes(&self) -> usize {
        self.make.memory.bytes()
    }

    fn is_full(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    fn shard(&self, key: &EntityKey) -> &Mutex<Shard<M, J>> {
        self.shard_of(self.hasher.hash_one(key))
    }

    /// The shard of the keys with this hash.
    fn shard_of(&self, hash: u64) -> &Mutex<Shard<M, J>> {
        // The tables of the shards go by the first and the last bits.
        let number = hash >> 32 & (SHARDS as u64 - 1);
        &self.shards[usize::try_from(number).expect("fewer than 64")]
    }
}

impl<M: Model, J: Journal> Shard<M, J> {
    /// Takes out the first idle entity that has not been used since it was last considered, looking at a few.
    fn put_one_away(&mut self, looks_max: usize) -> Option<Arc<Live<M, J>>> {
        for _ in 0..looks_max.min(self.live.len()) {
            self.hand %= self.live.len();
            if Live::is_unused(&self.live[self.hand]) {
                self.live[self.hand].footprint.put_away();
                return self.live.swap_remove_index(self.hand).map(|(_, live)| live);
            }
            self.hand += 1;
        }
        None
    }

    /// Takes out all idle entities that have not been used since they were last considered.
    fn take_unused(&mut self) -> Vec<Arc<Live<M, J>>> {
        let mut unused = Vec::new();
        self.live.retain(|_, live| {
            let is_unused = Live::is_unused(live);
            if is_unused {
                live.footprint.put_away();
                unused.push(Arc::clone(live));
            }
            !is_unused
        });
        self.live.shrink_to(2 * self.live.len());
        unused
    }
}

impl<M: Model, J: Journal> Maker<M, J> {
    fn live(&self, key: &EntityKey) -> Live<M, J> {
        let loading = Arc::<Loading>::default();
        let footprint = Arc::new(Footprint::new(Arc::clone(&self.memory)));
        let tail = Arc::<Tail>::default();
        let order = Arc::<Order>::default();
        let told = Told {
            loading: Arc::clone(&loading),
            footprint: Arc::clone(&footprint),
            order: Arc::clone(&order),
            timers: Arc::clone(&self.timers),
            counts: self.counts.class(key.class()),
            announcer: self.announcer.clone(),
        };
        let parts = Parts {
            key: key.clone(),
            model: Arc::clone(&self.model),
            journal: Arc::clone(&self.journal),
            clock: self.clock,
            options: ParticipantOptions { strategy: self.strategies.of(key.class()), ..self.options.clone() },
            committer: Arc::clone(&self.committer),
            tail: Arc::clone(&tail),
            elsewhere: self.elsewhere.clone(),
            failure: self.failure.clone(),
            told,
        };
        let turns = Turns::made_by(|turns| Entity::recovered(parts, turns));
        Live { key: key.clone(), turns, tail, loading, footprint, order, used: AtomicBool::new(true) }
    }
}
