//! Actors through their public interface: turns and calls, promises, mailboxes, life and failure, and what they have of transactions.
#![cfg(not(any(enact_loom, enact_shuttle)))]

mod arguments;
mod blocking;
mod callers;
mod calls;
mod deadlocks;
mod guards;
mod handles;
mod life;
mod mailboxes;
mod nested;
mod open_transaction;
mod outside;
mod priorities;
mod process;
mod promises;
#[cfg(feature = "simulation")]
mod recording;
mod seed_programs;
mod supervision;
mod timers;
mod tracing_spans;
mod transactional_faults;
mod turns;
mod user_code;
mod wait_graphs;
mod waits;
