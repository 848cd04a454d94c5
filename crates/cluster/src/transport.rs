//! How the engine of a shard reaches those of the others, on this node and elsewhere.

use std::sync::{Arc, Weak};

use async_nats::{Client, HeaderMap};
use enact_entities::{EntityKey, Model, Transport};
use tokio::sync::{mpsc, watch};

use crate::fabric::{ENGINE, node_subject, shard_subject};
use crate::hop::{self, Propagation};
use crate::hosted::Table;
use crate::lease::Held;
use crate::shard::shard_of;
use crate::view::View;

/// How many messages wait to be sent; what is beyond them is lost, and sent again by who waits for an answer.
const WAITING_MAX: usize = 16 << 10;

/// A message of an engine on its way to another node.
struct Message {
    subject: String,
    headers: Option<HeaderMap>,
    payload: Vec<u8>,
}

/// Sends messages of engines, one after the other. What cannot be read there is told to this node.
pub(crate) struct Sender {
    queue: mpsc::Sender<Message>,
    traces: Option<Propagation>,
}

impl Sender {
    /// A sender, and the task that has to run for it.
    pub(crate) fn new(
        client: Client,
        node: &str,
        traces: Option<Propagation>,
    ) -> (Self, impl Future<Output = ()> + Send + use<>) {
        let (queue, mut messages) = mpsc::channel::<Message>(WAITING_MAX);
        let here = node_subject(node);
        let sending = async move {
            while let Some(Message { subject, headers, payload }) = messages.recv().await {
                let (here, payload) = (here.clone(), payload.into());
                let sent = match headers {
                    Some(headers) => client.publish_with_reply_and_headers(subject, here, headers, payload).await,
                    None => client.publish_with_reply(subject, here, payload).await,
                };
                if let Err(cause) = sent {
                    tracing::debug!(%cause, "a message between engines was not sent");
                }
            }
        };
        (Self { queue, traces }, sending)
    }
}

/// The transport of one engine.
pub(crate) struct Between<M: Model> {
    here: String,
    names: Arc<[String]>,
    table: Weak<Table<M>>,
    views: watch::Receiver<View>,
    contract: String,
    lease: Arc<Held>,
    sender: Arc<Sender>,
}

impl<M: Model> Between<M> {
    pub(crate) fn new(
        shard: u16,
        names: Arc<[String]>,
        table: &Arc<Table<M>>,
        views: watch::Receiver<View>,
        contract: String,
        lease: Arc<Held>,
        sender: Arc<Sender>,
    ) -> Self {
        Self { here: shard.to_string(), names, table: Arc::downgrade(table), views, contract, lease, sender }
    }
}

/// The names of the engines: the numbers of their shards.
pub(crate) fn names(shards: u16) -> Arc<[String]> {
    (0..shards).map(|shard| shard.to_string()).collect()
}

impl<M: Model> Transport for Between<M> {
    fn here(&self) -> &str {
        &self.here
    }

    fn engine_of(&self, entity: &EntityKey) -> &str {
        let shards = u16::try_from(self.names.len()).expect("their numbers");
        &self.names[usize::from(shard_of(entity, shards))]
    }

    fn send(&self, engine: &str, message: Vec<u8>) {
        // What an owner says that may have been replaced could be out of date.
        if !self.lease.holds() {
            return;
        }
        let Ok(shard) = engine.parse() else { return };
        let Some(table) = self.table.upgrade() else { return };
        if let Some(hosted) = table.get(shard) {
            if let Err(cause) = hosted.engine.receive(&message) {
                tracing::error!(shard, %cause, "a message between engines is lost");
            }
            return;
        }
        let epoch = self.views.borrow().served(shard, &self.contract);
        if let Some(epoch) = epoch {
            // One too many is lost, and sent again.
            let (subject, headers) = (shard_subject(shard, epoch, ENGINE), hop::headers(self.sender.traces));
            drop(self.sender.queue.try_send(Message { subject, headers, payload: message }));
        }
    }
}
