//! Inserts groups into the table of records, until their fate is certain.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tokio_postgres::error::{DbError, Severity, SqlState};
use tokio_postgres::types::ToSql;

use super::read::Reader;
use super::reign::Reign;
use super::send::{Answer, Found, Next, Sending};
use super::session::{Connection, Session, Slot, Statements};
use super::wire::{checksum, signed, unsigned};
use super::{OpenError, take_over};
use crate::journal::ReadError;
use crate::record::{EntityKey, Position};
use crate::remote::{Fate, Group, Log, Place};

/// How long a look may take: longer than it waits for a lock.
const LOOK_MAX: Duration = Duration::from_secs(5);

/// The table of records, as its one writer sees it.
pub(super) struct Table {
    slot: Slot,
    reign: Arc<Reign>,
    reader: Arc<Reader>,
}

/// A group as the columns of its rows.
pub(super) struct Columns<'a> {
    first: u64,
    epoch: u64,
    entities: Vec<&'a str>,
    seqs: Vec<i64>,
    kinds: Vec<i16>,
    checksums: Vec<i32>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    /// Those of `group` at the position `first` and those behind it, in the reign `epoch`.
    pub(super) fn of(group: &'a Group, first: u64, epoch: u64) -> Self {
        let records = || group.records().map(|(record, _)| record);
        Self {
            first,
            epoch,
            entities: records().map(|record| record.entity.as_str()).collect(),
            seqs: records().map(|record| signed(record.expected.next().0)).collect(),
            kinds: records().map(|record| record.kind.0.into()).collect(),
            checksums: (first..).zip(records()).map(|(position, record)| checksum(record, position, epoch)).collect(),
            payloads: records().map(|record| &record.payload[..]).collect(),
        }
    }

    /// Inserts the rows into the journal `shard`, if its owner is in the same reign; how many those are.
    pub(super) async fn insert(
        &self,
        connection: &Connection,
        statements: &Statements,
        shard: u16,
    ) -> Result<u64, tokio_postgres::Error> {
        let Self { first, epoch, entities, seqs, kinds, checksums, payloads } = self;
        let (shard, epoch, first) = (i32::from(shard), signed(*epoch), signed(*first));
        let parameters: [&(dyn ToSql + Sync); 8] = [&shard, &epoch, &first, entities, seqs, kinds, checksums, payloads];
        connection.client.execute(&statements.insert, &parameters).await
    }
}

impl Log for Table {
    async fn locate(&self, entities: &[EntityKey]) -> Result<(), ReadError> {
        self.reader.locate(entities).await
    }

    fn tail(&self, entity: &EntityKey) -> Option<Place> {
        self.reign.tail(entity)
    }

    fn durable(&self) -> u64 {
        self.reign.durable()
    }

    fn position(&self, sequence: u64) -> Position {
        Position(sequence)
    }

    async fn send(&mut self, group: &Group) -> Fate {
        let columns = Columns::of(group, self.reign.durable() + 1, self.reign.epoch);
        let mut sending = Sending::new(group.len());
        let mut next = Next::Send { after: Duration::ZERO };
        loop {
            next = match next {
                Next::Send { after } => {
                    pause(after).await;
                    sending.answered(self.attempt(&columns, sending.time_out()).await)
                }
                Next::Look { after } => {
                    pause(after).await;
                    sending.found(self.look(columns.first).await)
                }
                Next::Ended(fate) => return fate,
            }
        }
    }

    fn publish(&self, sequence: u64, lasts: HashMap<EntityKey, Place>) {
        self.reign.publish(sequence, lasts);
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        sleep(time).await;
    }
}

impl Table {
    pub(super) fn new(slot: Slot, reign: Arc<Reign>, reader: Arc<Reader>) -> Self {
        Self { slot, reign, reader }
    }

    /// Inserts the rows once. What was inserted is committed when the server says so: it does at the end of the statement.
    async fn attempt(&self, columns: &Columns<'_>, time_out: Duration) -> Answer {
        let session = match self.slot.get().await {
            Ok(session) => session,
            Err(cause) => return Answer::Refused { why: cause.to_string() },
        };
        if let Err(cause) = self.see_end(&session).await {
            return Answer::Refused { why: cause.to_string() };
        }
        let Session { connection, statements, .. } = &*session;
        connection.begin();
        let inserted = columns.insert(connection, statements, self.reign.shard);
        let answer = match timeout(time_out, inserted).await {
            // It is committed, but not known to be on the standbys.
            Ok(Ok(_)) if connection.has_warned() => Answer::Nothing,
            Ok(Ok(count)) => Answer::Inserted(count),
            Ok(Err(cause)) => cause.as_db_error().map_or(Answer::Nothing, refusal),
            Err(_) => Answer::Nothing,
        };
        if answer == Answer::Nothing {
            connection.abandon();
        }
        answer
    }

    /// Looks once over each session whether all that is durable is where it leads: behind records that a promoted standby lacks, others would hide
    /// that.
    async fn see_end(&self, session: &Session) -> Result<(), OpenError> {
        if session.is_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (shard, durable) = (self.reign.shard, self.reign.durable());
        let seen = timeout(LOOK_MAX, take_over::last_position(&session.connection, shard, durable)).await;
        match seen.unwrap_or_else(|_| Err(OpenError::late(LOOK_MAX))) {
            Ok(_) => session.is_whole.store(true, Ordering::Relaxed),
            // The next attempt looks for the one that has all, which may be another server by then.
            Err(cause) => {
                session.connection.abandon();
                return Err(cause);
            }
        }
        Ok(())
    }

    /// What stands at the position `first`, after all that was under way there.
    async fn look(&self, first: u64) -> Found {
        let Ok(session) = self.slot.get().await else { return Found::Unseen };
        if self.see_end(&session).await.is_err() {
            return Found::Unseen;
        }
        if let Ok(Ok(found)) = timeout(LOOK_MAX, self.see(&session, first)).await {
            return found;
        }
        session.connection.abandon();
        Found::Unseen
    }

    async fn see(&self, session: &Session, first: u64) -> Result<Found, tokio_postgres::Error> {
        let Session { connection, statements, .. } = session;
        connection.begin();
        let shard = i32::from(self.reign.shard);
        let owner = connection.client.query(&statements.owner, &[&shard]).await?;
        if connection.has_warned() {
            return Ok(Found::Unseen);
        }
        // A statement sees what was committed before it began: only this one sees what the one before has waited for.
        let there = connection.client.query(&statements.epoch_at, &[&shard, &signed(first)]).await?;
        let there = there.first().map(|row| unsigned(row.get("epoch")));
        let owner = owner.first().and_then(|row| Some((unsigned(row.get("epoch"))?, row.get("node"))));
        Ok(match (there, owner) {
            (Some(Some(epoch)), _) if epoch == self.reign.epoch => Found::Ours,
            (_, Some((epoch, by))) if epoch != self.reign.epoch => Found::Over { epoch, by },
            (_, None) => Found::Unseen,
            (None, Some(_)) => Found::Nothing,
            (Some(_), Some(_)) => Found::Foreign,
        })
    }
}

/// What an error of the server says of the rows.
fn refusal(error: &DbError) -> Answer {
    let why = format!("{} ({})", error.message(), error.code().code());
    // The session or the server ends, maybe in the middle of a commit.
    let is_end = matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic) | None);
    match error.code() {
        _ if is_end => Answer::Nothing,
        code if ["08", "57P"].iter().any(|class| code.code().starts_with(class)) => Answer::Nothing,
        &SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN => Answer::Nothing,
        &SqlState::UNIQUE_VIOLATION => Answer::Taken,
        &SqlState::DISK_FULL => Answer::Full { why },
        _ => Answer::Refused { why },
    }
}
