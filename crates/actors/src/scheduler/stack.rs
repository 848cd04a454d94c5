//! How much of its stack a worker has left.
//!
//! A synchronous call runs the callee's turn on the caller's stack, and that turn may call again. How much each of them
//! needs is the user's business, so what counts is what is left: a call runs inline only while half of the stack is. So
//! every turn has half of a stack at least, wherever it begins. One that answers a turn which waits begins where that one
//! has begun, and needs no look of its own.
//!
//! A stack is as long as the thread was started with, and grows towards lower addresses; so the address of a local
//! variable says what is left of it.
use std::hint::black_box;
use std::ptr;

pub(super) struct Stack {
    /// The address of the middle.
    middle: usize,
}

impl Stack {
    /// The stack of this thread, which has begun here, and is so long.
    pub(super) fn begun_here(bytes: usize) -> Self {
        Self { middle: here().saturating_sub(bytes / 2) }
    }

    /// Whether half of it is left. The threads of a model share one, and an interpreter has none.
    pub(super) fn is_half_left(&self) -> bool {
        cfg!(any(enact_loom, enact_shuttle, miri)) || here() > self.middle
    }
}

/// Where this thread is on its stack.
#[inline(always)]
fn here() -> usize {
    let here = 0_u8;
    ptr::from_ref(black_box(&here)).addr()
}
