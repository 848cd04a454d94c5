//! Where a served contract keeps its records.

use std::path::Path;

use enact_journal::nats::Options;
use enact_journal_kit::nats;

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
}

/// Servers of NATS that run until they are dropped.
pub(crate) struct Servers(Vec<nats::Server>);

impl Journal {
    /// What the tables call `serving` with records there.
    pub(crate) fn name(self, serving: &str) -> String {
        match self {
            Self::Directory => serving.to_owned(),
            Self::Nats => format!("{serving}, NATS"),
            Self::NatsThree => format!("{serving}, 3 NATS"),
        }
    }

    /// Starts the servers that it takes, which keep their files in `directory`.
    ///
    /// # Panics
    /// If one of them does not start.
    pub(crate) fn start(self, directory: &Path) -> Result<Servers, BenchError> {
        let program = || {
            let cause = "there is no `nats-server`, and no Go to install it with".to_owned();
            nats::program().ok_or(BenchError::Server { doing: "starting NATS", cause })
        };
        Ok(Servers(match self {
            Self::Directory => Vec::new(),
            Self::Nats => vec![nats::Server::start(&program()?, directory)],
            Self::NatsThree => nats::Server::start_three(&program()?, directory).into(),
        }))
    }
}

impl Servers {
    /// What opens a journal of them; nothing if there are none.
    pub(crate) fn options(&self, shard: u16) -> Option<Options> {
        let options = Options { shard, replicas: self.0.len(), ..Options::at(&self.addresses()) };
        (!self.0.is_empty()).then_some(options)
    }

    /// Where they are, separated by commas.
    pub(crate) fn addresses(&self) -> String {
        self.0.iter().map(nats::Server::address).collect::<Vec<_>>().join(",")
    }

    /// What tells `enact serve` of them; nothing if there are none.
    pub(super) fn arguments(&self) -> Vec<String> {
        if self.0.is_empty() {
            return Vec::new();
        }
        vec!["--journal".to_owned(), self.addresses(), "--replicas".to_owned(), self.0.len().to_string()]
    }
}
