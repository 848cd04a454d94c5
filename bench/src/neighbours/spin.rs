//! A process that uses a part of a core and nothing else.

use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::measure::{Process, cpu_time_of_thread};
use crate::served::BenchError;

/// The command of the program under which it is the busy process.
pub const SPIN_COMMAND: &str = "neighbours-spin";

/// For how long it spins, or rests, before it looks at the clocks.
const STEP: Duration = Duration::from_micros(200);

/// How busy to be.
#[derive(Debug, Clone, clap::Args)]
pub struct SpinOptions {
    /// The part of a core that it uses, if it gets so much
    #[arg(long)]
    pub cores: f64,
}

/// Uses the processor until the process is killed.
pub fn spin(options: &SpinOptions) -> ! {
    let begin = Instant::now();
    loop {
        if cpu_time_of_thread().as_secs_f64() < options.cores * begin.elapsed().as_secs_f64() {
            let step = Instant::now();
            while step.elapsed() < STEP {
                std::hint::spin_loop();
            }
        } else {
            thread::sleep(STEP);
        }
    }
}

/// The busy process; killed when dropped.
pub(super) struct Spinning {
    process: Child,
    id: u32,
    begin: Instant,
}

impl Spinning {
    /// Starts the program `own` as one that uses `cores` of a core.
    pub(super) fn start(own: &Path, cores: f64) -> Result<Self, BenchError> {
        let mut command = Command::new(own);
        command.arg(SPIN_COMMAND).arg(format!("--cores={cores}")).stdout(Stdio::null()).kill_on_drop(true);
        let process = command.spawn().map_err(|cause| failed(&cause))?;
        let id = process.id().expect("nothing has awaited its end");
        Ok(Self { process, id, begin: Instant::now() })
    }

    /// Ends it. Returns the part of a core that it has used.
    pub(super) async fn stop(mut self) -> Result<f64, BenchError> {
        let used = Process::of(self.id).cpu_time().unwrap_or_default();
        let cores = used.as_secs_f64() / self.begin.elapsed().as_secs_f64();
        self.process.kill().await.map_err(|cause| failed(&cause))?;
        Ok(cores)
    }
}

fn failed(cause: &std::io::Error) -> BenchError {
    BenchError::Server { doing: "keeping a core busy", cause: cause.to_string() }
}
