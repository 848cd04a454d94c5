//! Power cuts and kills at every step of a workload: what was answered as durable is there, whole batches in order are
//! there, and nothing else.

use std::collections::BTreeMap;

use enact_journal::{Journal, NewRecord, Record};
use enact_journal_kit::sim::{Fault, SimDisk, Step};

use crate::workload::{batches, block_on, open, read_all, whole_batches};

/// All subsets of so many un-synced pieces are tried, otherwise as many random ones.
const PIECES_MAX: usize = 6;
const SEED: u64 = 0x00E5_AC7D_15C0;

/// A recorded run, and when each batch was answered.
struct Run {
    disk: SimDisk,
    batches: Vec<Vec<NewRecord>>,
    /// The number of batches answered as durable, by the number of steps the disk had made.
    answered: BTreeMap<usize, usize>,
}

impl Run {
    fn new(count: usize) -> Self {
        let disk = SimDisk::new(SEED);
        disk.record();
        let batches = batches(count);
        let mut answered = BTreeMap::from([(0, 0)]);
        let journal = open(disk.mount()).expect("a new journal");
        for (n, batch) in batches.iter().enumerate() {
            block_on(journal.append(batch.clone())).expect("durable");
            answered.insert(disk.steps().len(), n + 1);
        }
        block_on(journal.close()).expect("closed");
        Self { disk, batches, answered }
    }

    fn step_count(&self) -> usize {
        self.disk.steps().len()
    }

    fn answered_at(&self, step: usize) -> usize {
        *self.answered.range(..=step).next_back().expect("nothing is answered at step 0").1
    }

    /// Opens the journal on an image of `step`, checks what is there and that it can go on; what was found.
    fn check(&self, image: &SimDisk, step: usize, what: &str) -> usize {
        let journal = open(image.mount()).unwrap_or_else(|error| panic!("step {step}, {what}: {error}"));
        let found = read_all(&journal).unwrap_or_else(|error| panic!("step {step}, {what}: {error}"));
        let count = whole_batches(&self.batches, &found);
        let answered = self.answered_at(step);
        assert!(count >= answered, "step {step}, {what}: {answered} batches were durable, {count} are there");
        assert!(count <= answered + 1, "step {step}, {what}: one batch was under way, {count} are there");
        if let Some(next) = self.batches.get(count) {
            block_on(journal.append(next.clone())).unwrap_or_else(|error| panic!("step {step}, {what}: {error}"));
        }
        count
    }
}

/// Images checked, and those among them whose last file ended inside a group.
#[derive(Default)]
struct Count {
    images: usize,
    torn: usize,
}

impl Run {
    fn cut_at(&self, step: usize) -> Count {
        let mut count = Count::default();
        let mut check = |image: &SimDisk, what: &str| {
            count.images += 1;
            count.torn += usize::from(!image.size().is_multiple_of(8));
            self.check(image, step, what);
        };
        let disk = self.disk.at_step(step, 0);
        let unsynced = disk.unsynced_count();
        for subset in 0..1_u64 << unsynced.min(PIECES_MAX) {
            let image = disk.copy(0);
            let mut random = SEED ^ subset;
            image.power_cut_keeping(|piece| {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                if unsynced <= PIECES_MAX { subset >> piece & 1 == 1 } else { random >> 63 == 1 }
            });
            check(&image, &format!("subset {subset:b} of {unsynced}"));
        }
        for seed in 0..cuts_per_step() {
            let image = disk.copy(SEED + seed);
            image.power_cut();
            check(&image, &format!("seed {SEED} + {seed}"));
        }
        count
    }
}

/// Random power cuts at each step of the workload.
fn cuts_per_step() -> u64 {
    std::env::var("ENACT_POWER_CUTS").map_or(40, |cuts| cuts.parse().expect("a number of power cuts at each step"))
}

#[test]
fn power_cut_at_every_step_keeps_what_was_answered() {
    let run = Run::new(60);
    let cut_every_second = |first: usize| {
        let counts = (first..=run.step_count()).step_by(2).map(|step| run.cut_at(step));
        counts.fold(Count::default(), |sum, count| Count {
            images: sum.images + count.images,
            torn: sum.torn + count.torn,
        })
    };
    let (even, odd) = std::thread::scope(|scope| {
        let even = scope.spawn(|| cut_every_second(0));
        (cut_every_second(1), even.join().expect("the even steps"))
    });
    let (images, torn) = (even.images + odd.images, even.torn + odd.torn);
    println!("{images} images, {torn} with a torn end");
    assert!(images >= 6_000, "only {images} images");
    assert!(torn >= 150, "only {torn} images had a torn end");
}

/// What an opened journal shows must stay, though nobody was answered: somebody has seen it. And what is appended to it
/// must stay, whatever step of the dead process it rests on.
#[test]
fn what_was_read_after_a_kill_survives_a_power_cut() {
    let run = Run::new(30);
    let mut unanswered_count = 0;
    for step in 0..=run.step_count() {
        let disk = run.disk.at_step(step, SEED);
        let journal = open(disk.mount()).expect("opens");
        let seen = whole_batches(&run.batches, &read_all(&journal).expect("readable"));
        unanswered_count += usize::from(seen > run.answered_at(step));
        for appended in [0, 1] {
            let disk = run.disk.at_step(step, SEED);
            let journal = open(disk.mount()).expect("opens");
            let next = run.batches.iter().skip(seen).take(appended);
            let expected = seen + next.len();
            for batch in next {
                block_on(journal.append(batch.clone())).expect("durable");
            }
            disk.power_cut_keeping(|_| false);
            drop(journal);
            let journal = open(disk.mount()).expect("opens");
            let found = whole_batches(&run.batches, &read_all(&journal).expect("readable"));
            assert_eq!(found, expected, "step {step}, {appended} appended");
        }
    }
    assert!(unanswered_count > 20, "only {unanswered_count} kills between write and sync");
}

/// As above, after a sync that has failed: the next one succeeds and proves nothing.
#[test]
fn what_was_read_after_a_lost_sync_survives_a_power_cut() {
    let batches = batches(40);
    let disk = SimDisk::new(SEED);
    let mut seen_count = 0;
    for (n, batch) in batches.iter().enumerate() {
        // The sync of a group or a footer, of an entry, of a slot, of a new segment's header, of the first group in it.
        for sync in [1, 3, 5, 8, 12] {
            let journal = open(disk.mount()).expect("opens");
            disk.fail_in(sync, Fault::SyncLost);
            let appended = block_on(journal.append(batch.clone()));
            disk.kill();
            drop(journal);
            let journal = open(disk.mount()).expect("opens");
            let seen = whole_batches(&batches, &read_all(&journal).expect("readable"));
            disk.power_cut_keeping(|_| false);
            drop(journal);
            let journal = open(disk.mount()).expect("opens");
            let found = whole_batches(&batches, &read_all(&journal).expect("readable"));
            assert_eq!(found, seen, "batch {n}, sync {sync}");
            drop(journal);
            if seen > n {
                seen_count += usize::from(appended.is_err());
                break;
            }
        }
    }
    assert!(seen_count >= 5, "only {seen_count} batches were seen although their sync had failed");
}

/// A crash while the journal recovers from a crash: recovery can be interrupted anywhere and repeated.
#[test]
fn power_cut_during_recovery_keeps_what_was_answered() {
    let run = Run::new(30);
    let mut interrupted_count = 0;
    for step in 0..=run.step_count() {
        for recovery_step in 0..6 {
            let disk = run.disk.at_step(step, SEED + recovery_step);
            disk.power_cut();
            disk.fail_in(recovery_step, Fault::Torn);
            match open(disk.mount()) {
                Ok(journal) => drop(journal),
                Err(_) => interrupted_count += 1,
            }
            disk.power_cut();
            run.check(&disk, step, &format!("recovery failed at its step {recovery_step}"));
        }
    }
    assert!(interrupted_count > 100, "only {interrupted_count} recoveries were interrupted");
}

/// The workload reaches every place where the log can be interrupted.
#[test]
fn workload_seals_segments_and_marks_its_close() {
    let run = Run::new(60);
    let steps = run.disk.steps();
    let renames = steps.iter().filter(|step| matches!(step, Step::Rename(..))).count();
    assert!(renames >= 3, "{renames} segments");
    let end = &steps[steps.len() - 2..];
    assert!(matches!(end, [Step::Write(name, ..1024, _), Step::Sync(_)] if name == "manifest"), "no mark at the end");
    assert_eq!(records_of(&run).len(), run.batches.iter().map(Vec::len).sum::<usize>());
}

fn records_of(run: &Run) -> Vec<Record> {
    let journal = open(run.disk.copy(0).mount()).expect("opens");
    read_all(&journal).expect("readable")
}
