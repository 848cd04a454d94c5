//! How a node joins others.

use std::time::Duration;

use enact_entities::EngineOptions;
use enact_journal::nats::Servers;

use crate::Journals;
use crate::Secret;
use crate::hop::Propagation;

/// How a node joins others.
#[derive(Clone, Debug)]
pub struct Options {
    /// The servers of NATS, at which nodes meet.
    pub servers: Servers,
    /// Where the journals of the shards are, in streams of these servers by default. The first node decides; it never changes.
    pub journals: Journals,
    /// The name of the node: letters, digits, `-` and `_`. No two nodes that are alive have the same.
    pub node: String,
    /// Where clients find the node, for others to see.
    pub address: String,
    /// The version of the program, for others to see: that of this crate by default. Nodes whose versions follow each other serve side by side.
    pub version: String,
    /// How many shards there are, 12 by default, [`SHARDS_MAX`](crate::SHARDS_MAX) at most. The first node decides; it never changes.
    pub shards: u16,
    /// How many servers of NATS keep each lease, and each record of a journal there, 3 by default.
    pub replicas: usize,
    /// How long the node counts as alive after it was last heard of, 15 s by default, [`LEASE_MIN`](crate::LEASE_MIN) at least. Whole seconds.
    pub lease: Duration,
    /// What tells the contract from others: a digest of what it says. Empty by default, for one that never changes.
    pub contract: String,
    /// Whether the contract may take the place of another one that the entities are served under. Then the node waits until no node of that
    /// one is alive, and adopts its own if all shards allow it. Otherwise it does not join.
    pub adopt: bool,
    /// What hides the keys of data subjects from the servers, which keep them for all nodes; without it there are no personal values. None by
    /// default.
    pub subject_keys: Option<Secret>,
    /// How traces of requests go on at other nodes. Nothing by default: they end at the node that a client asks.
    pub traces: Option<Propagation>,
    /// How each engine behaves. The entities of all shards that the node owns share the memory. With
    /// [`barrier_reads`](EngineOptions::barrier_reads) what clients are shown does not count on the lease.
    pub engine: EngineOptions,
}

impl Options {
    /// The defaults for a node with this name, over `servers`, which may be their addresses with commas between them.
    pub fn new(servers: impl Into<Servers>, node: impl Into<String>) -> Self {
        Self {
            servers: servers.into(),
            journals: Journals::default(),
            node: node.into(),
            address: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            shards: 12,
            replicas: 3,
            lease: Duration::from_secs(15),
            contract: String::new(),
            adopt: false,
            subject_keys: None,
            traces: None,
            engine: EngineOptions::default(),
        }
    }
}
