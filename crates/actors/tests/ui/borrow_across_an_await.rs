//! In a cooperative handler, no borrow of the state lives across an await.
use enact_actors::{Cx, actor};

struct Open {
    items: Vec<i64>,
}

#[actor]
impl Open {
    async fn first(cx: Cx<Self>) -> i64 {
        let first = cx.with(|open| &open.items[0]);
        cx.yield_now().await;
        *first
    }
}

fn main() {}
