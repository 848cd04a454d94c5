//! How messages come from one engine to another.
use std::sync::{Arc, Weak};
use std::time::Duration;

use enact_journal::{EntityKey, Journal};
use enact_sync::Mutex;

use super::{Engine, Shared, origin};
use crate::model::Model;

/// Brings messages from one engine to others, and knows which engine has which entity.
///
/// An engine that is [given one](Engine::with_transport) has some entities of the model; others have the rest, each with a journal of its own.
/// What a message is made of is its engine's business; the transport gives it to [`Engine::receive`] of the other one.
///
/// # What it may do to messages
/// Lose, double, delay and reorder them. A message that is changed on its way, or comes from no engine of the same
/// model, is not expected.
pub trait Transport: Send + Sync + 'static {
    /// The name of this engine among all of them, the same in every run: letters, digits and `.:_-`.
    fn here(&self) -> &str;

    /// The name of the engine that has `entity`. An entity is nowhere else as long as anything is under way there.
    fn engine_of(&self, entity: &EntityKey) -> &str;

    /// Sends `message` to the engine of that name. Returns at once, and blocks nobody.
    fn send(&self, engine: &str, message: Vec<u8>);
}

/// Engines of one process, each of which reaches the others.
///
/// For tests, simulations and measurements: what one machine has to keep, one engine keeps faster.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use enact_entities::{Command, Engine, EngineOptions, Network, Rebel, SubmitError, SystemClock};
/// use enact_journal::Memory;
/// use enact_rebel::{Source, Value, check};
///
/// let spec = "
/// class Light
///   initial off
///     on Switch(): lit
///   lit
/// class Room
///   initial dark
///     on Enter(light: Light): bright
///       sync: light.Switch()
///   final bright
/// ";
/// let spec = Arc::new(check(vec![Source::new("lights.rebel", spec)]).unwrap());
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// // The lights are in the cellar, all else is in the house.
/// let network = Network::new(["house", "cellar"], |entity| usize::from(entity.class() == "Light"), Duration::ZERO);
/// let start = |here| {
///     let (model, transport) = (Rebel::new(Arc::clone(&spec)), network.transport(here));
///     let options = EngineOptions::default();
///     let engine = Engine::with_transport(model, Memory::new(), options, Arc::new(SystemClock), transport)?;
///     network.join(here, &engine);
///     Ok::<_, Box<dyn std::error::Error>>(engine)
/// };
/// let (house, cellar) = (start(0)?, start(1)?);
///
/// let class = spec.class("Light").unwrap();
/// let lamp = Value::Reference(class.reference(class.key("lamp").unwrap()));
/// let enter = spec.class("Room").unwrap().event("Enter").unwrap().call([("light", lamp)]).unwrap();
/// let deadline = Duration::from_secs(5);
/// let enter = Command { key: "Room/hall".parse()?, event: enter, then: Vec::new(), idempotency: None, deadline };
/// let elsewhere = cellar.submit(enter.clone()).await;
/// assert!(matches!(elsewhere, Err(SubmitError::Elsewhere { engine, .. }) if engine == "house"));
/// // It switches the light in the other engine, or does nothing at all.
/// house.submit(enter).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # }).unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Network<M: Model, J: Journal> {
    /// By the order of their names.
    engines: Mutex<Vec<Weak<Shared<M, J>>>>,
    names: Vec<String>,
    place: Box<dyn Fn(&EntityKey) -> usize + Send + Sync>,
    delay: Duration,
}

impl<M: Model, J: Journal> Network<M, J> {
    /// A network of engines with these names. `place` says which of them, counted from 0, has an entity; `delay` is how long a
    /// message travels.
    ///
    /// # Panics
    /// If there are no names.
    pub fn new<N: Into<String>>(
        names: impl IntoIterator<Item = N>,
        place: impl Fn(&EntityKey) -> usize + Send + Sync + 'static,
        delay: Duration,
    ) -> Arc<Self> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        assert!(!names.is_empty(), "a network has engines");
        let engines = Mutex::new(names.iter().map(|_| Weak::new()).collect());
        Arc::new(Self { engines, names, place: Box::new(place), delay })
    }

    /// What the engine number `here` is given.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn transport(self: &Arc<Self>, here: usize) -> Arc<dyn Transport> {
        assert!(here < self.names.len(), "there are {} engines", self.names.len());
        Arc::new(Place { network: Arc::clone(self), here })
    }

    /// Lets the engine number `here` have its messages from now on, in place of an earlier one.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn join(&self, here: usize, engine: &Engine<M, J>) {
        self.engines.lock()[here] = Arc::downgrade(&engine.shared);
    }

    fn index_of(&self, entity: &EntityKey) -> usize {
        (self.place)(entity) % self.names.len()
    }

    fn deliver(&self, engine: &str, message: &[u8]) {
        let found = self.names.iter().position(|name| name == engine);
        let Some(shared) = found.and_then(|index| self.engines.lock()[index].upgrade()) else { return };
        if let Err(cause) = (Engine { shared }).receive(message) {
            tracing::error!(engine, %cause, "a message is lost");
        }
    }
}

struct Place<M: Model, J: Journal> {
    network: Arc<Network<M, J>>,
    here: usize,
}

impl<M: Model, J: Journal> Transport for Place<M, J> {
    fn here(&self) -> &str {
        &self.network.names[self.here]
    }

    fn engine_of(&self, entity: &EntityKey) -> &str {
        &self.network.names[self.network.index_of(entity)]
    }

    fn send(&self, engine: &str, message: Vec<u8>) {
        let (network, engine) = (Arc::clone(&self.network), engine.to_owned());
        if network.delay.is_zero() {
            return network.deliver(&engine, &message);
        }
        origin::spawn(async move {
            tokio::time::sleep(network.delay).await;
            network.deliver(&engine, &message);
        });
    }
}
