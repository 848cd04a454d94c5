//! The kernels by which calls and promises are compared, as plain functions, and the oracle of their results.
//!
//! Source: M. Andrieux, *Safe concurrent abstractions for multicore OCaml*, section 4.
mod matrix;
mod recursion;
mod wrong;

pub use matrix::{Factors, Product};
pub use recursion::{ackermann, collatz, hop, syracuse};
pub use wrong::{WrongKernel, verify_number};
