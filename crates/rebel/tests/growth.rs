//! Checking takes time in proportion to what is checked, seen by what it allocates, which is the same in every run: in a program of its
//! own, since all that the process allocates is counted.
#![expect(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use enact_rebel::{Source, check};

/// The system's allocator; counts the bytes that are asked for.
struct Counting;

static ASKED: AtomicUsize = AtomicUsize::new(0);

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ASKED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// How many bytes the check of a sound source asks for.
fn asked(text: String) -> f64 {
    // All that the process asks for is counted.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let source = vec![Source::new("a.rebel", text)];
    let before = ASKED.load(Ordering::Relaxed);
    check(source).expect("it is sound");
    (ASKED.load(Ordering::Relaxed) - before) as f64
}

fn classes(lines: usize) -> String {
    let mut text = String::new();
    for number in 0..lines / 10 {
        write!(
            text,
            "class A{number}\n  balance: Money = EUR 0.00\n  invariant balance >= 0\n  initial i\n    on Open(): o\n  o\n    \
             on Pay(to: A{number}, sum: Money)\n      pre: sum > 0, balance - sum >= 0\n      post: this.balance -= sum\n\n"
        )
        .expect("a text takes all");
    }
    text
}

fn events(count: usize) -> String {
    let event =
        |number| format!("    on E{number}(x: Integer)\n      pre: n + x < {number}\n      post: this.n += x\n");
    let events: String = (1..count).map(event).collect();
    format!("class A\n  n: Integer = 0\n  initial i\n    on Begin(): o\n  o\n{events}")
}

#[test]
fn twice_the_lines_are_twice_the_work() {
    let ratio = asked(classes(20_000)) / asked(classes(10_000));
    assert!(ratio <= 2.2, "{ratio}");
}

#[test]
fn twice_the_events_of_a_class_are_at_most_four_times_the_work() {
    let ratio = asked(events(256)) / asked(events(128));
    assert!(ratio <= 4.5, "{ratio}");
}

fn effects(count: usize) -> String {
    let mut text =
        "class A\n  n: Integer = 0\n  m: Map[Integer, Integer] = {}\n  initial i\n    on Begin(): o\n  o\n    \
                    on E(x: Integer)\n      post:\n"
            .to_owned();
    for number in 0..count {
        write!(
            text,
            "        if x > {number}:\n          this.n += {number}\n          this.m[{number}] = x\n        else: this.n -= 1\n"
        )
        .expect("a text takes all");
    }
    text
}

#[test]
fn twice_the_effects_of_an_event_are_twice_the_work() {
    let ratio = asked(effects(2_000)) / asked(effects(1_000));
    assert!(ratio <= 2.2, "{ratio}");
}
