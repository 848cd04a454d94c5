//! The `enact` program as its users see it.

mod attacks;
mod check;
mod contract;
mod crash;
mod journal;
mod raw;
mod readme;
mod serve;
mod served;
