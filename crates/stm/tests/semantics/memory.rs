//! When values and variables go, while others wait for them or still look at them.
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use enact_stm::{Abort, TCell, TVar, Tx, atomically, snapshot};

use crate::executor::Step;
use crate::forms::{elsewhere, set};

/// Commits so often that what was replaced before is freed, unless somebody may still look at it.
fn collect(scratch: &TVar<u32>) {
    for n in 0..1000 {
        set(scratch, n);
    }
}

struct Node {
    number: u32,
    next: TVar<Option<Arc<Node>>>,
    alive: &'static AtomicUsize,
}

impl Node {
    fn new(number: u32, alive: &'static AtomicUsize, next: Option<Arc<Self>>) -> Option<Arc<Self>> {
        alive.fetch_add(1, Ordering::SeqCst);
        Some(Arc::new(Self { number, next: TVar::new(next), alive }))
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        assert!(self.alive.fetch_sub(1, Ordering::SeqCst) > 0, "dropped once");
    }
}

/// The number of the last node, if it is the one that is waited for.
fn last_is<'t>(tx: &mut Tx<'t, '_>, head: &'t TVar<Option<Arc<Node>>>, expected: u32) -> Result<u32, Abort> {
    let (mut link, mut last) = (head, None);
    while let Some(node) = tx.read(link)? {
        (link, last) = (&node.next, Some(node.number));
    }
    if last == Some(expected) { Ok(expected) } else { tx.retry() }
}

#[test]
fn a_variable_may_go_while_somebody_waits_on_it() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    let (head, scratch) = (TVar::new(None), TVar::new(0));
    set(&head, Node::new(1, &ALIVE, Node::new(2, &ALIVE, Node::new(3, &ALIVE, None))));
    let mut waiters: Vec<_> = (0..3).map(|_| Step::new(atomically(|tx| last_is(tx, &head, 9)))).collect();
    for waiter in &mut waiters {
        assert!(waiter.poll().is_pending());
    }
    let cancelled = waiters.last_mut().expect("three");
    // The second node goes, with the variable in it that all wait on; nobody is polled meanwhile.
    atomically(|tx| {
        let first = tx.read(&head)?.as_ref().expect("a node");
        let second = tx.read(&first.next)?.as_ref().expect("a node");
        let third = tx.read(&second.next)?.clone();
        tx.write(&first.next, third).map(drop)
    })
    .run();
    while ALIVE.load(Ordering::SeqCst) > 2 {
        // A snapshot of another test may have made the link keep its old value, until the next commit.
        atomically(|tx| {
            let first = tx.read(&head)?.as_ref().expect("a node");
            let third = tx.read(&first.next)?.clone();
            tx.write(&first.next, third).map(drop)
        })
        .run();
        collect(&scratch);
        thread::yield_now();
    }
    cancelled.cancel();
    assert_eq!((cancelled.wakes(), cancelled.is_registered()), (1, false));
    waiters.truncate(2);
    for waiter in &mut waiters {
        assert_eq!(waiter.wakes(), 1);
        assert!(waiter.poll().is_pending(), "it has looked again, and waits on what is there now");
    }
    // A sleeper keeps nothing alive: the whole list goes.
    while ALIVE.load(Ordering::SeqCst) > 0 {
        set(&head, None);
        collect(&scratch);
        thread::yield_now();
    }
    set(&head, Node::new(9, &ALIVE, None));
    for waiter in &mut waiters {
        assert!(waiter.poll().is_ready());
        assert!(!waiter.is_registered());
    }
}

#[test]
fn a_variable_that_goes_wakes_even_who_was_forgotten() {
    let (cell, boxed) = (Box::new(TCell::new(0)), Box::new(TVar::new(0)));
    let mut on_cell = Step::new(atomically(|tx| tx.read(&*cell).and_then(|_| tx.retry::<()>())));
    let mut on_boxed = Step::new(atomically(|tx| tx.read(&*boxed).and_then(|_| tx.retry::<()>())));
    assert!(on_cell.poll().is_pending() && on_boxed.poll().is_pending());
    // A future that is leaked borrows nothing any more, and has not been dropped either.
    let (on_cell, on_boxed) = (on_cell.forget(), on_boxed.forget());
    drop(cell);
    drop(boxed);
    for (wakes, is_registered) in
        [(on_cell.wakes(), on_cell.is_registered()), (on_boxed.wakes(), on_boxed.is_registered())]
    {
        assert_eq!((wakes, is_registered), (1, false));
    }
}

#[test]
fn a_replaced_value_stays_while_there_is_a_reference_to_it() {
    static DROPPED: AtomicBool = AtomicBool::new(false);
    struct Value(Vec<u32>);
    impl Drop for Value {
        fn drop(&mut self) {
            if self.0[0] == 1 {
                DROPPED.store(true, Ordering::SeqCst);
            }
        }
    }
    let (value, scratch) = (TVar::new(Arc::new(Value(vec![1, 2, 3]))), TVar::new(0));
    let seen = snapshot(|tx| {
        let reference = tx.read(&value)?;
        elsewhere(|| {
            set(&value, Arc::new(Value(vec![9])));
            collect(&scratch);
        });
        assert!(!DROPPED.load(Ordering::SeqCst), "there is a reference");
        Ok(reference.0.clone())
    });
    assert_eq!(seen, [1, 2, 3]);
    while !DROPPED.load(Ordering::SeqCst) {
        // The next commit takes it out of the variable's past; then the thread that gets that descriptor frees it.
        set(&value, Arc::new(Value(vec![9])));
        elsewhere(|| collect(&scratch));
        collect(&scratch);
        thread::yield_now();
    }
}

/// A value that says when it is dropped.
struct Watched {
    number: u32,
}

static FIRST_IS_DROPPED: AtomicBool = AtomicBool::new(false);

impl Drop for Watched {
    fn drop(&mut self) {
        if self.number == 1 {
            FIRST_IS_DROPPED.store(true, Ordering::SeqCst);
        }
    }
}

#[test]
fn a_published_value_outlives_the_wake_ups_of_its_commit() {
    // Neighbours, so that their sleepers are kept in different places.
    struct Pair {
        flag: TCell<u32>,
        value: TVar<Watched>,
    }
    let pair = Pair { flag: TCell::new(0), value: TVar::new(Watched { number: 0 }) };
    let (old, scratch) = (TVar::new(0), TVar::new(0));
    let (says, said) = mpsc::channel();
    let (tells, told) = mpsc::channel::<()>();
    let told = Arc::new(Mutex::new(told));
    let mut on_flag = Step::new(atomically(|tx| {
        let (says, told) = (says.clone(), Arc::clone(&told));
        // Stops the commit in the middle of its wake-ups.
        tx.wait_for(&pair.flag, move |flag| {
            if *flag == 1 {
                says.send(()).expect("the test listens");
                told.lock().expect("not poisoned").recv().expect("the test goes on");
            }
            *flag == 1
        })
    }));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut on_value = Step::new(atomically(|tx| {
        let seen = Arc::clone(&seen);
        tx.wait_for(&pair.value, move |value| {
            seen.lock().expect("not poisoned").push(value.number);
            false
        })
        .map(drop)
    }));
    assert!(on_flag.poll().is_pending() && on_value.poll().is_pending());
    thread::scope(|scope| {
        scope.spawn(|| {
            atomically(|tx| {
                // It begins long before it makes the value.
                tx.read(&old)?;
                elsewhere(|| collect(&scratch));
                tx.write(&pair.flag, 1)?;
                tx.write(&pair.value, Watched { number: 1 }).map(drop)
            })
            .run();
        });
        said.recv().expect("the commit has published, and wakes");
        for number in 2..1000 {
            atomically(|tx| tx.write(&pair.value, Watched { number }).map(drop)).run();
        }
        let is_dropped = FIRST_IS_DROPPED.load(Ordering::SeqCst);
        tells.send(()).expect("the condition listens");
        assert!(!is_dropped, "the commit is about to show the value to a condition");
    });
    let seen = seen.lock().expect("not poisoned");
    assert_eq!((seen.first(), seen.last()), (Some(&0), Some(&1)), "{seen:?}");
}

#[test]
fn a_condition_is_never_shown_a_value_of_another_type() {
    enum Place {
        Text(TVar<String>),
        Number(TVar<u64>),
    }
    impl Place {
        fn text(&self) -> &TVar<String> {
            let Self::Text(text) = self else { panic!("it is a number") };
            text
        }
        fn number(&self) -> &TVar<u64> {
            let Self::Number(number) = self else { panic!("it is a text") };
            number
        }
    }
    let mut place = Box::new(Place::Text(TVar::new(String::new())));
    let address = std::ptr::from_ref(place.text()).addr();
    let looked = Arc::new(AtomicUsize::new(0));
    let mut forgotten = Step::new(atomically(|tx| {
        let looked = Arc::clone(&looked);
        tx.wait_for(place.text(), move |_| {
            looked.fetch_add(1, Ordering::SeqCst);
            false
        })
        .map(drop)
    }));
    assert!(forgotten.poll().is_pending());
    // The variable moves away, and one of another type takes its place.
    let forgotten = forgotten.forget();
    let moved = std::mem::replace(&mut *place, Place::Number(TVar::new(1)));
    assert_eq!(std::ptr::from_ref(place.number()).addr(), address, "this is what the test is about");
    let mut waits = Step::new(atomically(|tx| tx.wait_for(place.number(), |n| *n == 2).copied()));
    assert!(waits.poll().is_pending());
    set(place.number(), 2);
    assert_eq!((waits.wakes(), waits.poll()), (1, std::task::Poll::Ready(2)));
    assert_eq!(looked.load(Ordering::SeqCst), 1, "only when it was given");
    assert_eq!((forgotten.wakes(), forgotten.is_registered()), (1, false), "nothing is left of it");
    drop(moved);
}
