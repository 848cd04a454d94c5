//! Output to two files in a guaranteed order: an invoice is written only after its order has reached the disk.
//!
//! Whether the order is on the disk is itself shared state. It belongs to the object that the operation holds, so nobody
//! can look at it between the promise to write and the end of `fsync`.
use std::fs::{self, File};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;

use enact_stm::{Deferrable, TCell, atomically};

/// A file, and whether what belongs into it is on the disk.
type Output = Arc<Deferrable<TCell<bool>, File>>;

/// Promises in a transaction what is done behind its commit: write, force to the disk, and only then say so.
fn write_durably(output: &Output, text: &'static str) {
    let outcome = atomically(|tx| {
        tx.defer((output,), move |(output,)| -> io::Result<()> {
            output.write_all(text.as_bytes())?;
            output.sync_all()?;
            let is_durable = output.shared();
            atomically(|tx| tx.write(is_durable, true)).run();
            Ok(())
        })
    })
    .run();
    outcome.take().expect("the operation has ended").expect("the disk takes it");
}

/// Sleeps while the order is not written, and also while it is being written.
fn write_after(order: &Output, invoice: &Output, text: &'static str) {
    let outcome = atomically(|tx| {
        let is_durable = tx.open(order)?;
        if !tx.read(is_durable)? {
            return tx.retry();
        }
        tx.defer((invoice,), move |(invoice,)| {
            invoice.write_all(text.as_bytes())?;
            invoice.sync_all()
        })
    })
    .run();
    outcome.take().expect("the operation has ended").expect("the disk takes it");
}

fn main() -> io::Result<()> {
    let directory = tempfile::tempdir()?;
    let (order_path, invoice_path) = (directory.path().join("order"), directory.path().join("invoice"));
    let output = |path| Ok::<_, io::Error>(Arc::new(Deferrable::new(TCell::new(false), File::create(path)?)));
    let (order, invoice) = (output(&order_path)?, output(&invoice_path)?);

    thread::scope(|scope| {
        let invoicing = scope.spawn(|| write_after(&order, &invoice, "one boat: 100\n"));
        assert_eq!(fs::read_to_string(&invoice_path).expect("it exists"), "", "no invoice without an order");
        write_durably(&order, "one boat\n");
        invoicing.join().expect("the order is written");
    });

    let (order, invoice) = (fs::read_to_string(order_path)?, fs::read_to_string(invoice_path)?);
    print!("order: {order}invoice: {invoice}");
    assert_eq!((order.as_str(), invoice.as_str()), ("one boat\n", "one boat: 100\n"));
    Ok(())
}
