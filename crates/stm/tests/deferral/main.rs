//! Locks that outlive their transaction, and atomic deferral. Tests are named after the cases of Zhou, Luchangco, Spear,
//! *Extending Transactional Memory with Atomic Deferral*, OPODIS 2017, and of its listings: `l1` is listing 1.

mod atomicity;
mod cancellation;
mod failures;
mod files;
mod locks;
mod log;
mod nesting;
mod order;
mod support;
mod threads;

use support::{BOTH, How, Task, elsewhere, is_held, message, object, once, panic_of, private_of, step_aside};
