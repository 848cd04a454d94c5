//! Work that is done once for all attempts.
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;

use enact_stm::{Failed, TCell, atomically, try_atomically};

use crate::executor::Step;
use crate::forms::{FORMS, elsewhere, panic_of, set};

#[test]
fn kept_work_is_done_once_over_all_attempts() {
    for form in FORMS {
        let (cell, done) = (TCell::new(0), AtomicU32::new(0));
        let (number, attempts) = form.run(atomically(|tx| {
            let seen = tx.read(&cell)?;
            let number = *tx.keep(|| done.fetch_add(1, Ordering::Relaxed) + 40)?;
            if tx.attempt() <= 3 {
                elsewhere(|| set(&cell, seen + 1));
            }
            tx.write(&cell, seen + 100)?;
            Ok((number, tx.attempt()))
        }));
        assert!(attempts >= 4, "{form:?}");
        assert_eq!((number, done.into_inner(), cell.into_inner()), (40, 1, 103), "{form:?}");
    }
}

#[test]
fn kept_work_in_a_loop_is_told_apart_by_its_turn() {
    for form in FORMS {
        let (cell, done) = (TCell::new(0), AtomicU32::new(0));
        let kept = form.run(atomically(|tx| {
            let seen = tx.read(&cell)?;
            // A later attempt goes round more often.
            let kept: Vec<u32> = (0..2 + tx.attempt())
                .map(|_| tx.keep(|| done.fetch_add(1, Ordering::Relaxed)).copied())
                .collect::<Result<_, _>>()?;
            let word = tx.keep(|| format!("after {}", kept.len()))?.clone();
            if tx.attempt() == 1 {
                elsewhere(|| set(&cell, 1));
            }
            tx.write(&cell, seen + 1)?;
            Ok((kept, word))
        }));
        assert!(kept.0.len() >= 4 && kept.0.iter().copied().eq(0..done.into_inner()), "{form:?}: {kept:?}");
        assert_eq!(kept.1, "after 3", "{form:?}");
    }
}

#[test]
fn kept_work_outlives_a_sleep() {
    let (cell, done) = (TCell::new(0), AtomicU32::new(0));
    let mut waiter = Step::new(atomically(|tx| {
        let number = *tx.keep(|| done.fetch_add(1, Ordering::Relaxed))?;
        if tx.read(&cell)? < 3 { tx.retry() } else { Ok(number) }
    }));
    for n in 1..=3 {
        assert!(waiter.poll().is_pending());
        set(&cell, n);
    }
    assert_eq!((waiter.poll(), done.load(Ordering::Relaxed)), (Poll::Ready(0), 1));
}

#[test]
fn kept_work_is_dropped_once_however_the_transaction_ends() {
    static ALIVE: AtomicU32 = AtomicU32::new(0);
    struct Work;
    impl Work {
        fn new() -> Self {
            ALIVE.fetch_add(1, Ordering::SeqCst);
            Self
        }
    }
    impl Drop for Work {
        fn drop(&mut self) {
            assert!(ALIVE.fetch_sub(1, Ordering::SeqCst) > 0, "dropped once");
        }
    }
    let cell = TCell::new(0);
    for form in FORMS {
        form.run(atomically(|tx| {
            let seen = tx.read(&cell)?;
            tx.keep(Work::new)?;
            if tx.attempt() == 1 {
                elsewhere(|| set(&cell, seen + 1));
            }
            tx.write(&cell, seen).map(drop)
        }));
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "a commit, {form:?}");
        let failed = form.run(try_atomically(|tx| {
            tx.keep(Work::new)?;
            Err::<(), _>(Failed::Error("refused"))
        }));
        assert_eq!((failed, ALIVE.load(Ordering::SeqCst)), (Err("refused"), 0), "an error, {form:?}");
        panic_of(|| {
            form.run(atomically(|tx| {
                tx.keep(Work::new)?;
                assert!(tx.attempt() != 1, "on purpose");
                Ok(())
            }));
        });
        assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "a panic, {form:?}");
    }
    let mut cancelled = Step::new(atomically(|tx| {
        tx.keep(Work::new)?;
        tx.read(&cell)?;
        tx.retry::<()>()
    }));
    assert!(cancelled.poll().is_pending() && ALIVE.load(Ordering::SeqCst) == 1);
    cancelled.cancel();
    assert_eq!(ALIVE.load(Ordering::SeqCst), 0, "a cancelled future");
}
