//! Finds the name of what makes a graph cyclic, with a cycle as short as possible.
//!
//! The names are tried from the one that breaks most to the one that breaks least: a cycle of writes alone, of writes
//! and reads, with one missed write, with several, and one that only real time closes. A search in a large component is
//! given up after some work; then the cycle may not be the shortest, and what is called G2 may hold a G-single.

use std::collections::VecDeque;

use crate::components::cyclic_components;
use crate::graph::{Edge, Graph, Kind, Kinds};
use crate::history::History;
use crate::versions::Versions;
use crate::violation::{Anomaly, Cycle, Dependency, Step};

/// How many edges one pass over a component follows.
const WORK_MAX: usize = 100_000_000;

/// The longest cycles that the passes look for: in a large component short ones are found without long paths.
const PASSES: [u32; 4] = [2, 3, 5, u32::MAX];

/// A committed attempt that has overwritten, not at once, what it had read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    pub(crate) attempt: u32,
    /// The version that it missed.
    pub(crate) missed: u32,
    /// The version that it wrote.
    pub(crate) written: u32,
}

/// An edge with its origin.
type Hop = (u32, Edge);

/// The anomaly of a graph, if it has a cycle.
pub(crate) fn anomaly(history: &History, versions: &Versions, graph: &Graph, lost: Option<Lost>) -> Option<Cycle> {
    if cyclic_components(graph, Kinds::ALL).is_empty() {
        return None;
    }
    let cycle = |anomaly, hops: &[Hop]| Some(Cycle { anomaly, steps: steps(history, versions, graph, hops) });
    let named = |anomaly, component: &[u32], first, kinds| {
        let hops = Search::new(graph, kinds, component).shortest_cycle(first)?;
        cycle(anomaly, &hops)
    };
    let certain = |cycle: Option<Cycle>| Some(cycle.expect("an edge within a component lies on a cycle"));
    for (anomaly, kinds) in [(Anomaly::G0, Kinds::WRITES), (Anomaly::G1c, Kinds::INFORMATION)] {
        if let Some(smallest) = cyclic_components(graph, kinds).first() {
            return certain(named(anomaly, smallest, kinds, kinds));
        }
    }
    if let Some(Lost { attempt, missed, written }) = lost {
        let other = versions.all[missed as usize].writer.expect("nobody misses the initial version");
        let anti = Edge { to: other, version: missed, kind: Kind::Anti };
        let write = Edge { to: attempt, version: written, kind: Kind::Write };
        return cycle(Anomaly::LostUpdate, &[(attempt, anti), (other, write)]);
    }
    let components = cyclic_components(graph, Kinds::DEPENDENCIES);
    let mut skews = components.iter();
    if let Some(skew) = skews.find_map(|it| named(Anomaly::GSingle, it, Kinds::ANTI, Kinds::INFORMATION)) {
        return Some(skew);
    }
    if let Some(smallest) = components.first() {
        return certain(named(Anomaly::G2Item, smallest, Kinds::ANTI, Kinds::DEPENDENCIES));
    }
    let smallest = &cyclic_components(graph, Kinds::ALL)[0];
    match against_time(history, graph, smallest) {
        Some(hops) => cycle(Anomaly::RealTime, &hops),
        None => certain(named(Anomaly::RealTime, smallest, Kinds::REAL_TIME, Kinds::ALL)),
    }
}

/// An attempt that must precede one that had ended before: the shortest cycle that real time closes, found without a
/// walk through the moments in between.
fn against_time(history: &History, graph: &Graph, component: &[u32]) -> Option<[Hop; 2]> {
    let attempts = component.iter().filter(|&&node| graph.is_attempt(node));
    let hops = attempts.flat_map(|&from| graph.edges(from).iter().map(move |&edge| (from, edge)));
    let mut dependencies = hops.filter(|(_, edge)| Kinds::DEPENDENCIES.contains(edge.kind));
    let is_against_time = |(from, edge): &Hop| {
        let [first, second] = [edge.to, *from].map(|node| history.attempt(node as usize));
        first.end < second.begin
    };
    let (later, edge) = dependencies.find(is_against_time)?;
    let real_time = Edge { to: later, version: u32::MAX, kind: Kind::RealTime };
    Some([(edge.to, real_time), (later, edge)])
}

/// Shortest paths of edges of some kinds within one component; their length is the number of attempts that they leave.
struct Search<'a> {
    graph: &'a Graph,
    kinds: Kinds,
    component: &'a [u32],
    is_member: Vec<bool>,
    distance: Vec<u32>,
    arrival: Vec<Option<Hop>>,
    touched: Vec<u32>,
    queue: VecDeque<u32>,
    work: usize,
}

impl<'a> Search<'a> {
    fn new(graph: &'a Graph, kinds: Kinds, component: &'a [u32]) -> Self {
        let count = graph.node_count();
        let mut is_member = vec![false; count];
        component.iter().for_each(|&node| is_member[node as usize] = true);
        Self {
            graph,
            kinds,
            component,
            is_member,
            distance: vec![u32::MAX; count],
            arrival: vec![None; count],
            touched: Vec::new(),
            queue: VecDeque::new(),
            work: 0,
        }
    }

    /// The shortest cycle whose first edge is one of these, out of an attempt, and whose others are of the search.
    fn shortest_cycle(&mut self, first: Kinds) -> Option<Vec<Hop>> {
        PASSES.into_iter().find_map(|longest| self.cycle_up_to(longest, first))
    }

    fn cycle_up_to(&mut self, longest: u32, first: Kinds) -> Option<Vec<Hop>> {
        let graph = self.graph;
        let attempts = self.component.iter().filter(|&&node| graph.is_attempt(node));
        let hops = attempts.flat_map(|&from| graph.edges(from).iter().map(move |&edge| (from, edge)));
        let (mut best, mut limit) = (None, longest);
        self.work = 0;
        for (from, edge) in hops.filter(|(_, edge)| first.contains(edge.kind)) {
            if self.is_member[edge.to as usize]
                && let Some((length, mut path)) = self.path(edge.to, from, limit)
            {
                path.insert(0, (from, edge));
                // The next one has to be shorter.
                (best, limit) = (Some(path), length);
            }
            if self.work > WORK_MAX {
                break;
            }
        }
        best
    }

    /// The shortest path from `start` to another node that is shorter than `limit`, and its length.
    fn path(&mut self, start: u32, goal: u32, limit: u32) -> Option<(u32, Vec<Hop>)> {
        let mut best: Option<(u32, Hop)> = None;
        self.reach(start, 0, None);
        self.queue.push_back(start);
        while let Some(node) = self.queue.pop_front() {
            let is_attempt = self.graph.is_attempt(node);
            let length = self.distance[node as usize] + u32::from(is_attempt);
            if length >= best.map_or(limit, |(length, _)| length) {
                continue;
            }
            for &edge in self.graph.edges(node) {
                self.work += 1;
                if !self.kinds.contains(edge.kind) || !self.is_member[edge.to as usize] {
                    continue;
                }
                if edge.to == goal {
                    best = Some((length, (node, edge)));
                    break;
                }
                if length < self.distance[edge.to as usize] {
                    self.reach(edge.to, length, Some((node, edge)));
                    // What costs nothing is as near as what is under way: the queue stays in the order of distance.
                    if is_attempt { self.queue.push_back(edge.to) } else { self.queue.push_front(edge.to) }
                }
            }
        }
        let found = best.map(|(length, last)| (length, self.walk_back(last)));
        for node in self.touched.drain(..) {
            (self.distance[node as usize], self.arrival[node as usize]) = (u32::MAX, None);
        }
        found
    }

    fn reach(&mut self, node: u32, distance: u32, arrival: Option<Hop>) {
        (self.distance[node as usize], self.arrival[node as usize]) = (distance, arrival);
        self.touched.push(node);
    }

    fn walk_back(&self, last: Hop) -> Vec<Hop> {
        let mut hops = vec![last];
        while let Some(hop) = self.arrival[hops[hops.len() - 1].0 as usize] {
            hops.push(hop);
        }
        hops.reverse();
        hops
    }
}

/// What a cycle of edges says about attempts; moments between two of them become one step.
fn steps(history: &History, versions: &Versions, graph: &Graph, hops: &[Hop]) -> Vec<Step> {
    let mut attempts: Vec<Hop> = hops.iter().filter(|(from, _)| graph.is_attempt(*from)).copied().collect();
    let first = (0..attempts.len()).min_by_key(|&at| attempts[at].0).expect("a cycle has an attempt");
    attempts.rotate_left(first);
    let next = attempts.iter().cycle().skip(1).map(|(from, _)| *from);
    attempts
        .iter()
        .zip(next)
        .map(|(&(from, edge), to)| Step {
            from: history.id(from as usize),
            is_committed: history.attempt(from as usize).is_committed,
            dependency: dependency(versions, from, edge),
            to: history.id(to as usize),
        })
        .collect()
}

fn dependency(versions: &Versions, from: u32, edge: Edge) -> Dependency {
    if edge.kind == Kind::RealTime {
        return Dependency::RealTime;
    }
    let all = &versions.all;
    let (variable, token) = (all[edge.version as usize].variable, all[edge.version as usize].token);
    let before = || all[edge.version as usize - 1].token;
    match edge.kind {
        Kind::Read => Dependency::Read { variable, token },
        Kind::Anti => Dependency::Anti { variable, before: before(), after: token },
        Kind::Write | Kind::RealTime => {
            let versions = all[..edge.version as usize].iter().rev();
            let mut own = versions.filter(|version| version.writer == Some(from));
            let own = own.find(|version| version.variable == variable).expect("it wrote an earlier version");
            Dependency::Write { variable, before: own.token, after: token }
        }
    }
}
