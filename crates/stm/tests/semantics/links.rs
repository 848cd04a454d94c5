//! Links: variables that lead straight to counted nodes.
use std::sync::Arc;

use enact_stm::{Failed, Linked, TCell, TLink, Watch, atomically, snapshot, try_atomically};

use crate::executor::Step;
use crate::forms::{elsewhere, set};

fn number(link: &TLink<u32>) -> Option<u32> {
    atomically(|tx| Ok(tx.read(link)?.map(|node| *node))).run()
}

#[test]
fn a_link_leads_to_what_was_written_last() {
    let link = TLink::default();
    assert_eq!(number(&link), None);
    let nodes = [Arc::new(1), Arc::new(2)];
    atomically(|tx| {
        let written = tx.write(&link, Some(Arc::clone(&nodes[0])))?.expect("a node");
        assert!(std::ptr::eq(written.get(), &*nodes[0]), "the node itself");
        assert_eq!(tx.read(&link)?.as_deref(), Some(&1), "an own write");
        let updated = tx.update(&link, |before| before.filter(|n| **n == 1).map(|_| Arc::clone(&nodes[1])))?;
        assert_eq!(updated.as_deref(), Some(&2));
        Ok(())
    })
    .run();
    let read = atomically(|tx| Ok(tx.read(&link)?.map(Linked::to_arc))).run();
    assert!(read.is_some_and(|read| Arc::ptr_eq(&read, &nodes[1])));
    set(&link, None);
    assert_eq!(number(&link), None);
    assert_eq!(atomically(|tx| Ok(tx.update(&link, |_| Some(Arc::new(7)))?.map(|n| *n))).run(), Some(7));
    assert_eq!(link.into_inner().as_deref(), Some(&7));
}

#[test]
fn a_link_does_what_every_variable_does() {
    let link = Arc::new(TLink::from(Arc::new(1)));
    let before = atomically(|tx| tx.version(&link)).run();
    let failed = atomically(|tx| {
        tx.write(&link, Some(Arc::new(2)))?;
        let failed = tx.nested(|tx| {
            tx.write(&link, None)?;
            tx.fail::<(), _>("taken back")
        })?;
        tx.commute(&link, |node| node.as_ref().map(|n| Arc::new(**n * 10)))?;
        Ok(failed)
    })
    .run();
    assert_eq!((failed, number(&link)), (Err("taken back"), Some(20)));
    atomically(|tx| tx.commute(&link, |node| node.as_ref().map(|n| Arc::new(**n + 1)))).run();
    assert_eq!(snapshot(|tx| Ok(tx.read(&link)?.map(|n| *n))), Some(21));
    let read = atomically(|tx| {
        tx.commute(&link, |node| node.as_ref().map(|n| Arc::new(**n + 1)))?;
        tx.commute(&link, |node| node.as_ref().map(|n| Arc::new(**n * 2)))?;
        Ok(tx.read(&link)?.map(|n| *n))
    })
    .run();
    assert_eq!(read, Some(44));
    assert_ne!(atomically(|tx| tx.version(&link)).run(), before);
    assert_eq!(Watch::new(&link).next(|node| node.as_deref().copied()), Some(44));
    let result = try_atomically(|tx| {
        tx.write(&link, None)?;
        Err::<(), _>(Failed::Error("rolled back"))
    });
    assert_eq!((result.run(), number(&link)), (Err("rolled back"), Some(44)));
}

#[test]
fn a_wait_for_a_link_is_for_its_condition() {
    let link = TLink::default();
    let is_large = |node: &Option<Arc<u32>>| node.as_ref().is_some_and(|n| **n > 2);
    let mut waiter = Step::new(atomically(|tx| Ok(tx.wait_for(&link, is_large)?.map(|n| *n))));
    assert!(waiter.poll().is_pending());
    set(&link, Some(Arc::new(1)));
    set(&link, None);
    assert_eq!(waiter.wakes(), 0, "the condition is not met");
    set(&link, Some(Arc::new(3)));
    assert_eq!(waiter.wakes(), 1);
    assert!(waiter.poll().is_ready());
}

#[test]
fn a_link_that_has_changed_and_changed_back_has_changed() {
    let (here, n) = (Arc::new(1), TCell::new(0));
    let link = TLink::from(Arc::clone(&here));
    let attempts = atomically(|tx| {
        let seen = tx.read(&link)?.map(Linked::get);
        if tx.attempt() == 1 {
            elsewhere(|| {
                set(&link, None);
                set(&link, Some(Arc::clone(&here)));
            });
        }
        assert!(std::ptr::eq(seen.expect("a node"), &*here));
        tx.write(&n, 1)?;
        Ok(tx.attempt())
    })
    .run();
    assert_eq!(attempts, 2);
}

#[test]
fn a_snapshot_keeps_the_node_of_its_time() {
    let link = TLink::from(Arc::new(0));
    snapshot(|tx| {
        let first = tx.read(&link)?.expect("a node").get();
        for n in 1..=300 {
            elsewhere(|| set(&link, Some(Arc::new(n))));
        }
        let again = tx.read(&link)?.expect("a node").get();
        assert!(std::ptr::eq(first, again), "one state");
        assert_eq!(*first, 0);
        Ok(())
    });
    assert_eq!(number(&link), Some(300));
}

#[test]
fn a_node_that_is_kept_is_the_keepers() {
    let link = TLink::from(Arc::new(5));
    let kept = atomically(|tx| Ok(tx.read(&link)?.map(Linked::to_arc))).run().expect("a node");
    for n in 0..1_000 {
        set(&link, Some(Arc::new(n)));
    }
    drop(link);
    assert_eq!(*kept, 5);
}

#[test]
fn a_link_that_is_owned_is_changed_without_a_transaction() {
    let mut link = TLink::from(Arc::new(1));
    assert_eq!(link.replace_mut(Some(Arc::new(2))).as_deref(), Some(&1));
    assert_eq!(number(&link), Some(2));
    assert_eq!(link.replace_mut(None).as_deref(), Some(&2));
    assert_eq!(link.into_inner(), None);
}

#[test]
fn a_link_that_goes_wakes_those_who_wait_for_it() {
    let links = [TLink::from(Arc::new(1)), TLink::default()];
    let [first, second] = &links;
    let shared = TLink::from(Arc::new(TLink::<u32>::default()));
    let mut waiter = Step::new(atomically(|tx| {
        let inner = tx.read(&shared)?.expect("a link").get();
        if tx.read(inner)?.is_none() && tx.read(second)?.is_none() { tx.retry() } else { Ok(()) }
    }));
    assert!(waiter.poll().is_pending());
    set(&shared, Some(Arc::new(TLink::from(Arc::new(2)))));
    assert_eq!(waiter.wakes(), 1);
    assert!(waiter.poll().is_ready());
    assert_eq!(number(first), Some(1));
}
