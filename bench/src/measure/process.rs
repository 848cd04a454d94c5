//! What the operating system tells about a process, which may be another one.
use std::time::Duration;
use std::{fs, thread};

use super::machine::{TICKS_PER_SECOND, field};

/// How long a process is watched to see whether it rests.
const WATCHED: Duration = Duration::from_millis(20);
/// What a process that rests may use meanwhile: threads that poll now and then are at rest.
const AT_REST_MAX: Duration = Duration::from_millis(1);
/// How often it is watched before it is left alone.
const WATCHES_MAX: u32 = 50;

/// A process that runs.
#[derive(Debug, Clone, Copy)]
pub struct Process(u32);

impl Process {
    /// The one with this number.
    pub fn of(id: u32) -> Self {
        Self(id)
    }

    /// This one.
    pub fn own() -> Self {
        Self(std::process::id())
    }

    /// User and system time of all its threads in hundredths of a second, where the system tells.
    pub fn cpu_time(self) -> Option<Duration> {
        Stat::of(&fs::read_to_string(self.path("stat")).ok()?).map(|stat| stat.own)
    }

    /// The same with its children's time, also that of children that have ended and were waited for.
    pub fn cpu_time_with_children(self) -> Option<Duration> {
        let own = Stat::of(&fs::read_to_string(self.path("stat")).ok()?)?;
        let processes = fs::read_dir("/proc").ok()?.flatten();
        // A process may end while they are looked at.
        let stats = processes.filter_map(|process| Stat::of(&fs::read_to_string(process.path().join("stat")).ok()?));
        let children: Duration = stats.filter(|stat| stat.parent == self.0).map(|stat| stat.own).sum();
        Some(own.own + own.children_gone + children)
    }

    /// Waits until the process has used next to no CPU time for 20 ms, at most for a second; not at all where the system
    /// does not tell.
    ///
    /// Runtimes search for work, collect garbage and tidy up when they have given their answer, for a tenth of a second and
    /// longer, which would slow down whatever is measured next.
    pub fn await_rest(self) {
        watch(|| self.running_time(), || thread::sleep(WATCHED));
    }

    /// How long its present threads have run, up to the last tick of the scheduler.
    fn running_time(self) -> Option<Duration> {
        let threads = fs::read_dir(self.path("task")).ok()?.flatten();
        // A thread may end while they are looked at.
        let texts = threads.filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok());
        texts.map(|text| running_time_in(&text)).sum()
    }

    /// How much of its memory is resident, in bytes; `None` where the system does not tell, or the process has ended.
    ///
    /// What the process has freed counts as long as its allocator keeps it.
    pub fn resident_bytes(self) -> Option<u64> {
        bytes_in(&field(&self.path("status"), "VmRSS")?)
    }

    /// How many descriptors it has open; `None` where the system does not tell.
    pub fn descriptors(self) -> Option<usize> {
        Some(fs::read_dir(self.path("fd")).ok()?.count())
    }

    /// How many threads it has; `None` where the system does not tell.
    pub fn threads(self) -> Option<usize> {
        Some(fs::read_dir(self.path("task")).ok()?.count())
    }

    /// Lets the system forget how much memory the process once had; `None` where it cannot.
    pub fn watch_memory(self) -> Option<PeakMemory> {
        fs::write(self.path("clear_refs"), "5").ok()?;
        Some(PeakMemory(self))
    }

    fn path(self, file: &str) -> String {
        format!("/proc/{}/{file}", self.0)
    }
}

/// The memory of a process from a moment on.
#[derive(Debug)]
pub struct PeakMemory(Process);

impl PeakMemory {
    /// The most that was resident since that moment, in MiB; `None` when the process has ended.
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub fn mib(&self) -> Option<f64> {
        let bytes = bytes_in(&field(&self.0.path("status"), "VmHWM")?)?;
        Some(bytes as f64 / f64::from(1 << 20))
    }
}

/// An amount of memory as the fields of `status` have it.
fn bytes_in(amount: &str) -> Option<u64> {
    amount.strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

/// What `stat` tells of a process.
#[derive(Debug, PartialEq)]
struct Stat {
    parent: u32,
    /// User and system time of its threads.
    own: Duration,
    /// That of its children that have ended and were waited for.
    children_gone: Duration,
}

impl Stat {
    /// The fields 4, 14 and 15, and 16 and 17; the name in field 2 may have spaces and brackets in it.
    fn of(stat: &str) -> Option<Self> {
        let mut fields = stat[stat.rfind(')')? + 1..].split_ascii_whitespace().skip(1);
        let parent = fields.next()?.parse().ok()?;
        let mut fields = fields.skip(9);
        let mut ticks = || fields.next()?.parse::<f64>().ok();
        let mut both = || Some(Duration::from_secs_f64((ticks()? + ticks()?) / TICKS_PER_SECOND));
        Some(Self { parent, own: both()?, children_gone: both()? })
    }
}

/// Looks at the running time before and after each pause, until a process with these times rests.
fn watch(mut running_time: impl FnMut() -> Option<Duration>, mut pause: impl FnMut()) {
    for _ in 0..WATCHES_MAX {
        let Some(before) = running_time() else { return };
        pause();
        let Some(after) = running_time() else { return };
        // It is less than before if a thread has ended, whatever the others have used.
        if after.checked_sub(before).is_some_and(|used| used < AT_REST_MAX) {
            return;
        }
    }
}

/// The first field of a thread's `schedstat`, in nanoseconds.
fn running_time_in(schedstat: &str) -> Option<Duration> {
    schedstat.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Held by tests that look at the memory of this process.
    static TURN: Mutex<()> = Mutex::new(());

    #[test]
    fn cpu_time_is_user_and_system_time_whatever_the_name() {
        let stat = "42 (a) (b c) R 1 2 3 4 5 6 7 8 9 10 150 50 7 7 20 0";
        let (own, children_gone) = (Duration::from_secs(2), Duration::from_millis(140));
        assert_eq!(Stat::of(stat), Some(Stat { parent: 1, own, children_gone }));
        assert_eq!(Stat::of("42 (a) R 1"), None);
    }

    #[test]
    fn cpu_time_of_children_counts_while_they_run_and_after_they_were_waited_for() {
        let spin = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
        let parent = |script: String| {
            let mut parent = std::process::Command::new("sh");
            parent.args(["-c", &script]).stdin(std::process::Stdio::piped()).spawn().expect("it starts")
        };
        // One whose child goes on, and one that has waited for its child.
        for script in ["sh -c 'while :; do :; done' & read -r _; kill $!", &format!("sh -c '{spin}'; read -r _")] {
            let mut parent = parent((*script).to_owned());
            let process = Process::of(parent.id());
            // A figure that stays what it is would keep this test from ending.
            while process.cpu_time_with_children() < process.cpu_time().map(|own| own + 2 * AT_REST_MAX) {
                thread::yield_now();
            }
            drop(parent.stdin.take());
            parent.wait().expect("it ends");
        }
    }

    #[test]
    fn running_time_is_the_first_of_three_figures() {
        assert_eq!(running_time_in("1500 7 3\n"), Some(Duration::from_nanos(1500)));
        assert_eq!(running_time_in(""), None);
    }

    #[test]
    fn a_process_is_watched_until_it_rests_or_ends_but_not_for_ever() {
        let pauses = |looks_us: &[u64]| {
            let (mut looks, mut pauses) = (looks_us.iter().copied().map(Duration::from_micros), 0);
            watch(|| looks.next(), || pauses += 1);
            pauses
        };
        assert_eq!(pauses(&[]), 0, "the system does not tell");
        assert_eq!(pauses(&[0, 999, 999, 999]), 1, "it rests");
        assert_eq!(pauses(&[0, 1_000, 1_000, 20_000, 20_000, 20_001, 20_001]), 3, "it has worked for two watches");
        assert_eq!(pauses(&[90_000, 50_000, 50_000, 50_000, 50_000]), 2, "a thread has ended");
        assert_eq!(pauses(&[0, 20_000, 20_000]), 2, "it has ended");
        let works = (0..1_000).map(|look| look * 1_000).collect::<Vec<_>>();
        assert_eq!(pauses(&works), WATCHES_MAX);
    }

    #[test]
    fn what_a_process_works_is_running_time() {
        // A process of its own: threads of other tests end meanwhile, and take their time with them.
        let mut works =
            std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().expect("it starts");
        let process = Process::of(works.id());
        let before = process.running_time();
        // A figure that stays what it is would keep this test from ending.
        while process.running_time() < before.map(|before| before + 50 * AT_REST_MAX) {
            thread::yield_now();
        }
        works.kill().expect("it runs");
        works.wait().expect("it ends");
    }

    #[test]
    fn amounts_of_memory_are_in_kibibytes() {
        assert_eq!(bytes_in("368 kB"), Some(368 << 10));
        assert_eq!([bytes_in("368"), bytes_in("many kB"), bytes_in(&format!("{} kB", u64::MAX))], [None; 3]);
    }

    #[test]
    fn memory_is_resident_once_it_is_written_to_and_until_it_is_given_back() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let resident = || Process::own().resident_bytes();
        let Some(before) = resident() else { return };
        // Other tests of this process take and give back memory meanwhile.
        let (taken, noise) = (512 << 20, 256 << 20);
        let block = std::hint::black_box(vec![1_u8; taken]);
        let with = resident().expect("this process runs");
        drop(block);
        let after = resident().expect("this process runs");
        assert!(with > before + noise, "{before} to {with} bytes");
        assert!(with > after + noise, "{with} to {after} bytes");
    }

    #[test]
    fn a_process_that_has_ended_has_no_resident_memory() {
        let mut ended = std::process::Command::new("true").spawn().expect("it can be started");
        ended.wait().expect("it ends");
        assert_eq!(Process::of(ended.id()).resident_bytes(), None);
    }

    #[test]
    fn peak_memory_keeps_what_was_given_back_until_it_is_watched_anew() {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(watched) = Process::own().watch_memory() else { return };
        let before = watched.mib().expect("this process runs");
        drop(std::hint::black_box(vec![1_u8; 512 << 20]));
        let with = watched.mib().expect("this process runs");
        // Other tests of this process take and give back memory meanwhile.
        let noise = 256.0;
        assert!(with > before + noise, "{before} to {with} MiB");
        let anew = Process::own().watch_memory().and_then(|anew| anew.mib());
        assert!(anew < Some(with - noise), "{with} to {anew:?} MiB");
    }
}
