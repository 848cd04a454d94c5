//! One object without its tuple, and one that is not shared.
use enact_stm::{Deferrable, atomically};
use std::sync::Arc;

fn main() {
    let log = Arc::new(Deferrable::new((), Vec::<u8>::new()));
    atomically(|tx| tx.defer(&log, |_| ()).map(drop)).run();
    let own = Deferrable::new((), Vec::<u8>::new());
    atomically(|tx| tx.defer((&own,), |_| ()).map(drop)).run();
}
