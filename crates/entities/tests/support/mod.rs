//! What the tests share: a bank written by hand, the same bank in Rebel, and a network that misbehaves on command.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod bank;
pub mod chance;
pub mod client;
pub mod serial;
pub mod watched;
pub mod world;

use enact_entities::{EntityKey, TxId};

/// The key `text`, such as `Account/A`.
pub fn key(text: &str) -> EntityKey {
    text.parse().expect("a key of a test is well formed")
}

/// Transaction number `n`: the smaller, the older.
pub fn tx(n: u128) -> TxId {
    TxId::from_u128(n)
}
