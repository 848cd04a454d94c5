//! Any mixture of commits, errors, panics, waits and cancellations: an operation runs once if its transaction has
//! committed, otherwise never, and in the end nothing is held.
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread;

use enact_stm::{Deferrable, Failed, TSet, snapshot, try_atomically};

use crate::{BOTH, Task, is_held, object, once};

const THREADS: u64 = 4;
const EACH: u64 = 150;
const SEED: u64 = 0x5EED;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Ending {
    Commit,
    Error,
    Panic,
    PanicInOperation,
    /// Polled once, and dropped wherever it is by then.
    Cancel,
}

struct World {
    objects: [Arc<Deferrable<(), u64>>; 3],
    committed: TSet<u64>,
    ran: Arc<Mutex<Vec<u64>>>,
}

impl World {
    /// One transaction: notes `ticket` in the set, and defers an operation that notes it in the list.
    fn run(&self, ticket: u64, random: &mut Random) {
        let how = BOTH[random.below(2) as usize];
        let (first, second) = (random.below(3) as usize, random.below(2) as usize);
        let (a, b) = (&self.objects[first], &self.objects[(first + 1 + second) % 3]);
        let ending = match random.below(10) {
            0 => Ending::Error,
            1 => Ending::Panic,
            2 => Ending::PanicInOperation,
            3 | 4 => Ending::Cancel,
            _ => Ending::Commit,
        };
        let mut transaction = Task::new(try_atomically(|tx| {
            self.committed.insert(tx, ticket)?;
            let ran = Arc::clone(&self.ran);
            how.defer(tx, (a, b), move |(a, b)| {
                let before = (**a, **b);
                ran.lock().expect("no panic").push(ticket);
                thread::yield_now();
                assert_eq!((**a, **b), before, "somebody else has been at the objects");
                (**a, **b) = (ticket, ticket);
                assert!(ending != Ending::PanicInOperation, "in the operation");
            })
            .map(drop)?;
            match ending {
                Ending::Error => Err(Failed::Error(())),
                Ending::Panic => panic!("in the closure"),
                _ => Ok(()),
            }
        }));
        let outcome = catch_unwind(AssertUnwindSafe(|| match ending {
            Ending::Cancel => drop(transaction.poll()),
            _ => drop(transaction.finish()),
        }));
        if outcome.is_err() {
            // Its own panic, or the object was poisoned by another's.
            [a, b].into_iter().filter(|object| object.is_poisoned()).for_each(|object| object.heal(0));
        }
    }
}

#[test]
fn an_operation_runs_once_if_its_transaction_commits_and_never_otherwise_whatever_else_happens() {
    let world = World { objects: std::array::from_fn(|_| object(0)), committed: TSet::new(), ran: Arc::default() };
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let world = &world;
            scope.spawn(move || {
                let mut random = Random(SEED + thread);
                for n in 0..EACH {
                    world.run(thread * EACH + n, &mut random);
                }
            });
        }
    });
    // What was cancelled after its commit is carried through by others.
    for object in &world.objects {
        once(|tx| tx.try_open(object).map(drop));
        assert!(!is_held(&**object));
    }
    let mut committed: Vec<u64> = snapshot(|tx| Ok(world.committed.elements(tx)?.into_iter().copied().collect()));
    let mut ran = world.ran.lock().expect("no panic").clone();
    committed.sort_unstable();
    ran.sort_unstable();
    assert_eq!(ran, committed, "seed {SEED:#x}");
    assert!(committed.len() as u64 > THREADS * EACH / 4 && (committed.len() as u64) < THREADS * EACH);
}
