//! A served contract as a process of its own, and clients of it.

mod client;
mod load;
mod report;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

pub(crate) use self::client::{Answer, Client};
pub use self::load::Load;
pub(crate) use self::load::{Request, Tally, Workload};
pub use self::report::{Report, Sample};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The program `enact` could not be built.
    #[error("cannot build `enact`: name it by --program, or run this in its workspace")]
    Build(#[source] io::Error),
    /// The server could not be started or spoken to.
    #[error("the served bank failed while {doing}: {cause}")]
    Server {
        /// What the benchmark was doing.
        doing: &'static str,
        /// What went wrong.
        cause: String,
    },
    /// A request was answered by something else than success or a refusal.
    #[error("a request was answered with status {status}: {body}")]
    Unexpected {
        /// HTTP status.
        status: u16,
        /// The answer's body.
        body: String,
    },
    /// The oracle refused the result.
    #[error("money was not conserved: there are EUR {found}.00 but EUR {expected}.00 was paid in")]
    NotConserved {
        /// Sum of the balances read back.
        found: u64,
        /// Sum paid in.
        expected: u64,
    },
    /// The report could not be written.
    #[error("cannot write {}: {cause}", path.display())]
    Report {
        /// Where to.
        path: PathBuf,
        /// What went wrong.
        cause: io::Error,
    },
}

/// `enact serve` on a fresh data directory and a free port; killed when dropped.
pub(crate) struct Served {
    process: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl Served {
    /// Serves the contract `spec`.
    pub(crate) async fn start(
        program: &Path,
        parent: &Path,
        spec: &str,
        admission: &str,
        sync_min: Option<Duration>,
    ) -> Result<Self, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "starting", cause };
        let directory = tempfile::Builder::new()
            .prefix("enact-bench-")
            .tempdir_in(parent)
            .map_err(|cause| failed(format!("no data directory in {}: {cause}", parent.display())))?;
        let file = directory.path().join("bench.rebel");
        std::fs::write(&file, spec).map_err(|cause| failed(cause.to_string()))?;
        let mut process = Command::new(program)
            .arg("serve")
            .arg(&file)
            .args(["--listen", "127.0.0.1:0", "--admission", admission, "--data"])
            .arg(directory.path().join("data"))
            .args(sync_min.map(|time| format!("--sync-min={}us", time.as_micros())))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|cause| failed(format!("{}: {cause}", program.display())))?;
        let stdout = process.stdout.take().expect("stdout is piped");
        let mut lines = BufReader::new(stdout).lines();
        while let Some(line) = lines.next_line().await.map_err(|cause| failed(cause.to_string()))? {
            if let Some(address) = line.strip_prefix("listening on http://") {
                let address = address.parse().map_err(|_| failed(format!("no address in `{line}`")))?;
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return Ok(Self { process, address, directory });
            }
        }
        Err(failed("it ended before it listened; its message stands above".to_owned()))
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) async fn stop(mut self) -> Result<(), BenchError> {
        let failed = |cause: io::Error| BenchError::Server { doing: "stopping", cause: cause.to_string() };
        self.process.kill().await.map_err(failed)?;
        self.directory.close().map_err(failed)
    }
}
