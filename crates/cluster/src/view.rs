//! What a node knows of the others: leases, claims and what all have in common, as the bucket has had them at one moment.
//!
//! All changes come in the order in which the bucket has taken them, so that what a view shows was true at one point of that order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::placement::placement;

/// The key of the lease of a node is this with its name.
pub(crate) const NODE: &str = "node.";
/// The key of the claim to a shard is this with its number.
pub(crate) const SHARD: &str = "shard.";
/// The key that says that a shard was examined is this with its number.
pub(crate) const EXAMINED: &str = "examined.";
/// The key of the pin of a shard is this with its number.
pub(crate) const PIN: &str = "pin.";
/// The key of what all nodes have in common.
pub(crate) const SETTINGS: &str = "settings";

/// What all nodes have in common.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) shards: u16,
    /// A digest of the contract that the entities are served under.
    pub(crate) contract: String,
    /// That of the contract that is to be next, if all shards allow it.
    #[serde(default)]
    pub(crate) proposed: Option<String>,
    /// The last contract that a shard did not allow.
    #[serde(default)]
    pub(crate) refused: Option<Refused>,
    /// The identity of the database that has the journals of the shards; nothing if they are in streams.
    #[serde(default)]
    pub(crate) database: Option<String>,
    /// The shards are being filled from a backup: no node joins.
    #[serde(default)]
    pub(crate) is_restoring: bool,
}

impl Settings {
    /// The contract of the nodes that should own shards: to serve them, or to examine them for it.
    pub(crate) fn in_charge(&self) -> &str {
        self.proposed.as_deref().unwrap_or(&self.contract)
    }
}

/// A contract that was proposed, and is not to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refused {
    pub(crate) contract: String,
    pub(crate) why: String,
}

/// A shard allows the contract that was proposed with this revision of the settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Examined {
    pub(crate) proposal: u64,
}

/// The node that should own a shard because an operator wants it; none if nobody does any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pin {
    pub(crate) node: String,
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
    /// A digest of its contract.
    pub(crate) contract: String,
    /// It hands its shards over and should get no others.
    #[serde(default)]
    pub(crate) is_leaving: bool,
    /// It does not reach the database of the journals, and should have no shards while another node does.
    #[serde(default)]
    pub(crate) is_cut_off: bool,
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
    examined: BTreeMap<u16, Revised<Examined>>,
    pins: BTreeMap<u16, Revised<Pin>>,
    settings: Option<Revised<Settings>>,
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
        } else if let Some(shard) = key.strip_prefix(EXAMINED).and_then(|shard| shard.parse().ok()) {
            let examined = value.and_then(|value| read(key, value));
            keep(&mut self.examined, shard, examined, revision);
        } else if let Some(shard) = key.strip_prefix(PIN).and_then(|shard| shard.parse().ok()) {
            let pin = value.and_then(|value| read(key, value));
            keep(&mut self.pins, shard, pin, revision);
        } else if key == SETTINGS {
            let settings = value.and_then(|value| read(key, value));
            self.settings = settings.map(|value| Revised { value, revision });
        }
    }

    /// What all nodes have in common, once the first one has said so.
    pub(crate) fn settings(&self) -> Option<&Revised<Settings>> {
        self.settings.as_ref()
    }

    /// Whether a node with this contract is alive.
    pub(crate) fn has_node_of(&self, contract: &str) -> bool {
        self.nodes.values().any(|lease| lease.value.contract == contract)
    }

    /// Whether all shards were found to allow what is proposed now.
    pub(crate) fn is_examined(&self) -> bool {
        let Some(Revised { value: settings, revision }) = &self.settings else { return false };
        let allows = |shard| self.examined.get(&shard).is_some_and(|examined| examined.value.proposal == *revision);
        settings.proposed.is_some() && (0..settings.shards).all(allows)
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
        let Some(settings) = &self.settings else { return Vec::new() };
        let should = |lease: &Lease| !lease.is_leaving && lease.contract == settings.value.in_charge();
        let (cut_off, others): (Vec<_>, Vec<_>) =
            self.nodes().filter(|(_, lease)| should(lease)).partition(|(_, lease)| lease.is_cut_off);
        // A database that nobody reaches is no reason to move a shard.
        let owners = if others.is_empty() { cut_off } else { others };
        owners.into_iter().map(|(node, _)| node).collect()
    }

    /// The node that should own each of `shards`, in order; nothing if there is none.
    pub(crate) fn placement(&self, shards: u16) -> Vec<&str> {
        let pins = self.pins.iter().map(|(shard, pin)| (*shard, pin.value.node.as_str())).collect();
        placement(&self.owners(), &pins, shards)
    }

    /// The node that an operator has moved `shard` to, be it alive or not.
    pub(crate) fn pin(&self, shard: u16) -> Option<&str> {
        self.pins.get(&shard).map(|pin| pin.value.node.as_str()).filter(|node| !node.is_empty())
    }

    /// Whether it shows what an operator has said of `shard` at this `revision` of the bucket, or later.
    pub(crate) fn has_pin(&self, shard: u16, revision: u64) -> bool {
        self.pins.get(&shard).is_some_and(|pin| pin.revision >= revision)
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

    /// The reign in which a node with this contract serves `shard`.
    pub(crate) fn served(&self, shard: u16, contract: &str) -> Option<u64> {
        let claim = self.holder(shard)?;
        if self.lease(&claim.node)?.value.contract == contract { claim.epoch } else { None }
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
        lease_of("bank", incarnation, is_leaving)
    }

    fn lease_of(contract: &str, incarnation: u64, is_leaving: bool) -> Vec<u8> {
        let (address, version, contract) = ("n:1".to_owned(), "0.1.0".to_owned(), contract.to_owned());
        serde_json::to_vec(&Lease { incarnation, address, version, contract, is_leaving, is_cut_off: false })
            .expect("JSON")
    }

    fn settings(proposed: Option<&str>) -> Vec<u8> {
        let (contract, proposed) = ("bank".to_owned(), proposed.map(str::to_owned));
        serde_json::to_vec(&Settings {
            shards: 2,
            contract,
            proposed,
            refused: None,
            database: None,
            is_restoring: false,
        })
        .expect("JSON")
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
        assert_eq!(view.owners(), [""; 0], "nobody has said what all have in common");
        view.apply("settings", Some(&settings(None)), 3);
        assert_eq!(view.owners(), ["a"]);
        assert_eq!(view.nodes().count(), 2);
    }

    #[test]
    fn nodes_that_do_not_reach_the_journals_should_own_nothing_while_another_one_does() {
        let lease = |is_cut_off| {
            let [address, version] = [const { String::new() }; 2];
            let contract = "bank".to_owned();
            let lease = Lease { incarnation: 1, address, version, contract, is_leaving: false, is_cut_off };
            serde_json::to_vec(&lease).expect("JSON")
        };
        let mut view = View::default();
        view.apply("settings", Some(&settings(None)), 1);
        for (a, b, owners) in
            [(false, false, &["a", "b"][..]), (false, true, &["a"]), (true, false, &["b"]), (true, true, &["a", "b"])]
        {
            view.apply("node.a", Some(&lease(a)), 2);
            view.apply("node.b", Some(&lease(b)), 3);
            assert_eq!(view.owners(), owners);
        }
    }

    #[test]
    fn nodes_of_the_contract_that_is_proposed_should_own_the_shards_and_those_of_another_are_not_asked() {
        let mut view = View::default();
        view.apply("node.a", Some(&lease(1, false)), 1);
        view.apply("node.b", Some(&lease_of("later", 1, false)), 2);
        view.apply("settings", Some(&settings(None)), 3);
        assert_eq!(view.owners(), ["a"]);
        view.apply("settings", Some(&settings(Some("later"))), 4);
        assert_eq!(view.owners(), ["b"]);
        view.apply("shard.1", Some(&claim("a", 1)), 5);
        assert_eq!((view.served(1, "bank"), view.served(1, "later")), (Some(7), None));
    }

    #[test]
    fn a_proposal_is_examined_when_all_shards_allow_that_one_and_not_an_earlier_one() {
        let examined = |proposal| serde_json::to_vec(&Examined { proposal }).expect("JSON");
        let mut view = View::default();
        view.apply("settings", Some(&settings(Some("later"))), 4);
        for (shard, proposal, is_examined) in [(0, 4, false), (1, 3, false), (1, 4, true), (0, 3, false)] {
            view.apply(&format!("examined.{shard}"), Some(&examined(proposal)), 9);
            assert_eq!(view.is_examined(), is_examined, "shard {shard} with proposal {proposal}");
        }
        view.apply("examined.0", Some(&examined(10)), 10);
        view.apply("examined.1", Some(&examined(10)), 11);
        view.apply("settings", Some(&settings(None)), 10);
        assert!(!view.is_examined(), "nothing is proposed");
    }

    #[test]
    fn a_pin_counts_as_long_as_its_node_should_own_shards() {
        let pin = |node: &str| serde_json::to_vec(&Pin { node: node.to_owned() }).expect("JSON");
        let mut view = View::default();
        view.apply("settings", Some(&settings(None)), 1);
        view.apply("node.a", Some(&lease(1, false)), 2);
        view.apply("node.b", Some(&lease(1, false)), 3);
        for (revision, node) in [(4, "a"), (6, "b")] {
            view.apply("pin.0", Some(&pin(node)), revision);
            view.apply("pin.1", Some(&pin(node)), revision + 1);
            assert_eq!(view.placement(2), [node; 2]);
        }
        view.apply("node.b", Some(&lease(1, true)), 8);
        assert_eq!((view.placement(2), view.pin(1)), (vec!["a"; 2], Some("b")));
        view.apply("node.b", Some(&lease(2, false)), 9);
        view.apply("pin.1", Some(&pin("")), 10);
        assert_eq!((view.placement(2), view.pin(1)), (vec!["b", "a"], None));
        // What was said last, and not what is yet to be seen.
        assert_eq!([view.has_pin(1, 10), view.has_pin(1, 11), view.has_pin(2, 1)], [true, false, false]);
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
