//! The served program as a process of its own.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::BenchError;
use super::journals::{Journal, Servers};
use crate::measure::Process;

/// A server that can be started.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    /// What the tables call it.
    pub(crate) name: String,
    program: PathBuf,
    role: Role,
    /// Behind those of its role.
    arguments: &'static [&'static str],
}

#[derive(Debug, Clone)]
enum Role {
    /// `enact serve` with this admission strategy and this journal.
    Enact { admission: String, journal: Journal },
    /// This program, with this argument.
    Own { command: &'static str },
}

impl Server {
    /// `enact serve` with this admission strategy, under whose name it goes.
    pub(crate) fn enact(program: &Path, admission: &str) -> Self {
        Self::enact_over(program, admission, Journal::Directory)
    }

    /// `enact serve` with this admission strategy and this journal, under whose names it goes.
    pub(crate) fn enact_over(program: &Path, admission: &str, journal: Journal) -> Self {
        let role = Role::Enact { admission: admission.to_owned(), journal };
        Self { name: journal.name(admission), program: program.to_owned(), role, arguments: &[] }
    }

    /// A server that the program `own` is under `command`.
    pub(crate) fn own(name: &str, own: &Path, command: &'static str) -> Self {
        Self { name: name.to_owned(), program: own.to_owned(), role: Role::Own { command }, arguments: &[] }
    }

    /// The same with further arguments.
    pub(crate) fn with_arguments(self, arguments: &'static [&'static str]) -> Self {
        Self { arguments, ..self }
    }

    fn journal(&self) -> Journal {
        match self.role {
            Role::Enact { journal, .. } => journal,
            Role::Own { .. } => Journal::Directory,
        }
    }

    /// The command that serves from `servers`, or from `directory` if there are none, and says where on its first line.
    fn command(&self, directory: &Path, servers: &Servers, spec: &Path, sync_min: Option<Duration>) -> Command {
        let mut command = Command::new(&self.program);
        match &self.role {
            Role::Enact { admission, .. } => {
                command.arg("serve").arg(spec).args(["--listen", "127.0.0.1:0", "--admission", admission]);
                command.args(["--log", "warn"]);
            }
            Role::Own { command: role } => _ = command.arg(role),
        }
        command.args(self.arguments);
        let elsewhere = servers.arguments();
        if !elsewhere.is_empty() {
            command.args(elsewhere);
            return command;
        }
        command.arg("--data").arg(directory.join(Served::DATA));
        command.args(sync_min.map(|time| format!("--sync-min={}us", time.as_micros())));
        command
    }
}

/// How long a server may take to stop.
const STOPS_WITHIN: Duration = Duration::from_secs(10);

/// A running server on a fresh data directory and a free port; killed when dropped.
pub(crate) struct Served {
    process: Child,
    id: u32,
    address: SocketAddr,
    /// What has its records, if no directory has.
    servers: Servers,
    directory: TempDir,
}

impl Served {
    /// The file of the specification, in the directory of the server.
    pub(crate) const SPEC: &str = "bench.rebel";
    /// The data directory, beside it.
    pub(crate) const DATA: &str = "data";

    /// Serves the contract `spec` from a directory in `parent`.
    pub(crate) async fn start(
        server: &Server,
        parent: &Path,
        spec: &str,
        sync_min: Option<Duration>,
    ) -> Result<Self, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "starting", cause };
        let directory = tempfile::Builder::new()
            .prefix("enact-bench-")
            .tempdir_in(parent)
            .map_err(|cause| failed(format!("no data directory in {}: {cause}", parent.display())))?;
        let file = directory.path().join(Self::SPEC);
        std::fs::write(&file, spec).map_err(|cause| failed(cause.to_string()))?;
        let servers = server.journal().start(directory.path())?;
        Self::launch(server, directory, servers, sync_min).await
    }

    /// Serves what is in `directory`, or in `servers`.
    async fn launch(
        server: &Server,
        directory: TempDir,
        servers: Servers,
        sync_min: Option<Duration>,
    ) -> Result<Self, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "starting", cause };
        let file = directory.path().join(Self::SPEC);
        let mut process = server
            .command(directory.path(), &servers, &file, sync_min)
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| failed(format!("{}: {cause}", server.program.display())))?;
        let id = process.id().expect("nothing has awaited its end");
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await.map_err(|cause| failed(cause.to_string()))? {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let address = address.parse().map_err(|_| failed(format!("no address in `{line}`")))?;
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { process, id, address, servers, directory });
            }
        }
        Err(failed("it ended before it listened; its message stands above".to_owned()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn process(&self) -> Process {
        Process::of(self.id)
    }

    /// Where its records are, if they are in a directory.
    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join(Self::DATA)
    }

    /// The CPU time that it has used so far, where the system tells.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        Process::of(self.id).cpu_time()
    }

    /// Asks the server to stop, as an operator does, and kills it if it does not within [`STOPS_WITHIN`].
    pub(crate) async fn stop(self) -> Result<(), BenchError> {
        let failed = |cause: io::Error| BenchError::Server { doing: "stopping", cause: cause.to_string() };
        let (directory, servers) = self.stopped().await?;
        drop(servers);
        directory.close().map_err(failed)
    }

    /// The same; what it has stored stays as long as the directory, which has the file [`SPEC`](Self::SPEC) and [`DATA`](Self::DATA).
    pub(crate) async fn stop_keeping(self) -> Result<TempDir, BenchError> {
        Ok(self.stopped().await?.0)
    }

    /// Stops it, and starts `server` on what it has stored.
    pub(crate) async fn restarted(self, server: &Server) -> Result<Self, BenchError> {
        let (directory, servers) = self.stopped().await?;
        Self::launch(server, directory, servers, None).await
    }

    async fn stopped(mut self) -> Result<(TempDir, Servers), BenchError> {
        let failed = |cause: io::Error| BenchError::Server { doing: "stopping", cause: cause.to_string() };
        let process = i32::try_from(self.id).ok().and_then(Pid::from_raw).expect("the system has numbered it");
        kill_process(process, Signal::TERM).map_err(|cause| failed(cause.into()))?;
        match timeout(STOPS_WITHIN, self.process.wait()).await {
            Ok(ended) => drop(ended.map_err(failed)?),
            Err(_) => self.process.kill().await.map_err(failed)?,
        }
        Ok((self.directory, self.servers))
    }
}
