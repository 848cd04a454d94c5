//! Which node has which shard.

use enact_workloads::SplitMix64;

/// The node of each of `shards`: drawn, then shards move from the fullest node to the emptiest until these differ by `apart_max` at
/// most. With 1 this is as even as the product's placement, and with 10 as uneven as the paper's may have been.
pub(super) fn place(nodes: usize, shards: usize, apart_max: usize, draws: &mut SplitMix64) -> Vec<usize> {
    let mut owners: Vec<_> = (0..shards).map(|_| draws.below(nodes as u64) as usize).collect();
    loop {
        let mut counts = vec![0_usize; nodes];
        owners.iter().for_each(|owner| counts[*owner] += 1);
        let fullest = (0..nodes).max_by_key(|node| counts[*node]).expect("there is a node");
        let emptiest = (0..nodes).min_by_key(|node| counts[*node]).expect("there is a node");
        if counts[fullest] - counts[emptiest] <= apart_max.max(1) {
            return owners;
        }
        *owners.iter_mut().find(|owner| **owner == fullest).expect("it has some") = emptiest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_differ_by_no_more_shards_than_allowed_and_every_shard_has_one() {
        for (nodes, apart_max, seed) in [(1, 1, 0), (3, 1, 1), (9, 10, 2), (9, 1, 3), (64, 1, 4), (7, 0, 5)] {
            let owners = place(nodes, 100, apart_max, &mut SplitMix64::new(seed));
            let counts: Vec<_> = (0..nodes).map(|node| owners.iter().filter(|owner| **owner == node).count()).collect();
            assert_eq!(counts.iter().sum::<usize>(), 100, "seed {seed}");
            let apart = counts.iter().max().expect("a node") - counts.iter().min().expect("a node");
            assert!(apart <= apart_max.max(1), "seed {seed}: {counts:?}");
        }
    }
}
