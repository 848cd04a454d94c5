//! Logging from inside a critical section: lines appear once each, whole, and in the order of the commits.
//!
//! A line must not be written by an attempt that is thrown away, and must not mix with the lines of others. So the
//! transaction defers the writing, and names the log as the object that it needs.
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::sync::Arc;
use std::thread;

use enact_stm::{Abort, Deferrable, TArray, Tx, atomically};

/// Nothing to share, and a file that only deferred operations touch.
type Log = Arc<Deferrable<(), File>>;

const ACCOUNTS: usize = 4;
const THREADS: usize = 3;
const TRANSFERS: usize = 20;

/// Writes a line behind the commit of the transaction.
fn log<'t>(tx: &mut Tx<'t, '_>, log: &'t Log, line: String) -> Result<(), Abort> {
    tx.defer((log,), move |(file,)| {
        if let Err(error) = writeln!(file, "{line}") {
            eprintln!("the log is out of service: {error}");
            file.poison();
        }
    })
    .map(drop)
}

fn transfer(accounts: &TArray<i64>, to_log: &Log, from: usize, to: usize) {
    atomically(|tx| {
        accounts.update(tx, from, |balance| balance - 1)?;
        accounts.update(tx, to, |balance| balance + 1)?;
        // Made from what this transaction sees, which may be gone when the line is written.
        let balances: Vec<String> = accounts.elements(tx)?.into_iter().map(i64::to_string).collect();
        log(tx, to_log, balances.join(" "))
    })
    .run();
}

fn main() -> io::Result<()> {
    let (accounts, to_log) = (TArray::from_fn(ACCOUNTS, |_| 100), Arc::new(Deferrable::new((), tempfile::tempfile()?)));
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (accounts, to_log) = (&accounts, &to_log);
            scope.spawn(move || {
                for n in 0..TRANSFERS {
                    transfer(accounts, to_log, (thread + n) % ACCOUNTS, (thread + 3 * n + 1) % ACCOUNTS);
                }
            });
        }
    });

    let ((), mut file) = Arc::into_inner(to_log).expect("all transactions are over").into_inner();
    let mut text = String::new();
    file.rewind()?;
    file.read_to_string(&mut text)?;
    print!("{text}");

    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), THREADS * TRANSFERS, "one line for each transfer, whatever was run again");
    for line in &lines {
        let sum: i64 = line.split(' ').map(|balance| balance.parse::<i64>().expect("whole lines")).sum();
        assert_eq!(sum, 100 * ACCOUNTS as i64, "{line}");
    }
    let last: Vec<String> = accounts.into_vec().iter().map(i64::to_string).collect();
    assert_eq!(lines.last(), Some(&last.join(" ").as_str()), "the last line is of the last commit");
    Ok(())
}
