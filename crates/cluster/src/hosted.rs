//! A shard that this node serves: its engine, and the tasks that look after it.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use enact_entities::{Command, Engine, EntityKey, EraseError, Erasure, Metrics, Model, Receipt, SubmitError, TxId};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep, timeout};

use crate::fabric::{Answer, Question};
use crate::journal::ShardJournal;
use crate::lease::Held;

/// How long answers to what has come may take.
const UNSUBSCRIBED_MAX: Duration = Duration::from_secs(2);

/// The node does not serve the shard, or cannot tell whether it still does. Nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moved;

pub(crate) struct Hosted<M: Model> {
    pub(crate) shard: u16,
    pub(crate) epoch: u64,
    pub(crate) engine: Engine<M, ShardJournal>,
    /// What it counts on when it answers; nothing if the engine answers only behind a barrier.
    lease: Option<Arc<Held>>,
    /// The revision of the claim under which it is served.
    claim: AtomicU64,
    is_draining: AtomicBool,
    /// Ended when the shard is drained.
    maintaining: Mutex<Option<AbortHandle>>,
    /// Ended with this: what comes late is answered, too.
    listening: Mutex<Option<JoinHandle<()>>>,
    /// How much has been sent here.
    heard: AtomicU64,
    /// Told when nothing more is to be listened for.
    unsubscribed: Arc<Notify>,
}

impl<M: Model> Hosted<M> {
    pub(crate) fn new(
        shard: u16,
        epoch: u64,
        engine: Engine<M, ShardJournal>,
        lease: Option<Arc<Held>>,
        claim: u64,
    ) -> Self {
        let (claim, is_draining) = (AtomicU64::new(claim), AtomicBool::new(false));
        Self {
            shard,
            epoch,
            engine,
            lease,
            claim,
            is_draining,
            maintaining: Mutex::default(),
            listening: Mutex::default(),
            heard: AtomicU64::default(),
            unsubscribed: Arc::default(),
        }
    }

    /// Looks after the engine until the shard is drained.
    pub(crate) fn maintain(&self) {
        let engine = self.engine.clone();
        let task = tokio::spawn(async move { match engine.maintain().await {} });
        *self.maintaining.lock() = Some(task.abort_handle());
    }

    /// Runs `listen`, which takes what others send until it is told to unsubscribe, and then what is on its way.
    pub(crate) fn listen<F>(&self, listen: impl FnOnce(Arc<Notify>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        *self.listening.lock() = Some(tokio::spawn(listen(Arc::clone(&self.unsubscribed))));
    }

    /// Takes down that something was sent here.
    pub(crate) fn hears(&self) {
        self.heard.fetch_add(1, Ordering::Relaxed);
    }

    /// Waits until nothing has been sent here for `span`, and no longer than `patience`: others hear that the shard is elsewhere.
    pub(crate) async fn quiet(&self, span: Duration, patience: Duration) {
        let quiet = async {
            let mut before = None;
            loop {
                let heard = self.heard.load(Ordering::Relaxed);
                if before.replace(heard) == Some(heard) {
                    return;
                }
                sleep(span).await;
            }
        };
        // Somebody who goes on to ask is told by the servers.
        drop(timeout(patience, quiet).await);
    }

    /// Answers what has come. From then on the servers tell others that nobody listens; what is on its way from the servers just then is
    /// lost, so that it should be [quiet](Self::quiet).
    pub(crate) async fn unsubscribe(&self) {
        self.unsubscribed.notify_one();
        let listening = self.listening.lock().take();
        if let Some(listening) = listening {
            // A connection that is lost answers nobody.
            drop(timeout(UNSUBSCRIBED_MAX, listening).await);
        }
    }

    pub(crate) fn claim(&self) -> u64 {
        self.claim.load(Ordering::Acquire)
    }

    pub(crate) fn set_claim(&self, revision: u64) {
        self.claim.store(revision, Ordering::Release);
    }

    /// Whether it is on its way to another node, or to its end.
    pub(crate) fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::Acquire)
    }

    /// Whether what it says is up to date: it takes what is new, and nobody can have taken its place.
    fn is_owner(&self) -> bool {
        let is_current = self.lease.as_ref().is_none_or(|lease| lease.holds());
        is_current && !self.is_draining() && self.engine.failure().is_none()
    }

    /// Submits `command`. A refusal is as good as the state that it was judged by: one of a node whose place another may have taken is
    /// none.
    pub(crate) async fn submit(
        &self,
        tx: TxId,
        command: Command<M::Event>,
    ) -> Result<Result<Receipt, SubmitError>, Moved> {
        if !self.is_owner() {
            return Err(Moved);
        }
        let answer = self.engine.submit_as(tx, command).await;
        let is_lasting = matches!(answer, Ok(_) | Err(SubmitError::InDoubt { .. } | SubmitError::KeyReused));
        if is_lasting || self.is_owner() { Ok(answer) } else { Err(Moved) }
    }

    /// Erases the personal values of `subject`, and says so whatever has become of the shard meanwhile.
    pub(crate) async fn erase(
        &self,
        subject: &EntityKey,
        by: Option<&str>,
    ) -> Result<Result<Erasure, EraseError>, Moved> {
        if !self.is_owner() {
            return Err(Moved);
        }
        let answer = self.engine.erase(subject, by).await;
        let is_lasting = matches!(answer, Ok(_) | Err(EraseError::NotDestroyed { .. }));
        if is_lasting || self.is_owner() { Ok(answer) } else { Err(Moved) }
    }

    /// Answers what is asked of the owner of a shard. The lease is looked at behind a read: what it shows was not out of date then.
    pub(crate) async fn answer(&self, question: Question<M::Event>) -> Result<Answer<M::State, M::Event>, Moved> {
        if !self.is_owner() {
            return Err(Moved);
        }
        let answer = match question {
            Question::Submit { tx, command } => return self.submit(tx, command).await.map(Answer::Submitted),
            Question::Erase { subject, by } => return self.erase(&subject, by.as_deref()).await.map(Answer::Erased),
            Question::Read { key, mode, after, left } => Answer::Read(self.engine.read(&key, mode, after, left).await),
            Question::History { key, part, left } => Answer::History(self.engine.history(&key, part, left).await),
            Question::Changes { after, limit, left } => Answer::Changes(self.engine.changes(after, limit, left).await),
        };
        if self.is_owner() { Ok(answer) } else { Err(Moved) }
    }

    /// Takes no commands any more, and lets those under way end within `patience`. What comes is answered with [`Moved`] as long as
    /// this lives.
    pub(crate) async fn drain(&self, patience: Duration) {
        self.is_draining.store(true, Ordering::Release);
        if let Some(task) = self.maintaining.lock().take() {
            task.abort();
        }
        self.engine.drain(patience).await;
    }

    /// [Drains](Self::drain) it and closes the journal.
    pub(crate) async fn close(&self, patience: Duration) {
        let over = Instant::now() + patience;
        self.drain(patience).await;
        let patience = over.saturating_duration_since(Instant::now());
        if let Err(cause) = self.engine.shutdown(patience).await {
            tracing::warn!(shard = self.shard, %cause, "a shard was not left in peace");
        }
    }
}

impl<M: Model> Drop for Hosted<M> {
    fn drop(&mut self) {
        if let Some(task) = self.maintaining.get_mut().take() {
            task.abort();
        }
        if let Some(task) = self.listening.get_mut().take() {
            task.abort();
        }
    }
}

/// The shards that this node serves.
pub(crate) struct Table<M: Model> {
    shards: RwLock<Vec<Option<Arc<Hosted<M>>>>>,
    /// What the engines have counted that are no longer here.
    counted: Mutex<Metrics>,
}

impl<M: Model> Table<M> {
    pub(crate) fn new(shards: u16) -> Self {
        let shards = RwLock::new((0..shards).map(|_| None).collect());
        Self { shards, counted: Mutex::default() }
    }

    pub(crate) fn get(&self, shard: u16) -> Option<Arc<Hosted<M>>> {
        self.shards.read().get(usize::from(shard))?.clone()
    }

    pub(crate) fn all(&self) -> Vec<Arc<Hosted<M>>> {
        self.shards.read().iter().flatten().cloned().collect()
    }

    pub(crate) fn insert(&self, hosted: &Arc<Hosted<M>>) {
        self.shards.write()[usize::from(hosted.shard)] = Some(Arc::clone(hosted));
    }

    /// Takes the shard away, if it is served in this reign.
    pub(crate) fn remove(&self, shard: u16, epoch: u64) -> Option<Arc<Hosted<M>>> {
        let hosted = self.shards.write()[usize::from(shard)].take_if(|hosted| hosted.epoch == epoch)?;
        let Metrics { events, delays, timeouts, spans, appends, .. } = hosted.engine.metrics();
        self.counted.lock().add(&Metrics { events, delays, timeouts, spans, appends, ..Metrics::default() });
        Some(hosted)
    }

    pub(crate) fn metrics(&self) -> Metrics {
        let mut metrics = self.counted.lock().clone();
        self.all().iter().for_each(|hosted| metrics.add(&hosted.engine.metrics()));
        metrics
    }
}
