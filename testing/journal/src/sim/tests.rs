//! The simulated disk does what it says.

use std::thread;

use super::*;

fn read(disk: &dyn Disk, name: &str) -> Option<Vec<u8>> {
    let file = disk.open(name).ok()?;
    let mut bytes = vec![0; file.size().unwrap() as usize];
    file.read_at(0, &mut bytes).unwrap();
    Some(bytes)
}

/// A disk with a durable file "a" that holds "old".
fn disk_with_old(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    let mounted = disk.mount();
    let file = mounted.create("a").unwrap();
    file.write_at(0, b"old").unwrap();
    file.sync().unwrap();
    mounted.sync().unwrap();
    disk
}

#[test]
fn power_cut_loses_what_was_not_synced_and_nothing_else() {
    let disk = disk_with_old(0);
    let mounted = disk.mount();
    mounted.open("a").unwrap().write_at(0, b"new").unwrap();
    mounted.create("b").unwrap().sync().unwrap();
    disk.power_cut_keeping(|_| false);
    let mounted = disk.mount();
    assert_eq!(read(&*mounted, "a").unwrap(), b"old");
    assert_eq!(read(&*mounted, "b"), None, "the directory was not synced");
}

#[test]
fn power_cut_keeps_any_sectors_without_those_before() {
    let disk = disk_with_old(0);
    let mounted = disk.mount();
    let file = mounted.open("a").unwrap();
    file.write_at(0, &[1; 1024]).unwrap();
    assert_eq!(disk.unsynced_count(), 2);
    disk.power_cut_keeping(|piece| piece == 1);
    let bytes = read(&*disk.mount(), "a").unwrap();
    assert_eq!((bytes.len(), &bytes[..4], bytes[511], bytes[512]), (1024, &b"old\0"[..], 0, 1));
}

#[test]
fn killed_process_loses_its_files_and_its_lock_but_no_bytes() {
    let disk = disk_with_old(0);
    let mounted = disk.mount();
    let lock = mounted.lock().unwrap();
    assert!(matches!(disk.mount().lock(), Err(LockError::InUse { .. })));
    let file = mounted.open("a").unwrap();
    file.write_at(0, b"new").unwrap();
    disk.kill();
    assert!(file.write_at(0, b"bad").is_err());
    let again = disk.mount();
    let held = again.lock().unwrap();
    drop(lock);
    assert!(again.lock().is_err(), "the lock of the dead process is not this one");
    drop(held);
    assert_eq!(read(&*again, "a").unwrap(), b"new");
}

#[test]
fn lost_sync_is_not_repaired_by_another_sync() {
    let disk = disk_with_old(0);
    disk.fail_in(1, Fault::SyncLost);
    let mounted = disk.mount();
    let file = mounted.open("a").unwrap();
    file.write_at(0, b"new").unwrap();
    assert!(file.sync().is_err());
    disk.kill();
    let mounted = disk.mount();
    assert_eq!(read(&*mounted, "a").unwrap(), b"new");
    mounted.open("a").unwrap().sync().unwrap();
    disk.power_cut();
    assert_eq!(read(&*disk.mount(), "a").unwrap(), b"old");
}

#[test]
fn faults_do_all_half_or_nothing_and_the_disk_stays_failed() {
    for (fault, left) in [(Fault::Refused, "old"), (Fault::Torn, "neold"), (Fault::AfterDone, "newe")] {
        let disk = SimDisk::new(0);
        let mounted = disk.mount();
        let file = mounted.create("a").unwrap();
        file.write_at(0, if fault == Fault::Torn { b"xxold" } else { b"old" }).unwrap();
        disk.fail_in(0, fault);
        assert!(file.write_at(0, b"newe").is_err(), "{fault:?}");
        assert_eq!(read(&*mounted, "a").unwrap(), left.as_bytes(), "{fault:?}");
        assert!(file.write_at(0, b"x").is_err(), "{fault:?}");
        disk.kill();
        assert!(disk.mount().create("b").is_ok(), "{fault:?}");
    }
}

#[test]
fn what_hangs_waits_for_its_release_or_the_end_of_its_process() {
    for what in [Hang::Reads, Hang::Writes, Hang::Syncs] {
        for is_killed in [false, true] {
            let disk = disk_with_old(0);
            let file = disk.mount().open("a").unwrap();
            disk.hang(what);
            let call = thread::spawn(move || match what {
                Hang::Reads => file.read_at(0, &mut [0; 3]).map(drop),
                Hang::Writes => file.write_at(0, b"new"),
                Hang::Syncs => file.sync(),
            });
            while disk.hanging_count() == 0 {
                thread::yield_now();
            }
            assert_eq!(disk.bytes("a").unwrap(), b"old", "{what:?}");
            if is_killed {
                disk.kill();
            } else {
                disk.release();
            }
            assert_eq!(call.join().unwrap().is_err(), is_killed, "{what:?}");
            assert_eq!(disk.hanging_count(), 0);
        }
    }
}

#[test]
fn full_disk_takes_what_fits_and_works_again_with_space() {
    let disk = disk_with_old(0);
    disk.set_capacity(5);
    let file = disk.mount().open("a").unwrap();
    let error = file.write_at(3, b"1234").unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(disk.bytes("a").unwrap(), b"old12");
    disk.set_capacity(7);
    file.write_at(3, b"1234").unwrap();
}

#[test]
fn recorded_disk_can_be_had_as_it_was_at_any_step() {
    let disk = disk_with_old(0);
    disk.record();
    let mounted = disk.mount();
    mounted.open("a").unwrap().write_at(0, b"new").unwrap();
    mounted.rename("a", "b").unwrap();
    assert_eq!(disk.steps(), [Step::Write("a".into(), 0, 3), Step::Rename("a".into(), "b".into())]);
    assert_eq!(disk.at_step(0, 0).bytes("a").unwrap(), b"old");
    assert_eq!(disk.at_step(1, 0).bytes("a").unwrap(), b"new");
    assert_eq!(disk.at_step(2, 0).names(), ["b"]);
}

#[test]
fn same_seed_gives_the_same_power_cut() {
    let cut = |seed| {
        let disk = disk_with_old(seed);
        disk.mount().open("a").unwrap().write_at(0, &[7; 9000]).unwrap();
        disk.power_cut();
        disk.bytes("a").unwrap()
    };
    assert!((0..20).all(|seed| cut(seed) == cut(seed)));
    assert!((0..20).any(|seed| cut(seed) != cut(seed + 20)));
}
