//! What is explored: who calls what, on which nodes, and what goes wrong.

use std::sync::Arc;

use enact_entities::{Call, EntityKey, Limits, Model, Strategy};

use crate::serial::States;

/// A transaction of a scenario.
#[derive(Clone, Debug)]
pub struct Transaction<E> {
    /// The coordinator that its client asks.
    pub coordinator: EntityKey,
    /// What it calls.
    pub calls: Vec<Call<E>>,
}

/// How often each fault may happen in one history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Crashes, each of one node.
    pub crashes: u8,
    /// Nodes whose journals are taken over, while they go on.
    pub take_overs: u8,
    /// Messages that arrive twice.
    pub doubles: u8,
    /// Timers that fire at one node.
    pub ticks: u8,
    /// Deadlines that pass at one node.
    pub lates: u8,
    /// Appends that are refused.
    pub refusals: u8,
    /// Appends that are in doubt.
    pub doubts: u8,
    /// Clients that ask again.
    pub repeats: u8,
}

/// The entities or coordinators that one node holds.
pub type Party = Vec<EntityKey>;

/// What is explored.
#[derive(Clone, Debug)]
pub struct Scenario<M: Model> {
    /// The contract.
    pub model: Arc<M>,
    /// Which transactions may be open together.
    pub strategy: Strategy,
    /// The limits of each entity.
    pub limits: Limits,
    /// The states in which entities begin.
    pub states: States<M>,
    /// Which parties are on which node.
    pub nodes: Vec<Party>,
    /// The transactions; at most 64.
    pub transactions: Vec<Transaction<M::Event>>,
    /// How many of them have begun when the history begins.
    pub begun: usize,
    /// Whether coordinators ask participants side by side.
    pub is_side_by_side: bool,
    /// Whether an append is durable before its node takes anything else, unless it crashes.
    pub is_prompt: bool,
    /// Whether participants share the journal of a coordinator on their node, as in one engine: they write nothing for it, and what
    /// machines of one node say to each other arrives at once.
    pub shares_journals: bool,
    /// What goes wrong.
    pub faults: Faults,
}
