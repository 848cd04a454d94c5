//! Who waits for whom, and the wait that can never end.
//!
//! # Problem
//! A turn that holds its actor while it waits (`async fn(&mut self)`, a synchronous call, a send that waits for room)
//! can close a circle: the answer it waits for needs an actor that waits, over any number of steps, for this one.
//! Such a wait fails at once with the circle's names.
//!
//! # The graph
//! Nodes are suspended turns. A turn waits for sources (promises) and actors; a promise knows its [`Owner`], the one
//! whose progress its answer needs: an actor that has the message in its mailbox or in its turn, a cooperative turn
//! that let go of its actor, or other promises. *Holders* are the suspended turns whose actor takes nothing else.
//!
//! # When a wait is dead
//! As the greatest fixed point of these rules, so that a circle counts:
//! * a source is dead if its owner is: an actor is dead while its holder is; a cooperative turn if its actor's holder
//!   is, or it is itself; *all* of several promises as soon as one is; *any* of them when every one is;
//! * a suspended turn is dead if everything it waits for is dead and nothing else could wake it, or if it needs an
//!   actor whose holder is dead. "Nothing else": no foreign code keeps its waker, for instance a timer or a socket.
//!
//! The turn whose suspension closes the circle is the one that is told; for it, only its own wait must be dead, not
//! what else could wake it: within this turn the answer cannot come. It goes on with the error, and with it the rest.
//!
//! # Exact under concurrency
//! Suspensions, resumptions and changes of owner are entered one at a time under one lock. Each circle has a last edge;
//! whoever enters it sees all the others. A promise is handed on before `owner_changed` looks for holders, and a holder
//! is counted before it looks at owners, with a fence in between on both sides: one of the two sees the other.
//!
//! # Limits
//! A promise waited for through another crate's combinators still counts as a wait of the turn, but the turn then also
//! counts as one that something else could wake. Circles with two such turns are left to their time-outs.
use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{Ordering, fence};
use std::task::Waker;

use enact_sync::atomic::AtomicUsize;
use enact_sync::unmodelled::{Arc, AtomicU64, LazyLock, Weak};
use enact_sync::{Mutex, global};
use smallvec::SmallVec;

use crate::cell::TurnWaker;
use crate::error::Cycle;
use crate::identity::IdHasher;
use crate::{ActorError, ActorId, Identity};

/// Names one turn that can be suspended, among all of this process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct TurnId(pub(crate) u64);

impl TurnId {
    /// Taken from the thread's own block, so that threads do not meet at a counter.
    pub(crate) fn fresh() -> Self {
        const BLOCK: u64 = 1024;
        static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);
        std::thread_local! {
            static NEXT: Cell<u64> = const { Cell::new(0) };
        }
        let next = NEXT.get();
        let id = if next.is_multiple_of(BLOCK) { NEXT_BLOCK.fetch_add(1, Ordering::Relaxed) * BLOCK } else { next };
        NEXT.set(id + 1);
        Self(id)
    }
}

/// Whose progress an answer needs.
#[derive(Clone)]
pub(crate) enum Owner {
    /// Something outside the runtime.
    Unknown,
    /// The actor that has the message, waiting or in its turn.
    Actor(ActorId),
    /// A cooperative turn of an actor.
    Turn(TurnId, ActorId),
    /// Another answer.
    Needs(Weak<dyn Source>),
    /// Several other answers.
    All(Vec<Weak<dyn Source>>),
    /// One of several other answers.
    Any(Vec<Weak<dyn Source>>),
}

/// An answer in the eyes of the graph.
pub(crate) trait Source: Send + Sync {
    /// Whose progress it needs; `None` once it has come.
    fn owner(&self) -> Option<Owner>;
    /// The actor whose progress it needs, if it is an actor's.
    fn owning_actor(&self) -> Option<ActorId>;
    /// Has its readers look again: another crate's combinators poll only what has woken them.
    fn wake_readers(&self);
}

pub(crate) enum Wait {
    Answer(Arc<dyn Source>),
    /// For the actor to take up its next message.
    Actor(ActorId),
}

/// A turn that gives its thread up, or blocks it.
pub(crate) struct Suspension {
    pub(crate) turn: TurnId,
    pub(crate) actor: Identity,
    /// Whether the actor takes nothing else meanwhile.
    pub(crate) holds: bool,
    pub(crate) waits: SmallVec<[Wait; 1]>,
    /// Whether something that the graph does not know could wake the turn.
    pub(crate) opaque: bool,
    pub(crate) sleeper: Sleeper,
}

/// Who is to be woken.
pub(crate) enum Sleeper {
    Turn(Arc<TurnWaker>),
    Thread(Waker),
}

impl Sleeper {
    fn is_woken(&self) -> bool {
        match self {
            Self::Turn(turn) => turn.is_woken(),
            Self::Thread(_) => false,
        }
    }

    fn waker(&self) -> Waker {
        match self {
            Self::Turn(turn) => Waker::from(Arc::clone(turn)),
            Self::Thread(waker) => waker.clone(),
        }
    }
}

/// The finding that one wait of a turn can never end.
pub(crate) struct Verdict {
    wait: Wait,
    cycle: Cycle,
}

impl Verdict {
    /// Whether this is about a wait for `source`.
    pub(crate) fn concerns(&self, source: &Arc<dyn Source>) -> bool {
        matches!(&self.wait, Wait::Answer(answer) if Arc::ptr_eq(answer, source))
    }

    pub(crate) fn into_error(self) -> ActorError {
        ActorError::Deadlock { cycle: self.cycle }
    }
}

global! {
    /// How many holders are suspended: a hint that spares the lock when there is none.
    pub(crate) static HOLDERS: AtomicUsize = AtomicUsize::new(0);
}
global! {
    /// The process's own.
    pub(crate) static GRAPH: LazyLock<Mutex<Graph>> = LazyLock::new(Mutex::default);
}

/// Enters turns that all suspend together, the last one at the far end of a chain of synchronous calls.
///
/// If a circle closes, the last turn is told and its waker is woken; [`resume`] then returns the verdict.
pub(crate) fn suspend(suspensions: impl IntoIterator<Item = Suspension>) {
    let mut graph = GRAPH.lock();
    let mut last = None;
    for suspension in suspensions {
        last = Some(suspension.turn);
        graph.insert(suspension);
    }
    let Some(last) = last else { return };
    // Pairs with the fence in `owner_changed`.
    fence(Ordering::SeqCst);
    let told = graph.judge(last);
    drop(graph);
    told.into_iter().for_each(Told::wake);
}

/// Takes a turn out again; what was found about it, if anything.
pub(crate) fn resume(turn: TurnId) -> Option<Verdict> {
    let node = GRAPH.lock().remove(turn);
    node.and_then(|node| node.verdict)
}

/// To be called after the owner of `source` has changed: a circle may have closed by that.
pub(crate) fn owner_changed(source: &dyn Source) {
    // Pairs with the fence in `suspend`.
    fence(Ordering::SeqCst);
    if HOLDERS.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut graph = GRAPH.lock();
    let holders = source.owner().map(|owner| graph.turns_behind(&owner)).unwrap_or_default();
    let told: Vec<Told> = holders.into_iter().filter_map(|holder| graph.judge(holder)).collect();
    drop(graph);
    told.into_iter().for_each(Told::wake);
}

/// A turn that is to be told that a wait of its is dead.
struct Told {
    turn: Waker,
    source: Option<Arc<dyn Source>>,
}

impl Told {
    fn wake(self) {
        if let Some(source) = self.source {
            source.wake_readers();
        }
        self.turn.wake();
    }
}

/// How many derived promises are followed one behind the other before the graph gives up on a chain.
const CHAIN_MAX: usize = 100_000;
/// How deep promises of several promises may nest before the graph gives up on them.
const NESTING_MAX: usize = 32;

#[derive(Default)]
pub(crate) struct Graph {
    suspended: HashMap<TurnId, Node, IdHasher>,
    holders: HashMap<ActorId, TurnId, IdHasher>,
}

struct Node {
    suspension: Suspension,
    verdict: Option<Verdict>,
}

impl Node {
    /// Whether it will certainly go on.
    fn is_going_on(&self) -> bool {
        self.verdict.is_some() || self.suspension.sleeper.is_woken()
    }
}

impl Graph {
    fn insert(&mut self, suspension: Suspension) {
        if suspension.holds {
            self.holders.insert(suspension.actor.id(), suspension.turn);
            HOLDERS.store(self.holders.len(), Ordering::Relaxed);
        }
        self.suspended.insert(suspension.turn, Node { suspension, verdict: None });
    }

    fn remove(&mut self, turn: TurnId) -> Option<Node> {
        let node = self.suspended.remove(&turn)?;
        let actor = node.suspension.actor.id();
        if self.holders.get(&actor) == Some(&turn) {
            self.holders.remove(&actor);
            HOLDERS.store(self.holders.len(), Ordering::Relaxed);
        }
        Some(node)
    }

    /// Looks for a dead wait of `root` and records it; the turn is then to be told.
    fn judge(&mut self, root: TurnId) -> Option<Told> {
        let node = self.suspended.get(&root)?;
        if node.verdict.is_some() || !node.suspension.waits.iter().any(|wait| self.may_be_dead(wait)) {
            return None;
        }
        let search = Search::new(self, root);
        let at = node.suspension.waits.iter().position(|wait| search.wait_is_dead(wait))?;
        let cycle = search.cycle(at);
        let node = self.suspended.get_mut(&root)?;
        let wait = node.suspension.waits.swap_remove(at);
        let source = match &wait {
            Wait::Answer(source) => Some(Arc::clone(source)),
            Wait::Actor(_) => None,
        };
        node.verdict = Some(Verdict { wait, cycle });
        Some(Told { turn: node.suspension.sleeper.waker(), source })
    }

    /// Whether a wait needs any suspended turn at all: if none, there is no need to search.
    fn may_be_dead(&self, wait: &Wait) -> bool {
        let owner = match wait {
            Wait::Answer(source) => source.owner(),
            Wait::Actor(actor) => Some(Owner::Actor(*actor)),
        };
        match owner {
            None | Some(Owner::Unknown) => false,
            Some(Owner::Actor(actor)) => self.holders.contains_key(&actor),
            Some(Owner::Turn(turn, actor)) => self.suspended.contains_key(&turn) || self.holders.contains_key(&actor),
            Some(Owner::Needs(_) | Owner::All(_) | Owner::Any(_)) => true,
        }
    }

    /// The suspended turns that `owner` needs directly, dead or not.
    fn turns_behind(&self, owner: &Owner) -> Vec<TurnId> {
        let mut turns = Vec::new();
        self.visit(owner.clone(), NESTING_MAX, &mut |turn| turns.push(turn));
        turns
    }

    fn visit(&self, owner: Owner, nesting: usize, found: &mut impl FnMut(TurnId)) {
        match follow(owner) {
            Owner::Actor(actor) => self.holders.get(&actor).copied().into_iter().for_each(found),
            Owner::Turn(turn, actor) => {
                self.holders.get(&actor).copied().into_iter().chain([turn]).for_each(found);
            }
            Owner::All(sources) | Owner::Any(sources) if nesting > 0 => {
                for owner in sources.iter().filter_map(pending) {
                    self.visit(owner, nesting - 1, found);
                }
            }
            _ => {}
        }
    }
}

fn pending(source: &Weak<dyn Source>) -> Option<Owner> {
    source.upgrade().and_then(|source| source.owner())
}

/// The owner at the end of a chain of promises each of which needs only the next.
fn follow(mut owner: Owner) -> Owner {
    for _ in 0..CHAIN_MAX {
        let Owner::Needs(next) = &owner else { return owner };
        let Some(next) = pending(next) else { break };
        owner = next;
    }
    Owner::Unknown
}

/// The rules above, seen from one turn.
struct Search<'g> {
    graph: &'g Graph,
    root: TurnId,
    /// Turns found to be able to go on; all others in reach are taken for dead.
    live: HashSet<TurnId>,
}

impl<'g> Search<'g> {
    fn new(graph: &'g Graph, root: TurnId) -> Self {
        let mut search = Self { graph, root, live: HashSet::new() };
        let reach = search.reach();
        while let Some(&turn) = reach.iter().find(|&&turn| !search.live.contains(&turn) && !search.turn_is_dead(turn)) {
            search.live.insert(turn);
        }
        search
    }

    /// All suspended turns that the root could be waiting for, over any number of steps.
    fn reach(&self) -> HashSet<TurnId> {
        let mut reach = HashSet::new();
        let mut open = vec![self.root];
        while let Some(turn) = open.pop() {
            if !reach.insert(turn) {
                continue;
            }
            let Some(node) = self.graph.suspended.get(&turn) else { continue };
            open.extend(self.graph.holders.get(&node.suspension.actor.id()));
            for wait in &node.suspension.waits {
                let owner = match wait {
                    Wait::Answer(source) => source.owner(),
                    Wait::Actor(actor) => Some(Owner::Actor(*actor)),
                };
                if let Some(owner) = owner {
                    self.graph.visit(owner, NESTING_MAX, &mut |turn| open.push(turn));
                }
            }
        }
        reach
    }

    fn presumed_dead(&self, turn: TurnId) -> bool {
        self.graph.suspended.contains_key(&turn) && !self.live.contains(&turn)
    }

    fn turn_is_dead(&self, turn: TurnId) -> bool {
        if turn == self.root {
            return true;
        }
        let Some(node) = self.graph.suspended.get(&turn) else { return false };
        if self.dead_holder(node.suspension.actor.id()).is_some_and(|holder| holder != turn) {
            return true;
        }
        let waits = &node.suspension.waits;
        !node.suspension.opaque
            && !node.is_going_on()
            && !waits.is_empty()
            && waits.iter().all(|wait| self.wait_is_dead(wait))
    }

    fn wait_is_dead(&self, wait: &Wait) -> bool {
        self.needed_by_wait(wait).is_some()
    }

    fn dead_holder(&self, actor: ActorId) -> Option<TurnId> {
        self.graph.holders.get(&actor).copied().filter(|&holder| self.presumed_dead(holder))
    }

    /// The dead turn that a dead wait needs; `None` if the wait is not dead.
    fn needed_by_wait(&self, wait: &Wait) -> Option<TurnId> {
        match wait {
            Wait::Answer(source) => self.needed_by(source.owner()?, NESTING_MAX),
            Wait::Actor(actor) => self.dead_holder(*actor),
        }
    }

    fn needed_by(&self, owner: Owner, nesting: usize) -> Option<TurnId> {
        match follow(owner) {
            Owner::Actor(actor) => self.dead_holder(actor),
            Owner::Turn(turn, actor) => self
                .dead_holder(actor)
                .filter(|&holder| holder != turn)
                .or_else(|| self.presumed_dead(turn).then_some(turn)),
            Owner::All(sources) if nesting > 0 => {
                sources.iter().filter_map(pending).find_map(|owner| self.needed_by(owner, nesting - 1))
            }
            Owner::Any(sources) if nesting > 0 => {
                let needed: Option<Vec<TurnId>> =
                    sources.iter().map(|source| self.needed_by(pending(source)?, nesting - 1)).collect();
                needed?.first().copied()
            }
            _ => None,
        }
    }

    /// The names on the way from the root's dead wait back to the root.
    fn cycle(&self, at: usize) -> Cycle {
        let mut actors: Vec<Identity> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(self.root);
        while let Some(node) = next.filter(|&turn| seen.insert(turn)).and_then(|turn| self.graph.suspended.get(&turn)) {
            let suspension = &node.suspension;
            if actors.last() != Some(&suspension.actor) {
                actors.push(suspension.actor.clone());
            }
            let holder = self.dead_holder(suspension.actor.id()).filter(|&holder| holder != suspension.turn);
            next = if suspension.turn == self.root {
                self.needed_by_wait(&suspension.waits[at])
            } else {
                holder.or_else(|| suspension.waits.iter().find_map(|wait| self.needed_by_wait(wait)))
            };
        }
        if actors.len() > 1 && actors.last() == actors.first() {
            actors.pop();
        }
        Cycle::new(actors)
    }
}
