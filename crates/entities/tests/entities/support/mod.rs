//! What the tests share: a bank written by hand, the same bank in Rebel, and a network that misbehaves on command.

pub(crate) mod altered;
pub(crate) mod bank;
pub(crate) mod chance;
pub(crate) mod client;
pub(crate) mod serial;
pub(crate) mod watched;
pub(crate) mod world;

use enact_entities::{EntityKey, TxId};

/// The key `text`, such as `Account/A`.
pub(crate) fn key(text: &str) -> EntityKey {
    text.parse().expect("a key of a test is well formed")
}

/// Transaction number `n`: the smaller, the older.
pub(crate) fn tx(n: u128) -> TxId {
    TxId::from_u128(n)
}
