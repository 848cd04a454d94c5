//! How a journal over NATS is opened.

use std::fmt;

/// How a journal over NATS is opened.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// Addresses of servers of one cluster, such as `nats://host:4222` or `tls://user:password@host:4222`. One that answers
    /// is enough; others are learnt from it.
    pub servers: Vec<String>,
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
    /// The defaults, for servers at `addresses`, which are separated by commas.
    pub fn at(addresses: &str) -> Self {
        let servers = addresses.split(',').map(|address| address.trim().to_owned()).collect();
        let node = format!("process {}", std::process::id());
        Self { servers, shard: 0, replicas: 1, node, queue_bytes: 64 << 20 }
    }
}

/// Leaves the addresses out, which may have passwords.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("shard", &self.shard)
            .field("replicas", &self.replicas)
            .field("node", &self.node)
            .field("queue_bytes", &self.queue_bytes)
            .finish_non_exhaustive()
    }
}
