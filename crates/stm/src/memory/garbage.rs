//! What one worker has retired and not freed yet.
use crate::domain::DOMAIN;
use crate::variable::node::{self, Free};
use enact_sync::atomic::{Ordering, fence};

/// So many retired nodes are worth a fence and a look at all announcements.
const BATCH: usize = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 128 };

/// Retired nodes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Garbage {
    fresh: Vec<Retired>,
    waiting: Vec<(u64, Retired)>,
    announced: Vec<(u64, u64)>,
}

#[derive(Debug)]
struct Retired {
    address: u64,
    birth: u64,
    free: Free,
}

impl Garbage {
    /// Takes over a node that nothing leads to any more; frees what nobody can use every now and then.
    ///
    /// # Safety
    /// `address` leads to a node that `free` frees; it has been unlinked before this call, and it is retired only once.
    #[inline]
    pub(crate) unsafe fn retire(&mut self, address: u64, free: Free) {
        // SAFETY: the caller has just unlinked the node, and only `collect` below frees it.
        let birth = unsafe { node::header(address) }.birth;
        self.fresh.push(Retired { address, birth, free });
    }

    /// True if there is enough for a [`collect`](Self::collect).
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.fresh.len() >= BATCH
    }

    /// Frees what no announced interval meets. Called by an unpinned worker: values are dropped here, and their
    /// destructors may do what they like.
    #[cold]
    pub(crate) fn collect(&mut self) {
        DOMAIN.memory.advance();
        // Pairs with the fences of `Pin`: who is not seen as pinned below has not loaded, and cannot load, what has been
        // unlinked before.
        fence(Ordering::SeqCst);
        let retired = DOMAIN.memory.epoch();
        self.waiting.extend(self.fresh.drain(..).map(|node| (retired, node)));
        self.announced.clear();
        self.announced.extend(DOMAIN.workers.slots().filter_map(|slot| slot.pin.interval()));
        let announced = &self.announced;
        let is_free = |entry: &mut (u64, Retired)| {
            let (retired, node) = entry;
            cfg!(plant = "free_at_once")
                || announced.iter().all(|(lower, upper)| *retired < *lower || node.birth > *upper)
        };
        let free: Vec<_> = self.waiting.extract_if(.., is_free).collect();
        for (_, node) in free {
            // SAFETY: it was unlinked before it was retired, and no announced interval meets its life: nobody has its
            // address. It leaves the list here, so it is freed once.
            unsafe { (node.free)(node.address) };
        }
    }
}
