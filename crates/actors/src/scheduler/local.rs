//! What a worker thread knows of itself.
use std::cell::RefCell;

use enact_sync::unmodelled::Arc;

use super::Scheduler;
use super::stack::Stack;
use super::worker::Core;

struct Local {
    scheduler: Arc<Scheduler>,
    /// `None` while it looks for work, and after it was handed over.
    core: Option<Box<Core>>,
    stack: Stack,
}

enact_sync::thread_local! {
    static LOCAL: RefCell<Option<Local>> = const { RefCell::new(None) };
}

#[inline]
fn with<R>(f: impl FnOnce(&mut Local) -> R) -> Option<R> {
    LOCAL.try_with(|local| local.borrow_mut().as_mut().map(f)).ok().flatten()
}

pub(super) fn set(scheduler: Arc<Scheduler>) {
    let stack = Stack::begun_here(scheduler.stack_bytes);
    LOCAL.with(|local| local.replace(Some(Local { scheduler, core: None, stack })));
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

/// Whether this thread is a worker of any system, with half of its stack left.
pub(super) fn has_room_for_a_turn() -> bool {
    with(|local| local.stack.is_half_left()).unwrap_or(false)
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

/// Calls `f` with the core of this thread, if it has one, and with the scheduler that it belongs to.
#[inline]
pub(super) fn with_core<R>(f: impl FnOnce(&mut Core, &Scheduler) -> R) -> Option<R> {
    with(|local| local.core.as_deref_mut().map(|core| f(core, &local.scheduler))).flatten()
}

/// Calls `f` if this thread has a core of `scheduler`.
#[inline]
pub(super) fn with_core_of<R>(scheduler: &Scheduler, f: impl FnOnce(&mut Core) -> R) -> Option<R> {
    with_core_and_stack_of(scheduler, |core, _| f(core))
}

/// As [`with_core_of`], with the stack of this thread.
#[inline]
pub(super) fn with_core_and_stack_of<R>(scheduler: &Scheduler, f: impl FnOnce(&mut Core, &Stack) -> R) -> Option<R> {
    with(|local| {
        let Local { scheduler: own, core, stack } = local;
        if std::ptr::eq(&raw const **own, scheduler) { core.as_deref_mut().map(|core| f(core, stack)) } else { None }
    })
    .flatten()
}
