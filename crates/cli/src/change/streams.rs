//! The same for entities in streams of NATS: those of one journal, or of all shards of several nodes.

use std::sync::Arc;

use enact_cluster::{JoinError, Servers, Standstill};
use enact_journal::Journal;
use enact_journal::nats::{Nats, OpenError, Options};

use super::{in_words, say_rolled_back};
use crate::contract::{self, Change, ContractError, Rollback, Undecided, version};
use crate::failure::Failure;
use crate::{args, spec};

pub(super) async fn run(args: &args::Contract) -> Result<(), Failure> {
    let entities = args.entities();
    let addresses = entities.cluster.as_deref().or(entities.journal.as_deref());
    let servers = &entities.security.servers(addresses.unwrap_or_default());
    match (args, entities.cluster.is_some()) {
        (args::Contract::Check(check), true) => {
            let shards = enact_cluster::shards(servers).await.map_err(|source| of_nodes(servers, source))?;
            examine(&check.spec, servers, 0..shards).await
        }
        (args::Contract::Check(check), false) => {
            let shard = entities.shard;
            examine(&check.spec, servers, shard..shard + 1).await
        }
        (args::Contract::Rollback(_), true) => {
            let standstill = Standstill::begin(servers).await.map_err(|source| of_nodes(servers, source))?;
            match take_back(&standstill, servers).await {
                Ok(rollback) => {
                    let ended = standstill.end(spec::digest(&rollback.sources)).await;
                    ended.map_err(|source| of_nodes(servers, source))?;
                    say_rolled_back(&rollback);
                    Ok(())
                }
                Err(failure) => {
                    standstill.cancel().await;
                    Err(failure)
                }
            }
        }
        (args::Contract::Rollback(_), false) => {
            let shard = entities.shard;
            let journal = Nats::open(Options { shard, ..Options::at(servers.clone()) }).await;
            let journal = journal.map_err(|source| of_streams(servers, shard, source))?;
            let refused = |source| refused(servers, shard, source);
            let rollback = Rollback::examine(&journal).await.map_err(refused)?;
            rollback.apply(&journal).await.map_err(refused)?;
            say_rolled_back(&rollback);
            Ok(())
        }
    }
}

/// Prints what becomes of the entities of all these shards.
async fn examine(files: &args::SpecFiles, servers: &Servers, shards: std::ops::Range<u16>) -> Result<(), Failure> {
    let sources = spec::read(&files.files)?;
    let spec = Arc::new(spec::check(sources.clone())?);
    let mut change = Change::First;
    for shard in shards {
        let journal = Nats::look(Options { shard, ..Options::at(servers.clone()) }).await;
        let journal = journal.map_err(|source| of_streams(servers, shard, source))?;
        let examined = contract::examine(&journal, &sources, &spec, Undecided::PassedOver).await;
        change = change.and(examined.map_err(|source| refused(servers, shard, source))?.change);
    }
    println!("{}", in_words(&change));
    Ok(())
}

/// Takes the last version back that a shard has; in no shard if one of them does not allow it.
async fn take_back(standstill: &Standstill, servers: &Servers) -> Result<Rollback, Failure> {
    let mut journals = Vec::new();
    for shard in 0..standstill.shards() {
        let journal = standstill.open(shard).await.map_err(|source| of_streams(servers, shard, source))?;
        let version = version(&journal).await.map_err(|source| refused(servers, shard, source))?;
        journals.push((shard, version, journal));
    }
    // A crash may have left some of them with the version before.
    let last = journals.iter().filter_map(|(_, version, _)| *version).max();
    let mut rollbacks = Vec::new();
    for (shard, version, journal) in journals {
        if version == last {
            let rollback = Rollback::examine(&journal).await;
            rollbacks.push((shard, rollback.map_err(|source| refused(servers, shard, source))?, journal));
        }
    }
    for (shard, rollback, journal) in &rollbacks {
        rollback.apply(journal).await.map_err(|source| refused(servers, *shard, source))?;
        // What is not closed is written all the same.
        drop(journal.close().await);
    }
    let (_, rollback, _) =
        rollbacks.pop().ok_or_else(|| refused(servers, 0, ContractError::NoEarlier { version: None }))?;
    Ok(rollback)
}

fn of_nodes(servers: &Servers, source: JoinError) -> Failure {
    Failure::Join { place: servers.to_string(), source }
}

fn of_streams(servers: &Servers, shard: u16, source: OpenError) -> Failure {
    Failure::Nats { place: place(servers, shard), source }
}

fn refused(servers: &Servers, shard: u16, source: ContractError) -> Failure {
    Failure::Contract { place: place(servers, shard), source }
}

fn place(servers: &Servers, shard: u16) -> String {
    format!("{servers} (shard {shard})")
}
