//! One caller's promise is kept once.
use enact_actors::{Cx, Forward, actor};

struct Twice;

#[actor]
impl Twice {
    fn bar(&self) -> i64 {
        42
    }

    fn foo(&mut self, cx: &Cx<Self>) -> Forward<i64> {
        let forward = cx.handle().forward(cx).bar();
        let [first, _second] = [forward, forward];
        first
    }
}

fn main() {}
