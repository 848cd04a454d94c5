//! What a node knows of the others: leases and claims, as the bucket has had them at one moment.
//!
//! All changes come in the order in which the bucket has taken them, so that what a view shows was true at one point of that order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The key of the lease of a node is this with its name.
pub(crate) const NODE: &str = "node.";
/// The key of the claim to a shard is this with its number.
pub(crate) const SHARD: &str = "shard.";
/// The key of what all nodes have in common.
pub(crate) const SETTINGS: &str = "settings";

/// What all nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) shards: u16,
    /// A digest of the contract.
    pub(crate) contract: String,
}

/// A node that is alive, as long as its lease is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lease {
    /// Another one for each time that the node joins.
    pub(crate) incarnation: u64,
    /// Where clients find it.
    pub(crate) address: String,
    /// The version of its program.
    pub(crate) version: String,
    /// It hands its shards over and should get no others.
    #[serde(default)]
    pub(crate) is_leaving: bool,
}

/// The claim of a node to own a shard, good as long as the node has the lease with the same incarnation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) node: String,
    pub(crate) incarnation: u64,
    /// The reign in which it serves the shard; nothing if it has not begun.
    pub(crate) epoch: Option<u64>,
}

/// A value of the bucket with its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Revised<T> {
    pub(crate) value: T,
    pub(crate) revision: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct View {
    nodes: BTreeMap<String, Revised<Lease>>,
    claims: BTreeMap<u16, Revised<Claim>>,
}

impl View {
    /// Takes the value that a key has got; `None` if it is gone.
    pub(crate) fn apply(&mut self, key: &str, value: Option<&[u8]>, revision: u64) {
        if let Some(node) = key.strip_prefix(NODE) {
            let lease = value.and_then(|value| read(key, value));
            keep(&mut self.nodes, node.to_owned(), lease, revision);
        } else if let Some(shard) = key.strip_prefix(SHARD).and_then(|shard| shard.parse().ok()) {
            let claim = value.and_then(|value| read(key, value));
            keep(&mut self.claims, shard, claim, revision);
        }
    }

    /// The lease of a node that is alive.
    pub(crate) fn lease(&self, node: &str) -> Option<&Revised<Lease>> {
        self.nodes.get(node)
    }

    /// The nodes that are alive, in the order of their names.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = (&str, &Lease)> {
        self.nodes.iter().map(|(node, lease)| (node.as_str(), &lease.value))
    }

    /// The nodes that shards should be owned by.
    pub(crate) fn owners(&self) -> Vec<&str> {
        self.nodes().filter(|(_, lease)| !lease.is_leaving).map(|(node, _)| node).collect()
    }

    /// The last claims, be their nodes alive or not.
    pub(crate) fn claims(&self) -> impl Iterator<Item = (u16, &Claim)> {
        self.claims.iter().map(|(shard, claim)| (*shard, &claim.value))
    }

    /// The last claim to `shard`, be its node alive or not.
    pub(crate) fn claim(&self, shard: u16) -> Option<&Revised<Claim>> {
        self.claims.get(&shard)
    }

    /// The claim to `shard` of a node that is alive.
    pub(crate) fn holder(&self, shard: u16) -> Option<&Claim> {
        let claim = &self.claims.get(&shard)?.value;
        let lease = &self.nodes.get(&claim.node)?.value;
        (lease.incarnation == claim.incarnation).then_some(claim)
    }
}

fn keep<K: Ord, T>(map: &mut BTreeMap<K, Revised<T>>, key: K, value: Option<T>, revision: u64) {
    match value {
        Some(value) => map.insert(key, Revised { value, revision }),
        None => map.remove(&key),
    };
}

fn read<T: for<'a> Deserialize<'a>>(key: &str, value: &[u8]) -> Option<T> {
    serde_json::from_slice(value)
        .inspect_err(|cause| tracing::warn!(key, %cause, "a key of the bucket is unreadable"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lease(incarnation: u64, is_leaving: bool) -> Vec<u8> {
        let lease = Lease { incarnation, address: "n:1".into(), version: "0.1.0".into(), is_leaving };
        serde_json::to_vec(&lease).expect("JSON")
    }

    fn claim(node: &str, incarnation: u64) -> Vec<u8> {
        serde_json::to_vec(&Claim { node: node.to_owned(), incarnation, epoch: Some(7) }).expect("JSON")
    }

    #[test]
    fn a_claim_holds_as_long_as_the_lease_of_its_incarnation() {
        let mut view = View::default();
        view.apply("shard.3", Some(&claim("a", 1)), 1);
        assert_eq!(view.holder(3), None, "no lease");
        view.apply("node.a", Some(&lease(1, false)), 2);
        assert_eq!(view.holder(3).map(|claim| &*claim.node), Some("a"));
        view.apply("node.a", Some(&lease(2, false)), 3);
        assert_eq!(view.holder(3), None, "it has lost its lease meanwhile");
        assert_eq!(view.claim(3).map(|claim| claim.revision), Some(1));
        view.apply("shard.3", Some(&claim("a", 2)), 4);
        assert!(view.holder(3).is_some());
        view.apply("node.a", None, 5);
        assert_eq!(view.holder(3), None, "its lease is over");
    }

    #[test]
    fn a_node_that_leaves_should_own_nothing_and_is_alive() {
        let mut view = View::default();
        view.apply("node.a", Some(&lease(1, false)), 1);
        view.apply("node.b", Some(&lease(1, true)), 2);
        assert_eq!(view.owners(), ["a"]);
        assert_eq!(view.nodes().count(), 2);
    }

    #[test]
    fn what_cannot_be_read_is_not_there() {
        let mut view = View::default();
        view.apply("node.a", Some(&lease(1, false)), 1);
        view.apply("node.a", Some(b"nonsense"), 2);
        view.apply("shard.x", Some(&claim("a", 1)), 3);
        view.apply("other", Some(b"{}"), 4);
        assert_eq!(view, View::default());
    }
}
