//! Questions to a projection of an engine, compared with a look at every object.

mod against_a_scan;
mod questions;
mod shop;
