//! Strongly connected components, by Tarjan's algorithm with a stack of its own: a history may be one long path.

use crate::graph::{Graph, Kinds};

const UNSEEN: u32 = u32::MAX;

/// A node under way, and how many of its edges have been followed.
struct Frame {
    node: u32,
    followed: usize,
}

struct Search<'a> {
    graph: &'a Graph,
    kinds: Kinds,
    /// The order in which nodes were first seen.
    order: Vec<u32>,
    /// The least order that is reachable within the component.
    low: Vec<u32>,
    seen_count: u32,
    frames: Vec<Frame>,
    /// What is seen and belongs to no component yet.
    pending: Vec<u32>,
    is_pending: Vec<bool>,
    cyclic: Vec<Vec<u32>>,
}

/// The components of more than one node that edges of these kinds make, the smallest first.
pub(crate) fn cyclic_components(graph: &Graph, kinds: Kinds) -> Vec<Vec<u32>> {
    let count = graph.node_count();
    let mut search = Search {
        graph,
        kinds,
        order: vec![UNSEEN; count],
        low: vec![UNSEEN; count],
        seen_count: 0,
        frames: Vec::new(),
        pending: Vec::new(),
        is_pending: vec![false; count],
        cyclic: Vec::new(),
    };
    for root in 0..u32::try_from(count).expect("fewer than 2^32 nodes") {
        if search.order[root as usize] == UNSEEN {
            search.enter(root);
            while !search.frames.is_empty() {
                search.step();
            }
        }
    }
    search.cyclic.sort_by_key(|component| (component.len(), component[0]));
    search.cyclic
}

impl Search<'_> {
    fn enter(&mut self, node: u32) {
        let at = node as usize;
        (self.order[at], self.low[at], self.is_pending[at]) = (self.seen_count, self.seen_count, true);
        self.seen_count += 1;
        self.pending.push(node);
        self.frames.push(Frame { node, followed: 0 });
    }

    /// Follows one edge of the last frame, or leaves it.
    fn step(&mut self) {
        let frame = self.frames.last_mut().expect("there is one");
        let from = frame.node;
        let Some(edge) = self.graph.edges(from).get(frame.followed) else { return self.leave() };
        frame.followed += 1;
        if !self.kinds.contains(edge.kind) {
            return;
        }
        if self.order[edge.to as usize] == UNSEEN {
            self.enter(edge.to);
        } else if self.is_pending[edge.to as usize] {
            let low = &mut self.low[from as usize];
            *low = (*low).min(self.order[edge.to as usize]);
        }
    }

    fn leave(&mut self) {
        let Frame { node, .. } = self.frames.pop().expect("there is one");
        let low = self.low[node as usize];
        if let Some(parent) = self.frames.last() {
            let of_parent = &mut self.low[parent.node as usize];
            *of_parent = (*of_parent).min(low);
        }
        if low != self.order[node as usize] {
            return;
        }
        let first = self.pending.iter().rposition(|&other| other == node).expect("it is pending");
        let mut component = self.pending.split_off(first);
        component.iter().for_each(|&member| self.is_pending[member as usize] = false);
        if component.len() > 1 {
            component.sort_unstable();
            self.cyclic.push(component);
        }
    }
}
