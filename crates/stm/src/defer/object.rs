//! Objects that deferred operations work on.
use std::any::type_name;
use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

use enact_sync::Mutex;
use enact_sync::unmodelled::Arc;

use crate::context;
use crate::lock::{Name, TxLock};
use crate::transaction::{Abort, Tx};
use crate::variable::TCell;

/// An object with a part that transactions share and a part that only deferred operations touch.
///
/// `S`, the shared part: transactional variables and constants; a transaction reaches it with [`Tx::open`], which waits
/// while another transaction's deferred operations have the object. `P`, the private part: a file, a buffer, a socket; an
/// operation that has listed the object gets `&mut P`.
///
/// An operation that reaches for another object, or keeps what the transaction has read, does not compile:
/// ```compile_fail,E0277
/// # use enact_stm::*; use std::sync::Arc;
/// let (a, b) = (Arc::new(Deferrable::new((), 1)), Arc::new(Deferrable::new((), 2)));
/// atomically(|tx| { let b = Arc::clone(&b); tx.defer((&a,), move |(a,)| **a += *b).map(drop) }).run();
/// ```
/// ```compile_fail,E0521
/// # use enact_stm::*; use std::sync::Arc;
/// let (a, v) = (Arc::new(Deferrable::new((), 1)), TVar::new(5));
/// atomically(|tx| { let r = tx.read(&v)?; tx.defer((&a,), move |(a,)| **a += *r).map(drop) }).run();
/// ```
/// ```compile_fail,E0373
/// # use enact_stm::*; use std::sync::Arc;
/// let a = Arc::new(Deferrable::new((), 1));
/// atomically(|tx| { let n = 5; tx.defer((&a,), |(a,)| **a += n).map(drop) }).run();
/// ```
/// ```compile_fail,E0277
/// # use enact_stm::*; use std::{rc::Rc, sync::Arc};
/// let a = Arc::new(Deferrable::new((), 1));
/// atomically(|tx| { let n = Rc::new(5); tx.defer((&a,), move |(a,)| **a += *n).map(drop) }).run();
/// ```
/// Nor does one that lets its objects out:
/// ```compile_fail
/// # use enact_stm::*; use std::sync::Arc;
/// let a = Arc::new(Deferrable::new((), String::new()));
/// let text = atomically(|tx| tx.defer((&a,), |(a,)| -> &'static str { a.as_str() })).run();
/// ```
/// and neither does a transaction that keeps a shared part, or reaches for it without subscribing:
/// ```compile_fail,E0521
/// # use enact_stm::*; use std::sync::Arc;
/// let a = Arc::new(Deferrable::new(TCell::new(0), ()));
/// let shared: &TCell<i32> = atomically(|tx| tx.open(&a)).run();
/// ```
/// ```compile_fail,E0616
/// # use enact_stm::*; use std::sync::Arc;
/// let a = Arc::new(Deferrable::new(TCell::new(0), ()));
/// atomically(|tx| tx.read(&a.shared)).run();
/// ```
///
/// # Example
/// ```
/// use enact_stm::{Deferrable, TCell, atomically};
/// use std::sync::Arc;
/// let log = Arc::new(Deferrable::new(TCell::new(0_u32), Vec::new()));
/// atomically(|tx| {
///     let lines = tx.open(&log)?;
///     let number = tx.update(lines, |n| n + 1)?;
///     tx.defer((&log,), move |(log,)| log.push(format!("line {number}"))).map(drop)
/// })
/// .run();
/// let (lines, text) = Arc::into_inner(log).unwrap().into_inner();
/// assert_eq!((lines.into_inner(), text), (1, vec!["line 1".to_owned()]));
/// ```
pub struct Deferrable<S, P> {
    lock: TxLock,
    is_poisoned: TCell<bool>,
    shared: S,
    /// Taken out by the holder of the lock.
    private: Mutex<Option<Box<P>>>,
}

/// An object whose deferred operation has panicked or said so: what it left behind is not to be relied on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the object was left in an unknown state by a deferred operation; heal it with a new private part")]
pub struct Poisoned;

impl<S, P> Deferrable<S, P> {
    /// An object nobody holds.
    pub fn new(shared: S, private: P) -> Self {
        Self::with(Name::Type(type_name::<Self>()), shared, private)
    }

    /// As [`new`](Self::new), with a name for messages, as that of a circle of operations; see [`Tx::defer`].
    pub fn named(name: impl Into<Cow<'static, str>>, shared: S, private: P) -> Self {
        Self::with(Name::Given(name.into()), shared, private)
    }

    fn with(name: Name, shared: S, private: P) -> Self {
        Self {
            lock: TxLock::with(name),
            is_poisoned: TCell::new(false),
            shared,
            private: Mutex::new(Some(Box::new(private))),
        }
    }

    /// Both parts of an object that nobody else has.
    ///
    /// # Panics
    /// Never: the owner of the object is alone with it.
    pub fn into_inner(self) -> (S, P) {
        let private = self.private.into_inner().expect("operations hold a share of the object while they run");
        (self.shared, *private)
    }

    /// True if an operation has left the object in an unknown state.
    ///
    /// # Panics
    /// Inside a transaction: use [`Tx::try_open`].
    pub fn is_poisoned(&self) -> bool {
        crate::snapshot(|tx| tx.read(&self.is_poisoned))
    }

    /// Gives the object a new private part and takes it into service again. Waits until nobody holds it.
    ///
    /// # Panics
    /// Inside a transaction.
    pub fn heal(self: &Arc<Self>, private: P)
    where
        S: Send + Sync + 'static,
        P: Send + 'static,
    {
        let private = Arc::new(Mutex::new(Some(private)));
        crate::atomically(|tx| {
            tx.write(&self.is_poisoned, false)?;
            let private = Arc::clone(&private);
            tx.defer((self,), move |(object,)| {
                if let Some(private) = private.lock().take() {
                    **object = private;
                }
            })
            .map(drop)
        })
        .run();
    }
}

impl<S, P> Deferrable<S, P> {
    /// Acquires the object for an operation that the transaction defers.
    pub(super) fn acquire<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
        let is_inner = self.lock.acquire_for_operation(tx)?;
        if tx.read(&self.is_poisoned)? {
            panic!("{Poisoned}");
        }
        // Operations around this one that have the lock and have not begun have the private part still in its place.
        assert!(
            !is_inner || self.private.lock().is_some(),
            "an operation deferred an operation on an object that it works on itself"
        );
        Ok(())
    }

    pub(super) fn lock(&self) -> TxLock {
        self.lock.clone()
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Deferrable<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Deferrable")
            .field("name", &format_args!("{}", self.lock))
            .field("shared", &self.shared)
            .finish_non_exhaustive()
    }
}

/// An object in the hands of a deferred operation that has listed it. Dereferences to the private part.
pub struct Held<S, P> {
    object: Arc<Deferrable<S, P>>,
    private: Option<Box<P>>,
    is_poisoned: bool,
}

impl<S, P> Held<S, P> {
    /// Takes the private part of an object whose lock is held.
    pub(super) fn take(object: Arc<Deferrable<S, P>>) -> Self {
        let private = object.private.lock().take();
        assert!(private.is_some(), "an object is in the hands of two operations of one owner");
        Self { object, private, is_poisoned: false }
    }

    /// The part that transactions share. The operation has the object for itself; it writes with transactions of its own,
    /// which may open what it holds.
    pub fn shared(&self) -> &S {
        &self.object.shared
    }

    /// Says that the object is not to be relied on any more: from the end of the operation on, opening it is an error.
    pub fn poison(&mut self) {
        self.is_poisoned = true;
    }

    /// Puts the private part back, and marks the object if it is poisoned.
    pub(super) fn put_back(self) {
        if self.is_poisoned {
            crate::atomically(|tx| tx.write(&self.object.is_poisoned, true)).run();
        }
    }
}

impl<S, P> Drop for Held<S, P> {
    fn drop(&mut self) {
        *self.object.private.lock() = self.private.take();
    }
}

impl<S, P> Deref for Held<S, P> {
    type Target = P;

    fn deref(&self) -> &P {
        self.private.as_ref().expect("taken until it is put back")
    }
}

impl<S, P> DerefMut for Held<S, P> {
    fn deref_mut(&mut self) -> &mut P {
        self.private.as_mut().expect("taken until it is put back")
    }
}

impl<S: fmt::Debug, P> fmt::Debug for Held<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("shared", &self.object.shared).finish_non_exhaustive()
    }
}

impl<'t> Tx<'t, '_> {
    /// Subscribes to an object and gives its shared part; sleeps while deferred operations of another transaction have it.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    ///
    /// # Panics
    /// If the object is poisoned; see [`try_open`](Self::try_open).
    pub fn open<S, P>(&mut self, object: &'t Deferrable<S, P>) -> Result<&'t S, Abort> {
        let opened = self.try_open(object)?;
        Ok(opened.unwrap_or_else(|poisoned| panic!("{poisoned}")))
    }

    /// As [`open`](Self::open), with a poisoned object as a value.
    ///
    /// # Errors
    /// If the attempt has to wait or to be run again.
    pub fn try_open<S, P>(&mut self, object: &'t Deferrable<S, P>) -> Result<Result<&'t S, Poisoned>, Abort> {
        let is_own = object.lock.subscribe_unless_own(self)?;
        let is_poisoned = self.read(&object.is_poisoned)?;
        if is_own && let Some(holder) = context::operation() {
            // Written by operations that have the object.
            self.reads_what_is_own(holder, &object.is_poisoned.core.versioned_lock);
        }
        Ok(if is_poisoned { Err(Poisoned) } else { Ok(&object.shared) })
    }
}
