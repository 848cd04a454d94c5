//! What each step of a transfer costs: one set that is derived from the paper, one that was measured here.
//!
//! A set is fixed once. Neither the number of nodes nor the strategy changes anything in it.

use serde::Serialize;

/// What the steps of the protocol take. CPU times are those of the node that takes the step.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Costs {
    pub(super) cores: Cores,
    /// CPU time at the node that the client asks: HTTP.
    pub(super) request_us: f64,
    /// CPU time of a new coordinator and its transfer entity.
    pub(super) coordinate_us: f64,
    /// CPU time of an account that admits or delays.
    pub(super) vote_us: f64,
    /// CPU time of the decision.
    pub(super) decide_us: f64,
    /// CPU time of an account that applies the effect, or drops it.
    pub(super) apply_us: f64,
    /// CPU time of a message between two shards, or to another node, at its receiver.
    pub(super) message_us: f64,
    /// CPU time of an append at the node that asks for it.
    pub(super) append_us: f64,
    pub(super) journal: Journal,
    pub(super) forced: Forced,
    /// How long a coordinator waits for votes before it aborts; the client fails then, and asks for another transfer.
    pub(super) patience_ms: Option<f64>,
    pub(super) shards: usize,
    /// How many more shards the fullest node may have than the emptiest.
    pub(super) apart_max: usize,
    pub(super) times: Times,
}

/// Where CPU time comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Cores {
    /// Each node has so many for itself.
    EachNode(usize),
    /// All nodes share so many: nodes on one machine.
    Shared(usize),
}

/// What a forced append waits for, besides a round trip between servers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Journal {
    /// Each node brings so many writers, which write one record at a time.
    Store { writers: usize, write_us: f64 },
    /// Each shard writes everything that waits at once: group commit.
    Groups { write_us: f64 },
}

/// What is durable before the protocol goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Forced {
    /// Every vote, that of the transfer entity too, the decision, and every outcome before the account goes on.
    EveryStep,
    /// Votes of accounts in other shards than the coordinator, and the decision.
    VotesElsewhere,
}

/// How the time of a step varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Times {
    /// Not at all.
    Fixed,
    /// Exponentially about its mean.
    Exponential,
}

impl Costs {
    /// Those of the paper's cluster, times `factor`, which is the one thing that is calibrated.
    ///
    /// # Sources
    /// *Path-Sensitive Atomic Commit*, table 1: the layers of the baselines do λ transactions a second on a node of four vCPU (section
    /// 5.2), so that a layer takes 4/λ of CPU time more than the one below. Two Cassandra nodes of four vCPU for each node of the
    /// application are full where the application is nearly so (`NoSync`), so a record takes 8/λ of theirs. One actor for the entity, one
    /// for the coordinator, three for the participants (section 5.2). Each operation is persisted before the next (section 4.2): three
    /// votes, a decision and the outcomes of two accounts, six records; nobody waits for that of the transfer. The public code gives votes a second, and has 100 shards for each class. Akka
    /// 2.5 as configured by default leaves a difference of ten shards between two nodes (`rebalance-threshold`). That times vary
    /// exponentially is assumed.
    pub(super) fn of_the_paper(factor: f64) -> Self {
        const VCPU_US: f64 = 4e6;
        const STORE_VCPU: usize = 2 * 4;
        const BARE: f64 = 16_751.0;
        const SIMPLE: f64 = 10_372.0;
        const SHARDING: f64 = 6_303.0;
        const PERSISTENCE: f64 = 1_928.0;
        let layer = |above: f64, below: f64| factor * (VCPU_US / above - VCPU_US / below);
        let actor_us = layer(SIMPLE, BARE);
        Self {
            cores: Cores::EachNode(4),
            request_us: factor * VCPU_US / BARE,
            coordinate_us: 5.0 * actor_us,
            vote_us: 0.0,
            decide_us: 0.0,
            apply_us: 0.0,
            message_us: layer(SHARDING, SIMPLE),
            append_us: layer(PERSISTENCE, SHARDING),
            journal: Journal::Store { writers: STORE_VCPU, write_us: factor * STORE_VCPU as f64 * 1e6 / PERSISTENCE },
            forced: Forced::EveryStep,
            patience_ms: Some(1_000.0),
            shards: 100,
            apart_max: 10,
            times: Times::Exponential,
        }
    }

    /// Those of Enact, as far as they were measured.
    ///
    /// # Sources
    /// `docs/performance.md`. *What a command costs*: a transfer takes 73 us of CPU time with 64 clients, of which HTTP has 26 %, the
    /// coordinator 30 %, three entities 17 %, the journal's writer 10 %, and new entities 6 %; what is left goes to the decision. *The
    /// experiments of the paper*: over two engines, where on average one participant is elsewhere, it takes twice as much, which the
    /// three messages with a participant share here. *Over NATS*: one append to three servers takes 0.72 ms where nothing else is under way.
    /// Four cores a node are the paper's. 256 shards are the most that a cluster has; nodes differ by one. That times vary
    /// exponentially is assumed, and that there are as many servers of NATS as nodes need.
    pub(super) fn measured() -> Self {
        Self::of_enact(73.0, 73.0 * 0.1, Journal::Groups { write_us: 720.0 })
    }

    /// Those of Enact where all nodes, the servers of NATS and the clients share two cores.
    ///
    /// # Sources
    /// `docs/performance.md`, *Over NATS*: over three servers, `enact` takes 130 us of CPU time for a transfer in one shard, with one append, and
    /// two cores do 5,760 of them a second. What is missing to two full cores, 217 us, is that of the servers and of the
    /// clients, and is counted as that of the append. There are 12 shards by default. The rest is as in [`measured`](Self::measured).
    pub(super) fn on_one_machine() -> Self {
        let costs = Self::of_enact(130.0, 217.0, Journal::Groups { write_us: 720.0 });
        Self { cores: Cores::Shared(2), shards: 12, ..costs }
    }

    /// A transfer takes so much CPU time of the program, and an append so much of whatever it needs.
    fn of_enact(transfer_us: f64, append_us: f64, journal: Journal) -> Self {
        let part = |percent: f64| transfer_us * percent / 100.0;
        let entity_us = part(17.0) / 3.0;
        Self {
            cores: Cores::EachNode(4),
            request_us: part(26.0),
            coordinate_us: part(30.0 + 6.0) + entity_us,
            vote_us: entity_us / 2.0,
            decide_us: part(11.0),
            apply_us: entity_us / 2.0,
            message_us: transfer_us / 3.0,
            append_us,
            journal,
            forced: Forced::VotesElsewhere,
            patience_ms: None,
            shards: 256,
            apart_max: 1,
            times: Times::Exponential,
        }
    }
}
