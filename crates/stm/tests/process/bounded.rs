//! Memory stays bounded beside a reader that stands still.
use std::alloc::{GlobalAlloc, Layout, System};
use std::convert::identity;
use std::sync::Arc;
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::thread;

use enact_stm::{Abort, Linked, TCell, TLink, TVar, Tx, Variable, atomically, collect, snapshot};

use crate::{elsewhere, my_turn};

/// The system's allocator, with a count of what is in use.
struct Counting;

static IN_USE: AtomicIsize = AtomicIsize::new(0);

// SAFETY: as the system's allocator, to which every call goes on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size().cast_signed(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A value that is counted as long as it lives.
struct Value(usize);

impl Value {
    fn new(number: usize) -> Self {
        LIVE.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    }
}

const VARIABLES: usize = 10;
const WRITERS: usize = 2;
const REPLACEMENTS: usize = 100_000;

/// So many more values may be alive beside a reader: the ones it has, and a few batches of garbage for each writer.
const GROWTH_MAX: usize = VARIABLES + WRITERS * 4 * 128;

/// Replaces the values many times, on threads of its own, and checks how many are alive all the while.
fn replace_all<V: Variable + Sync>(variables: &[V], wrap: fn(Value) -> V::Value) {
    let before = LIVE.load(Ordering::Relaxed);
    elsewhere(|| {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    for n in 0..REPLACEMENTS / WRITERS {
                        let (variable, number) = (&variables[(n + writer) % VARIABLES], n);
                        atomically(|tx| tx.write(variable, wrap(Value::new(number))).map(drop)).run();
                        let live = LIVE.load(Ordering::Relaxed);
                        assert!(live <= before + GROWTH_MAX, "{live} values, {before} before, after {n} replacements");
                    }
                });
            }
        });
    });
}

/// Reads all, stands still while they are replaced, and looks at what it has read again.
fn read_all<'t>(tx: &mut Tx<'t, '_>, variables: &'t [TVar<Value>]) -> Result<usize, Abort> {
    let values: Vec<&Value> = variables.iter().map(|variable| tx.read(variable)).collect::<Result<_, _>>()?;
    let before: Vec<usize> = values.iter().map(|value| value.0).collect();
    replace_all(variables, identity);
    assert!(values.iter().map(|value| value.0).eq(before), "a value has changed under a reference to it");
    Ok(values.len())
}

#[test]
fn a_transaction_that_stands_still_keeps_what_it_has_read_and_no_more() {
    let _turn = my_turn();
    let variables: Vec<_> = (0..VARIABLES).map(|n| TVar::new(Value::new(n))).collect();
    assert_eq!(atomically(|tx| read_all(tx, &variables)).run(), VARIABLES);
}

#[test]
fn a_snapshot_that_stands_still_keeps_its_values_and_no_more() {
    let _turn = my_turn();
    let variables: Vec<_> = (0..VARIABLES).map(|n| TVar::new(Value::new(n))).collect();
    let late: usize = snapshot(|tx| {
        tx.read(&variables[0])?;
        replace_all(&variables, identity);
        // The others are read only now, as they were.
        variables.iter().map(|variable| tx.read(variable).map(|value| value.0)).sum()
    });
    assert_eq!(late, (0..VARIABLES).sum());
    assert_eq!(snapshot(|tx| read_all(tx, &variables)), VARIABLES);
}

#[test]
fn a_walk_that_stands_still_keeps_the_nodes_it_has_read_and_no_more() {
    let _turn = my_turn();
    let links: Vec<_> = (0..VARIABLES).map(|n| TLink::from(Arc::new(Value::new(n)))).collect();
    let look = |nodes: &[Option<Linked<'_, Value>>]| -> usize { nodes.iter().flatten().map(|node| node.0).sum() };
    let nodes = atomically(|tx| {
        let nodes: Vec<_> = links.iter().map(|link| tx.read(link)).collect::<Result<_, _>>()?;
        replace_all(&links, |value| Some(Arc::new(value)));
        Ok(look(&nodes))
    });
    assert_eq!(nodes.run(), (0..VARIABLES).sum());
    let links: Vec<_> = (0..VARIABLES).map(|n| TLink::from(Arc::new(Value::new(n)))).collect();
    let late = snapshot(|tx| {
        let first = tx.read(&links[0])?;
        replace_all(&links, |value| Some(Arc::new(value)));
        // The others are read only now, as they were.
        let nodes: Vec<_> = links.iter().map(|link| tx.read(link)).collect::<Result<_, _>>()?;
        assert_eq!((look(&[first]), look(&nodes[..1])), (0, 0));
        Ok(look(&nodes))
    });
    assert_eq!(late, (0..VARIABLES).sum());
}

#[test]
fn links_between_old_nodes_may_change_for_ever_beside_a_reader_that_stands_still() {
    let _turn = my_turn();
    let nodes = [0, 1].map(|n| Arc::new(Value::new(n)));
    let links = nodes.clone().map(TLink::from);
    atomically(|tx| {
        let seen = tx.read(&links[0])?.expect("a node");
        let before = IN_USE.load(Ordering::Relaxed);
        elsewhere(|| {
            for n in 0..REPLACEMENTS {
                let swapped = Some(Arc::clone(&nodes[n % 2]));
                atomically(|tx| tx.write(&links[0], swapped.clone()).map(drop)).run();
                let grown = IN_USE.load(Ordering::Relaxed) - before;
                assert!(grown < 100_000, "{grown} bytes after {n} commits");
            }
        });
        assert_eq!(seen.0, 0);
        Ok(())
    })
    .run();
    drop(links);
    collect();
    assert!(nodes.iter().all(|node| Arc::strong_count(node) == 1), "every count has been given back");
}

#[test]
fn a_snapshot_that_goes_on_keeps_two_values_a_variable_and_no_more() {
    let _turn = my_turn();
    const ROUNDS: usize = 200;
    elsewhere(collect);
    let variables: Vec<_> = (0..VARIABLES).map(|n| TVar::new(Value::new(n))).collect();
    let before = LIVE.load(Ordering::Relaxed);
    snapshot(|tx| {
        for _ in 0..ROUNDS {
            // Each of them is replaced many times before the snapshot looks again.
            elsewhere(|| {
                for n in 0..100 * VARIABLES {
                    atomically(|tx| tx.write(&variables[n % VARIABLES], Value::new(n)).map(drop)).run();
                }
            });
            for (n, variable) in variables.iter().enumerate() {
                assert_eq!(tx.read(variable)?.0, n);
            }
            let kept = LIVE.load(Ordering::Relaxed) - before;
            assert!(kept <= 2 * VARIABLES + 3 * 128, "{kept} values are kept of {}", ROUNDS * 100 * VARIABLES);
        }
        // Its own two apart, nothing is left when nobody else refers to anything.
        elsewhere(collect);
        assert!(LIVE.load(Ordering::Relaxed) - before <= 2 * VARIABLES);
        Ok(())
    });
}

#[test]
fn a_snapshot_of_cells_that_stands_still_keeps_one_word_a_cell() {
    let _turn = my_turn();
    let cells: Vec<_> = (0..VARIABLES).map(TCell::new).collect();
    let late: usize = snapshot(|tx| {
        tx.read(&cells[0])?;
        let before = IN_USE.load(Ordering::Relaxed);
        elsewhere(|| {
            for n in 0..REPLACEMENTS {
                let cell = &cells[n % VARIABLES];
                atomically(|tx| tx.update(cell, |value| value + 1)).run();
                let grown = IN_USE.load(Ordering::Relaxed) - before;
                // A word in each chain, its node in garbage, the descriptor and the thread: far from one node a commit.
                assert!(grown < 100_000, "{grown} bytes after {n} commits");
            }
        });
        cells.iter().map(|cell| tx.read(cell)).sum()
    });
    assert_eq!(late, (0..VARIABLES).sum());
}

#[test]
fn several_snapshots_that_stand_still_keep_a_value_each() {
    let _turn = my_turn();
    fn nest(variables: &[TVar<Value>], depth: usize) {
        if depth == 0 {
            return replace_all(variables, identity);
        }
        let expected = snapshot(|tx| {
            let first = tx.read(&variables[0])?.0;
            elsewhere(|| {
                atomically(|tx| tx.write(&variables[0], Value::new(depth * 1000)).map(drop)).run();
                nest(variables, depth - 1);
            });
            assert_eq!(tx.read(&variables[0])?.0, first);
            Ok(first)
        });
        assert!(expected == 0 || expected == (depth + 1) * 1000);
    }
    let variables: Vec<_> = (0..VARIABLES).map(|_| TVar::new(Value::new(0))).collect();
    nest(&variables, 5);
}
