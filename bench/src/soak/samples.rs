//! Reads what a server takes, while it serves.

use std::path::Path;
use std::time::Instant;
use std::{fs, io};

use super::growth::Sample;
use crate::served::{BenchError, Client, Served};

/// Reads what `served` takes, `begun` ago; so many `objects` were made.
pub(super) async fn sample(served: &Served, begun: Instant, objects: u64) -> Result<Sample, BenchError> {
    let process = served.process();
    let failed = |cause: String| BenchError::Server { doing: "watching it", cause };
    let gone = || failed("it has ended, or the system does not tell what it takes".to_owned());
    let mut client = Client::connect(served.address()).await?;
    let metrics = client.text("/metrics").await?;
    let records = metrics.lines().find_map(|line| line.strip_prefix("enact_journal_records ")?.parse().ok());
    Ok(Sample {
        seconds: begun.elapsed().as_secs_f64(),
        resident_bytes: process.resident_bytes().ok_or_else(gone)? as f64,
        descriptors: process.descriptors().ok_or_else(gone)? as f64,
        threads: process.threads().ok_or_else(gone)? as f64,
        directory_bytes: bytes_of(&served.data()).map_err(|cause| failed(cause.to_string()))? as f64,
        objects: objects as f64,
        records: records.ok_or_else(|| failed(format!("no count of records in {metrics}")))?,
    })
}

/// The lengths of all files below `directory`, but of those that vanish meanwhile.
fn bytes_of(directory: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        bytes += match entry.metadata() {
            Ok(found) if found.is_dir() => bytes_of(&entry.path())?,
            Ok(found) => found.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(error),
        };
    }
    Ok(bytes)
}
