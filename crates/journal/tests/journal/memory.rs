//! The journal in memory fails on command, in the ways of the real one.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use enact_journal::{AppendError, Fault, Journal, Kind, Memory, NewRecord, Position, ReadError, Refusal, Seq};

use crate::workload::{block_on, key};

fn record(expected: u64) -> Vec<NewRecord> {
    vec![NewRecord { entity: key(0), expected: Seq(expected), kind: Kind(0), payload: vec![] }]
}

fn last(journal: &Memory) -> u64 {
    block_on(journal.last(&key(0))).expect("readable").0
}

fn is_waiting(future: impl Future) -> bool {
    matches!(pin!(future).poll(&mut Context::from_waker(Waker::noop())), Poll::Pending)
}

#[test]
fn held_appends_wait_and_become_durable_in_order() {
    let journal = Memory::new();
    journal.hold();
    let (first, second, third) = (journal.append(record(0)), journal.append(record(1)), journal.append(record(2)));
    assert!(is_waiting(third));
    assert_eq!((last(&journal), journal.waiting_count()), (0, 3));
    assert_eq!(journal.sync(1), 1);
    assert_eq!((block_on(first), last(&journal), journal.waiting_count()), (Ok(Position(1)), 1, 2));
    journal.release();
    assert_eq!((block_on(second), last(&journal), journal.waiting_count()), (Ok(Position(2)), 3, 0));
    assert_eq!(block_on(journal.append(record(3))), Ok(Position(4)), "no longer held");
}

#[test]
fn refused_append_and_those_behind_have_no_effect() {
    let journal = Memory::new();
    journal.hold();
    let (first, second, third) = (journal.append(record(0)), journal.append(record(1)), journal.append(record(2)));
    journal.sync(1);
    journal.fail_next(Fault::Refused);
    journal.release();
    assert!(block_on(first).is_ok());
    for refused in [block_on(second), block_on(third)] {
        assert!(matches!(refused, Err(AppendError::Refused(Refusal::StorageFull { .. }))), "{refused:?}");
    }
    assert_eq!(last(&journal), 1);
    assert_eq!(block_on(journal.append(record(1))), Ok(Position(2)), "the journal goes on where it was");
}

#[test]
fn append_in_doubt_is_settled_by_reopening() {
    for (is_performed, found) in [(true, 1), (false, 0)] {
        let journal = Memory::new();
        journal.hold();
        journal.fail_next(Fault::InDoubt { is_performed });
        let (in_doubt, behind) = (journal.append(record(0)), journal.append(record(1)));
        journal.release();
        assert!(matches!(block_on(in_doubt), Err(AppendError::InDoubt { .. })));
        assert!(matches!(block_on(behind), Err(AppendError::Refused(Refusal::Poisoned { .. }))));
        assert!(matches!(block_on(journal.append(record(0))), Err(AppendError::Refused(Refusal::Poisoned { .. }))));
        assert_eq!(last(&journal), 0, "what is in doubt is not shown");
        assert!(block_on(journal.close()).is_err());
        let journal = journal.crash();
        assert_eq!(last(&journal), found);
        assert_eq!(block_on(journal.append(record(found))), Ok(Position(found + 1)));
    }
}

#[test]
fn crash_loses_what_waits_and_closes_the_old_handles() {
    let journal = Memory::new();
    block_on(journal.append(record(0))).expect("durable");
    journal.hold();
    let lost = journal.append(record(1));
    let other = journal.clone();
    let after = journal.crash();
    assert!(matches!(block_on(lost), Err(AppendError::InDoubt { .. })));
    assert_eq!(block_on(other.append(record(1))), Err(Refusal::Closed.into()));
    assert_eq!(block_on(other.last(&key(0))), Err(ReadError::Closed));
    assert_eq!(last(&after), 1);
    assert_eq!(block_on(after.append(record(1))), Ok(Position(2)), "not held after a crash");
}
