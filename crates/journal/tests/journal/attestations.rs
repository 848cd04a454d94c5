//! Attestations: what somebody without the key has changed is found with its place, however well it was done, and nothing else is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use enact_journal::disk::{Disk, OsDisk};
use enact_journal::{
    Attested, Attester, Damage, Embedded, EntityKey, Flaw, Journal, Kind, NewRecord, Options, Position, PublicKey, Seq,
    Signed, SigningKey, Verification, adopt_on, verify_attested_on, verify_on,
};
use enact_journal_kit::sim::{Fault, SimDisk};
use sha2::{Digest, Sha256};

use crate::checkpoints::{covered, eager, until};
use crate::compaction::{self, among, compacted};
use crate::workload::{self, block_on, options};

const FILE: &str = "attestations";
const LEN: usize = 224;
const HEADER_LEN: usize = 72;
const GROUP_HEADER_LEN: usize = 40;
const RECORD_HEADER_LEN: usize = 36;
/// The time when the clock of the tests is asked first.
const BEGUN: u64 = 1_900_000_000_000;

fn key(seed: u8) -> SigningKey {
    SigningKey::from_pkcs8(&SigningKey::pkcs8_of([seed; 32])).expect("a key")
}

fn public() -> [PublicKey; 1] {
    [key(1).public()]
}

fn attester(seed: u8) -> Attester {
    let time = AtomicU64::new(BEGUN);
    Attester::new(key(seed), move || time.fetch_add(1000, Ordering::Relaxed))
}

fn open(disk: &SimDisk, options: Options) -> Embedded {
    Embedded::open_attested(disk.mount(), options, attester(1), |_| false).expect("opens")
}

fn append(journal: &Embedded, batches: &[Vec<NewRecord>]) {
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
}

/// Batches as elsewhere, with payloads of a few lengths only: many records of an entity are as long as another one.
fn batches(count: usize) -> Vec<Vec<NewRecord>> {
    let mut batches = workload::batches(count);
    batches.iter_mut().flatten().for_each(|record| record.payload.truncate(record.payload.len() / 50 * 50));
    batches
}

/// A log of `count` batches, closed after half of them and at the end.
fn log(count: usize) -> SimDisk {
    let disk = SimDisk::new(7);
    let batches = batches(count);
    for half in batches.chunks(count / 2) {
        let journal = open(&disk, options());
        append(&journal, half);
        block_on(journal.close()).expect("closed");
    }
    disk
}

fn verified(disk: &SimDisk) -> (Verification, Attested) {
    verify_attested_on(&*disk.mount(), &public()).expect("readable")
}

fn damages(disk: &SimDisk) -> Vec<Damage> {
    verified(disk).0.damages
}

fn segment(number: u32) -> String {
    format!("segment-{number:010}.log")
}

fn in_segment(number: u32, offset: usize, flaw: Flaw) -> Damage {
    Damage { file: segment(number), offset: offset as u64, flaw }
}

fn in_file(index: usize, flaw: Flaw) -> Damage {
    Damage { file: FILE.to_owned(), offset: (index * LEN) as u64, flaw }
}

/// The bytes of each attestation.
fn statements(disk: &SimDisk) -> Vec<Vec<u8>> {
    disk.bytes(FILE).expect("attested").chunks(LEN).map(<[u8]>::to_vec).collect()
}

/// Whether an attestation has its length and its checksum.
fn is_whole(statement: &[u8]) -> bool {
    statement.len() == LEN && u32_at(statement, 216) == crc32c::crc32c(&statement[..216])
}

/// The segment, its end, and the position that an attestation names.
fn place(statement: &[u8]) -> (u32, usize, u64) {
    (u32_at(statement, 12), u32_at(statement, 40) as usize, u64_at(statement, 32))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn put(bytes: &mut [u8], at: usize, what: &[u8]) {
    bytes[at..at + what.len()].copy_from_slice(what);
}

/// Where the footer of a segment begins, if it has one.
fn footer(bytes: &[u8]) -> Option<usize> {
    let trailer = bytes.len() - 16;
    (bytes[trailer..trailer + 8] == *b"ENACTEND").then(|| trailer - u32_at(bytes, trailer + 8) as usize)
}

/// Where the records of a segment stand, and how long they are.
fn records(bytes: &[u8]) -> Vec<(usize, usize)> {
    let (end, mut at, mut found) = (footer(bytes).unwrap_or(bytes.len()), HEADER_LEN, Vec::new());
    while at < end {
        let (body, count) = (u32_at(bytes, at + 32) as usize, u32_at(bytes, at + 36));
        let mut record = at + GROUP_HEADER_LEN;
        for _ in 0..count {
            let len = usize::from(bytes[record + 32]) + usize::from(bytes[record + 33]) * 256;
            let len = RECORD_HEADER_LEN + len + u32_at(bytes, record + 4) as usize;
            found.push((record, len));
            record += len;
        }
        at = (at + GROUP_HEADER_LEN + body).next_multiple_of(8);
    }
    found
}

/// Somebody who knows the format and can write to the directory: makes all checksums, hashes and the manifest anew.
fn forge(disk: &SimDisk, change: impl Fn(u32, &mut Vec<u8>)) {
    let mut previous = [0; 32];
    for number in (1..).take_while(|number| disk.bytes(&segment(*number)).is_some()) {
        let mut bytes = disk.bytes(&segment(number)).expect("there");
        change(number, &mut bytes);
        put(&mut bytes, 32, &previous);
        let sum = crc32c::crc32c(&bytes[..68]);
        put(&mut bytes, 68, &sum.to_le_bytes());
        let log = bytes[16..24].to_vec();
        for (at, len) in records(&bytes) {
            let address = u64::from(number) << 32 | at as u64;
            let sum = crc32c::crc32c(&[&log, &address.to_le_bytes()[..], &bytes[at + 4..at + len]].concat());
            put(&mut bytes, at, &sum.to_le_bytes());
        }
        if let Some(footer) = footer(&bytes) {
            previous = Sha256::digest(&bytes[..footer]).into();
            put(&mut bytes, footer + 40, &previous);
            let end = bytes.len() - 16;
            let sum = crc32c::crc32c(&bytes[footer + 4..end]);
            put(&mut bytes, footer, &sum.to_le_bytes());
        }
        disk.set_bytes(&segment(number), bytes);
    }
    take_as_it_is(disk);
}

fn take_as_it_is(disk: &SimDisk) {
    disk.lose("manifest");
    assert_eq!(adopt_on(&*disk.mount()).expect("readable").damages, [], "the forger is not good enough");
    assert_eq!(verify_on(&*disk.mount()).expect("readable").damages, []);
    drop(Embedded::open_on(disk.copy(0).mount(), options()).expect("opens"));
}

fn set(disk: &SimDisk, statements: &[Vec<u8>]) {
    disk.set_bytes(FILE, statements.concat());
}

#[test]
fn every_seal_and_every_close_is_attested_and_what_is_behind_is_told() {
    let disk = log(120);
    let (found, attested) = verified(&disk);
    assert_eq!(found.damages, []);
    let count = u64::from(found.segment_count) + 1;
    assert!(count > 4, "{count} attestations");
    let signed = Some(Signed { position: found.last, time_ms: BEGUN + 1000 * (count - 1) });
    // The clock began anew with the second run, so it seemed to stand still.
    assert_eq!(attested.count, count);
    assert_eq!(attested.signed.map(|signed| signed.position), signed.map(|signed| signed.position));
    let places: Vec<_> = statements(&disk).iter().map(|statement| place(statement)).collect();
    assert!(places.is_sorted(), "{places:?}");

    // Opened and closed without a record, nothing is attested twice; without the key, nothing is.
    drop(open(&disk, options()));
    assert_eq!(verified(&disk).1, attested);
    let next = NewRecord {
        entity: EntityKey::new("Note", "a").expect("a name"),
        expected: Seq(0),
        kind: Kind(1),
        payload: vec![],
    };
    let journal = Embedded::open_on(disk.mount(), options()).expect("opens");
    append(&journal, &[vec![next]]);
    drop(journal);
    let (found, behind) = verified(&disk);
    assert_eq!((found.damages, behind), (vec![], attested));
    assert_eq!(found.last, Position(attested.signed.expect("signed").position.0 + 1));
}

#[test]
fn records_are_attested_in_time_also_where_no_segment_is_sealed() {
    let disk = SimDisk::new(7);
    let journal = open(&disk, Options { attest_after: Duration::ZERO, ..options() });
    for batch in &batches(3) {
        let count = disk.bytes(FILE).unwrap_or_default().len();
        append(&journal, std::slice::from_ref(batch));
        until("an attestation", || disk.bytes(FILE).unwrap_or_default().len() > count);
    }
}

#[test]
fn whatever_is_forged_is_found_with_its_place() {
    let whole = log(120);
    let attestations = statements(&whole);
    let count = whole.names().iter().filter(|name| name.starts_with("segment-")).count() as u32;
    let last = attestations.len() - 1;
    let places: Vec<_> = attestations.iter().map(|statement| place(statement)).collect();
    // The first attestation of segment `number`, from 1, and of the record at `at` in it, with where that is.
    let of = |number: u32, at: usize| {
        let index = places.iter().position(|&(segment, end, _)| segment == number && end > at).expect("attested");
        let before = if index > 0 && places[index - 1].0 == number { places[index - 1].1 } else { HEADER_LEN };
        in_segment(number, before, Flaw::Attested { attestation: index as u64 + 1 })
    };
    for number in 1..=count {
        for late in [false, true] {
            let disk = whole.copy(0);
            let bytes = disk.bytes(&segment(number)).expect("there");
            let mut with_payload = records(&bytes);
            with_payload.retain(|(at, _)| u32_at(&bytes, at + 4) > 0);
            let (at, len) = if late { *with_payload.last().expect("some") } else { with_payload[0] };
            forge(&disk, |found, bytes| {
                if found == number {
                    bytes[at + len - 1] ^= 1;
                }
            });
            assert_eq!(damages(&disk), [of(number, at)], "a payload of segment {number} at {at}");
        }
    }

    // Two records of one entity change their places: the first two of them that are as long.
    let disk = whole.copy(0);
    let bytes = disk.bytes(&segment(2)).expect("there");
    let found = records(&bytes);
    let content = |(at, len): (usize, usize)| (u32_at(&bytes, at + 4), bytes[at + 32..at + len].to_vec());
    let pairs = found.iter().flat_map(|a| found.iter().map(move |b| (*a, *b)));
    let entity = |(at, len): (usize, usize)| (len, bytes[at + RECORD_HEADER_LEN..at + RECORD_HEADER_LEN + 12].to_vec());
    let (a, b) = pairs
        .filter(|(a, b)| a.0 < b.0 && entity(*a) == entity(*b) && content(*a) != content(*b))
        .min()
        .expect("two records of an entity that are as long");
    forge(&disk, |number, bytes| {
        if number == 2 {
            put(bytes, a.0 + 32, &content(b).1);
            put(bytes, b.0 + 32, &content(a).1);
        }
    });
    assert_eq!(damages(&disk), [of(2, a.0)], "two records have changed places");

    // The end of the log is gone: its last segment, or the last group of it.
    let disk = whole.copy(0);
    disk.lose(&segment(count));
    take_as_it_is(&disk);
    let (_, before, _) = place(attestations.iter().rev().find(|found| place(found).0 == count - 1).expect("sealed"));
    let first = places.iter().position(|place| place.0 == count).expect("attested");
    let ended = |index: usize| Flaw::AttestedEnd { last: Position(places[index].2), attestation: index as u64 + 1 };
    assert_eq!(damages(&disk), [in_segment(count - 1, before, ended(first))]);
    let disk = whole.copy(0);
    let mut bytes = disk.bytes(&segment(count)).expect("there");
    let mut groups = Vec::new();
    let mut at = HEADER_LEN;
    while at < bytes.len() {
        groups.push(at);
        at = (at + GROUP_HEADER_LEN + u32_at(&bytes, at + 32) as usize).next_multiple_of(8);
    }
    let end = *groups.last().expect("some");
    bytes.truncate(end);
    disk.set_bytes(&segment(count), bytes);
    take_as_it_is(&disk);
    assert_eq!(damages(&disk), [in_segment(count, end, ended(last))]);

    // Attestations are dropped, changed, or made with another key.
    let check = |found: &[Vec<u8>], expected: Vec<Damage>, what: &str| {
        let disk = whole.copy(0);
        set(&disk, found);
        assert_eq!(damages(&disk), expected, "{what}");
    };
    let order = |index| vec![in_file(index, Flaw::AttestationOrder)];
    check(&attestations[1..], order(0), "the first one is dropped");
    check(&[&attestations[..2], &attestations[3..]].concat(), order(2), "the third one is dropped");
    check(&[&attestations[..], &attestations[..1]].concat(), order(last + 1), "the first one stands at the end, too");
    check(&[&attestations[..last], &attestations[..]].concat(), order(last), "all of them are there twice");
    for at in [10, 12, 16, 24, 32, 40, 50, 90, 120, 144, 152, 200] {
        let mut changed = attestations.clone();
        changed[1][at] ^= 1;
        let sum = crc32c::crc32c(&changed[1][..216]);
        put(&mut changed[1], 216, &sum.to_le_bytes());
        let disk = whole.copy(0);
        set(&disk, &changed);
        let found = damages(&disk);
        assert_eq!((found.len(), &*found[0].file, found[0].offset), (1, FILE, LEN as u64), "byte {at}: {found:?}");
    }
    let disk = whole.copy(0);
    disk.lose(FILE);
    assert_eq!(damages(&disk), [in_file(0, Flaw::Missing)]);
    drop(Embedded::open_attested(disk.mount(), options(), attester(2), |_| false).expect("opens"));
    let other = Flaw::AttestationKey { key: key(2).public().id() };
    assert_eq!(damages(&disk), [in_file(0, other)], "another key");

    // What cannot be found: the end of both is gone, back to what was attested once.
    let disk = whole.copy(0);
    set(&disk, &attestations[..first]);
    disk.lose(&segment(count));
    take_as_it_is(&disk);
    let (found, attested) = verified(&disk);
    assert_eq!((found.damages, attested.count), (vec![], first as u64));
}

#[test]
fn a_log_that_goes_back_behind_its_attestations_is_not_attested_again() {
    let disk = log(60);
    let count = statements(&disk).len();
    let number = place(&statements(&disk)[count - 1]).0;
    disk.lose(&segment(number));
    take_as_it_is(&disk);
    drop(open(&disk, options()));
    assert_eq!(statements(&disk).len(), count);
    assert!(!verified(&disk).0.is_sound());
}

#[test]
fn keys_follow_each_other_and_all_of_them_are_needed() {
    let disk = log(40);
    drop(Embedded::open_attested(disk.mount(), options(), attester(2), |_| false).expect("opens"));
    let index = statements(&disk).len() - 1;
    let unknown = Flaw::AttestationKey { key: key(2).public().id() };
    assert_eq!(damages(&disk), [in_file(index, unknown)]);
    let keys = [key(2).public(), key(1).public()];
    let (found, attested) = verify_attested_on(&*disk.mount(), &keys).expect("readable");
    assert_eq!((found.damages, attested.count), (vec![], index as u64 + 1));
}

#[test]
fn a_torn_last_attestation_is_harmless_and_the_next_one_follows_the_one_before() {
    let whole = log(40);
    let bytes = whole.bytes(FILE).expect("attested");
    let count = bytes.len() / LEN;
    for kept in 0..LEN {
        for zeros in [false, true] {
            let disk = whole.copy(0);
            let mut torn = bytes[..bytes.len() - LEN + kept].to_vec();
            torn.resize(if zeros { bytes.len() } else { torn.len() }, 0);
            // What fills the last attestation up is zero anyway.
            if torn == bytes {
                continue;
            }
            disk.set_bytes(FILE, torn);
            let (found, attested) = verified(&disk);
            assert!(found.is_sound(), "{kept} bytes are left: {:?}", found.damages);
            assert!(attested.count as usize + 1 >= count, "{kept}");
            drop(open(&disk, options()));
            let (found, attested) = verified(&disk);
            assert_eq!((found.damages, attested.count as usize), (vec![], count), "{kept} bytes were left");
            assert_eq!(attested.signed.map(|signed| signed.position), Some(found.last));
        }
    }
}

/// Whatever a crash leaves of the log and of its attestations fits, before and after the next start.
#[test]
fn what_a_power_cut_leaves_fits_its_attestations() {
    let disk = SimDisk::new(7);
    disk.record();
    let batches = batches(30);
    for half in batches.chunks(15) {
        let journal = open(&disk, options());
        append(&journal, half);
        drop(journal);
    }
    let steps = disk.steps().len();
    let (mut images, mut torn) = (0, 0);
    for step in 0..=steps {
        let at_step = disk.at_step(step, 0);
        for seed in 0..9 {
            let image = at_step.copy(seed);
            match seed {
                0 => image.power_cut_keeping(|_| false),
                1 => image.power_cut_keeping(|_| true),
                2 => image.kill(),
                _ => image.power_cut(),
            }
            if image.bytes("manifest").is_none() {
                continue;
            }
            let is_attested = image.bytes(FILE).is_some();
            torn += usize::from(is_attested && !statements(&image).iter().all(|bytes| is_whole(bytes)));
            let check = |when: &str| {
                let (found, attested) = verified(&image);
                assert_eq!(found.damages, [], "step {step}, seed {seed}, {when}");
                (found, attested)
            };
            if is_attested {
                check("after the cut");
            }
            let journal = open(&image, options());
            drop(journal);
            if image.bytes(FILE).is_some() {
                let (found, attested) = check("after the next start");
                assert_eq!(attested.signed.map_or(Position::START, |signed| signed.position), found.last);
            }
            // The next start relies on what it has read: all of it has to be durable.
            image.power_cut_keeping(|_| false);
            if image.bytes(FILE).is_some() {
                check("after another cut");
            }
            images += 1;
        }
    }
    assert!(images > 800 && torn > 8, "{images} images, {torn} with a torn attestation");
}

/// An attestation may be seen that a failed sync has left in the cache: the next one must not rest on it.
#[test]
fn a_sync_that_fails_leaves_no_attestation_that_others_rest_on() {
    let mut failed_count = 0;
    for fault in [Fault::SyncLost, Fault::Refused, Fault::Torn, Fault::AfterDone, Fault::Full] {
        for step in 0..40 {
            let disk = SimDisk::new(7);
            drop(open(&disk, options()));
            let journal = open(&disk, Options { attest_after: Duration::ZERO, ..options() });
            disk.fail_in(step, fault);
            for batch in batches(6) {
                if block_on(journal.append(batch)).is_err() {
                    failed_count += 1;
                    break;
                }
            }
            drop(journal);
            disk.kill();
            drop(open(&disk, options()));
            disk.power_cut_keeping(|_| false);
            if disk.bytes(FILE).is_some() {
                assert_eq!(damages(&disk), [], "{fault:?} at step {step}");
            }
        }
    }
    assert!(failed_count < 150, "{failed_count} of 200 faults hit the log and not its attestations");
}

#[test]
fn attestations_that_cannot_be_written_fail_no_append() {
    let place = tempfile::tempdir().expect("a directory");
    let path = place.path().join("data");
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::at(&path).expect("a directory"));
    std::os::unix::fs::symlink("elsewhere", path.join(FILE)).expect("a link");
    let options = Options { attest_after: Duration::ZERO, ..options() };
    let journal = Embedded::open_attested(Arc::clone(&disk), options, attester(1), |_| false).expect("opens");
    append(&journal, &batches(60));
    block_on(journal.close()).expect("closed");
    drop(journal);
    assert_eq!(verify_on(&*disk).expect("readable").damages, []);
    std::fs::remove_file(path.join(FILE)).expect("ours");
    drop(Embedded::open_attested(Arc::clone(&disk), options, attester(1), |_| false).expect("opens"));
    let (found, attested) = verify_attested_on(&*disk, &public()).expect("readable");
    assert_eq!((found.damages, attested.count), (vec![], 1));
}

/// Appends so many batches with answers to `disk`, and has a journal with the key discard the first classes of these.
fn compacted_log(disk: &SimDisk, count: usize, over: usize) {
    // What is attested in the middle of a segment is not there any more when that is compacted.
    let journal = open(disk, options());
    compaction::append(&journal, 0..20);
    drop(journal);
    let journal = open(disk, options());
    compaction::append(&journal, 20..count);
    journal.forget(among(over));
    until("compacted segments", || compacted(disk) >= over);
    drop(journal);
}

fn compacted_attestations(disk: &SimDisk) -> usize {
    statements(disk).iter().filter(|statement| statement[10] == 2).count()
}

#[test]
fn a_verification_goes_on_through_compacted_segments_whatever_a_power_cut_leaves() {
    let disk = SimDisk::new(7);
    disk.record();
    compacted_log(&disk, 120, 2);
    // Once more, without more of their records.
    let journal = open(&disk, options());
    let before = compacted_attestations(&disk);
    journal.forget(among(3));
    until("segments that are compacted again", || compacted_attestations(&disk) > before);
    drop(journal);
    let (found, attested) = verified(&disk);
    assert_eq!((found.damages, attested.signed.map(|signed| signed.position)), (vec![], Some(found.last)));

    let mut images = 0;
    for step in 0..=disk.steps().len() {
        let at_step = disk.at_step(step, 0);
        if at_step.bytes(FILE).is_none_or(|bytes| !bytes.chunks(LEN).any(|statement| statement.get(10) == Some(&2))) {
            continue;
        }
        for seed in 0..5 {
            let image = at_step.copy(seed);
            match seed {
                0 => image.power_cut_keeping(|_| false),
                1 => image.power_cut_keeping(|_| true),
                _ => image.power_cut(),
            }
            assert_eq!(damages(&image), [], "step {step}, seed {seed}");
            images += 1;
        }
    }
    assert!(images > 50, "{images} images");
}

#[test]
fn a_log_that_was_compacted_before_it_was_attested_is_taken_as_it_was() {
    let disk = compaction::log(200, 4);
    drop(open(&disk, options()));
    let (found, attested) = verified(&disk);
    assert_eq!((found.damages, attested.count), (vec![], compacted(&disk) as u64 + 1));
    assert_eq!(attested.signed.map(|signed| signed.position), Some(found.last));
}

#[test]
fn a_segment_that_somebody_without_the_key_has_compacted_is_found() {
    let whole = SimDisk::new(7);
    compacted_log(&whole, 200, 2);
    let attestations = whole.bytes(FILE).expect("attested");
    let disk = whole.copy(0);
    disk.lose(FILE);
    compaction::compact(&disk, 4);
    let file = disk.mount().create(FILE).expect("it is gone");
    file.write_at(0, &attestations).and_then(|()| file.sync()).expect("written");
    let changed = (1..).find(|number| disk.bytes(&segment(*number)) != whole.bytes(&segment(*number))).expect("one");
    assert_eq!(damages(&disk), [in_segment(changed, 0, Flaw::Unattested)]);
}

#[test]
fn a_log_that_is_attested_is_not_compacted_without_the_key() {
    let disk = SimDisk::new(7);
    let journal = open(&disk, options());
    compaction::append(&journal, 0..100);
    drop(journal);
    let journal = Embedded::open_on(disk.mount(), eager()).expect("opens");
    journal.forget(among(2));
    // What is told before a seal is taken up before it, and a checkpoint of what was sealed is made behind that.
    let (sealed, mut next) = (place(statements(&disk).last().expect("attested")).0 as usize, 100);
    until("checkpoints", || {
        compaction::append(&journal, next..next + 1);
        next += 1;
        covered(&disk) > sealed + 20
    });
    drop(journal);
    assert_eq!((compacted(&disk), damages(&disk)), (0, vec![]));
    drop(open(&disk, options()));
    let journal = open(&disk, options());
    journal.forget(among(2));
    until("compacted segments", || compacted(&disk) > 0);
    drop(journal);
    assert_eq!(damages(&disk), []);
}

/// The writer answers before it takes a group into the hash of its segment, and has another thread do that for long ones.
#[test]
fn groups_of_all_lengths_are_sealed_and_attested_after_a_close_and_after_a_power_cut() {
    const LENS: [usize; 9] = [10, 20_000, 10, 50_000, 30_000, 10, 10, 200_000, 16_300];
    let options = || Options { segment_bytes: 128 << 10, ..options() };
    let batches: Vec<Vec<NewRecord>> = (0..36)
        .map(|n| {
            let (entity, expected) = (workload::key(n % 4), Seq(n as u64 / 4));
            vec![NewRecord { entity, expected, kind: Kind(0), payload: vec![n as u8; LENS[n % LENS.len()]] }]
        })
        .collect();
    for is_cut in [false, true] {
        let disk = SimDisk::new(7);
        for half in batches.chunks(18) {
            let journal = open(&disk, options());
            append(&journal, half);
            if is_cut {
                disk.power_cut_keeping(|_| false);
            } else {
                block_on(journal.close()).expect("closed");
            }
        }
        let (found, attested) = verified(&disk);
        assert!(found.is_sound(), "{:?}", found.damages);
        assert!(found.segment_count > 5, "{} segments", found.segment_count);
        assert_eq!(found.last, Position(36));
        if !is_cut {
            assert_eq!(attested.signed.map(|signed| signed.position), Some(Position(36)));
        }
        let journal = open(&disk, options());
        assert_eq!(workload::read_all(&journal).expect("readable"), workload::records(&batches));
    }
}
