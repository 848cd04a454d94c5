//! The journal over PostgreSQL: its records are rows of a database that is looked after already, and another machine can go on with them.
//!
//! # Who writes
//! Several processes may have the journal open; the one that has opened it last writes. Opening counts the *epoch* up in the row of the
//! owner. Every statement that inserts records locks this row against that, and inserts nothing in another epoch than its writer's. So
//! a take-over waits for what is being inserted, and what comes later from an earlier writer has no effect, whatever that
//! writer knows, and however late it arrives. No clock and no lease decides.
//!
//! # When a record is durable
//! When its server has committed it, with all others of its group, and so have the standbys that its server waits for. An answer that
//! is lost is looked for, under the same lock, before anything else is written.
//!
//! # Layers
//! `database` is what several journals have in common: the connections of `pool`, which their reads share, and the `identity` of the tables.
//! `build` fills tables with the groups of another log. `log` inserts groups of records, one at a time, `send` finds out what became of one, `take_over` begins a reign, `reign` knows where
//! everything ends and `earlier` what there is at all, `read` asks for records and snapshots, `session` has the connections and all that
//! is asked over them, `tables` and `wire` know what stands in the tables, `guard` refuses servers that could lose something.
//!
//! # Executors
//! The journal lives in the tokio runtime in which it is opened, and its futures run on any executor. When that runtime ends, what is
//! under way is in doubt.
//!
//! # Limits
//! A journal has a connection that it writes over, one or two for moments, and up to four to read, which all journals of a [`Database`] share. Up to four million entities that there are take 8 bytes of memory, and those that were asked for
//! since the journal was opened their key and about 90 more. Records are never removed.

mod build;
mod database;
mod earlier;
mod guard;
mod identity;
mod log;
mod options;
mod pool;
mod read;
mod reign;
mod send;
mod session;
mod tables;
mod take_over;
mod wire;

use std::error::Error as _;
use std::future::Future;
use std::time::Duration;
use std::{fmt, iter};

use tokio::time::Instant;
use tokio_postgres::error::SqlState;

pub use self::build::{BuildError, TableBuilder};
pub use self::database::Database;
pub use self::options::Options;
use self::read::Reader;
use crate::journal::{AppendError, CheckError, CloseError, Journal, Limits, Loaded, ReadError, SnapshotError, Volume};
use crate::record::{EntityKey, Group, NewRecord, Position, Record, Seq, Snapshot};
use crate::remote::{Remote, Verified, whole_groups};
use crate::security::SecurityError;

/// How long opening goes on to ask.
const OPEN_MAX: Duration = Duration::from_secs(20);
const LIMITS: Limits = Limits { batch_bytes: 16 << 20, batch_records: 10_000, record_bytes: 16 << 20 };

/// A journal in tables of `PostgreSQL`, which are made if there are none.
///
/// Dropping it writes what was submitted, in the background, as long as its runtime runs.
///
/// ```no_run
/// use enact_journal::postgres::{Options, Postgres};
/// use enact_journal::{EntityKey, Journal, Kind, NewRecord, Seq};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let journal = Postgres::open(Options::at("postgres://enact@h1,h2/bank")).await?;
/// let account = EntityKey::new("Account", "NL01")?;
/// let opened = NewRecord { entity: account, expected: Seq::NONE, kind: Kind(1), payload: b"open".to_vec() };
/// journal.append(vec![opened]).await?;
/// journal.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct Postgres {
    remote: Remote<Reader>,
    epoch: u64,
}

/// Why a journal over `PostgreSQL` could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The address is none of a database.
    #[error("{address:?} is no address of a database, such as postgres://user@host:5432/database")]
    Address {
        /// The address, without its user and password.
        address: String,
    },
    /// The schema has another name than one may have.
    #[error("{schema:?} is no name for a schema: it begins with a small letter, which letters, digits and `_` follow")]
    Schema {
        /// The name.
        schema: String,
    },
    /// The program and a server do not trust each other.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// No server can be reached, or none does what it has to within 20 s.
    #[error("the journal cannot be opened over PostgreSQL: {why}")]
    Unreachable {
        /// What happened last.
        why: String,
    },
    /// The server does not let the user in, or does not let it make or use the tables.
    #[error("the server refuses it: {why} (code {code})")]
    Refused {
        /// What the server said.
        why: String,
        /// The server's code for it.
        code: String,
    },
    /// The server is older than 15.
    #[error("the server has version number {found}, at least 150000 is needed: upgrade it to PostgreSQL 15 or later")]
    Version {
        /// Its version, as `server_version_num` has it.
        found: String,
    },
    /// The server is a standby.
    #[error("the server is a standby, which takes no records: name the primary, or all hosts with commas between them")]
    Standby,
    /// The server has a setting with which what is acknowledged could get lost, or damage could be passed over.
    #[error("the server has {setting} = {found}, it must be `{required}`: {remedy}")]
    Setting {
        /// The setting.
        setting: String,
        /// What it is.
        found: String,
        /// What it must be.
        required: String,
        /// How to correct it.
        remedy: String,
    },
    /// There is nothing to look at.
    #[error("there is no journal in schema {schema}: nobody has opened it")]
    Missing {
        /// The schema.
        schema: String,
    },
    /// The tables are those of another program.
    #[error(
        "the tables in schema {schema} have format {found}, which this program does not know: use the one that made them"
    )]
    Format {
        /// The schema.
        schema: String,
        /// Their format.
        found: String,
    },
    /// The tables are not those that are to be there.
    #[error(
        "the tables in schema {schema} {}, and those of the journals have {expected}: name the database that has them",
        .found.as_ref().map_or("have no identity".to_owned(), |found| format!("have the identity {found}"))
    )]
    OtherDatabase {
        /// The schema.
        schema: String,
        /// The identity that they should have.
        expected: String,
        /// The one that they have.
        found: Option<String>,
    },
    /// The tables are those of nodes, which write them together.
    #[error(
        "the tables in schema {schema} are those of several nodes: be one of them (`--cluster`), or name another schema; or, if there are no nodes any more, remove the table {schema}.identity"
    )]
    OfNodes {
        /// The schema.
        schema: String,
    },
    /// A table is not kept as it must be.
    #[error("table {table} {flaw}")]
    Table {
        /// The table with its schema.
        table: String,
        /// What is wrong with it, and how to correct it.
        flaw: String,
    },
    /// The server cannot read what it has written.
    #[error("the server has damaged data: {why}; restore it from a backup or a standby")]
    Damaged {
        /// What the server said.
        why: String,
    },
    /// Records are missing that were durable.
    #[error("the records end at position {found}, and were durable up to {last}: restore them from a backup")]
    Shortened {
        /// A position that was durable.
        last: u64,
        /// The last one that is there.
        found: u64,
    },
}

impl OpenError {
    /// Whether what is acknowledged is lost or may get lost; otherwise nothing is known for the moment.
    pub fn is_unsafe(&self) -> bool {
        !matches!(
            self,
            Self::Address { .. }
                | Self::Schema { .. }
                | Self::Security(_)
                | Self::Unreachable { .. }
                | Self::Refused { .. }
        )
    }

    /// What it says of a journal that is open.
    fn of_check(&self) -> CheckError {
        let why = self.to_string();
        if self.is_unsafe() { CheckError::Unsafe { why } } else { CheckError::Unavailable { why } }
    }

    /// No server has answered within `time`.
    fn late(time: Duration) -> Self {
        Self::unreachable(format!("the server has not answered within {} s", time.as_secs()))
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
    fn unreachable(why: impl ToString) -> Self {
        Self::Unreachable { why: why.to_string() }
    }

    /// What has come of a question: a refusal does not pass by itself.
    #[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
    fn of(cause: tokio_postgres::Error) -> Self {
        let code = cause.code().map_or("", SqlState::code);
        // Names or passwords are wrong, rights or tables are missing.
        if ["28", "3D", "42"].iter().any(|class| code.starts_with(class)) {
            return Self::Refused { code: code.to_owned(), why: in_words(&cause) };
        }
        if is_damage(&cause) {
            return Self::Damaged { why: in_words(&cause) };
        }
        Self::Unreachable { why: in_words(&cause) }
    }
}

/// Whether the server has found a page that is not as it was written.
fn is_damage(error: &tokio_postgres::Error) -> bool {
    matches!(error.code(), Some(&(SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED)))
}

/// An error with what caused it, in one line.
fn in_words(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let causes = iter::successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |words, cause| format!("{words}: {cause}"))
}

impl Postgres {
    /// Opens the journal and takes it over from any other process that has it open.
    ///
    /// # Errors
    /// When no server can be reached, or the server or a table is not what it has to be. Nothing is taken over then.
    ///
    /// # Cancel safety
    /// The journal may have been taken over; opening it again goes on from there.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let (shard, database) = (options.shard, Database::new(options)?);
        let journal = database.open(shard).await?;
        // The journal is open, whether the database answers this or not.
        if database.loses_by_promotion().await.unwrap_or(false) {
            tracing::warn!(
                "no commit waits for any of the other hosts in the address: one that is promoted lacks what was acknowledged last, unless \
                 `synchronous_standby_names` names them"
            );
        }
        Ok(journal)
    }

    /// Opens the journal to read what it has now, beside the process that writes it, which goes on. Records and snapshots are refused: to this
    /// process it is closed. What is written later may be seen, or not.
    ///
    /// # Errors
    /// When no server can be reached, the server or a table is not what it has to be, or nobody has ever opened the journal.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub async fn look(options: Options) -> Result<Self, OpenError> {
        let shard = options.shard;
        Database::new(options)?.look(shard).await
    }

    /// Whole groups of records after `after`, which is the end of one: at least one group if something follows that was durable when the
    /// journal was opened. A group is what became durable together: one batch, or several. What a dump has restored is one group, as it was
    /// inserted at once.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// As [`feed`](Journal::feed).
    pub fn groups(&self, after: Position) -> impl Future<Output = Result<Vec<Group>, ReadError>> + Send + use<> {
        self.remote.read_with(async move |reader| whole_groups(after, |after| reader.page(after, usize::MAX)).await)
    }

    /// Reads every record that was durable when the journal was opened: each has its checksum and its place, and those of an entity follow
    /// each other. What is on the servers beside records is not looked at, but by [`check`](Journal::check).
    ///
    /// Takes memory for a page and an entry for each entity.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Errors
    /// When something is damaged or missing, the first of it; or when records cannot be read.
    pub fn verify(&self) -> impl Future<Output = Result<Verified, ReadError>> + Send + use<> {
        self.remote.read_with(async move |reader| reader.verify().await)
    }

    /// The reign of this writer, larger than those of all before it. Of one that only [looks](Self::look), the one that it looks at.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Journal for Postgres {
    fn append(
        &self,
        batch: Vec<NewRecord>,
    ) -> impl Future<Output = Result<Position, AppendError>> + Send + 'static + use<> {
        self.remote.append(batch)
    }

    fn read(
        &self,
        entity: &EntityKey,
        after: Seq,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        let entity = entity.clone();
        self.remote.read_with(async move |reader| reader.read(&entity, after).await)
    }

    fn load(&self, entity: &EntityKey) -> impl Future<Output = Result<Loaded, ReadError>> + Send {
        let entity = entity.clone();
        self.remote.read_with(async move |reader| reader.load(&entity).await)
    }

    fn last(&self, entity: &EntityKey) -> impl Future<Output = Result<Seq, ReadError>> + Send + use<> {
        let entity = entity.clone();
        self.remote.read_with(async move |reader| reader.last(&entity).await)
    }

    fn feed(
        &self,
        after: Position,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Record>, ReadError>> + Send + use<> {
        self.remote.read_with(async move |reader| reader.feed(after, limit).await)
    }

    fn save_snapshot(
        &self,
        snapshot: Snapshot,
    ) -> impl Future<Output = Result<(), SnapshotError>> + Send + 'static + use<> {
        self.remote.save_with(snapshot, async move |reader, snapshot| reader.save(snapshot).await)
    }

    fn load_snapshot(
        &self,
        entity: &EntityKey,
    ) -> impl Future<Output = Result<Option<Snapshot>, ReadError>> + Send + use<> {
        let entity = entity.clone();
        self.remote.read_with(async move |reader| reader.load_snapshot(&entity).await)
    }

    fn limits(&self) -> Limits {
        self.remote.limits()
    }

    fn volume(&self) -> Volume {
        Volume { last: Some(self.remote.reader().durable()), ..Volume::default() }
    }

    fn failed(&self) -> impl Future<Output = Option<String>> + Send + 'static + use<> {
        self.remote.failed()
    }

    /// Looks whether the server and the tables are what they have to be when the journal is opened, and whether all records are there that are
    /// known to be durable. It is over within 20 s.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    async fn check(&self) -> Result<(), CheckError> {
        let checked = self.remote.reader().check(Instant::now() + OPEN_MAX).await;
        checked.map_err(|cause| cause.of_check())
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        self.remote.close()
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
