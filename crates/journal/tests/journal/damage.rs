//! Damaged files: a torn tail is cut, everything else is refused with its place, nothing is ever silently accepted.

use std::collections::BTreeSet;
use std::time::Duration;

use enact_journal::{
    Damage, Embedded, Flaw, Journal, NewRecord, OpenError, Options, ReadError, Seq, Snapshot, Verification, adopt_on,
    verify_on,
};
use enact_journal_kit::sim::SimDisk;

use crate::workload::{
    SEGMENT_BYTES, batches, block_on, flipped, key, open, options, read_all, records, whole_batches,
};

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

/// The bytes of file `name` of a journal that was killed, without the zeros behind its last group.
fn groups(disk: &SimDisk, name: &str) -> Vec<u8> {
    let copy = disk.copy(0);
    drop(open(copy.mount()).expect("opens"));
    copy.bytes(name).expect("a segment")
}

/// The bytes up to the last one that is not zero.
fn without_zeros(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)]
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

/// What a crash can have torn is cut: without a clean close, as far as the high-water mark does not reach.
#[test]
fn truncation_at_every_byte_of_the_last_segment_of_a_killed_journal_cuts_exactly_what_is_gone() {
    let batches = batches(60);
    let disk = killed_journal(&batches);
    let name = last_segment(&disk);
    let bytes = groups(&disk, &name);
    let mut shown = BTreeSet::new();
    let (mut least, mut end) = (0, 72);
    for (len, room) in (72..=bytes.len()).flat_map(|len| [(len, 0), (len, 100)]) {
        let image = [&bytes[..len], &vec![0; room]].concat();
        let (outcome, verification) = with_bytes(&disk, &name, image.clone(), &batches);
        let Outcome::Shows(count) = outcome else { panic!("cut to {len}: {outcome:?}") };
        // Zeros at the end of a group are there, too.
        assert!(count >= least || room == 0, "cut to {len} shows {count}, a shorter one shows {least}");
        assert!(verification.is_sound());
        if room == 0 && count > least {
            (least, end) = (count, len);
        }
        // What is there is whole: either nothing is torn, or the torn part is shorter than the next group.
        let torn = if count == least { without_zeros(&bytes[end..len]) } else { &[] };
        assert_eq!(verification.torn_bytes as usize, torn.len(), "cut to {len}");
        assert!(torn.len() < 1000, "cut to {len}");
        if len % 16 == 0 {
            let copy = disk.copy(0);
            copy.set_bytes(&name, image);
            drop(open(copy.mount()).expect("opens"));
            assert_eq!(verified(&copy).torn_bytes, 0, "cut to {len}: opening cuts the torn bytes off");
            let aside = copy.bytes(&format!("{name}.cut-1"));
            let kept = (!torn.is_empty()).then(|| torn.to_vec());
            assert_eq!(aside, kept, "cut to {len}: the torn bytes are kept");
        }
        shown.insert(count);
    }
    assert_eq!(least, batches.len());
    assert!(shown.len() >= 5, "the last segment has {} batches", shown.len());
    assert!(shown.iter().zip(shown.iter().skip(1)).all(|(a, b)| a + 1 == *b), "a batch is skipped: {shown:?}");
}

#[test]
fn closed_journal_that_was_cut_at_any_byte_is_refused_and_left_as_it_is() {
    let batches = batches(40);
    let disk = closed_journal(&batches);
    let names = disk.names();
    for name in names.iter().filter(|name| name.starts_with("segment")) {
        let bytes = disk.bytes(name).expect("a segment");
        for len in 0..bytes.len() {
            let copy = disk.copy(0);
            copy.set_bytes(name, bytes[..len].to_vec());
            let Outcome::Refused(damage) = open_damaged(&copy, &batches) else { panic!("{name} cut to {len} opens") };
            assert_eq!(&damage.file, name, "cut to {len}");
            assert!(damage.offset as usize <= len, "cut to {len}: {damage}");
            assert_eq!(verified(&copy).damages[0].file, *name, "cut to {len}");
            assert_eq!(copy.bytes(name).expect("the segment").len(), len);
            assert_eq!(copy.names(), names);
        }
    }
}

/// After a clean close one slot of the manifest is as good as the other.
#[test]
fn closed_journal_that_was_cut_is_refused_even_if_a_slot_of_the_manifest_is_damaged() {
    let batches = batches(40);
    let disk = closed_journal(&batches);
    let name = last_segment(&disk);
    let cut = disk.bytes(&name).expect("the last segment")[..72].to_vec();
    let manifest = disk.bytes("manifest").expect("the manifest");
    for slot in [0, 512] {
        let copy = disk.copy(0);
        let mut damaged = manifest.clone();
        damaged[slot..slot + 512].fill(0);
        copy.set_bytes("manifest", damaged);
        assert!(matches!(open_damaged(&copy.copy(0), &batches), Outcome::Shows(40)), "slot at {slot}");
        copy.set_bytes(&name, cut.clone());
        let Outcome::Refused(damage) = open_damaged(&copy, &batches) else { panic!("slot at {slot}: it opens") };
        assert_eq!((&damage.file, damage.offset), (&name, 72));
        assert!(matches!(damage.flaw, Flaw::Shortened { .. }), "{damage}");
    }
}

/// The mark moves on by time as well, with nobody asking for it.
#[test]
fn killed_journal_is_refused_if_it_was_cut_below_the_mark() {
    let batches = batches(5);
    let disk = SimDisk::new(7);
    let options = Options { mark_lag: Duration::ZERO, ..options() };
    let journal = Embedded::open_on(disk.mount(), options).expect("a new journal");
    let fresh = disk.bytes("manifest");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    // The group before the last is marked before the last one is written.
    assert_ne!(disk.bytes("manifest"), fresh);
    disk.kill();
    drop(journal);
    let bytes = disk.bytes(&segment(1)).expect("a segment");
    let mut kept = BTreeSet::new();
    for len in (72..=bytes.len()).step_by(8) {
        match with_bytes(&disk, &segment(1), bytes[..len].to_vec(), &batches).0 {
            Outcome::Refused(damage) => assert!(kept.is_empty() && damage.file == segment(1), "cut to {len}: {damage}"),
            Outcome::Shows(count) => drop(kept.insert(count)),
            Outcome::Found(damage) => panic!("cut to {len} opens: {damage}"),
        }
    }
    assert!(kept.iter().all(|count| *count >= 4), "{kept:?}");
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
    for name in disk.names() {
        let bytes = disk.bytes(&name).expect("a file");
        for at in flipped(bytes.len()) {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << (at % 8);
            flips += 1;
            let (outcome, verification) = with_bytes(&disk, &name, changed, &batches);
            match outcome {
                Outcome::Refused(damage) | Outcome::Found(damage) => {
                    assert_eq!(damage.file, name, "byte {at}");
                    assert!(is_near(&damage, at, bytes.len()), "byte {at} of {}: {damage}", bytes.len());
                    let found = &verification.damages;
                    assert!(found.iter().any(|found| found.file == name), "byte {at}: {damage}, verified {found:?}");
                }
                Outcome::Shows(count) => {
                    assert_eq!(count, batches.len(), "byte {at} of {name}");
                    // The other slot says the same.
                    assert!(name == "manifest" && at < 1024, "byte {at} of {name} is accepted in silence");
                }
            }
        }
    }
    println!("{flips} flips");
    assert!(flips > 2 << 10, "only {flips} flips");
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
    let groups = groups(&disk, &name);
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
                let is_behind = at >= groups.len();
                assert_eq!(count, batches.len() - usize::from(!is_behind), "byte {at}");
                let least = if is_behind { at - groups.len() } else { without_zeros(&groups).len().saturating_sub(at) };
                assert!(verification.torn_bytes as usize > least.saturating_sub(1), "byte {at}");
                cuts += usize::from(!is_behind);
            }
            Outcome::Found(damage) => panic!("byte {at} was found while reading: {damage}"),
        }
    }
    assert!((100..1000).contains(&cuts), "the last group has {cuts} bytes");
}

#[test]
fn zeroed_block_of_a_closed_journal_is_refused() {
    let batches = batches(200);
    let disk = SimDisk::new(9);
    let options = Options { segment_bytes: 16 << 10, ..options() };
    let journal = Embedded::open_on(disk.mount(), options).expect("a new journal");
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
                Outcome::Found(damage) => panic!("block at {at} of {name} is not noticed at start: {damage}"),
                Outcome::Refused(damage) => {
                    assert_eq!(damage.file, name);
                    assert!(!verification.is_sound(), "block at {at} of {name}");
                }
                Outcome::Shows(_) => panic!("block at {at} of {name} is accepted"),
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
fn missing_segments_are_refused_whichever_they_are() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let count = verified(&disk).segment_count;
    let first_missing: Vec<(Vec<u32>, u32)> =
        (1..=count).map(|number| (vec![number], number)).chain([((1..=count).collect(), 1)]).collect();
    for (lost, first) in first_missing {
        let copy = disk.copy(0);
        for number in &lost {
            copy.lose(&segment(*number));
        }
        let missing = Damage { file: segment(first), offset: 0, flaw: Flaw::Missing };
        assert_eq!(verified(&copy).damages, std::slice::from_ref(&missing));
        assert!(matches!(open_damaged(&copy, &batches), Outcome::Refused(damage) if damage == missing), "{lost:?}");
    }
}

#[test]
fn missing_manifest_is_refused_until_the_log_is_adopted() {
    let batches = batches(60);
    for disk in [closed_journal(&batches), killed_journal(&batches)] {
        disk.lose("manifest");
        assert!(matches!(open(disk.mount()), Err(OpenError::NoManifest)));
        let missing = Damage { file: "manifest".to_owned(), offset: 0, flaw: Flaw::Missing };
        assert_eq!(verified(&disk).damages, [missing]);
        assert!(adopt_on(&*disk.mount()).expect("readable").is_sound());
        assert!(verified(&disk).is_sound());
        let last = last_segment(&disk);
        let cut = disk.copy(0);
        cut.set_bytes(&last, disk.bytes(&last).expect("the last segment")[..72].to_vec());
        assert!(matches!(open_damaged(&cut, &batches), Outcome::Refused(damage) if damage.file == last));
        cut.lose(&last);
        assert!(matches!(open_damaged(&cut, &batches), Outcome::Refused(damage) if damage.file == last));
        assert!(matches!(open_damaged(&disk, &batches), Outcome::Shows(60)));
        let mut bytes = disk.bytes(&segment(1)).expect("a segment");
        bytes[100] ^= 1;
        disk.set_bytes(&segment(1), bytes);
        assert!(matches!(open_damaged(&disk, &batches), Outcome::Refused(damage) if damage.file == segment(1)));
    }
}

#[test]
fn snapshots_alone_are_not_taken_for_an_empty_directory() {
    let disk = closed_journal(&batches(1));
    disk.lose("manifest");
    disk.lose(&segment(1));
    drop(open(disk.mount()).expect("an empty directory"));
    let journal = open(disk.mount()).expect("opens");
    block_on(journal.append(batches(1).remove(0))).expect("durable");
    let snapshot = Snapshot { entity: key(0), seq: Seq(1), payload: vec![] };
    block_on(journal.save_snapshot(snapshot)).expect("saved");
    drop(journal);
    disk.lose("manifest");
    disk.lose(&segment(1));
    assert!(matches!(open(disk.mount()), Err(OpenError::NoManifest)));
    // There is nothing to adopt.
    let missing = Damage { file: segment(1), offset: 0, flaw: Flaw::Missing };
    assert_eq!(adopt_on(&*disk.mount()).expect("readable").damages, [missing]);
}

#[test]
fn full_disk_at_the_start_loses_nothing_that_was_torn_and_leaves_nothing_behind() {
    let batches = batches(15);
    let disk = killed_journal(&batches);
    let name = last_segment(&disk);
    let bytes = groups(&disk, &name);
    let torn = bytes[..bytes.len() - 20].to_vec();
    disk.set_bytes(&name, torn.clone());
    let names = disk.names();
    disk.set_capacity(disk.size());
    for _ in 0..3 {
        let Err(OpenError::Io { file, .. }) = open(disk.mount()) else { panic!("there is no space for what is cut") };
        assert_eq!(file, format!("{name}.cut-1"));
        assert_eq!((disk.names(), disk.bytes(&name).as_ref()), (names.clone(), Some(&torn)));
    }
    disk.set_capacity(u64::MAX);
    assert!(matches!(open_damaged(&disk, &batches), Outcome::Shows(14)));
}

#[test]
fn damaged_manifest_is_replaced_by_adopting_and_a_damaged_log_is_not_adopted() {
    let batches = batches(60);
    let disk = closed_journal(&batches);
    let bytes = disk.bytes("manifest").expect("the manifest");
    disk.set_bytes("manifest", vec![0; bytes.len()]);
    let damage = Damage { file: "manifest".to_owned(), offset: 0, flaw: Flaw::Manifest };
    assert_eq!(verified(&disk).damages, std::slice::from_ref(&damage));
    assert!(matches!(open_damaged(&disk, &batches), Outcome::Refused(found) if found == damage));

    let broken = disk.copy(0);
    let mut segment_bytes = broken.bytes(&segment(2)).expect("a segment");
    segment_bytes[200] ^= 1;
    broken.set_bytes(&segment(2), segment_bytes);
    let names = broken.names();
    assert_eq!(adopt_on(&*broken.mount()).expect("readable").damages[0].file, segment(2));
    assert_eq!(broken.names(), names, "nothing is changed");

    assert!(adopt_on(&*disk.mount()).expect("readable").is_sound());
    assert!(disk.names().contains(&"manifest.old".to_owned()));
    assert!(matches!(open_damaged(&disk, &batches), Outcome::Shows(60)));
}

/// As in a copy of the files that was made while the journal went on, the manifest first: it promises less than there is.
#[test]
fn older_manifest_is_brought_up_to_the_log() {
    let batches = batches(60);
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    let fresh = disk.bytes("manifest").expect("the manifest");
    for batch in &batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    block_on(journal.close()).expect("closed");
    let exact = disk.bytes("manifest").expect("the manifest");
    disk.set_bytes("manifest", fresh);
    assert!(matches!(open_damaged(&disk, &batches), Outcome::Shows(60)));
    assert_eq!(disk.bytes("manifest").expect("the manifest").len(), exact.len(), "all sealed segments are listed");
    assert!(verified(&disk).is_sound());
}

/// As above, the manifest last: it promises more than there is.
#[test]
fn newer_manifest_than_the_log_is_refused() {
    let batches = batches(60);
    let disk = SimDisk::new(7);
    let journal = open(disk.mount()).expect("a new journal");
    for batch in &batches {
        let image = disk.copy(0);
        block_on(journal.append(batch.clone())).expect("durable");
        let marked = disk.copy(0);
        drop(open(marked.mount()).expect("opens"));
        image.set_bytes("manifest", marked.bytes("manifest").expect("the manifest"));
        assert!(matches!(open_damaged(&image, &batches), Outcome::Refused(damage) if damage.file != "manifest"));
        assert!(!verified(&image).is_sound());
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
    assert_eq!((damage.file, damage.flaw), (segment(1), Flaw::Unlisted));
    assert!(!verification.is_sound());
}

/// A payload may look like anything, also like the log itself: it is not taken for a group behind a torn one.
#[test]
fn payload_that_imitates_a_group_does_not_turn_a_torn_tail_into_damage() {
    for shift in 0..8 {
        let mut all = batches(3);
        let disk = killed_journal(&all);
        let image = groups(&disk, &segment(1));
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
    assert!(matches!(open(disk.mount()), Err(OpenError::Io { file, .. }) if file == "manifest"));
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
        let opened = Embedded::open_on(SimDisk::new(0).mount(), options);
        assert_eq!(opened.is_ok(), is_allowed, "{segment_bytes}");
    }
}
