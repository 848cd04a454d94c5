//! The tokio runtime that a system makes for itself when it is given none.
//!
//! A model has no clock and no I/O: its systems are given a runtime that nothing drives, so that no delay ever ends.
#[cfg(any(enact_loom, enact_shuttle))]
#[path = "io/model.rs"]
mod imp;
#[cfg(not(any(enact_loom, enact_shuttle)))]
#[path = "io/native.rs"]
mod imp;

pub(crate) use imp::{OwnIo, may_block, own_clock, start};
