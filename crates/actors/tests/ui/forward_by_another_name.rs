//! The attribute sees names, not types.
use enact_actors::{Cx, Forward, actor};

type Answered = Forward<i64>;

struct Desk;

#[actor]
impl Desk {
    fn square(&mut self, cx: &Cx<Self>, n: i64) -> Answered {
        cx.reply(n * n)
    }

    async fn cube(cx: Cx<Self>, n: i64) -> Answered {
        cx.reply(n * n * n)
    }
}

fn main() {}
