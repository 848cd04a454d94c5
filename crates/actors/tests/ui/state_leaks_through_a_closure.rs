//! The seed's first bad program: `method setter = let f n = x <- n in f`.
use enact_actors::actor;

struct Leaky {
    x: i64,
}

#[actor]
impl Leaky {
    fn setter(&mut self) -> Box<dyn FnMut(i64) + Send> {
        Box::new(|n| self.x = n)
    }
}

fn main() {}
