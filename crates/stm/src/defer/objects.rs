//! Lists of objects for a deferred operation.
use enact_sync::unmodelled::Arc;

use super::object::{Deferrable, Held};
use crate::lock::{OwnerId, TxLock};
use crate::transaction::{Abort, Tx};

mod sealed {
    pub trait Sealed {}
}

/// The objects of a deferred operation: a tuple of none to four `&Arc<Deferrable<S, P>>`. Sealed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a list of objects for a deferred operation",
    label = "not a tuple of up to four `&Arc<Deferrable<S, P>>`",
    note = "one object is a tuple, too: `tx.defer((&log,), ..)`, with a comma; no object is `()`",
    note = "the object is shared with the operation: make it `Arc::new(Deferrable::new(shared, private))`"
)]
pub trait Objects<'t>: sealed::Sealed {
    /// The same objects in the hands of the operation: a tuple of [`Held`].
    type Held: Send + 'static;
    /// Shares of the objects, kept from the transaction to the operation.
    #[doc(hidden)]
    type Shares: Send + 'static;

    #[doc(hidden)]
    fn acquire(&self, tx: &mut Tx<'t, '_>) -> Result<(), Abort>;

    /// The locks of the objects.
    #[doc(hidden)]
    type Locks: AsRef<[TxLock]> + Send;

    #[doc(hidden)]
    fn locks(shares: &Self::Shares) -> Self::Locks;

    #[doc(hidden)]
    fn into_shares(self) -> Self::Shares;

    #[doc(hidden)]
    fn take(shares: Self::Shares) -> Self::Held;

    /// Puts everything back.
    #[doc(hidden)]
    fn put_back(held: Self::Held, poison: bool);
}

macro_rules! objects {
    ($($S:ident $P:ident $object:ident),*) => {
        impl<$($S, $P),*> sealed::Sealed for ($(&Arc<Deferrable<$S, $P>>,)*) {}
        impl<'t, $($S: Send + Sync + 'static, $P: Send + 'static),*> Objects<'t> for ($(&'t Arc<Deferrable<$S, $P>>,)*) {
            type Held = ($(Held<$S, $P>,)*);
            type Shares = ($(Arc<Deferrable<$S, $P>>,)*);

            fn acquire(&self, tx: &mut Tx<'t, '_>) -> Result<(), Abort> {
                let ($($object,)*) = *self;
                assert_distinct(&[$(Arc::as_ptr($object).cast()),*]);
                $($object.acquire(tx)?;)*
                let _ = tx;
                Ok(())
            }

            type Locks = [TxLock; <[&str]>::len(&[$(stringify!($object)),*])];

            fn locks(shares: &Self::Shares) -> Self::Locks {
                let ($($object,)*) = shares;
                [$($object.lock()),*]
            }

            #[allow(clippy::unused_unit, reason = "the tuple of no objects")]
            fn into_shares(self) -> Self::Shares {
                let ($($object,)*) = self;
                ($(Arc::clone($object),)*)
            }

            #[allow(clippy::unused_unit, reason = "the tuple of no objects")]
            fn take(shares: Self::Shares) -> Self::Held {
                let ($($object,)*) = shares;
                ($(Held::take($object),)*)
            }

            fn put_back(held: Self::Held, poison: bool) {
                let ($(mut $object,)*) = held;
                let _ = poison;
                $(
                    if poison {
                        $object.poison();
                    }
                    $object.put_back();
                )*
            }
        }
    };
}

objects!();
objects!(S1 P1 a);
objects!(S1 P1 a, S2 P2 b);
objects!(S1 P1 a, S2 P2 b, S3 P3 c);
objects!(S1 P1 a, S2 P2 b, S3 P3 c, S4 P4 d);

fn assert_distinct(objects: &[*const ()]) {
    let is_repeated = |n: usize| objects[..n].contains(&objects[n]);
    assert!(!(0..objects.len()).any(is_repeated), "a deferred operation lists an object twice");
}

/// Gives back one acquisition of each lock, inside the operation.
pub(super) fn release(locks: &[TxLock], owner: OwnerId) {
    for lock in locks {
        lock.release_once(owner);
    }
}
