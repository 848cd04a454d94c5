//! Servers, and processes that have the journal open.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use enact_journal::postgres::{OpenError, Options, Postgres};
use enact_journal_kit::contract::{Harness, TakeOver};
use enact_journal_kit::postgres::{Server, programs, shared};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A server of its own.
pub(crate) struct Single {
    pub(crate) server: Server,
    _directory: TempDir,
}

impl Single {
    /// A server, unless there are no programs.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(&["--data-checksums"], "")
    }

    pub(crate) fn start_with(arguments: &[&str], settings: &str) -> Option<Self> {
        let (programs, directory) = (programs()?, tempfile::tempdir().expect("a directory"));
        let server = Server::start_with(&programs, directory.path(), arguments, settings);
        Some(Self { server, _directory: directory })
    }

    pub(crate) fn options(&self) -> Options {
        Options::at(&self.server.address())
    }
}

/// A journal that nobody has opened, in the shared database.
pub(crate) fn fresh() -> Option<Options> {
    static SCHEMAS: AtomicUsize = AtomicUsize::new(0);
    let schema = format!("journal_{}", SCHEMAS.fetch_add(1, Ordering::Relaxed));
    Some(Options { schema, ..Options::at(&shared()?.address()) })
}

/// Processes with the journal: each has a runtime, which ends with all that it does when the process is killed.
#[derive(Default)]
pub(crate) struct Processes {
    runtimes: HashMap<u64, Runtime>,
}

impl Processes {
    /// A process opens the journal.
    pub(crate) async fn open(&mut self, options: Options) -> Result<Postgres, OpenError> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let journal = runtime.spawn(Postgres::open(options)).await.expect("no panic")?;
        self.runtimes.insert(journal.epoch(), runtime);
        Ok(journal)
    }

    /// Kills the process that has `journal` open.
    pub(crate) fn kill(&mut self, journal: Postgres) {
        self.runtimes.remove(&journal.epoch()).expect("it runs").shutdown_background();
        drop(journal);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.runtimes.drain().for_each(|(_, runtime)| runtime.shutdown_background());
    }
}

/// The contract over a journal of the shared database.
pub(crate) struct OverPostgres {
    options: Options,
    processes: Processes,
}

impl OverPostgres {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { options: fresh()?, processes: Processes::default() })
    }
}

impl Harness for OverPostgres {
    type Journal = Postgres;

    async fn open(&mut self) -> Postgres {
        self.processes.open(self.options.clone()).await.expect("the journal opens")
    }

    async fn crash(&mut self, journal: Postgres) {
        self.processes.kill(journal);
    }
}

impl TakeOver for OverPostgres {
    async fn take_over(&mut self, _: &Postgres) -> Postgres {
        self.open().await
    }
}

/// A client of the database that is no journal.
pub(crate) struct Admin {
    runtime: Runtime,
    client: Client,
}

impl Admin {
    /// One whose tables are those of `options`.
    pub(crate) fn of(options: &Options) -> Self {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
        let connecting = tokio_postgres::connect(&options.server, NoTls);
        let (client, connection) = runtime.block_on(connecting).expect("a connection");
        runtime.spawn(connection);
        let admin = Self { runtime, client };
        admin.does(&format!("SET search_path TO {}", options.schema));
        admin
    }

    /// Runs statements.
    pub(crate) fn does(&self, sql: &str) {
        self.runtime.block_on(self.client.batch_execute(sql)).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// The first column of what `sql` selects.
    pub(crate) fn asks(&self, sql: &str) -> Vec<String> {
        let answer = self.runtime.block_on(self.client.simple_query(sql));
        let rows = answer.unwrap_or_else(|error| panic!("{sql}: {error:?}")).into_iter();
        rows.filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .collect()
    }

    /// Waits until `sql` selects something.
    pub(crate) fn waits_for(&self, sql: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while self.asks(sql).is_empty() {
            assert!(Instant::now() < deadline, "{sql} selects nothing");
            std::thread::yield_now();
        }
    }
}
