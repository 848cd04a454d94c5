//! Where a backup is restored to: a new directory, or a new journal on servers.

use std::path::Path;

use enact_journal::{BuildError, Group, LogBuilder, Options, Record};

use crate::args;
use crate::failure::Failure;

/// What is built of the groups of a backup. Nobody can use it before it is finished.
pub(in crate::journal) trait Target {
    /// Takes the next group.
    fn push(&mut self, group: Group) -> Result<(), Failure>;

    /// Takes a tombstone that stands for records that are left out.
    fn bury(&mut self, tombstone: Record) -> Result<(), Failure>;

    /// Whether records are left out of which nobody knows of which entity they were.
    fn has_gaps(&self) -> bool;

    /// Makes it one that can be used.
    fn finish(self: Box<Self>) -> Result<(), Failure>;

    /// Leaves nothing behind.
    fn abandon(self: Box<Self>);
}

pub(super) fn begin(args: &args::Restore) -> Result<Box<dyn Target + '_>, Failure> {
    match args.journal.as_deref() {
        None => Ok(Box::new(Directory::begin(&args.data)?)),
        #[cfg(feature = "postgres")]
        Some(address) if args::is_database(address) => {
            if args.replicas.is_some() {
                return Err(Failure::Replicas);
            }
            let runtime = std::sync::Arc::new(super::super::groups::remote::runtime()?);
            Ok(Box::new(remote::tables(runtime, args.security.database(address, args.shard))?))
        }
        #[cfg(not(feature = "postgres"))]
        Some(address) if args::is_database(address) => Err(Failure::WithoutPostgres),
        #[cfg(feature = "nats")]
        Some(addresses) => {
            let replicas = args.replicas.map_or(1, std::num::NonZeroUsize::get);
            let runtime = std::sync::Arc::new(super::super::groups::remote::runtime()?);
            let servers = args.security.servers(addresses);
            Ok(Box::new(remote::streams(runtime, &servers, args.shard, replicas)?))
        }
        #[cfg(not(feature = "nats"))]
        Some(_) => Err(Failure::WithoutNats),
    }
}

struct Directory<'a> {
    path: &'a Path,
    log: LogBuilder,
}

impl<'a> Directory<'a> {
    fn begin(path: &'a Path) -> Result<Self, Failure> {
        let log = LogBuilder::begin(path, Options::default().segment_bytes).map_err(failed(path))?;
        Ok(Self { path, log })
    }
}

fn failed(path: &Path) -> impl Fn(BuildError) -> Failure + use<'_> {
    |source| Failure::Restore { path: path.to_owned(), source }
}

impl Target for Directory<'_> {
    fn push(&mut self, group: Group) -> Result<(), Failure> {
        self.log.push(group).map_err(failed(self.path))
    }

    fn bury(&mut self, tombstone: Record) -> Result<(), Failure> {
        self.log.bury(tombstone).map_err(failed(self.path))
    }

    fn has_gaps(&self) -> bool {
        self.log.has_gaps()
    }

    fn finish(self: Box<Self>) -> Result<(), Failure> {
        self.log.finish().map(drop).map_err(failed(self.path))
    }

    fn abandon(self: Box<Self>) {}
}

#[cfg(any(feature = "nats", feature = "postgres"))]
pub(in crate::journal) mod remote {
    #[cfg(feature = "nats")]
    use enact_journal::nats::{Options, Servers, StreamBuilder};
    #[cfg(feature = "postgres")]
    use enact_journal::postgres::{self, TableBuilder};
    use enact_journal::{Group, Kind, Position, Record, RemoteBuilder};
    use std::sync::Arc;

    use tokio::runtime::Runtime;

    use super::Target;
    use crate::contract;
    use crate::failure::Failure;
    #[cfg(feature = "nats")]
    use crate::journal::groups::remote;

    /// The kind of notes up to which position tombstones were written.
    const SWEPT: Kind = Kind(9);

    /// A journal on servers.
    pub(in crate::journal) struct Remote<B: RemoteBuilder> {
        runtime: Arc<Runtime>,
        log: B,
        place: String,
        failed: fn(String, B::Error) -> Failure,
    }

    #[cfg(feature = "nats")]
    pub(in crate::journal) fn streams(
        runtime: Arc<Runtime>,
        servers: &Servers,
        shard: u16,
        replicas: usize,
    ) -> Result<Remote<StreamBuilder>, Failure> {
        let options = Options { shard, replicas, ..Options::at(servers.clone()) };
        let place = remote::place(servers, shard);
        Remote::begin(runtime, place, StreamBuilder::begin(options), |place, source| Failure::RestoreStreams {
            place,
            source,
        })
    }

    #[cfg(feature = "postgres")]
    pub(in crate::journal) fn tables(
        runtime: Arc<Runtime>,
        options: postgres::Options,
    ) -> Result<Remote<TableBuilder>, Failure> {
        let place = options.to_string();
        Remote::begin(runtime, place, TableBuilder::begin(options), |place, source| Failure::RestoreTables {
            place,
            source,
        })
    }

    impl<B: RemoteBuilder> Remote<B> {
        fn begin(
            runtime: Arc<Runtime>,
            place: String,
            beginning: impl Future<Output = Result<B, B::Error>>,
            failed: fn(String, B::Error) -> Failure,
        ) -> Result<Self, Failure> {
            match runtime.block_on(beginning) {
                Ok(log) => Ok(Self { runtime, log, place, failed }),
                Err(source) => Err(failed(place, source)),
            }
        }

        fn done<T>(&self, done: Result<T, B::Error>) -> Result<T, Failure> {
            done.map_err(|source| (self.failed)(self.place.clone(), source))
        }
    }

    impl<B: RemoteBuilder> Target for Remote<B> {
        fn push(&mut self, group: Group) -> Result<(), Failure> {
            let pushed = self.runtime.block_on(self.log.push(without_positions(group)));
            self.done(pushed)
        }

        fn bury(&mut self, tombstone: Record) -> Result<(), Failure> {
            let buried = self.runtime.block_on(self.log.add(tombstone));
            self.done(buried)
        }

        fn has_gaps(&self) -> bool {
            self.log.has_gaps()
        }

        fn finish(mut self: Box<Self>) -> Result<(), Failure> {
            let finished = self.runtime.block_on(async {
                if self.log.has_discarded() {
                    let entity = contract::gaps();
                    let (seq, position) = (self.log.next_of(&entity), Position::START);
                    let note = Record { entity, seq, position, kind: contract::KIND, payload: Vec::new() };
                    self.log.add(note).await?;
                }
                self.log.finish().await
            });
            let finished = self.done(finished);
            if finished.is_err() {
                self.abandon();
            }
            finished.map(drop)
        }

        fn abandon(self: Box<Self>) {
            self.runtime.block_on(self.log.abandon());
        }
    }

    /// The group without notes that name positions: records may get others.
    fn without_positions(group: Group) -> Group {
        if group.records().iter().all(|record| record.kind != SWEPT) {
            return group;
        }
        let (first, last) = (group.first(), group.last());
        Group::new(first, last, group.into_iter().filter(|record| record.kind != SWEPT).collect())
    }
}
