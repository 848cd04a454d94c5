//! Engines of one contract in process, each with a journal of its own, that reach each other by messages; or nodes of a cluster.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use enact_cluster::Options;
use enact_entities::{
    Command, Engine, Entities as _, EntityKey, Network, ReadMode, Receipt, SubmitError, SystemClock, View,
};
use enact_journal::disk::{Disk, OsDisk, SlowDisk};
use enact_rebel::{EventCall, Instance, Source, Spec, Value, check};
use tokio::time::sleep;

use super::EngineError;
use super::contract::Contract;
use super::decider::Decider;
use super::store::Store;
use crate::nodes::{self, Node};
use crate::served::Over;

const DEADLINE: Duration = Duration::from_secs(60);
/// How many requests are under way at once where order does not matter.
const AT_ONCE: usize = 2_000;

/// How the engines of a workload are set up.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    /// How many engines share the entities, each with a journal of its own.
    pub(crate) engines: usize,
    /// How long a message travels from one engine to another.
    pub(crate) delay: Duration,
    /// How long a sync takes at least; nothing where the disk decides.
    pub(crate) sync_min: Option<Duration>,
    /// What decides about admission.
    pub(crate) decider: Decider,
    /// Where the records are.
    pub(crate) records: Records,
}

/// Where engines keep their records.
#[derive(Debug, Clone)]
pub(crate) enum Records {
    /// In a directory of each engine.
    Directories,
    /// On servers, those of the one engine.
    Over(Over),
    /// Over the servers of NATS at these addresses, separated by commas: the engines are nodes of a cluster, and share its shards.
    Cluster(String),
}

/// An event of an entity.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) key: EntityKey,
    pub(crate) event: EventCall,
}

#[derive(Clone)]
pub(crate) struct Engines {
    spec: Arc<Spec>,
    members: Members,
}

#[derive(Clone)]
enum Members {
    Engines {
        engines: Arc<[Engine<Contract, Store>]>,
        /// What brings messages from one engine to another, as long as there are the engines.
        _network: Arc<Network<Contract, Store>>,
    },
    /// Each takes commands for all entities.
    Nodes(Arc<[Node]>),
}

/// The engine that has `entity`, of so many.
fn place(entity: &EntityKey, engines: usize) -> usize {
    let hash = entity
        .id()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    // The last bits of this hash are those of the last byte.
    usize::try_from(hash >> 33).expect("31 bits") % engines
}

impl Engines {
    /// Engines of `contract` whose journals are in new directories in `directory`, unless they are on servers. The runtime of the caller maintains them.
    ///
    /// # Panics
    /// If the contract is not Rebel.
    pub(crate) async fn start(contract: &str, directory: &Path, setup: &Setup) -> Result<Self, EngineError> {
        let spec = Arc::new(check(vec![Source::new("contract.rebel", contract)]).expect("the contract is Rebel"));
        let members = match &setup.records {
            Records::Cluster(servers) => Members::Nodes(join_all(&spec, servers, setup).await?),
            Records::Directories | Records::Over(_) => Self::open_all(&spec, directory, setup).await?,
        };
        Ok(Self { spec, members })
    }

    async fn open_all(spec: &Arc<Spec>, directory: &Path, setup: &Setup) -> Result<Members, EngineError> {
        let count = setup.engines;
        let names = (0..count).map(|number| format!("engine-{number}"));
        let network = Network::new(names, move |entity| place(entity, count), setup.delay);
        let failed = |source: &dyn Error| EngineError::Journal(source.to_string());
        let open = async |number: usize| {
            if let Records::Over(over) = &setup.records {
                return Store::over(over.clone()).await;
            }
            let disk: Arc<dyn Disk> =
                Arc::new(OsDisk::at(&directory.join(number.to_string())).map_err(|source| failed(&source))?);
            Store::on(match setup.sync_min {
                Some(sync) => Arc::new(SlowDisk::new(disk, sync)),
                None => disk,
            })
        };
        let mut engines = Vec::with_capacity(count);
        for number in 0..count {
            let journal = open(number).await?;
            let options = setup.decider.options();
            let model = setup.decider.model(Arc::clone(spec));
            let engine = if count == 1 {
                Engine::new(model, journal, options)
            } else {
                let transport = network.transport(number);
                let engine = Engine::with_transport(model, journal, options, Arc::new(SystemClock), transport);
                let engine = engine.map_err(|source| failed(&source))?;
                network.join(number, &engine);
                engine
            };
            let maintained = engine.clone();
            tokio::spawn(async move { maintained.maintain().await });
            engines.push(engine);
        }
        Ok(Members::Engines { engines: engines.into(), _network: network })
    }

    /// The event of the entity with this class and id, with arguments by name.
    ///
    /// # Panics
    /// If the contract does not declare it.
    pub(crate) fn request(&self, class: &str, id: &str, event: &str, arguments: &[(&str, &str)]) -> Request {
        let event = self.spec.class(class).expect("declared").event(event).expect("declared");
        let value = |name: &str, text: &str| {
            let parameter = event.params().iter().find(|parameter| **parameter.name() == *name).expect("declared");
            Value::parse(parameter.ty(), text).expect("well typed")
        };
        let arguments: Vec<_> = arguments.iter().map(|&(name, text)| (name, value(name, text))).collect();
        Request { key: EntityKey::new(class, id).expect("a name"), event: event.call(arguments).expect("well typed") }
    }

    /// Submits all requests, in any order.
    pub(crate) async fn submit_all(&self, requests: Vec<Request>) -> Result<(), SubmitError> {
        for some in requests.chunks(AT_ONCE) {
            futures_util::future::try_join_all(some.iter().map(|request| self.submit(request))).await?;
        }
        Ok(())
    }

    pub(crate) async fn submit(&self, Request { key, event }: &Request) -> Result<Receipt, SubmitError> {
        let command =
            Command { key: key.clone(), event: event.clone(), then: Vec::new(), idempotency: None, deadline: DEADLINE };
        match &self.members {
            Members::Engines { engines, .. } => engines[place(key, engines.len())].submit(command).await,
            Members::Nodes(nodes) => nodes[place(key, nodes.len())].submit(command).await,
        }
    }

    /// What is certain of the entity with this class and id.
    pub(crate) async fn read(&self, class: &str, id: &str) -> Result<Instance, EngineError> {
        let entity = EntityKey::new(class, id).expect("a name");
        let view = match &self.members {
            Members::Engines { engines, .. } => {
                engines[place(&entity, engines.len())].read(&entity, ReadMode::Certain, None, DEADLINE).await
            }
            Members::Nodes(nodes) => {
                nodes[place(&entity, nodes.len())].read(&entity, ReadMode::Certain, None, DEADLINE).await
            }
        };
        match view.map_err(|cause| EngineError::Journal(cause.to_string()))? {
            View::One { state, .. } => Ok(state),
            View::Range(_) => unreachable!("a certain read shows one state"),
        }
    }

    /// A field of the entity with this class and id: a whole number, or an amount in minor units.
    pub(crate) async fn number(&self, class: &str, id: &str, field: &str) -> Result<i64, EngineError> {
        let instance = self.read(class, id).await?;
        let number = instance.fields().get(field).and_then(Value::number).and_then(|number| number.try_into().ok());
        number.ok_or_else(|| EngineError::Wrong(format!("{class} {id} has no {field}")))
    }

    /// What the entities of this class and these ids have in a field, in all.
    pub(crate) async fn sum(&self, class: &str, ids: &[String], field: &str) -> Result<i64, EngineError> {
        let mut sum = 0;
        for id in ids {
            sum += self.number(class, id, field).await?;
        }
        Ok(sum)
    }

    pub(crate) async fn stop(&self) -> Result<(), EngineError> {
        match &self.members {
            Members::Engines { engines, .. } => {
                for engine in &**engines {
                    engine.shutdown(DEADLINE).await.map_err(|cause| EngineError::Journal(cause.to_string()))?;
                }
            }
            Members::Nodes(nodes) => {
                for node in &**nodes {
                    node.leave(DEADLINE).await;
                }
            }
        }
        Ok(())
    }
}

/// As many nodes as there are to be engines, which serve all shards when they are returned.
async fn join_all(spec: &Arc<Spec>, servers: &str, setup: &Setup) -> Result<Arc<[Node]>, EngineError> {
    let mut nodes = Vec::with_capacity(setup.engines);
    for number in 0..setup.engines {
        let options = Options { engine: setup.decider.options(), ..Options::new(servers, format!("node-{number}")) };
        let joined = nodes::join(spec, options).await;
        nodes.push(joined.map_err(|cause| EngineError::Journal(cause.to_string()))?);
    }
    while nodes.iter().any(|node| nodes::shards(node).is_empty()) {
        for node in &nodes {
            node.settled().await;
        }
        sleep(Duration::from_millis(5)).await;
    }
    Ok(nodes.into())
}
