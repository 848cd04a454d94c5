//! What an idle actor takes of memory: in a program of its own, because everything that the process allocates counts.
use std::alloc::{GlobalAlloc, Layout, System as Heap};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering};

use enact_actors::{Actor, Promise, System, actor};

const ACTORS: usize = 100_000;
/// So many come first: a few thousand of a process keep what a turn that can wait needs.
const FIRST: usize = 5_000;
/// Bytes of an actor, its handle and a state of eight bytes included.
const BYTES_MAX: usize = 400;

/// The system's allocator, with a count of what is in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

/// What a common allocator takes for a block: a word of its own, in steps of two words.
fn block_bytes(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: as the system's allocator, to which every call goes on unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(block_bytes(layout), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very function.
        unsafe { Heap.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(block_bytes(layout), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { Heap.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Default)]
struct Idle {
    turns: usize,
}

#[actor]
impl Idle {
    fn turn(&mut self) -> usize {
        self.turns += 1;
        self.turns
    }

    async fn turn_that_can_wait(&mut self) -> usize {
        self.turn()
    }
}

struct Maker;

#[actor]
impl Maker {
    fn make(&self) -> Vec<IdleRef> {
        (0..ACTORS).map(|_| Idle::default().spawn()).collect()
    }
}

/// Asks each once, a thousand at a time.
fn ask(actors: Vec<IdleRef>, ask: impl Fn(&IdleRef) -> Promise<usize>) -> Vec<IdleRef> {
    for asked in actors.chunks(1000) {
        let answers: Vec<_> = asked.iter().map(&ask).collect();
        assert!(answers.into_iter().all(|answer| answer.wait() == Ok(1)));
    }
    actors
}

/// What each of so many actors takes once it has been asked.
fn bytes_of_an_actor(make: impl FnOnce() -> Vec<IdleRef>, question: impl Fn(&IdleRef) -> Promise<usize>) -> usize {
    let before = IN_USE.load(Ordering::Relaxed);
    let actors = ask(make(), question);
    let bytes = (IN_USE.load(Ordering::Relaxed) - before) / actors.len();
    // What is dropped would stop while the next ones are counted.
    mem::forget(actors);
    bytes
}

#[test]
fn an_idle_actor_takes_less_than_400_bytes_wherever_it_was_made_and_whatever_it_did() {
    let system = System::builder().workers(1).build().unwrap();
    let outside = || (0..ACTORS).map(|_| system.spawn(Idle::default())).collect();
    let maker = system.spawn(Maker);
    mem::forget(ask((0..FIRST).map(|_| system.spawn(Idle::default())).collect(), IdleRef::turn_that_can_wait));
    let bytes = [
        bytes_of_an_actor(outside, IdleRef::turn),
        bytes_of_an_actor(|| maker.make().wait().unwrap(), IdleRef::turn),
        bytes_of_an_actor(outside, IdleRef::turn_that_can_wait),
    ];
    assert!(bytes.iter().all(|&bytes| bytes < BYTES_MAX), "{bytes:?}");
}
