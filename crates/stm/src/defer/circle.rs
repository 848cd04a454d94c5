//! Deferred operations that wait for each other's locks, so that none of them can go on.
//!
//! # What is known
//! An operation runs on one thread, and its locks are released by that thread only, unless their owner is an explicit
//! one. So an operation whose thread sleeps in a transaction until a lock is free gives none of its own away before.
//! Such a sleep is entered here, with the locks that it waits for and the holder of each.
//!
//! A sleep is *not* entered if anything else can end it: it has a time limit or a limit of tries, the transaction has read
//! a variable besides these locks, has looked at the holder of a lock, depends on another transaction, belongs to an explicit
//! owner, or is awaited, which its task may cease to do. Alternatives that wait for locks only (`or_else`) are entered
//! together.
//!
//! # What is judged
//! A set of sleeps is hopeless if each lock that each of them waits for is held by an owner with a sleep in the set,
//! and none of the locks has changed since its sleeper has seen it. The last sleep that makes a set hopeless is
//! refused: its operation panics, and the others get its locks. A sleep is entered and judged under one lock, and no
//! sleeper of a hopeless set is awake: what would have woken it has changed one of these locks. So there is no false
//! report, and no hopeless set of such sleeps without one. Shown by the model
//! `of_two_operations_in_a_circle_one_is_told_in_every_schedule`.
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;

use enact_sync::Mutex;

use crate::domain::DOMAIN;
use crate::lock::{OwnerId, TxLock};

/// A lock that an operation sleeps on.
#[derive(Debug, Clone)]
pub(crate) struct Await {
    pub(crate) lock: TxLock,
    pub(crate) holder: OwnerId,
    /// The versioned lock of the lock's state when `holder` was read.
    pub(crate) seen: u64,
}

type Sleeps = BTreeMap<OwnerId, Vec<Await>>;

/// The sleeps of all operations, by the owner of their locks.
pub(crate) struct Circles(Mutex<Sleeps>);

/// An operation that sleeps, until this is dropped.
pub(crate) struct Sleep(OwnerId);

impl Drop for Sleep {
    fn drop(&mut self) {
        let gone = DOMAIN.circles.0.lock().remove(&self.0);
        drop(gone);
    }
}

impl Circles {
    #[cfg(not(any(enact_loom, enact_shuttle)))]
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    #[cfg(any(enact_loom, enact_shuttle))]
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Enters the sleep of an operation, which has registered with its locks.
    ///
    /// # Errors
    /// If it closes a circle of operations that can never go on: what to say of it. Nothing is entered then.
    pub(crate) fn enter(&self, owner: OwnerId, awaits: Vec<Await>) -> Result<Sleep, String> {
        let mut sleeps = self.0.lock();
        let before = sleeps.insert(owner, awaits);
        assert!(before.is_none(), "an operation sleeps in two transactions");
        if is_hopeless(&sleeps, owner) && !cfg!(planted = "overlook_circles") {
            let circle = circle(&sleeps, owner);
            sleeps.remove(&owner);
            return Err(describe(&circle));
        }
        Ok(Sleep(owner))
    }
}

/// True if `owner` is in a set of sleeps of which nothing wakes one.
fn is_hopeless(sleeps: &Sleeps, owner: OwnerId) -> bool {
    let (mut reached, mut open) = (BTreeSet::from([owner]), vec![owner]);
    while let Some(sleeper) = open.pop() {
        let holders = sleeps.get(&sleeper).into_iter().flatten().map(|awaited| awaited.holder);
        open.extend(holders.filter(|holder| reached.insert(*holder)));
    }
    let sleeps_on = |sleeper: &OwnerId, all: &BTreeSet<OwnerId>| {
        let waits = |awaited: &Await| all.contains(&awaited.holder) && awaited.lock.is_as_seen(awaited.seen);
        sleeps.get(sleeper).is_some_and(|awaits| awaits.iter().all(waits))
    };
    loop {
        let rest: BTreeSet<_> = reached.iter().copied().filter(|sleeper| sleeps_on(sleeper, &reached)).collect();
        if rest.len() == reached.len() {
            return true;
        }
        if !rest.contains(&owner) {
            return false;
        }
        reached = rest;
    }
}

/// The locks on the shortest way from what `owner` waits for to what it has.
fn circle(sleeps: &Sleeps, owner: OwnerId) -> Vec<TxLock> {
    let (mut reached, mut ways) = (BTreeSet::new(), VecDeque::from([(owner, Vec::new())]));
    while let Some((sleeper, way)) = ways.pop_front() {
        for awaited in &sleeps[&sleeper] {
            let way: Vec<_> = way.iter().cloned().chain([awaited.lock.clone()]).collect();
            if awaited.holder == owner {
                return way;
            }
            if reached.insert(awaited.holder) {
                ways.push_back((awaited.holder, way));
            }
        }
    }
    unreachable!("a set that became hopeless with a sleep has a circle through it")
}

fn describe(circle: &[TxLock]) -> String {
    let [first, others @ ..] = circle else { unreachable!("a circle has a lock") };
    let own = others.last().unwrap_or(first);
    let mut text = format!("deferred operation holding {own} waits for {first}");
    for lock in others {
        write!(text, ", whose holder waits for {lock}").expect("a string takes everything");
    }
    text + "; none of them can go on: list all objects that an operation needs when it is deferred"
}
