//! The programs of the suite, each as the one in `crates/bench/src/savina` says.
mod bank;
mod big;
mod chameneos;
mod cobwebbed_tree;
mod counting;
mod dictionary;
mod fork_join_creation;
mod fork_join_throughput;
mod logistic_map;
mod philosophers;
mod ping_pong;
mod queens;
mod sieve;
mod thread_ring;

use std::error::Error;

use serde_json::Value;

use crate::stage::{Library, Program, play};

/// Runs `benchmark` once on `library` and gives the answer.
pub(crate) fn run<L: Library>(library: &L, benchmark: &str, parameters: Value) -> Result<Value, Box<dyn Error>> {
    match benchmark {
        "pp" => once::<_, ping_pong::PingPong>(library, parameters),
        "count" => once::<_, counting::Counting>(library, parameters),
        "fjt" => once::<_, fork_join_throughput::ForkJoinThroughput>(library, parameters),
        "fjc" => once::<_, fork_join_creation::ForkJoinCreation>(library, parameters),
        "thr" => once::<_, thread_ring::ThreadRing>(library, parameters),
        "cham" => once::<_, chameneos::Chameneos>(library, parameters),
        "big" => once::<_, big::Big>(library, parameters),
        "cdict" => once::<_, dictionary::Dictionary>(library, parameters),
        "phil" => once::<_, philosophers::Philosophers>(library, parameters),
        "logm" => once::<_, logistic_map::LogisticMap>(library, parameters),
        "btx" => once::<_, bank::Bank>(library, parameters),
        "sieve" => once::<_, sieve::Sieve>(library, parameters),
        "uct" => once::<_, cobwebbed_tree::CobwebbedTree>(library, parameters),
        "nqn" => once::<_, queens::Queens>(library, parameters),
        unknown => Err(format!("there is no benchmark {unknown}").into()),
    }
}

fn once<L: Library, P: Program>(library: &L, parameters: Value) -> Result<Value, Box<dyn Error>> {
    let program: P = serde_json::from_value(parameters)?;
    Ok(serde_json::to_value(play(library, program)?)?)
}
