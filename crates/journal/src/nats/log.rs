//! Sends groups to the stream of records, until their fate is certain.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap, Request};
use tokio::time::{Instant, sleep, timeout};

use super::read::Reader;
use super::reign::Reign;
use super::send::{Found, Next, Sending};
use super::wire::{Answer, GROUP, Names, OWNER, Owner, RECORD, RecordHeader};
use crate::journal::ReadError;
use crate::record::{EntityKey, Position};
use crate::remote::{Fate, Group, Log, Place};

/// The stream of records, as its one writer sees it.
pub(super) struct Stream {
    client: Client,
    names: Names,
    reign: Arc<Reign>,
    reader: Arc<Reader>,
    /// Groups that were sent in this reign.
    groups: u64,
}

impl Log for Stream {
    async fn locate(&self, entities: &[EntityKey]) -> Result<(), ReadError> {
        self.reader.locate(entities).await
    }

    fn tail(&self, entity: &EntityKey) -> Option<Place> {
        self.reign.tail(entity).map(|tail| tail.last)
    }

    fn durable(&self) -> u64 {
        self.reign.durable()
    }

    fn position(&self, sequence: u64) -> Position {
        self.reign.position(sequence)
    }

    async fn send(&mut self, group: &Group) -> Fate {
        self.groups += 1;
        self.settle(group, &[(0, self.groups)]).await
    }

    fn publish(&self, sequence: u64, lasts: HashMap<EntityKey, Place>) {
        self.reign.publish(sequence, lasts);
    }
}

impl Stream {
    pub(super) fn new(client: Client, names: Names, reign: Arc<Reign>, reader: Arc<Reader>) -> Self {
        Self { client, names, reign, reader, groups: 0 }
    }

    /// Sends records, which are those of several groups, until their fate is certain. Each of `starts` is the index of a record and the
    /// number of the group that begins there, or goes on there if that is the first one.
    pub(super) async fn settle(&self, group: &Group, starts: &[(usize, u64)]) -> Fate {
        let mut sending = Sending::new(self.reign.durable(), group.len());
        let mut next = Next::Send { after: Duration::ZERO };
        let begun = Instant::now();
        loop {
            next = match next {
                Next::Send { after } => {
                    if !after.is_zero() {
                        sleep(after).await;
                    }
                    self.reader.leave_server(begun).await;
                    let attempt = timeout(sending.time_out(), self.attempt(group, starts, &sending)).await;
                    sending.answered(attempt.unwrap_or(Answer::Nothing))
                }
                Next::Look => sending.found(self.look(sending.expected(), starts).await),
                Next::Ended(fate) => return fate,
            }
        }
    }

    /// The name of the group with this number; no other group of any reign has it.
    fn name(&self, number: u64) -> String {
        format!("{}-{number}", self.reign.epoch)
    }

    /// Sends the records once.
    async fn attempt(&self, group: &Group, starts: &[(usize, u64)], sending: &Sending) -> Answer {
        let count = group.len();
        // Of an attempt that was given up, the server may still have the beginning.
        let batch = format!("{}-{}-{}", self.name(starts[0].1), sending.expected(), sending.attempt());
        let mut starts = starts.iter().peekable();
        for (index, (record, previous)) in group.records().enumerate() {
            let mut headers = HeaderMap::new();
            headers.insert(RECORD, RecordHeader::of(record, previous.sequence).encode());
            if index == 0 {
                headers.insert("Nats-Expected-Stream", self.names.stream());
                headers.insert("Nats-Expected-Last-Sequence", sending.expected().to_string());
            }
            if let Some((_, number)) = starts.next_if(|(start, _)| *start == index) {
                headers.insert(GROUP, self.name(*number));
            }
            // What this reign has appended, or this group has, needs no second look.
            if !self.reign.has_appended(previous) {
                headers.insert("Nats-Expected-Last-Subject-Sequence", previous.sequence.to_string());
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

    /// What stands behind `last`, where the first of `starts` belongs.
    async fn look(&self, last: u64, starts: &[(usize, u64)]) -> Found {
        let ours = self.name(starts[0].1);
        match self.reader.message(last + 1).await {
            Ok(Some(message)) if message.header(GROUP) == Some(&ours) => Found::Ours,
            Ok(Some(message)) => {
                let owner = message.header(OWNER).and_then(|_| Owner::decode(&message));
                Found::Another { by: owner.map_or_else(|| "an unknown writer".to_owned(), |owner| owner.node) }
            }
            // A replica that is behind has nothing there either.
            Ok(None) => self.reader.last_sequence().await.map_or(Found::Unseen, |last| Found::Nothing { last }),
            Err(_) => Found::Unseen,
        }
    }
}
