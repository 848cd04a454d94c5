//! Unbalanced cobwebbed tree: nodes ask the root whether to grow, until the tree is full; then it is traversed and
//! ends.
//!
//! The published work of a node is an empty loop that its compiler takes out, so `port` does none; the strict variant
//! counts. A node that is granted an urgent child is told so in the published programs, which nobody looks at.
use enact::{Actor, Cx, actor};
use enact_workloads::savina::{Answer, Growth, Shape, count_up};
use serde::Deserialize;

use super::oracle::{Wrong, equal, holds};
use super::parameters::parameters;
use super::program::{Findings, Presence, Program, Reader, Report, Stage, Variant, Verified, read, reports};

/// How much more work it is to ask than to be traversed.
const ASKING_WORK: u64 = 100;

parameters! {
    /// Unbalanced cobwebbed tree.
    CobwebbedTree {
        /// How many nodes there are at most.
        nodes: u64 = 200_000,
        /// The mean of the nodes' work.
        mean: f64 = 500.0,
        /// The standard deviation of the nodes' work.
        deviation: f64 = 100.0,
        /// How many children a node has.
        children: u64 = 10,
        /// The share of urgent children, of a hundred.
        urgent: i32 = 50,
    }
}

struct Root {
    growth: Growth,
    totals: Totals,
    children: Vec<NodeRef>,
    works: bool,
    traversed: Report<(u64, u64)>,
    report: Report<Totals>,
    presence: Presence,
}

/// What the root has seen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(super) struct Totals {
    size: u64,
    /// Depends on the order of the questions.
    height: u64,
    answers: u64,
    grants: u64,
    urgent: u64,
}

impl Totals {
    /// Takes down an answer to a node of this height. Returns whether the tree still grows.
    fn note(&mut self, answer: &Answer, height: u64) -> bool {
        match answer {
            Answer::Full => return false,
            Answer::Denied => self.height = self.height.max(height),
            Answer::Granted { urgent, .. } => {
                self.grants += 1;
                self.urgent += u64::from(*urgent);
                self.height = self.height.max(height + 1);
            }
        }
        self.answers += 1;
        true
    }
}

#[actor]
impl Root {
    fn start(&mut self, cx: &Cx<Self>) {
        let (first_id, work) = self.growth.family();
        self.totals.height = 2;
        let soil = Soil {
            root: cx.handle(),
            children: self.growth.children(),
            works: self.works,
            traversed: self.traversed.clone(),
        };
        self.children = soil.family(&Parent::Root(cx.handle()), &self.presence, Family { first_id, work, height: 2 });
    }

    fn request(&mut self, cx: &Cx<Self>, node: NodeRef, height: u64) {
        let answer = self.growth.answer();
        if let Answer::Granted { first_id, work, .. } = answer {
            node.tell().grow(first_id, work);
        }
        if self.totals.note(&answer, height) {
            return;
        }
        self.children.iter().for_each(|child| drop(child.tell().traverse()));
        self.children.iter().for_each(|child| drop(child.tell().terminate()));
        self.report.give(Totals { size: self.growth.size(), ..self.totals });
        cx.stop();
    }

    fn child_has_grown(&self, _child: u64) {}
}

/// What all nodes of a tree have in common.
#[derive(Clone)]
struct Soil {
    root: RootRef,
    /// How many children a node has.
    children: u64,
    /// Whether nodes work.
    works: bool,
    traversed: Report<(u64, u64)>,
}

/// The children of one node.
#[derive(Clone, Copy)]
struct Family {
    first_id: u64,
    work: u64,
    height: u64,
}

impl Soil {
    /// Makes a family, each of which asks whether to grow.
    fn family(&self, parent: &Parent, presence: &Presence, family: Family) -> Vec<NodeRef> {
        let ids = family.first_id..family.first_id + self.children;
        let child = |id| {
            let (soil, parent, presence) = (self.clone(), parent.clone(), presence.clone());
            Node { id, work: family.work, height: family.height, children: Vec::new(), parent, soil, presence }.spawn()
        };
        let children: Vec<_> = ids.map(child).collect();
        children.iter().for_each(|child| drop(child.tell().attempt()));
        children
    }
}

#[derive(Clone)]
enum Parent {
    Root(RootRef),
    Node(NodeRef),
}

struct Node {
    id: u64,
    work: u64,
    height: u64,
    children: Vec<NodeRef>,
    parent: Parent,
    soil: Soil,
    presence: Presence,
}

#[actor]
impl Node {
    fn attempt(&mut self, cx: &Cx<Self>) {
        if self.soil.works {
            count_up(ASKING_WORK * self.work);
        }
        self.soil.root.tell().request(cx.handle(), self.height);
    }

    fn grow(&mut self, cx: &Cx<Self>, first_id: u64, work: u64) {
        let place = self.id % self.soil.children;
        match &self.parent {
            Parent::Root(root) => root.tell().child_has_grown(place),
            Parent::Node(node) => node.tell().child_has_grown(place),
        };
        let family = Family { first_id, work, height: self.height + 1 };
        self.children = self.soil.family(&Parent::Node(cx.handle()), &self.presence, family);
    }

    fn child_has_grown(&self, _child: u64) {}

    fn traverse(&mut self) {
        if self.soil.works {
            count_up(self.work);
        }
        self.soil.traversed.give((self.id, self.work));
        self.children.iter().for_each(|child| drop(child.tell().traverse()));
    }

    fn terminate(&mut self, cx: &Cx<Self>) {
        self.children.iter().for_each(|child| drop(child.tell().terminate()));
        cx.stop();
    }
}

pub(super) struct Prepared {
    works: bool,
    tree: Tree,
}

/// What does not depend on the order of the questions.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tree {
    totals: Totals,
    /// The work of all nodes.
    work: u64,
    first_work: u64,
}

#[derive(Deserialize)]
pub(super) struct Found {
    totals: Option<Totals>,
    /// Number and work of each node that was traversed.
    traversed: Vec<(u64, u64)>,
}

impl CobwebbedTree {
    fn shape(&self) -> Shape {
        let Self { nodes, mean, deviation, children, urgent } = *self;
        Shape { nodes, mean, deviation, children, urgent }
    }

    /// The tree, asked about node by node in order of their numbers; `None` if it stops growing before it is full.
    fn tree(&self) -> Option<Tree> {
        let mut growth = Growth::new(self.shape());
        let (_, first_work) = growth.family();
        let (mut totals, mut work, mut unasked) = (Totals::default(), first_work * self.children, self.children);
        loop {
            unasked = unasked.checked_sub(1)?;
            let answer = growth.answer();
            if !totals.note(&answer, 0) {
                return Some(Tree { totals: Totals { size: growth.size(), height: 0, ..totals }, work, first_work });
            }
            if let Answer::Granted { work: each, .. } = answer {
                work += each * self.children;
                unasked += self.children;
            }
        }
    }
}

impl Program for CobwebbedTree {
    const NAME: &'static str = "uct";
    const TITLE: &'static str = "Unbalanced Cobwebbed Tree";
    const SIZE: Option<&'static str> = Some("nodes");
    const VARIANTS: &'static [Variant] = &[Variant::Port, Variant::Strict];
    type Prepared = Prepared;
    type Found = Found;
    const OF_PEERS: Option<Reader<Self::Found>> = Some(read);

    fn refuse(&self) -> Option<&'static str> {
        if self.children == 0 || self.nodes <= self.children {
            return Some("there is room for the root and its children");
        }
        self.tree().is_none().then_some("the tree grows until it is full")
    }

    fn prepare(&self, variant: Variant) -> Prepared {
        let tree = self.tree().expect("refused otherwise");
        Prepared { works: variant == Variant::Strict, tree }
    }

    fn start(&self, prepared: &Prepared, stage: &Stage) -> Findings<Found> {
        let ((report, reported), (traversed, traversals)) = (reports(), reports());
        let root = Root {
            growth: Growth::new(self.shape()),
            totals: Totals::default(),
            children: Vec::new(),
            works: prepared.works,
            traversed,
            report,
            presence: stage.presence(),
        };
        stage.spawn(root).tell().start();
        Box::new(move || Found { totals: reported.only(), traversed: traversals.sorted() })
    }

    fn verify(&self, Prepared { tree, .. }: &Prepared, found: &Found) -> Result<Verified, Wrong> {
        let totals = found.totals.map(|totals| Totals { height: 0, ..totals });
        equal("what the root has seen", totals, Some(tree.totals))?;
        let ids = found.traversed.iter().map(|(id, _)| *id);
        holds("each node was traversed once", ids.eq(1..tree.totals.size))?;
        equal("work of all nodes", found.traversed.iter().map(|(_, work)| work).sum(), tree.work)?;
        let Totals { size, answers, grants, .. } = tree.totals;
        let messages = 3 * (size - 1) + answers + 1 + 2 * grants + 1;
        let height = found.totals.map_or(0, |totals| totals.height);
        Ok(Verified::after(messages).with_fact("height", height))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_has_the_published_result() {
        let tree = CobwebbedTree::default().tree().expect("it grows");
        // The request that finds the tree full is the 39 937th.
        let totals = Totals { size: 199_991, height: 0, answers: 39_936, grants: 19_998, urgent: 10_203 };
        assert_eq!(tree, Tree { totals, work: 99_856_000, first_work: 528 });
    }

    #[test]
    fn a_node_that_was_traversed_twice_or_not_at_all_is_refused() {
        let program = CobwebbedTree { nodes: 100, ..CobwebbedTree::default() };
        let prepared = program.prepare(Variant::Port);
        let nodes = prepared.tree.totals.size - 1;
        let traversed = |ids: &mut dyn Iterator<Item = u64>| {
            let mut traversed: Vec<_> = ids.map(|id| (id, 0)).collect();
            traversed[0].1 = prepared.tree.work;
            Found { totals: Some(prepared.tree.totals), traversed }
        };
        assert!(program.verify(&prepared, &traversed(&mut (1..=nodes))).is_ok());
        assert!(program.verify(&prepared, &traversed(&mut (1..nodes))).is_err());
        assert!(program.verify(&prepared, &traversed(&mut (1..nodes).chain([nodes - 1]))).is_err());
    }
}
