//! How a journal over NATS is opened.

use async_nats::Client;

use super::{OpenError, Servers, connect};

/// How a journal over NATS is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Where it is.
    pub servers: Servers,
    /// Which journal of the account it is, 0 by default: streams `J<shard>` and `S<shard>`.
    pub shard: u16,
    /// How many servers keep each message; 1 by default. Streams that are there must have as many at least.
    pub replicas: usize,
    /// The name under which this process writes. Those whom it fences off are told.
    pub node: String,
    /// The most bytes that may wait to be written; beyond, appends are refused as overloaded. 64 MiB by default. A batch
    /// that comes alone is always taken.
    pub queue_bytes: usize,
}

impl Options {
    /// The defaults for `servers`, which may be their addresses with commas between them.
    pub fn at(servers: impl Into<Servers>) -> Self {
        let node = format!("process {}", std::process::id());
        Self { servers: servers.into(), shard: 0, replicas: 1, node, queue_bytes: 64 << 20 }
    }

    pub(super) async fn connect(&self) -> Result<Client, OpenError> {
        connect(&self.servers, &format!("enact {}", self.node)).await
    }
}
