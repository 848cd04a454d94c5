//! Nodes of one process over real servers of NATS.

mod bank;
mod barriers;
mod contract;
mod guarding;
mod joining;
mod leaving;
mod moving;
mod sharing;
mod verifying;
