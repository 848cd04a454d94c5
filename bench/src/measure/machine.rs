//! The machine that was measured on, and what else ran on it.
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, fs, thread};

use serde::{Deserialize, Serialize};

use super::sample::cpu_time_of_process;

/// What a reader of figures has to know about where they come from; `None` where this system does not tell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub processor: Option<String>,
    /// Threads that can run at once.
    pub cores: usize,
    /// Main memory in MiB.
    pub memory_mib: Option<u64>,
    /// Caches of the first core.
    pub caches: Vec<Cache>,
    /// Operating system and architecture.
    pub system: String,
    /// Release of the operating system.
    pub release: Option<String>,
    /// Version of the operating system's kernel.
    pub kernel: Option<String>,
    /// Version of Enact.
    pub version: String,
    /// Version of the compiler that built it.
    pub compiler: String,
    /// Where its heap comes from.
    pub allocator: String,
    /// Whether the program was built without optimisation: its figures mean nothing then.
    pub debug_build: bool,
    /// When the measurement began.
    pub date: String,
    /// Runnable threads, averaged over the last minute, when the measurement began.
    pub load_before: Option<f64>,
    /// The same when it ended.
    pub load_after: Option<f64>,
}

/// One cache of a core.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What it keeps: data, instructions, or both (unified).
    pub kind: String,
    /// How much, with its unit.
    pub size: String,
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "L{} {} {}", self.level, self.kind, self.size)
    }
}

impl Machine {
    /// This machine, now.
    pub fn here() -> Self {
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: thread::available_parallelism().map_or(1, usize::from),
            memory_mib: field("/proc/meminfo", "MemTotal").and_then(|kib| mib(&kib)),
            caches: caches(Path::new("/sys/devices/system/cpu/cpu0/cache")),
            release: read("/etc/os-release").and_then(|text| pretty_name(&text)),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            kernel: read("/proc/sys/kernel/osrelease").map(|release| release.trim().to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            compiler: env!("ENACT_COMPILER").to_owned(),
            allocator: format!("malloc of {}", if cfg!(target_env = "gnu") { "glibc" } else { "the C library" }),
            date: httpdate::fmt_http_date(SystemTime::now()),
            debug_build: cfg!(debug_assertions),
            load_before: load(),
            load_after: None,
        }
    }

    /// Notes the load at the end of the measurement.
    pub fn measured(&mut self) {
        self.load_after = load();
    }
}

impl Machine {
    /// Its cores and processor.
    pub(crate) fn in_short(&self) -> String {
        let processor = self.processor.as_deref().unwrap_or("an unknown processor");
        format!("{} cores of {processor}", self.cores)
    }

    /// Names and values of what is known about it.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let load = |load: Option<f64>| load.map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
        let words = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
        let caches: Vec<_> = self.caches.iter().map(ToString::to_string).collect();
        let fact = |name: &str, value: &dyn fmt::Display| (name.to_owned(), value.to_string());
        let mut facts = vec![
            fact("begun", &self.date),
            fact("processor", &words(&self.processor)),
            fact("cores", &self.cores),
            fact("caches of a core", &caches.join(", ")),
            fact("memory", &self.memory_mib.map_or_else(|| "unknown".to_owned(), |mib| format!("{mib} MiB"))),
            fact("system", &format!("{}, {}", words(&self.release), self.system)),
            fact("kernel", &words(&self.kernel)),
            fact("load before and after", &format!("{}, {}", load(self.load_before), load(self.load_after))),
            fact("Enact", &format!("{}, {}, {}", self.version, self.compiler, self.allocator)),
        ];
        if self.debug_build {
            facts.push(fact("build", &"without optimisation: these figures mean nothing"));
        }
        facts
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unknown = "processor unknown";
        write!(f, "{}, {} cores", self.processor.as_deref().unwrap_or(unknown), self.cores)?;
        if let Some(memory) = self.memory_mib {
            write!(f, ", {memory} MiB")?;
        }
        write!(f, ", {}", self.system)?;
        if let Some(kernel) = &self.kernel {
            write!(f, " {kernel}")?;
        }
        write!(f, ", enact {}", self.version)?;
        if let (Some(before), Some(after)) = (self.load_before, self.load_after) {
            write!(f, ", load {before:.1} to {after:.1}")?;
        }
        if self.debug_build {
            write!(f, "\nA build without optimisation: these figures mean nothing")?;
        }
        Ok(())
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

pub(super) fn field(path: &str, name: &str) -> Option<String> {
    field_of(&read(path)?, name).map(str::to_owned)
}

/// The value in the first line `name : value` of `text`.
fn field_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.map(|(key, value)| (key.trim(), value.trim())).find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// What `directory` says, nearest first.
fn caches(directory: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let cache = |entry: fs::DirEntry| {
        let text = |name| fs::read_to_string(entry.path().join(name)).ok().map(|text| text.trim().to_owned());
        Some(Cache { level: text("level")?.parse().ok()?, kind: text("type")?.to_lowercase(), size: text("size")? })
    };
    let mut caches: Vec<_> = entries.filter_map(|entry| cache(entry.ok()?)).collect();
    caches.sort_by(|a, b| (a.level, &a.kind).cmp(&(b.level, &b.kind)));
    caches
}

/// The name in an `os-release` file.
fn pretty_name(text: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    Some(line.trim_matches('"').to_owned())
}

fn mib(kib: &str) -> Option<u64> {
    Some(kib.strip_suffix(" kB")?.parse::<u64>().ok()? / 1024)
}

fn load() -> Option<f64> {
    read("/proc/loadavg")?.split(' ').next()?.parse().ok()
}

/// Ticks a second in which Linux counts CPU time, the same on all its architectures that matter here.
pub(super) const TICKS_PER_SECOND: f64 = 100.0;

/// How much CPU time this process, and how much all of them, have used up to a moment.
#[derive(Debug)]
pub(super) struct Occupation {
    at: Instant,
    own: Duration,
    all_ticks: u64,
    processors: usize,
}

impl Occupation {
    pub(super) fn now() -> Option<Self> {
        let stat = read("/proc/stat")?;
        let (all_ticks, processors) = (busy_ticks(&stat)?, processors(&stat));
        Some(Self { at: Instant::now(), own: cpu_time_of_process(), all_ticks, processors })
    }

    /// The share of the machine's CPU time since `earlier` that other processes used, but for `helpers_cpu`.
    pub(super) fn others_since(earlier: Option<Self>, helpers_cpu: Duration) -> Option<f64> {
        let (earlier, now) = (earlier?, Self::now()?);
        let wall = (now.at - earlier.at).as_secs_f64();
        let own = (now.own.saturating_sub(earlier.own) + helpers_cpu).as_secs_f64();
        share_of_others(now.all_ticks.saturating_sub(earlier.all_ticks), own, wall, now.processors)
    }
}

/// None for a time so short that a tick on each core decides.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn share_of_others(all_ticks: u64, own_s: f64, wall_s: f64, processors: usize) -> Option<f64> {
    let whole = wall_s * processors as f64;
    let tells = wall_s * TICKS_PER_SECOND >= 20.0;
    tells.then(|| ((all_ticks as f64 / TICKS_PER_SECOND - own_s) / whole).clamp(0.0, 1.0))
}

/// Ticks that were neither idle nor waiting for a disk, of all processors; time stolen by the host counts as busy.
fn busy_ticks(stat: &str) -> Option<u64> {
    let mut ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse::<u64>);
    let mut next = || ticks.next()?.ok();
    let (user, nice, system, _idle, _disk) = (next()?, next()?, next()?, next()?, next()?);
    let (interrupts, soft_interrupts, stolen) = (next()?, next()?, next()?);
    Some(user + nice + system + interrupts + soft_interrupts + stolen)
}

/// Processors that the ticks are of, whether or not this process may run on them.
fn processors(stat: &str) -> usize {
    stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu ")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: A Processor @ 2.7GHz\nmodel name\t: another\n";
        assert_eq!(field_of(text, "model name"), Some("A Processor @ 2.7GHz"));
        assert_eq!(field_of(text, "name"), None);
        assert_eq!(field_of("MemTotal:       2048 kB\n", "MemTotal").and_then(mib), Some(2));
    }

    #[test]
    fn caches_are_in_order_of_their_distance() {
        let directory = tempfile::tempdir().expect("a place for the test");
        for (index, texts) in
            [["2", "Unified", "1024K"], ["1", "Instruction", "32K"], ["1", "Data", "48K"]].iter().enumerate()
        {
            let cache = directory.path().join(format!("index{index}"));
            fs::create_dir(&cache).expect("a directory");
            for (name, text) in ["level", "type", "size"].iter().zip(texts) {
                fs::write(cache.join(name), format!("{text}\n")).expect("a file");
            }
        }
        fs::write(directory.path().join("uevent"), "").expect("a file that is no cache");
        let found: Vec<_> = caches(directory.path()).iter().map(ToString::to_string).collect();
        assert_eq!(found, ["L1 data 48K", "L1 instruction 32K", "L2 unified 1024K"]);
        assert_eq!(caches(&directory.path().join("nowhere")), []);
    }

    #[test]
    fn the_release_is_named_as_people_name_it() {
        let text = "NAME=\"A System\"\nPRETTY_NAME=\"A System 12 (worm)\"\nID=a\n";
        assert_eq!(pretty_name(text), Some("A System 12 (worm)".to_owned()));
        assert_eq!(pretty_name("ID=a\n"), None);
    }

    #[test]
    fn busy_ticks_leave_out_idle_and_disk_and_guests() {
        let stat = "cpu  1 20 300 4000 50000 600000 7000000 80000000 9 9\ncpu0 1 1\ncpu1 1 1\nintr 1 2\n";
        assert_eq!((busy_ticks(stat), processors(stat)), (Some(87_600_321), 2));
        assert_eq!(busy_ticks("intr 1 2"), None);
    }

    #[test]
    fn others_are_what_is_busy_beside_this_process() {
        // One second on two cores: 150 ticks busy, of which one second ours: half a second of two was others'.
        assert_eq!(share_of_others(150, 1.0, 1.0, 2), Some(0.25));
        assert_eq!(share_of_others(90, 1.0, 1.0, 2), Some(0.0));
        assert_eq!(share_of_others(10, 0.1, 0.1, 2), None);
    }
}
