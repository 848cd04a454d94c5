//! What the programs of the Savina suite draw and compute.
//!
//! Source: S. Imam and V. Sarkar, *Savina: an actor benchmark suite*, 2014; the generators are those of the published
//! programs, so that results can be compared between languages.
mod board;
mod colour;
mod filters;
mod growth;
mod java;
mod kernels;
mod lcg16;
mod pi;

pub use board::{Board, is_safe, search};
pub use colour::Colour;
pub use filters::{Filter, Ring};
pub use growth::{Answer, Growth, Shape};
pub use java::Java48;
pub use kernels::{Block, add_product, count_up, ln_walk, poly31, sine, spin, trapezoid};
pub use lcg16::Lcg16;
pub use pi::{Fixed, Series};
