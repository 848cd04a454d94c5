//! `enact contract`: what becomes of the entities of a data directory when their specification changes.

use std::path::Path;
use std::sync::Arc;

use enact_journal::{Embedded, Journal, Options};

use crate::contract::{self, Change, ContractError};
use crate::failure::Failure;
use crate::{args, spec};

pub(crate) fn run(args: &args::Contract) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Failure::Runtime)?;
    match args {
        args::Contract::Check(check) => {
            let sources = spec::read(&check.spec.files)?;
            let spec = Arc::new(spec::check(sources.clone())?);
            let path = &check.directory.data;
            let journal = open(path)?;
            let examined = runtime.block_on(contract::examine(&journal, &sources, &spec));
            println!("{}", in_words(&examined.map_err(refused(path))?.change));
            close(&runtime, &journal, path)
        }
        args::Contract::Rollback(args::DataDirectory { data: path }) => {
            let journal = open(path)?;
            let (left, version) = runtime.block_on(contract::roll_back(&journal)).map_err(refused(path))?;
            println!("version {left} is taken back; the specification is version {version} again");
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
        Change::First => "the directory holds no entities: this would be its first specification".to_owned(),
        Change::None => "nothing changes: this is the specification of the entities".to_owned(),
        Change::Compatible { entities, .. } => {
            format!(
                "the version stays; entities: {entities}, of which none changes but for new fields with their defaults"
            )
        }
        Change::Version(plan) => format!("{plan}\n`enact serve --adopt` would adopt it"),
    }
}
