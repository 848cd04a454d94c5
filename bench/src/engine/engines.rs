//! Engines of one contract in process, each with a journal of its own, that reach each other by messages.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use enact_entities::{Command, Engine, EntityKey, Network, ReadMode, Receipt, SubmitError, SystemClock, View};
use enact_journal::disk::{Disk, OsDisk, SlowDisk};
use enact_journal::nats;
use enact_rebel::{EventCall, Instance, Source, Spec, Value, check};

use super::EngineError;
use super::contract::Contract;
use super::decider::Decider;
use super::store::Store;

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
    /// Where the records of the one engine are; nothing where each has a directory.
    pub(crate) over: Option<nats::Options>,
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
    engines: Arc<[Engine<Contract, Store>]>,
    /// What brings messages from one engine to another, as long as there are the engines.
    _network: Arc<Network<Contract, Store>>,
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
    /// Engines of `contract` whose journals are in new directories in `directory`, unless they are over NATS. The runtime of the caller maintains them.
    ///
    /// # Panics
    /// If the contract is not Rebel.
    pub(crate) async fn start(contract: &str, directory: &Path, setup: &Setup) -> Result<Self, EngineError> {
        let spec = Arc::new(check(vec![Source::new("contract.rebel", contract)]).expect("the contract is Rebel"));
        let count = setup.engines;
        let names = (0..count).map(|number| format!("engine-{number}"));
        let network = Network::new(names, move |entity| place(entity, count), setup.delay);
        let failed = |source: &dyn Error| EngineError::Journal(source.to_string());
        let open = async |number: usize| {
            if let Some(over) = &setup.over {
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
            let model = setup.decider.model(Arc::clone(&spec));
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
        Ok(Self { spec, engines: engines.into(), _network: network })
    }

    fn engine_of(&self, entity: &EntityKey) -> &Engine<Contract, Store> {
        &self.engines[place(entity, self.engines.len())]
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
        let command = Command { key: key.clone(), event: event.clone(), idempotency: None, deadline: DEADLINE };
        self.engine_of(key).submit(command).await
    }

    /// What is certain of the entity with this class and id.
    pub(crate) async fn read(&self, class: &str, id: &str) -> Result<Instance, EngineError> {
        let entity = EntityKey::new(class, id).expect("a name");
        let view = self.engine_of(&entity).read(&entity, ReadMode::Certain, None, DEADLINE).await;
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
        for engine in &*self.engines {
            engine.shutdown(DEADLINE).await.map_err(|cause| EngineError::Journal(cause.to_string()))?;
        }
        Ok(())
    }
}
