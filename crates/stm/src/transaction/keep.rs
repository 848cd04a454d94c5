//! Work that does not depend on the attempt, done once.
#![expect(unsafe_code, reason = "a kept value is borrowed for as long as its attempt")]
use std::any::Any;
use std::fmt;
use std::panic::Location;

use super::{Abort, Descriptor, Tx};
use crate::contain::drop_each;

/// What a transaction keeps over its re-runs: by the place in the source that asked, and how often it has asked before.
#[derive(Default)]
pub(crate) struct Kept(Option<Box<KeptValues>>);

/// Apart, because almost no transaction keeps anything.
#[derive(Default)]
struct KeptValues(Vec<KeptValue>);

struct KeptValue {
    place: &'static Location<'static>,
    /// The attempt that has used it last.
    attempt: u32,
    value: Box<dyn Any + Send>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kept").field("count", &self.0.as_ref().map_or(0, |values| values.0.len())).finish()
    }
}

impl Kept {
    /// Forgets all; a panic of a destructor ends here.
    #[inline]
    pub(crate) fn clear(&mut self) {
        if self.0.is_some() {
            self.forget();
        }
    }

    #[cold]
    fn forget(&mut self) {
        self.0.take().into_iter().for_each(|values| drop_each(values.0));
    }
}

impl Drop for Kept {
    #[inline]
    fn drop(&mut self) {
        self.clear();
    }
}

impl KeptValues {
    /// The index of the first value of `place` that this attempt has not used yet, used now.
    fn find<K: 'static>(&mut self, place: &'static Location<'static>, attempt: u32) -> Option<usize> {
        let is_it = |kept: &KeptValue| kept.place == place && kept.attempt != attempt && kept.value.is::<K>();
        let index = self.0.iter().position(is_it)?;
        self.0[index].attempt = attempt;
        Some(index)
    }
}

impl Descriptor {
    fn keep<K: Send + 'static>(&mut self, place: &'static Location<'static>, work: impl FnOnce() -> K) -> &K {
        let attempt = self.attempt;
        // So that the end of the transaction forgets it.
        self.busy = true;
        let kept = self.kept.0.get_or_insert_default();
        let index = kept.find::<K>(place, attempt).unwrap_or_else(|| {
            kept.0.push(KeptValue { place, attempt, value: Box::new(work()) });
            kept.0.len() - 1
        });
        kept.0[index].value.downcast_ref().expect("found by its type")
    }
}

impl<'t> Tx<'t, '_> {
    /// The result of `work`, done in the first attempt that comes here and kept over the re-runs of this transaction.
    ///
    /// For expensive work whose result is the same in every attempt, like a password hash: a conflict does not do it
    /// again. `work` cannot use the transaction, so that nothing stale can get into the result through it. Results are
    /// told apart by the place in the source and the order of calls there.
    ///
    /// # Errors
    /// None at present; a `Result` like every operation of a transaction.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, atomically};
    /// let seats = TCell::new(3_u32);
    /// let hash = atomically(|tx| {
    ///     let left = tx.read(&seats)?;
    ///     let hash = tx.keep(|| "expensive".len())?;
    ///     tx.write(&seats, left - 1)?;
    ///     Ok(*hash)
    /// })
    /// .run();
    /// assert_eq!(hash, 9);
    /// ```
    #[track_caller]
    pub fn keep<K: Send + 'static>(&mut self, work: impl FnOnce() -> K) -> Result<&'t K, Abort> {
        let kept: *const K = self.descriptor.keep(Location::caller(), work);
        // SAFETY: the value is boxed, so it stays where it is when the list grows, and it is dropped only after the last
        // attempt has ended; `'t` is an attempt. `K` is not `Sync`, but only this transaction can get at it.
        Ok(unsafe { &*kept })
    }
}
