//! SQLite: one transaction for each group, in a write-ahead log that is synced at each commit.

use std::error::Error;
use std::path::Path;

use rusqlite::Connection;

use crate::Store;

pub struct Sqlite(Connection);

impl Store for Sqlite {
    fn open(directory: &Path) -> Result<Self, Box<dyn Error>> {
        let connection = Connection::open(directory.join("records.sqlite"))?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        if mode != "wal" {
            return Err(format!("the journal mode is {mode}").into());
        }
        connection.execute_batch(
            "PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS records (position INTEGER PRIMARY KEY, payload BLOB NOT NULL)",
        )?;
        Ok(Self(connection))
    }

    fn store(&mut self, first: u64, payloads: &[Vec<u8>]) -> Result<(), Box<dyn Error>> {
        let transaction = self.0.transaction()?;
        {
            let mut insert = transaction.prepare_cached("INSERT INTO records (position, payload) VALUES (?1, ?2)")?;
            for (position, payload) in (first.cast_signed()..).zip(payloads) {
                insert.execute((position, payload))?;
            }
        }
        Ok(transaction.commit()?)
    }

    fn read(&self, mut see: impl FnMut(u64, &[u8])) -> Result<(), Box<dyn Error>> {
        let mut select = self.0.prepare("SELECT position, payload FROM records ORDER BY position")?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            see(row.get::<_, i64>(0)?.cast_unsigned(), row.get_ref(1)?.as_blob()?);
        }
        Ok(())
    }
}
