//! `enact serve --cluster`: one of several nodes that share the entities.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use enact_cluster::{Cluster, Contract, NotAdopted, Options};
use enact_entities::Rebel;
use enact_journal::ReadError;
use enact_journal::nats::Nats;
use enact_rebel::{Source, Spec};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use sha2::{Digest, Sha256};
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Life, Start, without_passwords};
use crate::contract::{self, Change, ContractError};
use crate::failure::Failure;

/// How many servers keep each record, unless said otherwise.
const REPLICAS: usize = 3;
/// How long a node waits for its shards before it says that it listens.
const SETTLED_MAX: Duration = Duration::from_secs(5);

impl Start<'_> {
    /// Joins the nodes whose streams are at `addresses`, and serves until a signal or a failure.
    pub(super) async fn join(self, addresses: &str) -> Result<(), Failure> {
        let Self { args, sources, spec, .. } = &self;
        let options = Options {
            address: self.listener.address().to_string(),
            shards: args.shards,
            replicas: args.replicas.map_or(REPLICAS, NonZeroUsize::get),
            lease: args.lease,
            contract: digest(sources),
            engine: self.options.clone(),
            ..Options::new(addresses, args.node.clone().unwrap_or_default())
        };
        let sources = Sources { sources: sources.clone(), spec: Arc::clone(spec), is_adopting: args.adopt };
        let joined = Cluster::join(Rebel::new(Arc::clone(spec)), sources, options).await;
        let place = without_passwords(addresses);
        let node = joined.map_err(|source| Failure::Join { place, source })?;
        info!(node = args.node, "joined");
        if timeout(SETTLED_MAX, node.settled()).await.is_err() {
            warn!(
                "not all shards are where they should be yet; commands for those that nobody serves are answered with 503"
            );
        }
        let (watched, left) = (node.clone(), node.clone());
        let life = Life {
            failed: async move { watched.failed().await },
            end: async move |patience| {
                left.leave(patience).await;
                Ok(())
            },
        };
        self.present(node, life).await
    }
}

/// Tells one specification from another.
fn digest(sources: &[Source]) -> String {
    let mut digest = Sha256::new();
    for source in sources {
        for part in [&source.name, &source.text] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The specification that all shards are served under.
struct Sources {
    sources: Vec<Source>,
    spec: Arc<Spec>,
    is_adopting: bool,
}

impl Contract<Rebel> for Sources {
    fn adopt<'a>(&'a self, shard: u16, journal: &'a Nats) -> BoxFuture<'a, Result<Rebel, NotAdopted>> {
        self.model(shard, journal).map(|adopted| adopted.map_err(|cause| not_adopted(&cause))).boxed()
    }
}

impl Sources {
    async fn model(&self, shard: u16, journal: &Nats) -> Result<Rebel, ContractError> {
        let examined = contract::examine(journal, &self.sources, &self.spec).await?;
        match examined.change {
            Change::First | Change::None => {}
            Change::Compatible { entities, .. } => {
                info!(shard, entities, "the specification has changed under one version; every entity is what it was");
            }
            Change::Version(ref plan) if self.is_adopting => info!(shard, "adopting the specification {plan}"),
            Change::Version(plan) => return Err(ContractError::NotAdopted { plan: Box::new(plan) }),
        }
        contract::adopt(journal, &self.sources, examined).await
    }
}

fn not_adopted(cause: &ContractError) -> NotAdopted {
    let is_final = !matches!(
        cause,
        ContractError::Read(ReadError::Unavailable { .. } | ReadError::Closed) | ContractError::Append(_)
    );
    NotAdopted { why: cause.to_string(), is_final }
}
