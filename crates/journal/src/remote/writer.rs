//! The one writer of a reign: makes groups of what is queued and has one on its way at a time.
//!
//! What a group holds is checked against the tails of its entities, each batch as if those before it were there. Nothing is sent
//! behind a group of unknown fate, so a refusal never leaves a hole.

use std::collections::HashMap;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{Either, select};
use tokio::time::sleep;

use super::queue::{Batch, Queue};
use crate::journal::{AppendError, ReadError, Refusal};
use crate::record::{EntityKey, NewRecord, Position, Seq};

/// How long it waits to ask again where entities end.
const PAUSE: Duration = Duration::from_millis(50);

/// A record of an entity and where it is in the log; zeros before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) seq: Seq,
    pub(crate) sequence: u64,
}

/// What has become of a group, for certain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Durable,
    Not(AppendError),
}

/// Where a writer stores its groups: records with dense sequences.
pub(crate) trait Log: Send + Sync + 'static {
    /// Learns where `entities` end that nobody has asked for yet.
    fn locate(&self, entities: &[EntityKey]) -> impl Future<Output = Result<(), ReadError>> + Send;

    /// Where the entity ends, if that is known.
    fn tail(&self, entity: &EntityKey) -> Option<Place>;

    /// The sequence of the last record that is known to be durable.
    fn durable(&self) -> u64;

    /// The position of the record with this sequence.
    fn position(&self, sequence: u64) -> Position;

    /// Sends `group`, which has a record at least and belongs behind [`durable`](Self::durable), until its fate is certain.
    fn send(&mut self, group: &Group) -> impl Future<Output = Fate> + Send;

    /// A group is durable with `sequence` as its last, after which entities end at `lasts`.
    fn publish(&self, sequence: u64, lasts: HashMap<EntityKey, Place>);
}

/// Batches that are stored together.
#[derive(Default)]
pub(crate) struct Group {
    batches: Vec<Batch>,
    /// For each record, the one of its entity before it.
    previous: Vec<Place>,
    lasts: HashMap<EntityKey, Place>,
}

impl Group {
    /// Records that were placed already, each with the one of its entity before it. Nobody waits for them.
    pub(crate) fn of(records: Vec<(NewRecord, Place)>) -> Self {
        let (records, previous) = records.into_iter().unzip();
        Self { batches: vec![Batch::unanswered(records)], previous, lasts: HashMap::new() }
    }

    /// How many records it has.
    pub(crate) fn len(&self) -> usize {
        self.previous.len()
    }

    /// Its records, in order, each with the one of its entity before it.
    pub(crate) fn records(&self) -> impl Iterator<Item = (&NewRecord, Place)> {
        self.batches.iter().flat_map(|batch| &batch.records).zip(self.previous.iter().copied())
    }
}

pub(crate) struct Writer<L> {
    queue: Arc<Queue>,
    log: L,
}

impl<L: Log> Writer<L> {
    pub(super) fn new(queue: Arc<Queue>, log: L) -> Self {
        Self { queue, log }
    }

    /// Writes until the journal closes or fails.
    pub(super) async fn run(mut self) {
        loop {
            let batches = self.queue.next().await;
            if batches.is_empty() {
                return self.queue.end();
            }
            if let Err(why) = self.locate(&batches).await {
                let refusal = Refusal::Poisoned { why };
                self.queue.fail(&refusal);
                batches.into_iter().for_each(|batch| self.queue.answer(batch, Err(refusal.clone().into())));
                continue;
            }
            let group = self.group(batches);
            let fate = if group.len() == 0 { Fate::Durable } else { self.settle(&group).await };
            self.conclude(group, fate);
        }
    }

    /// Learns where the entities end that nobody has asked for yet.
    ///
    /// # Errors
    /// When that is damaged, or the journal has to close first.
    async fn locate(&self, batches: &[Batch]) -> Result<(), String> {
        let entities = batches.iter().flat_map(|batch| &batch.records).map(|record| &record.entity);
        let mut unknown: Vec<EntityKey> = entities.filter(|entity| self.log.tail(entity).is_none()).cloned().collect();
        unknown.sort_unstable();
        unknown.dedup();
        let locating = async {
            loop {
                match self.log.locate(&unknown).await {
                    Ok(()) => return Ok(()),
                    Err(cause @ ReadError::Unavailable { .. }) => {
                        tracing::warn!(%cause, "cannot learn where entities end; asking again");
                        sleep(PAUSE).await;
                    }
                    Err(cause) => return Err(cause.to_string()),
                }
            }
        };
        match select(pin!(locating), pin!(self.queue.overdue())).await {
            Either::Left((located, _)) => located,
            Either::Right(_) => Err("the journal was closed before it was known where entities end".to_owned()),
        }
    }

    /// What can be stored of `batches`; the others are refused.
    fn group(&self, batches: Vec<Batch>) -> Group {
        let mut group = Group::default();
        let durable = self.log.durable();
        for batch in batches {
            match self.follow(&batch.records, &group, durable) {
                Ok((previous, lasts)) => {
                    group.previous.extend(previous);
                    group.lasts.extend(lasts);
                    group.batches.push(batch);
                }
                Err(refusal) => self.queue.answer(batch, Err(refusal.into())),
            }
        }
        group
    }

    /// What the records of one batch behind `group` follow, and where their entities end after them.
    fn follow(
        &self,
        records: &[NewRecord],
        group: &Group,
        durable: u64,
    ) -> Result<(Vec<Place>, HashMap<EntityKey, Place>), Refusal> {
        let mut lasts: HashMap<EntityKey, Place> = HashMap::new();
        let mut previous = Vec::with_capacity(records.len());
        for record in records {
            let entity = &record.entity;
            let last = lasts.get(entity).or_else(|| group.lasts.get(entity)).copied();
            let last = last.or_else(|| self.log.tail(entity)).unwrap_or_default();
            if last.seq != record.expected {
                let (entity, expected, actual) = (entity.clone(), record.expected, last.seq);
                return Err(Refusal::Conflict { entity, expected, actual });
            }
            previous.push(last);
            let sequence = durable + (group.len() + previous.len()) as u64;
            lasts.insert(entity.clone(), Place { seq: record.expected.next(), sequence });
        }
        Ok((previous, lasts))
    }

    /// Sends the group until its fate is certain, or the journal has to close.
    async fn settle(&mut self, group: &Group) -> Fate {
        match select(pin!(self.log.send(group)), pin!(self.queue.overdue())).await {
            Either::Left((fate, _)) => fate,
            Either::Right(_) => {
                let why = "the journal was closed while no server said what became of it".to_owned();
                Fate::Not(AppendError::InDoubt { why })
            }
        }
    }

    /// Tells everybody what became of the group.
    fn conclude(&self, group: Group, fate: Fate) {
        let error = match fate {
            Fate::Durable => {
                let before = self.log.durable();
                self.log.publish(before + group.len() as u64, group.lasts);
                let Position(mut position) = self.log.position(before);
                for batch in group.batches {
                    position += batch.records.len() as u64;
                    self.queue.answer(batch, Ok(Position(position)));
                }
                return;
            }
            Fate::Not(error) => error,
        };
        match &error {
            AppendError::Refused(full @ Refusal::StorageFull { .. }) => self.queue.refuse(full),
            #[cfg(planted = "keep_the_tail")]
            AppendError::Refused(Refusal::Fenced { .. }) => {}
            AppendError::Refused(refusal) => self.queue.fail(refusal),
            AppendError::InDoubt { why } => self.queue.fail(&Refusal::Poisoned { why: why.clone() }),
        }
        group.batches.into_iter().for_each(|batch| self.queue.answer(batch, Err(error.clone())));
    }
}
