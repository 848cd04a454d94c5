//! The structure is read instead of its field, and a plain value like a variable.
use enact_stm::{TCell, atomically};

struct Account {
    balance: TCell<i64>,
}

fn main() {
    let account = Account { balance: TCell::new(1) };
    atomically(|tx| tx.read(&account).map(drop)).run();
    let plain = 5;
    atomically(|tx| tx.write(&plain, 6).map(drop)).run();
    drop(account.balance);
}
