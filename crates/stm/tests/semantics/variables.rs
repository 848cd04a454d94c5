//! What counts as a variable, and what fits into a cell.
use std::sync::Arc;

use enact_stm::{TCell, TVar, Watch, Word, atomically, snapshot};

use crate::executor::Step;
use crate::forms::set;

#[test]
fn a_shared_variable_is_used_like_the_variable_itself() {
    let (cell, var) = (Arc::new(TCell::new(1)), Arc::new(TVar::new("one".to_owned())));
    let before = atomically(|tx| tx.version(&cell)).run();
    atomically(|tx| {
        assert_eq!((tx.read(&cell)?, tx.read(&*cell)?), (1, 1));
        assert_eq!((tx.read(&var)?.as_str(), tx.read(&*var)?.as_str()), ("one", "one"));
        tx.write(&var, "two".to_owned())?;
        tx.commute(&cell, |n| n + 1)?;
        assert_eq!(tx.update(&cell, |n| n * 10)?, 20);
        Ok(())
    })
    .run();
    assert_ne!(atomically(|tx| tx.version(&cell)).run(), before);
    assert_eq!(snapshot(|tx| Ok((tx.read(&cell)?, tx.read(&var)?.clone()))), (20, "two".to_owned()));
    assert_eq!(Watch::new(&var).next(String::len), 3);
}

#[test]
fn a_wait_for_a_shared_variable_is_for_its_condition() {
    let cell = Arc::new(TCell::new(0));
    let mut waiter = Step::new(atomically(|tx| tx.wait_for(&cell, |n| *n >= 2)));
    assert!(waiter.poll().is_pending());
    set(&cell, 1);
    assert_eq!(waiter.wakes(), 0, "the condition is not met");
    set(&*cell, 2);
    assert_eq!(waiter.wakes(), 1);
    assert!(waiter.poll().is_ready());
}

#[test]
fn a_newtype_of_a_word_is_a_word() {
    #[derive(Debug, Clone, Copy, PartialEq, Word)]
    struct Cents(i64);
    #[derive(Debug, Clone, Copy, PartialEq, Word)]
    struct Wrapped<T> {
        inner: T,
    }
    #[derive(Debug, Clone, Copy, PartialEq, Word)]
    struct Generic<T, const N: usize>(T)
    where
        T: PartialEq;
    fn holds<W: Word + PartialEq + std::fmt::Debug>(values: &[W]) {
        let cell = TCell::new(values[0]);
        for &value in values {
            set(&cell, value);
            assert_eq!(atomically(|tx| tx.read(&cell)).run(), value);
        }
    }
    holds(&[Cents(0), Cents(-1), Cents(i64::MIN), Cents(i64::MAX)]);
    holds(&[Wrapped { inner: Cents(-5) }, Wrapped { inner: Cents(5) }]);
    holds(&[Wrapped { inner: 'x' }]);
    holds(&[Generic::<_, 3>(true), Generic(false)]);
    holds(&[Wrapped { inner: f32::MIN_POSITIVE }, Wrapped { inner: -0.5 }]);
}

#[test]
fn a_word_by_hand_is_what_packs_into_64_bits() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Point {
        x: i32,
        y: i32,
    }
    impl Word for Point {
        fn into_bits(self) -> u64 {
            u64::from(self.x.cast_unsigned()) << 32 | u64::from(self.y.cast_unsigned())
        }
        fn from_bits(bits: u64) -> Self {
            Self { x: (bits >> 32) as i32, y: bits as i32 }
        }
    }
    let corner = TCell::new(Point { x: -1, y: 1 });
    let moved = atomically(|tx| tx.update(&corner, |Point { x, y }| Point { x: x - 1, y: y - 2 })).run();
    assert_eq!((moved, corner.into_inner()), (Point { x: -2, y: -1 }, Point { x: -2, y: -1 }));
}
