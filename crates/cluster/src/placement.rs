//! Which node should own which shard: the same answer on every node that sees the same members.
//!
//! Each shard has an order of all nodes, by a hash of both (*rendezvous*, or highest random weight). It should be owned by the first of them that
//! has no more than its part of the shards yet, so that the parts differ by one at most. A shard that an operator has moved is a part of its
//! node, which has more than the others if there are many such.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

/// The node that should own each of `shards`, in order; nothing if there are no nodes. A pin to another node counts for nothing.
pub(crate) fn placement<'a>(nodes: &[&'a str], pins: &BTreeMap<u16, &str>, shards: u16) -> Vec<&'a str> {
    let mut free: BTreeMap<&str, u16> = parts(nodes, shards);
    let node_of = |name: &str| nodes.iter().copied().find(|node| *node == name);
    let pinned = |shard: u16| pins.get(&shard).and_then(|name| node_of(name));
    for owner in (0..shards).filter_map(pinned) {
        let left = free.get_mut(owner).expect("one of them");
        *left = left.saturating_sub(1);
    }
    let mut owners = Vec::with_capacity(shards.into());
    for shard in 0..shards {
        if let Some(owner) = pinned(shard) {
            owners.push(owner);
            continue;
        }
        let best = free.iter().filter(|(_, free)| **free > 0).map(|(node, _)| *node);
        let Some(owner) = best.max_by_key(|node| (weight(node, shard), *node)) else { return owners };
        *free.get_mut(owner).expect("one of them") -= 1;
        owners.push(node_of(owner).expect("one of them"));
    }
    owners
}

/// How many shards each node has at most: what is left over goes to the first ones by name.
fn parts<'a>(nodes: &[&'a str], shards: u16) -> BTreeMap<&'a str, u16> {
    let mut parts: BTreeMap<&str, u16> = nodes.iter().map(|node| (*node, 0)).collect();
    let Ok(count @ 1..) = u16::try_from(parts.len()) else { return parts };
    let (each, over) = (shards / count, shards % count);
    for (index, part) in (0..).zip(parts.values_mut()) {
        *part = each + u16::from(index < over);
    }
    parts
}

fn weight(node: &str, shard: u16) -> u64 {
    let hash = Sha256::new().chain_update(shard.to_be_bytes()).chain_update(node.as_bytes()).finalize();
    u64::from_be_bytes(*hash.first_chunk().expect("32 bytes"))
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, btree_set};
    use proptest::prelude::*;

    use super::*;

    /// Without pins.
    fn placed<'a>(nodes: &[&'a str], shards: u16) -> Vec<&'a str> {
        placement(nodes, &BTreeMap::new(), shards)
    }

    #[test]
    fn nobody_owns_anything_without_nodes() {
        assert!(placed(&[], 12).is_empty());
    }

    proptest! {
        #[test]
        fn every_shard_has_an_owner_and_parts_differ_by_one_at_most(
            nodes in btree_set("[a-z]{1,8}", 1..20), shards in 1u16..=256,
        ) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let owners = placed(&nodes, shards);
            prop_assert_eq!(owners.len(), usize::from(shards));
            let counts: Vec<usize> = nodes.iter().map(|node| owners.iter().filter(|owner| *owner == node).count()).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
        }

        #[test]
        fn the_order_in_which_nodes_are_named_decides_nothing(nodes in btree_set("[a-z]{1,8}", 1..9)) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let reversed: Vec<&str> = nodes.iter().rev().copied().collect();
            prop_assert_eq!(placed(&nodes, 12), placed(&reversed, 12));
        }

        #[test]
        fn a_shard_that_is_moved_is_where_it_was_moved_to_and_others_get_no_more_than_their_part(
            nodes in btree_set("[a-z]{1,8}", 1..9), pins in btree_map(0u16..24, 0usize..9, 0..24),
        ) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let pins: BTreeMap<u16, &str> =
                pins.into_iter().map(|(shard, node)| (shard, nodes.get(node).copied().unwrap_or("gone1"))).collect();
            let owners = placement(&nodes, &pins, 24);
            prop_assert_eq!(owners.len(), 24);
            for (shard, node) in &pins {
                prop_assert!(!nodes.contains(node) || owners[usize::from(*shard)] == *node);
            }
            for node in &nodes {
                let moved = pins.values().filter(|pinned| *pinned == node).count();
                let owned = owners.iter().filter(|owner| *owner == node).count();
                prop_assert!(owned <= moved.max(24usize.div_ceil(nodes.len())), "{node}: {owned}, {moved} of them moved");
            }
        }

        #[test]
        fn a_node_that_joins_leaves_most_shards_where_they_were(nodes in btree_set("[a-z]{1,8}", 3..9)) {
            let nodes: Vec<&str> = nodes.iter().map(String::as_str).collect();
            let (before, after) = (placed(&nodes[1..], 240), placed(&nodes, 240));
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after).count();
            let part = 240 / nodes.len();
            prop_assert!(moved <= 2 * part, "{moved} of 240 moved, where {part} have to");
        }
    }
}
