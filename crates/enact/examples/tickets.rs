//! Messages that belong to a transaction: a ticket is printed if and only if its seat is sold. The program of the README.

use std::sync::Arc;

use enact::{System, TCell, actor, atomically};

#[derive(Default)]
struct Printer {
    printed: u32,
}

#[actor]
impl Printer {
    fn print(&mut self) -> u32 {
        self.printed += 1;
        self.printed
    }
}

struct Office {
    seats: Arc<TCell<u32>>,
    printer: PrinterRef,
}

#[actor]
impl Office {
    /// Sells one of the seats that all offices share, as soon as there is one.
    async fn sell(&mut self) {
        atomically(|tx| {
            let left = tx.read(&self.seats)?;
            if left == 0 {
                return tx.retry(); // sleeps until `seats` changes
            }
            tx.write(&self.seats, left - 1)?;
            self.printer.tell_within(tx).print(); // sent if and only if this transaction commits
            Ok(())
        })
        .await;
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let system = System::builder().build()?;
    let seats = Arc::new(TCell::new(1));
    let printer = system.spawn(Printer::default());
    let office = || system.spawn(Office { seats: Arc::clone(&seats), printer: printer.clone() });
    let (north, south) = (office(), office());

    let sold = north.sell().join(south.sell()); // two messages, and one seat
    atomically(|tx| tx.update(&seats, |left| left + 1)).run();
    sold.wait()?;
    assert_eq!(printer.print().wait()?, 3);
    Ok(())
}
