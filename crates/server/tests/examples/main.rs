//! The contracts in `examples/`, as their users meet them.
//!
//! Each has a story, and a run of random commands after each of which what must not get lost is counted. A run is made of
//! worlds of 300 steps. `ENACT_SCENARIO_STEPS` says how many steps are made of each example (300), `ENACT_SEED` which seed the
//! first world has (0).

mod chance;
mod claims;
mod hotel;
mod loyalty;
mod orders;
mod sepa;
mod served;
mod tickets;
mod trade;
