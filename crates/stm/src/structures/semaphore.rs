//! A number of permits.
use crate::{Abort, TCell, Tx};

/// A number of permits that transactions acquire and release.
///
/// A permit has no owner: it may be acquired by one transaction and released by another, or released without having been
/// acquired, which adds to the number.
///
/// # Conflicts
/// An acquisition conflicts with acquisitions and releases. Releases do not conflict with each other.
///
/// # Complexity
/// Every operation is O(1). A waiting transaction is woken only when there are enough permits; there is no order among those that wait,
/// so that many small acquisitions can keep a large one waiting.
///
/// # Example
/// ```
/// use enact_stm::{TSemaphore, atomically};
/// let workers = TSemaphore::new(4);
/// atomically(|tx| workers.acquire(tx, 3)).run();
/// assert!(!atomically(|tx| workers.try_acquire(tx, 2)).run());
/// atomically(|tx| workers.release(tx, 3)).run();
/// assert!(atomically(|tx| workers.try_acquire(tx, 2)).run());
/// ```
#[derive(Debug)]
pub struct TSemaphore {
    permits: TCell<u64>,
}

impl TSemaphore {
    /// A semaphore with so many permits.
    #[must_use]
    pub fn new(permits: u64) -> Self {
        Self { permits: TCell::new(permits) }
    }

    /// Takes `count` permits, all at one moment; sleeps until there are so many.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn acquire<'t>(&'t self, tx: &mut Tx<'t, '_>, count: u64) -> Result<(), Abort> {
        let permits = tx.wait_for(&self.permits, move |permits| *permits >= count)?;
        tx.write(&self.permits, permits - count)?;
        Ok(())
    }

    /// Takes `count` permits, or none and gives false if there are fewer.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_acquire<'t>(&'t self, tx: &mut Tx<'t, '_>, count: u64) -> Result<bool, Abort> {
        let Some(rest) = tx.read(&self.permits)?.checked_sub(count) else { return Ok(false) };
        tx.write(&self.permits, rest)?;
        Ok(true)
    }

    /// Gives `count` permits back, or adds them.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// If there would be more than `u64::MAX` permits: the transaction does not commit.
    pub fn release<'t>(&'t self, tx: &mut Tx<'t, '_>, count: u64) -> Result<(), Abort> {
        tx.commute(&self.permits, move |permits| {
            permits.checked_add(count).expect("a semaphore holds at most u64::MAX permits")
        })
    }

    /// The number of permits that are free.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn available<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        tx.read(&self.permits)
    }
}
