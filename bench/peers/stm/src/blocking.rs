//! The crates `stm` and `fast-stm`, one a fork of the other with the same interface: reads clone the value, waiting blocks
//! the thread.

use std::ops::Deref;

use enact_workloads::stm::{Cloning, CloningTree, Stm};

/// A value that was cloned out of its variable.
pub(crate) struct Owned<T>(T);

impl<T> Deref for Owned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// Implements the contender `$peer` by the crate `$stm`.
macro_rules! contender {
    ($peer:ident, $stm:ident) => {
        /// The crate of that name.
        pub(crate) struct $peer;

        impl Stm for $peer {
            type Cell = $stm::TVar<i64>;
            type Var<T: Clone + Send + Sync + 'static> = $stm::TVar<T>;
            type Tx<'t, 'env: 't> = $stm::Transaction;
            type Abort = $stm::StmError;
            type Read<'t, T: Clone + Send + Sync + 'static> = Owned<T>;
            type Tree = CloningTree<Self>;

            fn cell(number: i64) -> Self::Cell {
                $stm::TVar::new(number)
            }

            fn var<T: Clone + Send + Sync + 'static>(value: T) -> Self::Var<T> {
                $stm::TVar::new(value)
            }

            #[inline]
            fn atomically<'env, R, F>(block: F) -> R
            where
                F: Fn(&mut $stm::Transaction) -> Result<R, Self::Abort> + 'env,
            {
                $stm::atomically(block)
            }

            #[inline]
            fn load<'t, 'env: 't>(tx: &mut $stm::Transaction, cell: &'t Self::Cell) -> Result<i64, Self::Abort> {
                cell.read(tx)
            }

            #[inline]
            fn store<'t, 'env: 't>(
                tx: &mut $stm::Transaction,
                cell: &'t Self::Cell,
                number: i64,
            ) -> Result<(), Self::Abort> {
                cell.write(tx, number)
            }

            #[inline]
            fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
                tx: &mut $stm::Transaction,
                var: &'t Self::Var<T>,
            ) -> Result<Owned<T>, Self::Abort> {
                var.read(tx).map(Owned)
            }

            #[inline]
            fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
                tx: &mut $stm::Transaction,
                var: &'t Self::Var<T>,
                value: T,
            ) -> Result<(), Self::Abort> {
                var.write(tx, value)
            }

            fn retry<'t, 'env: 't, R>(_: &mut $stm::Transaction) -> Result<R, Self::Abort> {
                $stm::retry()
            }
        }

        impl Cloning for $peer {
            #[inline]
            fn get<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
                tx: &mut $stm::Transaction,
                var: &Self::Var<T>,
            ) -> Result<T, Self::Abort> {
                var.read(tx)
            }

            #[inline]
            fn set<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
                tx: &mut $stm::Transaction,
                var: &Self::Var<T>,
                value: T,
            ) -> Result<(), Self::Abort> {
                var.write(tx, value)
            }
        }
    };
}

contender!(RustStm, stm);
contender!(FastStm, fast_stm);
