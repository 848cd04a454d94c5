//! Reads from any replica, and lets none that is behind pass for the truth.
//!
//! # What is absent
//! A replica may lack what others have. So a question for what may be absent also asks for the owner record, and the
//! answer says up to which sequence that replica has seen the stream. It counts if that is this reign's epoch or later: what is
//! absent then was absent in all reigns before, and what this one has written is known here.
//!
//! # What is incomplete
//! The end of what is read is known before. Each record names its predecessor, by number and by sequence, so a list that goes
//! from a known record to the end is complete; one that is shorter is asked for again, and one that does not fit is damage.

use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, HeaderMap};
use enact_sync::Mutex;
use futures_util::future::{try_join, try_join3};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};

use super::direct::{Direct, Unanswered};
use super::reign::{Reign, Tail};
use super::wire::{Answer, GROUP, Names, Owner, RECORD, RecordHeader, SnapshotHeader, Stored};
use super::{OpenError, guard};
use crate::damage::{Damage, Flaw};
use crate::journal::{Loaded, ReadError, SnapshotError};
use crate::record::{EntityKey, Position, Record, Seq, Snapshot};
use crate::remote::{Chains, Page, Place, Verified};

/// How long a read goes on to ask.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a server may not do what it is asked for: a little longer than a leader is elected.
const SERVER_MAX: Duration = Duration::from_secs(5);
/// How long it waits for a replica to catch up.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a server may take to keep a snapshot, or to say how long a stream is.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Entities in one question; a server answers with 1024 at most.
const LOCATED_MAX: usize = 500;
/// Records and bytes that are asked for together with the end of an entity: most have no more.
const FIRST_PAGE: (usize, usize) = (64, 64 << 10);
const PAGE: (usize, usize) = (1000, 4 << 20);
/// The last message of a subject is another one than expected.
const WRONG_LAST: u64 = 10071;

pub(super) struct Reader {
    client: Client,
    direct: Arc<Direct>,
    names: Names,
    reign: Arc<Reign>,
    /// When a server was left.
    left: Mutex<Instant>,
}

impl From<Unanswered> for ReadError {
    fn from(cause: Unanswered) -> Self {
        Self::Unavailable { why: cause.to_string() }
    }
}

impl Reader {
    /// The position of the last record that is known to be durable.
    pub(super) fn durable(&self) -> Position {
        self.reign.position(self.reign.durable())
    }

    /// Checks that the streams are kept as they must be.
    pub(super) async fn check(&self, replicas: usize, deadline: Instant) -> Result<(), OpenError> {
        guard::check_again(&self.client, &self.names, replicas, deadline).await
    }

    pub(super) fn new(client: Client, direct: Arc<Direct>, names: Names, reign: Arc<Reign>) -> Self {
        Self { client, direct, names, reign, left: Mutex::new(Instant::now()) }
    }

    /// Asks until there is an answer of a replica that is not behind, or patience ends; damage ends it at once.
    async fn patiently<T, F>(&self, mut ask: impl FnMut() -> F) -> Result<T, ReadError>
    where
        F: Future<Output = Result<Option<T>, ReadError>>,
    {
        let begun = Instant::now();
        loop {
            let why = match ask().await {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => "no server has all that was written".to_owned(),
                Err(ReadError::Unavailable { why }) => why,
                Err(cause) => return Err(cause),
            };
            if begun.elapsed() > PATIENCE {
                return Err(ReadError::Unavailable { why });
            }
            self.leave_server(begun).await;
            sleep(PAUSE).await;
        }
    }

    /// Goes to another server if this one has not done what it was asked for since `asked`, for long: it may be cut off from the others,
    /// which do without it.
    pub(super) async fn leave_server(&self, asked: Instant) {
        let is_due = {
            let mut left = self.left.lock();
            let is_due = asked.max(*left).elapsed() > SERVER_MAX;
            if is_due {
                *left = Instant::now();
            }
            is_due
        };
        if is_due {
            tracing::warn!(
                stream = self.names.stream(),
                "the server does not do what it is asked for: going to another one"
            );
            // A connection that is closed for good answers nothing.
            drop(self.client.force_reconnect().await);
        }
    }

    /// Learns where `entities` end, as far as nobody has asked before.
    pub(super) async fn locate(&self, entities: &[EntityKey]) -> Result<(), ReadError> {
        for entities in entities.chunks(LOCATED_MAX) {
            let unknown: Vec<&EntityKey> = entities.iter().filter(|entity| self.reign.tail(entity).is_none()).collect();
            if !unknown.is_empty() {
                self.patiently(|| self.look_for_ends(&unknown)).await?;
            }
        }
        Ok(())
    }

    /// Asks one replica; nothing if it is behind.
    async fn look_for_ends(&self, entities: &[&EntityKey]) -> Result<Option<()>, ReadError> {
        let owner = self.names.owner();
        let subjects = entities.iter().map(|entity| self.names.entity(entity)).chain([owner]).collect::<Vec<_>>();
        let seen = self.direct.lasts(&self.names.stream(), &subjects).await?;
        if seen.up_to < self.reign.epoch {
            return Ok(None);
        }
        for (entity, subject) in entities.iter().zip(&subjects) {
            let last = match seen.messages.iter().find(|message| message.subject == *subject) {
                Some(message) => Place { seq: self.header(entity, message)?.seq, sequence: message.sequence },
                None => Place::default(),
            };
            self.reign.learn(entity, last);
        }
        Ok(Some(()))
    }

    async fn tail(&self, entity: &EntityKey) -> Result<Tail, ReadError> {
        match self.reign.tail(entity) {
            Some(tail) => Ok(tail),
            None => {
                self.locate(std::slice::from_ref(entity)).await?;
                Ok(self.reign.tail(entity).unwrap_or_default())
            }
        }
    }

    pub(super) async fn last(&self, entity: &EntityKey) -> Result<Seq, ReadError> {
        Ok(self.tail(entity).await?.last.seq)
    }

    /// All records after `after`.
    pub(super) async fn read(&self, entity: &EntityKey, after: Seq) -> Result<Vec<Record>, ReadError> {
        let tail = self.tail(entity).await?;
        if tail.last.seq <= after {
            return Ok(Vec::new());
        }
        let from = if tail.base.seq <= after { tail.base } else { Place::default() };
        let mut records = self.chain(entity, from, tail.last, Vec::new()).await?;
        records.retain(|record| record.seq > after);
        Ok(records)
    }

    /// The newest snapshot and all records after it. Its end, its snapshot and its first records are asked for at once.
    pub(super) async fn load(&self, entity: &EntityKey) -> Result<Loaded, ReadError> {
        if self.reign.has_nothing(entity) {
            return Ok(Loaded::default());
        }
        if self.reign.tail(entity).is_some_and(|tail| tail.last.seq == Seq::NONE) {
            return Ok(Loaded { snapshot: self.load_snapshot(entity).await?, records: Vec::new() });
        }
        let (stream, subject) = (self.names.stream(), self.names.entity(entity));
        let first = async { Ok(self.direct.page(&stream, &subject, 1, FIRST_PAGE).await.unwrap_or_default()) };
        let (_, kept, first) = try_join3(self.tail(entity), self.kept(entity), first).await?;
        let (snapshot, base) = match kept {
            Some((snapshot, base)) => (Some(snapshot), base),
            None => (None, Place::default()),
        };
        let covered = snapshot.as_ref().map_or(Seq::NONE, |snapshot| snapshot.seq);
        let last = self.last_behind(entity, covered).await?;
        if covered == last.seq {
            self.reign.keep(entity, last, 0);
            return Ok(Loaded { snapshot, records: Vec::new() });
        }
        self.reign.keep(entity, base, 0);
        let mut records = self.chain(entity, base, last, first).await?;
        records.retain(|record| record.seq > covered);
        Ok(Loaded { snapshot, records })
    }

    pub(super) async fn load_snapshot(&self, entity: &EntityKey) -> Result<Option<Snapshot>, ReadError> {
        if self.reign.has_nothing(entity) {
            return Ok(None);
        }
        let (_, kept) = try_join(self.tail(entity), self.kept(entity)).await?;
        let Some((snapshot, _)) = kept else { return Ok(None) };
        self.last_behind(entity, snapshot.seq).await?;
        Ok(Some(snapshot))
    }

    /// Where the entity ends, which is not before the record `covered` that a snapshot includes: otherwise the stream has lost records.
    async fn last_behind(&self, entity: &EntityKey, covered: Seq) -> Result<Place, ReadError> {
        // Records may have been appended since the end was asked for, by this reign or, unknown to it, by the next.
        let last = self.tail(entity).await?.last;
        if covered <= last.seq {
            return Ok(last);
        }
        let owner = self.direct.last(&self.names.stream(), &self.names.owner()).await?;
        if owner.is_none_or(|owner| owner.sequence != self.reign.epoch) {
            return Err(ReadError::Unavailable { why: "another writer has taken the journal over".to_owned() });
        }
        let flaw = Flaw::Chain { entity: entity.clone(), expected: covered, found: last.seq };
        Err(self.damaged(last.sequence, flaw))
    }

    /// The newest snapshot that is kept, and a record that it includes.
    async fn kept(&self, entity: &EntityKey) -> Result<Option<(Snapshot, Place)>, ReadError> {
        let message = self.patiently(|| self.look_for_snapshot(entity)).await?;
        let snapshot = message.and_then(|message| {
            let Some(header) = header(&message).and_then(|header| SnapshotHeader::decode(header, &message.payload))
            else {
                tracing::warn!(%entity, "passed over a snapshot that is not what was kept");
                return None;
            };
            Some((Snapshot { entity: entity.clone(), seq: header.seq, payload: message.payload }, header.base))
        });
        Ok(snapshot)
    }

    /// Asks one replica; nothing if it lacks what this reign has kept.
    async fn look_for_snapshot(&self, entity: &EntityKey) -> Result<Option<Option<Stored>>, ReadError> {
        let message = self.direct.last(&self.names.snapshots(), &self.names.snapshot(entity)).await?;
        let at_least = self.reign.tail(entity).map_or(0, |tail| tail.snapshot);
        let is_behind = message.as_ref().map_or(0, |message| message.sequence) < at_least;
        Ok((!is_behind).then_some(message))
    }

    /// Keeps `snapshot`, unless a newer one is there.
    pub(super) async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let Snapshot { entity, seq, payload } = snapshot;
        let unavailable = |cause: &dyn ToString| SnapshotError::Unavailable { why: cause.to_string() };
        let tail = self.tail(&entity).await.map_err(|cause| unavailable(&cause))?;
        if seq > tail.last.seq {
            return Err(SnapshotError::Ahead { entity, seq, last: tail.last.seq });
        }
        let known = [tail.last, tail.base].into_iter().find(|known| known.seq <= seq);
        let header = SnapshotHeader { seq, base: known.unwrap_or_default() }.encode(&payload);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let kept = self.direct.last(&self.names.snapshots(), &self.names.snapshot(&entity)).await;
            let kept = kept.map_err(|cause| unavailable(&cause))?;
            let there = kept.as_ref().and_then(|kept| SnapshotHeader::decode(self::header(kept)?, &kept.payload));
            if there.is_some_and(|there| there.seq > seq) {
                return Ok(());
            }
            let last = kept.map_or(0, |kept| kept.sequence);
            match self.publish_snapshot(&entity, last, &header, &payload).await {
                Answer::Stored { sequence } => {
                    self.reign.keep(&entity, tail.last, sequence);
                    return Ok(());
                }
                Answer::Refused { code: WRONG_LAST, .. } | Answer::Nothing if Instant::now() < deadline => {
                    sleep(PAUSE).await;
                }
                Answer::Refused { why, .. } => return Err(unavailable(&why)),
                Answer::Nothing => return Err(unavailable(&"no server has answered")),
            }
        }
    }

    async fn publish_snapshot(&self, entity: &EntityKey, last: u64, header: &str, payload: &[u8]) -> Answer {
        let mut headers = HeaderMap::new();
        headers.insert(RECORD, header);
        headers.insert("Nats-Expected-Stream", self.names.snapshots());
        headers.insert("Nats-Expected-Last-Subject-Sequence", last.to_string());
        let sent = self.client.request_with_headers(self.names.snapshot(entity), headers, payload.to_vec().into());
        match timeout(ANSWER_MAX, sent).await {
            Ok(Ok(answer)) => Answer::decode(&answer.payload),
            _ => Answer::Nothing,
        }
    }

    /// The records of `entity` after `from` up to `end`; `first` may have some of them.
    async fn chain(
        &self,
        entity: &EntityKey,
        from: Place,
        end: Place,
        first: Vec<Stored>,
    ) -> Result<Vec<Record>, ReadError> {
        let (stream, subject) = (self.names.stream(), self.names.entity(entity));
        let (mut records, mut last, mut page) = (Vec::new(), from, first);
        let begun = Instant::now();
        loop {
            for message in page {
                if message.sequence <= last.sequence || last == end {
                    continue;
                }
                last = self.link(entity, last, &message)?;
                records.push(self.record(entity, message)?);
            }
            if last == end {
                return Ok(records);
            }
            if last.seq >= end.seq || last.sequence >= end.sequence {
                let flaw = Flaw::Chain { entity: entity.clone(), expected: end.seq, found: last.seq };
                return Err(self.damaged(last.sequence, flaw));
            }
            if begun.elapsed() > PATIENCE {
                let why = format!("no server has record {} of {entity}", last.seq.next());
                return Err(ReadError::Unavailable { why });
            }
            page = match self.direct.page(&stream, &subject, last.sequence + 1, PAGE).await {
                Ok(page) => page,
                Err(cause) => {
                    tracing::debug!(%cause, "a page of records was not answered; asking again");
                    Vec::new()
                }
            };
            if page.is_empty() {
                self.leave_server(begun).await;
                sleep(PAUSE).await;
            }
        }
    }

    /// The place of `message`, which must follow `last` in its entity.
    fn link(&self, entity: &EntityKey, last: Place, message: &Stored) -> Result<Place, ReadError> {
        let header = self.header(entity, message)?;
        if header.seq != last.seq.next() || header.previous != last.sequence {
            let flaw = Flaw::Chain { entity: entity.clone(), expected: last.seq.next(), found: header.seq };
            return Err(self.damaged(message.sequence, flaw));
        }
        Ok(Place { seq: header.seq, sequence: message.sequence })
    }

    /// At most `limit` records after `after`.
    pub(super) async fn feed(&self, after: Position, limit: usize) -> Result<Vec<Record>, ReadError> {
        Ok(self.page(after, limit).await?.into_iter().map(|(_, record)| record).collect())
    }

    /// At most `limit` records after `after`, of which the first of each group names it.
    pub(super) async fn page(&self, after: Position, limit: usize) -> Result<Page, ReadError> {
        let durable = self.reign.durable();
        let Position(last) = self.reign.position(durable);
        if limit == 0 || after.0 >= last {
            return Ok(Vec::new());
        }
        self.patiently(|| self.look_for_page(after, limit, durable)).await
    }

    /// Asks one replica; nothing if it is behind.
    async fn look_for_page(&self, after: Position, limit: usize, durable: u64) -> Result<Option<Page>, ReadError> {
        let from = self.reign.sequence(after.next());
        let (count, bytes) = PAGE;
        let limits = (count.min(limit), bytes);
        let page = self.direct.page(&self.names.stream(), &self.names.entities(), from, limits).await?;
        let mut records = Vec::with_capacity(page.len());
        let mut expected = after.next();
        for message in page.into_iter().take_while(|message| message.sequence <= durable) {
            let Some(entity) = self.names.entity_of(&message.subject) else {
                return Err(self.damaged(message.sequence, Flaw::Malformed));
            };
            let group = message.header(GROUP).map(str::to_owned);
            let (sequence, record) = (message.sequence, self.record(&entity, message)?);
            if record.position != expected {
                return Err(self.damaged(sequence, Flaw::Order { expected, found: record.position }));
            }
            expected = expected.next();
            records.push((group, record));
        }
        Ok((!records.is_empty()).then_some(records))
    }

    /// Reads every message of the stream of records that is known to be durable.
    pub(super) async fn verify(&self) -> Result<Verified, ReadError> {
        let (mut chains, mut owners, mut epoch) = (Chains::default(), 0, 0);
        let (mut last, end) = (0, self.reign.durable());
        while last < end {
            let page = self.patiently(|| self.look_for_messages(last + 1)).await?;
            for message in page.into_iter().take_while(|message| message.sequence <= end) {
                let sequence = message.sequence;
                let damaged = |flaw| self.damaged(sequence, flaw);
                if sequence != last + 1 {
                    let (expected, found) = (Position(last + 1 - owners), Position(sequence - owners));
                    return Err(damaged(Flaw::Order { expected, found }));
                }
                last = sequence;
                if message.subject == self.names.owner() {
                    owners += 1;
                    epoch = sequence;
                    let owner = Owner::decode(&message).filter(|owner| owner.ordinal == owners);
                    owner.ok_or_else(|| damaged(Flaw::Malformed))?;
                    continue;
                }
                let entity = self.names.entity_of(&message.subject).ok_or_else(|| damaged(Flaw::Malformed))?;
                let RecordHeader { seq, previous, .. } = self.header(&entity, &message)?;
                let before = chains.follow(entity, seq, sequence).map_err(damaged)?;
                // A group names its reign by where that began.
                let is_of_reign = group_epoch(&message).is_none_or(|named| named == epoch);
                if before != previous || !is_of_reign {
                    return Err(damaged(Flaw::Malformed));
                }
            }
        }
        Ok(chains.verified())
    }

    /// Asks one replica for messages of whichever subject; nothing if it is behind.
    async fn look_for_messages(&self, from: u64) -> Result<Option<Vec<Stored>>, ReadError> {
        let page = self.direct.page(&self.names.stream(), &self.names.all(), from, PAGE).await?;
        Ok((!page.is_empty()).then_some(page))
    }

    /// The message of the stream with this sequence, if the replica that has answered has it.
    pub(super) async fn message(&self, sequence: u64) -> Result<Option<Stored>, Unanswered> {
        self.direct.message(&self.names.stream(), sequence).await
    }

    /// The last sequence of the stream, as its leader knows it.
    pub(super) async fn last_sequence(&self) -> Option<u64> {
        let asked = self.client.request(format!("$JS.API.STREAM.INFO.{}", self.names.stream()), "".into());
        let answer = timeout(ANSWER_MAX, asked).await.ok()?.ok()?;
        serde_json::from_slice::<Value>(&answer.payload).ok()?["state"]["last_seq"].as_u64()
    }

    fn header(&self, entity: &EntityKey, message: &Stored) -> Result<RecordHeader, ReadError> {
        let header = header(message).and_then(|header| RecordHeader::decode(header, entity, &message.payload));
        header.ok_or_else(|| self.damaged(message.sequence, Flaw::Record))
    }

    fn record(&self, entity: &EntityKey, message: Stored) -> Result<Record, ReadError> {
        let RecordHeader { seq, kind, .. } = self.header(entity, &message)?;
        let position = self.reign.position(message.sequence);
        Ok(Record { entity: entity.clone(), seq, position, kind, payload: message.payload })
    }

    fn damaged(&self, sequence: u64, flaw: Flaw) -> ReadError {
        let file = format!("message {sequence} of stream {}", self.names.stream());
        Damage { file, offset: 0, flaw }.into()
    }
}

/// The reign of the group that begins with `message`, if one does; zero if that cannot be read.
fn group_epoch(message: &Stored) -> Option<u64> {
    let name = message.header(GROUP)?;
    Some(name.split_once('-').and_then(|(epoch, _)| epoch.parse().ok()).unwrap_or(0))
}

fn header(message: &Stored) -> Option<&str> {
    message.header(RECORD)
}
