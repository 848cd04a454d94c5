//! Where a served contract keeps its records.

use std::path::Path;

use enact_journal::{nats as over_nats, postgres as over_postgres};
use enact_journal_kit::{nats, postgres};

use super::BenchError;

/// Where a served contract keeps its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Journal {
    /// In a directory
    Directory,
    /// In one NATS server
    Nats,
    /// In three NATS servers, on the same disk
    #[value(name = "nats-3")]
    NatsThree,
    /// In one PostgreSQL server
    Postgres,
}

/// Servers that run until they are dropped.
pub(crate) enum Servers {
    None,
    Nats(Vec<nats::Server>),
    Postgres(Box<postgres::Server>),
}

/// What opens a journal of servers.
#[derive(Debug, Clone)]
pub(crate) enum Over {
    Nats(over_nats::Options),
    Postgres(over_postgres::Options),
}

/// No checkpoint comes within a measurement.
const SETTINGS: &str = "shared_buffers = 1GB\nmax_wal_size = 8GB\ncheckpoint_timeout = 30min";

impl Journal {
    /// What the tables call `serving` with records there.
    pub(crate) fn name(self, serving: &str) -> String {
        match self {
            Self::Directory => serving.to_owned(),
            Self::Nats => format!("{serving}, NATS"),
            Self::NatsThree => format!("{serving}, 3 NATS"),
            Self::Postgres => format!("{serving}, PostgreSQL"),
        }
    }

    /// Starts the servers that it takes, which keep their files in `directory`.
    ///
    /// # Panics
    /// If one of them does not start.
    pub(crate) fn start(self, directory: &Path) -> Result<Servers, BenchError> {
        let missing = |doing, cause: &str| BenchError::Server { doing, cause: cause.to_owned() };
        let nats_server = || {
            let cause = "there is no `nats-server`, and no Go to install it with";
            nats::program().ok_or_else(|| missing("starting NATS", cause))
        };
        Ok(match self {
            Self::Directory => Servers::None,
            Self::Nats => Servers::Nats(vec![nats::Server::start(&nats_server()?, directory)]),
            Self::NatsThree => Servers::Nats(nats::Server::start_three(&nats_server()?, directory).into()),
            Self::Postgres => {
                let cause = "there is no `initdb` and `postgres`: install the package postgresql";
                let programs = postgres::programs().ok_or_else(|| missing("starting PostgreSQL", cause))?;
                let arguments = &["--data-checksums"];
                Servers::Postgres(Box::new(postgres::Server::start_with(&programs, directory, arguments, SETTINGS)))
            }
        })
    }
}

impl Servers {
    /// What opens a journal of them; nothing if there are none.
    pub(crate) fn options(&self, shard: u16) -> Option<Over> {
        match self {
            Self::None => None,
            Self::Nats(servers) => {
                let at = over_nats::Options::at(self.addresses());
                Some(Over::Nats(over_nats::Options { shard, replicas: servers.len(), ..at }))
            }
            Self::Postgres(_) => {
                Some(Over::Postgres(over_postgres::Options { shard, ..over_postgres::Options::at(&self.addresses()) }))
            }
        }
    }

    /// Where they are, separated by commas.
    pub(crate) fn addresses(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Nats(servers) => servers.iter().map(nats::Server::address).collect::<Vec<_>>().join(","),
            Self::Postgres(server) => server.address(),
        }
    }

    /// What tells `enact serve` of them; nothing if there are none.
    pub(super) fn arguments(&self) -> Vec<String> {
        let journal = || ["--journal".to_owned(), self.addresses()];
        match self {
            Self::None => Vec::new(),
            Self::Nats(servers) => {
                journal().into_iter().chain(["--replicas".to_owned(), servers.len().to_string()]).collect()
            }
            Self::Postgres(_) => journal().into(),
        }
    }
}
