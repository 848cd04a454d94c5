//! `enact cluster restore`: an empty cluster is filled from a backup of all shards.
//!
//! Nothing is written before all of the backup was read and is right. From then on until the end no node joins ([`Restoration`]), and each
//! stream has a [mark](enact_journal::nats::StreamBuilder) until all of them are filled. A restore that fails takes away what it has written. One
//! that is killed leaves both marks: nothing is served, and the next one says what to remove.
//!
//! Leases, claims and pins are not in a backup: nodes make the first two anew, and the last ones name nodes that need not be there.

use std::path::Path;
use std::sync::Arc;

use enact_cluster::{JoinError, Restoration, Servers};
use enact_journal::BackupReader;
use enact_journal::nats::StreamBuilder;
use tokio::runtime::Runtime;

use super::check;
use super::manifest::{Manifest, file_of};
use crate::args;
use crate::failure::Failure;
use crate::journal::groups::remote::runtime;
use crate::journal::restore::fill;
use crate::journal::restore::target::Target as _;
use crate::journal::restore::target::remote::{Remote, streams};

pub(crate) fn run(args: &args::RestoreCluster) -> Result<(), Failure> {
    let args::RestoreCluster { directory, cluster, replicas } = args;
    let (servers, replicas) = (&cluster.to_servers(), replicas.get());
    let (manifest, tally) = check::read(directory)?;
    let runtime = Arc::new(runtime()?);
    let of_nodes = |source: JoinError| Failure::Join { place: servers.to_string(), source };
    let restoration = Restoration::begin(servers, manifest.count(), replicas);
    let restoration = runtime.block_on(restoration).map_err(of_nodes)?;
    let mut shards = Vec::new();
    if let Err(cause) = fill_all(directory, &manifest, (servers, replicas), &runtime, &mut shards) {
        shards.into_iter().for_each(|shard| Box::new(shard).abandon());
        if !runtime.block_on(restoration.abandon()) {
            tracing::warn!("what keeps nodes from joining could not be removed: the next restore says what to do");
        }
        return Err(cause);
    }
    let finished = shards.into_iter().try_for_each(|shard| Box::new(shard).finish());
    let finished =
        finished.and_then(|()| runtime.block_on(restoration.finish(manifest.contract.clone())).map_err(of_nodes));
    finished.map_err(|cause| Failure::HalfRestored { cause: Box::new(cause) })?;
    println!("restored: shards {}, {tally}", manifest.count());
    Ok(())
}

/// Makes the streams of all shards, and then fills them.
fn fill_all(
    directory: &Path,
    manifest: &Manifest,
    (servers, replicas): (&Servers, usize),
    runtime: &Arc<Runtime>,
    shards: &mut Vec<Remote<StreamBuilder>>,
) -> Result<(), Failure> {
    for shard in 0..manifest.count() {
        shards.push(streams(Arc::clone(runtime), servers, shard, replicas)?);
    }
    for (shard, target) in (0..).zip(shards) {
        fill(target, BackupReader::open(&file_of(directory, shard))?, None)?;
    }
    Ok(())
}
