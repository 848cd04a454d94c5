//! What an operator sees of all nodes and shards, from anywhere that reaches the servers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use async_nats::Client;
use enact_journal::nats::Servers;
use futures_util::stream::{self, StreamExt};
use serde::Serialize;
use tokio::time::{Instant, sleep, timeout};

use crate::JoinError;
use crate::bucket::{Bucket, Kept};
use crate::connect::connect;
use crate::fabric::{self, Order, Unasked};
use crate::journals::{Journals, ShardJournals};
use crate::proposal::Stage;
use crate::settings::settings;
use crate::subject_keys;
use crate::view::View;

/// How far the clocks of machines may be apart: events carry the time of their node, and timers fire by it.
const CLOCKS_MAX: Duration = Duration::from_secs(1);
/// How many servers keep a record, so that one may be lost.
const REPLICAS_MIN: usize = 3;
const PAUSE: Duration = Duration::from_millis(100);
const ORDER_MAX: Duration = Duration::from_secs(2);
/// How long a database may take to answer.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// Shards that are looked at together.
const LOOKS_MAX: usize = 16;

/// All nodes and shards, at about one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The nodes that are alive, in the order of their names.
    pub nodes: Vec<NodeStatus>,
    /// The shards, in order.
    pub shards: Vec<ShardStatus>,
    /// Whether the shards are in a database, and not in streams.
    pub is_in_database: bool,
    /// Whether the promotion of a standby of the database would lose what was acknowledged last, as commits wait for none.
    pub loses_by_promotion: bool,
    /// The servers that keep the keys of personal values, the leader first; nothing if there are no keys.
    pub subject_keys: Option<Vec<Replica>>,
    /// How far the clock of a server is from the one here, in milliseconds.
    pub clock_difference_ms: u64,
    /// Why the last contract that was to follow the present one was refused, if one was and none was tried since.
    pub refused: Option<String>,
}

/// A node that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Where clients find it.
    pub address: String,
    /// The version of its program.
    pub version: String,
    /// Whether it gives its shards away.
    pub is_leaving: bool,
    /// Whether it does not reach the database of the journals.
    pub is_cut_off: bool,
    /// Whether it has another contract than the entities are served under, and waits.
    pub is_waiting: bool,
    /// How many shards it serves.
    pub shards: usize,
}

/// A shard and its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShardStatus {
    /// Its number.
    pub shard: u16,
    /// The node that has claimed it and is alive.
    pub owner: Option<String>,
    /// The node that an operator has moved it to, be that alive or not.
    pub moved_to: Option<String>,
    /// The reign in which it is served; nothing if it is being opened, or nobody has it.
    pub epoch: Option<u64>,
    /// The last message of its stream, or the last record in the database.
    pub last: u64,
    /// How many messages its stream lacks.
    pub missing: u64,
    /// The servers of NATS that keep it, the leader first; none if it is in a database.
    pub replicas: Vec<Replica>,
    /// Why the database does not let it be read, or would not keep it.
    pub flaw: Option<String>,
}

/// A server that keeps a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Replica {
    /// The name of the server.
    pub server: String,
    /// Whether it has all that the leader has.
    pub is_current: bool,
    /// How many messages it is behind.
    pub lag: u64,
}

/// Something that endangers what is kept, or keeps it from being served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub enum Problem {
    /// No node serves the shard.
    Unserved {
        /// The shard.
        shard: u16,
    },
    /// The stream lacks messages.
    Missing {
        /// The shard.
        shard: u16,
        /// How many.
        missing: u64,
    },
    /// The database does not let shards be read, or would not keep them.
    Database {
        /// The shards.
        shards: Vec<u16>,
        /// What is wrong, and what to do.
        why: String,
    },
    /// Nodes do not reach the database of the journals.
    CutOff {
        /// Their names.
        nodes: Vec<String>,
    },
    /// Commits of a database with several hosts wait for none of them.
    LosesByPromotion,
    /// A record is kept by too few servers.
    FewReplicas {
        /// The shard.
        shard: u16,
        /// How many servers keep it.
        replicas: usize,
    },
    /// No server leads those that keep the shard: nothing can be written.
    NoLeader {
        /// The shard.
        shard: u16,
    },
    /// A server is behind, or is not heard of.
    Lagging {
        /// The shard.
        shard: u16,
        /// The server.
        server: String,
        /// How many messages it is behind.
        lag: u64,
    },
    /// The keys of personal values are kept by too few servers.
    FewReplicasOfKeys {
        /// How many servers keep them.
        replicas: usize,
    },
    /// No server leads those that keep the keys of personal values: nothing personal can be stored, and nobody erased.
    NoLeaderOfKeys,
    /// A server with the keys of personal values is behind, or is not heard of.
    LaggingKeys {
        /// The server.
        server: String,
        /// How many messages it is behind.
        lag: u64,
    },
    /// The programs of the nodes are not all of one version.
    Versions {
        /// Those that there are.
        versions: Vec<String>,
    },
    /// Nodes wait to adopt another contract.
    Waiting {
        /// Their names.
        nodes: Vec<String>,
    },
    /// Clocks are too far apart.
    Clocks {
        /// How far, in milliseconds.
        difference_ms: u64,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unserved { shard } => {
                write!(f, "shard {shard} is served by no node: start one, or wait until a lease is over")
            }
            Self::Missing { shard, missing } => {
                write!(f, "shard {shard} lacks {missing} messages: restore stream J{shard} from a backup")
            }
            Self::Database { shards, why } if shards.len() == 1 => write!(f, "shard {}: {why}", shards[0]),
            Self::Database { shards, why } => {
                let shards: Vec<String> = shards.iter().map(u16::to_string).collect();
                write!(f, "shards {}: {why}", shards.join(", "))
            }
            Self::LosesByPromotion => f.write_str(
                "no commit waits for a standby, and the address of the database names several hosts: one that is promoted lacks what was \
                 acknowledged last; set `synchronous_standby_names` to those that may be promoted, and reload the server",
            ),
            Self::CutOff { nodes } => write!(
                f,
                "{} cannot reach the database of the shards: look at the network between them, and at the server",
                nodes.join(", ")
            ),
            Self::FewReplicas { shard, replicas } => write!(
                f,
                "shard {shard} is kept by {replicas} servers, and one may be lost only of {REPLICAS_MIN}: `nats stream edit J{shard} \
                 --replicas {REPLICAS_MIN}`"
            ),
            Self::NoLeader { shard } => {
                write!(f, "shard {shard} has no leader: bring back most of the servers that keep it")
            }
            Self::Lagging { shard, server, lag } => {
                write!(f, "shard {shard}: server {server} is {lag} messages behind, or is not heard of")
            }
            Self::FewReplicasOfKeys { replicas } => write!(
                f,
                "the keys of personal values are kept by {replicas} servers, and one may be lost only of {REPLICAS_MIN}: `nats stream edit \
                 {} --replicas {REPLICAS_MIN}`",
                subject_keys::NAME
            ),
            Self::NoLeaderOfKeys => {
                write!(f, "the keys of personal values have no leader: bring back most of the servers that keep them")
            }
            Self::LaggingKeys { server, lag } => {
                write!(f, "the keys of personal values: server {server} is {lag} messages behind, or is not heard of")
            }
            Self::Versions { versions } => write!(f, "nodes have versions {}: finish the upgrade", versions.join(", ")),
            Self::Waiting { nodes } => {
                write!(
                    f,
                    "{} wait with another specification: it is adopted when the nodes of the present one have stopped",
                    nodes.join(", ")
                )
            }
            Self::Clocks { difference_ms } => {
                write!(
                    f,
                    "the clock of a server is {difference_ms} ms from the one here: let both follow a time server"
                )
            }
        }
    }
}

impl Status {
    /// What is wrong, the worst first.
    pub fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        let each = |found: fn(&ShardStatus) -> Option<Problem>| self.shards.iter().filter_map(found);
        problems
            .extend(each(|of| (of.missing > 0).then_some(Problem::Missing { shard: of.shard, missing: of.missing })));
        problems.extend(self.problems_of_database());
        let nodes = self.nodes_with(|node| node.is_cut_off);
        if !nodes.is_empty() {
            problems.push(Problem::CutOff { nodes });
        }
        if self.loses_by_promotion {
            problems.push(Problem::LosesByPromotion);
        }
        if !self.is_in_database {
            problems.extend(each(|of| of.replicas.is_empty().then_some(Problem::NoLeader { shard: of.shard })));
        }
        problems.extend(each(|of| of.epoch.is_none().then_some(Problem::Unserved { shard: of.shard })));
        problems.extend(each(|of| {
            let replicas = of.replicas.len();
            (1..REPLICAS_MIN).contains(&replicas).then_some(Problem::FewReplicas { shard: of.shard, replicas })
        }));
        for of in &self.shards {
            problems.extend(of.replicas.iter().filter(|replica| !replica.is_current).map(|replica| Problem::Lagging {
                shard: of.shard,
                server: replica.server.clone(),
                lag: replica.lag,
            }));
        }
        if let Some(replicas) = &self.subject_keys {
            problems.extend(problems_of_keys(replicas));
        }
        let versions: BTreeSet<&String> = self.nodes.iter().map(|node| &node.version).collect();
        if versions.len() > 1 {
            problems.push(Problem::Versions { versions: versions.into_iter().cloned().collect() });
        }
        let waiting = self.nodes_with(|node| node.is_waiting);
        if !waiting.is_empty() {
            problems.push(Problem::Waiting { nodes: waiting });
        }
        if Duration::from_millis(self.clock_difference_ms) > CLOCKS_MAX {
            problems.push(Problem::Clocks { difference_ms: self.clock_difference_ms });
        }
        problems
    }

    /// The names of the nodes of which that is so.
    fn nodes_with(&self, is_so: impl Fn(&NodeStatus) -> bool) -> Vec<String> {
        self.nodes.iter().filter(|node| is_so(node)).map(|node| node.name.clone()).collect()
    }

    /// What is wrong with the database, once for all shards of which it is.
    fn problems_of_database(&self) -> impl Iterator<Item = Problem> {
        let mut flaws: BTreeMap<&str, Vec<u16>> = BTreeMap::new();
        for of in &self.shards {
            if let Some(flaw) = &of.flaw {
                flaws.entry(flaw).or_default().push(of.shard);
            }
        }
        flaws.into_iter().map(|(why, shards)| Problem::Database { shards, why: why.to_owned() })
    }
}

/// Looks at all nodes and shards whose servers these are. Changes nothing.
///
/// # Errors
/// When no server can be reached, no node has ever joined there, or the journals are elsewhere.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// Dropping the future has no effect.
pub async fn status(servers: &Servers, journals: &Journals) -> Result<Status, JoinError> {
    let (_, bucket) = open(servers).await?;
    let settings = settings(&bucket).await?.value;
    let view = bucket.look().await.map_err(JoinError::unreachable)?;
    let agreed = timeout(LOOK_MAX, journals.agreed(servers, &settings)).await.unwrap_or_else(|_| {
        Err(JoinError::unreachable(format!("the database has not answered within {} s", LOOK_MAX.as_secs())))
    });
    let mut loses_by_promotion = false;
    let shards = match agreed {
        Ok(journals) => {
            loses_by_promotion = journals.lose_by_promotion().await;
            shard_statuses(settings.shards, &view, &journals, &bucket).await
        }
        // An operator wants to see the nodes most when the database is away.
        Err(JoinError::Unreachable { why } | JoinError::Database { why }) => {
            let unseen = || Kept { flaw: Some(why.clone()), ..Kept::default() };
            (0..settings.shards).map(|shard| shard_status(shard, &view, unseen())).collect()
        }
        Err(cause) => return Err(cause),
    };
    let subject_keys = bucket.kept(subject_keys::NAME).await.map(|kept| kept.replicas);
    let clock_difference_ms = bucket.clock_difference().await.map_err(JoinError::unreachable)?;
    let nodes = node_statuses(&view, settings.shards);
    Ok(Status {
        nodes,
        shards,
        is_in_database: settings.database.is_some(),
        loses_by_promotion,
        subject_keys,
        clock_difference_ms,
        refused: settings.refused.map(|refused| refused.why),
    })
}

/// Lets `node` give all its shards to others, and waits until it has none; it goes on to answer requests by asking them, until
/// it is stopped. When it is started again it gets its part again.
///
/// # Errors
/// When no server can be reached, or the node does not answer.
///
/// # Panics
/// Outside of a tokio runtime with timers and network.
///
/// # Cancel safety
/// The node may go on to give its shards away.
pub async fn drain(servers: &Servers, node: &str, patience: Duration) -> Result<(), JoinError> {
    let (client, bucket) = open(servers).await?;
    let deadline = Instant::now() + patience;
    let asked = fabric::ask::<_, bool>(&client, fabric::node_subject(node), &Order::Drain, None, ORDER_MAX).await;
    match asked {
        Ok(true) => {}
        Err(Unasked::Unread(cause)) => return Err(JoinError::unreachable(cause)),
        _ => return Err(JoinError::unreachable(format!("node {node} does not answer"))),
    }
    loop {
        let view = bucket.look().await.map_err(JoinError::unreachable)?;
        let shards = view.claims().filter(|(_, claim)| claim.node == node).count();
        if shards == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(JoinError::unreachable(format!(
                "node {node} still has {shards} shards: is there another node?"
            )));
        }
        sleep(PAUSE).await;
    }
}

async fn open(servers: &Servers) -> Result<(Client, Bucket), JoinError> {
    let client = connect(servers, "enact cluster").await?;
    let bucket = Bucket::existing(&client).await?;
    Ok((client, bucket))
}

fn problems_of_keys(replicas: &[Replica]) -> Vec<Problem> {
    let few = match replicas.len() {
        0 => Some(Problem::NoLeaderOfKeys),
        replicas @ ..REPLICAS_MIN => Some(Problem::FewReplicasOfKeys { replicas }),
        _ => None,
    };
    let lagging = replicas.iter().filter(|replica| !replica.is_current);
    let lagging = lagging.map(|replica| Problem::LaggingKeys { server: replica.server.clone(), lag: replica.lag });
    few.into_iter().chain(lagging).collect()
}

fn node_statuses(view: &View, shards: u16) -> Vec<NodeStatus> {
    let served =
        |node: &str| (0..shards).filter(|shard| view.holder(*shard).is_some_and(|claim| claim.node == node)).count();
    let status = |(name, lease): (&str, &crate::view::Lease)| NodeStatus {
        name: name.to_owned(),
        address: lease.address.clone(),
        version: lease.version.clone(),
        is_leaving: lease.is_leaving,
        is_cut_off: lease.is_cut_off,
        is_waiting: view.stage(&lease.contract) != Stage::Agreed,
        shards: served(name),
    };
    view.nodes().map(status).collect()
}

async fn shard_statuses(shards: u16, view: &View, journals: &ShardJournals, bucket: &Bucket) -> Vec<ShardStatus> {
    let status = async |shard| shard_status(shard, view, journals.kept(bucket, shard).await);
    // A database that does not answer is waited for once.
    stream::iter(0..shards).map(status).buffered(LOOKS_MAX).collect().await
}

fn shard_status(shard: u16, view: &View, kept: Kept) -> ShardStatus {
    let holder = view.holder(shard);
    let Kept { last, missing, replicas, flaw } = kept;
    let (owner, epoch) = (holder.map(|claim| claim.node.clone()), holder.and_then(|claim| claim.epoch));
    let moved_to = view.pin(shard).map(str::to_owned);
    ShardStatus { shard, owner, moved_to, epoch, last, missing, replicas, flaw }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sound() -> Status {
        let replica = |server: &str| Replica { server: server.to_owned(), is_current: true, lag: 0 };
        let shard = |shard| ShardStatus {
            shard,
            owner: Some("a".to_owned()),
            moved_to: None,
            epoch: Some(1),
            last: 7,
            missing: 0,
            replicas: ["h1", "h2", "h3"].map(replica).to_vec(),
            flaw: None,
        };
        let node = NodeStatus {
            name: "a".to_owned(),
            address: String::new(),
            version: "0.1.0".to_owned(),
            is_leaving: false,
            is_cut_off: false,
            is_waiting: false,
            shards: 2,
        };
        Status {
            nodes: vec![node],
            shards: vec![shard(0), shard(1)],
            is_in_database: false,
            loses_by_promotion: false,
            subject_keys: Some(["h1", "h2", "h3"].map(replica).to_vec()),
            clock_difference_ms: 3,
            refused: None,
        }
    }

    #[test]
    fn each_thing_that_is_wrong_is_named_and_the_worst_first() {
        assert_eq!(sound().problems(), []);
        let mut status = sound();
        (status.clock_difference_ms, status.loses_by_promotion) = (1_001, true);
        let (name, version) = ("b".to_owned(), "0.2.0".to_owned());
        status.nodes.push(NodeStatus { name, version, is_waiting: true, ..status.nodes[0].clone() });
        status.shards[0].replicas[2] = Replica { server: "h3".to_owned(), is_current: false, lag: 9 };
        status.shards[1].epoch = None;
        status.shards[1].missing = 2;
        status.shards[1].replicas.truncate(2);
        let keys = status.subject_keys.as_mut().expect("there are keys");
        keys.truncate(2);
        (keys[1].is_current, keys[1].lag) = (false, 4);
        let expected = [
            Problem::Missing { shard: 1, missing: 2 },
            Problem::LosesByPromotion,
            Problem::Unserved { shard: 1 },
            Problem::FewReplicas { shard: 1, replicas: 2 },
            Problem::Lagging { shard: 0, server: "h3".to_owned(), lag: 9 },
            Problem::FewReplicasOfKeys { replicas: 2 },
            Problem::LaggingKeys { server: "h2".to_owned(), lag: 4 },
            Problem::Versions { versions: vec!["0.1.0".to_owned(), "0.2.0".to_owned()] },
            Problem::Waiting { nodes: vec!["b".to_owned()] },
            Problem::Clocks { difference_ms: 1_001 },
        ];
        assert_eq!(status.problems(), expected);
        status.shards[0].replicas.clear();
        status.subject_keys = Some(Vec::new());
        let problems = status.problems();
        assert!(problems.contains(&Problem::NoLeader { shard: 0 }) && problems.contains(&Problem::NoLeaderOfKeys));
        assert!(Status { subject_keys: None, ..sound() }.problems().is_empty(), "there are none");
    }

    #[test]
    fn what_is_wrong_with_a_database_is_said_once_for_all_shards() {
        let mut status = Status { is_in_database: true, ..sound() };
        status.shards.push(ShardStatus { shard: 2, ..status.shards[0].clone() });
        status.shards.iter_mut().for_each(|shard| shard.replicas.clear());
        assert_eq!(status.problems(), [], "no server of NATS keeps them");
        status.shards[0].flaw = Some("fsync = off".to_owned());
        status.shards[2].flaw = Some("fsync = off".to_owned());
        status.shards[1].flaw = Some("records are missing".to_owned());
        status.nodes[0].is_cut_off = true;
        let said: Vec<String> = status.problems().iter().map(ToString::to_string).collect();
        let cut_off = "a cannot reach the database of the shards: look at the network between them, and at the server";
        assert_eq!(said, ["shards 0, 2: fsync = off", "shard 1: records are missing", cut_off]);
    }
}
