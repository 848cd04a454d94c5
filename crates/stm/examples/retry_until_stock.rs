//! Waiting for a condition: buyers sleep until there is enough of everything they want, or until they lose patience.
//!
//! Nobody signals anything. `retry` sleeps until something that was read changes; if it turns out not to be enough, the
//! transaction sleeps again, and in between it holds nothing.
use std::thread;
use std::time::{Duration, Instant};

use enact_stm::{Abort, TCell, Tx, atomically};

struct Shop {
    nuts: TCell<u32>,
    bolts: TCell<u32>,
}

fn take<'t>(tx: &mut Tx<'t, '_>, stock: &'t TCell<u32>, count: u32) -> Result<(), Abort> {
    match tx.read(stock)?.checked_sub(count) {
        Some(rest) => tx.write(stock, rest).map(drop),
        None => tx.retry(),
    }
}

impl Shop {
    /// As many nuts as bolts: all of them, or none.
    fn buy_sets(&self, count: u32) {
        atomically(|tx| {
            take(tx, &self.nuts, count)?;
            take(tx, &self.bolts, count)
        })
        .run();
    }

    /// Nuts or, if there are not enough, bolts; false if neither came before the deadline.
    fn buy_anything(&self, count: u32, deadline: Instant) -> bool {
        atomically(|tx| {
            tx.or_else(
                |tx| take(tx, &self.nuts, count).map(|()| true),
                |tx| {
                    tx.or_else(
                        |tx| take(tx, &self.bolts, count).map(|()| true),
                        |tx| tx.retry_until(deadline).map(|_| false),
                    )
                },
            )
        })
        .run()
    }

    fn deliver(&self, nuts: u32, bolts: u32) {
        atomically(|tx| {
            tx.update(&self.nuts, |stock| stock + nuts)?;
            tx.update(&self.bolts, |stock| stock + bolts)
        })
        .run();
    }
}

fn main() {
    let shop = Shop { nuts: TCell::new(0), bolts: TCell::new(2) };
    thread::scope(|scope| {
        let shop = &shop;
        for count in 1..=4 {
            scope.spawn(move || shop.buy_sets(count));
        }
        // One piece at a time: most deliveries are enough for nobody.
        for _ in 0..1 + 2 + 3 + 4 {
            shop.deliver(1, 0);
            shop.deliver(0, 1);
        }
    });
    assert!(shop.buy_anything(2, Instant::now()), "there are two bolts");
    assert!(!shop.buy_anything(1, Instant::now() + Duration::from_millis(1)), "the shop is empty");

    let (nuts, bolts) = (shop.nuts.into_inner(), shop.bolts.into_inner());
    println!("left: {nuts} nuts, {bolts} bolts");
    assert_eq!((nuts, bolts), (0, 0));
}
