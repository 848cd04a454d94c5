//! Which shard an entity is in.

use std::borrow::Cow;

use enact_journal::EntityKey;

/// The most shards there may be.
pub const SHARDS_MAX: u16 = 256;

/// The shard of `entity` among `shards`, the same everywhere and for ever.
///
/// Entities whose ids are the same up to a `:` are in one shard, whatever their classes: a transaction over `Account/eu1:NL01` and
/// `Transfer/eu1:T7` stays in one.
///
/// # Panics
/// If there are no shards.
///
/// ```
/// use enact_cluster::shard_of;
///
/// let (account, transfer) = ("Account/eu1:NL01".parse()?, "Transfer/eu1:T7".parse()?);
/// assert_eq!(shard_of(&account, 12), shard_of(&transfer, 12));
/// # Ok::<(), enact_journal::EntityKeyError>(())
/// ```
pub fn shard_of(entity: &EntityKey, shards: u16) -> u16 {
    let hash = crc32c::crc32c(placed_by(entity).as_bytes()) % u32::from(shards);
    u16::try_from(hash).expect("less than the number of shards")
}

fn placed_by(entity: &EntityKey) -> Cow<'_, str> {
    match entity.id().split_once(':') {
        Some((group, _)) => group.into(),
        None => format!("{}/{}", entity.class(), entity.id()).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> EntityKey {
        text.parse().expect("a key")
    }

    #[test]
    fn the_shard_of_an_entity_never_changes() {
        for (entity, shard) in [("Account/NL01", 10), ("Account/NL02", 2), ("Transfer/T1", 6), ("Account/eu1:NL01", 1)]
        {
            assert_eq!(shard_of(&key(entity), 12), shard, "{entity}");
        }
    }

    #[test]
    fn ids_that_are_the_same_up_to_a_colon_are_in_one_shard_whatever_their_class() {
        let shard = shard_of(&key("Account/eu1:NL01"), 256);
        for entity in ["Transfer/eu1:T7", "Account/eu1:NL02:b", "Order/eu1:"] {
            assert_eq!(shard_of(&key(entity), 256), shard, "{entity}");
        }
        assert_ne!(
            shard_of(&key("Account/eu1"), 256),
            shard_of(&key("Order/eu1"), 256),
            "without a colon the class counts"
        );
    }

    #[test]
    fn shards_get_about_as_many_entities_each() {
        let mut counts = [0; 12];
        (0..12_000).for_each(|n| counts[usize::from(shard_of(&key(&format!("Account/NL{n:06}")), 12))] += 1);
        assert!(counts.iter().all(|count| (800..1_200).contains(count)), "{counts:?}");
    }
}
