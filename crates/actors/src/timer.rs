//! Time: an actor's delayed sends, and the alarms of promises.
//!
//! The clock is tokio's, so that a paused clock in a test pauses these, too. If its runtime ends before an alarm has rung,
//! that goes on by a clock of the process: nothing that somebody waits for is lost.
use std::collections::HashMap;
use std::mem;
use std::sync::Once;
use std::time::{Duration, Instant};

use enact_sync::Mutex;
use enact_sync::unmodelled::{Arc, Weak};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::cell::ActorCell;
use crate::{frame, io, tentative};

/// A delayed or repeated turn that an actor has asked for.
///
/// It is cancelled when the actor stops or is restarted. Dropping this value changes nothing.
///
/// ```
/// # use enact_actors::*;
/// # use std::time::Duration;
/// struct Lamp {
///     lit: bool,
/// }
/// #[actor]
/// impl Lamp {
///     fn light_for(&mut self, cx: &Cx<Self>, time: Duration) {
///         self.lit = true;
///         cx.after(time, |lamp, _| lamp.lit = false);
///     }
///     async fn dark(cx: Cx<Self>) -> bool {
///         cx.wait_for(|lamp| !lamp.lit).await;
///         true
///     }
/// }
/// let system = System::builder().workers(1).build()?;
/// let lamp = system.spawn(Lamp { lit: false });
/// lamp.tell().light_for(Duration::from_millis(1));
/// assert_eq!(lamp.dark().wait(), Ok(true));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Timer {
    key: u64,
    timers: Weak<Timers>,
}

impl Timer {
    /// Cancels what has not run yet. Returns whether there was something.
    ///
    /// Called in a turn of the timer's actor, it is exact: the delayed turn will not run, not even if its time has come.
    #[expect(clippy::must_use_candidate, reason = "most callers only want it gone")]
    pub fn cancel(&self) -> bool {
        if !frame::is_tentative() {
            return self.finish();
        }
        let was_pending = self.is_pending();
        let timer = self.clone();
        tentative::perform(move || _ = timer.finish());
        was_pending
    }

    /// Takes the timer out. Returns whether it was in.
    pub(crate) fn finish(&self) -> bool {
        self.timers.upgrade().is_some_and(|timers| timers.finish(self.key))
    }

    /// One of an actor that has ended.
    pub(crate) fn of_nobody() -> Self {
        Self { key: 0, timers: Weak::new() }
    }

    /// Calls `ring` after `delay`, unless the timer is cancelled before.
    pub(crate) fn arm(&self, clock: &Handle, delay: Duration, ring: impl FnOnce() + Send + 'static) {
        if let Some(timers) = self.timers.upgrade() {
            timers.arm(self.key, clock, delay, ring);
        }
    }

    /// Whether it is neither cancelled nor finished.
    pub(crate) fn is_pending(&self) -> bool {
        self.timers.upgrade().is_some_and(|timers| timers.is_pending(self.key))
    }
}

/// The timers of one actor.
#[derive(Debug)]
pub(crate) struct Timers {
    actor: Weak<ActorCell>,
    pending: Mutex<Pending>,
}

#[derive(Debug, Default)]
struct Pending {
    closed: bool,
    next: u64,
    armed: HashMap<u64, Armed>,
}

#[derive(Debug)]
struct Armed {
    repeats: bool,
    alarm: Option<Alarm>,
}

impl Timers {
    pub(crate) fn of(actor: Weak<ActorCell>) -> Self {
        Self { actor, pending: Mutex::default() }
    }

    /// Adds a timer that is not armed yet.
    pub(crate) fn add(self: &Arc<Self>, repeats: bool) -> Timer {
        let mut pending = self.pending.lock();
        let key = pending.next;
        pending.next += 1;
        if !pending.closed {
            pending.armed.insert(key, Armed { repeats, alarm: None });
        }
        Timer { key, timers: Arc::downgrade(self) }
    }

    fn arm(&self, key: u64, clock: &Handle, delay: Duration, ring: impl FnOnce() + Send + 'static) {
        if !self.is_pending(key) {
            return;
        }
        let alarm = Alarm::set(clock, delay, ring);
        match self.pending.lock().armed.get_mut(&key) {
            Some(armed) => armed.alarm = Some(alarm),
            None => alarm.cancel(),
        }
    }

    fn is_pending(&self, key: u64) -> bool {
        self.pending.lock().armed.contains_key(&key)
    }

    fn finish(&self, key: u64) -> bool {
        let armed = self.pending.lock().armed.remove(&key);
        if let Some(alarm) = armed.as_ref().and_then(|armed| armed.alarm.as_ref()) {
            alarm.cancel();
        }
        if let Some(actor) = armed.as_ref().and_then(|_| self.actor.upgrade()) {
            // It may have had nothing else to live by.
            actor.schedule(actor.mailbox.nudge());
        }
        armed.is_some()
    }

    pub(crate) fn cancel_all(&self) {
        let armed = mem::take(&mut self.pending.lock().armed);
        armed.values().filter_map(|armed| armed.alarm.as_ref()).for_each(Alarm::cancel);
    }

    /// As [`cancel_all`](Self::cancel_all), and no timer can be added any more.
    pub(crate) fn close(&self) {
        self.pending.lock().closed = true;
        self.cancel_all();
    }

    /// Whether a delayed turn is still to come. Repeated ones do not count: nothing would ever end them.
    pub(crate) fn keep_alive(&self) -> bool {
        self.pending.lock().armed.values().any(|armed| !armed.repeats)
    }
}

/// A call that is to be made at its time, until it is cancelled.
#[derive(Debug)]
pub(crate) struct Alarm(Arc<Mutex<Progress>>);

#[derive(Debug)]
enum Progress {
    /// By a task of some runtime, which is known once it is there.
    Set(Option<AbortHandle>),
    Cancelled,
}

impl Alarm {
    /// Calls `ring` after `delay` by `clock`, or by the process's own clock if that one's runtime ends before.
    fn set(clock: &Handle, delay: Duration, ring: impl FnOnce() + Send + 'static) -> Self {
        let progress = Arc::new(Mutex::new(Progress::Set(None)));
        let bell = Bell { since: Instant::now(), delay, ring: Some(ring), progress: Arc::clone(&progress) };
        let task = bell.wait(clock);
        // Unless the runtime has ended, and another task has taken the bell over.
        if let Progress::Set(unknown @ None) = &mut *progress.lock() {
            *unknown = Some(task);
        }
        Self(progress)
    }

    pub(crate) fn cancel(&self) {
        let progress = mem::replace(&mut *self.0.lock(), Progress::Cancelled);
        if let Progress::Set(Some(task)) = progress {
            task.abort();
        }
    }
}

/// What rings when an alarm's time has come.
struct Bell<R: FnOnce() + Send + 'static> {
    since: Instant,
    delay: Duration,
    /// `None` once it has rung.
    ring: Option<R>,
    progress: Arc<Mutex<Progress>>,
}

impl<R: FnOnce() + Send + 'static> Bell<R> {
    /// Rings after what is left of its delay, by `clock`.
    fn wait(self, clock: &Handle) -> AbortHandle {
        let left = self.delay.saturating_sub(self.since.elapsed());
        let waiting = async move {
            tokio::time::sleep(left).await;
            self.ring();
        };
        clock.spawn(waiting).abort_handle()
    }

    fn ring(mut self) {
        if let Some(ring) = self.ring.take() {
            ring();
        }
    }
}

impl<R: FnOnce() + Send + 'static> Drop for Bell<R> {
    /// A runtime that ends drops what it has not run.
    fn drop(&mut self) {
        let Some(ring) = self.ring.take() else { return };
        let Self { since, delay, ref progress, .. } = *self;
        if let Progress::Set(task) = &mut *progress.lock() {
            SAY_THAT_A_CLOCK_HAS_ENDED.call_once(|| {
                tracing::warn!("a runtime has ended before its timers, which go on by the process's own clock");
            });
            let bell = Self { since, delay, ring: Some(ring), progress: Arc::clone(progress) };
            *task = Some(bell.wait(&io::own_clock()));
        }
    }
}

/// Once a process: a repeated timer would say it each time.
static SAY_THAT_A_CLOCK_HAS_ENDED: Once = Once::new();

/// Calls `ring` after `delay`, by the clock of the runtime that this thread is in, or else by the process's own.
pub(crate) fn alarm(delay: Duration, ring: impl FnOnce() + Send + 'static) -> Alarm {
    Alarm::set(&Handle::try_current().unwrap_or_else(|_| io::own_clock()), delay, ring)
}
