//! The seed's second bad program: `method foo = let f () = self#!!bar in f`.
use enact_actors::{Cx, Forward, actor};

struct Evasive;

#[actor]
impl Evasive {
    fn bar(&self) -> i64 {
        42
    }

    fn later(&mut self, cx: &Cx<Self>) -> Box<dyn FnOnce() -> Forward<i64> + Send> {
        Box::new(|| cx.handle().forward(cx).bar())
    }
}

fn main() {}
