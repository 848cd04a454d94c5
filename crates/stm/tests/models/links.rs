//! Links: nodes stay while they are referred to, and a node that comes back is not taken for one that has stayed.
use std::sync::atomic::Ordering;

use enact_stm::{Linked, TCell, TLink, atomically, collect, snapshot};
use enact_sync::Arc;
use enact_sync::atomic::AtomicBool as Flag;
use enact_sync::unmodelled::Arc as Shared;

use crate::memory::{Canary, replaced_are_dropped_once};
use crate::{beside, model, wait_for};

/// A node of a list.
struct Node {
    canary: Canary,
    next: TLink<Self>,
}

impl Node {
    fn new(next: Option<Shared<Self>>) -> Shared<Self> {
        Shared::new(Self { canary: Canary::new(), next: TLink::new(next) })
    }
}

/// Leads to new nodes often enough for the descriptor to look for memory to free, which a model build does every two.
fn replace_three_times(link: &TLink<Canary>) {
    for _ in 0..3 {
        atomically(|tx| tx.write(link, Some(Shared::new(Canary::new()))).map(drop)).run();
    }
}

fn to_canary() -> Arc<TLink<Canary>> {
    Arc::new(TLink::from(Shared::new(Canary::new())))
}

//   reader                   writer
//   reads the link: node 0
//                            leads to nodes 1, 2, 3; frees what nobody pins
//   uses node 0 <- alive
#[test]
fn a_node_is_not_dropped_while_a_transaction_refers_to_it() {
    model(|| {
        let link = to_canary();
        let other = Arc::clone(&link);
        beside(
            move || replace_three_times(&other),
            || {
                atomically(|tx| {
                    let canary = tx.read(&*link)?.expect("a node");
                    enact_sync::thread::yield_now();
                    assert!(canary.is_alive(), "the node was dropped under a reference");
                    Ok(())
                })
                .run();
            },
        );
    });
}

//   snapshot                                writer
//   announces its time, reads node 0
//                                           leads to nodes 1, 2, 3; frees what nobody announced
//   reads node 0 again <- the same, alive
#[test]
fn a_node_is_not_dropped_while_a_snapshot_refers_to_it() {
    model(|| {
        let link = to_canary();
        let other = Arc::clone(&link);
        beside(
            move || replace_three_times(&other),
            || {
                snapshot(|tx| {
                    let first = tx.read(&*link)?.expect("a node").get();
                    let second = tx.read(&*link)?.expect("a node").get();
                    assert!(std::ptr::eq(first, second), "a snapshot sees one state");
                    assert!(first.is_alive(), "the node was dropped under a reference");
                    Ok(())
                });
            },
        );
    });
}

//   reader                                 writer
//   reads node 0
//                                          leads to nodes 1, 2, 3
//   uses node 0 <- alive after all three
#[test]
fn a_node_outlives_every_replacement_during_an_attempt() {
    model(|| {
        let link = to_canary();
        let other = Arc::clone(&link);
        let (is_read, is_replaced) = (Arc::new(Flag::new(false)), Arc::new(Flag::new(false)));
        let (read, replaced) = (Arc::clone(&is_read), Arc::clone(&is_replaced));
        let writer = move || {
            wait_for(&read);
            replace_three_times(&other);
            replaced.store(true, Ordering::Release);
        };
        beside(writer, || {
            atomically(|tx| {
                let canary = tx.read(&*link)?.expect("a node");
                is_read.store(true, Ordering::Release);
                wait_for(&is_replaced);
                assert!(canary.is_alive(), "the node was dropped under a reference");
                Ok(())
            })
            .run();
        });
    });
}

//   reader                              writer
//   reads another link: pins its epoch
//                                       leads to nodes 1, 2, 3
//   reads node 3, born after its epoch
//                                       leads to nodes 4, 5, 6; frees what nobody pins
//   uses node 3 <- alive: the read must have widened what it pins
#[test]
fn a_node_that_was_made_during_an_attempt_is_not_dropped_while_the_attempt_refers_to_it() {
    model(|| {
        let (first, link) = (to_canary(), to_canary());
        let other = Arc::clone(&link);
        let [begun, made, read, replaced] = std::array::from_fn(|_| Arc::new(Flag::new(false)));
        let theirs = [&begun, &made, &read, &replaced].map(Arc::clone);
        let writer = move || {
            let [begun, made, read, replaced] = theirs;
            wait_for(&begun);
            replace_three_times(&other);
            made.store(true, Ordering::Release);
            wait_for(&read);
            replace_three_times(&other);
            collect();
            replaced.store(true, Ordering::Release);
        };
        beside(writer, || {
            atomically(|tx| {
                assert!(tx.read(&*first)?.is_some());
                begun.store(true, Ordering::Release);
                wait_for(&made);
                let canary = tx.read(&*link)?.expect("a node");
                read.store(true, Ordering::Release);
                wait_for(&replaced);
                assert!(canary.is_alive(), "the node was dropped under a reference");
                Ok(())
            })
            .run();
        });
    });
}

//   walker                                         writer
//   reads node 1
//                                                  unlinks node 2, collects
//   follows node 1 to 2 or 3 <- alive either way
#[test]
fn a_node_that_is_taken_out_beside_a_walk_stays_until_the_walk_is_over() {
    model(|| {
        let first = Arc::new(TLink::from(Node::new(Some(Node::new(Some(Node::new(None)))))));
        let other = Arc::clone(&first);
        let writer = move || {
            // The second node of the list goes, until there is one: each time the next moves up.
            for _ in 0..2 {
                atomically(|tx| {
                    let node = tx.read(&*other)?.expect("a node").get();
                    let rest = match tx.read(&node.next)? {
                        Some(second) => tx.read(&second.get().next)?.map(Linked::to_arc),
                        None => None,
                    };
                    tx.write(&node.next, rest).map(drop)
                })
                .run();
                collect();
            }
        };
        beside(writer, || {
            let nodes = atomically(|tx| {
                let (mut nodes, mut at) = (vec![], &*first);
                while let Some(node) = tx.read(at)? {
                    nodes.push(node);
                    at = &node.get().next;
                }
                assert!(nodes.iter().all(|node| node.canary.is_alive()), "a node was dropped under a reference");
                Ok(nodes.len())
            })
            .run();
            assert!((1..=3).contains(&nodes), "{nodes}");
        });
    });
}

//   reader                                        writer
//   reads the link: here
//                                                 link := none, went := 1
//                                                 link := the same node, came_back := 1
//   reads came_back, went <- (here, 0, 1) never
#[test]
fn a_node_that_has_gone_and_come_back_was_away() {
    // The states are, in this order, (here, 0, 0), (away, 0, 1), (here, 1, 1): never (here, 0, 1).
    struct Subject {
        link: TLink<u32>,
        came_back: TCell<u32>,
        went: TCell<u32>,
    }
    model(|| {
        let here = Shared::new(1);
        let link = TLink::from(Shared::clone(&here));
        let subject = Arc::new(Subject { link, came_back: TCell::new(0), went: TCell::new(0) });
        let other = Arc::clone(&subject);
        let writer = move || {
            atomically(|tx| {
                tx.write(&other.link, None)?;
                tx.write(&other.went, 1)
            })
            .run();
            atomically(|tx| {
                tx.write(&other.link, Some(Shared::clone(&here)))?;
                tx.write(&other.came_back, 1)
            })
            .run();
        };
        beside(writer, || {
            let seen = atomically(|tx| {
                let is_here = tx.read(&subject.link)?.is_some();
                let seen = (is_here, tx.read(&subject.came_back)?, tx.read(&subject.went)?);
                assert_ne!(seen, (true, 0, 1), "a zombie");
                Ok(seen)
            })
            .run();
            assert!([(true, 0, 0), (false, 0, 1), (true, 1, 1)].contains(&seen), "{seen:?}");
        });
    });
}

//   collects twice      writer
//                       replaces node 0, retires it
//   takes the retired   takes the retired   <- one of them drops it
#[test]
fn a_node_is_dropped_once_whichever_thread_collects() {
    replaced_are_dropped_once(|node| TLink::from(Shared::new(node)), |node| Some(Shared::new(node)));
}

//   snapshot                      writer
//   reads link a
//                                 commits a and b, twice
//   reads link b <- as old as a
#[test]
fn a_snapshot_of_links_has_each_commit_wholly_or_not_at_all() {
    model(|| {
        let pair = Arc::new((TLink::from(Shared::new(0)), TLink::from(Shared::new(0))));
        let other = Arc::clone(&pair);
        let writer = move || {
            for n in 1..=2 {
                atomically(|tx| {
                    tx.write(&other.0, Some(Shared::new(n)))?;
                    tx.write(&other.1, Some(Shared::new(n))).map(drop)
                })
                .run();
            }
        };
        beside(writer, || {
            let (a, b) = snapshot(|tx| Ok((tx.read(&pair.0)?.map(|n| *n), tx.read(&pair.1)?.map(|n| *n))));
            assert_eq!(a, b);
        });
    });
}
