//! Actors that are idle.
use std::num::NonZeroUsize;

use enact::{Cx, Promise, System, actor};

use super::super::Failure;
use super::run::{Idler, ask_all, in_batches, measure, verify};
use crate::measure::Sample;

/// Eight bytes.
#[derive(Default)]
struct Idle {
    asked: u64,
}

#[actor]
impl Idle {
    fn number(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    /// Suspends once.
    async fn number_later(&mut self, cx: &Cx<Self>) -> u64 {
        cx.yield_now().await;
        self.number()
    }
}

impl Idler for IdleRef {
    type Answer = Promise<u64>;

    fn ask(&self) -> Result<Promise<u64>, Failure> {
        Ok(self.number())
    }

    fn wait(answer: Promise<u64>) -> Result<u64, Failure> {
        Ok(answer.wait()?)
    }
}

/// Actors that never had a message.
pub(super) fn spawned(count: NonZeroUsize, workers: NonZeroUsize) -> Result<Sample, Failure> {
    after(0, count, workers, |_| Ok(()))
}

/// Actors that have answered a plain turn.
pub(super) fn asked(count: NonZeroUsize, workers: NonZeroUsize) -> Result<Sample, Failure> {
    after(1, count, workers, |idlers| ask_all(idlers, 1))
}

/// Actors that have answered an asynchronous turn, which was suspended.
pub(super) fn awaited(count: NonZeroUsize, workers: NonZeroUsize) -> Result<Sample, Failure> {
    let begin = |idler: &IdleRef| Ok(idler.number_later());
    let end = |answer: Promise<u64>| verify(answer.wait()?, 1);
    after(1, count, workers, |idlers| in_batches(idlers, begin, end))
}

/// Measures `count` actors with which `turns` was done, which asks each `asked` times.
fn after(
    asked: u64,
    count: NonZeroUsize,
    workers: NonZeroUsize,
    turns: impl FnOnce(&[IdleRef]) -> Result<(), Failure>,
) -> Result<Sample, Failure> {
    let system = System::builder().workers(workers.get()).build()?;
    measure(count, asked, || {
        let idlers: Vec<_> = (0..count.get()).map(|_| system.spawn(Idle::default())).collect();
        turns(&idlers)?;
        Ok(idlers)
    })
}
