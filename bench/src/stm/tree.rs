//! The leaf-oriented search tree by reference: a walk takes no count and no copy, and goes from node to node.
//!
//! The shape is that of `enact_workloads::stm::CloningTree`, one variable a link. Here the variable leads straight to the
//! node, and a leaf is a node too. A leaf below which a key is inserted, and the sibling of a leaf that is removed, move.

use std::sync::Arc;

use enact_stm::{Abort, Linked, TLink, Tx, atomically};
use enact_workloads::stm::{Attempts, Set, in_order};

/// The set; without a root it is empty.
pub(super) struct Tree {
    root: TLink<Node>,
}

enum Node {
    Leaf(u64),
    Inner { key: u64, children: Children },
}

/// Keys below the node's key on the left.
type Children = [TLink<Node>; 2];

/// Where a walk has ended.
struct Found<'t> {
    /// The link that holds the leaf's parent, the parent's children, and the leaf's side.
    above: Option<(&'t TLink<Node>, &'t Children, usize)>,
    at: &'t TLink<Node>,
    /// The leaf and its key; none in an empty tree.
    leaf: Option<(Linked<'t, Node>, u64)>,
}

impl Found<'_> {
    fn is(&self, key: u64) -> bool {
        self.leaf.is_some_and(|(_, found)| found == key)
    }
}

impl Tree {
    /// The leaf where `key` is or would be.
    #[inline]
    fn walk<'t>(&'t self, tx: &mut Tx<'t, '_>, key: u64) -> Result<Found<'t>, Abort> {
        let (mut above, mut at) = (None, &self.root);
        loop {
            let Some(node) = tx.read(at)? else { return Ok(Found { above, at, leaf: None }) };
            match node.get() {
                Node::Leaf(found) => return Ok(Found { above, at, leaf: Some((node, *found)) }),
                Node::Inner { key: border, children } => {
                    let side = usize::from(key >= *border);
                    above = Some((at, children, side));
                    at = &children[side];
                }
            }
        }
    }
}

impl Set for Tree {
    fn new() -> Self {
        Self { root: TLink::default() }
    }

    fn insert(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            let found = self.walk(tx, key)?;
            if found.is(key) {
                return Ok(false);
            }
            let new = Arc::new(Node::Leaf(key));
            let grown = match found.leaf {
                Some((leaf, other)) => {
                    let leaf = leaf.to_arc();
                    let children = if key < other { [new, leaf] } else { [leaf, new] }.map(TLink::from);
                    Arc::new(Node::Inner { key: key.max(other), children })
                }
                None => new,
            };
            tx.write(found.at, Some(grown))?;
            Ok(true)
        })
        .run()
    }

    fn remove(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            let found = self.walk(tx, key)?;
            if !found.is(key) {
                return Ok(false);
            }
            match found.above {
                Some((holder, children, side)) => {
                    let sibling = tx.read(&children[1 - side])?.map(Linked::to_arc);
                    tx.write(holder, sibling)?;
                }
                None => {
                    tx.write(&self.root, None)?;
                }
            }
            Ok(true)
        })
        .run()
    }

    fn contains(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            Ok(self.walk(tx, key)?.is(key))
        })
        .run()
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        atomically(|tx| {
            let (mut keys, mut pending) = (Vec::new(), vec![&self.root]);
            while let Some(at) = pending.pop() {
                match tx.read(at)?.map(Linked::get) {
                    None => {}
                    Some(Node::Leaf(key)) => keys.push(*key),
                    Some(Node::Inner { children: [left, right], .. }) => pending.extend([right, left]),
                }
            }
            Ok(in_order(keys))
        })
        .run()
    }
}
