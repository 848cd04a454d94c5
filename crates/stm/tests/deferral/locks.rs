//! S4-L2a to S4-L2d and S4-sub: listing 2, the lock by itself.
use std::sync::mpsc;
use std::thread;

use enact_stm::{Failed, Owner, TCell, TxLock, atomically, try_atomically};

use crate::{Task, elsewhere, once, panic_of};

fn holder(lock: &TxLock) -> Option<(enact_stm::OwnerId, u32)> {
    once(|tx| lock.holder(tx))
}

fn acquire(lock: &TxLock, owner: &Owner) {
    atomically(|tx| lock.acquire(tx)).owned_by(owner).run();
}

fn release(lock: &TxLock, owner: &Owner) {
    atomically(|tx| lock.release(tx)).owned_by(owner).run();
}

// Case S4-L2a.
#[test]
fn a_free_lock_is_acquired_at_depth_1_and_an_own_one_deeper() {
    let (lock, me) = (TxLock::new(), Owner::new());
    assert_eq!(holder(&lock), None);
    acquire(&lock, &me);
    assert_eq!(holder(&lock), Some((me.id(), 1)));
    atomically(|tx| lock.acquire(tx).and_then(|()| lock.acquire(tx))).owned_by(&me).run();
    assert_eq!(holder(&lock), Some((me.id(), 3)));
    assert!(lock.is_held());
}

// Case S4-L2a.
#[test]
fn a_transaction_that_wants_a_held_lock_sleeps_until_it_is_released_and_is_not_woken_before() {
    let (lock, me, other, unrelated) = (TxLock::new(), Owner::new(), Owner::new(), TCell::new(0));
    acquire(&lock, &me);
    let mut waiter = Task::new(atomically(|tx| lock.acquire(tx).map(|()| tx.attempt())).owned_by(&other));
    assert!(waiter.poll().is_none());
    for _ in 0..100 {
        once(|tx| tx.update(&unrelated, |n| n + 1));
        assert!(waiter.poll().is_none(), "polled for nothing");
    }
    assert_eq!(waiter.wakes(), 0);
    release(&lock, &me);
    assert_eq!(waiter.wakes(), 1);
    assert_eq!(waiter.poll(), Some(2), "one attempt that had to wait and one that did not");
    assert_eq!(holder(&lock), Some((other.id(), 1)));
}

// Case S4-L2a.
#[test]
fn a_thread_that_waits_for_a_lock_makes_no_attempts_meanwhile() {
    let (lock, me, other, unrelated) = (TxLock::new(), Owner::new(), Owner::new(), TCell::new(0));
    acquire(&lock, &me);
    thread::scope(|scope| {
        let (tried, tries) = mpsc::channel();
        let waiter = scope.spawn({
            let (lock, other) = (&lock, &other);
            move || {
                let acquire = atomically(|tx| {
                    tried.send(()).expect("the test listens");
                    lock.acquire(tx).map(|()| tx.attempt())
                });
                acquire.owned_by(other).run()
            }
        });
        tries.recv().expect("a first attempt is made");
        // A thread that polled would make many attempts beside these.
        for _ in 0..5_000 {
            once(|tx| tx.update(&unrelated, |n| n + 1));
        }
        release(&lock, &me);
        let attempts = waiter.join().expect("the lock is released");
        assert!(attempts <= 2, "{attempts} attempts for one release");
    });
}

// Case S4-L2b.
#[test]
fn releasing_what_somebody_else_has_panics_and_changes_nothing() {
    let (lock, me, other) = (TxLock::new(), Owner::new(), Owner::new());
    acquire(&lock, &me);
    let by_other = panic_of(|| release(&lock, &other));
    assert!(by_other.contains("released a lock that is held by"), "{by_other}");
    let by_nobody = panic_of(|| once(|tx| lock.release(tx)));
    assert!(by_nobody.contains("released a lock that is held by"), "{by_nobody}");
    assert_eq!(holder(&lock), Some((me.id(), 1)));
    release(&lock, &me);
    let again = panic_of(|| release(&lock, &me));
    assert!(again.contains("released a lock that nobody holds"), "{again}");
    assert_eq!(holder(&lock), None);
}

// Case S4-L2c.
#[test]
fn a_lock_acquired_twice_is_free_after_the_second_release_which_wakes() {
    let (lock, me) = (TxLock::new(), Owner::new());
    acquire(&lock, &me);
    acquire(&lock, &me);
    let mut waiter = Task::new(atomically(|tx| lock.subscribe(tx)));
    assert!(waiter.poll().is_none());
    release(&lock, &me);
    assert_eq!(holder(&lock), Some((me.id(), 1)));
    assert!(waiter.poll().is_none(), "still held");
    let woken_before = waiter.wakes();
    release(&lock, &me);
    assert_eq!(waiter.wakes(), woken_before + 1);
    assert!(waiter.poll().is_some());
    assert_eq!(holder(&lock), None);
}

// Case S4-L2d.
#[test]
fn what_an_aborted_transaction_or_part_has_acquired_it_has_not() {
    let (lock, me) = (TxLock::new(), Owner::new());
    acquire(&lock, &me);
    let twice = try_atomically(|tx| {
        lock.acquire(tx)?;
        lock.acquire(tx)?;
        assert_eq!(lock.holder(tx)?, Some((me.id(), 3)));
        Err::<(), _>(Failed::Error(()))
    });
    assert_eq!(twice.owned_by(&me).run(), Err(()));
    assert_eq!(holder(&lock), Some((me.id(), 1)));
    let part = atomically(|tx| {
        let failed = tx.nested(|tx| {
            lock.release(tx)?;
            Err::<(), _>(Failed::Error(()))
        })?;
        assert_eq!(failed, Err(()));
        lock.holder(tx)
    });
    assert_eq!(part.owned_by(&me).run(), Some((me.id(), 1)));
}

// Case S4-sub.
#[test]
fn subscribers_of_a_free_lock_do_not_conflict_with_each_other() {
    let (lock, x, y) = (TxLock::new(), TCell::new(0), TCell::new(0));
    let attempts = once(|tx| {
        lock.subscribe(tx)?;
        tx.write(&x, 1)?;
        let inner = elsewhere(|| {
            once(|tx| {
                lock.subscribe(tx)?;
                tx.write(&y, 1)?;
                Ok(tx.attempt())
            })
        });
        Ok((tx.attempt(), inner))
    });
    assert_eq!(attempts, (1, 1));
}

// Case S4-sub.
#[test]
fn subscribers_sleep_while_another_has_the_lock_and_all_run_after_the_release() {
    let (lock, me, count) = (TxLock::new(), Owner::new(), TCell::new(0));
    acquire(&lock, &me);
    let mut subscribers: Vec<_> = (0..10)
        .map(|_| {
            Task::new(atomically(|tx| {
                lock.subscribe(tx)?;
                tx.commute(&count, |n| n + 1)?;
                Ok(tx.attempt())
            }))
        })
        .collect();
    for subscriber in &mut subscribers {
        assert!(subscriber.poll().is_none());
    }
    release(&lock, &me);
    for subscriber in &mut subscribers {
        assert_eq!((subscriber.wakes(), subscriber.poll()), (1, Some(2)));
    }
    drop(subscribers);
    assert_eq!(count.into_inner(), 10);
}

// Case S4-sub.
#[test]
fn a_subscriber_in_flight_does_not_commit_once_another_has_acquired() {
    let (lock, me, x) = (TxLock::new(), Owner::new(), TCell::new(0));
    let mut subscriber = Task::new(atomically(|tx| {
        lock.subscribe(tx)?;
        tx.update(&x, |x| x + 1)?;
        if tx.attempt() == 1 {
            elsewhere(|| acquire(&lock, &me));
        }
        Ok(tx.attempt())
    }));
    assert!(subscriber.poll().is_none(), "its second attempt found the lock held");
    assert_eq!(once(|tx| tx.read(&x)), 0);
    release(&lock, &me);
    assert_eq!(subscriber.poll(), Some(3));
    drop(subscriber);
    assert_eq!(x.into_inner(), 1);
}

#[test]
fn a_transaction_without_an_explicit_owner_gives_its_locks_back_when_it_and_its_operations_are_over() {
    let (lock, object) = (TxLock::new(), crate::object(()));
    let during = once(|tx| {
        lock.acquire(tx)?;
        let lock = lock.clone();
        tx.defer((&object,), move |_| elsewhere(|| lock.is_held()))
    });
    assert_eq!(during.take(), Some(true));
    assert_eq!(holder(&lock), None);
    once(|tx| {
        lock.acquire(tx)?;
        lock.acquire(tx)?;
        lock.release(tx)
    });
    assert_eq!(holder(&lock), None);
}

#[test]
fn a_lock_acquired_and_released_inside_an_operation_stays_with_the_operation() {
    let (lock, object) = (TxLock::new(), crate::object(()));
    let depths = once(|tx| {
        lock.acquire(tx)?;
        let lock = lock.clone();
        tx.defer((&object,), move |_| {
            let depth = |lock: &TxLock| holder(lock).map(|(_, depth)| depth);
            once(|tx| {
                lock.acquire(tx)?;
                lock.release(tx)
            });
            let after_both = depth(&lock);
            once(|tx| lock.acquire(tx));
            let after_acquiring = depth(&lock);
            once(|tx| lock.release(tx));
            (after_both, after_acquiring, depth(&lock))
        })
    });
    // What an inner transaction has acquired and not released it gives back at its own end.
    assert_eq!(depths.take(), Some((Some(1), Some(1), None)));
    assert_eq!(holder(&lock), None);
}

#[test]
fn a_change_between_other_owners_wakes_only_a_transaction_that_has_looked_who_has_the_lock() {
    let (lock, me, other, third) = (TxLock::new(), Owner::new(), Owner::new(), Owner::new());
    acquire(&lock, &me);
    let mut waiter = Task::new(atomically(|tx| lock.acquire(tx)).owned_by(&other));
    let mut looker = Task::new(atomically(|tx| match lock.holder(tx)? {
        Some((_, 3)) => Ok(()),
        _ => lock.subscribe(tx),
    }));
    assert!(waiter.poll().is_none() && looker.poll().is_none());
    acquire(&lock, &me);
    assert_eq!((waiter.wakes(), looker.wakes()), (0, 1));
    assert!(looker.poll().is_none());
    acquire(&lock, &me);
    assert_eq!((waiter.wakes(), looker.wakes()), (0, 2));
    assert!(looker.poll().is_some());
    atomically(|tx| (0..3).try_for_each(|_| lock.release(tx))).owned_by(&me).run();
    assert_eq!(waiter.wakes(), 1);
    acquire(&lock, &third);
    assert!(waiter.poll().is_none());
    release(&lock, &third);
    assert_eq!(waiter.wakes(), 2);
    assert!(waiter.poll().is_some());
}

#[test]
fn a_thread_of_the_owner_that_waits_goes_on_when_another_one_acquires_the_lock_for_it() {
    let (lock, me, other) = (TxLock::new(), Owner::new(), Owner::new());
    acquire(&lock, &me);
    let mut waiter = Task::new(atomically(|tx| lock.acquire(tx)).owned_by(&other));
    assert!(waiter.poll().is_none());
    atomically(|tx| lock.release(tx)).owned_by(&me).run();
    acquire(&lock, &other);
    assert!(waiter.poll().is_some());
    assert_eq!(holder(&lock), Some((other.id(), 2)));
}
