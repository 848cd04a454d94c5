//! The runtime of a model build.
use std::io;

use enact_sync::unmodelled::LazyLock;
use tokio::runtime::{Builder, Handle};

/// Nothing: there is no thread to end.
pub(crate) struct OwnIo;

impl OwnIo {
    pub(crate) fn end(self) {
        let Self = self;
    }
}

/// The runtime that nothing drives.
pub(crate) fn start() -> io::Result<(Handle, OwnIo)> {
    Ok((own_clock(), OwnIo))
}

/// Whether this thread may block: none of a model drives a runtime.
pub(crate) fn may_block() -> bool {
    true
}

/// A clock whose alarms never ring.
pub(crate) fn own_clock() -> Handle {
    static STOPPED: LazyLock<Handle> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().build().expect("a runtime without drivers needs nothing");
        let handle = runtime.handle().clone();
        // What is spawned on it must neither run nor be dropped beside a model.
        std::mem::forget(runtime);
        handle
    });
    STOPPED.clone()
}
