//! Messages are the methods of an impl block.
use enact_actors::actor;

#[actor]
struct Counter {
    n: i64,
}

#[actor(speculative)]
enum Light {
    Green,
    Red,
}

#[actor]
trait Adds {
    fn add(&mut self, k: i64);
}

#[actor]
fn add(counter: &mut Counter, k: i64) {
    counter.n += k;
}

fn main() {
    let _ = (Counter { n: 1 }, Light::Green, Light::Red, add);
}
