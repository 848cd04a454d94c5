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
use super::until::Then;
use crate::args;
use crate::failure::Failure;
use crate::journal::groups::remote::runtime;
use crate::journal::restore::target::Target;
use crate::journal::restore::target::remote::streams;
#[cfg(feature = "postgres")]
use crate::journal::restore::target::remote::tables;
use crate::journal::restore::{Part, Restored, fill};

pub(crate) fn run(args: &args::RestoreCluster) -> Result<(), Failure> {
    let args::RestoreCluster { directory, cluster, replicas, until } = args;
    let (args::Nodes { servers, journals }, replicas) = (cluster.nodes()?, replicas.get());
    let (manifest, _) = check::read(directory)?;
    let then = until.map(|time| Then::find(directory, &manifest, time)).transpose()?;
    let runtime = Arc::new(runtime()?);
    let of_nodes = |source: JoinError| Failure::Join { place: servers.to_string(), source };
    let restoration = Restoration::begin(&servers, &journals, manifest.count(), replicas);
    let restoration = runtime.block_on(restoration).map_err(of_nodes)?;
    let (mut shards, mut restored) = (Vec::new(), Restored::default());
    let filled = begin_all(&manifest, (restoration.journals(), replicas), &runtime, &mut shards)
        .and_then(|()| fill_all(directory, then.as_ref(), &mut shards, &mut restored));
    if let Err(cause) = filled {
        shards.into_iter().for_each(Target::abandon);
        if !runtime.block_on(restoration.abandon()) {
            tracing::warn!("what keeps nodes from joining could not be removed: the next restore says what to do");
        }
        return Err(cause);
    }
    let finished = shards.into_iter().try_for_each(Target::finish);
    let contract = then.and_then(|then| then.contract).unwrap_or_else(|| manifest.contract.clone());
    let finished = finished.and_then(|()| runtime.block_on(restoration.finish(contract)).map_err(of_nodes));
    finished.map_err(|cause| Failure::HalfRestored { cause: Box::new(cause) })?;
    restored.print(&format!("shards {}, ", manifest.count()));
    Ok(())
}

/// Begins the journals of all shards.
fn begin_all(
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
    Ok(())
}

/// Fills the journals of all shards.
fn fill_all(
    directory: &Path,
    then: Option<&Then>,
    shards: &mut [Box<dyn Target>],
    restored: &mut Restored,
) -> Result<(), Failure> {
    for (shard, target) in (0..).zip(shards) {
        let part = then.map_or(Part::All, |then| Part::UpTo(then.cuts[usize::from(shard)], then.time));
        fill(target.as_mut(), BackupReader::open(&file_of(directory, shard))?, part, restored)?;
    }
    Ok(())
}
