//! What a node is to its users.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_nats::Client;
use enact_entities::{
    ChangesOf, Command, Cursor, DiskState, Entities, EntityKey, EraseError, Erasure, HistoryOf, HistoryPart,
    Membership, Metrics, Model, ReadError, ReadMode, Receipt, Strategies, SubmitError, SystemClock, Timestamp, TxId,
    Vault, View, WallClock,
};
use enact_journal::SecurityError;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::Options;
use crate::bucket::{Bucket, Wrote};
use crate::connect::connect;
use crate::contract::Contract;
use crate::fabric;
use crate::journals::{Journals, Keeper, ShardJournals};
use crate::lease::{Held, LEASE_MIN, renewed_after};
use crate::node::{Node, Parts, new_lease};
use crate::shard::SHARDS_MAX;
use crate::status::Problem;
use crate::subject_keys::{Secret, SharedKeys};
use crate::transport::Sender;
use crate::view::{Revised, SETTINGS, Settings, View as Members};

/// How long joining goes on to ask.
pub(crate) const JOIN_MAX: Duration = Duration::from_secs(60);
/// How long joining tries to reach a server: all of them may just be starting.
const CONNECT_MAX: Duration = Duration::from_secs(15);
const CONNECT_PAUSE: Duration = Duration::from_millis(500);
/// How long the bucket may take to be opened.
const OPEN_MAX: Duration = Duration::from_secs(3);
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Why a node could not join.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// An address is none of a server.
    #[error("{address:?} is no address of a NATS server, such as nats://host:4222")]
    Address {
        /// The address, without its user and password.
        address: String,
    },
    /// The program and a server do not trust each other.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// The name of the node is none.
    #[error("{node:?} is no name of a node: give letters, digits, `-` and `_`")]
    Name {
        /// The name.
        node: String,
    },
    /// There are no shards, or too many.
    #[error("{shards} shards: give 1 to {SHARDS_MAX}")]
    Shards {
        /// How many.
        shards: u16,
    },
    /// The lease is too short.
    #[error("a lease of {} s: give {} s at least", lease.as_secs(), LEASE_MIN.as_secs())]
    Lease {
        /// How long it is.
        lease: Duration,
    },
    /// No server can be reached, or none does what it has to in time.
    #[error("the servers or nodes cannot be reached: {why}")]
    Unreachable {
        /// What happened last.
        why: String,
    },
    /// Another node that is alive has the name.
    #[error("another node is called {node} (at {address}): give each node a name of its own")]
    NameInUse {
        /// The name.
        node: String,
        /// Where the other one is found.
        address: String,
    },
    /// The shards were counted by the first node, for ever.
    #[error("there are {found} shards, not {given}: their number never changes")]
    OtherShards {
        /// How many there are.
        found: u16,
        /// How many were given.
        given: u16,
    },
    /// There are entities, in another number of shards, and no node has said how many.
    #[error(
        "there are entities that are not in {shards} shards: use an account, or a schema, of its own for the nodes, or as many shards as there \
         are; a node without others has one"
    )]
    Occupied {
        /// How many shards were given.
        shards: u16,
    },
    /// The entities are served under another contract, and the node may not [adopt](Options::adopt) its own.
    #[error(
        "the entities are served under another contract{}: give this node the same, or let it adopt its own (`adopt`)",
        by(nodes)
    )]
    OtherContract {
        /// The nodes with that contract that are alive.
        nodes: Vec<String>,
    },
    /// The journals of the shards are elsewhere, as the first node has decided, for ever.
    #[error("the journals of the shards are in {found}, and not in {given}: {}", remedy(found))]
    OtherJournals {
        /// Where they are.
        found: Keeper,
        /// What was given.
        given: Keeper,
    },
    /// The database of the journals is not what it has to be.
    #[error("{why}")]
    Database {
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// Something is done to all shards, and nodes are alive.
    #[error("the nodes {} are alive: stop them first", nodes.join(", "))]
    Alive {
        /// Their names.
        nodes: Vec<String>,
    },
    /// The shards are being filled from a backup, or were until that was cut off.
    #[error(
        "the {shards} shards are being restored from a backup, or were until that was cut off: if no restore runs any more, remove \
         the streams J0, S0 and so on of all shards, or the schema of the database, and the stream `KV_enact`, and restore them again"
    )]
    Restoring {
        /// How many shards there are.
        shards: u16,
    },
    /// Shards are to be filled, and there is something already.
    #[error(
        "there are {what} already: restore to servers, to an account, or to a schema, without any; or, if nobody needs what is in them, stop all \
         nodes and remove the streams of all shards, or the schema, and the stream `KV_enact`"
    )]
    Filled {
        /// What there is.
        what: String,
    },
    /// The keys of data subjects are hidden with another secret.
    #[error("the subject keys are hidden with another secret: give this node the same one as the others")]
    OtherSecret,
    /// The stream of the keys of data subjects has a setting with which keys could get lost, or never be destroyed.
    #[error(
        "the stream enact-subject-keys has another {setting} than it was made with: correct it with `nats stream edit enact-subject-keys`"
    )]
    KeySetting {
        /// The setting, as the server calls it.
        setting: String,
    },
    /// The leases are kept by fewer servers.
    #[error("leases and claims are kept {found} times, not {required}: `nats kv` can edit the bucket `enact`")]
    Replicas {
        /// How many servers keep them.
        found: usize,
        /// How many were asked for.
        required: usize,
    },
}

impl JoinError {
    /// Whether the options cannot be, whatever the others are.
    pub fn is_of_usage(&self) -> bool {
        match self {
            Self::Security(cause) => cause.is_of_settings(),
            Self::Address { .. } | Self::Name { .. } | Self::Shards { .. } | Self::Lease { .. } => true,
            _ => false,
        }
    }

    /// Whether the node has another contract than the others.
    pub fn is_of_contract(&self) -> bool {
        matches!(self, Self::OtherContract { .. })
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
    pub(crate) fn unreachable(why: impl ToString) -> Self {
        Self::Unreachable { why: why.to_string() }
    }
}

/// A node among those that share the entities of a model; it answers for all of them.
///
/// Cheap to clone; all clones are one node.
pub struct Cluster<M: Model> {
    node: Arc<Node<M>>,
    strategies: Arc<Strategies>,
    tasks: Arc<Tasks>,
}

impl<M: Model> Clone for Cluster<M> {
    fn clone(&self) -> Self {
        let (node, strategies, tasks) = (Arc::clone(&self.node), Arc::clone(&self.strategies), Arc::clone(&self.tasks));
        Self { node, strategies, tasks }
    }
}

impl<M: Model> fmt::Debug for Cluster<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("node", &self.node.options.node).finish_non_exhaustive()
    }
}

/// What runs for a node; ended when the last clone of it is dropped.
struct Tasks {
    stop: mpsc::Sender<()>,
    run: parking_lot::Mutex<Option<JoinHandle<()>>>,
    others: Vec<JoinHandle<()>>,
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.run.get_mut().iter().chain(&self.others).for_each(JoinHandle::abort);
    }
}

impl<M: Model> Cluster<M> {
    /// Joins the nodes that share the entities of `model`, or is the first of them. The node gets its shards in the background.
    ///
    /// If the node has run before and was killed, this waits until its lease is over.
    ///
    /// # Errors
    /// When no server can be reached, the name is in use, or what all nodes have in common is something else.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and network.
    ///
    /// # Cancel safety
    /// The node may have taken a lease, which is over after its time.
    pub async fn join(model: M, contract: impl Contract<M>, options: Options) -> Result<Self, JoinError> {
        check(&options)?;
        let client = reach(&options).await?;
        let deadline = Instant::now() + JOIN_MAX;
        let bucket = loop {
            let opened = timeout(OPEN_MAX, Bucket::open(&client, options.replicas)).await;
            match opened.unwrap_or_else(|_| Err(JoinError::unreachable("the bucket was not opened in time"))) {
                Err(JoinError::Unreachable { why }) if Instant::now() < deadline => {
                    tracing::debug!(why, "the bucket cannot be opened; trying again");
                    sleep(PAUSE).await;
                }
                opened => break opened?,
            }
        };
        let (_, journals) = agree(&bucket, &options, deadline).await?;
        let vault = match &options.subject_keys {
            Some(secret) => Some(Vault::new(open_keys(&client, secret, options.replicas, deadline).await?)),
            None => None,
        };
        let (views, seen) = watch::channel(Members::default());
        let watching = tokio::spawn(bucket.clone().watch(views, renewed_after(options.lease) * 3));
        let lease = Held::take(bucket.clone(), &options.node, new_lease(&options), options.lease).await?;
        let mut joined = seen.clone();
        let is_seen = |view: &Members| {
            view.lease(&options.node).is_some_and(|seen| seen.value.incarnation == lease.incarnation())
        };
        let seen_in_time = timeout(JOIN_MAX, joined.wait_for(is_seen));
        let view = tokio::select! {
            view = seen_in_time => view.map_err(|_| JoinError::unreachable("leases cannot be watched"))?,
            () = lease.keep() => return Err(JoinError::unreachable("the lease is over")),
        };
        let view = view.map_err(JoinError::unreachable)?.clone();
        let revision = match conform(&bucket, &options, &view).await {
            Ok(revision) => revision,
            Err(refused) => {
                lease.give_up().await;
                return Err(refused);
            }
        };
        let is_shown = |view: &Members| view.settings().is_some_and(|settings| settings.revision >= revision);
        let shown = timeout(JOIN_MAX, joined.wait_for(is_shown)).await;
        drop(shown.map_err(|_| JoinError::unreachable("what all nodes have in common cannot be watched"))?);
        let orders = client.subscribe(fabric::node_subject(&options.node)).await.map_err(JoinError::unreachable)?;
        let (sender, sending) = Sender::new(client.clone(), &options.node, options.traces);
        let strategies = Arc::new(options.engine.strategies.clone());
        let contract = Box::new(contract);
        let node =
            Node::new(Parts { options, model, contract, client, bucket, journals, views: seen, sender, lease, vault });
        let (stop, stopped) = mpsc::channel(1);
        let run = parking_lot::Mutex::new(Some(tokio::spawn(Arc::clone(&node).run(stopped))));
        let others = vec![watching, tokio::spawn(sending), tokio::spawn(Arc::clone(&node).obey(orders))];
        Ok(Self { node, strategies, tasks: Arc::new(Tasks { stop, run, others }) })
    }

    /// Waits until the node has failed, which it may never do.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn failed(&self) -> String {
        self.node.failed().await
    }

    /// Waits until all shards are served, here or elsewhere, and this node serves those that it should.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn settled(&self) {
        while !self.node.is_settled() {
            sleep(PAUSE).await;
        }
    }

    /// Gives all shards to others: takes no more commands and reads for them, lets end what is under way within `patience`, and gives the
    /// lease up. What has not ended by then has the same fate as in a crash: nothing that was acknowledged is lost.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers.
    pub async fn leave(&self, patience: Duration) {
        let run = self.tasks.run.lock().take();
        let Some(run) = run else { return };
        // It has ended already if the node has failed.
        let _ = self.tasks.stop.send(()).await;
        drop(run.await);
        self.node.leave(patience).await;
    }
}

fn check(options: &Options) -> Result<(), JoinError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if options.node.is_empty() || !options.node.bytes().all(is_name) {
        return Err(JoinError::Name { node: options.node.clone() });
    }
    if !(1..=SHARDS_MAX).contains(&options.shards) {
        return Err(JoinError::Shards { shards: options.shards });
    }
    if options.lease < LEASE_MIN {
        return Err(JoinError::Lease { lease: options.lease });
    }
    Ok(())
}

fn remedy(found: &Keeper) -> &'static str {
    match found {
        Keeper::Streams => "leave `--journal` out",
        Keeper::Database { .. } => "name that database with `--journal postgres://..`",
    }
}

/// Connects to one of the servers, which may have just been started.
async fn reach(options: &Options) -> Result<Client, JoinError> {
    let (name, deadline) = (format!("enact {}", options.node), Instant::now() + CONNECT_MAX);
    loop {
        match connect(&options.servers, &name).await {
            Err(JoinError::Unreachable { why }) if Instant::now() < deadline => {
                tracing::warn!(why, "the servers cannot be reached; trying again");
                sleep(CONNECT_PAUSE).await;
            }
            connected => return connected,
        }
    }
}

fn by(nodes: &[String]) -> String {
    if nodes.is_empty() { String::new() } else { format!(", by {}", nodes.join(", ")) }
}

/// Opens the keys of data subjects; servers that have just been started may need a while.
async fn open_keys(
    client: &Client,
    secret: &Secret,
    replicas: usize,
    deadline: Instant,
) -> Result<SharedKeys, JoinError> {
    loop {
        match SharedKeys::open(client, secret.clone(), replicas).await {
            Err(JoinError::Unreachable { why }) if Instant::now() < deadline => {
                tracing::debug!(why, "the subject keys cannot be opened; trying again");
                sleep(PAUSE).await;
            }
            opened => return opened,
        }
    }
}

/// What all nodes have in common, as the first one has decided it, and the journals of the shards, which are part of that.
async fn agree(
    bucket: &Bucket,
    options: &Options,
    deadline: Instant,
) -> Result<(Revised<Settings>, ShardJournals), JoinError> {
    let Options { shards, contract, .. } = options.clone();
    let journals = options.journals.of_node(&options.node);
    let mut own = Settings { shards, contract, proposed: None, refused: None, database: None, is_restoring: false };
    loop {
        let why = match bucket.look_at::<Settings>(SETTINGS).await {
            Ok(Revised { value: Some(Settings { shards, is_restoring: true, .. }), .. }) => {
                return Err(JoinError::Restoring { shards });
            }
            Ok(Revised { value: Some(found), .. }) if found.shards != own.shards => {
                return Err(JoinError::OtherShards { found: found.shards, given: own.shards });
            }
            Ok(Revised { value: Some(value), revision }) => {
                let journals = journals.agreed(&options.servers, &value).await?;
                if journals.lose_by_promotion().await {
                    tracing::warn!("{}", Problem::LosesByPromotion);
                }
                return Ok((Revised { value, revision }, journals));
            }
            Ok(Revised { value: None, revision }) => match is_free(bucket, &journals, own.shards).await {
                Ok(false) => return Err(JoinError::Occupied { shards: own.shards }),
                Ok(true) => {
                    own.database = journals.identify().await?;
                    match bucket.write(SETTINGS, &own, revision, None).await {
                        // They are read next.
                        Wrote::Yes(_) => continue,
                        Wrote::Conflict | Wrote::Unknown => "the settings were not stored".to_owned(),
                    }
                }
                Err(JoinError::Unreachable { why }) => why,
                Err(cause) => return Err(cause),
            },
            Err(why) => why,
        };
        if Instant::now() > deadline {
            return Err(JoinError::unreachable(why));
        }
        sleep(PAUSE).await;
    }
}

/// Whether nobody has entities here, in another number of shards: a node without others has them in one.
async fn is_free(bucket: &Bucket, journals: &Journals, shards: u16) -> Result<bool, JoinError> {
    if !journals.has(bucket, 0).await? {
        return Ok(true);
    }
    Ok(journals.has(bucket, shards - 1).await? && !journals.has(bucket, shards).await?)
}

/// Fails if the contract of this node is not that of all and may not be. That it was refused once is forgotten: it is tried again.
/// Returns the revision of the settings.
async fn conform(bucket: &Bucket, options: &Options, view: &Members) -> Result<u64, JoinError> {
    let deadline = Instant::now() + JOIN_MAX;
    loop {
        let (Revised { value: settings, revision }, _) = agree(bucket, options, deadline).await?;
        if settings.contract == options.contract {
            return Ok(revision);
        }
        if !options.adopt {
            let present = view.nodes().filter(|(_, lease)| lease.contract == settings.contract);
            return Err(JoinError::OtherContract { nodes: present.map(|(node, _)| node.to_owned()).collect() });
        }
        if settings.refused.as_ref().is_none_or(|refused| refused.contract != options.contract) {
            return Ok(revision);
        }
        if let Wrote::Yes(revision) =
            bucket.write(SETTINGS, &Settings { refused: None, ..settings }, revision, None).await
        {
            return Ok(revision);
        }
        if Instant::now() > deadline {
            return Err(JoinError::unreachable("the settings were not stored"));
        }
        sleep(PAUSE).await;
    }
}

impl<M: Model> Entities for Cluster<M> {
    type Model = M;

    fn model(&self) -> &M {
        &self.node.model
    }

    fn strategies(&self) -> &Strategies {
        &self.strategies
    }

    fn submit(&self, command: Command<M::Event>) -> impl Future<Output = Result<Receipt, SubmitError>> + Send {
        self.node.submit(command)
    }

    fn read(
        &self,
        key: &EntityKey,
        mode: ReadMode,
        after: Option<TxId>,
        deadline: Duration,
    ) -> impl Future<Output = Result<View<M::State>, ReadError>> + Send {
        self.node.read(key, mode, after, deadline)
    }

    fn history(
        &self,
        key: &EntityKey,
        part: HistoryPart,
        deadline: Duration,
    ) -> impl Future<Output = Result<HistoryOf<M>, ReadError>> + Send {
        self.node.history(key, part, deadline)
    }

    fn shards(&self) -> u16 {
        self.node.options.shards
    }

    fn changes(
        &self,
        shard: u16,
        after: Cursor,
        limit: usize,
        deadline: Duration,
    ) -> impl Future<Output = Result<ChangesOf<M>, ReadError>> + Send {
        self.node.changes(shard, after, limit, deadline)
    }

    fn vault(&self) -> Option<&Vault> {
        self.node.vault.as_ref()
    }

    fn erase(&self, subject: &EntityKey, by: Option<&str>) -> impl Future<Output = Result<Erasure, EraseError>> + Send {
        self.node.erase(subject, by)
    }

    fn time(&self) -> Timestamp {
        SystemClock.time()
    }

    fn metrics(&self) -> Metrics {
        self.node.table.metrics()
    }

    fn failure(&self) -> Option<String> {
        self.node.failure()
    }

    fn disk(&self) -> DiskState {
        let states = self.node.table.all().into_iter().map(|hosted| hosted.engine.disk());
        // One that has failed is opened again, here or elsewhere.
        let is_bad = |state: &DiskState| !matches!(state, DiskState::Ready | DiskState::Failed { .. });
        states.into_iter().find(is_bad).unwrap_or(DiskState::Ready)
    }

    fn membership(&self) -> Option<Membership> {
        let shards = self.node.table.all().iter().map(|hosted| hosted.shard).collect();
        let node = self.node.options.node.as_str().into();
        let counts = self.node.counts.read();
        Some(Membership { node, standing: self.node.standing(), shards, counts })
    }
}
