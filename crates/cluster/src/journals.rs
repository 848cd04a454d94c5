//! Where the journals of the shards are: in streams of the servers that nodes meet at, or in tables of a database.
//!
//! The first node decides, for ever: what all nodes have in common names the identity of the tables, if there are some. So no node serves shards
//! out of other journals than the rest do, whatever address it was given, and whatever is behind that address one day: each connection to a
//! database looks for the identity.

use std::fmt;
#[cfg(feature = "postgres")]
use std::time::Duration;

use enact_journal::SecurityError;
use enact_journal::nats::{self, Nats, Servers};
#[cfg(feature = "postgres")]
use enact_journal::postgres::{self, Database};
#[cfg(feature = "postgres")]
use tokio::time::timeout;

use crate::JoinError;
use crate::bucket::{Bucket, Kept};
use crate::journal::ShardJournal;
use crate::verify::{Verified, VerifyError};
use crate::view::Settings;

/// How long a database may take to answer a node that asks whether it is there.
#[cfg(feature = "postgres")]
const ANSWER_MAX: Duration = Duration::from_secs(4);

/// Where a node, or an operator, expects the journals of the shards.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Journals {
    /// In streams of the NATS servers that nodes meet at.
    #[default]
    Streams,
    /// In tables of this database, which have an identity or get one. The number of a journal and the name of a node do not count here.
    #[cfg(feature = "postgres")]
    Tables(Box<postgres::Options>),
}

#[cfg(feature = "postgres")]
impl From<postgres::Options> for Journals {
    fn from(options: postgres::Options) -> Self {
        Self::Tables(Box::new(options))
    }
}

/// The journals of the shards, which are those that all nodes have agreed on.
///
/// Cheap to clone; all clones are one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ShardJournals {
    /// In streams of these servers.
    Streams(Servers),
    /// In tables of this database.
    #[cfg(feature = "postgres")]
    Tables(Database),
}

/// What keeps the journals of shards.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keeper {
    /// Servers of NATS.
    Streams,
    /// A database whose tables have this identity, if any.
    Database {
        /// The identity.
        identity: Option<String>,
    },
}

impl fmt::Display for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Streams => f.write_str("streams of NATS"),
            Self::Database { identity: Some(identity) } => write!(f, "the database with the identity {identity}"),
            Self::Database { identity: None } => f.write_str("a database without an identity"),
        }
    }
}

/// Why the journal of a shard cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// It is in streams.
    #[error(transparent)]
    Streams(#[from] nats::OpenError),
    /// It is in tables.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Tables(#[from] postgres::OpenError),
}

impl OpenError {
    /// Why the program and the servers do not trust each other, if that is it.
    pub fn insecurity(&self) -> Option<&SecurityError> {
        match self {
            Self::Streams(nats::OpenError::Security(cause)) => Some(cause),
            #[cfg(feature = "postgres")]
            Self::Tables(postgres::OpenError::Security(cause)) => Some(cause),
            _ => None,
        }
    }

    /// Whether records are damaged or missing.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Streams(cause) => {
                matches!(cause, nats::OpenError::Holes { .. } | nats::OpenError::Owners { .. })
            }
            #[cfg(feature = "postgres")]
            Self::Tables(cause) => {
                matches!(cause, postgres::OpenError::Damaged { .. } | postgres::OpenError::Shortened { .. })
            }
        }
    }
}

impl Journals {
    /// Those of nodes that meet at `servers` and have agreed on `settings`, if these are they.
    pub(crate) async fn agreed(&self, servers: &Servers, settings: &Settings) -> Result<ShardJournals, JoinError> {
        let found = settings
            .database
            .as_ref()
            .map_or(Keeper::Streams, |identity| Keeper::Database { identity: Some(identity.clone()) });
        match (self, &settings.database) {
            (Self::Streams, None) => Ok(ShardJournals::Streams(servers.clone())),
            (Self::Streams, Some(_)) => Err(JoinError::OtherJournals { found, given: Keeper::Streams }),
            #[cfg(feature = "postgres")]
            (Self::Tables(options), Some(identity)) => {
                let options =
                    postgres::Options { identity: Some(identity.clone()), ..postgres::Options::clone(options) };
                let database = Database::new(options).map_err(unusable)?;
                match database.identity().await {
                    Ok(_) => Ok(ShardJournals::Tables(database)),
                    Err(postgres::OpenError::OtherDatabase { found: identity, .. }) => {
                        Err(JoinError::OtherJournals { found, given: Keeper::Database { identity } })
                    }
                    Err(cause) => Err(unusable(cause)),
                }
            }
            #[cfg(feature = "postgres")]
            (Self::Tables(options), None) => {
                let identity = Database::new(postgres::Options::clone(options))
                    .map_err(unusable)?
                    .identity()
                    .await
                    .map_err(unusable)?;
                Err(JoinError::OtherJournals { found, given: Keeper::Database { identity } })
            }
        }
    }

    /// What nodes that have agreed on nothing yet are to agree on: the identity of the tables, which get one.
    pub(crate) async fn identify(&self) -> Result<Option<String>, JoinError> {
        match self {
            Self::Streams => Ok(None),
            #[cfg(feature = "postgres")]
            Self::Tables(options) => {
                let database = Database::new(postgres::Options::clone(options)).map_err(unusable)?;
                database.identify().await.map(Some).map_err(unusable)
            }
        }
    }

    /// Whether there is a journal with this number.
    pub(crate) async fn has(&self, bucket: &Bucket, shard: u16) -> Result<bool, JoinError> {
        match self {
            Self::Streams => bucket.has_journal(shard).await.map_err(JoinError::unreachable),
            #[cfg(feature = "postgres")]
            Self::Tables(options) => {
                match Database::new(postgres::Options::clone(options)).map_err(unusable)?.look(shard).await {
                    Ok(_) => Ok(true),
                    Err(postgres::OpenError::Missing { .. }) => Ok(false),
                    Err(cause) => Err(unusable(cause)),
                }
            }
        }
    }

    /// The same, of a database for the node with this name.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "streams are told it when they are opened")
    )]
    pub(crate) fn of_node(&self, node: &str) -> Self {
        match self {
            Self::Streams => Self::Streams,
            #[cfg(feature = "postgres")]
            Self::Tables(options) => {
                postgres::Options { node: node.to_owned(), ..postgres::Options::clone(options) }.into()
            }
        }
    }
}

/// Why no node can use the database.
#[cfg(feature = "postgres")]
fn unusable(cause: postgres::OpenError) -> JoinError {
    match cause {
        postgres::OpenError::Security(cause) => JoinError::Security(cause),
        cause @ postgres::OpenError::Unreachable { .. } => JoinError::unreachable(cause),
        cause => JoinError::Database { why: cause.to_string() },
    }
}

impl ShardJournals {
    /// Opens the journal of a shard for `node`, and takes it over from who has it; streams that are made are kept by so many `replicas`.
    pub(crate) async fn open(&self, shard: u16, node: &str, replicas: usize) -> Result<ShardJournal, OpenError> {
        match self {
            Self::Streams(servers) => {
                let options =
                    nats::Options { shard, replicas, node: node.to_owned(), ..nats::Options::at(servers.clone()) };
                Ok(ShardJournal::Streams(Nats::open(options).await?))
            }
            #[cfg(feature = "postgres")]
            Self::Tables(database) => Ok(ShardJournal::Tables(database.open(shard).await?)),
        }
    }

    /// Opens the journal of a shard to read what it has at this moment, beside the node that serves it, which is not disturbed.
    ///
    /// # Errors
    /// When no server can be reached, or nobody has ever opened the journal.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and network.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn look(&self, shard: u16) -> Result<ShardJournal, OpenError> {
        match self {
            Self::Streams(servers) => {
                let options = nats::Options { shard, ..nats::Options::at(servers.clone()) };
                Ok(ShardJournal::Streams(Nats::look(options).await?))
            }
            #[cfg(feature = "postgres")]
            Self::Tables(database) => Ok(ShardJournal::Tables(database.look(shard).await?)),
        }
    }

    /// Reads every record that `shard` has at this moment: each has its checksum and its place, and each entity's records follow each
    /// other. Changes nothing, and does not disturb the node that serves the shard. Takes memory for each entity.
    ///
    /// # Errors
    /// When something is wrong, the first of it; or when records cannot be read.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and network.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn verify(&self, shard: u16) -> Result<Verified, VerifyError> {
        Ok(self.look(shard).await?.verify().await?)
    }

    /// The journal of a shard in words, without a user or a password.
    pub fn place(&self, shard: u16) -> String {
        match self {
            Self::Streams(servers) => format!("{servers} (shard {shard})"),
            #[cfg(feature = "postgres")]
            Self::Tables(database) => database.options(shard).to_string(),
        }
    }

    /// How the journal of a shard is kept.
    pub(crate) async fn kept(&self, bucket: &Bucket, shard: u16) -> Kept {
        match self {
            Self::Streams(_) => bucket.kept(&format!("J{shard}")).await.unwrap_or_default(),
            #[cfg(feature = "postgres")]
            Self::Tables(database) => {
                use enact_journal::Journal as _;

                match database.look(shard).await {
                    Ok(journal) => {
                        let last = journal.volume().last.map_or(0, |last| last.0);
                        Kept { last, ..Kept::default() }
                    }
                    // Nobody has served it yet.
                    Err(postgres::OpenError::Missing { .. }) => Kept::default(),
                    Err(cause) => Kept { flaw: Some(cause.to_string()), ..Kept::default() },
                }
            }
        }
    }

    /// Whether the promotion of a standby would lose records; never so of streams. Nothing is known of a database that does not answer.
    pub(crate) async fn lose_by_promotion(&self) -> bool {
        match self {
            Self::Streams(_) => false,
            #[cfg(feature = "postgres")]
            Self::Tables(database) => {
                timeout(ANSWER_MAX, database.loses_by_promotion()).await.is_ok_and(|answer| answer.unwrap_or(false))
            }
        }
    }

    /// Whether the database answers; servers of NATS do for a node that has a lease.
    pub(crate) async fn are_reached(&self) -> bool {
        match self {
            Self::Streams(_) => true,
            #[cfg(feature = "postgres")]
            Self::Tables(database) => timeout(ANSWER_MAX, database.identity()).await.is_ok_and(|answer| answer.is_ok()),
        }
    }
}
