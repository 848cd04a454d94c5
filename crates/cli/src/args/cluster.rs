//! The command line of `enact cluster`.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
#[cfg(feature = "nats")]
use enact_cluster::Journals;
#[cfg(feature = "nats")]
use enact_journal::nats;
use enact_rebel::Timestamp;

use super::{JournalSecurity, NodesSecurity};
#[cfg(feature = "nats")]
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Print the nodes that are alive, and who serves and keeps each shard
    Status {
        #[command(flatten)]
        cluster: Servers,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print what endangers the entities, or keeps them from being served, and end with status 4 if there is something
    Check {
        #[command(flatten)]
        cluster: Servers,
    },
    /// Read all records of all shards, while nodes serve them, or all of a backup, and end with status 4 if something is damaged or missing
    #[command(group(super::servers_of(["cluster", "journal"])))]
    Verify {
        /// The NATS servers of the nodes
        #[arg(long, value_name = "nats://HOST:PORT[,..]")]
        cluster: Option<String>,
        /// The PostgreSQL database that keeps the shards, if one does
        #[arg(long, value_name = "postgres://USER@HOST/DB", requires = "cluster")]
        journal: Option<String>,
        #[command(flatten)]
        security: JournalSecurity,
        #[command(flatten)]
        nodes: NodesSecurity,
        /// A backup of all shards, instead of nodes
        #[arg(long, value_name = "DIR", conflicts_with = "servers", required_unless_present = "cluster")]
        backup: Option<PathBuf>,
    },
    /// Write what has happened to all entities of all shards to a directory, while nodes serve them: each transaction is in it as a whole or
    /// not at all
    Backup {
        /// Directory to make, which does not exist yet
        #[arg(value_name = "DIR")]
        directory: PathBuf,
        #[command(flatten)]
        cluster: Servers,
    },
    /// Make the secret that hides the keys of personal values from the servers, for `enact serve --subject-keys-secret` of each node
    Secret {
        /// File to make, of mode 0600
        file: PathBuf,
    },
    /// Fill the shards of a new cluster from a backup of all shards
    Restore(RestoreCluster),
    /// Let a node give all its shards to others, before it is stopped or its machine is mended
    Drain {
        /// The name of the node
        node: String,
        #[command(flatten)]
        cluster: Servers,
        /// How long to wait until it has
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
        patience: Duration,
    },
    /// Let a node own a shard, until it is moved again
    Move {
        /// The number of the shard
        shard: u16,
        /// The name of the node; without it, the shard is where it would be if nobody had moved it
        node: Option<String>,
        /// Do not wait for the present owner, which is alive and does not answer; what it has under way is in doubt, and its reads
        /// may be out of date until it sees that
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        cluster: Servers,
        /// How long to wait until the shard is served there
        #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
        patience: Duration,
    },
}

#[derive(Debug, Args)]
pub(crate) struct RestoreCluster {
    /// Directory that `enact cluster backup` has written
    #[arg(value_name = "DIR")]
    pub(crate) directory: PathBuf,
    #[command(flatten)]
    pub(crate) cluster: Servers,
    /// How many NATS servers keep each record, to begin with
    #[arg(long, value_name = "COUNT", default_value = "3")]
    pub(crate) replicas: NonZeroUsize,
    /// Leave out what has happened after this time, such as `2026-11-21T09:30:00Z`: in each shard the first transaction that is later, and
    /// all that was recorded behind it; and in all shards what would be a part of a transaction then
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<Timestamp>,
}

#[derive(Debug, Args)]
#[command(group(super::servers_of(["cluster", "journal"])))]
pub(crate) struct Servers {
    /// The NATS servers of the nodes
    #[arg(long, value_name = "nats://HOST:PORT[,..]")]
    pub(crate) cluster: String,
    /// The PostgreSQL database that keeps the shards, if one does
    #[arg(long, value_name = "postgres://USER@HOST/DB", requires = "cluster")]
    pub(crate) journal: Option<String>,
    #[command(flatten)]
    pub(crate) security: JournalSecurity,
    #[command(flatten)]
    pub(crate) nodes: NodesSecurity,
}

/// The servers at which nodes meet, and where their journals are.
#[cfg(feature = "nats")]
#[derive(Clone, Debug)]
pub(crate) struct Nodes {
    pub(crate) servers: nats::Servers,
    pub(crate) journals: Journals,
}

#[cfg(feature = "nats")]
impl Servers {
    pub(crate) fn nodes(&self) -> Result<Nodes, Failure> {
        Nodes::of(&self.cluster, self.journal.as_deref(), &self.security, &self.nodes)
    }
}

#[cfg(feature = "nats")]
impl Nodes {
    /// The nodes that meet at `addresses`, and keep their journals there or in the database `journal`.
    pub(crate) fn of(
        addresses: &str,
        journal: Option<&str>,
        security: &JournalSecurity,
        nodes: &NodesSecurity,
    ) -> Result<Self, Failure> {
        let servers = security.servers(addresses);
        let Some(journal) = journal else { return Ok(Self { servers, journals: Journals::Streams }) };
        if !super::is_database(journal) {
            return Err(Failure::TwoJournals);
        }
        let security_of_nodes =
            enact_journal::Security { credentials: nodes.cluster_credentials.clone(), ..servers.security };
        let servers = nats::Servers { security: security_of_nodes, ..servers };
        #[cfg(feature = "postgres")]
        return Ok(Self { servers, journals: security.database(journal, 0).into() });
        #[cfg(not(feature = "postgres"))]
        {
            drop(servers);
            Err(Failure::WithoutPostgres)
        }
    }
}
