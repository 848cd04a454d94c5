//! How a transaction reads and writes each kind of variable.
use super::log::{Kind, State, Write};
use super::{Abort, Mode, Reason, Tx, Worker};
use crate::transaction::effects::{Commute, Condition, Undo};
use crate::variable::node::{self, Node};
use crate::variable::stamp::{self, Stamp};
use crate::variable::{TCell, TVar, Word};
use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;
use std::any::TypeId;

mod sealed {
    pub trait Sealed {}
}

impl<T: Send + Sync + 'static> sealed::Sealed for TVar<T> {}
impl<W: Word> sealed::Sealed for TCell<W> {}

/// Any transactional variable: [`TVar`] and [`TCell`]. Sealed: its methods are for a [`Tx`] to call.
pub trait Variable: sealed::Sealed {
    /// The type of the values.
    type Value;
    /// What a read gives: a reference into the snapshot for a [`TVar`], the value itself for a [`TCell`].
    type Read<'t>: Copy
    where
        Self: 't;

    #[doc(hidden)]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Self::Read<'t>, Abort>;

    #[doc(hidden)]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: Self::Value) -> Result<Self::Read<'t>, Abort>;

    #[doc(hidden)]
    fn commute<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        function: impl Fn(&Self::Value) -> Self::Value + Send + 'static,
    ) -> Result<(), Abort>;

    /// Calls `look` with what a read has given.
    #[doc(hidden)]
    fn with_value<R>(value: Self::Read<'_>, look: impl FnOnce(&Self::Value) -> R) -> R;

    /// A test of what a commit has published.
    #[doc(hidden)]
    fn condition(test: impl Fn(&Self::Value) -> bool + Send + Sync + 'static) -> Condition;

    #[doc(hidden)]
    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort>;
}

impl<W: Word> Variable for TCell<W> {
    type Value = W;
    type Read<'t> = W;

    #[inline]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<W, Abort> {
        let worker = &mut *tx.worker;
        let bits = match worker.find(&self.core.stamp)? {
            Some(written) => written,
            None => worker.read_cell(&self.core)?,
        };
        Ok(W::from_bits(bits))
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: W) -> Result<W, Abort> {
        tx.worker.write(&self.core.stamp, Kind::Cell(&raw const self.core), value.into_bits())?;
        Ok(value)
    }

    fn commute<'t>(&'t self, tx: &mut Tx<'t, '_>, function: impl Fn(&W) -> W + Send + 'static) -> Result<(), Abort> {
        let apply = move |bits| function(&W::from_bits(bits)).into_bits();
        tx.worker.commute(&self.core.stamp, Kind::Cell(&raw const self.core), Box::new(apply))
    }

    fn with_value<R>(value: W, look: impl FnOnce(&W) -> R) -> R {
        look(&value)
    }

    fn condition(test: impl Fn(&W) -> bool + Send + Sync + 'static) -> Condition {
        Condition { of: None, test: Arc::new(move |bits| test(&W::from_bits(bits))) }
    }

    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        tx.worker.needs_log()?;
        tx.worker.read_cell(&self.core)?;
        Ok(tx.worker.last_seen())
    }
}

impl<T: Send + Sync + 'static> Variable for TVar<T> {
    type Value = T;
    type Read<'t> = &'t T;

    #[inline]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        let worker = &mut *tx.worker;
        let address = match worker.find(&self.stamp)? {
            Some(written) => written,
            None => worker.read_node(&self.stamp)?,
        };
        // SAFETY: a node of this variable, protected or unpublished until the attempt ends; `'t` is the attempt.
        Ok(unsafe { node::value::<T>(address) })
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<&'t T, Abort> {
        let worker = &mut *tx.worker;
        worker.pin();
        let address = Node::leak(value, 0, worker.slot.pin.newest());
        worker.write(&self.stamp, Kind::Node(Node::<T>::TYPE), address)?;
        // SAFETY: written by this attempt, which frees what it does not publish only when it has ended.
        Ok(unsafe { node::value::<T>(address) })
    }

    fn commute<'t>(&'t self, tx: &mut Tx<'t, '_>, function: impl Fn(&T) -> T + Send + 'static) -> Result<(), Abort> {
        tx.worker.pin();
        let birth = tx.worker.slot.pin.newest();
        let apply = move |address| {
            // SAFETY: the address of a node of this variable, which the caller protects.
            let value = function(unsafe { node::value::<T>(address) });
            Node::leak(value, 0, birth)
        };
        tx.worker.commute(&self.stamp, Kind::Node(Node::<T>::TYPE), Box::new(apply))
    }

    fn with_value<R>(value: &T, look: impl FnOnce(&T) -> R) -> R {
        look(value)
    }

    fn condition(test: impl Fn(&T) -> bool + Send + Sync + 'static) -> Condition {
        let test = move |published| {
            // SAFETY: a node of a `T`, says `of`; called while the commit that has published it is pinned in an epoch not
            // before the node's birth.
            test(unsafe { node::value::<T>(published) })
        };
        Condition { of: Some(TypeId::of::<T>()), test: Arc::new(test) }
    }

    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        tx.worker.needs_log()?;
        let address = tx.worker.read_node(&self.stamp)?;
        // SAFETY: the node is protected until the attempt ends.
        Ok(unsafe { node::header(address) }.mark.load(Ordering::Relaxed))
    }
}

impl Tx<'_, '_> {
    pub(crate) fn has_written(&self, cell: &TCell<u64>) -> bool {
        self.worker.writes.find(&cell.core.stamp).is_some()
    }
}

impl Worker {
    /// What this attempt has written to a variable, if anything.
    #[inline]
    fn find(&mut self, variable: &Stamp) -> Result<Option<u64>, Abort> {
        if self.writes.may_have(variable) { self.find_written(variable) } else { Ok(None) }
    }

    /// Apart, so that reads of what was not written stay small enough to be inlined.
    #[inline(never)]
    fn find_written(&mut self, variable: &Stamp) -> Result<Option<u64>, Abort> {
        let Some(entry) = self.writes.find(variable) else { return Ok(None) };
        if self.writes[entry].state == State::Commutes {
            self.promote(entry)?;
        }
        Ok(Some(self.writes[entry].value))
    }

    /// Buffers a write.
    #[inline]
    fn write(&mut self, variable: &Stamp, kind: Kind, value: u64) -> Result<(), Abort> {
        let written = if self.writes.may_have(variable) { self.writes.find(variable) } else { None };
        match written {
            Some(entry) => self.overwrite(entry, value),
            None => {
                if self.mode != Mode::Logged
                    && let Err(abort) = self.needs_log()
                {
                    self.discard(kind, value);
                    return Err(abort);
                }
                self.writes.push(Write { stamp: variable, kind, value, locked: 0, state: State::Known });
            }
        }
        Ok(())
    }

    /// Replaces a buffered write. A nested part may want the old one back, and there may be references to it.
    #[cold]
    fn overwrite(&mut self, entry: usize, value: u64) {
        let Write { kind, value: old, state, .. } = self.writes[entry];
        if self.extras.part != 0 {
            self.add().undo.push(Undo { entry, value: old, state });
        } else {
            self.discard(kind, old);
        }
        self.writes[entry].value = value;
        self.writes[entry].state = State::Known;
    }

    /// Buffers a function for whatever value the commit finds.
    fn commute(&mut self, variable: &Stamp, kind: Kind, apply: Box<dyn Fn(u64) -> u64 + Send>) -> Result<(), Abort> {
        self.needs_log()?;
        let entry = match self.writes.find(variable) {
            Some(entry) if self.writes[entry].state == State::Known => {
                let value = apply(self.writes[entry].value);
                self.overwrite(entry, value);
                return Ok(());
            }
            Some(entry) => entry,
            None => {
                self.writes.push(Write { stamp: variable, kind, value: 0, locked: 0, state: State::Commutes });
                self.writes.len() - 1
            }
        };
        self.add().commutes.push(Commute { entry, apply });
        Ok(())
    }

    /// Reads a variable that so far only functions were buffered for: their result becomes an ordinary write.
    #[cold]
    fn promote(&mut self, entry: usize) -> Result<(), Abort> {
        let Write { stamp, kind, .. } = self.writes[entry];
        let mut value = match kind {
            Kind::Cell(cell) => {
                // SAFETY: the attempt borrows the cell.
                self.read_cell(unsafe { &*cell })?
            }
            Kind::Node(_) => {
                // SAFETY: the attempt borrows the variable.
                self.read_node(unsafe { &*stamp })?
            }
        };
        let mut is_ours = false;
        for n in 0..self.extras.commutes.len() {
            if self.extras.commutes[n].entry == entry {
                let after = (self.extras.commutes[n].apply)(value);
                if is_ours {
                    self.discard(kind, value);
                }
                (value, is_ours) = (after, true);
            }
        }
        self.overwrite(entry, value);
        Ok(())
    }

    /// Refuses what a snapshot cannot do.
    #[inline]
    pub(crate) fn needs_log(&mut self) -> Result<(), Abort> {
        match self.mode {
            Mode::Logged => Ok(()),
            Mode::Snapshot => Err(self.abort(Reason::NeedsLog)),
            Mode::SnapshotOnly => {
                panic!("a snapshot only reads; use `atomically` to write, to wait or to ask for versions")
            }
        }
    }

    /// The mark of the cell read last.
    fn last_seen(&self) -> u64 {
        self.reads.last().map_or(0, |read| read.seen & !stamp::FLAGS)
    }
}
