//! The same for entities in tables of PostgreSQL.

use std::sync::Arc;

use enact_journal::postgres::{OpenError, Postgres};

use super::{in_words, say_rolled_back};
use crate::contract::{self, ContractError, Rollback, Undecided};
use crate::failure::Failure;
use crate::{args, spec};

pub(super) async fn run(args: &args::Contract) -> Result<(), Failure> {
    let entities = args.entities();
    let options = entities.security.database(entities.database().unwrap_or_default(), entities.shard);
    let place = options.to_string();
    let unopened = |source: OpenError| Failure::Postgres { place: place.clone(), source };
    let refused = |source: ContractError| Failure::Contract { place: place.clone(), source };
    match args {
        args::Contract::Check(check) => {
            let sources = spec::read(&check.spec.files)?;
            let spec = Arc::new(spec::check(sources.clone())?);
            let journal = Postgres::look(options).await.map_err(unopened)?;
            let examined = contract::examine(&journal, &sources, &spec, Undecided::PassedOver).await;
            println!("{}", in_words(&examined.map_err(refused)?.change));
        }
        args::Contract::Rollback(_) => {
            let journal = Postgres::open(options).await.map_err(unopened)?;
            let rollback = Rollback::examine(&journal).await.map_err(refused)?;
            rollback.apply(&journal).await.map_err(refused)?;
            say_rolled_back(&rollback);
        }
    }
    Ok(())
}
