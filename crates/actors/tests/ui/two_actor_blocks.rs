//! A type has one block of messages.
use enact_actors::actor;

struct Counter {
    n: i64,
}

#[actor]
impl Counter {
    fn add(&mut self, k: i64) {
        self.n += k;
    }
}

#[actor]
impl Counter {
    fn value(&self) -> i64 {
        self.n
    }
}

fn main() {}
