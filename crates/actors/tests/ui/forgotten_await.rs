//! A promise is not its answer.
use enact_actors::actor;

struct Counter {
    n: i64,
}

#[actor]
impl Counter {
    fn value(&self) -> i64 {
        self.n
    }

    async fn same(&mut self, other: CounterRef) -> i64 {
        other.value()
    }

    async fn unwrapped(&mut self, other: CounterRef) -> i64 {
        other.value().unwrap()
    }
}

fn main() {}
