//! Deferred operations and their locks.
use crate::{beside, model};
use enact_stm::{Deferrable, TCell, TxLock, atomically, snapshot};
use enact_sync::Arc;
use enact_sync::unmodelled::Arc as Shared;

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
