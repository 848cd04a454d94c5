//! Taking the last version of the specification back.

use std::sync::Arc;

use enact_entities::{EntityKey, Model as _};
use enact_journal::{Journal, Seq};
use enact_rebel::Source;

use super::{
    ContractError, History, PAGE, Undecided, entities, is_internal, note_timers, record_sources, records, recover,
    version_of,
};

/// The version before the last one, which may be the contract again: nothing has happened under the last.
pub(crate) struct Rollback {
    /// The version that is taken back.
    pub(crate) left: u32,
    /// The version before it.
    pub(crate) version: u32,
    /// Its sources.
    pub(crate) sources: Vec<Source>,
    /// Entities that have a timer under it.
    timed: Vec<EntityKey>,
    /// Of the last record of the contract.
    seq: Seq,
}

impl Rollback {
    /// Finds out whether the last version that the journal holds can be taken back. Writes nothing.
    ///
    /// # Errors
    /// When there is no version before it, or something has happened under it.
    pub(crate) async fn examine<J: Journal>(journal: &J) -> Result<Self, ContractError> {
        let history = History::read(journal).await?.ok_or(ContractError::NoEarlier { version: None })?;
        let [.., before, last] = &history.adopted[..] else {
            return Err(ContractError::NoEarlier { version: Some(history.last().version) });
        };
        let mut position = last.position;
        loop {
            let page = journal.feed(position, PAGE).await?;
            let Some(end) = page.last() else { break };
            position = end.position;
            for record in page.iter().filter(|record| !is_internal(&record.entity)) {
                if version_of(record)? == Some(last.version) {
                    let (entity, version) = (record.entity.clone(), last.version);
                    return Err(ContractError::Used { entity, seq: record.seq, version });
                }
            }
        }
        let model = Arc::new(history.model_before()?.expect("there is a version before the last"));
        let mut timed = Vec::new();
        for entity in entities(journal).await? {
            let Some((_, records)) = records(journal, &entity, Undecided::Served).await? else { continue };
            let is_known = model.spec().class(entity.class()).is_some();
            if is_known && model.due(&entity, &recover(&entity, &model, records)?.base).is_some() {
                timed.push(entity);
            }
        }
        let (version, sources) = (before.version, before.sources.clone());
        Ok(Self { left: last.version, version, sources, timed, seq: history.seq })
    }

    /// Makes the version before the last one the contract again.
    ///
    /// # Cancel safety
    /// A dropped future has recorded the specification or has not; asking again is safe.
    pub(crate) async fn apply<J: Journal>(&self, journal: &J) -> Result<(), ContractError> {
        // The engine may have forgotten those that the last version has no timer for.
        note_timers(journal, &self.timed).await?;
        record_sources(journal, &self.sources, self.version, self.seq).await?;
        Ok(())
    }
}

/// The last version that the journal holds; nothing if it is empty.
#[cfg(feature = "nats")]
pub(crate) async fn version<J: Journal>(journal: &J) -> Result<Option<u32>, ContractError> {
    Ok(History::read(journal).await?.map(|history| history.last().version))
}
