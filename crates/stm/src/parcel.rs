//! Values that leave a transaction as a whole.
//!
//! # Why nobody else can see the value
//! A transaction lends what it reads, and others may read the same, so a value in a variable can only be copied, or dropped
//! when nobody has it any more. A parcel is never opened inside a transaction: what is read, written and passed on is the
//! handle, and whether it was taken is a cell like any other. Of the transactions that take it one commits, and moves
//! the value out as an effect of its commit, when nothing can undo it.
use std::fmt;

use enact_sync::Mutex;
use enact_sync::unmodelled::Arc;

use crate::contain::contain;
use crate::{Abort, TCell, TQueue, Tx, hooks};

/// A value that transactions pass on without looking inside, and that one of them takes out.
///
/// For values that cannot be cloned, and for those that must be dropped in time: jobs, connections, senders. A parcel is a
/// handle, and cloning it shares the value; it may lie in any variable or container. The value need not be `Sync`. A value that
/// nobody takes is dropped with the last handle.
///
/// # Example
/// ```
/// use enact_stm::{Parcel, TQueue, atomically};
/// type Job = Box<dyn FnOnce() -> u32 + Send>;
/// let jobs = TQueue::unbounded();
/// std::thread::scope(|scope| {
///     let thread = scope.spawn(|| {
///         let sum = (0..3).map(|_| {
///             let job: Job = atomically(|tx| jobs.take(tx)).run().into_inner(); // sleeps while there is none
///             job()
///         });
///         sum.sum::<u32>()
///     });
///     for n in 1..=3 {
///         let job: Job = Box::new(move || n * n);
///         let parcel = Parcel::new(job);
///         atomically(|tx| jobs.push(tx, parcel.clone())).run();
///     }
///     assert_eq!(thread.join().unwrap(), 14);
/// });
/// ```
pub struct Parcel<T: Send + 'static>(Arc<Content<T>>);

struct Content<T> {
    is_taken: TCell<bool>,
    value: Mutex<Option<T>>,
}

/// The value of a [`Parcel`], for the transaction that has taken it out.
///
/// The value is in here once the transaction has committed: return this from the closure, or give it to an operation that is
/// deferred. If it is dropped, the value is dropped with it, though not before the commit.
#[must_use = "the value is in here"]
pub struct Taken<T>(Arc<Mutex<Option<T>>>);

impl<T: Send + 'static> Parcel<T> {
    /// A parcel with `value` in it.
    pub fn new(value: T) -> Self {
        Self(Arc::new(Content { is_taken: TCell::new(false), value: Mutex::new(Some(value)) }))
    }

    /// Takes the value out when the transaction commits; `None` if another has taken it. If the attempt, or the nested part
    /// that this is called in, is rolled back, the value stays.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// In a [`snapshot`](crate::snapshot).
    pub fn take<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<Taken<T>>, Abort> {
        if self.is_taken(tx)? {
            return Ok(None);
        }
        tx.write(&self.0.is_taken, true)?;
        let place = Arc::new(Mutex::new(None));
        let (content, taken) = (Arc::clone(&self.0), Taken(Arc::clone(&place)));
        hooks::on_commit(tx, move || {
            let value = content.value.lock().take();
            *place.lock() = value;
            // If nobody wants the value, it is dropped here, in the name of a transaction that has committed.
            contain(|| drop((content, place)));
        });
        Ok(Some(taken))
    }

    /// True if the value has been taken out.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn is_taken<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        tx.read(&self.0.is_taken)
    }
}

impl<T: Send + 'static> Clone for Parcel<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Taken<T> {
    /// The value.
    ///
    /// # Panics
    /// If the transaction that has taken it has not committed: inside its closure, and if it was rolled back.
    #[must_use]
    pub fn into_inner(self) -> T {
        let value = self.0.lock().take();
        value.expect("a value was taken out by a transaction that has not committed")
    }
}

impl<T: Send + 'static> TQueue<Parcel<T>> {
    /// Takes the parcel that was pushed first, and the value out of it, which is there when the transaction has committed;
    /// sleeps while the queue is empty. Parcels whose value was taken in another way are passed over.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn take<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Taken<T>, Abort> {
        match self.try_take(tx)? {
            Some(taken) => Ok(taken),
            None => tx.retry(),
        }
    }

    /// As [`take`](Self::take), if there is a parcel with a value.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_take<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<Taken<T>>, Abort> {
        while let Some(parcel) = self.try_pop(tx)? {
            if let Some(taken) = parcel.take(tx)? {
                return Ok(Some(taken));
            }
        }
        Ok(None)
    }
}

impl<T: Send + 'static> fmt::Debug for Parcel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Taken<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taken").finish_non_exhaustive()
    }
}
