//! fjall: one batch for each group, synced with it.

use std::error::Error;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};

use crate::Store;

pub struct Fjall {
    database: Database,
    records: Keyspace,
}

impl Store for Fjall {
    fn open(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let database = Database::builder(directory).open()?;
        let records = database.keyspace("records", KeyspaceCreateOptions::default)?;
        Ok(Self { database, records })
    }

    fn store(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for (position, payload) in (first..).zip(payloads) {
            batch.insert(&self.records, position.to_be_bytes(), &**payload);
        }
        Ok(batch.commit()?)
    }

    fn read(&self, mut see: impl FnMut(u64, &[u8])) -> Result<(), Box<dyn Error>> {
        for entry in self.records.iter() {
            let (position, payload) = entry.into_inner()?;
            see(u64::from_be_bytes((*position).try_into()?), &payload);
        }
        Ok(())
    }
}
