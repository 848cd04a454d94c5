//! What no cell can hold, and newtypes that cannot be derived.
use enact_stm::{TCell, Word};

#[derive(Clone, Copy)]
struct Plain(u32);

#[derive(Clone, Copy, Word)]
struct Pair {
    left: u32,
    right: u32,
}

#[derive(Clone, Copy, Word)]
struct Nothing;

#[derive(Clone, Copy, Word)]
enum Light {
    Green,
    Red,
}

#[derive(Clone, Copy, Word)]
struct Name(&'static str);

#[derive(Word)]
struct NotCopy(u32);

fn main() {
    TCell::new(Plain(1));
}
