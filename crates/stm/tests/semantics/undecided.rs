//! A transaction that others depend on.
use std::sync::{Mutex, mpsc};
use std::thread::{self, Scope};

use enact_stm::hooks::{self, Fate};
use enact_stm::{Failed, TCell, try_atomically};

/// A transaction on another thread that has written and is undecided.
pub(crate) struct Undecided<'s> {
    pub(crate) fate: Fate,
    decides: mpsc::Sender<bool>,
    thread: thread::ScopedJoinHandle<'s, Result<(), ()>>,
}

impl<'s> Undecided<'s> {
    pub(crate) fn begin(scope: &'s Scope<'s, '_>, cell: &'s TCell<i32>, value: i32) -> Self {
        let (says, said) = mpsc::channel();
        let (decides, decision) = mpsc::channel();
        let thread = scope.spawn(move || {
            let decision = Mutex::new(decision);
            let transaction = try_atomically(|tx| {
                tx.write(cell, value)?;
                says.send(hooks::fate(tx)).expect("the test listens");
                let commits = decision.lock().expect("not poisoned").recv().expect("the test decides");
                if commits { Ok(()) } else { Err(Failed::Error(())) }
            });
            transaction.run()
        });
        Self { fate: said.recv().expect("it has begun"), decides, thread }
    }

    pub(crate) fn decide(self, commits: bool) {
        self.decides.send(commits).expect("it waits for that");
        assert_eq!(self.thread.join().expect("it ends").is_ok(), commits);
    }
}
