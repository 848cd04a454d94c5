//! The set as a leaf-oriented search tree: keys in the leaves only, one variable a link, no balancing.
//!
//! An insertion replaces a leaf by an inner node above it and the new leaf; a removal replaces the parent of the leaf by
//! the leaf's sibling. Keys below an inner node's key are on its left.

use std::mem;
use std::sync::Arc;

use super::Cloning;
use super::locks::{Lock, Locks};
use super::set::Set;
use super::window::Attempts;

/// The tree for memories that clone what they read: a walk holds the nodes that it came through.
pub struct CloningTree<S: Cloning> {
    root: S::Var<Link<S>>,
}

/// What a variable of the tree holds.
enum Link<S: Cloning> {
    /// Nothing; only the root of an empty tree.
    Nil,
    Leaf(u64),
    Node(Arc<Node<S>>),
}

struct Node<S: Cloning> {
    key: u64,
    children: [S::Var<Link<S>>; 2],
}

impl<S: Cloning> Clone for Link<S> {
    fn clone(&self) -> Self {
        match self {
            Self::Nil => Self::Nil,
            Self::Leaf(key) => Self::Leaf(*key),
            Self::Node(node) => Self::Node(Arc::clone(node)),
        }
    }
}

/// One link: the root, or a side of a node that it keeps.
enum At<S: Cloning> {
    Root,
    Child(Arc<Node<S>>, usize),
}

/// Where a walk has ended.
struct Found<S: Cloning> {
    /// The link that holds the leaf's parent, if it has one.
    above: Option<At<S>>,
    at: At<S>,
    link: Link<S>,
}

impl<S: Cloning> CloningTree<S> {
    fn var<'a>(&'a self, at: &'a At<S>) -> &'a S::Var<Link<S>> {
        match at {
            At::Root => &self.root,
            At::Child(node, side) => &node.children[*side],
        }
    }

    /// The leaf where `key` is or would be.
    fn walk<'t, 'env: 't>(&self, tx: &mut S::Tx<'t, 'env>, key: u64) -> Result<Found<S>, S::Abort> {
        let (mut above, mut at) = (None, At::Root);
        loop {
            match S::get(tx, self.var(&at))? {
                Link::Node(node) => {
                    let side = usize::from(key >= node.key);
                    above = Some(mem::replace(&mut at, At::Child(node, side)));
                }
                link => return Ok(Found { above, at, link }),
            }
        }
    }
}

impl<S: Cloning> Set for CloningTree<S> {
    fn new() -> Self {
        Self { root: S::var(Link::Nil) }
    }

    fn insert(&self, key: u64, attempts: &Attempts) -> bool {
        S::atomically(|tx| {
            attempts.count();
            let Found { at, link, .. } = self.walk(tx, key)?;
            let grown = match link {
                Link::Leaf(found) if found == key => return Ok(false),
                Link::Leaf(found) => {
                    let children = [S::var(Link::Leaf(key.min(found))), S::var(Link::Leaf(key.max(found)))];
                    Link::Node(Arc::new(Node { key: key.max(found), children }))
                }
                Link::Nil | Link::Node(_) => Link::Leaf(key),
            };
            S::set(tx, self.var(&at), grown)?;
            Ok(true)
        })
    }

    fn remove(&self, key: u64, attempts: &Attempts) -> bool {
        S::atomically(|tx| {
            attempts.count();
            let Found { above, at, link } = self.walk(tx, key)?;
            if !matches!(link, Link::Leaf(found) if found == key) {
                return Ok(false);
            }
            match (&above, &at) {
                (Some(above), At::Child(parent, side)) => {
                    let sibling = S::get(tx, &parent.children[1 - side])?;
                    S::set(tx, self.var(above), sibling)?;
                }
                _ => S::set(tx, &self.root, Link::Nil)?,
            }
            Ok(true)
        })
    }

    fn contains(&self, key: u64, attempts: &Attempts) -> bool {
        S::atomically(|tx| {
            attempts.count();
            Ok(matches!(self.walk(tx, key)?.link, Link::Leaf(found) if found == key))
        })
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        S::atomically(|tx| {
            let (mut keys, mut pending) = (Vec::new(), vec![At::Root]);
            while let Some(at) = pending.pop() {
                match S::get(tx, self.var(&at))? {
                    Link::Nil => {}
                    Link::Leaf(key) => keys.push(key),
                    Link::Node(node) => pending.extend([At::Child(Arc::clone(&node), 1), At::Child(node, 0)]),
                }
            }
            Ok(in_order(keys))
        })
    }
}

/// The keys from left to right, and how many of them do not ascend.
#[must_use]
pub fn in_order(keys: Vec<u64>) -> (Vec<u64>, usize) {
    let misplaced = keys.windows(2).filter(|pair| pair[0] >= pair[1]).count();
    (keys, misplaced)
}

/// The same tree of plain links under one lock.
pub(super) struct Locked<L: Locks>(L::Lock<Plain>);

enum Plain {
    Nil,
    Leaf(u64),
    Node(Box<PlainNode>),
}

struct PlainNode {
    key: u64,
    children: [Plain; 2],
}

impl Plain {
    /// The leaf where `key` is or would be.
    fn walk(&self, key: u64) -> &Self {
        let mut at = self;
        while let Self::Node(node) = at {
            at = &node.children[usize::from(key >= node.key)];
        }
        at
    }

    fn holds(&self, key: u64) -> bool {
        matches!(self, Self::Leaf(found) if *found == key)
    }

    fn insert(&mut self, key: u64) -> bool {
        let mut at = self;
        while let Self::Node(node) = at {
            at = &mut node.children[usize::from(key >= node.key)];
        }
        *at = match *at {
            Self::Leaf(found) if found == key => return false,
            Self::Leaf(found) => {
                let children = [Self::Leaf(key.min(found)), Self::Leaf(key.max(found))];
                Self::Node(Box::new(PlainNode { key: key.max(found), children }))
            }
            Self::Nil | Self::Node(_) => Self::Leaf(key),
        };
        true
    }

    fn remove(&mut self, key: u64) -> bool {
        if !self.walk(key).holds(key) {
            return false;
        }
        let mut at = self;
        loop {
            match at {
                Self::Node(node) => {
                    let side = usize::from(key >= node.key);
                    if node.children[side].holds(key) {
                        *at = mem::replace(&mut node.children[1 - side], Self::Nil);
                        return true;
                    }
                    let Self::Node(node) = at else { unreachable!("matched above") };
                    at = &mut node.children[side];
                }
                Self::Nil | Self::Leaf(_) => {
                    *at = Self::Nil;
                    return true;
                }
            }
        }
    }
}

impl<L: Locks> Set for Locked<L> {
    fn new() -> Self {
        Self(Lock::new(Plain::Nil))
    }

    fn insert(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|root| root.insert(key))
    }

    fn remove(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|root| root.remove(key))
    }

    fn contains(&self, key: u64, _: &Attempts) -> bool {
        self.0.with(|root| root.walk(key).holds(key))
    }

    fn survey(&self) -> (Vec<u64>, usize) {
        self.0.with(|root| {
            let (mut keys, mut pending) = (Vec::new(), vec![&*root]);
            while let Some(at) = pending.pop() {
                match at {
                    Plain::Nil => {}
                    Plain::Leaf(key) => keys.push(*key),
                    Plain::Node(node) => pending.extend([&node.children[1], &node.children[0]]),
                }
            }
            in_order(keys)
        })
    }
}
