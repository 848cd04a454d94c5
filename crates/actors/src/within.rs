//! Messages that belong to a transaction.
use std::fmt;
use std::future::IntoFuture;
use std::marker::PhantomData;

use enact_stm::Tx;
use enact_stm::hooks::{self, Fate};

use crate::Promise;

/// The answer to a message that was sent within a transaction: it comes after the commit, so it can only be had there.
///
/// This is no future, and has no `wait`: leave the transaction with it, then `.await` it or take its
/// [`promise`](Self::promise).
///
/// ```
/// # use enact_actors::*;
/// use enact_stm::{TCell, atomically};
///
/// struct Printer;
/// #[actor]
/// impl Printer {
///     fn print(&mut self, ticket: u32) -> String {
///         format!("ticket {ticket}")
///     }
/// }
/// let system = System::builder().workers(1).build()?;
/// let (printer, tickets) = (system.spawn(Printer), TCell::new(0));
/// // However often this runs, one ticket is printed.
/// let printed = atomically(|tx| {
///     let ticket = tx.update(&tickets, |n| n + 1)?;
///     Ok(printer.within(tx).print(ticket))
/// })
/// .run();
/// assert_eq!(printed.promise().wait().as_deref(), Ok("ticket 1"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use = "to send without waiting for the answer, use the `tell_within(tx)` view"]
pub struct Ask<T: Send + 'static>(Promise<T>);

impl<T: Send + 'static> Ask<T> {
    pub(crate) fn new(promise: Promise<T>) -> Self {
        Self(promise)
    }

    /// The promise of the answer.
    ///
    /// # Panics
    /// Inside a transaction.
    pub fn promise(self) -> Promise<T> {
        assert!(
            !hooks::is_in_a_transaction(),
            "a message of a transaction is answered after the commit: leave the transaction with the `Ask`"
        );
        self.0
    }
}

impl<T: Send + 'static> IntoFuture for Ask<T> {
    type Output = <Promise<T> as Future>::Output;
    type IntoFuture = Promise<T>;

    fn into_future(self) -> Promise<T> {
        self.promise()
    }
}

impl<T: Send + 'static> fmt::Debug for Ask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ask").finish_non_exhaustive()
    }
}

/// The part of a transaction that a view sends for; ends before the part does.
#[derive(Debug)]
pub struct Within<'tx> {
    pub(crate) fate: Fate,
    _tx: PhantomData<&'tx mut ()>,
}

impl<'tx> Within<'tx> {
    /// The part of `tx` that runs now.
    pub fn new(tx: &'tx mut Tx<'_, '_>) -> Self {
        Self { fate: hooks::fate(tx), _tx: PhantomData }
    }
}
