//! The `enact` program as its users see it.

mod attacks;
mod bench;
mod bench_actors;
mod bench_kernels;
mod bench_savina;
mod bench_stm;
mod check;
mod contract;
mod crash;
mod journal;
mod raw;
mod readme;
mod serve;
mod served;
