//! The workloads against values of independent programs, and their oracles against mistakes.

mod dedup;
mod vacation;
