//! What the process takes of its machine, under the names that Prometheus has for that; on Linux.

use std::fmt::{self, Write};

use super::head;

/// What is running, and what it takes as far as the system says.
pub(super) fn write(text: &mut String) -> fmt::Result {
    let name = "enact_build_info";
    head(text, name, "gauge", "The version of the program, always 1.")?;
    writeln!(text, "{name}{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION"))?;
    #[cfg(target_os = "linux")]
    for (name, kind, help, value) in linux::figures().unwrap_or_default() {
        head(text, name, kind, help)?;
        writeln!(text, "{name} {value}")?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
mod linux {
    use procfs::process::{LimitValue, Process};
    use procfs::{ProcResult, WithCurrentSystemInfo, boot_time_secs, ticks_per_second};

    /// A metric with its kind, its text and its value.
    type Figure = (&'static str, &'static str, &'static str, f64);

    pub(super) fn figures() -> ProcResult<Vec<Figure>> {
        let process = Process::myself()?;
        let stat = process.stat()?;
        let seconds = |ticks: u64| ticks as f64 / ticks_per_second() as f64;
        let mut figures = vec![
            ("process_cpu_seconds_total", "counter", "CPU time of the process.", seconds(stat.utime + stat.stime)),
            (
                "process_start_time_seconds",
                "gauge",
                "When the process was started, in Unix time.",
                boot_time_secs()? as f64 + seconds(stat.starttime),
            ),
            (
                "process_resident_memory_bytes",
                "gauge",
                "Memory that the process has resident.",
                stat.rss_bytes().get() as f64,
            ),
            ("process_open_fds", "gauge", "Open file descriptors.", process.fd_count()? as f64),
        ];
        if let LimitValue::Value(max) = process.limits()?.max_open_files.soft_limit {
            figures.push(("process_max_fds", "gauge", "Most open file descriptors.", max as f64));
        }
        Ok(figures)
    }
}
