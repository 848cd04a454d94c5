//! From text to a syntax tree.
//!
//! The grammar stands in the documentation of the crate.

mod expression;
mod layout;
mod parser;
mod token;
pub(crate) mod tree;

pub(crate) use parser::parse;
