//! How the unbalanced cobwebbed tree grows.
use super::Java48;

/// The seed of the published program.
const SEED: u64 = 2;

/// What a tree is to become.
#[derive(Debug, Clone)]
pub struct Shape {
    /// How many nodes there are at most.
    pub nodes: u64,
    /// The mean of the nodes' work.
    pub mean: f64,
    /// The standard deviation of the nodes' work.
    pub deviation: f64,
    /// How many children a node has.
    pub children: u64,
    /// The share of urgent children, of a hundred.
    pub urgent: i32,
}

/// A tree that grows: which node gets children, and how much work they have.
#[derive(Debug)]
pub struct Growth {
    draws: Java48,
    shape: Shape,
    size: u64,
}

/// What becomes of a node that asks to grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The tree is full: nobody grows any more.
    Full,
    /// The node may ask again.
    Denied,
    /// The node gets children with consecutive ids, all with the same work.
    Granted {
        /// The id of the first child.
        first_id: u64,
        /// The work of each.
        work: u64,
        /// Whether one of them is urgent.
        urgent: bool,
    },
}

impl Growth {
    /// A tree of one node.
    #[must_use]
    pub fn new(shape: Shape) -> Self {
        Self { draws: Java48::new(SEED), shape, size: 1 }
    }

    /// How many nodes there are.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// How many children a node has.
    #[must_use]
    pub fn children(&self) -> u64 {
        self.shape.children
    }

    fn work(&mut self) -> u64 {
        loop {
            let work = (self.draws.gauss() * self.shape.deviation + self.shape.mean + 0.5).floor();
            if work > 0.0 {
                return work as u64;
            }
        }
    }

    /// Adds a family: the id of its first node, and the work of each.
    pub fn family(&mut self) -> (u64, u64) {
        let first = (self.size, self.work());
        self.size += self.shape.children;
        first
    }

    /// Answers a node that asks to grow.
    pub fn answer(&mut self) -> Answer {
        if self.size + self.shape.children > self.shape.nodes {
            return Answer::Full;
        }
        if !self.draws.bool() {
            return Answer::Denied;
        }
        let (first_id, work) = self.family();
        let urgent = self.draws.below(100) <= self.shape.urgent;
        if urgent {
            // Which child it is.
            self.draws.below(self.shape.children as i32);
        }
        Answer::Granted { first_id, work, urgent }
    }
}
