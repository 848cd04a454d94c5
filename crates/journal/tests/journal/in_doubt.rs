//! Every step of the writer meets every fault: what is refused has no effect, what is in doubt is settled by reopening,
//! what was durable stays.

use std::collections::BTreeMap;

use enact_journal::{AppendError, CloseError, Journal, Kind, NewRecord, Refusal, Seq};
use enact_journal_kit::sim::{Fault, SimDisk, Step};

use crate::workload::{batches, block_on, open, read_all, whole_batches};

const FAULTS: [Fault; 6] =
    [Fault::Refused, Fault::Torn, Fault::AfterDone, Fault::SyncLost, Fault::Full, Fault::FullAfterDone];

/// Of a segment.
const HEADER_LEN: u64 = 72;

/// The steps of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Site {
    SegmentCreate,
    SegmentHeader,
    SegmentSync,
    SegmentRename,
    DirectorySync,
    /// Of a group with room behind it.
    RoomWrite,
    GroupWrite,
    GroupSync,
    RoomCut,
    FooterWrite,
    FooterSync,
    EntryWrite,
    EntrySync,
    ListWrite,
    ListSync,
    LastRoomCut,
    MarkWrite,
    MarkSync,
}

/// What the append (or the close) answers whose step fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Refused for want of space; the journal goes on.
    Full,
    /// Refused, and the journal is poisoned.
    Poisoned,
    /// In doubt, and the journal is poisoned.
    InDoubt,
    /// Closing reports the failure; no append is affected.
    CloseFails,
    /// Closing succeeds: only the mark is not exact.
    CloseSucceeds,
}

fn expected(site: Site, fault: Fault) -> Answer {
    match (site, fault) {
        (
            Site::GroupWrite
            | Site::RoomCut
            | Site::FooterWrite
            | Site::EntryWrite
            | Site::EntrySync
            | Site::ListWrite
            | Site::ListSync
            | Site::SegmentCreate
            | Site::SegmentHeader
            | Site::SegmentSync,
            Fault::Full | Fault::FullAfterDone,
        ) => Answer::Full,
        // There is space without room.
        (Site::RoomWrite, Fault::Full | Fault::FullAfterDone) => Answer::CloseSucceeds,
        (Site::RoomWrite | Site::GroupWrite | Site::GroupSync, _) => Answer::InDoubt,
        (Site::LastRoomCut | Site::MarkWrite | Site::MarkSync, Fault::Full | Fault::FullAfterDone) => {
            Answer::CloseSucceeds
        }
        (Site::LastRoomCut | Site::MarkWrite | Site::MarkSync, _) => Answer::CloseFails,
        // The group itself has not been touched.
        _ => Answer::Poisoned,
    }
}

/// The steps of a run without faults, and what each of them is.
fn sites(batches: &[Vec<NewRecord>]) -> Vec<Site> {
    let disk = SimDisk::new(5);
    let journal = open(disk.mount()).expect("a new journal");
    disk.record();
    for batch in batches {
        block_on(journal.append(batch.clone())).expect("durable");
    }
    let before_close = disk.steps().len();
    block_on(journal.close()).expect("closed");
    let steps = disk.steps();
    let is_entry = |at: usize| matches!(steps.get(at), Some(Step::Write(name, 1024.., _)) if name == "manifest");
    let site = |(at, step): (usize, &Step)| match step {
        Step::Create(_) => Site::SegmentCreate,
        Step::Write(name, ..) if name.ends_with(".new") => Site::SegmentHeader,
        Step::Sync(name) if name.ends_with(".new") => Site::SegmentSync,
        Step::Rename(..) => Site::SegmentRename,
        Step::SyncNames => Site::DirectorySync,
        Step::Write(..) if at >= before_close => Site::MarkWrite,
        Step::Sync(_) if at >= before_close => Site::MarkSync,
        Step::Write(..) if is_entry(at) => Site::EntryWrite,
        Step::Sync(name) if name == "manifest" && is_entry(at - 1) => Site::EntrySync,
        Step::Write(name, ..) if name == "manifest" => Site::ListWrite,
        Step::Sync(name) if name == "manifest" => Site::ListSync,
        Step::Write(..) if is_entry(at + 2) => Site::FooterWrite,
        Step::Sync(_) if is_entry(at + 1) => Site::FooterSync,
        // The first one of a segment is the only one that makes it longer.
        Step::Write(_, HEADER_LEN, _) => Site::RoomWrite,
        Step::Write(..) => Site::GroupWrite,
        Step::Sync(_) => Site::GroupSync,
        Step::SetSize(..) if at >= before_close => Site::LastRoomCut,
        Step::SetSize(..) => Site::RoomCut,
        Step::Remove(_) => panic!("an undisturbed run does not remove"),
    };
    steps.iter().enumerate().map(site).collect()
}

/// Appends until the fault strikes; the number of durable batches and the answer.
fn run_into_fault(disk: &SimDisk, batches: &[Vec<NewRecord>], step: usize, fault: Fault) -> (usize, Answer) {
    let journal = open(disk.mount()).expect("a new journal");
    disk.fail_in(step as u64, fault);
    for (durable, batch) in batches.iter().enumerate() {
        let Err(error) = block_on(journal.append(batch.clone())) else { continue };
        let found = read_all(&journal).expect("durable records are readable all the same");
        assert_eq!(whole_batches(batches, &found), durable);
        let again = block_on(journal.append(batch.clone()));
        let closed = block_on(journal.close());
        return match error {
            AppendError::Refused(Refusal::StorageFull { .. }) => {
                assert!(again.is_ok(), "there is space again: {again:?}");
                assert_eq!(closed, Ok(()));
                (durable + 1, Answer::Full)
            }
            AppendError::Refused(Refusal::Poisoned { .. }) | AppendError::InDoubt { .. } => {
                assert!(matches!(again, Err(AppendError::Refused(Refusal::Poisoned { .. }))), "{again:?}");
                assert!(matches!(closed, Err(CloseError::Poisoned { .. })));
                let is_in_doubt = matches!(error, AppendError::InDoubt { .. });
                (durable, if is_in_doubt { Answer::InDoubt } else { Answer::Poisoned })
            }
            other => panic!("{other}"),
        };
    }
    let closed = block_on(journal.close());
    assert_eq!(block_on(journal.close()), closed, "closing again reports the same");
    (batches.len(), if closed.is_ok() { Answer::CloseSucceeds } else { Answer::CloseFails })
}

#[test]
fn every_step_meets_every_fault() {
    let batches = batches(14);
    let sites = sites(&batches);
    let mut met: BTreeMap<(Site, usize), u32> = BTreeMap::new();
    for (step, site) in sites.iter().enumerate() {
        for (number, fault) in FAULTS.into_iter().enumerate() {
            for crash in [SimDisk::kill, SimDisk::power_cut, |disk: &SimDisk| disk.power_cut_keeping(|_| false)] {
                let disk = SimDisk::new(5);
                let (durable, answer) = run_into_fault(&disk, &batches, step, fault);
                assert_eq!(answer, expected(*site, fault), "{site:?} (step {step}), {fault:?}");
                crash(&disk);

                let what = format!("{site:?} (step {step}), {fault:?}: {durable} were durable");
                let journal = open(disk.mount()).unwrap_or_else(|error| panic!("{what}: {error}"));
                let found = whole_batches(&batches, &read_all(&journal).expect("readable"));
                let most = durable + usize::from(answer == Answer::InDoubt);
                assert!((durable..=most).contains(&found), "{what}, {found} are there");
                for batch in &batches[found..] {
                    block_on(journal.append(batch.clone())).unwrap_or_else(|error| panic!("{what}: {error}"));
                }
                block_on(journal.close()).expect("closed");
                let verified = enact_journal::verify_on(&*disk.mount()).expect("readable");
                assert!(verified.is_sound() && verified.torn_bytes == 0, "{what}: {verified:?}");
            }
            *met.entry((*site, number)).or_default() += 1;
        }
    }
    assert_eq!(met.len(), 18 * FAULTS.len(), "some site was not reached: {met:?}");
}

/// A refusal is certain, also when the disk had taken the group before it complained, and whatever crashes then.
#[test]
fn group_refused_for_want_of_space_never_comes_back() {
    let batches = batches(2);
    // The last keeps the bytes and forgets that they were cut off again.
    let keep_all_but_last = |disk: &SimDisk| {
        let count = disk.unsynced_count();
        disk.power_cut_keeping(|piece| piece + 1 < count);
    };
    for crash in [SimDisk::kill, SimDisk::power_cut, keep_all_but_last] {
        let disk = SimDisk::new(5);
        let journal = open(disk.mount()).expect("a new journal");
        block_on(journal.append(batches[0].clone())).expect("durable");
        disk.fail_in(0, Fault::FullAfterDone);
        let refused = block_on(journal.append(batches[1].clone()));
        assert!(matches!(refused, Err(AppendError::Refused(Refusal::StorageFull { .. }))), "{refused:?}");
        crash(&disk);
        drop(journal);
        let journal = open(disk.mount()).expect("opens");
        assert_eq!(whole_batches(&batches, &read_all(&journal).expect("readable")), 1);
    }
}

/// In doubt is neither: after a crash the batch is there in one case and not in the other.
#[test]
fn group_in_doubt_may_be_there_or_not() {
    let batches = batches(1);
    let found_after = |fault| {
        let disk = SimDisk::new(5);
        // Behind create, header, sync, rename and directory sync: the write of the first group.
        let (durable, answer) = run_into_fault(&disk, &batches, 5, fault);
        assert_eq!((durable, answer), (0, Answer::InDoubt));
        disk.kill();
        let journal = open(disk.mount()).expect("opens");
        whole_batches(&batches, &read_all(&journal).expect("readable"))
    };
    assert_eq!((found_after(Fault::AfterDone), found_after(Fault::Refused)), (1, 0));
}

/// What waits behind a failed group was never written: it is refused, not in doubt.
#[test]
fn appends_behind_a_group_in_doubt_are_refused() {
    let batches = batches(30);
    let disk = SimDisk::new(5);
    let journal = open(disk.mount()).expect("a new journal");
    disk.fail_in(6, Fault::AfterDone);
    let under_way: Vec<_> = batches.iter().map(|batch| journal.append(batch.clone())).collect();
    let answers: Vec<_> = under_way.into_iter().map(block_on).collect();
    let in_doubt = answers.iter().take_while(|answer| matches!(answer, Err(AppendError::InDoubt { .. }))).count();
    assert!(in_doubt >= 1);
    let is_refused = |answer: &Result<_, _>| matches!(answer, Err(AppendError::Refused(Refusal::Poisoned { .. })));
    assert!(answers[in_doubt..].iter().all(is_refused), "{answers:?}");
    disk.kill();
    drop(journal);
    let journal = open(disk.mount()).expect("opens");
    let found = whole_batches(&batches, &read_all(&journal).expect("readable"));
    assert_eq!(found, in_doubt, "the group was written before its sync reported an error");
}

/// Space for n bytes more, for all n: nothing is lost, everything is taken once there is space.
#[test]
fn full_disk_refuses_and_goes_on_when_there_is_space() {
    let batches = batches(25);
    let whole = {
        let disk = SimDisk::new(5);
        let journal = open(disk.mount()).expect("a new journal");
        for batch in &batches {
            block_on(journal.append(batch.clone())).expect("durable");
        }
        drop(journal);
        disk.size()
    };
    let mut refused_count = 0;
    for capacity in (0..whole).step_by(37) {
        let disk = SimDisk::new(5);
        let journal = open(disk.mount()).expect("a new journal");
        disk.set_capacity(capacity);
        let append = |batch: &Vec<NewRecord>| block_on(journal.append(batch.clone()));
        let refused = batches.iter().position(|batch| match append(batch) {
            Ok(_) => false,
            Err(AppendError::Refused(Refusal::StorageFull { .. })) => true,
            Err(error) => panic!("capacity {capacity}: {error}"),
        });
        let Some(durable) = refused else { continue };
        refused_count += 1;
        assert_eq!(whole_batches(&batches, &read_all(&journal).expect("readable")), durable);
        // The disk being full is no reason to lose anything in a crash either.
        let image = disk.copy(capacity);
        image.power_cut();
        let after = open(image.mount()).unwrap_or_else(|error| panic!("capacity {capacity}: {error}"));
        assert_eq!(whole_batches(&batches, &read_all(&after).expect("readable")), durable);

        disk.set_capacity(u64::MAX);
        for batch in &batches[durable..] {
            block_on(journal.append(batch.clone())).unwrap_or_else(|error| panic!("capacity {capacity}: {error}"));
        }
        block_on(journal.close()).expect("closed");
        assert!(enact_journal::verify_on(&*disk.mount()).expect("readable").is_sound());
    }
    assert!(refused_count > 50, "only {refused_count} capacities were too small");
}

/// Room is no reason to refuse a group, and takes no space from others.
#[test]
fn groups_for_whose_room_there_is_no_space_stand_without_it_and_leave_nothing_else_behind() {
    let batches = batches(14);
    let disk = SimDisk::new(5);
    let journal = open(disk.mount()).expect("a new journal");
    let append = |batch: &Vec<NewRecord>| block_on(journal.append(batch.clone())).expect("there is space for it");
    let segment = || disk.bytes("segment-0000000001.log").expect("a segment");
    // The steps before are those that begin the segment.
    disk.fail_in(5, Fault::Full);
    append(&batches[0]);
    for batch in &batches[1..3] {
        let end = segment().len();
        append(batch);
        assert!(end < segment().len() && !segment().ends_with(&[0; 64]), "it makes the segment longer by itself");
    }
    disk.kill();
    drop(journal);
    let journal = open(disk.mount()).expect("nothing is torn");
    assert_eq!(disk.names().iter().filter(|name| name.contains(".cut-")).count(), 0);
    block_on(journal.append(batches[3].clone())).expect("durable");
    assert!(segment().ends_with(&[0; 64]), "there is room again: {}", segment().len());
}

/// Whatever was accepted behind the batch that found no space may rest on it.
#[test]
fn appends_behind_one_that_found_no_space_are_refused_too() {
    let chain: Vec<NewRecord> = (0..30)
        .map(|n| NewRecord { entity: crate::workload::key(0), expected: Seq(n), kind: Kind(0), payload: vec![n as u8] })
        .collect();
    let disk = SimDisk::new(5);
    let journal = open(disk.mount()).expect("a new journal");
    disk.set_capacity(disk.size());
    let under_way: Vec<_> = chain.iter().map(|record| journal.append(vec![record.clone()])).collect();
    let answers: Vec<_> = under_way.into_iter().map(block_on).collect();
    assert!(matches!(answers[0], Err(AppendError::Refused(Refusal::StorageFull { .. }))));
    // Those submitted after the refusal conflict with what is there.
    let has_no_effect = |answer: &Result<_, _>| {
        matches!(answer, Err(AppendError::Refused(Refusal::StorageFull { .. } | Refusal::Conflict { .. })))
    };
    assert!(answers.iter().all(has_no_effect), "{answers:?}");
    disk.set_capacity(u64::MAX);
    for record in chain {
        block_on(journal.append(vec![record])).expect("the entity is where it was");
    }
}
