//! Deferred operations and their locks.
use enact_stm::{Deferrable, TCell, TxLock, atomically, snapshot};
use enact_sync::Arc;
use enact_sync::unmodelled::Arc as Shared;

use crate::{beside, model};

//   reader                                        writer
//                                                 commits flag = 1, owns the object
//   opens the object <- waits for the operation
//                                                 operation: object = 1, lets it go
//   reads 1 and 1
#[test]
fn a_transaction_and_its_operation_are_seen_together() {
    model(|| {
        let flag = Arc::new(TCell::new(0));
        let object = Shared::new(Deferrable::new(TCell::new(0), ()));
        let (x, o) = (Arc::clone(&flag), Shared::clone(&object));
        let writer = move || {
            atomically(|tx| {
                tx.write(&*x, 1)?;
                tx.defer((&o,), |(o,)| {
                    atomically(|tx| tx.write(o.shared(), 1)).run();
                })
                .map(drop)
            })
            .run();
        };
        beside(writer, || {
            let seen = atomically(|tx| {
                let shared = tx.open(&object)?;
                Ok((tx.read(&*flag)?, tx.read(shared)?))
            })
            .run();
            assert!(seen == (0, 0) || seen == (1, 1), "{seen:?}");
        });
    });
}

//   here                   other
//   wants a, then b        wants b, then a
//   has both, or neither   waits with none in its hand
#[test]
fn operations_on_the_same_objects_in_any_order_exclude_each_other() {
    model(|| {
        let a = Shared::new(Deferrable::new((), 0));
        let b = Shared::new(Deferrable::new((), 0));
        let (c, d) = (Shared::clone(&a), Shared::clone(&b));
        let other = move || {
            atomically(|tx| {
                tx.defer((&d, &c), |(d, c)| {
                    **d += 1;
                    **c += 1;
                })
                .map(drop)
            })
            .run();
        };
        beside(other, || {
            atomically(|tx| {
                tx.defer((&a, &b), |(a, b)| {
                    assert_eq!(**a, **b);
                    **a += 1;
                    **b += 1;
                })
                .map(drop)
            })
            .run();
        });
        let a = Shared::into_inner(a).expect("nobody else has it");
        assert_eq!(a.into_inner().1, 2);
    });
}

//   here                  other
//   acquires, commits
//                         finds it held, sleeps
//   releases: must wake
//                         acquires
#[test]
fn a_lock_has_one_owner() {
    model(|| {
        let lock = TxLock::new();
        let inside = Arc::new(TCell::new(0));
        let enter = |lock: &TxLock, inside: &TCell<i32>| {
            let owner = enact_stm::Owner::new();
            atomically(|tx| lock.acquire(tx)).owned_by(&owner).run();
            assert_eq!(atomically(|tx| tx.update(inside, |n| n + 1)).run(), 1);
            atomically(|tx| tx.update(inside, |n| n - 1)).run();
            atomically(|tx| lock.release(tx)).owned_by(&owner).run();
        };
        let (other_lock, other_inside) = (lock.clone(), Arc::clone(&inside));
        beside(move || enter(&other_lock, &other_inside), || enter(&lock, &inside));
        assert_eq!(snapshot(|tx| tx.read(&*inside)), 0);
    });
}

//   holder                                 waits awake               sleeps
//   releases, wakes nobody: one is awake
//                                          sees it free, leaves it
//                                                                    <- must be woken by the one that leaves
#[test]
#[cfg(not(enact_loom))]
fn sleepers_on_a_lock_are_woken_although_others_wait_awake() {
    model(|| {
        let (lock, n) = (TxLock::new(), Arc::new(TCell::new(0)));
        let (held, m) = (lock.clone(), Arc::clone(&n));
        let counts = move || {
            atomically(|tx| {
                held.acquire(tx)?;
                tx.update(&*m, |n| n + 1)
            })
            .run()
        };
        let looking = lock.clone();
        let looks = enact_sync::thread::spawn(move || atomically(|tx| looking.subscribe(tx)).run());
        let others = [(); 2].map(|()| enact_sync::thread::spawn(counts.clone()));
        counts();
        looks.join().expect("no thread of a model panics");
        for other in others {
            other.join().expect("no thread of a model panics");
        }
        assert_eq!(snapshot(|tx| tx.read(&*n)), 3);
        assert!(!lock.is_held());
    });
}

//   operation of a   operation of b
//   has a            has b
//   opens b, waits
//                    opens a: would close the circle <- is told
#[test]
#[cfg(not(enact_loom))]
fn of_two_operations_in_a_circle_one_is_told_in_every_schedule() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // Caught below, in most schedules.
        if !panic.payload_as_str().is_some_and(|message| message.starts_with("deferred operation")) {
            hook(panic);
        }
    }));
    let is_told = |run: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err();
    model(move || {
        let objects = ["a", "b"].map(|name| Shared::new(Deferrable::named(name, (), ())));
        let both_at_once = Arc::new(TCell::new(0));
        let operate = |first: usize| {
            let (own, other, begun) =
                (Shared::clone(&objects[first]), Shared::clone(&objects[1 - first]), Arc::clone(&both_at_once));
            move || {
                is_told(&|| {
                    atomically(|tx| {
                        let (other, begun) = (Shared::clone(&other), Arc::clone(&begun));
                        tx.defer((&own,), move |_| {
                            atomically(|tx| tx.update(&*begun, |n| n + 1)).run();
                            drop(atomically(|tx| tx.try_open(&other).map(|opened| opened.is_ok())).run().to_string());
                        })
                        .map(drop)
                    })
                    .run();
                })
            }
        };
        let here = operate(0);
        let mut told_here = false;
        let told_there = beside(operate(1), || told_here = here());
        assert!(!(told_here && told_there), "one that is told lets the other go on");
    });
}
