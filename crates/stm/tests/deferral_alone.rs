//! Deferred operations beside transactions that run alone. In a program of their own, and one by one: a transaction that wants to
//! run alone waits for the operations of all tests, and holds up the commits of all.
#[path = "deferral/support.rs"]
mod support;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use enact_stm::{TCell, TxLock, atomically, hooks, synchronized};
use support::{Task, elsewhere, object, once, panic_of};
use tokio::sync::oneshot;

fn one_by_one() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn who_wants_to_run_alone_waits_until_operations_under_way_have_ended() {
    let _turn = one_by_one();
    let (x, o) = (Arc::new(TCell::new(0)), object(()));
    let (finish, finished) = oneshot::channel::<()>();
    let finished = Mutex::new(Some(finished));
    let mut deferring = Task::new(atomically(|tx| {
        let (finished, x) = (finished.lock().expect("no panic").take().expect("one attempt"), Arc::clone(&x));
        tx.defer_async((&o,), |_| {
            Box::pin(async move {
                finished.await.expect("the test goes on");
                atomically(|tx| tx.write(&*x, 1)).await;
            })
        })
        .map(drop)
    }));
    assert!(deferring.poll().is_none());
    let mut alone = Task::new(atomically(|tx| {
        tx.irrevocable()?;
        tx.open(&o)?;
        tx.update(&*x, |x| x + 10)
    }));
    assert!(alone.poll().is_none());
    finish.send(()).expect("the operation waits");
    assert!(deferring.poll().is_some(), "the commits of operations pass the serial lock");
    assert!(alone.wakes() > 0);
    assert_eq!(alone.poll(), Some(11));
}

#[test]
fn while_a_transaction_runs_alone_no_operation_starts_be_it_without_objects_and_without_writes() {
    let _turn = one_by_one();
    let x = Arc::new(TCell::new(0));
    let deferring = Mutex::new(Task::new(atomically(|tx| {
        let x = Arc::clone(&x);
        tx.defer((), move |()| once(|tx| tx.update(&*x, |x| x * 10)))
    })));
    let seen = synchronized(|tx| {
        let before = tx.read(&*x)?;
        let has_run = elsewhere(|| deferring.lock().expect("no panic").poll().is_some());
        assert!(!has_run, "it commits only when the serial lock is open");
        tx.write(&*x, before + 1)
    });
    assert_eq!(seen, 1);
    let mut deferring = deferring.into_inner().expect("no panic");
    assert!(deferring.wakes() > 0);
    assert_eq!(deferring.poll().expect("the serial lock is open").take(), Some(10));
}

#[test]
fn who_wants_to_run_alone_waits_until_locks_are_given_back_at_the_end_of_a_transaction() {
    let _turn = one_by_one();
    static LOCK: OnceLock<TxLock> = OnceLock::new();
    let lock = LOCK.get_or_init(TxLock::new);
    let alone = Arc::new(Mutex::new(Task::new(atomically(|tx| {
        tx.irrevocable()?;
        lock.acquire(tx)
    }))));
    once(|tx| {
        lock.acquire(tx)?;
        let alone = Arc::clone(&alone);
        // Between the commit, which has the lock, and its release.
        hooks::on_commit(tx, move || {
            let has_run = elsewhere(|| alone.lock().expect("no panic").poll().is_some());
            assert!(!has_run, "it must not meet a lock that it would have to wait for");
        });
        Ok(())
    });
    assert!(alone.lock().expect("no panic").poll().is_some());
    assert!(!lock.is_held());
}

#[test]
fn an_operation_that_asks_to_run_alone_is_refused_because_it_would_wait_for_itself() {
    let _turn = one_by_one();
    let o = object(());
    let message = panic_of(|| once(|tx| tx.defer((&o,), |_| synchronized(|_| Ok(()))).map(drop)));
    assert!(message.contains("which waits for deferred operations to end"), "{message}");
    assert!(o.is_poisoned());
}

#[test]
fn an_irrevocable_transaction_defers_like_any_other() {
    let _turn = one_by_one();
    let (x, o) = (TCell::new(0), object(0));
    let outcome = synchronized(|tx| {
        tx.write(&x, 1)?;
        tx.defer((&o,), |(count,)| {
            **count += 1;
            **count
        })
    });
    assert_eq!((outcome.take(), x.into_inner()), (Some(1), 1));
}

#[test]
fn after_a_panic_while_alone_the_next_transaction_of_the_thread_has_nothing_of_its_rights() {
    let _turn = one_by_one();
    let panic = panic_of(|| synchronized(|_| -> Result<(), _> { panic!("alone") }));
    assert_eq!(panic, "alone");
    let attempts = once(|tx| {
        tx.irrevocable()?;
        Ok(tx.attempt())
    });
    assert_eq!(attempts, 2, "the first attempt is not alone");
}
