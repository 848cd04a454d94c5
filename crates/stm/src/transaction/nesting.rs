//! Closed nesting: parts of a transaction that can be rolled back by themselves.
use super::effects::{Commute, Undecided};
use super::log::State;
use super::{Abort, Descriptor, Failed, Reason, Tx};
use crate::defer::Operation;
use crate::lock::TxLock;

/// How much of each log there was when a part began.
#[derive(Debug, Clone, Copy)]
struct Mark {
    part: u32,
    writes: usize,
    undo: usize,
    commutes: usize,
    fates: usize,
    effects: usize,
    operations: usize,
    acquired: usize,
    released: usize,
}

impl Descriptor {
    fn enter_part(&mut self) -> Mark {
        let extras = &mut self.extras;
        extras.parts += 1;
        let part = std::mem::replace(&mut extras.part, extras.parts);
        self.busy = true;
        Mark {
            part,
            writes: self.writes.len(),
            undo: extras.undo.len(),
            commutes: extras.commutes.len(),
            fates: extras.fates.len(),
            effects: extras.effects.len(),
            operations: extras.operations.len(),
            acquired: extras.acquired.len(),
            released: extras.released.len(),
        }
    }

    /// The part stands. What it has replaced is still needed if a part around it is rolled back.
    fn leave_part(&mut self, mark: &Mark) {
        self.extras.part = mark.part;
        if mark.part == 0 {
            for n in 0..self.extras.undo.len() {
                let of = self.writes[self.extras.undo[n].entry].of;
                let value = self.extras.undo[n].value;
                self.discard(of, value);
            }
            self.extras.undo.clear();
        }
    }

    /// Takes everything back that the part has done. Its reads stay: they have decided that it failed.
    ///
    /// What is given runs code of users when it is aborted or dropped, so only when the part has been left.
    fn roll_back(&mut self, mark: &Mark) -> RolledBack {
        for undo in self.extras.undo.split_off(mark.undo).into_iter().rev() {
            let write = self.writes[undo.entry];
            self.discard(write.of, write.value);
            let write = &mut self.writes[undo.entry];
            (write.value, write.state) = (undo.value, undo.state);
        }
        if self.writes.len() > mark.writes {
            for write in self.writes.truncate(mark.writes) {
                if write.state == State::Known {
                    self.discard(write.of, write.value);
                }
            }
        }
        let extras = &mut self.extras;
        RolledBack {
            _commutes: extras.commutes.split_off(mark.commutes),
            _operations: extras.operations.split_off(mark.operations),
            _acquired: extras.acquired.split_off(mark.acquired),
            _released: extras.released.split_off(mark.released),
            undecided: Undecided {
                fates: extras.fates.split_off(mark.fates),
                effects: extras.effects.split_off(mark.effects),
            },
        }
    }
}

/// What a part that was rolled back had promised.
struct RolledBack {
    _commutes: Vec<Commute>,
    _operations: Vec<Operation>,
    _acquired: Vec<TxLock>,
    _released: Vec<TxLock>,
    undecided: Undecided,
}

/// Counts the part as left, however it is left.
struct Part<'a, 't, 'env> {
    tx: &'a mut Tx<'t, 'env>,
    mark: Mark,
    stands: bool,
}

impl<'a, 't, 'env> Part<'a, 't, 'env> {
    fn enter(tx: &'a mut Tx<'t, 'env>) -> Self {
        let mark = tx.descriptor.enter_part();
        Self { tx, mark, stands: false }
    }

    fn leave(mut self, stands: bool) {
        self.stands = stands;
    }
}

impl Drop for Part<'_, '_, '_> {
    fn drop(&mut self) {
        let rolled_back = (!self.stands).then(|| self.tx.descriptor.roll_back(&self.mark));
        self.tx.descriptor.leave_part(&self.mark);
        if let Some(rolled_back) = rolled_back {
            rolled_back.undecided.abort();
        }
    }
}

impl Tx<'_, '_> {
    /// Runs `first`; if it asks to wait with [`retry`](Self::retry), takes back what it has written and runs `second`
    /// instead. If both ask to wait, the transaction waits for what either has read.
    ///
    /// # Errors
    /// What `second` returns if `first` asks to wait, otherwise what `first` returns.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{TCell, atomically};
    /// let (gold, silver) = (TCell::new(0_u32), TCell::new(5_u32));
    /// let got = atomically(|tx| {
    ///     tx.or_else(
    ///         |tx| if tx.read(&gold)? == 0 { tx.retry() } else { Ok("gold") },
    ///         |tx| if tx.read(&silver)? == 0 { tx.retry() } else { Ok("silver") },
    ///     )
    /// })
    /// .run();
    /// assert_eq!(got, "silver");
    /// ```
    pub fn or_else<R>(
        &mut self,
        first: impl FnOnce(&mut Self) -> Result<R, Abort>,
        second: impl FnOnce(&mut Self) -> Result<R, Abort>,
    ) -> Result<R, Abort> {
        let before = self.descriptor.aborted;
        let part = Part::enter(self);
        match first(part.tx) {
            Err(Abort(Reason::Retry)) => {
                part.tx.descriptor.aborted =
                    part.tx.descriptor.aborted.filter(|reason| *reason != Reason::Retry).or(before);
                part.leave(false);
            }
            result => {
                part.leave(result.is_ok());
                return result;
            }
        }
        second(self)
    }

    /// Runs a part of the transaction that can fail by itself: an error rolls back what the part has written, sent and
    /// deferred, and is given as a value; the transaction goes on.
    ///
    /// # Errors
    /// When the attempt cannot go on, inside the part or because of it.
    ///
    /// # Example
    /// ```
    /// use enact_stm::{Failed, TCell, atomically};
    /// let (log, balance) = (TCell::new(0_u32), TCell::new(10_i64));
    /// let paid = atomically(|tx| {
    ///     tx.update(&log, |n| n + 1)?;
    ///     tx.nested(|tx| {
    ///         let left = tx.update(&balance, |b| b - 30)?;
    ///         if left < 0 { Err(Failed::Error("overdrawn")) } else { Ok(left) }
    ///     })
    /// })
    /// .run();
    /// assert_eq!(paid, Err("overdrawn"));
    /// assert_eq!((log.into_inner(), balance.into_inner()), (1, 10));
    /// ```
    pub fn nested<R, E>(
        &mut self,
        part: impl FnOnce(&mut Self) -> Result<R, Failed<E>>,
    ) -> Result<Result<R, E>, Abort> {
        let guard = Part::enter(self);
        let result = part(guard.tx);
        guard.leave(result.is_ok());
        match result {
            Ok(value) => Ok(Ok(value)),
            Err(Failed::Error(error)) => Ok(Err(error)),
            Err(Failed::Abort(abort)) => Err(abort),
        }
    }
}
