//! A broadcast channel: every reader gets every value.
//!
//! # Shape
//! A chain of cells. Each is filled once, with a value and the cell after it; the channel knows the last cell, which is
//! empty, and every reader the cell that it comes to next. Nothing leads back, so what all readers have passed is freed.
use std::sync::Arc;

use crate::{Abort, Linked, TLink, TVar, Tx};

/// The sending side of a broadcast channel.
///
/// Any number of transactions may send, and each [`Reader`] receives every value that was sent after it was made, in one
/// order for all.
///
/// # Conflicts
/// Sends conflict with sends. Receiving conflicts with receiving by the same reader; with a send only if the reader has
/// received everything before.
///
/// # Complexity
/// Every operation is O(1). There is no limit: a value is kept until the slowest reader has received it, and with no reader
/// not at all. It is freed when the transactions that ran at that time have ended; one that runs for long, whatever it
/// does, also keeps what is sent meanwhile.
///
/// # Example
/// ```
/// use enact_stm::{TChan, atomically};
/// let prices = TChan::new();
/// let (screen, log) = atomically(|tx| Ok((prices.reader(tx)?, prices.reader(tx)?))).run();
/// atomically(|tx| prices.send(tx, 17).and_then(|()| prices.send(tx, 18))).run();
/// for reader in [&screen, &log] {
///     assert_eq!(atomically(|tx| reader.recv(tx).copied()).run(), 17);
/// }
/// assert_eq!(atomically(|tx| log.try_recv(tx).map(Option::<&i32>::copied)).run(), Some(18));
/// assert_eq!(atomically(|tx| log.try_recv(tx).map(Option::<&i32>::copied)).run(), None);
/// ```
#[derive(Debug)]
pub struct TChan<T: Send + Sync + 'static> {
    /// The cell to be filled next.
    end: TLink<Cell<T>>,
}

/// The receiving side of a [`TChan`], with a position of its own. Made by [`TChan::reader`].
#[derive(Debug)]
pub struct Reader<T: Send + Sync + 'static> {
    position: TLink<Cell<T>>,
}

#[derive(Debug)]
struct Cell<T: Send + Sync + 'static> {
    content: TVar<Option<Content<T>>>,
}

#[derive(Debug)]
struct Content<T: Send + Sync + 'static> {
    value: T,
    next: Arc<Cell<T>>,
}

impl<T: Send + Sync + 'static> TChan<T> {
    /// A channel without readers.
    #[must_use]
    pub fn new() -> Self {
        Self { end: TLink::from(Cell::empty()) }
    }

    /// Sends `value` to every reader there is.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn send<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<(), Abort> {
        let cell = there(tx.read(&self.end)?);
        let next = Cell::empty();
        tx.write(&cell.get().content, Some(Content { value, next: Arc::clone(&next) }))?;
        tx.write(&self.end, Some(next))?;
        Ok(())
    }

    /// A reader that receives what is sent from now on.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn reader<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Reader<T>, Abort> {
        let end = there(tx.read(&self.end)?);
        Ok(Reader { position: TLink::from(end.to_arc()) })
    }
}

impl<T: Send + Sync + 'static> Reader<T> {
    /// The next value; sleeps until one is sent.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn recv<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        match self.try_recv(tx)? {
            Some(value) => Ok(value),
            None => tx.retry(),
        }
    }

    /// The next value, if one was sent.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_recv<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<&'t T>, Abort> {
        let cell = there(tx.read(&self.position)?);
        let Some(content) = tx.read(&cell.get().content)? else { return Ok(None) };
        tx.write(&self.position, Some(Arc::clone(&content.next)))?;
        Ok(Some(&content.value))
    }

    /// Another reader at the position of this one.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn fork<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Self, Abort> {
        let cell = there(tx.read(&self.position)?);
        Ok(Self { position: TLink::from(cell.to_arc()) })
    }
}

/// The cell that a link of a channel leads to: there always is one.
fn there<T: Send + Sync + 'static>(cell: Option<Linked<'_, Cell<T>>>) -> Linked<'_, Cell<T>> {
    cell.expect("a link of a channel leads to a cell")
}

impl<T: Send + Sync + 'static> Default for TChan<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync + 'static> Cell<T> {
    fn empty() -> Arc<Self> {
        Arc::new(Self { content: TVar::new(None) })
    }
}

/// Frees a chain cell by cell: the drop of a link inside the drop of a link would need as much stack as there are cells.
impl<T: Send + Sync + 'static> Drop for Cell<T> {
    fn drop(&mut self) {
        let mut content = self.content.get_mut().take();
        while let Some(mut cell) = content.and_then(|content| Arc::into_inner(content.next)) {
            content = cell.content.get_mut().take();
        }
    }
}
