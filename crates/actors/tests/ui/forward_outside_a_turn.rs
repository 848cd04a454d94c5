//! Outside a turn there is no promise to hand on: a forward asks for the turn's context.
use enact_actors::{System, actor};

struct Plain;

#[actor]
impl Plain {
    fn bar(&self) -> i64 {
        42
    }
}

fn main() {
    let system = System::builder().build().unwrap();
    let plain = system.spawn(Plain);
    drop(plain.forward().bar());
}
