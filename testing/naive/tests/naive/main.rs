//! The naive evaluator and the interpreter side by side.

mod agree;
mod limits;
