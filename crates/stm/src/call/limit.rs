//! Transactions with a limit: of the runs of their closure, or of their time.
use std::fmt;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::engine::{Next, Patience};
use super::timer::Alarm;
use super::{Atomically, Body, Progress, Stage, block};
use crate::hooks::Retracted;

/// A transaction that is given up at a limit: [`run`](Self::run) it on this thread, or `.await` it.
///
/// Made by [`Atomically::tries`] and [`Atomically::timeout`].
///
/// Limits are looked at between attempts and while the transaction waits: for a change, for those who run alone, for its
/// turn to run alone. The first attempt is always made. A running attempt is not cut short, and if it commits, the
/// transaction has succeeded, however late. From then on it has no limit: its deferred operations are waited for.
///
/// # Cancel safety
/// As for [`Atomically`].
#[must_use = "a transaction does nothing until it is run or awaited"]
pub struct Limited<'env, B, O> {
    transaction: Atomically<'env, B, O>,
    tries: Option<u32>,
    deadline: Option<Instant>,
    /// Set when a task first waits with a deadline.
    alarm: Option<Alarm>,
}

/// Why a [`Limited`] transaction was given up. Nothing of it has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GaveUp {
    /// Its closure has run as often as it may.
    #[error("the transaction did not commit in {attempts} attempts, and may not make more")]
    OutOfTries {
        /// How often it has run.
        attempts: u32,
    },
    /// Its time is over.
    #[error("the transaction did not commit in its time, after {attempts} attempts")]
    OutOfTime {
        /// How often it has run.
        attempts: u32,
    },
}

impl<'env, B: Body<'env, Output = O>, O> Atomically<'env, B, O> {
    /// Gives the transaction up when its closure has run `most` times and has not committed.
    ///
    /// Every run counts, as [`Tx::attempt`](crate::Tx::attempt) does: one that was lost to another transaction, one that
    /// has asked to wait, and the one in which [`Tx::irrevocable`](crate::Tx::irrevocable) is called first. So with
    /// `tries(1)` a transaction never waits for a change.
    ///
    /// # Panics
    /// If `most` is 0.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{GaveUp, TCell, atomically};
    /// let stock = TCell::new(0_u32);
    /// let taken = atomically(|tx| {
    ///     let left = tx.read(&stock)?;
    ///     if left == 0 { tx.retry() } else { tx.write(&stock, left - 1) }
    /// })
    /// .tries(1)
    /// .run();
    /// assert_eq!(taken, Err(GaveUp::OutOfTries { attempts: 1 }));
    /// ```
    pub fn tries(self, most: u32) -> Limited<'env, B, O> {
        Limited::new(self).tries(most)
    }

    /// Gives the transaction up when it has not committed within `time` from this call on.
    ///
    /// [`Tx::retry_until`](crate::Tx::retry_until) is for a transaction that has something else to do when its wait ends.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{GaveUp, TCell, atomically};
    /// use std::time::Duration;
    /// let stock = TCell::new(0_u32);
    /// let taken = atomically(|tx| {
    ///     let left = tx.read(&stock)?;
    ///     if left == 0 { tx.retry() } else { tx.write(&stock, left - 1) }
    /// })
    /// .timeout(Duration::from_millis(5))
    /// .run();
    /// assert!(matches!(taken, Err(GaveUp::OutOfTime { .. })));
    /// ```
    pub fn timeout(self, time: Duration) -> Limited<'env, B, O> {
        Limited::new(self).timeout(time)
    }
}

impl<'env, B: Body<'env, Output = O>, O> Limited<'env, B, O> {
    fn new(mut transaction: Atomically<'env, B, O>) -> Self {
        transaction.progress.course().is_limited = true;
        Self { transaction, tries: None, deadline: None, alarm: None }
    }

    /// As [`Atomically::tries`].
    ///
    /// # Panics
    /// If `most` is 0.
    pub fn tries(mut self, most: u32) -> Self {
        assert!(most > 0, "a transaction is tried once at least");
        self.tries = Some(most);
        self
    }

    /// As [`Atomically::timeout`].
    pub fn timeout(mut self, time: Duration) -> Self {
        // A time that ends after the clock does is none.
        self.deadline = Instant::now().checked_add(time);
        self
    }

    /// As [`Atomically::run`].
    ///
    /// # Errors
    /// If the transaction has reached its limit. Nothing of it has happened.
    ///
    /// # Panics
    /// As [`Atomically::run`].
    pub fn run(mut self) -> Result<O, GaveUp> {
        block::drive_on(|waker| match self.drive(Patience::Thread, waker) {
            Poll::Ready(result) => ControlFlow::Break(result),
            Poll::Pending => {
                let deadlines = [self.transaction.deadline(), self.wait_ends()];
                ControlFlow::Continue(deadlines.into_iter().flatten().min())
            }
        })
    }

    fn drive(&mut self, patience: Patience, waker: &dyn Fn() -> Waker) -> Poll<Result<O, GaveUp>> {
        loop {
            if let Some(limit) = self.reached() {
                self.transaction.progress = Progress::Over;
                return Poll::Ready(Err(limit));
            }
            match self.transaction.step(patience, waker) {
                Next::Loop => {}
                Next::Wait => return Poll::Pending,
                Next::Done(result) => return Poll::Ready(Ok(result.unwrap_or_else(Retracted::unwind))),
            }
        }
    }
}

impl<B, O> Limited<'_, B, O> {
    /// The limit that ends the transaction before its next step, if there is one.
    fn reached(&self) -> Option<GaveUp> {
        let Progress::UnderWay(course) = &self.transaction.progress else { return None };
        let attempts = course.attempts;
        let runs_next = match course.stage {
            Stage::Ready | Stage::Asleep(_) | Stage::Queued => true,
            Stage::Finished { .. } => false,
            Stage::Committed { .. } | Stage::Over => return None,
        };
        if attempts == 0 {
            None
        } else if runs_next && self.tries.is_some_and(|most| attempts >= most) {
            Some(GaveUp::OutOfTries { attempts })
        } else {
            let is_late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
            is_late.then_some(GaveUp::OutOfTime { attempts })
        }
    }

    /// When a wait is to end even if nothing wakes the transaction: what has committed is waited for without a limit.
    fn wait_ends(&self) -> Option<Instant> {
        match &self.transaction.progress {
            Progress::UnderWay(course) if matches!(course.stage, Stage::Committed { .. }) => None,
            _ => self.deadline,
        }
    }

    fn set_alarm(&mut self, waker: &Waker) {
        match (self.wait_ends(), &self.alarm) {
            (None, _) => self.alarm = None,
            (Some(deadline), None) => self.alarm = Some(Alarm::set(deadline, waker.clone())),
            (Some(_), Some(alarm)) => alarm.redirect(waker.clone()),
        }
    }
}

impl<'env, B: Body<'env, Output = O>, O> Future for Limited<'env, B, O> {
    type Output = Result<O, GaveUp>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.drive(Patience::Task, &|| cx.waker().clone());
        if result.is_pending() {
            self.set_alarm(cx.waker());
        }
        result
    }
}

impl<B, O> fmt::Debug for Limited<'_, B, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("transaction", &self.transaction)
            .field("tries", &self.tries)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}
