//! Variables are read and written in transactions, not in turns, definitive or tentative.
use enact_actors::actor;
use enact_stm::TCell;
use std::sync::Arc;

struct Seller {
    seats: Arc<TCell<u32>>,
}

#[actor]
impl Seller {
    fn left(&self) -> u32 {
        *self.seats - 1
    }

    fn sell(&mut self) {
        *self.seats -= 1;
    }
}

fn main() {}
