//! Which waits are dead, in a graph that does not change.
use std::collections::HashSet;

use super::graph::{Locked, NESTING_MAX, follow, pending, turns_behind};
use super::{Owner, Turn, Wait};
use crate::error::Cycle;
use crate::identity::HashById;
use crate::{ActorId, Identity};

/// The rules above, seen from one turn.
pub(super) struct Search<'g> {
    graph: &'g Locked<'g>,
    root: Turn,
    /// Turns found to be able to go on; all others in reach are taken for dead.
    live: HashSet<Turn, HashById>,
}

impl<'g> Search<'g> {
    pub(super) fn new(graph: &'g Locked<'g>, root: Turn) -> Self {
        let mut search = Self { graph, root, live: HashSet::default() };
        let reach = search.reach();
        while let Some(&turn) = reach.iter().find(|&&turn| !search.live.contains(&turn) && !search.turn_is_dead(turn)) {
            search.live.insert(turn);
        }
        search
    }

    /// All suspended turns that the root could be waiting for, over any number of steps.
    fn reach(&self) -> HashSet<Turn, HashById> {
        let mut reach = HashSet::default();
        let mut open = vec![self.root];
        while let Some(turn) = open.pop() {
            if !reach.insert(turn) {
                continue;
            }
            let Some(node) = self.graph.node(turn) else { continue };
            open.extend(self.graph.holder(turn.actor));
            for wait in &node.suspension.waits {
                let owner = match wait {
                    Wait::Answer(source) => source.owner(),
                    Wait::Actor(actor) => Some(Owner::Actor(*actor)),
                };
                if let Some(owner) = owner {
                    turns_behind(owner, &|actor| self.graph.holder(actor), &mut |turn| open.push(turn));
                }
            }
        }
        reach
    }

    fn presumed_dead(&self, turn: Turn) -> bool {
        self.graph.node(turn).is_some() && !self.live.contains(&turn)
    }

    fn turn_is_dead(&self, turn: Turn) -> bool {
        if turn == self.root {
            return true;
        }
        let Some(node) = self.graph.node(turn) else { return false };
        if self.dead_holder(turn.actor).is_some_and(|holder| holder != turn) {
            return true;
        }
        let waits = &node.suspension.waits;
        !node.suspension.opaque
            && !node.is_going_on()
            && !waits.is_empty()
            && waits.iter().all(|wait| self.wait_is_dead(wait))
    }

    pub(super) fn wait_is_dead(&self, wait: &Wait) -> bool {
        self.needed_by_wait(wait).is_some()
    }

    fn dead_holder(&self, actor: ActorId) -> Option<Turn> {
        self.graph.holder(actor).filter(|&holder| self.presumed_dead(holder))
    }

    /// The dead turn that a dead wait needs; `None` if the wait is not dead.
    fn needed_by_wait(&self, wait: &Wait) -> Option<Turn> {
        match wait {
            Wait::Answer(source) => self.needed_by(source.owner()?, NESTING_MAX),
            Wait::Actor(actor) => self.dead_holder(*actor),
        }
    }

    fn needed_by(&self, owner: Owner, nesting: usize) -> Option<Turn> {
        match follow(owner) {
            Owner::Actor(actor) => self.dead_holder(actor),
            Owner::Turn(turn) => self
                .dead_holder(turn.actor)
                .filter(|&holder| holder != turn)
                .or_else(|| self.presumed_dead(turn).then_some(turn)),
            Owner::All(sources) if nesting > 0 => {
                sources.iter().filter_map(pending).find_map(|owner| self.needed_by(owner, nesting - 1))
            }
            Owner::Any(sources) if nesting > 0 => {
                let needed: Option<Vec<Turn>> =
                    sources.iter().map(|source| self.needed_by(pending(source)?, nesting - 1)).collect();
                needed?.first().copied()
            }
            _ => None,
        }
    }

    /// The names on the way from the root's dead wait back to the root.
    pub(super) fn cycle(&self, at: usize) -> Cycle {
        let mut actors: Vec<Identity> = Vec::new();
        let mut seen = HashSet::new();
        let mut next = Some(self.root);
        while let Some((turn, node)) =
            next.filter(|&turn| seen.insert(turn)).and_then(|turn| Some((turn, self.graph.node(turn)?)))
        {
            let suspension = &node.suspension;
            if actors.last() != Some(&suspension.actor) {
                actors.push(suspension.actor.clone());
            }
            let holder = self.dead_holder(turn.actor).filter(|&holder| holder != turn);
            next = if turn == self.root {
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
