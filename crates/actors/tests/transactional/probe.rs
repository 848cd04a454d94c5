//! What a test sees of turns while they are tentative: a signal is no effect of a turn, so nothing holds it back.
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::Duration;

/// Long enough for any machine: it only turns a test that hangs into one that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where a turn signals.
#[derive(Clone)]
pub(crate) struct Probe(Sender<u32>);

/// Where the test sees it.
pub(crate) struct Signals(Receiver<u32>);

pub(crate) fn probe() -> (Probe, Signals) {
    let (sender, receiver) = mpsc::channel();
    (Probe(sender), Signals(receiver))
}

impl Probe {
    pub(crate) fn signal(&self, n: u32) {
        // A test that has seen enough listens no more.
        let _heard = self.0.send(n);
    }
}

impl Signals {
    /// The next signal, waited for.
    pub(crate) fn next(&self) -> u32 {
        match self.0.recv_timeout(PATIENCE) {
            Ok(n) => n,
            Err(RecvTimeoutError::Timeout) => panic!("the signal that the test needs never came"),
            Err(RecvTimeoutError::Disconnected) => panic!("nobody is left who could signal"),
        }
    }

    /// The signals that have come and were not seen yet.
    pub(crate) fn so_far(&self) -> Vec<u32> {
        self.0.try_iter().collect()
    }

    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Empty | TryRecvError::Disconnected))
    }
}
