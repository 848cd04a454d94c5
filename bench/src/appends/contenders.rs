//! What writes records, and what is found of them afterwards.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{Read, Write};
use std::path::PathBuf;

use enact_journal::{Embedded, EntityKey, Journal, Kind, NewRecord, Options, Position, Seq, look, verify};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};
use tempfile::TempDir;
use tokio::runtime;

use super::AppendsError;
use super::peers::{Figures, Peers, Question};
use crate::measure::{Lap, Sample, Stopwatch};

/// How many entities the records belong to, one after the other.
const ENTITIES: u64 = 10_000;
const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");

/// What every contender writes.
#[derive(Debug)]
pub(super) struct Shape {
    /// Where directories for it are made.
    pub(super) place: PathBuf,
    pub(super) in_flight: usize,
    pub(super) records: u64,
    /// Of the payload of a record.
    pub(super) bytes: usize,
}

/// In which groups the journal has written its records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Groups {
    /// Records of a group, on average.
    records: u64,
    /// Bytes of a record in the file, its share of the group's header included.
    bytes: u64,
}

impl Groups {
    /// How many records each of the groups has that `records` are.
    fn sizes(self, records: u64) -> impl Iterator<Item = u64> {
        let size = self.records;
        (0..records.div_ceil(size)).map(move |group| size.min(records - group * size))
    }
}

impl Shape {
    fn directory(&self) -> Result<TempDir, AppendsError> {
        Ok(tempfile::Builder::new().prefix("enact-appends").tempdir_in(&self.place)?)
    }

    fn record(&self, number: u64) -> Result<NewRecord, AppendsError> {
        let (entity, expected) = (number % ENTITIES, Seq(number / ENTITIES));
        let entity = EntityKey::new("Account", &format!("{entity:018}"));
        let entity = entity.map_err(|cause| AppendsError::Wrong(cause.to_string()))?;
        Ok(NewRecord { entity, expected, kind: Kind(1), payload: self.payload(number) })
    }

    /// Bytes that tell records apart.
    fn payload(&self, number: u64) -> Vec<u8> {
        number.to_le_bytes().into_iter().cycle().take(self.bytes).collect()
    }

    /// Appends to the journal, and finds out in which groups it has written.
    pub(super) fn append(&self) -> Result<(Sample, Groups), AppendsError> {
        let directory = self.directory()?;
        let data = directory.path().join("data");
        let records = (0..self.records).map(|number| self.record(number)).collect::<Result<Vec<_>, _>>()?;
        let journal = Embedded::open(&data, Options::default())?;
        let runtime = runtime::Builder::new_current_thread().build()?;
        let watch = Stopwatch::start();
        runtime.block_on(async {
            let mut under_way = VecDeque::with_capacity(self.in_flight);
            for record in records {
                if under_way.len() == self.in_flight
                    && let Some(oldest) = under_way.pop_front()
                {
                    oldest.await?;
                }
                under_way.push_back(Box::pin(journal.append(vec![record])));
            }
            for append in under_way {
                append.await?;
            }
            Ok::<(), AppendsError>(())
        })?;
        let lap = watch.stop();
        drop(journal);
        let found = verify(&data)?;
        if !found.is_sound() || found.last != Position(self.records) {
            return Err(AppendsError::Wrong(format!("the journal has {found:?}, not {} records", self.records)));
        }
        let (mut groups, mut bytes) = (0, 0);
        for group in look(&data)? {
            group?;
            groups += 1;
        }
        for entry in data.read_dir()? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("segment-") {
                bytes += entry.metadata()?.len();
            }
        }
        let groups = Groups { records: self.records.div_ceil(groups), bytes: bytes / self.records };
        Ok((self.sample(Sample::new(lap, self.records), groups), groups))
    }

    fn sample(&self, sample: Sample, groups: Groups) -> Sample {
        let seconds = sample.lap.wall.as_secs_f64();
        let mib = (self.records * groups.bytes) as f64 / f64::from(1 << 20);
        sample.with_fact("records a sync", groups.records as f64).with_fact("MiB/s", mib / seconds)
    }

    /// Writes as many bytes to a file, in such groups.
    pub(super) fn write(&self, groups: Groups) -> Result<Sample, AppendsError> {
        let directory = self.directory()?;
        let path = directory.path().join("file");
        let bytes = vec![0x5a; usize::try_from(groups.records * groups.bytes).unwrap_or(usize::MAX)];
        let mut file = File::create_new(&path)?;
        let watch = Stopwatch::start();
        for size in groups.sizes(self.records) {
            file.write_all(&bytes[..(size * groups.bytes) as usize])?;
            file.sync_data()?;
        }
        let lap = watch.stop();
        let mut found = Vec::new();
        File::open(&path)?.read_to_end(&mut found)?;
        if found.len() as u64 != self.records * groups.bytes || found.iter().any(|byte| *byte != 0x5a) {
            return Err(AppendsError::Wrong(format!("the file has {} bytes", found.len())));
        }
        Ok(self.sample(Sample::new(lap, self.records), groups))
    }

    /// Inserts the records into a store, in such groups.
    pub(super) fn insert(&self, groups: Groups) -> Result<Sample, AppendsError> {
        let directory = self.directory()?;
        self.try_insert(directory.path().join("store"), groups).map_err(|cause| AppendsError::Store(Box::new(cause)))?
    }

    /// Lets a store of another program keep the records, in such groups.
    pub(super) fn ask(&self, peers: &mut Peers, store: &str, groups: Groups) -> Result<Sample, AppendsError> {
        let Self { place, records, bytes, .. } = self;
        let question = Question { store, place, records: *records, bytes: *bytes, group: groups.records };
        let (answer, all) = peers.run(&question).map_err(AppendsError::Peer)?;
        let Figures { wall, cpu } = answer.map_err(|why| AppendsError::Wrong(format!("{store}: {why}")))?;
        let lap = Lap { wall, cpu: Some(cpu) };
        Ok(self.sample(Sample::new(lap, self.records).helped(all), groups))
    }

    fn try_insert(&self, path: PathBuf, groups: Groups) -> Result<Result<Sample, AppendsError>, redb::Error> {
        let payloads: Vec<Vec<u8>> = (0..self.records).map(|number| self.payload(number)).collect();
        let store = Database::create(path)?;
        let mut rest = payloads.iter().zip(1..);
        let watch = Stopwatch::start();
        for size in groups.sizes(self.records) {
            // Durable when it returns.
            let transaction = store.begin_write()?;
            {
                let mut table = transaction.open_table(TABLE)?;
                for (payload, position) in rest.by_ref().take(size as usize) {
                    table.insert(position, &**payload)?;
                }
            }
            transaction.commit()?;
        }
        let lap = watch.stop();
        let found = store.begin_read()?.open_table(TABLE)?.len()?;
        if found != self.records {
            return Ok(Err(AppendsError::Wrong(format!("the store has {found} records"))));
        }
        Ok(Ok(self.sample(Sample::new(lap, self.records), groups)))
    }
}
