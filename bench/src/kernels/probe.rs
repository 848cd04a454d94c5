//! What a test sees of a kernel while it runs.

/// Is told of each call of a method and of each promise; the measured kernels have one that does nothing.
pub(super) trait Probe: Send + 'static {
    fn called() {}
    fn promised() {}
}

pub(super) struct Unwatched;

impl Probe for Unwatched {}
