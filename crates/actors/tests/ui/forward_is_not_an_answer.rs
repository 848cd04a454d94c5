//! A handler that forwards says so in its type.
use enact_actors::{Cx, actor};

struct Wrong;

#[actor]
impl Wrong {
    fn bar(&self) -> i64 {
        42
    }

    fn foo(&mut self, cx: &Cx<Self>) -> i64 {
        cx.handle().forward(cx).bar()
    }
}

fn main() {}
