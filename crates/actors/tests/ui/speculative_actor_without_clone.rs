//! What a tentative turn changes is a copy of the state.
use enact_actors::actor;

struct Worker {
    sum: u64,
}

#[actor(speculative)]
impl Worker {
    fn add(&mut self, n: u64) {
        self.sum += n;
    }
}

fn main() {}
