//! Why an attempt ends early, as the closure of a transaction passes it on.
use std::fmt;

/// An attempt that cannot go on: pass it up with `?`, and the transaction takes care of it.
///
/// Made by the operations of a [`Tx`](crate::Tx) only. It is not a `std::error::Error`: there is nothing in it to be
/// handled, and a transaction that swallows it is re-run all the same.
#[derive(Debug)]
#[must_use = "an attempt that goes on after this works on nothing: pass it up with `?`"]
pub struct Abort(pub(crate) Reason);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Conflict(Cause),
    /// Wait until something that was read changes.
    Retry,
    /// What is asked for needs the log that a snapshot does not keep.
    NeedsLog,
    /// The transaction has to run alone from the start.
    NeedsAlone,
}

/// Why two transactions could not both go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    Locked,
    Changed,
    StoodBack,
}

/// How the closure of [`try_atomically`](crate::try_atomically) or of a nested part ends if it does not end well.
///
/// `?` makes it both from an [`Abort`] and from any `std::error::Error`; [`Tx::fail`](crate::Tx::fail) makes it from a value
/// of any type.
///
/// # Example
/// ```
/// use enact_stm::{TCell, try_atomically};
/// #[derive(Debug, PartialEq)]
/// struct Overdrawn(i64);
/// let balance = TCell::new(10_i64);
/// let result = try_atomically(|tx| {
///     let left = tx.update(&balance, |b| b - 30)?;
///     if left < 0 { tx.fail(Overdrawn(left)) } else { Ok(left) }
/// })
/// .run();
/// assert_eq!(result, Err(Overdrawn(-20)));
/// assert_eq!(balance.into_inner(), 10);
/// ```
#[derive(Debug)]
pub enum Failed<E> {
    /// The attempt cannot go on.
    Abort(Abort),
    /// Everything is to be rolled back, and the caller gets this.
    Error(E),
}

impl<E> From<Abort> for Failed<E> {
    fn from(abort: Abort) -> Self {
        Self::Abort(abort)
    }
}

impl<E: std::error::Error> From<E> for Failed<E> {
    fn from(error: E) -> Self {
        Self::Error(error)
    }
}

impl<E: fmt::Display> fmt::Display for Failed<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Abort(_) => f.write_str("the attempt cannot go on"),
            Self::Error(error) => error.fmt(f),
        }
    }
}
