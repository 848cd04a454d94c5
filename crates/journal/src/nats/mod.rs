//! The journal over NATS: its records survive the machine that wrote them, and another machine can go on.
//!
//! # Who writes
//! Several processes may have the journal open; the one that has opened it last writes. Opening appends an *owner record* to the
//! stream of records. Its sequence is the *epoch* of the reign that begins. Every group of records says which sequence must be the
//! last of the stream, so none of an earlier writer fits behind an owner record: the server refuses it, whatever that writer knows, and
//! however late it arrives. No clock and no lease decides.
//!
//! # Layers
//! `build` fills a new stream with the groups of another log. `log` sends groups of records, one at a time, `send` finds out what became of one, `take_over` begins a reign, `reign` knows where
//! everything ends and `earlier` what there is at all, `read` asks replicas and lets none that is behind pass for the truth, `direct`
//! and `inbox` carry its questions, `wire` knows what stands in the streams, `guard` refuses servers and settings that could lose
//! something.
//!
//! # Executors
//! The journal lives in the tokio runtime in which it is opened, and its futures run on any executor. When that runtime ends, what is
//! under way is in doubt.
//!
//! # Limits
//! All entities that there are take 8 bytes of memory, and those that were asked for since the journal was opened their key and about
//! 90 more. Records are never removed.

mod build;
mod direct;
mod earlier;
mod guard;
mod inbox;
mod log;
mod options;
mod read;
mod reign;
mod send;
mod servers;
mod take_over;
mod wire;

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

pub use self::build::{BuildError, StreamBuilder};
use self::direct::Direct;
use self::log::Stream;
pub use self::options::Options;
use self::read::Reader;
pub use self::servers::{Servers, connect};
use self::wire::Names;
use crate::journal::{AppendError, CheckError, CloseError, Journal, Limits, Loaded, ReadError, SnapshotError, Volume};
use crate::record::{EntityKey, Group, NewRecord, Position, Record, Seq, Snapshot};
use crate::remote::{Queue, Remote, Verified, whole_groups};
use crate::security::SecurityError;

/// How long opening goes on to ask.
const OPEN_MAX: Duration = Duration::from_secs(20);
/// A server that is frozen is left after two of these.
const PING: Duration = Duration::from_secs(1);

/// A journal in two streams of `JetStream`, the store of NATS, that are made if there are none.
///
/// Dropping it writes what was submitted, in the background, as long as its runtime runs.
///
/// ```no_run
/// use enact_journal::nats::{Nats, Options};
/// use enact_journal::{EntityKey, Journal, Kind, NewRecord, Seq};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let options = Options { replicas: 3, ..Options::at("tls://h1:4222,tls://h2:4222,tls://h3:4222") };
/// let journal = Nats::open(options).await?;
/// let account = EntityKey::new("Account", "NL01")?;
/// let opened = NewRecord { entity: account, expected: Seq::NONE, kind: Kind(1), payload: b"open".to_vec() };
/// journal.append(vec![opened]).await?;
/// journal.close().await?;
/// # Ok(())
/// # }
/// ```
pub struct Nats {
    remote: Remote<Reader>,
    epoch: u64,
    replicas: usize,
}

/// Why a journal over NATS could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// An address is none of a server.
    #[error("{address:?} is no address of a NATS server, such as nats://host:4222")]
    Address {
        /// The address, without its user and password.
        address: String,
    },
    /// The program and a server do not trust each other.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// No server can be reached, or none does what it has to within 20 s.
    #[error("the journal cannot be opened over NATS: {why}")]
    Unreachable {
        /// What happened last.
        why: String,
    },
    /// The server is older than 2.15.2.
    #[error("the NATS server has version {found}, at least 2.15.2 is needed: upgrade it")]
    Version {
        /// Its version.
        found: String,
    },
    /// The server does not take headers.
    #[error("the NATS server takes no headers: remove `no_header_support` from its configuration")]
    NoHeaders,
    /// The server takes too small messages only.
    #[error("the NATS server takes messages of {found} bytes, at least {required} are needed: set `max_payload`")]
    Payload {
        /// Its limit.
        found: usize,
        /// The smallest one that is enough.
        required: usize,
    },
    /// There is nothing to look at.
    #[error("there is no stream {stream}: nobody has opened the journal")]
    Missing {
        /// The stream.
        stream: String,
    },
    /// The stream has a part of a backup.
    #[error(
        "stream {stream} is being restored from a backup, or was until that was cut off: if no restore runs any more, remove it with \
         `nats stream rm {stream}`, and restore it again"
    )]
    Unfinished {
        /// The stream.
        stream: String,
    },
    /// A stream cannot be made.
    #[error("stream {stream} cannot be made: {why} (code {code})")]
    Stream {
        /// The stream.
        stream: String,
        /// What the server said.
        why: String,
        /// The server's code for it.
        code: u64,
    },
    /// A stream has a setting with which what is acknowledged could get lost.
    #[error(
        "stream {stream} has {setting} = {found}, it must be {required}: correct it with `nats stream edit {stream}`, or name \
         another shard"
    )]
    Setting {
        /// The stream.
        stream: String,
        /// The setting, as the server calls it.
        setting: String,
        /// What it is.
        found: String,
        /// What it must be.
        required: String,
    },
    /// Messages are missing from the stream.
    #[error(
        "stream {stream} has {messages} messages and the last is {last}: some are missing, restore it from a backup"
    )]
    Holes {
        /// The stream.
        stream: String,
        /// How many it has.
        messages: u64,
        /// The sequence of the last one.
        last: u64,
    },
    /// An owner record does not follow the one before it.
    #[error(
        "message {sequence} of the stream is not the owner record that should follow: the stream has lost messages"
    )]
    Owners {
        /// The sequence of the owner record.
        sequence: u64,
    },
}

impl OpenError {
    /// What it says of a journal that is open.
    fn of_check(&self) -> CheckError {
        let why = self.to_string();
        match self {
            Self::Address { .. } | Self::Security(_) | Self::Unreachable { .. } | Self::Stream { .. } => {
                CheckError::Unavailable { why }
            }
            _ => CheckError::Unsafe { why },
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "errors come like this")]
    fn unreachable(why: impl ToString) -> Self {
        Self::Unreachable { why: why.to_string() }
    }
}

impl Nats {
    /// Opens the journal and takes it over from any other process that has it open.
    ///
    /// # Errors
    /// When no server can be reached, or a server or a stream is not what it has to be. Nothing is taken over then.
    ///
    /// # Cancel safety
    /// The journal may have been taken over; opening it again goes on from there.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    pub async fn open(options: Options) -> Result<Self, OpenError> {
        let deadline = Instant::now() + OPEN_MAX;
        let client = options.connect().await?;
        let limits = guard::check_server(&client)?;
        let names = Names::of(options.shard);
        guard::check_streams(&client, &names, &options, deadline).await?;
        let direct = Direct::open(client.clone()).await.map_err(OpenError::unreachable)?;
        let reign = take_over::take_over(&client, &direct, &names, &options.node, deadline).await?;
        let (epoch, reign) = (reign.epoch, Arc::new(reign));
        tracing::info!(stream = names.stream(), epoch, "the journal was taken over");
        let queue = Queue::new(limits, options.queue_bytes);
        let reader = Arc::new(Reader::new(client.clone(), Arc::new(direct), names.clone(), Arc::clone(&reign)));
        let finding_out = earlier::find_out(client.clone(), names.clone(), Arc::clone(&reign));
        let log = Stream::new(client, names, reign, Arc::clone(&reader));
        Ok(Self { remote: Remote::written(queue, reader, log, finding_out), epoch, replicas: options.replicas })
    }

    /// Opens the journal to read what it has now, beside the process that writes it, which goes on. Records and snapshots are refused: to this
    /// process it is closed. What is written later may be seen, or not.
    ///
    /// # Errors
    /// When no server can be reached, or nobody has ever opened the journal.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    ///
    /// # Panics
    /// As [`open`](Self::open).
    pub async fn look(options: Options) -> Result<Self, OpenError> {
        let deadline = Instant::now() + OPEN_MAX;
        let client = options.connect().await?;
        let limits = guard::check_server(&client)?;
        let names = Names::of(options.shard);
        let last = guard::last_message(&client, &names, deadline).await?;
        let direct = Direct::open(client.clone()).await.map_err(OpenError::unreachable)?;
        let reign = Arc::new(take_over::look(&direct, &names, last, deadline).await?);
        let epoch = reign.epoch;
        let reader = Arc::new(Reader::new(client, Arc::new(direct), names, reign));
        Ok(Self { remote: Remote::read_only(limits, reader), epoch, replicas: options.replicas })
    }

    /// Whole groups of records after `after`, which is the end of one: at least one group if something follows that was durable when the
    /// journal was opened. A group is what became durable together: one batch, or several.
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

    /// The reign of this writer: the sequence of its owner record, larger than those of all before it. Of one that only
    /// [looks](Self::look), the last message that it looks at.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }
}

impl Journal for Nats {
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

    /// Looks whether the server and the streams are what they have to be when the journal is opened: with those settings, and without a
    /// message missing. It is over within 20 s.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    async fn check(&self) -> Result<(), CheckError> {
        let checked = self.remote.reader().check(self.replicas, Instant::now() + OPEN_MAX).await;
        checked.map_err(|cause| cause.of_check())
    }

    fn close(&self) -> impl Future<Output = Result<(), CloseError>> + Send + 'static + use<> {
        self.remote.close()
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats").field("epoch", &self.epoch).finish_non_exhaustive()
    }
}
