//! Following the values of a variable.
use crate::call::{Atomically, Body, atomically};
use crate::transaction::{Tx, Variable, Version};

/// Follows a variable: every step waits until it has changed since the step before, and looks at the newest value.
///
/// Values that were replaced before anybody looked are skipped. The first step looks at once.
///
/// # Example
/// ```
/// use enact_stm::{TCell, Watch, atomically};
/// let level = TCell::new(1_u8);
/// let mut watch = Watch::new(&level);
/// assert_eq!(watch.next(|level| *level), 1);
/// atomically(|tx| tx.write(&level, 7)).run();
/// assert_eq!(watch.next(|level| *level), 7);
/// ```
#[derive(Debug)]
pub struct Watch<'v, V> {
    variable: &'v V,
    seen: Option<Version>,
}

impl<'v, V: Variable> Watch<'v, V> {
    /// Follows `variable`, beginning with its present value.
    pub fn new(variable: &'v V) -> Self {
        Self { variable, seen: None }
    }

    /// Sleeps until there is a value that was not looked at, and gives what `look` makes of it.
    ///
    /// # Panics
    /// As [`Atomically::run`].
    pub fn next<R>(&mut self, look: impl Fn(&V::Value) -> R) -> R {
        let (value, version) = self.step(look).run();
        self.seen = Some(version);
        value
    }

    /// As [`next`](Self::next), for tasks.
    ///
    /// # Cancel safety
    /// If the future is dropped, nothing counts as looked at.
    pub async fn changed<R>(&mut self, look: impl Fn(&V::Value) -> R) -> R {
        let (value, version) = self.step(look).await;
        self.seen = Some(version);
        value
    }

    fn step<'env, R>(
        &'env self,
        look: impl Fn(&V::Value) -> R + 'env,
    ) -> Atomically<'env, impl Body<'env, Output = (R, Version)>, (R, Version)> {
        atomically(move |tx: &mut Tx<'_, 'env>| {
            let version = tx.version(self.variable)?;
            if self.seen == Some(version) {
                return tx.retry();
            }
            let value = tx.read(self.variable)?;
            Ok((V::with_value(value, &look), version))
        })
    }
}
