//! A database with journals in it.

use std::fmt;
use std::sync::Arc;

use tokio::time::Instant;

use super::log::Table;
use super::pool::Pool;
use super::read::Reader;
use super::reign::Reign;
use super::session::{Server, Slot};
use super::take_over::{self, Begun};
use super::{LIMITS, OPEN_MAX, OpenError, Options, Postgres, earlier};
use crate::remote::{Queue, Remote};

/// A database whose journals share the connections that they read over: those of a node, which has many.
///
/// Cheap to clone; all clones are one. It lives in the tokio runtime in which it is used first.
#[derive(Clone)]
pub struct Database {
    options: Options,
    server: Arc<Server>,
    pool: Arc<Pool>,
}

impl Database {
    /// The database that `options` name, of which the number of a journal does not count here. Nothing is asked yet.
    ///
    /// # Errors
    /// When the address or the schema is none, or a file of [`security`](Options::security) cannot be used.
    pub fn new(options: Options) -> Result<Self, OpenError> {
        let server = Arc::new(Server::of(&options)?);
        let pool = Arc::new(Pool::new(&server));
        Ok(Self { options, server, pool })
    }

    /// Opens the journal with the number `shard`, as [`Postgres::open`] does.
    ///
    /// # Errors
    /// As [`Postgres::open`].
    ///
    /// # Cancel safety
    /// As that of [`Postgres::open`].
    ///
    /// # Panics
    /// As [`Postgres::open`].
    pub async fn open(&self, shard: u16) -> Result<Postgres, OpenError> {
        let (server, node) = (Arc::clone(&self.server), &self.options.node);
        let Begun { epoch, durable } = take_over::take_over(&server, shard, node, Instant::now() + OPEN_MAX).await?;
        tracing::info!(schema = server.schema, shard, epoch, "the journal was taken over");
        let reign = Arc::new(Reign::of(shard, epoch, durable));
        let reader = Arc::new(self.reader(&reign));
        let finding_out = earlier::find_out(Arc::clone(&server), Arc::clone(&reign));
        let log = Table::new(Slot::new(server), reign, Arc::clone(&reader));
        let queue = Queue::new(LIMITS, self.options.queue_bytes);
        Ok(Postgres { remote: Remote::written(queue, reader, log, finding_out), epoch })
    }

    /// Opens the journal with the number `shard` to read what it has now, as [`Postgres::look`] does.
    ///
    /// # Errors
    /// As [`Postgres::look`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Panics
    /// As [`Postgres::open`].
    pub async fn look(&self, shard: u16) -> Result<Postgres, OpenError> {
        let Begun { epoch, durable } = take_over::look(&self.server, shard, Instant::now() + OPEN_MAX).await?;
        let reader = self.reader(&Arc::new(Reign::of(shard, epoch, durable)));
        Ok(Postgres { remote: Remote::read_only(LIMITS, Arc::new(reader)), epoch })
    }

    /// How the journal with the number `shard` is opened.
    pub fn options(&self, shard: u16) -> Options {
        Options { shard, ..self.options.clone() }
    }

    fn reader(&self, reign: &Arc<Reign>) -> Reader {
        Reader::new(Arc::clone(&self.server), Arc::clone(&self.pool), Arc::clone(reign))
    }

    /// The identity of the tables, for [`Options::identity`] of all who are to use these and no other ones; `None` if they have none, or there are
    /// no tables. It is theirs wherever they are: on a standby, and restored from a backup.
    ///
    /// # Errors
    /// As [`Postgres::look`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Panics
    /// As [`Postgres::open`].
    pub async fn identity(&self) -> Result<Option<String>, OpenError> {
        take_over::identity(&self.server, Instant::now() + OPEN_MAX).await
    }

    /// Whether the address names several hosts, and commits wait for none of them: a standby that is promoted lacks what was acknowledged last,
    /// and nobody can tell but the writer of it.
    ///
    /// # Errors
    /// As [`Postgres::look`].
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Panics
    /// As [`Postgres::open`].
    pub async fn loses_by_promotion(&self) -> Result<bool, OpenError> {
        let may_be_promoted = self.server.has_several_hosts();
        Ok(may_be_promoted && !take_over::waits_for_standbys(&self.server, Instant::now() + OPEN_MAX).await?)
    }

    /// Gives the tables an identity, if they have none, and makes them if there are none; the one that they have. From then on a journal there is
    /// written only by those who [name it](Options::identity).
    ///
    /// # Errors
    /// As [`Postgres::open`].
    ///
    /// # Cancel safety
    /// The tables may have an identity.
    ///
    /// # Panics
    /// As [`Postgres::open`].
    pub async fn identify(&self) -> Result<String, OpenError> {
        take_over::identify(&self.server, Instant::now() + OPEN_MAX).await
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("options", &self.options).finish_non_exhaustive()
    }
}
