//! Fills a new stream with the groups of another log: whole or not at all.
//!
//! The stream has a mark as long as it is filled, and settings that no writer opens it with. The last step takes both away at once. So a
//! restore that is killed leaves a stream that nobody opens, nor reads, nor fills again before it is removed by hand: a second restore
//! cannot tell whether the first one still runs.
//!
//! Records are those of a first reign, which has an owner record as any other. Messages are sent as large batches, each of which has
//! several groups or a part of one; groups have the names that readers tell them apart by, wherever batches end.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_nats::Client;
use tokio::time::Instant;

use super::direct::Direct;
use super::log::Stream;
use super::read::Reader;
use super::reign::Reign;
use super::wire::Names;
use super::{OPEN_MAX, OpenError, Options, guard, take_over};
use crate::journal::{AppendError, Limits};
use crate::record::{EntityKey, Group, NewRecord, Position, Record, Seq};
use crate::remote::{self, Fate, GroupError, Log as _, Numbering, Place, RemoteBuilder};

/// Why a stream was not filled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// There is a stream of this name.
    #[error(
        "there is a stream {stream} already: if nobody needs what is in it, remove it with `nats stream rm {stream}`; or name another shard"
    )]
    Exists {
        /// The stream.
        stream: String,
    },
    /// A group does not follow those before, or has more than the journal takes.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// No server can be reached, a server is not what it has to be, or the stream cannot be made.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// Records were not stored.
    #[error(transparent)]
    Append(#[from] AppendError),
    /// Somebody else has written to the stream, or has made it anew.
    #[error("stream {stream} is not as it was filled: somebody else has changed it")]
    Changed {
        /// The stream.
        stream: String,
    },
    /// All is stored, and nobody knows whether the stream has become one that is opened.
    #[error("no server said whether the stream is complete, {why}: a look at it tells")]
    InDoubt {
        /// What happened.
        why: String,
    },
}

/// A journal over NATS that is being filled with the groups of another log, in a stream that is not there yet.
///
/// Groups stay groups. Positions and numbers have no gaps: where the other log has some, records get other ones. Nobody can open the
/// journal before it is [finished](Self::finish). One that is dropped leaves a stream that has to be removed by hand, unless it is
/// [abandoned](Self::abandon).
///
/// Takes memory for a batch and an entry for each entity.
pub struct StreamBuilder {
    client: Client,
    names: Names,
    replicas: usize,
    /// No other stream that is filled has it.
    token: String,
    limits: Limits,
    reign: Arc<Reign>,
    log: Stream,
    numbering: Numbering,
    groups: u64,
    batch: Batch,
    is_finishing: bool,
}

/// Records that are sent together.
#[derive(Default)]
struct Batch {
    records: Vec<(NewRecord, Place)>,
    bytes: usize,
    /// Where groups begin, or go on, with their numbers.
    starts: Vec<(usize, u64)>,
}

impl StreamBuilder {
    /// Makes the stream.
    ///
    /// # Errors
    /// When there is one, or one of snapshots; when no server can be reached, or a server is not what it has to be.
    ///
    /// # Cancel safety
    /// A stream may be left that has to be removed by hand.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with its timers and its network.
    pub async fn begin(options: Options) -> Result<Self, BuildError> {
        let deadline = Instant::now() + OPEN_MAX;
        let client = options.connect().await?;
        let limits = guard::check_server(&client)?;
        let (names, replicas) = (Names::of(options.shard), options.replicas);
        let token = client.new_inbox();
        guard::begin_restore(&client, &names, replicas, &token, deadline).await?;
        let begun = async {
            let direct = Direct::open(client.clone()).await.map_err(OpenError::unreachable)?;
            let reign = Arc::new(take_over::take_over(&client, &direct, &names, &options.node, deadline).await?);
            Ok((direct, reign))
        };
        let (direct, reign) = match begun.await {
            Ok(begun) => begun,
            Err(cause) => {
                guard::remove_restore(&client, &names, &token, Instant::now() + OPEN_MAX).await;
                return Err(cause);
            }
        };
        let reader = Arc::new(Reader::new(client.clone(), Arc::new(direct), names.clone(), Arc::clone(&reign)));
        let log = Stream::new(client.clone(), names.clone(), Arc::clone(&reign), reader);
        let (numbering, batch) = (Numbering::new(limits, reign.epoch), Batch::default());
        Ok(Self {
            client,
            names,
            replicas,
            token,
            limits,
            reign,
            log,
            numbering,
            groups: 0,
            batch,
            is_finishing: false,
        })
    }

    async fn send(&mut self) -> Result<(), BuildError> {
        let Batch { records, starts, .. } = std::mem::take(&mut self.batch);
        if records.is_empty() {
            return Ok(());
        }
        let group = remote::Group::of(records);
        match self.log.settle(&group, &starts).await {
            Fate::Durable => {
                self.log.publish(self.reign.durable() + group.len() as u64, HashMap::new());
                Ok(())
            }
            Fate::Not(cause) => Err(cause.into()),
        }
    }
}

impl RemoteBuilder for StreamBuilder {
    type Error = BuildError;

    async fn push(&mut self, group: Group) -> Result<(), BuildError> {
        let records = self.numbering.number(group)?;
        self.groups += 1;
        let mut is_first = true;
        for record in records {
            let bytes = record.0.bytes();
            let is_full = self.batch.records.len() == self.limits.batch_records
                || self.batch.bytes + bytes > self.limits.batch_bytes;
            if is_full {
                self.send().await?;
            }
            if is_first || self.batch.records.is_empty() {
                self.batch.starts.push((self.batch.records.len(), self.groups));
            }
            is_first = false;
            self.batch.bytes += bytes;
            self.batch.records.push(record);
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
        self.send().await?;
        let last = self.reign.durable();
        // From here on somebody may have opened it.
        self.is_finishing = true;
        let deadline = Instant::now() + OPEN_MAX;
        guard::finish_restore(&self.client, &self.names, self.replicas, (&self.token, last), deadline).await?;
        Ok(self.reign.position(last))
    }

    async fn abandon(self) {
        if !self.is_finishing {
            guard::remove_restore(&self.client, &self.names, &self.token, Instant::now() + OPEN_MAX).await;
        }
    }
}

impl fmt::Debug for StreamBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamBuilder").field("stream", &self.names.stream()).finish_non_exhaustive()
    }
}
