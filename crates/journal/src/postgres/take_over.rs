//! Begins a reign: changes the row of the owner, which waits for all inserts under way and makes later ones of an earlier writer insert
//! nothing.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::session::{Connection, Server};
use super::wire::{signed, unsigned};
use super::{OpenError, identity, tables};

/// How long connecting and asking may take: longer than the server waits for a lock.
const ANSWER_MAX: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(50);

/// A reign that has begun.
pub(super) struct Begun {
    pub(super) epoch: u64,
    /// The last position of those before.
    pub(super) durable: u64,
}

/// What is asked.
#[derive(Clone, Copy)]
enum Question<'a> {
    /// To begin a reign. A try of unknown fate is made again: what comes of it is a reign without a record.
    TakeOver { shard: u16, node: &'a str },
    /// What is there.
    Look { shard: u16 },
    /// Whether nothing is missing of what was durable up to a position.
    Check { shard: u16, durable: u64 },
}

/// Takes the journal over, however often that takes until `deadline`.
pub(super) async fn take_over(server: &Server, shard: u16, node: &str, deadline: Instant) -> Result<Begun, OpenError> {
    ask(server, Question::TakeOver { shard, node }, deadline).await
}

/// Looks at the journal as it is.
pub(super) async fn look(server: &Server, shard: u16, deadline: Instant) -> Result<Begun, OpenError> {
    ask(server, Question::Look { shard }, deadline).await
}

/// Checks that nothing is missing of what was durable up to `durable`.
pub(super) async fn check(server: &Server, shard: u16, durable: u64, deadline: Instant) -> Result<(), OpenError> {
    ask(server, Question::Check { shard, durable }, deadline).await.map(drop)
}

/// The identity of the tables, if they have one.
pub(super) async fn identity(server: &Server, deadline: Instant) -> Result<Option<String>, OpenError> {
    until(deadline, || identity_once(server)).await
}

/// The identity of the tables, which are made, and given one, if need be.
pub(super) async fn identify(server: &Server, deadline: Instant) -> Result<String, OpenError> {
    until(deadline, || identify_once(server)).await
}

async fn ask(server: &Server, question: Question<'_>, deadline: Instant) -> Result<Begun, OpenError> {
    until(deadline, || ask_once(server, question)).await
}

/// Asks `once` over new connections until there is an answer or the deadline; what does not pass ends it at once.
async fn until<T, F>(deadline: Instant, once: impl Fn() -> F) -> Result<T, OpenError>
where
    F: Future<Output = Result<T, OpenError>>,
{
    loop {
        let answer = timeout(ANSWER_MAX, once()).await.unwrap_or_else(|_| Err(OpenError::late(ANSWER_MAX)));
        match answer {
            Err(cause @ OpenError::Unreachable { .. }) if Instant::now() < deadline => {
                tracing::debug!(%cause, "the journal was not opened; trying again");
                sleep(PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Whether commits on the server wait for standbys.
pub(super) async fn waits_for_standbys(server: &Server, deadline: Instant) -> Result<bool, OpenError> {
    until(deadline, || waits_for_standbys_once(server)).await
}

async fn waits_for_standbys_once(server: &Server) -> Result<bool, OpenError> {
    let query = "SELECT current_setting('synchronous_standby_names') <> '' AS does";
    Ok(server.connect().await?.client.query_one(query, &[]).await.map_err(OpenError::of)?.get("does"))
}

async fn identity_once(server: &Server) -> Result<Option<String>, OpenError> {
    identity::find(&server.connect().await?.client, &server.schema).await
}

async fn identify_once(server: &Server) -> Result<String, OpenError> {
    let connection = server.connect().await?;
    tables::make(&connection.client, &server.schema).await?;
    tables::check(&connection.client, &server.schema).await?;
    identity::make(&connection, &server.schema).await
}

async fn ask_once(server: &Server, question: Question<'_>) -> Result<Begun, OpenError> {
    let connection = &server.connect().await?;
    if let Question::TakeOver { .. } = question {
        tables::make(&connection.client, &server.schema).await?;
    }
    tables::check(&connection.client, &server.schema).await?;
    let missing = || OpenError::Missing { schema: server.schema.clone() };
    let (shard, durable) = match question {
        Question::TakeOver { shard, node } => {
            identity::check_writer(&connection.client, server).await?;
            return begin(connection, shard, node).await;
        }
        Question::Look { shard } => (shard, 0),
        Question::Check { shard, durable } => (shard, durable),
    };
    let (epoch, last) = owner(connection, shard).await?.ok_or_else(missing)?;
    Ok(Begun { epoch, durable: last_position(connection, shard, last.max(durable)).await? })
}

/// Tries once. A journal that has lost records is not taken over.
async fn begin(connection: &Connection, shard: u16, node: &str) -> Result<Begun, OpenError> {
    let (client, number) = (&connection.client, i32::from(shard));
    client.batch_execute("BEGIN").await.map_err(OpenError::of)?;
    let begin = "INSERT INTO owners (shard, epoch, node, last) VALUES ($1, 1, $2, 0)
                 ON CONFLICT (shard) DO UPDATE SET epoch = owners.epoch + 1, node = excluded.node RETURNING epoch, last";
    let row = client.query_one(begin, &[&number, &node]).await.map_err(OpenError::of)?;
    // All that inserted has ended, so nothing comes after what is last now.
    let durable = last_position(connection, shard, unsigned(row.get("last")).unwrap_or(u64::MAX)).await?;
    let note = "UPDATE owners SET last = $2 WHERE shard = $1";
    client.execute(note, &[&number, &signed(durable)]).await.map_err(OpenError::of)?;
    connection.begin();
    client.batch_execute("COMMIT").await.map_err(OpenError::of)?;
    if connection.has_warned() {
        return Err(OpenError::unreachable("the reign is not known to be on the standbys"));
    }
    Ok(Begun { epoch: unsigned(row.get("epoch")).unwrap_or(0), durable })
}

/// The epoch and the last position of those before, if the journal was ever opened.
async fn owner(connection: &Connection, shard: u16) -> Result<Option<(u64, u64)>, OpenError> {
    let query = "SELECT epoch, last FROM owners WHERE shard = $1";
    let row = connection.client.query_opt(query, &[&i32::from(shard)]).await.map_err(OpenError::of)?;
    Ok(row.and_then(|row| Some((unsigned(row.get("epoch"))?, unsigned(row.get("last"))?))))
}

/// The last position, which is not before `known`.
pub(super) async fn last_position(connection: &Connection, shard: u16, known: u64) -> Result<u64, OpenError> {
    let query = "SELECT coalesce(max(pos), 0) AS last FROM records WHERE shard = $1";
    let row = connection.client.query_one(query, &[&i32::from(shard)]).await.map_err(OpenError::of)?;
    let found = unsigned(row.get("last")).unwrap_or(0);
    if found < known { Err(OpenError::Shortened { last: known, found }) } else { Ok(found) }
}
