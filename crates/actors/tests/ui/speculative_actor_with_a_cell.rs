//! What changes behind `&self` is no copy, and could not be taken back.
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use enact_actors::actor;

#[derive(Clone)]
struct Counting {
    reads: Cell<u64>,
}

#[actor(speculative)]
impl Counting {
    fn read(&self) -> u64 {
        self.reads.replace(self.reads.get() + 1)
    }
}

#[derive(Clone)]
struct Caching<T> {
    known: Vec<RefCell<HashMap<u64, T>>>,
}

#[actor(speculative)]
impl<T: Clone + Send + Sync + 'static> Caching<T> {
    fn known(&self, key: u64) -> Option<T> {
        self.known.iter().find_map(|known| known.borrow_mut().remove(&key))
    }
}

trait Strategy: Send {
    fn copy(&self) -> Box<dyn Strategy>;
}

struct Playing {
    strategy: Box<dyn Strategy>,
}

impl Clone for Playing {
    fn clone(&self) -> Self {
        Self { strategy: self.strategy.copy() }
    }
}

#[actor(speculative)]
impl Playing {
    fn play(&mut self) {}
}

fn main() {}
