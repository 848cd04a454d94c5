//! Runs one kind of transaction so many times, to be counted by callgrind: the difference between two numbers of runs is
//! what the transactions execute, without the program around them. `docs/performance.md` has the figures.
use std::env;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::task::{Context, Waker};

use enact_stm::{TCell, TChan, TQueue, TVar, atomically, snapshot};

fn main() {
    let mut arguments = env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "counter".to_owned());
    let times = arguments.next().map_or(1, |times| times.parse().expect("a number of runs"));
    let transaction = transaction(&kind);
    for _ in 0..times {
        transaction();
    }
}

/// The transaction of that name.
fn transaction(kind: &str) -> Box<dyn Fn()> {
    let (n, m, text) = (TCell::new(0_u64), TCell::new(0_u64), TVar::new(0_u64));
    let many: Vec<_> = (0..100).map(TCell::new).collect();
    match kind {
        "empty" => Box::new(|| atomically(|_| Ok(())).run()),
        "read" => Box::new(move || _ = black_box(atomically(|tx| tx.read(&n)).run())),
        "counter" => Box::new(move || {
            atomically(|tx| {
                let seen = tx.read(&n)?;
                tx.write(&n, seen + 1).map(drop)
            })
            .run();
        }),
        "update" => Box::new(move || atomically(|tx| tx.update(&n, |n| n + 1).map(drop)).run()),
        "transfer" => Box::new(move || {
            atomically(|tx| {
                let paid = tx.read(&n)?.wrapping_sub(1);
                let received = tx.read(&m)?.wrapping_add(1);
                tx.write(&n, paid)?;
                tx.write(&m, received).map(drop)
            })
            .run();
        }),
        "read_var" => Box::new(move || _ = black_box(atomically(|tx| tx.read(&text).copied()).run())),
        "update_var" => Box::new(move || atomically(|tx| tx.update(&text, |n| n + 1).map(drop)).run()),
        "snapshot100" => Box::new(move || {
            black_box(snapshot(|tx| many.iter().try_fold(0_u64, |sum, n| Ok(sum + tx.read(n)?))));
        }),
        "read100" => Box::new(move || {
            black_box(atomically(|tx| many.iter().try_fold(0_u64, |sum, n| Ok(sum + tx.read(n)?))).run());
        }),
        "turns" => {
            let turn: &'static TCell<u64> = Box::leak(Box::new(n));
            Box::new(move || {
                // The second player waits until the first has moved.
                let mut players = [0, 1].map(|player| {
                    atomically(move |tx| {
                        let now = tx.read(turn)?;
                        if now % 2 == player { tx.write(turn, now + 1).map(drop) } else { tx.retry() }
                    })
                });
                let mut cx = Context::from_waker(Waker::noop());
                for player in [1, 0, 1] {
                    black_box(Pin::new(&mut players[player]).poll(&mut cx).is_ready());
                }
            })
        }
        "queue" => {
            let queue = TQueue::unbounded();
            Box::new(move || {
                atomically(|tx| queue.push(tx, 1_u64)).run();
                black_box(atomically(|tx| queue.pop(tx).copied()).run());
            })
        }
        "chan" => {
            let chan = TChan::new();
            let reader = atomically(|tx| chan.reader(tx)).run();
            Box::new(move || {
                atomically(|tx| chan.send(tx, 1_u64)).run();
                black_box(atomically(|tx| reader.recv(tx).copied()).run());
            })
        }
        _ => panic!("there is no transaction {kind}"),
    }
}
