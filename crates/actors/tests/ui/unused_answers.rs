//! What a forgotten `.await`, or a forgotten `tell()`, leaves unused.
#![deny(unused_must_use)]
use enact_actors::{Cx, Promise, actor};
use enact_stm::{TCell, atomically};

struct Counter {
    n: i64,
}

#[actor]
impl Counter {
    fn value(&self) -> i64 {
        self.n
    }

    async fn keep(&mut self, cx: &Cx<Self>, other: CounterRef, total: Promise<i64>) {
        other.value();
        total.map(|n| n + 1);
        other.tell();
        other.forward(cx).value();
        cx.yield_now();
    }

    async fn share(cx: Cx<Self>, other: CounterRef, total: &'static TCell<i64>) {
        cx.wait_for(|counter| counter.n > 0);
        atomically(|tx| tx.update(total, |n| n + 1));
        atomically(|tx| Ok(other.within(tx).value())).await;
        other.keep(other.clone(), other.value());
    }
}

fn main() {}
