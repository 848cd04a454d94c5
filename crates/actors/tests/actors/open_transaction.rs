//! A transaction on a thread of its own, which stays open until it is told how to end.

use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

use enact_stm::{Failed, Tx, try_atomically};

pub(crate) struct Open {
    end: Sender<bool>,
    thread: JoinHandle<Result<(), ()>>,
}

impl Open {
    /// Runs `body`, and stays open.
    pub(crate) fn begin(body: impl Fn(&mut Tx<'_, '_>) + Send + 'static) -> Self {
        let (end, told) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let thread = thread::spawn(move || {
            try_atomically(|tx| {
                body(tx);
                begins.send(()).expect("the test listens");
                if told.recv().expect("the test goes on") { Ok(()) } else { Err(Failed::Error(())) }
            })
            .run()
        });
        begun.recv().expect("it begins");
        Self { end, thread }
    }

    pub(crate) fn decide(self, commits: bool) {
        self.end.send(commits).expect("it listens");
        assert_eq!(self.thread.join().expect("it does not panic").is_ok(), commits);
    }
}
