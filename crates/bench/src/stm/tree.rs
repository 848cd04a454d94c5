//! The leaf-oriented search tree by reference: a walk takes no count and no copy.
//!
//! The shape is that of `enact_workloads::stm::CloningTree`, one variable a link. A removal clones the one link that moves
//! up, which is an `Arc` at most.

use std::sync::Arc;

use enact_stm::{Abort, TVar, Tx, atomically};
use enact_workloads::stm::{Attempts, Set, in_order};

/// The set.
pub(super) struct Tree {
    root: TVar<Link>,
}

#[derive(Clone)]
enum Link {
    /// Nothing; only the root of an empty tree.
    Nil,
    Leaf(u64),
    Node(Arc<Node>),
}

struct Node {
    key: u64,
    children: [TVar<Link>; 2],
}

/// Where a walk has ended.
struct Found<'t> {
    /// The leaf's parent, the link that holds it, and the leaf's side.
    above: Option<(&'t TVar<Link>, &'t Node, usize)>,
    at: &'t TVar<Link>,
    link: &'t Link,
}

impl Tree {
    /// The leaf where `key` is or would be.
    #[inline]
    fn walk<'t>(&'t self, tx: &mut Tx<'t, '_>, key: u64) -> Result<Found<'t>, Abort> {
        let (mut above, mut at) = (None, &self.root);
        loop {
            match tx.read(at)? {
                Link::Node(node) => {
                    let side = usize::from(key >= node.key);
                    above = Some((at, &**node, side));
                    at = &node.children[side];
                }
                link => return Ok(Found { above, at, link }),
            }
        }
    }
}

impl Set for Tree {
    fn new() -> Self {
        Self { root: TVar::new(Link::Nil) }
    }

    fn insert(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            let Found { at, link, .. } = self.walk(tx, key)?;
            let grown = match *link {
                Link::Leaf(found) if found == key => return Ok(false),
                Link::Leaf(found) => {
                    let children = [TVar::new(Link::Leaf(key.min(found))), TVar::new(Link::Leaf(key.max(found)))];
                    Link::Node(Arc::new(Node { key: key.max(found), children }))
                }
                Link::Nil | Link::Node(_) => Link::Leaf(key),
            };
            tx.write(at, grown)?;
            Ok(true)
        })
        .run()
    }

    fn remove(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            let Found { above, link, .. } = self.walk(tx, key)?;
            if !matches!(*link, Link::Leaf(found) if found == key) {
                return Ok(false);
            }
            match above {
                Some((holder, parent, side)) => {
                    let sibling = tx.read(&parent.children[1 - side])?.clone();
                    tx.write(holder, sibling)?;
                }
                None => {
                    tx.write(&self.root, Link::Nil)?;
                }
            }
            Ok(true)
        })
        .run()
    }

    fn contains(&self, key: u64, attempts: &Attempts) -> bool {
        atomically(|tx| {
            attempts.count();
            Ok(matches!(*self.walk(tx, key)?.link, Link::Leaf(found) if found == key))
        })
        .run()
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        atomically(|tx| {
            let (mut keys, mut pending) = (Vec::new(), vec![&self.root]);
            while let Some(at) = pending.pop() {
                match tx.read(at)? {
                    Link::Nil => {}
                    Link::Leaf(key) => keys.push(*key),
                    Link::Node(node) => pending.extend([&node.children[1], &node.children[0]]),
                }
            }
            Ok(in_order(keys))
        })
        .run()
    }
}
