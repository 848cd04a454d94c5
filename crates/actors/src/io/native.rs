//! Runtimes of a normal build.
use std::future::ready;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, JoinHandle};

use enact_sync::unmodelled::LazyLock;
use tokio::runtime::{Builder, Handle};

use crate::{Promise, Resolver, scheduler};

/// A runtime of a system's own, on a thread of its own.
pub(crate) struct OwnIo {
    /// Dropped to end the thread.
    running: Resolver<()>,
    thread: JoinHandle<()>,
}

/// Starts a runtime with timers and I/O.
pub(crate) fn start() -> io::Result<(Handle, OwnIo)> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let tokio = runtime.handle().clone();
    let (ended, running) = Promise::pair();
    let thread = thread::Builder::new().name("enact-io".into()).spawn(move || {
        // Ends when the resolver is dropped.
        let _abandoned = runtime.block_on(ended);
    })?;
    Ok((tokio, OwnIo { running, thread }))
}

impl OwnIo {
    /// Ends the runtime and waits for its thread, but not on a worker or on that thread: these end by themselves.
    pub(crate) fn end(self) {
        let Self { running, thread } = self;
        drop(running);
        if !scheduler::is_worker() && thread.thread().id() != thread::current().id() && thread.join().is_err() {
            tracing::error!("the thread of the system's own runtime panicked");
        }
    }
}

/// Whether this thread may block: it does not drive a tokio runtime at the moment.
pub(crate) fn may_block() -> bool {
    // A thread without a handle drives none. Otherwise only tokio knows, and says so only by a panic of `block_on`.
    let Ok(runtime) = Handle::try_current() else { return true };
    catch_unwind(AssertUnwindSafe(|| runtime.block_on(ready(())))).is_ok()
}

/// For plain threads: a runtime whose only thread sleeps until the next alarm.
pub(crate) fn own_clock() -> Handle {
    static OWN_CLOCK: LazyLock<Handle> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime without I/O needs nothing that could be refused");
        let clock = runtime.handle().clone();
        thread::Builder::new()
            .name("enact-clock".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .expect("the process has room for one thread that keeps time");
        clock
    });
    OWN_CLOCK.clone()
}
