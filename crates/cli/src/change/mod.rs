//! `enact contract`: what becomes of the entities of a data directory, of streams of NATS or of tables of PostgreSQL, when their
//! specification changes.

#[cfg(feature = "nats")]
mod nodes;
#[cfg(feature = "nats")]
mod streams;
#[cfg(feature = "postgres")]
mod tables;

use std::path::Path;
use std::sync::Arc;

use enact_journal::{Embedded, Journal, Options};

use crate::contract::{self, Change, ContractError, Rollback, Undecided};
use crate::failure::Failure;
use crate::{args, spec};

pub(crate) fn run(args: &args::Contract) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    let entities = args.entities();
    #[cfg(not(feature = "nats"))]
    if entities.cluster.is_some() {
        return Err(Failure::WithoutNats);
    }
    #[cfg(feature = "nats")]
    if let Some(nodes) = entities.of_nodes() {
        return runtime.block_on(nodes::run(args, &nodes?));
    }
    if entities.database().is_some() {
        #[cfg(not(feature = "postgres"))]
        return Err(Failure::WithoutPostgres);
        #[cfg(feature = "postgres")]
        return runtime.block_on(tables::run(args));
    }
    if entities.journal.is_some() {
        #[cfg(not(feature = "nats"))]
        return Err(Failure::WithoutNats);
        #[cfg(feature = "nats")]
        return runtime.block_on(streams::run(args));
    }
    let path = &entities.data;
    match args {
        args::Contract::Check(check) => {
            let sources = spec::read(&check.spec.files)?;
            let spec = Arc::new(spec::check(sources.clone())?);
            let journal = open(path)?;
            let examined = runtime.block_on(contract::examine(&journal, &sources, &spec, Undecided::Served));
            println!("{}", in_words(&examined.map_err(refused(path))?.change));
            close(&runtime, &journal, path)
        }
        args::Contract::Rollback(_) => {
            let journal = open(path)?;
            let rollback = runtime.block_on(async {
                let rollback = Rollback::examine(&journal).await?;
                rollback.apply(&journal).await?;
                Ok(rollback)
            });
            say_rolled_back(&rollback.map_err(refused(path))?);
            close(&runtime, &journal, path)
        }
    }
}

/// The journal in a directory that is there: a missing one is no place to look for entities.
fn open(path: &Path) -> Result<Embedded, Failure> {
    std::fs::metadata(path).map_err(|source| Failure::Unreadable { path: path.to_owned(), source })?;
    Embedded::open(path, Options::default()).map_err(|source| Failure::Data { path: path.to_owned(), source })
}

fn close(runtime: &tokio::runtime::Runtime, journal: &Embedded, path: &Path) -> Result<(), Failure> {
    runtime.block_on(journal.close()).map_err(|source| Failure::Close { path: path.to_owned(), source })
}

fn refused(path: &Path) -> impl Fn(ContractError) -> Failure + use<'_> {
    |source| Failure::Contract { place: path.display().to_string(), source }
}

fn in_words(change: &Change) -> String {
    match change {
        Change::First => "there are no entities: this would be their first specification".to_owned(),
        Change::None => "nothing changes: this is the specification of the entities".to_owned(),
        Change::Additions => "the version stays; classes are added, and every entity is what it was".to_owned(),
        Change::Compatible { entities, .. } => {
            format!(
                "the version stays; entities: {entities}, of which none changes but for new fields with their defaults"
            )
        }
        Change::Version(plan) => format!("{plan}\n`enact serve --adopt` would adopt it"),
    }
}

fn say_rolled_back(Rollback { left, version, .. }: &Rollback) {
    println!("version {left} is taken back; the specification is version {version} again");
}
