//! A variable that is full or empty.
use crate::{Abort, TVar, Tx};

/// A place for one value: a take waits until it is full, a put until it is empty.
///
/// # Conflicts
/// Transactions conflict if one of them takes or puts.
///
/// # Complexity
/// Every operation is O(1).
///
/// # Example
/// ```
/// use enact_stm::{TMVar, atomically};
/// let (request, reply) = (TMVar::empty(), TMVar::empty());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let n: u32 = atomically(|tx| request.take(tx).copied()).run();
///         atomically(|tx| reply.put(tx, n * 2)).run();
///     });
///     atomically(|tx| request.put(tx, 21)).run();
///     assert_eq!(atomically(|tx| reply.take(tx).copied()).run(), 42);
/// });
/// ```
#[derive(Debug)]
pub struct TMVar<T: Send + Sync + 'static>(TVar<Option<T>>);

impl<T: Send + Sync + 'static> TMVar<T> {
    /// One that holds `value`.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(TVar::new(Some(value)))
    }

    /// One that holds nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self(TVar::new(None))
    }

    /// Takes the value out; sleeps until there is one.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn take<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        match self.try_take(tx)? {
            Some(value) => Ok(value),
            None => tx.retry(),
        }
    }

    /// Takes the value out, if there is one.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_take<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<&'t T>, Abort> {
        let Some(value) = tx.read(&self.0)? else { return Ok(None) };
        tx.write(&self.0, None)?;
        Ok(Some(value))
    }

    /// Puts a value in; sleeps until there is none.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn put<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<(), Abort> {
        match self.try_put(tx, value)? {
            Ok(()) => Ok(()),
            Err(_) => tx.retry(),
        }
    }

    /// Puts a value in, or gives it back if there is one.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_put<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<Result<(), T>, Abort> {
        if tx.read(&self.0)?.is_some() {
            return Ok(Err(value));
        }
        tx.write(&self.0, Some(value))?;
        Ok(Ok(()))
    }

    /// The value, which stays; sleeps until there is one.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        match self.try_read(tx)? {
            Some(value) => Ok(value),
            None => tx.retry(),
        }
    }

    /// The value, which stays, if there is one.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn try_read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<&'t T>, Abort> {
        Ok(tx.read(&self.0)?.as_ref())
    }
}

impl<T: Send + Sync + 'static> Default for TMVar<T> {
    fn default() -> Self {
        Self::empty()
    }
}
