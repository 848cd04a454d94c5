//! What the closure of a transaction gets to work with.
use std::fmt;
use std::marker::PhantomData;
use std::time::Instant;

use super::{Abort, Descriptor, Effect, Failed, Reason, Variable};
use crate::context;
use crate::fate::Fate;
use crate::lock::OwnerId;

/// A running attempt of a transaction.
///
/// `'t` is the attempt: references into the snapshot live no longer. `'env` is what the closure borrows. Every operation
/// gives a `Result` to be passed on with `?`. A `Tx` stays on its thread and cannot be kept. A function that takes one has
/// the signature `fn f<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<R, Abort>`.
///
/// None of this compiles: reading outside a transaction, keeping a reference, a variable that dies with the attempt,
/// waiting on a future inside, assigning to a captured variable, giving the transaction to another thread, using it where
/// the result must not depend on it, using the outer one inside a nested part, going on after a failed operation.
/// ```compile_fail,E0599
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// assert_eq!(n.get(), 1);
/// ```
/// ```compile_fail,E0521
/// # use enact_stm::*;
/// let v = TVar::new(String::new());
/// let kept: &str = atomically(|tx| tx.read(&v).map(|s| s.as_str())).run();
/// ```
/// ```compile_fail,E0597
/// # use enact_stm::*;
/// atomically(|tx| { let v = TVar::new(1); tx.write(&v, 2)?; Ok(()) }).run();
/// ```
/// ```compile_fail,E0728
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// let f = async { atomically(|tx| { std::future::ready(()).await; tx.read(&n) }).run() };
/// ```
/// ```compile_fail,E0594
/// # use enact_stm::*;
/// let (n, mut attempts) = (TCell::new(1), 0);
/// atomically(|tx| { attempts += 1; tx.read(&n) }).run();
/// ```
/// ```compile_fail,E0277
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// atomically(|tx| { std::thread::scope(|s| { s.spawn(|| tx.read(&n).is_ok()); }); Ok(()) }).run();
/// ```
/// ```compile_fail,E0501
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// atomically(|tx| tx.keep(|| tx.read(&n).is_ok()).copied()).run();
/// ```
/// ```compile_fail,E0501
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// atomically(|tx| tx.nested(|_| -> Result<i32, Failed<()>> { Ok(tx.read(&n)?) })).run();
/// ```
/// ```compile_fail
/// # #![deny(unused_must_use)]
/// # use enact_stm::*;
/// let n = TCell::new(1);
/// atomically(|tx| { tx.write(&n, 2); Ok(()) }).run();
/// ```
pub struct Tx<'t, 'env: 't> {
    pub(crate) descriptor: &'t mut Descriptor,
    _attempt: PhantomData<&'t mut &'t ()>,
    _env: PhantomData<&'env mut &'env ()>,
    _here: PhantomData<*mut ()>,
}

/// Says that a deadline has passed; see [`Tx::retry_until`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

/// The version of a variable that an attempt has read: another one after each commit that has written it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl<'t, 'env> Tx<'t, 'env> {
    #[inline]
    pub(crate) fn new(descriptor: &'t mut Descriptor) -> Self {
        Self { descriptor, _attempt: PhantomData, _env: PhantomData, _here: PhantomData }
    }

    /// The value of a variable in this transaction's snapshot, own writes included: `&'t T` for a
    /// [`TVar`](crate::TVar), the value itself for a [`TCell`](crate::TCell).
    ///
    /// All reads of an attempt belong to one state that existed at one moment, also in attempts that will fail.
    ///
    /// # Errors
    /// If the snapshot cannot be kept.
    ///
    /// # Complexity
    /// Constant; linear in the variables read so far if somebody has committed something newer meanwhile.
    #[inline]
    pub fn read<V: Variable>(&mut self, variable: &'t V) -> Result<V::Read<'t>, Abort> {
        variable.read(self)
    }

    /// Replaces the value of a variable when the transaction commits, and gives it as a read would.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// In a [`snapshot`](crate::snapshot).
    #[inline]
    pub fn write<V: Variable>(&mut self, variable: &'t V, value: V::Value) -> Result<V::Read<'t>, Abort> {
        variable.write(self, value)
    }

    /// Reads a variable and writes what `change` makes of it.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    #[inline]
    pub fn update<V: Variable>(
        &mut self,
        variable: &'t V,
        change: impl FnOnce(V::Read<'t>) -> V::Value,
    ) -> Result<V::Read<'t>, Abort> {
        variable.update(self, change)
    }

    /// Applies `change` to whatever value the commit finds.
    ///
    /// For changes whose order does not matter, like counting: it is no read, so it does not make this transaction
    /// conflict with others that change the variable. Nothing is returned, because any value given here could be wrong
    /// by then. A read of the variable in the same transaction sees the change and makes it an ordinary read and write.
    /// `change` runs while the variable is locked: it should be short, and it must be a pure function.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    ///
    /// # Panics
    /// In a [`snapshot`](crate::snapshot).
    pub fn commute<V: Variable>(
        &mut self,
        variable: &'t V,
        change: impl Fn(&V::Value) -> V::Value + Send + 'static,
    ) -> Result<(), Abort> {
        variable.commute(self, change)
    }

    /// Gives up this attempt, sleeps until something it has read changes, and runs the transaction again.
    ///
    /// # Errors
    /// Always.
    ///
    /// # Panics
    /// If nothing has been read: the transaction would sleep for ever. In a [`snapshot`](crate::snapshot), and after
    /// [`irrevocable`](Self::irrevocable).
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, atomically};
    /// let stock = TCell::new(0_u32);
    /// std::thread::scope(|scope| {
    ///     let buyer = scope.spawn(|| {
    ///         atomically(|tx| {
    ///             let left = tx.read(&stock)?;
    ///             if left == 0 { tx.retry() } else { tx.write(&stock, left - 1) }
    ///         })
    ///         .run()
    ///     });
    ///     atomically(|tx| tx.write(&stock, 3)).run();
    ///     assert_eq!(buyer.join().unwrap(), 2);
    /// });
    /// ```
    pub fn retry<R>(&mut self) -> Result<R, Abort> {
        self.descriptor.needs_log()?;
        Err(self.descriptor.abort(Reason::Retry))
    }

    /// As [`retry`](Self::retry), but sleeps no longer than until `deadline`: the run after it gets `Ok`.
    ///
    /// # Errors
    /// Until the deadline has passed.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, atomically};
    /// use std::time::{Duration, Instant};
    /// let (stock, deadline) = (TCell::new(0_u32), Instant::now() + Duration::from_millis(5));
    /// let got = atomically(|tx| {
    ///     if tx.read(&stock)? == 0 {
    ///         tx.retry_until(deadline)?;
    ///         return Ok(false);
    ///     }
    ///     Ok(true)
    /// })
    /// .run();
    /// assert!(!got);
    /// ```
    pub fn retry_until(&mut self, deadline: Instant) -> Result<Expired, Abort> {
        self.descriptor.needs_log()?;
        if Instant::now() >= deadline {
            return Ok(Expired);
        }
        let earliest = self.descriptor.extras.deadline.map_or(deadline, |known| known.min(deadline));
        self.descriptor.add().deadline = Some(earliest);
        Err(self.descriptor.abort(Reason::Retry))
    }

    /// Sleeps until the value of a variable meets `condition`, and gives it.
    ///
    /// A commit that changes the variable tests the condition before it wakes this transaction, so that nobody runs for
    /// nothing. `condition` must be a pure function of the value; it runs on the threads of others.
    ///
    /// # Errors
    /// If the condition is not met, or if the snapshot cannot be kept.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, atomically};
    /// let progress = TCell::new(0_u32);
    /// std::thread::scope(|scope| {
    ///     let half = scope.spawn(|| atomically(|tx| tx.wait_for(&progress, |done| *done >= 50)).run());
    ///     for _ in 0..60 {
    ///         atomically(|tx| tx.update(&progress, |done| done + 1)).run();
    ///     }
    ///     assert!(half.join().unwrap() >= 50);
    /// });
    /// ```
    pub fn wait_for<V: Variable>(
        &mut self,
        variable: &'t V,
        condition: impl Fn(&V::Value) -> bool + Send + Sync + 'static,
    ) -> Result<V::Read<'t>, Abort> {
        let logged = self.descriptor.reads.len();
        let value = variable.read(self)?;
        if V::with_value(value, &condition) {
            return Ok(value);
        }
        self.descriptor.needs_log()?;
        // Not if this transaction has changed the variable itself: the condition is about the result of that.
        if self.descriptor.reads.get(logged).is_some_and(|read| !self.descriptor.has_written(read.versioned_lock)) {
            self.descriptor.add().conditions.push((logged, V::condition(condition)));
        }
        Err(self.descriptor.abort(Reason::Retry))
    }

    /// Takes everything back and gives `error` to the caller of [`try_atomically`](crate::try_atomically), or of the
    /// [nested](Self::nested) part that runs now.
    ///
    /// For errors of any type. One that is a `std::error::Error` may also leave the closure with `?`.
    ///
    /// # Errors
    /// Always.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, try_atomically};
    /// let stock = TCell::new(1_u32);
    /// let bought = try_atomically(|tx| {
    ///     let left = tx.read(&stock)?;
    ///     if left < 2 {
    ///         return tx.fail(format!("only {left} left"));
    ///     }
    ///     Ok(tx.write(&stock, left - 2)?)
    /// })
    /// .run();
    /// assert_eq!(bought, Err("only 1 left".to_owned()));
    /// ```
    pub fn fail<R, E>(&mut self, error: E) -> Result<R, Failed<E>> {
        Err(Failed::Error(error))
    }

    /// Reads a variable for its version only.
    ///
    /// The version is that of the committed value: a write of this transaction does not change it.
    ///
    /// # Errors
    /// As for [`read`](Self::read).
    ///
    /// # Panics
    /// In a [`snapshot`](crate::snapshot).
    pub fn version<V: Variable>(&mut self, variable: &'t V) -> Result<Version, Abort> {
        variable.version(self).map(Version)
    }

    /// From here on this transaction runs alone and is sure to commit, so that it may do what cannot be undone.
    ///
    /// The first call makes the transaction start again when its turn to run alone has come and no deferred operation
    /// is under way. While it runs alone, others can read and run, but not commit. See
    /// [`synchronized`](crate::synchronized).
    ///
    /// # Errors
    /// If it does not run alone yet.
    ///
    /// # Panics
    /// In a [`snapshot`](crate::snapshot).
    pub fn irrevocable(&mut self) -> Result<(), Abort> {
        self.descriptor.needs_log()?;
        if !self.descriptor.may_become_irrevocable {
            return Err(self.descriptor.abort(Reason::NeedsAlone));
        }
        self.descriptor.is_irrevocable = true;
        Ok(())
    }

    /// The number of this attempt, 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.descriptor.attempt
    }

    /// For whom this transaction acquires locks.
    pub(crate) fn owner(&mut self) -> OwnerId {
        let owner = self.descriptor.extras.owner.or_else(context::operation).unwrap_or_else(OwnerId::fresh);
        self.descriptor.add().owner = Some(owner);
        owner
    }

    /// The fate of the part of the transaction that runs now; see [`hooks::fate`](crate::hooks::fate).
    pub(crate) fn fate(&mut self) -> Fate {
        self.descriptor.fate()
    }

    pub(crate) fn add_effect(&mut self, effect: Effect) {
        self.descriptor.add().effects.push(effect);
    }
}

impl fmt::Debug for Tx<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tx").field("attempt", &self.descriptor.attempt).finish_non_exhaustive()
    }
}
