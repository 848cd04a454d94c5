//! The same for the entities of several nodes, in all of their shards.

use std::sync::Arc;

use enact_cluster::{Agreed, JoinError, OpenError, ShardJournals, Standstill, agreed};
use enact_journal::Journal;

use super::{in_words, say_rolled_back};
use crate::args::Nodes;
use crate::contract::{self, Change, ContractError, Rollback, Undecided, version};
use crate::failure::Failure;
use crate::{args, spec};

pub(super) async fn run(args: &args::Contract, nodes: &Nodes) -> Result<(), Failure> {
    let Nodes { servers, journals } = nodes;
    let of_nodes = |source: JoinError| Failure::Join { place: servers.to_string(), source };
    match args {
        args::Contract::Check(check) => examine(&check.spec, &agreed(servers, journals).await.map_err(of_nodes)?).await,
        args::Contract::Rollback(_) => {
            let standstill = Standstill::begin(servers, journals).await.map_err(of_nodes)?;
            match take_back(&standstill).await {
                Ok(rollback) => {
                    standstill.end(spec::digest(&rollback.sources)).await.map_err(of_nodes)?;
                    say_rolled_back(&rollback);
                    Ok(())
                }
                Err(failure) => {
                    standstill.cancel().await;
                    Err(failure)
                }
            }
        }
    }
}

/// Prints what becomes of the entities of all these shards.
async fn examine(files: &args::SpecFiles, Agreed { shards, journals, .. }: &Agreed) -> Result<(), Failure> {
    let sources = spec::read(&files.files)?;
    let spec = Arc::new(spec::check(sources.clone())?);
    let mut change = Change::First;
    for shard in 0..*shards {
        let journal = journals.look(shard).await.map_err(|source| unopened(journals, shard, source))?;
        let examined = contract::examine(&journal, &sources, &spec, Undecided::PassedOver).await;
        change = change.and(examined.map_err(|source| refused(journals, shard, source))?.change);
    }
    println!("{}", in_words(&change));
    Ok(())
}

/// Takes the last version back that a shard has; in no shard if one of them does not allow it.
async fn take_back(standstill: &Standstill) -> Result<Rollback, Failure> {
    let all = standstill.journals();
    let mut journals = Vec::new();
    for shard in 0..standstill.shards() {
        let journal = standstill.open(shard).await.map_err(|source| unopened(all, shard, source))?;
        let version = version(&journal).await.map_err(|source| refused(all, shard, source))?;
        journals.push((shard, version, journal));
    }
    // A crash may have left some of them with the version before.
    let last = journals.iter().filter_map(|(_, version, _)| *version).max();
    let mut rollbacks = Vec::new();
    for (shard, version, journal) in journals {
        if version == last {
            let rollback = Rollback::examine(&journal).await;
            rollbacks.push((shard, rollback.map_err(|source| refused(all, shard, source))?, journal));
        }
    }
    for (shard, rollback, journal) in &rollbacks {
        rollback.apply(journal).await.map_err(|source| refused(all, *shard, source))?;
        // What is not closed is written all the same.
        drop(journal.close().await);
    }
    let (_, rollback, _) =
        rollbacks.pop().ok_or_else(|| refused(all, 0, ContractError::NoEarlier { version: None }))?;
    Ok(rollback)
}

fn unopened(journals: &ShardJournals, shard: u16, source: OpenError) -> Failure {
    Failure::Shard { place: journals.place(shard), source: Box::new(source) }
}

fn refused(journals: &ShardJournals, shard: u16, source: ContractError) -> Failure {
    Failure::Contract { place: journals.place(shard), source }
}
