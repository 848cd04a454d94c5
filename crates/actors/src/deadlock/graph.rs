//! The suspended turns, and what each leads to.
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::fence;

use crossbeam_utils::CachePadded;
use enact_sync::atomic::{AtomicUsize, Ordering};
use enact_sync::unmodelled::{Arc, Weak};
use enact_sync::{Mutex, MutexGuard};
use smallvec::SmallVec;

use super::search::{Finding, Search};
use super::{Entered, Owner, Source, Suspension, Told, Turn, TurnId, Verdict, Wait};
use crate::ActorId;
use crate::identity::HashById;

/// How many parts the graph has, each with a lock of its own.
const SHARDS: usize = if cfg!(any(enact_loom, enact_shuttle)) { 2 } else { 64 };
/// How many turns are followed, each of which waits for one actor, before all in reach are searched.
const LINE_MAX: usize = 64;
/// How many derived promises are followed one behind the other before the graph gives up on a chain.
const CHAIN_MAX: usize = 100_000;
/// How deep promises of several promises may nest before the graph gives up on them.
pub(super) const NESTING_MAX: usize = 32;

/// All suspended turns.
pub(crate) struct Graph([CachePadded<Shard>; SHARDS]);

/// Those of some actors.
#[derive(Default)]
struct Shard {
    turns: Mutex<Turns>,
    /// How many holders there are: a hint that spares the lock when there is none.
    holders: AtomicUsize,
}

#[derive(Default)]
struct Turns {
    /// Those that hold their actor: one of each.
    holders: HashMap<ActorId, Node, HashById>,
    others: HashMap<TurnId, Node, HashById>,
}

/// Ids are given out one after the other.
fn shard_of(actor: ActorId) -> usize {
    (actor.get() % SHARDS as u64) as usize
}

/// A suspended turn.
pub(super) struct Node {
    pub(super) suspension: Suspension,
    pub(super) verdict: Option<Box<Verdict>>,
}

impl Node {
    /// Whether it can go on, or will certainly.
    pub(super) fn is_going_on(&self) -> bool {
        self.verdict.is_some() || self.suspension.sleeper.is_woken()
    }

    fn leads(&self) -> Leads {
        let mut leads = Leads::new();
        for wait in &self.suspension.waits {
            match wait {
                Wait::Actor(actor) => leads.push(Lead::Actor(*actor)),
                Wait::Answer(source) => {
                    source.owner().into_iter().for_each(|owner| lead_to(owner, NESTING_MAX, &mut leads));
                }
            }
        }
        leads
    }
}

/// Whom a wait needs. One that will end, or that something outside ends, leads to nobody.
#[derive(Clone, Copy)]
pub(super) enum Lead {
    Actor(ActorId),
    Turn(Turn),
}

pub(super) type Leads = SmallVec<[Lead; 1]>;

fn lead_to(owner: Owner, nesting: usize, leads: &mut Leads) {
    match follow(owner) {
        Owner::Actor(actor) => leads.push(Lead::Actor(actor)),
        Owner::Turn(turn) => leads.push(Lead::Turn(turn)),
        Owner::All(sources) | Owner::Any(sources) if nesting > 0 => {
            sources.iter().filter_map(pending).for_each(|owner| lead_to(owner, nesting - 1, leads));
        }
        _ => {}
    }
}

impl Default for Graph {
    fn default() -> Self {
        Self(std::array::from_fn(|_| CachePadded::default()))
    }
}

impl Graph {
    fn shard(&self, actor: ActorId) -> &Shard {
        &self.0[shard_of(actor)]
    }

    /// Enters a turn; where its waits lead once it is there.
    pub(super) fn enter(&self, suspension: Suspension) -> Entered {
        let turn = suspension.turn();
        let shard = self.shard(turn.actor);
        let mut turns = shard.turns.lock();
        if suspension.holds {
            shard.holders.store(turns.holders.len() + 1, Ordering::Relaxed);
        }
        let node = turns.insert(turn, Node { suspension, verdict: None });
        // Pairs with the fence in `owner_changed`, and with the one of any other turn that enters.
        fence(Ordering::SeqCst);
        Entered { turn, leads: node.leads() }
    }

    /// Takes a turn out again.
    pub(super) fn take_out(&self, turn: Turn) -> Option<Node> {
        let shard = self.shard(turn.actor);
        let mut turns = shard.turns.lock();
        let node = turns.remove(turn);
        shard.holders.store(turns.holders.len(), Ordering::Relaxed);
        node
    }

    /// The suspended turn that holds `actor`.
    pub(super) fn holder(&self, actor: ActorId) -> Option<Turn> {
        let shard = self.shard(actor);
        if shard.holders.load(Ordering::Relaxed) == 0 {
            return None;
        }
        shard.turns.lock().holder(actor)
    }

    /// Where the waits of `turn` lead, if it is suspended.
    pub(super) fn leads(&self, turn: Turn) -> Option<Leads> {
        self.shard(turn.actor).turns.lock().node(turn).map(Node::leads)
    }

    /// Looks for a dead wait of `root`, whose waits lead to `leads`. The turns that are to be told for it, each of which waits
    /// in a circle.
    pub(super) fn judge(&self, root: Turn, leads: Leads) -> Vec<Told> {
        if leads.into_iter().any(|lead| self.may_be_dead(root, lead)) { self.lock().judge(root) } else { Vec::new() }
    }

    /// Whether a wait of `root` that leads there could be dead. It is not if it leads on, over turns that each wait for one
    /// actor, to one that can go on.
    fn may_be_dead(&self, root: Turn, mut lead: Lead) -> bool {
        for _ in 0..LINE_MAX {
            let actor = match lead {
                Lead::Actor(actor) => actor,
                Lead::Turn(turn) => {
                    let turns = self.shard(turn.actor).turns.lock();
                    return turns.others.contains_key(&turn.id) || turns.holders.contains_key(&turn.actor);
                }
            };
            let shard = self.shard(actor);
            if shard.holders.load(Ordering::Relaxed) == 0 {
                return false;
            }
            let turns = shard.turns.lock();
            let Some(node) = turns.holders.get(&actor) else { return false };
            if node.suspension.turn == root.id {
                return true;
            }
            if node.suspension.opaque || node.is_going_on() {
                return false;
            }
            lead = match *node.leads() {
                [] => return false,
                [only] => only,
                _ => return true,
            };
        }
        true
    }

    fn lock(&self) -> Locked<'_> {
        Locked(self.0.iter().map(|shard| shard.turns.lock()).collect())
    }
}

impl Turns {
    fn holder(&self, actor: ActorId) -> Option<Turn> {
        self.holders.get(&actor).map(|node| node.suspension.turn())
    }

    fn insert(&mut self, turn: Turn, node: Node) -> &mut Node {
        if node.suspension.holds {
            self.holders.entry(turn.actor).insert_entry(node).into_mut()
        } else {
            self.others.entry(turn.id).insert_entry(node).into_mut()
        }
    }

    fn remove(&mut self, turn: Turn) -> Option<Node> {
        match self.holders.entry(turn.actor) {
            Entry::Occupied(holder) if holder.get().suspension.turn == turn.id => Some(holder.remove()),
            _ => self.others.remove(&turn.id),
        }
    }

    fn node(&self, turn: Turn) -> Option<&Node> {
        let holder = self.holders.get(&turn.actor).filter(|node| node.suspension.turn == turn.id);
        holder.or_else(|| self.others.get(&turn.id))
    }

    fn node_mut(&mut self, turn: Turn) -> Option<&mut Node> {
        let holder = self.holders.get_mut(&turn.actor).filter(|node| node.suspension.turn == turn.id);
        holder.or_else(|| self.others.get_mut(&turn.id))
    }
}

/// The whole graph, in which no turn comes or goes.
pub(super) struct Locked<'g>(Vec<MutexGuard<'g, Turns>>);

impl Locked<'_> {
    fn shard(&self, actor: ActorId) -> &Turns {
        &self.0[shard_of(actor)]
    }

    pub(super) fn node(&self, turn: Turn) -> Option<&Node> {
        self.shard(turn.actor).node(turn)
    }

    pub(super) fn holder(&self, actor: ActorId) -> Option<Turn> {
        self.shard(actor).holder(actor)
    }

    /// Has turns told until no wait of `root` is dead, or it is told itself.
    fn judge(mut self, root: Turn) -> Vec<Told> {
        let mut told = Vec::new();
        while self.node(root).is_some_and(|node| node.verdict.is_none())
            && let Some(finding) = Search::find(&self, root)
        {
            told.extend(self.tell(finding));
        }
        told
    }

    fn tell(&mut self, Finding { turn, at, cycle }: Finding) -> Option<Told> {
        let node = self.0[shard_of(turn.actor)].node_mut(turn)?;
        let wait = node.suspension.waits.swap_remove(at);
        let source = match &wait {
            Wait::Answer(source) => Some(Arc::clone(source)),
            Wait::Actor(_) => None,
        };
        node.verdict = Some(Box::new(Verdict { wait, cycle }));
        Some(Told { turn: node.suspension.sleeper.waker(), source })
    }
}

pub(super) fn pending(source: &Weak<dyn Source>) -> Option<Owner> {
    source.upgrade().and_then(|source| source.owner())
}

/// The owner at the end of a chain of promises each of which needs only the next.
pub(super) fn follow(mut owner: Owner) -> Owner {
    for _ in 0..CHAIN_MAX {
        let Owner::Needs(next) = &owner else { return owner };
        let Some(next) = pending(next) else { break };
        owner = next;
    }
    Owner::Unknown
}

/// The suspended turns that `owner` needs directly, dead or not, where `holder` gives the turn that holds an actor.
pub(super) fn turns_behind(owner: Owner, holder: &impl Fn(ActorId) -> Option<Turn>, found: &mut impl FnMut(Turn)) {
    visit(owner, NESTING_MAX, holder, found);
}

fn visit(owner: Owner, nesting: usize, holder: &impl Fn(ActorId) -> Option<Turn>, found: &mut impl FnMut(Turn)) {
    match follow(owner) {
        Owner::Actor(actor) => holder(actor).into_iter().for_each(found),
        Owner::Turn(turn) => holder(turn.actor).into_iter().chain([turn]).for_each(found),
        Owner::All(sources) | Owner::Any(sources) if nesting > 0 => {
            for owner in sources.iter().filter_map(pending) {
                visit(owner, nesting - 1, holder, found);
            }
        }
        _ => {}
    }
}
