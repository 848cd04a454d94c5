//! Connections to the server: made when they are needed, and again when they have broken.

use std::error::Error as _;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::{AsyncMessage, Client, Config, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{OpenError, Options, guard, identity, options};
use crate::security::{self, Security, SecurityError};

/// How long connecting to one host may take.
const HOST_MAX: Duration = Duration::from_secs(2);
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long it may take until a session is ready.
const READY_MAX: Duration = Duration::from_secs(5);

/// What must not depend on the configuration. A client that is cut off must not keep a lock, so the server asks whether it is there. A
/// wait for a lock ends with an error before the client gives up. What a commit waits for stays as it is while the session lasts.
const SETTINGS: &str = "
    SET default_transaction_isolation TO 'read committed';
    SET default_transaction_read_only TO off;
    SET statement_timeout TO 0;
    SET idle_session_timeout TO 0;
    SET lock_timeout TO '4s';
    SET tcp_keepalives_idle TO 5;
    SET tcp_keepalives_interval TO 5;
    SET tcp_keepalives_count TO 3;
    SET client_min_messages TO warning;
    SELECT set_config('synchronous_commit', reset_val, false) FROM pg_settings WHERE name = 'synchronous_commit';
";

/// Where sessions are made.
pub(super) struct Server {
    config: Config,
    tls: MakeRustlsConnect,
    security: Security,
    pub(super) schema: String,
    /// That of the tables that are to be there, if that is said.
    pub(super) identity: Option<String>,
}

impl Server {
    pub(super) fn of(options: &Options) -> Result<Self, OpenError> {
        let address = || OpenError::Address { address: options::public_part(&options.server) };
        let mut config: Config = options.server.parse().map_err(|_| address())?;
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(address());
        }
        let security = options.security.clone();
        config.ssl_mode(mode(&config, &security)?);
        let mut tls = security.config()?;
        // What a server that is asked for it at once must hear.
        tls.alpn_protocols = vec![b"postgresql".to_vec()];
        let tls = MakeRustlsConnect::new(tls);
        if let Some(file) = &security.credentials {
            security::password(file)?;
        }
        let schema = options.schema.clone();
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
        let is_schema = schema.len() <= 63
            && schema.bytes().next().is_some_and(is_name)
            && schema.bytes().all(|byte| is_name(byte) || byte.is_ascii_digit())
            && !schema.starts_with("pg_");
        if !is_schema {
            return Err(OpenError::Schema { schema });
        }
        config.application_name(format!("enact {}", options.node));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(HOST_MAX);
        }
        // A host that is gone is noticed before it is asked.
        if config.get_keepalives_interval().is_none() {
            config.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(3);
        }
        let mut server = Self { config, tls, security, schema, identity: options.identity.clone() };
        if server.has_several_hosts() {
            server.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        }
        Ok(server)
    }

    /// Whether the address names several hosts, of which one takes writes and the others may be standbys.
    pub(super) fn has_several_hosts(&self) -> bool {
        self.config.get_hosts().len().max(self.config.get_hostaddrs().len()) > 1
    }

    /// A connection to a server that is as it must be.
    pub(super) async fn connect(&self) -> Result<Connection, OpenError> {
        let connecting = async {
            let mut config = self.config.clone();
            if let Some(file) = &self.security.credentials {
                config.password(security::password(file)?.as_str());
            }
            let connected = config.connect(self.tls.clone()).await;
            let (client, mut connection) = connected.map_err(|cause| self.unconnected(cause))?;
            let warned = Arc::new(AtomicBool::new(false));
            let warning = Arc::clone(&warned);
            let task = tokio::spawn(async move {
                while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
                    match message {
                        Ok(AsyncMessage::Notice(notice)) if notice.parsed_severity() == Some(Severity::Warning) => {
                            tracing::warn!("the server warns: {}", notice.message());
                            warning.store(true, Ordering::Release);
                        }
                        Ok(_) => {}
                        Err(cause) => return tracing::debug!(%cause, "a connection has ended"),
                    }
                }
            });
            let connection = Connection { client, warned, task: task.abort_handle() };
            let settings = format!("SET search_path TO {};{SETTINGS}", self.schema);
            connection.client.batch_execute(&settings).await.map_err(OpenError::of)?;
            guard::check(&connection.client).await?;
            identity::check(&connection.client, self).await?;
            Ok(connection)
        };
        let late = |_| OpenError::unreachable(format!("no session within {} s", READY_MAX.as_secs()));
        timeout(READY_MAX, connecting).await.map_err(late)?
    }

    /// Why there is no connection.
    fn unconnected(&self, cause: tokio_postgres::Error) -> OpenError {
        let refusal =
            cause.as_db_error().filter(|error| error.code() == &SqlState::INVALID_AUTHORIZATION_SPECIFICATION);
        // The server has asked for a certificate, and could do without one in other databases.
        if refusal.is_some_and(|error| error.message().contains("client certificate"))
            && self.security.identity.is_none()
        {
            return SecurityError::IdentityDemanded.into();
        }
        if cause.source().is_some_and(|source| source.to_string() == "server does not support TLS") {
            return SecurityError::Unencrypted.into();
        }
        self.security.diagnose(&cause).map_or_else(|| OpenError::of(cause), OpenError::Security)
    }
}

/// Whether connections are encrypted: all of them, or none.
fn mode(config: &Config, security: &Security) -> Result<SslMode, SecurityError> {
    // A name stands for its address, where it has one.
    let (names, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let names = if addresses.is_empty() { names } else { &[] };
    let names = names.iter().filter_map(|host| match host {
        Host::Tcp(name) => Some(name.clone()),
        Host::Unix(_) => None,
    });
    let hosts: Vec<String> = names.chain(addresses.iter().map(ToString::to_string)).collect();
    let encrypts = security.encrypts(hosts.iter().map(String::as_str));
    match config.get_ssl_mode() {
        SslMode::Disable if encrypts => Err(SecurityError::Disabled),
        SslMode::Require => Ok(SslMode::Require),
        _ if encrypts => Ok(SslMode::Require),
        _ => Ok(SslMode::Disable),
    }
}

/// One connection, which is closed when dropped, whatever is under way.
pub(super) struct Connection {
    pub(super) client: Client,
    /// The server has warned since it was asked last.
    warned: Arc<AtomicBool>,
    task: AbortHandle,
}

impl Connection {
    /// From now on a warning counts.
    pub(super) fn begin(&self) {
        self.warned.store(false, Ordering::Release);
    }

    /// Whether the server has warned since then. A commit whose wait for a standby was cancelled is answered with a warning, and it is
    /// not known to be on the standby.
    pub(super) fn has_warned(&self) -> bool {
        self.warned.load(Ordering::Acquire)
    }

    /// Closes it for all that use it.
    pub(super) fn abandon(&self) {
        self.task.abort();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.abandon();
    }
}

/// A connection with what is asked over it.
pub(super) struct Session {
    pub(super) connection: Connection,
    pub(super) statements: Statements,
    /// Whether the writer has seen there all that it knows to be durable.
    pub(super) is_whole: AtomicBool,
}

/// What is asked.
pub(super) struct Statements {
    pub(super) insert: Statement,
    pub(super) owner: Statement,
    pub(super) epoch_at: Statement,
    pub(super) ends: Statement,
    pub(super) read: Statement,
    pub(super) load: Statement,
    pub(super) snapshot: Statement,
    pub(super) save: Statement,
    pub(super) feed: Statement,
}

/// A take-over changes the row of the owner, so either waits for the other: what is inserted is inserted in a reign that goes on.
const INSERT: &str = "
    WITH owner AS MATERIALIZED (SELECT FROM owners WHERE shard = $1 AND epoch = $2 FOR SHARE)
    INSERT INTO records (shard, epoch, pos, entity, seq, kind, checksum, payload)
    SELECT $1, $2, $3 + n - 1, entity, seq, kind, checksum, payload
    FROM unnest($4::text[], $5::bigint[], $6::smallint[], $7::integer[], $8::bytea[])
         WITH ORDINALITY AS new (entity, seq, kind, checksum, payload, n)
    WHERE EXISTS (SELECT FROM owner)";
/// Waits for all that insert. As a lock is written to the log of the server, this is answered only when all that was committed before is
/// on the standbys, too.
const OWNER: &str = "SELECT epoch, node FROM owners WHERE shard = $1 FOR UPDATE";
const EPOCH_AT: &str = "SELECT epoch FROM records WHERE shard = $1 AND pos = $2";
const ENDS: &str = "
    SELECT asked.entity, last.seq, last.pos FROM unnest($2::text[]) AS asked (entity) CROSS JOIN LATERAL (
        SELECT seq, pos FROM records WHERE shard = $1 AND entity = asked.entity COLLATE \"C\" ORDER BY seq DESC LIMIT 1
    ) AS last";
const READ: &str = "
    SELECT seq, pos, epoch, kind, checksum, payload FROM records WHERE shard = $1 AND entity = $2 AND seq > $3 ORDER BY seq";
/// With the last record that the snapshot includes: the entity does not end before it.
const LOAD: &str = "
    WITH kept AS MATERIALIZED (SELECT seq, checksum, payload FROM snapshots WHERE shard = $1 AND entity = $2)
    SELECT seq, NULL::bigint AS pos, NULL::bigint AS epoch, NULL::smallint AS kind, checksum, payload FROM kept
    UNION ALL
    SELECT seq, pos, epoch, kind, checksum, payload FROM records
    WHERE shard = $1 AND entity = $2 AND seq >= coalesce((SELECT seq FROM kept), 1)
    ORDER BY pos NULLS FIRST";
const SNAPSHOT: &str = "SELECT seq, checksum, payload FROM snapshots WHERE shard = $1 AND entity = $2";
const SAVE: &str = "
    INSERT INTO snapshots AS kept (shard, entity, seq, checksum, payload) VALUES ($1, $2, $3, $4, $5)
    ON CONFLICT (shard, entity) DO UPDATE
    SET seq = excluded.seq, checksum = excluded.checksum, payload = excluded.payload WHERE kept.seq <= excluded.seq";
const FEED: &str = "
    SELECT entity, seq, pos, epoch, kind, checksum, payload, written_by FROM (
        SELECT *, sum(length(payload)) OVER (ORDER BY pos) - length(payload) AS bytes_before FROM (
            SELECT *, xmin::text AS written_by FROM records WHERE shard = $1 AND pos > $2 AND pos <= $3 ORDER BY pos LIMIT $4
        ) AS page
    ) AS measured WHERE bytes_before < $5 ORDER BY pos";

impl Statements {
    async fn prepare(client: &Client) -> Result<Self, tokio_postgres::Error> {
        let texts = [INSERT, OWNER, EPOCH_AT, ENDS, READ, LOAD, SNAPSHOT, SAVE, FEED];
        // All at once: they take one round trip.
        let prepared = try_join_all(texts.map(|text| client.prepare(text))).await?;
        let [insert, owner, epoch_at, ends, read, load, snapshot, save, feed] =
            <[Statement; 9]>::try_from(prepared).unwrap_or_else(|_| unreachable!("one for each text"));
        Ok(Self { insert, owner, epoch_at, ends, read, load, snapshot, save, feed })
    }
}

/// A place for one session.
pub(super) struct Slot {
    server: Arc<Server>,
    session: Mutex<Option<Arc<Session>>>,
}

impl Slot {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, session: Mutex::new(None) }
    }

    /// The session, which is made if there is none, or it has broken.
    pub(super) async fn get(&self) -> Result<Arc<Session>, OpenError> {
        let mut slot = self.session.lock().await;
        if let Some(session) = &*slot
            && !session.connection.client.is_closed()
        {
            return Ok(Arc::clone(session));
        }
        *slot = None;
        let connection = self.server.connect().await?;
        let prepared = timeout(READY_MAX, Statements::prepare(&connection.client)).await;
        let statements = prepared.map_err(|_| OpenError::late(READY_MAX))?.map_err(OpenError::of)?;
        let session = Arc::new(Session { connection, statements, is_whole: AtomicBool::new(false) });
        *slot = Some(Arc::clone(&session));
        Ok(session)
    }
}
