//! The same for entities in streams of NATS.

use std::sync::Arc;

use enact_journal::nats::{Nats, OpenError, Options};

use super::{in_words, say_rolled_back};
use crate::contract::{self, ContractError, Rollback, Undecided};
use crate::failure::Failure;
use crate::{args, spec};

pub(super) async fn run(args: &args::Contract) -> Result<(), Failure> {
    let entities = args.entities();
    let (servers, shard) = (entities.security.servers(entities.journal.as_deref().unwrap_or_default()), entities.shard);
    let place = format!("{servers} (shard {shard})");
    let options = Options { shard, ..Options::at(servers) };
    let unopened = |source: OpenError| Failure::Nats { place: place.clone(), source };
    let refused = |source: ContractError| Failure::Contract { place: place.clone(), source };
    match args {
        args::Contract::Check(check) => {
            let sources = spec::read(&check.spec.files)?;
            let spec = Arc::new(spec::check(sources.clone())?);
            let journal = Nats::look(options).await.map_err(unopened)?;
            let examined = contract::examine(&journal, &sources, &spec, Undecided::PassedOver).await;
            println!("{}", in_words(&examined.map_err(refused)?.change));
        }
        args::Contract::Rollback(_) => {
            let journal = Nats::open(options).await.map_err(unopened)?;
            let rollback = Rollback::examine(&journal).await.map_err(refused)?;
            rollback.apply(&journal).await.map_err(refused)?;
            say_rolled_back(&rollback);
        }
    }
    Ok(())
}
