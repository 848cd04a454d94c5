//! Models of the commit protocol: the production coordinator and participant, each node with a journal of its own, under every
//! fault of network, disk and machine.
//!
//! * [`Node`]: production machines over one journal, which crash and come back.
//! * [`Scenario`]: who calls what, on which nodes, and what goes wrong.
//! * [`Protocol`]: nodes and a network that loses, doubles and reorders, as a space of states to explore.
//! * [`Ledger`]: what journals say has happened, and whether it may have.
//! * [`Bank`]: the contract that they run.
//! * [`isolation`]: the smallest history that no serial order explains.
//! * [`serial`]: what transactions do one after the other.
//! * [`Decider`]: what all outcomes say to a request, without any knowledge of fields.
//! * [`Seeds`], [`Chance`]: runs at random, each named by its seed.
#![forbid(unsafe_code)]
#![expect(clippy::missing_panics_doc, reason = "what cannot fail in a model is expected, and a failure is a bug of it")]

mod bank;
mod chance;
mod decider;
pub mod isolation;
mod ledger;
mod node;
mod protocol;
mod scenario;
mod seeds;
pub mod serial;

pub use bank::{Act, Bank};
pub use chance::Chance;
pub use decider::{Decider, Entry, Judgement};
pub use ledger::Ledger;
pub use node::{COORDINATOR, Effect, Fate, Filed, Node, NodeOptions, Packet};
pub use protocol::{Action, End, Protocol, State, Told};
pub use scenario::{Faults, Party, Scenario, Transaction};
pub use seeds::Seeds;
