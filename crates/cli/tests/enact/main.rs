//! The `enact` program as its users see it.

mod check;
mod contract;
mod crash;
mod readme;
mod serve;
mod served;
