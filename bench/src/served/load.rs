//! How much is asked, of which servers, in which order.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{BenchError, Report, Sample, Served, Server, Window, Workload};
use crate::peers;

/// How many clients ask how often.
#[derive(Debug, Clone, clap::Args)]
pub struct Load {
    /// Numbers of concurrent clients, one measurement each.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub clients: Vec<usize>,
    /// Length of each measured window, in seconds.
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Unmeasured time before each window, in seconds.
    #[arg(long, default_value_t = 2)]
    pub warm_up: u64,
    /// Admission strategies to compare, interleaved.
    #[arg(long, value_delimiter = ',', default_values_t = ["serializable".to_owned()])]
    pub admission: Vec<String>,
    /// How often each measurement is repeated; the table shows the median run.
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed of the clients' draws.
    #[arg(long, default_value_t = 74_755)]
    pub seed: u64,
    /// The program `enact` that serves; built with cargo from this workspace, as its users build it, when missing.
    #[arg(long, value_name = "PATH")]
    pub program: Option<PathBuf>,
    /// Parent of the fresh data directories; on the disk that is to be measured.
    #[arg(long, default_value = ".")]
    pub data: PathBuf,
    /// The time in milliseconds that a sync takes at least, whatever the disk takes.
    #[arg(long, value_name = "MS")]
    pub sync_ms: Option<u64>,
    /// Writes all samples as JSON.
    #[arg(long)]
    pub json: Option<PathBuf>,
}

impl Load {
    /// Measures every combination of workload, clients and admission strategy, interleaved over the rounds.
    pub(crate) fn run<W: Workload>(&self, workloads: &[W]) -> Result<Report, BenchError> {
        let program = self.program()?;
        let servers: Vec<_> = self.admission.iter().map(|admission| Server::enact(&program, admission)).collect();
        self.run_on(workloads, &servers)
    }

    /// The program that serves.
    pub(crate) fn program(&self) -> Result<PathBuf, BenchError> {
        program(self.program.as_deref())
    }

    /// Measures every combination of workload, clients and server, interleaved over the rounds.
    pub(crate) fn run_on<W: Workload>(&self, workloads: &[W], servers: &[Server]) -> Result<Report, BenchError> {
        let report = block_on(self.measure_all(workloads, servers))?;
        if let Some(path) = &self.json {
            report.write_json(path)?;
        }
        Ok(report)
    }

    async fn measure_all<W: Workload>(&self, workloads: &[W], servers: &[Server]) -> Result<Report, BenchError> {
        let windows = self.rounds * workloads.len() * self.clients.len() * servers.len();
        let bar = ProgressBar::new(windows as u64).with_style(
            ProgressStyle::with_template("{bar:30} {pos}/{len} {msg} (eta {eta})")
                .expect("the template is well formed"),
        );
        let mut samples = Vec::with_capacity(windows);
        for round in 0..self.rounds {
            for &clients in &self.clients {
                for workload in workloads {
                    for server in servers {
                        bar.set_message(format!("{}, {clients} clients, {}", workload.name(), server.name));
                        samples.push(self.measure(workload, server, clients, round).await?);
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(Report { seconds: self.seconds, samples })
    }

    /// The time that a sync takes at least.
    pub(crate) fn sync_min(&self) -> Option<Duration> {
        self.sync_ms.map(Duration::from_millis)
    }

    /// The measured time of `round`.
    pub(crate) fn window(&self, round: usize) -> Window {
        Window {
            warm_up: Duration::from_secs(self.warm_up),
            length: Duration::from_secs(self.seconds),
            seed: self.seed ^ ((round as u64) << 32),
        }
    }

    async fn measure<W: Workload>(
        &self,
        workload: &W,
        server: &Server,
        clients: usize,
        round: usize,
    ) -> Result<Sample, BenchError> {
        let served = Served::start(server, &self.data, workload.contract(), self.sync_min()).await?;
        workload.open(&served, clients).await?;
        let (tally, cpu) = self.window(round).measure(&served, workload, clients).await?;
        workload.verify(&served, &tally).await?;
        served.stop().await?;
        let mut sample = Sample::of(&tally, self.seconds, cpu);
        sample.workload = workload.name().to_owned();
        sample.server.clone_from(&server.name);
        sample.clients = clients;
        sample.aim_of_locking = workload.aim_of_locking(clients, self.sync_min());
        Ok(sample)
    }
}

/// The program `enact` that serves: the one that is named, or else built with cargo.
pub(crate) fn program(named: Option<&Path>) -> Result<PathBuf, BenchError> {
    let program = match named {
        Some(program) => program.to_owned(),
        None => peers::cargo_program(Path::new("."), "enact-cli").map_err(BenchError::Build)?,
    };
    eprintln!("serves the bank: {}", program.display());
    Ok(program)
}

/// Runs a load generator on this thread, which waits for all of its sockets.
pub(crate) fn block_on<T, E: From<BenchError>>(load: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let failed =
        |cause: io::Error| BenchError::Server { doing: "starting the load generator", cause: cause.to_string() };
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?.block_on(load)
}
