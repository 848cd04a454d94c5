//! A first-in, first-out queue whose ends are apart.
//!
//! # Shape
//! Elements are numbered. `tail` counts those that were pushed and `head` those that were popped; element `n` lies in the
//! slot for `n`, and a slot is empty before and after. Whether there is something to pop is seen in the slot for `head`,
//! whether there is room in the slot for `tail`: neither end looks at the other's count, and their slots are different
//! ones unless the queue is empty or full.
//!
//! * *Bounded*: one ring of as many slots as the capacity.
//! * *Unbounded*: a chain of segments of [`SEGMENT`] slots. The push that finds the last segment full adds one; the pop that
//!   comes to the end of the first drops it, and cuts it off from the next, so that a transaction that still refers to it
//!   does not keep everything that comes later.
use std::sync::Arc;

use crossbeam_utils::CachePadded;

use crate::{Abort, Linked, TCell, TLink, TVar, Tx};

const SEGMENT: u64 = 32;

/// A first-in, first-out queue.
///
/// # Conflicts
/// Pushes conflict with pushes and pops with pops. A push conflicts with a pop only if the queue is empty or full before or
/// between them.
///
/// # Complexity
/// Every operation is O(1). A bounded queue has the memory of its full capacity from the start; an unbounded one allocates
/// every 32 pushes, and gives that memory back as it is emptied. An element that was popped is dropped when no transaction can
/// refer to it, see [`collect`](crate::collect); to have it out of the queue as a value of your own, push a
/// [`Parcel`](crate::Parcel) and [`take`](Self::take).
///
/// # Example
/// ```
/// use enact_stm::{TQueue, atomically};
/// let (orders, bills) = (TQueue::bounded(2), TQueue::unbounded());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         for order in 1..=5 {
///             atomically(|tx| orders.push(tx, order)).run(); // sleeps while two are waiting
///         }
///     });
///     for _ in 1..=5 {
///         atomically(|tx| {
///             let order = orders.pop(tx)?; // sleeps while there is none
///             bills.push(tx, format!("order {order}"))
///         })
///         .run();
///     }
/// });
/// assert_eq!(atomically(|tx| Ok(bills.pop(tx)?.clone())).run(), "order 1");
/// ```
#[derive(Debug)]
pub struct TQueue<T: Send + Sync + 'static> {
    /// Popped so far, and pushed so far: on lines of their own, because different threads write them.
    head: CachePadded<TCell<u64>>,
    tail: CachePadded<TCell<u64>>,
    slots: Slots<T>,
}

type Element<T> = TVar<Option<T>>;

#[derive(Debug)]
enum Slots<T: Send + Sync + 'static> {
    Ring(Box<[Element<T>]>),
    Chain {
        /// The segment of the element popped last, or of the first ever.
        first: TLink<Segment<T>>,
        /// The segment of the element pushed last, or of the first ever.
        last: TLink<Segment<T>>,
    },
}

#[derive(Debug)]
struct Segment<T: Send + Sync + 'static> {
    slots: Box<[Element<T>]>,
    next: TLink<Segment<T>>,
}

impl<T: Send + Sync + 'static> TQueue<T> {
    /// An empty queue that holds `capacity` elements at most.
    ///
    /// # Panics
    /// If `capacity` is 0: nothing could ever be pushed.
    #[must_use]
    pub fn bounded(capacity: usize) -> Self {
        assert!(capacity > 0, "a queue of capacity 0 has no room for anything");
        Self::new(Slots::Ring(slots(capacity)))
    }

    /// An empty queue that holds any number of elements.
    #[must_use]
    pub fn unbounded() -> Self {
        let segment = Arc::new(Segment::new());
        Self::new(Slots::Chain { first: TLink::from(Arc::clone(&segment)), last: TLink::from(segment) })
    }

    fn new(slots: Slots<T>) -> Self {
        Self { head: CachePadded::new(TCell::new(0)), tail: CachePadded::new(TCell::new(0)), slots }
    }

    /// Adds an element at the end; sleeps while the queue is full.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn push<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<(), Abort> {
        match self.try_push(tx, value)? {
            Ok(()) => Ok(()),
            Err(_) => tx.retry(),
        }
    }

    /// Adds an element at the end, or gives it back if the queue is full.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_push<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<Result<(), T>, Abort> {
        let number = tx.read(&*self.tail)?;
        let slot = self.slots.for_push(tx, number)?;
        if tx.read(slot)?.is_some() {
            return Ok(Err(value));
        }
        tx.write(slot, Some(value))?;
        tx.write(&*self.tail, number + 1)?;
        Ok(Ok(()))
    }

    /// Takes the element that was pushed first; sleeps while the queue is empty.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn pop<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        match self.try_pop(tx)? {
            Some(value) => Ok(value),
            None => tx.retry(),
        }
    }

    /// Takes the element that was pushed first, if there is one.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn try_pop<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<&'t T>, Abort> {
        let number = tx.read(&*self.head)?;
        let Some(slot) = self.slots.for_pop(tx, number)? else { return Ok(None) };
        let Some(value) = tx.read(slot)? else { return Ok(None) };
        tx.write(slot, None)?;
        tx.write(&*self.head, number + 1)?;
        Ok(Some(value))
    }

    /// The number of elements. Looks at both ends, so it conflicts with every push and pop, unless it is in a
    /// [`snapshot`](crate::snapshot).
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn len<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<usize, Abort> {
        Ok((tx.read(&*self.tail)? - tx.read(&*self.head)?) as usize)
    }

    /// True if there is nothing to pop. Looks at both ends, as [`len`](Self::len) does.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn is_empty<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    /// How many elements there can be; `None` if any number.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        match &self.slots {
            Slots::Ring(slots) => Some(slots.len()),
            Slots::Chain { .. } => None,
        }
    }
}

impl<T: Send + Sync + 'static> Slots<T> {
    fn for_push<'t>(&'t self, tx: &mut Tx<'t, '_>, number: u64) -> Result<&'t Element<T>, Abort> {
        let last = match self {
            Self::Ring(slots) => return Ok(slot(slots, number)),
            Self::Chain { last, .. } => last,
        };
        let mut segment = tx.read(last)?;
        if number != 0 && number.is_multiple_of(SEGMENT) {
            let next = Arc::new(Segment::new());
            tx.write(&there(segment).next, Some(Arc::clone(&next)))?;
            segment = tx.write(last, Some(next))?;
        }
        Ok(slot(&there(segment).slots, number))
    }

    /// `None` if the slot is in a segment that is not there yet.
    fn for_pop<'t>(&'t self, tx: &mut Tx<'t, '_>, number: u64) -> Result<Option<&'t Element<T>>, Abort> {
        let first = match self {
            Self::Ring(slots) => return Ok(Some(slot(slots, number))),
            Self::Chain { first, .. } => first,
        };
        let mut segment = tx.read(first)?;
        if number != 0 && number.is_multiple_of(SEGMENT) {
            let Some(next) = tx.read(&there(segment).next)? else { return Ok(None) };
            tx.write(&there(segment).next, None)?;
            segment = tx.write(first, Some(next.to_arc()))?;
        }
        Ok(Some(slot(&there(segment).slots, number)))
    }
}

/// The segment at an end of a chain, which always has one.
fn there<'t, T: Send + Sync + 'static>(segment: Option<Linked<'t, Segment<T>>>) -> &'t Segment<T> {
    segment.expect("a chain has a segment").get()
}

fn slots<T: Send + Sync + 'static>(count: usize) -> Box<[Element<T>]> {
    (0..count).map(|_| TVar::new(None)).collect()
}

fn slot<T: Send + Sync + 'static>(slots: &[Element<T>], number: u64) -> &Element<T> {
    &slots[(number % slots.len() as u64) as usize]
}

impl<T: Send + Sync + 'static> Segment<T> {
    fn new() -> Self {
        Self { slots: slots(SEGMENT as usize), next: TLink::default() }
    }
}

/// Frees a chain segment by segment: the drop of a link inside the drop of a link would need as much stack as there are
/// segments.
impl<T: Send + Sync + 'static> Drop for Segment<T> {
    fn drop(&mut self) {
        let mut next = self.next.replace_mut(None);
        while let Some(mut segment) = next.and_then(Arc::into_inner) {
            next = segment.next.replace_mut(None);
        }
    }
}
