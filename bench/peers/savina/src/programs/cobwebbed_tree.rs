//! Unbalanced cobwebbed tree, without work of its nodes.
use std::ops::ControlFlow;

use enact_workloads::savina::{Answer, Growth, Shape};
use serde::{Deserialize, Serialize};

use crate::stage::{Behaviour, Findings, Library, NEXT, Program, Report, STOP, Stage, reports};

#[derive(Deserialize)]
pub(super) struct CobwebbedTree {
    nodes: u64,
    mean: f64,
    deviation: f64,
    children: u64,
    urgent: i32,
}

struct Root<L: Library> {
    growth: Growth,
    totals: Totals,
    children: Vec<L::Ref<Node<L>>>,
    traversed: Report<(u64, u64)>,
    report: Report<Totals>,
    stage: Stage<L>,
}

/// What the root has seen.
#[derive(Clone, Copy, Default, Serialize)]
pub(super) struct Totals {
    size: u64,
    height: u64,
    answers: u64,
    grants: u64,
    urgent: u64,
}

enum ToRoot<L: Library> {
    Start,
    Request(L::Ref<Node<L>>, u64),
    ChildHasGrown,
}

impl<L: Library> Behaviour<L> for Root<L> {
    type Message = ToRoot<L>;

    fn handle(&mut self, message: ToRoot<L>, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToRoot::Start => {
                let (first_id, work) = self.growth.family();
                self.totals.height = 2;
                let children = self.growth.children();
                let (traversed, stage) = (self.traversed.clone(), self.stage.clone());
                let soil = Soil { root: me(), children, traversed, stage };
                self.children = soil.family(&Parent::Root(me()), Family { first_id, work, height: 2 });
            }
            ToRoot::Request(node, height) => return self.request(&node, height),
            ToRoot::ChildHasGrown => {}
        }
        NEXT
    }
}

impl<L: Library> Root<L> {
    fn request(&mut self, node: &L::Ref<Node<L>>, height: u64) -> ControlFlow<()> {
        match self.growth.answer() {
            Answer::Full => {
                self.children.iter().for_each(|child| L::tell(child, ToNode::Traverse));
                self.children.iter().for_each(|child| L::tell(child, ToNode::Terminate));
                self.report.give(Totals { size: self.growth.size(), ..self.totals });
                return STOP;
            }
            Answer::Denied => self.totals.height = self.totals.height.max(height),
            Answer::Granted { first_id, work, urgent } => {
                self.totals.grants += 1;
                self.totals.urgent += u64::from(urgent);
                self.totals.height = self.totals.height.max(height + 1);
                L::tell(node, ToNode::Grow { first_id, work });
            }
        }
        self.totals.answers += 1;
        NEXT
    }
}

/// What all nodes of a tree have in common.
#[derive(Clone)]
struct Soil<L: Library> {
    root: L::Ref<Root<L>>,
    /// How many children a node has.
    children: u64,
    traversed: Report<(u64, u64)>,
    stage: Stage<L>,
}

/// The children of one node.
#[derive(Clone, Copy)]
struct Family {
    first_id: u64,
    work: u64,
    height: u64,
}

impl<L: Library> Soil<L> {
    /// Makes a family, each of which asks whether to grow.
    fn family(&self, parent: &Parent<L>, Family { first_id, work, height }: Family) -> Vec<L::Ref<Node<L>>> {
        let child = |id| {
            let (soil, parent) = (self.clone(), parent.clone());
            self.stage.spawn_in_turn(Node { id, work, height, children: Vec::new(), parent, soil })
        };
        let children: Vec<_> = (first_id..first_id + self.children).map(child).collect();
        children.iter().for_each(|child| L::tell(child, ToNode::Attempt));
        children
    }
}

#[derive(Clone)]
enum Parent<L: Library> {
    Root(L::Ref<Root<L>>),
    Node(L::Ref<Node<L>>),
}

struct Node<L: Library> {
    id: u64,
    work: u64,
    height: u64,
    children: Vec<L::Ref<Node<L>>>,
    parent: Parent<L>,
    soil: Soil<L>,
}

enum ToNode {
    Attempt,
    Grow { first_id: u64, work: u64 },
    ChildHasGrown,
    Traverse,
    Terminate,
}

impl<L: Library> Behaviour<L> for Node<L> {
    type Message = ToNode;

    fn handle(&mut self, message: ToNode, me: impl Fn() -> L::Ref<Self>) -> ControlFlow<()> {
        match message {
            ToNode::Attempt => L::tell(&self.soil.root, ToRoot::Request(me(), self.height)),
            ToNode::Grow { first_id, work } => {
                match &self.parent {
                    Parent::Root(root) => L::tell(root, ToRoot::ChildHasGrown),
                    Parent::Node(node) => L::tell(node, ToNode::ChildHasGrown),
                }
                let family = Family { first_id, work, height: self.height + 1 };
                self.children = self.soil.family(&Parent::Node(me()), family);
            }
            ToNode::ChildHasGrown => {}
            ToNode::Traverse => {
                self.soil.traversed.give((self.id, self.work));
                self.children.iter().for_each(|child| L::tell(child, ToNode::Traverse));
            }
            ToNode::Terminate => {
                self.children.iter().for_each(|child| L::tell(child, ToNode::Terminate));
                return STOP;
            }
        }
        NEXT
    }
}

#[derive(Serialize)]
pub(super) struct Found {
    totals: Option<Totals>,
    /// Number and work of each node that was traversed.
    traversed: Vec<(u64, u64)>,
}

impl Program for CobwebbedTree {
    type Found = Found;

    fn start<L: Library>(self, stage: &Stage<L>) -> Findings<Found> {
        let ((report, reported), (traversed, traversals)) = (reports(), reports());
        let Self { nodes, mean, deviation, children, urgent } = self;
        let root = Root {
            growth: Growth::new(Shape { nodes, mean, deviation, children, urgent }),
            totals: Totals::default(),
            children: Vec::new(),
            traversed,
            report,
            stage: stage.clone(),
        };
        L::tell(&stage.spawn(root), ToRoot::Start);
        Box::new(move || Found { totals: reported.only(), traversed: traversals.sorted() })
    }
}
