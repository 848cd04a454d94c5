//! Groups of records, wherever they are: in a directory, a backup, streams of NATS or tables of PostgreSQL.

use std::path::Path;
#[cfg(feature = "nats")]
use std::sync::Arc;

#[cfg(feature = "nats")]
use enact_cluster::{Agreed, ShardJournal, ShardJournals};
#[cfg(feature = "nats")]
use enact_journal::Journal as _;
use enact_journal::{BackupReader, Group, look};
#[cfg(any(feature = "nats", feature = "postgres"))]
use enact_journal::{Position, ReadError};

#[cfg(feature = "nats")]
use tokio::runtime::Runtime;

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
            Some(address) if args::is_database(address) => {
                remote::of_tables(records.security.database(address, records.shard))
            }
            #[cfg(not(feature = "postgres"))]
            Some(address) if args::is_database(address) => Err(Failure::WithoutPostgres),
            #[cfg(feature = "nats")]
            Some(address) => remote::of_streams(&records.security.servers(address), records.shard),
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

    /// Those behind `after` of the pages that `next` gives after a position, up to one without groups.
    #[cfg(any(feature = "nats", feature = "postgres"))]
    fn paged(
        place: String,
        after: Position,
        next: impl Fn(Position) -> Result<Vec<Group>, ReadError> + 'static,
    ) -> Self {
        let mut last = Some(after);
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

#[cfg(test)]
impl Groups {
    /// Those of these records, each of which is a group.
    pub(super) fn of_memory(records: Vec<enact_journal::Record>) -> Self {
        let group = |record: enact_journal::Record| Group::new(record.position, record.position, vec![record]);
        Self { log: 0, groups: Box::new(records.into_iter().map(move |record| Ok(group(record)))) }
    }
}

impl Iterator for Groups {
    type Item = Result<Group, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.groups.next()
    }
}

#[cfg(any(feature = "nats", feature = "postgres"))]
pub(super) mod remote {
    use enact_journal::Position;
    #[cfg(feature = "nats")]
    use enact_journal::nats::{Nats, Options, Servers};
    #[cfg(feature = "postgres")]
    use enact_journal::postgres::{self, Postgres};
    use tokio::runtime::{Builder, Runtime};

    use super::Groups;
    use crate::failure::Failure;

    pub(in crate::journal) fn runtime() -> Result<Runtime, Failure> {
        Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(Failure::Runtime)
    }

    #[cfg(feature = "nats")]
    pub(super) fn of_streams(servers: &Servers, shard: u16) -> Result<Groups, Failure> {
        let place = place(servers, shard);
        let runtime = runtime()?;
        let journal = runtime.block_on(look(servers, shard))?;
        Ok(Groups::paged(place, Position::START, move |after| runtime.block_on(journal.groups(after))))
    }

    #[cfg(feature = "nats")]
    pub(in crate::journal) async fn look(servers: &Servers, shard: u16) -> Result<Nats, Failure> {
        let journal = Nats::look(Options { shard, ..Options::at(servers.clone()) }).await;
        journal.map_err(|source| Failure::Nats { place: place(servers, shard), source })
    }

    #[cfg(feature = "nats")]
    pub(in crate::journal) fn place(servers: &Servers, shard: u16) -> String {
        format!("{servers} (shard {shard})")
    }

    #[cfg(feature = "postgres")]
    pub(super) fn of_tables(options: postgres::Options) -> Result<Groups, Failure> {
        let place = options.to_string();
        let runtime = runtime()?;
        let journal = runtime.block_on(Postgres::look(options));
        let journal = journal.map_err(|source| Failure::Postgres { place: place.clone(), source })?;
        Ok(Groups::paged(place, Position::START, move |after| runtime.block_on(journal.groups(after))))
    }
}

/// What nodes have in common.
#[cfg(feature = "nats")]
async fn agreed(args::Nodes { servers, journals }: &args::Nodes) -> Result<Agreed, Failure> {
    let of_nodes = |source| Failure::Join { place: servers.to_string(), source };
    enact_cluster::agreed(servers, journals).await.map_err(of_nodes)
}

/// The journals of all shards of several nodes, each as it was at one moment.
#[cfg(feature = "nats")]
pub(super) struct Shards {
    nodes: args::Nodes,
    runtime: Arc<Runtime>,
    all: ShardJournals,
    journals: Vec<Arc<ShardJournal>>,
    /// Where each ended at earlier looks.
    ends: Vec<Vec<Position>>,
}

#[cfg(feature = "nats")]
impl Shards {
    /// Looks at all of them so many times, and each time at all before the next one.
    pub(super) fn of_nodes(nodes: args::Nodes, looks: usize) -> Result<Self, Failure> {
        let runtime = remote::runtime()?;
        let (ends, journals, all) = runtime.block_on(async {
            let Agreed { shards, journals: all, .. } = agreed(&nodes).await?;
            let (mut ends, mut journals) = (Vec::new(), Vec::new());
            for _ in 0..looks {
                journals.clear();
                for shard in 0..shards {
                    let unseen = |source| Failure::Shard { place: all.place(shard), source: Box::new(source) };
                    journals.push(Arc::new(all.look(shard).await.map_err(unseen)?));
                }
                ends.push(journals.iter().map(|journal| journal.volume().last.unwrap_or(Position::START)).collect());
            }
            Ok::<_, Failure>((ends, journals, all))
        })?;
        Ok(Self { nodes, runtime: Arc::new(runtime), all, journals, ends })
    }

    /// What tells the contract of the nodes from others, as it is after all looks.
    pub(super) fn contract(&self) -> Result<String, Failure> {
        Ok(self.runtime.block_on(agreed(&self.nodes))?.contract)
    }

    /// Where each journal ended at that look, of which the first is 0.
    pub(super) fn ends(&self, look: usize) -> &[Position] {
        &self.ends[look]
    }

    /// The groups of a shard behind `after`, up to the last look.
    pub(super) fn groups(&self, shard: u16, after: Position) -> Groups {
        let (runtime, journal) = (self.runtime.clone(), self.journals[usize::from(shard)].clone());
        let place = self.all.place(shard);
        Groups::paged(place, after, move |after| runtime.block_on(journal.groups(after)))
    }
}
