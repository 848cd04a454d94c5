//! `enact cluster restore`: an empty cluster is filled from a backup of all shards.
//!
//! Nothing is written before all of the backup was read and is right. From then on until the end no node joins ([`Restoration`]), and each
//! stream has a [mark](enact_journal::nats::StreamBuilder) until all of them are filled; a database shows the records of a shard when all are there. A restore that
//! fails takes away what it has written. One that is killed leaves the marks: nothing is served, and the next one says what to remove.
//!
//! Leases, claims and pins are not in a backup: nodes make the first two anew, and the last ones name nodes that need not be there.

use std::path::Path;
use std::sync::Arc;

use enact_cluster::{JoinError, Restoration, ShardJournals};
use enact_journal::BackupReader;
use tokio::runtime::Runtime;

use super::check;
use super::manifest::{Manifest, file_of};
use crate::args;
use crate::failure::Failure;
use crate::journal::groups::remote::runtime;
use crate::journal::restore::fill;
use crate::journal::restore::target::Target;
use crate::journal::restore::target::remote::streams;
#[cfg(feature = "postgres")]
use crate::journal::restore::target::remote::tables;

pub(crate) fn run(args: &args::RestoreCluster) -> Result<(), Failure> {
    let args::RestoreCluster { directory, cluster, replicas } = args;
    let (args::Nodes { servers, journals }, replicas) = (cluster.nodes()?, replicas.get());
    let (manifest, tally) = check::read(directory)?;
    let runtime = Arc::new(runtime()?);
    let of_nodes = |source: JoinError| Failure::Join { place: servers.to_string(), source };
    let restoration = Restoration::begin(&servers, &journals, manifest.count(), replicas);
    let restoration = runtime.block_on(restoration).map_err(of_nodes)?;
    let mut shards = Vec::new();
    if let Err(cause) = fill_all(directory, &manifest, (restoration.journals(), replicas), &runtime, &mut shards) {
        shards.into_iter().for_each(Target::abandon);
        if !runtime.block_on(restoration.abandon()) {
            tracing::warn!("what keeps nodes from joining could not be removed: the next restore says what to do");
        }
        return Err(cause);
    }
    let finished = shards.into_iter().try_for_each(Target::finish);
    let finished =
        finished.and_then(|()| runtime.block_on(restoration.finish(manifest.contract.clone())).map_err(of_nodes));
    finished.map_err(|cause| Failure::HalfRestored { cause: Box::new(cause) })?;
    println!("restored: shards {}, {tally}", manifest.count());
    Ok(())
}

/// Begins the journals of all shards, and then fills them.
fn fill_all(
    directory: &Path,
    manifest: &Manifest,
    (journals, replicas): (&ShardJournals, usize),
    runtime: &Arc<Runtime>,
    shards: &mut Vec<Box<dyn Target>>,
) -> Result<(), Failure> {
    for shard in 0..manifest.count() {
        shards.push(match journals {
            ShardJournals::Streams(servers) => Box::new(streams(Arc::clone(runtime), servers, shard, replicas)?),
            #[cfg(feature = "postgres")]
            ShardJournals::Tables(database) => Box::new(tables(Arc::clone(runtime), database.options(shard))?),
            _ => unreachable!("all kinds are here"),
        });
    }
    for (shard, target) in (0..).zip(shards) {
        fill(target.as_mut(), BackupReader::open(&file_of(directory, shard))?, None)?;
    }
    Ok(())
}
