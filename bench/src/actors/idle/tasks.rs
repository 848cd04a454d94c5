//! Tasks that wait for messages, on tokio's own scheduler.
use std::num::NonZeroUsize;

use tokio::runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::oneshot;

use super::super::Failure;
use super::run::{Idler, ask_all, measure};
use crate::measure::Sample;

/// Where to send how often it has been asked.
type Ask = oneshot::Sender<u64>;

/// Its count is its state: eight bytes.
async fn idle(mut asks: UnboundedReceiver<Ask>) {
    let mut asked = 0;
    while let Some(ask) = asks.recv().await {
        asked += 1;
        // A run that was given up does not listen.
        ask.send(asked).ok();
    }
}

impl Idler for UnboundedSender<Ask> {
    type Answer = oneshot::Receiver<u64>;

    fn ask(&self) -> Result<oneshot::Receiver<u64>, Failure> {
        let (ask, answer) = oneshot::channel();
        self.send(ask).map_err(|_| Failure::Gone)?;
        Ok(answer)
    }

    fn wait(answer: oneshot::Receiver<u64>) -> Result<u64, Failure> {
        answer.blocking_recv().map_err(|_| Failure::Gone)
    }
}

/// Tasks that never had a message.
pub(super) fn made(count: NonZeroUsize, workers: NonZeroUsize) -> Result<Sample, Failure> {
    after(0, count, workers, |_| Ok(()))
}

/// Tasks that have answered one.
pub(super) fn asked(count: NonZeroUsize, workers: NonZeroUsize) -> Result<Sample, Failure> {
    after(1, count, workers, |idlers| ask_all(idlers, 1))
}

/// Measures `count` tasks with which `turns` was done, which asks each `asked` times.
fn after(
    asked: u64,
    count: NonZeroUsize,
    workers: NonZeroUsize,
    turns: impl FnOnce(&[UnboundedSender<Ask>]) -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    let runtime = runtime::Builder::new_multi_thread().worker_threads(workers.get()).build()?;
    let make = |_| {
        let (sender, asks) = mpsc::unbounded_channel();
        runtime.spawn(idle(asks));
        sender
    };
    measure(count, asked, || {
        let idlers: Vec<_> = (0..count.get()).map(make).collect();
        turns(&idlers)?;
        Ok(idlers)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_that_is_gone_is_no_answer() {
        let (sender, asks) = mpsc::unbounded_channel();
        let answer = sender.ask().expect("there is a receiver");
        drop(asks);
        assert!(matches!(<UnboundedSender<Ask> as Idler>::wait(answer), Err(Failure::Gone)));
        assert!(matches!(sender.ask(), Err(Failure::Gone)));
    }
}
