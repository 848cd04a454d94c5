//! Answers of several messages, by one subscription for all requests.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_nats::{Client, Message, SubscribeError};
use enact_sync::Mutex;
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

type Waiting = Arc<Mutex<HashMap<u64, mpsc::UnboundedSender<Message>>>>;

/// Where the answers to requests arrive; nothing arrives any more when it is dropped.
pub(super) struct Inbox {
    prefix: String,
    waiting: Waiting,
    next: AtomicU64,
    task: JoinHandle<()>,
}

impl Inbox {
    pub(super) async fn open(client: &Client) -> Result<Self, SubscribeError> {
        let prefix = client.new_inbox();
        let mut arriving = client.subscribe(format!("{prefix}.*")).await?;
        let waiting = Waiting::default();
        let (receivers, skip) = (Arc::clone(&waiting), prefix.len() + 1);
        let task = tokio::spawn(async move {
            while let Some(message) = arriving.next().await {
                let number = message.subject.get(skip..).and_then(|number| number.parse::<u64>().ok());
                let receiver = number.and_then(|number| receivers.lock().get(&number).cloned());
                if let Some(receiver) = receiver {
                    // A request that has been given up takes no answers any more.
                    drop(receiver.send(message));
                }
            }
        });
        Ok(Self { prefix, waiting, next: AtomicU64::new(0), task })
    }

    /// The place for the answers to one request.
    pub(super) fn answers(&self) -> Answers {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let (sender, arrived) = mpsc::unbounded_channel();
        self.waiting.lock().insert(number, sender);
        Answers { subject: format!("{}.{number}", self.prefix), number, waiting: Arc::clone(&self.waiting), arrived }
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The answers to one request.
pub(super) struct Answers {
    subject: String,
    number: u64,
    waiting: Waiting,
    arrived: mpsc::UnboundedReceiver<Message>,
}

impl Answers {
    /// Where they have to be sent to.
    pub(super) fn subject(&self) -> String {
        self.subject.clone()
    }

    /// The next one, once it is there.
    pub(super) async fn next(&mut self) -> Option<Message> {
        self.arrived.recv().await
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.waiting.lock().remove(&self.number);
    }
}
