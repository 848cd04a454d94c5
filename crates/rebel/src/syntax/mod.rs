//! From text to a syntax tree.
//!
//! The grammar stands in the documentation of the crate.

pub(crate) mod breaks;
mod caller;
mod expression;
pub(crate) mod heading;
mod layout;
mod modules;
mod parser;
mod read;
mod result;
mod reuse;
pub(crate) mod token;
pub(crate) mod tree;

pub use heading::Heading;
pub(crate) use modules::Modules;
pub(crate) use parser::{Parse, Separation, parse};
