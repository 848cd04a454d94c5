//! What one descriptor has retired and nobody has freed yet.
//!
//! # Who may touch what
//! Garbage lies in the slot of its descriptor, so that any thread can free what a descriptor leaves that rests.
//! * The descriptor alone puts nodes into the ring, without a lock: a commit pays two stores for each.
//! * `rest`, and the taking out end of the ring with it, belong to the thread that has its lock. No code of users runs
//!   under that lock.
//!
//! # Not looked at again and again
//! A node that may not be freed lies with the announcement that forbids it, of those the oldest: nobody looks at it before
//! that announcement is over. An announcement that begins later than a node was retired does not forbid it, so a node is
//! looked at once for each descriptor that was pinned when it was retired, at most.
#![expect(unsafe_code, reason = "retired values of any type are dropped by address")]
use enact_sync::Mutex;
use enact_sync::atomic::{Ordering, fence};

use crate::contain::contain;
use crate::domain::DOMAIN;
use crate::memory::ring::Ring;
use crate::variable::node::Free;

/// So many retired nodes are worth a fence and a look at all announcements.
pub(crate) const BATCH: usize = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 128 };

/// The garbage of one descriptor.
#[derive(Debug)]
pub(crate) struct Garbage {
    fresh: Ring,
    rest: Mutex<Rest>,
}

/// A node that nothing leads to, or a count of one that a link does not have any more.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retired {
    pub(super) address: u64,
    pub(super) free: Free,
    /// Nobody has found the address before this epoch.
    pub(super) birth: u64,
}

/// What has left the ring.
#[derive(Debug, Default)]
struct Rest {
    /// Nodes that nobody has looked at.
    fresh: Vec<Retired>,
    forbidden: Vec<Forbidden>,
    announced: Vec<Announced>,
    /// How often a node was judged.
    #[cfg(test)]
    looks: usize,
}

/// Nodes that an announcement forbids to free.
#[derive(Debug)]
struct Forbidden {
    by: Announced,
    nodes: Vec<Late>,
}

/// The interval of epochs that a descriptor announces.
#[derive(Debug, Clone, Copy)]
struct Announced {
    descriptor: u64,
    lower: u64,
    upper: u64,
}

impl Announced {
    /// True if both are announcements of one attempt, or of one step of a snapshot. Within it only the upper end moves on.
    fn is_same(&self, other: &Self) -> bool {
        (self.descriptor, self.lower) == (other.descriptor, other.lower)
    }

    fn forbids(&self, node: &Late) -> bool {
        self.lower <= node.retired && node.node.birth <= self.upper
    }
}

/// A node and the end of its life.
#[derive(Debug, Clone, Copy)]
struct Late {
    node: Retired,
    retired: u64,
}

impl Garbage {
    pub(crate) fn new() -> Self {
        Self { fresh: Ring::new(), rest: Mutex::default() }
    }

    /// Takes over a node that nothing leads to any more.
    ///
    /// # Safety
    /// The caller is the descriptor of the slot. `free` frees what is at `address`; it has been unlinked before this
    /// call, and it is retired only once. Nobody has found the address before the epoch `birth`.
    #[inline]
    pub(crate) unsafe fn retire(&self, address: u64, free: Free, birth: u64) {
        let node = Retired { address, free, birth };
        // SAFETY: the caller is the descriptor.
        if !unsafe { self.fresh.push(node) } {
            self.retire_many(node);
        }
    }

    /// A transaction that replaces more values than the ring has room for.
    #[cold]
    fn retire_many(&self, node: Retired) {
        let mut rest = self.rest.lock();
        // SAFETY: we have the lock of the takers.
        unsafe { self.fresh.take_all(&mut rest.fresh) };
        rest.fresh.push(node);
    }

    /// Frees what no announced interval meets; gives the number of nodes that have to stay. Called outside of
    /// transactions: values are dropped here, and their destructors may do what they like. A panic of one ends here.
    #[cold]
    pub(crate) fn collect(&self) -> usize {
        let (free, left) = {
            let mut rest = self.rest.lock();
            // SAFETY: we have the lock of the takers.
            unsafe { self.fresh.take_all(&mut rest.fresh) };
            rest.sift()
        };
        for Retired { address, free, .. } in free {
            contain(|| {
                // SAFETY: it was unlinked before it was retired, and no announced interval meets its life: nobody has its
                // address. It has left the lists, so it is freed once.
                unsafe { free(address) }
            });
        }
        left
    }
}

impl Rest {
    /// Takes out what may be freed; gives the number of the others.
    fn sift(&mut self) -> (Vec<Retired>, usize) {
        if self.fresh.is_empty() && self.forbidden.is_empty() {
            return (Vec::new(), 0);
        }
        DOMAIN.memory.advance();
        // Pairs with the fences of `Pin`: a thread that is not seen as pinned below has not loaded, and cannot load, what has been
        // unlinked before.
        fence(Ordering::SeqCst);
        let retired = DOMAIN.memory.epoch();
        self.announced.clear();
        for slot in DOMAIN.descriptors.slots() {
            let interval = slot.pin.interval();
            self.announced.extend(interval.map(|(lower, upper)| Announced { descriptor: slot.owner, lower, upper }));
        }
        self.announced.sort_unstable_by_key(|announced| announced.lower);
        self.settle(retired)
    }

    /// Takes out what none of the announcements forbids, which are sorted by age.
    fn settle(&mut self, retired: u64) -> (Vec<Retired>, usize) {
        let Self {
            fresh,
            forbidden,
            announced,
            #[cfg(test)]
            looks,
        } = self;
        let is_over = |entry: &mut Forbidden| !announced.iter().any(|known| known.is_same(&entry.by));
        let again: Vec<Forbidden> = forbidden.extract_if(.., is_over).collect();
        let fresh = fresh.drain(..).map(|node| Late { node, retired });
        let mut free = Vec::new();
        for late in fresh.chain(again.into_iter().flat_map(|entry| entry.nodes)) {
            #[cfg(test)]
            {
                *looks += 1;
            }
            let by = announced.iter().find(|announced| announced.forbids(&late));
            match by {
                Some(by) if !cfg!(planted = "free_at_once") => forbid(forbidden, *by, late),
                _ => free.push(late.node),
            }
        }
        (free, forbidden.iter().map(|entry| entry.nodes.len()).sum())
    }
}

/// Lays a node to the others that the same announcement forbids.
fn forbid(forbidden: &mut Vec<Forbidden>, by: Announced, late: Late) {
    match forbidden.iter_mut().find(|entry| entry.by.is_same(&by)) {
        Some(entry) => entry.nodes.push(late),
        None => forbidden.push(Forbidden { by, nodes: vec![late] }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variable::node::{self, Node};

    fn free_all(nodes: &[Retired]) -> usize {
        for Retired { address, free, .. } in nodes {
            // SAFETY: leaked by this test, and given by `settle` once.
            unsafe { free(*address) };
        }
        nodes.len()
    }

    #[test]
    fn a_node_that_may_not_be_freed_is_looked_at_once_for_each_announcement_that_forbids_it() {
        enact_sync::explore(1, || {
            let old = Announced { descriptor: 1, lower: 1, upper: 1 };
            let young = Announced { descriptor: 2, lower: 52, upper: 52 };
            let mut rest = Rest { announced: vec![old], ..Rest::default() };
            for batch in 0..100 {
                let node = || Retired { address: Node::leak(0_u64, 0, 1), free: node::free::<u64>, birth: 1 };
                rest.fresh.extend(std::iter::repeat_with(node).take(10));
                let (free, left) = rest.settle(2 + batch);
                assert_eq!((free.len(), left as u64), (0, 10 * (batch + 1)));
            }
            assert_eq!(rest.looks, 1_000, "each node once, although there were 100 collections");
            // The upper end of an announcement moves on: nothing changes.
            rest.announced = vec![Announced { upper: 60, ..old }, young];
            assert_eq!((rest.settle(200).1, rest.looks), (1_000, 1_000));
            rest.announced = vec![young];
            let (free, left) = rest.settle(201);
            assert_eq!((free_all(&free), left, rest.looks), (500, 500, 2_000), "what was retired before the young one");
            rest.announced = vec![];
            let (free, left) = rest.settle(202);
            assert_eq!((free_all(&free), left, rest.looks), (500, 0, 2_500));
        });
    }
}
