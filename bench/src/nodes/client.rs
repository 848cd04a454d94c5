//! Clients, one for each shard, that note how long they had no answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::bank::{Account, Bank, Node};

/// The deadline of each deposit: one that is asked of an owner that is gone is given up after this.
const DEADLINE: Duration = Duration::from_millis(200);
/// Between two deposits: a shard that is as good as idle.
const PAUSE: Duration = Duration::from_millis(2);

/// The longest times between two answers of a shard.
#[derive(Debug, Clone, Copy)]
pub(super) struct Outage {
    pub(super) shard: u16,
    /// Before the event.
    pub(super) before: Duration,
    /// Behind its beginning.
    pub(super) length: Duration,
    /// When that one was over.
    pub(super) end: Instant,
}

/// What clients are told.
#[derive(Default)]
struct Told {
    /// When the event began.
    begun: OnceLock<Instant>,
    is_over: AtomicBool,
}

pub(super) struct Clients {
    told: Arc<Told>,
    clients: Vec<JoinHandle<Outage>>,
}

impl Clients {
    /// One for each account, who asks this node.
    pub(super) fn of(bank: &Bank, node: &Node) -> Self {
        let told = Arc::new(Told::default());
        let client = |account: &Arc<Account>| tokio::spawn(run(Arc::clone(account), node.clone(), Arc::clone(&told)));
        let clients = bank.accounts.iter().map(client).collect();
        Self { told, clients }
    }

    /// The event begins; returns when.
    pub(super) fn begin(&self) -> Instant {
        *self.told.begun.get_or_init(Instant::now)
    }

    pub(super) async fn end(self) -> Vec<Outage> {
        self.told.is_over.store(true, Ordering::Relaxed);
        let mut outages = Vec::with_capacity(self.clients.len());
        for client in self.clients {
            outages.push(client.await.expect("a client does not panic"));
        }
        outages
    }
}

async fn run(account: Arc<Account>, node: Node, told: Arc<Told>) -> Outage {
    let mut last = Instant::now();
    let mut longest = Outage { shard: account.shard, before: Duration::ZERO, length: Duration::ZERO, end: last };
    loop {
        if account.deposit(&node, DEADLINE).await {
            let now = Instant::now();
            match told.begun.get() {
                Some(begun) if now > *begun && now - last > longest.length => {
                    longest = Outage { length: now - last, end: now, ..longest };
                }
                Some(_) => {}
                None => longest.before = longest.before.max(now - last),
            }
            last = now;
            if told.is_over.load(Ordering::Relaxed) {
                return longest;
            }
        }
        sleep(PAUSE).await;
    }
}
