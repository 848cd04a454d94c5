//! A bank on several nodes.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use enact_cluster::{
    Adoption, Cluster, Contract, JoinError, Journals, NotAdopted, Options, ShardJournal, ShardJournals, agreed,
};
use enact_entities::{Command, Entities, Idempotency, ReadMode, Rebel, Receipt, SubmitError, View};
use enact_journal::EntityKey;
use enact_journal::nats::{self, Nats};
use enact_journal_kit::nats::{Server, program};
use enact_rebel::{EventCall, Source, Spec, Value, check};
use futures_util::future::BoxFuture;
use tempfile::TempDir;

const SPEC: &str = r#"
class Account
  balance: Money = EUR 0.00
  initial init
    on Open(deposit: Money): opened
      post: this.balance = deposit
  opened
    on Deposit(amount: Money)
      pre:  amount > EUR 0.00
      post: this.balance += amount
    on Withdraw(amount: Money)
      pre:  "not enough money": balance - amount >= EUR 0.00
      post: this.balance -= amount

class Transfer
  initial init
    on Book(amount: Money, from: Account, to: Account): booked
      sync: from.Withdraw(amount)
            to.Deposit(amount)
  final booked
"#;

pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// More accounts than there are shards.
pub(crate) const ACCOUNTS: usize = 24;

pub(crate) type Node = Cluster<Rebel>;

/// Servers and the contract that nodes have in common.
pub(crate) struct Bank {
    pub(crate) servers: Vec<Server>,
    /// Where nodes keep the journals of shards.
    pub(crate) journals: Journals,
    pub(crate) spec: Arc<Spec>,
    _directory: TempDir,
}

/// A contract under which all entities are what they were, but that one shard may not allow.
pub(crate) struct Allowing {
    pub(crate) spec: Arc<Spec>,
    pub(crate) but: Option<u16>,
    /// How many shards have adopted it.
    pub(crate) adopted: Arc<AtomicUsize>,
}

impl Contract<Rebel> for Allowing {
    fn examine<'a>(
        &'a self,
        shard: u16,
        _: &'a ShardJournal,
    ) -> BoxFuture<'a, Result<Box<dyn Adoption<Rebel>>, NotAdopted>> {
        let allowed = Allowed { spec: Arc::clone(&self.spec), adopted: Arc::clone(&self.adopted) };
        let refused = NotAdopted { why: "an account has too much".to_owned(), is_final: true };
        let found = if self.but == Some(shard) { Err(refused) } else { Ok(Box::new(allowed) as Box<_>) };
        Box::pin(async { found })
    }
}

struct Allowed {
    spec: Arc<Spec>,
    adopted: Arc<AtomicUsize>,
}

impl Adoption<Rebel> for Allowed {
    fn adopt(self: Box<Self>, _: &ShardJournal) -> BoxFuture<'_, Result<Rebel, NotAdopted>> {
        self.adopted.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move { Ok(Rebel::new(self.spec)) })
    }
}

impl Bank {
    /// Over one server; nothing if there is none on this machine.
    pub(crate) fn over_one() -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let servers = vec![Server::start(&program, directory.path())];
        Some(Self::over(servers, directory))
    }

    /// Over three servers.
    pub(crate) fn over_three() -> Option<Self> {
        let (program, directory) = (program()?, tempfile::tempdir().expect("a directory"));
        let servers = Vec::from(Server::start_three(&program, directory.path()));
        Some(Self::over(servers, directory))
    }

    /// Over one server, and a schema of its own in a database.
    #[cfg(feature = "postgres")]
    pub(crate) fn over_database() -> Option<Self> {
        let database = enact_journal_kit::postgres::shared()?;
        Some(Self { journals: fresh_schema(&database.address()).into(), ..Self::over_one()? })
    }

    /// Takes the journal of a shard over from the node that has it.
    pub(crate) async fn take_over(&self, shard: u16) -> ShardJournal {
        match self.agreed().await {
            ShardJournals::Streams(servers) => {
                let options = nats::Options { shard, replicas: self.servers.len(), ..nats::Options::at(servers) };
                ShardJournal::Streams(Nats::open(options).await.expect("taken over"))
            }
            #[cfg(feature = "postgres")]
            ShardJournals::Tables(database) => ShardJournal::Tables(database.open(shard).await.expect("taken over")),
            _ => unreachable!("all kinds are here"),
        }
    }

    /// The journals that nodes have agreed on.
    pub(crate) async fn agreed(&self) -> ShardJournals {
        let agreed = agreed(&self.options("a").servers, &self.journals).await;
        agreed.expect("nodes have joined").journals
    }

    fn over(servers: Vec<Server>, directory: TempDir) -> Self {
        let spec =
            check(vec![Source::new("bank.rebel", SPEC)]).unwrap_or_else(|report| panic!("{}", report.render(false)));
        Self { servers, journals: Journals::Streams, spec: Arc::new(spec), _directory: directory }
    }

    pub(crate) fn options(&self, node: &str) -> Options {
        let servers: Vec<String> = self.servers.iter().map(Server::address).collect();
        let lease = enact_cluster::LEASE_MIN;
        let replicas = self.servers.len();
        Options { replicas, lease, journals: self.journals.clone(), ..Options::new(servers.join(","), node) }
    }

    pub(crate) async fn try_join(&self, options: Options) -> Result<Node, JoinError> {
        let contract = Allowing { spec: Arc::clone(&self.spec), but: None, adopted: Arc::default() };
        self.try_join_with(contract, options).await
    }

    pub(crate) async fn try_join_with(&self, contract: Allowing, options: Options) -> Result<Node, JoinError> {
        Cluster::join(Rebel::new(Arc::clone(&self.spec)), contract, options).await
    }

    pub(crate) async fn join(&self, node: &str) -> Node {
        self.try_join(self.options(node)).await.expect("it joins")
    }

    /// Nodes with these names, each of which serves its part.
    pub(crate) async fn nodes<const N: usize>(&self, names: [&str; N]) -> [Node; N] {
        let mut nodes = Vec::new();
        for name in names {
            nodes.push(self.join(name).await);
        }
        settled(&nodes).await;
        nodes.try_into().expect("as many as there are names")
    }

    fn call(&self, entity: &str, event: &str, arguments: &[(&'static str, Value)]) -> Command<EventCall> {
        let key: EntityKey = entity.parse().expect("a key");
        let class = self.spec.class(key.class()).expect("a class");
        let event = class.event(event).expect("an event").call(arguments.to_vec()).expect("its arguments");
        Command { key, event, then: Vec::new(), idempotency: None, deadline: DEADLINE }
    }

    pub(crate) fn open(&self, account: usize) -> Command<EventCall> {
        self.call(&format!("Account/{account}"), "Open", &[("deposit", euros(100))])
    }

    /// A deposit of one euro under an idempotency key.
    pub(crate) fn deposit(&self, account: usize, key: &str) -> Command<EventCall> {
        let deposit = self.call(&format!("Account/{account}"), "Deposit", &[("amount", euros(1))]);
        let idempotency = Idempotency { key: key.to_owned(), principal: None, fingerprint: [7; 32] };
        Command { idempotency: Some(idempotency), ..deposit }
    }

    pub(crate) fn transfer(&self, id: &str, amount: i64, from: usize, to: usize) -> Command<EventCall> {
        let class = self.spec.class("Account").expect("a class");
        let account = |id: usize| Value::Reference(class.reference(class.key(&id.to_string()).expect("a name")));
        let arguments = [("amount", euros(amount)), ("from", account(from)), ("to", account(to))];
        self.call(&format!("Transfer/{id}"), "Book", &arguments)
    }

    /// Opens all accounts with 100 euros each.
    pub(crate) async fn open_all(&self, node: &Node) {
        for account in 0..ACCOUNTS {
            done(node, self.open(account)).await;
        }
    }
}

/// A schema without tables.
#[cfg(feature = "postgres")]
pub(crate) fn fresh_schema(address: &str) -> enact_journal::postgres::Options {
    static SCHEMAS: AtomicUsize = AtomicUsize::new(0);
    let schema = format!("bank_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    enact_journal::postgres::Options { schema, ..enact_journal::postgres::Options::at(address) }
}

/// Waits until all shards are served, by these nodes alone, and each has its part.
pub(crate) async fn settled(nodes: &[Node]) {
    let part = 12 / nodes.len();
    while !nodes.iter().all(|node| shards(node).len() == part) {
        for node in nodes {
            node.settled().await;
        }
    }
}

fn euros(amount: i64) -> Value {
    Value::Money(format!("EUR {amount}.00").parse().expect("an amount of money"))
}

/// The balance in euros.
pub(crate) async fn balance(node: &Node, account: usize) -> i64 {
    let key = format!("Account/{account}").parse().expect("a key");
    match node.read(&key, ReadMode::Certain, None, DEADLINE).await.expect("read") {
        View::One { state, .. } => {
            let text = state.fields().get("balance").expect("a balance").to_string();
            text.trim_start_matches("EUR ").trim_end_matches(".00").parse().expect("whole euros")
        }
        View::Range(_) => panic!("a certain read sees one state"),
    }
}

/// The money in all accounts, in euros.
pub(crate) async fn total(node: &Node) -> i64 {
    let mut total = 0;
    for account in 0..ACCOUNTS {
        total += balance(node, account).await;
    }
    total
}

pub(crate) fn shards(node: &Node) -> BTreeSet<u16> {
    node.membership().expect("it is one of several").shards.into_iter().collect()
}

/// Submits a command until it is done. On a busy machine a node may lose its lease for a moment; then nothing has happened.
pub(crate) async fn done(node: &Node, command: Command<EventCall>) -> Receipt {
    loop {
        match node.submit(command.clone()).await {
            Err(SubmitError::Moved { .. }) => {}
            answer => return answer.expect("nothing refuses it"),
        }
    }
}

/// Submits a command with an idempotency key until it has its one answer, as a client does.
pub(crate) async fn insist(node: &Node, command: Command<EventCall>) -> Receipt {
    answered(node, command).await.0
}

/// The same; and whether it was in doubt on the way there.
pub(crate) async fn answered(node: &Node, command: Command<EventCall>) -> (Receipt, bool) {
    let mut was_in_doubt = false;
    loop {
        match node.submit(command.clone()).await {
            Ok(receipt) => return (receipt, was_in_doubt),
            Err(SubmitError::Refused { refusal, .. }) => panic!("{refusal}"),
            Err(SubmitError::Failed { why }) => panic!("{why}"),
            // It did not happen, or it is in doubt, or it is under way.
            Err(error) => was_in_doubt |= matches!(error, SubmitError::InDoubt { .. }),
        }
    }
}
