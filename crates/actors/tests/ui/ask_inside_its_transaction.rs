//! The answer to a message of a transaction comes after the commit: there is nothing to wait for inside.
use enact_actors::{System, actor};
use enact_stm::atomically;

struct Seller;

#[actor]
impl Seller {
    fn sell(&mut self) -> u32 {
        1
    }
}

fn main() {
    let system = System::builder().build().unwrap();
    let seller = system.spawn(Seller);
    let _waited = atomically(|tx| Ok(seller.within(tx).sell().wait())).run();
    let _awaited = atomically(|tx| Ok(seller.within(tx).sell().await));
}
