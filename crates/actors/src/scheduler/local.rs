//! What a worker thread knows of itself.
use std::cell::RefCell;

use enact_sync::unmodelled::Arc;

use super::Scheduler;
use super::worker::Core;

struct Local {
    scheduler: Arc<Scheduler>,
    /// `None` while it looks for work, and after it was handed over.
    core: Option<Box<Core>>,
}

enact_sync::thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

#[inline]
fn with<R>(f: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.borrow_mut().as_mut().map(f)).ok().flatten()
}

pub(super) fn set(scheduler: Arc<Scheduler>) {
    LOCAL.with(|local| local.replace(Some(Local { scheduler, core: None })));
}

pub(super) fn clear() {
    let left = LOCAL.with(RefCell::take);
    drop(left);
}

/// Whether this thread is a worker of any system.
pub(super) fn is_worker() -> bool {
    with(|_| ()).is_some()
}

pub(super) fn is_worker_of(scheduler: &Scheduler) -> bool {
    with(|local| std::ptr::eq(&raw const *local.scheduler, scheduler)).unwrap_or(false)
}

#[inline]
pub(super) fn has_core() -> bool {
    with(|local| local.core.is_some()).unwrap_or(false)
}

#[inline]
pub(super) fn put_core(core: Box<Core>) {
    with(|local| local.core = Some(core));
}

#[inline]
pub(super) fn take_core() -> Option<Box<Core>> {
    with(|local| local.core.take()).flatten()
}

/// Takes the core of this thread with the scheduler that it belongs to.
pub(super) fn take_core_and_scheduler() -> Option<(Box<Core>, Arc<Scheduler>)> {
    with(|local| Some((local.core.take()?, Arc::clone(&local.scheduler)))).flatten()
}

/// Calls `f` if this thread has a core of `scheduler`.
#[inline]
pub(super) fn with_core_of<R>(scheduler: &Scheduler, f: impl FnOnce(&mut Core) -> R) -> Option<R> {
    with(
        |local| {
            if std::ptr::eq(&raw const *local.scheduler, scheduler) { local.core.as_deref_mut().map(f) } else { None }
        },
    )
    .flatten()
}
