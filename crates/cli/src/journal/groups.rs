//! Groups of records, wherever they are: in a directory, a backup, streams of NATS or tables of PostgreSQL.

use std::path::Path;

use enact_journal::{BackupReader, Group, look};
#[cfg(any(feature = "nats", feature = "postgres"))]
use enact_journal::{Position, ReadError};

use super::of_directory;
use crate::args;
use crate::failure::Failure;

/// The groups of a log in order, from its beginning to where it ended when they were asked for.
pub(super) struct Groups {
    /// The number that tells the log from others; zero if its journal has none.
    pub(super) log: u64,
    groups: Box<dyn Iterator<Item = Result<Group, Failure>>>,
}

impl Groups {
    /// Those of the entities that `records` names.
    pub(super) fn of(records: &args::Records) -> Result<Self, Failure> {
        match records.journal.as_deref() {
            None => Self::of_directory(&records.data),
            #[cfg(feature = "postgres")]
            Some(address) if args::is_database(address) => remote::of_tables(address, records.shard),
            #[cfg(not(feature = "postgres"))]
            Some(address) if args::is_database(address) => Err(Failure::WithoutPostgres),
            #[cfg(feature = "nats")]
            Some(address) => remote::of_streams(address, records.shard),
            #[cfg(not(feature = "nats"))]
            Some(_) => Err(Failure::WithoutNats),
        }
    }

    fn of_directory(data: &Path) -> Result<Self, Failure> {
        let look = look(data).map_err(of_directory(data))?;
        let data = data.to_owned();
        Ok(Self { log: look.log(), groups: Box::new(look.map(move |group| group.map_err(of_directory(&data)))) })
    }

    /// Those of the backup `file`.
    pub(super) fn of_backup(file: &Path) -> Result<Self, Failure> {
        let backup = BackupReader::open(file)?;
        Ok(Self { log: backup.log(), groups: Box::new(backup.map(|group| Ok(group?))) })
    }

    /// Those of the pages that `next` gives after a position, up to one without groups.
    #[cfg(any(feature = "nats", feature = "postgres"))]
    fn paged(place: String, next: impl Fn(Position) -> Result<Vec<Group>, ReadError> + 'static) -> Self {
        let mut last = Some(Position::START);
        let pages = std::iter::from_fn(move || match next(last?) {
            Ok(page) => {
                last = Some(page.last()?.last());
                Some(page.into_iter().map(Ok).collect::<Vec<_>>())
            }
            Err(source) => {
                last = None;
                Some(vec![Err(Failure::Read { place: place.clone(), source })])
            }
        });
        Self { log: 0, groups: Box::new(pages.flatten()) }
    }
}

impl Iterator for Groups {
    type Item = Result<Group, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.groups.next()
    }
}

#[cfg(any(feature = "nats", feature = "postgres"))]
mod remote {
    #[cfg(feature = "nats")]
    use enact_journal::nats::{self, Nats};
    #[cfg(feature = "postgres")]
    use enact_journal::postgres::{self, Postgres};
    use tokio::runtime::{Builder, Runtime};

    use super::Groups;
    use crate::failure::Failure;
    use crate::serve;

    fn runtime() -> Result<Runtime, Failure> {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::Runtime)
    }

    #[cfg(feature = "nats")]
    pub(super) fn of_streams(servers: &str, shard: u16) -> Result<Groups, Failure> {
        let place = format!("{} (shard {shard})", serve::without_passwords(servers));
        let runtime = runtime()?;
        let journal = runtime.block_on(Nats::look(nats::Options { shard, ..nats::Options::at(servers) }));
        let journal = journal.map_err(|source| Failure::Nats { place: place.clone(), source })?;
        Ok(Groups::paged(place, move |after| runtime.block_on(journal.groups(after))))
    }

    #[cfg(feature = "postgres")]
    pub(super) fn of_tables(address: &str, shard: u16) -> Result<Groups, Failure> {
        let options = postgres::Options { shard, ..postgres::Options::at(address) };
        let place = serve::in_tables(&options);
        let runtime = runtime()?;
        let journal = runtime.block_on(Postgres::look(options));
        let journal = journal.map_err(|source| Failure::Postgres { place: place.clone(), source })?;
        Ok(Groups::paged(place, move |after| runtime.block_on(journal.groups(after))))
    }
}
