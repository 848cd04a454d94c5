//! The one writer of a reign: makes groups of what is queued and has one on its way at a time.
//!
//! What a group holds is checked against the tails of its entities, each batch as if those before it were there. Nothing is sent
//! behind a group of unknown fate, so a refusal never leaves a hole.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Request};
use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep, timeout};

use super::queue::{Batch, Queue};
use super::read::Reader;
use super::reign::{Reign, Tail};
use super::send::{Fate, Found, Next, Sending};
use super::wire::{Answer, GROUP, Names, OWNER, Owner, Place, RECORD, RecordHeader};
use crate::journal::{AppendError, ReadError, Refusal};
use crate::record::{EntityKey, NewRecord, Position};

/// How long it waits to ask again where entities end.
const PAUSE: Duration = Duration::from_millis(50);

pub(super) struct Writer {
    client: Client,
    names: Names,
    queue: Arc<Queue>,
    reign: Arc<Reign>,
    reader: Arc<Reader>,
    /// Groups that were sent in this reign.
    groups: u64,
}

/// Batches that are stored together.
#[derive(Default)]
struct Group {
    batches: Vec<Batch>,
    /// Their records, with what each has in its header, and the sequence that is expected to be the last of its entity if
    /// that was read from the stream and not written in this reign.
    messages: Vec<(RecordHeader, Option<u64>)>,
    lasts: HashMap<EntityKey, Place>,
}

impl Group {
    fn records(&self) -> impl Iterator<Item = &NewRecord> {
        self.batches.iter().flat_map(|batch| &batch.records)
    }
}

impl Writer {
    pub(super) fn new(client: Client, names: Names, queue: Arc<Queue>, reign: Arc<Reign>, reader: Arc<Reader>) -> Self {
        Self { client, names, queue, reign, reader, groups: 0 }
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
            let fate = if group.messages.is_empty() { Fate::Durable } else { self.settle(&group).await };
            self.conclude(group, fate);
        }
    }

    /// Learns where the entities end that nobody has asked for yet.
    ///
    /// # Errors
    /// When that is damaged, or the journal has to close first.
    async fn locate(&self, batches: &[Batch]) -> Result<(), String> {
        let entities = batches.iter().flat_map(|batch| &batch.records).map(|record| &record.entity);
        let mut unknown: Vec<EntityKey> =
            entities.filter(|entity| self.reign.tail(entity).is_none()).cloned().collect();
        unknown.sort_unstable();
        unknown.dedup();
        let locating = async {
            loop {
                match self.reader.locate(&unknown).await {
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
        let durable = self.reign.durable();
        for batch in batches {
            match self.messages(&batch.records, &group, durable) {
                Ok((messages, lasts)) => {
                    group.messages.extend(messages);
                    group.lasts.extend(lasts);
                    group.batches.push(batch);
                }
                Err(refusal) => self.queue.answer(batch, Err(refusal.into())),
            }
        }
        group
    }

    /// What the records of one batch behind `group` have in their headers, and where their entities end after them.
    #[expect(clippy::type_complexity, reason = "the two parts of a group, once")]
    fn messages(
        &self,
        records: &[NewRecord],
        group: &Group,
        durable: u64,
    ) -> Result<(Vec<(RecordHeader, Option<u64>)>, HashMap<EntityKey, Place>), Refusal> {
        let mut lasts: HashMap<EntityKey, Place> = HashMap::new();
        let mut messages = Vec::with_capacity(records.len());
        for record in records {
            let entity = &record.entity;
            let (last, expected) = match lasts.get(entity).or_else(|| group.lasts.get(entity)) {
                Some(last) => (*last, None),
                None => {
                    let Tail { last, .. } = self.reign.tail(entity).unwrap_or_default();
                    (last, (!self.reign.has_appended(last)).then_some(last.sequence))
                }
            };
            if last.seq != record.expected {
                let (entity, expected, actual) = (entity.clone(), record.expected, last.seq);
                return Err(Refusal::Conflict { entity, expected, actual });
            }
            let sequence = durable + (group.messages.len() + messages.len()) as u64 + 1;
            messages.push((RecordHeader::of(record, last.sequence), expected));
            lasts.insert(entity.clone(), Place { seq: record.expected.next(), sequence });
        }
        Ok((messages, lasts))
    }

    /// Sends the group until its fate is certain, or the journal has to close.
    async fn settle(&mut self, group: &Group) -> Fate {
        self.groups += 1;
        match select(pin!(self.send(group)), pin!(self.queue.overdue())).await {
            Either::Left((fate, _)) => fate,
            Either::Right(_) => {
                let why = "the journal was closed while no server said what became of it".to_owned();
                Fate::Not(AppendError::InDoubt { why })
            }
        }
    }

    async fn send(&self, group: &Group) -> Fate {
        let mut sending = Sending::new(self.reign.durable(), group.messages.len());
        let mut next = Next::Send { after: Duration::ZERO };
        let begun = Instant::now();
        loop {
            next = match next {
                Next::Send { after } => {
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    self.reader.leave_server(begun).await;
                    let attempt = timeout(sending.time_out(), self.attempt(group, &sending)).await;
                    sending.answered(attempt.unwrap_or(Answer::Nothing))
                }
                Next::Look => sending.found(self.look(sending.expected()).await),
                Next::Ended(fate) => return fate,
            }
        }
    }

    /// The name of the group that is on its way; no other group of any reign has it.
    fn name(&self) -> String {
        format!("{}-{}", self.reign.epoch, self.groups)
    }

    /// Sends the group once.
    async fn attempt(&self, group: &Group, sending: &Sending) -> Answer {
        let (name, count) = (self.name(), group.messages.len());
        // Of an attempt that was given up, the server may still have the beginning.
        let batch = format!("{name}-{}", sending.attempt());
        for (index, (record, (header, expected))) in group.records().zip(&group.messages).enumerate() {
            let mut headers = HeaderMap::new();
            headers.insert(RECORD, header.encode());
            if index == 0 {
                headers.insert("Nats-Expected-Stream", self.names.stream());
                headers.insert("Nats-Expected-Last-Sequence", sending.expected().to_string());
                headers.insert(GROUP, name.as_str());
            }
            if let Some(expected) = expected {
                headers.insert("Nats-Expected-Last-Subject-Sequence", expected.to_string());
            }
            let is_last = index + 1 == count;
            if count > 1 {
                headers.insert("Nats-Batch-Id", batch.as_str());
                headers.insert("Nats-Batch-Sequence", (index + 1).to_string());
                if is_last {
                    headers.insert("Nats-Batch-Commit", "1");
                }
            }
            let (subject, payload) = (self.names.entity(&record.entity), record.payload.clone().into());
            if is_last {
                let request = Request::new().headers(headers).payload(payload).timeout(None);
                let answered = self.client.send_request(subject, request).await;
                return answered.map_or(Answer::Nothing, |answer| Answer::decode(&answer.payload));
            }
            if self.client.publish_with_headers(subject, headers, payload).await.is_err() {
                return Answer::Nothing;
            }
        }
        Answer::Nothing
    }

    /// What stands behind `last`.
    async fn look(&self, last: u64) -> Found {
        match self.reader.message(last + 1).await {
            Ok(Some(message)) if message.header(GROUP) == Some(&self.name()) => Found::Ours,
            Ok(Some(message)) => {
                let owner = message.header(OWNER).and_then(|_| Owner::decode(&message));
                Found::Another { by: owner.map_or_else(|| "an unknown writer".to_owned(), |owner| owner.node) }
            }
            // A replica that is behind has nothing there either.
            Ok(None) => self.reader.last_sequence().await.map_or(Found::Unseen, |last| Found::Nothing { last }),
            Err(_) => Found::Unseen,
        }
    }

    /// Tells everybody what became of the group.
    fn conclude(&self, group: Group, fate: Fate) {
        let error = match fate {
            Fate::Durable => {
                let before = self.reign.durable();
                self.reign.publish(before + group.messages.len() as u64, group.lasts);
                let Position(mut position) = self.reign.position(before);
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
            AppendError::Refused(refusal) => self.queue.fail(refusal),
            AppendError::InDoubt { why } => self.queue.fail(&Refusal::Poisoned { why: why.clone() }),
        }
        group.batches.into_iter().for_each(|batch| self.queue.answer(batch, Err(error.clone())));
    }
}
