//! `enact serve --cluster`: one of several nodes that share the entities.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use enact_cluster::{Adoption, Cluster, Contract, NotAdopted, Options};
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
use crate::contract::{self, Change, ContractError, Examined};
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
            adopt: args.adopt,
            engine: self.options.clone(),
            ..Options::new(addresses, args.node.clone().unwrap_or_default())
        };
        let sources = Sources { sources: sources.clone().into(), spec: Arc::clone(spec) };
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

/// Tells one specification from another; those that say the same have the same.
fn digest(sources: &[Source]) -> String {
    let mut digest = Sha256::new();
    for source in sources {
        let says = enact_rebel::essence(source).unwrap_or_else(|| source.text.clone());
        digest.update((says.len() as u64).to_be_bytes());
        digest.update(says);
    }
    digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
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
        journal: &'a Nats,
    ) -> BoxFuture<'a, Result<Box<dyn Adoption<Rebel>>, NotAdopted>> {
        async move {
            let examined = contract::examine(journal, &self.sources, &self.spec).await;
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
    fn adopt(self: Box<Self>, journal: &Nats) -> BoxFuture<'_, Result<Rebel, NotAdopted>> {
        async move {
            let Self { shard, sources, examined } = *self;
            match &examined.change {
                Change::First | Change::None => {}
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_of_a_specification_is_the_same_for_every_release_and_for_all_that_say_the_same() {
        let digest_of = |text: &str| digest(&[Source::new("lamp.rebel", text)]);
        let lamp =
            "class Lamp\n  lit: Integer = 0\n  initial off\n    on Light(): lit\n      post: this.lit += 1\n  lit\n";
        let digest = "11d64206256a80227c4292b528ea1971f1c132e645de5f21a657a8c0d5d4a2a2";
        assert_eq!(digest_of(lamp), digest, "nodes of two releases would not work together");
        assert_eq!(digest_of(&format!("// The same.\n{lamp}")), digest);
        assert_ne!(digest_of(&lamp.replace("+= 1", "+= 2")), digest);
    }
}
