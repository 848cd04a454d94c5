//! One account in each shard, and the nodes that serve them.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use enact_cluster::{Adoption, Cluster, Contract, JoinError, NotAdopted, Options, ShardJournal, shard_of};
use enact_entities::{Command, Entities as _, ReadMode, Rebel, Receipt, SubmitError, View};
use enact_journal::EntityKey;
use enact_rebel::{EventCall, Source, Spec, Value, check};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};

use super::NodesError;
use crate::served::Servers;

const SPEC: &str = "
class Account
  balance: Money
  initial unopened
    on Open(): opened
      post: this.balance = EUR 0.00
  opened
    on Deposit()
      post: this.balance += EUR 1.00
";
const DEADLINE: Duration = Duration::from_secs(10);

pub(crate) type Node = Cluster<Rebel>;

pub(super) struct Bank {
    spec: Arc<Spec>,
    servers: String,
    lease: Duration,
    /// By shard.
    pub(super) accounts: Vec<Arc<Account>>,
}

/// An account, and what it must hold.
pub(super) struct Account {
    pub(super) shard: u16,
    key: EntityKey,
    deposit: EventCall,
    /// Deposits that were acknowledged.
    done: AtomicI64,
    /// Deposits that were in doubt.
    doubtful: AtomicI64,
}

/// The specification, which never changes.
#[derive(Clone)]
struct Fixed(Arc<Spec>);

impl Contract<Rebel> for Fixed {
    fn examine<'a>(
        &'a self,
        _: u16,
        _: &'a ShardJournal,
    ) -> BoxFuture<'a, Result<Box<dyn Adoption<Rebel>>, NotAdopted>> {
        ready(Ok(Box::new(self.clone()) as Box<dyn Adoption<Rebel>>)).boxed()
    }
}

impl Adoption<Rebel> for Fixed {
    fn adopt(self: Box<Self>, _: &ShardJournal) -> BoxFuture<'_, Result<Rebel, NotAdopted>> {
        ready(Ok(Rebel::new(self.0))).boxed()
    }
}

/// A node of entities whose specification never changes.
pub(crate) async fn join(spec: &Arc<Spec>, options: Options) -> Result<Node, JoinError> {
    Cluster::join(Rebel::new(Arc::clone(spec)), Fixed(Arc::clone(spec)), options).await
}

impl Bank {
    /// # Panics
    /// If the specification is not Rebel.
    pub(super) fn over(servers: &Servers, lease: u64, shards: u16) -> Self {
        let spec = Arc::new(check(vec![Source::new("bank.rebel", SPEC)]).expect("the specification is Rebel"));
        let servers = servers.addresses();
        let accounts = (0..shards).map(|shard| Arc::new(Account::of(&spec, shard, shards))).collect();
        Self { spec, servers, lease: Duration::from_secs(lease), accounts }
    }

    pub(super) fn shards(&self) -> u16 {
        u16::try_from(self.accounts.len()).expect("one for each shard")
    }

    pub(super) async fn join(&self, node: &str) -> Result<Node, NodesError> {
        let options = Options { lease: self.lease, shards: self.shards(), ..Options::new(&*self.servers, node) };
        Ok(join(&self.spec, options).await?)
    }

    /// Opens all accounts, as soon as their shards are served.
    pub(super) async fn open(&self, node: &Node) -> Result<(), NodesError> {
        node.settled().await;
        for account in &self.accounts {
            let class = self.spec.class("Account").expect("declared");
            let open = class.event("Open").expect("declared").call(Vec::new()).expect("without arguments");
            let opened = account.submit(node, open, DEADLINE).await;
            opened.map_err(|cause| NodesError::Account(cause.to_string()))?;
        }
        Ok(())
    }

    /// Compares what each account holds with what was acknowledged.
    pub(super) async fn verify(&self, node: &Node) -> Result<(), NodesError> {
        for account in &self.accounts {
            let view = node.read(&account.key, ReadMode::Certain, None, DEADLINE).await;
            let view = view.map_err(|cause| NodesError::Account(cause.to_string()))?;
            let View::One { state, .. } = view else { unreachable!("a certain read shows one state") };
            let cents = state.fields().get("balance").and_then(Value::number).unwrap_or_default();
            let found = i64::try_from(cents / 100).unwrap_or(i64::MAX);
            let least = account.done.load(Ordering::Relaxed);
            let most = least + account.doubtful.load(Ordering::Relaxed);
            if !(least..=most).contains(&found) {
                return Err(NodesError::Wrong { account: account.key.id().to_owned(), found, least, most });
            }
        }
        Ok(())
    }
}

impl Account {
    /// The first account that is in this shard.
    fn of(spec: &Spec, shard: u16, shards: u16) -> Self {
        let keys = (0..).map(|number: u64| EntityKey::new("Account", &number.to_string()).expect("a name"));
        let key = { keys }.find(|key| shard_of(key, shards) == shard).expect("there is no end");
        let class = spec.class("Account").expect("declared");
        let deposit = class.event("Deposit").expect("declared").call(Vec::new()).expect("without arguments");
        Self { shard, key, deposit, done: AtomicI64::new(0), doubtful: AtomicI64::new(0) }
    }

    /// Deposits a euro. Returns whether that was acknowledged.
    pub(super) async fn deposit(&self, node: &Node, deadline: Duration) -> bool {
        match self.submit(node, self.deposit.clone(), deadline).await {
            Ok(_) => {
                self.done.fetch_add(1, Ordering::Relaxed);
                true
            }
            Err(SubmitError::InDoubt { .. }) => {
                self.doubtful.fetch_add(1, Ordering::Relaxed);
                false
            }
            Err(_) => false,
        }
    }

    async fn submit(&self, node: &Node, event: EventCall, deadline: Duration) -> Result<Receipt, SubmitError> {
        node.submit(Command { key: self.key.clone(), event, then: Vec::new(), idempotency: None, deadline }).await
    }
}
