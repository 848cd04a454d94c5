//! A fixed number of variables.
use crate::{Abort, TVar, Tx};

/// An array of a fixed length whose elements change independently.
///
/// # Conflicts
/// Transactions conflict if one of them changes an element that the other looks at.
///
/// # Complexity
/// Access by index is O(1). For small `Copy` values a `Vec<TCell<_>>` does the same without an allocation for each change.
///
/// # Panics
/// Every access panics if the index is not less than [`len`](Self::len).
///
/// # Example
/// ```
/// use enact_stm::{TArray, atomically};
/// let names: TArray<String> = ["b", "a"].into_iter().map(String::from).collect();
/// atomically(|tx| {
///     let (first, second) = (names.get(tx, 0)?, names.get(tx, 1)?);
///     if first > second {
///         names.set(tx, 0, second.clone())?;
///         names.set(tx, 1, first.clone())?;
///     }
///     Ok(())
/// })
/// .run();
/// assert_eq!(names.into_vec(), ["a", "b"]);
/// ```
#[derive(Debug)]
pub struct TArray<T: Send + Sync + 'static>(Box<[TVar<T>]>);

impl<T: Send + Sync + 'static> TArray<T> {
    /// An array of `len` elements, each what `make` gives for its index.
    #[must_use]
    pub fn from_fn(len: usize, make: impl FnMut(usize) -> T) -> Self {
        (0..len).map(make).collect()
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The element at `index`.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn get<'t>(&'t self, tx: &mut Tx<'t, '_>, index: usize) -> Result<&'t T, Abort> {
        tx.read(&self.0[index])
    }

    /// Replaces the element at `index`.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn set<'t>(&'t self, tx: &mut Tx<'t, '_>, index: usize, value: T) -> Result<(), Abort> {
        tx.write(&self.0[index], value).map(drop)
    }

    /// Replaces the element at `index` by what `change` makes of it.
    ///
    /// # Errors
    /// If the attempt has to be run again.
    pub fn update<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        index: usize,
        change: impl FnOnce(&'t T) -> T,
    ) -> Result<(), Abort> {
        tx.update(&self.0[index], change).map(drop)
    }

    /// All elements in their order.
    ///
    /// # Errors
    /// If the attempt has to be run again; never in a [`snapshot`](crate::snapshot).
    pub fn elements<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Vec<&'t T>, Abort> {
        self.0.iter().map(|element| tx.read(element)).collect()
    }

    /// The elements of an array that nobody else has.
    #[must_use]
    pub fn into_vec(self) -> Vec<T> {
        self.0.into_iter().map(TVar::into_inner).collect()
    }
}

impl<T: Send + Sync + 'static> FromIterator<T> for TArray<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self(elements.into_iter().map(TVar::new).collect())
    }
}
