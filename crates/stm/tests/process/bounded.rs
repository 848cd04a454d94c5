//! Memory stays bounded beside a reader that stands still.
use crate::{elsewhere, my_turn};
use enact_stm::{Abort, TCell, TVar, Tx, atomically, snapshot};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, AtomicUsize, Ordering};
use std::thread;

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
fn replace_all(variables: &[TVar<Value>]) {
    let before = LIVE.load(Ordering::Relaxed);
    elsewhere(|| {
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                scope.spawn(move || {
                    for n in 0..REPLACEMENTS / WRITERS {
                        let (variable, number) = (&variables[(n + writer) % VARIABLES], n);
                        atomically(|tx| tx.write(variable, Value::new(number)).map(drop)).run();
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
    replace_all(variables);
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
        replace_all(&variables);
        // The others are read only now, as they were.
        variables.iter().map(|variable| tx.read(variable).map(|value| value.0)).sum()
    });
    assert_eq!(late, (0..VARIABLES).sum());
    assert_eq!(snapshot(|tx| read_all(tx, &variables)), VARIABLES);
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
                // A word in each chain, its node in garbage, the worker and the thread: far from one node a commit.
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
            return replace_all(variables);
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
