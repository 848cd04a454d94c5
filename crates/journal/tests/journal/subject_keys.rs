//! Keys of data subjects: what was sealed is unsealed as long as its key lives, and by no crash, damage or mistake after that.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fs, thread};

use enact_journal::disk::DirectoryError;
use enact_journal::{EntityKey, NAME_BYTES_MAX, Sealed, SubjectKeys, SubjectKeysError};
use enact_journal_kit::sim::{Fault, Hang, SimDisk, Step};
use proptest::prelude::*;

const FILE: &str = "subject-keys";
/// Where slots begin, how long they are, and where the state and the key of one are.
const SLOTS_AT: usize = 1536;
const SLOT_LEN: usize = 64;
const STATE_AT: usize = 24;
const KEY_AT: usize = 28;
const SEED: u64 = 0x5EA1;

fn open(disk: &SimDisk) -> SubjectKeys {
    SubjectKeys::open_on(disk.mount()).expect("the keys open")
}

fn seal(keys: &SubjectKeys, subject: &str, clear: &str) -> Sealed {
    keys.seal(subject, clear.as_bytes()).expect("sealed").expect("a key")
}

fn unseal(keys: &SubjectKeys, subject: &str, sealed: &Sealed) -> Result<Option<String>, SubjectKeysError> {
    let clear = keys.unseal(subject, sealed.generation, &sealed.bytes)?;
    Ok(clear.map(|clear| String::from_utf8(clear).expect("a text")))
}

/// The key and its checksum in slot `number`.
fn secret(disk: &SimDisk, number: usize) -> Vec<u8> {
    let begin = SLOTS_AT + number * SLOT_LEN;
    disk.bytes(FILE).expect("a file")[begin + KEY_AT..begin + SLOT_LEN].to_vec()
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[test]
fn what_was_sealed_is_unsealed_by_the_same_subject_and_generation_alone() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    assert_eq!((keys.generation("ada"), keys.seal("ada", b"x").expect("no key")), (None, None));
    for subject in ["ada", "bob"] {
        keys.create(subject).expect("durable");
        keys.create(subject).expect("there already");
        assert_eq!(keys.generation(subject), Some(1));
    }
    let ada = seal(&keys, "ada", "Ada Lovelace");
    assert_eq!(ada.bytes.len(), 12 + "Ada Lovelace".len() + 16);
    assert_ne!(ada, seal(&keys, "ada", "Ada Lovelace"), "the nonce is another one each time");
    let empty = seal(&keys, "ada", "");

    let check = |keys: &SubjectKeys| {
        assert_eq!(unseal(keys, "ada", &ada).expect("whole").as_deref(), Some("Ada Lovelace"));
        assert_eq!(unseal(keys, "ada", &empty).expect("whole").as_deref(), Some(""));
        let tampered =
            |result| matches!(result, Err(SubjectKeysError::Tampered { subject, generation: 1 }) if subject != "eve");
        assert!(tampered(unseal(keys, "bob", &ada)));
        for at in 0..ada.bytes.len() {
            let mut changed = ada.clone();
            changed.bytes[at] ^= 1;
            assert!(tampered(unseal(keys, "ada", &changed)), "byte {at}");
            changed.bytes.truncate(at);
            assert!(tampered(unseal(keys, "ada", &changed)), "{at} bytes");
        }
        for (subject, generation) in [("ada", 0), ("ada", 2), ("eve", 1)] {
            let unknown = unseal(keys, subject, &Sealed { generation, ..ada.clone() }).expect_err("never had");
            assert!(
                matches!(&unknown, SubjectKeysError::Unknown { subject: of, generation: number }
                if of == subject && *number == generation),
                "{unknown}"
            );
        }
    };
    check(&keys);
    drop(keys);
    check(&open(&disk));
}

#[test]
fn a_destroyed_key_is_gone_from_calls_and_from_the_file() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    let mut sealed = Vec::new();
    for generation in 1..=3 {
        keys.create("ada").expect("durable");
        keys.create(&format!("beside {generation}")).expect("durable");
        sealed.push(seal(&keys, "ada", "Ada Lovelace"));
        assert_eq!((keys.generation("ada"), sealed.last().expect("sealed").generation), (Some(generation), generation));
        let secret = secret(&disk, 2 * (generation as usize - 1));
        assert!(!keys.destroy("ada", generation - 1).expect("nothing to do"), "only earlier ones");
        assert_eq!(
            unseal(&keys, "ada", &sealed[generation as usize - 1]).expect("whole").as_deref(),
            Some("Ada Lovelace")
        );
        assert!(keys.destroy("ada", generation).expect("destroyed"));
        assert!(!keys.destroy("ada", generation).expect("destroyed before"));
        // Not even four bytes of the key, nor its checksum.
        assert!(secret.chunks(4).all(|part| !has(&disk.bytes(FILE).expect("a file"), part)));
        assert_eq!((keys.generation("ada"), keys.seal("ada", b"x").expect("no key")), (None, None));
    }
    assert!(!keys.destroy("eve", u32::MAX).expect("it has none"));
    let check = |keys: &SubjectKeys| {
        for sealed in &sealed {
            assert_eq!(unseal(keys, "ada", sealed).expect("destroyed"), None, "generation {}", sealed.generation);
        }
        assert_eq!(keys.generation("beside 2"), Some(1));
    };
    check(&keys);
    disk.power_cut();
    check(&open(&disk));
    let keys = {
        disk.kill();
        open(&disk)
    };
    keys.create("ada").expect("durable");
    assert_eq!(keys.generation("ada"), Some(4));
    assert!(keys.destroy("ada", u32::MAX).expect("destroyed"));
}

#[test]
fn subjects_are_any_texts_and_the_file_names_none() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    let name = "x".repeat(NAME_BYTES_MAX);
    let longest = EntityKey::new(&name, &name).expect("a key").as_str().to_owned();
    let almost = longest[1..].to_owned();
    let subjects = ["", "a", "A", "ä", "a\u{308}", "\0", "a\0", "名前/🦀", &longest, &almost];
    let sealed = subjects.map(|subject| {
        keys.create(subject).expect("durable");
        seal(&keys, subject, &format!("of {subject:?}"))
    });
    drop(keys);
    let keys = open(&disk);
    for (subject, sealed) in subjects.iter().zip(&sealed) {
        assert_eq!(unseal(&keys, subject, sealed).expect("whole"), Some(format!("of {subject:?}")));
    }
    let file = disk.bytes(FILE).expect("a file");
    assert_eq!(file.len(), SLOTS_AT + subjects.len() * SLOT_LEN);
    assert!(subjects.iter().filter(|subject| subject.len() > 4).all(|subject| !has(&file, subject.as_bytes())));

    let other = SimDisk::new(SEED);
    open(&other).create("a").expect("durable");
    let (digest, slot) = (8..STATE_AT, SLOTS_AT + SLOT_LEN);
    assert_ne!(other.bytes(FILE).expect("a file")[SLOTS_AT..][digest.clone()], file[slot..][digest], "no plain hash");
}

#[test]
fn directory_is_private_and_taken_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("some/keys");
    let keys = SubjectKeys::open(&path).expect("a new directory");
    keys.create("ada").expect("durable");
    let sealed = seal(&keys, "ada", "Ada Lovelace");
    let locked = SubjectKeys::open(&path).expect_err("taken");
    assert_eq!(
        locked.to_string(),
        format!("the directory of subject keys is in use by process {}", std::process::id())
    );
    assert_eq!(path.metadata().expect("it exists").mode() & 0o777, 0o700);
    assert_eq!(path.join(FILE).metadata().expect("it exists").mode() & 0o777, 0o600);
    assert!(!format!("{keys:?}").contains("secret"), "{keys:?}");
    drop(keys);
    fs::write(path.join("subject-keys.new"), b"of a crash").expect("a file");
    let keys = SubjectKeys::open(&path).expect("free again");
    assert_eq!(unseal(&keys, "ada", &sealed).expect("whole").as_deref(), Some("Ada Lovelace"));
    drop(keys);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o750)).expect("permissions");
    let open = SubjectKeys::open(&path).expect_err("open to others");
    assert!(
        matches!(&open, SubjectKeysError::Directory(why) if matches!(**why, DirectoryError::Open { .. })),
        "{open}"
    );
}

/// A small file with each kind of slot, what was sealed with its keys, and what of that is destroyed.
fn small_file() -> (SimDisk, Vec<(&'static str, Sealed, bool)>) {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    let mut sealed = Vec::new();
    for (subject, is_destroyed) in [("ada", true), ("bob", false), ("ada", false), ("eve", true)] {
        keys.create(subject).expect("durable");
        sealed.push((subject, seal(&keys, subject, subject), is_destroyed));
        if is_destroyed {
            keys.destroy(subject, u32::MAX).expect("destroyed");
        }
    }
    drop(keys);
    (disk, sealed)
}

#[test]
fn every_changed_byte_is_found_or_harmless() {
    let (disk, sealed) = small_file();
    let whole = disk.bytes(FILE).expect("a file");
    let mut refused_count = 0;
    let (live, ending, ended) = (0x3C, 0xA5, 0x5A);
    for at in 0..whole.len() {
        for byte in [whole[at] ^ 1, whole[at] ^ 0x80, !whole[at], 0, live, ending, ended] {
            if byte == whole[at] {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] = byte;
            let damaged = disk.copy(SEED);
            damaged.set_bytes(FILE, bytes.clone());
            match SubjectKeys::open_on(damaged.mount()) {
                Ok(keys) => {
                    for (subject, sealed, is_destroyed) in &sealed {
                        let expected = (!is_destroyed).then(|| (*subject).to_owned());
                        assert_eq!(unseal(&keys, subject, sealed).expect("whole"), expected, "byte {at} is {byte}");
                    }
                    keys.create("new").expect("it goes on");
                }
                Err(SubjectKeysError::Damaged { file, offset }) => {
                    let part = if at < 512 { 0 } else { at - at % SLOT_LEN };
                    assert_eq!((file.as_str(), offset), (FILE, part as u64), "byte {at} is {byte}");
                    assert_eq!(damaged.bytes(FILE), Some(bytes), "it is left as it is");
                    refused_count += 1;
                }
                Err(SubjectKeysError::Version { file, .. }) => assert!(file == FILE && (8..10).contains(&at)),
                Err(other) => panic!("byte {at} is {byte}: {other}"),
            }
        }
    }
    assert!(refused_count > 6 * (512 + 4 * (SLOT_LEN - 8)), "only {refused_count} were refused");
}

#[test]
fn lost_and_foreign_parts_of_the_file_are_found() {
    let (disk, _) = small_file();
    let whole = disk.bytes(FILE).expect("a file");
    let (first, second) = (SLOTS_AT..SLOTS_AT + SLOT_LEN, SLOTS_AT + SLOT_LEN..SLOTS_AT + 2 * SLOT_LEN);
    let swapped = [&whole[..SLOTS_AT], &whole[second], &whole[first], &whole[SLOTS_AT + 2 * SLOT_LEN..]].concat();
    let foreign = {
        let other = small_file().0.bytes(FILE).expect("a file");
        [&whole[..SLOTS_AT], &other[SLOTS_AT..]].concat()
    };
    let marks = [&whole[..512], &[0; 1024][..], &whole[SLOTS_AT..]].concat();
    let sector = [&whole[..SLOTS_AT], &[0; 4 * SLOT_LEN][..]].concat();
    // The newest mark is damaged, and the other one, which says one slot less, finds that two are missing.
    let mut older = whole[..SLOTS_AT + 2 * SLOT_LEN].to_vec();
    let newest = if older[516..520] > older[1028..1032] { 512 } else { 1024 };
    older[newest] ^= 1;
    let cut = |len: usize| (whole[..len].to_vec(), len as u64 / SLOT_LEN as u64 * SLOT_LEN as u64);
    for (bytes, offset) in [
        (swapped, SLOTS_AT as u64),
        (foreign, SLOTS_AT as u64),
        (marks, 512),
        (older, (SLOTS_AT + 2 * SLOT_LEN) as u64),
        (sector, SLOTS_AT as u64),
        (Vec::new(), 0),
        (whole[..40].to_vec(), 0),
        (whole[..530].to_vec(), 512),
        cut(whole.len() - 1),
        cut(whole.len() - SLOT_LEN),
        cut(SLOTS_AT),
    ] {
        let damaged = disk.copy(SEED);
        damaged.set_bytes(FILE, bytes);
        let error = SubjectKeys::open_on(damaged.mount()).expect_err("damage");
        assert!(matches!(error, SubjectKeysError::Damaged { offset: at, .. } if at == offset), "{error}, not {offset}");
    }
    // Damage while the store is open.
    let keys = open(&disk);
    let sealed = seal(&keys, "bob", "bob");
    let mut bytes = whole;
    bytes[SLOTS_AT + SLOT_LEN + KEY_AT] ^= 1;
    disk.set_bytes(FILE, bytes);
    for failed in [unseal(&keys, "bob", &sealed).map(drop), keys.seal("bob", b"x").map(drop)] {
        assert!(
            matches!(failed, Err(SubjectKeysError::Damaged { offset, .. }) if offset == (SLOTS_AT + SLOT_LEN) as u64)
        );
    }
    disk.fail_reads(true);
    assert!(matches!(unseal(&keys, "bob", &sealed), Err(SubjectKeysError::Disk { file, .. }) if file == FILE));
}

/// An earlier copy of the keys, put in the place of the present one.
#[test]
fn an_earlier_copy_does_not_pass_for_the_present_one() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    keys.create("ada").expect("durable");
    drop(keys);
    let copy = disk.copy(SEED);
    let keys = open(&disk);
    keys.create("bob").expect("durable");
    keys.destroy("ada", 1).expect("destroyed");
    keys.create("ada").expect("durable");
    let (bob, ada) = (seal(&keys, "bob", "bob"), seal(&keys, "ada", "ada"));
    let keys = open(&copy);
    for (subject, sealed) in [("bob", &bob), ("ada", &ada)] {
        let error = unseal(&keys, subject, sealed).expect_err("not there");
        assert!(error.to_string().ends_with("put the right one in its place"), "{error}");
    }
    keys.create("bob").expect("durable");
    assert!(matches!(unseal(&keys, "bob", &bob), Err(SubjectKeysError::Tampered { .. })), "another key of that number");
}

/// One call of the workload.
#[derive(Clone, Copy, Debug)]
enum Call {
    Create(&'static str),
    Destroy(&'static str),
    Reopen,
}

const WORKLOAD: [Call; 14] = [
    Call::Create("ada"),
    Call::Create("bob"),
    Call::Destroy("ada"),
    Call::Create("ada"),
    Call::Create("cid"),
    Call::Destroy("bob"),
    Call::Reopen,
    Call::Destroy("cid"),
    Call::Create("bob"),
    Call::Destroy("ada"),
    Call::Create("dan"),
    Call::Reopen,
    Call::Destroy("bob"),
    Call::Create("eve"),
];

/// What is known of one key of the workload. Steps are numbers of steps that the disk had made.
struct KnownKey {
    subject: &'static str,
    sealed: Sealed,
    secret: Vec<u8>,
    created_at: usize,
    destruction_begun_at: usize,
    destroyed_at: usize,
}

/// A recorded run of the workload, and all keys that it had.
struct Run {
    disk: SimDisk,
    keys: Vec<KnownKey>,
}

impl Run {
    fn new() -> Self {
        let disk = SimDisk::new(SEED);
        disk.record();
        let mut store = open(&disk);
        let mut keys: Vec<KnownKey> = Vec::new();
        for call in WORKLOAD {
            let begun_at = disk.steps().len();
            match call {
                Call::Create(subject) => {
                    store.create(subject).expect("durable");
                    keys.push(KnownKey {
                        subject,
                        sealed: seal(&store, subject, subject),
                        secret: secret(&disk, keys.len()),
                        created_at: disk.steps().len(),
                        destruction_begun_at: usize::MAX,
                        destroyed_at: usize::MAX,
                    });
                }
                Call::Destroy(subject) => {
                    assert!(store.destroy(subject, u32::MAX).expect("destroyed"));
                    let key = keys.iter_mut().rfind(|key| key.subject == subject).expect("it has one");
                    (key.destruction_begun_at, key.destroyed_at) = (begun_at, disk.steps().len());
                }
                Call::Reopen => {
                    disk.kill();
                    store = open(&disk);
                }
            }
        }
        Self { disk, keys }
    }

    /// Opens `image`, the disk after a crash at `step`; checks all keys, and that the store goes on. What was found of each key.
    fn check(&self, image: &SimDisk, step: usize, what: &str) -> Vec<Option<String>> {
        let keys = SubjectKeys::open_on(image.mount()).unwrap_or_else(|error| panic!("step {step}, {what}: {error}"));
        let seen = self.judge(image, &keys, step, what);
        for subject in ["ada", "bob", "cid", "dan", "eve", "new"] {
            let generation = keys.generation(subject);
            let all_before = self.keys.iter().filter(|key| key.subject == subject);
            let begun = all_before.map(|key| key.sealed.generation).max().unwrap_or_default();
            keys.create(subject).unwrap_or_else(|error| panic!("step {step}, {what}: {error}"));
            let now = keys.generation(subject).expect("it has a key");
            assert!(generation.is_none_or(|generation| generation == now) && now <= begun + 1, "step {step}, {what}");
            let sealed = seal(&keys, subject, "more");
            assert_eq!(unseal(&keys, subject, &sealed).expect("whole").as_deref(), Some("more"));
        }
        seen
    }

    fn judge(&self, image: &SimDisk, keys: &SubjectKeys, step: usize, what: &str) -> Vec<Option<String>> {
        let mut seen = Vec::new();
        for key in &self.keys {
            let what = format!("step {step}, {what}, key {} of {}", key.sealed.generation, key.subject);
            let found = match unseal(keys, key.subject, &key.sealed) {
                Ok(found) => found,
                Err(SubjectKeysError::Unknown { .. }) if step < key.created_at => None,
                Err(other) => panic!("{what}: {other}"),
            };
            if let Some(clear) = &found {
                assert_eq!(clear, key.subject, "{what}");
            } else if step >= key.created_at {
                assert!(step > key.destruction_begun_at, "{what}: it was durable");
            }
            if step >= key.destroyed_at {
                assert_eq!(found, None, "{what}: it was destroyed");
            }
            // What is not shown is not there either.
            if found.is_none() {
                assert!(!has(&image.bytes(FILE).expect("a file"), &key.secret), "{what}: it is in the file");
            }
            seen.push(found);
        }
        seen
    }
}

#[test]
fn power_cut_and_kill_at_every_step_keep_what_was_acknowledged() {
    let run = Run::new();
    let step_count = run.disk.steps().len();
    let mut image_count = 0;
    for step in 0..=step_count {
        let killed = run.disk.at_step(step, SEED);
        let unsynced = killed.unsynced_count();
        assert!(unsynced <= 6, "{unsynced} pieces at step {step}");
        for subset in 0..1_u32 << unsynced {
            let image = killed.copy(SEED);
            image.power_cut_keeping(|piece| subset >> piece & 1 == 1);
            run.check(&image, step, &format!("subset {subset:b}"));
            image_count += 1;
        }
        for seed in 0..8 {
            let image = killed.copy(SEED + seed);
            image.power_cut();
            run.check(&image, step, &format!("seed {seed}"));
            image_count += 1;
        }
        run.check(&killed, step, "killed");
    }
    assert!(image_count > 600, "only {image_count} images of {step_count} steps");
}

/// Somebody has seen it: what an opened store shows stays, though nobody was answered.
#[test]
fn what_was_seen_after_a_kill_survives_a_power_cut() {
    let run = Run::new();
    for step in 0..=run.disk.steps().len() {
        let image = run.disk.at_step(step, SEED);
        let keys = open(&image);
        let seen = run.judge(&image, &keys, step, "killed");
        image.power_cut_keeping(|_| false);
        drop(keys);
        assert_eq!(run.check(&image, step, "cut after it was opened"), seen, "step {step}");
    }
}

/// A crash may leave each byte old or new, in no order: sectors need not be written as a whole.
#[test]
fn any_mixture_of_old_and_new_bytes_opens() {
    let run = Run::new();
    let mut random = SEED;
    let mut mixed_count = 0;
    for step in 0..=run.disk.steps().len() {
        let visible = run.disk.at_step(step, SEED);
        let durable = visible.copy(SEED);
        durable.power_cut_keeping(|_| false);
        let (Some(new), Some(old)) = (visible.bytes(FILE), durable.bytes(FILE)) else { continue };
        if old == new {
            continue;
        }
        for new_of_eight in [1, 4, 7, 1, 4, 7] {
            let mut next = || {
                random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
                random >> 61 < new_of_eight
            };
            let longest = old.len().max(new.len());
            let byte = |bytes: &[u8], at: usize| bytes.get(at).copied().unwrap_or_default();
            let mut mixed: Vec<u8> =
                (0..longest).map(|at| if next() { byte(&new, at) } else { byte(&old, at) }).collect();
            mixed.truncate(if next() { new.len() } else { old.len() });
            durable.set_bytes(FILE, mixed);
            run.check(&durable.copy(SEED), step, &format!("{new_of_eight} of 8 bytes are new"));
            mixed_count += 1;
        }
    }
    assert!(mixed_count > 150, "only {mixed_count} mixtures");
}

#[test]
fn every_step_meets_every_fault() {
    let faults = [Fault::Refused, Fault::Torn, Fault::AfterDone, Fault::SyncLost, Fault::Full, Fault::FullAfterDone];
    let (mut refused_count, mut failed_count) = (0, 0);
    for (fault, is_created) in faults.iter().flat_map(|fault| [(*fault, true), (*fault, false)]) {
        for step in 0..8 {
            let disk = SimDisk::new(SEED);
            let keys = open(&disk);
            keys.create("ada").expect("durable");
            let ada = seal(&keys, "ada", "ada");
            disk.record();
            disk.fail_in(step, fault);
            let what = format!("{fault:?} at step {step}, create: {is_created}");
            let result = if is_created { keys.create("bob") } else { keys.destroy("ada", 1).map(|had| assert!(had)) };
            let mut is_seen = None;
            match &result {
                Ok(()) => {}
                Err(SubjectKeysError::Disk { file, .. }) => {
                    assert_eq!(file, FILE, "{what}");
                    let is_space = matches!(fault, Fault::Full | Fault::FullAfterDone);
                    if is_created && is_space && step == 0 {
                        refused_count += 1;
                        assert_eq!(keys.generation("bob"), None, "{what}");
                        keys.create("bob").expect("there is space again");
                        keys.create("cid").expect("there is space again");
                        assert_eq!(disk.bytes(FILE).expect("a file").len(), SLOTS_AT + 3 * SLOT_LEN);
                    } else {
                        failed_count += 1;
                        is_seen = Some(unseal(&keys, "ada", &ada).expect("readable all the same"));
                        for refused in [
                            keys.create("ada"),
                            keys.create("cid"),
                            keys.destroy("ada", 1).map(drop),
                            keys.destroy("eve", 1).map(drop),
                            keys.seal("ada", b"x").map(drop),
                        ] {
                            assert!(matches!(refused, Err(SubjectKeysError::Failed { .. })), "{what}: {refused:?}");
                        }
                    }
                }
                Err(other) => panic!("{what}: {other}"),
            }
            // What a failed sync has left is visible and not durable, and a crash while it is settled leaves any part of it.
            for (recovery_step, kept) in (0..8).flat_map(|step| [0b00, 0b01, 0b10, 0b11].map(|kept| (step, kept))) {
                let disk = disk.copy(SEED);
                disk.fail_in(recovery_step, Fault::AfterDone);
                drop(SubjectKeys::open_on(disk.mount()));
                disk.power_cut_keeping(|piece| kept >> (piece % 2) & 1 == 1);
                let found = unseal(&open(&disk), "ada", &ada).expect("its own key");
                assert!(found.is_some() || !is_created, "{what}, recovery failed at its step {recovery_step}");
            }
            for crash in [SimDisk::kill, SimDisk::power_cut, |disk: &SimDisk| disk.power_cut_keeping(|_| false)] {
                let disk = disk.copy(SEED + step);
                crash(&disk);
                let keys = open(&disk);
                let found = unseal(&keys, "ada", &ada).expect("its own key");
                if is_created {
                    assert_eq!(found.as_deref(), Some("ada"), "{what}");
                    assert!(result.is_err() || keys.generation("bob") == Some(1), "{what}");
                } else if result.is_ok() || is_seen == Some(None) {
                    assert_eq!(found, None, "{what}");
                }
                // What is seen, or refused because it is there already, is durable now.
                keys.create("bob").expect("durable");
                let bob = seal(&keys, "bob", "bob");
                let had = keys.destroy("ada", 1).expect("destroyed");
                assert_eq!(had, found.is_some(), "{what}");
                disk.power_cut_keeping(|_| false);
                drop(keys);
                let keys = open(&disk);
                assert_eq!(unseal(&keys, "bob", &bob).expect("whole").as_deref(), Some("bob"), "{what}");
                assert_eq!(unseal(&keys, "ada", &ada).expect("destroyed"), None, "{what}");
            }
        }
    }
    assert!(refused_count == 2 && failed_count > 40, "{refused_count} were refused, {failed_count} failed");
}

/// Opening settles what a crash has left, and can be interrupted anywhere and repeated.
#[test]
fn interrupted_recovery_keeps_what_was_acknowledged() {
    let run = Run::new();
    let mut interrupted_count = 0;
    for step in 0..=run.disk.steps().len() {
        for (recovery_step, fault) in (0..12).flat_map(|step| [(step, Fault::Torn), (step, Fault::SyncLost)]) {
            let disk = run.disk.at_step(step, SEED + recovery_step);
            disk.fail_in(recovery_step, fault);
            if let Ok(keys) = SubjectKeys::open_on(disk.mount()) {
                drop(keys);
                break;
            }
            interrupted_count += 1;
            disk.kill();
            let keys = open(&disk);
            let seen = run.judge(&disk, &keys, step, "recovered twice");
            disk.power_cut_keeping(|_| false);
            drop(keys);
            let again = run.check(&disk, step, &format!("recovery failed at its step {recovery_step}"));
            assert_eq!(again, seen, "step {step}, recovery failed at its step {recovery_step}: {fault:?}");
        }
    }
    assert!(interrupted_count > 200, "only {interrupted_count} recoveries were interrupted");
}

#[test]
fn full_disk_refuses_new_keys_and_destroys_old_ones() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    keys.create("ada").expect("durable");
    for free in [0, 20, SLOT_LEN - 1] {
        disk.set_capacity((SLOTS_AT + SLOT_LEN + free) as u64);
        let full = keys.create("bob").expect_err("no space");
        assert!(
            matches!(&full, SubjectKeysError::Disk { error, .. } if error.kind() == std::io::ErrorKind::StorageFull)
        );
        assert_eq!((keys.generation("bob"), keys.generation("ada")), (None, Some(1)));
    }
    assert!(keys.destroy("ada", 1).expect("in place"));
    disk.power_cut();
    let keys = open(&disk);
    assert_eq!((keys.generation("ada"), keys.generation("bob")), (None, None));
    disk.set_capacity(u64::MAX);
    keys.create("bob").expect("there is space again");
}

/// Releases what hangs, also when a check fails: the threads that hang are waited for.
struct Released<'a>(&'a SimDisk);

impl Drop for Released<'_> {
    fn drop(&mut self) {
        self.0.release();
    }
}

fn sync_count(disk: &SimDisk) -> usize {
    disk.steps().iter().filter(|step| matches!(step, Step::Sync(_))).count()
}

/// Creates a key of bob, makes `calls` while its sync hangs, looks and releases the sync; what the calls have returned.
fn during_sync(
    disk: &SimDisk,
    keys: &SubjectKeys,
    calls: &[Call],
    look: impl FnOnce(),
) -> Vec<Result<bool, SubjectKeysError>> {
    disk.hang(Hang::Syncs);
    let begun_count = AtomicUsize::new(0);
    thread::scope(|scope| {
        let _released = Released(disk);
        let first = scope.spawn(|| keys.create("bob"));
        wait_for_hanging(disk);
        let spawn = |call: &Call| {
            let (call, begun_count) = (*call, &begun_count);
            scope.spawn(move || {
                begun_count.fetch_add(1, Ordering::Relaxed);
                match call {
                    Call::Create(subject) => keys.create(subject).map(|()| false),
                    Call::Destroy(subject) => keys.destroy(subject, u32::MAX),
                    Call::Reopen => panic!("the store stays open"),
                }
            })
        };
        let others: Vec<_> = calls.iter().map(spawn).collect();
        while begun_count.load(Ordering::Relaxed) < calls.len() {
            thread::yield_now();
        }
        // Time enough to wait for the round; nothing but what is shared depends on it.
        (0..100).for_each(|_| thread::yield_now());
        look();
        disk.release();
        first.join().expect("no panic").expect("durable");
        others.into_iter().map(|other| other.join().expect("no panic")).collect()
    })
}

fn wait_for_hanging(disk: &SimDisk) {
    while disk.hanging_count() == 0 {
        thread::yield_now();
    }
}

const SUBJECTS: [&str; 9] = ["bob", "s1", "s2", "s3", "s4", "s5", "s6", "s7", "s8"];

/// Whether all calls have come before the sync ends is up to the operating system.
fn attempt<T>(attempt: impl FnMut(u64) -> Option<T>) -> T {
    (0..1_000).find_map(attempt).expect("calls that come during a sync never shared the next one")
}

#[test]
fn calls_that_come_during_a_sync_share_the_next_and_reads_wait_for_none() {
    attempt(|seed| {
        let disk = SimDisk::new(seed);
        let keys = open(&disk);
        keys.create("ada").expect("durable");
        let sealed = seal(&keys, "ada", "ada");
        disk.record();
        let calls: Vec<_> = SUBJECTS.map(Call::Create).into_iter().chain([Call::Destroy("ada"); 3]).collect();
        let returned = during_sync(&disk, &keys, &calls, || {
            assert_eq!(unseal(&keys, "ada", &sealed).expect("whole").as_deref(), Some("ada"));
            assert_eq!(seal(&keys, "ada", "ada").generation, 1);
            assert_eq!((keys.generation("bob"), keys.seal("bob", b"x").expect("no key")), (None, None));
        });
        let destroyed_count = returned.into_iter().filter(|had| *had.as_ref().expect("no fault")).count();
        assert_eq!(destroyed_count, 1, "three calls, one key");
        assert!(SUBJECTS.iter().all(|subject| keys.generation(subject) == Some(1)));
        // One for the first key, one for all others and the end of a key, and one for its zeros.
        (sync_count(&disk) == 3).then_some(())
    });
}

/// What is left of a round must not be taken for keys, nor stand in the way of others, later.
#[test]
fn a_torn_round_leaves_whole_keys_or_none() {
    let disk = attempt(|seed| {
        let disk = SimDisk::new(seed);
        let keys = open(&disk);
        disk.record();
        let created = during_sync(&disk, &keys, &SUBJECTS.map(Call::Create), || ());
        assert!(created.iter().all(Result::is_ok), "{created:?}");
        (sync_count(&disk) == 2).then_some(disk)
    });
    let is_sync = |step: &Step| matches!(step, Step::Sync(_));
    let synced = disk.steps().iter().rposition(is_sync).expect("a sync of the round");
    let image = disk.at_step(synced, SEED);
    let visible = image.bytes(FILE).expect("a file");
    for torn in 1..SUBJECTS.len() {
        for lost in [0..SLOT_LEN, SLOT_LEN / 2..SLOT_LEN, 8..16] {
            let what = format!("slot {torn} has lost its bytes {lost:?}");
            let mut bytes = visible.clone();
            bytes[SLOTS_AT + torn * SLOT_LEN..][lost].fill(0);
            image.set_bytes(FILE, bytes);
            let reopen = || SubjectKeys::open_on(image.mount()).unwrap_or_else(|error| panic!("{what}: {error}"));
            let keys = reopen();
            let live_count = SUBJECTS.iter().filter(|subject| keys.generation(subject).is_some()).count();
            assert_eq!(live_count, torn, "{what}");
            drop(keys);
            let mut sealed = Vec::new();
            // In another order than before, so that each goes where another one has been.
            for subject in SUBJECTS.iter().rev() {
                let keys = reopen();
                keys.create(subject).expect("durable");
                sealed.push((subject, seal(&keys, subject, subject)));
                image.power_cut_keeping(|_| false);
            }
            let keys = reopen();
            for (subject, sealed) in sealed {
                assert_eq!(unseal(&keys, subject, &sealed).expect("whole").as_deref(), Some(*subject), "{what}");
            }
        }
    }
}

#[test]
fn a_round_that_does_not_fit_leaves_nothing() {
    let disk = attempt(|seed| {
        let disk = SimDisk::new(seed);
        let keys = open(&disk);
        disk.set_capacity((SLOTS_AT + 5 * SLOT_LEN + 9) as u64);
        disk.record();
        let refused = during_sync(&disk, &keys, &SUBJECTS.map(Call::Create)[1..], || ())
            .into_iter()
            .all(|created| created.is_err());
        (refused && sync_count(&disk) == 2).then_some(disk)
    });
    disk.set_capacity(u64::MAX);
    disk.kill();
    assert_eq!(disk.bytes(FILE).expect("a file").len(), SLOTS_AT + SLOT_LEN);
}

/// A later truncation is damage, and not a torn create, also if the mark of the last round was lost.
#[test]
fn opening_marks_what_it_has_found() {
    let disk = SimDisk::new(SEED);
    open(&disk).create("ada").expect("durable");
    for _ in 0..2 {
        disk.power_cut_keeping(|_| false);
        assert_eq!(open(&disk).generation("ada"), Some(1));
    }
    disk.power_cut_keeping(|_| false);
    let bytes = disk.bytes(FILE).expect("a file");
    disk.set_bytes(FILE, bytes[..SLOTS_AT].to_vec());
    assert!(matches!(SubjectKeys::open_on(disk.mount()), Err(SubjectKeysError::Damaged { .. })));
}

#[test]
fn a_key_is_used_until_its_end_is_durable_and_no_destruction_returns_before_it_is_overwritten() {
    let disk = SimDisk::new(SEED);
    let keys = open(&disk);
    keys.create("ada").expect("durable");
    let sealed = seal(&keys, "ada", "ada");
    let secret = secret(&disk, 0);
    disk.hang(Hang::Syncs);
    thread::scope(|scope| {
        let _released = Released(&disk);
        let first = scope.spawn(|| keys.destroy("ada", 1));
        wait_for_hanging(&disk);
        assert_eq!((keys.generation("ada"), seal(&keys, "ada", "ada").generation), (Some(1), 1));
        assert_eq!(unseal(&keys, "ada", &sealed).expect("whole").as_deref(), Some("ada"));
        disk.hang(Hang::Writes);
        disk.resume(Hang::Syncs);
        while keys.generation("ada").is_some() {
            thread::yield_now();
        }
        assert_eq!(unseal(&keys, "ada", &sealed).expect("its own key"), None);
        let second = scope.spawn(|| {
            let had = keys.destroy("ada", 1);
            let durable = disk.copy(SEED);
            durable.power_cut_keeping(|_| false);
            (had, has(&durable.bytes(FILE).expect("a file"), &secret))
        });
        // Time enough to return too early.
        (0..1_000).for_each(|_| thread::yield_now());
        disk.release();
        assert!(first.join().expect("no panic").expect("destroyed"));
        let (had, is_there) = second.join().expect("no panic");
        assert!(!had.expect("destroyed by the first") && !is_there, "it returned before the key was overwritten");
    });
}

#[test]
fn many_threads_create_seal_and_destroy() {
    const THREAD_COUNT: usize = 6;
    let disk = SimDisk::new(SEED);
    let keys = Arc::new(open(&disk));
    let destroyed_count = AtomicUsize::new(0);
    let sealed: Vec<Vec<(&str, Sealed)>> = thread::scope(|scope| {
        let run = |thread: usize| {
            let (keys, destroyed_count) = (&keys, &destroyed_count);
            move || {
                let mut all = Vec::new();
                for number in 0..60 {
                    let subject = ["ada", "bob", "cid"][(thread + number) % 3];
                    keys.create(subject).expect("durable");
                    let Some(sealed) = keys.seal(subject, subject.as_bytes()).expect("no fault") else { continue };
                    let found = unseal(keys, subject, &sealed).expect("no fault");
                    assert!(found.is_none_or(|clear| clear == subject));
                    if number % 5 == thread % 5 {
                        let had = keys.destroy(subject, sealed.generation).expect("destroyed");
                        destroyed_count.fetch_add(usize::from(had), Ordering::Relaxed);
                        assert_eq!(unseal(keys, subject, &sealed).expect("no fault"), None, "it was destroyed");
                    }
                    all.push((subject, sealed));
                }
                all
            }
        };
        let threads: Vec<_> = (0..THREAD_COUNT).map(|thread| scope.spawn(run(thread))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let slots = disk.bytes(FILE).expect("a file").len().saturating_sub(SLOTS_AT) / SLOT_LEN;
    let live: BTreeMap<_, _> = ["ada", "bob", "cid"].map(|subject| (subject, keys.generation(subject))).into();
    let live_count = live.values().flatten().count();
    // Each key was destroyed by one call, and no other said so.
    assert_eq!(slots, destroyed_count.into_inner() + live_count);
    assert!(slots > 20, "only {slots} keys");
    disk.power_cut();
    let keys = open(&disk);
    for (subject, sealed) in sealed.iter().flatten() {
        let is_live = live[subject] == Some(sealed.generation);
        assert_eq!(unseal(&keys, subject, sealed).expect("its own key").is_some(), is_live);
    }
}

#[derive(Clone, Debug)]
enum Operation {
    Create(usize),
    /// Of this subject, generations up to that of its last key, or so many less.
    Destroy(usize, u32),
    Seal(usize, Vec<u8>),
    Reopen,
    Crash,
}

fn operation() -> impl Strategy<Value = Operation> {
    let subject = 0..4_usize;
    prop_oneof![
        4 => subject.clone().prop_map(Operation::Create),
        2 => (subject.clone(), 0..2_u32).prop_map(|(subject, less)| Operation::Destroy(subject, less)),
        4 => (subject, prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(of, clear)| Operation::Seal(of, clear)),
        1 => Just(Operation::Reopen),
        1 => Just(Operation::Crash),
    ]
}

/// What a store is: the last generation of each subject, and which of its keys live.
#[derive(Default)]
struct Model {
    last: BTreeMap<usize, u32>,
    live: BTreeSet<(usize, u32)>,
}

impl Model {
    fn generation(&self, subject: usize) -> Option<u32> {
        self.last.get(&subject).copied().filter(|last| self.live.contains(&(subject, *last)))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_calls_do_what_a_map_does(operations in prop::collection::vec(operation(), 0..60), seed in any::<u64>()) {
        let disk = SimDisk::new(seed);
        let subject = |number: usize| format!("subject {number}");
        let mut model = Model::default();
        let mut sealed: Vec<(usize, Sealed, Vec<u8>)> = Vec::new();
        let mut keys = open(&disk);
        for operation in operations {
            match operation {
                Operation::Create(of) => {
                    keys.create(&subject(of)).expect("durable");
                    if model.generation(of).is_none() {
                        let last = model.last.entry(of).or_default();
                        *last += 1;
                        model.live.insert((of, *last));
                    }
                }
                Operation::Destroy(of, less) => {
                    let up_to = model.last.get(&of).map_or(1, |last| last - less);
                    let before = model.live.len();
                    model.live.retain(|(subject, generation)| *subject != of || *generation > up_to);
                    prop_assert_eq!(keys.destroy(&subject(of), up_to).expect("destroyed"), model.live.len() < before);
                }
                Operation::Seal(of, clear) => {
                    let made = keys.seal(&subject(of), &clear).expect("no fault");
                    prop_assert_eq!(made.as_ref().map(|made| made.generation), model.generation(of));
                    sealed.extend(made.map(|made| (of, made, clear)));
                }
                Operation::Reopen => {
                    drop(keys);
                    keys = open(&disk);
                }
                Operation::Crash => {
                    disk.power_cut();
                    keys = open(&disk);
                }
            }
            for of in 0..4 {
                prop_assert_eq!(keys.generation(&subject(of)), model.generation(of));
            }
            for (of, made, clear) in &sealed {
                let found = keys.unseal(&subject(*of), made.generation, &made.bytes).expect("its own key");
                let expected = model.live.contains(&(*of, made.generation)).then_some(clear);
                prop_assert_eq!(found.as_ref(), expected);
            }
        }
    }
}
