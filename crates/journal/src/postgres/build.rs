//! Fills the tables of a journal with the groups of another log: whole or not at all.
//!
//! All is one transaction of the database, so nobody sees any of it before it is committed, and nothing is left of one that is killed.
//! Its first step is the row of the owner: a session that would open the journal, or fill it, too, waits for that row and is refused.
//! Readers tell groups by the transactions that have inserted them, so each group is a subtransaction.

use std::fmt;
use std::sync::Arc;

use futures_util::future::try_join;
use tokio_postgres::error::SqlState;

use super::log::Columns;
use super::session::{Server, Session, Slot};
use super::wire::signed;
use super::{LIMITS, OpenError, Options, identity, in_words, tables};
use crate::record::{EntityKey, Group, Position, Record, Seq};
use crate::remote::{self, GroupError, Numbering, RemoteBuilder, parts};

/// The reign of all that is restored.
const EPOCH: u64 = 1;
/// A pause between two groups, or a slow commit, must not end the transaction.
const SETTINGS: &str = "
    SET idle_in_transaction_session_timeout TO 0;
    SELECT set_config('transaction_timeout', '0', false) FROM pg_settings WHERE name = 'transaction_timeout';
    BEGIN";
const OWN: &str = "INSERT INTO owners (shard, epoch, node, last) VALUES ($1, $2, $3, 0)";
const ANY: &str =
    "SELECT EXISTS (SELECT FROM records WHERE shard = $1) OR EXISTS (SELECT FROM snapshots WHERE shard = $1) AS any";
const NOTE: &str = "UPDATE owners SET last = $2 WHERE shard = $1";

/// Why tables were not filled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The journal was opened before, or has rows.
    #[error("there is a journal already in schema {schema} with the number {shard}: name another schema or shard")]
    Exists {
        /// The schema.
        schema: String,
        /// The number of the journal.
        shard: u16,
    },
    /// Another session holds the journal.
    #[error("somebody else is filling or opening the journal {shard} in schema {schema}: wait until that has ended")]
    UnderWay {
        /// The schema.
        schema: String,
        /// The number of the journal.
        shard: u16,
    },
    /// A group does not follow those before, or has more than the journal takes.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// No server can be reached, or the server or a table is not what it has to be.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The server did not take it.
    #[error("the server did not take it: {why}")]
    Failed {
        /// What happened.
        why: String,
    },
    /// The server did not say whether all is committed.
    #[error("the server did not say whether it is committed, {why}: a look at it tells")]
    InDoubt {
        /// What happened.
        why: String,
    },
}

/// A journal over `PostgreSQL` that is being filled with the groups of another log, in tables without a row of it.
///
/// Groups stay groups. Positions and numbers have no gaps: where the other log has some, records get other ones. Nobody sees any of it
/// before it is [finished](Self::finish), and nothing is left of one that is dropped or killed.
///
/// Takes memory for a group and an entry for each entity.
pub struct TableBuilder {
    server: Arc<Server>,
    session: Arc<Session>,
    shard: u16,
    numbering: Numbering,
    /// The last position.
    last: u64,
    has_groups: bool,
}

impl TableBuilder {
    /// Begins the transaction; makes the tables if there are none.
    ///
    /// # Errors
    /// When there is a row of the journal, another session holds it, the server cannot be reached, or the server or a table is not what it
    /// has to be.
    ///
    /// # Cancel safety
    /// Tables may be there without rows.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    pub async fn begin(options: Options) -> Result<Self, BuildError> {
        let server = Arc::new(Server::of(&options)?);
        {
            let connection = server.connect().await?;
            tables::make(&connection.client, &server.schema).await?;
            tables::check(&connection.client, &server.schema).await?;
            identity::check_writer(&connection.client, &server).await?;
        }
        let session = Slot::new(Arc::clone(&server)).get().await?;
        let client = &session.connection.client;
        client.batch_execute(SETTINGS).await.map_err(OpenError::of)?;
        let shard = i32::from(options.shard);
        let exists = || BuildError::Exists { schema: server.schema.clone(), shard: options.shard };
        client.execute(OWN, &[&shard, &signed(EPOCH), &options.node]).await.map_err(|cause| match cause.code() {
            Some(&SqlState::UNIQUE_VIOLATION) => exists(),
            Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                BuildError::UnderWay { schema: server.schema.clone(), shard: options.shard }
            }
            _ => OpenError::of(cause).into(),
        })?;
        if client.query_one(ANY, &[&shard]).await.map_err(OpenError::of)?.get("any") {
            return Err(exists());
        }
        let numbering = Numbering::new(LIMITS, 0);
        Ok(Self { server, session, shard: options.shard, numbering, last: 0, has_groups: false })
    }
}

impl RemoteBuilder for TableBuilder {
    type Error = BuildError;

    async fn push(&mut self, group: Group) -> Result<(), BuildError> {
        let Session { connection, statements, .. } = &*self.session;
        let mut begin = Some(if self.has_groups { "RELEASE SAVEPOINT g; SAVEPOINT g" } else { "SAVEPOINT g" });
        for part in parts(self.numbering.number(group)?, LIMITS) {
            let part = remote::Group::of(part);
            let columns = Columns::of(&part, self.last + 1, EPOCH);
            let inserting = columns.insert(connection, statements, self.shard);
            let inserted = match begin.take() {
                // Sent together, in this order.
                Some(begin) => {
                    try_join(connection.client.batch_execute(begin), inserting).await.map(|((), count)| count)
                }
                None => inserting.await,
            };
            let count = inserted.map_err(|cause| BuildError::Failed { why: in_words(&cause) })?;
            if count != part.len() as u64 {
                let why = format!("it inserted {count} rows of {}", part.len());
                return Err(BuildError::Failed { why });
            }
            self.last += count;
            self.has_groups = true;
        }
        Ok(())
    }

    fn has_gaps(&self) -> bool {
        self.numbering.has_gaps()
    }

    fn has_discarded(&self) -> bool {
        self.numbering.has_discarded()
    }

    async fn add(&mut self, record: Record) -> Result<(), BuildError> {
        self.push(self.numbering.group_of(record)).await
    }

    fn next_of(&self, entity: &EntityKey) -> Seq {
        self.numbering.next_of(entity)
    }

    async fn finish(&mut self) -> Result<Position, BuildError> {
        self.numbering.finish()?;
        let connection = &self.session.connection;
        let noted = connection.client.execute(NOTE, &[&i32::from(self.shard), &signed(self.last)]).await;
        noted.map_err(|cause| BuildError::Failed { why: in_words(&cause) })?;
        connection.begin();
        let committed = connection.client.batch_execute("COMMIT").await;
        committed.map_err(|cause| BuildError::InDoubt { why: in_words(&cause) })?;
        if connection.has_warned() {
            return Err(BuildError::InDoubt { why: "and whether it is on the standbys".to_owned() });
        }
        Ok(Position(self.last))
    }

    /// What is not committed is gone with its session.
    async fn abandon(self) {}
}

impl fmt::Debug for TableBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBuilder")
            .field("schema", &self.server.schema)
            .field("shard", &self.shard)
            .finish_non_exhaustive()
    }
}
