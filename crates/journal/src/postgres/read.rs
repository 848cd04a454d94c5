//! Reads from the server that takes writes, each in one statement, which sees the tables as they were at one moment.
//!
//! # What is complete
//! Records of an entity have dense numbers, and those of the feed dense positions, so a hole is seen. Where this reign knows that an entity
//! or the feed goes on, an end before that is damage, too: of records that a server has once answered for, none may be missing.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::time::Instant;
use tokio_postgres::Row;

use super::pool::{Parameters, Pool};
use super::reign::Reign;
use super::session::Server;
use super::wire::{self, signed, snapshot_checksum, unsigned};
use super::{OpenError, take_over};
use crate::damage::{Damage, Flaw};
use crate::journal::{Loaded, ReadError, SnapshotError};
use crate::record::{EntityKey, Position, Record, Seq, Snapshot};
use crate::remote::{Chains, Page, Place, Verified};

/// Entities in one question.
const LOCATED_MAX: usize = 1000;
/// Records and bytes of a page of the feed.
const PAGE: (usize, i64) = (4096, 4 << 20);

pub(super) struct Reader {
    server: Arc<Server>,
    pool: Arc<Pool>,
    reign: Arc<Reign>,
}

impl Reader {
    pub(super) fn new(server: Arc<Server>, pool: Arc<Pool>, reign: Arc<Reign>) -> Self {
        Self { server, pool, reign }
    }

    /// The position of the last record that is known to be durable.
    pub(super) fn durable(&self) -> Position {
        Position(self.reign.durable())
    }

    /// Checks that server and tables are what they must be, and that the end of the feed is there.
    pub(super) async fn check(&self, deadline: Instant) -> Result<(), OpenError> {
        take_over::check(&self.server, self.reign.shard, self.reign.durable(), deadline).await
    }

    /// Learns where `entities` end, as far as nobody has asked before.
    pub(super) async fn locate(&self, entities: &[EntityKey]) -> Result<(), ReadError> {
        for entities in entities.chunks(LOCATED_MAX) {
            let unknown: Vec<&EntityKey> = entities.iter().filter(|entity| self.reign.tail(entity).is_none()).collect();
            if unknown.is_empty() {
                continue;
            }
            let names: Vec<&str> = unknown.iter().map(|entity| entity.as_str()).collect();
            let rows = self.pool.ask(|statements| &statements.ends, &[&self.shard(), &names]).await?;
            let ends: HashMap<&str, &Row> = rows.iter().map(|row| (row.get("entity"), row)).collect();
            for entity in unknown {
                let end = ends.get(entity.as_str());
                self.reign.learn(entity, end.map_or(Ok(Place::default()), |row| self.place(row))?);
            }
        }
        Ok(())
    }

    fn place(&self, row: &Row) -> Result<Place, ReadError> {
        let (seq, pos): (i64, i64) = (row.get("seq"), row.get("pos"));
        let place = unsigned(seq).zip(unsigned(pos)).map(|(seq, sequence)| Place { seq: Seq(seq), sequence });
        place.ok_or_else(|| self.damaged(pos, Flaw::Malformed))
    }

    fn shard(&self) -> i32 {
        self.reign.shard.into()
    }

    pub(super) async fn last(&self, entity: &EntityKey) -> Result<Seq, ReadError> {
        if self.reign.tail(entity).is_none() {
            self.locate(std::slice::from_ref(entity)).await?;
        }
        Ok(self.reign.tail(entity).unwrap_or_default().seq)
    }

    /// All records after `after`.
    pub(super) async fn read(&self, entity: &EntityKey, after: Seq) -> Result<Vec<Record>, ReadError> {
        let known = self.reign.tail(entity);
        if known.is_some_and(|tail| tail.seq <= after) {
            return Ok(Vec::new());
        }
        let parameters: Parameters<'_> = &[&self.shard(), &entity.as_str(), &signed(after.0)];
        let rows = self.pool.ask(|statements| &statements.read, parameters).await?;
        let (records, last) = self.chain(entity, after, &rows)?;
        self.expect_end(entity, known, last)?;
        Ok(records)
    }

    /// The newest snapshot and all records after it.
    pub(super) async fn load(&self, entity: &EntityKey) -> Result<Loaded, ReadError> {
        if self.reign.has_nothing(entity) {
            return Ok(Loaded::default());
        }
        let known = self.reign.tail(entity);
        let rows = self.pool.ask(|statements| &statements.load, &[&self.shard(), &entity.as_str()]).await?;
        let is_snapshot = |row: &&Row| row.get::<_, Option<i64>>("pos").is_none();
        let (snapshot, rows) = match rows.split_first().filter(|(first, _)| is_snapshot(first)) {
            Some((row, rows)) => match sound_snapshot(entity, row) {
                Some(snapshot) => (Some(snapshot), rows),
                // What it includes was not asked for.
                None => return Ok(Loaded { snapshot: None, records: self.read(entity, Seq::NONE).await? }),
            },
            None => (None, &rows[..]),
        };
        let covered = snapshot.as_ref().map_or(Seq::NONE, |snapshot| snapshot.seq);
        // The last one that the snapshot includes comes first.
        let before = Seq(covered.0.saturating_sub(1));
        let (mut records, last) = self.chain(entity, before, rows)?;
        if last.seq < covered {
            return Err(self.lost(entity, covered, last));
        }
        self.expect_end(entity, known, last)?;
        records.retain(|record| record.seq > covered);
        self.reign.learn(entity, last);
        Ok(Loaded { snapshot, records })
    }

    pub(super) async fn load_snapshot(&self, entity: &EntityKey) -> Result<Option<Snapshot>, ReadError> {
        if self.reign.has_nothing(entity) {
            return Ok(None);
        }
        let rows = self.pool.ask(|statements| &statements.snapshot, &[&self.shard(), &entity.as_str()]).await?;
        let Some(snapshot) = rows.first().and_then(|row| sound_snapshot(entity, row)) else { return Ok(None) };
        let last = self.end_behind(entity, snapshot.seq).await?;
        if last.seq < snapshot.seq { Err(self.lost(entity, snapshot.seq, last)) } else { Ok(Some(snapshot)) }
    }

    /// Where the entity ends, as the server says if that is known only up to a record before `seq`: another writer may have gone on.
    async fn end_behind(&self, entity: &EntityKey, seq: Seq) -> Result<Place, ReadError> {
        self.last(entity).await?;
        let known = self.reign.tail(entity).unwrap_or_default();
        if known.seq >= seq {
            return Ok(known);
        }
        let rows = self.pool.ask(|statements| &statements.ends, &[&self.shard(), &vec![entity.as_str()]]).await?;
        rows.first().map_or(Ok(Place::default()), |row| self.place(row))
    }

    /// Keeps `snapshot`, unless a newer one is there.
    pub(super) async fn save(&self, snapshot: Snapshot) -> Result<(), SnapshotError> {
        let unavailable = |cause: ReadError| SnapshotError::Unavailable { why: cause.to_string() };
        let last = self.last(&snapshot.entity).await.map_err(unavailable)?;
        let checksum = snapshot_checksum(&snapshot);
        let Snapshot { entity, seq, payload } = snapshot;
        if seq > last {
            return Err(SnapshotError::Ahead { entity, seq, last });
        }
        let parameters: Parameters<'_> = &[&self.shard(), &entity.as_str(), &signed(seq.0), &checksum, &payload];
        self.pool.ask(|statements| &statements.save, parameters).await.map(drop).map_err(unavailable)
    }

    /// At most `limit` records after `after`.
    pub(super) async fn feed(&self, after: Position, limit: usize) -> Result<Vec<Record>, ReadError> {
        Ok(self.page(after, limit).await?.into_iter().map(|(_, record)| record).collect())
    }

    /// At most `limit` records after `after`; the group of each has the name of the transaction that has inserted it.
    pub(super) async fn page(&self, after: Position, limit: usize) -> Result<Page, ReadError> {
        let durable = self.reign.durable();
        if limit == 0 || after.0 >= durable {
            return Ok(Vec::new());
        }
        let (records, bytes) = PAGE;
        let count = limit.min(records) as i64;
        let parameters: Parameters<'_> = &[&self.shard(), &signed(after.0), &signed(durable), &count, &bytes];
        let rows = self.pool.ask(|statements| &statements.feed, parameters).await?;
        let mut page = Vec::with_capacity(rows.len());
        let mut expected = after.next();
        for row in &rows {
            let pos: i64 = row.get("pos");
            let entity: EntityKey =
                row.get::<_, &str>("entity").parse().map_err(|_| self.damaged(pos, Flaw::Malformed))?;
            let record = wire::record(&entity, row).ok_or_else(|| self.damaged(pos, Flaw::Record))?;
            if record.position != expected {
                return Err(self.damaged(pos, Flaw::Order { expected, found: record.position }));
            }
            expected = expected.next();
            page.push((Some(row.get("written_by")), record));
        }
        if page.is_empty() {
            return Err(self.damaged(signed(expected.0), Flaw::Shortened { last: Position(durable) }));
        }
        Ok(page)
    }

    /// Reads every row of a record that is known to be durable.
    pub(super) async fn verify(&self) -> Result<Verified, ReadError> {
        let (mut chains, mut last) = (Chains::default(), Position::START);
        loop {
            let page = self.page(last, usize::MAX).await?;
            if page.is_empty() {
                return Ok(chains.verified());
            }
            for (_, record) in page {
                last = record.position;
                let followed = chains.follow(record.entity, record.seq, last.0);
                followed.map_err(|flaw| self.damaged(signed(last.0), flaw))?;
            }
        }
    }

    /// The records of `entity` in `rows`, which must follow each other and the record `after`, and where they end.
    fn chain(&self, entity: &EntityKey, after: Seq, rows: &[Row]) -> Result<(Vec<Record>, Place), ReadError> {
        let mut records = Vec::with_capacity(rows.len());
        let mut last = Place { seq: after, sequence: 0 };
        for row in rows {
            let pos: i64 = row.get("pos");
            let record = wire::record(entity, row).ok_or_else(|| self.damaged(pos, Flaw::Record))?;
            if record.seq != last.seq.next() {
                let (expected, found) = (last.seq.next(), record.seq);
                return Err(self.damaged(pos, Flaw::Chain { entity: entity.clone(), expected, found }));
            }
            last = Place { seq: record.seq, sequence: record.position.0 };
            records.push(record);
        }
        Ok((records, last))
    }

    /// The entity does not end before what was known of it when it was asked for.
    fn expect_end(&self, entity: &EntityKey, known: Option<Place>, found: Place) -> Result<(), ReadError> {
        let known = known.unwrap_or_default();
        if found.seq < known.seq { Err(self.lost(entity, known.seq, found)) } else { Ok(()) }
    }

    fn lost(&self, entity: &EntityKey, expected: Seq, last: Place) -> ReadError {
        let flaw = Flaw::Chain { entity: entity.clone(), expected, found: last.seq };
        self.damaged(signed(last.sequence), flaw)
    }

    fn damaged(&self, pos: i64, flaw: Flaw) -> ReadError {
        let file = format!("record {pos} of shard {} in {}.records", self.reign.shard, self.server.schema);
        Damage { file, offset: 0, flaw }.into()
    }
}

/// The snapshot of a row; nothing if it is damaged, which costs no more than one that is lost.
fn sound_snapshot(entity: &EntityKey, row: &Row) -> Option<Snapshot> {
    let snapshot = wire::snapshot(entity, row);
    if snapshot.is_none() {
        tracing::warn!(%entity, "passed over a snapshot that is not what was kept");
    }
    snapshot
}
