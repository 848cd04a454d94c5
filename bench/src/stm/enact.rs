//! Enact as a contender: cells for numbers, variables for everything else.

use enact_stm::{Abort, TCell, TVar, Tx, atomically, snapshot};
use enact_workloads::stm::{AsyncStm, Stm, hand_over};

use super::tree::Tree;

/// Enact; with `SNAPSHOTS` what only reads runs as a snapshot.
pub(super) struct Enact<const SNAPSHOTS: bool>;

impl<const SNAPSHOTS: bool> Stm for Enact<SNAPSHOTS> {
    type Cell = TCell<i64>;
    type Var<T: Clone + Send + Sync + 'static> = TVar<T>;
    type Tx<'t, 'env: 't> = Tx<'t, 'env>;
    type Abort = Abort;
    type Read<'t, T: Clone + Send + Sync + 'static> = &'t T;
    type Tree = Tree;

    fn cell(number: i64) -> TCell<i64> {
        TCell::new(number)
    }

    fn var<T: Clone + Send + Sync + 'static>(value: T) -> TVar<T> {
        TVar::new(value)
    }

    #[inline]
    fn atomically<'env, R, F>(block: F) -> R
    where
        F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort> + 'env,
    {
        atomically(block).run()
    }

    #[inline]
    fn read_only<'env, R, F>(block: F) -> R
    where
        F: for<'t> Fn(&mut Tx<'t, 'env>) -> Result<R, Abort> + 'env,
    {
        if SNAPSHOTS { snapshot(block) } else { atomically(block).run() }
    }

    #[inline]
    fn load<'t, 'env: 't>(tx: &mut Tx<'t, 'env>, cell: &'t TCell<i64>) -> Result<i64, Abort> {
        tx.read(cell)
    }

    #[inline]
    fn store<'t, 'env: 't>(tx: &mut Tx<'t, 'env>, cell: &'t TCell<i64>, number: i64) -> Result<(), Abort> {
        tx.write(cell, number).map(|_| ())
    }

    #[inline]
    fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Tx<'t, 'env>,
        var: &'t TVar<T>,
    ) -> Result<&'t T, Abort> {
        tx.read(var)
    }

    #[inline]
    fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>(
        tx: &mut Tx<'t, 'env>,
        var: &'t TVar<T>,
        value: T,
    ) -> Result<(), Abort> {
        tx.write(var, value).map(|_| ())
    }

    fn retry<'t, 'env: 't, R>(tx: &mut Tx<'t, 'env>) -> Result<R, Abort> {
        tx.retry()
    }
}

impl<const SNAPSHOTS: bool> AsyncStm for Enact<SNAPSHOTS> {
    fn hand_over(turn: &TCell<i64>, player: usize) -> impl Future<Output = bool> {
        atomically(move |tx| hand_over::<Self>(tx, turn, player))
    }
}
