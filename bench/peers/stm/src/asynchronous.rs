//! The crate `async-stm`: reads share the value, the attempt lives in a thread-local variable, waiting suspends the task.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_stm::{Stm as Outcome, StmControl, TVar, atomically, retry};
use enact_workloads::stm::{AsyncStm, Cloning, CloningTree, Stm, hand_over};

pub(crate) struct Tasks;

/// Drives `transaction` on this thread: most end at their first poll, which needs no executor.
#[inline]
fn drive<R>(transaction: impl Future<Output = R>) -> R {
    let mut transaction = pin!(transaction);
    match transaction.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => futures_executor::block_on(transaction),
    }
}

impl Stm for Tasks {
    type Cell = TVar<i64>;
    type Var<T: Clone + Send + Sync + 'static> = TVar<T>;
    type Tx<'t, 'env: 't> = ();
    type Abort = StmControl;
    type Read<'t, T: Clone + Send + Sync + 'static> = Arc<T>;
    type Tree = CloningTree<Self>;

    fn cell(number: i64) -> TVar<i64> {
        TVar::new(number)
    }

    fn var<T: Clone + Send + Sync + 'static>(value: T) -> TVar<T> {
        TVar::new(value)
    }

    #[inline]
    fn atomically<'env, R, F>(block: F) -> R
    where
        F: Fn(&mut ()) -> Outcome<R> + 'env,
    {
        drive(atomically(|| block(&mut ())))
    }

    #[inline]
    fn load<'t, 'env: 't>((): &mut (), cell: &'t TVar<i64>) -> Outcome<i64> {
        cell.read().map(|number| *number)
    }

    #[inline]
    fn store<'t, 'env: 't>((): &mut (), cell: &'t TVar<i64>, number: i64) -> Outcome<()> {
        cell.write(number)
    }

    #[inline]
    fn read<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &'t TVar<T>) -> Outcome<Arc<T>> {
        var.read()
    }

    #[inline]
    fn write<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &'t TVar<T>, value: T) -> Outcome<()> {
        var.write(value)
    }

    fn retry<'t, 'env: 't, R>((): &mut ()) -> Outcome<R> {
        retry()
    }
}

impl Cloning for Tasks {
    #[inline]
    fn get<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &TVar<T>) -> Outcome<T> {
        var.read_clone()
    }

    #[inline]
    fn set<'t, 'env: 't, T: Clone + Send + Sync + 'static>((): &mut (), var: &TVar<T>, value: T) -> Outcome<()> {
        var.write(value)
    }
}

impl AsyncStm for Tasks {
    fn hand_over(turn: &TVar<i64>, player: usize) -> impl Future<Output = bool> {
        atomically(move || hand_over::<Self>(&mut (), turn, player))
    }
}
