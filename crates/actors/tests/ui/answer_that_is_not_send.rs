//! An answer moves between threads.
use std::rc::Rc;

use enact_actors::actor;

struct Sharing {
    shared: i64,
}

#[actor]
impl Sharing {
    fn give(&mut self) -> Rc<i64> {
        Rc::new(self.shared)
    }
}

fn main() {}
