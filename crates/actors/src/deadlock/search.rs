//! Which waits are dead, and which turn is to be told, in a graph that does not change.
use std::collections::{HashMap, HashSet};

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

/// A turn that is to be told.
pub(super) struct Finding {
    pub(super) turn: Turn,
    /// Which of its waits is dead.
    pub(super) at: usize,
    pub(super) cycle: Cycle,
}

/// The dead turns that each dead turn needs to go on.
type Needs = HashMap<Turn, Vec<Turn>, HashById>;

/// What `turn` leads to over one or more edges, the nearest first.
fn led_to(turn: Turn, edges: &Needs) -> Vec<Turn> {
    let (mut found, mut known) = (vec![turn], HashSet::<Turn, HashById>::default());
    let mut at = 0;
    while let Some(from) = found.get(at) {
        let next = edges.get(from).into_iter().flatten();
        found.extend(next.filter(|&&next| known.insert(next)));
        at += 1;
    }
    found.split_off(1)
}

fn reversed(edges: &Needs) -> Needs {
    let mut reversed = Needs::default();
    for (&from, next) in edges {
        next.iter().for_each(|&to| reversed.entry(to).or_default().push(from));
    }
    reversed
}

impl<'g> Search<'g> {
    /// The turn to be told, if a wait of `root` is dead and no turn that could end that has been told.
    pub(super) fn find(graph: &'g Locked<'g>, root: Turn) -> Option<Finding> {
        let mut search = Self { graph, root, live: HashSet::default() };
        let reach = search.reach();
        let mut live_before = None;
        while live_before != Some(search.live.len()) {
            live_before = Some(search.live.len());
            // Those found last are mostly what the others need.
            for &turn in reach.iter().rev() {
                if !search.turn_is_dead(turn) {
                    search.live.insert(turn);
                }
            }
        }
        search.dead_wait(root)?;
        let dead = reach.into_iter().filter(|&turn| search.presumed_dead(turn));
        let needs: Needs = dead.map(|turn| (turn, search.needed_by_turn(turn))).collect();
        search.finding(&needs)
    }

    /// All suspended turns that the root could be waiting for, over any number of steps.
    fn reach(&self) -> Vec<Turn> {
        let (mut reach, mut known) = (Vec::new(), HashSet::<Turn, HashById>::default());
        let mut open = vec![self.root];
        while let Some(turn) = open.pop() {
            if !known.insert(turn) {
                continue;
            }
            reach.push(turn);
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
        turn == self.root
            || self.graph.node(turn).is_some() && (self.dead_holder_of(turn).is_some() || self.waits_in_vain(turn))
    }

    /// Whether nothing that wakes the turn can come.
    fn waits_in_vain(&self, turn: Turn) -> bool {
        let Some(node) = self.graph.node(turn) else { return false };
        let waits = &node.suspension.waits;
        !node.suspension.opaque
            && !node.is_going_on()
            && !waits.is_empty()
            && waits.iter().all(|wait| !self.needed_by_wait(wait).is_empty())
    }

    fn dead_holder(&self, actor: ActorId) -> Option<Turn> {
        self.graph.holder(actor).filter(|&holder| self.presumed_dead(holder))
    }

    /// The dead turn that keeps the actor of `turn` from taking anything up, if that is another one.
    fn dead_holder_of(&self, turn: Turn) -> Option<Turn> {
        self.dead_holder(turn.actor).filter(|&holder| holder != turn)
    }

    /// The dead turns that a dead wait needs; none if the wait is not dead.
    fn needed_by_wait(&self, wait: &Wait) -> Vec<Turn> {
        match wait {
            Wait::Answer(source) => source.owner().map_or_else(Vec::new, |owner| self.needed_by(owner, NESTING_MAX)),
            Wait::Actor(actor) => self.dead_holder(*actor).into_iter().collect(),
        }
    }

    fn needed_by(&self, owner: Owner, nesting: usize) -> Vec<Turn> {
        match follow(owner) {
            Owner::Actor(actor) => self.dead_holder(actor).into_iter().collect(),
            Owner::Turn(turn) if self.presumed_dead(turn) => vec![turn],
            Owner::Turn(turn) => self.dead_holder_of(turn).into_iter().collect(),
            Owner::All(sources) if nesting > 0 => {
                sources.iter().filter_map(pending).flat_map(|owner| self.needed_by(owner, nesting - 1)).collect()
            }
            Owner::Any(sources) if nesting > 0 => {
                let needed = sources.iter().map(|source| {
                    let needed = self.needed_by(pending(source)?, nesting - 1);
                    (!needed.is_empty()).then_some(needed)
                });
                needed.collect::<Option<Vec<_>>>().unwrap_or_default().concat()
            }
            _ => Vec::new(),
        }
    }

    /// The dead turns without which a dead turn cannot go on.
    fn needed_by_turn(&self, turn: Turn) -> Vec<Turn> {
        let mut needed: Vec<Turn> = self.dead_holder_of(turn).into_iter().collect();
        if let Some(node) = self.graph.node(turn).filter(|_| turn == self.root || self.waits_in_vain(turn)) {
            needed.extend(node.suspension.waits.iter().flat_map(|wait| self.needed_by_wait(wait)));
        }
        needed
    }

    /// The root, if everything that it needs needs it in turn. Otherwise a turn of a set that it needs and that does not need
    /// it: when that turn goes on, the root may, too.
    fn finding(&self, needs: &Needs) -> Option<Finding> {
        let needed_by = reversed(needs);
        let mut turn = self.root;
        let members = loop {
            let members = led_to(turn, needs);
            let leading_back: HashSet<Turn, HashById> = led_to(turn, &needed_by).into_iter().collect();
            match members.iter().find(|&member| !leading_back.contains(member)) {
                Some(&further) => turn = further,
                None => break members,
            }
        };
        if turn != self.root {
            turn = members.into_iter().find(|&member| self.waits_in_vain(member))?;
        }
        let at = self.dead_wait(turn)?;
        Some(Finding { turn, at, cycle: self.cycle(turn, at, needs) })
    }

    fn dead_wait(&self, turn: Turn) -> Option<usize> {
        self.graph.node(turn)?.suspension.waits.iter().position(|wait| !self.needed_by_wait(wait).is_empty())
    }

    /// The names on a shortest way from a dead wait of `turn` back to `turn`.
    fn cycle(&self, turn: Turn, at: usize, needs: &Needs) -> Cycle {
        let wait = self.graph.node(turn).map(|node| &node.suspension.waits[at]);
        // Each with the place of the one that needs it.
        let mut found: Vec<(Turn, Option<usize>)> =
            wait.into_iter().flat_map(|wait| self.needed_by_wait(wait)).map(|first| (first, None)).collect();
        let mut known: HashSet<Turn, HashById> = found.iter().map(|&(turn, _)| turn).collect();
        let mut at = 0;
        while let Some(&(next, _)) = found.get(at).filter(|&&(next, _)| next != turn) {
            let further = needs.get(&next).into_iter().flatten().filter(|&&further| known.insert(further));
            found.extend(further.map(|&further| (further, Some(at))));
            at += 1;
        }
        let back = std::iter::successors(found.get(at), |&&(_, before)| found.get(before?));
        let mut actors: Vec<Identity> = back.filter_map(|&(turn, _)| self.name(turn)).collect();
        // The last one is `turn`, from which the way begins.
        actors.get_mut(1..).into_iter().for_each(<[Identity]>::reverse);
        // A turn that lets go of its actor may need the one that has it.
        actors.dedup();
        if actors.len() > 1 && actors.first() == actors.last() {
            actors.pop();
        }
        Cycle::new(actors)
    }

    fn name(&self, turn: Turn) -> Option<Identity> {
        self.graph.node(turn).map(|node| node.suspension.actor.clone())
    }
}
