//! Transactional actors, case by case: what messages, `become` and `spawn` mean in a definitive turn, in a tentative turn
//! and inside a transaction. A test is named after the case (`ta_..` the table and the rules, `figure_..` the figures,
//! `s0_..` the programs) and after the rule that it shows.
//!
//! Most cases are shown for both kinds of actors: `eager` ones are speculative, `patient` ones let an undecided message
//! wait. What comes out is the same; only what overlaps differs, and where a case says something about that, it says it
//! under `A::IS_SPECULATIVE`.
//!
//! In a program of their own, in which most take turns: other tests may make a transaction start again.
#![cfg(not(any(enact_loom, enact_shuttle)))]

#[macro_use]
mod subject;
mod chains;
mod endings;
mod figures;
mod handlers;
mod mailboxes;
mod panics;
mod probe;
mod programs;
mod rules;
mod side_effects;
mod spawning;
mod table;
mod transactions;
mod undecided;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Has the transactions of this process for itself until dropped: an attempt that another test makes start again has sent
/// other messages.
fn my_turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
