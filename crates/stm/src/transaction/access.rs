//! How a transaction reads and writes each kind of variable.
#![expect(unsafe_code, reason = "an attempt reads values that its epoch protects")]
use std::any::TypeId;

use enact_sync::atomic::Ordering;
use enact_sync::unmodelled::Arc;

use super::log::{State, Write};
use super::{Abort, Descriptor, Mode, Reason, Tx};
use crate::transaction::effects::{Commute, Condition, Undo};
use crate::variable::cell::CellCore;
use crate::variable::link::{self, Linked};
use crate::variable::node::{self, Form, Node, Type};
use crate::variable::versioned_lock::{self, VersionedLock};
use crate::variable::{TCell, TLink, TVar, Word};

mod sealed {
    pub trait Sealed {}
}

impl<T: Send + Sync + 'static> sealed::Sealed for TVar<T> {}
impl<W: Word> sealed::Sealed for TCell<W> {}
impl<T: Send + Sync + 'static> sealed::Sealed for TLink<T> {}
impl<V: Variable> sealed::Sealed for Arc<V> {}

/// Any transactional variable: a [`TVar`], a [`TCell`], a [`TLink`], or an [`Arc`] of one. Sealed: its methods are for
/// a [`Tx`] to call.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transactional variable",
    label = "neither a `TVar` nor a `TCell`, nor an `Arc` of one",
    note = "put the value into a `TVar<{Self}>`, or into a `TCell` if it is a number, a `bool` or a `char`",
    note = "of a structure, name the field: `tx.read(&account.balance)`"
)]
pub trait Variable: sealed::Sealed {
    /// The type of the values.
    type Value;
    /// What a read gives: a reference into the snapshot for a [`TVar`], the value itself for a [`TCell`], a [`Linked`] for
    /// a [`TLink`] that leads somewhere.
    type Read<'t>: Copy
    where
        Self: 't;

    #[doc(hidden)]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Self::Read<'t>, Abort>;

    #[doc(hidden)]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: Self::Value) -> Result<Self::Read<'t>, Abort>;

    #[doc(hidden)]
    fn update<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        change: impl FnOnce(Self::Read<'t>) -> Self::Value,
    ) -> Result<Self::Read<'t>, Abort>;

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
        let descriptor = &mut *tx.descriptor;
        let bits = if descriptor.writes.may_have(&self.core.versioned_lock) {
            descriptor.read_written_cell(&self.core)?
        } else {
            descriptor.read_cell(&self.core)?
        };
        Ok(W::from_bits(bits))
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: W) -> Result<W, Abort> {
        tx.descriptor.write((&raw const self.core).cast(), None, value.into_bits())?;
        Ok(value)
    }

    #[inline]
    fn update<'t>(&'t self, tx: &mut Tx<'t, '_>, change: impl FnOnce(Self::Read<'t>) -> W) -> Result<W, Abort> {
        let descriptor = &mut *tx.descriptor;
        let core = &raw const self.core;
        let entry = descriptor.find_known(core.cast())?;
        let seen = match entry {
            Some(entry) => descriptor.writes[entry].value,
            None => descriptor.read_cell(&self.core)?,
        };
        let value = change(W::from_bits(seen));
        descriptor.write_at(entry, core.cast(), None, value.into_bits())?;
        Ok(value)
    }

    fn commute<'t>(&'t self, tx: &mut Tx<'t, '_>, function: impl Fn(&W) -> W + Send + 'static) -> Result<(), Abort> {
        let apply = move |bits| function(&W::from_bits(bits)).into_bits();
        tx.descriptor.commute((&raw const self.core).cast(), None, Box::new(apply))
    }

    fn with_value<R>(value: W, look: impl FnOnce(&W) -> R) -> R {
        look(&value)
    }

    fn condition(test: impl Fn(&W) -> bool + Send + Sync + 'static) -> Condition {
        Condition { of: None, test: Arc::new(move |bits| test(&W::from_bits(bits))) }
    }

    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        tx.descriptor.needs_log()?;
        tx.descriptor.read_cell(&self.core)?;
        Ok(tx.descriptor.last_seen())
    }
}

impl<T: Send + Sync + 'static> Variable for TVar<T> {
    type Value = T;
    type Read<'t> = &'t T;

    #[inline]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<&'t T, Abort> {
        let descriptor = &mut *tx.descriptor;
        let address = if descriptor.writes.may_have(&self.versioned_lock) {
            descriptor.read_written_node(&self.versioned_lock)?
        } else {
            descriptor.read_node(&self.versioned_lock)?
        };
        // SAFETY: a node of this variable, protected or unpublished until the attempt ends; `'t` is the attempt.
        Ok(unsafe { node::value::<T>(address) })
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: T) -> Result<&'t T, Abort> {
        let descriptor = &mut *tx.descriptor;
        descriptor.pin();
        let address = Node::leak(value, 0, descriptor.slot.pin.newest());
        descriptor.write(&self.versioned_lock, Some(Node::<T>::TYPE), address)?;
        // SAFETY: written by this attempt, which frees what it does not publish only when it has ended.
        Ok(unsafe { node::value::<T>(address) })
    }

    #[inline]
    fn update<'t>(&'t self, tx: &mut Tx<'t, '_>, change: impl FnOnce(&'t T) -> T) -> Result<&'t T, Abort> {
        let descriptor = &mut *tx.descriptor;
        let entry = descriptor.find_known(&self.versioned_lock)?;
        let seen = match entry {
            Some(entry) => descriptor.writes[entry].value,
            None => descriptor.read_node(&self.versioned_lock)?,
        };
        // SAFETY: as in `read`.
        let value = change(unsafe { node::value::<T>(seen) });
        // Pinned by the read, or by what was written before.
        let address = Node::leak(value, 0, descriptor.slot.pin.newest());
        descriptor.write_at(entry, &self.versioned_lock, Some(Node::<T>::TYPE), address)?;
        // SAFETY: as in `write`.
        Ok(unsafe { node::value::<T>(address) })
    }

    fn commute<'t>(&'t self, tx: &mut Tx<'t, '_>, function: impl Fn(&T) -> T + Send + 'static) -> Result<(), Abort> {
        tx.descriptor.pin();
        let birth = tx.descriptor.slot.pin.newest();
        let apply = move |address| {
            // SAFETY: the address of a node of this variable, which the caller protects.
            let value = function(unsafe { node::value::<T>(address) });
            Node::leak(value, 0, birth)
        };
        tx.descriptor.commute(&self.versioned_lock, Some(Node::<T>::TYPE), Box::new(apply))
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
        tx.descriptor.needs_log()?;
        let address = tx.descriptor.read_node(&self.versioned_lock)?;
        // SAFETY: the node is protected until the attempt ends.
        Ok(unsafe { node::header(address) }.mark.load(Ordering::Relaxed))
    }
}

impl<T: Send + Sync + 'static> Variable for TLink<T> {
    type Value = Option<Arc<T>>;
    type Read<'t> = Option<Linked<'t, T>>;

    #[inline]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<Option<Linked<'t, T>>, Abort> {
        let descriptor = &mut *tx.descriptor;
        let link = &self.core.cell;
        let seen = if descriptor.writes.is_empty() { descriptor.see_link(link) } else { None };
        let address = match seen {
            Some(address) => address,
            None => descriptor.read_written_link(link)?,
        };
        // SAFETY: a count of this link's, kept until the attempt ends; `'t` is the attempt.
        Ok(unsafe { Linked::at(address) })
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: Option<Arc<T>>) -> Result<Option<Linked<'t, T>>, Abort> {
        let descriptor = &mut *tx.descriptor;
        descriptor.pin();
        let address = link::into_address(value);
        descriptor.write((&raw const self.core).cast(), Some(Self::TYPE), address)?;
        // SAFETY: the count is this attempt's, which gives back what it does not publish only when it has ended.
        Ok(unsafe { Linked::at(address) })
    }

    #[inline]
    fn update<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        change: impl FnOnce(Option<Linked<'t, T>>) -> Option<Arc<T>>,
    ) -> Result<Option<Linked<'t, T>>, Abort> {
        let descriptor = &mut *tx.descriptor;
        let core = &raw const self.core;
        let entry = descriptor.find_known(core.cast())?;
        let seen = match entry {
            Some(entry) => descriptor.writes[entry].value,
            None => descriptor.read_link(&self.core.cell)?,
        };
        // SAFETY: as in `read`.
        let address = link::into_address(change(unsafe { Linked::at(seen) }));
        descriptor.write_at(entry, core.cast(), Some(Self::TYPE), address)?;
        // SAFETY: as in `write`.
        Ok(unsafe { Linked::at(address) })
    }

    fn commute<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        function: impl Fn(&Option<Arc<T>>) -> Option<Arc<T>> + Send + 'static,
    ) -> Result<(), Abort> {
        tx.descriptor.pin();
        let apply = move |address| {
            // SAFETY: the address of a count of this link's, which the caller keeps.
            link::into_address(unsafe { link::with(address, &function) })
        };
        tx.descriptor.commute((&raw const self.core).cast(), Some(Self::TYPE), Box::new(apply))
    }

    fn with_value<R>(value: Option<Linked<'_, T>>, look: impl FnOnce(&Option<Arc<T>>) -> R) -> R {
        // SAFETY: the count is kept for as long as the attempt.
        unsafe { link::with(value.map_or(0, Linked::address), look) }
    }

    fn condition(test: impl Fn(&Option<Arc<T>>) -> bool + Send + Sync + 'static) -> Condition {
        let test = move |published| {
            // SAFETY: an address of a count of a `T`, says `of`; called while the commit that has published it is
            // pinned in the epoch of its birth, so that the count is kept.
            unsafe { link::with(published, &test) }
        };
        Condition { of: Some(Self::TYPE.id), test: Arc::new(test) }
    }

    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        tx.descriptor.needs_log()?;
        tx.descriptor.read_link(&self.core.cell)?;
        Ok(tx.descriptor.last_seen())
    }
}

/// A shared variable is used as the variable itself.
impl<V: Variable> Variable for Arc<V> {
    type Value = V::Value;
    type Read<'t>
        = V::Read<'t>
    where
        Self: 't;

    #[inline]
    fn read<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<V::Read<'t>, Abort> {
        (**self).read(tx)
    }

    #[inline]
    fn write<'t>(&'t self, tx: &mut Tx<'t, '_>, value: V::Value) -> Result<V::Read<'t>, Abort> {
        (**self).write(tx, value)
    }

    #[inline]
    fn update<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        change: impl FnOnce(V::Read<'t>) -> V::Value,
    ) -> Result<V::Read<'t>, Abort> {
        (**self).update(tx, change)
    }

    fn commute<'t>(
        &'t self,
        tx: &mut Tx<'t, '_>,
        function: impl Fn(&V::Value) -> V::Value + Send + 'static,
    ) -> Result<(), Abort> {
        (**self).commute(tx, function)
    }

    fn with_value<R>(value: V::Read<'_>, look: impl FnOnce(&V::Value) -> R) -> R {
        V::with_value(value, look)
    }

    fn condition(test: impl Fn(&V::Value) -> bool + Send + Sync + 'static) -> Condition {
        V::condition(test)
    }

    fn version<'t>(&'t self, tx: &mut Tx<'t, '_>) -> Result<u64, Abort> {
        (**self).version(tx)
    }
}

impl Tx<'_, '_> {
    pub(crate) fn has_written(&self, cell: &TCell<u64>) -> bool {
        self.descriptor.writes.find(&cell.core.versioned_lock).is_some()
    }
}

impl Descriptor {
    /// Apart, so that reads of what was not written stay small enough to be inlined.
    #[inline(never)]
    fn read_written_cell(&mut self, cell: &CellCore) -> Result<u64, Abort> {
        self.find_written(&cell.versioned_lock)?.map_or_else(|| self.read_cell(cell), Ok)
    }

    #[inline(never)]
    fn read_written_node(&mut self, variable: &VersionedLock) -> Result<u64, Abort> {
        self.find_written(variable)?.map_or_else(|| self.read_node(variable), Ok)
    }

    #[inline(never)]
    fn read_written_link(&mut self, link: &CellCore) -> Result<u64, Abort> {
        self.find_written(&link.versioned_lock)?.map_or_else(|| self.read_link(link), Ok)
    }

    /// What this attempt has written to a variable, if anything.
    #[inline]
    fn find_written(&mut self, variable: &VersionedLock) -> Result<Option<u64>, Abort> {
        Ok(self.find_known(variable)?.map(|entry| self.writes[entry].value))
    }

    /// Where the write of a variable is, if there is one; its value is there.
    #[inline]
    fn find_known(&mut self, variable: *const VersionedLock) -> Result<Option<usize>, Abort> {
        if self.writes.may_have(variable) { self.find_at_length(variable) } else { Ok(None) }
    }

    #[inline(never)]
    fn find_at_length(&mut self, variable: *const VersionedLock) -> Result<Option<usize>, Abort> {
        let entry = self.writes.find(variable);
        if let Some(entry) = entry
            && self.writes[entry].state == State::Commutes
        {
            self.promote(entry)?;
        }
        Ok(entry)
    }

    /// Buffers a write.
    #[inline]
    fn write(&mut self, variable: *const VersionedLock, of: Option<&'static Type>, value: u64) -> Result<(), Abort> {
        if self.writes.may_have(variable) {
            let entry = self.writes.find(variable);
            return self.write_at(entry, variable, of, value);
        }
        self.write_first(variable, of, value)
    }

    /// Buffers a write of a variable whose entry has been looked for.
    #[inline]
    fn write_at(
        &mut self,
        entry: Option<usize>,
        variable: *const VersionedLock,
        of: Option<&'static Type>,
        value: u64,
    ) -> Result<(), Abort> {
        match entry {
            None => self.write_first(variable, of, value),
            Some(entry) => {
                self.overwrite(entry, value);
                Ok(())
            }
        }
    }

    /// Buffers the first write of a variable.
    #[inline]
    fn write_first(
        &mut self,
        variable: *const VersionedLock,
        of: Option<&'static Type>,
        value: u64,
    ) -> Result<(), Abort> {
        if self.mode != Mode::Logged
            && let Err(abort) = self.needs_log()
        {
            self.discard(of, value);
            return Err(abort);
        }
        self.writes.push(Write { versioned_lock: variable, of, value, locked: 0, state: State::Known });
        Ok(())
    }

    /// Replaces a buffered write. A nested part may want the old one back, and there may be references to it.
    #[cold]
    fn overwrite(&mut self, entry: usize, value: u64) {
        let Write { of, value: old, state, .. } = self.writes[entry];
        if self.extras.part != 0 {
            self.add().undo.push(Undo { entry, value: old, state });
        } else {
            self.discard(of, old);
        }
        self.writes[entry].value = value;
        self.writes[entry].state = State::Known;
    }

    /// Buffers a function for whatever value the commit finds.
    fn commute(
        &mut self,
        variable: *const VersionedLock,
        of: Option<&'static Type>,
        apply: Box<dyn Fn(u64) -> u64 + Send>,
    ) -> Result<(), Abort> {
        self.needs_log()?;
        let entry = match self.writes.find(variable) {
            Some(entry) if self.writes[entry].state == State::Known => {
                let value = apply(self.writes[entry].value);
                self.overwrite(entry, value);
                return Ok(());
            }
            Some(entry) => entry,
            None => {
                self.writes.push(Write { versioned_lock: variable, of, value: 0, locked: 0, state: State::Commutes });
                self.writes.len() - 1
            }
        };
        self.add().commutes.push(Commute { entry, apply });
        Ok(())
    }

    /// Reads a variable that so far only functions were buffered for: their result becomes an ordinary write.
    #[cold]
    fn promote(&mut self, entry: usize) -> Result<(), Abort> {
        let Write { versioned_lock, of, .. } = self.writes[entry];
        let mut value = match of.map(|of| of.form) {
            None => {
                // SAFETY: the attempt borrows the cell.
                self.read_cell(unsafe { &*versioned_lock.cast() })?
            }
            Some(Form::Link) => {
                // SAFETY: the attempt borrows the link, which begins with a cell.
                self.read_link(unsafe { &*versioned_lock.cast() })?
            }
            Some(Form::Node) => {
                // SAFETY: the attempt borrows the variable.
                self.read_node(unsafe { &*versioned_lock })?
            }
        };
        let mut is_ours = false;
        for n in 0..self.extras.commutes.len() {
            if self.extras.commutes[n].entry == entry {
                if is_ours {
                    // Before the function is called, which may panic; discarded values stay until the attempt has ended.
                    self.discard(of, value);
                }
                value = (self.extras.commutes[n].apply)(value);
                is_ours = true;
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
        self.reads.last().map_or(0, |read| read.seen & !versioned_lock::FLAGS)
    }
}
