//! Damaged files: a tail is cut, everything else is refused with its place, nothing is ever silently accepted.

use std::collections::BTreeSet;

use crate::workload::{SEGMENT_BYTES, batches, block_on, open, read_all, records, whole_batches};
use enact_journal::sim::SimDisk;
use enact_journal::{Damage, Flaw, Journal, NewRecord, OpenError, Options, ReadError, Verification, verify_on};

/// What a damaged journal did.
#[derive(Debug)]
enum Outcome {
    /// It did not open.
    Refused(Damage),
    /// It opened, and reading came upon the damage.
    Found(Damage),
    /// It opened and shows this many whole batches.
    Shows(usize),
}

fn closed_journal(batches: &[Vec<NewRecord>]) -> SimDisk {
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    disk
}

/// As a process leaves it that was killed: without the mark of a clean close.
fn killed_journal(batches: &[Vec<NewRecord>]) -> SimDisk {
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    disk.kill();
    disk
}

fn segment(number: u32) -> String {
    format!("segment-{number:010}.log")
}

fn last_segment(disk: &SimDisk) -> String {
    disk.names().into_iter().filter(|name| name.starts_with("segment")).max().expect("a segment")
}

fn open_damaged(disk: &SimDisk, batches: &[Vec<NewRecord>]) -> Outcome {
    match open(disk.mount()) {
        Err(OpenError::Damaged(damage)) => Outcome::Refused(damage),
        Err(error) => panic!("{error}"),
        Ok(journal) => match read_all(&journal) {
            Err(ReadError::Damaged(damage)) => Outcome::Found(damage),
            Err(error) => panic!("{error}"),
            Ok(found) => Outcome::Shows(whole_batches(batches, &found)),
        },
    }
}

fn verified(disk: &SimDisk) -> Verification {
    verify_on(&*disk.mount()).expect("readable")
}

/// Opens and verifies a copy of `disk` in which `name` has `bytes`.
fn with_bytes(disk: &SimDisk, name: &str, bytes: Vec<u8>, batches: &[Vec<NewRecord>]) -> (Outcome, Verification) {
    let copy = disk.copy(0);
    copy.set_bytes(name, bytes);
    let verification = verified(&copy);
    (open_damaged(&copy, batches), verification)
}

#[test]
fn sound_journal_verifies() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let all = records(&batches);
    let found = verified(&disk);
    assert!(found.is_sound());
    assert_eq!((found.entity_count, found.last, found.torn_bytes), (5, all[all.len() - 1].position, 0));
    assert!(found.segment_count >= 3, "{} segments", found.segment_count);
}

#[test]
fn truncation_at_every_byte_of_the_last_batches_cuts_exactly_what_is_gone() {
    let batches = batches(60);
    for disk in [closed_journal(&batches), killed_journal(&batches)] {
        let name = last_segment(&disk);
        let bytes = disk.bytes(&name).expect("the last segment");
        let mut shown = BTreeSet::new();
        let mut least = 0;
        for len in 72..=bytes.len() {
            let (outcome, verification) = with_bytes(&disk, &name, bytes[..len].to_vec(), &batches);
            let Outcome::Shows(count) = outcome else { panic!("cut to {len}: {outcome:?}") };
            assert!(count >= least, "cut to {len} shows {count}, a shorter one shows {least}");
            assert!(verification.is_sound());
            // What is there is whole: either nothing is torn, or the torn part is shorter than the next group.
            assert!(verification.torn_bytes < 1000, "cut to {len}");
            if len % 16 == 0 {
                let copy = disk.copy(0);
                copy.set_bytes(&name, bytes[..len].to_vec());
                drop(open(copy.mount()).expect("opens"));
                assert_eq!(verified(&copy).torn_bytes, 0, "cut to {len}: opening cuts the torn bytes off");
            }
            least = count;
            shown.insert(count);
        }
        assert_eq!(least, batches.len());
        assert!(shown.len() >= 5, "the last segment has {} batches", shown.len());
        assert!(shown.iter().zip(shown.iter().skip(1)).all(|(a, b)| a + 1 == *b), "a batch is skipped: {shown:?}");
    }
}

#[test]
fn truncation_into_a_segment_header_is_refused() {
    let batches = batches(20);
    let disk = closed_journal(&batches);
    let name = last_segment(&disk);
    let bytes = disk.bytes(&name).expect("the last segment");
    for len in 0..72 {
        let (outcome, verification) = with_bytes(&disk, &name, bytes[..len].to_vec(), &batches);
        let Outcome::Refused(damage) = outcome else { panic!("cut to {len}: {outcome:?}") };
        assert_eq!((damage.file, damage.offset, damage.flaw), (name.clone(), 0, Flaw::Short));
        assert!(!verification.is_sound());
    }
}

#[test]
fn truncation_of_a_sealed_segment_is_refused() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let bytes = disk.bytes(&segment(1)).expect("a sealed segment");
    for len in (0..bytes.len()).step_by(7) {
        let (outcome, verification) = with_bytes(&disk, &segment(1), bytes[..len].to_vec(), &batches);
        let Outcome::Refused(damage) = outcome else { panic!("cut to {len}: {outcome:?}") };
        assert_eq!(damage.file, segment(1));
        assert!(!verification.is_sound());
    }
}

/// A closed journal: every flipped byte is detected, and nothing is lost to any of them.
#[test]
fn every_flipped_byte_of_a_closed_journal_is_detected_and_located() {
    let batches = batches(28);
    let disk = closed_journal(&batches);
    let mut flips = 0;
    let mut cuts = 0;
    for name in disk.names().into_iter().filter(|name| name.starts_with("segment")) {
        let bytes = disk.bytes(&name).expect("a segment");
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << (at % 8);
            flips += 1;
            let (outcome, verification) = with_bytes(&disk, &name, flipped, &batches);
            match outcome {
                Outcome::Refused(damage) | Outcome::Found(damage) => {
                    assert_eq!(damage.file, name, "byte {at}");
                    assert!(is_near(&damage, at, bytes.len()), "byte {at} of {}: {damage}", bytes.len());
                    let found = &verification.damages;
                    assert!(found.iter().any(|found| found.file == name), "byte {at}: {damage}, verified {found:?}");
                }
                Outcome::Shows(count) => {
                    assert_eq!(count, batches.len(), "byte {at} of {name}");
                    let is_noticed = !verification.is_sound() || verification.torn_bytes > 0;
                    assert!(is_noticed, "byte {at} of {name} is accepted in silence");
                    // Only the mark of the close is cut.
                    if verification.torn_bytes > 0 {
                        assert_eq!((name.clone(), verification.torn_bytes), (last_segment(&disk), 40), "byte {at}");
                        cuts += 1;
                    }
                }
            }
        }
    }
    println!("{flips} flips");
    assert!(flips > 8 << 10, "the journal has only {flips} bytes");
    assert_eq!(cuts, 40, "the mark has 40 bytes");
}

/// The place that is named is at the flipped byte or before it, in the same record, header or footer.
fn is_near(damage: &Damage, at: usize, size: usize) -> bool {
    let offset = damage.offset as usize;
    match damage.flaw {
        Flaw::Footer | Flaw::FooterMismatch => at >= offset.min(size).saturating_sub(2000),
        Flaw::SegmentHeader | Flaw::Version { .. } => offset == 0 && at < 72,
        _ => offset <= at && at < offset + 400,
    }
}

/// A killed journal: as above, but damage to the last group looks like a torn write, and that group is cut.
#[test]
fn flipped_byte_of_a_killed_journal_cuts_the_last_group_at_most() {
    let batches = batches(15);
    let disk = killed_journal(&batches);
    let name = last_segment(&disk);
    let bytes = disk.bytes(&name).expect("a segment");
    let mut cuts = 0;
    for at in 0..bytes.len() {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << (at % 8);
        let (outcome, verification) = with_bytes(&disk, &name, flipped, &batches);
        match outcome {
            Outcome::Refused(damage) => {
                assert!(is_near(&damage, at, bytes.len()), "byte {at}: {damage}");
                assert_eq!(verification.damages, [damage]);
            }
            Outcome::Shows(count) => {
                assert_eq!(count, batches.len() - 1, "byte {at}");
                assert!(verification.torn_bytes as usize >= bytes.len() - at, "byte {at}");
                cuts += 1;
            }
            Outcome::Found(damage) => panic!("byte {at} was found while reading: {damage}"),
        }
    }
    assert!((100..1000).contains(&cuts), "the last group has {cuts} bytes");
}

#[test]
fn zeroed_block_is_refused_or_found_or_cut_from_the_tail() {
    let batches = batches(200);
    let disk = SimDisk::new(9);
    let options = Options { segment_bytes: 16 << 10, ..Options::default() };
    let journal = enact_journal::Embedded::open_on(disk.mount(), options).expect("a new journal");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    let mut blocks = 0;
    for name in disk.names().into_iter().filter(|name| name.starts_with("segment")) {
        let bytes = disk.bytes(&name).expect("a segment");
        for at in (0..bytes.len()).step_by(4096) {
            let mut zeroed = bytes.clone();
            let end = bytes.len().min(at + 4096);
            zeroed[at..end].fill(0);
            let (outcome, verification) = with_bytes(&disk, &name, zeroed, &batches);
            blocks += 1;
            match outcome {
                Outcome::Refused(damage) | Outcome::Found(damage) => {
                    assert_eq!(damage.file, name);
                    assert!(!verification.is_sound(), "block at {at} of {name}");
                }
                Outcome::Shows(_) => {
                    // The end of the file itself is zero: no byte behind it tells that it was durable.
                    assert_eq!((&name, end), (&last_segment(&disk), bytes.len()));
                    assert!(verification.torn_bytes > 0);
                }
            }
        }
    }
    assert!(blocks >= 8, "{blocks} blocks");
}

#[test]
fn corrupted_middle_is_refused_with_its_position() {
    let batches = batches(8);
    let disk = closed_journal(&batches);
    let mut bytes = disk.bytes(&segment(1)).expect("a segment");
    // The first record begins behind the segment header (72 bytes) and the header of its group (40).
    bytes[72 + 40 + 36] ^= 1;
    disk.set_bytes(&segment(1), bytes.clone());
    let Err(error) = open(disk.mount()) else { panic!("a damaged record is accepted") };
    assert_eq!(
        error.to_string(),
        "the journal does not open: segment-0000000001.log is damaged at byte 112: the record does not have its checksum"
    );
    assert_eq!(disk.bytes(&segment(1)).expect("a segment"), bytes, "a refused log is left as it is");
}

#[test]
fn missing_segment_is_refused() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    for number in [1, 2] {
        let copy = disk.copy(0);
        copy.lose(&segment(number));
        let missing = Damage { file: segment(number), offset: 0, flaw: Flaw::Missing };
        assert_eq!(verified(&copy).damages, std::slice::from_ref(&missing));
        assert!(matches!(open_damaged(&copy, &batches), Outcome::Refused(damage) if damage == missing));
    }
}

#[test]
fn segments_of_other_logs_and_places_are_refused() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let other = SimDisk::new(8);
    let journal = open(other.mount()).expect("a new journal");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    drop(journal);
    for (from, number, to, flaw) in
        [(&other, 2, 2, Flaw::Foreign), (&disk, 1, 2, Flaw::Foreign), (&other, 1, 1, Flaw::Foreign)]
    {
        let bytes = from.bytes(&segment(number)).expect("a segment");
        let (outcome, verification) = with_bytes(&disk, &segment(to), bytes, &batches);
        let Outcome::Refused(damage) = outcome else { panic!("segment {number} as {to}: {outcome:?}") };
        assert_eq!(damage.flaw, flaw, "segment {number} as {to}");
        assert!(!verification.is_sound());
    }
}

/// An older copy of a segment, whole and valid by itself, does not fit the hash in the next one.
#[test]
fn sealed_segment_from_another_history_is_refused() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    // The same log id and the same records but one.
    let mut rewritten = batches.clone();
    assert!(!rewritten[1][0].payload.is_empty());
    rewritten[1][0].payload.fill(0xFF);
    let other = closed_journal(&rewritten);
    let bytes = other.bytes(&segment(1)).expect("a segment");
    let (outcome, verification) = with_bytes(&disk, &segment(1), bytes, &batches);
    let Outcome::Refused(damage) = outcome else { panic!("{outcome:?}") };
    assert_eq!((damage.file, damage.flaw), (segment(2), Flaw::Unchained));
    assert!(!verification.is_sound());
}

/// A payload may look like anything, also like the log itself: it is not taken for a group behind a torn one.
#[test]
fn payload_that_imitates_a_group_does_not_turn_a_torn_tail_into_damage() {
    for shift in 0..8 {
        let mut all = batches(3);
        let disk = killed_journal(&all);
        let image = disk.bytes(&segment(1)).expect("a segment");
        let mut imitation = batches(4).pop().expect("a batch");
        imitation.truncate(1);
        // One of the shifts puts the copied groups where groups may begin.
        imitation[0].payload = [vec![0; shift], image[72..].to_vec()].concat();
        all.push(imitation.clone());
        let journal = open(disk.mount()).expect("opens");
        block_on(journal.append(imitation)).expect("durable");
        disk.kill();
        drop(journal);
        let mut bytes = disk.bytes(&segment(1)).expect("a segment");
        bytes[image.len() + 45] ^= 1;
        let (outcome, verification) = with_bytes(&disk, &segment(1), bytes, &all);
        assert!(matches!(outcome, Outcome::Shows(3)), "shift {shift}: {outcome:?}");
        assert!(verification.is_sound() && verification.torn_bytes > 0);
    }
}

#[test]
fn format_of_the_future_is_refused_by_its_version() {
    let disk = closed_journal(&batches(3));
    let mut bytes = disk.bytes(&segment(1)).expect("a segment");
    bytes[8] = 2;
    disk.set_bytes(&segment(1), bytes);
    let Err(OpenError::Damaged(damage)) = open(disk.mount()) else { panic!("it opens") };
    assert_eq!(damage.flaw, Flaw::Version { found: 2 });
}

#[test]
fn failing_reads_are_errors_of_the_file() {
    let batches = batches(10);
    let disk = closed_journal(&batches);
    let journal = open(disk.mount()).expect("opens");
    disk.fail_reads(true);
    assert!(matches!(read_all(&journal), Err(ReadError::Io { file, .. }) if file == segment(1)));
    disk.fail_reads(false);
    assert_eq!(read_all(&journal).expect("readable"), records(&batches));
    drop(journal);
    disk.fail_reads(true);
    assert!(matches!(open(disk.mount()), Err(OpenError::Io { file, .. }) if file == segment(1)));
}

/// A file that vanishes under an open journal is damage, not an empty history.
#[test]
fn vanished_segment_is_found_when_it_is_read() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let journal = open(disk.mount()).expect("opens");
    disk.lose(&segment(1));
    let Err(ReadError::Damaged(damage)) = read_all(&journal) else { panic!("it reads") };
    assert_eq!((damage.file, damage.flaw), (segment(1), Flaw::Missing));
}

#[test]
fn segment_size_must_be_in_range() {
    for (segment_bytes, is_allowed) in
        [(4095, false), (SEGMENT_BYTES, true), (256 << 20, true), ((256 << 20) + 1, false)]
    {
        let options = Options { segment_bytes, ..Options::default() };
        let opened = enact_journal::Embedded::open_on(SimDisk::new(0).mount(), options);
        assert_eq!(opened.is_ok(), is_allowed, "{segment_bytes}");
    }
}
