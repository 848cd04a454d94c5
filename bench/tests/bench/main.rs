//! The benchmarks: their oracles, and the program.

mod program;
mod savina;
mod vacation;
