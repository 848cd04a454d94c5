//! Random damage to a store, and copies of one that is in use: refused with the place, or without effect.
//!
//! In the gate 1,000 damages to each store and 200 copies; more with
//!
//!     ENACT_DAMAGES=100000 cargo test --release -p enact-journal --test journal random_damage

use std::sync::LazyLock;

use enact_journal::{Embedded, Journal, NewRecord, OpenError, Options, Seq, Snapshot, verify_on};
use enact_journal_kit::sim::SimDisk;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::salvage::salvaged;
use crate::workload::{batches, block_on, key, open, options, read_all, records, whole_batches};

const BATCH_COUNT: usize = 40;

fn cases(few: u32) -> ProptestConfig {
    let cases = std::env::var("ENACT_DAMAGES").map_or(few, |count| count.parse().expect("a number of cases"));
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

fn snapshot(id: usize, seq: Seq) -> Snapshot {
    Snapshot { entity: key(id), seq, payload: vec![seq.0 as u8; 50 * id] }
}

/// A recorded run that saves snapshots now and then.
fn run(options: Options, batches: &[Vec<NewRecord>]) -> (SimDisk, Embedded) {
    let disk = SimDisk::new(13);
    disk.record();
    let journal = Embedded::open_on(disk.mount(), options).expect("a new journal");
    for (n, batch) in batches.iter().enumerate() {
        block_on(journal.append(batch.clone())).expect("durable");
        if n % 8 == 7 {
            for id in 0..5 {
                let seq = block_on(journal.last(&key(id))).expect("readable");
                block_on(journal.save_snapshot(snapshot(id, seq))).expect("saved");
            }
        }
    }
    (disk, journal)
}

/// A closed store, one whose process was killed, and one of another log.
struct Stores {
    batches: Vec<Vec<NewRecord>>,
    closed: SimDisk,
    killed: SimDisk,
    other: SimDisk,
    /// The batches below the high-water mark of the killed store.
    marked: usize,
}

static STORES: LazyLock<Stores> = LazyLock::new(|| {
    let batches = batches(BATCH_COUNT);
    let (closed, journal) = run(options(), &batches);
    block_on(journal.close()).expect("closed");
    drop(journal);
    let (killed, journal) = run(options(), &batches);
    killed.kill();
    drop(journal);
    let (other, journal) = run(Options { segment_bytes: 5000, ..options() }, &batches);
    drop(journal);
    let unmarked = killed.copy(0);
    let last = unmarked.names().into_iter().filter(|name| name.starts_with("segment")).max().expect("a segment");
    unmarked.set_bytes(&last, killed.bytes(&last).expect("the last segment")[..72].to_vec());
    let journal = open(unmarked.mount()).expect("opens");
    let marked = whole_batches(&batches, &read_all(&journal).expect("readable"));
    Stores { batches, closed, killed, other, marked }
});

#[derive(Clone, Debug)]
enum Edit {
    Flip(Vec<(Index, u8)>),
    Zero(Index, usize),
    Garbage(Index, Vec<u8>),
    Cut(Index),
    Extend(Vec<u8>),
    /// Bytes are taken out of the middle.
    Excise(Index, usize),
    Lose,
    /// The bytes of another file of the store.
    Swap(Index),
    /// The bytes of the same file at an earlier step.
    Older(Index),
    /// The bytes of the same file of another log.
    Foreign,
}

fn edit() -> impl Strategy<Value = Edit> {
    let bytes = || prop::collection::vec(any::<u8>(), 1..600);
    prop_oneof![
        4 => prop::collection::vec((any::<Index>(), 1..=255_u8), 1..4).prop_map(Edit::Flip),
        2 => (any::<Index>(), 1..5000_usize).prop_map(|(at, len)| Edit::Zero(at, len)),
        2 => (any::<Index>(), bytes()).prop_map(|(at, bytes)| Edit::Garbage(at, bytes)),
        3 => any::<Index>().prop_map(Edit::Cut),
        1 => bytes().prop_map(Edit::Extend),
        1 => (any::<Index>(), 1..600_usize).prop_map(|(at, len)| Edit::Excise(at, len)),
        1 => Just(Edit::Lose),
        1 => any::<Index>().prop_map(Edit::Swap),
        2 => any::<Index>().prop_map(Edit::Older),
        1 => Just(Edit::Foreign),
    ]
}

/// A copy of `disk` whose file `name` is edited; nothing if that changes nothing.
fn edited(disk: &SimDisk, name: &str, edit: &Edit) -> Option<SimDisk> {
    let whole = disk.bytes(name).expect("a file");
    let copy = disk.copy(0);
    let mut bytes = whole.clone();
    let cut = |at: &Index, len: usize| (at.index(whole.len()), whole.len().min(at.index(whole.len()) + len));
    match edit {
        Edit::Flip(flips) => flips.iter().for_each(|(at, mask)| bytes[at.index(whole.len())] ^= mask),
        Edit::Zero(at, len) => {
            let (from, to) = cut(at, *len);
            bytes[from..to].fill(0);
        }
        Edit::Garbage(at, garbage) => {
            let (from, to) = cut(at, garbage.len());
            bytes[from..to].copy_from_slice(&garbage[..to - from]);
        }
        Edit::Cut(at) => bytes.truncate(at.index(whole.len())),
        Edit::Extend(more) => bytes.extend(more),
        Edit::Excise(at, len) => {
            let (from, to) = cut(at, *len);
            bytes.drain(from..to);
        }
        Edit::Lose => {
            copy.lose(name);
            return Some(copy);
        }
        Edit::Swap(with) => bytes = disk.bytes(&disk.names()[with.index(disk.names().len())]).expect("a file"),
        Edit::Older(step) => bytes = disk.at_step(step.index(disk.steps().len()), 0).bytes(name)?,
        Edit::Foreign => bytes = STORES.other.bytes(name)?,
    }
    copy.set_bytes(name, bytes.clone());
    (bytes != whole).then_some(copy)
}

/// How many batches a store shows; nothing if it is refused. What it shows is a prefix of what was written, its
/// snapshots are right, it can go on, and verification agrees.
fn shown(disk: &SimDisk, batches: &[Vec<NewRecord>]) -> Option<usize> {
    let is_sound = verify_on(&*disk.mount()).expect("readable").is_sound();
    let all = records(batches);
    let (left, diagnosis) = salvaged(disk, &all);
    assert_eq!(diagnosis.is_sound(), is_sound, "{diagnosis:?}");
    let journal = match open(disk.mount()) {
        Ok(journal) => journal,
        Err(OpenError::Damaged(damage)) => {
            assert!(!is_sound, "verified as sound, and {damage}");
            return None;
        }
        Err(OpenError::NoManifest) => return None,
        Err(error) => panic!("{error}"),
    };
    assert!(is_sound, "verified as damaged, and it opens");
    let found = read_all(&journal).expect("what opens is readable");
    assert_eq!(left.len(), found.len(), "all of a sound store is left");
    let count = whole_batches(batches, &found);
    for id in 0..5 {
        let last = block_on(journal.last(&key(id))).expect("readable");
        if let Some(found) = block_on(journal.load_snapshot(&key(id))).expect("readable") {
            assert!(found.seq <= last);
            assert_eq!(found, snapshot(id, found.seq));
        }
    }
    for batch in &batches[count..] {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    Some(count)
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn damaged_file_of_a_closed_store_is_refused_or_without_effect(file: Index, edit in edit()) {
        let Stores { batches, closed, .. } = &*STORES;
        let names = closed.names();
        if let Some(disk) = edited(closed, &names[file.index(names.len())], &edit) {
            prop_assert!(shown(&disk, batches).is_none_or(|count| count == BATCH_COUNT));
        }
    }

    #[test]
    fn damaged_file_of_a_killed_store_costs_nothing_below_the_mark(file: Index, edit in edit()) {
        let Stores { batches, killed, marked, .. } = &*STORES;
        let names = killed.names();
        if let Some(disk) = edited(killed, &names[file.index(names.len())], &edit) {
            prop_assert!(shown(&disk, batches).is_none_or(|count| count >= *marked));
        }
    }

}

proptest! {
    #![proptest_config(cases(200))]

    /// In any order of files, each as it was at a later step of the run than those before.
    #[test]
    fn copy_of_a_store_in_use_is_consistent_or_refused(
        steps in prop::collection::vec(any::<Index>(), 12),
        order in Just((0..12_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let Stores { batches, closed, .. } = &*STORES;
        let count = closed.steps().len();
        let mut steps: Vec<usize> = steps.iter().map(|step| step.index(count + 1)).collect();
        steps.sort_unstable();
        let copy = closed.at_step(steps[0], 0);
        let names = copy.names();
        for (step, file) in steps.into_iter().zip(order) {
            if let Some(name) = names.get(file) {
                match closed.at_step(step, 0).bytes(name) {
                    Some(bytes) => copy.set_bytes(name, bytes),
                    None => copy.lose(name),
                }
            }
        }
        shown(&copy, batches);
    }
}

/// The cases above do both: refuse, and go on.
#[test]
fn copies_of_a_store_in_use_are_usable_with_the_manifest_first() {
    let Stores { batches, closed, .. } = &*STORES;
    let count = closed.steps().len();
    let (mut copied, mut usable) = (0, 0);
    for step in (0..count).step_by(7) {
        let copy = closed.at_step(step, 0);
        let later = closed.at_step((step + 40).min(count), 0);
        let mut names = copy.names();
        names.sort_unstable_by_key(|name| name.starts_with("segment"));
        for name in names.iter().filter(|name| name.starts_with("segment") || name.starts_with("snapshots")) {
            match later.bytes(name) {
                Some(bytes) => copy.set_bytes(name, bytes),
                None => copy.lose(name),
            }
        }
        copied += 1;
        usable += usize::from(shown(&copy, batches).is_some());
    }
    assert!(usable > copied / 2, "{usable} of {copied}");
}
