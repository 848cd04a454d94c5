//! A node: the shards that it should own, and how it gets them and gives them away.
//!
//! # Getting a shard
//! A node that should own a shard looks for the claim to it. If the node that has the claim is alive, it is asked to hand the shard over: it lets
//! end what is under way and gives its claim to the one that has asked. Otherwise the claim is taken. Then the journal is opened,
//! which fences all earlier writers off; the contract is adopted; and what others send is listened for. Only then does the claim name
//! the reign, and others come.
//!
//! # What decides
//! The journal's owner record decides who writes, and nothing else: a node that is mistaken about a claim or a lease cannot write what
//! another one does not see. Claims and leases decide who should, and let a node know when it must not answer by itself.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_nats::{Client, Subscriber};
use enact_entities::{Engine, EngineOptions, Model, NodeCounts, Origin, Standing, SystemClock, Vault};
use futures_util::StreamExt;
use futures_util::future::join_all;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::bucket::{Bucket, Wrote};
use crate::contract::{Contract, NotAdopted};
use crate::fabric::{self, ASK, Answer, ENGINE, Order, Question};
use crate::hop::{self, Propagation};
use crate::hosted::{Hosted, Table};
use crate::journal::ShardJournal;
use crate::journals::ShardJournals;
use crate::lease::Held;
use crate::proposal::{Stage, Step, Voter};
use crate::transport::{Between, Sender};
use crate::view::{Claim, EXAMINED, Examined, Lease, NODE, SETTINGS, SHARD, View};
use crate::{JoinError, Options};

/// How long an owner lets end what is under way when it hands a shard over.
const DRAIN: Duration = Duration::from_secs(2);
/// How far apart looks at the journals are.
const PROBE: Duration = Duration::from_secs(3);
/// How long a node must have reached the journals before it takes shards from one that has not: when all reach them again, each has said so
/// by then.
const STEADY: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_millis(500);
/// How long a node waits before it opens a shard again that could not be opened.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);
/// How long nothing has come from others when a node that leaves stops to listen: a message that is on its way to it then is lost, and its
/// sender would wait for an answer.
const QUIET: Duration = Duration::from_millis(200);
/// How long after a shard is given away messages may come from nodes that do not know it yet.
const LATE_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Node<M: Model> {
    pub(crate) options: Options,
    pub(crate) model: M,
    pub(crate) client: Client,
    pub(crate) table: Arc<Table<M>>,
    pub(crate) views: watch::Receiver<View>,
    /// What opens personal values of all shards, if there are any.
    pub(crate) vault: Option<Vault>,
    contract: Box<dyn Contract<M>>,
    bucket: Bucket,
    journals: ShardJournals,
    names: Arc<[String]>,
    sender: Arc<Sender>,
    lease: RwLock<Arc<Held>>,
    /// The revisions of the claims that this node has written last: a view with an earlier one lags behind.
    written: Mutex<Vec<u64>>,
    failure: watch::Sender<Option<String>>,
    /// Since when each look has reached the journals.
    reached: Mutex<Instant>,
    pub(crate) counts: Counts,
}

/// What the node counts.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) forwarded: AtomicU64,
    opened: AtomicU64,
    given_up: AtomicU64,
    leases_lost: AtomicU64,
}

impl Counts {
    pub(crate) fn read(&self) -> NodeCounts {
        let [forwarded, opened, given_up, leases_lost] =
            [&self.forwarded, &self.opened, &self.given_up, &self.leases_lost]
                .map(|count| count.load(Ordering::Relaxed));
        NodeCounts { forwarded, opened, given_up, leases_lost }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What a node is made of.
pub(crate) struct Parts<M: Model> {
    pub(crate) options: Options,
    pub(crate) model: M,
    pub(crate) contract: Box<dyn Contract<M>>,
    pub(crate) client: Client,
    pub(crate) bucket: Bucket,
    pub(crate) journals: ShardJournals,
    pub(crate) views: watch::Receiver<View>,
    pub(crate) sender: Sender,
    pub(crate) lease: Arc<Held>,
    pub(crate) vault: Option<Vault>,
}

/// Why a shard is not served.
enum Unopened {
    /// It may be later.
    Later(String),
    /// Its entities do not fit the contract.
    Never(String),
    /// They do not, and the contract is only proposed.
    Refused(String),
    /// Another node has claimed it, or is alive after all.
    Claimed,
}

/// How a node comes to the claim to a shard.
enum Claiming {
    /// It has it, with this revision.
    Own { revision: u64 },
    /// It takes it in place of the last one, which has this revision and whose node is gone.
    Take { revision: u64, last: Option<Claim> },
}

/// What is under way to get shards.
#[derive(Default)]
struct Work {
    opening: HashSet<u16>,
    not_before: HashMap<u16, Instant>,
    /// The shard that another node was asked for.
    asking: Option<u16>,
    /// Why a shard does not allow the contract that is proposed.
    refused: Option<String>,
    /// Since when no node of the present contract was heard of, if this one waits for that.
    unheard: Option<Instant>,
    /// The last reign of each shard that was seen.
    reigns: HashMap<u16, u64>,
    tasks: JoinSet<Done>,
}

enum Done {
    Opened(u16, Result<(), Unopened>),
    Asked,
}

impl<M: Model> Node<M> {
    pub(crate) fn new(parts: Parts<M>) -> Arc<Self> {
        let Parts { options, model, contract, client, bucket, journals, views, sender, lease, vault } = parts;
        let (table, names) = (Arc::new(Table::new(options.shards)), crate::transport::names(options.shards));
        let (sender, lease, failure) = (Arc::new(sender), RwLock::new(lease), watch::Sender::default());
        let written = Mutex::new(vec![0; usize::from(options.shards)]);
        Arc::new(Self {
            options,
            model,
            client,
            table,
            views,
            vault,
            contract,
            bucket,
            journals,
            names,
            sender,
            lease,
            written,
            failure,
            reached: Mutex::new(Instant::now()),
            counts: Counts::default(),
        })
    }

    pub(crate) fn lease(&self) -> Arc<Held> {
        Arc::clone(&self.lease.read())
    }

    /// Why the node takes nothing more, if it is so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.borrow().clone()
    }

    pub(crate) async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        let why = failure.wait_for(Option::is_some).await;
        why.ok().and_then(|why| why.clone()).unwrap_or_default()
    }

    fn fail(&self, why: String) {
        tracing::error!(why, "the node takes nothing more");
        self.failure.send_if_modified(|failure| failure.is_none().then(|| *failure = Some(why)).is_some());
    }

    /// How the node stands to the others.
    pub(crate) fn standing(&self) -> Standing {
        match self.views.borrow().stage(&self.options.contract) {
            Stage::Agreed if !self.lease().holds() => Standing::Apart,
            Stage::Agreed => Standing::Joined,
            Stage::Proposed { .. } | Stage::Other => Standing::Waiting,
        }
    }

    /// Gets the shards that the node should own and gives away those that it should not, until `stop` is told or the node has failed.
    pub(crate) async fn run(self: Arc<Self>, mut stop: mpsc::Receiver<()>) {
        let mut work = Work::default();
        loop {
            let lease = self.lease();
            let is_over = tokio::select! {
                () = lease.keep() => false,
                () = self.care(&lease, &mut work) => false,
                never = self.watch_journals(&lease) => match never {},
                _ = self.failed() => {
                    self.leave(DRAIN).await;
                    true
                }
                _ = stop.recv() => true,
            };
            work.tasks.shutdown().await;
            work = Work::default();
            if is_over {
                return;
            }
            count(&self.counts.leases_lost);
            tracing::warn!(node = self.options.node, "the lease is lost: all shards are given up");
            self.drop_all();
            let taken = tokio::select! {
                taken = self.take_lease() => taken,
                _ = stop.recv() => return,
            };
            if let Err(why) = taken {
                return self.fail(why.to_string());
            }
            tracing::info!(node = self.options.node, "the node has joined again");
        }
    }

    /// Lets others see whether this node reaches the journals of the shards: it may be cut off from these alone, and goes on to renew its lease.
    async fn watch_journals(&self, lease: &Held) -> Infallible {
        let mut last = Instant::now();
        loop {
            sleep(PROBE).await;
            if self.journals.are_reached().await {
                last = Instant::now();
            } else {
                *self.reached.lock() = Instant::now();
            }
            let is_cut_off = last.elapsed() > self.options.lease;
            if lease.set_cut_off(is_cut_off) {
                let node = &self.options.node;
                if is_cut_off {
                    tracing::warn!(
                        node,
                        "the database of the journals is not reached: nodes that reach it get the shards"
                    );
                } else {
                    tracing::info!(node, "the database of the journals is reached again");
                }
            }
        }
    }

    /// Whether this node reaches the journals, and has for a while.
    async fn reaches_journals(&self) -> bool {
        let is_steady = self.reached.lock().elapsed() > STEADY;
        is_steady && self.journals.are_reached().await
    }

    /// Takes a lease again after the last one was lost.
    async fn take_lease(&self) -> Result<(), JoinError> {
        let lease = Lease { incarnation: incarnation(), ..new_lease(&self.options) };
        loop {
            match Held::take(self.bucket.clone(), &self.options.node, lease.clone(), self.options.lease).await {
                Ok(lease) => {
                    *self.lease.write() = lease;
                    return Ok(());
                }
                Err(JoinError::Unreachable { why }) => {
                    tracing::warn!(why, "the node cannot join again; trying on");
                    sleep(RETRY_AFTER).await;
                }
                Err(cause) => return Err(cause),
            }
        }
    }

    /// Serves nothing any more; what is under way may end, unless another node fences it off.
    fn drop_all(&self) {
        for hosted in self.table.all() {
            self.drop_one(&hosted);
        }
    }

    fn drop_one(&self, hosted: &Arc<Hosted<M>>) {
        if let Some(hosted) = self.table.remove(hosted.shard, hosted.epoch) {
            tokio::spawn(async move {
                hosted.close(DRAIN).await;
                sleep(LATE_MAX).await;
                hosted.unsubscribe().await;
            });
        }
    }

    /// Looks after all shards; never ends.
    async fn care(self: &Arc<Self>, lease: &Arc<Held>, work: &mut Work) {
        let mut views = self.views.clone();
        loop {
            let view = views.borrow_and_update().clone();
            self.send_again(&view, work);
            self.vote(&view, work).await;
            let owners = view.placement(self.options.shards);
            for shard in 0..self.options.shards {
                let is_due = owners.get(usize::from(shard)).is_some_and(|owner| *owner == self.options.node);
                self.care_for(shard, is_due, &view, lease, work);
            }
            tokio::select! {
                changed = views.changed() => if changed.is_err() { std::future::pending::<()>().await },
                Some(done) = work.tasks.join_next() => match done {
                    Ok(done) => self.done(done, work),
                    Err(cause) => self.fail(format!("a shard could not be looked after: {cause}")),
                },
                () = sleep(TICK) => {}
            }
        }
    }

    fn done(&self, done: Done, work: &mut Work) {
        match done {
            Done::Asked => work.asking = None,
            Done::Opened(shard, opened) => {
                work.opening.remove(&shard);
                match opened {
                    Ok(()) => {}
                    // The view shows it in a moment.
                    Err(Unopened::Claimed) => drop(work.not_before.insert(shard, Instant::now() + PAUSE)),
                    Err(Unopened::Later(why)) => {
                        tracing::warn!(shard, why, "a shard cannot be opened; trying again");
                        work.not_before.insert(shard, Instant::now() + RETRY_AFTER);
                    }
                    Err(Unopened::Never(why)) => self.fail(format!("shard {shard}: {why}")),
                    Err(Unopened::Refused(why)) => {
                        tracing::warn!(shard, why, "the shard does not allow the contract");
                        work.refused = Some(format!("shard {shard}: {why}"));
                        work.not_before.insert(shard, Instant::now() + RETRY_AFTER);
                    }
                }
            }
        }
    }

    /// Sends again what waits for an answer of a shard whose reign has changed: the last owner may not have taken it.
    fn send_again(&self, view: &View, work: &mut Work) {
        for shard in 0..self.options.shards {
            let Some(epoch) = view.served(shard, &self.options.contract) else { continue };
            if work.reigns.insert(shard, epoch) != Some(epoch) {
                let name = shard.to_string();
                self.table.all().iter().for_each(|hosted| hosted.engine.send_again(&name));
            }
        }
    }

    /// Does the part of this node when one contract follows another.
    async fn vote(&self, view: &View, work: &mut Work) {
        let Some(settings) = view.settings() else { return };
        if view.has_node_of(&settings.value.contract) {
            work.unheard = None;
        }
        let unheard = work.unheard.get_or_insert_with(Instant::now).elapsed();
        let have_left = view.claims().all(|(_, claim)| claim.node.is_empty());
        let voter = Voter {
            contract: &self.options.contract,
            adopts: self.options.adopt,
            refused: work.refused.as_deref(),
            are_gone: have_left || unheard > self.options.lease,
        };
        match voter.step(view) {
            Step::Nothing => {}
            Step::Write(settings, revision) => {
                let wrote = self.bucket.write(SETTINGS, &settings, revision, None).await;
                tracing::info!(?settings, revision, ?wrote, "another contract for all");
            }
            Step::Fail(why) => self.fail(why),
        }
    }

    /// Looks after a shard, which this node should own if it `is_due` to it.
    fn care_for(self: &Arc<Self>, shard: u16, is_due: bool, view: &View, lease: &Arc<Held>, work: &mut Work) {
        if work.opening.contains(&shard) || work.not_before.get(&shard).is_some_and(|moment| Instant::now() < *moment) {
            return;
        }
        let node = self.options.node.as_str();
        // It takes a moment until the own lease is seen.
        if view.lease(node).is_none_or(|seen| seen.value.incarnation != lease.incarnation()) {
            return;
        }
        let is_own = |claim: &Claim| claim.node == node && claim.incarnation == lease.incarnation();
        let claim = view.claim(shard);
        if claim.map_or(0, |claim| claim.revision) < self.written.lock()[usize::from(shard)] {
            return;
        }
        if let Some(hosted) = self.table.get(shard) {
            let is_taken = claim.is_some_and(|claim| claim.revision > hosted.claim() && !is_own(&claim.value));
            let failure = hosted.engine.failure();
            if !hosted.is_draining() && (is_taken || failure.is_some()) {
                let why = failure.unwrap_or_else(|| "another node has claimed it".to_owned());
                tracing::warn!(shard, why, "a shard is given up");
                count(&self.counts.given_up);
                self.drop_one(&hosted);
                work.not_before.insert(shard, Instant::now() + PAUSE);
            }
            return;
        }
        if view.stage(&self.options.contract) == Stage::Other {
            return;
        }
        if let Some(claim) = claim.filter(|claim| is_own(&claim.value)) {
            return self.begin(shard, Claiming::Own { revision: claim.revision }, lease, work);
        }
        if !is_due {
            return;
        }
        match view.holder(shard) {
            Some(holder) if work.asking.is_none() => {
                work.asking = Some(shard);
                let (node, holder) = (Arc::clone(self), holder.node.clone());
                let incarnation = lease.incarnation();
                let is_cut_off = view.lease(&holder).is_some_and(|lease| lease.value.is_cut_off);
                work.tasks.spawn(async move {
                    // One that cannot open it, either, leaves it where it is read from memory.
                    if is_cut_off && !node.reaches_journals().await {
                        sleep(TICK).await;
                    } else {
                        node.ask_for(shard, &holder, incarnation).await;
                    }
                    Done::Asked
                });
            }
            Some(_) => {}
            None => {
                let (revision, last) = claim.map_or((0, None), |claim| (claim.revision, Some(claim.value.clone())));
                self.begin(shard, Claiming::Take { revision, last }, lease, work);
            }
        }
    }

    /// Claims `shard`, whose node is gone; the revision of the claim, if that succeeds.
    async fn take(&self, shard: u16, expected: u64, last: Option<Claim>, incarnation: u64) -> Option<u64> {
        if let Some(last) = last
            && self.is_alive(&last).await
        {
            return None;
        }
        let own = Claim { node: self.options.node.clone(), incarnation, epoch: None };
        self.claim(shard, &own, expected).await
    }

    /// Writes a claim in place of that with the revision `expected`; its revision, if it is certainly there.
    async fn claim(&self, shard: u16, claim: &Claim, expected: u64) -> Option<u64> {
        let Wrote::Yes(revision) = self.bucket.write(&claim_key(shard), claim, expected, None).await else {
            return None;
        };
        let mut written = self.written.lock();
        let last = &mut written[usize::from(shard)];
        *last = revision.max(*last);
        Some(revision)
    }

    /// Whether the node that has made this claim is alive after all: a view may lag behind.
    async fn is_alive(&self, claim: &Claim) -> bool {
        if claim.node.is_empty() {
            return false;
        }
        match self.bucket.read::<Lease>(&format!("{NODE}{}", claim.node)).await {
            Ok(lease) => lease.is_some_and(|lease| lease.value.incarnation == claim.incarnation),
            Err(_) => true,
        }
    }

    /// Asks `holder` to hand `shard` over, and waits until it has, or has not.
    async fn ask_for(&self, shard: u16, holder: &str, incarnation: u64) {
        let hand_over = Order::HandOver { shard, to: self.options.node.clone(), incarnation };
        let patience = DRAIN * 2;
        let asked =
            fabric::ask::<_, bool>(&self.client, fabric::node_subject(holder), &hand_over, None, patience).await;
        match asked {
            Ok(true) => tracing::info!(shard, from = holder, "a shard was handed over"),
            Ok(false) => sleep(PAUSE).await,
            Err(cause) => {
                tracing::warn!(shard, from = holder, ?cause, "a shard was not handed over");
                sleep(TICK).await;
            }
        }
    }

    /// Opens a shard that the node has claimed, or claims before.
    fn begin(self: &Arc<Self>, shard: u16, claiming: Claiming, lease: &Arc<Held>, work: &mut Work) {
        work.opening.insert(shard);
        let (node, lease) = (Arc::clone(self), Arc::clone(lease));
        work.tasks.spawn(async move {
            let claim = match claiming {
                Claiming::Own { revision } => Some(revision),
                Claiming::Take { revision, last } => node.take(shard, revision, last, lease.incarnation()).await,
            };
            let opened = match claim {
                Some(claim) => node.open(shard, claim, lease).await,
                None => Err(Unopened::Claimed),
            };
            Done::Opened(shard, opened)
        });
    }

    async fn open(self: &Arc<Self>, shard: u16, claim: u64, lease: Arc<Held>) -> Result<(), Unopened> {
        let begun = Instant::now();
        let opened = self.journals.open(shard, &self.options.node, self.options.replicas).await;
        let journal = opened.map_err(|cause| Unopened::Later(cause.to_string()))?;
        let epoch = journal.epoch();
        let model = self.adopt(shard, &journal).await?;
        let between = Between::new(
            shard,
            Arc::clone(&self.names),
            &self.table,
            self.views.clone(),
            self.options.contract.clone(),
            Arc::clone(&lease),
            Arc::clone(&self.sender),
        );
        let live_bytes_max = self.options.engine.live_bytes_max / usize::from(self.options.shards);
        let engine_options = EngineOptions { live_bytes_max, ..self.options.engine.clone() };
        let engine = Engine::with_transport(model, journal, engine_options, Arc::new(SystemClock), Arc::new(between))
            .expect("a number is a name");
        if let Some(vault) = &self.vault {
            engine.keep_personal(vault.clone()).await.map_err(|cause| Unopened::Later(cause.to_string()))?;
        }
        let listening = self.client.subscribe(fabric::shard_subject(shard, epoch, "*")).await;
        let messages = listening.map_err(|cause| Unopened::Later(cause.to_string()))?;
        self.client.flush().await.map_err(|cause| Unopened::Later(cause.to_string()))?;
        let own = Claim { node: self.options.node.clone(), incarnation: lease.incarnation(), epoch: Some(epoch) };
        let lease = (!self.options.engine.barrier_reads).then_some(lease);
        let hosted = Arc::new(Hosted::new(shard, epoch, engine, lease, claim));
        let (client, listening, traces) = (self.client.clone(), Arc::downgrade(&hosted), self.options.traces);
        hosted.listen(|unsubscribed| listen(client, listening, (messages, unsubscribed), traces));
        hosted.maintain();
        self.table.insert(&hosted);
        match self.announce(shard, &own, claim).await {
            Some(revision) => {
                hosted.set_claim(revision);
                count(&self.counts.opened);
                tracing::info!(shard, epoch, millis = begun.elapsed().as_millis(), "a shard is served");
                Ok(())
            }
            None => {
                self.drop_one(&hosted);
                Err(Unopened::Claimed)
            }
        }
    }

    /// The model for the shard, if its entities allow the contract, and if all nodes have agreed on that.
    async fn adopt(&self, shard: u16, journal: &ShardJournal) -> Result<M, Unopened> {
        let unadopted = |refused: NotAdopted| match refused {
            NotAdopted { why, is_final: false } => Unopened::Later(why),
            NotAdopted { why, .. } if self.views.borrow().stage(&self.options.contract) == Stage::Agreed => {
                Unopened::Never(why)
            }
            NotAdopted { why, .. } => Unopened::Refused(why),
        };
        let adoption = self.contract.examine(shard, journal).await.map_err(unadopted)?;
        self.agree(shard).await?;
        adoption.adopt(journal).await.map_err(unadopted)
    }

    /// Lets others know that `shard` allows what is proposed, and waits until it is the contract of all.
    async fn agree(&self, shard: u16) -> Result<(), Unopened> {
        let mut views = self.views.clone();
        let key = format!("{EXAMINED}{shard}");
        let mut told = None;
        loop {
            let stage = views.borrow_and_update().stage(&self.options.contract);
            match stage {
                Stage::Agreed => return Ok(()),
                Stage::Other => return Err(Unopened::Claimed),
                Stage::Proposed { proposal } if told == Some(proposal) => {}
                Stage::Proposed { proposal } => {
                    let revision = self.bucket.revision(&key).await.map_err(Unopened::Later)?;
                    match self.bucket.write(&key, &Examined { proposal }, revision, None).await {
                        Wrote::Yes(_) => told = Some(proposal),
                        Wrote::Conflict | Wrote::Unknown => sleep(PAUSE).await,
                    }
                    continue;
                }
            }
            if views.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Lets others know in which reign the shard is served; nothing if another node has claimed it.
    async fn announce(&self, shard: u16, own: &Claim, mut revision: u64) -> Option<u64> {
        let key = claim_key(shard);
        loop {
            if let Some(revision) = self.claim(shard, own, revision).await {
                return Some(revision);
            }
            match self.bucket.read::<Claim>(&key).await {
                Ok(Some(found)) if found.value == *own => return Some(found.revision),
                Ok(Some(found)) if found.value == (Claim { epoch: None, ..own.clone() }) => revision = found.revision,
                Ok(_) => return None,
                Err(why) => tracing::warn!(shard, why, "the claim to a shard cannot be read; trying again"),
            }
            sleep(PAUSE).await;
        }
    }

    /// Does what other nodes and operators ask for.
    pub(crate) async fn obey(self: Arc<Self>, mut orders: Subscriber) {
        while let Some(message) = orders.next().await {
            if let Some(cause) = fabric::unread(&message.payload) {
                tracing::error!(%cause, "a message between engines is lost");
                continue;
            }
            let Some(to) = message.reply else { continue };
            let order = match fabric::decode::<Order>(&message.payload) {
                Ok(order) => order,
                Err(cause) => {
                    tracing::error!(%cause, "what another node or an operator asks for cannot be read, and is not done");
                    drop(self.client.publish(to, fabric::refusal(&cause).into()).await);
                    continue;
                }
            };
            let node = Arc::clone(&self);
            tokio::spawn(async move {
                let is_done = match order {
                    Order::HandOver { shard, to, incarnation } => node.release(shard, to, incarnation).await,
                    Order::Drain => {
                        tracing::info!("the node gives its shards away");
                        node.lease().leave().await;
                        true
                    }
                };
                // The claim says so, too.
                drop(node.client.publish(to, fabric::encode(&is_done).into()).await);
            });
        }
    }

    async fn release(&self, shard: u16, to: String, incarnation: u64) -> bool {
        let Some(hosted) = self.table.get(shard) else { return false };
        let view = self.views.borrow().clone();
        if view.lease(&to).is_none_or(|lease| lease.value.incarnation != incarnation) {
            return false;
        }
        hosted.close(DRAIN).await;
        let claim = Claim { node: to, incarnation, epoch: None };
        let is_given = self.claim(shard, &claim, hosted.claim()).await.is_some();
        // Until then nobody here takes it for vacant.
        self.table.remove(shard, hosted.epoch);
        tokio::spawn(async move {
            sleep(LATE_MAX).await;
            hosted.unsubscribe().await;
        });
        is_given
    }

    /// Whether all shards are served somewhere, and each by the one that should own it.
    pub(crate) fn is_settled(&self) -> bool {
        let view = self.views.borrow();
        let owners = view.placement(self.options.shards).into_iter();
        owners.enumerate().all(|(shard, owner)| {
            let shard = u16::try_from(shard).expect("one of them");
            let is_served = view.holder(shard).is_some_and(|claim| claim.node == owner && claim.epoch.is_some());
            is_served && (owner != self.options.node || self.table.get(shard).is_some())
        })
    }

    /// Gives all shards away, each for the one that should own it, and then the lease.
    pub(crate) async fn leave(&self, patience: Duration) {
        let lease = self.lease();
        let leaving = async {
            lease.leave().await;
            let (leaving, over) = (self.table.all(), Instant::now() + patience);
            // Commands of one need promises of another.
            join_all(leaving.iter().map(|hosted| hosted.drain(patience))).await;
            let patience = over.saturating_duration_since(Instant::now());
            join_all(leaving.iter().map(async |hosted| {
                hosted.close(patience).await;
                self.table.remove(hosted.shard, hosted.epoch);
                let vacant = Claim { node: String::new(), incarnation: 0, epoch: None };
                self.claim(hosted.shard, &vacant, hosted.claim()).await;
            }))
            .await;
            join_all(leaving.iter().map(async |hosted| {
                hosted.quiet(QUIET, LATE_MAX).await;
                hosted.unsubscribe().await;
            }))
            .await;
        };
        tokio::select! {
            () = leaving => {}
            () = lease.keep() => {}
        }
        lease.give_up().await;
        // Answers may still be on their way.
        drop(timeout(DRAIN, self.client.flush()).await);
    }
}

/// What a node says of itself when it joins.
pub(crate) fn new_lease(options: &Options) -> Lease {
    let (version, address, contract) = (options.version.clone(), options.address.clone(), options.contract.clone());
    Lease { incarnation: incarnation(), address, version, contract, is_leaving: false, is_cut_off: false }
}

/// A number that no other run of the node has.
pub(crate) fn incarnation() -> u64 {
    let tx = enact_entities::TxId::fresh().as_u128();
    u64::try_from(tx >> 64).expect("half of it") ^ u64::try_from(tx & u128::from(u64::MAX)).expect("half of it")
}

fn claim_key(shard: u16) -> String {
    format!("{SHARD}{shard}")
}

/// Takes what others send for a shard, until it is `unsubscribed`, and then what has come.
async fn listen<M: Model>(
    client: Client,
    hosted: Weak<Hosted<M>>,
    (mut messages, unsubscribed): (Subscriber, Arc<Notify>),
    traces: Option<Propagation>,
) {
    let (mut answers, mut is_ending) = (JoinSet::new(), false);
    loop {
        let message = tokio::select! {
            Some(_) = answers.join_next() => continue,
            message = messages.next() => message,
            () = unsubscribed.notified(), if !is_ending => {
                is_ending = true;
                match messages.drain().await {
                    Ok(()) => continue,
                    Err(_) => break,
                }
            }
        };
        let Some(message) = message else { break };
        let Some(hosted) = hosted.upgrade() else { break };
        hosted.hears();
        let (client, reply) = (client.clone(), message.reply);
        if message.subject.ends_with(ENGINE) {
            let origin = hop::sent(traces, message.headers.as_ref());
            if let Err(cause) = Origin::sync_scope(origin, || hosted.engine.receive(&message.payload)) {
                tracing::error!(shard = hosted.shard, %cause, "a message between engines is lost");
                if let Some(sender) = reply {
                    answers.spawn(async move { drop(client.publish(sender, fabric::refusal(&cause).into()).await) });
                }
            }
            continue;
        }
        let Some(to) = reply.filter(|_| message.subject.ends_with(ASK)) else { continue };
        answers.spawn(async move {
            match fabric::decode::<Question<M::Event>>(&message.payload) {
                Ok(question) => {
                    let origin = hop::asked(traces, message.headers.as_ref(), question.what());
                    let answer = Origin::scope(origin, hosted.answer(question)).await;
                    fabric::reply(&client, to, &answer.unwrap_or(Answer::Moved)).await;
                }
                Err(cause) => {
                    tracing::error!(shard = hosted.shard, %cause, "a question of another node cannot be read, and nothing is done");
                    drop(client.publish(to, fabric::refusal(&cause).into()).await);
                }
            }
        });
    }
    while answers.join_next().await.is_some() {}
}
