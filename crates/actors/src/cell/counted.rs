//! What a handle points with.
#![expect(unsafe_code, reason = "all handles together are one reference")]
use std::mem::{self, ManuallyDrop};
use std::ops::Deref;
use std::ptr;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::{Activation, ActorCell};

/// A reference to an actor that counts as a handle.
///
/// An actor counts its handles, to end when it has none. All of them together are one reference of the `Arc`, so that to
/// clone a handle costs one count and not two: the first handle adds the reference, the last one drops it.
/// The two may cross; a thread that adds a handle when there is none has a reference of its own, and the sums come out
/// even.
pub(crate) struct CellRef(ManuallyDrop<Arc<ActorCell>>);

impl CellRef {
    #[inline]
    pub(crate) fn new(cell: &Arc<ActorCell>) -> Self {
        // Relaxed: a thread that adds a handle has one, or is in a turn of the actor.
        if cell.handles.fetch_add(1, Ordering::Relaxed) == 0 {
            mem::forget(Arc::clone(cell));
        }
        // SAFETY: the copy is never dropped but as the last handle, in the place of the reference that was added for the
        // first; until then that reference keeps the actor.
        Self(ManuallyDrop::new(unsafe { ptr::read(cell) }))
    }
}

impl Deref for CellRef {
    type Target = Arc<ActorCell>;

    #[inline]
    fn deref(&self) -> &Arc<ActorCell> {
        &self.0
    }
}

impl Clone for CellRef {
    #[inline]
    fn clone(&self) -> Self {
        Self::new(self)
    }
}

impl Drop for CellRef {
    /// Without any handle, the actor looks whether it is still needed.
    #[inline]
    fn drop(&mut self) {
        if self.handles.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.schedule(self.mailbox.nudge());
            // SAFETY: this was the last handle, and is used no more.
            unsafe { ManuallyDrop::drop(&mut self.0) };
        }
    }
}

/// The actor that this thread runs, as long as it has the activation, which has a reference: this has none of its own.
///
/// What comes after the activation was given away is only the way back: it looks at nothing of the actor.
pub(super) struct Running(ManuallyDrop<Arc<ActorCell>>);

impl Running {
    #[inline]
    pub(super) fn of(activation: &Activation) -> Self {
        // SAFETY: the copy is never dropped, and used while the activation is there.
        Self(ManuallyDrop::new(unsafe { ptr::read(activation.cell()) }))
    }
}

impl Deref for Running {
    type Target = Arc<ActorCell>;

    #[inline]
    fn deref(&self) -> &Arc<ActorCell> {
        &self.0
    }
}

#[cfg(all(test, not(any(enact_loom, enact_shuttle))))]
mod tests {
    use std::thread;

    use super::*;
    use crate::actor::tests::{Bare, BareRef};
    use crate::{ExitReason, System};

    /// An interpreter takes minutes for hundreds.
    const ROUNDS: usize = if cfg!(miri) { 5 } else { 100 };

    /// Clones and drops handles, those that the actor makes of itself among them.
    fn share(handle: BareRef) {
        for _ in 0..ROUNDS {
            let own = handle.run(|_, cx| (cx.handle(), cx.handle()));
            let clones = [(); 3].map(|()| handle.clone());
            drop(clones);
            drop(own.wait());
        }
        let last = handle.run(|_, cx| drop((cx.handle(), cx.handle())));
        drop(handle);
        drop(last.wait());
    }

    #[test]
    fn handles_of_many_threads_are_one_reference_which_the_last_takes_away() {
        for workers in 1..=2 {
            let system = System::builder().workers(workers).build().unwrap();
            let handle = system.spawn(Bare);
            let (cell, exit) = (Arc::downgrade(handle.cell()), handle.watch());
            let sharing = [(); 4].map(|()| {
                let handle = handle.clone();
                thread::spawn(move || share(handle))
            });
            drop(handle);
            sharing.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(exit.wait().unwrap().reason, ExitReason::Released);
            drop(system);
            assert_eq!(cell.strong_count(), 0, "no reference is left, and none was given back twice");
        }
    }

    #[test]
    fn handles_outlive_their_actor() {
        let system = System::builder().workers(1).build().unwrap();
        let handle = system.spawn(Bare);
        let cell = Arc::downgrade(handle.cell());
        let threads = [(); 4].map(|()| {
            let handle = handle.clone();
            thread::spawn(move || {
                (0..ROUNDS).for_each(|_| drop((handle.clone(), handle.run(|_, cx| cx.handle()).wait())));
            })
        });
        handle.kill();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        drop(system);
        assert!(handle.has_ended() && cell.strong_count() == 1);
        drop(handle.clone());
        drop(handle);
        assert_eq!(cell.strong_count(), 0);
    }
}
