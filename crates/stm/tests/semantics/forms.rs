//! The ways to run a transaction, so that a case can be shown in each.
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use enact_stm::{Atomically, Body, GaveUp, Limited, Variable, atomically};

use crate::executor;

/// How a transaction is driven.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Form {
    /// `.run()`, on a thread that sleeps.
    Thread,
    /// `.await` under tokio.
    Tokio,
    /// `.await` under the executor of these tests.
    Own,
}

pub(crate) const FORMS: [Form; 3] = [Form::Thread, Form::Tokio, Form::Own];

impl Form {
    pub(crate) fn run<'env, B: Body<'env>>(self, transaction: Atomically<'env, B, B::Output>) -> B::Output {
        match self {
            Self::Thread => transaction.run(),
            Self::Tokio => tokio().block_on(transaction),
            Self::Own => executor::block_on(transaction),
        }
    }

    pub(crate) fn run_limited<'env, B: Body<'env>>(
        self,
        transaction: Limited<'env, B, B::Output>,
    ) -> Result<B::Output, GaveUp> {
        match self {
            Self::Thread => transaction.run(),
            Self::Tokio => tokio().block_on(transaction),
            Self::Own => executor::block_on(transaction),
        }
    }
}

pub(crate) fn tokio() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime without drivers")
}

/// Runs `work` on another thread, and returns when it is done: in the middle of a closure this is a forced interleaving.
pub(crate) fn elsewhere<R: Send>(work: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(work).join()).unwrap_or_else(|panic| resume_unwind(panic))
}

/// A transaction of its own that writes `value`.
pub(crate) fn set<V: Variable>(variable: &V, value: V::Value)
where
    V::Value: Clone,
{
    atomically(|tx| tx.write(variable, value.clone()).map(drop)).run();
}

/// The message of the panic in which `work` ends.
pub(crate) fn panic_of<R>(work: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(work)).err().expect("the work panics");
    message(&*panic)
}

fn message(panic: &(dyn Any + Send)) -> String {
    let literal = panic.downcast_ref::<&str>().map(ToString::to_string);
    literal.or_else(|| panic.downcast_ref::<String>().cloned()).expect("the panic has a message")
}
