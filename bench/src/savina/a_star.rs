//! A-star search: workers explore a graph, and the most urgent node first; a message to stop overtakes all.
//!
//! The published program has no heuristic: it is a guided search in breadth. The first actor to claim a node is its parent.
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use enact::{Cx, actor};
use enact_workloads::savina::{Java48, spin};

use super::oracle::{Wrong, holds, within};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Report, Stage, Variant, Verified, reports};

/// The work at each node, in random numbers drawn.
const WORK: u64 = 100;

parameters! {
    /// A-star search.
    AStar {
        /// How many workers there are.
        workers: usize = 20,
        /// How many nodes a side of the graph's cube has.
        side: u32 = 30,
        /// The lowest priority.
        priorities: u16 = 30,
        /// How many nodes are explored before the others are passed on.
        threshold: usize = 1_024,
    }
}

type Node = u32;

const ORIGIN: Node = 0;

/// A directed graph whose nodes lie in a cube.
struct Graph {
    side: u32,
    neighbours: Vec<Vec<Node>>,
}

impl Graph {
    fn new(side: u32) -> Self {
        let mut graph = Self { side, neighbours: Vec::new() };
        let mut draws = Java48::new(123_456);
        for node in 0..side.pow(3) {
            let neighbours = graph.draw(node, &mut draws);
            graph.neighbours.push(neighbours);
        }
        graph
    }

    fn draw(&self, node: Node, draws: &mut Java48) -> Vec<Node> {
        let mut neighbours = Vec::new();
        let coordinates = self.coordinates(node);
        // Numbered 1 to 8 in lexicographic order of the offset; the first and the last are left out.
        for number in 2..8 {
            let bits = number - 1;
            let offset = [bits >> 2 & 1, bits >> 1 & 1, bits & 1];
            let taken = (number == 7 && neighbours.is_empty()) || draws.bool();
            let near = [0, 1, 2].map(|axis: usize| (coordinates[axis] + offset[axis]).min(self.side - 1));
            let near = self.node(near);
            if taken && near != node && !neighbours.contains(&near) {
                neighbours.push(near);
            }
        }
        neighbours
    }

    fn node(&self, [i, j, k]: [u32; 3]) -> Node {
        (i * self.side + j) * self.side + k
    }

    fn coordinates(&self, node: Node) -> [u32; 3] {
        [node / (self.side * self.side), node / self.side % self.side, node % self.side]
    }

    fn target(&self) -> Node {
        self.node([self.target_coordinate(); 3])
    }

    fn target_coordinate(&self) -> u32 {
        self.side * 4 / 5
    }

    /// The fewest edges from the origin to each node.
    fn hops(&self) -> Vec<Option<u64>> {
        let mut hops = vec![None; self.neighbours.len()];
        hops[ORIGIN as usize] = Some(0);
        let mut queue = VecDeque::from([(ORIGIN, 0)]);
        while let Some((node, far)) = queue.pop_front() {
            for &near in &self.neighbours[node as usize] {
                if hops[near as usize].is_none() {
                    hops[near as usize] = Some(far + 1);
                    queue.push_back((near, far + 1));
                }
            }
        }
        hops
    }
}

/// The actor that has claimed each node.
struct Parents(Vec<AtomicU32>);

const NOBODY: Node = Node::MAX;

impl Parents {
    fn new(nodes: usize) -> Self {
        Self((0..nodes).map(|_| AtomicU32::new(NOBODY)).collect())
    }

    /// Whether `node` had no parent before.
    fn claim(&self, node: Node, parent: Node) -> bool {
        // Relaxed: nothing else is published by a claim; what is to be explored travels in messages.
        self.0[node as usize].compare_exchange(NOBODY, parent, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    fn of(&self, node: Node) -> Option<Node> {
        Some(self.0[node as usize].load(Ordering::Relaxed)).filter(|&parent| parent != NOBODY)
    }

    /// The way back from `node` to the origin, both included; `None` if it is longer than `edges_max` or breaks off.
    fn way_back(&self, node: Node, edges_max: u64) -> Option<Vec<Node>> {
        let mut way = vec![node];
        let mut at = node;
        while at != ORIGIN {
            at = self.of(at)?;
            way.push(at);
            if way.len() as u64 > edges_max + 1 {
                return None;
            }
        }
        Some(way)
    }
}

struct Master {
    workers: Vec<WorkerRef>,
    priorities: u16,
    graph: Arc<Graph>,
    sent: usize,
    received: usize,
    is_stopping: bool,
    confirmed: usize,
    report: Report<usize>,
    _presence: Presence,
}

#[actor]
impl Master {
    fn work(&mut self, cx: &Cx<Self>, node: Node) {
        let worker = &self.workers[self.sent % self.workers.len()];
        worker.tell().work(priority(&self.graph, self.priorities, node), node, cx.handle());
        self.sent += 1;
    }

    fn received(&mut self, cx: &Cx<Self>) {
        self.received += 1;
        if self.received == self.sent {
            self.stop_workers(cx);
        }
    }

    fn found(&mut self, cx: &Cx<Self>) {
        self.stop_workers(cx);
    }

    fn confirm(&mut self, cx: &Cx<Self>) {
        self.confirmed += 1;
        if self.confirmed == self.workers.len() {
            self.report.give(self.sent);
            cx.stop();
        }
    }
}

impl Master {
    fn stop_workers(&mut self, cx: &Cx<Self>) {
        if !std::mem::replace(&mut self.is_stopping, true) {
            self.workers.iter().for_each(|worker| drop(worker.tell().exit(cx.handle())));
        }
    }
}

/// Nodes far from the target's corner come first.
fn priority(graph: &Graph, priorities: u16, node: Node) -> i32 {
    let farthest = graph.coordinates(node).map(|coordinate| graph.side - coordinate).into_iter().max();
    -(i32::from(priorities) - (farthest.unwrap_or(0) / 8) as i32).abs()
}

struct Worker {
    graph: Arc<Graph>,
    parents: Arc<Parents>,
    threshold: usize,
    _presence: Presence,
}

#[actor]
impl Worker {
    #[priority(*priority)]
    fn work(&mut self, priority: i32, node: Node, master: MasterRef) {
        self.search(node, &master);
        master.tell().received();
    }

    /// Comes first: no node has a priority above 0.
    fn exit(&mut self, cx: &Cx<Self>, master: MasterRef) {
        master.tell().confirm();
        cx.stop();
    }
}

impl Worker {
    fn search(&self, from: Node, master: &MasterRef) {
        let target = self.graph.target();
        let mut queue = VecDeque::from([from]);
        for _ in 0..self.threshold {
            let Some(node) = queue.pop_front() else { return };
            spin(WORK);
            for &near in &self.graph.neighbours[node as usize] {
                if !self.parents.claim(near, node) {
                    continue;
                }
                if near == target {
                    master.tell().found();
                    return;
                }
                queue.push_back(near);
            }
        }
        queue.into_iter().for_each(|node| drop(master.tell().work(node)));
    }
}

pub(super) struct Prepared {
    graph: Arc<Graph>,
    hops: Option<u64>,
}

pub(super) struct Found {
    works: Option<usize>,
    parents: Arc<Parents>,
}

impl Program for AStar {
    const NAME: &'static str = "astar";
    const TITLE: &'static str = "A-Star Search";
    type Prepared = Prepared;
    type Found = Found;

    fn refuse(&self) -> Option<&'static str> {
        let possible = self.workers > 0 && self.threshold > 0 && (2..=1_000).contains(&self.side);
        if !possible {
            return Some("there is a worker, a node to explore, and the side has 2 to 1000 nodes");
        }
        let graph = Graph::new(self.side);
        graph.hops()[graph.target() as usize].is_none().then_some("the target can be reached")
    }

    fn prepare(&self, _variant: Variant) -> Prepared {
        let graph = Graph::new(self.side);
        let hops = graph.hops()[graph.target() as usize];
        Prepared { graph: Arc::new(graph), hops }
    }

    fn start(&self, Prepared { graph, .. }: &Prepared, stage: &Stage) -> Findings<Found> {
        let (report, reported) = reports();
        let parents = Arc::new(Parents::new(graph.neighbours.len()));
        let worker = |_| {
            stage.spawn(Worker {
                graph: Arc::clone(graph),
                parents: Arc::clone(&parents),
                threshold: self.threshold,
                _presence: stage.presence(),
            })
        };
        let master = Master {
            workers: (0..self.workers).map(worker).collect(),
            priorities: self.priorities,
            graph: Arc::clone(graph),
            sent: 0,
            received: 0,
            is_stopping: false,
            confirmed: 0,
            report,
            _presence: stage.presence(),
        };
        stage.spawn(master).tell().work(ORIGIN);
        Box::new(move || Found { works: reported.only(), parents })
    }

    fn verify(&self, Prepared { graph, hops }: &Prepared, found: &Found) -> Result<Verified, Wrong> {
        let edges_max = 3 * u64::from(graph.target_coordinate());
        let way = found.parents.way_back(graph.target(), edges_max).unwrap_or_default();
        let edges = (way.len() as u64).saturating_sub(1);
        within("edges from the origin to the target", edges, hops.unwrap_or(edges_max), edges_max)?;
        let is_edge = |pair: &[Node]| graph.neighbours[pair[1] as usize].contains(&pair[0]);
        holds("each node was reached along an edge", way.windows(2).all(is_edge))?;
        holds("the master has ended", found.works.is_some())?;
        let works = found.works.unwrap_or(0) as u64;
        let claimed = found.parents.0.iter().filter(|parent| parent.load(Ordering::Relaxed) != NOBODY).count();
        let messages = 3 * works + 2 * self.workers as u64;
        Ok(Verified::after(messages).with_fact("claimed", claimed as u64))
    }
}

#[cfg(test)]
mod tests {
    use enact_workloads::savina::poly31;

    use super::*;

    #[test]
    fn graph_is_the_published_one() {
        let graph = Graph::new(30);
        assert_eq!((&graph.neighbours[0][..], &graph.neighbours[1][..]), (&[30, 31][..], &[2, 901, 902][..]));
        let degrees = (0..7).map(|degree| graph.neighbours.iter().filter(|near| near.len() == degree).count());
        assert_eq!(degrees.collect::<Vec<_>>(), [3, 3_395, 6_925, 8_290, 5_739, 2_247, 401]);
        assert_eq!(graph.neighbours.iter().map(Vec::len).sum::<usize>(), 78_712);
        assert_eq!(poly31(graph.neighbours.iter().flatten().map(|&node| i64::from(node))), 4_001_574_452_303_203_222);
        let hops = graph.hops();
        assert_eq!((graph.target(), hops[graph.target() as usize]), (22_344, Some(36)));
        assert_eq!(hops.iter().flatten().count(), 20_515);
    }

    #[test]
    fn a_way_that_breaks_off_goes_in_circles_or_jumps_is_refused() {
        let program = AStar { side: 5, ..AStar::default() };
        let prepared = program.prepare(Variant::Port);
        let graph = &prepared.graph;
        let explored = || {
            let parents = Parents::new(graph.neighbours.len());
            let mut queue = VecDeque::from([ORIGIN]);
            while let Some(node) = queue.pop_front() {
                queue.extend(graph.neighbours[node as usize].iter().filter(|&&near| parents.claim(near, node)));
            }
            parents
        };
        let verdict = |parents| {
            let found = Found { works: Some(1), parents: Arc::new(parents) };
            program.verify(&prepared, &found).is_ok()
        };
        assert!(verdict(explored()));
        let target = graph.target() as usize;
        for wrong in [NOBODY, graph.target(), ORIGIN] {
            let parents = explored();
            parents.0[target].store(wrong, Ordering::Relaxed);
            assert!(!verdict(parents), "{wrong}");
        }
    }
}
