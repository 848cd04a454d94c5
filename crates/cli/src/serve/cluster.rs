//! `enact serve --cluster`: one of several nodes that share the entities.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use enact_cluster::{Adoption, Cluster, Contract, NotAdopted, Options, ShardJournal};
use enact_entities::Rebel;
use enact_journal::ReadError;
use enact_rebel::{Source, Spec};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::time::timeout;
use tracing::{info, warn};

use super::{Life, Start};
use crate::contract::{self, Change, ContractError, Examined, Undecided};
use crate::failure::Failure;
use crate::{args, secret, spec, traces};

/// How many servers keep each record, unless said otherwise.
const REPLICAS: usize = 3;
/// How long a node waits for its shards before it says that it listens.
const SETTLED_MAX: Duration = Duration::from_secs(5);

impl Start<'_> {
    /// Joins the nodes, and serves until a signal or a failure.
    pub(super) async fn join(self, nodes: args::Nodes) -> Result<(), Failure> {
        let Self { args, sources, spec, .. } = &self;
        let args::Nodes { servers, journals } = nodes;
        let place = servers.to_string();
        let options = Options {
            journals,
            address: self.listener.address().to_string(),
            shards: args.shards,
            replicas: args.replicas.map_or(REPLICAS, NonZeroUsize::get),
            lease: args.lease,
            contract: spec::digest(sources),
            adopt: args.adopt,
            subject_keys: args.subject_keys_secret.as_deref().map(secret::read).transpose()?,
            traces: args.traces.is_some().then_some(traces::PROPAGATION),
            engine: self.options.clone(),
            ..Options::new(servers, args.node.clone().unwrap_or_default())
        };
        let sources = Sources { sources: sources.clone().into(), spec: Arc::clone(spec) };
        let joined = Cluster::join(Rebel::new(Arc::clone(spec)), sources, options).await;
        let node = joined.map_err(|source| Failure::Join { place: place.clone(), source })?;
        info!(node = args.node, "joined");
        self.say_started(&place, None, None);
        if timeout(SETTLED_MAX, node.settled()).await.is_err() {
            warn!(
                "not all shards are where they should be yet; commands for those that nobody serves are answered with 503"
            );
        }
        let (watched, left) = (node.clone(), node.clone());
        let life = Life {
            failed: async move { drop(watched.failed().await) },
            end: async move |patience| {
                left.leave(patience).await;
                Ok(())
            },
        };
        self.present(node, life).await
    }
}

/// The specification of this node.
struct Sources {
    sources: Arc<[Source]>,
    spec: Arc<Spec>,
}

impl Contract<Rebel> for Sources {
    fn examine<'a>(
        &'a self,
        shard: u16,
        journal: &'a ShardJournal,
    ) -> BoxFuture<'a, Result<Box<dyn Adoption<Rebel>>, NotAdopted>> {
        async move {
            let examined = contract::examine(journal, &self.sources, &self.spec, Undecided::Served).await;
            let examined = examined.map_err(|cause| not_adopted(&cause))?;
            let adoption = Allowed { shard, sources: Arc::clone(&self.sources), examined };
            Ok(Box::new(adoption) as Box<dyn Adoption<Rebel>>)
        }
        .boxed()
    }
}

/// The specification for the entities of a shard, all of which it allows.
struct Allowed {
    shard: u16,
    sources: Arc<[Source]>,
    examined: Examined,
}

impl Adoption<Rebel> for Allowed {
    fn adopt(self: Box<Self>, journal: &ShardJournal) -> BoxFuture<'_, Result<Rebel, NotAdopted>> {
        async move {
            let Self { shard, sources, examined } = *self;
            match &examined.change {
                Change::First | Change::None => {}
                Change::Additions => info!(shard, "the specification has got further classes under one version"),
                Change::Compatible { entities, .. } => {
                    info!(
                        shard,
                        entities, "the specification has changed under one version; every entity is what it was"
                    );
                }
                Change::Version(plan) => info!(shard, "adopting the specification {plan}"),
            }
            contract::adopt(journal, &sources, examined).await.map_err(|cause| not_adopted(&cause))
        }
        .boxed()
    }
}

fn not_adopted(cause: &ContractError) -> NotAdopted {
    let is_final = !matches!(
        cause,
        ContractError::Read(ReadError::Unavailable { .. } | ReadError::Closed) | ContractError::Append(_)
    );
    NotAdopted { why: cause.to_string(), is_final }
}
