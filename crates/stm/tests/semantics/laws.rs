//! The laws of waiting and choosing (Haskell STM): programs that must be indistinguishable are run side by side.
use std::task::Poll;

use enact_stm::{Abort, TCell, Tx, atomically};

use crate::executor::Step;
use crate::forms::{FORMS, panic_of};

/// What the programs work on.
struct State {
    x: TCell<u32>,
    y: TCell<u32>,
}

type Program = for<'t, 'env> fn(&mut Tx<'t, 'env>, &'env State) -> Result<u32, Abort>;

/// What can be seen of a program from outside: how it ends and what it has written, or what would wake it.
#[derive(Debug, PartialEq)]
enum Outcome {
    Ends { result: u32, x: u32, y: u32 },
    Waits { for_x: bool, for_y: bool },
}

/// Runs a program from a state in which `x` and `y` have these values.
fn outcome(
    program: &dyn for<'t, 'env> Fn(&mut Tx<'t, 'env>, &'env State) -> Result<u32, Abort>,
    x: u32,
    y: u32,
) -> Outcome {
    let fresh = || State { x: TCell::new(x), y: TCell::new(y) };
    let state = fresh();
    let ended = match Step::new(atomically(|tx| program(tx, &state))).poll() {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    };
    if let Some(result) = ended {
        for form in FORMS {
            let state = fresh();
            assert_eq!(form.run(atomically(|tx| program(tx, &state))), result, "{form:?}");
        }
        return Outcome::Ends { result, x: state.x.into_inner(), y: state.y.into_inner() };
    }
    let wakes = |select: fn(&State) -> &TCell<u32>| {
        let state = fresh();
        let mut waiting = Step::new(atomically(|tx| program(tx, &state)));
        assert!(waiting.poll().is_pending());
        atomically(|tx| tx.update(select(&state), |n| n)).run();
        waiting.wakes() == 1
    };
    let waits = Outcome::Waits { for_x: wakes(|state| &state.x), for_y: wakes(|state| &state.y) };
    assert_eq!((state.x.into_inner(), state.y.into_inner()), (x, y), "a transaction that waits has written nothing");
    waits
}

const PROGRAMS: [Program; 7] = [
    |_, _| Ok(1),
    |tx, state| tx.write(&state.x, 2),
    |tx, state| if tx.read(&state.x)? == 0 { tx.retry() } else { Ok(3) },
    |tx, state| if tx.read(&state.y)? == 0 { tx.retry() } else { tx.write(&state.x, 4) },
    |tx, state| {
        tx.update(&state.x, |x| x + 10)?;
        if tx.read(&state.y)? < 2 { tx.retry() } else { tx.update(&state.y, |y| y - 1) }
    },
    |tx, state| {
        tx.commute(&state.y, |y| y + 5)?;
        if tx.read(&state.x)? == 1 { tx.retry() } else { Ok(6) }
    },
    |tx, state| {
        tx.or_else(
            |tx| if tx.update(&state.x, |x| x + 1)? < 3 { tx.retry() } else { Ok(7) },
            |tx| if tx.read(&state.y)? == 0 { tx.retry() } else { tx.write(&state.y, 8) },
        )
    },
];

const STARTS: [(u32, u32); 5] = [(0, 0), (1, 0), (0, 1), (1, 1), (2, 2)];

#[test]
fn law_retry_is_the_zero_of_sequence() {
    for m in PROGRAMS {
        for (x, y) in STARTS {
            let then = outcome(
                &|tx, state| {
                    tx.read(&state.x)?;
                    let never: u32 = tx.retry()?;
                    Ok(never + m(tx, state)?)
                },
                x,
                y,
            );
            assert_eq!(then, Outcome::Waits { for_x: true, for_y: false });
        }
    }
}

#[test]
fn law_retry_is_the_unit_of_or_else_on_both_sides() {
    for (n, m) in PROGRAMS.into_iter().enumerate() {
        for (x, y) in STARTS {
            let alone = outcome(&|tx, state| m(tx, state), x, y);
            let left = outcome(&|tx, state| tx.or_else(Tx::retry, |tx| m(tx, state)), x, y);
            let right = outcome(&|tx, state| tx.or_else(|tx| m(tx, state), Tx::retry), x, y);
            assert_eq!((&left, &right), (&alone, &alone), "program {n} from {x}, {y}");
        }
    }
}

#[test]
fn law_or_else_is_associative() {
    for (a, b, c) in PROGRAMS.iter().flat_map(|a| PROGRAMS.iter().flat_map(move |b| PROGRAMS.map(|c| (a, b, c)))) {
        for (x, y) in STARTS {
            let left = outcome(
                &|tx, state| tx.or_else(|tx| tx.or_else(|tx| a(tx, state), |tx| b(tx, state)), |tx| c(tx, state)),
                x,
                y,
            );
            let right = outcome(
                &|tx, state| tx.or_else(|tx| a(tx, state), |tx| tx.or_else(|tx| b(tx, state), |tx| c(tx, state))),
                x,
                y,
            );
            assert_eq!(left, right, "from {x}, {y}");
        }
    }
}

#[test]
fn law_return_is_a_left_zero_of_or_else() {
    for m in PROGRAMS {
        for (x, y) in STARTS {
            let choice = outcome(&|tx, state| tx.or_else(|_| Ok(9), |tx| m(tx, state)), x, y);
            assert_eq!(choice, Outcome::Ends { result: 9, x, y });
        }
    }
}

#[test]
fn law_nested_atomically_panics_and_the_thread_goes_on() {
    for form in FORMS {
        let x = TCell::new(0);
        let message = panic_of(|| {
            form.run(atomically(|tx| {
                tx.write(&x, 1)?;
                form.run(atomically(|tx| tx.write(&x, 2)));
                Ok(())
            }));
        });
        // The runtimes refuse to be entered twice, and come before the transaction.
        let is_clear =
            message.contains("inside the closure of another one") || message.contains("from within a runtime");
        assert!(is_clear, "{form:?}: {message}");
        assert_eq!(form.run(atomically(|tx| tx.update(&x, |x| x + 5))), 5, "{form:?}");
    }
}
