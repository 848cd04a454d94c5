//! A message moves between threads.
use std::rc::Rc;

use enact_actors::actor;

struct Sharing;

#[actor]
impl Sharing {
    fn take(&mut self, shared: Rc<i64>) {
        drop(shared);
    }
}

fn main() {}
