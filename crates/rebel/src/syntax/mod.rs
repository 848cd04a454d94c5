//! From text to a syntax tree.
//!
//! The grammar stands in the documentation of the crate.

pub(crate) mod breaks;
mod caller;
mod expression;
mod layout;
mod parser;
mod read;
mod result;
pub(crate) mod token;
pub(crate) mod tree;

pub(crate) use parser::{Parse, Separation, parse};
