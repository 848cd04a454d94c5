//! The bank under test, as a process of its own.
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::BenchError;

const SPEC: &str = include_str!("transfers.rebel");

/// `enact serve` on a fresh data directory and a free port; killed when dropped.
pub(super) struct ServedBank {
    process: Child,
    address: SocketAddr,
    directory: TempDir,
}

impl ServedBank {
    pub(super) async fn start(program: &Path, parent: &Path, admission: &str) -> Result<Self, BenchError> {
        let failed = |cause: String| BenchError::Server { doing: "starting", cause };
        let directory = tempfile::Builder::new()
            .prefix("enact-bench-")
            .tempdir_in(parent)
            .map_err(|cause| failed(format!("no data directory in {}: {cause}", parent.display())))?;
        let spec = directory.path().join("transfers.rebel");
        std::fs::write(&spec, SPEC).map_err(|cause| failed(cause.to_string()))?;
        let mut process = Command::new(program)
            .arg("serve")
            .arg(&spec)
            .args(["--listen", "127.0.0.1:0", "--admission", admission, "--data"])
            .arg(directory.path().join("data"))
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

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) async fn stop(mut self) -> Result<(), BenchError> {
        let failed = |cause: std::io::Error| BenchError::Server { doing: "stopping", cause: cause.to_string() };
        self.process.kill().await.map_err(failed)?;
        self.directory.close().map_err(failed)
    }
}
