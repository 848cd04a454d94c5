//! Transactional variables: what they look like in memory, and what a user may do with one outside a transaction.

pub(crate) mod cell;
pub(crate) mod link;
pub(crate) mod node;
mod var;
pub(crate) mod versioned_lock;
mod word;

pub use cell::TCell;
pub use link::{Linked, TLink};
pub use var::TVar;
pub use word::Word;
