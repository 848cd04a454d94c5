//! A transaction that is held open until the test decides it.
use std::cell::Cell;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, JoinHandle};

use enact_stm::{Abort, Failed, TCell, Tx, atomically, try_atomically};

/// A variable that lives as long as the program, so that turns and transactions can have it in common.
pub(crate) type Shared<T> = &'static TCell<T>;

pub(crate) fn shared(value: u32) -> Shared<u32> {
    Box::leak(Box::new(TCell::new(value)))
}

/// The value as a transaction of its own sees it.
pub(crate) fn value_of(cell: &TCell<u32>) -> u32 {
    atomically(|tx| tx.read(cell)).run()
}

/// A transaction of its own that writes.
pub(crate) fn set(cell: &TCell<u32>, value: u32) {
    atomically(|tx| tx.write(cell, value).map(drop)).run();
}

/// Runs `work` on another thread, and returns when it is done: in the middle of a closure this is a forced interleaving.
pub(crate) fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// Makes the attempt that calls it conflict at its commit, if `condition` holds: `cell` is read, changed by somebody else,
/// and written.
pub(crate) fn conflict_if<'t>(tx: &mut Tx<'t, '_>, cell: &'t TCell<u32>, condition: bool) -> Result<(), Abort> {
    let seen = tx.read(cell)?;
    if condition {
        elsewhere(|| atomically(|tx| tx.update(cell, |n| n + 1).map(drop)).run());
    }
    tx.write(cell, seen + 1).map(drop)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Commit,
    /// An error of the user.
    Fail,
    Panic,
    /// The test has written what this attempt has read.
    Conflict,
}

/// A transaction on a thread of its own that has done everything but end.
pub(crate) struct Undecided<R> {
    outputs: Receiver<R>,
    steps: Sender<Step>,
    thread: JoinHandle<Result<(), String>>,
    contended: Shared<u32>,
}

impl<R: Send + 'static> Undecided<R> {
    /// Runs `body`, and gives what it has given; the transaction stays open.
    pub(crate) fn begin<B>(body: B) -> (Self, R)
    where
        B: for<'t> Fn(&mut Tx<'t, 'static>) -> Result<R, Abort> + Send + 'static,
    {
        let (gives, outputs) = mpsc::channel();
        let (steps, next_step) = mpsc::channel();
        let contended = shared(0);
        let thread = thread::spawn(move || {
            // If an attempt that was told to commit is lost to somebody else, the next one is told the same.
            let told = Cell::new(Step::Conflict);
            let transaction = try_atomically(|tx| {
                tx.update(contended, |n| n + 1)?;
                let output = body(tx)?;
                // The test may have got what it wants from an earlier attempt.
                let _wanted = gives.send(output);
                if told.get() == Step::Conflict {
                    // A test that fails lets go of its transaction.
                    told.set(next_step.recv().unwrap_or(Step::Fail));
                }
                match told.get() {
                    Step::Commit | Step::Conflict => Ok(()),
                    Step::Fail => Err(Failed::Error("on purpose".to_owned())),
                    Step::Panic => panic!("on purpose"),
                }
            });
            transaction.run()
        });
        let open = Self { outputs, steps, thread, contended };
        let output = open.output();
        (open, output)
    }

    fn output(&self) -> R {
        self.outputs.recv().expect("the body ends well")
    }

    fn end(self, step: Step) -> thread::Result<Result<(), String>> {
        self.steps.send(step).expect("the transaction is open");
        self.thread.join()
    }

    /// Returns when the transaction has committed.
    pub(crate) fn commit(self) {
        self.end(Step::Commit).expect("no panic").expect("it commits");
    }

    /// Returns when the transaction has ended with an error of the user.
    pub(crate) fn abort(self) {
        assert_eq!(self.end(Step::Fail).expect("no panic"), Err("on purpose".to_owned()), "the sender sees its error");
    }

    /// Returns when the transaction has panicked.
    pub(crate) fn panic(self) {
        let panic = self.end(Step::Panic).expect_err("a panic");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"on purpose"), "the sender sees its panic");
    }

    pub(crate) fn decide(self, commits: bool) {
        if commits { self.commit() } else { self.abort() }
    }

    /// Has the attempt fail by a conflict, and gives what the next one has given, which is open again.
    pub(crate) fn conflict(&self) -> R {
        set(self.contended, 1_000);
        self.steps.send(Step::Conflict).expect("the transaction is open");
        self.output()
    }
}
